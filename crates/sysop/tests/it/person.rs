//! A user of the binary at a real terminal.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::World;
use crate::support::DEADLINE;

/// A user at a terminal.
pub(crate) struct Person {
    read: pty_process::OwnedReadPty,
    write: pty_process::OwnedWritePty,
    child: tokio::process::Child,
    pub(crate) seen: String,
    /// Bytes of `seen` that were already checked.
    at: usize,
}

impl Person {
    pub(crate) fn sits_down(world: &World, arguments: &[&str]) -> Self {
        Self::starts(world, env!("CARGO_BIN_EXE_sysop"), arguments)
    }

    /// Starts any program, in the same environment.
    pub(crate) fn starts(world: &World, program: &str, arguments: &[&str]) -> Self {
        let (pty, pts) = pty_process::open().unwrap();
        pty.resize(pty_process::Size::new(30, 100)).unwrap();
        let child = pty_process::Command::new(program)
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", world.home())
            .env("TERM", "xterm-256color")
            .envs(world.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(world.work())
            .kill_on_drop(true)
            .spawn(pts)
            .unwrap();
        let (read, write) = pty.into_split();
        Self { read, write, child, seen: String::new(), at: 0 }
    }

    /// Waits until the text appears after the text seen before.
    pub(crate) async fn sees(&mut self, text: &str) {
        let waiting = async {
            loop {
                if let Some(found) = self.seen[self.at..].find(text) {
                    self.at += found + text.len();
                    return true;
                }
                if !self.reads().await {
                    return false;
                }
            }
        };
        let came = tokio::time::timeout(DEADLINE, waiting).await;
        assert_eq!(came, Ok(true), "{text:?} did not appear; seen: {}", self.seen);
    }

    /// Reads more output without control sequences; answers queries as a terminal does.
    async fn reads(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let Ok(count @ 1..) = self.read.read(&mut bytes).await else { return false };
        let text = String::from_utf8_lossy(&bytes[..count]);
        for _ in text.matches("\u{1b}[6n") {
            self.write.write_all(b"\x1b[1;1R").await.unwrap();
        }
        self.seen.push_str(&sysop_core::text::strip_controls(&text));
        true
    }

    pub(crate) async fn types(&mut self, text: &str) {
        self.write.write_all(text.as_bytes()).await.unwrap();
    }

    /// Answers the question on the screen once it accepts input.
    pub(crate) async fn answers(&mut self, text: &str) {
        self.sees("› ").await;
        self.types(&format!("{text}\r")).await;
    }

    /// Kills the process, as a power failure would.
    pub(crate) async fn dies(mut self) {
        self.child.kill().await.unwrap();
    }

    pub(crate) async fn leaves(mut self) -> (i32, String) {
        let ended = async {
            while self.reads().await {}
            self.child.wait().await.unwrap().code().unwrap_or(-1)
        };
        let code = tokio::time::timeout(DEADLINE, ended).await.expect("it ends");
        (code, self.seen)
    }
}

/// Runs a future on a new runtime.
pub(crate) fn at_a_terminal<T>(what: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(what)
}
