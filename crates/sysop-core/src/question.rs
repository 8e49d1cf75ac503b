//! Questions that a running program asks a user: a password, a passphrase, the confirmation of a host key.
//!
//! A question lives as long as the program that asks. Questions are not logged, and answers never pass through the
//! core.

use serde::{Deserialize, Serialize};

use crate::id::CallId;

/// Identifies a question for the lifetime of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct QuestionId(pub u64);

impl QuestionId {
    /// Base of the ids of the questions that a client of a server asks by itself, which are larger. Servers count their
    /// questions from 1 and never reach it.
    pub const OF_CLIENT_FROM: u64 = 1 << 52;

    /// Returns true for a question of the client's own machine, whose answer does not go to the server.
    pub fn is_of_client(self) -> bool {
        self.0 >= Self::OF_CLIENT_FROM
    }
}

/// A question that a program asks a user. Its strings come from programs and remote machines; front ends neutralize
/// them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// Number of the question, unique within the session.
    pub id: QuestionId,
    pub kind: QuestionKind,
    /// Program that asks, for users: `sudo on web1`, `ssh web1`.
    pub from: String,
    /// Observations of the host about the program, one sentence each: its path, its parent, a warning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
    /// The program's prompt, verbatim.
    pub prompt: String,
    /// The call that waits for the answer, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
}

/// Kind of answer that a question expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// A secret: typed without echo, never logged.
    Secret,
    /// Visible text, such as `yes`, a user name or the fingerprint of a host key.
    Text,
    /// Probably a secret, but the terminal cannot tell; the user decides.
    PerhapsSecret,
}
