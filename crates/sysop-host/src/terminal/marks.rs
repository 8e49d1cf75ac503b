//! Marks: escape sequences by which a prepared shell tells the end of a command, its exit code, and its prompt.
//!
//! A mark carries a random key, so that a program cannot imitate one. Marks are taken out of the stream before anybody sees it.

use super::sequences::string_body;

/// The number of our marks among the operating system commands of terminals; nobody else's so far.
const MARK: &[u8] = b"7717;";

/// A message of the shell to the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ShellMark {
    /// A command begins to run.
    CommandStarted(String),
    /// A command ended; the nonce is empty where a person typed it.
    /// A prompt that is only drawn again has the count of the one before, where there is one.
    CommandEnded { nonce: String, code: i32, count: Option<u64> },
    /// The prompt is there; the shell reads.
    PromptReady,
    /// Which program the shell is, which terminal it has, and on which machine.
    Identified { program: String, tty: String, machine: String },
    /// A program asks for a password: what follows is its prompt.
    SecretRequested,
}

/// Parses a mark: the shell's key and the message, or `None` if the sequence is not a mark of ours.
pub(super) fn parse(sequence: &[u8]) -> Option<(String, ShellMark)> {
    let text = std::str::from_utf8(string_body(sequence).strip_prefix(MARK)?).ok()?;
    let mut parts = text.split(';');
    let key = parts.next()?.to_owned();
    let mark = match parts.next()? {
        "C" => ShellMark::CommandStarted(parts.next()?.to_owned()),
        "D" => ShellMark::CommandEnded {
            nonce: parts.next()?.to_owned(),
            code: parts.next()?.parse().ok()?,
            count: parts.next().and_then(|count| count.parse().ok()),
        },
        "B" => ShellMark::PromptReady,
        "K" => ShellMark::Identified {
            program: parts.next()?.to_owned(),
            tty: parts.next()?.to_owned(),
            machine: parts.next()?.to_owned(),
        },
        "S" => ShellMark::SecretRequested,
        _ => return None,
    };
    Some((key, mark))
}

/// Returns true if the sequence is a mark, ours or an imitation.
pub(super) fn is_mark(sequence: &[u8]) -> bool {
    string_body(sequence).starts_with(MARK)
}
