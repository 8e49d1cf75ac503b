//! `/shell`: the person in the session's terminal, while the session goes on.
//!
//! Opening it may take a connection, and a connection may ask for a password: so it is one more thing that the
//! loop waits for, not a thing that the loop waits in. Rows of the conversation wait until the person is back.

use std::io;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use sysop_driver::people::{Terminal, TerminalOutput, TerminalSize, TerminalView};

use super::{Asked, Repl, Signals};
use crate::chat::console::Request;
use crate::chat::mirror::{Mirror, Window};
use crate::chat::screen::Owner;
use crate::chat::{BY, Form};
use crate::render::{Ink, row, terminal_size, terminal_width, words};

/// How many pieces of output that are there already are drawn together.
const PIECES_AT_ONCE: usize = 256;

/// The session's terminal, as far as the person has got into it.
pub(super) struct Shell {
    terminal: Arc<dyn Terminal>,
    state: State,
}

enum State {
    /// Nothing was asked of it yet.
    New,
    /// It is being opened.
    Opening(BoxFuture<'static, Result<TerminalView, String>>),
    /// It is there.
    Open { live: BoxStream<'static, TerminalOutput>, mirror: Box<Mirror> },
}

/// What came from it.
pub(super) enum Came {
    /// It is open, or cannot be opened.
    Opened(Result<TerminalView, String>),
    /// Output; none when it is closed for good.
    Output(Option<TerminalOutput>),
}

/// The next thing that comes from it; nothing ever where nobody is in it.
pub(super) async fn next_of(shell: &mut Option<Shell>) -> Came {
    match shell.as_mut().map(|shell| &mut shell.state) {
        Some(State::Opening(opening)) => Came::Opened(opening.await),
        Some(State::Open { live, .. }) => Came::Output(live.next().await),
        Some(State::New) | None => std::future::pending().await,
    }
}

/// The size of the person's terminal but for our own row.
fn size_within() -> TerminalSize {
    let (columns, rows) = terminal_size();
    let cells = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
    TerminalSize { columns: cells(columns), rows: cells(rows.saturating_sub(1).max(1)) }
}

impl Repl {
    /// `/shell`.
    pub(super) async fn open_shell(&mut self, signals: &mut Signals) -> anyhow::Result<()> {
        if self.session.terminal().is_none() {
            if self.transcript.facts().is_some_and(|facts| facts.host.contains(',')) {
                self.note("several hosts have no terminal in common; /host NAME begins a session on one")?;
                return Ok(());
            }
            return self.run_shell(signals).await;
        }
        if self.context.form == Form::Plain {
            self.note("a terminal cannot be drawn here; /keys types into it, /cmd runs a command")?;
            return Ok(());
        }
        Ok(self.want_shell()?)
    }

    /// The person wants to be in the session's terminal.
    pub(super) fn want_shell(&mut self) -> io::Result<()> {
        if let (Some(terminal), None) = (self.session.terminal(), &self.shell) {
            self.shell = Some(Shell { terminal, state: State::New });
        }
        Ok(())
    }

    /// Nobody is asked for anything and the person wants to be in the terminal: one step further.
    pub(super) fn enter_shell(&mut self) -> io::Result<()> {
        let Some(shell) = &mut self.shell else { return Ok(()) };
        match &mut shell.state {
            State::New => {
                let terminal = shell.terminal.clone();
                shell.state = State::Opening(async move { terminal.watch().await }.boxed());
                let host = self.transcript.facts().map(|facts| facts.host.clone()).unwrap_or_default();
                self.note(&format!(
                    "the terminal of {}: Ctrl+] comes back here; Ctrl+C gives up while it opens",
                    words::short_place(&host)
                ))
            }
            State::Opening(_) => Ok(()),
            State::Open { mirror, .. } => {
                self.screen.give(Owner::Terminal)?;
                mirror.forget();
                shell.terminal.resize(size_within());
                self.window = Some(Window::open(Box::new(io::stdout()))?);
                self.asked = Asked::Terminal;
                self.console.request(Request::Terminal(shell.terminal.clone()));
                self.draw_shell()
            }
        }
    }

    pub(super) fn came(&mut self, came: Came) -> io::Result<()> {
        let Some(shell) = &mut self.shell else { return Ok(()) };
        let output = match came {
            Came::Opened(Ok(TerminalView { size, picture, live })) => {
                let mirror = Box::new(Mirror::new(size, &picture));
                shell.state = State::Open { live, mirror };
                return Ok(());
            }
            Came::Opened(Err(why)) => {
                self.shell = None;
                return self.view.say(&why, Ink::Bad, &mut self.screen);
            }
            Came::Output(output) => output,
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

    /// The person's keys go nowhere any more: they left, or were called away to answer a question.
    pub(super) fn left_shell(&mut self, called_away: bool) {
        if !called_away && let Some(shell) = self.shell.take() {
            shell.terminal.release(BY);
        }
    }

    /// Ctrl+C while the terminal is being opened.
    pub(super) fn give_up_shell(&mut self) -> bool {
        self.asked == Asked::Nothing && self.shell.take().is_some()
    }

    pub(super) fn resized(&mut self) -> io::Result<()> {
        self.screen.resize(terminal_width());
        if let (Some(shell), Some(_)) = (&mut self.shell, &self.window) {
            shell.terminal.resize(size_within());
            if let State::Open { mirror, .. } = &mut shell.state {
                mirror.forget();
            }
        }
        self.draw_shell()
    }

    fn draw_shell(&mut self) -> io::Result<()> {
        let (Some(shell), Some(window)) = (&mut self.shell, &mut self.window) else { return Ok(()) };
        let State::Open { mirror, .. } = &mut shell.state else { return Ok(()) };
        let host = self.transcript.facts().map(|facts| words::short_place(&facts.host)).unwrap_or_default();
        let mut status = format!(" {host} · Ctrl+] comes back");
        if let Some(holder) = self.transcript.holder().filter(|holder| *holder != BY) {
            status.push_str(&format!(" · {holder} types here too"));
        }
        let frame = mirror.frame(terminal_size(), row(&status, Ink::Plain));
        window.draw(&frame, mirror.modes())
    }

    /// Gives the terminal to a shell of this machine until that ends.
    async fn run_shell(&mut self, signals: &mut Signals) -> anyhow::Result<()> {
        let mut command = (self.context.shell)();
        if let Some(quiet) = &self.quiet {
            quiet.lift();
        }
        let ended = tokio::task::spawn_blocking(move || command.status()).await?;
        if let Some(quiet) = &self.quiet {
            quiet.apply();
        }
        // What was pressed in the shell was for the shell.
        while signals.interrupt.recv().now_or_never().is_some() {}
        while signals.quit.recv().now_or_never().is_some() {}
        if let Err(error) = ended {
            self.view.say(&format!("the shell did not start: {error}"), Ink::Bad, &mut self.screen)?;
        }
        Ok(())
    }
}
