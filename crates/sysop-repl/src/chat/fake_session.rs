//! Session for testing the front ends; words in the prompt select its behavior.

mod calls;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use calls::UNSENT;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use secrecy::ExposeSecret as _;
use serde_json::json;
use sysop_core::event::{
    Decision, Delta, Event, Input, Logged, Origin, PauseReason, StopReason, TypedInput, Update,
};
use sysop_core::guard::GuardTimeout;
use sysop_core::id::{CallId, Seq, SessionId, StepId, Timestamp, TurnId};
use sysop_core::message::{Arguments, FailureKind, ModelFailure, ModelRef, Reply, ToolCall, Usage};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::{ApprovalMode, CommandContext, Finding, Grant, Policy, Risk, RiskClass, Survey};
use sysop_core::question::{Question, QuestionId, QuestionKind};
use sysop_core::session::REJECTED_BY_USER;
use sysop_core::spec::SessionSpec;
use sysop_core::tool::{ToolEffect, ToolSpec};
use sysop_driver::frontend::{AttachedSession, ServerConnection, SessionHandle};
use sysop_driver::prompter::{PromptReply, Terminal, TerminalOutput, TerminalSize, TerminalView};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// Question that ssh asks about an unknown host.
const HOST_KEY: &str = "The authenticity of host 'web1 (10.0.0.1)' can't be established.\n\
    ED25519 key fingerprint is SHA256:8sX8cJmQ1bC9x0mV3mGk0m9wq1eJ2z8QkqYh1dQ3abc.\n\
    \u{1b}[2JAre you sure you want to continue connecting (yes/no/[fingerprint])? ";

pub(crate) struct FakeSession {
    id: SessionId,
    host: String,
    state: Mutex<State>,
    terminal: Option<Arc<FakeTerminal>>,
}

/// Terminal that answers in uppercase; `exit` closes it.
pub(crate) struct FakeTerminal {
    session: Weak<FakeSession>,
    asks_first: bool,
    watchers: Mutex<Vec<UnboundedSender<TerminalOutput>>>,
    line: Mutex<String>,
    opened: Notify,
}

impl FakeTerminal {
    fn shows(&self, text: &str) {
        let bytes = TerminalOutput::Bytes(text.to_owned().into());
        self.watchers.lock().retain(|watcher| watcher.send(bytes.clone()).is_ok());
    }
}

#[async_trait]
impl Terminal for FakeTerminal {
    async fn watch(&self) -> Result<TerminalView, String> {
        if self.asks_first {
            let session = self.session.upgrade().expect("the session is there");
            let open =
                session.state.lock().ask_program("ssh web1", "Passphrase for key: ", QuestionKind::Secret);
            self.opened.notified().await;
            if session.state.lock().refused.contains(&open) {
                return Err("web1 denied access; enter a passphrase".to_owned());
            }
        }
        let (send, output) = unbounded_channel();
        self.watchers.lock().push(send);
        let live = futures::stream::unfold(output, |mut output| async {
            output.recv().await.map(|it| (it, output))
        });
        let size = TerminalSize { columns: 80, rows: 24 };
        Ok(TerminalView { size, picture: "a remote shell\r\n$ ".into(), live: live.boxed() })
    }

    fn input(&self, by: &str, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let mut line = self.line.lock();
        for c in text.chars() {
            match c {
                '\r' if *line == "exit" => {
                    let ended = TerminalOutput::Ended("the shell ended with 0".to_owned());
                    self.watchers.lock().retain(|watcher| watcher.send(ended.clone()).is_ok());
                }
                '\r' if *line == "ask" => {
                    let session = self.session.upgrade().expect("the session is there");
                    session.state.lock().ask_program("sudo on web1", "Password: ", QuestionKind::Secret);
                }
                '\r' => self.shows(&format!("\r\n{by} said {}\r\n$ ", line.to_uppercase())),
                c => self.shows(&c.to_string()),
            }
            if c == '\r' { line.clear() } else { line.push(c) }
        }
    }

    fn release(&self, by: &str) {
        let session = self.session.upgrade().expect("the session is there");
        let typed = TypedInput::Keys { text: "something".into() };
        session.state.lock().publish(Event::TerminalInput { by: by.into(), typed });
    }

    fn resize(&self, size: TerminalSize) {
        self.watchers.lock().retain(|it| it.send(TerminalOutput::Resized(size)).is_ok());
        self.shows(&format!("[{}x{}]", size.columns, size.rows));
    }
}

