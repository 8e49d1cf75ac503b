//! Plain layout of the REPL, which follows the lsimons-agent design: `You:`, `Agent:`, `[Tool: …]`, and no live row.

use std::collections::{HashSet, VecDeque};
use std::io;

use sysop_core::event::{Delta, Event, Origin, StopReason, Update};
use sysop_core::id::{CallId, StepId};
use sysop_core::message::ToolCall;
use sysop_core::outcome::{Outcome, Status};
use sysop_core::text::{Neutralizer, Stripper, neutralize_line};
use sysop_core::transcript::{
    Decider, ItemBody, ItemId, Proposal, ProposalState, ToolOutput, Transcript, UserPrompt, approval_label,
};
use sysop_core::undo::changed_line;
use sysop_term::diff::FileEdit;
use sysop_term::output::{shown_beside_hosts, without_missed_hosts};
use sysop_term::{StyleRole, TextRow, paint};

use super::approval::ApprovalPrompt;
use super::inline_screen::InlineScreen;
use super::live_output::{OUTPUT_HEAD_ROWS, OUTPUT_TAIL_ROWS};
use super::view::{OwnCall, OwnCalls, ReplView};
use crate::render::excerpt::Excerpt;
use crate::render::plan::{self, ProposalLocation, fold_edit};
use crate::render::{THEME, safe, safe_prose, words};

/// Width of a proposal if there is no terminal.
const COLUMNS: usize = 100;

#[derive(Default)]
pub(crate) struct PlainView {
    streaming: Option<StreamingReply>,
    output: Option<PlainOutput>,
    own_prompts: VecDeque<String>,
    own_calls: OwnCalls,
    asked_here: HashSet<CallId>,
    /// Says how to answer the program that the newest call left waiting in the terminal.
    program_hint: Option<String>,
    /// True if the newest call failed, and the line at its end says how.
    is_failure_told: bool,
    /// Set if this user was the last to control the session's terminal.
    has_terminal: bool,
    /// Directory with full outputs, if it is on this machine.
    artifacts: Option<String>,
}

/// Output of the running call.
struct PlainOutput {
    call: CallId,
    stripper: Stripper,
    /// Set for a call of the model, whose output is shown in part.
    excerpt: Option<Excerpt>,
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
                Event::TurnStarted { turn, .. } => {
                    self.program_hint = None;
                    self.is_failure_told = false;
                    match transcript.item(&ItemId::Prompt(*turn)).map(|item| &item.body) {
                        Some(ItemBody::Prompt(prompt)) if self.own_prompts.front() == Some(&prompt.text) => {
                            self.own_prompts.pop_front();
                            Ok(())
                        }
                        Some(ItemBody::Prompt(prompt)) => {
                            screen.blank_row()?;
                            screen.text(&prompt_lines(prompt))
                        }
                        _ => Ok(()),
                    }
                }
                Event::ToolStarted { call, origin } => self.tool_started(call, *origin, transcript, screen),
                Event::ToolFinished { call, outcome } => {
                    self.tool_finished(call, outcome, transcript, screen)
                }
                Event::ModelFailed { .. } => self.end_answer(screen),
                Event::TurnEnded { turn, .. } => {
                    self.end_answer(screen)?;
                    screen.end_text()?;
                    if let Some(ItemBody::End(end)) =
                        transcript.item(&ItemId::End(*turn)).map(|item| &item.body)
                    {
                        let missed = words::missed_hosts(end, transcript);
                        let is_told =
                            self.is_failure_told && end.iterations == 0 && end.reason == StopReason::Failed;
                        let summary = words::end_summary(end, transcript).filter(|_| !is_told);
                        for text in summary.into_iter().chain(missed) {
                            screen.text(&format!("({text})\n"))?;
                        }
                    }
                    if let Some(hint) = self.program_hint.take() {
                        screen.text(&format!("({hint})\n"))?;
                    }
                    if let Some(steps) = transcript.notice_at(logged.seq) {
                        self.say(&steps.text, StyleRole::Dim, screen)?;
                    }
                    screen.blank_row()
                }
                Event::TerminalInput { by, typed } => {
                    self.end_answer(screen)?;
                    self.say(&words::typed(transcript.subject(by), typed), StyleRole::Dim, screen)
                }
                Event::SessionOpened { .. }
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

    fn own_prompt(&mut self, text: &str) {
        self.own_prompts.push_back(text.to_owned());
    }

