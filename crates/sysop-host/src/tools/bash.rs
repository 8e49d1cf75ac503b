//! `bash`: runs one command in a fresh shell.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use sysop_core::catalog::{BASH_TIMEOUT_S_DEFAULT, BASH_TIMEOUT_S_MAX};
use sysop_core::id::CallId;
use sysop_core::policy::{Dialect, reads_with_git};

use super::{CallContext, ToolError, ToolOutcome, Toolbox, ended};
use crate::environment::GIT_GUARD;
use crate::machine::{MachineError, Program, TimeLimit};

/// Maximum length of a command in bytes: Linux's limit for one argument of a program.
const COMMAND_BYTES_MAX: usize = 128 * 1024 - 1;

/// Shell code that is put before a command that contains a pipe. The code is on the command's first line, so that line
/// numbers in messages stay the same. It prints the exit codes of the command's last pipeline if one of them is an
/// error although the exit code of the command is 0. The exit code 141 does not count as an error, because it means
/// that the next program had read enough.
const PIPELINE_REPORT: &str = r#"trap '__sysop=("$?" "${PIPESTATUS[@]}"); if [ "${__sysop[0]}" = 0 ]; then for __sysop_code in "${__sysop[@]}"; do case $__sysop_code in 0|141) ;; *) printf "[exit codes of the last pipeline: %s]
" "${__sysop[*]:1}" >&2; break;; esac; done; fi' EXIT; "#;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bash {
    command: String,
    timeout_s: Option<u64>,
    /// True if the command runs in the background. Such a command has no time limit, because the session soon stops
    /// waiting.
    #[serde(default)]
    background: bool,
    #[serde(default)]
    on_timeout: OnTimeout,
    /// Read by the policy, which decides the call's fence; not read here.
    #[serde(default, rename = "outside_sandbox")]
    _outside_sandbox: bool,
    /// Read by the policy and the guard; not read here.
    #[serde(default, rename = "guard")]
    _guard: serde::de::IgnoredAny,
}

/// Action when a command reaches its time limit.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OnTimeout {
    #[default]
    Kill,
    /// The command continues to run, and the session stops waiting for it.
    Background,
}

#[derive(Debug, Default)]
pub(crate) struct TimeLimits(Mutex<HashMap<CallId, TimeLimit>>);

impl TimeLimits {
    /// Lifts the time limit of the command that a call is running, if any.
    pub(crate) fn lift(&self, call: &CallId) {
        if let Some(limit) = self.0.lock().get(call) {
            limit.lifted.cancel();
        }
    }

    fn begin(&self, call: &CallId, limit: &TimeLimit) -> EndOfLimit<'_> {
        self.0.lock().insert(call.clone(), limit.clone());
        EndOfLimit { limits: self, call: call.clone() }
    }
}

/// Removes the limit of a call when dropped.
struct EndOfLimit<'a> {
    limits: &'a TimeLimits,
    call: CallId,
}

impl Drop for EndOfLimit<'_> {
    fn drop(&mut self) {
        self.limits.0.lock().remove(&self.call);
    }
}

impl Toolbox {
    pub(super) async fn bash(&self, arguments: Bash, call: &CallContext<'_>) -> ToolOutcome {
        let seconds = arguments.timeout_s.unwrap_or(BASH_TIMEOUT_S_DEFAULT);
        if !(1..=BASH_TIMEOUT_S_MAX).contains(&seconds) {
            let wrong = format!(
                "invalid argument `timeout_s`: {seconds} is not in the range 1 to {BASH_TIMEOUT_S_MAX}"
            );
            return Err(ToolError::Arguments(wrong));
        }
        if arguments.command.len() > COMMAND_BYTES_MAX {
            let long =
                format!("the command is longer than {COMMAND_BYTES_MAX} bytes; write it to a file first");
            return Err(ToolError::Arguments(long));
        }
        let mut capture = self.capture(call.sink.clone());
        let seconds = call.guard.map_or(seconds, |guard| seconds.min(guard.seconds));
        let limit = TimeLimit::new(Duration::from_secs(seconds));
        if arguments.background || arguments.on_timeout == OnTimeout::Background {
            limit.lifted.cancel();
        }
        let _end = self.time_limits.begin(call.id, &limit);
        let dialect = tokio::select! {
            biased;
            () = call.cancel.cancelled() => Err(MachineError::Cancelled),
            context = self.machine.context() => context,
        }?
        .dialect;
        let guarded = reads_with_git(&arguments.command, dialect);
        let variables: &[_] = if guarded { &GIT_GUARD } else { &[] };
        let command = with_pipeline_report(arguments.command, dialect);
        let program = match call.guard {
            None => Program::Shell { command, variables },
            Some(guard) => Program::GuardedShell { command, guard: guard.folder.to_owned() },
        };
        let exec = self.machine.exec(program, call.fence, &limit, &mut capture, call.cancel).await?;
        Ok(self.with_hint(ended(exec, limit.time, capture.finish().await, true), call.fence))
    }
}

fn with_pipeline_report(command: String, dialect: Dialect) -> String {
    let pipes = dialect == Dialect::Bash && command.replace("||", "").contains('|');
    if pipes && command.len() + PIPELINE_REPORT.len() <= COMMAND_BYTES_MAX {
        format!("{PIPELINE_REPORT}{command}")
    } else {
        command
    }
}
