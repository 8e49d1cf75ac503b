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
    /// Where the shell is, right before its prompt: its folder without links, and what `~` stands for.
    Place { folder: String, home: String },
    /// Which program the shell is, which terminal it has, on which machine, and its process there.
    Identified { program: String, tty: String, machine: String, pid: Option<u32> },
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

/// Reads `KEY;P;FOLDER;KEY;HOME;KEY`: a folder may hold any character, and one that ends the sequence too early, or
/// looks like its end, leaves no key behind it.
fn parse_place(text: &str, key: String) -> Option<(String, ShellMark)> {
    let body = text.strip_prefix(&key)?.strip_prefix(";P;")?.strip_suffix(&key)?.strip_suffix(';')?;
    let (folder, home) = body.split_once(&format!(";{key};"))?;
    let plain = |path: &str| !path.contains(char::is_control);
    let place = ShellMark::Place { folder: folder.to_owned(), home: home.to_owned() };
    (folder.starts_with('/') && plain(folder) && plain(home)).then_some((key, place))
}

/// Returns true if the sequence is a mark, ours or an imitation.
pub(super) fn is_mark(sequence: &[u8]) -> bool {
    string_body(sequence).starts_with(MARK)
}
