//! A test world around one session: performs no effects, records everything, and checks the invariants of
//! ARCHITECTURE.md after every input.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use sysop_core::event::{ConfigChange, Decision, Effect, Event, Input, Origin, Output, ToolLocation};
use sysop_core::guard::GuardTimeout;
use sysop_core::id::{CallId, StepId, Timestamp};
use sysop_core::message::{
    Arguments, FailureKind, Message, ModelFailure, ModelRef, ModelRequest, Reply, ToolCall,
};
use sysop_core::mode::{CHAT_PROMPT, Mode};
use sysop_core::outcome::{FileChange, Outcome, Status};
use sysop_core::policy::{
    ApprovalMode, CommandContext, Grant, GuardOffer, Policy, Survey, TerminalFocus, Verdict,
};
use sysop_core::session::{Activity, Session};
use sysop_core::spec::SessionSpec;
use sysop_core::tool::{ClientTools, ToolEffect, ToolSpec};

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) session: Session,
    pub(crate) log: Vec<Event>,
    /// The step that called the model, with its request.
    pub(crate) asked: Option<(StepId, ModelRequest)>,
    /// The request for a summary in flight.
    pub(crate) summary: Option<(u32, ModelRequest)>,
    pub(crate) running: Option<ToolCall>,
    /// Calls in the background, oldest first.
    pub(crate) jobs: Vec<ToolCall>,
    /// The call that reads the output of a job.
    pub(crate) reading: Option<CallId>,
    /// Tools that ran, in order.
    pub(crate) ran: Vec<ToolCall>,
    /// Time of the newest input, in seconds.
    now: i64,
    /// Guards of the calls in `ran`.
    pub(crate) guards: Vec<Option<GuardTimeout>>,
    /// Guard that the host offers for every call.
    pub(crate) guard: GuardOffer,
    pub(crate) last: Output,
    /// Answer of the host to every survey.
    pub(crate) survey: Survey,
    /// Oracle for permissions: a policy fed from the log alone.
    policy: Arc<Policy>,
}

pub(crate) fn tool(name: &str, effect: ToolEffect, required: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: "".into(),
        parameters:
            json!({"type": "object", "properties": {required: {"type": "string"}}, "required": [required]})
                .into(),
        effect,
    }
}

pub(crate) fn spec(approve: ApprovalMode) -> SessionSpec {
    SessionSpec {
        model: ModelRef::new("demo", "demo"),
        system: "Be brief.".to_owned(),
        tools: vec![
            tool("read_file", ToolEffect::Reads, "path"),
            tool("write_file", ToolEffect::Writes, "path"),
            tool("bash", ToolEffect::Command, "command"),
            tool("task_complete", ToolEffect::Completes, "summary"),
        ],
        approve,
        dangerous_patterns: vec![r"rm\s+-rf\s+/".to_owned(), "mkfs".to_owned()],
        deny: vec!["forbidden".to_owned()],
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
        host: "local".to_owned(),
        root: "/srv".to_owned(),
        profile: "full".to_owned(),
    }
}

pub(crate) fn call(id: &str, name: &str, arguments: Value) -> ToolCall {
    let Value::Object(map) = arguments else { panic!("arguments are an object") };
    ToolCall { id: CallId::new(id), wire_id: None, name: name.to_owned(), arguments: Arguments::Object(map) }
}

pub(crate) fn bash(id: &str, command: &str) -> ToolCall {
    call(id, "bash", json!({ "command": command }))
}

pub(crate) fn says(text: &str) -> Reply {
    Reply { text: text.to_owned(), ..Reply::default() }
}

pub(crate) fn calls(calls: Vec<ToolCall>) -> Reply {
    Reply { calls, ..Reply::default() }
}

pub(crate) fn failure(kind: FailureKind) -> ModelFailure {
    ModelFailure { kind, message: "the turn failed".to_owned() }
}

pub(crate) fn changed(path: &str) -> Outcome {
    let change = FileChange { path: path.to_owned(), before: None, after_hash: "00".to_owned() };
    Outcome { changes: vec![change], ..Outcome::ok("OK") }
}

