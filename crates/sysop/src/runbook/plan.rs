//! `sysop run NAME --plan`: the steps with their values, as far as they are known without a host. Facts from the hosts
//! are added by [`super::observe`].

use std::fmt::Write;

use sysop_core::guard::GuardRequest;
use sysop_core::policy::Dialect;
use sysop_core::text::{neutralize, neutralize_line};

use super::Runbook;
use super::call::StepCall;
use super::run::step_hosts;
use super::system_check::programs;
use crate::config::{
    ABSENT, FailureAction, RoutineError, RunbookStep, StepAction, TemplatePart, fill_template, template_parts,
};
use crate::exit::CommandError;
use crate::policy_check::{self, PolicyQuestion};
use crate::settings::{HostChoice, Settings};

/// Steps as they would run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RunbookPlan {
    pub(super) heading: Vec<String>,
    pub(super) steps: Vec<PlannedStep>,
    footer: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PlannedStep {
    number: usize,
    name: String,
    /// Host of the step, if it is not the run's.
    pub(super) other_host: Option<HostChoice>,
    /// The call with its values filled in; `None` for a manual step.
    pub(super) call: Option<StepCall>,
    /// True if the call has all its values, so that a host can be asked about it.
    pub(super) is_known: bool,
    pub(super) timeout_s: u64,
    pub(super) guard: Option<GuardRequest>,
    /// The step's `unless` and `check` commands, with their answers if the host was asked.
    pub(super) probes: Vec<PlannedProbe>,
    /// Other lines about the step.
    details: Vec<String>,
    /// The policy's decision on the call.
    pub(super) verdict: String,
    /// Lines about the effect of the call and its guard.
    pub(super) effects: Vec<String>,
}

/// `unless` or `check` of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlannedProbe {
    pub(super) kind: ProbeKind,
    pub(super) command: String,
    pub(super) is_known: bool,
    /// The answer, in a few words; empty if the host was not asked.
    pub(super) answer: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProbeKind {
    Unless,
    Check,
}

impl RunbookPlan {
    /// Plans the steps starting at `from`, or with `undo`, the undo of the steps from `from` back to the first. Fails
    /// if a step names an unknown host, or a command cannot be filled in.
    pub(super) fn new(
        settings: &Settings,
        book: &Runbook,
        missing: &[RoutineError],
        from: Option<usize>,
        undo: bool,
    ) -> Result<Self, CommandError> {
        let planner = Planner { settings, book };
        let mut plan = Self { heading: planner.heading(), ..Self::default() };
        let whole = single_step(book);
        let steps = if book.routine.steps.is_empty() { &whole } else { &book.routine.steps };
        let other = |host: HostChoice| (host.to_string() != settings.host.to_string()).then_some(host);
        let hosts: Vec<_> = step_hosts(steps, settings)?.into_iter().map(other).collect();
        let numbered = (1..).zip(steps);
        if undo {
            let last = from.unwrap_or(steps.len());
            for (number, step) in numbered.take(last).collect::<Vec<_>>().into_iter().rev() {
                plan.steps.push(planner.undo(number, step)?);
            }
        } else {
            for (number, step) in numbered.skip(from.unwrap_or(1).saturating_sub(1)) {
                plan.steps.push(planner.step(number, step)?);
            }
            plan.footer = planner.footer(from.unwrap_or(1));
        }
        plan.footer.extend(missing.iter().map(ToString::to_string));
        for step in &mut plan.steps {
            step.other_host = hosts.get(step.number.saturating_sub(1)).cloned().flatten();
        }
        Ok(plan)
    }

