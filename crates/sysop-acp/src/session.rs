//! One open session, as a task that owns everything about the session.
//!
//! Prompts are answered when their turns end. A prompt that arrives during a turn is queued by the session
//! itself, so several prompts may be unanswered. A prompt is matched to the turn that starts with its text.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sysop_core::event::{ConfigChange, Decision, Delta, Event, Input, Logged, Origin, StopReason, Update};
use sysop_core::id::{CallId, Seq, TurnId};
use sysop_core::image::ImageRef;
use sysop_core::message::FinishReason;
use sysop_core::question::{Question, QuestionId};
use sysop_core::text::neutralize_line;
use sysop_core::transcript::{ItemBody, ItemId, SessionPhase};
use sysop_core::ui_text;
use sysop_driver::prompter::PromptReply;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::OpenedSession;
use crate::client::{Answer, Client, RpcError, code};
use crate::commands::{self, PromptAction};
use crate::elicitation;
use crate::options::SessionOptions;
use crate::permission::{self, PermissionAnswer};
use crate::prompt::PromptImage;
use crate::updates::UpdateEncoder;

/// Maximum number of unanswered prompts per session.
const PROMPTS_MAX: usize = 16;
/// Minimum time between two messages with a running command's output.
const OUTPUT_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum time for a closed session's turn to end and to kill its commands.
const CLOSE_WAIT: Duration = Duration::from_secs(10);
/// Name under which this front end answers approvals.
pub const BY: &str = "editor";

/// Treatment of the existing log when a session is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replay {
    /// Send the whole log to the editor.
    Send,
    /// Skip the log, because the editor already knows it.
    Skip,
}

pub(crate) enum SessionCommand {
    Prompt {
        id: Value,
        action: PromptAction,
    },
    Cancel,
    /// Ends the task without stopping the turn.
    Detach,
}

/// Handle to the task. Dropping the handle closes the session.
pub(crate) struct SessionLink {
    pub(crate) opened: OpenedSession,
    pub(crate) options: Arc<Mutex<SessionOptions>>,
    commands: mpsc::UnboundedSender<SessionCommand>,
    /// Position of the last event that the task has processed.
    seen: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl SessionLink {
    /// Starts the task. `note` is shown with the first prompt. The receiver fires once the log is replayed.
    pub(crate) fn start(
        client: Client,
        opened: OpenedSession,
        options: Arc<Mutex<SessionOptions>>,
        replay: Replay,
        note: Option<String>,
    ) -> (Self, oneshot::Receiver<()>) {
        let (commands, received) = mpsc::unbounded_channel();
        let (ready, is_ready) = oneshot::channel();
        let (answers, answered) = mpsc::unbounded_channel();
        let seen = Arc::new(AtomicU64::new(0));
        let task = SessionTask {
            id: opened.attached.session.id().as_str().to_owned(),
            client,
            opened: opened.clone(),
            options: Arc::clone(&options),
            encoder: UpdateEncoder::default(),
            replay,
            ready: Some(ready),
            note,
            prompts: Vec::new(),
            turn: None,
            finish: FinishReason::default(),
            permission: None,
            questions: Vec::new(),
            answers,
            output_due: None,
            closing: None,
            seen: Arc::clone(&seen),
        };
        let task = tokio::spawn(task.run(received, answered));
        (Self { opened, options, commands, seen, task }, is_ready)
    }

    /// Passes a command to the task, which may have ended with the session.
    pub(crate) fn send(&self, command: SessionCommand) {
        let _ = self.commands.send(command);
    }

    pub(crate) fn last_seen(&self) -> Seq {
        Seq(self.seen.load(Ordering::Relaxed))
    }

    /// Closes the session. The returned handle completes once the session's turn has ended.
    pub(crate) fn close(self) -> JoinHandle<()> {
        self.task
    }
}

/// A prompt from the editor that has not been answered yet.
struct OpenPrompt {
    id: Value,
    text: String,
    /// The turn, once it has started.
    turn: Option<TurnId>,
    /// True if the user typed a command, whose failure is not an error of the turn.
    is_command: bool,
    is_cancelled: bool,
}

/// A request to the editor about a call waiting for approval.
struct OpenPermission {
    call: CallId,
    /// Id of the JSON-RPC request.
    request: u64,
    /// True if the request offers to edit the command.
    can_edit: bool,
}

/// The editor's response to a request from the session.
enum EditorAnswer {
    Permission(CallId, Answer),
    /// Response to a form for editing the command of a call.
    Command(CallId, Answer),
    Question(QuestionId, Answer),
}

struct SessionTask {
    id: String,
    client: Client,
    opened: OpenedSession,
    options: Arc<Mutex<SessionOptions>>,
    encoder: UpdateEncoder,
    replay: Replay,
    ready: Option<oneshot::Sender<()>>,
    note: Option<String>,
    prompts: Vec<OpenPrompt>,
    /// Id of the newest turn; `None` before the first one.
    turn: Option<TurnId>,
    /// Finish reason of the newest reply.
    finish: FinishReason,
    /// Unanswered request to the editor about a call, if any.
    permission: Option<OpenPermission>,
    /// Questions sent to the editor, with the ids of the requests.
    questions: Vec<(QuestionId, u64)>,
    answers: mpsc::UnboundedSender<EditorAnswer>,
    /// Time at which to send output that has not been sent yet.
    output_due: Option<Instant>,
    /// Deadline for the task to end; set once the session has been closed.
    closing: Option<Instant>,
    seen: Arc<AtomicU64>,
}

impl SessionTask {
    async fn run(
        mut self,
        mut commands: mpsc::UnboundedReceiver<SessionCommand>,
        mut answered: mpsc::UnboundedReceiver<EditorAnswer>,
    ) {
        let mut updates = self.opened.attached.session.subscribe(Seq(0));
        self.become_ready().await;
        loop {
            if self.closing.is_some() && self.is_idle() {
                return self.answer_all("the session was closed").await;
            }
            let due = self.output_due.or(self.closing);
            tokio::select! {
                update = updates.next() => match update {
                    Some(update) => self.handle_update(&update).await,
                    None => {
                        let why = self.opened.attached.session.last_error();
                        return self.answer_all(why.as_deref().unwrap_or("the session was closed")).await;
                    }
                },
                command = commands.recv(), if self.closing.is_none() => match command {
                    Some(SessionCommand::Detach) => {
                        return self.answer_all("the session was opened again").await;
                    }
                    Some(command) => self.handle_command(command).await,
                    None => self.begin_closing(),
                },
                Some(answer) = answered.recv() => self.handle_answer(answer).await,
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    if self.output_due.take().is_some() {
                        let output = self.encoder.take_output();
                        self.send_all(output).await;
                    } else {
                        return self.answer_all("the session was closed").await;
                    }
                }
            }
        }
    }

