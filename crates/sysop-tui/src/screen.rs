//! The user's terminal, which the front end takes over, hands to editors and pagers, and restores in any case.
//!
//! The front end never blocks on the terminal: keys are read when they are available ([`TerminalEvents`]),
//! and frames are written by a separate thread, so only that thread waits for a terminal that accepts no
//! output. The only query sent to the terminal is for its background color, and only if the user chose no
//! theme; nothing waits for the reply. Text reaches the terminal only through the cells of a frame, and no
//! cell can contain a control character.

mod backend;
mod decode;
mod events;
mod modes;
mod panic_hook;
mod writer;

use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ratatui::layout::Size;
use ratatui::{Frame, Terminal};
use rustix::process::{Signal, getpgrp, getsid, kill_current_process_group};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use sysop_core::text::neutralize_line;
use sysop_term::grid::Mouse;

pub use self::backend::Hyperlink;
pub use self::events::{ProcessSignal, TerminalEvent, TerminalEvents};
pub use self::modes::TerminalKind;

use self::backend::CellBackend;
use self::writer::ScreenWriter;

/// Maximum time by which a terminal that accepts no output can delay the exit.
const EXIT_FLUSH_TIMEOUT: Duration = Duration::from_millis(500);
/// Size assumed for a terminal that does not report one.
const SIZE_DEFAULT: Size = Size::new(80, 24);
/// Maximum number of rows or columns to draw. A terminal that reports a larger size is faulty.
const SIZE_MAX: u16 = 1000;
/// Maximum size of copied text, in bytes. It fits the smallest known OSC 52 limit, which is hterm's.
pub const COPY_BYTES_MAX: usize = 74_994;

