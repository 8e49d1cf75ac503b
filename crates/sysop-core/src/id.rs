//! Identifiers and points in time, each a newtype, so that they cannot be mixed up.
//!
//! Values come from outside: nothing here reads a clock or draws randomness.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Wraps a string that is known to be a valid id.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// Returns the id as logged and sent.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

text_id! {
    /// Identifies a session for as long as its log exists.
    SessionId
}
text_id! {
    /// Identifies a tool call; unique within a session, whatever id the model sent.
    CallId
}
number_id! {
    /// Position of an event in its session's log, counted from 1; 0 means before the first event.
    Seq(u64)
}
number_id! {
    /// Identifies a background job; unique within a session.
    JobId(u32)
}
number_id! {
    /// Number of a turn, counted from 1 per session.
    TurnId(u32)
}

/// Number of characters of a UUIDv7 that hold its time, in milliseconds.
const TIME_CHARS: usize = 13;

impl SessionId {
    /// Returns the start of the id, which is enough to find the session again. Sessions differ in it unless they
    /// started in the same millisecond.
    pub fn short(&self) -> &str {
        let is_uuid = self.0.len() == 36 && self.0.is_ascii() && self.0.as_bytes()[TIME_CHARS] == b'-';
        if is_uuid { &self.0[..TIME_CHARS] } else { &self.0 }
    }
}

/// Identifies one model call by its turn and step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepId {
    pub turn: TurnId,
    /// Number of the step within the turn, counted from 1.
    pub step: u32,
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.turn, self.step)
    }
}

/// A point in time: milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Timestamp(pub i64);

#[cfg(test)]
mod tests {
    use super::SessionId;

    #[test]
    fn a_session_is_found_by_the_time_in_its_id() {
        assert_eq!(SessionId::new("01a21e2d-5c99-709e-897d-dccdafd2d02a").short(), "01a21e2d-5c99");
        assert_eq!(SessionId::new("s-1").short(), "s-1");
        assert_eq!(SessionId::new("é".repeat(18)).short(), "é".repeat(18));
    }
}
