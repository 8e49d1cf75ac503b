//! The screen of a front end that only appends rows: permanent rows, and below them one last row that is replaced.
//!
//! While the line editor owns the terminal, rows are printed through the editor's printer. While a prompt or
//! the session's terminal is open, rows are held back.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::mpsc::{SyncSender, TrySendError};

use sysop_term::{StyleRole, TextRow, paint};

use super::type_ahead::typed_row;
use crate::render::{RenderOptions, row, truncate};

/// Maximum number of rows waiting for the terminal; the oldest are dropped first.
const PENDING_ROWS_MAX: usize = 5_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TerminalOwner {
    Output,
    Editor,
    /// A prompt, which uses raw mode.
    Prompt,
    /// The session's terminal.
    Terminal,
}

/// Place of the cursor in the last row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CursorPlace {
    /// If the terminal becomes narrower and wraps the row, the cursor stays at its first part, so all of the row can be
    /// cleared.
    Start,
    /// For text that is being written.
    End,
}

/// The last row as it was painted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LastRow {
    text: String,
    cursor: CursorPlace,
}

impl LastRow {
    /// Returns the control sequence that clears the row.
    fn erasure(&self) -> &'static str {
        match self.cursor {
            CursorPlace::Start => "\r\u{1b}[J",
            CursorPlace::End => "\r\u{1b}[K",
        }
    }
}

pub(crate) struct InlineScreen {
    out: Box<dyn Write + Send>,
    look: RenderOptions,
    owner: TerminalOwner,
    printer: Option<SyncSender<String>>,
    pending: VecDeque<String>,
    lost: usize,
    given: bool,
    last: Option<LastRow>,
    /// Content of the last row, also while it is hidden by typed text, and the place of the cursor in it.
    content: Option<(TextRow, CursorPlace)>,
    /// Text that the user is typing during a turn. Unless empty, it is shown in place of the last row.
    typed: String,
    /// Number of newlines at the end of the text so far; 2 before any text.
    ends: usize,
}

impl InlineScreen {
    /// Creates a screen on `out`. `printer` prints rows above the line editor.
    pub(crate) fn new(
        out: Box<dyn Write + Send>,
        look: RenderOptions,
        printer: Option<SyncSender<String>>,
    ) -> Self {
        Self {
            out,
            look,
            owner: TerminalOwner::Output,
            printer,
            pending: VecDeque::new(),
            lost: 0,
            given: false,
            last: None,
            content: None,
            typed: String::new(),
            ends: 2,
        }
    }

    pub(crate) fn render_options(&self) -> RenderOptions {
        self.look
    }

    pub(crate) fn resize(&mut self, columns: usize) -> io::Result<()> {
        self.look.width = columns.max(1);
        self.draw_last_row()
    }

    /// Changes the owner of the terminal, and shows pending rows if the new owner accepts them.
    pub(crate) fn set_owner(&mut self, owner: TerminalOwner) -> io::Result<()> {
        if owner != TerminalOwner::Output {
            self.last_row(None)?;
        }
        self.owner = owner;
        self.flush_pending()
    }

    pub(crate) fn rows(&mut self, rows: &[TextRow]) -> io::Result<()> {
        for row in rows {
            let painted = paint::row(row, self.look.color);
            if self.pending.len() == PENDING_ROWS_MAX {
                self.pending.pop_front();
                self.lost += 1;
            }
            self.pending.push_back(painted);
        }
        self.flush_pending()
    }

    /// Appends text that is already sanitized and need not end with a newline. Used by the plain layout.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        let bare = text.trim_end_matches('\n');
        let ends = text.len() - bare.len();
        self.ends = if bare.is_empty() { self.ends + ends } else { ends };
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Records that the user ended the row by pressing Enter.
    pub(crate) fn note_enter(&mut self) {
        self.ends = 1;
    }

    pub(crate) fn end_text(&mut self) -> io::Result<()> {
        if self.ends == 0 { self.text("\n") } else { Ok(()) }
    }

    /// Ensures that the output of [`Self::text`] is followed by one blank row.
    pub(crate) fn blank_row(&mut self) -> io::Result<()> {
        if self.ends < 2 { self.text(&"\n".repeat(2 - self.ends)) } else { Ok(()) }
    }

    /// Replaces the last row. The row is shown only while this screen owns the terminal.
    pub(crate) fn last_row(&mut self, content: Option<TextRow>) -> io::Result<()> {
        self.content = content.map(|row| (row, CursorPlace::Start));
        self.draw_last_row()
    }

