//! The settings of one session: model, prompt, tools, approval and limits. Logged with its first event.

use serde::{Deserialize, Serialize};

use crate::message::ModelRef;
use crate::policy::{self, ApprovalMode, PolicyOptions};
use crate::tool::ToolSpec;

/// How a session works; logged as its first event, so that a replay needs nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionSpec {
    /// The model to ask.
    pub model: ModelRef,
    /// The system prompt.
    pub system: String,
    /// The tools on offer.
    pub tools: Vec<ToolSpec>,
    /// Approval mode.
    #[serde(with = "policy::logged_mode")]
    pub approve: ApprovalMode,
    /// Regular expressions of dangerous commands.
    pub dangerous_patterns: Vec<String>,
    /// Regular expressions of commands that never run.
    #[serde(default)]
    pub deny: Vec<String>,
    /// The rest of the policy.
    #[serde(default, skip_serializing_if = "PolicyOptions::is_default")]
    pub policy: PolicyOptions,
    /// Maximum number of model calls per turn.
    pub max_iterations: u32,
    /// How many of the newest messages are sent.
    pub max_history_messages: usize,
    /// The most tokens of one reply, where the config says so.
    #[serde(default)]
    pub max_output_tokens: Option<u32>,
    /// The sampling temperature, where the config says one; in every mode.
    #[serde(default)]
    pub temperature: Option<f32>,
    /// Where its tools run: `local` or an ssh destination. For people.
    pub host: String,
    /// The root of its file tools on that host. For people.
    pub root: String,
    /// The name of its tool profile. For people.
    pub profile: String,
}