impl World {
    pub(crate) fn new(spec: SessionSpec) -> Self {
        let policy = Arc::new(Policy::new(&spec.dangerous_patterns, &spec.deny));
        let (session, out) = Session::open(spec);
        let log = out.events.clone();
        Self {
            session,
            log,
            asked: None,
            summary: None,
            running: None,
            jobs: Vec::new(),
            reading: None,
            guards: Vec::new(),
            guard: GuardOffer::default(),
            ran: Vec::new(),
            now: 0,
            last: out,
            survey: survey(),
            policy,
        }
    }

    pub(crate) fn each() -> Self {
        Self::new(spec(ApprovalMode::Each))
    }

    pub(crate) fn auto() -> Self {
        Self::new(spec(ApprovalMode::Auto))
    }

    /// Sends an input, follows the effects, and checks the invariants.
    pub(crate) fn tell(&mut self, input: Input) -> &mut Self {
        self.tell_at(self.now, input)
    }

    /// Like `tell`; the input arrives this many seconds after the session was opened.
    pub(crate) fn tell_at(&mut self, seconds: i64, input: Input) -> &mut Self {
        self.now = seconds;
        if let Input::Outcome { call, .. } = &input {
            self.running.take_if(|running| running.id == *call);
            self.jobs.retain(|job| job.id != *call);
        }
        if let Input::JobRead { call, .. } = &input {
            self.reading.take_if(|reading| reading == call);
        }
        let out = self.session.handle_at(Timestamp(seconds * 1_000), input);
        self.log.extend(out.events.iter().cloned());
        for effect in &out.effects {
            match effect {
                Effect::CallModel { step, request } => {
                    check_request(request, &self.session);
                    self.asked = Some((*step, request.clone()));
                }
                Effect::CancelModel { step } => {
                    assert_eq!(self.asked.as_ref().map(|(asked, _)| asked), Some(step));
                    self.asked = None;
                }
                Effect::Summarize { attempt, request } => {
                    assert!(request.tools.is_empty(), "a summary needs no tools");
                    assert!(
                        self.summary.replace((*attempt, (**request).clone())).is_none(),
                        "two summaries at once"
                    );
                }
                Effect::CancelSummary { attempt } => {
                    assert_eq!(self.summary.take().map(|(asked, _)| asked), Some(*attempt));
                }
                Effect::RunTool { call, place, guard, .. } => self.run_tool(call, *place, *guard),
                Effect::CancelTool { call } => {
                    let mut known = self.running.iter().chain(&self.jobs).map(|running| &running.id);
                    assert!(known.any(|known| known == call) || self.reading.as_ref() == Some(call));
                }
                Effect::Background { call } => {
                    let running = self.running.take().expect("a call is running");
                    assert_eq!(running.id, *call);
                    self.jobs.push(running);
                }
                Effect::ReadJob { call, job, .. } => {
                    assert!(self.jobs.iter().any(|running| running.id == *job), "only running jobs are read");
                    self.reading = Some(call.clone());
                }
                Effect::ReadInstructions { .. }
                | Effect::Survey { .. }
                | Effect::Preview { .. }
                | Effect::CancelPreview { .. }
                | Effect::SetBackgroundTimer { .. }
                | Effect::AskHooks { .. }
                | Effect::AskPromptHooks { .. }
                | Effect::SetApprovalTimer { .. }
                | Effect::SetTimer { .. }
                | Effect::Notify { .. }
                | Effect::SetTurnTimer { .. } => {}
            }
        }
        self.last = out;
        // Each check replays the whole log.
        if self.log.len() < 200 || self.log.len().is_multiple_of(20) {
            self.check();
        }
        self.answer_surveys();
        self
    }

    fn run_tool(&mut self, call: &ToolCall, place: ToolLocation, guard: Option<GuardTimeout>) {
        let client_tools = self.session.client_tools().named(&call.name).is_some();
        assert_eq!(
            place == ToolLocation::Client,
            client_tools,
            "invariant 2: the call does not run where its tool is offered"
        );
        assert!(self.running.is_none(), "two tools at once");
        self.running = Some(call.clone());
        self.ran.push(call.clone());
        self.guards.push(guard);
    }

    /// Answers surveys as a host would; the resulting events count toward the same `last`.
    fn answer_surveys(&mut self) {
        let before = self.last.clone();
        for effect in &before.effects {
            if let Effect::Survey { call, attempt, .. } = effect {
                let (call, attempt) = (call.id.clone(), *attempt);
                self.tell(Input::Surveyed {
                    call,
                    attempt,
                    survey: Box::new(Survey { guard: self.guard.clone(), ..self.survey.clone() }),
                });
                let after = std::mem::replace(&mut self.last, before.clone());
                self.last.events.extend(after.events);
                self.last.effects.extend(after.effects);
            }
        }
    }

