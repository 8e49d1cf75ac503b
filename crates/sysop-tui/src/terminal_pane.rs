//! The session's terminal as a pane, which shows the terminal's live screen and sends keys to it.
//!
//! The user's first key takes control of the terminal from the agent; Ctrl+] or Ctrl+T gives it back
//! immediately. The input is sent nowhere else, because it may be a secret.

mod keys;

use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseEvent, MouseEventKind};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::widgets::{Clear, Widget as _};
use sysop_core::text::neutralize_line;
use sysop_driver::prompter::{Terminal, TerminalOutput, TerminalSize, TerminalView};
use sysop_term::grid::{Grid, GridSize, Mouse};

/// Maximum number of output bytes to process before checking for keys; takes about 3 ms.
const OUTPUT_BATCH_BYTES_MAX: usize = 256 * 1024;
/// Rows scrolled per step of the mouse wheel.
const WHEEL_ROWS: i32 = 3;

/// The session's terminal as shown to one user. Returns control of the terminal on drop.
pub struct TerminalPane {
    terminal: Arc<dyn Terminal>,
    by: String,
    state: State,
    size: Option<TerminalSize>,
    area: Rect,
}

enum State {
    /// The terminal is being opened, which may require a connection.
    Opening(BoxFuture<'static, Result<TerminalView, String>>),
    Open {
        live: BoxStream<'static, TerminalOutput>,
        grid: Box<Grid>,
    },
    /// The terminal could not be opened or has closed. Holds the reason and the last screen, if any.
    Over(String, Option<Box<Grid>>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaneKeyResult {
    /// The key was sent to the terminal or used for scrolling.
    Consumed,
    /// Control was returned to the agent; close the pane.
    Released,
    /// The key has no meaning here.
    Ignored,
}

impl TerminalPane {
    /// Attaches to the terminal of a session as the user `by`. Opens the terminal if necessary.
    pub fn new(terminal: Arc<dyn Terminal>, by: &str) -> Self {
        let its = Arc::clone(&terminal);
        let state = State::Opening(async move { its.watch().await }.boxed());
        Self { terminal, by: by.to_owned(), state, size: None, area: Rect::ZERO }
    }

    /// Waits for a change in the pane and applies it. Cancel safe; never completes once the terminal closed.
    pub async fn next_change(&mut self) {
        match &mut self.state {
            State::Opening(opening) => {
                let opened = opening.await;
                self.opened(opened);
            }
            State::Open { live, grid } => {
                let until = grid.synchronized_until();
                let patience = async {
                    match until {
                        Some(until) => tokio::time::sleep_until(until.into()).await,
                        None => std::future::pending().await,
                    }
                };
                let output = tokio::select! {
                    output = live.next() => output,
                    () = patience => return grid.end_synchronized_update(),
                };
                self.consume_output(output);
            }
            State::Over(..) => std::future::pending().await,
        }
    }

    /// Returns one sentence with the reason why the terminal closed, or `None` if it has not closed.
    pub fn end_reason(&self) -> Option<&str> {
        match &self.state {
            State::Over(why, _) => Some(why),
            State::Opening(_) | State::Open { .. } => None,
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "all other keys go to the program")]
    pub fn key(&mut self, key: KeyEvent) -> PaneKeyResult {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && matches!(key.code, KeyCode::Char(']' | 't')) {
            self.terminal.release(&self.by);
            return PaneKeyResult::Released;
        }
        let State::Open { grid, .. } = &mut self.state else {
            // No program is left to receive keys; Esc and Ctrl+C leave the pane.
            let leaves = key.code == KeyCode::Esc || (control && key.code == KeyCode::Char('c'));
            return if leaves { PaneKeyResult::Released } else { PaneKeyResult::Ignored };
        };
        let page = i32::from(self.area.height.saturating_sub(1).max(1));
        let shift = key.modifiers.contains(KeyModifiers::SHIFT);
        match key.code {
            KeyCode::PageUp if shift || !grid.is_alternate_screen() => grid.scroll(page),
            KeyCode::PageDown if shift || grid.scrolled() > 0 => grid.scroll(-page),
            _ => match keys::key(key, grid.modes()) {
                Some(bytes) => {
                    grid.scroll_to_end();
                    self.terminal.input(&self.by, &bytes);
                }
                None => return PaneKeyResult::Ignored,
            },
        }
        PaneKeyResult::Consumed
    }

    pub fn paste(&mut self, text: &str) {
        if let State::Open { grid, .. } = &mut self.state {
            grid.scroll_to_end();
            self.terminal.input(&self.by, &keys::paste(text, grid.modes()));
        }
    }

    /// Handles a mouse event in screen coordinates. Returns false if the event was outside the pane.
    pub fn mouse(&mut self, event: MouseEvent) -> bool {
        let at = Position { x: event.column, y: event.row };
        let State::Open { grid, .. } = &mut self.state else { return self.area.contains(at) };
        if !self.area.contains(at) {
            return false;
        }
        let row = grid.first_row(self.area.height) + usize::from(at.y - self.area.y);
        let cell = (at.x - self.area.x, u16::try_from(row).unwrap_or(u16::MAX));
        let rows = match event.kind {
            MouseEventKind::ScrollUp => WHEEL_ROWS,
            MouseEventKind::ScrollDown => -WHEEL_ROWS,
            MouseEventKind::Down(_)
            | MouseEventKind::Up(_)
            | MouseEventKind::Drag(_)
            | MouseEventKind::Moved
            | MouseEventKind::ScrollLeft
            | MouseEventKind::ScrollRight => 0,
        };
        if let Some(bytes) = keys::mouse(event, cell, grid.modes()) {
            self.terminal.input(&self.by, &bytes);
        } else if rows != 0 && grid.is_alternate_screen() {
            // Like other terminals, turn wheel steps into arrow keys for programs that do not handle the mouse.
            let code = if rows > 0 { KeyCode::Up } else { KeyCode::Down };
            let arrow = keys::key(KeyEvent::new(code, KeyModifiers::NONE), grid.modes()).unwrap_or_default();
            self.terminal.input(&self.by, &arrow.repeat(WHEEL_ROWS.unsigned_abs() as usize));
        } else if rows != 0 {
            grid.scroll(rows);
        }
        true
    }

    /// Returns the mouse mode that the pane needs: clicks and the wheel, or more if the program has enabled more.
    pub fn mouse_mode(&self) -> Mouse {
        match &self.state {
            State::Open { grid, .. } => grid.modes().mouse.max(Mouse::Clicks),
            State::Opening(_) | State::Over(..) => Mouse::Clicks,
        }
    }

    /// Returns the number of rows by which the view is scrolled up from the end.
    pub fn scrolled(&self) -> usize {
        match &self.state {
            State::Open { grid, .. } => grid.scrolled(),
            State::Opening(_) | State::Over(..) => 0,
        }
    }

    /// Returns the status line, which shows who is typing and the key that returns control. `holder` is the
    /// user in control according to the transcript.
    pub fn status(&self, host: &str, holder: Option<&str>) -> String {
        let mut line = format!("terminal on {}", neutralize_line(host));
        match holder {
            Some(holder) if holder == self.by => line.push_str(" · you are typing"),
            Some(holder) => line.push_str(&format!(" · {} is typing", neutralize_line(holder))),
            None => {}
        }
        match self.scrolled() {
            0 => line.push_str(" · Ctrl+] to return"),
            rows => line.push_str(&format!(" · {rows} rows up, PgDn to return")),
        }
        line
    }

    /// Resizes the terminal to the area and draws it with its own colors. Returns the cursor position, if any.
    pub fn draw(&mut self, area: Rect, buffer: &mut Buffer) -> Option<Position> {
        let area = area.intersection(buffer.area);
        self.fit(area);
        Clear.render(area, buffer);
        let (text, grid) = match &self.state {
            State::Open { grid, .. } => return grid.draw(area, buffer),
            State::Opening(_) => ("opening the terminal…".to_owned(), None),
            State::Over(why, grid) => (neutralize_line(why).into_owned(), grid.as_ref()),
        };
        if let Some(grid) = grid {
            grid.draw(area, buffer);
            buffer.set_style(area, Style::new().add_modifier(Modifier::DIM));
        }
        if let Some(y) = area.bottom().checked_sub(1).filter(|y| *y >= area.y) {
            Clear.render(Rect { y, height: 1, ..area }, buffer);
            buffer.set_stringn(area.x, y, &text, area.width.into(), Style::reset());
        }
        None
    }

    fn fit(&mut self, area: Rect) {
        self.area = area;
        let size = TerminalSize { columns: area.width, rows: area.height };
        if !area.is_empty() && self.size != Some(size) {
            self.size = Some(size);
            self.terminal.resize(size);
        }
    }

    fn opened(&mut self, opened: Result<TerminalView, String>) {
        self.state = match opened {
            Ok(TerminalView { size, picture, live }) => {
                State::Open { live, grid: Box::new(Grid::new(grid_size(size), &picture)) }
            }
            Err(why) => State::Over(why, None),
        };
        // The terminal may have opened after the resize request.
        if let Some(size) = self.size {
            self.terminal.resize(size);
        }
    }

    /// Processes an output chunk, and any further output that is already available, up to a limit.
    fn consume_output(&mut self, first: Option<TerminalOutput>) {
        let State::Open { live, grid } = &mut self.state else { return };
        let mut next = Some(first);
        let mut room = OUTPUT_BATCH_BYTES_MAX;
        let why = loop {
            match next {
                Some(Some(TerminalOutput::Bytes(bytes))) => {
                    grid.feed(&bytes);
                    room = room.saturating_sub(bytes.len());
                }
                Some(Some(TerminalOutput::Redrawn(picture))) => {
                    grid.redraw(&picture);
                    room = room.saturating_sub(picture.len());
                }
                Some(Some(TerminalOutput::Resized(size))) => grid.resize(grid_size(size)),
                Some(Some(TerminalOutput::Ended(why))) => break why,
                Some(None) => break "the terminal was closed".to_owned(),
                None => return,
            }
            if room == 0 {
                return;
            }
            next = live.next().now_or_never();
        };
        let last = std::mem::replace(&mut self.state, State::Over(why.clone(), None));
        if let State::Open { grid, .. } = last {
            self.state = State::Over(why, Some(grid));
        }
        self.terminal.release(&self.by);
    }
}

impl Drop for TerminalPane {
    fn drop(&mut self) {
        self.terminal.release(&self.by);
    }
}

#[cfg(test)]
mod tests;

fn grid_size(size: TerminalSize) -> GridSize {
    GridSize { columns: size.columns, rows: size.rows }
}