    fn is_idle(&self) -> bool {
        *self.encoder.transcript().phase() == SessionPhase::Idle
    }

    fn send(&self, input: Input) -> Result<(), RpcError> {
        let sent = self.opened.attached.session.send(input);
        sent.map_err(|error| RpcError::new(code::INTERNAL_ERROR, error))
    }

    async fn send_all(&self, updates: impl IntoIterator<Item = Value>) {
        for update in updates {
            self.client.update(&self.id, update).await;
        }
    }

    fn begin_closing(&mut self) {
        self.closing = Some(Instant::now() + CLOSE_WAIT);
        if !self.is_idle() {
            // Fails if the session is gone.
            let _ = self.send(Input::Cancel);
        }
    }

    /// Signals that the log has been replayed, if that is the case.
    async fn become_ready(&mut self) {
        if self.last_seen() < self.opened.attached.last {
            return;
        }
        if let Some(ready) = self.ready.take() {
            // The receiver is gone if the editor went away.
            let _ = ready.send(());
            if let Some(call) = self.encoder.transcript().waiting().map(|plan| plan.call.id.clone()) {
                self.ask_permission(&call, true).await;
            }
        }
    }

    fn last_seen(&self) -> Seq {
        Seq(self.seen.load(Ordering::Relaxed))
    }