/// A typed command that is not sent.
const REFUSED: &str = "w";
const TAKEN: &str = "session s-1 was changed by another process; reopen it";

#[derive(Default)]
struct State {
    log: Vec<Arc<Logged>>,
    listeners: Vec<UnboundedSender<Update>>,
    inputs: Vec<Input>,
    turn: u32,
    step: u32,
    calls: u32,
    open: Option<ToolCall>,
    running: Option<ToolCall>,
    paused: Option<PauseReason>,
    stubborn: bool,
    /// True while a turn runs.
    busy: bool,
    /// True once another process has changed the session.
    is_taken: bool,
    /// Input that another process has handled. The next prompt or call finds its events.
    input_elsewhere: Option<Input>,
    /// Positions of the events by another process.
    reloaded: Range<Seq>,
    /// Prompts queued behind the current turn.
    waiting: VecDeque<String>,
    /// Name of the user whose call runs next; `None` for the local user.
    user: Option<String>,
    questions: Vec<Question>,
    asked: u64,
    refused: Vec<QuestionId>,
    /// Answers given to programs, in order.
    answers: Vec<String>,
    connection: ServerConnection,
    /// True once a call has been asked about again.
    has_asked_again: bool,
}

impl FakeSession {
    /// Creates a session that contains only its first event.
    pub(crate) fn new() -> Arc<Self> {
        Self::on("web1")
    }

    pub(crate) fn on(host: &str) -> Arc<Self> {
        let id = SessionId::new("s-1");
        let fake = Self { id, host: host.to_owned(), state: Mutex::default(), terminal: None };
        fake.state.lock().publish(Event::SessionOpened { spec: spec(host).into(), opened_by: None });
        Arc::new(fake)
    }

    /// Creates a session with a terminal, which may need a passphrase to open.
    pub(crate) fn with_terminal(asks_first: bool) -> Arc<Self> {
        Arc::new_cyclic(|session| {
            let terminal = FakeTerminal {
                session: session.clone(),
                asks_first,
                watchers: Mutex::default(),
                line: Mutex::default(),
                opened: Notify::new(),
            };
            let fake = Self {
                id: SessionId::new("s-1"),
                host: "web1".to_owned(),
                state: Mutex::default(),
                terminal: Some(Arc::new(terminal)),
            };
            fake.state.lock().publish(Event::SessionOpened { spec: spec("web1").into(), opened_by: None });
            fake
        })
    }

    /// Returns the answers given to programs, in order.
    pub(crate) fn answers(&self) -> Vec<String> {
        self.state.lock().answers.clone()
    }

    pub(crate) fn opened(self: &Arc<Self>) -> AttachedSession {
        let last = self.state.lock().seq();
        AttachedSession { session: self.clone(), last, spec: Arc::new(spec(&self.host)) }
    }

    /// Returns the inputs received from front ends.
    pub(crate) fn inputs(&self) -> Vec<Input> {
        self.state.lock().inputs.clone()
    }

    pub(crate) fn close(&self) {
        self.state.lock().listeners.clear();
    }

    /// Answers a program's question as if from another front end. Without a question, previews the open proposal, ends
    /// the turn, or starts one.
    pub(crate) fn answer_as_other(&self) {
        let mut state = self.state.lock();
        if let Some(call) = state.open.clone() {
            let preview = vec!["removes 3 files".to_owned()];
            return state.publish(Event::ApprovalPreviewed {
                call: call.id,
                command: None,
                risk: None,
                preview,
            });
        }
        if state.questions.is_empty() && state.busy {
            return state.end(StopReason::EndTurn, None);
        }
        if state.questions.is_empty() {
            return state.direct_by("carol", "sleep 9");
        }
        state.answered_elsewhere();
    }

    /// Continues the session as another process would. The session is reloaded at the next prompt or call.
    pub(crate) fn continue_elsewhere(&self, input: Input) {
        self.state.lock().input_elsewhere = Some(input);
    }

    /// Sends an input as if from another front end.
    pub(crate) fn send_as_other(&self, input: Input) {
        self.state.lock().input(input);
    }
}

impl SessionHandle for FakeSession {
    fn id(&self) -> &SessionId {
        &self.id
    }