    pub(super) fn to_text(&self) -> String {
        let mut text = String::new();
        let mut line = |line: &str| writeln!(text, "{line}").expect("writing to a string cannot fail");
        self.heading.iter().for_each(|heading| line(&neutralize_line(heading)));
        for step in &self.steps {
            let on = step.other_host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default();
            line(&format!("\n{}. {}{}", step.number, neutralize_line(&step.name), neutralize_line(&on)));
            if let Some(call) = &step.call {
                let call = neutralize(&call.to_text()).into_owned();
                for (number, part) in call.split('\n').enumerate() {
                    line(&format!("   {} {part}", if number == 0 { "$" } else { " " }));
                }
            }
            if !step.verdict.is_empty() {
                line(&format!("   {}", neutralize_line(&step.verdict)));
            }
            step.effects.iter().for_each(|effect| line(&format!("   {}", neutralize_line(effect))));
            for PlannedProbe { kind, command, answer, .. } in &step.probes {
                let kind = match kind {
                    ProbeKind::Unless => "unless",
                    ProbeKind::Check => "check",
                };
                let answer = if answer.is_empty() { String::new() } else { format!(" ({answer})") };
                line(&format!("   {kind}: {}{}", neutralize_line(command), neutralize_line(&answer)));
            }
            step.details.iter().for_each(|detail| line(&format!("   {}", neutralize_line(detail))));
        }
        if !self.footer.is_empty() {
            line("");
            self.footer.iter().for_each(|footer| line(&neutralize_line(footer)));
        }
        text
    }
}

/// Returns the command of a routine without steps as a single step.
fn single_step(book: &Runbook) -> Vec<RunbookStep> {
    vec![RunbookStep {
        name: book.name.clone(),
        action: StepAction::Command(book.routine.cmd.clone()),
        ..RunbookStep::default()
    }]
}

fn planned_step(number: usize, name: String, step: &RunbookStep) -> PlannedStep {
    PlannedStep { number, name, timeout_s: step.timeout_s, guard: step.guard, ..PlannedStep::default() }
}

struct Planner<'a> {
    settings: &'a Settings,
    book: &'a Runbook,
}

