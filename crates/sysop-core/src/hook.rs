//! Questions to the user's hooks about a call, and their answers. A hook may deny or ask; no answer allows a call.

use serde::{Deserialize, Serialize};

use crate::event::Origin;
use crate::message::ToolCall;
use crate::policy::{ApprovalMode, Risk, Verdict};

/// A call that the policy has assessed and that has not started.
#[derive(Debug, Clone, PartialEq)]
pub struct HookQuestion {
    /// The call, exactly as it would run.
    pub call: ToolCall,
    /// The command, or a short form of the call.
    pub command: String,
    /// The model's reason; may be empty.
    pub reason: String,
    pub risk: Risk,
    pub mode: ApprovalMode,
    pub origin: Origin,
    /// Verdict of the policy, without the hooks.
    pub verdict: Verdict,
}

/// Combined answer of all hooks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookAnswer {
    /// No hook objects; the policy decides.
    #[default]
    Pass,
    /// A user must allow the call, whatever the mode.
    Ask { reason: String },
    /// The call does not run.
    Deny { reason: String },
}

impl HookAnswer {
    /// Returns the stricter of two answers; the first if both are equally strict.
    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        let rank = |answer: &Self| match answer {
            Self::Pass => 0,
            Self::Ask { .. } => 1,
            Self::Deny { .. } => 2,
        };
        if rank(&other) > rank(&self) { other } else { self }
    }
}
