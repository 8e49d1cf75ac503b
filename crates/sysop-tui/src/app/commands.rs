//! Commands in submitted lines.

use std::time::Duration;

use serde_json::json;
use sysop_core::event::{ConfigChange, Decision, Input, Origin};
use sysop_core::id::{CallId, TurnId};
use sysop_core::model_provider::typed_model;
use sysop_core::policy::ApprovalMode;
use sysop_core::session::QUEUED_PROMPTS_MAX;
use sysop_core::skill::Skill;
use sysop_core::transcript::{ItemBody, ItemId, SessionPhase, approval_label};
use sysop_core::ui_text;
use sysop_driver::frontend::SessionSelector;
use sysop_term::command::{InputLine, JobsCommand, PermissionsCommand, parse, undo_arguments};
use sysop_term::session_text::{self, PermissionsAnswer, status_lines};

use super::keys::page;
use super::overlay::{ListKind, Overlay};
use super::server_link::OFFLINE;
use super::{Action, App, ExitReason, PendingAck, State};

/// Title of the answer to `/status`.
const STATUS: &str = "Status";

/// Key that stops a turn.
const STOP_KEY: &str = "Esc";

/// Message after a text at the proposal of a call of the user's own.
const NOT_SENT: &str = "your text was not sent; it is in the input";

const ENDS_PAUSED_TURN: &str = "not run: it would end the paused turn; resume or stop the turn first";

impl App {
    /// Sends a prompt as if the user had typed it.
    pub fn task(&mut self, text: &str, now: Duration) -> Vec<Action> {
        self.prompt_history.push(text);
        self.prompt(text.to_owned(), now)
    }

    fn prompt(&mut self, text: String, now: Duration) -> Vec<Action> {
        let queues = self.is_offline() || self.is_working();
        if queues && self.queued.len() + self.undelivered().len() >= QUEUED_PROMPTS_MAX {
            self.composer_mut().set(&text);
            return self.remark(format!("the queue is full ({QUEUED_PROMPTS_MAX} messages)"), now);
        }
        if self.is_offline() {
            return self.prompt_offline(text);
        }
        if !self.is_working() {
            return self.send_prompt(text, now);
        }
        self.own_queued.push(text.clone());
        self.send_expecting(Input::prompt(text), PendingAck::Event, now)
    }

    /// Runs a line that is not in the box, unless it cannot run now.
    pub(super) fn picked_line(&mut self, text: &str, now: Duration) -> Vec<Action> {
        match self.line_refusal(&parse(text, self.skills())) {
            Some(why) => self.remark(why, now),
            None => self.line(text, now),
        }
    }

