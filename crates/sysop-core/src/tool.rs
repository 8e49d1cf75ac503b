//! Tools as a model sees them: name, purpose, JSON Schema, and what class of effect a call has.
//!
//! Which tools exist and how they run is the host's business; the catalog of our own is in `catalog`.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::catalog;

/// One tool on offer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// `[A-Za-z0-9_-]{1,64}`: what every provider accepts.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its arguments; always of type `object`.
    ///
    /// Shared by all who have the tool: thousands of sessions may have the same ones.
    #[serde(deserialize_with = "intern_schema")]
    pub parameters: Arc<Value>,
    /// What a call may do.
    #[serde(default)]
    pub effect: ToolEffect,
}

fn intern_schema<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Value>, D::Error> {
    Value::deserialize(deserializer).map(catalog::intern_schema)
}

/// Tools that a client lends to a session: they run on its machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientTools {
    /// The tools; those of the session's own host with the same names are not used while these are there.
    pub tools: Vec<ToolSpec>,
    /// The root of its file tools, on the client. For people and the model.
    pub root: String,
}

impl ClientTools {
    /// The tool of this name, if it is lent.
    pub fn named(&self, name: &str) -> Option<&ToolSpec> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

/// Effects that a call of a tool may have; the policy uses them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolEffect {
    /// Reads inside the root.
    Reads,
    /// Changes files or a repository inside the root.
    #[default]
    Writes,
    /// Runs the shell command in its `command` argument.
    Command,
    /// Types the keys in its `keys` argument into the session's terminal.
    Keys,
    /// Ends the turn with its `summary` argument; nothing runs.
    Completes,
}
