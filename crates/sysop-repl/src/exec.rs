//! `sysop exec` and `sysop run`, which run one task without a screen.
//!
//! Standard output receives only the answer (or a routine's output, or one JSON message per line); progress goes to
//! standard error. On a terminal the text streams. Otherwise only the finished answer is written, so that
//! `answer=$(sysop exec …)` never contains text from between tool calls.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::json;
use sysop_core::budget::Budget;
use sysop_core::catalog::BASH_TOOL;
use sysop_core::event::{Decision, Delta, Event, Input, Origin, PauseReason, StopReason, Update};
use sysop_core::id::{CallId, Seq, SessionId, TurnId};
use sysop_core::image::ImageRef;
use sysop_core::missed_hosts::MissedHosts;
use sysop_core::policy::RiskClass;
use sysop_core::text::neutralize_line;
use sysop_core::transcript::{ItemBody, ItemId, SessionPhase, Transcript};
use sysop_core::ui_text;
use sysop_core::undo::{ASKS, UNDO_TOOL};
use sysop_driver::frontend::{AttachedSession, SessionService};
use sysop_term::command::undo_arguments;
use sysop_wire::Encoder;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::Exit;
use crate::chat::approval::{ApprovalOutcome, ApprovalPrompt, LateEffect, TtyApprovalIo, ask};
use crate::chat::no_echo::NoEcho;
use crate::render::panel::Panel;
use crate::render::plan::{self, ProposalLocation};
use crate::render::{RenderOptions, safe, words};

mod answer_schema;
mod call_output;
mod host_sessions;
mod printer;
mod program_prompts;
mod sequence;
mod standard_input;
mod stopping;
#[cfg(test)]
mod tests;
mod unattended;

pub use answer_schema::{AnswerSchema, SCHEMA_BYTES_MAX};
use answer_schema::{CORRECTIONS_MAX, correction};
pub use call_output::CallOutput;
use host_sessions::HostSessions;
use printer::ExecPrinter;
pub use program_prompts::{ProgramPromptHandler, ask_for_programs_on_terminal};
use program_prompts::{ProgramPrompts, PromptSender};
pub use sequence::{
    CallRole, CommandSequence, ConfirmHandler, SequenceAction, SequenceAnswer, SequenceCall, SequenceEvent,
    SequenceStep, confirm_on_terminal,
};
use sequence::{ConfirmSender, SequenceRun};
pub use standard_input::{
    InputEnd, InputLimits, StandardInput, attach, read_standard_input, truncation_note,
};
use stopping::StopRequest;

/// Maximum time for a stopped turn to end and to kill its commands.
const CANCEL_WAIT: Duration = Duration::from_secs(10);
/// Maximum time to wait at exit for an open question to restore the terminal.
const LEAVE: Duration = Duration::from_secs(1);
/// Waits that are shorter than this are not shown.
const SHORT_WAIT: Duration = Duration::from_secs(2);
/// Maximum length of a task from standard input, in bytes.
const TASK_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Name under which this front end answers approvals.
pub const BY: &str = "exec";

