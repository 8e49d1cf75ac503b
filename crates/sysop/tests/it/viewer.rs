//! A user at the TUI: the binary on a PTY, and the screen that its output produces.

use std::sync::Arc;

use alacritty_terminal::Term;
use alacritty_terminal::event::{Event, EventListener};
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::Flags;
use alacritty_terminal::term::{Config, TermMode};
use alacritty_terminal::vte::ansi::{Color, Processor};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, tcgetattr};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::World;
use crate::support::DEADLINE;

/// Columns and rows.
#[derive(Clone, Copy)]
struct Size(u16, u16);

impl Dimensions for Size {
    fn total_lines(&self) -> usize {
        self.screen_lines()
    }

    fn screen_lines(&self) -> usize {
        usize::from(self.1)
    }

    fn columns(&self) -> usize {
        usize::from(self.0)
    }
}

/// Replies of the terminal to queries.
#[derive(Clone, Default)]
struct TerminalReplies(Arc<Mutex<String>>);

impl EventListener for TerminalReplies {
    fn send_event(&self, event: Event) {
        if let Event::PtyWrite(answer) = event {
            self.0.lock().push_str(&answer);
        }
    }
}

/// A user at a terminal.
pub(crate) struct Viewer {
    pty: pty_process::Pty,
    child: tokio::process::Child,
    term: Term<TerminalReplies>,
    answers: TerminalReplies,
    parser: Processor,
    /// Raw output of the program.
    pub(crate) raw: Vec<u8>,
}

impl Viewer {
    /// Starts sysop in a terminal of 100 columns and 30 rows.
    pub(crate) fn sits_down(world: &World, arguments: &[&str]) -> Self {
        Self::starts(world, env!("CARGO_BIN_EXE_sysop"), arguments)
    }

    /// Starts a shell with job control; `$SYSOP` is the path of sysop.
    pub(crate) fn in_a_shell(world: &World) -> Self {
        Self::starts(world, "bash", &["--norc", "--noprofile", "-i"])
    }

    fn starts(world: &World, program: &str, arguments: &[&str]) -> Self {
        let size = Size(100, 30);
        let (pty, pts) = pty_process::open().unwrap();
        pty.resize(pty_process::Size::new(size.1, size.0)).unwrap();
        let child = pty_process::Command::new(program)
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", world.home())
            .env("TERM", "xterm-256color")
            .env("PS1", "shell> ")
            .env("SYSOP", env!("CARGO_BIN_EXE_sysop"))
            .envs(world.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(world.work())
            .kill_on_drop(true)
            .spawn(pts)
            .unwrap();
        let answers = TerminalReplies::default();
        let term = Term::new(Config::default(), &size, answers.clone());
        Self { pty, child, term, answers, parser: Processor::new(), raw: Vec::new() }
    }

    async fn reads(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let Ok(count @ 1..) = self.pty.read(&mut bytes).await else { return false };
        self.raw.extend_from_slice(&bytes[..count]);
        self.parser.advance(&mut self.term, &bytes[..count]);
        let answer = std::mem::take(&mut *self.answers.0.lock());
        // A program that has ended needs no reply.
        let _ = self.pty.write_all(answer.as_bytes()).await;
        true
    }

    /// The screen as text.
    pub(crate) fn screen(&self) -> String {
        let grid = self.term.grid();
        let rows = (0..self.term.screen_lines()).map(|row| {
            let line = &grid[Line(i32::try_from(row).unwrap())];
            let cells = (0..self.term.columns()).map(|column| &line[Column(column)]);
            let shown = cells.filter(|cell| !cell.flags.contains(Flags::WIDE_CHAR_SPACER));
            shown.map(|cell| cell.c).collect::<String>().trim_end().to_owned()
        });
        rows.collect::<Vec<_>>().join("\n")
    }

    /// Foreground color of the first character of the text on the screen.
    pub(crate) fn color_of(&self, text: &str) -> Option<Color> {
        let screen = self.screen();
        let (row, column) =
            screen.lines().enumerate().find_map(|(row, line)| Some((row, line.find(text)?)))?;
        let column = screen.lines().nth(row)?[..column].chars().count();
        Some(self.term.grid()[Line(i32::try_from(row).unwrap())][Column(column)].fg)
    }

    /// Waits until the screen matches, and returns it.
    pub(crate) async fn sees_that(&mut self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let waiting = async {
            loop {
                let screen = self.screen();
                if wanted(&screen) {
                    return Some(screen);
                }
                if !self.reads().await {
                    return None;
                }
            }
        };
        match tokio::time::timeout(DEADLINE, waiting).await {
            Ok(Some(screen)) => screen,
            Ok(None) | Err(_) => panic!("{what} did not appear; seen:\n{}", self.screen()),
        }
    }

    /// Waits until the text is on the screen.
    pub(crate) async fn sees(&mut self, text: &str) -> String {
        self.sees_that(text, |screen| screen.contains(text)).await
    }

    /// Waits until the program has written these bytes.
    pub(crate) async fn hears(&mut self, sequence: &str) {
        let waiting = async {
            while !String::from_utf8_lossy(&self.raw).contains(sequence) {
                assert!(self.reads().await, "the program ended without {sequence:?}");
            }
        };
        tokio::time::timeout(DEADLINE, waiting).await.expect("the bytes come");
    }

    /// Waits until a proposal accepts keys, and returns the screen.
    pub(crate) async fn reads_the_proposal(&mut self) -> String {
        self.sees("Enter run").await
    }

    pub(crate) async fn types(&mut self, text: &str) {
        self.pty.write_all(text.as_bytes()).await.unwrap();
    }

    pub(crate) fn resizes(&mut self, columns: u16, rows: u16) {
        self.term.resize(Size(columns, rows));
        self.pty.resize(pty_process::Size::new(rows, columns)).unwrap();
    }

    pub(crate) fn signals(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id().unwrap()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Modes of the terminal, as the program set them.
    pub(crate) fn modes(&self) -> TermMode {
        *self.term.mode()
    }

    /// Returns true if the terminal's modes are restored.
    pub(crate) fn is_given_back(&self) -> bool {
        let mode = self.term.mode();
        let echo = LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        let echoes = tcgetattr(&self.pty).unwrap().local_modes.contains(echo);
        let taken = TermMode::ALT_SCREEN | TermMode::BRACKETED_PASTE | TermMode::MOUSE_MODE;
        echoes && !mode.intersects(taken) && mode.contains(TermMode::SHOW_CURSOR)
    }

    /// Waits for the end; returns the exit code.
    pub(crate) async fn ends(&mut self) -> i32 {
        let ended = async {
            while self.reads().await {}
            self.child.wait().await.unwrap().code().unwrap_or(-1)
        };
        tokio::time::timeout(DEADLINE, ended).await.expect("it ends")
    }
}
