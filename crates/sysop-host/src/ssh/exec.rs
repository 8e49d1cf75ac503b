//! Runs one program on the remote host: collects its output, and stops it together with all processes that it started.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use sysop_core::policy::single_quoted;

use sysop_driver::port::CancellationToken;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::connection::ConnectionInner;
use super::error::SshError;
use super::process_tree::RemoteProcessTree;
use super::running_script::{
    END, MACHINE_INFO, RunError, RunningScript, START, ScriptEnd, drain_after_exit, nonce,
};
use super::script::RemoteScript;
use super::session::{PendingOpen, SILENT};
use crate::environment::{GIT_VARIABLES, GIT_VARIABLES_ALLOWED};
use crate::machine::TimeLimit;
use crate::machine::{ExecResult, ExitReason};
use crate::output::capture::Capture;
use crate::pipe::discard_output;

/// Maximum time to read further output after the shell has exited while another process still holds the pipe.
const DRAIN: Duration = Duration::from_millis(200);
/// Maximum time of each wait while a command is being stopped: for its session, and for the report of its start.
const BEGIN_MAX: Duration = Duration::from_secs(2);
/// Maximum background programs whose output is discarded, so that a closed pipe does not kill them. Each of
/// them holds a session on the connection.
pub(super) const BACKGROUND_MAX: usize = 4;

/// Sets every command's environment, which is the same as on the local machine and tells programs that there
/// is no screen and no user. Variables that name shell startup files or describe a terminal are removed.
pub(super) const ENVIRONMENT: &str = "export PAGER=cat GIT_PAGER=cat MANPAGER=cat SYSTEMD_PAGER= \
    GIT_TERMINAL_PROMPT=0 DEBIAN_FRONTEND=noninteractive TERM=dumb NO_COLOR=1; \
    unset BASH_ENV ENV OLDPWD COLUMNS LINES FORCE_COLOR CLICOLOR_FORCE CDPATH";

/// Changes to the root `$r`, or stays in the current directory if `$r` is empty. In both cases, `$PWD` becomes a path
/// without symbolic links.
pub(super) const ENTER: &str =
    r#"cd -P -- "${r:-.}" 2>/dev/null || { printf "\036C%s\036" "$n"; exit 1; }; unset OLDPWD"#;

/// Runs `$1` with bash, or with sh where there is no bash. `--norc` is needed because bash assumes that a remote shell
/// daemon started it, and then reads `.bashrc`, whose output would mix with the command's output. The subshell is
/// needed because dash reports a killed program on that program's standard error, unless the program runs in a process
/// of its own.
const SHELL: &str =
    r#"s=sh; command -v bash >/dev/null 2>&1 && s="bash --norc"; (exec $s -c -- "$1" </dev/null 2>&1); e=$?"#;

const RUN_GUARDED: &str = include_str!("guard/run.sh");

/// Returns a script that runs `command` with bash, or with `sh` if there is no bash, and the arguments of the script.
pub(super) fn shell_script(command: &str, variables: &[(&str, &str)]) -> (String, Vec<String>) {
    let mut text = String::new();
    for (name, value) in variables {
        text.push_str(&format!("export {name}={value}; "));
    }
    (text + SHELL, vec![command.to_owned()])
}

/// Returns a script that runs `command` like `shell_script`, under the guard in the directory `guard`.
pub(super) fn guarded_script(command: &str, guard: &str) -> (String, Vec<String>) {
    (RUN_GUARDED.trim_end().to_owned(), vec![guard.to_owned(), command.to_owned()])
}