impl Planner<'_> {
    fn heading(&self) -> Vec<String> {
        let Runbook { name, routine, values, .. } = self.book;
        let description = if routine.description.is_empty() { "" } else { ": " };
        let host = &self.settings.host;
        let mut lines = vec![
            format!("{name}{description}{}", routine.description),
            format!("on {host}, approve = {}", self.settings.approve(host).as_str()),
        ];
        if let Some(source) = &routine.made_from {
            let system = [&source.os, &source.arch].into_iter().flatten().map(String::as_str);
            let system: String = system.map(|part| format!(", {part}")).collect();
            lines.push(format!("made from session {}, {}{system}", source.session, source.date));
        }
        lines.extend(values.iter().map(|(name, value)| format!("{name} = {}", shell_words::quote(value))));
        lines
    }

    /// Returns true if all placeholders in the template have values before the run.
    fn is_known(&self, template: &str) -> bool {
        template_parts(template).all(|part| match part {
            TemplatePart::Text(_) => true,
            TemplatePart::Name(name) => self.book.values.contains_key(name),
        })
    }

    /// Fills a template. A placeholder without a value is kept, and the flag is then false.
    fn command(&self, step: &RunbookStep, template: &str) -> Result<(String, bool), CommandError> {
        if self.is_known(template) {
            let filled = self.book.command(step, template, &self.book.values);
            return Ok((filled.map_err(|error| CommandError::usage(error.to_string()))?, true));
        }
        let quoted = |name: &str| Some(shell_words::quote(self.book.values.get(name)?).into_owned());
        Ok((fill_template(template, quoted), false))
    }

    fn verdict(&self, command: &str) -> Result<String, CommandError> {
        let question =
            PolicyQuestion { command: command.to_owned(), mode: None, dialect: Dialect::Bash, folder: None };
        Ok(policy_check::check(self.settings, question)?.summary())
    }

    fn step(&self, number: usize, step: &RunbookStep) -> Result<PlannedStep, CommandError> {
        let mut planned = planned_step(number, step.name.clone(), step);
        let mut details = Vec::new();
        for (kind, probe) in [(ProbeKind::Unless, &step.unless), (ProbeKind::Check, &step.check)] {
            if let Some(probe) = probe {
                let (command, is_known) = self.command(step, probe)?;
                planned.probes.push(PlannedProbe { kind, command, is_known, answer: String::new() });
            }
        }
        if let Some(ask) = &step.ask {
            details.push(format!("asks: {ask}"));
        }
        match &step.action {
            StepAction::Command(template) => {
                let (command, is_known) = self.command(step, template)?;
                planned.verdict = match is_known {
                    true => self.verdict(&command)?,
                    false => "decided when the values are known".to_owned(),
                };
                planned.call = Some(StepCall::Command(command));
                planned.is_known = is_known;
            }
            StepAction::Edit(edit) => {
                planned.verdict = "changes a file".to_owned();
                let call = self.book.action(step, &self.book.values);
                planned.is_known = call.is_ok();
                planned.call = match call {
                    Ok(call) => call,
                    Err(_) => Some(StepCall::Edit(edit.clone())),
                };
                details.extend(edit.sha256.as_ref().map(|hash| match hash.as_str() {
                    ABSENT => "requires that the file does not exist".to_owned(),
                    hash => format!("requires the file to have the SHA-256 {hash}"),
                }));
            }
            StepAction::Manual => {
                planned.verdict = "done by hand; without a terminal, the run ends with exit code 3".to_owned()
            }
        }
        details.extend(self.details(step)?);
        planned.details = details;
        Ok(planned)
    }

    fn details(&self, step: &RunbookStep) -> Result<Vec<String>, CommandError> {
        let mut details = Vec::new();
        let expect = &step.expect;
        if expect.exit != [0] {
            let codes: Vec<String> = expect.exit.iter().map(i32::to_string).collect();
            details.push(format!("expects exit code {}", codes.join(" or ")));
        }
        details.extend(
            expect.pattern.as_ref().map(|pattern| format!("expects output that matches /{pattern}/")),
        );
        let not = expect.not_pattern.as_ref();
        details.extend(not.map(|pattern| format!("expects no output that matches /{pattern}/")));
        if let Some(verify) = &step.verify {
            let (command, _) = self.command(step, verify)?;
            let tries = match step.retry.times {
                1 => String::new(),
                times => format!(" ({times} tries, {} s apart)", step.retry.every_s),
            };
            details.push(format!("verify: {command}{tries}"));
        }
        match &step.undo {
            Some(undo) => details.push(format!("undo: {}", self.command(step, undo)?.0)),
            None => {
                let undo = self.book.undo(step, &self.book.values).unwrap_or_default();
                details.extend(undo.map(|undo| format!("undo: {}", undo.to_text())));
            }
        }
        match step.on_fail {
            FailureAction::Stop => {}
            FailureAction::Undo => details.push("on failure: offers to undo the steps so far".to_owned()),
            FailureAction::Continue => details.push("on failure: continues".to_owned()),
        }
        Ok(details)
    }

    fn undo(&self, number: usize, step: &RunbookStep) -> Result<PlannedStep, CommandError> {
        let mut planned = planned_step(number, format!("undo of {}", step.name), step);
        let call = self.book.undo(step, &self.book.values);
        planned.call = call.map_err(|error| CommandError::usage(error.to_string()))?;
        planned.verdict = match &planned.call {
            Some(StepCall::Command(command)) => self.verdict(command)?,
            Some(StepCall::Edit(_)) => "changes a file".to_owned(),
            None => "no undo".to_owned(),
        };
        planned.is_known = planned.call.is_some();
        Ok(planned)
    }

    fn footer(&self, from: usize) -> Vec<String> {
        let steps = &self.book.routine.steps;
        let mut lines = Vec::new();
        let has_undo = |step: &RunbookStep| {
            step.undo.is_some() || self.book.undo(step, &self.book.values).is_ok_and(|undo| undo.is_some())
        };
        let without: Vec<String> = (1..)
            .zip(steps)
            .skip(from.saturating_sub(1))
            .filter(|(_, step)| !has_undo(step))
            .map(|(number, _)| number.to_string())
            .collect();
        if !without.is_empty() {
            lines.push(format!("steps without undo: {}", without.join(", ")));
        }
        let programs: Vec<String> = programs(steps.iter().skip(from.saturating_sub(1))).into_iter().collect();
        if !programs.is_empty() {
            lines.push(format!("needs: {}", programs.join(", ")));
        }
        lines
    }
}