    fn send(&self, input: Input) -> Result<(), String> {
        let mut state = self.state.lock();
        if state.is_taken {
            return Err(TAKEN.to_owned());
        }
        if matches!(&input, Input::Direct { arguments, .. } if arguments.get("command") == Some(&json!(REFUSED)))
        {
            return Err("not sent; the session is full".to_owned());
        }
        state.inputs.push(input.clone());
        match input == Input::prompt(UNSENT) {
            true => state.end_taken(),
            false => state.input(input),
        }
        Ok(())
    }

    fn subscribe(&self, after: Seq) -> BoxStream<'static, Update> {
        let mut state = self.state.lock();
        let (send, updates) = unbounded_channel();
        for logged in state.log.iter().filter(|logged| logged.seq > after) {
            send.send(Update::Logged(logged.clone())).expect("the receiver is here");
        }
        state.listeners.push(send);
        futures::stream::unfold(updates, |mut updates| async { updates.recv().await.map(|it| (it, updates)) })
            .boxed()
    }

    fn answer(&self, id: QuestionId, answer: PromptReply) -> bool {
        let answered = self.state.lock().answer(id, answer);
        if let Some(terminal) = &self.terminal {
            terminal.opened.notify_one();
        }
        answered
    }

    fn terminal(&self) -> Option<Arc<dyn Terminal>> {
        self.terminal.clone().map(|terminal| terminal as Arc<dyn Terminal>)
    }

    fn is_by_another_process(&self, event: Seq) -> bool {
        self.state.lock().reloaded.contains(&event)
    }

    fn last_error(&self) -> Option<String> {
        let why = if self.state.lock().is_taken { TAKEN } else { "the disk is full" };
        Some(why.to_owned())
    }

    fn connection(&self) -> ServerConnection {
        self.state.lock().connection()
    }
}

pub(super) fn spec(host: &str) -> SessionSpec {
    let tool = |name: &str, effect| ToolSpec {
        name: name.into(),
        description: "".into(),
        parameters: json!({}).into(),
        effect,
    };
    SessionSpec {
        model: ModelRef::new("demo", "one"),
        system: String::new(),
        tools: vec![tool("bash", ToolEffect::Command), tool("task_complete", ToolEffect::Completes)],
        approve: ApprovalMode::Ask,
        dangerous_patterns: Vec::new(),
        deny: Vec::new(),
        policy: Default::default(),
        max_iterations: 20,
        max_history_messages: 20,
        text_system: None,
        ledger_only: false,
        canary: None,
        models: Default::default(),
        budget: Default::default(),
        instructions: false,
        effort: None,
        max_output_tokens: None,
        temperature: None,
        host: host.into(),
        root: "/srv/app".into(),
        profile: "full".into(),
    }
}

impl State {
    fn seq(&self) -> Seq {
        Seq(self.log.len() as u64)
    }

    fn publish(&mut self, event: Event) {
        let at = Timestamp(1_000 * self.log.len() as i64);
        let logged = Arc::new(Logged { seq: self.seq().next(), at, event });
        self.log.push(logged.clone());
        self.tell(&Update::Logged(logged));
    }

    fn delta(&mut self, delta: Delta) {
        self.tell(&Update::Delta(delta));
    }

    fn tell(&mut self, update: &Update) {
        self.listeners.retain(|listener| listener.send(update.clone()).is_ok());
    }

    fn step(&self) -> StepId {
        StepId { turn: TurnId(self.turn), step: self.step }
    }

    fn reload(&mut self, by_other: Input) {
        self.delta(Delta::Notice { text: "the session was continued in another process".to_owned() });
        let first = self.seq().next();
        self.input(by_other);
        self.reloaded = first..self.seq().next();
    }

