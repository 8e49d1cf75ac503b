//! The prompt that a shell draws while the echo of our lines is hidden. It is shown afterwards if the shell had not yet
//! drawn one: no time is long enough to be sure that a shell on a busy machine has.

use super::sequences::StreamToken;

/// Maximum bytes of a prompt, with its colors. A longer one is not shown afterwards.
const PROMPT_BYTES_MAX: usize = 16 * 1024;

#[derive(Debug, Default)]
pub(super) struct HiddenPrompt {
    /// Output since the last command ended; `None` if none has ended, and for a prompt that is too long.
    drawn: Option<Vec<u8>>,
    /// Length of `drawn` at the start of its last line.
    line_start: usize,
    /// Text of the last line.
    line: Vec<u8>,
}

impl HiddenPrompt {
    /// Begins the prompt: a command has ended.
    pub(super) fn begin(&mut self) {
        *self = Self { drawn: Some(Vec::new()), ..Self::default() };
    }

    /// Appends a hidden token.
    pub(super) fn push(&mut self, token: &StreamToken<'_>) {
        let Some(drawn) = &mut self.drawn else { return };
        if drawn.len() + token.bytes().len() > PROMPT_BYTES_MAX {
            *self = Self::default();
            return;
        }
        if let StreamToken::Text(text) = token {
            if let Some(end) = text.iter().rposition(|byte| *byte == b'\n') {
                self.line_start = drawn.len() + end + 1;
            }
            if let Some(end) = text.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')) {
                self.line.clear();
                self.line.extend_from_slice(&text[end + 1..]);
            } else {
                self.line.extend_from_slice(text);
            }
        }
        drawn.extend_from_slice(token.bytes());
    }

    /// Returns the output that draws the prompt where the cursor is, or nothing if `shown`, the row up to the cursor,
    /// is this prompt, or its end if the row continues the one above. A row that has another text is an earlier or
    /// incomplete prompt, or a prompt with text that we have deleted, and is replaced.
    pub(super) fn missing(self, shown: &str, is_continued: bool) -> Vec<u8> {
        let Some(drawn) = self.drawn else { return Vec::new() };
        if shown.is_empty() {
            return drawn;
        }
        let line = String::from_utf8_lossy(&self.line);
        if line.trim().is_empty() || line == shown || (is_continued && line.ends_with(shown)) {
            return Vec::new();
        }
        [b"\r\x1b[K", &drawn[self.line_start..]].concat()
    }
}

#[cfg(test)]
mod tests {
    use sysop_driver::prompter::{TerminalOutput, TerminalSize};
    use tokio::sync::broadcast;

    use super::PROMPT_BYTES_MAX;
    use crate::output::redact::Secrets;
    use crate::terminal::shells::ShellKind;
    use crate::terminal::state::{HiddenInput, HiddenInputEnd, TerminalState};

    /// Returns the line of the cursor and the watchers' output after a setup that begins after `before`, and during
    /// which the shell prints `hidden` before its hook draws `prompt`.
    fn set_up(before: &str, hidden: &str, prompt: &str) -> (String, String) {
        let (outputs, mut shown) = broadcast::channel(16);
        let size = TerminalSize { columns: 40, rows: 10 };
        let mut state = TerminalState::new(size, "sh".to_owned(), outputs, None);
        let secrets = Secrets::default();
        state.take(before.as_bytes(), &secrets);
        state.enter("k".to_owned(), ShellKind::Bash);
        let until = HiddenInputEnd::PromptReady("k".to_owned());
        state.hide(HiddenInput { until, shown: String::new() });
        let output = format!("{hidden}\x1b]7717;k;D;;0\x07{prompt}\x1b]7717;k;B\x07");
        // In small pieces, as on a busy machine.
        for piece in output.as_bytes().chunks(7) {
            state.take(piece, &secrets);
        }
        assert!(state.ready);
        assert_eq!(state.typed_line(), Some((String::new(), true)), "the prompt ends at the cursor");
        let mut seen = Vec::new();
        while let Ok(TerminalOutput::Bytes(bytes)) = shown.try_recv() {
            seen.extend_from_slice(&bytes);
        }
        (state.screen.line_to_cursor(), String::from_utf8(seen).unwrap())
    }

    #[test]
    fn a_first_prompt_that_came_after_our_lines_is_shown_once() {
        let shown = set_up("welcome\r\n\x1b[?2004h", "me@pc:~$  { setup; }\r\n", "\x1b[1mme@pc\x1b[m:~$ ");
        assert_eq!(shown.0, "me@pc:~$ ");
        assert_eq!(shown.1, "welcome\r\n\x1b[?2004h\x1b[1mme@pc\x1b[m:~$ ");
        let shown = set_up("", "setup\r\n", "┌ ~\r\n└ ");
        assert_eq!(shown, ("└ ".to_owned(), "┌ ~\r\n└ ".to_owned()));
    }

    #[test]
    fn a_first_prompt_that_was_drawn_before_our_lines_is_not_repeated() {
        let wide = "a directory with a name that is wider than the screen $ ";
        for prompt in ["me@pc:~$ ", "┌ ~\r\n└ ", "\r\x1b[0m\x1b[Jpc% \x1b[K", wide] {
            let shown = set_up(prompt, "setup\r\n", prompt);
            assert_eq!(shown.1, prompt);
        }
    }

    #[test]
    fn an_incomplete_or_outdated_prompt_is_replaced() {
        assert_eq!(set_up("me@p", "c:~$ setup\r\n", "me@pc:~$ ").0, "me@pc:~$ ");
        assert_eq!(set_up("┌ ~\r\n12:00 $ ", "setup\r\n", "┌ ~\r\n12:01 $ ").0, "12:01 $ ");
        assert_eq!(set_up("$ typed", "setup\r\n", "$ ").0, "$ ");
        assert_eq!(set_up("$ ", "setup\r\n", "me@pc:~$ ").0, "me@pc:~$ ");
    }

    #[test]
    fn a_prompt_is_bounded() {
        let long = "\x1b[1m".repeat(PROMPT_BYTES_MAX / 4);
        assert_eq!(set_up("$ ", "setup\r\n", &format!("{long}% ")).1, "$ ");
    }
}
