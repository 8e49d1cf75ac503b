//! Text that the user typed before the terminal mode of the REPL was set. The kernel has turned its Enter into a line
//! feed, which the line editor would take for Ctrl+J.

use std::io;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sysop_core::text::strip_controls;

use super::editor::{ends_with_continuation, sanitize_pasted_text};

/// Maximum length of the text, in bytes; also the capacity of a terminal's input queue.
const EARLY_BYTES_MAX: usize = 4096;

/// Text typed before the first prompt.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct EarlyInput {
    /// The line that ended with Enter, if it is one prompt.
    pub(super) lines: Vec<String>,
    /// The other text. Several lines, and commands, are part of it, so that one more Enter sends them.
    pub(super) draft: String,
}

impl EarlyInput {
    /// Reads what is in the input queue of the terminal on standard input. Must be called before anything else reads
    /// from it, and after the quiet mode was entered.
    pub(super) fn read() -> Self {
        let mut bytes = [0; EARLY_BYTES_MAX];
        let stdin = io::stdin();
        let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            // If the terminal is gone, the line editor reports it.
            Ok(1..) => {
                let count = rustix::io::read(&stdin, &mut bytes).unwrap_or(0);
                Self::of(&bytes[..count])
            }
            Ok(0) | Err(_) => Self::default(),
        }
    }

    fn of(bytes: &[u8]) -> Self {
        let text = sanitize_pasted_text(&strip_controls(&String::from_utf8_lossy(bytes).replace('\r', "\n")));
        let mut early = Self::default();
        for part in text.split_inclusive('\n') {
            early.draft.push_str(part);
            let Some(line) = early.draft.strip_suffix('\n') else { break };
            if ends_with_continuation(line) {
                continue;
            }
            if !line.trim().is_empty() {
                early.lines.push(line.to_owned());
            }
            early.draft.clear();
        }
        // Text that was typed or pasted for another program must not run as a command.
        if early.lines.len() > 1 || early.lines.iter().any(|line| line.starts_with(['!', '/'])) {
            early.draft = std::mem::take(&mut early.lines).join("\n") + "\n" + &early.draft;
            early.draft.truncate(early.draft.trim_end_matches('\n').len());
        }
        early
    }
}

#[cfg(test)]
mod tests {
    use super::EarlyInput;

    #[test]
    fn a_line_feed_ends_a_line_and_the_rest_is_the_draft() {
        let of = |bytes: &[u8]| {
            let EarlyInput { lines, draft } = EarlyInput::of(bytes);
            (lines, draft)
        };
        assert_eq!(of(b""), (vec![], String::new()));
        assert_eq!(of(b"hello\n"), (vec!["hello".to_owned()], String::new()));
        assert_eq!(of(b"one\rtw"), (vec!["one".to_owned()], "tw".to_owned()));
        assert_eq!(of(b"one\n\ntwo\rthr"), (vec![], "one\ntwo\nthr".to_owned()));
        assert_eq!(of(b"one\ntwo\n"), (vec![], "one\ntwo".to_owned()));
        assert_eq!(of(b"!rm -r a\n"), (vec![], "!rm -r a".to_owned()));
        assert_eq!(of(b"one \\\ntwo\n"), (vec!["one \\\ntwo".to_owned()], String::new()));
        assert_eq!(of(b"\x1b[A\0hi\x1b[31m\xff"), (vec![], "hi\u{fffd}".to_owned()));
    }
}
