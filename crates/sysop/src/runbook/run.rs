//! The run of a runbook: decides after each call what to do next, but makes no calls itself.
//!
//! A step goes through its phases in order: `unless`, `ask`, `check`, the hash of its file, the action, `verify`.
//! Any difference from what a step expects is drift; it stops the run unless allowed.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use sysop_core::catalog::BASH_TIMEOUT_S_DEFAULT;
use sysop_core::outcome::{Outcome, Status};
use sysop_core::ui_text::counted;
use sysop_repl::Exit;
use sysop_repl::exec::{
    CallRole, CommandSequence, SequenceAction, SequenceAnswer, SequenceCall, SequenceEvent, SequenceStep,
};

use super::call::{StepCall, hash_command};
use super::judge::{ProbeResult, judge, probe_result, sections};
use super::system_check::{SystemDifference, programs, system_command, system_difference};
use super::{Runbook, shown};
use crate::config::{
    FailureAction, RoutineError, RunbookStep, StepAction, StepExpectation, TemplatePart, template_parts,
};
use crate::exit::CommandError;
use crate::settings::{HostChoice, Settings};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunRange {
    /// Run the steps, starting at this one, counted from 1.
    Steps { from: usize },
    /// Undo the steps, from this one back to the first.
    Undo { from: usize },
}

/// Phase of a step, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StepPhase {
    Unless,
    Ask,
    Check,
    Hash,
    Action,
    Verify,
    End,
}

impl StepPhase {
    fn next(self) -> Self {
        match self {
            Self::Unless => Self::Ask,
            Self::Ask => Self::Check,
            Self::Check => Self::Hash,
            Self::Hash => Self::Action,
            Self::Action => Self::Verify,
            Self::Verify | Self::End => Self::End,
        }
    }
}

