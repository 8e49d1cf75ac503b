//! The lock-out guard: a risky change on a host is rolled back unless it is confirmed in time.

use serde::{Deserialize, Serialize};

use crate::id::CallId;

/// The most armed guards of one session that are remembered; the oldest are forgotten first.
pub const GUARDS_MAX: usize = 64;

/// The time that a guarded command leaves for its confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GuardTimeout {
    /// Seconds until the change is rolled back.
    pub seconds: u32,
}

/// A guard that is armed on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArmedGuard {
    /// The guarded call.
    pub call: CallId,
    /// The host.
    pub host: String,
    /// Seconds from arming to rollback.
    pub seconds: u32,
}

/// The end of a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GuardEnd {
    /// The change was confirmed and stays.
    Confirmed,
    /// The change was rolled back.
    Fired,
    /// The host could not be asked.
    Unknown,
}
