//! Plain layout of the REPL, which follows the lsimons-agent design: `You:`, `Agent:`, `[Tool: …]`, and no live row.

use std::io;

use sysop_core::event::{Delta, Event, Origin, Update};
use sysop_core::id::{CallId, StepId};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::text::{Neutralizer, Stripper, neutralize_line};
use sysop_core::transcript::{
    Decider, ItemBody, ItemId, Proposal, ProposalState, ToolOutput, Transcript, approval_label,
};
use sysop_term::output::shown_text;
use sysop_term::{StyleRole, TextRow, paint};

use super::approval::ApprovalPrompt;
use super::inline_screen::InlineScreen;
use super::live_output::{OUTPUT_HEAD_ROWS, OUTPUT_TAIL_ROWS};
use super::view::{OwnCall, OwnCalls, ReplView};
use crate::render::plan::{self, ProposalLocation};
use crate::render::{safe, safe_prose, words};

/// Width of a proposal if there is no terminal.
const COLUMNS: usize = 100;

#[derive(Default)]
pub(crate) struct PlainView {
    streaming: Option<StreamingReply>,
    output: Option<(CallId, Stripper)>,
    own_calls: OwnCalls,
    /// Set if this user was the last to control the session's terminal.
    has_terminal: bool,
    /// Directory with full outputs, if it is on this machine.
    artifacts: Option<String>,
}

struct StreamingReply {
    step: StepId,
    text: String,
    neutralizer: Neutralizer,
}

impl ReplView for PlainView {
    #[expect(clippy::wildcard_enum_match_arm, reason = "other events are shown by their notices")]
    fn update(
        &mut self,
        update: &Update,
        transcript: &Transcript,
        screen: &mut InlineScreen,
    ) -> io::Result<()> {
        match update {
            Update::Delta(delta) => self.delta(delta, transcript, screen),
            Update::Logged(logged) => match &logged.event {
                Event::Replied { step, reply } => self.replied(*step, &reply.text, screen),
                Event::ToolStarted { call, origin } => {
                    self.end_answer(screen)?;
                    let plan = transcript.plan(&call.id).filter(|plan| plan.asked_by.is_some());
                    let other = plan.filter(|_| !self.own_calls.take(call));
                    if *origin == Origin::User && other.is_none() {
                        return Ok(());
                    }
                    screen.end_text()?;
                    let by = other.and_then(words::origin_summary);
                    let by = by.map_or_else(String::new, |by| format!(" ({by})"));
                    screen.text(&format!("{}{by}\n", words::tool_line(call)))
                }
                Event::ToolFinished { call, outcome } => {
                    self.tool_finished(call, outcome, transcript, screen)
                }
                Event::ModelFailed { .. } => self.end_answer(screen),
                Event::TurnEnded { turn, .. } => {
                    self.end_answer(screen)?;
                    screen.end_text()?;
                    if let Some(ItemBody::End(end)) =
                        transcript.item(&ItemId::End(*turn)).map(|item| &item.body)
                        && let Some(text) = words::turn_end_summary(end)
                    {
                        screen.text(&format!("({text})\n"))?;
                    }
                    screen.blank_row()
                }
                Event::TerminalInput { by, typed } => {
                    self.end_answer(screen)?;
                    self.say(&words::typed(transcript.subject(by), typed), StyleRole::Dim, screen)
                }
                Event::SessionOpened { .. }
                | Event::TurnStarted { .. }
                | Event::StepStarted { .. }
                | Event::ApprovalAsked { .. }
                | Event::Decided { .. }
                | Event::CancelAsked { .. }
                | Event::Resumed => Ok(()),
                _ => {
                    self.end_answer(screen)?;
                    match transcript.notice_at(logged.seq) {
                        Some(notice) => self.say(&notice.text, StyleRole::Dim, screen),
                        None => Ok(()),
                    }
                }
            },
        }
    }

    fn tick(&mut self, _transcript: &Transcript, _screen: &mut InlineScreen) -> io::Result<()> {
        Ok(())
    }

    fn own_prompt(&mut self, _text: &str) {}

    fn own_call(&mut self, call: OwnCall) {
        self.own_calls.push(call);
    }

    fn question(
        &mut self,
        plan: &Proposal,
        transcript: &Transcript,
        _screen: &InlineScreen,
    ) -> ApprovalPrompt {
        let (host, folder) = transcript.session_info().map_or(("", ""), |facts| facts.place_of_plan(plan));
        let place = ProposalLocation { host, folder };
        let rows = plan::rows(plan, place, transcript.session_info(), COLUMNS);
        ApprovalPrompt::new(rows, plan, transcript)
    }

