//! Panel layout of the REPL: permanent rows, and one live row below them.

mod calls;
mod moving_row;
#[cfg(test)]
mod tests;

use std::collections::{HashSet, VecDeque};
use std::io;

use sysop_core::event::{Delta, Event, Logged, PauseReason, StopReason, TypedInput, Update};
use sysop_core::id::{CallId, StepId, Timestamp};
use sysop_core::image::prompt_for_display;
use sysop_core::text::{neutralize_line, strip_controls};
use sysop_core::transcript::{
    ItemBody, ItemId, Proposal, SessionPhase, ToolOutput, Transcript, TurnEnd, UserPrompt, approval_label,
};
use sysop_core::ui_text::is_retrying;
use sysop_term::cells::width;
use sysop_term::diff::FileEdit;
use sysop_term::markdown::MarkdownStream;
use sysop_term::output::shown_beside_hosts;
use sysop_term::plan::call_rows;
use sysop_term::{StyleRole, TextRow};

use self::moving_row::{FRAMES, WaitClock};
use super::approval::ApprovalPrompt;
use super::inline_screen::InlineScreen;
use super::live_output::LiveOutput;
use super::status_row::TurnFacts;
use super::view::{OwnCall, OwnCalls, ReplView};
use crate::render::panel::Panel;
use crate::render::plan::{self, ProposalLocation};
use crate::render::{THEME, row, safe, span, truncate, words, wrap};

const ANSWER_TITLE: &str = "AGENT RESPONSE";

#[derive(Default)]
pub(crate) struct PanelView {
    answer: Option<StreamingAnswer>,
    output: Option<LiveOutput>,
    reasoning: String,
    own_prompts: VecDeque<String>,
    own_calls: OwnCalls,
    asked_here: HashSet<CallId>,
    turn_began: Option<Timestamp>,
    exit_code: Option<i32>,
    /// Output of the newest call, as it was shown.
    newest_output: String,
    /// Says how to answer the program that the newest call left waiting in the terminal.
    program_hint: Option<String>,
    /// Time at which the open proposal was asked about.
    asked_at: Option<Timestamp>,
    /// Milliseconds of the turn for which proposals waited for an answer.
    asked_ms: i64,
    /// True if the newest call was canceled.
    was_canceled: bool,
    /// True if a call of the turn has started.
    has_started: bool,
    /// True if the newest call failed, and the row at its end says how.
    is_failure_told: bool,
    /// Set if this user was the last to control the session's terminal.
    has_terminal: bool,
    /// Newest output line of a command running on several hosts.
    newest_line: String,
    /// Notice of the pending retry of a model request; empty if there is none.
    retry: String,
    frame: usize,
    wait_clock: WaitClock,
    /// True after a pause that a user requested has begun.
    is_paused: bool,
    /// True if such a pause has begun with a reply that may end the turn, and has not been announced.
    is_pause_due: bool,
    /// Directory with full outputs, if it is on this machine.
    artifacts: Option<String>,
}

struct StreamingAnswer {
    step: StepId,
    streamed: String,
    /// True if the panel has a top, but no bottom yet.
    is_open: bool,
    /// True if the panel has a row since its top.
    has_row: bool,
    /// Its rows have the width that the terminal had at first.
    markdown: MarkdownStream,
}

impl ReplView for PanelView {
    fn update(
        &mut self,
        update: &Update,
        transcript: &Transcript,
        screen: &mut InlineScreen,
    ) -> io::Result<()> {
        match update {
            Update::Delta(delta) => self.delta(delta, transcript, screen),
            Update::Logged(logged) => self.logged(logged, transcript, screen),
        }
    }

    fn tick(&mut self, transcript: &Transcript, screen: &mut InlineScreen) -> io::Result<()> {
        self.settle(transcript, screen)?;
        self.frame = (self.frame + 1) % FRAMES.len();
        let content = self.moving_row(transcript, screen.render_options().width);
        screen.last_row(content)
    }