    fn own_call(&mut self, call: OwnCall) {
        self.own_calls.push(call);
    }

    fn settle(&mut self, _transcript: &Transcript, _screen: &mut InlineScreen) -> io::Result<()> {
        Ok(())
    }

    fn question(
        &mut self,
        plan: &Proposal,
        transcript: &Transcript,
        _screen: &InlineScreen,
    ) -> ApprovalPrompt {
        let (host, folder) = transcript.session_info().map_or(("", ""), |facts| facts.place_of_plan(plan));
        let place = ProposalLocation { host, folder };
        self.asked_here.insert(plan.call.id.clone());
        let rows = plan::rows(plan, place, transcript.session_info(), COLUMNS);
        ApprovalPrompt::new(rows, plan, transcript)
    }

    fn say(&mut self, text: &str, role: StyleRole, screen: &mut InlineScreen) -> io::Result<()> {
        screen.end_text()?;
        let text = safe(text);
        // A parenthesis would shift the first row of a list.
        screen.text(&if role == StyleRole::Text { format!("{text}\n") } else { format!("({text})\n") })
    }

    fn whole_output(
        &mut self,
        output: &ToolOutput,
        transcript: &Transcript,
        screen: &mut InlineScreen,
    ) -> io::Result<()> {
        let Some(outcome) = &output.outcome else { return Ok(()) };
        screen.end_text()?;
        if let Some(plan) = transcript.plan(&output.call) {
            screen.text(&lines(&edit_rows(plan)))?;
        }
        screen.text(&words::host_lines(outcome))?;
        screen.text(&safe(&shown_beside_hosts(outcome).0))?;
        screen.end_text()?;
        match words::full_output(outcome, self.artifacts.as_deref()) {
            Some(place) => screen.text(&format!("({place})\n")),
            None => Ok(()),
        }
    }