    fn input(&mut self, input: Input) {
        let begins_turn = matches!(input, Input::Prompt { .. } | Input::Direct { .. });
        if let Some(by_other) = self.input_elsewhere.take_if(|_| begins_turn) {
            self.reload(by_other);
        }
        match input {
            Input::Prompt { text, .. } if self.busy && self.paused.is_none() => {
                self.publish(Event::PromptQueued { text: text.clone(), images: Vec::new(), by: None });
                self.waiting.push_back(text);
            }
            Input::Prompt { text, .. } => self.prompt(&text),
            Input::Direct { tool, arguments, origin, .. } => self.direct(tool, arguments, origin),
            Input::Decision { call, decision, by, .. } => self.decision(&call, decision, by),
            Input::Cancel => self.cancel(),
            Input::Pause => self.pause(PauseReason::Asked),
            Input::Guard { .. } | Input::WithdrawPrompt { .. } => {}
            Input::TerminalInput { by, typed } => self.publish(Event::TerminalInput { by, typed }),
            Input::Resume => {
                self.paused = None;
                self.publish(Event::Resumed);
                self.say("Going on.");
                self.end(StopReason::EndTurn, None);
            }
            Input::Retry => self.prompt("hello again"),
            Input::Clear => self.publish(Event::HistoryCleared),
            Input::Configure { change } => self.publish(Event::configured(change)),
            Input::Compact { focus } => self.say(&format!("compacting {focus:?}")),
            Input::Background => {
                self.say("to the background");
                self.end(StopReason::EndTurn, None);
            }
            Input::PreviewCommand { call, command } => {
                let preview = vec![format!("effect of {command}")];
                let survey = Survey::elsewhere(CommandContext::bash());
                let risk = Some(Policy::new(&[], &[]).risk(&command, &survey));
                self.publish(Event::ApprovalPreviewed { call, command: Some(command), risk, preview });
            }
            Input::StopJob { job } => self.say(&format!("stopping job {job}")),
            Input::Reply { .. }
            | Input::Summarized { .. }
            | Input::InstructionsRead { .. }
            | Input::ReloadInstructions
            | Input::Surveyed { .. }
            | Input::HooksAnswered { .. }
            | Input::PromptHooksAnswered { .. }
            | Input::ApprovalTimer { .. }
            | Input::Previewed { .. }
            | Input::PreviewLate { .. }
            | Input::Outcome { .. }
            | Input::Timer { .. }
            | Input::BackgroundTimer { .. }
            | Input::JobRead { .. }
            | Input::TurnTimer { .. }
            | Input::Recovered => {
                panic!("a front end does not send {input:?}")
            }
        }
    }

    fn begin(&mut self, prompt: &str, origin: Origin) {
        if self.paused.take().is_some() {
            if !prompt.is_empty() {
                self.publish(Event::PromptQueued { text: prompt.into(), images: Vec::new(), by: None });
            }
            self.end(StopReason::Paused, None);
        }
        self.turn += 1;
        self.step = 0;
        self.busy = true;
        self.publish(Event::TurnStarted {
            turn: TurnId(self.turn),
            prompt: prompt.into(),
            origin,
            images: Vec::new(),
            by: self.user.clone().filter(|_| prompt.is_empty()),
        });
    }

    fn next_step(&mut self) {
        self.step += 1;
        self.publish(Event::StepStarted { step: self.step() });
    }

    fn prompt(&mut self, text: &str) {
        self.begin(text, Origin::Model);
        self.stubborn = text.contains("stubborn");
        self.next_step();
        match text.split_whitespace().next().unwrap_or_default() {
            "clean" => self.propose("I will **clean** up.", "rm -rf build && echo done"),
            "long" => self.propose("", &(0..200).map(|n| format!("echo {n}\n")).collect::<String>()),
            "slow" | "stubborn" => self.stream("Working on it, slowly"),
            "silent" => {}
            "taken" => {
                self.stream("Working on it");
                self.end_taken();
            }
            "again" => {
                self.stream("One th");
                self.reply("Another thing.", Vec::new());
                self.end(StopReason::EndTurn, None);
            }
            "auto" => self.automatic("Looking.", "seq 3", "1\n2\n3\n", 0),
            "many" => {
                let output: String = (1..=500).map(|n| format!("line {n}\n")).collect();
                self.automatic("", "seq 500", &output, 3);
            }
            "flood" => self.automatic("", "seq 999", &format!("[truncated]\n{}", "line\n".repeat(99)), 3),
            "fail" => {
                let message = "no response from http://x; is it running?".to_owned();
                let failure = ModelFailure { kind: FailureKind::Unreachable, message: message.clone() };
                self.publish(Event::ModelFailed { step: self.step(), failure });
                self.end(StopReason::Failed, Some(message));
            }
            "limit" => self.end(StopReason::MaxIterations, None),
            "loop" => self.pause(PauseReason::Loop),
            "complete" => {
                let call = self.call("task_complete", json!({ "summary": "All is *well*." }));
                self.reply("", vec![call.clone()]);
                self.publish(Event::ToolFinished { call: call.id, outcome: Outcome::ok("") });
                self.end(StopReason::EndTurn, None);
            }
            "evil" => {
                self.say("\u{1b}]0;owned\u{7}\u{1b}[2Jgone\r\u{202e}");
                self.end(StopReason::EndTurn, None);
            }
            word => self.prompt_about_hosts(word),
        }
    }