    fn own_prompt(&mut self, text: &str) {
        self.own_prompts.push_back(text.to_owned());
    }

    fn own_call(&mut self, call: OwnCall) {
        self.own_calls.push(call);
    }

    fn settle(&mut self, transcript: &Transcript, screen: &mut InlineScreen) -> io::Result<()> {
        let is_due = std::mem::take(&mut self.is_pause_due) && is_paused_by_request(transcript);
        if is_due { self.announce_pause(transcript, screen) } else { Ok(()) }
    }

    fn question(
        &mut self,
        plan: &Proposal,
        transcript: &Transcript,
        screen: &InlineScreen,
    ) -> ApprovalPrompt {
        self.asked_here.insert(plan.call.id.clone());
        let panel = Panel::new(screen.render_options());
        let (host, folder) = transcript.session_info().map_or(("", ""), |facts| facts.place_of_plan(plan));
        let place = ProposalLocation { host, folder };
        let rows = plan::rows(plan, place, transcript.session_info(), panel.inner());
        ApprovalPrompt::new(panel.around(&plan::title(plan, transcript), rows), plan, transcript)
    }

    fn say(&mut self, text: &str, role: StyleRole, screen: &mut InlineScreen) -> io::Result<()> {
        self.suspend_answer(screen)?;
        let lines: Vec<TextRow> = text.lines().map(|line| row(line, role)).collect();
        if let Some(rows) = self.output.as_ref().and_then(|output| output.message(&lines)) {
            return screen.rows(&rows);
        }
        self.close_output(screen)?;
        let columns = screen.render_options().width.saturating_sub(1);
        for line in text.lines() {
            screen.rows(&wrap(&row(line, role), columns, description_column(line, columns)))?;
        }
        Ok(())
    }

    fn whole_output(
        &mut self,
        output: &ToolOutput,
        transcript: &Transcript,
        screen: &mut InlineScreen,
    ) -> io::Result<()> {
        self.suspend_answer(screen)?;
        self.close_output(screen)?;
        if let Some(plan) = transcript.plan(&output.call).filter(|plan| FileEdit::of(&plan.call).is_some()) {
            let panel = Panel::new(screen.render_options());
            let rows = call_rows(plan, panel.inner(), THEME);
            screen.rows(&panel.around(&format!("EDIT {}", output.number), rows))?;
        }
        let Some(outcome) = &output.outcome else { return Ok(()) };
        let (panel, title) = (Panel::new(screen.render_options()), format!("OUTPUT {}", output.number));
        let (text, styles) = shown_beside_hosts(outcome);
        screen.rows(&LiveOutput::whole(&title, &format!("{text}\n"), &styles, panel))?;
        let columns = screen.render_options().width.saturating_sub(1);
        screen.rows(&self.summary_rows(outcome, columns))
    }

    fn header(&mut self, transcript: &Transcript, screen: &mut InlineScreen) -> io::Result<()> {
        let Some(facts) = transcript.session_info() else { return Ok(()) };
        let panel = Panel::new(screen.render_options());
        let mut place = words::host_status_parts(facts.place());
        // A session without a host has no root.
        place.extend((!facts.root.is_empty()).then(|| format!("root {}", facts.root)));
        let lines = [
            format!("model {} · {}", facts.model, place.join(" · ")),
            format!(
                "approval {} · profile {} · /help for commands",
                approval_label(facts.approve),
                facts.profile
            ),
        ];
        let rows = lines.iter().flat_map(|line| wrap(&row(line, StyleRole::Dim), panel.inner(), 0)).collect();
        screen.rows(&panel.around("sysop", rows))
    }