    pub(super) fn line(&mut self, text: &str, now: Duration) -> Vec<Action> {
        match parse(text, self.skills()) {
            InputLine::Empty => Vec::new(),
            InputLine::Prompt(prompt) if self.is_message(text) => self.message(prompt, now),
            InputLine::Prompt(prompt) => self.prompt(prompt, now),
            InputLine::Shell(command) => {
                self.direct("bash", &json!({ "command": command }), Origin::User, now)
            }
            InputLine::Output(number) => self.page_output(number, now),
            InputLine::Undo(step) => self.direct("undo", &undo_arguments(step), Origin::User, now),
            InputLine::Keys(keys) => {
                self.direct("send_keys", &json!({ "keys": keys, "reasoning": "" }), Origin::User, now)
            }
            InputLine::Run { name, values } => self.routine(&name, &values, now),
            InputLine::Help => {
                self.overlay = Some(Overlay::help());
                Vec::new()
            }
            InputLine::Exit => self.leave(ExitReason::Quit),
            InputLine::Clear => self.send_expecting(Input::Clear, PendingAck::Event, now),
            InputLine::Compact(focus) => self.compact(focus, now),
            InputLine::Cost => {
                self.show_flash(self.meter.report().line(), now);
                Vec::new()
            }
            InputLine::Status => {
                self.show_status();
                vec![Action::FetchModelStatus]
            }
            InputLine::Permissions(command) => self.permissions(command, now),
            InputLine::Sessions(words) => self.sessions(words.as_deref()),
            InputLine::Fork(turn) => self.fork(turn, now),
            InputLine::Export(file) => vec![Action::Export(file)],
            InputLine::Theme(None) => self.without_action(Self::pick_theme),
            InputLine::Theme(Some(theme)) => self.take_theme(theme),
            InputLine::Effort(effort) => self.configure(ConfigChange::Effort(effort), now),
            InputLine::Trust => vec![Action::TrustWorkspace],
            InputLine::New => {
                vec![Action::OpenSession(SessionSelector::new_after(&self.transcript))]
            }
            InputLine::Resume(None) if matches!(self.transcript.phase(), SessionPhase::Paused { .. }) => {
                self.send_expecting(Input::Resume, PendingAck::Event, now)
            }
            InputLine::Resume(None) => self.fetch_list(ListKind::Sessions),
            InputLine::Resume(Some(id)) => vec![Action::OpenSession(SessionSelector::Existing(id))],
            InputLine::Model(None) => self.fetch_list(ListKind::Models),
            InputLine::Model(Some(name)) => self.model_named(&name, now),
            InputLine::Approve(mode) => self.approve(mode, now),
            InputLine::Auto(bounds) => self.configure(ConfigChange::Auto(bounds), now),
            InputLine::Mode(Some(mode)) => self.configure(ConfigChange::Mode(mode), now),
            InputLine::Mode(None) => self.show_mode(now),
            InputLine::Host(None) => self.without_action(|app| app.pick_host(now)),
            InputLine::Host(Some(host)) => self.open_on(host),
            InputLine::Routines => self.without_action(|app| app.pick_routine(now)),
            InputLine::Mcp => self.fetch_list(ListKind::ToolServers),
            InputLine::OpenShell => vec![Action::ShowTerminal],
            InputLine::Jobs(command) => self.jobs(command, now),
            InputLine::Background if self.is_idle() => self.remark("nothing is running", now),
            InputLine::Background => vec![Action::Send(Input::Background)],
            InputLine::Pause if self.is_idle() => self.remark("nothing to pause", now),
            InputLine::Pause => {
                self.pausing = true;
                vec![Action::Send(Input::Pause)]
            }
            InputLine::Stop if self.is_idle() => self.remark("nothing is running", now),
            InputLine::Stop => self.stop(now),
            InputLine::Retry => self.retry(now),
            InputLine::Plan => self.run_proposed_step(now),
            InputLine::Wrong(text) => self.remark(text, now),
        }
    }

    pub(super) fn open_on(&self, host: String) -> Vec<Action> {
        vec![Action::OpenSession(SessionSelector::on_host_after(host, &self.transcript))]
    }

    fn compact(&mut self, focus: Option<String>, now: Duration) -> Vec<Action> {
        if !self.is_idle() {
            self.show_flash(ui_text::COMPACTS_LATER, now);
        }
        self.send_expecting(Input::Compact { focus }, PendingAck::Event, now)
    }

    /// Says why the line cannot run now, if it runs a call of the user's own or the connection to the server is lost.
    pub(super) fn line_refusal(&self, line: &InputLine) -> Option<String> {
        if let Some(why) = self.offline_refusal(line) {
            return Some(why);
        }
        if !line.runs_call() {
            return None;
        }
        let is_read = matches!(line, InputLine::Jobs(_));
        let would_end_turn = is_read && matches!(self.transcript.phase(), SessionPhase::Paused { .. });
        self.call_refusal().or_else(|| would_end_turn.then(|| ENDS_PAUSED_TURN.to_owned()))
    }

    /// Says why a call of the user's own cannot run now.
    pub(super) fn call_refusal(&self) -> Option<String> {
        // What was sent last is not in the log yet.
        let runs_soon = match self.transcript.phase() {
            SessionPhase::Idle => self.state().is_busy(),
            SessionPhase::AwaitingApproval { .. } => self.state() != State::ReviewAction,
            SessionPhase::Thinking { .. }
            | SessionPhase::Running { .. }
            | SessionPhase::Paused { .. }
            | SessionPhase::Stopping => false,
        };
        match runs_soon {
            true => Some(ui_text::turn_runs(STOP_KEY)),
            false => ui_text::typed_call_refusal(&self.transcript, STOP_KEY),
        }
    }

    /// Sends a message to the model: the reason for rejecting the proposal under review, else a prompt.
    fn message(&mut self, text: String, now: Duration) -> Vec<Action> {
        let Some(review) = &self.review else { return self.prompt(text, now) };
        let call = review.call().clone();
        self.reject(call, &text, now)
    }

