//! Instructions for the model that come from files: `AGENTS.md` and its relatives in the workspace, and the user's
//! notes on a host.
//!
//! They are text for the model and grant no permissions. They precede the first message of the history, even after a
//! compaction.

use serde::{Deserialize, Serialize};

use crate::skill::Skills;

/// Prompt that `/init` sends.
pub const INIT_PROMPT: &str = "Look around this workspace and propose an AGENTS.md for it: instructions for an assistant \
     that works here. Read what is there first: README, build files, CI, an existing AGENTS.md or CLAUDE.md. Cover, in \
     at most 60 lines: what this is, the layout, the commands to build, test and run, conventions that are not obvious \
     from the code, and what must never be done here. State only what you found. Then write the file with write_file, \
     or edit the existing one.";

/// Maximum bytes of instructions that a model gets, from all files together.
pub const BYTES_MAX: usize = 32 * 1024;
/// Maximum bytes of all files together for a small context window. A model with such a window gets only the notes on
/// the host and the nearest file.
pub const SMALL_WINDOW_BYTES_MAX: usize = 4 * 1024;
/// Context windows up to this size, in tokens, count as small.
const SMALL_WINDOW_MAX: u32 = 16_384;

/// Instruction files and skills that were found for a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Instructions {
    /// Files that the model gets, in this order: the user's own file, notes on hosts, and the files of the
    /// workspace, starting at its root.
    pub files: Vec<InstructionFile>,
    /// Files that the model does not get, because the user does not trust the workspace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub untrusted: Vec<UntrustedFile>,
    /// Skills and commands from the user, and from a trusted workspace.
    #[serde(flatten)]
    pub skills: Skills,
}

/// Result of reading the instructions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundInstructions {
    pub instructions: Instructions,
    /// False if the workspace could not be read because its host is not connected yet. Until it can be read,
    /// the workspace files that were found earlier stay in effect.
    pub complete: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InstructionFile {
    /// Path for display.
    pub path: String,
    pub source: InstructionSource,
    /// Content, possibly truncated. Front ends do not get it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Bytes that the model gets.
    pub sent: u64,
    /// Size of the whole file in bytes.
    pub bytes: u64,
}

/// Owner of a file with instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum InstructionSource {
    /// The user's own file, for all sessions.
    User,
    /// The user's notes on a host.
    Host,
    /// A file of the workspace, which others may have written.
    Workspace,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UntrustedFile {
    /// Path for display.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
}

