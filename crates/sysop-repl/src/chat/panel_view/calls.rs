//! Tool calls in the panel layout: what runs, its output and its outcome.

use std::io;

use sysop_core::event::Origin;
use sysop_core::id::CallId;
use sysop_core::message::ToolCall;
use sysop_core::outcome::{Outcome, Status};
use sysop_core::transcript::{Decider, ItemBody, ItemId, Proposal, ProposalState, Transcript};
use sysop_core::ui_text;
use sysop_core::undo::changed_line;
use sysop_term::diff::FileEdit;
use sysop_term::output::{end_rows, host_rows, shown_beside_hosts, shown_text, status_role};
use sysop_term::plan::{call_rows, command_rows, origin_rows, reason_rows};
use sysop_term::{StyleRole, TextRow};

use super::super::BY;
use super::super::inline_screen::InlineScreen;
use super::super::live_output::LiveOutput;
use super::PanelView;
use crate::render::panel::Panel;
use crate::render::plan::fold_edit;
use crate::render::{THEME, row, safe, words, wrap};

impl PanelView {
    pub(super) fn decided(
        &self,
        call: &CallId,
        transcript: &Transcript,
        screen: &mut InlineScreen,
    ) -> io::Result<()> {
        let Some(plan) = transcript.plan(call) else { return Ok(()) };
        let Some(text) = words::decision_summary(plan, BY) else { return Ok(()) };
        let role = if matches!(plan.state, ProposalState::Rejected { .. }) {
            StyleRole::Warn
        } else {
            StyleRole::Dim
        };
        let columns = screen.render_options().width.saturating_sub(1);
        screen.rows(&wrap(&row(&text, role), columns, 2))?;
        // An edited command was shown again with the question.
        if plan.edited_from.is_some() && !self.asked_here.contains(call) {
            screen.rows(&command_rows(&plan.command, &[], columns, THEME))?;
        }
        Ok(())
    }

    pub(super) fn tool_started(
        &mut self,
        call: &ToolCall,
        origin: Origin,
        transcript: &Transcript,
        screen: &mut InlineScreen,
    ) -> io::Result<()> {
        self.close_answer(screen)?;
        self.close_output(screen)?;
        self.has_started = true;
        let Some(plan) = transcript.plan(&call.id) else { return Ok(()) };
        let is_own = self.own_calls.take(call) || plan.asked_by.is_none();
        if self.asked_here.contains(&call.id) || (origin == Origin::User && is_own) {
            return Ok(());
        }
        let panel = Panel::new(screen.render_options());
        let mut rows = if is_own { Vec::new() } else { origin_rows(plan, panel.inner(), THEME) };
        if FileEdit::of(call).is_some() {
            rows.extend(reason_rows(plan, panel.inner(), THEME));
            // Calls run one after the other, so the number of this one is the next.
            let number = transcript.tool_calls().saturating_add(1);
            rows.extend(fold_edit(call_rows(plan, panel.inner(), THEME), number, panel.inner()));
            return screen.rows(&panel.around("EDIT", rows));
        }
        if call.text_argument("command").is_none() {
            rows.push(row(&words::tool_line(call), StyleRole::Dim));
            return screen.rows(&rows);
        }
        let reason = plan.reason.lines();
        rows.extend(reason.flat_map(|line| wrap(&row(line, StyleRole::Text), panel.inner(), 0)));
        let place = transcript.session_info().map(|facts| facts.place_of(&call.name).0);
        if let Some(host) = place.filter(|host| !words::is_local_host(host)) {
            rows.extend(wrap(&row(&words::on_place(host), StyleRole::Dim), panel.inner(), 2));
        }
        rows.extend(command_rows(&plan.command, &plan.risk.findings, panel.inner(), THEME));
        let title = if origin == Origin::User { "COMMAND" } else { "RUNNING" };
        screen.rows(&panel.around(title, rows))
    }

