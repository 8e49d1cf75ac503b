//! Tools as a model sees them: name, description, JSON Schema, and the class of effect of a call.
//!
//! Hosts decide which tools exist and how they run. The module `catalog` lists sysop's own tools.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::catalog;

/// Tool whose commands run in the shell of the session's terminal, which users share.
pub const RUN_COMMAND: &str = "run_command";
/// Tools that act in the session's terminal.
pub const TERMINAL_TOOLS: [&str; 2] = [RUN_COMMAND, "send_keys"];

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Name of the form `[A-Za-z0-9_-]{1,64}`, which every provider accepts.
    pub name: String,
    /// Shared between sessions, as the schema is.
    pub description: Arc<str>,
    /// JSON Schema of the arguments, always of type `object`.
    ///
    /// The schema is shared between sessions, because thousands of them may have the same tools.
    #[serde(deserialize_with = "intern_schema")]
    pub parameters: Arc<Value>,
    #[serde(default)]
    pub effect: ToolEffect,
}

fn intern_schema<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Value>, D::Error> {
    Value::deserialize(deserializer).map(catalog::intern_schema)
}

/// Name of the machine on which client tools run, as shown to users and models. No host has it.
pub const CLIENT_MACHINE: &str = "the client";

/// Tools that a client provides and that run on the client's machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientTools {
    /// The tools. They replace tools of the session's host with the same names.
    pub tools: Vec<ToolSpec>,
    /// Root of the file tools on the client, as shown to users and the model.
    pub root: String,
}

impl ClientTools {
    pub fn named(&self, name: &str) -> Option<&ToolSpec> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

/// Class of effect of a tool's calls; the basis of the policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolEffect {
    /// Read-only, inside the root.
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
    /// Reads or changes only the session itself, which answers the call; nothing runs.
    Session,
    /// Runs on an MCP server, which alone knows the effect.
    External,
    /// Runs on an MCP server that declares the tool read-only. The user's config trusts this declaration.
    ExternalReads,
}

impl ToolEffect {
    pub fn is_external(self) -> bool {
        matches!(self, Self::External | Self::ExternalReads)
    }

    /// Returns the name of the argument with the shell command or the keys; `None` if a call has neither.
    pub fn command_argument(self) -> Option<&'static str> {
        match self {
            Self::Command => Some("command"),
            Self::Keys => Some("keys"),
            Self::Reads
            | Self::Writes
            | Self::Completes
            | Self::Session
            | Self::External
            | Self::ExternalReads => None,
        }
    }
}