    /// Rejects a proposal with a reason. No model gets the result of a call of the user's own, so that the text at such
    /// a proposal returns to the box.
    pub(super) fn reject(&mut self, call: CallId, text: &str, now: Duration) -> Vec<Action> {
        let is_own = self.transcript.plan(&call).is_some_and(|plan| plan.is_own(None));
        let actions = self.decide(call, Decision::Reject { reason: text.trim().replace('\n', " ") }, now);
        if is_own {
            self.composer_mut().set(text);
            self.show_flash(NOT_SENT, now);
        }
        actions
    }

    /// Says why the session has no terminal to open.
    pub fn no_terminal(&self) -> &'static str {
        match self.transcript.session_info() {
            Some(info) if ui_text::is_fleet(&info.host) => {
                "sessions on several hosts have no terminal; /host NAME starts one on a single host"
            }
            Some(_) | None => "no terminal in this session",
        }
    }

    /// Returns true if the line is a message to the model. Returns false for commands, including those that send a
    /// prompt of their own: `/init`, skills and custom commands.
    pub(super) fn is_message(&self, line: &str) -> bool {
        let is_slash = |text: &str| text.trim_start().starts_with('/');
        matches!(parse(line, &[]), InputLine::Prompt(prompt) if is_slash(&prompt) == is_slash(line))
    }

    /// Opens the whole output of a call in the pager; `None` means the last call.
    fn page_output(&mut self, number: Option<u32>, now: Duration) -> Vec<Action> {
        match self.transcript.ended_output(number).and_then(|output| output.outcome.as_ref()) {
            Some(outcome) => page(outcome),
            None => self.remark(ui_text::no_output(number), now),
        }
    }

    fn without_action(&mut self, change: impl FnOnce(&mut Self)) -> Vec<Action> {
        change(self);
        Vec::new()
    }

    /// Returns the skills and commands that can be invoked by name: those in the log, or, if the log has
    /// none, those that the service found.
    pub(super) fn skills(&self) -> &[Skill] {
        match self.transcript.skills() {
            [] => &self.skills,
            logged => logged,
        }
    }

    pub(super) fn jobs(&mut self, command: JobsCommand, now: Duration) -> Vec<Action> {
        match command {
            JobsCommand::Stop(job) => vec![Action::Send(Input::StopJob { job })],
            JobsCommand::List => self.without_action(|app| app.pick_job(now)),
            JobsCommand::Read(job) => match self.line_refusal(&InputLine::Jobs(command)) {
                Some(why) => self.remark(why, now),
                None => self.direct("jobs", &json!({ "action": "read", "id": job.0 }), Origin::User, now),
            },
        }
    }

    fn show_mode(&mut self, now: Duration) -> Vec<Action> {
        let mode = self.transcript.session_info().map(|facts| facts.mode).unwrap_or_default();
        self.show_flash(ui_text::mode_help(mode).to_owned(), now);
        Vec::new()
    }

    /// Changes the approval mode, or shows it if `mode` is `None`. If the new mode allows running calls,
    /// shows a message that offers the proposed steps.
    pub(super) fn approve(&mut self, mode: Option<ApprovalMode>, now: Duration) -> Vec<Action> {
        let Some(mode) = mode else {
            let mode = self.transcript.session_info().map_or(ApprovalMode::Ask, |facts| facts.approve);
            let text = format!(
                "approval mode: {}; change it with /approve each, ask, auto or never",
                approval_label(mode)
            );
            self.show_flash(text, now);
            return Vec::new();
        };
        let actions = self.configure(ConfigChange::Approve(mode), now);
        let steps = self.transcript.steps_sentence().filter(|_| !actions.is_empty());
        if let Some(steps) = steps.filter(|_| mode != ApprovalMode::Never) {
            self.show_flash(steps, now);
        }
        actions
    }

    fn show_status(&mut self) {
        let lines = self.status_lines(None);
        self.overlay = Some(Overlay::Text { title: STATUS, lines, first: 0 });
    }

    fn status_lines(&self, model_status: Option<&str>) -> Vec<(String, String)> {
        let branch = self.branch.name.as_deref();
        let lines = status_lines(self.session(), &self.transcript, self.meter.report(), branch, model_status);
        let shown = |(label, value): (&str, String)| match label {
            "state" if self.is_offline() => (label.to_owned(), OFFLINE.to_owned()),
            _ => (label.to_owned(), value),
        };
        lines.into_iter().map(shown).collect()
    }

    /// Adds how the model gets its tools to the status, if the status is still open.
    pub fn set_model_status(&mut self, status: Option<&str>) {
        let complete = self.status_lines(status);
        if let Some(Overlay::Text { title: STATUS, lines, .. }) = &mut self.overlay {
            *lines = complete;
        }
    }

    fn permissions(&mut self, command: PermissionsCommand, now: Duration) -> Vec<Action> {
        if command == PermissionsCommand::List {
            self.pick_grant(now);
            return Vec::new();
        }
        match session_text::permissions(&self.transcript, command) {
            Ok(PermissionsAnswer::Revoke(grants)) => self.configure(ConfigChange::Revoke(grants), now),
            Ok(PermissionsAnswer::Lines(lines)) => self.remark(lines.join("; "), now),
            Err(why) => self.remark(why, now),
        }
    }

    fn sessions(&mut self, words: Option<&str>) -> Vec<Action> {
        let actions = self.fetch_list(ListKind::Sessions);
        if let (Some(words), Some(Overlay::Picker { picker, .. })) = (words, &mut self.overlay) {
            picker.type_text(words);
        }
        actions
    }

    fn fork(&mut self, turn: Option<u32>, now: Duration) -> Vec<Action> {
        let Some(turn) = turn else {
            self.pick_message(now);
            return Vec::new();
        };
        let prompt = self.transcript.item(&ItemId::Prompt(TurnId(turn))).map(|item| item.body.clone());
        match prompt {
            Some(ItemBody::Prompt(prompt)) => self.fork_before(TurnId(turn), &prompt.text),
            _ => self.remark(format!("no message of turn {turn} to fork from"), now),
        }
    }

    /// Runs the first proposed step, subject to the current approval mode.
    fn run_proposed_step(&mut self, now: Duration) -> Vec<Action> {
        if let Some(why) = self.transcript.step_refusal() {
            return self.remark(why, now);
        }
        let next = self.transcript.proposed_steps().first().map(|step| step.call.clone());
        let Some(call) = next else { return Vec::new() };
        self.direct(&call.name, &call.arguments.to_value(), Origin::Plan, now)
    }

    fn remark(&mut self, text: impl Into<String>, now: Duration) -> Vec<Action> {
        self.show_flash(text, now);
        Vec::new()
    }

    fn direct(
        &mut self,
        tool: &str,
        arguments: &serde_json::Value,
        origin: Origin,
        now: Duration,
    ) -> Vec<Action> {
        if let Some(why) = self.call_refusal() {
            return self.remark(why, now);
        }
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let input = Input::Direct { tool: tool.to_owned(), arguments, origin, by: None };
        self.send_expecting(input, PendingAck::Call, now)
    }

    pub(super) fn configure(&mut self, change: ConfigChange, now: Duration) -> Vec<Action> {
        self.send_expecting(Input::Configure { change }, PendingAck::Event, now)
    }

    fn model_named(&mut self, name: &str, now: Duration) -> Vec<Action> {
        let Some(current) = self.transcript.session_info().map(|facts| facts.model.clone()) else {
            return Vec::new();
        };
        match typed_model(name, current) {
            Ok(model) => {
                let mut actions = self.configure(ConfigChange::Model(model.clone()), now);
                if !actions.is_empty() {
                    actions.push(Action::CheckModel(model));
                }
                actions
            }
            Err(why) => self.remark(why, now),
        }
    }

    fn routine(&mut self, name: &str, values: &[(String, String)], now: Duration) -> Vec<Action> {
        let Some(routine) = self.catalog.routines.iter().find(|routine| routine.name == name) else {
            if !self.connected {
                return self.remark(super::overlay::NOT_CONNECTED, now);
            }
            return self.remark(format!("unknown routine {name}; see /routines"), now);
        };
        match (routine.render)(self.session_host(), values) {
            Ok(command) => self.run_routine(&command, now),
            Err(error) => self.remark(error, now),
        }
    }

    /// Returns the host of the session, or an empty string if it is not known yet.
    pub(super) fn session_host(&self) -> &str {
        self.transcript.session_info().map_or("", |facts| &facts.host)
    }

    pub(super) fn run_routine(&mut self, command: &str, now: Duration) -> Vec<Action> {
        self.direct("bash", &json!({ "command": command }), Origin::Routine, now)
    }

    fn retry(&mut self, now: Duration) -> Vec<Action> {
        let prompted = self.transcript.items().any(|item| matches!(item.body, ItemBody::Prompt(_)));
        if !prompted {
            return self.remark("no prompt to retry", now);
        }
        self.send_expecting(Input::Retry, PendingAck::Turn, now)
    }
}