    fn recap(&mut self, transcript: &Transcript, screen: &mut InlineScreen) -> io::Result<()> {
        let turn = transcript.turn();
        let items: Vec<_> = transcript.items().collect();
        let prompt = items.iter().rposition(|item| matches!(item.body, ItemBody::Prompt(_)));
        let from = prompt.unwrap_or(items.len());
        if from > 0 {
            screen.rows(&[row(&format!("… {from} earlier items, up to turn {turn}"), StyleRole::Dim)])?;
        }
        for item in &items[from..] {
            match &item.body {
                ItemBody::Prompt(prompt) => {
                    screen.rows(&prompt_rows(prompt, Panel::new(screen.render_options())))?
                }
                ItemBody::Answer(text) => self.whole_answer(&text.text, screen)?,
                ItemBody::Proposal(plan) => {
                    screen.rows(&[row(&words::tool_line(&plan.call), StyleRole::Dim)])?;
                }
                ItemBody::ToolOutput(output) => {
                    if let Some(outcome) = &output.outcome {
                        let columns = screen.render_options().width.saturating_sub(1);
                        screen.rows(&self.summary_rows(outcome, columns))?;
                    }
                }
                ItemBody::Notice(notice) => {
                    let columns = screen.render_options().width.saturating_sub(1);
                    screen.rows(&wrap_all(&notice_lines(&notice.text), columns))?;
                }
                ItemBody::End(end) => {
                    if let Some(text) = words::end_summary(end, transcript) {
                        screen.rows(&[row(&text, StyleRole::Warn)])?;
                    }
                }
                ItemBody::Reasoning(_) => {}
            }
        }
        Ok(())
    }
}

impl PanelView {
    /// Creates a view. `artifacts` is the directory with full outputs, if it is on this machine.
    pub(crate) fn new(artifacts: Option<String>) -> Self {
        Self { artifacts, ..Self::default() }
    }

    fn delta(&mut self, delta: &Delta, transcript: &Transcript, screen: &mut InlineScreen) -> io::Result<()> {
        match delta {
            Delta::Text { step, text } => {
                self.retry.clear();
                self.stream(*step, text, screen)?;
            }
            Delta::Reasoning { text, .. } => {
                self.retry.clear();
                self.reasoning.push_str(text);
                let begin = self.reasoning.len().saturating_sub(200);
                self.reasoning.drain(..self.reasoning.ceil_char_boundary(begin));
            }
            // Lines from several hosts are interleaved: show only the newest now, and all groups at the end.
            Delta::Output { text, .. }
                if transcript.session_info().is_some_and(|it| words::is_fleet(&it.host)) =>
            {
                if let Some(line) = text.lines().rev().find(|line| !line.trim().is_empty()) {
                    self.newest_line = strip_controls(line).into_owned();
                }
            }
            // The output of a background job is shown on request.
            Delta::Output { call, .. } if !words::is_running(call, transcript) => {}
            Delta::Output { call, text } => {
                let rows = self.output_of(call, transcript, screen)?.push(text);
                screen.rows(&rows)?;
            }
            Delta::Restarted { .. } => {
                self.reasoning.clear();
                if self.answer.is_some() {
                    self.close_answer(screen)?;
                    screen.rows(&[row("· reply interrupted; retrying", StyleRole::Dim)])?;
                }
            }
            Delta::Notice { text } if is_retrying(text) => self.retry = safe(text),
            // The moving row says what the host does.
            Delta::Notice { text }
                if transcript.host_work().is_some_and(|work| text.strip_suffix('…') == Some(work)) => {}
            Delta::Notice { text } => {
                self.suspend_answer(screen)?;
                self.notice(text, screen)?;
            }
            Delta::Control { holder } => {
                if words::is_new_holder(holder.as_deref(), &mut self.has_terminal, super::BY) {
                    self.suspend_answer(screen)?;
                    self.notice(&words::control(holder.as_deref()), screen)?;
                }
            }
            // The main loop asks the question and reports the result.
            Delta::Progress { .. } | Delta::Question { .. } | Delta::QuestionClosed { .. } => {}
        }
        let content = self.moving_row(transcript, screen.render_options().width);
        screen.last_row(content)
    }