pub enum ExecTask {
    Prompt(String),
    /// A routine's rendered command.
    Routine(String),
    /// Calls made without a model, one after another.
    Sequence(Box<dyn CommandSequence>),
    /// Undo of a tool call.
    Undo {
        /// Number of the call; `None` means the last one that can be undone.
        step: Option<u64>,
        /// True to print the plan and change nothing.
        plan_only: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecFormat {
    Human,
    /// One message of the wire protocol per line.
    Json,
}

/// Request to exit the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGINT or SIGQUIT.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP.
    HangUp,
}

impl StopSignal {
    /// Returns the exit code of a process that this signal ended.
    pub fn exit(self) -> Exit {
        match self {
            Self::Interrupt => Exit::Interrupted,
            Self::Terminate => Exit::Terminated,
            Self::HangUp => Exit::HungUp,
        }
    }
}

/// Handler that asks the user about a proposal. It blocks until there is an answer.
#[derive(Clone)]
pub struct ApprovalHandler(Arc<ApprovalFn>);

type ApprovalFn = dyn Fn(&ApprovalPrompt, &AtomicBool) -> io::Result<ApprovalOutcome> + Send + Sync;

/// Everything that a run of `sysop exec` needs from its caller.
pub struct ExecContext {
    pub opened: AttachedSession,
    /// Title of the session if the user named none, so that the run says which one it is; `None` for other sessions.
    pub chosen_title: Option<String>,
    pub task: ExecTask,
    pub images: Vec<ImageRef>,
    /// Schema that the answer must match; if it does not, the model is asked again.
    pub schema: Option<AnswerSchema>,
    /// Format of `out`.
    pub form: ExecFormat,
    pub out: Box<dyn Write + Send>,
    /// Drawing options if standard output is a terminal.
    pub terminal: Option<RenderOptions>,
    pub err: Box<dyn Write + Send>,
    /// Amount of the calls' output that is shown on standard error.
    pub call_output: CallOutput,
    /// True if standard error gets only errors, questions, and warnings that something was not done.
    pub is_quiet: bool,
    /// Handler for approvals; `None` if nobody can be asked.
    pub ask: Option<ApprovalHandler>,
    /// Handler for programs' questions; `None` if nobody can be asked.
    pub ask_for_program: Option<ProgramPromptHandler>,
    /// Handler for a sequence's questions; `None` if nobody can be asked.
    pub confirm: Option<ConfirmHandler>,
    /// Service that saves rules; `None` if "always" is not offered.
    pub service: Option<Arc<dyn SessionService>>,
    /// Flags that a command which resumes the task repeats, each followed by a space.
    pub resume_flags: String,
    /// Limits that this run sets. A resumed session may have others.
    pub budget: Budget,
    /// True if there is a keyboard, whose keys would stand between the lines if they were typed during a call.
    pub hides_keys: bool,
    /// Requests to exit the process.
    pub stops: UnboundedReceiver<StopSignal>,
}

/// Returns a channel that receives this process's signals as requests to exit.
pub fn signals() -> io::Result<UnboundedReceiver<StopSignal>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (send, stops) = unbounded_channel();
    for (kind, stop) in [
        (SignalKind::interrupt(), StopSignal::Interrupt),
        (SignalKind::quit(), StopSignal::Interrupt),
        (SignalKind::terminate(), StopSignal::Terminate),
        (SignalKind::hangup(), StopSignal::HangUp),
    ] {
        let (mut signal, send) = (signal(kind)?, send.clone());
        tokio::spawn(async move { while signal.recv().await.is_some() && send.send(stop).is_ok() {} });
    }
    Ok(stops)
}

/// Returns a handler that asks on this terminal. There must be a keyboard, and standard error must be a terminal.
pub fn ask_on_terminal(color: bool) -> ApprovalHandler {
    ApprovalHandler(Arc::new(move |question, withdrawn| {
        ask(&mut TtyApprovalIo::new(color)?, question, withdrawn)
    }))
}

/// Returns a handler that allows everything without asking.
pub fn allow_all() -> ApprovalHandler {
    ApprovalHandler(Arc::new(|_, _| Ok(ApprovalOutcome::Allow)))
}

/// A task that cannot start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidTask {
    /// One sentence that says what to do.
    pub why: String,
    pub exit: Exit,
}

impl From<String> for InvalidTask {
    fn from(why: String) -> Self {
        Self { why, exit: Exit::Usage }
    }
}

