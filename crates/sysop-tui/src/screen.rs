//! The person's terminal: taken, given back whatever happens, and lent to editors and pagers.
//!
//! Nothing that waits for the terminal is on the way of the front end: keys are read when they are there ([`TerminalEvents`]),
//! frames are written by a thread that alone waits for a terminal which takes none. The terminal is never asked
//! anything. Text gets to it through the cells of a frame only, and no cell gets there with a control character.

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
use sysop_term::grid::Mouse;

pub use self::backend::Hyperlink;
pub use self::events::{ProcessSignal, TerminalEvent, TerminalEvents};
pub use self::modes::TerminalKind;

use self::backend::CellBackend;
use self::writer::ScreenWriter;

/// How long a terminal that takes nothing holds up who leaves it.
const EXIT_FLUSH_TIMEOUT: Duration = Duration::from_millis(500);
/// The size of a terminal that does not know its own.
const SIZE_DEFAULT: Size = Size::new(80, 24);
/// The most cells of a row or a column that are drawn; more is a mistake of the terminal.
const SIZE_MAX: u16 = 1000;
/// The most bytes that are copied: more than OSC 52 carries in the smallest of the limits that are known (hterm's).
pub const COPY_BYTES_MAX: usize = 74_994;

/// The person's terminal, with the front end on it. Gives it back when it is dropped.
pub struct Screen {
    terminal: Terminal<CellBackend>,
    writer: ScreenWriter,
    kind: TerminalKind,
    mouse: Mouse,
    /// Of the mode before, while the front end is on the terminal.
    before: Option<Termios>,
    /// What is to be written before the next frame.
    pending_output: String,
    links: Vec<Hyperlink>,
}

/// What came of a wish to be suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuspendResult {
    /// It was stopped, and goes on.
    Continued,
    /// There is no shell to go back to.
    NoShell,
}

/// What came of a wish to copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyResult {
    /// The terminal was told; whether it allows it cannot be known.
    Sent,
    /// It is longer than [`COPY_BYTES_MAX`].
    TooLong,
}

impl Screen {
    /// Takes the terminal of standard output.
    ///
    /// # Errors
    /// Where standard output or standard input is no terminal, or no thread can be started.
    pub fn enter(kind: TerminalKind) -> io::Result<Self> {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "standard input and output must be a terminal",
            ));
        }
        let out: OwnedFd = io::stdout().as_fd().try_clone_to_owned()?;
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

    /// How large it is.
    pub fn size(&self) -> Size {
        self.terminal.backend().size_now()
    }

    /// Whether the last frame has been written: what is drawn before is drawn when this is so. A terminal that takes
    /// nothing is never ready, and the front end goes on without it.
    pub fn is_ready(&self) -> bool {
        self.before.is_some() && self.writer.is_idle()
    }

    /// Waits until [`Screen::is_ready`]. May be dropped at any time.
    pub async fn ready(&self) {
        if self.before.is_none() {
            std::future::pending::<()>().await;
        }
        self.writer.idle().await;
    }

    /// Draws a frame, and gives it to the terminal. Nothing happens while it is not ready.
    ///
    /// # Errors
    /// Where the terminal is gone.
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
        let bytes = [self.pending_output.as_str(), begins, drawn, ends].concat();
        self.writer.send(bytes.as_bytes());
        self.pending_output.clear();
        self.terminal.backend_mut().clear_output();
        Ok(())
    }

    /// Takes note that the size has changed, or that somebody else has drawn on it: the next frame is drawn whole.
    ///
    /// # Errors
    /// Never in practice: all is in memory.
    pub fn resized(&mut self) -> io::Result<()> {
        self.terminal.backend_mut().resize(size());
        self.terminal.autoresize()?;
        self.terminal.clear()
    }

    /// What the mouse is to tell from now on.
    pub fn set_mouse(&mut self, mouse: Mouse) {
        self.pending_output.push_str(&modes::switch_mouse(self.mouse, mouse));
        self.mouse = mouse;
    }

    /// Puts a text into the person's clipboard, with the terminal's help (OSC 52).
    pub fn copy(&mut self, text: &str) -> CopyResult {
        if text.len() > COPY_BYTES_MAX {
            return CopyResult::TooLong;
        }
        // Base64 holds nothing that a terminal would obey.
        self.pending_output.push_str(&format!("\x1b]52;c;{}\x07", STANDARD.encode(text)));
        CopyResult::Sent
    }

    /// Rings once, for what needs the person.
    pub fn ring_bell(&mut self) {
        self.pending_output.push('\x07');
    }

    /// Gives the terminal back and stops, as Ctrl+Z does; takes it again when it is continued.
    ///
    /// # Errors
    /// Where the terminal is gone meanwhile.
    pub async fn suspend(&mut self, events: &mut TerminalEvents) -> io::Result<SuspendResult> {
        if !has_shell() {
            return Ok(SuspendResult::NoShell);
        }
        self.restore();
        stop(events).await?;
        self.take()?;
        Ok(SuspendResult::Continued)
    }

    /// Takes the terminal again after somebody else stopped and continued this process.
    ///
    /// # Errors
    /// Where the terminal is gone meanwhile.
    pub fn continued(&mut self) -> io::Result<()> {
        if let Some(before) = self.before.take() {
            self.take()?;
            // What is there now is the work of whoever had it meanwhile; at the end it shall be as it was at first.
            self.before = Some(before);
        }
        Ok(())
    }

    /// Gives the terminal to another program; [`Screen::take`] takes it again.
    pub(crate) fn restore(&mut self) {
        let Some(before) = self.before.take() else { return };
        let pending_output = std::mem::take(&mut self.pending_output);
        self.writer.send(pending_output.as_bytes());
        self.writer.send(modes::leave(self.kind, self.mouse).as_bytes());
        self.writer.settle(EXIT_FLUSH_TIMEOUT);
        // Not after what waits to be written: a terminal that takes nothing would never get there.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
        panic_hook::flush();
    }

    /// Takes the terminal, and draws all at the next frame.
    pub(crate) fn take(&mut self) -> io::Result<()> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        // What was typed already is kept.
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        panic_hook::capture();
        self.before = Some(before);
        io::stdout().flush()?;
        // What was to be switched while somebody else had it is switched here. All goes out with the next frame, so
        // that the other screen is never seen without one.
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

/// The size of the terminal now.
fn size() -> Size {
    let Ok(found) = tcgetwinsize(io::stdout()) else { return SIZE_DEFAULT };
    if found.ws_col == 0 || found.ws_row == 0 {
        return SIZE_DEFAULT;
    }
    Size::new(found.ws_col.min(SIZE_MAX), found.ws_row.min(SIZE_MAX))
}

/// Whether there may be a shell that would continue us: nobody would if we are of the group that leads the session.
fn has_shell() -> bool {
    getsid(None).is_ok_and(|session| session != getpgrp())
}

/// Stops all that was started with us, and waits until it is continued.
pub(crate) async fn stop(events: &mut TerminalEvents) -> io::Result<()> {
    events.forget_continued();
    kill_current_process_group(Signal::STOP)?;
    events.continued().await;
    Ok(())
}