/// Returns a script that runs git with a clean environment, and the arguments of the script. As on the local machine,
/// only the Git variables of `GIT_VARIABLES_ALLOWED` remain: author, committer and the user's own config.
pub(super) fn git_script(
    program: &str,
    arguments: &[String],
    settings: &[(String, String)],
) -> (String, Vec<String>) {
    let kept = GIT_VARIABLES_ALLOWED.join("|");
    let mut text = format!(
        r#"for v in $(env | sed -n 's/^\(GIT_[A-Za-z0-9_]*\)=.*/\1/p'); do case $v in {kept}) ;; *) unset "$v" ;; esac; done
u=${{PWD%/*}}; export GIT_CEILING_DIRECTORIES="${{u:-/}}" GIT_WORK_TREE="$PWD" GIT_CONFIG_COUNT={}"#,
        settings.len()
    );
    for (name, value) in GIT_VARIABLES {
        text.push_str(&format!(" {name}={}", single_quoted(value)));
    }
    for (index, (key, value)) in settings.iter().enumerate() {
        let (key, value) = (single_quoted(key), single_quoted(value));
        text.push_str(&format!(" GIT_CONFIG_KEY_{index}={key} GIT_CONFIG_VALUE_{index}={value}"));
    }
    text.push_str(&format!("\n(exec {program} \"$@\" </dev/null 2>&1); e=$?"));
    (text, arguments.to_vec())
}

/// State shared by all programs on one host.
#[derive(Debug)]
pub(super) struct RemotePrograms {
    inner: Arc<ConnectionInner>,
    background: Arc<Semaphore>,
}

/// Reason why no session was opened.
enum StartError {
    /// The start was canceled, and nothing ran.
    Cancelled,
    Run(RunError),
}

pub(super) struct ProgramResult {
    pub(super) exec: ExecResult,
    pub(super) folder: Option<String>,
}

impl RemotePrograms {
    pub(super) fn new(inner: Arc<ConnectionInner>) -> Self {
        Self { inner, background: Arc::new(Semaphore::new(BACKGROUND_MAX)) }
    }

    /// Runs a script fragment in `root`. The fragment must set `$e` to its exit code. Output and timeout count from the
    /// start of the fragment.
    pub(super) async fn run(
        &self,
        root: &str,
        (text, arguments): (String, Vec<String>),
        limit: &TimeLimit,
        capture: &mut Capture<'_>,
        cancel: &CancellationToken,
    ) -> Result<ProgramResult, SshError> {
        let nonce = nonce();
        let mark = format!("SYSOP_CALL_{:016x}", rand::random::<u64>());
        let facts = if self.inner.known_machine_info().is_none() { MACHINE_INFO } else { ":" };
        let text = format!(
            r#"r=$2; export "$1=1"; shift 2; {ENVIRONMENT}; {ENTER}; {facts}; {START}; {text}; {END}"#
        );
        let arguments = [mark.clone(), root.to_owned()].into_iter().chain(arguments).collect();
        let script = RemoteScript { text, arguments, input: None };
        let without = |end| Ok(ProgramResult { exec: ExecResult { end, left_running: false }, folder: None });
        let running = match self.start(script, &nonce, cancel).await {
            Ok(running) => running,
            Err(StartError::Cancelled) => return without(ExitReason::Cancelled),
            Err(StartError::Run(RunError { error, may_have_run: false })) => return Err(error),
            Err(StartError::Run(RunError { error, may_have_run: true })) => {
                return without(ExitReason::Unknown { why: error.to_string() });
            }
        };
        let tree = RemoteProcessTree { inner: Arc::clone(&self.inner), mark, leader: None };
        let mut program = RunningProgram { running, tree, is_over: false };
        let end = tokio::select! {
            left_running = program.pump(capture) => {
                return self.finish(root, program, left_running).await;
            }
            () = cancel.cancelled() => ExitReason::Cancelled,
            () = limit.reached() => ExitReason::TimedOut,
        };
        let folder = program.folder();
        let end = program.stop(end, capture).await;
        Ok(ProgramResult { exec: ExecResult { end, left_running: false }, folder })
    }

    /// Opens the session. If `cancel` is triggered during the request, the session may exist anyway. In that case,
    /// waits a short time for the session, so that its program can be stopped.
    async fn start(
        &self,
        script: RemoteScript,
        nonce: &str,
        cancel: &CancellationToken,
    ) -> Result<RunningScript, StartError> {
        let asked = PendingOpen::default();
        let master = {
            let mut starting = pin!(RunningScript::start(&self.inner, script, nonce, &asked));
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                started = &mut starting => return started.map_err(StartError::Run),
            }
            if !asked.is_open() {
                return Err(StartError::Cancelled);
            }
            if let Ok(started) = timeout_at(Instant::now() + BEGIN_MAX, starting).await {
                return started.map_err(StartError::Run);
            }
            asked.take()
        };
        let Some(master) = master else { return Err(StartError::Cancelled) };
        // The connection may be busy reconnecting and have discarded this master already.
        let _ = timeout_at(Instant::now() + BEGIN_MAX, self.inner.discard_master(&master)).await;
        Err(StartError::Run(RunError::unknown(self.inner.connection_lost(&master, SILENT))))
    }

    async fn finish(
        &self,
        root: &str,
        mut program: RunningProgram,
        left_running: bool,
    ) -> Result<ProgramResult, SshError> {
        let over = program.running.conclude(&self.inner).await;
        program.is_over = true;
        let folder = program.folder();
        let end = match over {
            ScriptEnd::Exited { status, signal: None } => ExitReason::Exited(status),
            ScriptEnd::Exited { signal: Some(signal), .. } => ExitReason::Killed { signal },
            ScriptEnd::NoRoot => {
                return Err(SshError::root(self.inner.name(), root));
            }
            ScriptEnd::NotRun(error) => return Err(error),
            ScriptEnd::Unknown(why) => ExitReason::Unknown { why: why.to_string() },
        };
        if left_running {
            self.discard_output(program);
        }
        Ok(ProgramResult { exec: ExecResult { end, left_running }, folder })
    }

    /// Discards the output of a background program until the program closes it or the connection ends.
    fn discard_output(&self, program: RunningProgram) {
        let Ok(permit) = Arc::clone(&self.background).try_acquire_owned() else { return };
        tokio::spawn(async move {
            discard_output(&program.running.session.output).await;
            drop((program, permit));
        });
    }
}

/// A program that was requested to run. Dropping this before the program has exited kills the program and all
/// processes that it started.
#[derive(Debug)]
pub(super) struct RunningProgram {
    pub(super) running: RunningScript,
    pub(super) tree: RemoteProcessTree,
    pub(super) is_over: bool,
}

impl RunningProgram {
    fn folder(&self) -> Option<String> {
        self.running.state.started.as_ref().map(|(_, folder)| folder.clone())
    }

    /// Collects output until the program has exited and closed its output, or until `DRAIN` has passed after
    /// the program's end. Returns true if another process still holds the output. Cancel safe.
    async fn pump(&mut self, capture: &mut Capture<'_>) -> bool {
        let mut drained: Option<Instant> = None;
        loop {
            if self.running.is_over() && !self.running.is_open() {
                return false;
            }
            if drained.is_none() && self.running.has_ended() {
                drained = Some(Instant::now() + DRAIN);
            }
            capture.settle().await;
            let display = capture.display_due();
            let taken = &mut |bytes: &[u8]| capture.take(bytes);
            tokio::select! {
                () = self.running.read_next(taken) => continue,
                () = sleep_until(display.unwrap_or_else(Instant::now)), if display.is_some() => {}
                () = sleep_until(drained.unwrap_or_else(Instant::now)), if drained.is_some() => {
                    drain_after_exit(&mut self.running, &mut |bytes: &[u8]| capture.take(bytes)).await;
                    return self.running.is_open();
                }
            }
            capture.display();
        }
    }

    /// Kills all processes and collects the remaining output.
    async fn stop(mut self, end: ExitReason, capture: &mut Capture<'_>) -> ExitReason {
        let until = Instant::now() + BEGIN_MAX;
        let begin = timeout_at(until, async {
            while self.running.state.started.is_none() && !self.running.is_over() {
                capture.settle().await;
                self.running.read_next(&mut |bytes: &[u8]| capture.take(bytes)).await;
            }
        });
        // A process that did not report its id is found by its mark.
        let _ = begin.await;
        self.tree.leader = self.running.state.started.as_ref().map(|(number, _)| number.clone());
        let tree = self.tree.clone();
        let ending = tree.end();
        tokio::pin!(ending);
        let ended = loop {
            capture.settle().await;
            let open = self.running.is_open();
            let taken = &mut |bytes: &[u8]| capture.take(bytes);
            tokio::select! {
                ended = &mut ending => break ended,
                () = self.running.read_next(taken), if open => {}
            }
        };
        let rest = timeout_at(Instant::now() + DRAIN, async {
            while self.running.is_open() {
                capture.settle().await;
                self.running.read_next(&mut |bytes: &[u8]| capture.take(bytes)).await;
            }
        });
        // Processes that still hold the output do not belong to the command.
        let _ = rest.await;
        self.is_over = true;
        match ended {
            Ok(()) => end,
            Err(error) => ExitReason::Unknown {
                why: format!("the command was being stopped and may still run: {error}"),
            },
        }
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        if !self.is_over {
            let leader = self.running.state.started.as_ref().map(|(number, _)| number.clone());
            RemoteProcessTree { leader, ..self.tree.clone() }.end_in_background();
        }
    }
}
