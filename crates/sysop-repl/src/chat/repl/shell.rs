//! `/shell`: connects the user to the session's terminal while the session continues.
//!
//! Opening the terminal may need a connection, and the connection may need a password. So the main loop treats the
//! terminal as one more event source instead of blocking on it. Rows of the conversation wait until the user returns.

use std::io;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use sysop_driver::prompter::{Terminal, TerminalOutput, TerminalSize, TerminalView};
use sysop_term::StyleRole;

use super::{ActiveRead, Repl, ReplSignals};
use crate::chat::inline_screen::TerminalOwner;
use crate::chat::input_reader::ReadRequest;
use crate::chat::terminal_mirror::{AlternateScreen, TerminalMirror};
use crate::chat::{BY, ReplLayout};
use crate::render::{row, terminal_size, terminal_width, words};

/// Maximum number of pending output chunks to draw together.
const PIECES_AT_ONCE: usize = 256;

/// State of the user's connection to the session's terminal.
pub(super) struct AttachedShell {
    terminal: Arc<dyn Terminal>,
    state: State,
}

enum State {
    /// The terminal has not been opened yet.
    New,
    Opening(BoxFuture<'static, Result<TerminalView, String>>),
    Open {
        live: BoxStream<'static, TerminalOutput>,
        mirror: Box<TerminalMirror>,
    },
}

/// Event of the session's terminal.
pub(super) enum ShellEvent {
    /// Opening succeeded or failed.
    Opened(Result<TerminalView, String>),
    /// Output, or `None` once the terminal has closed for good.
    Output(Option<TerminalOutput>),
}

/// Returns the next event of the session's terminal. Never completes if there is no connection.
pub(super) async fn next_shell_event(shell: &mut Option<AttachedShell>) -> ShellEvent {
    match shell.as_mut().map(|shell| &mut shell.state) {
        Some(State::Opening(opening)) => ShellEvent::Opened(opening.await),
        Some(State::Open { live, .. }) => ShellEvent::Output(live.next().await),
        Some(State::New) | None => std::future::pending().await,
    }
}

/// Returns the size of the user's terminal minus sysop's status row.
fn size_within() -> TerminalSize {
    let (columns, rows) = terminal_size();
    let cells = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
    TerminalSize { columns: cells(columns), rows: cells(rows.saturating_sub(1).max(1)) }
}

impl Repl {
    /// Handles `/shell`.
    pub(super) async fn open_shell(&mut self, signals: &mut ReplSignals) -> anyhow::Result<()> {
        if self.session.terminal().is_none() {
            if self.transcript.session_info().is_some_and(|facts| facts.host.contains(',')) {
                self.note("sessions on several hosts have no terminal; use /host NAME to start one on a single host")?;
                return Ok(());
            }
            return self.run_local_shell(signals).await;
        }
        if self.context.form == ReplLayout::Plain {
            self.note("cannot show a terminal here; use /keys or /cmd")?;
            return Ok(());
        }
        Ok(self.request_shell()?)
    }

    /// Requests the session's terminal, which is then opened by [`Self::enter_shell`].
    pub(super) fn request_shell(&mut self) -> io::Result<()> {
        if let (Some(terminal), None) = (self.session.terminal(), &self.shell) {
            self.shell = Some(AttachedShell { terminal, state: State::New });
        }
        Ok(())
    }

    /// Opens the session's terminal, or attaches the user's keys. Called once nothing else reads input.
    pub(super) fn enter_shell(&mut self) -> io::Result<()> {
        let Some(shell) = &mut self.shell else { return Ok(()) };
        match &mut shell.state {
            State::New => {
                let terminal = shell.terminal.clone();
                shell.state = State::Opening(async move { terminal.watch().await }.boxed());
                let host = self.transcript.session_info().map(|facts| facts.host.clone()).unwrap_or_default();
                self.note(&format!("terminal {}: Ctrl+] to return, Ctrl+C to cancel", words::on_place(&host)))
            }
            State::Opening(_) => Ok(()),
            State::Open { mirror, .. } => {
                self.screen.set_owner(TerminalOwner::Terminal)?;
                mirror.invalidate();
                shell.terminal.resize(size_within());
                self.alternate_screen = Some(AlternateScreen::open(Box::new(io::stdout()))?);
                self.active_read = ActiveRead::Terminal;
                self.console.request(ReadRequest::Terminal(shell.terminal.clone()));
                self.draw_shell()
            }
        }
    }