    pub(super) fn tool_finished(
        &mut self,
        call: &CallId,
        outcome: &Outcome,
        transcript: &Transcript,
        screen: &mut InlineScreen,
    ) -> io::Result<()> {
        if let Some(ItemBody::Answer(text)) =
            transcript.item(&ItemId::Summary(call.clone())).map(|item| &item.body)
        {
            let text = text.text.clone();
            return self.whole_answer(&text, screen);
        }
        self.newest_line.clear();
        self.exit_code = outcome.exit_code.or(self.exit_code);
        shown_text(outcome).clone_into(&mut self.newest_output);
        self.was_canceled = outcome.status == Status::Cancelled && !outcome.is_not_run();
        let plan = transcript.plan(call);
        // A call that a user allowed can be rejected after its start, for example by an MCP server that has changed.
        let was_allowed = plan.is_some_and(|plan| matches!(plan.state, ProposalState::Allowed { .. }));
        let never_ran = plan.is_some_and(|plan| plan.state == ProposalState::NotRun);
        if never_ran || outcome.status == Status::Rejected && !was_allowed {
            (self.has_started, self.is_failure_told) = (false, true);
            return not_run(plan, outcome, screen);
        }
        let streamed = self.output.as_ref().is_some_and(|output| output.call == *call);
        let is_screen = plan.is_none_or(|plan| {
            plan.call.text_argument("command").is_some() || plan.call.text_argument("keys").is_some()
        });
        let worth_it =
            is_screen || outcome.status != Status::Ok || plan.is_some_and(|p| p.origin != Origin::Model);
        let columns = screen.render_options().width.saturating_sub(1);
        let rest = transcript.output_of(call).map(|output| words::omitted_output(outcome, output.number));
        if streamed && let Some(output) = self.output.take() {
            screen.last_row(None)?;
            screen.rows(&output.finish(Panel::new(screen.render_options()), rest.as_deref()))?;
        }
        screen.rows(&host_rows(&ui_text::host_groups(&outcome.hosts), columns, THEME))?;
        let (shown, styles) = shown_beside_hosts(outcome);
        if !streamed && worth_it && !shown.trim().is_empty() {
            let rows = self.output_of(call, transcript, screen)?.push_styled(&format!("{shown}\n"), &styles);
            screen.rows(&rows)?;
        }
        if let Some(output) = self.output.take() {
            screen.last_row(None)?;
            screen.rows(&output.finish(Panel::new(screen.render_options()), rest.as_deref()))?;
        }
        screen.rows(&self.end_rows(outcome, columns))?;
        // The reason of another failure is its output.
        self.is_failure_told = outcome.status != Status::Failed || outcome.exit_code.is_some();
        let changed = changed_line(outcome, transcript.tool_calls());
        if let Some(line) = changed.or_else(|| transcript.terminal_hint(call, outcome)) {
            self.notice(&safe(&line), screen)?;
        }
        self.program_hint = words::program_hint(outcome);
        Ok(())
    }

    fn end_rows(&self, outcome: &Outcome, columns: usize) -> Vec<TextRow> {
        let full_output = words::full_output(outcome, self.artifacts.as_deref());
        end_rows(outcome, full_output.as_deref(), columns, THEME)
    }

    /// Returns the summaries of an outcome, first those of its hosts, if there are several.
    pub(super) fn summary_rows(&self, outcome: &Outcome, columns: usize) -> Vec<TextRow> {
        let mut rows = host_rows(&ui_text::host_groups(&outcome.hosts), columns, THEME);
        rows.extend(self.end_rows(outcome, columns));
        rows
    }

    /// Returns the panel for a call's output, creating it if necessary.
    pub(super) fn output_of(
        &mut self,
        call: &CallId,
        transcript: &Transcript,
        screen: &mut InlineScreen,
    ) -> io::Result<&mut LiveOutput> {
        if self.output.as_ref().is_none_or(|output| output.call != *call) {
            let panel = Panel::new(screen.render_options());
            let typed = transcript.plan(call).is_some_and(|plan| plan.origin != Origin::Model);
            let far = transcript.session_info().is_some_and(|facts| !words::is_local_host(&facts.host));
            let keys = transcript.plan(call).is_some_and(|plan| plan.call.text_argument("keys").is_some());
            let title = match (keys, typed && far) {
                (true, _) => "TERMINAL",
                (false, true) => "REMOTE COMMAND",
                (false, false) => "COMMAND OUTPUT",
            };
            let (output, top) = LiveOutput::open(call.clone(), title, panel);
            screen.rows(&[top])?;
            return Ok(self.output.insert(output));
        }
        let output = self.output.as_mut().expect("checked above");
        // The terminal may have been resized since the last row.
        output.resize(Panel::new(screen.render_options()));
        Ok(output)
    }
}

/// Names a call that the policy or a hook rejected, or that could not run, with the reason. A call that a user rejected
/// was shown in the question.
fn not_run(plan: Option<&Proposal>, outcome: &Outcome, screen: &mut InlineScreen) -> io::Result<()> {
    let is_unnamed = |plan: &&Proposal| match plan.state {
        ProposalState::Rejected { by: Decider::Policy, .. } | ProposalState::NotRun => true,
        ProposalState::Waiting
        | ProposalState::Allowed { .. }
        | ProposalState::Rejected { by: Decider::Person(_), .. } => false,
    };
    let Some(plan) = plan.filter(is_unnamed) else { return Ok(()) };
    let columns = screen.render_options().width.saturating_sub(1);
    let called = match plan.call.text_argument("command") {
        Some(_) => command_rows(&plan.command, &plan.risk.findings, columns, THEME),
        None => vec![row(&words::tool_line(&plan.call), StyleRole::Dim)],
    };
    if !words::is_named_at_start(plan) {
        screen.rows(&called)?;
    }
    let text = words::not_run_text(outcome);
    let role = status_role(outcome.status);
    screen.rows(&text.lines().flat_map(|line| wrap(&row(line, role), columns, 2)).collect::<Vec<_>>())
}