/// Returns the task's text: the argument, or the content of standard input if the argument is `-`.
pub fn task_text(argument: &str, input: impl Read) -> Result<String, InvalidTask> {
    let text = if argument == "-" {
        let mut bytes = Vec::new();
        input
            .take(TASK_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| format!("cannot read the task from standard input: {error}"))?;
        if bytes.len() as u64 > TASK_BYTES_MAX {
            return Err(format!(
                "the task on standard input is longer than {TASK_BYTES_MAX} bytes; shorten it"
            )
            .into());
        }
        String::from_utf8(bytes).map_err(|_| "the task on standard input is not valid UTF-8".to_owned())?
    } else {
        argument.to_owned()
    };
    if text.trim().is_empty() {
        return Err("the task is empty; describe it, as in `sysop exec \"free some disk space\"`"
            .to_owned()
            .into());
    }
    Ok(text)
}

/// Returns the directory with full outputs, if it is on this machine.
fn artifact_directory(service: Option<&dyn SessionService>) -> Option<String> {
    Some(service?.artifact_directory()?.display().to_string())
}

pub async fn run(mut context: ExecContext) -> Exit {
    // Subscribe from the start of the log: the first event names the host and the tools.
    let mut updates = context.opened.session.subscribe(Seq(0));
    let encoder = encoder(&context);
    let mut printer = ExecPrinter::new(encoder, context.out, context.terminal, context.err, &context.task);
    printer.artifacts = artifact_directory(context.service.as_deref());
    printer.name_session(context.opened.session.id(), context.resume_flags);
    printer.configure(context.call_output, context.is_quiet, context.schema.is_some());
    let (confirmations, mut confirmed) = unbounded_channel();
    let plan_only = matches!(context.task, ExecTask::Undo { plan_only: true, .. });
    let undo_hint = undo_hint(&context.task, context.opened.session.id());
    let (input, sequence) = first_input(context.task, context.images, context.confirm, confirmations);
    let mut run = ExecRun {
        opened: context.opened,
        transcript: Transcript::new(),
        printer,
        schema: context.schema,
        corrections: 0,
        turn: None,
        sent: None,
        sequence,
        ending: None,
        stop: None,
        no_echo: context.hides_keys.then(NoEcho::of_keys).flatten().map(Arc::new),
        hosts: HostSessions::default(),
        withdrawn: Arc::new(AtomicBool::new(false)),
        questions: ProgramPrompts::with_handler(context.ask_for_program),
        asking: JoinSet::new(),
        edited: None,
        allowed: None,
        late_effect: LateEffect::default(),
        service: context.service,
        plan_only,
        missed_hosts: MissedHosts::default(),
        config_error: None,
        budget: context.budget,
        chosen_title: context.chosen_title,
        undo_hint,
        wait: None,
    };
    if let Some(exit) = run.start(input) {
        return exit;
    }
    let (answers, mut answered) = unbounded_channel();
    let (replies, mut replied) = unbounded_channel();
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    loop {
        match run.change_host().await {
            Ok(of_host) => updates = of_host.unwrap_or(updates),
            Err(exit) => return exit,
        }
        let scheduled = run.sequence.as_ref().and_then(|run| run.scheduled.as_ref()).map(|(at, ..)| *at);
        let next = tokio::select! {
            update = updates.next() => match update {
                Some(update) => run.handle_update(&update, context.ask.as_ref(), &answers, &replies),
                None => Some(run.handle_closed_session()),
            },
            Some(stop) = context.stops.recv() => run.handle_signal(stop),
            Some(answer) = answered.recv() => run.handle_approval(answer, context.ask.as_ref(), &answers).await,
            Some(answer) = confirmed.recv() => run.handle_confirmation(answer),
            () = sleep_until(scheduled.unwrap_or_else(distant_future)), if scheduled.is_some() => run.send_scheduled(),
            Some((id, reply)) = replied.recv() => run.handle_prompt_outcome(id, reply, &replies),
            _ = seconds.tick(), if run.printer.shows_waits() => run.show_wait(),
            exit = ended(run.ending), if run.ending.is_some() => exit,
        };
        if let Some(exit) = next {
            run.leave().await;
            return exit;
        }
    }
}

