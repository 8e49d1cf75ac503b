//! The lower end of a front end that only ever adds rows: rows that stay, and one last row that is replaced.
//!
//! While a line editor owns the terminal, rows go through its printer; while a question or the session's
//! terminal is open they wait.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::mpsc::{SyncSender, TrySendError};

use sysop_term::{StyleRole, TextRow, paint};

use crate::render::{RenderOptions, row, truncate};

/// The most rows that wait for the terminal to be free; the oldest go first.
const PENDING_ROWS_MAX: usize = 5_000;

/// Who has the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TerminalOwner {
    /// Nobody else.
    Output,
    /// The line editor.
    Editor,
    /// A question, in raw mode.
    Prompt,
    /// The session's terminal.
    Terminal,
}

/// Rows to the terminal.
pub(crate) struct InlineScreen {
    out: Box<dyn Write + Send>,
    look: RenderOptions,
    owner: TerminalOwner,
    printer: Option<SyncSender<String>>,
    pending: VecDeque<String>,
    lost: usize,
    given: bool,
    last: Option<String>,
    /// Line ends that the text so far ends with; two at the very beginning.
    ends: usize,
}

impl InlineScreen {
    /// A screen on `out`; `printer` leads above the line editor.
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
            ends: 2,
        }
    }

    /// How to draw.
    pub(crate) fn render_options(&self) -> RenderOptions {
        self.look
    }

    /// Takes note of the terminal's width.
    pub(crate) fn resize(&mut self, columns: usize) {
        self.look.width = columns.max(1);
    }

    /// Hands the terminal over, or takes it back and shows what waited.
    pub(crate) fn set_owner(&mut self, owner: TerminalOwner) -> io::Result<()> {
        if owner != TerminalOwner::Output {
            self.last_row(None)?;
        }
        self.owner = owner;
        self.flush_pending()
    }

    /// Adds rows that stay.
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

    /// Adds safe text that need not end with the row; for the plain form.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        let bare = text.trim_end_matches('\n');
        let ends = text.len() - bare.len();
        self.ends = if bare.is_empty() { self.ends + ends } else { ends };
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Takes note that the person's Enter has ended the row.
    pub(crate) fn note_enter(&mut self) {
        self.ends = 1;
    }

    /// Ends the row that `text` began.
    pub(crate) fn end_text(&mut self) -> io::Result<()> {
        if self.ends == 0 { self.text("\n") } else { Ok(()) }
    }

    /// Sees to one blank row below what `text` wrote.
    pub(crate) fn blank_row(&mut self) -> io::Result<()> {
        if self.ends < 2 { self.text(&"\n".repeat(2 - self.ends)) } else { Ok(()) }
    }

    /// Replaces the last row, which does not stay. Shown only while nobody else has the terminal.
    pub(crate) fn last_row(&mut self, content: Option<TextRow>) -> io::Result<()> {
        let content = content
            .filter(|_| self.owner == TerminalOwner::Output)
            .map(|row| paint::row(&truncate(&row, self.look.width.saturating_sub(1)), self.look.color));
        if content == self.last {
            return Ok(());
        }
        if self.last.is_some() {
            write!(self.out, "\r\u{1b}[K")?;
        }
        if let Some(content) = &content {
            write!(self.out, "{content}")?;
        }
        self.last = content;
        self.out.flush()
    }

    /// Shows what waited, as far as the terminal's owner takes it.
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

    /// Clears the terminal; what is above stays in its scroll-back.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.last = None;
        write!(self.out, "\u{1b}[H\u{1b}[2J")?;
        self.out.flush()
    }

    fn print(&mut self) -> io::Result<()> {
        let mut text = String::new();
        if self.last.is_some() {
            text.push_str("\r\u{1b}[K");
        }
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
        if let Some(last) = &self.last {
            text.push_str(last);
        }
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Whether the line editor has shown all that it was given; while it has not, it must not be interrupted.
    pub(crate) fn printer_is_idle(&mut self) -> bool {
        let Some(printer) = &self.printer else { return true };
        // The printer holds one message: a second one, of no lines, gets in only when the first is out.
        if self.given && !matches!(printer.try_send(String::new()), Err(TrySendError::Full(_))) {
            self.given = false;
        }
        !self.given && self.pending.is_empty()
    }

    fn print_above(&mut self) {
        let Some(printer) = &self.printer else { return };
        // One message for all rows; one that is empty has to be a row all the same.
        let rows: Vec<&str> = self.pending.iter().map(|row| if row.is_empty() { " " } else { row }).collect();
        match printer.try_send(rows.join("\n")) {
            Ok(()) => {
                self.given = true;
                self.pending.clear();
            }
            // The editor takes it later; a closed one means that the front end is about to end.
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }
}