    pub(super) fn handle_shell_event(&mut self, came: ShellEvent) -> io::Result<()> {
        let Some(shell) = &mut self.shell else { return Ok(()) };
        let output = match came {
            ShellEvent::Opened(Ok(TerminalView { size, picture, live })) => {
                let mirror = Box::new(TerminalMirror::new(size, &picture));
                shell.state = State::Open { live, mirror };
                return Ok(());
            }
            ShellEvent::Opened(Err(why)) => {
                self.shell = None;
                return self.view.say(&why, StyleRole::Bad, &mut self.screen);
            }
            ShellEvent::Output(output) => output,
        };
        let State::Open { live, mirror } = &mut shell.state else { return Ok(()) };
        let mut next = Some(output);
        for _ in 0..PIECES_AT_ONCE {
            match next {
                Some(Some(TerminalOutput::Bytes(bytes))) => mirror.feed(&bytes),
                Some(Some(TerminalOutput::Redrawn(bytes))) => mirror.redraw(&bytes),
                Some(Some(TerminalOutput::Resized(size))) => mirror.resize(size),
                Some(Some(TerminalOutput::Ended(why))) => return self.shell_ended(&why),
                Some(None) => return self.shell_ended("the terminal was closed"),
                None => break,
            }
            next = live.next().now_or_never();
        }
        self.draw_shell()
    }

    fn shell_ended(&mut self, why: &str) -> io::Result<()> {
        if let Some(shell) = self.shell.take() {
            shell.terminal.release(BY);
        }
        self.note(why)
    }

    /// Called once the user's keys no longer go to the session's terminal. Returns control and closes the
    /// connection, unless the user was only called away to answer a question.
    pub(super) fn left_shell(&mut self, called_away: bool) {
        if !called_away && let Some(shell) = self.shell.take() {
            shell.terminal.release(BY);
        }
    }

    /// Handles Ctrl+C by no longer opening the session's terminal. Returns false if it is not being opened.
    pub(super) fn cancel_shell(&mut self) -> bool {
        self.active_read == ActiveRead::None && self.shell.take().is_some()
    }

    pub(super) fn resized(&mut self) -> io::Result<()> {
        self.screen.resize(terminal_width())?;
        if let (Some(shell), Some(_)) = (&mut self.shell, &self.alternate_screen) {
            shell.terminal.resize(size_within());
            if let State::Open { mirror, .. } = &mut shell.state {
                mirror.invalidate();
            }
        }
        self.draw_shell()
    }

    fn draw_shell(&mut self) -> io::Result<()> {
        let (Some(shell), Some(alternate_screen)) = (&mut self.shell, &mut self.alternate_screen) else {
            return Ok(());
        };
        let State::Open { mirror, .. } = &mut shell.state else { return Ok(()) };
        let host =
            self.transcript.session_info().map(|facts| words::host_summary(&facts.host)).unwrap_or_default();
        let mut status = format!(" {host} · Ctrl+] to return");
        if let Some(holder) = self.transcript.holder().filter(|holder| *holder != BY) {
            status.push_str(&format!(" · {holder} is typing"));
        }
        let frame = mirror.frame(terminal_size(), &row(&status, StyleRole::Text));
        alternate_screen.draw(&frame, mirror.modes())
    }

    /// Hands the terminal to a local shell until the shell exits.
    async fn run_local_shell(&mut self, signals: &mut ReplSignals) -> anyhow::Result<()> {
        let mut command = (self.context.shell)();
        if let Some(no_echo) = &self.no_echo {
            no_echo.restore();
        }
        let ended = tokio::task::spawn_blocking(move || command.status()).await?;
        if let Some(no_echo) = &self.no_echo {
            no_echo.apply();
        }
        // Interrupts received while the shell was running were meant for the shell.
        while signals.interrupt.recv().now_or_never().is_some() {}
        while signals.quit.recv().now_or_never().is_some() {}
        if let Err(error) = ended {
            self.view.say(&format!("cannot start the shell: {error}"), StyleRole::Bad, &mut self.screen)?;
        }
        Ok(())
    }
}