/// Waits until the time that a stopped turn has is over. Returns the exit code of the run.
async fn ended(ending: Option<(Exit, Instant)>) -> Option<Exit> {
    let (exit, deadline) = ending?;
    sleep_until(deadline).await;
    Some(exit)
}

fn distant_future() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

/// Returns the encoder of a task whose output is for programs.
fn encoder(context: &ExecContext) -> Option<Box<Encoder>> {
    let is_json = matches!(context.form, ExecFormat::Json);
    is_json.then(|| Box::new(Encoder::new(context.opened.session.id().clone())))
}

/// Returns the first input of a task, or the state of a sequence, which chooses its inputs itself.
fn first_input(
    task: ExecTask,
    images: Vec<ImageRef>,
    confirm: Option<ConfirmHandler>,
    answers: ConfirmSender,
) -> (Option<Input>, Option<SequenceRun>) {
    match task {
        ExecTask::Prompt(text) => (Some(Input::Prompt { text, images, by: None }), None),
        ExecTask::Routine(command) => (Some(direct(&command)), None),
        ExecTask::Undo { step, .. } => {
            let mut arguments = undo_arguments(step).as_object().cloned().unwrap_or_default();
            arguments.insert(ASKS.to_owned(), json!(true));
            let undo =
                Input::Direct { tool: UNDO_TOOL.to_owned(), arguments, origin: Origin::User, by: None };
            (Some(undo), None)
        }
        ExecTask::Sequence(sequence) => (None, Some(SequenceRun::new(sequence, confirm, answers))),
    }
}

/// Returns the hint for an undo that nobody can approve: the command that needs no approval.
fn undo_hint(task: &ExecTask, session: &SessionId) -> Option<String> {
    let ExecTask::Undo { step, .. } = task else { return None };
    let call = step.map_or_else(String::new, |step| format!(" {step}"));
    Some(format!("run interactively, or run `sysop undo {session}{call} --yes`"))
}

fn direct(command: &str) -> Input {
    Input::Direct {
        tool: BASH_TOOL.to_owned(),
        arguments: json!({ "command": command }).as_object().cloned().unwrap_or_default(),
        origin: Origin::Routine,
        by: None,
    }
}

type ApprovalSender = tokio::sync::mpsc::UnboundedSender<(CallId, io::Result<ApprovalOutcome>)>;

struct ExecRun {
    opened: AttachedSession,
    transcript: Transcript,
    printer: ExecPrinter,
    schema: Option<AnswerSchema>,
    /// Number of times the model has been asked to correct its answer.
    corrections: u32,
    turn: Option<TurnId>,
    /// The prompt or call that was sent last. Its turn is the task's.
    sent: Option<Input>,
    sequence: Option<SequenceRun>,
    hosts: HostSessions,
    /// Exit code, and the deadline for the turn to end; set once an exit has been requested.
    ending: Option<(Exit, Instant)>,
    /// Set once the user has asked to stop.
    stop: Option<StopRequest>,
    /// Hides keys until the run and its last question have ended.
    no_echo: Option<Arc<NoEcho>>,
    withdrawn: Arc<AtomicBool>,
    questions: ProgramPrompts,
    /// Handlers of questions that may still have the terminal.
    asking: JoinSet<()>,
    /// Command of the pending approval, as the user edited it.
    edited: Option<String>,
    /// Call that the user allowed last, with its risk at that time.
    allowed: Option<(CallId, RiskClass)>,
    late_effect: LateEffect,
    service: Option<Arc<dyn SessionService>>,
    /// True if proposals are printed but not decided.
    plan_only: bool,
    missed_hosts: MissedHosts,
    /// Limits that this run sets.
    budget: Budget,
    /// Place of the error in the config that denied a call.
    config_error: Option<String>,
    /// Title of the session if the user named none.
    chosen_title: Option<String>,
    /// Way to undo without an approval; set for an undo.
    undo_hint: Option<String>,
    /// Words for the current wait, and the time since which they have been the same.
    wait: Option<(String, Instant)>,
}

