//! Marks: escape sequences by which a prepared shell reports the end of a command, its exit code, and its prompt.
//!
//! Each mark carries a random key, so that no program forges one. Marks are removed before the stream is shown.

use super::sequences::string_body;

/// OSC (operating system command) number of our marks; no other program is known to use it.
const MARK: &[u8] = b"7717;";

/// A message from the shell to the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ShellMark {
    /// A command begins to run.
    CommandStarted(String),
    /// A command ended. The nonce is empty for a command typed by a person. `count` is set if the shell counts its
    /// prompts. A prompt that is only redrawn repeats the count of the previous one.
    CommandEnded { nonce: String, code: i32, count: Option<u64> },
    /// The prompt is drawn and the shell reads input.
    PromptReady,
    /// Working directory of the shell with links resolved, and its home directory (`~`). Sent right before the prompt.
    Place { folder: String, home: String },
    /// Program, terminal device, machine and process id of the shell.
    Identified { program: String, tty: String, machine: String, pid: Option<u32> },
    /// A program asks for a password; its prompt follows.
    SecretRequested,
}

/// Parses a mark into the shell's key and the message. Returns `None` if the sequence is not a valid mark.
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
        "P" => return parse_place(text, key),
        "K" => ShellMark::Identified {
            program: parts.next()?.to_owned(),
            tty: parts.next()?.to_owned(),
            machine: parts.next()?.to_owned(),
            pid: parts.next().and_then(|pid| pid.parse().ok()),
        },
        "S" => ShellMark::SecretRequested,
        _ => return None,
    };
    Some((key, mark))
}

/// Parses `KEY;P;FOLDER;KEY;HOME;KEY`. A directory name may contain any character. If the name ends the sequence early
/// or contains a fake end, the final key is missing and the mark is rejected.
fn parse_place(text: &str, key: String) -> Option<(String, ShellMark)> {
    let body = text.strip_prefix(&key)?.strip_prefix(";P;")?.strip_suffix(&key)?.strip_suffix(';')?;
    let (folder, home) = body.split_once(&format!(";{key};"))?;
    let plain = |path: &str| !path.contains(char::is_control);
    let place = ShellMark::Place { folder: folder.to_owned(), home: home.to_owned() };
    (folder.starts_with('/') && plain(folder) && plain(home)).then_some((key, place))
}

/// Returns true for marks with any key, including forged marks.
pub(super) fn is_mark(sequence: &[u8]) -> bool {
    string_body(sequence).starts_with(MARK)
}