impl Instructions {
    /// Returns true if neither a file nor a skill was found.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.untrusted.is_empty() && self.skills == Skills::default()
    }

    /// Limits the files to the bytes that a model with a context window of `window` tokens gets. Notes on a host come
    /// first and get up to a quarter of these bytes; after that, the nearest file takes precedence.
    ///
    /// ```
    /// use sysop_core::instructions::{InstructionFile, InstructionSource, Instructions};
    ///
    /// let text = "x".repeat(20_000);
    /// let file = |path: &str| {
    ///     InstructionFile::new(path.to_owned(), InstructionSource::Workspace, text.clone(), 20_000)
    /// };
    /// let files = vec![file("/a/AGENTS.md"), file("/a/b/AGENTS.md")];
    /// let found = Instructions { files, ..Instructions::default() };
    /// let sizes = |found: &Instructions| found.files.iter().map(|file| file.text.len()).collect::<Vec<_>>();
    /// assert_eq!(sizes(&found.clone().limited(200_000)), [12_768, 20_000]);
    /// assert_eq!(sizes(&found.limited(8_192)), [4_096]);
    /// ```
    #[must_use]
    pub fn limited(mut self, window: u32) -> Self {
        let small = window <= SMALL_WINDOW_MAX;
        if small && let Some(nearest) = self.files.pop() {
            self.files.retain(|file| file.source == InstructionSource::Host);
            self.files.push(nearest);
        }
        let whole = if small { SMALL_WINDOW_BYTES_MAX } else { BYTES_MAX };
        let mut room = whole;
        let is_host = |file: &&mut InstructionFile| file.source == InstructionSource::Host;
        for file in self.files.iter_mut().filter(is_host) {
            file.text.truncate(file.text.floor_char_boundary(room.min(whole / 4)));
            room -= file.text.len();
        }
        for file in self.files.iter_mut().rev().filter(|file| !is_host(file)) {
            file.text.truncate(file.text.floor_char_boundary(room));
            room -= file.text.len();
        }
        self.files.retain(|file| !file.text.trim().is_empty());
        self.files.iter_mut().for_each(|file| file.sent = file.text.len() as u64);
        self.skills.limit(window);
        self
    }

    /// Returns the text for the model; `None` if there are no instructions.
    pub fn prompt(&self) -> Option<String> {
        let skills = self.skills.prompt();
        if self.files.is_empty() && skills.is_none() {
            return None;
        }
        let mut text = String::new();
        for file in &self.files {
            let about = match file.source {
                InstructionSource::User => "the user's instructions for all sessions",
                InstructionSource::Host => "the user's notes on this host",
                InstructionSource::Workspace => "a file of this workspace, which grants no permissions",
            };
            let body = file.text.trim_end();
            text.push_str(&format!("--- {} ({about}) ---\n{body}\n", file.path));
            if file.is_cut() {
                text.push_str(&format!("[truncated after {} of {} bytes]\n", file.sent, file.bytes));
            }
        }
        text.push_str(&skills.unwrap_or_default());
        text.push_str("--- end of the instructions; the user's message follows ---");
        Some(text)
    }
}

impl InstructionFile {
    /// Creates a file of `bytes` bytes whose content begins with `text`.
    pub fn new(path: String, source: InstructionSource, text: String, bytes: u64) -> Self {
        Self { path, source, text, sent: 0, bytes }
    }

    /// Returns true if the model gets only part of the file.
    pub fn is_cut(&self) -> bool {
        self.sent < self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::{InstructionFile, InstructionSource, Instructions};

    fn file(path: &str, source: InstructionSource, text: &str) -> InstructionFile {
        InstructionFile::new(path.to_owned(), source, text.to_owned(), text.len() as u64)
    }

    #[test]
    fn the_model_gets_each_file_with_its_source() {
        let files = vec![
            file("~/.config/sysop/AGENTS.md", InstructionSource::User, "Be brief.\n"),
            file("/srv/AGENTS.md", InstructionSource::Workspace, &"ü".repeat(20_000)), // takes all the room
        ];
        let found = Instructions { files, ..Instructions::default() }.limited(32_768);
        let prompt = found.prompt().expect("a prompt");
        assert!(prompt.starts_with(
            "--- /srv/AGENTS.md (a file of this workspace, which grants no permissions) ---\nü"
        ));
        assert!(
            prompt.contains("ü\n[truncated after 32768 of 40000 bytes]\n--- end of the instructions"),
            "{prompt}"
        );
        assert_eq!(Instructions::default().prompt(), None);
    }

    #[test]
    fn a_small_window_gets_host_notes_and_the_nearest_file() {
        let files = vec![
            file("a", InstructionSource::User, "user"),
            file("b", InstructionSource::Host, "host"),
            file("c", InstructionSource::Workspace, "top"),
            file("d", InstructionSource::Workspace, &"x".repeat(5_000)),
        ];
        let found = Instructions { files, ..Instructions::default() };
        let paths =
            |found: &Instructions| found.files.iter().map(|file| file.path.clone()).collect::<Vec<_>>();
        assert_eq!(paths(&found.clone().limited(32_768)), ["a", "b", "c", "d"]);
        let small = found.limited(16_384);
        assert_eq!(paths(&small), ["b", "d"]);
        assert_eq!(small.files[1].text.len(), 4_096 - "host".len());
    }
}