/// The user's terminal while the front end is running. Dropping the value restores the terminal.
pub struct Screen {
    terminal: Terminal<CellBackend>,
    writer: ScreenWriter,
    kind: TerminalKind,
    mouse: Mouse,
    /// Terminal attributes to restore; `None` while another program is using the terminal.
    before: Option<Termios>,
    /// Sequences to write before the next frame.
    pending_output: String,
    links: Vec<Hyperlink>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuspendResult {
    Continued,
    /// The process was not suspended, because no shell could continue it.
    NoShell,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyResult {
    /// The text was sent to the terminal. Terminals do not report whether they accept it.
    Sent,
    /// The text is longer than [`COPY_BYTES_MAX`] and was not sent.
    TooLong,
}

impl Screen {
    /// Takes over the terminal of standard output. Fails if standard input or output is not a terminal, or the writer
    /// thread cannot be started.
    pub fn enter(kind: TerminalKind) -> io::Result<Self> {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "standard input and output must be a terminal",
            ));
        }
        let out: OwnedFd = io::stdout().as_fd().try_clone_to_owned()?;
        // The theme has already decided whether to use colors.
        crossterm::style::force_color_output(true);
        let terminal = Terminal::new(CellBackend::new(size()))?;
        let writer = ScreenWriter::start(out)?;
        let mut screen = Self {
            terminal,
            writer,
            kind,
            mouse: Mouse::Off,
            before: None,
            pending_output: String::new(),
            links: Vec::new(),
        };
        screen.take()?;
        Ok(screen)
    }

    pub fn size(&self) -> Size {
        self.terminal.backend().size_now()
    }

    /// Returns true if the last frame has been written and another one can be drawn. While a terminal accepts
    /// no output, it is not ready, and the front end continues without drawing.
    pub fn is_ready(&self) -> bool {
        self.before.is_some() && self.writer.is_idle()
    }

    /// Waits until [`Screen::is_ready`] returns true. Cancel safe.
    pub async fn ready(&self) {
        if self.before.is_none() {
            std::future::pending::<()>().await;
        }
        self.writer.idle().await;
    }

    /// Draws a frame and queues it for the terminal. Does nothing while the terminal is not ready. Fails if the
    /// terminal is gone.
    pub fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>, &mut Vec<Hyperlink>)) -> io::Result<()> {
        if self.writer.is_lost() {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the terminal was closed"));
        }
        if !self.is_ready() {
            return Ok(());
        }
        let mut links = Vec::new();
        let drawn = self.terminal.draw(|frame| render(frame, &mut links))?;
        if links != self.links {
            let cells = drawn.buffer.clone();
            self.terminal.backend_mut().set_links(&links, &cells)?;
            self.links = links;
        }
        let (begins, ends) = modes::FRAME;
        let drawn = self.terminal.backend().output();
        let bytes = [self.pending_output.as_bytes(), begins.as_bytes(), drawn, ends.as_bytes()].concat();
        self.writer.send(&bytes);
        self.pending_output.clear();
        self.terminal.backend_mut().clear_output();
        Ok(())
    }

    /// Updates the size and forces a full redraw. Also used after another program has drawn on the terminal. Never
    /// fails in practice, because everything happens in memory.
    pub fn resized(&mut self) -> io::Result<()> {
        self.terminal.backend_mut().resize(size());
        self.terminal.autoresize()?;
        self.terminal.clear()
    }

    pub fn set_mouse(&mut self, mouse: Mouse) {
        let mouse = self.kind.mouse(mouse);
        self.pending_output.push_str(&modes::switch_mouse(self.mouse, mouse));
        self.mouse = mouse;
    }

    /// Copies text to the user's clipboard through the terminal (OSC 52).
    pub fn copy(&mut self, text: &str) -> CopyResult {
        if text.len() > COPY_BYTES_MAX {
            return CopyResult::TooLong;
        }
        // Base64 contains no control characters.
        self.pending_output.push_str(&format!("\x1b]52;c;{}\x07", STANDARD.encode(text)));
        CopyResult::Sent
    }

    /// Shows a desktop notification, if the terminal supports that.
    pub fn notify(&mut self, text: &str) {
        let text = neutralize_line(text).replace(';', ",");
        self.pending_output.push_str(&modes::notification(self.kind, &text));
    }

    /// Queries the terminal's background color (OSC 11). Any reply arrives as [`TerminalEvent::Background`].
    pub fn ask_background(&mut self) {
        self.pending_output.push_str(modes::background_query(self.kind));
    }

    /// Rings the bell once.
    pub fn ring_bell(&mut self) {
        self.pending_output.push('\x07');
    }

    /// Restores the terminal and suspends the process, as Ctrl+Z does in a shell. Takes over the terminal
    /// again when the process is continued. Fails if the terminal is gone by then.
    pub async fn suspend(&mut self, events: &mut TerminalEvents) -> io::Result<SuspendResult> {
        if !has_shell() {
            return Ok(SuspendResult::NoShell);
        }
        self.restore();
        stop(events).await?;
        self.take()?;
        Ok(SuspendResult::Continued)
    }

    /// Takes over the terminal again after another process stopped and continued this process. Fails if the terminal is
    /// gone.
    pub fn continued(&mut self) -> io::Result<()> {
        if let Some(before) = self.before.take() {
            self.take()?;
            // The current attributes were set by another program; the original ones are restored on exit.
            self.before = Some(before);
        }
        Ok(())
    }

    /// Restores the terminal for another program; [`Screen::take`] takes it over again.
    pub(crate) fn restore(&mut self) {
        let Some(before) = self.before.take() else { return };
        let pending_output = std::mem::take(&mut self.pending_output);
        self.writer.send(pending_output.as_bytes());
        self.writer.send(modes::leave(self.kind, self.mouse).as_bytes());
        self.writer.settle(EXIT_FLUSH_TIMEOUT);
        // Do not wait for pending output, which a blocked terminal would never accept.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
        panic_hook::flush();
    }

    /// Takes over the terminal. The next frame redraws everything.
    pub(crate) fn take(&mut self) -> io::Result<()> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        // Keep input that has already been typed.
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        panic_hook::capture();
        self.before = Some(before);
        io::stdout().flush()?;
        // The modes are written with the next frame, so that the alternate screen is never visible without one.
        self.pending_output = modes::enter(self.kind);
        let mouse = std::mem::take(&mut self.mouse);
        self.set_mouse(mouse);
        self.resized()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.restore();
    }
}

fn size() -> Size {
    let Ok(found) = tcgetwinsize(io::stdout()) else { return SIZE_DEFAULT };
    if found.ws_col == 0 || found.ws_row == 0 {
        return SIZE_DEFAULT;
    }
    Size::new(found.ws_col.min(SIZE_MAX), found.ws_row.min(SIZE_MAX))
}

/// Returns true if there may be a shell that can continue this process. In the session leader's process group, there is
/// none.
fn has_shell() -> bool {
    getsid(None).is_ok_and(|session| session != getpgrp())
}

/// Stops our whole process group and waits until it is continued.
pub(crate) async fn stop(events: &mut TerminalEvents) -> io::Result<()> {
    events.forget_continued();
    kill_current_process_group(Signal::STOP)?;
    events.continued().await;
    Ok(())
}
