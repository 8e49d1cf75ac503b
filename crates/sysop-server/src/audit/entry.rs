//! One line of the audit, and how lines are chained.

use serde::{Deserialize, Serialize};
use sysop_core::id::Timestamp;

/// What every chain begins with.
pub(super) const NO_HASH: [u8; 32] = [0; 32];
/// What stands between the body of a line and its hash.
const HASH_KEY: &str = r#","hash":""#;
/// What follows the hash.
const HASH_END: &str = r#""}"#;
/// The longest line, in bytes.
pub(super) const LINE_BYTES_MAX: usize = 64 * 1024;

/// What a line tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A file begins.
    Opened,
    /// What a crash had left of a line was taken away.
    Mended,
    /// A person answered an approval.
    Decided,
    /// Somebody tried to decide by a token that a command of a session may have made.
    Refused,
    /// A call began.
    Started,
    /// A call ended, or was refused.
    Finished,
    /// A person typed into the terminal.
    Typed,
    /// A session was deleted.
    Deleted,
    /// What the line with this session and `seq` tells of was not stored, and did not happen.
    Void,
}

/// One line, without its place in the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// When, in RFC 3339.
    pub at: String,
    /// What it tells of.
    pub kind: Kind,
    /// The session.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub session: String,
    /// The event in the session's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Who let it happen: a person, or `policy` where nobody was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// For whom: the name of the token whose wish the turn is.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub wished: Option<String>,
    /// The host and the root, as in `local:/srv`.
    #[serde(default, rename = "where", skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The command line of a shell tool, or the path of a file tool, after redaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    /// BLAKE3 of the arguments as JSON, or of what was typed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// The decision, or how the call ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The exit code, where a command ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// How long it took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The trace that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The hash that the file before this one ended with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
}

impl AuditEntry {
    /// A line that says only when and what.
    pub fn new(kind: Kind, at: Timestamp) -> Self {
        Self {
            at: jiff::Timestamp::from_millisecond(at.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string(),
            kind,
            session: String::new(),
            seq: None,
            call: None,
            who: None,
            wished: None,
            place: None,
            tool: None,
            what: None,
            arguments: None,
            outcome: None,
            exit_code: None,
            duration_ms: None,
            trace: None,
            previous: None,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct NumberedEntry<E> {
    n: u64,
    #[serde(flatten)]
    entry: E,
}

/// Where a chain has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChainLink {
    /// The number of the last line.
    pub(super) n: u64,
    /// Its hash.
    pub(super) hash: [u8; 32],
}

impl ChainLink {
    /// Before the first line.
    pub(super) const START: Self = Self { n: 0, hash: NO_HASH };

    /// Chains an entry; returns its line, with its end.
    pub(super) fn add(&mut self, entry: &AuditEntry) -> String {
        let numbered = NumberedEntry { n: self.n + 1, entry };
        let mut line = serde_json::to_string(&numbered).expect("texts and numbers are JSON");
        let next = self.hash_of(&line);
        line.pop(); // the brace
        line.push_str(HASH_KEY);
        line.push_str(&hex(&next));
        line.push_str(HASH_END);
        line.push('\n');
        *self = Self { n: numbered.n, hash: next };
        line
    }

    /// The hash of a body that follows.
    pub(super) fn hash_of(&self, body: &str) -> [u8; 32] {
        *blake3::Hasher::new().update(&self.hash).update(body.as_bytes()).finalize().as_bytes()
    }
}

/// A line taken apart.
#[derive(Debug)]
pub(super) struct AuditLine {
    pub(super) n: u64,
    pub(super) entry: AuditEntry,
    /// What was hashed.
    pub(super) body: String,
    pub(super) hash: [u8; 32],
}

impl AuditLine {
    /// Reads a line, without its end; none where it is none of ours.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (body, hash) = line.strip_suffix(HASH_END)?.rsplit_once(HASH_KEY)?;
        let hash = *blake3::Hash::from_hex(hash).ok()?.as_bytes();
        let body = format!("{body}}}");
        let NumberedEntry { n, entry } = serde_json::from_str::<NumberedEntry<AuditEntry>>(&body).ok()?;
        Some(Self { n, entry, body, hash })
    }

    pub(super) fn link(&self) -> ChainLink {
        ChainLink { n: self.n, hash: self.hash }
    }
}

/// A hash as it is written.
pub(super) fn hex(hash: &[u8; 32]) -> String {
    blake3::Hash::from_bytes(*hash).to_hex().to_string()
}
