//! A front end with a session whose effects nobody performs: the test plays model and tools.
#![expect(clippy::wildcard_enum_match_arm, reason = "the rest is for others")]

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use serde_json::{Value, json};
use sysop_core::event::{Delta, Effect, Event, Input, Logged, Update};
use sysop_core::id::{CallId, Seq, SessionId, StepId, Timestamp};
use sysop_core::message::{Arguments, FailureKind, ModelFailure, ModelRef, Reply, ToolCall};
use sysop_core::outcome::Outcome;
use sysop_core::policy::{ApprovalMode, CommandContext, Survey};
use sysop_core::question::{Question, QuestionId, QuestionKind};
use sysop_core::session::Session;
use sysop_core::spec::SessionSpec;
use sysop_core::tool::{ToolEffect, ToolSpec};
use sysop_driver::frontend::NamedItem;
use sysop_driver::prompter::PromptReply;

use crate::app::{Action, App, AppOptions, KEY_DEBOUNCE, LETTER_PAUSE, ServiceCatalog};

/// Time that passes while a frame is drawn.
const MOMENT: Duration = Duration::from_millis(10);

/// The front end, its session, and everything they produced.
pub(crate) struct World {
    pub(crate) app: App,
    pub(crate) session: Session,
    pub(crate) log: Vec<Event>,
    pub(crate) now: Duration,
    /// Step for which the model was called.
    pub(crate) asked: Option<StepId>,
    pub(crate) running: Option<ToolCall>,
    /// Actions other than `Send`.
    pub(crate) actions: Vec<Action>,
    pub(crate) answers: Vec<(QuestionId, PromptReply)>,
    /// Lines of surveys about hosts that cannot be reached.
    pub(crate) unreached: Vec<String>,
}

fn tool(name: &str, effect: ToolEffect, required: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: "".into(),
        parameters: json!({
            "type": "object",
            "properties": { required: { "type": "string" } },
            "required": [required],
        })
        .into(),
        effect,
    }
}

pub(crate) fn spec() -> SessionSpec {
    SessionSpec {
        model: ModelRef::new("ollama", "qwen"),
        system: "Be brief.".to_owned(),
        tools: vec![
            tool("edit_file", ToolEffect::Writes, "path"),
            tool("bash", ToolEffect::Command, "command"),
            tool("task_complete", ToolEffect::Completes, "summary"),
        ],
        approve: ApprovalMode::Ask,
        dangerous_patterns: vec![r"rm\s+-rf\s+/".to_owned(), "mkfs".to_owned()],
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
        host: "web1".to_owned(),
        root: "/srv".to_owned(),
        profile: "full".to_owned(),
    }
}

pub(crate) fn says(text: &str) -> Reply {
    Reply { text: text.to_owned(), ..Reply::default() }
}

pub(crate) fn call(id: &str, name: &str, arguments: Value) -> ToolCall {
    let Value::Object(map) = arguments else { panic!("arguments are an object") };
    ToolCall { id: CallId::new(id), wire_id: None, name: name.to_owned(), arguments: Arguments::Object(map) }
}

pub(crate) fn bash(id: &str, command: &str) -> Reply {
    let call = call(id, "bash", json!({ "command": command, "reasoning": "to see what is there" }));
    Reply { calls: vec![call], ..Reply::default() }
}

pub(crate) fn key(code: KeyCode) -> KeyEvent {
    KeyEvent::from(code)
}

