//! Lockout guard: a risky change on a host is rolled back unless it is confirmed in time.

use serde::{Deserialize, Serialize};

use crate::id::CallId;

/// Maximum armed guards remembered per session; the oldest are dropped first.
pub const GUARDS_MAX: usize = 64;

/// Time to confirm a guarded command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GuardTimeout {
    /// Seconds until the change is rolled back.
    pub seconds: u32,
}

/// A guard that waits on a host for the confirmation of a risky change.
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
    /// The host was unreachable.
    Unknown,
}