    /// Forgets what belongs to the turn before the one that began `at` this time.
    fn forget_turn(&mut self, at: Timestamp) {
        self.turn_began = Some(at);
        self.exit_code = None;
        self.newest_output.clear();
        self.was_canceled = false;
        (self.has_started, self.is_failure_told) = (false, false);
        self.program_hint = None;
        (self.asked_at, self.asked_ms) = (None, 0);
        self.asked_here.clear();
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "other events are shown by their notices")]
    fn logged(
        &mut self,
        logged: &Logged,
        transcript: &Transcript,
        screen: &mut InlineScreen,
    ) -> io::Result<()> {
        self.retry.clear();
        self.measure_questions(logged);
        match &logged.event {
            Event::TurnStarted { turn, .. } => {
                self.forget_turn(logged.at);
                let item = transcript.item(&ItemId::Prompt(*turn)).map(|item| &item.body);
                if let Some(ItemBody::Prompt(prompt)) = item {
                    if self.own_prompts.front() == Some(&prompt.text) {
                        self.own_prompts.pop_front();
                    } else {
                        screen.rows(&prompt_rows(prompt, Panel::new(screen.render_options())))?;
                    }
                }
            }
            Event::Replied { step, reply } => {
                self.reasoning.clear();
                self.replied(*step, &reply.text, screen)?;
            }
            Event::Decided { call, .. } => self.decided(call, transcript, screen)?,
            Event::ToolStarted { call, origin } => self.tool_started(call, *origin, transcript, screen)?,
            Event::ToolFinished { call, outcome } => self.tool_finished(call, outcome, transcript, screen)?,
            Event::TurnEnded { turn, .. } => {
                self.close_answer(screen)?;
                self.reasoning.clear();
                let id = ItemId::End(*turn);
                if let Some(ItemBody::End(end)) = transcript.item(&id).map(|item| &item.body) {
                    self.turn_ended(end, logged.at, transcript, screen)?;
                }
                self.notice_of(logged, transcript, screen)?;
            }
            // Told once the pause begins.
            Event::Paused { reason: PauseReason::Asked, .. } => {}
            Event::Paused { reason, detail, .. } => {
                self.suspend_answer(screen)?;
                self.paused(*reason, detail.as_deref(), transcript, screen)?;
            }
            Event::ModelFailed { .. } => self.close_answer(screen)?,
            // The user who answered sees the result in the open panel.
            Event::TerminalInput { by, typed: TypedInput::Secret { .. } | TypedInput::Answer { .. } }
                if by == super::BY && self.output.is_some() => {}
            Event::TerminalInput { by, typed } => {
                self.suspend_answer(screen)?;
                let columns = Panel::new(screen.render_options()).inner();
                let text = format!("· {}", words::typed(transcript.subject(by), typed));
                let line = truncate(&row(&text, StyleRole::Dim), columns);
                self.message(&[line], screen)?;
            }
            // A prompt typed here is visible, and its turn begins at once.
            Event::PromptQueued { text, images, .. }
                if self.own_prompts.contains(&prompt_for_display(text, images)) => {}
            Event::SessionOpened { .. }
            | Event::StepStarted { .. }
            | Event::ApprovalAsked { .. }
            | Event::CancelAsked { .. }
            | Event::Resumed => {}
            _ => {
                self.suspend_answer(screen)?;
                self.notice_of(logged, transcript, screen)?;
            }
        }
        let is_paused = is_paused_by_request(transcript);
        let begins = is_paused && (!self.is_paused || self.is_pause_due);
        // After a reply without calls, the end of the turn may follow at once.
        self.is_pause_due =
            begins && matches!(&logged.event, Event::Replied { reply, .. } if reply.calls.is_empty());
        if begins && !self.is_pause_due {
            self.announce_pause(transcript, screen)?;
        }
        self.is_paused = is_paused;
        let content = self.moving_row(transcript, screen.render_options().width);
        screen.last_row(content)
    }

    /// Adds up the time for which proposals wait for an answer.
    fn measure_questions(&mut self, logged: &Logged) {
        if let Event::ApprovalAsked { .. } = logged.event {
            self.asked_at.get_or_insert(logged.at);
        } else if let (Event::Decided { .. }, Some(asked)) = (&logged.event, self.asked_at) {
            self.asked_ms += logged.at.0.saturating_sub(asked.0).max(0);
            self.asked_at = None;
        }
    }

    fn notice_of(
        &mut self,
        logged: &Logged,
        transcript: &Transcript,
        screen: &mut InlineScreen,
    ) -> io::Result<()> {
        let Some(notice) = transcript.notice_at(logged.seq) else { return Ok(()) };
        self.notice(&notice.text, screen)
    }

    fn notice(&mut self, text: &str, screen: &mut InlineScreen) -> io::Result<()> {
        self.message(&notice_lines(text), screen)
    }

    /// Shows a message on the frame of the running output, or else below the output so far.
    fn message(&mut self, lines: &[TextRow], screen: &mut InlineScreen) -> io::Result<()> {
        if let Some(rows) = self.output.as_ref().and_then(|output| output.message(lines)) {
            return screen.rows(&rows);
        }
        self.close_output(screen)?;
        screen.rows(&wrap_all(lines, screen.render_options().width.saturating_sub(1)))
    }

    fn announce_pause(&mut self, transcript: &Transcript, screen: &mut InlineScreen) -> io::Result<()> {
        self.suspend_answer(screen)?;
        self.paused(PauseReason::Asked, None, transcript, screen)
    }

    /// Closes the panel of running output before a message.
    fn close_output(&mut self, screen: &mut InlineScreen) -> io::Result<()> {
        let bottom = self.output.as_mut().and_then(LiveOutput::close);
        screen.rows(&Vec::from_iter(bottom))
    }

    fn paused(
        &mut self,
        reason: PauseReason,
        detail: Option<&str>,
        transcript: &Transcript,
        screen: &mut InlineScreen,
    ) -> io::Result<()> {
        let mut text = match reason {
            PauseReason::Asked => {
                "paused; Ctrl+P or /resume to resume; /stop, a new prompt, !COMMAND or /undo to cancel"
                    .to_owned()
            }
            PauseReason::Loop => {
                "paused: the model repeated the same call 3 times; /resume to resume, /stop to cancel"
                    .to_owned()
            }
            PauseReason::Interrupted => {
                let why = transcript.interruption().unwrap_or("sysop exited during this turn");
                let check = if transcript.interrupts_call() { "check it, then " } else { "" };
                format!("interrupted: {why}; {check}/resume or /stop")
            }
            PauseReason::Budget => {
                let detail = sysop_core::text::neutralize_line(detail.unwrap_or_default());
                format!("paused by the budget: {detail}; /resume to grant it once more, /stop to cancel")
            }
        };
        if let Some(queued) = words::queued_messages(transcript) {
            text.push_str(&format!("; {queued}"));
        }
        self.close_output(screen)?;
        screen.rows(&wrap(&row(&text, StyleRole::Warn), screen.render_options().width.saturating_sub(1), 2))
    }

    fn stream(&mut self, step: StepId, text: &str, screen: &mut InlineScreen) -> io::Result<()> {
        if self.answer.as_ref().is_some_and(|answer| answer.step != step) {
            self.close_answer(screen)?;
        }
        if self.answer.is_none() && text.trim().is_empty() {
            return Ok(());
        }
        if self.answer.is_none() {
            let panel = Panel::new(screen.render_options());
            screen.rows(&[panel.top(ANSWER_TITLE)])?;
            let markdown = MarkdownStream::new(panel.inner(), THEME);
            let streamed = String::new();
            self.answer = Some(StreamingAnswer { step, streamed, is_open: true, has_row: false, markdown });
        }
        let Some(answer) = &mut self.answer else { return Ok(()) };
        answer.streamed.push_str(text);
        let rows = answer.markdown.push(text);
        screen.rows(&answer.framed(rows, Panel::new(screen.render_options())))
    }

    /// Draws the part of a finished reply that was not streamed, or all of it if the streamed text differed.
    fn replied(&mut self, step: StepId, text: &str, screen: &mut InlineScreen) -> io::Result<()> {
        let streamed = match &self.answer {
            Some(answer) if answer.step == step => answer.streamed.clone(),
            Some(_) | None => String::new(),
        };
        // Leading blank deltas have not been drawn.
        let rest = text.trim_start().strip_prefix(streamed.trim_start()).map(str::to_owned);
        match rest {
            Some(rest) if !streamed.is_empty() => {
                self.stream(step, &rest, screen)?;
                self.close_answer(screen)
            }
            Some(_) => {
                self.close_answer(screen)?;
                self.whole_answer(text, screen)
            }
            None => {
                self.close_answer(screen)?;
                if text.trim().is_empty() || text.trim() == streamed.trim() {
                    return Ok(());
                }
                screen.rows(&[row("· retried reply:", StyleRole::Dim)])?;
                self.whole_answer(text, screen)
            }
        }
    }

    fn whole_answer(&mut self, text: &str, screen: &mut InlineScreen) -> io::Result<()> {
        if text.trim().is_empty() {
            return Ok(());
        }
        let panel = Panel::new(screen.render_options());
        let rows = MarkdownStream::rows(text.trim(), panel.inner(), THEME);
        screen.rows(&panel.around(ANSWER_TITLE, rows))
    }

    /// Draws the rest of the answer and closes its panel.
    fn close_answer(&mut self, screen: &mut InlineScreen) -> io::Result<()> {
        let Some(mut answer) = self.answer.take() else { return Ok(()) };
        let panel = Panel::new(screen.render_options());
        let rest = answer.markdown.finish();
        let mut rows = answer.framed(rest, panel);
        rows.extend(answer.close(panel));
        screen.last_row(None)?;
        screen.rows(&rows)
    }

    /// Closes the panel of the answer before a message. Its next row opens it again.
    fn suspend_answer(&mut self, screen: &mut InlineScreen) -> io::Result<()> {
        let Some(answer) = &mut self.answer else { return Ok(()) };
        let panel = Panel::new(screen.render_options());
        let mut rows = Vec::from_iter(answer.unfinished_row(panel));
        rows.extend(answer.close(panel));
        screen.last_row(None)?;
        screen.rows(&rows)
    }

    fn turn_ended(
        &mut self,
        end: &TurnEnd,
        at: Timestamp,
        transcript: &Transcript,
        screen: &mut InlineScreen,
    ) -> io::Result<()> {
        if let Some(output) = self.output.take() {
            screen.rows(&output.finish(Panel::new(screen.render_options()), None))?;
        }
        let role = if end.error.is_some() { StyleRole::Bad } else { StyleRole::Warn };
        // The reason of a turn that was one command is that command's output.
        let is_news = |text: &String| text.trim() != safe(self.newest_output.trim());
        // A canceled call has said that the turn was stopped.
        let is_direct = end.iterations == 0;
        let is_told = end.reason == StopReason::Cancelled && self.was_canceled
            || is_direct && end.reason == StopReason::Failed && self.is_failure_told;
        if let Some(text) = words::end_summary(end, transcript).filter(|text| !is_told && is_news(text)) {
            screen.rows(&wrap(&row(&text, role), screen.render_options().width.saturating_sub(1), 2))?;
        }
        if let Some(missed) = words::missed_hosts(end, transcript) {
            let columns = screen.render_options().width.saturating_sub(1);
            screen.rows(&wrap(&row(&missed, StyleRole::Bad), columns, 2))?;
        }
        let Some(facts) = transcript.session_info() else { return Ok(()) };
        let duration =
            |began: Timestamp| words::duration(u64::try_from(at.0 - began.0 - self.asked_ms).unwrap_or(0));
        let facts = TurnFacts {
            place: facts.place(),
            model: facts.model.to_string(),
            readers: words::other_readers(transcript.output_readers()).into_iter().collect(),
            // If a command that is the whole turn fails, the row at its end has its exit code.
            exit_code: self.exit_code.filter(|code| !is_direct || *code == 0),
            duration: self.turn_began.map(duration),
            step: (end.iterations > 0).then_some((end.iterations, facts.max_iterations)),
            tokens: words::usage(end.usage),
        };
        let columns = screen.render_options().width.saturating_sub(1);
        if let Some(hint) = self.program_hint.take() {
            let text = format!("{hint}, or use the terminal with /shell");
            screen.rows(&wrap(&row(&text, StyleRole::Warn), columns, 2))?;
        }
        if is_direct && !self.has_started {
            return Ok(()); // nothing has run
        }
        screen.rows(&facts.rows(columns))
    }
}

