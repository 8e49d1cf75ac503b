//! A command with bytes for its standard input, whose output is taken as it comes.

use std::collections::VecDeque;
use std::sync::Arc;

use super::connection::SshConnection;
use super::error::SshError;
use super::exec::{ENVIRONMENT, RunningProgram};
use super::process_tree::RemoteProcessTree;
use super::running_script::{END, RunningScript, START, ScriptEnd, nonce};
use super::script::RemoteScript;
use super::session::PendingOpen;

/// Runs `$1` with bash where there is one; its input is the script's.
const SHELL: &str = r#"s=sh; command -v bash >/dev/null 2>&1 && s="bash --norc"; (exec $s -c -- "$1"); e=$?"#;

/// A running command. Dropped before its end, it is ended with all that it started.
#[derive(Debug)]
pub struct PipedCommand {
    connection: SshConnection,
    program: RunningProgram,
    waiting: VecDeque<Vec<u8>>,
    is_over: bool,
}

/// What comes of a piped command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PipedEvent {
    /// More of its standard output.
    Output(Vec<u8>),
    /// Its end; the last event.
    Ended {
        /// As the shell tells it: 128 and more for a signal.
        status: i32,
        /// The beginning of what it said on standard error.
        errors: String,
    },
}

impl SshConnection {
    /// Starts a command in the home there, with these bytes for its standard input.
    pub async fn pipe(&self, command: &str, input: Vec<u8>) -> Result<PipedCommand, SshError> {
        let nonce = nonce();
        let mark = format!("SYSOP_CALL_{:016x}", rand::random::<u64>());
        let text = format!(r#"export "$1=1"; shift; {ENVIRONMENT}; {START}; {SHELL}; {END}"#);
        let arguments = vec![mark.clone(), command.to_owned()];
        let script = RemoteScript { text, arguments, input: Some(input) };
        let running = RunningScript::start(&self.0, script, &nonce, &PendingOpen::default()).await?;
        let tree = RemoteProcessTree { inner: Arc::clone(&self.0), mark, leader: None };
        let program = RunningProgram { running, tree, is_over: false };
        Ok(PipedCommand { connection: self.clone(), program, waiting: VecDeque::new(), is_over: false })
    }
}

impl PipedCommand {
    /// What comes next; none after the end. May be dropped and called again.
    pub async fn next(&mut self) -> Option<Result<PipedEvent, SshError>> {
        loop {
            if let Some(output) = self.waiting.pop_front() {
                return Some(Ok(PipedEvent::Output(output)));
            }
            if self.is_over {
                return None;
            }
            if self.program.running.is_over() {
                return Some(self.end().await);
            }
            let waiting = &mut self.waiting;
            self.program.running.read_next(&mut |bytes: &[u8]| waiting.push_back(bytes.to_vec())).await;
        }
    }

    async fn end(&mut self) -> Result<PipedEvent, SshError> {
        let over = self.program.running.conclude(&self.connection.0).await;
        self.is_over = true;
        self.program.is_over = true;
        match over {
            ScriptEnd::Exited { status, .. } => {
                Ok(PipedEvent::Ended { status, errors: self.program.running.notices() })
            }
            ScriptEnd::NotRun(error) | ScriptEnd::Unknown(error) => Err(error),
            ScriptEnd::NoRoot => Err(SshError::Failed {
                destination: self.connection.destination().to_owned(),
                why: "it answers what it was not asked".to_owned(),
            }),
        }
    }
}