    fn prompt_about_hosts(&mut self, word: &str) {
        match word {
            "sudo" => self.runs_sudo(&[("[sudo] password for joe: ", QuestionKind::Secret)]),
            "twice" => self.runs_sudo(&[
                ("[sudo] password for joe: ", QuestionKind::Secret),
                ("One-time code:", QuestionKind::Text),
            ]),
            "thrice" => self.runs_sudo(&[
                ("[sudo] password for joe: ", QuestionKind::Secret),
                ("One-time code:", QuestionKind::Text),
                ("Again:", QuestionKind::Secret),
            ]),
            "perhaps" => self.runs_sudo(&[("Your name? ", QuestionKind::PerhapsSecret)]),
            "login" => {
                let call = self.call("read_file", json!({ "path": "/etc/motd" }));
                self.runs_asking(call, &[("Password: ", QuestionKind::Secret)]);
            }
            "hostkey" => self.runs_sudo(&[(HOST_KEY, QuestionKind::Text)]),
            "bob" | "bob-w" => {
                // This user's turn does not end before Bob's command: the next line would be read at any moment of it.
                self.say("Waiting for Bob.");
                self.direct_by("bob", if word == "bob" { "uptime" } else { REFUSED });
            }
            "shared" => {
                self.delta(Delta::Control { holder: Some("web".into()) });
                let typed = TypedInput::Keys { text: "ls -la Enter".into() };
                self.publish(Event::TerminalInput { by: "web".into(), typed });
                self.delta(Delta::Control { holder: None });
                self.say("Seen.");
                self.end(StopReason::EndTurn, None);
            }
            "unknown" => {
                self.ends_with("reboot", Outcome::new(Status::Unknown, "the connection to web1 broke"))
            }
            word => self.prompt_about_calls(word),
        }
    }

    /// Runs a command that asks these questions, and reports which answers were correct.
    fn runs_sudo(&mut self, questions: &[(&str, QuestionKind)]) {
        let call = self.call("bash", json!({ "command": "sudo id" }));
        self.runs_asking(call, questions);
    }

    /// Runs a call that asks these questions.
    fn runs_asking(&mut self, call: ToolCall, questions: &[(&str, QuestionKind)]) {
        self.reply("", vec![call.clone()]);
        self.publish(Event::ToolStarted { call: call.clone(), origin: Origin::Model });
        self.running = Some(call);
        for (prompt, kind) in questions {
            self.ask_program("sudo on web1", prompt, *kind);
        }
    }

    fn ask_program(&mut self, from: &str, prompt: &str, kind: QuestionKind) -> QuestionId {
        self.asked += 1;
        let call = self.running.as_ref().map(|call| call.id.clone());
        let id = QuestionId(self.asked);
        let question =
            Question { id, kind, from: from.into(), details: Vec::new(), prompt: prompt.into(), call };
        self.questions.push(question.clone());
        self.delta(Delta::Question { question });
        id
    }

    fn answer(&mut self, id: QuestionId, answer: PromptReply) -> bool {
        let Some(at) = self.questions.iter().position(|question| question.id == id) else { return false };
        let Question { prompt, kind, .. } = self.questions.remove(at);
        let (by, text) = match answer {
            PromptReply::Given { by, text } => (Some(by), text.expose_secret().to_owned()),
            PromptReply::NoSecret => (None, "[no secret]".to_owned()),
            PromptReply::Refused => {
                self.refused.push(id);
                (None, "[refused]".to_owned())
            }
        };
        if let Some(by) = &by {
            let typed = match kind {
                QuestionKind::Text => TypedInput::Answer { prompt, text: text.clone() },
                QuestionKind::Secret | QuestionKind::PerhapsSecret => TypedInput::Secret { prompt },
            };
            self.publish(Event::TerminalInput { by: by.clone(), typed });
        }
        self.delta(Delta::QuestionClosed { id, by });
        self.answers.push(text);
        if self.questions.is_empty()
            && let Some(call) = self.running.take()
        {
            // Answers are compared here, as a program would do, and never shown.
            let right =
                self.answers.iter().all(|answer| ["geheim", "yes", "123456"].contains(&answer.as_str()));
            let output = if right { "all right\n" } else { "not right\n" };
            self.finish(&call, output, i32::from(!right));
            self.end(StopReason::EndTurn, None);
        }
        true
    }

