//! `bash`: runs one command in a fresh shell.

use std::time::Duration;

use serde::Deserialize;
use sysop_core::catalog::{BASH_TIMEOUT_S_DEFAULT, BASH_TIMEOUT_S_MAX};
use sysop_core::policy::{Dialect, reads_with_git};

use super::{CallContext, ToolError, ToolOutcome, Toolbox, ended};
use crate::environment::GIT_GUARD;
use crate::machine::{MachineError, Program};

/// Maximum length of a command in bytes: Linux's limit for one argument of a program.
const COMMAND_BYTES_MAX: usize = 128 * 1024 - 1;

/// Precedes a command with a pipe on its first line, so that line numbers in messages stay. Reports the exit codes of the
/// command's last pipeline if one of them failed and the exit code of the command hides that. 141 does not count: it
/// means that the next program had read enough.
const PIPELINE_REPORT: &str = r#"trap '__sysop=("$?" "${PIPESTATUS[@]}"); if [ "${__sysop[0]}" = 0 ]; then for __sysop_code in "${__sysop[@]}"; do case $__sysop_code in 0|141) ;; *) printf "[exit codes of the last pipeline: %s]
" "${__sysop[*]:1}" >&2; break;; esac; done; fi' EXIT; "#;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bash {
    command: String,
    #[serde(default)]
    timeout_s: Option<u64>,
    /// Used by the policy; the call's fence is the result.
    #[serde(default, rename = "outside_sandbox")]
    _outside_sandbox: bool,
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
        let limit = Duration::from_secs(seconds);
        let dialect = tokio::select! {
            biased;
            () = call.cancel.cancelled() => Err(MachineError::Cancelled),
            context = self.machine.context() => context,
        }?
        .dialect;
        let guarded = reads_with_git(&arguments.command, dialect);
        let variables: &[_] = if guarded { &GIT_GUARD } else { &[] };
        let command = with_pipeline_report(arguments.command, dialect);
        let program = Program::Shell { command, variables };
        let exec = self.machine.exec(program, call.fence, limit, &mut capture, call.cancel).await?;
        Ok(self.with_hint(ended(exec, limit, capture.finish().await, true), call.fence))
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