    /// Like `last_row`, for a row whose text is being written: the cursor stays at its end.
    pub(crate) fn open_row(&mut self, content: Option<TextRow>) -> io::Result<()> {
        self.content = content.map(|row| (row, CursorPlace::End));
        self.draw_last_row()
    }

    /// Shows text that the user is typing during a turn, in place of the last row unless it is empty.
    pub(crate) fn set_typed(&mut self, text: &str) -> io::Result<()> {
        text.clone_into(&mut self.typed);
        self.draw_last_row()
    }

    /// Returns true if the user has typed text during a turn.
    pub(crate) fn has_typed(&self) -> bool {
        !self.typed.is_empty()
    }

    fn draw_last_row(&mut self) -> io::Result<()> {
        let typed =
            (!self.typed.is_empty()).then(|| (typed_row(&self.typed, self.look.width), CursorPlace::End));
        let (columns, color) = (self.look.width.saturating_sub(1), self.look.color);
        let content = typed
            .or_else(|| self.content.clone())
            .filter(|_| self.owner == TerminalOwner::Output)
            .map(|(row, cursor)| LastRow { text: paint::row(&truncate(&row, columns), color), cursor });
        if content == self.last {
            return Ok(());
        }
        if let Some(last) = &self.last {
            write!(self.out, "{}", last.erasure())?;
        }
        if let Some(LastRow { text, cursor }) = &content {
            let end = if *cursor == CursorPlace::Start { "\r" } else { "" };
            write!(self.out, "{text}{end}")?;
        }
        self.last = content;
        self.out.flush()
    }

    /// Shows the pending rows, unless a prompt or the session's terminal owns the terminal.
    pub(crate) fn flush_pending(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        match self.owner {
            TerminalOwner::Prompt | TerminalOwner::Terminal => Ok(()),
            TerminalOwner::Editor => {
                self.print_above();
                Ok(())
            }
            TerminalOwner::Output => self.print(),
        }
    }

    /// Clears the terminal, but not its scrollback.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.last = None;
        write!(self.out, "\u{1b}[H\u{1b}[2J")?;
        self.out.flush()
    }

    fn print(&mut self) -> io::Result<()> {
        let mut text = self.last.as_ref().map_or_else(String::new, |last| last.erasure().to_owned());
        if self.lost > 0 {
            let note = row(&format!("… {} rows omitted", self.lost), StyleRole::Dim);
            text.push_str(&paint::row(&note, self.look.color));
            text.push('\n');
            self.lost = 0;
        }
        for row in self.pending.drain(..) {
            text.push_str(&row);
            text.push('\n');
        }
        self.out.write_all(text.as_bytes())?;
        // The terminal may be narrower than when the row was drawn.
        self.last = None;
        self.draw_last_row()?;
        self.out.flush()
    }

    /// Returns true if the line editor has printed all rows. The editor must not be interrupted before that.
    pub(crate) fn printer_is_idle(&mut self) -> bool {
        let Some(printer) = &self.printer else { return true };
        // The printer holds one message, so a second, empty one is accepted only once the first is printed.
        if self.given && !matches!(printer.try_send(String::new()), Err(TrySendError::Full(_))) {
            self.given = false;
        }
        !self.given && self.pending.is_empty()
    }

    fn print_above(&mut self) {
        let Some(printer) = &self.printer else { return };
        // One message for all rows; an empty row is still sent as a row.
        let rows: Vec<&str> = self.pending.iter().map(|row| if row.is_empty() { " " } else { row }).collect();
        match printer.try_send(rows.join("\n")) {
            Ok(()) => {
                self.given = true;
                self.pending.clear();
            }
            // The editor prints the message later; a closed channel means that the front end is exiting.
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded_output::RecordedOutput;

    #[test]
    fn a_live_row_is_cleared_from_its_start_and_drawn_anew_for_another_width() {
        let shown = RecordedOutput::default();
        let look = RenderOptions { width: 40, color: false };
        let mut screen = InlineScreen::new(Box::new(shown.clone()), look, None);
        screen.last_row(Some(row("running echo hello · 3 s", StyleRole::Dim))).unwrap();
        screen.resize(14).unwrap();
        screen.rows(&[row("done", StyleRole::Text)]).unwrap();
        screen.open_row(Some(row("streaming", StyleRole::Text))).unwrap();
        screen.last_row(None).unwrap();
        let parts = [
            "running echo hello · 3 s\r",
            "\r\u{1b}[Jrunning echo…\r",
            "\r\u{1b}[Jdone\nrunning echo…\r",
            "\r\u{1b}[Jstreaming",
            "\r\u{1b}[K",
        ];
        assert_eq!(shown.text(), parts.concat());
    }
}
