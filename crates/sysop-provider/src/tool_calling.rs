//! Ways in which a model can be given its tools, the choice between them, and what is remembered about a model.
//!
//! The questions that lead to a choice are in `model_probe`. This module does no I/O.

use serde::{Deserialize, Serialize};
use sysop_core::message::ModelRef;

use crate::api::{FORMAT, ModelQuirks, RESPONSE_FORMAT};

/// Number of questions for each way to call tools.
pub(crate) const QUESTIONS: u8 = 4;
/// Number of questions about the form in which a model writes calls.
const FORM_QUESTIONS: u8 = 2;
/// Minimum number of right answers with a schema; below it, the model gets plain text if that works better.
const CONSTRAINED_MIN: u8 = 3;

/// Way in which a model is given its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolCalling {
    /// The API's own tool calls.
    Native,
    /// Calls as JSON text, with replies constrained to a schema by the server.
    Constrained,
    /// Calls as text, found by a parser.
    Text,
}

impl ToolCalling {
    /// Returns the words for users.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native tools",
            Self::Constrained => "JSON constrained by a schema",
            Self::Text => "plain text",
        }
    }

    pub(crate) fn apply(self, quirks: &mut ModelQuirks) {
        quirks.native_tools = self == Self::Native;
        quirks.text_protocol = self != Self::Native;
        for name in [RESPONSE_FORMAT, FORMAT] {
            quirks.unsupported_params.retain(|refused| *refused != name);
            if self == Self::Text {
                quirks.unsupported_params.push(name);
            }
        }
    }
}

/// Form in which a model writes a call as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallForm {
    /// A JSON object alone.
    Json,
    /// A JSON object or a command in a fenced block.
    Fenced,
    /// JSON between marks of its own, such as `<tool_call>`.
    Marked,
    /// A call in Python's syntax, such as `[bash(command="ls")]`.
    Pythonic,
    Prose,
}

impl CallForm {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Fenced => "a fenced block",
            Self::Marked => "marks like <tool_call>",
            Self::Pythonic => "Python syntax",
            Self::Prose => "prose",
        }
    }

    /// Returns the form of a reply that is to be a call.
    pub(crate) fn of(text: &str) -> Self {
        let text = text.trim_start();
        let name_end = text.trim_start_matches('[').find('(');
        let is_name = |name: &str| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(&byte))
        };
        if text.contains("```") {
            Self::Fenced
        } else if ["<tool_call", "<function", "<|tool_call", "[TOOL_CALLS]", "<tools>", "functools"]
            .iter()
            .any(|mark| text.contains(mark))
        {
            Self::Marked
        } else if name_end.is_some_and(|end| is_name(&text.trim_start_matches('[')[..end])) {
            Self::Pythonic
        } else if text.starts_with(['{', '[']) {
            Self::Json
        } else {
            Self::Prose
        }
    }
}

/// Result of the questions to a model, as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallingReport {
    pub calling: ToolCalling,
    /// Form of the calls that the model wrote as text; `None` if that was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<CallForm>,
    /// Right answers with native tools, of four.
    pub native: u8,
    /// Right answers with a schema, of four; `None` if that was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constrained: Option<u8>,
    /// Right answers in plain text, of two; `None` if that was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<u8>,
    /// Name and version of the server.
    pub server: String,
}

impl std::fmt::Display for ToolCallingReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (native {} of {QUESTIONS}", self.calling.as_str(), self.native)?;
        if let Some(constrained) = self.constrained {
            write!(f, ", schema {constrained} of {QUESTIONS}")?;
        }
        if let Some(text) = self.text {
            write!(f, ", text {text} of {FORM_QUESTIONS}")?;
        }
        f.write_str(")")?;
        match self.form {
            Some(form) => write!(f, "; writes calls as {}", form.as_str()),
            None => Ok(()),
        }
    }
}

/// Store of reports. The binary implements it with a file.
pub trait ToolCallingStore: Send + Sync {
    /// Returns the report on a model of a server at this address and in this version.
    fn load(&self, model: &ModelRef, address: &str, server: &str) -> Option<ToolCallingReport>;

    fn save(&self, model: &ModelRef, address: &str, report: &ToolCallingReport);
}

impl std::fmt::Debug for dyn ToolCallingStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ToolCallingStore")
    }
}

/// Chooses the best way from the numbers of right answers. Native tools must be faultless, because their faults show
/// only in the middle of a task.
pub(crate) fn choose(native: u8, constrained: u8, text: u8) -> ToolCalling {
    if native == QUESTIONS {
        ToolCalling::Native
    } else if constrained >= native.max(CONSTRAINED_MIN) {
        ToolCalling::Constrained
    } else if native == 0 && text > 0 {
        ToolCalling::Text
    } else {
        ToolCalling::Native
    }
}

#[cfg(test)]
mod tests {
    use super::{CallForm, ToolCalling, choose};

    #[test]
    fn only_faultless_native_tools_win_over_a_schema() {
        for (native, constrained, text, chosen) in [
            (4, 4, 2, ToolCalling::Native),
            (3, 4, 2, ToolCalling::Constrained),
            (3, 3, 0, ToolCalling::Constrained),
            (3, 2, 2, ToolCalling::Native),
            (0, 2, 2, ToolCalling::Text),
            (0, 1, 2, ToolCalling::Text),
            (1, 0, 2, ToolCalling::Native),
            (0, 0, 0, ToolCalling::Native),
        ] {
            assert_eq!(choose(native, constrained, text), chosen, "{native} {constrained} {text}");
        }
    }

    #[test]
    fn forms_of_written_calls_are_recognized() {
        for (text, form) in [
            (r#"{"type":"shell","command":"df"}"#, CallForm::Json),
            ("```sh\ndf\n```", CallForm::Fenced),
            ("Sure:\n```json\n{\"name\":\"bash\"}\n```", CallForm::Fenced),
            ("<tool_call>{}</tool_call>", CallForm::Marked),
            ("[TOOL_CALLS][{}]", CallForm::Marked),
            (r#"[bash(command="df")]"#, CallForm::Pythonic),
            (r#"bash(command="df")"#, CallForm::Pythonic),
            ("The disk (all of it) is full.", CallForm::Prose),
            ("", CallForm::Prose),
        ] {
            assert_eq!(CallForm::of(text), form, "{text}");
        }
    }
}
