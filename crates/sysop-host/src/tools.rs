//! The tools, each written once over a [`Machine`]. The outcome of a failure tells the model the next step.

mod bash;
mod chunk;
pub(crate) mod edit;
mod files;
mod git;
mod image;
mod list;
mod terminal;
mod undo;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use sysop_core::catalog::{OUTSIDE_SANDBOX, REASONS, VIEW_IMAGE_TOOL};
use sysop_core::id::CallId;
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::{Fence, Survey};
use sysop_core::redact::shapes::redact_shapes;
use sysop_core::style::StyleRuns;
use sysop_core::tool::ToolSpec;
use sysop_driver::port::{CancellationToken, DeltaSink};

pub(crate) use self::bash::TimeLimits;
use self::chunk::ChunkedFiles;
pub(crate) use self::files::GONE as FILE_GONE;
use crate::machine::{ExecResult, ExitReason, Machine, MachineError};
use crate::output::OutputLimits;
use crate::output::artifacts::Artifacts;
use crate::output::capture::{Capture, CapturedOutput};
use crate::output::redact::Secrets;
use crate::path::RootPath;
use crate::sandbox::{Escape, hint};
use crate::terminal::SharedTerminal;
use crate::undo::{CaptureTimeouts, Preparation, UndoSettings, records_of};

/// Internal tool with which front ends undo changes; not offered to models.
pub(crate) const UNDO: &str = "undo";
const EDIT_FILE: &str = "edit_file";

pub(crate) struct Toolbox {
    pub(crate) machine: Arc<dyn Machine>,
    pub(crate) terminal: Arc<SharedTerminal>,
    /// Terminal for calls that run in the sandbox; `None` before the first such call.
    pub(crate) fenced_terminal: Mutex<Option<Arc<SharedTerminal>>>,
    pub(crate) specs: Vec<ToolSpec>,
    /// The root of the file tools, as shown to the user and the model.
    pub(crate) root: PathBuf,
    pub(crate) limits: OutputLimits,
    pub(crate) artifacts: Artifacts,
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) chunked: Mutex<ChunkedFiles>,
    pub(crate) time_limits: TimeLimits,
    pub(crate) undo_settings: UndoSettings,
    pub(crate) capture_timeouts: CaptureTimeouts,
    /// The newest survey, with its call.
    pub(crate) last_survey: Mutex<Option<(ToolCall, Survey)>>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    #[error("{0}")]
    Arguments(String),
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error("{0}")]
    Refused(String),
}

pub(crate) struct CallContext<'a> {
    pub(crate) id: &'a CallId,
    /// Sandbox rules for the call's programs.
    pub(crate) fence: &'a Fence,
    pub(crate) guard: Option<CallGuard<'a>>,
    pub(crate) sink: DeltaSink,
    pub(crate) cancel: &'a CancellationToken,
}

/// Guard under which a command runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallGuard<'a> {
    pub(crate) folder: &'a str,
    /// Maximum seconds that the command may take.
    pub(crate) seconds: u64,
}

type ToolOutcome = Result<Outcome, ToolError>;

impl Toolbox {
    /// Runs one call to completion. The call's programs run inside `fence`.
    pub(crate) async fn run(
        &self,
        call: ToolCall,
        fence: &Fence,
        sink: DeltaSink,
        cancel: &CancellationToken,
    ) -> Outcome {
        self.run_in(&call, &CallContext { id: &call.id, fence, guard: None, sink, cancel }).await
    }

    /// Runs one call whose command the guard in `folder` can kill.
    pub(crate) async fn run_under_guard(
        &self,
        call: ToolCall,
        folder: &str,
        seconds: u64,
        sink: DeltaSink,
        cancel: &CancellationToken,
    ) -> Outcome {
        let guard = Some(CallGuard { folder, seconds });
        self.run_in(&call, &CallContext { id: &call.id, fence: &Fence::Off, guard, sink, cancel }).await
    }

