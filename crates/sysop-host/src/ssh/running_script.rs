//! Runs scripts and programs with the far `sh`, and tells their ends from those of the connection.

use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::connection::ConnectionInner;
use super::error::{SshError, last_line, one_line};
use super::marks::{MarkParser, ScriptMark};
use super::script::RemoteScript;
use super::session::{PendingOpen, SshSession};
use crate::pipe::read;

/// The first read; most programs print less.
const READ_BYTES_MIN: usize = 8 * 1024;
/// One read of a program that prints a lot.
const READ_BYTES_MAX: usize = 256 * 1024;
/// The most bytes of what the far `sh` itself says that are kept.
const NOTICE_BYTES_MAX: usize = 8 * 1024;
/// How long the end is waited for on the second stream, once it is there on the first.
const SECOND_END_MAX: Duration = Duration::from_millis(500);

/// Says that the script runs: its number and its folder.
pub(super) const START: &str =
    r#"printf "\036S%s;%s %s\036" "$n" "$$" "$PWD"; printf "\036S%s\036" "$n" >&2"#;
/// Says that the program has ended, behind all that it printed.
pub(super) const END: &str = r#"printf "\036E%s;%s\036" "$n" "$e"; printf "\036E%s\036" "$n" >&2"#;
/// Says what kind of machine it is.
pub(super) const MACHINE_INFO: &str = r#"printf "\036F%s;%s\012%s\012%s\012%s\012%s\036" "$n" "$(uname -s -m)" "${LOGNAME-}" "${SHELL-}" "${HOME-}" "$(command -v bash)""#;

/// What is known of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineInfo {
    /// `Linux`, `Darwin`, `FreeBSD`, …
    pub system: String,
    /// `x86_64`, `aarch64`, …
    pub architecture: String,
    /// Who is logged in.
    pub user: String,
    /// The login shell, by its path.
    pub login_shell: String,
    /// The home folder.
    pub home: String,
    /// Where bash is; none where commands are run by `sh`.
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

/// A session whose script may be running.
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

/// What is known so far.
#[derive(Debug, Default)]
pub(super) struct ScriptState {
    /// Number and folder of the script.
    pub(super) started: Option<(String, String)>,
    facts: Option<String>,
    no_root: bool,
    status: Option<i32>,
    /// What the script's own standard error says.
    notices: Vec<u8>,
}

/// How it came out.
#[derive(Debug)]
pub(super) enum ScriptEnd {
    /// The program has ended with this status; by a signal, where the shell said so.
    Exited { status: i32, signal: Option<i32> },
    /// The root is not there; nothing was run.
    NoRoot,
    /// Nothing was run, because of this.
    NotRun(SshError),
    /// It may have been run; nobody knows how it ended.
    Unknown(SshError),
}

impl ScriptState {
    fn mark(&mut self, mark: ScriptMark) {
        match mark {
            ScriptMark::Started(value) => {
                let (number, folder) = value.split_once(' ').unwrap_or((&value, ""));
                self.started.get_or_insert_with(|| (number.to_owned(), folder.to_owned()));
            }
            // Both are said before the start; what comes later is from the program.
            ScriptMark::MachineInfo(text) if self.started.is_none() => self.facts = Some(text),
            ScriptMark::NoRoot if self.started.is_none() => self.no_root = true,
            ScriptMark::MachineInfo(_) | ScriptMark::NoRoot => {}
            // A status that is no number is a mark that was forged by the program itself.
            ScriptMark::Ended(value) => self.status = self.status.or(value.parse().ok()),
        }
    }

    /// How it came out by the script's own words, where there are any.
    fn reported_end(&self) -> Option<ScriptEnd> {
        match self.status {
            Some(status) => Some(self.ended(status)),
            None => self.no_root.then_some(ScriptEnd::NoRoot),
        }
    }

    /// A shell turns a death by a signal into a status above 128, which a program can also exit with; but then the
    /// shell says nothing. Of SIGINT and SIGPIPE shells say nothing either: those are told as what a shell
    /// would tell, 130 and 141.
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
    /// Sends a script, which finds `nonce` in `$n`.
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

    /// Whether all was said that will be said.
    pub(super) fn is_over(&self) -> bool {
        (self.has_ended() && (self.errors.has_ended() || !self.errors_open))
            || !(self.output_open || self.errors_open)
    }

    /// Whether the program has ended, though its shell's last words may not be there yet.
    pub(super) fn has_ended(&self) -> bool {
        self.state.status.is_some()
    }

    /// Whether the remote side can still print.
    pub(super) fn is_open(&self) -> bool {
        self.output_open
    }

    /// Takes what comes next. May be dropped and called again.
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

    /// Judges what came, once it is over.
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
            return ScriptEnd::NotRun(SshError::read(&destination, &printed));
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

    /// What the script's own standard error said.
    pub(super) fn notices(&self) -> String {
        String::from_utf8_lossy(&self.state.notices).into_owned()
    }
}

/// What came of a script of ours.
#[derive(Debug)]
pub(super) struct ScriptOutput {
    pub(super) status: i32,
    pub(super) output: Vec<u8>,
    /// What was printed on standard error.
    pub(super) errors: String,
}

/// Why nothing came of a script.
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

/// Runs a script of ours to its end. Its first argument is `$1`.
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

/// Takes what a script prints, to its end.
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

/// Waits for the shell's last words, once the program has ended.
pub(super) async fn drain_after_exit(running: &mut RunningScript, take: &mut (dyn FnMut(&[u8]) + Send)) {
    let waited = timeout(SECOND_END_MAX, async {
        while !running.is_over() {
            running.read_next(take).await;
        }
    });
    // Without them the status alone is told.
    let _ = waited.await;
}

/// Sixteen digits that no program knows beforehand.
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