pub(crate) fn control(letter: char) -> KeyEvent {
    KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL)
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(AppOptions::default())
    }

    pub(crate) fn with(setup: AppOptions) -> Self {
        Self::of(spec(), setup)
    }

    /// A session that asks for every call, including read-only ones.
    pub(crate) fn that_always_asks() -> Self {
        Self::of(SessionSpec { approve: ApprovalMode::Each, ..spec() }, AppOptions::default())
    }

    pub(crate) fn on(host: &str) -> Self {
        Self::of(SessionSpec { host: host.to_owned(), ..spec() }, AppOptions::default())
    }

    pub(crate) fn of(spec: SessionSpec, setup: AppOptions) -> Self {
        let mut app = App::new(setup);
        app.connected(ServiceCatalog {
            routines: Vec::new(),
            hosts: vec![NamedItem { name: "web1".to_owned(), description: "the first".to_owned() }],
        });
        app.opened(SessionId::new("s1"), Seq(0), &spec);
        let (session, out) = Session::open(spec);
        let mut world = Self {
            app,
            session,
            log: Vec::new(),
            now: Duration::from_secs(1),
            asked: None,
            running: None,
            actions: Vec::new(),
            answers: Vec::new(),
            unreached: Vec::new(),
        };
        world.happened(out.events);
        world
    }

    /// Logs events, as if the session had emitted them.
    pub(crate) fn happened(&mut self, events: Vec<Event>) {
        for event in events {
            self.log.push(event.clone());
            let seq = Seq(self.log.len() as u64);
            let logged = Logged { seq, at: Timestamp(0), event };
            self.app.update(&Update::Logged(Arc::new(logged)), self.now);
        }
    }

    /// Sends an input to the session, as if from a tool, the model or another front end.
    pub(crate) fn tell(&mut self, input: Input) -> &mut Self {
        let out = self.session.handle(input);
        for effect in &out.effects {
            match effect {
                Effect::CallModel { step, .. } => self.asked = Some(*step),
                Effect::CancelModel { .. } => self.asked = None,
                Effect::RunTool { call, .. } => self.running = Some(call.clone()),
                Effect::Survey { .. }
                | Effect::Preview { .. }
                | Effect::CancelPreview { .. }
                | Effect::AskHooks { .. }
                | Effect::AskPromptHooks { .. }
                | Effect::SetApprovalTimer { .. }
                | Effect::ReadInstructions { .. }
                | Effect::CancelTool { .. }
                | Effect::SetBackgroundTimer { .. }
                | Effect::Background { .. }
                | Effect::ReadJob { .. }
                | Effect::SetTimer { .. }
                | Effect::SetTurnTimer { .. }
                | Effect::Summarize { .. }
                | Effect::CancelSummary { .. }
                | Effect::Notify { .. } => {}
            }
        }
        self.happened(out.events);
        for effect in out.effects {
            if let Effect::Notify { text } = effect {
                self.delta(Delta::Notice { text });
            } else if let Effect::Survey { call, attempt, .. } = effect {
                let unreached = self.unreached.clone();
                let survey = Survey { unreached, ..Survey::elsewhere(CommandContext::bash()) };
                self.tell(Input::Surveyed { call: call.id, attempt, survey: Box::new(survey) });
            }
        }
        self
    }

    fn take(&mut self, actions: Vec<Action>) {
        for act in actions {
            match act {
                Action::Send(input) => {
                    self.tell(input);
                }
                Action::AnswerQuestion(id, answer) => self.answers.push((id, answer)),
                other => self.actions.push(other),
            }
        }
    }

    pub(crate) fn key(&mut self, key: KeyEvent) -> &mut Self {
        let actions = self.app.key(key, self.now);
        self.take(actions);
        self
    }

    pub(crate) fn press(&mut self, code: KeyCode) -> &mut Self {
        self.key(key(code))
    }

    pub(crate) fn types(&mut self, text: &str) -> &mut Self {
        for sign in text.chars() {
            self.press(KeyCode::Char(sign));
        }
        self
    }

    pub(crate) fn pastes(&mut self, text: &str) -> &mut Self {
        let actions = self.app.paste(text, self.now);
        self.take(actions);
        self
    }

    /// Types a prompt and sends it.
    pub(crate) fn says(&mut self, text: &str) -> &mut Self {
        self.types(text).press(KeyCode::Enter)
    }

    pub(crate) fn passes(&mut self, time: Duration) -> &mut Self {
        self.now += time;
        self.app.tick(self.now);
        let actions = self.app.release_letter(self.now);
        self.take(actions);
        self
    }

    /// Presses a letter that answers a proposal, and waits until no message can begin with it.
    pub(crate) fn answers_with(&mut self, letter: char) -> &mut Self {
        self.press(KeyCode::Char(letter)).passes(LETTER_PAUSE)
    }

    /// Draws a frame and waits until keys count as answers.
    pub(crate) fn is_read(&mut self) -> &mut Self {
        self.frame(100, 40);
        self.passes(KEY_DEBOUNCE)
    }

    /// Draws a frame and marks it as displayed.
    pub(crate) fn frame(&mut self, columns: u16, rows: u16) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("memory takes all");
        let mut links = Vec::new();
        let (app, now) = (&mut self.app, self.now);
        terminal.draw(|frame| crate::frame::draw(app, frame, &mut links, now)).expect("memory takes all");
        self.app.note_displayed(self.now);
        self.now += MOMENT;
        terminal.backend().buffer().clone()
    }

    pub(crate) fn screen(&mut self, columns: u16, rows: u16) -> String {
        text_of(&self.frame(columns, rows))
    }

    pub(crate) fn replies(&mut self, reply: Reply) -> &mut Self {
        let step = self.asked.take().expect("a model is asked");
        self.tell(Input::Reply { step, result: Ok(reply) })
    }

    pub(crate) fn fails(&mut self, kind: FailureKind) -> &mut Self {
        let step = self.asked.take().expect("a model is asked");
        let failure = ModelFailure { kind, message: "the model cannot be reached; start it".to_owned() };
        self.tell(Input::Reply { step, result: Err(failure) })
    }

    pub(crate) fn delta(&mut self, delta: Delta) -> &mut Self {
        self.app.update(&Update::Delta(delta), self.now);
        self
    }

    pub(crate) fn streams(&mut self, text: &str) -> &mut Self {
        let step = self.asked.expect("a model is asked");
        self.delta(Delta::Text { step, text: text.to_owned() })
    }

    pub(crate) fn prints(&mut self, text: &str) -> &mut Self {
        let call = self.running.as_ref().expect("a tool runs").id.clone();
        self.delta(Delta::Output { call, text: text.to_owned() })
    }

    pub(crate) fn ends(&mut self, outcome: Outcome) -> &mut Self {
        let call = self.running.take().expect("a tool runs").id;
        self.tell(Input::Outcome { call, outcome })
    }

    pub(crate) fn asks(&mut self, id: u64, kind: QuestionKind, prompt: &str) -> &mut Self {
        let question = Question {
            id: QuestionId(id),
            kind,
            from: "sudo on web1".to_owned(),
            details: Vec::new(),
            prompt: prompt.to_owned(),
            call: None,
        };
        self.delta(Delta::Question { question })
    }
}

pub(crate) fn text_of(buffer: &Buffer) -> String {
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        let mut skip = 0;
        for x in 0..buffer.area.width {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            skip = sysop_term::cells::width(symbol).saturating_sub(1);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