    async fn handle_update(&mut self, update: &Update) {
        let is_replay = self.ready.is_some();
        let messages = self.encoder.apply(update, is_replay);
        if !is_replay || self.replay == Replay::Send {
            self.send_all(messages).await;
        }
        match update {
            Update::Delta(Delta::Question { question }) => self.ask_question(question).await,
            Update::Delta(Delta::QuestionClosed { id, .. }) => self.withdraw_question(*id).await,
            Update::Delta(_) => {}
            Update::Logged(logged) => self.handle_event(logged, is_replay).await,
        }
        if self.encoder.has_unsent_output() && self.output_due.is_none() {
            self.output_due = Some(Instant::now() + OUTPUT_INTERVAL);
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the editor needs no answer to any other event")]
    async fn handle_event(&mut self, logged: &Logged, is_replay: bool) {
        self.seen.store(logged.seq.0, Ordering::Relaxed);
        match &logged.event {
            Event::TurnStarted { turn, prompt, .. } => {
                self.turn = Some(*turn);
                self.finish = FinishReason::default();
                let waiting =
                    self.prompts.iter_mut().find(|open| open.turn.is_none() && open.text == *prompt);
                if let Some(waiting) = waiting {
                    waiting.turn = Some(*turn);
                }
            }
            Event::Replied { reply, .. } => self.finish = reply.finish,
            Event::ApprovalAsked { call, .. } if !is_replay => self.ask_permission(&call.id, true).await,
            Event::Decided { call, .. } => self.withdraw_permission(call).await,
            Event::Paused { .. } => {
                // A later prompt continues the turn.
                if let Some(turn) = self.turn {
                    self.answer_turn(turn, Ok(json!({ "stopReason": "end_turn" }))).await;
                }
            }
            Event::TurnEnded { turn, reason, .. } => self.end_turn(*turn, *reason).await,
            Event::Configured { change, .. } => self.configured(change, is_replay).await,
            Event::InstructionsLoaded { .. } if !is_replay => self.send_commands().await,
            _ => {}
        }
        self.become_ready().await;
    }

    async fn configured(&mut self, change: &ConfigChange, is_replay: bool) {
        let options = {
            let mut options = self.options.lock();
            match change {
                ConfigChange::Approve(mode) => options.mode = *mode,
                ConfigChange::Auto(_) => options.mode = sysop_core::policy::ApprovalMode::Auto,
                ConfigChange::Model(model) => {
                    if !options.models.contains(model) {
                        options.models.insert(0, model.clone());
                    }
                    options.model = model.clone();
                }
                ConfigChange::Mode(_)
                | ConfigChange::Effort(_)
                | ConfigChange::Budget(_)
                | ConfigChange::Revoke(_)
                | ConfigChange::Rules { .. }
                | ConfigChange::ClientTools(_) => return,
            }
            options.config_options()
        };
        if !is_replay {
            let update = json!({ "sessionUpdate": "config_option_update", "configOptions": options });
            self.client.update(&self.id, update).await;
        }
    }

    /// Sends the list of commands with which a prompt may begin.
    async fn send_commands(&self) {
        let skills = self.opened.service.skills(self.opened.attached.session.id()).await;
        self.client.update(&self.id, commands::available(&skills)).await;
    }

    /// Forwards a question from a program or server to the editor, if the editor can show forms.
    async fn ask_question(&mut self, question: &Question) {
        if !self.client.shows_forms() || !elicitation::can_ask(question) {
            return self.refuse(question).await;
        }
        let id = question.id;
        let params = elicitation::question(&self.id, question);
        let request = self
            .ask_editor("elicitation/create", params, move |answer| EditorAnswer::Question(id, answer))
            .await;
        self.questions.push((id, request));
    }

    async fn withdraw_question(&mut self, question: QuestionId) {
        if let Some(at) = self.questions.iter().position(|(asked, _)| *asked == question) {
            let (_, request) = self.questions.swap_remove(at);
            self.client.cancel_request(request).await;
        }
    }

    /// Declines a program's question: the protocol has no hidden input, and not every editor supports forms.
    async fn refuse(&mut self, question: &Question) {
        if !self.opened.attached.session.answer(question.id, PromptReply::Refused) {
            return;
        }
        let (from, prompt) = (neutralize_line(&question.from), neutralize_line(question.prompt.trim()));
        let text =
            format!("{from} asks `{prompt}`. An editor cannot answer this; use `sysop chat` for this task.");
        let message = self.encoder.message(&text);
        self.client.update(&self.id, message).await;
    }

    /// Sends a request to the editor. The response is passed to `handle_answer`.
    async fn ask_editor(
        &self,
        method: &str,
        params: Value,
        as_answer: impl FnOnce(Answer) -> EditorAnswer + Send + 'static,
    ) -> u64 {
        let (id, answer) = self.client.request(method, params).await;
        let answers = self.answers.clone();
        tokio::spawn(async move {
            // A withdrawn request has no response.
            if let Ok(answer) = answer.await {
                // The receiver is gone if the session has been closed.
                let _ = answers.send(as_answer(answer));
            }
        });
        id
    }

    /// Asks for permission to run a call. `can_edit` also offers editing, if the editor can show forms.
    async fn ask_permission(&mut self, call: &CallId, can_edit: bool) {
        let Some(plan) = self.encoder.transcript().plan(call) else { return };
        let can_edit = can_edit && self.client.shows_forms() && elicitation::edit(&self.id, plan).is_some();
        let params = permission::request(&self.id, plan, &self.encoder.place(), can_edit);
        let asked = call.clone();
        let as_answer = move |answer| EditorAnswer::Permission(asked, answer);
        let request = self.ask_editor("session/request_permission", params, as_answer).await;
        self.permission = Some(OpenPermission { call: call.clone(), request, can_edit });
    }

    /// Asks for the command to run instead of the proposed one.
    async fn ask_command(&mut self, call: &CallId) {
        let plan = self.encoder.transcript().plan(call);
        let Some(params) = plan.and_then(|plan| elicitation::edit(&self.id, plan)) else { return };
        let asked = call.clone();
        let as_answer = move |answer| EditorAnswer::Command(asked, answer);
        let request = self.ask_editor("elicitation/create", params, as_answer).await;
        self.permission = Some(OpenPermission { call: call.clone(), request, can_edit: false });
    }

    /// Withdraws the request about a call that has been decided elsewhere.
    async fn withdraw_permission(&mut self, call: &CallId) {
        if let Some(open) = self.permission.take_if(|open| open.call == *call) {
            self.client.cancel_request(open.request).await;
        }
    }

    async fn handle_answer(&mut self, answer: EditorAnswer) {
        match answer {
            EditorAnswer::Permission(call, answer) => self.handle_permission(&call, &answer).await,
            EditorAnswer::Command(call, answer) => self.handle_edited_command(&call, &answer).await,
            EditorAnswer::Question(question, answer) => {
                self.questions.retain(|(asked, _)| *asked != question);
                let reply = match elicitation::text(&answer, elicitation::ANSWER) {
                    Some(text) => PromptReply::Given { by: BY.to_owned(), text: text.into() },
                    None => PromptReply::Refused,
                };
                self.opened.attached.session.answer(question, reply);
            }
        }
    }

    async fn handle_permission(&mut self, call: &CallId, answer: &Answer) {
        let Some(open) = self.permission.take_if(|open| open.call == *call) else { return };
        let plan = self.encoder.transcript().plan(call);
        let input = match permission::answer(answer, plan, open.can_edit) {
            PermissionAnswer::Edit => return self.ask_command(call).await,
            PermissionAnswer::Cancelled => Input::Cancel,
            PermissionAnswer::Decided(decision) => decision_input(call, decision),
        };
        // Fails if the session is gone; then its updates end, too.
        let _ = self.send(input);
    }

    /// Runs an edited command. If the form was not accepted, asks for permission again, but without the
    /// option to edit: otherwise, a client that responds automatically would be asked forever.
    async fn handle_edited_command(&mut self, call: &CallId, answer: &Answer) {
        if self.permission.take_if(|open| open.call == *call).is_none() {
            return;
        }
        let command = elicitation::text(answer, elicitation::COMMAND);
        let Some(command) = command.filter(|command| !command.trim().is_empty()) else {
            return self.ask_permission(call, false).await;
        };
        let proposed = self.encoder.transcript().plan(call).map(|plan| plan.command.clone());
        let command = (proposed.as_ref() != Some(&command)).then_some(command);
        // Fails if the session is gone; then its updates end, too.
        let _ = self.send(decision_input(call, Decision::Allow { command }));
    }

    async fn handle_command(&mut self, command: SessionCommand) {
        match command {
            SessionCommand::Prompt { id, action } => {
                if let Some(note) = self.note.take() {
                    let message = self.encoder.message(&note);
                    self.client.update(&self.id, message).await;
                }
                if let Err(error) = self.prompt(&id, action).await {
                    self.client.respond(id, Err(error)).await;
                }
            }
            SessionCommand::Cancel => {
                self.prompts.iter_mut().for_each(|prompt| prompt.is_cancelled = true);
                // Fails if the session is gone; then its updates end, too.
                let _ = self.send(Input::Cancel);
            }
            SessionCommand::Detach => {}
        }
    }

    async fn prompt(&mut self, id: &Value, action: PromptAction) -> Result<(), RpcError> {
        if self.prompts.len() >= PROMPTS_MAX {
            return Err(RpcError::new(code::INVALID_REQUEST, "too many prompts are queued in this session"));
        }
        let mut open = OpenPrompt {
            id: id.clone(),
            text: String::new(),
            turn: None,
            is_command: false,
            is_cancelled: false,
        };
        let input = match action {
            PromptAction::Ask(text, images) => {
                open.text.clone_from(&text);
                Input::Prompt { text, images: self.store_images(images).await?, by: None }
            }
            PromptAction::Run(command) => {
                self.typed_call(&mut open, "bash", json!({ "command": command }))?
            }
            PromptAction::Undo(step) => {
                let arguments = step.map_or_else(|| json!({}), |step| json!({ "step": step }));
                self.typed_call(&mut open, "undo", arguments)?
            }
            PromptAction::Continue => {
                if !matches!(self.encoder.transcript().phase(), SessionPhase::Paused { .. }) {
                    return Err(RpcError::invalid("nothing is paused"));
                }
                open.turn = self.turn;
                Input::Resume
            }
            PromptAction::Compact(focus) => {
                self.send(Input::Compact { focus })?;
                self.client.respond(id.clone(), Ok(json!({ "stopReason": "end_turn" }))).await;
                return Ok(());
            }
            PromptAction::Trust => {
                let session = self.opened.attached.session.as_ref();
                let text = self.opened.service.trust_workspace(session).await.unwrap_or_else(|error| error);
                let message = self.encoder.message(&text);
                self.client.update(&self.id, message).await;
                self.client.respond(id.clone(), Ok(json!({ "stopReason": "end_turn" }))).await;
                return Ok(());
            }
        };
        self.send(input)?;
        self.prompts.push(open);
        Ok(())
    }

    /// Returns the input for a call typed by the user, and marks the prompt as a command. Fails if another prompt is
    /// unanswered.
    fn typed_call(&self, open: &mut OpenPrompt, tool: &str, arguments: Value) -> Result<Input, RpcError> {
        if !self.prompts.is_empty() {
            let why = "a turn is running; wait for it or cancel it";
            return Err(RpcError::new(code::INVALID_REQUEST, why));
        }
        open.is_command = true;
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        Ok(Input::Direct { tool: tool.to_owned(), arguments, origin: Origin::User, by: None })
    }

    async fn store_images(&self, images: Vec<PromptImage>) -> Result<Vec<ImageRef>, RpcError> {
        let mut stored = Vec::new();
        for PromptImage { bytes, name } in images {
            let session = self.opened.attached.session.id();
            let image = self.opened.service.store_image(session, bytes, &name).await;
            stored.push(image.map_err(|error| RpcError::invalid(neutralize_line(&error)))?);
        }
        Ok(stored)
    }

    async fn end_turn(&mut self, turn: TurnId, reason: StopReason) {
        let is_command = self.prompts.iter().any(|open| open.turn == Some(turn) && open.is_command);
        let result = match reason {
            StopReason::EndTurn => match self.finish {
                FinishReason::Stop => Ok("end_turn"),
                FinishReason::Length => Ok("max_tokens"),
                FinishReason::Refused => Ok("refusal"),
            },
            StopReason::MaxIterations => Ok("max_turn_requests"),
            StopReason::Cancelled => Ok("cancelled"),
            StopReason::Paused => Ok("end_turn"),
            StopReason::Failed if is_command => Ok("end_turn"),
            StopReason::Failed => {
                let end = self.encoder.transcript().item(&ItemId::End(turn));
                let text = end.and_then(|item| match &item.body {
                    ItemBody::End(end) => ui_text::turn_end_summary(end),
                    ItemBody::Prompt(_)
                    | ItemBody::Reasoning(_)
                    | ItemBody::Answer(_)
                    | ItemBody::Proposal(_)
                    | ItemBody::ToolOutput(_)
                    | ItemBody::Notice(_) => None,
                });
                let text = text.unwrap_or_else(|| "the turn failed".to_owned());
                Err(RpcError::new(code::INTERNAL_ERROR, text.replace('\n', " ")))
            }
        };
        self.answer_turn(turn, result.map(|reason| json!({ "stopReason": reason }))).await;
        // A cancellation also drops the prompts queued behind the turn.
        let dropped: Vec<_> =
            self.prompts.extract_if(.., |open| open.is_cancelled && open.turn.is_none()).collect();
        for open in dropped {
            self.client.respond(open.id, Ok(json!({ "stopReason": "cancelled" }))).await;
        }
    }

    async fn answer_turn(&mut self, turn: TurnId, result: Result<Value, RpcError>) {
        if let Some(at) = self.prompts.iter().position(|open| open.turn == Some(turn)) {
            let open = self.prompts.remove(at);
            self.client.respond(open.id, result).await;
        }
    }

    /// Answers all prompts when the session ends.
    async fn answer_all(mut self, why: &str) {
        for open in std::mem::take(&mut self.prompts) {
            let result = match open.is_cancelled || self.closing.is_some() {
                true => Ok(json!({ "stopReason": "cancelled" })),
                false => Err(RpcError::new(code::INTERNAL_ERROR, why)),
            };
            self.client.respond(open.id, result).await;
        }
    }
}

fn decision_input(call: &CallId, decision: Decision) -> Input {
    Input::Decision { call: call.clone(), decision, by: BY.to_owned(), person: None }
}