/// Answer that the run is waiting for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Waiting {
    Start,
    /// Result of checking a host; `None` is the run's own host.
    System(Option<String>),
    /// The user's decision about a host with a different system.
    OtherSystem,
    Step(StepPhase),
    /// The user's decision about undoing the completed steps. The run then ends with the error.
    UndoConsent(String),
    /// Outcome of an undo call. If the error is set, the run ends with that error after the last undo call.
    Undo(Option<String>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct StepUndo {
    step: usize,
    call: Option<StepCall>,
}

/// State of a run: its current step and phase, the values so far, and the steps that can be undone.
pub(super) struct RunbookRun {
    book: Runbook,
    range: RunRange,
    /// Host of each step; `None` for the run's own.
    hosts: Vec<Option<String>>,
    /// Own host of the run, if it is one other machine.
    own_host: Option<String>,
    /// Hosts that have not been checked, with the command that checks them.
    unchecked: VecDeque<(Option<String>, String)>,
    /// Values of the variables, and of the groups matched so far.
    values: BTreeMap<String, String>,
    waiting: Waiting,
    step: usize,
    /// Number of attempts at `verify` so far.
    tries: u32,
    /// Steps that have run, in order; during an undo, those that have not been undone yet.
    done: Vec<StepUndo>,
    skipped: usize,
    /// Numbers of the failed steps after which the run continued.
    passed_over: Vec<usize>,
    undone: usize,
    progress: Vec<String>,
}

impl RunbookRun {
    /// Creates the run. Fails if a step needs a value that a skipped step provides, or names an unknown host.
    pub(super) fn new(book: Runbook, range: RunRange, settings: &Settings) -> Result<Self, CommandError> {
        let values = book.values.clone();
        let own = settings.host.to_string();
        let other = |host: HostChoice| Some(host.to_string()).filter(|host| *host != own);
        let hosts: Vec<_> = step_hosts(&book.routine.steps, settings)?.into_iter().map(other).collect();
        let mut run = Self {
            book,
            range,
            hosts: hosts.into_iter().map(|host| host.map(|host| host.replace(", ", ","))).collect(),
            own_host: matches!(settings.host, HostChoice::Ssh(_)).then_some(own),
            unchecked: VecDeque::new(),
            values,
            waiting: Waiting::Start,
            step: 0,
            tries: 0,
            done: Vec::new(),
            skipped: 0,
            passed_over: Vec::new(),
            undone: 0,
            progress: Vec::new(),
        };
        match range {
            RunRange::Steps { from } => {
                run.step = from.saturating_sub(1);
                run.check_values(from)?;
            }
            RunRange::Undo { from } => run.plan_undo(from)?,
        }
        Ok(run)
    }

    /// Checks that no step needs a value that a skipped step provides.
    fn check_values(&self, from: usize) -> Result<(), CommandError> {
        let steps = &self.book.routine.steps;
        let omitted = steps.iter().take(from.saturating_sub(1)).enumerate();
        let omitted: BTreeMap<String, usize> = omitted
            .flat_map(|(at, step)| step.captures().into_iter().map(move |name| (name, at + 1)))
            .collect();
        for (number, step) in (1..).zip(steps).skip(from.saturating_sub(1)) {
            for (_, template, _) in step.templates() {
                let needed = template_parts(template).find_map(|part| match part {
                    TemplatePart::Name(name) => Some((name, *omitted.get(name)?)),
                    TemplatePart::Text(_) => None,
                });
                if let Some((name, provider)) = needed {
                    return Err(CommandError::usage(format!(
                        "step {number} needs {{{{{name}}}}}, which step {provider} provides; start at step {provider}"
                    )));
                }
            }
        }
        Ok(())
    }

    fn plan_undo(&mut self, from: usize) -> Result<(), CommandError> {
        for (at, step) in self.book.routine.steps.iter().enumerate().take(from) {
            let call = self.book.undo(step, &self.values).map_err(|error| {
                CommandError::usage(format!("the undo of step {} cannot run on its own: {error}", at + 1))
            })?;
            self.done.push(StepUndo { step: at, call });
        }
        if self.done.iter().all(|undo| undo.call.is_none()) {
            return Err(CommandError::usage("none of these steps has an undo"));
        }
        Ok(())
    }

    fn current(&self) -> Option<&RunbookStep> {
        self.book.routine.steps.get(self.step)
    }

    fn say(&mut self, line: String) {
        self.progress.push(line);
    }

    fn title(&self, at: usize) -> String {
        let (steps, number) = (&self.book.routine.steps, at + 1);
        let name = steps.get(at).map(|step| shown(&step.name).replace('\n', " ")).unwrap_or_default();
        let host = self.hosts.get(at).and_then(Option::as_ref);
        let on = host.map(|host| format!(" on {}", shown(host))).unwrap_or_default();
        format!("step {number} of {} ({name}){on}", steps.len())
    }

    fn finish(&mut self, exit: Exit, error: Option<String>) -> SequenceAction {
        SequenceAction::Finish { exit, error }
    }

    fn start(&mut self) -> SequenceAction {
        if matches!(self.range, RunRange::Undo { .. }) {
            return self.undo_next(None);
        }
        let source = self.book.routine.made_from.as_ref();
        let steps = || self.book.routine.steps.iter().zip(&self.hosts).skip(self.step);
        let mut hosts: Vec<&Option<String>> = Vec::new();
        hosts.extend(steps().map(|(_, host)| host));
        hosts.sort();
        hosts.dedup();
        let checks = hosts.into_iter().filter_map(|host| {
            let of_host = steps().filter(|(_, of_step)| *of_step == host).map(|(step, _)| step);
            Some((host.clone(), system_command(&programs(of_host), source)?))
        });
        self.unchecked = checks.collect();
        self.check_next_system()
    }

    /// Checks the next host, or begins with the first step.
    fn check_next_system(&mut self) -> SequenceAction {
        let Some((host, command)) = self.unchecked.pop_front() else {
            return self.enter(StepPhase::Unless);
        };
        let call = StepCall::Command(command).to_call("check the host", BASH_TIMEOUT_S_DEFAULT, None);
        self.waiting = Waiting::System(host.clone());
        SequenceAction::Run(SequenceCall { role: CallRole::HostCheck, host, ..call })
    }

    /// Returns a call on the host of a step.
    fn call_on(&self, at: usize, call: SequenceCall) -> SequenceCall {
        SequenceCall { host: self.hosts.get(at).cloned().flatten(), ..call }
    }

    fn probe(&self, call: &StepCall, reason: &str, timeout_s: u64, delay: Duration) -> SequenceAction {
        let call = self.call_on(self.step, call.to_call(reason, timeout_s, None));
        SequenceAction::Run(SequenceCall { role: CallRole::Probe, delay, ..call })
    }

    fn system_checked(&mut self, host: Option<&str>, outcome: &Outcome) -> SequenceAction {
        let host = host.map_or_else(|| "the host".to_owned(), shown);
        if outcome.status != Status::Ok && outcome.exit_code.is_none() && outcome.hosts.is_empty() {
            let why = outcome.output.lines().next().unwrap_or("the call failed").to_owned();
            return self.finish(Exit::Failed, Some(format!("cannot check {host}: {}", shown(&why))));
        }
        match system_difference(outcome, self.book.routine.made_from.as_ref()) {
            None => self.check_next_system(),
            Some(SystemDifference::MissingPrograms(names)) => {
                let error = format!(
                    "nothing ran: {host} has no {}; install what is missing, or adapt the runbook",
                    shown(&names.join(", "))
                );
                self.finish(Exit::Failed, Some(error))
            }
            Some(SystemDifference::OtherSystem { made, found }) => {
                self.waiting = Waiting::OtherSystem;
                let difference = format!("this runbook was made on {made}, but {host} has {found}");
                SequenceAction::Ask(shown(&format!("{difference}. Run it anyway?")))
            }
        }
    }

    /// Continues with a phase of the current step, or with the first later phase that the step has.
    fn enter(&mut self, phase: StepPhase) -> SequenceAction {
        let mut phase = phase;
        loop {
            let Some(step) = self.current().cloned() else { return self.end() };
            if phase == StepPhase::Unless {
                let title = self.title(self.step);
                self.say(format!("── {title}"));
                self.tries = 0;
            }
            if phase == StepPhase::End {
                self.step += 1;
                phase = StepPhase::Unless;
                continue;
            }
            match self.phase_action(&step, phase) {
                Ok(Some(action)) => {
                    self.waiting = Waiting::Step(phase);
                    return action;
                }
                Ok(None) => phase = phase.next(),
                Err(error) => return self.stop(&error.to_string()),
            }
        }
    }

    fn phase_action(
        &mut self,
        step: &RunbookStep,
        phase: StepPhase,
    ) -> Result<Option<SequenceAction>, RoutineError> {
        let reason = format!("{}: {}", self.title(self.step), phase_words(phase));
        let probe = |run: &Self, template: &Option<String>, delay: Duration| {
            let Some(template) = template else { return Ok(None) };
            let command = run.book.command(step, template, &run.values)?;
            Ok(Some(run.probe(&StepCall::Command(command), &reason, step.timeout_s, delay)))
        };
        match phase {
            StepPhase::Unless => probe(self, &step.unless, Duration::ZERO),
            StepPhase::Ask => {
                let Some(ask) = &step.ask else { return Ok(None) };
                let ask = self.book.routine.fill_plain(ask, &self.values)?;
                let by_hand = if step.action == StepAction::Manual { "\nIs it done?" } else { "" };
                Ok(Some(SequenceAction::Ask(shown(&format!("{}: {ask}{by_hand}", self.title(self.step))))))
            }
            StepPhase::Check => probe(self, &step.check, Duration::ZERO),
            StepPhase::Hash => match self.book.action(step, &self.values)? {
                Some(StepCall::Edit(edit)) if edit.sha256.is_some() => {
                    let call = StepCall::Command(hash_command(&edit.file));
                    Ok(Some(self.probe(&call, &reason, step.timeout_s, Duration::ZERO)))
                }
                Some(StepCall::Edit(_) | StepCall::Command(_)) | None => Ok(None),
            },
            StepPhase::Action => {
                let call = self.book.action(step, &self.values)?;
                let run = |call: StepCall| call.to_call(&self.title(self.step), step.timeout_s, step.guard);
                Ok(call.map(|call| SequenceAction::Run(self.call_on(self.step, run(call)))))
            }
            StepPhase::Verify => {
                let wait = if self.tries == 0 { 0 } else { step.retry.every_s };
                probe(self, &step.verify, Duration::from_secs(wait))
            }
            StepPhase::End => Ok(None),
        }
    }

    fn step_ended(&mut self, phase: StepPhase, outcome: &Outcome) -> SequenceAction {
        let Some(step) = self.current().cloned() else { return self.end() };
        if outcome.status == Status::Rejected {
            let why = outcome.output.lines().next().unwrap_or_default().to_owned();
            let why = if why.is_empty() { String::new() } else { format!(": {}", shown(&why)) };
            return self.stop_with(format!("{} was not approved{why}", self.title(self.step)));
        }
        match phase {
            StepPhase::Unless => match probe_result(outcome) {
                ProbeResult::Yes => {
                    self.skipped += 1;
                    self.say("already done: skipped".to_owned());
                    self.enter(StepPhase::End)
                }
                ProbeResult::No(_) => self.pass(phase, "unless: not done yet"),
                ProbeResult::Unclear(why) => {
                    self.fail(&step, &format!("the result of `unless` is unclear: {why}"))
                }
            },
            StepPhase::Check => match probe_result(outcome) {
                ProbeResult::Yes => self.pass(phase, "check: ok"),
                ProbeResult::No(why) | ProbeResult::Unclear(why) => {
                    self.fail(&step, &format!("`check` failed before the step: {why}"))
                }
            },
            StepPhase::Hash => self.hash_ended(&step, outcome),
            StepPhase::Action => self.action_ended(&step, outcome),
            StepPhase::Verify => match probe_result(outcome) {
                ProbeResult::Yes => self.pass(phase, "verify: ok"),
                ProbeResult::No(why) | ProbeResult::Unclear(why) => {
                    self.tries += 1;
                    if self.tries < step.retry.times {
                        let wait = match step.retry.every_s {
                            0 => String::new(),
                            seconds => format!(" in {seconds} s"),
                        };
                        self.say(format!("  verify: not yet ({why}); trying again{wait}"));
                        return self.enter(StepPhase::Verify);
                    }
                    let tries = match self.tries {
                        1 => String::new(),
                        tries => format!(" after {tries} tries"),
                    };
                    self.fail(&step, &format!("`verify` failed after the step: {why}{tries}"))
                }
            },
            StepPhase::Ask | StepPhase::End => self.enter(phase.next()),
        }
    }

    /// Says how a phase ended, and continues with the next one.
    fn pass(&mut self, phase: StepPhase, text: &str) -> SequenceAction {
        self.say(format!("  {text}"));
        self.enter(phase.next())
    }

    fn hash_ended(&mut self, step: &RunbookStep, outcome: &Outcome) -> SequenceAction {
        let wanted = match self.book.action(step, &self.values) {
            Ok(Some(StepCall::Edit(edit))) => edit.sha256.unwrap_or_default(),
            Ok(Some(StepCall::Command(_)) | None) | Err(_) => String::new(),
        };
        for section in sections(outcome) {
            let found = section.split_whitespace().next().unwrap_or_default();
            if found != wanted {
                let now = if found.is_empty() { "unknown" } else { found };
                let difference =
                    format!("the file differs from the expected one: sha256 {now}, expected {wanted}");
                return self.fail(step, &shown(&difference));
            }
        }
        self.pass(StepPhase::Hash, "sha256: as expected")
    }

    fn action_ended(&mut self, step: &RunbookStep, outcome: &Outcome) -> SequenceAction {
        match judge(&step.expect, outcome) {
            Ok(values) => {
                self.values.extend(values);
                // A step whose undo command cannot be filled in has no undo.
                let call = self.book.undo(step, &self.values).unwrap_or_default();
                self.done.push(StepUndo { step: self.step, call });
                if outcome.status != Status::Ok {
                    self.say("  as the step expects".to_owned());
                }
                self.enter(StepPhase::Verify)
            }
            Err(difference) => self.fail(step, &difference),
        }
    }

    /// Reacts to a difference from the step's expectations.
    fn fail(&mut self, step: &RunbookStep, difference: &str) -> SequenceAction {
        match step.on_fail {
            FailureAction::Stop => self.stop(difference),
            FailureAction::Continue => {
                self.say(format!("failed, continuing: {difference}"));
                self.passed_over.push(self.step + 1);
                self.enter(StepPhase::End)
            }
            FailureAction::Undo => {
                let error = self.stop_message(difference);
                let lines = self.undo_lines();
                if lines.is_empty() {
                    return self.finish(Exit::Failed, Some(error));
                }
                self.progress.extend(lines);
                self.waiting = Waiting::UndoConsent(error);
                let question = "Undo these steps now, in this order?".to_owned();
                SequenceAction::Ask(question)
            }
        }
    }

    fn stop(&mut self, difference: &str) -> SequenceAction {
        let message = self.stop_message(difference);
        self.stop_with(message)
    }

    fn stop_with(&mut self, error: String) -> SequenceAction {
        let lines = self.undo_lines();
        self.progress.extend(lines);
        if let Some(last) = self.last_to_undo() {
            self.say(format!("or: {} --undo --from {last}", self.book.invocation));
        }
        self.finish(Exit::Failed, Some(error))
    }

    /// Returns the step from which a run with `--undo` undoes exactly what this run did. `None` if there is no such
    /// step: `--undo` knows neither the steps that were skipped nor the values that commands provided.
    fn last_to_undo(&self) -> Option<usize> {
        let last = self.done.iter().rfind(|undo| undo.call.is_some())?.step + 1;
        let is_same = self.book.routine.steps.iter().take(last).enumerate().all(|(at, step)| {
            let call = self.done.iter().find(|undo| undo.step == at).and_then(|undo| undo.call.as_ref());
            self.book.undo(step, &self.book.values).is_ok_and(|planned| planned.as_ref() == call)
        });
        is_same.then_some(last)
    }

    fn stop_message(&self, difference: &str) -> String {
        let own = self.own_host.as_ref().filter(|_| self.hosts.get(self.step).is_some_and(Option::is_none));
        let on = own.map(|host| format!(" on {}", shown(host))).unwrap_or_default();
        let invocation = &self.book.invocation;
        let next = match self.step {
            0 => format!("run `{invocation}` again"),
            step => format!("continue with `{invocation} --from {}`", step + 1),
        };
        format!("stopped at {}{on}: {difference}; fix the cause, then {next}", self.title(self.step))
    }

    /// Describes the undo of the completed steps, the last one first.
    fn undo_lines(&self) -> Vec<String> {
        let steps: Vec<String> = self
            .done
            .iter()
            .rev()
            .filter_map(|undo| Some(format!("  step {}: {}", undo.step + 1, undo.call.as_ref()?.to_text())))
            .collect();
        if steps.is_empty() {
            return steps;
        }
        let without: Vec<String> = self
            .done
            .iter()
            .filter(|undo| undo.call.is_none())
            .map(|undo| (undo.step + 1).to_string())
            .collect();
        let mut lines = vec!["to undo the steps so far, in this order:".to_owned()];
        lines.extend(steps);
        if !without.is_empty() {
            lines.push(format!("  steps without undo: {}", without.join(", ")));
        }
        lines
    }

    /// Undoes the last remaining step.
    fn undo_next(&mut self, error: Option<String>) -> SequenceAction {
        while let Some(undo) = self.done.pop() {
            let Some(call) = undo.call else {
                self.say(format!("── {} has no undo", self.title(undo.step)));
                continue;
            };
            self.step = undo.step;
            let title = format!("undo {}", self.title(undo.step));
            self.say(format!("── {title}"));
            let timeout_s = self.current().map_or(BASH_TIMEOUT_S_DEFAULT, |step| step.timeout_s);
            let guard = self.current().and_then(|step| step.guard);
            self.waiting = Waiting::Undo(error);
            let call = self.call_on(self.step, call.to_call(&title, timeout_s, guard));
            return SequenceAction::Run(call);
        }
        let undone = self.undone;
        self.say(format!("undone: {}", counted(undone as u64, "step")));
        let exit = if error.is_some() { Exit::Failed } else { Exit::Done };
        self.finish(exit, error)
    }

    fn undo_ended(&mut self, outcome: &Outcome, error: Option<String>) -> SequenceAction {
        if outcome.status == Status::Ok {
            self.undone += 1;
            return self.undo_next(error);
        }
        let why = if outcome.status == Status::Rejected {
            shown(outcome.output.lines().next().unwrap_or("not run"))
        } else {
            judge(&StepExpectation::default(), outcome).err().unwrap_or_default()
        };
        let title = self.title(self.step);
        let next = self.step + 1;
        let invocation = &self.book.invocation;
        let message = format!(
            "the undo of {title} failed: {why}; fix the cause, then continue with `{invocation} --undo --from {next}`"
        );
        let error = error.map_or_else(|| message.clone(), |error| format!("{error}; {message}"));
        self.finish(Exit::Failed, Some(error))
    }

    fn end(&mut self) -> SequenceAction {
        let mut summary = format!("done: {}", counted(self.done.len() as u64, "step"));
        if self.skipped > 0 {
            summary.push_str(&format!(", {} already done", self.skipped));
        }
        if !self.passed_over.is_empty() {
            let numbers: Vec<String> = self.passed_over.iter().map(usize::to_string).collect();
            summary.push_str(&format!(", failed and skipped: step {}", numbers.join(", ")));
        }
        self.say(summary);
        self.finish(Exit::Done, None)
    }

    fn answered(&mut self, answer: SequenceAnswer) -> SequenceAction {
        match (self.waiting.clone(), answer) {
            (Waiting::OtherSystem, SequenceAnswer::Yes) => self.check_next_system(),
            (Waiting::OtherSystem, SequenceAnswer::No) => {
                self.finish(Exit::Failed, Some("nothing ran".to_owned()))
            }
            (Waiting::OtherSystem, SequenceAnswer::Unavailable) => {
                let error = "the runbook was made for another system; run it on a terminal, or remove `os` and \
                             `arch` from `made_from`";
                self.finish(Exit::ApprovalNeeded, Some(error.to_owned()))
            }
            (Waiting::UndoConsent(error), SequenceAnswer::Yes) => self.undo_next(Some(error)),
            (Waiting::UndoConsent(error), SequenceAnswer::No | SequenceAnswer::Unavailable) => {
                let invocation = &self.book.invocation;
                let way = self
                    .last_to_undo()
                    .map(|last| format!("; undo with `{invocation} --undo --from {last}`"))
                    .unwrap_or_default();
                self.say(format!("nothing was undone{way}"));
                self.finish(Exit::Failed, Some(error))
            }
            (Waiting::Step(StepPhase::Ask), SequenceAnswer::Yes) => {
                if self.current().is_some_and(|step| step.action == StepAction::Manual) {
                    self.done.push(StepUndo { step: self.step, call: None });
                }
                self.enter(StepPhase::Check)
            }
            (Waiting::Step(StepPhase::Ask), SequenceAnswer::No) => self.stop("answered with no"),
            (Waiting::Step(StepPhase::Ask), SequenceAnswer::Unavailable) => {
                let error = format!("{} needs a person; run it on a terminal", self.title(self.step));
                self.finish(Exit::ApprovalNeeded, Some(error))
            }
            (Waiting::Start | Waiting::System(_) | Waiting::Step(_) | Waiting::Undo(_), _) => {
                self.finish(Exit::Failed, Some("an unexpected answer".to_owned()))
            }
        }
    }

    fn ended(&mut self, outcome: &Outcome) -> SequenceAction {
        match self.waiting.clone() {
            Waiting::System(host) => self.system_checked(host.as_deref(), outcome),
            Waiting::Step(phase) => self.step_ended(phase, outcome),
            Waiting::Undo(error) => self.undo_ended(outcome, error),
            Waiting::Start | Waiting::OtherSystem | Waiting::UndoConsent(_) => {
                self.finish(Exit::Failed, Some("an unexpected outcome".to_owned()))
            }
        }
    }
}

impl CommandSequence for RunbookRun {
    fn next(&mut self, event: SequenceEvent<'_>) -> SequenceStep {
        let action = match event {
            SequenceEvent::Started => self.start(),
            SequenceEvent::Ended(outcome) => self.ended(outcome),
            SequenceEvent::Answered(answer) => self.answered(answer),
        };
        SequenceStep { progress: std::mem::take(&mut self.progress), action }
    }
}

/// Returns the host of each step. Fails if a step names an unknown host.
pub(super) fn step_hosts(
    steps: &[RunbookStep],
    settings: &Settings,
) -> Result<Vec<HostChoice>, CommandError> {
    let host = |(number, step): (usize, &RunbookStep)| match &step.host {
        None => Ok(settings.host.clone()),
        Some(host) => settings
            .hosts
            .resolve(host)
            .map_err(|error| CommandError::usage(format!("step {number} runs on {host}: {}", error.message))),
    };
    (1..).zip(steps).map(host).collect()
}

fn phase_words(phase: StepPhase) -> &'static str {
    match phase {
        StepPhase::Unless => "check whether the step is needed",
        StepPhase::Ask => "ask",
        StepPhase::Check => "check before the step",
        StepPhase::Hash => "compare the file with the expected one",
        StepPhase::Action | StepPhase::End => "run",
        StepPhase::Verify => "verify after the step",
    }
}
