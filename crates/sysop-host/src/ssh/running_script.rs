//! Runs scripts and programs with the remote `sh`, and distinguishes their end from the end of the connection.

use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::connection::ConnectionInner;
use super::error::{SshError, last_line, one_line};
use super::marks::{MarkParser, ScriptMark};
use super::script::RemoteScript;
use super::session::{PendingOpen, SshSession};
use crate::pipe::read;

/// Size of the first read in bytes; most programs print less.
const READ_BYTES_MIN: usize = 8 * 1024;
/// Size of a read in bytes for programs with much output.
const READ_BYTES_MAX: usize = 256 * 1024;
/// Maximum bytes kept of the remote `sh`'s own messages.
const NOTICE_BYTES_MAX: usize = 8 * 1024;
/// Maximum time to wait for the end mark on standard error after the end mark has arrived on standard output.
const SECOND_END_MAX: Duration = Duration::from_millis(500);

/// Reports the start of the script: process id and directory.
pub(super) const START: &str =
    r#"printf "\036S%s;%s %s\036" "$n" "$$" "$PWD"; printf "\036S%s\036" "$n" >&2"#;
/// Reports the end of the program, after all its output.
pub(super) const END: &str = r#"printf "\036E%s;%s\036" "$n" "$e"; printf "\036E%s\036" "$n" >&2"#;
/// Reports the system information.
pub(super) const MACHINE_INFO: &str = r#"printf "\036F%s;%s\012%s\012%s\012%s\012%s\036" "$n" "$(uname -s -m)" "${LOGNAME-}" "${SHELL-}" "${HOME-}" "$(command -v bash)""#;

/// System information of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineInfo {
    /// `Linux`, `Darwin`, `FreeBSD`, …
    pub system: String,
    /// `x86_64`, `aarch64`, …
    pub architecture: String,
    pub user: String,
    pub login_shell: String,
    pub home: String,
    /// Path of bash; `None` if commands run with `sh`.
    pub bash: Option<String>,
}

impl MachineInfo {
    fn read(text: &str) -> Option<Self> {
        let mut lines = text.split('\n').map(one_line);
        let machine = lines.next()?;
        let (system, architecture) = machine.split_once(' ').unwrap_or((&machine, ""));
        let mut next = || lines.next().unwrap_or_default();
        Some(Self {
            system: system.to_owned(),
            architecture: architecture.to_owned(),
            user: next(),
            login_shell: next(),
            home: next(),
            bash: Some(next()).filter(|path| !path.is_empty()),
        })
    }
}

#[derive(Debug)]
pub(super) struct RunningScript {
    pub(super) session: SshSession,
    output: MarkParser,
    errors: MarkParser,
    buffer: Vec<u8>,
    errors_buffer: Vec<u8>,
    output_open: bool,
    errors_open: bool,
    pub(super) state: ScriptState,
}

/// State that the script has reported so far.
#[derive(Debug, Default)]
pub(super) struct ScriptState {
    /// Process id and directory of the script.
    pub(super) started: Option<(String, String)>,
    facts: Option<String>,
    no_root: bool,
    status: Option<i32>,
    /// Messages of the script on standard error.
    notices: Vec<u8>,
}

#[derive(Debug)]
pub(super) enum ScriptEnd {
    /// The program exited with this status. `signal` is set if the shell reported that a signal killed the program.
    Exited { status: i32, signal: Option<i32> },
    /// The root does not exist; nothing ran.
    NoRoot,
    /// Nothing ran.
    NotRun(SshError),
    /// The script may have run; its result is unknown.
    Unknown(SshError),
}

impl ScriptState {
    fn mark(&mut self, mark: ScriptMark) {
        match mark {
            ScriptMark::Started(value) => {
                let (number, folder) = value.split_once(' ').unwrap_or((&value, ""));
                self.started.get_or_insert_with(|| (number.to_owned(), folder.to_owned()));
            }
            // Both marks precede the start; later ones are program output.
            ScriptMark::MachineInfo(text) if self.started.is_none() => self.facts = Some(text),
            ScriptMark::NoRoot if self.started.is_none() => self.no_root = true,
            ScriptMark::MachineInfo(_) | ScriptMark::NoRoot => {}
            // An end mark without a number was forged by the program.
            ScriptMark::Ended(value) => self.status = self.status.or(value.parse().ok()),
        }
    }

    /// Returns the end that the script reported, if any.
    fn reported_end(&self) -> Option<ScriptEnd> {
        match self.status {
            Some(status) => Some(self.ended(status)),
            None => self.no_root.then_some(ScriptEnd::NoRoot),
        }
    }

