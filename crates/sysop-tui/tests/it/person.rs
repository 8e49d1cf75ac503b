//! A user at a terminal: a PTY, and a terminal emulator for its output.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use alacritty_terminal::Term;
use alacritty_terminal::event::{Event, EventListener};
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::{Config, TermMode};
use alacritty_terminal::vte::ansi::Processor;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, tcgetattr};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::frontend::{DRAFTS, ROLE};

/// Deadline for anything that should happen at once, generous for busy machines.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
/// The test that acts as the front end in a child process.
const FACE: &str = "terminal::the_screen_opens_and_closes";

/// Records replies of the emulator to queries, which the front end must never send.
#[derive(Clone, Default)]
struct Questions(Arc<Mutex<Vec<String>>>);

impl EventListener for Questions {
    fn send_event(&self, event: Event) {
        if let Event::PtyWrite(answer) = event {
            self.0.lock().push(answer);
        }
    }
}

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
        usize::from(self.0).max(2)
    }
}

pub(crate) struct Person {
    pty: pty_process::Pty,
    child: tokio::process::Child,
    term: Term<Questions>,
    parser: Processor,
    questions: Questions,
    pub(crate) raw: Vec<u8>,
    pub(crate) home: TempDir,
}

/// State of a terminal that no program has changed.
pub(crate) const UNTOUCHED: &str = "main screen, cursor, wraps, echoes";

impl Person {
    /// Starts the front end in a terminal of 60 by 12 cells.
    pub(crate) fn opens() -> Self {
        Self::opens_after("")
    }

    /// Starts the front end in a terminal in which `typed` was already entered.
    pub(crate) fn opens_after(typed: &str) -> Self {
        let (program, arguments) = Self::face();
        Self::starts(&program, &arguments, typed)
    }

    /// Starts a shell with job control; returns it with the command line of the front end.
    pub(crate) fn in_a_shell() -> (Self, String) {
        let (program, arguments) = Self::face();
        let person = Self::starts("bash", &["--norc".to_owned(), "-i".to_owned()], "");
        (person, format!("'{program}' {}\r", arguments.join(" ")))
    }

    fn face() -> (String, Vec<String>) {
        let program = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
        (program, ["--exact", FACE, "--nocapture", "-q"].map(str::to_owned).to_vec())
    }

    fn starts(program: &str, arguments: &[String], typed: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let (pty, pts) = pty_process::open().unwrap();
        pty.resize(pty_process::Size::new(12, 60)).unwrap();
        if !typed.is_empty() {
            rustix::io::write(&pty, typed.as_bytes()).unwrap();
        }
        let child = pty_process::Command::new(program)
            .args(arguments)
            .env(ROLE, "yes")
            .env(DRAFTS, home.path())
            .env("PS1", "shell> ")
            .env("TERM", "xterm-256color")
            .env_remove("LESS")
            .current_dir(home.path())
            .kill_on_drop(true)
            .spawn(pts)
            .unwrap();
        let questions = Questions::default();
        let config = Config { kitty_keyboard: true, ..Config::default() };
        let term = Term::new(config, &Size(60, 12), questions.clone());
        Self { pty, child, term, parser: Processor::new(), questions, raw: Vec::new(), home }
    }

    /// Reads more output. Returns false at the end of the output.
    async fn reads(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let Ok(count @ 1..) = self.pty.read(&mut bytes).await else { return false };
        self.raw.extend_from_slice(&bytes[..count]);
        self.parser.advance(&mut self.term, &bytes[..count]);
        true
    }

    pub(crate) fn screen(&self) -> String {
        let grid = self.term.grid();
        let rows = (0..self.term.screen_lines()).map(|row| {
            let cells = &grid[Line(i32::try_from(row).unwrap())];
            let row: String = (0..self.term.columns()).map(|column| cells[Column(column)].c).collect();
            row.trim_end().to_owned()
        });
        rows.collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    /// State of the terminal modes.
    pub(crate) fn state(&self) -> String {
        let mode = *self.term.mode();
        let echo = LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        let echoes = tcgetattr(&self.pty).unwrap().local_modes.contains(echo);
        let mut state =
            if mode.contains(TermMode::ALT_SCREEN) { "other screen" } else { "main screen" }.to_owned();
        for (is, what) in [
            (mode.contains(TermMode::SHOW_CURSOR), "cursor"),
            (mode.contains(TermMode::LINE_WRAP), "wraps"),
            (echoes, "echoes"),
            (mode.contains(TermMode::BRACKETED_PASTE), "marks pastes"),
            (mode.contains(TermMode::FOCUS_IN_OUT), "tells focus"),
            (mode.intersects(TermMode::MOUSE_MODE), "tells clicks"),
            (mode.contains(TermMode::DISAMBIGUATE_ESC_CODES), "tells keys apart"),
        ] {
            if is {
                state.push_str(", ");
                state.push_str(what);
            }
        }
        state
    }

    /// Waits until the screen contains the text.
    pub(crate) async fn sees(&mut self, text: &str) {
        let waiting = async {
            while !self.screen().contains(text) {
                if !self.reads().await {
                    return false;
                }
            }
            true
        };
        let came = tokio::time::timeout(DEADLINE, waiting).await;
        assert_eq!(came, Ok(true), "{text:?} did not come; seen:\n{}", self.screen());
    }

    pub(crate) async fn types(&mut self, text: &str) {
        self.pty.write_all(text.as_bytes()).await.unwrap();
    }

    pub(crate) fn resizes(&mut self, columns: u16, rows: u16) {
        self.term.resize(Size(columns, rows));
        self.pty.resize(pty_process::Size::new(rows, columns)).unwrap();
    }

    pub(crate) fn signals(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// The master side of the PTY.
    pub(crate) fn terminal(&self) -> &pty_process::Pty {
        &self.pty
    }

    /// Clears the screen, as if another program had used the terminal.
    pub(crate) fn forgets(&mut self) {
        self.parser.advance(&mut self.term, b"\x1b[2J\x1b[H");
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id().unwrap()).unwrap()).unwrap()
    }

    /// Waits for the process to exit and reads all output.
    pub(crate) async fn ends(&mut self) -> ExitStatus {
        let ended = async {
            while self.reads().await {}
            self.child.wait().await.unwrap()
        };
        let status = tokio::time::timeout(DEADLINE, ended).await.expect("it ends");
        assert_eq!(*self.questions.0.lock(), Vec::<String>::new(), "the terminal was asked something");
        status
    }

    /// Waits for the process to exit without reading its output.
    pub(crate) async fn ends_unread(&mut self) -> ExitStatus {
        tokio::time::timeout(DEADLINE, self.child.wait()).await.expect("it ends").unwrap()
    }

    /// Closes the terminal and waits for the process to exit.
    pub(crate) async fn hangs_up(mut self) -> ExitStatus {
        drop(self.pty);
        let status = tokio::time::timeout(DEADLINE, self.child.wait()).await.expect("it ends").unwrap();
        assert_eq!(status.signal(), None, "it was ended by a signal");
        status
    }
}

pub(crate) fn at_a_terminal<T>(what: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(what)
}
