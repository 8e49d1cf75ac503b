//! The end of a run that a signal or Ctrl+C asks to stop, and the line that says what became of its call.

use sysop_core::budget_scope::BudgetFlag;
use sysop_core::catalog::BASH_TOOL;
use sysop_core::event::Input;
use sysop_core::id::{CallId, Seq};
use sysop_core::outcome::Status;
use sysop_core::tool::RUN_COMMAND;
use sysop_core::transcript::SessionPhase;

use super::{ExecPrinter, ExecRun, StopSignal};
use crate::Exit;

/// Request of a user to stop the run.
#[derive(Debug, Clone, Default)]
pub(super) struct StopRequest {
    /// Call that was running at the request.
    call: Option<CallId>,
    /// True if that call runs a command.
    is_command: bool,
    /// The way in which that call ended.
    status: Option<Status>,
}

impl StopRequest {
    /// Returns the words for what became of the call.
    fn fate(&self) -> &'static str {
        match (&self.call, self.status) {
            (Some(_), Some(Status::Cancelled)) if self.is_command => ": the running command was killed",
            (Some(_), Some(Status::Cancelled)) => ": the running call was canceled",
            (Some(_), None | Some(Status::Unknown)) if self.is_command => {
                ": the running command may still be running"
            }
            (Some(_), None | Some(Status::Unknown)) => ": the running call may still be running",
            (Some(_), Some(_)) | (None, _) => "",
        }
    }
}

impl ExecRun {
    pub(super) fn handle_signal(&mut self, signal: StopSignal) -> Option<Exit> {
        let exit = signal.exit();
        if self.sequence.as_ref().is_some_and(|run| !run.is_busy) {
            return Some(self.stop_between_calls(exit));
        }
        // After a second request, do not wait.
        if matches!(self.ending, Some((Exit::Interrupted | Exit::Terminated | Exit::HungUp, _))) {
            return Some(exit);
        }
        self.stop(exit)
    }

    /// Stops the turn, as the user wants. Returns `exit` if no wait for its end is needed.
    pub(super) fn stop(&mut self, exit: Exit) -> Option<Exit> {
        // A second request stops nothing new.
        if self.stop.is_none() {
            let mut stop = StopRequest::default();
            if let SessionPhase::Running { call } = self.transcript.phase() {
                let output = self.transcript.output_of(call);
                stop.is_command =
                    output.is_some_and(|it| [BASH_TOOL, RUN_COMMAND].contains(&it.tool.as_str()));
                stop.call = Some(call.clone());
            }
            self.stop = Some(stop);
        }
        self.end(exit)
    }

    /// Ends a sequence of which no call is running.
    pub(super) fn stop_between_calls(&mut self, exit: Exit) -> Exit {
        self.stop = Some(StopRequest::default());
        exit
    }

    /// Notes the end of a call for the line about the stop.
    pub(super) fn note_call_end(&mut self, call: &CallId, status: Status) {
        if let Some(stop) = self.stop.as_mut().filter(|stop| stop.call.as_ref() == Some(call)) {
            stop.status = Some(status);
        }
    }

    /// Returns the hint on how to raise the limit named in `detail`, or an empty string if no flag sets it or the input
    /// is no prompt. The hint says if an earlier run has set the limit.
    pub(super) fn way_to_raise(&self, detail: &str) -> String {
        let is_task = matches!(self.sent, Some(Input::Prompt { .. }));
        let Some(limit) = BudgetFlag::of_sentence(detail).filter(|_| is_task) else { return String::new() };
        let is_earlier = self.opened.last > Seq(0) && !limit.is_set(&self.budget);
        let origin = if is_earlier { " (the limit is kept from an earlier run)" } else { "" };
        let (ExecPrinter { session, resume_flags, .. }, flag) = (&self.printer, limit.name());
        format!("{origin}; raise the limit with `sysop exec --resume {session} {resume_flags}{flag} N TASK`")
    }

    /// Says what a stop did, and how to go on.
    pub(super) fn tell_stop(&mut self) {
        let Some(stop) = self.stop.take() else { return };
        let fate = stop.fate();
        let is_task = self.turn.is_some() && matches!(self.sent, Some(Input::Prompt { .. }));
        let resume = match is_task {
            true => {
                let ExecPrinter { session, resume_flags, .. } = &self.printer;
                format!("; resume with `sysop exec --resume {session} {resume_flags}TASK`")
            }
            false => String::new(),
        };
        self.printer.say(&format!("stopped{fate}{resume}"));
    }
}