    async fn run_in(&self, call: &ToolCall, context: &CallContext<'_>) -> Outcome {
        let preparing = Instant::now();
        let prepared = self.prepare_undo(call, context).await;
        let mut undo_time = preparing.elapsed();
        if context.cancel.is_cancelled() && prepared.saves_state() {
            let mut outcome = Outcome::not_started();
            // Closes the record of a state that has been saved.
            self.finish_undo(prepared, &mut outcome).await;
            return Outcome::not_started();
        }
        let needs_undo = !matches!(prepared, Preparation::NotNeeded);
        let started = Instant::now();
        let answer = if context.cancel.is_cancelled() {
            Err(MachineError::Cancelled.into())
        } else {
            self.dispatch(call, context).await
        };
        let mut outcome = match answer {
            Ok(outcome) => outcome,
            Err(error) => self.failed(&error).await,
        };
        if let std::borrow::Cow::Owned(clean) = redact_shapes(&outcome.output) {
            (outcome.output, outcome.styles) = (clean, StyleRuns::default());
        }
        outcome.duration_ms = milliseconds(started.elapsed());
        let finishing = Instant::now();
        self.finish_undo(prepared, &mut outcome).await;
        undo_time += finishing.elapsed();
        outcome.undo_ms = if needs_undo { milliseconds(undo_time) } else { 0 };
        tracing::debug!(
            tool = call.name,
            status = outcome.status.as_str(),
            ms = outcome.duration_ms,
            undo_ms = outcome.undo_ms,
            "tool ran"
        );
        outcome
    }

    async fn dispatch(&self, tool_call: &ToolCall, call: &CallContext<'_>) -> ToolOutcome {
        let name = tool_call.name.as_str();
        if name != UNDO && !self.specs.iter().any(|spec| spec.name == name) {
            let names: Vec<&str> = self.specs.iter().map(|spec| spec.name.as_str()).collect();
            return Err(ToolError::Refused(format!("unknown tool {name}; available: {}", names.join(", "))));
        }
        let arguments = &tool_call.arguments;
        match name {
            "bash" => self.bash(read(arguments)?, call).await,
            "run_command" => self.run_command(read(arguments)?, call).await,
            "send_keys" => self.send_keys(read(arguments)?, call).await,
            "read_file" => self.read_file(read(arguments)?, call).await,
            VIEW_IMAGE_TOOL => self.view_image(read(arguments)?, call).await,
            "cat" => self.cat(read(arguments)?, call).await,
            "write_file" => self.write_file(read(arguments)?, call).await,
            "write_file_chunk" => self.write_file_chunk(read(arguments)?, call).await,
            EDIT_FILE => self.edit_file(read(arguments)?, call).await,
            "delete_file" => self.delete_file(read(arguments)?, call).await,
            "find_files" => self.find_files(read(arguments)?, call).await,
            "ls" => self.ls(read(arguments)?, call).await,
            "stat" => self.stat(read(arguments)?, call).await,
            "mkdir" => self.mkdir(read(arguments)?, call).await,
            "git_status" => self.git_status(read(arguments)?, call).await,
            "git_diff" => self.git_diff(read(arguments)?, call).await,
            "git_log" => self.git_log(read(arguments)?, call).await,
            "git_show" => self.git_show(read(arguments)?, call).await,
            "git_add" => self.git_add(read(arguments)?, call).await,
            "git_commit" => self.git_commit(read(arguments)?, call).await,
            UNDO => match records_of(tool_call) {
                records if records.is_empty() => self.undo(read(arguments)?, call).await,
                records => Ok(self.apply_undo(tool_call, records).await),
            },
            unknown => Err(ToolError::Refused(format!("the tool {unknown} is not available on this host"))),
        }
    }

    /// Parses a path argument. This may need a connection to the host.
    async fn path(&self, text: &str, call: &CallContext<'_>) -> Result<RootPath, MachineError> {
        tokio::select! {
            biased;
            () = call.cancel.cancelled() => Err(MachineError::Cancelled),
            path = self.machine.path(text) => path,
        }
    }

    /// Returns the terminal that a call uses: the shared terminal if `fence` is off, otherwise a separate one whose
    /// shell runs inside `fence`.
    pub(crate) fn terminal_for(&self, fence: &Fence) -> Arc<SharedTerminal> {
        if *fence == Fence::Off {
            return Arc::clone(&self.terminal);
        }
        let mut slot = self.fenced_terminal.lock();
        let fits = slot.take_if(|terminal| terminal.fence() == fence);
        let terminal = fits.unwrap_or_else(|| self.terminal.fenced(fence.clone()));
        *slot = Some(Arc::clone(&terminal));
        terminal
    }