    pub(crate) fn prompt(&mut self, text: &str) -> &mut Self {
        self.tell(Input::prompt(text.to_owned()))
    }

    pub(crate) fn reply(&mut self, reply: Reply) -> &mut Self {
        let step = self.asked.take().expect("the model is asked").0;
        self.tell(Input::Reply { step, result: Ok(reply) })
    }

    pub(crate) fn fail(&mut self, kind: FailureKind) -> &mut Self {
        let step = self.asked.take().expect("the model is asked").0;
        self.tell(Input::Reply { step, result: Err(failure(kind)) })
    }

    pub(crate) fn summarized(&mut self, result: Result<Reply, ModelFailure>) -> &mut Self {
        let attempt = self.summary.take().expect("a summary is requested").0;
        self.tell(Input::Summarized { attempt, result })
    }

    pub(crate) fn decide(&mut self, decision: Decision) -> &mut Self {
        let call = self.waiting().expect("a person is asked");
        self.tell(Input::Decision { call, decision, by: "tester".to_owned(), person: None })
    }

    pub(crate) fn allow(&mut self) -> &mut Self {
        self.decide(Decision::Allow { command: None })
    }

    pub(crate) fn outcome(&mut self, outcome: Outcome) -> &mut Self {
        let call = self.running.clone().expect("a tool runs").id;
        self.tell(Input::Outcome { call, outcome })
    }

    pub(crate) fn direct(&mut self, tool: &str, command: &str, origin: Origin) -> &mut Self {
        let mut arguments = Map::new();
        if !command.is_empty() {
            arguments.insert("command".to_owned(), command.into());
        }
        self.tell(Input::Direct { tool: tool.to_owned(), arguments, origin, by: None })
    }

    /// Changes the mode.
    pub(crate) fn mode(&mut self, mode: Mode) -> &mut Self {
        self.tell(Input::Configure { change: ConfigChange::Mode(mode) })
    }

    /// Replaces the client tools.
    pub(crate) fn lend(&mut self, root: &str, names: &[&str]) -> &mut Self {
        let tools = names.iter().map(|name| match *name {
            "bash" => tool(name, ToolEffect::Command, "command"),
            _ => tool(name, ToolEffect::Writes, "path"),
        });
        let client_tools = ClientTools { tools: tools.collect(), root: root.to_owned() };
        self.tell(Input::Configure { change: ConfigChange::ClientTools(client_tools) })
    }

    /// Moves the running call to the background.
    pub(crate) fn background(&mut self, output: &str) -> &mut Self {
        let call = self.running.clone().expect("a tool runs").id;
        self.tell(Input::BackgroundTimer { call, output: output.to_owned() })
    }

    /// Ends the oldest job.
    pub(crate) fn end_job(&mut self, outcome: Outcome) -> &mut Self {
        let call = self.jobs.first().expect("a job runs").id.clone();
        self.tell(Input::Outcome { call, outcome })
    }

    /// Returns the call that awaits approval.
    pub(crate) fn waiting(&self) -> Option<CallId> {
        if self.session.activity() != Activity::AwaitingApproval {
            return None;
        }
        self.log.iter().rev().find_map(|event| match event {
            Event::ApprovalAsked { call, .. } => Some(call.id.clone()),
            _ => None,
        })
    }

    /// Ends the process and replays the log in a new one. Running calls are lost.
    pub(crate) fn crash(&mut self) -> &mut Self {
        self.session = Session::replay(&self.log).expect("the log begins with an opening");
        self.asked = None;
        self.summary = None;
        self.running = None;
        self.jobs.clear();
        self.reading = None;
        self.tell(Input::Recovered)
    }

