//! Lockout guard: a risky change on a host is rolled back unless it is confirmed in time.

mod plan;

use serde::{Deserialize, Serialize};

pub use self::plan::{Area, GuardPlan, plan};

use crate::id::CallId;
use crate::message::{Arguments, ToolCall};

/// Argument of a command by which a runbook requests a guard. No tool offers it to models.
pub const GUARD_ARGUMENT: &str = "guard";

/// Maximum number of armed guards remembered per session; the oldest are dropped first.
pub const GUARDS_MAX: usize = 64;

/// Time in which a guarded change must be confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GuardTimeout {
    /// Seconds until the change is rolled back.
    pub seconds: u32,
}

impl GuardTimeout {
    /// Returns the time until the rollback for a call. It is `configured` seconds, but at least the call's own timeout
    /// plus half of `configured`. That half is reserved for checking the logins after the command.
    pub fn for_call(configured: u32, call_timeout_s: Option<u64>) -> Self {
        let call = call_timeout_s.map_or(0, |seconds| u32::try_from(seconds).unwrap_or(u32::MAX));
        let seconds =
            if call == 0 { configured } else { configured.max(call.saturating_add(configured / 2)) };
        Self { seconds }
    }

    /// Returns the number of seconds for which the command itself may run, at least 1.
    pub fn command_seconds(self, configured: u32) -> u64 {
        u64::from(self.seconds.saturating_sub(configured / 2).max(1))
    }
}

/// Guard that a call requests. If the host cannot arm the guard, the call does not run, even if its command looks
/// harmless.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardRequest {
    /// A guard for the areas and files that the command affects.
    OfCommand,
    /// A guard for this area, and for the areas and files that the command affects.
    OfArea(Area),
}

impl GuardRequest {
    /// Parses the value of [`GUARD_ARGUMENT`]: `true`, or the name of an area.
    pub fn from_value(value: &serde_json::Value) -> Option<Self> {
        match value.as_str() {
            Some(name) => Area::from_name(name).map(Self::OfArea),
            None => (value.as_bool() == Some(true)).then_some(Self::OfCommand),
        }
    }

    pub fn to_value(self) -> serde_json::Value {
        match self {
            Self::OfCommand => true.into(),
            Self::OfArea(area) => area.as_str().into(),
        }
    }

    /// Returns the request of a call. An unknown value counts as a request, because it cannot be ignored.
    pub fn of(call: &ToolCall) -> Option<Self> {
        let Arguments::Object(arguments) = &call.arguments else { return None };
        let value =
            arguments.get(GUARD_ARGUMENT).filter(|value| **value != serde_json::Value::Bool(false))?;
        Some(Self::from_value(value).unwrap_or(Self::OfCommand))
    }
}

/// Report from a host about the guard of a running call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GuardReport {
    Armed { seconds: u32 },
    Ended { how: GuardEnd },
}

/// A guard that is armed on a host until a risky change is confirmed or rolled back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArmedGuard {
    /// The call that makes the risky change.
    pub call: CallId,
    pub host: String,
    /// Seconds from arming to rollback.
    pub seconds: u32,
}

/// Final state of a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GuardEnd {
    /// The change was confirmed and stays.
    Confirmed,
    /// The change was rolled back.
    Fired,
    /// The host was unreachable, so it is unknown if the change stays.
    Unknown,
}
