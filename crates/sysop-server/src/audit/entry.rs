//! A line of the audit log, and the chaining of lines.

use serde::{Deserialize, Serialize};
use sysop_core::id::Timestamp;

pub(super) const NO_HASH: [u8; 32] = [0; 32];
/// Separator between the body of a line and its hash.
const HASH_KEY: &str = r#","hash":""#;
const HASH_END: &str = r#""}"#;
pub(super) const LINE_BYTES_MAX: usize = 64 * 1024;

/// Kind of event that a line records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// An audit file was started.
    Opened,
    /// An incomplete line left by a crash was removed.
    #[serde(alias = "mended")]
    Repaired,
    /// A user answered an approval request.
    Decided,
    /// A decision was refused: one of the session's commands may have created the deciding user's token.
    Refused,
    Started,
    /// A call finished, or was refused.
    Finished,
    Typed,
    Deleted,
    /// The event with this session and `seq` was not stored, so the action that its line reports did not happen.
    Void,
}

/// A line without its number and hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Time in RFC 3339 format.
    pub at: String,
    pub kind: Kind,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub session: String,
    /// Number of the event in the session's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Decider: a user, or `policy` if nobody was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// Name of the token on whose behalf the turn runs.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub wished: Option<String>,
    /// Host and root, as in `local:/srv`.
    #[serde(default, rename = "where", skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Command line of a shell tool or path of a file tool, redacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    /// BLAKE3 hash of the arguments as JSON, or of the typed bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// The decision, or the status of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Exit code, if a command exited by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Duration of the call, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Final hash of the previous file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
}

impl AuditEntry {
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

/// End of the chain that was written or verified so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChainLink {
    pub(super) n: u64,
    pub(super) hash: [u8; 32],
}

impl ChainLink {
    /// Start of the chain, before any line.
    pub(super) const START: Self = Self { n: 0, hash: NO_HASH };

    /// Appends an entry to the chain; returns its line, including the newline.
    pub(super) fn add(&mut self, entry: &AuditEntry) -> String {
        let numbered = NumberedEntry { n: self.n + 1, entry };
        let mut line = serde_json::to_string(&numbered).expect("strings and numbers can be serialized");
        let next = self.hash_of(&line);
        line.pop(); // the closing brace
        line.push_str(HASH_KEY);
        line.push_str(&hex(&next));
        line.push_str(HASH_END);
        line.push('\n');
        *self = Self { n: numbered.n, hash: next };
        line
    }

    /// Returns the hash of the chain's next line, if its body is `body`.
    pub(super) fn hash_of(&self, body: &str) -> [u8; 32] {
        *blake3::Hasher::new().update(&self.hash).update(body.as_bytes()).finalize().as_bytes()
    }
}

#[derive(Debug)]
pub(super) struct AuditLine {
    pub(super) n: u64,
    pub(super) entry: AuditEntry,
    /// The part of the line that is hashed.
    pub(super) body: String,
    pub(super) hash: [u8; 32],
}

impl AuditLine {
    /// Parses a line without its newline; `None` if it is not an audit line.
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

pub(super) fn hex(hash: &[u8; 32]) -> String {
    blake3::Hash::from_bytes(*hash).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::{AuditLine, ChainLink, HASH_END, HASH_KEY, Kind, hex};

    #[test]
    fn a_line_of_an_earlier_version_about_a_repair_is_read() {
        let body = r#"{"n":1,"at":"2026-11-29T22:35:45Z","kind":"mended"}"#;
        let hash = ChainLink::START.hash_of(body);
        let line = format!("{}{HASH_KEY}{}{HASH_END}", body.trim_end_matches('}'), hex(&hash));
        let read = AuditLine::parse(&line).expect("an audit line");
        assert_eq!((read.entry.kind, read.body.as_str(), read.hash), (Kind::Repaired, body, hash));
    }
}