    /// Formats the events of the last input as short lines.
    pub(crate) fn lines(&self) -> String {
        self.last.events.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn check(&self) {
        let replayed = Session::replay(&self.log).expect("the log begins with an opening");
        assert!(replayed == self.session, "invariant 1: replay differs after {}", self.lines());
        self.check_calls();
        self.check_permission();
        self.check_chat();
        self.check_not_stuck();
    }

    /// Invariants 3 and 4: each call ends once, none starts twice, no turn ends with an open call.
    fn check_calls(&self) {
        let (mut open, mut started, mut finished) = (HashSet::new(), HashSet::new(), HashSet::new());
        for event in &self.log {
            match event {
                Event::Replied { reply, .. } => {
                    for call in &reply.calls {
                        assert!(open.insert(&call.id), "call id {} is not unique", call.id);
                    }
                }
                Event::ToolStarted { call, .. } => {
                    assert!(started.insert(&call.id), "invariant 4: {} started twice", call.id);
                    open.insert(&call.id);
                }
                Event::ToolFinished { call, .. } => {
                    assert!(finished.insert(call), "invariant 3: {call} finished twice");
                    open.remove(call);
                }
                Event::TurnEnded { .. } => assert!(open.is_empty(), "invariant 3: {open:?} never finished"),
                _ => {}
            }
        }
        assert!(finished.is_superset(&started.difference(&open).copied().collect()));
    }

    /// Checks invariant 2: every call that ran was allowed in exactly that form.
    fn check_permission(&self) {
        let spec = self.session.spec();
        let policy = &self.policy;
        let mut asked: HashMap<&CallId, (&ToolCall, &Grant, &ClientTools)> = HashMap::new();
        let mut allowed: HashMap<&CallId, Option<String>> = HashMap::new();
        let (mut grants, mut mode) = (Vec::new(), None);
        let none = ClientTools::default();
        let mut client_tools = &none;
        for (at, event) in self.log.iter().enumerate() {
            match event {
                Event::SessionOpened { spec, .. } => mode = Some(spec.approve),
                Event::Configured { change: ConfigChange::Approve(new), .. } => mode = Some(*new),
                Event::Configured { change: ConfigChange::Auto(_), .. } => mode = Some(ApprovalMode::Auto),
                Event::Configured { change: ConfigChange::ClientTools(new), .. } => {
                    client_tools = new;
                    grants.clear();
                }
                Event::ApprovalAsked { call, covers, .. } => {
                    asked.insert(&call.id, (call, covers, client_tools));
                }
                Event::Decided { call, decision, .. } => match decision {
                    Decision::Allow { command } => {
                        allowed.insert(call, command.clone());
                    }
                    Decision::AllowSession { command } => {
                        allowed.insert(call, command.clone());
                        grants.push(match command {
                            Some(command) => Grant::Exact { command: command.clone() },
                            None => asked[call].1.clone(),
                        });
                    }
                    Decision::Reject { .. } => {}
                },
                Event::ToolStarted { call, origin }
                    if *origin != Origin::Model && is_rejection(self.log.get(at + 1)) =>
                {
                    let ran = self.ran.iter().any(|ran| ran.id == call.id);
                    assert!(!ran, "invariant 2: {call:?} was denied and ran");
                }
                Event::ToolStarted { call, origin } => {
                    let command = call.text_argument("command");
                    let rule = command.and_then(|command| policy.denies(command, &survey()));
                    assert_eq!(rule, None, "invariant 2: {call:?} ran against a rule");
                    if *origin == Origin::User || call.name == "jobs" {
                        continue; // the session answers `jobs` itself
                    }
                    if let Some(edited) = allowed.get(&call.id) {
                        let proposed = asked[&call.id].0;
                        let expected = edited.as_deref().or(proposed.text_argument("command"));
                        assert_eq!(command, expected, "invariant 2: the command is not the allowed one");
                        assert_same_place(call, client_tools, asked[&call.id].2);
                        continue;
                    }
                    let mode = mode.expect("opened");
                    let verdict = match command {
                        Some(command) => policy.command(mode, &grants, &survey(), command).verdict,
                        None => {
                            let own = spec.tools.iter().find(|tool| tool.name == call.name);
                            let tool = client_tools.named(&call.name).or(own).expect("offered");
                            policy.tool(mode, &grants, &survey(), tool, call).verdict
                        }
                    };
                    assert_eq!(verdict, Verdict::Allow, "invariant 2: {call:?} was not allowed");
                }
                _ => {}
            }
        }
    }

    /// Checks invariant 2 for plain chats: no call of the model runs or asks in a turn that began as chat.
    fn check_chat(&self) {
        let (mut mode, mut chats) = (Mode::Agent, false);
        for event in &self.log {
            match event {
                Event::Configured { change: ConfigChange::Mode(new), .. } => mode = *new,
                Event::TurnStarted { prompt, .. } => chats = mode == Mode::Chat && !prompt.is_empty(),
                Event::ToolStarted { .. } | Event::ApprovalAsked { .. } => {
                    assert!(!chats, "invariant 2: {} in a plain chat", line(event));
                }
                _ => {}
            }
        }
        assert_eq!(self.session.mode(), mode, "the newest mode applies");
    }

    /// Checks invariant 6: a cancel and the running tool's outcome lead to idle from every state.
    fn check_not_stuck(&self) {
        let mut session = self.session.clone();
        let _ = session.handle(Input::Cancel);
        if let Some(call) = &self.running {
            let _ = session.handle(Input::Outcome { call: call.id.clone(), outcome: Outcome::ok("") });
        }
        if let Some(call) = &self.reading {
            let _ = session.handle(Input::JobRead { call: call.clone(), output: String::new() });
        }
        if self.summary.is_some() {
            let _ = session.handle(Input::Cancel); // the first one stopped the compaction, and a queued prompt started
        }
        let mut lost = self.session.clone();
        let _ = lost.handle(Input::Cancel);
        if self.summary.is_some() {
            let _ = lost.handle(Input::Cancel);
        }
        if let Some(call) = &self.running {
            let _ = lost.handle(Input::Timer { call: call.id.clone() });
        }
        if let Some(call) = &self.reading {
            let _ = lost.handle(Input::Timer { call: call.clone() });
        }
        for (session, how) in [(session, "stopped"), (lost, "lost")] {
            let retrying = session.activity() == Activity::Thinking && self.was_asked_to_retry();
            assert!(
                session.activity() == Activity::Idle || retrying,
                "invariant 6: {:?} when {how}",
                session.activity()
            );
        }
    }

    fn was_asked_to_retry(&self) -> bool {
        self.log.iter().rev().take_while(|event| !matches!(event, Event::TurnEnded { .. })).any(|event| {
            matches!(event, Event::CancelAsked { then: sysop_core::event::CancelFollowUp::Retry })
        })
    }
}

/// Checks invariant 5: the system prompt comes first, the window is bounded and begins with a user message, and no call
/// lacks its result.
fn check_request(request: &ModelRequest, session: &Session) {
    let (spec, client_tools) = (session.spec(), session.client_tools());
    if request.mode == Mode::Chat {
        return check_chat_request(request, spec);
    }
    assert!(request.system.starts_with(&spec.system), "invariant 5: no system prompt");
    assert_eq!(
        request.system.len() > spec.system.len(),
        !client_tools.tools.is_empty() || spec.approve == ApprovalMode::Never,
        "the prompt states where tools run, and that nothing changes"
    );
    let bounded = match spec.max_history_messages {
        0 => session.prompt_tokens() <= u64::from(session.context_window()),
        keep => request.messages.len() <= keep.max(3) + 1,
    };
    assert!(bounded, "invariant 5: not bounded");
    let messages: Vec<_> = request.messages.iter().map(|message| message.message()).collect();
    assert!(
        matches!(messages.first(), Some(Message::User { .. })),
        "invariant 5: does not begin with a user"
    );
    let mut expected: Vec<CallId> = Vec::new();
    for message in messages {
        match message {
            Message::ToolResults { results } => {
                let answered: Vec<_> = results.iter().map(|result| result.call.clone()).collect();
                let (mut a, mut b) = (answered, std::mem::take(&mut expected));
                a.sort();
                b.sort();
                assert_eq!(a, b, "invariant 5: results do not match the calls");
            }
            Message::User { .. } | Message::Assistant { .. } => {
                assert!(expected.is_empty(), "invariant 5: {expected:?} have no result");
            }
        }
        if let Message::Assistant { reply } = message {
            expected = reply.calls.iter().map(|call| call.id.clone()).collect();
        }
    }
    assert!(expected.is_empty(), "invariant 5: {expected:?} have no result");
}

/// Checks invariant 5 for plain chats: their own system prompt, no tools, text only, user and model alternating.
fn check_chat_request(request: &ModelRequest, spec: &SessionSpec) {
    assert!(request.system.starts_with(CHAT_PROMPT), "invariant 5: no system prompt");
    assert!(request.tools.is_empty(), "invariant 5: tools in a plain chat");
    let nudge = 1;
    assert!(request.messages.len() <= spec.max_history_messages.max(3) + nudge, "invariant 5: not bounded");
    let told = request.messages.iter().enumerate();
    let by_turns = told.filter(|(index, _)| *index < request.messages.len() - 1 || index % 2 == 0);
    for (index, message) in by_turns {
        match message.message() {
            Message::User { .. } => assert!(index % 2 == 0, "invariant 5: two user messages in a row"),
            Message::Assistant { reply } => {
                assert!(index % 2 == 1, "invariant 5: two model messages in a row");
                assert!(reply.calls.is_empty(), "invariant 5: a call in a plain chat");
            }
            Message::ToolResults { .. } => panic!("invariant 5: results in a plain chat"),
        }
    }
}

/// Formats an event as one short line.
pub(crate) fn line(event: &Event) -> String {
    match event {
        Event::SessionOpened { .. } => "opened".to_owned(),
        Event::Configured { change, .. } => format!("configured {change:?}"),
        Event::PromptQueued { text, .. } => format!("queued {text}"),
        Event::PromptWithdrawn { text, .. } => format!("withdrawn {text}"),
        Event::TurnStarted { turn, prompt, origin, .. } => format!("turn {turn} {origin:?}: {prompt}"),
        Event::StepStarted { step } => format!("step {step}"),
        Event::Replied { reply, .. } => {
            let calls: Vec<_> = reply.calls.iter().map(|call| format!("{}={}", call.id, call.name)).collect();
            format!("replied {:?} [{}]", reply.text, calls.join(" "))
        }
        Event::ModelFailed { failure, .. } => format!("model failed {:?}", failure.kind),
        Event::ApprovalAsked { call, command, covers, .. } => {
            format!("asked {}: {command} covers {covers:?}", call.id)
        }
        Event::Decided { call, decision, by } => format!("decided {call} {decision:?} by {by}"),
        Event::ToolStarted { call, .. } => format!("started {} {}", call.id, call.arguments.to_value()),
        Event::ToolFinished { call, outcome } => {
            format!("finished {call} {}: {}", outcome.status.as_str(), outcome.output)
        }
        Event::CancelAsked { then } => format!("cancel asked, then {then:?}"),
        Event::Paused { reason, .. } => format!("paused {reason:?}"),
        Event::Resumed => "resumed".to_owned(),
        Event::Compacted { keep } => format!("compacted to {keep}"),
        Event::ContextCompacted { .. }
        | Event::InstructionsLoaded { .. }
        | Event::PromptExpanded { .. }
        | Event::TodoChanged { .. }
        | Event::JobStarted { .. }
        | Event::JobFinished { .. }
        | Event::GuardArmed { .. }
        | Event::GuardEnded { .. }
        | Event::ApprovalGiven { .. }
        | Event::ApprovalPreviewed { .. }
        | Event::Undone { .. } => format!("{event:?}"),
        Event::HistoryCleared => "cleared".to_owned(),
        Event::TerminalInput { by, typed } => format!("{by} typed {typed:?}"),
        Event::TurnEnded { turn, reason, error, .. } => {
            format!(
                "turn {turn} ended {}{}",
                reason.as_str(),
                error.as_ref().map(|e| format!(": {e}")).unwrap_or_default()
            )
        }
    }
}

fn is_rejection(event: Option<&Event>) -> bool {
    matches!(event, Some(Event::ToolFinished { outcome, .. }) if outcome.status == Status::Rejected)
}

/// Survey of every host in these tests.
pub(crate) fn survey() -> Survey {
    let terminal = TerminalFocus::Prompt { line: String::new(), at_end: true };
    Survey { terminal, ..Survey::elsewhere(CommandContext::bash()) }
}

/// Asserts that a call runs on the client that offered its tool when the call was allowed.
fn assert_same_place(call: &ToolCall, now: &ClientTools, allowed: &ClientTools) {
    let place = |tools: &ClientTools| tools.named(&call.name).map(|tool| (tool.clone(), tools.root.clone()));
    assert_eq!(place(now), place(allowed), "invariant 2: the call does not run where it was allowed");
}
