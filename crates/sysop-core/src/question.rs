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
    /// Id of the question.
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

/// Kind of answer that a question expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// A secret text: typed without echo, never logged.
    Secret,
    /// A visible text: the name of a one-time code, `yes` or a fingerprint.
    Text,
    /// Possibly a prompt for a secret: the terminal cannot tell, and the user decides.
    PerhapsSecret,
}
