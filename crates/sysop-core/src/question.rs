//! What a running program asks of a person: a password, a passphrase, whether a host key is right.
//!
//! Questions live as long as the program that asks. They are not logged, and an answer never passes the core.

use serde::{Deserialize, Serialize};

use crate::id::CallId;

/// Names a question for as long as the process lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct QuestionId(pub u64);

/// What is asked. Its texts come from programs and remote machines: a front end neutralizes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// Which question.
    pub id: QuestionId,
    /// What kind of answer is wanted.
    pub kind: QuestionKind,
    /// Who asks, for people: `sudo on web1`, `ssh web1`.
    pub from: String,
    /// What the host observed of who asks, a sentence each: its program, who started it, a warning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
    /// The prompt as the program wrote it.
    pub prompt: String,
    /// The call that waits for the answer, where one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
}

/// What kind of answer a question wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// A text that nobody may see: typed without an echo, never logged.
    Secret,
    /// A text that may be seen: a one-time code's name, `yes` or a fingerprint.
    Text,
    /// It looks like a prompt for a secret, but the terminal cannot tell: the person decides whether it is one.
    PerhapsSecret,
}