fn is_paused_by_request(transcript: &Transcript) -> bool {
    let asked = SessionPhase::Paused { reason: PauseReason::Asked };
    *transcript.phase() == asked && transcript.pause_delay().is_none()
}

impl StreamingAnswer {
    /// Returns rows of the panel, wrapped again if the terminal has become narrower since they were laid out. They
    /// begin with the panel's top if it is closed.
    fn framed(&mut self, rows: Vec<TextRow>, panel: Panel) -> Vec<TextRow> {
        let fitting = rows.iter().flat_map(|text| wrap(text, panel.inner(), 0));
        let mut framed: Vec<TextRow> = fitting.map(|text| panel.row(text)).collect();
        if !framed.is_empty() && !std::mem::replace(&mut self.is_open, true) {
            framed.insert(0, panel.top(&format!("{ANSWER_TITLE}, continued")));
        }
        self.has_row |= !framed.is_empty();
        framed
    }

    /// Returns the text of a panel that would be empty if it were closed now. The next panel has it again, with its
    /// end.
    fn unfinished_row(&self, panel: Panel) -> Option<TextRow> {
        let tail = self.markdown.tail().filter(|_| self.is_open && !self.has_row)?;
        let mut text = truncate(tail, panel.inner().saturating_sub(2));
        text.push(span(" …", StyleRole::Dim));
        Some(panel.row(text))
    }