    fn say(&mut self, text: &str, _role: StyleRole, screen: &mut InlineScreen) -> io::Result<()> {
        screen.end_text()?;
        screen.text(&format!("({})\n", safe(text)))
    }

    fn whole_output(&mut self, output: &ToolOutput, screen: &mut InlineScreen) -> io::Result<()> {
        let Some(outcome) = &output.outcome else { return Ok(()) };
        screen.end_text()?;
        screen.text(&safe(shown_text(outcome)))?;
        screen.end_text()?;
        match words::full_output(outcome, self.artifacts.as_deref()) {
            Some(place) => screen.text(&format!("({place})\n")),
            None => Ok(()),
        }
    }

    fn header(&mut self, transcript: &Transcript, screen: &mut InlineScreen) -> io::Result<()> {
        let Some(facts) = transcript.session_info() else { return Ok(()) };
        let text = format!(
            "sysop: {} on {}, approval {}",
            facts.model,
            words::place(facts.place()),
            approval_label(facts.approve)
        );
        screen.text(&format!("{}\n\n", safe(&text)))
    }

    fn recap(&mut self, transcript: &Transcript, screen: &mut InlineScreen) -> io::Result<()> {
        let items: Vec<_> = transcript.items().collect();
        let from =
            items.iter().rposition(|item| matches!(item.body, ItemBody::Prompt(_))).unwrap_or(items.len());
        for item in &items[from..] {
            match &item.body {
                ItemBody::Prompt(prompt) => {
                    let sender = prompt
                        .sender()
                        .map_or_else(|| "You".to_owned(), |by| neutralize_line(by).into_owned());
                    screen.text(&format!("{sender}: {}\n\n", safe_prose(&prompt.text)))?;
                }
                ItemBody::Answer(text) => screen.text(&format!("Agent: {}\n\n", safe_prose(&text.text)))?,
                ItemBody::Proposal(plan) => screen.text(&format!("{}\n", words::tool_line(&plan.call)))?,
                ItemBody::Reasoning(_) | ItemBody::ToolOutput(_) | ItemBody::Notice(_) | ItemBody::End(_) => {
                }
            }
        }
        Ok(())
    }
}

impl PlainView {
    /// Creates a view. `artifacts` is the directory with full outputs, if it is on this machine.
    pub(crate) fn new(artifacts: Option<String>) -> Self {
        Self { artifacts, ..Self::default() }
    }

    fn delta(&mut self, delta: &Delta, transcript: &Transcript, screen: &mut InlineScreen) -> io::Result<()> {
        match delta {
            Delta::Text { step, text } => {
                if self.streaming.as_ref().is_some_and(|streaming| streaming.step != *step) {
                    self.end_answer(screen)?;
                }
                if self.streaming.is_none() {
                    if text.trim().is_empty() {
                        return Ok(());
                    }
                    screen.blank_row()?;
                    screen.text("Agent: ")?;
                    self.streaming = Some(StreamingReply {
                        step: *step,
                        text: String::new(),
                        neutralizer: Neutralizer::for_prose(),
                    });
                }
                let Some(streaming) = &mut self.streaming else { return Ok(()) };
                streaming.text.push_str(text);
                screen.text(&streaming.neutralizer.push(text))
            }
            Delta::Reasoning { .. } => Ok(()),
            Delta::Restarted { .. } if self.streaming.is_some() => {
                self.end_answer(screen)?;
                self.say("reply interrupted; retrying", StyleRole::Dim, screen)
            }
            Delta::Restarted { .. } => Ok(()),
            Delta::Output { call, text } => {
                // Output of a fleet's hosts is shown together once all have finished.
                let fleet = transcript.session_info().is_some_and(|facts| words::is_fleet(&facts.host));
                if fleet || !is_direct(call, transcript) {
                    return Ok(());
                }
                let (_, stripper) = match &mut self.output {
                    Some(output) if output.0 == *call => output,
                    output => output.insert((call.clone(), Stripper::new())),
                };
                screen.text(&stripper.push(text))
            }
            Delta::Notice { text } => self.say(text, StyleRole::Dim, screen),
            Delta::Control { holder } => {
                if words::is_new_holder(holder.as_deref(), &mut self.has_terminal, super::BY) {
                    return self.say(&words::control(holder.as_deref()), StyleRole::Dim, screen);
                }
                Ok(())
            }
            // The main loop asks the question and reports the result.
            Delta::Progress { .. } | Delta::Question { .. } | Delta::QuestionClosed { .. } => Ok(()),
        }
    }