    /// Adds a hint to the outcome of a failed command if the sandbox may be the cause of the failure.
    fn with_hint(&self, mut outcome: Outcome, fence: &Fence) -> Outcome {
        if *fence == Fence::Off || outcome.exit_code.is_none_or(|code| code == 0) {
            return outcome;
        }
        let offers = |spec: &ToolSpec| spec.parameters["properties"].get(OUTSIDE_SANDBOX).is_some();
        let escape = if self.specs.iter().any(offers) { Escape::Offered } else { Escape::Missing };
        if let Some(line) = hint(fence, &self.root, escape, &outcome.output) {
            push_line(&mut outcome.output, &line);
        }
        outcome
    }

    fn capture(&self, sink: DeltaSink) -> Capture<'_> {
        Capture::new(self.limits, &self.secrets, &self.artifacts, sink)
    }

    /// Returns an outcome with a tool's own text, within the limits.
    async fn outcome_text(&self, text: String) -> Outcome {
        let mut capture = self.capture(DeltaSink::none());
        capture.take(text.as_bytes());
        outcome(Status::Ok, capture.finish().await)
    }

    async fn failed(&self, error: &ToolError) -> Outcome {
        let status = match error {
            ToolError::Machine(MachineError::Cancelled) => Status::Cancelled,
            ToolError::Machine(MachineError::Unknown(_)) => Status::Unknown,
            ToolError::Machine(_) | ToolError::Arguments(_) | ToolError::Refused(_) => Status::Failed,
        };
        let unreachable = matches!(error, ToolError::Machine(MachineError::Unreachable(_)));
        Outcome { status, unreachable, ..self.outcome_text(error.to_string()).await }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Parses the arguments of a call. An error names the invalid field.
fn read<T: DeserializeOwned>(arguments: &Arguments) -> Result<T, ToolError> {
    let Arguments::Object(map) = arguments else {
        return Err(ToolError::Arguments("the arguments are not a JSON object; send them again".to_owned()));
    };
    let mut map = map.clone();
    // For the user; every tool accepts it and ignores it.
    REASONS.iter().for_each(|name| drop(map.remove(*name)));
    serde_path_to_error::deserialize(Value::Object(map)).map_err(|error| {
        let field = error.path().to_string();
        let place = if field == "." { String::new() } else { format!(" `{field}`") };
        ToolError::Arguments(format!("invalid argument{place}: {}", error.inner()))
    })
}

/// Parses an optional argument. An empty string counts as missing, because small models pass "" for a missing argument.
fn unless_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Option::<String>::deserialize(deserializer).map(|text| text.filter(|text| !text.is_empty()))
}

fn outcome(status: Status, captured: CapturedOutput) -> Outcome {
    Outcome {
        styles: captured.styles,
        truncated: captured.truncated,
        artifact: captured.artifact,
        ..Outcome::new(status, captured.text)
    }
}

/// Converts the result of a program to an outcome. A line below the output says how the program ended; for
/// exit code 0, it is added only if `say_success` is true. `limit` is the program's timeout.
fn ended(exec: ExecResult, limit: Duration, captured: CapturedOutput, say_success: bool) -> Outcome {
    let (status, exit_code, note) = match exec.end {
        ExitReason::Exited(0) => (Status::Ok, Some(0), say_success.then(|| "[exit code 0]".to_owned())),
        ExitReason::Exited(code) => (Status::Failed, Some(code), Some(format!("[exit code {code}]"))),
        ExitReason::Killed { signal } => (Status::Failed, None, Some(format!("[killed by signal {signal}]"))),
        ExitReason::TimedOut => (Status::Timeout, None, Some(Outcome::time_limit_note(limit.as_secs()))),
        ExitReason::Cancelled => (Status::Cancelled, None, Some("[stopped]".to_owned())),
        ExitReason::Unknown { why } => (Status::Unknown, None, Some(format!("[result unknown: {why}]"))),
    };
    let mut outcome = outcome(status, captured);
    outcome.exit_code = exit_code;
    let left = exec
        .left_running
        .then(|| "[a process started by the command is still running in the background]".to_owned());
    for line in left.into_iter().chain(note) {
        push_line(&mut outcome.output, &line);
    }
    outcome
}

pub(crate) fn push_line(output: &mut String, line: &str) {
    if !output.is_empty() && !output.ends_with('\n') {
        output.push('\n');
    }
    output.push_str(line);
}