    /// Returns the row that closes the panel, if the panel is open and has sides.
    fn close(&mut self, panel: Panel) -> Option<TextRow> {
        self.has_row = false;
        std::mem::take(&mut self.is_open).then(|| panel.bottom()).flatten()
    }
}

/// Returns the lines of a notice.
fn notice_lines(text: &str) -> Vec<TextRow> {
    let lines = text.lines().enumerate();
    let marked = lines.map(|(at, line)| format!("{}{line}", if at == 0 { "· " } else { "  " }));
    marked.map(|line| row(&line, StyleRole::Dim)).collect()
}

fn wrap_all(lines: &[TextRow], columns: usize) -> Vec<TextRow> {
    lines.iter().flat_map(|line| wrap(line, columns, 2)).collect()
}

/// Returns the column at which a line of a list continues: below its description, which follows two spaces or more.
/// Returns 0 for other lines, and where a description would have less than half of the row.
fn description_column(line: &str, columns: usize) -> usize {
    let label = line.trim_start();
    let indent = line.len() - label.len();
    let column = label.find("  ").map_or(indent, |gap| {
        let description = label[gap..].trim_start();
        width(line) - width(description)
    });
    if column <= columns / 2 { column } else { 0 }
}

fn prompt_rows(prompt: &UserPrompt, panel: Panel) -> Vec<TextRow> {
    let sender = prompt.sender().map(|by| format!("PROMPT from {}", neutralize_line(by)));
    let title = sender.as_deref().unwrap_or("PROMPT");
    let rows =
        prompt.text.lines().flat_map(|line| wrap(&row(line, StyleRole::Text), panel.inner(), 0)).collect();
    panel.around(title, rows)
}
