//! Calls made one after another without a model, each in its own turn. Their purpose is unknown here.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Map, Value};
use sysop_core::event::{Input, Origin, StopReason};
use sysop_core::id::{Seq, TurnId};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::config_error_place;
use tokio::time::Instant;

use super::ExecRun;
use crate::Exit;
use crate::chat::approval::{ApprovalOutcome, TtyApprovalIo, confirm};

/// Source of a run's calls. Each call is chosen based on the outcome of the previous one.
pub trait CommandSequence: Send {
    /// Returns the next step of the run. Called at the start, and again after each call and each answer.
    fn next(&mut self, event: SequenceEvent<'_>) -> SequenceStep;
}

/// Event since the last step of the run.
#[derive(Debug, Clone, Copy)]
pub enum SequenceEvent<'a> {
    Started,
    Ended(&'a Outcome),
    Answered(SequenceAnswer),
}

/// A user's answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceAnswer {
    Yes,
    No,
    /// Nobody could be asked.
    Unavailable,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SequenceStep {
    /// Lines to print on standard error before the action.
    pub progress: Vec<String>,
    pub action: SequenceAction,
}

#[derive(Debug, Clone, PartialEq)]
pub enum SequenceAction {
    Run(SequenceCall),
    /// Ask the user this yes-or-no question.
    Ask(String),
    /// End the run.
    Finish {
        exit: Exit,
        /// One sentence if the run failed.
        error: Option<String>,
    },
}

/// Purpose of a call, which decides what is printed about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallRole {
    /// Checks the host. Shown only with the output of calls, unless it cannot run.
    HostCheck,
    /// Asks a question whose answer the sequence tells itself.
    Probe,
    /// Does the work. The output belongs on standard output.
    Step,
}

/// Tool call, checked against the policy like a call by a model.
#[derive(Debug, Clone, PartialEq)]
pub struct SequenceCall {
    pub tool: String,
    pub arguments: Map<String, Value>,
    pub role: CallRole,
    /// Time to wait before the call.
    pub delay: Duration,
    /// Host of the call, in the syntax of `--host`; `None` for the run's own.
    pub host: Option<String>,
}

/// Handler that asks the user a yes-or-no question. It blocks until there is an answer.
#[derive(Clone)]
pub struct ConfirmHandler(pub(super) Arc<ConfirmFn>);

type ConfirmFn = dyn Fn(&str, &AtomicBool) -> io::Result<ApprovalOutcome> + Send + Sync;

/// Returns a handler that asks on this terminal. There must be a keyboard, and standard error must be a terminal.
pub fn confirm_on_terminal(color: bool) -> ConfirmHandler {
    ConfirmHandler(Arc::new(move |question, withdrawn| {
        confirm(&mut TtyApprovalIo::new(color)?, question, withdrawn)
    }))
}

pub(super) type ConfirmSender = tokio::sync::mpsc::UnboundedSender<io::Result<ApprovalOutcome>>;

/// State of a running sequence.
pub(super) struct SequenceRun {
    pub(super) sequence: Box<dyn CommandSequence>,
    /// Outcome of the call in the current turn.
    pub(super) outcome: Option<Outcome>,
    /// True if a call has been sent and has not ended.
    pub(super) is_busy: bool,
    /// Call scheduled for a later time.
    pub(super) scheduled: Option<(Instant, Option<String>, Input)>,
    pub(super) confirm: Option<ConfirmHandler>,
    pub(super) answers: ConfirmSender,
}

impl SequenceRun {
    pub(super) fn new(
        sequence: Box<dyn CommandSequence>,
        confirm: Option<ConfirmHandler>,
        answers: ConfirmSender,
    ) -> Self {
        Self { sequence, outcome: None, is_busy: false, scheduled: None, confirm, answers }
    }
}

impl ExecRun {
    /// Sends the first input, and begins the sequence if there is one. Returns the exit code if the run has ended.
    pub(super) fn start(&mut self, input: Option<Input>) -> Option<Exit> {
        self.name_chosen_session();
        // Cancel a turn that is left running, because nobody may be there to answer its questions.
        let left = (self.opened.last > Seq(0)).then_some(Input::Cancel);
        for input in left.into_iter().chain(input) {
            if let exit @ Some(_) = self.send_task(input) {
                return exit;
            }
        }
        self.advance(SequenceEvent::Started)
    }