    fn answered_elsewhere(&mut self) {
        if let Some(question) = self.questions.first() {
            let answer = PromptReply::Given { by: "web".into(), text: "geheim".to_owned().into() };
            self.answer(question.id, answer);
        }
    }

    fn call(&mut self, name: &str, arguments: serde_json::Value) -> ToolCall {
        self.calls += 1;
        let serde_json::Value::Object(map) = arguments else { panic!("arguments are an object") };
        ToolCall {
            id: CallId::new(format!("c{}", self.calls)),
            wire_id: None,
            name: name.into(),
            arguments: Arguments::Object(map),
        }
    }

    fn stream(&mut self, text: &str) {
        let step = self.step();
        for piece in text.split_inclusive(' ') {
            self.delta(Delta::Text { step, text: piece.into() });
        }
    }

    fn reply(&mut self, text: &str, calls: Vec<ToolCall>) {
        let usage = Usage { input_tokens: 1200, output_tokens: 34, cached_tokens: 0 };
        let reply = Reply { text: text.into(), calls, usage, ..Reply::default() };
        self.publish(Event::Replied { step: self.step(), reply });
    }

    fn say(&mut self, text: &str) {
        self.stream(text);
        self.reply(text, Vec::new());
    }

    fn propose(&mut self, text: &str, command: &str) {
        let call = self.call("bash", json!({ "command": command }));
        self.stream(text);
        self.reply(text, vec![call.clone()]);
        self.ask(call);
    }

    fn ask(&mut self, call: ToolCall) {
        self.ask_with(call, Vec::new());
    }

    fn ask_with(&mut self, call: ToolCall, preview: Vec<String>) {
        let command = call.text_argument("command").unwrap_or_default().to_owned();
        let end = command.len().min(6);
        let is_guarded = command.contains("sshd");
        let class = if is_guarded { RiskClass::Lockout } else { RiskClass::Opaque };
        let finding = Finding { start: 0, end, class, why: "recursive delete".into() };
        self.open = Some(call.clone());
        self.publish(Event::ApprovalAsked {
            call,
            command,
            reason: "Free some space.".into(),
            risk: Risk { class, findings: vec![finding] },
            covers: Grant::Program { program: "rm".into(), subcommand: None },
            preview,
            guarded: is_guarded.then_some(GuardTimeout { seconds: 120 }),
            scope: None,
            terms: Default::default(),
        });
    }

    fn decision(&mut self, id: &CallId, decision: Decision, by: String) {
        let Some(mut call) = self.open.take_if(|call| call.id == *id) else { return };
        self.publish(Event::Decided { call: id.clone(), decision: decision.clone(), by });
        match decision {
            Decision::Allow { .. } if self.asks_again(&call) => {}
            Decision::Allow { command } | Decision::AllowSession { command } => {
                if let (Some(command), Arguments::Object(map)) = (command, &mut call.arguments) {
                    map.insert("command".into(), command.into());
                }
                let command = call.text_argument("command").unwrap_or_default().to_owned();
                let routine = self.step == 0;
                let code = i32::from(command.contains("false"));
                self.publish(Event::ToolStarted { call: call.clone(), origin: Origin::Model });
                self.delta(Delta::Output { call: id.clone(), text: format!("ran {command}\n") });
                self.finish(&call, &format!("ran {command}\n"), code);
                if routine {
                    return self.end_direct(code);
                }
                self.next_step();
                self.say(&format!("Done with `{command}`."));
                self.end(StopReason::EndTurn, None);
            }
            Decision::Reject { reason } => {
                let outcome = Outcome::new(Status::Rejected, format!("{REJECTED_BY_USER}. Reason: {reason}"));
                self.publish(Event::ToolFinished { call: id.clone(), outcome });
                if matches!(&*reason, "stop" | sysop_core::outcome::NO_TERMINAL) || self.step == 0 {
                    return self.end(StopReason::Cancelled, None);
                }
                self.next_step();
                self.say(&format!("Then not ({reason})."));
                self.end(StopReason::EndTurn, None);
            }
        }
    }

