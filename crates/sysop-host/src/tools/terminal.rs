//! `run_command` and `send_keys`: actions of a model in the terminal that it shares with users.

use std::time::Duration;

use serde::Deserialize;
use sysop_core::catalog::{RUN_COMMAND_TIMEOUT_S_DEFAULT, RUN_COMMAND_TIMEOUT_S_MAX};

use super::{CallContext, ToolError, ToolOutcome, Toolbox, outcome, push_line};
use crate::output::capture::CapturedOutput;
use crate::terminal::{CallEnd, CallError};

/// Maximum length of a command in bytes. A command is typed in pieces; a longer one belongs in a file.
const COMMAND_BYTES_MAX: usize = 64 * 1024;
const KEYS_BYTES_MAX: usize = 16 * 1024;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunCommand {
    command: String,
    timeout_s: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SendKeys {
    keys: String,
}

impl From<CallError> for ToolError {
    fn from(answered: CallError) -> Self {
        match answered {
            CallError::Machine(error) => Self::Machine(error),
            CallError::Refused(why) => Self::Refused(why),
        }
    }
}

impl Toolbox {
    pub(super) async fn run_command(&self, arguments: RunCommand, call: &CallContext<'_>) -> ToolOutcome {
        let RunCommand { command, timeout_s } = arguments;
        let seconds = timeout_s.unwrap_or(RUN_COMMAND_TIMEOUT_S_DEFAULT);
        if !(1..=RUN_COMMAND_TIMEOUT_S_MAX).contains(&seconds) {
            let wrong = format!(
                "invalid argument `timeout_s`: {seconds} is not in the range 1 to {RUN_COMMAND_TIMEOUT_S_MAX}"
            );
            return Err(ToolError::Arguments(wrong));
        }
        if command.trim().is_empty() {
            return Err(ToolError::Arguments("invalid argument `command`: must not be empty".to_owned()));
        }
        if command.contains('\0') {
            return Err(ToolError::Arguments("a command cannot contain a NUL byte".to_owned()));
        }
        if command.len() > COMMAND_BYTES_MAX {
            let long =
                format!("the command is longer than {COMMAND_BYTES_MAX} bytes; write it to a file first");
            return Err(ToolError::Arguments(long));
        }
        let mut capture = self.capture(call.sink.clone());
        let limit = Duration::from_secs(seconds);
        let terminal = self.terminal_for(call.fence);
        let end = terminal.run_command(&command, limit, &mut capture, call.id, call.cancel).await?;
        Ok(self.with_hint(terminal_outcome(end, capture.finish().await), call.fence))
    }

    pub(super) async fn send_keys(&self, arguments: SendKeys, call: &CallContext<'_>) -> ToolOutcome {
        if arguments.keys.len() > KEYS_BYTES_MAX {
            let long = format!("`keys` is longer than {KEYS_BYTES_MAX} bytes");
            return Err(ToolError::Arguments(long));
        }
        let mut capture = self.capture(call.sink.clone());
        let end = self
            .terminal_for(call.fence)
            .send_keys(&arguments.keys, &mut capture, call.id, call.cancel)
            .await?;
        Ok(terminal_outcome(end, capture.finish().await))
    }
}

/// Messages of shells about incomplete commands.
const INCOMPLETE: [&str; 8] = [
    "unexpected EOF while looking for matching",
    "unexpected end of file",
    "Unterminated quoted string",
    "unterminated quoted string",
    "end of file unexpected",
    "unmatched ",
    "Unexpected end of string",
    "Missing end to balance",
];

fn terminal_outcome(mut end: CallEnd, captured: CapturedOutput) -> sysop_core::outcome::Outcome {
    if end.exit_code.is_some_and(|code| code != 0)
        && INCOMPLETE.iter().any(|said| captured.text.contains(said))
    {
        end.notes.insert(
            0,
            "the command seems to be incomplete: check for an unclosed quote, bracket or block".to_owned(),
        );
    }
    let mut outcome = outcome(end.status, captured);
    outcome.exit_code = end.exit_code;
    for note in end.notes {
        push_line(&mut outcome.output, &format!("[{}]", note.trim_start_matches('[').trim_end_matches(']')));
    }
    outcome
}