impl ExecRun {
    /// Withdraws the questions, clears the row about a wait, and says what a stop did.
    async fn leave(&mut self) {
        self.withdraw_questions();
        // The handler of a question restores the terminal before it ends.
        let _ = tokio::time::timeout(LEAVE, async { while self.asking.join_next().await.is_some() {} }).await;
        self.printer.clear_wait();
        self.tell_stop();
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "other events do not end the task")]
    fn handle_update(
        &mut self,
        update: &Update,
        ask: Option<&ApprovalHandler>,
        answers: &ApprovalSender,
        replies: &PromptSender,
    ) -> Option<Exit> {
        self.transcript.apply(update);
        if let Update::Logged(logged) = update {
            self.hosts.last = logged.seq;
            if logged.seq <= self.opened.last || self.opened.session.is_by_another_process(logged.seq) {
                self.printer.replayed(update);
                return None;
            }
        }
        if let Err(error) = self.print(update)
            && self.ending.is_none()
        {
            return self.handle_write_error(&error);
        }
        let logged = match update {
            Update::Logged(logged) => logged,
            Update::Delta(delta) => return self.handle_program_prompt(delta, replies),
        };
        match &logged.event {
            // A turn that was running before ours is ended by our prompt and is not part of the task.
            event @ Event::TurnStarted { turn, prompt, .. }
                if self.turn.is_none() && self.sent.as_ref().is_some_and(|sent| sent.begins(event)) =>
            {
                self.turn = Some(*turn);
                let is_resumed = *turn > TurnId(1) && self.corrections == 0;
                if is_resumed && !prompt.is_empty() {
                    self.tell_resumed();
                }
                None
            }
            Event::ApprovalAsked { call, .. } if self.ending.is_none() && self.turn.is_some() => {
                self.tell_second_question(&call.id);
                self.request_approval(&call.id, ask, answers)
            }
            Event::ApprovalPreviewed { call, preview, .. } if self.ending.is_none() => {
                let shown = self.transcript.plan(call)?.previewed_command();
                if self.edited.as_deref() == Some(shown) {
                    return self.request_approval(call, ask, answers);
                }
                self.late_effect.show(words::late_effect(preview));
                None
            }
            Event::Decided { .. } => {
                self.edited = None;
                self.withdrawn.store(true, Ordering::Relaxed);
                None
            }
            Event::Paused { reason: reason @ (PauseReason::Loop | PauseReason::Budget), detail, .. }
                if self.turn.is_some() =>
            {
                self.stop_at_pause(*reason, detail.as_deref().unwrap_or_default())
            }
            Event::ToolStarted { .. } if self.turn.is_some() => {
                self.missed_hosts.note_start();
                None
            }
            Event::ToolFinished { call, outcome } if self.turn.is_some() => {
                self.note_call_end(call, outcome.status);
                self.note_outcome(outcome);
                None
            }
            Event::TurnEnded { turn, reason, .. } if self.turn == Some(*turn) => {
                self.turn_ended(*turn, *reason)
            }
            _ => None,
        }
    }

    fn withdraw_questions(&self) {
        self.withdrawn.store(true, Ordering::Relaxed);
        self.questions.withdrawn.store(true, Ordering::Relaxed);
    }

    /// Shows what the task has been waiting for, unless the wait is short.
    fn show_wait(&mut self) -> Option<Exit> {
        let is_waiting =
            matches!(self.transcript.phase(), SessionPhase::Thinking { .. } | SessionPhase::Running { .. });
        let words = is_waiting.then(|| words::wait(&self.transcript)).flatten()?;
        let began = match self.wait.take() {
            Some((before, began)) if before == words => began,
            Some(_) | None => Instant::now(),
        };
        let seconds = began.elapsed().as_secs();
        let progress = self.transcript.progress().and_then(|progress| progress.summary());
        let progress = progress.map_or_else(String::new, |progress| format!(" · {progress}"));
        let row = format!("{words} · {seconds} s{progress}");
        self.wait = Some((words, began));
        if seconds < SHORT_WAIT.as_secs() || self.turn.is_none() || self.questions.open.is_some() {
            return None;
        }
        self.printer.wait(&row).err().and_then(|error| self.handle_write_error(&error))
    }

    /// Names a session that the user did not name, before anything is sent to it.
    fn name_chosen_session(&mut self) {
        let Some(title) = self.chosen_title.as_ref().filter(|_| !self.printer.is_for_programs()) else {
            return;
        };
        let title = neutralize_line(title).replace('"', "'");
        let (place, root) = (ui_text::place(&self.opened.spec.host), &self.opened.spec.root);
        let text = match &self.undo_hint {
            Some(_) => format!("session {}: \"{title}\" on {place} in {root}", self.opened.session.id()),
            None => format!("resuming \"{title}\" on {place} in {root}"),
        };
        self.printer.note(&text);
    }

    /// Names the model of a resumed session, and the host unless it was named with the session. They need not be those
    /// of the config.
    fn tell_resumed(&mut self) {
        let Some(facts) = self.transcript.session_info().filter(|_| !self.printer.is_for_programs()) else {
            return;
        };
        let text = match self.chosen_title {
            Some(_) => format!("resumed with {}", facts.model),
            None => format!("resumed {} with {}", ui_text::on_place(&facts.host), facts.model),
        };
        self.printer.note(&text);
    }

    fn print(&mut self, update: &Update) -> io::Result<()> {
        // The end of an earlier, canceled turn is not part of the task's output. A notice may tell what it waits for.
        let is_notice = matches!(update, Update::Delta(Delta::Notice { .. }));
        if self.turn.is_none() && !is_notice && !self.printer.is_for_programs() {
            return Ok(());
        }
        if self.questions.open.is_some() && !self.printer.is_for_programs() {
            self.questions.defer(update);
            return Ok(());
        }
        self.printer.update(update, &self.transcript)
    }

    /// Ends the task at a pause, because nobody is here to resume the turn.
    fn stop_at_pause(&mut self, reason: PauseReason, detail: &str) -> Option<Exit> {
        let text = if reason == PauseReason::Budget {
            format!("stopped by the budget: {}{}", neutralize_line(detail), self.way_to_raise(detail))
        } else {
            "stopped: the model repeated the same call 3 times; rephrase the task".to_owned()
        };
        self.printer.error(&text);
        self.end(Exit::Failed)
    }

    fn ended(&mut self, turn: TurnId) -> Exit {
        let end = match self.transcript.item(&ItemId::End(turn)).map(|item| &item.body) {
            Some(ItemBody::End(end)) => Some(end.clone()),
            Some(_) | None => None,
        };
        if let Some((exit, _)) = self.ending {
            return exit;
        }
        let Some(end) = end else { return Exit::Failed };
        self.printer.end(&end, &self.transcript);
        let is_by_model = matches!(self.sent, Some(Input::Prompt { .. }));
        if let Some(place) = &self.config_error
            && (end.reason == StopReason::EndTurn || end.reason == StopReason::Failed && !is_by_model)
        {
            self.printer
                .error(&format!("not done: the config error at {place} denies all commands; fix it first"));
            return Exit::Usage;
        }
        match (end.reason, self.missed_hosts.error()) {
            (StopReason::EndTurn, Some(why)) => {
                // The model's answer is no result: it could not do what the task needs.
                self.printer.error(&why);
                Exit::Failed
            }
            (StopReason::EndTurn, None) => Exit::Done,
            (StopReason::MaxIterations | StopReason::Failed | StopReason::Paused, _) => Exit::Failed,
            (StopReason::Cancelled, _) => Exit::Stopped,
        }
    }

    pub(super) fn finish_turn(&mut self, turn: TurnId) -> Option<Exit> {
        let exit = self.ended(turn);
        if exit == Exit::Done { self.check_answer() } else { Some(exit) }
    }

    /// Prints the answer if it matches the schema; otherwise asks the model to correct it. Returns the exit
    /// code unless the model was asked.
    fn check_answer(&mut self) -> Option<Exit> {
        let Some(schema) = &self.schema else { return Some(Exit::Done) };
        let mut answer = "";
        for item in self.transcript.items().rev() {
            match &item.body {
                ItemBody::Answer(text) => {
                    answer = &text.text;
                    break;
                }
                ItemBody::Prompt(_) => break,
                ItemBody::Reasoning(_)
                | ItemBody::Proposal(_)
                | ItemBody::ToolOutput(_)
                | ItemBody::Notice(_)
                | ItemBody::End(_) => {}
            }
        }
        let problems = match schema.check(answer) {
            Ok(json) => {
                let written = self.printer.json_answer(&json);
                return written.map_or_else(|error| self.handle_write_error(&error), |()| Some(Exit::Done));
            }
            Err(problems) => problems,
        };
        if self.corrections == CORRECTIONS_MAX {
            let tries = CORRECTIONS_MAX + 1;
            self.printer.error(&format!("none of {tries} answers matches the schema: {problems}"));
            return Some(Exit::Failed);
        }
        self.corrections += 1;
        self.turn = None;
        self.send_task(Input::prompt(correction(&problems)))
    }

    fn request_approval(
        &mut self,
        call: &CallId,
        ask: Option<&ApprovalHandler>,
        answers: &ApprovalSender,
    ) -> Option<Exit> {
        let plan = self.transcript.plan(call)?;
        if self.plan_only {
            let text: String = plan.preview.iter().map(|line| format!("{}\n", safe(line))).collect();
            return match self.printer.output(&text) {
                Ok(()) => self.end(Exit::Done),
                Err(error) => self.handle_write_error(&error),
            };
        }
        let Some(ask) = ask.cloned() else { return self.end_unapproved(call) };
        let service = self.service.as_ref();
        let rule = service
            .and_then(|service| service.offered_rule(self.opened.session.id(), &self.transcript, plan));
        let shown = if self.edited.is_some() { plan.as_previewed() } else { plan.clone() };
        let question = question_of(&shown, &self.transcript, self.printer.render_options());
        let question = ApprovalPrompt { rule: rule.filter(|_| shown.command == plan.command), ..question };
        // If standard output is the same terminal, end its unfinished row before the question.
        if let Err(error) = self.printer.pause() {
            return self.handle_write_error(&error);
        }
        self.late_effect = question.late_effect.clone();
        self.withdrawn = Arc::new(AtomicBool::new(false));
        let (call, withdrawn, answers) = (call.clone(), self.withdrawn.clone(), answers.clone());
        let no_echo = self.no_echo.clone();
        self.spawn_question(move || {
            let answer = (ask.0)(&question, &withdrawn);
            drop(no_echo);
            // The receiver is gone if the task has ended.
            let _ = answers.send((call, answer));
        });
        None
    }

    /// Says why a call that the user allowed is asked about again.
    fn tell_second_question(&mut self, call: &CallId) {
        let Some((_, before)) = self.allowed.take().filter(|(allowed, _)| allowed == call) else { return };
        if let Some(plan) = self.transcript.plan(call) {
            self.printer.say(&words::asked_again(before, plan));
        }
    }

    /// Runs the handler of a question, which has the terminal until it ends.
    fn spawn_question(&mut self, handler: impl FnOnce() + Send + 'static) {
        while self.asking.try_join_next().is_some() {}
        self.asking.spawn_blocking(handler);
    }

    /// Handles a failed write to standard output. Reports the error unless the pipe was closed.
    fn handle_write_error(&mut self, error: &io::Error) -> Option<Exit> {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return self.end(Exit::PipeClosed);
        }
        self.printer.error(&format!("cannot write to standard output: {error}"));
        self.end(Exit::Failed)
    }

    fn handle_closed_session(&mut self) -> Exit {
        let error = self.opened.session.last_error();
        self.printer.error(&error.unwrap_or_else(|| "the session was closed".to_owned()));
        self.ending.map_or(Exit::Failed, |(exit, _)| exit)
    }

    async fn handle_approval(
        &mut self,
        (call, answer): (CallId, io::Result<ApprovalOutcome>),
        ask: Option<&ApprovalHandler>,
        answers: &ApprovalSender,
    ) -> Option<Exit> {
        let decision = match answer {
            Ok(ApprovalOutcome::Allow) => Decision::Allow { command: self.edited_command(&call) },
            Ok(ApprovalOutcome::Always(offered)) => {
                let Some(service) = &self.service else { return None };
                let answered = service.allow_always(self.opened.session.as_ref(), &offered, BY).await;
                return answered.err().and_then(|error| {
                    self.printer.error(&error);
                    self.request_approval(&call, ask, answers) // still undecided
                });
            }
            Ok(ApprovalOutcome::AllowSession) => {
                Decision::AllowSession { command: self.edited_command(&call) }
            }
            Ok(ApprovalOutcome::Edited(command)) => {
                return self.send_input(Input::PreviewCommand { call, command });
            }
            Ok(ApprovalOutcome::Reject(reason)) => Decision::Reject { reason },
            Ok(ApprovalOutcome::StopTurn) => Decision::Reject { reason: "stop".to_owned() },
            Ok(ApprovalOutcome::Interrupt) => return self.stop(Exit::Interrupted),
            Ok(ApprovalOutcome::Withdrawn) => return None,
            Err(error) => {
                self.printer.error(&format!("cannot prompt for approval on this terminal: {error}"));
                return self.end(Exit::ApprovalNeeded);
            }
        };
        if matches!(decision, Decision::Allow { .. } | Decision::AllowSession { .. }) {
            self.allowed = self.transcript.plan(&call).map(|plan| (call.clone(), plan.risk.class));
        }
        self.send_input(Input::Decision { call, decision, by: BY.to_owned(), person: None })
    }

    /// Returns the command that was shown last, if it is an edited one.
    fn edited_command(&self, call: &CallId) -> Option<String> {
        let proposed = &self.transcript.plan(call)?.command;
        self.edited.clone().filter(|edited| edited != proposed)
    }

    fn send_input(&mut self, input: Input) -> Option<Exit> {
        if let Input::PreviewCommand { command, .. } = &input {
            self.edited = Some(command.clone());
        }
        let error = self.opened.session.send(input).err()?;
        self.printer.error(&error);
        Some(Exit::Failed)
    }

    /// Stops the turn and waits until its commands have been killed. Returns `exit` if no wait is needed.
    fn end(&mut self, exit: Exit) -> Option<Exit> {
        self.ending = Some((exit, Instant::now() + CANCEL_WAIT));
        self.printer.ending = true;
        // If the terminal is gone, it needs no cleanup.
        let _ = self.printer.close_stream();
        self.withdrawn.store(true, Ordering::Relaxed);
        self.questions.withdrawn.store(true, Ordering::Relaxed);
        match self.opened.session.send(Input::Cancel) {
            Ok(()) => None,
            Err(_) => Some(exit),
        }
    }
}

fn question_of(
    plan: &sysop_core::transcript::Proposal,
    transcript: &Transcript,
    look: RenderOptions,
) -> ApprovalPrompt {
    let (host, folder) = transcript.session_info().map_or(("", ""), |facts| facts.place_of_plan(plan));
    let place = ProposalLocation { host, folder };
    let panel = Panel::new(look);
    let rows = plan::rows(plan, place, transcript.session_info(), panel.inner());
    ApprovalPrompt::new(panel.around(&plan::title(plan, transcript), rows), plan, transcript)
}