    fn finish(&mut self, call: &ToolCall, output: &str, code: i32) {
        let status = if code == 0 { Status::Ok } else { Status::Failed };
        let mut outcome = Outcome { exit_code: Some(code), duration_ms: 12, ..Outcome::new(status, output) };
        outcome.truncated = output.starts_with("[truncated]");
        outcome.artifact = outcome.truncated.then(|| "1-output.txt".to_owned());
        self.publish(Event::ToolFinished { call: call.id.clone(), outcome });
    }

    fn automatic(&mut self, text: &str, command: &str, output: &str, code: i32) {
        let call = self.call("bash", json!({ "command": command, "reasoning": "To see." }));
        self.stream(text);
        self.reply(text, vec![call.clone()]);
        self.publish(Event::ToolStarted { call: call.clone(), origin: Origin::Model });
        self.delta(Delta::Output { call: call.id.clone(), text: output.into() });
        self.finish(&call, output, code);
        self.next_step();
        self.say("That is all.");
        self.end(StopReason::EndTurn, None);
    }

    fn direct(
        &mut self,
        tool: String,
        arguments: serde_json::Map<String, serde_json::Value>,
        origin: Origin,
    ) {
        self.begin("", origin);
        let call = self.call(&tool, serde_json::Value::Object(arguments));
        let command = call.text_argument("command").unwrap_or_default().to_owned();
        let is_planned_undo = call.arguments.to_value()["step"] == 2;
        if is_planned_undo || origin == Origin::Routine && !command.starts_with("echo") {
            return self.ask(call);
        }
        if call.arguments.to_value()["step"] == 99 {
            let why = "there is no call 99; this session has no tool calls";
            return self.end(StopReason::Failed, Some(why.to_owned()));
        }
        self.publish(Event::ToolStarted { call: call.clone(), origin });
        if tool == "send_keys" {
            let keys = call.text_argument("keys").unwrap_or_default().to_owned();
            self.finish(&call, &format!("$ {keys}\n$\n\n\n"), 0);
            return self.end_direct(0);
        }
        if command.starts_with("sleep") {
            if let Some((_, text)) = command.split_once("echo ") {
                self.delta(Delta::Output { call: call.id.clone(), text: format!("{text}\n") });
            }
            self.running = Some(call);
            return;
        }
        let code = i32::from(command.contains("false"));
        self.delta(Delta::Output {
            call: call.id.clone(),
            text: format!("\u{1b}[31mran\u{1b}[0m {command}\n"),
        });
        self.finish(&call, &format!("ran {command}\n"), code);
        self.end_direct(code);
    }

    fn end_direct(&mut self, code: i32) {
        if code == 0 {
            self.end(StopReason::EndTurn, None);
        } else {
            self.end(StopReason::Failed, Some(format!("the command ended with exit code {code}")));
        }
    }

    fn pause(&mut self, reason: PauseReason) {
        self.paused = Some(reason);
        self.publish(Event::Paused { reason, detail: None, active_ms: 0 });
        if let Some(call) = self.running.take() {
            self.finish(&call, "", 0);
        }
    }

    fn cancel(&mut self) {
        if self.stubborn {
            return;
        }
        if let Some(call) = self.open.take() {
            let decision = Decision::Reject { reason: String::new() };
            self.publish(Event::Decided { call: call.id.clone(), decision, by: "sysop".into() });
            let outcome = Outcome::new(Status::Rejected, "the turn was stopped");
            self.publish(Event::ToolFinished { call: call.id, outcome });
        }
        for question in std::mem::take(&mut self.questions) {
            self.delta(Delta::QuestionClosed { id: question.id, by: None });
        }
        if let Some(call) = self.running.take() {
            let outcome = Outcome::new(Status::Cancelled, "");
            self.publish(Event::ToolFinished { call: call.id, outcome });
        }
        let reason = match self.paused.take() {
            Some(PauseReason::Loop | PauseReason::Interrupted | PauseReason::Budget) => StopReason::Paused,
            Some(PauseReason::Asked) | None => StopReason::Cancelled,
        };
        if self.turn > 0 && !matches!(self.log.last().map(|it| &it.event), Some(Event::TurnEnded { .. })) {
            self.end(reason, None);
        }
    }

    fn end(&mut self, reason: StopReason, error: Option<String>) {
        self.busy = false;
        if reason == StopReason::Cancelled {
            self.waiting.clear();
        }
        self.publish(Event::TurnEnded { turn: TurnId(self.turn), reason, error, active_ms: 0 });
        if let Some(next) = self.waiting.pop_front() {
            self.prompt(&next);
        }
    }
}