    fn header(&mut self, transcript: &Transcript, screen: &mut InlineScreen) -> io::Result<()> {
        let Some(facts) = transcript.session_info() else { return Ok(()) };
        let text = format!(
            "sysop: {} {}, approval {}",
            facts.model,
            words::on_place(facts.place()),
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
                ItemBody::Prompt(prompt) => screen.text(&format!("{}\n", prompt_lines(prompt)))?,
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
            // The output of a background job is shown on request.
            Delta::Output { call, .. } if !words::is_running(call, transcript) => Ok(()),
            Delta::Output { call, text } => {
                // Output of a fleet's hosts is shown together once all have finished.
                let fleet = transcript.session_info().is_some_and(|facts| words::is_fleet(&facts.host));
                if fleet {
                    return Ok(());
                }
                let output = match &mut self.output {
                    Some(output) if output.call == *call => output,
                    output => output.insert(PlainOutput {
                        call: call.clone(),
                        stripper: Stripper::live(),
                        excerpt: (!is_direct(call, transcript)).then(excerpt),
                    }),
                };
                let text = output.stripper.push(text);
                screen.text(&match &mut output.excerpt {
                    Some(excerpt) => excerpt.push(&text),
                    None => text,
                })
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
        let number = transcript.output_of(call).map_or(0, |output| output.number);
        let rest = words::omitted_output(outcome, number);
        let streamed = self.end_output(call, &rest, screen)?;
        screen.text(&words::host_lines(outcome))?;
        let has_output = !outcome.output.is_empty() && outcome.status != Status::Rejected;
        if is_direct(call, transcript) && !streamed && has_output {
            screen.text(&safe(&without_missed_hosts(&outcome.output, &outcome.hosts)))?;
        }
        screen.end_text()?;
        self.program_hint = words::program_hint(outcome);
        let plan = transcript.plan(call);
        let is_command = plan.is_some_and(|plan| plan.call.text_argument("command").is_some());
        let is_models = is_command && !is_direct(call, transcript);
        let never_ran = plan.is_some_and(|plan| plan.state == ProposalState::NotRun);
        // The output of another tool is worth it only if it says why the tool failed.
        let is_reason = outcome.status == Status::Failed && !is_direct(call, transcript);
        if (is_models || is_reason) && !streamed && outcome.status != Status::Rejected && !never_ran {
            screen.text(&excerpt().of(&safe(&shown_beside_hosts(outcome).0), &rest))?;
        }
        let state = plan.map(|plan| &plan.state);
        match (outcome.status, state) {
            (Status::Ok, _) if !is_models => {}
            (Status::Rejected, Some(ProposalState::Rejected { by: Decider::Policy, .. }))
            | (_, Some(ProposalState::NotRun)) => {
                if let Some(plan) = plan.filter(|plan| !words::is_named_at_start(plan)) {
                    screen.text(&format!("{}\n", words::tool_lines(&plan.call)))?;
                }
                self.is_failure_told = true;
                screen.text(&format!("({})\n", words::not_run_text(outcome)))?;
            }
            // If the call has streamed output, that is the reason.
            (Status::Rejected, Some(ProposalState::Allowed { .. })) if !streamed => {
                screen.text(&format!("({})\n", safe(&outcome.output)))?;
            }
            _ => {
                self.is_failure_told = outcome.status != Status::Failed || outcome.exit_code.is_some();
                screen.text(&format!("({})\n", words::outcome_summary(outcome)))?;
            }
        }
        if let Some(place) = words::full_output(outcome, self.artifacts.as_deref()) {
            screen.text(&format!("({place})\n"))?;
        }
        let changed = changed_line(outcome, transcript.tool_calls());
        match changed.or_else(|| transcript.terminal_hint(call, outcome)) {
            Some(line) => screen.text(&format!("({})\n", safe(&line))),
            None => Ok(()),
        }
    }

    fn tool_started(
        &mut self,
        call: &ToolCall,
        origin: Origin,
        transcript: &Transcript,
        screen: &mut InlineScreen,
    ) -> io::Result<()> {
        self.end_answer(screen)?;
        let plan = transcript.plan(&call.id);
        let other = plan.filter(|plan| plan.asked_by.is_some() && !self.own_calls.take(call));
        if origin == Origin::User && other.is_none() {
            return Ok(());
        }
        screen.end_text()?;
        let by = other.and_then(words::origin_summary);
        let by = by.map_or_else(String::new, |by| format!(" ({by})"));
        // A question has shown the whole command.
        let is_shown = self.asked_here.contains(&call.id);
        let called = if is_shown { words::tool_line(call) } else { words::tool_lines(call) };
        let (first, rest) =
            called.split_once('\n').map_or((&*called, None), |(first, rest)| (first, Some(rest)));
        let rest = rest.map(|rest| format!("{rest}\n")).unwrap_or_default();
        screen.text(&format!("{first}{by}\n{rest}"))?;
        match plan.filter(|_| !self.asked_here.contains(&call.id)) {
            // Calls run one after the other, so the number of this one is the next.
            Some(plan) => {
                let number = transcript.tool_calls().saturating_add(1);
                screen.text(&lines(&fold_edit(edit_rows(plan), number, COLUMNS)))
            }
            None => Ok(()),
        }
    }

    /// Prints the rest of a call's streamed output. Returns false if none was streamed.
    fn end_output(&mut self, call: &CallId, rest: &str, screen: &mut InlineScreen) -> io::Result<bool> {
        let Some(mut output) = self.output.take().filter(|output| output.call == *call) else {
            return Ok(false);
        };
        let text = output.stripper.finish();
        match output.excerpt {
            Some(mut excerpt) => {
                screen.text(&excerpt.push(&text))?;
                screen.text(&excerpt.finish(rest))?;
            }
            None => screen.text(&text)?,
        }
        Ok(true)
    }
}

fn excerpt() -> Excerpt {
    Excerpt::new(OUTPUT_HEAD_ROWS, OUTPUT_TAIL_ROWS)
}

/// Returns a prompt with its sender.
fn prompt_lines(prompt: &UserPrompt) -> String {
    let sender = prompt.sender().map_or_else(|| "You".to_owned(), |by| neutralize_line(by).into_owned());
    format!("{sender}: {}\n", safe_prose(&prompt.text))
}

/// Returns the removed and added lines of a call that edits a file; none for another call.
fn edit_rows(plan: &Proposal) -> Vec<TextRow> {
    FileEdit::of(&plan.call).map_or_else(Vec::new, |edit| edit.rows(&plan.preview, COLUMNS, THEME))
}

fn is_direct(call: &CallId, transcript: &Transcript) -> bool {
    transcript.plan(call).is_some_and(|plan| plan.origin != Origin::Model)
}

/// Converts the rows of a proposal to lines.
pub(crate) fn lines(rows: &[TextRow]) -> String {
    rows.iter().map(|row| format!("{}\n", paint::row(row, false).trim_end())).collect()
}