    /// Maps the status of a shell to an exit code or a signal. If a signal kills a program, the shell reports a status
    /// above 128 and prints a message. A program can also return such a status, but then the shell prints no message.
    /// Shells print no message for SIGINT and SIGPIPE either, so these appear as the exit codes 130 and 141.
    fn ended(&self, status: i32) -> ScriptEnd {
        let signal = match status {
            // ksh adds 256.
            257.. => Some(status - 256),
            129..=192 if !self.notices.trim_ascii().is_empty() => Some(status - 128),
            _ => None,
        };
        ScriptEnd::Exited { status, signal }
    }
}

impl RunningScript {
    /// Starts a script, which finds `nonce` in `$n`.
    pub(super) async fn start(
        inner: &ConnectionInner,
        script: RemoteScript,
        nonce: &str,
        asked: &PendingOpen,
    ) -> Result<Self, RunError> {
        let session = SshSession::open(inner, script.encode(nonce), asked).await?;
        Ok(Self::of(session, nonce))
    }

    pub(super) fn of(session: SshSession, nonce: &str) -> Self {
        Self {
            session,
            output: MarkParser::new(nonce),
            errors: MarkParser::new(nonce),
            buffer: vec![0; READ_BYTES_MIN],
            errors_buffer: vec![0; READ_BYTES_MIN],
            output_open: true,
            errors_open: true,
            state: ScriptState::default(),
        }
    }

    /// Returns true if no more output or marks will arrive.
    pub(super) fn is_over(&self) -> bool {
        (self.has_ended() && (self.errors.has_ended() || !self.errors_open))
            || !(self.output_open || self.errors_open)
    }

    /// Returns true if the program has exited, even if the last messages of its shell have not arrived yet.
    pub(super) fn has_ended(&self) -> bool {
        self.state.status.is_some()
    }

    /// Returns true if the remote side can still print.
    pub(super) fn is_open(&self) -> bool {
        self.output_open
    }

    /// Waits for the next output of the script and processes it. Cancel safe.
    pub(super) async fn read_next(&mut self, take: &mut (dyn FnMut(&[u8]) + Send)) {
        let Self { session, output, errors, buffer, errors_buffer, output_open, errors_open, state } = self;
        tokio::select! {
            bytes = read(&session.output, buffer), if *output_open => match bytes {
                Ok(0) | Err(_) => {
                    *output_open = false;
                    output.finish(&mut *take);
                }
                Ok(bytes) => {
                    output.take(&buffer[..bytes], &mut *take, |mark| state.mark(mark));
                    if bytes == buffer.len() && bytes < READ_BYTES_MAX {
                        *buffer = vec![0; (bytes * 4).min(READ_BYTES_MAX)];
                    }
                }
            },
            bytes = read(&session.errors, errors_buffer), if *errors_open => match bytes {
                Ok(0) | Err(_) => *errors_open = false,
                Ok(bytes) => {
                    let notices = &mut state.notices;
                    let keep = |bytes: &[u8]| {
                        let room = NOTICE_BYTES_MAX.saturating_sub(notices.len());
                        notices.extend_from_slice(&bytes[..room.min(bytes.len())]);
                    };
                    errors.take(&errors_buffer[..bytes], keep, |_| {});
                }
            },
            else => {}
        }
    }

    /// Determines how the script ended. Must be called once the script is over.
    pub(super) async fn conclude(&mut self, inner: &ConnectionInner) -> ScriptEnd {
        if let Some(facts) = self.state.facts.take().as_deref().and_then(MachineInfo::read) {
            inner.set_machine_info(facts);
        }
        if let Some(over) = self.state.reported_end() {
            return over;
        }
        let destination = inner.name().to_owned();
        let printed = self.errors.noise();
        if self.session.is_dedicated() && !self.output.has_started() {
            return ScriptEnd::NotRun(inner.read_error(&printed));
        }
        if self.session.is_dedicated() || !inner.is_alive().await {
            let why = match inner.running_master().await {
                Some(master) => last_line(&master.printed()),
                None => last_line(&printed),
            };
            let why = if why.is_empty() {
                "the remote session ended without an exit status".to_owned()
            } else {
                why
            };
            return ScriptEnd::Unknown(SshError::Dropped { destination, why });
        }
        if self.output.has_started() {
            let why = "the remote session was killed".to_owned();
            return ScriptEnd::Unknown(SshError::Dropped { destination, why });
        }
        let said = [self.output.noise(), printed].map(|text| last_line(&text));
        let said =
            said.iter().filter(|line| !line.is_empty()).map(String::as_str).collect::<Vec<_>>().join("; ");
        ScriptEnd::NotRun(SshError::NoShell { destination, said })
    }