    fn replied(&mut self, step: StepId, text: &str, screen: &mut InlineScreen) -> io::Result<()> {
        let streamed = match self.streaming.take() {
            Some(streaming) if streaming.step == step => streaming.text,
            Some(_) | None => String::new(),
        };
        match text.trim_start().strip_prefix(streamed.trim_start()) {
            Some(rest) if !streamed.is_empty() => screen.text(&safe_prose(rest))?,
            Some("") => return Ok(()),
            Some(rest) => {
                screen.blank_row()?;
                screen.text(&format!("Agent: {}", safe_prose(rest)))?;
            }
            None if text.trim().is_empty() || text.trim() == streamed.trim() => {}
            None => {
                screen.blank_row()?;
                screen.text(&format!("Agent: {}", safe_prose(text)))?;
            }
        }
        screen.blank_row()
    }

    fn end_answer(&mut self, screen: &mut InlineScreen) -> io::Result<()> {
        if self.streaming.take().is_some() { screen.blank_row() } else { Ok(()) }
    }

    fn tool_finished(
        &mut self,
        call: &CallId,
        outcome: &Outcome,
        transcript: &Transcript,
        screen: &mut InlineScreen,
    ) -> io::Result<()> {
        if let Some(ItemBody::Answer(text)) =
            transcript.item(&ItemId::Summary(call.clone())).map(|item| &item.body)
        {
            screen.blank_row()?;
            return screen.text(&format!("Agent: {}\n\n", safe_prose(&text.text)));
        }
        let streamed = match self.output.take() {
            Some((output, mut stripper)) if output == *call => {
                screen.text(&stripper.finish())?;
                true
            }
            Some(_) | None => false,
        };
        screen.text(&words::host_lines(outcome))?;
        if is_direct(call, transcript) && !streamed && !outcome.output.is_empty() {
            screen.text(&safe(&outcome.output))?;
        }
        screen.end_text()?;
        let plan = transcript.plan(call);
        let is_command = plan.is_some_and(|plan| plan.call.text_argument("command").is_some());
        let is_models = is_command && !is_direct(call, transcript);
        let never_ran = plan.is_some_and(|plan| plan.state == ProposalState::NotRun);
        if is_models && outcome.status != Status::Rejected && !never_ran {
            let number = transcript.output_of(call).map_or(0, |output| output.number);
            let rest = words::omitted_output(outcome, number);
            screen.text(&excerpt(&safe(shown_text(outcome)), &rest))?;
        }
        let state = plan.map(|plan| &plan.state);
        match (outcome.status, state) {
            (Status::Ok, _) if !is_models => {}
            (Status::Rejected, Some(ProposalState::Rejected { by: Decider::Policy, .. }))
            | (_, Some(ProposalState::NotRun)) => {
                let named = plan.map(|plan| words::tool_line(&plan.call)).unwrap_or_default();
                screen.text(&format!("{named}\n({})\n", words::not_run_text(outcome)))?;
            }
            (Status::Rejected, Some(ProposalState::Allowed { .. })) => {
                screen.text(&format!("({})\n", safe(&outcome.output)))?;
            }
            _ => screen.text(&format!("({})\n", words::outcome_summary(outcome)))?,
        }
        if let Some(place) = words::full_output(outcome, self.artifacts.as_deref()) {
            screen.text(&format!("({place})\n"))?;
        }
        Ok(())
    }
}

fn is_direct(call: &CallId, transcript: &Transcript) -> bool {
    transcript.plan(call).is_some_and(|plan| plan.origin != Origin::Model)
}

/// Returns the first and the last lines of an output, each with a line feed, and the number of lines between them. `rest`
/// says where these are.
fn excerpt(output: &str, rest: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    let omitted = lines.len().saturating_sub(OUTPUT_HEAD_ROWS + OUTPUT_TAIL_ROWS);
    let omitted = if omitted == 1 { 0 } else { omitted }; // the note would take as much
    let (head, tail) = match omitted {
        0 => (lines.as_slice(), [].as_slice()),
        _ => (&lines[..OUTPUT_HEAD_ROWS], &lines[OUTPUT_HEAD_ROWS + omitted..]),
    };
    let note = (omitted > 0).then(|| format!("… {omitted} lines omitted; {rest} …\n"));
    let line = |line: &&str| format!("{line}\n");
    head.iter().map(line).chain(note).chain(tail.iter().map(line)).collect()
}

/// Converts the rows of a proposal to lines.
pub(crate) fn lines(rows: &[TextRow]) -> String {
    rows.iter().map(|row| format!("{}\n", paint::row(row, false).trim_end())).collect()
}