    /// Sends an input that begins a turn of the task, or stops an earlier turn. Returns the exit code if the session
    /// is closed.
    pub(super) fn send_task(&mut self, input: Input) -> Option<Exit> {
        self.sent = Some(input.clone());
        let error = self.opened.session.send(input).err()?;
        self.printer.error(&error);
        Some(Exit::Failed)
    }

    /// Notes which hosts the call did not reach and which error in the config denied it, and keeps the outcome of a
    /// sequence's call until the turn has ended.
    pub(super) fn note_outcome(&mut self, outcome: &Outcome) {
        self.missed_hosts.note_outcome(outcome);
        if self.config_error.is_none() && outcome.status == Status::Rejected {
            self.config_error = config_error_place(&outcome.output).map(str::to_owned);
        }
        if let Some(run) = &mut self.sequence {
            run.outcome = Some(outcome.clone());
        }
    }

    /// Continues the sequence, or returns the task's exit code.
    pub(super) fn turn_ended(&mut self, turn: TurnId, reason: StopReason) -> Option<Exit> {
        let is_going = self.ending.is_none() && reason != StopReason::Cancelled;
        match self.sequence.as_mut().and_then(|run| run.outcome.take()).filter(|_| is_going) {
            Some(outcome) => self.advance(SequenceEvent::Ended(&outcome)),
            None => self.finish_turn(turn),
        }
    }

    /// Executes the next step of the sequence. Returns the exit code if the run has ended.
    pub(super) fn advance(&mut self, event: SequenceEvent<'_>) -> Option<Exit> {
        let run = self.sequence.as_mut()?;
        run.is_busy = false;
        let SequenceStep { progress, action } = run.sequence.next(event);
        for line in progress {
            self.printer.note(&line);
        }
        match action {
            SequenceAction::Run(SequenceCall { tool, arguments, role, delay, host }) => {
                self.turn = None;
                self.printer.set_role(role);
                let input = Input::Direct { tool, arguments, origin: Origin::Routine, by: None };
                if delay.is_zero() {
                    return self.send_call(host, input);
                }
                run.scheduled = Some((Instant::now() + delay, host, input));
                None
            }
            SequenceAction::Ask(question) => self.request_confirmation(question),
            SequenceAction::Finish { exit, error } => {
                if let Some(error) = error {
                    self.printer.error(&error);
                }
                Some(exit)
            }
        }
    }

    pub(super) fn send_scheduled(&mut self) -> Option<Exit> {
        let (_, host, input) = self.sequence.as_mut()?.scheduled.take()?;
        self.send_call(host, input)
    }

    fn send_call(&mut self, host: Option<String>, input: Input) -> Option<Exit> {
        if let Some(run) = &mut self.sequence {
            run.is_busy = true;
        }
        if !self.hosts.is_current(host.as_ref()) {
            self.hosts.pending = Some((host, input));
            return None;
        }
        self.send_task(input)
    }

    fn request_confirmation(&mut self, question: String) -> Option<Exit> {
        let run = self.sequence.as_ref()?;
        let Some(confirm) = run.confirm.clone() else {
            return self.advance(SequenceEvent::Answered(SequenceAnswer::Unavailable));
        };
        let answers = run.answers.clone();
        self.withdrawn = Arc::new(AtomicBool::new(false));
        let withdrawn = Arc::clone(&self.withdrawn);
        let no_echo = self.no_echo.clone();
        self.spawn_question(move || {
            let answer = (confirm.0)(&question, &withdrawn);
            drop(no_echo);
            // The receiver is gone if the run has ended.
            let _ = answers.send(answer);
        });
        None
    }

    pub(super) fn handle_confirmation(&mut self, answer: io::Result<ApprovalOutcome>) -> Option<Exit> {
        let answer = match answer {
            Ok(ApprovalOutcome::Allow) => SequenceAnswer::Yes,
            Ok(ApprovalOutcome::Interrupt) => return Some(self.stop_between_calls(Exit::Interrupted)),
            Ok(ApprovalOutcome::Withdrawn) => return None,
            Ok(
                ApprovalOutcome::Reject(_)
                | ApprovalOutcome::StopTurn
                | ApprovalOutcome::AllowSession
                | ApprovalOutcome::Edited(_)
                | ApprovalOutcome::Always(_),
            ) => SequenceAnswer::No,
            Err(error) => {
                self.printer.error(&format!("cannot ask on this terminal: {error}"));
                SequenceAnswer::Unavailable
            }
        };
        self.withdrawn.store(true, Ordering::Relaxed);
        self.advance(SequenceEvent::Answered(answer))
    }
}