    /// Returns the messages of the script on standard error.
    pub(super) fn notices(&self) -> String {
        String::from_utf8_lossy(&self.state.notices).into_owned()
    }
}

#[derive(Debug)]
pub(super) struct ScriptOutput {
    pub(super) status: i32,
    pub(super) output: Vec<u8>,
    pub(super) errors: String,
}

/// Reason why a script has no result.
#[derive(Debug)]
pub(super) struct RunError {
    pub(super) error: SshError,
    pub(super) may_have_run: bool,
}

impl RunError {
    pub(super) fn not_run(error: SshError) -> Self {
        Self { error, may_have_run: false }
    }

    pub(super) fn unknown(error: SshError) -> Self {
        Self { error, may_have_run: true }
    }
}

impl From<RunError> for SshError {
    fn from(error: RunError) -> Self {
        error.error
    }
}

/// Runs an internal script to its end. The script finds its first argument in `$1`.
pub(super) async fn run_script(
    inner: &ConnectionInner,
    script: RemoteScript,
    bytes_max: usize,
    limit: Duration,
) -> Result<ScriptOutput, RunError> {
    let nonce = nonce();
    let facts = if inner.known_machine_info().is_none() { MACHINE_INFO } else { ":" };
    let text = format!("{facts}\n{START}\n(\nunset n\n{}\n)\ne=$?\n{END}", script.text);
    let script = RemoteScript { text, ..script };
    let mut running = RunningScript::start(inner, script, &nonce, &PendingOpen::default()).await?;
    collect(inner, &mut running, bytes_max, limit).await
}

pub(super) async fn collect(
    inner: &ConnectionInner,
    running: &mut RunningScript,
    bytes_max: usize,
    limit: Duration,
) -> Result<ScriptOutput, RunError> {
    let mut output = Vec::new();
    let mut too_much = false;
    let until = Instant::now() + limit;
    let mut take = |bytes: &[u8]| {
        if output.len() + bytes.len() > bytes_max {
            too_much = true;
        } else {
            output.extend_from_slice(bytes);
        }
    };
    let ran = timeout_at(until, async {
        while !running.is_over() {
            running.read_next(&mut take).await;
        }
    });
    if ran.await.is_err() {
        return Err(RunError::unknown(SshError::Timeout(inner.name().to_owned())));
    }
    let failed = |why: &str| SshError::Failed { destination: inner.name().to_owned(), why: why.to_owned() };
    if too_much {
        return Err(RunError::unknown(failed("the host sent more than was requested")));
    }
    match running.conclude(inner).await {
        ScriptEnd::Exited { status, .. } => Ok(ScriptOutput { status, output, errors: running.notices() }),
        ScriptEnd::NoRoot => Err(RunError::not_run(failed("the root was removed"))),
        ScriptEnd::NotRun(error) => Err(RunError::not_run(error)),
        ScriptEnd::Unknown(error) => Err(RunError::unknown(error)),
    }
}

/// Waits a short time for the shell's last messages after the program's end.
pub(super) async fn drain_after_exit(running: &mut RunningScript, take: &mut (dyn FnMut(&[u8]) + Send)) {
    let waited = timeout(SECOND_END_MAX, async {
        while !running.is_over() {
            running.read_next(take).await;
        }
    });
    // Without them, only the status is reported.
    let _ = waited.await;
}

/// Returns sixteen random hexadecimal digits.
pub(super) fn nonce() -> String {
    format!("{:016x}", rand::random::<u64>())
}

#[cfg(test)]
mod tests {
    use super::{ScriptEnd, ScriptMark, ScriptState};

    #[test]
    fn a_started_script_counts_as_run_whatever_it_prints() {
        let mut state = ScriptState::default();
        state.mark(ScriptMark::MachineInfo("Linux x86_64".to_owned()));
        state.mark(ScriptMark::Started("42 /home".to_owned()));
        state.mark(ScriptMark::MachineInfo("forged".to_owned()));
        state.mark(ScriptMark::NoRoot);
        assert!(state.reported_end().is_none());
        assert_eq!(state.facts.as_deref(), Some("Linux x86_64"));
        state.mark(ScriptMark::Ended("7".to_owned()));
        assert!(matches!(state.reported_end(), Some(ScriptEnd::Exited { status: 7, signal: None })));
    }

    #[test]
    fn a_script_that_cannot_enter_the_root_was_not_run() {
        let mut state = ScriptState::default();
        state.mark(ScriptMark::NoRoot);
        assert!(matches!(state.reported_end(), Some(ScriptEnd::NoRoot)));
    }
}
