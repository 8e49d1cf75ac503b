//! Tool calls written as plain text: for models without native tools, and for those that forget that they have them.

use crate::message::ToolResult;
use crate::tool::ToolSpec;

/// What a reply's text holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Parsed {
    /// Text for the person.
    Answer(String),
    /// Tool calls, with the text around them.
    Calls {
        /// What stood before and between the calls, trimmed.
        text: String,
        /// The calls, in order.
        calls: Vec<WrittenCall>,
    },
}

/// A tool call as it was written: no id yet.
#[derive(Debug, Clone, PartialEq)]
pub struct WrittenCall {
    /// Name of one of the offered tools, or as the model wrote it.
    pub name: String,
    /// Its arguments.
    pub arguments: crate::message::Arguments,
}

/// Reads a reply's text; `fences` also takes one fenced `sh` block as a command.
pub fn parse(text: &str, _tools: &[ToolSpec], _fences: bool) -> Parsed {
    Parsed::Answer(text.to_owned())
}

/// What to add to the system prompt so that a model without native tools can call these.
pub fn instructions(_tools: &[ToolSpec]) -> String {
    String::new()
}

/// JSON Schema that constrains a reply to the protocol.
pub fn schema(_tools: &[ToolSpec]) -> serde_json::Value {
    serde_json::Value::Null
}

/// A call as the model would have written it, for the history.
pub fn written(_call: &WrittenCall) -> String {
    String::new()
}

/// Results as a user message, for models that know no tool role.
pub fn results(_results: &[ToolResult]) -> String {
    String::new()
}
