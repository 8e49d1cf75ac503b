//! Ports for tests: a store in memory, a scripted provider and host.
//!
//! Every await of a port is a `World::pause`: a point where a simulated machine may lose power.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use secrecy::ExposeSecret;
use serde_json::{Map, Value, json};
use sysop_core::event::{Event, Logged};
use sysop_core::id::{CallId, Seq, SessionId, Timestamp};
use sysop_core::message::{
    Arguments, FailureKind, Message, ModelFailure, ModelRef, ModelRequest, Reply, ToolCall,
};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::{ApprovalMode, CommandContext, Survey};
use sysop_core::question::QuestionKind;
use sysop_core::spec::SessionSpec;
use sysop_core::tool::{ToolEffect, ToolSpec};
use sysop_driver::port::{
    CancellationToken, Clock, DeltaSink, Host, ModelEvent, Provider, SessionClaim, SessionSummary, Store,
    StoreError,
};
use sysop_driver::prompter::{PromptReply, PromptRequest, Prompter};
use sysop_driver::{Ports, Runtime, RuntimeFactory};
use tokio::sync::Notify;

/// State shared by the tests of this crate: one machine with its disk.
pub(crate) struct World {
    rng: Mutex<StdRng>,
    /// Pauses left until the power fails; negative for never.
    fuse: AtomicI64,
    pub(crate) power_lost: Notify,
    pub(crate) disk: Mutex<BTreeMap<SessionId, Vec<Logged>>>,
    /// Number of events of each append.
    pub(crate) appends: Mutex<Vec<usize>>,
    /// Every call begun by a host, over all lives of the machine.
    pub(crate) ran: Mutex<Vec<CallId>>,
    /// Calls whose start was not on disk when they began.
    pub(crate) ran_ahead: Mutex<Vec<CallId>>,
    time: AtomicI64,
    calls: AtomicU64,
    /// Error returned by the disk instead of storing anything.
    pub(crate) broken_disk: Mutex<Option<StoreError>>,
    /// Notified when a host stops a call.
    pub(crate) stopped: Notify,
    /// Notified when a model is called.
    pub(crate) asked: Notify,
    /// Notified when a model call ends or is dropped.
    pub(crate) answered: Notify,
    /// Notified when a tool begins.
    pub(crate) begun: Notify,
    /// Acquired briefly by a model before it answers, except `hasty` ones.
    pub(crate) model_arm: tokio::sync::Mutex<()>,
    /// Acquired briefly by a tool before it ends.
    pub(crate) tool_arm: tokio::sync::Mutex<()>,
    /// Acquired briefly by each append: holding it delays the disk.
    pub(crate) disk_arm: tokio::sync::Mutex<()>,
    /// Guard of the claims on sessions, which counts them.
    claims: Arc<()>,
    /// True while another process claims all sessions.
    pub(crate) claimed_elsewhere: AtomicBool,
    /// Called during the next attempt to claim a session.
    pub(crate) on_claim: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// True while hosts answer no survey.
    pub(crate) mutes_surveys: AtomicBool,
}

/// A disk with this error panics instead.
pub(crate) const PANIC: &str = "panic";

impl World {
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self {
            rng: Mutex::new(StdRng::seed_from_u64(seed)),
            fuse: AtomicI64::new(-1),
            power_lost: Notify::new(),
            disk: Mutex::default(),
            appends: Mutex::default(),
            ran: Mutex::default(),
            ran_ahead: Mutex::default(),
            time: AtomicI64::new(0),
            calls: AtomicU64::new(0),
            broken_disk: Mutex::default(),
            stopped: Notify::new(),
            asked: Notify::new(),
            answered: Notify::new(),
            begun: Notify::new(),
            model_arm: tokio::sync::Mutex::default(),
            tool_arm: tokio::sync::Mutex::default(),
            disk_arm: tokio::sync::Mutex::default(),
            claims: Arc::default(),
            claimed_elsewhere: AtomicBool::new(false),
            on_claim: Mutex::default(),
            mutes_surveys: AtomicBool::new(false),
        })
    }

    /// Returns the number of claims on sessions.
    pub(crate) fn claims(&self) -> usize {
        Arc::strong_count(&self.claims) - 1
    }

    pub(crate) fn below(&self, bound: u32) -> u32 {
        self.rng.lock().random_range(0..bound)
    }

    /// Makes the power fail after this many pauses.
    pub(crate) fn light_fuse(&self, pauses: i64) {
        self.fuse.store(pauses, Ordering::SeqCst);
    }

    /// Lets other tasks run, or stops forever if the power fails here.
    pub(crate) async fn pause(&self) {
        if self.fuse.load(Ordering::SeqCst) >= 0 && self.fuse.fetch_sub(1, Ordering::SeqCst) == 0 {
            self.power_lost.notify_one();
            std::future::pending::<()>().await;
        }
        for _ in 0..self.below(3) {
            tokio::task::yield_now().await;
        }
    }

    fn has_start_of(&self, id: &CallId) -> bool {
        let disk = self.disk.lock();
        let starts =
            |logged: &Logged| matches!(&logged.event, Event::ToolStarted { call, .. } if call.id == *id);
        disk.values().flatten().any(starts)
    }

    pub(crate) fn ports(self: &Arc<Self>) -> Ports {
        Ports { store: Arc::new(Disk(Arc::clone(self))), clock: Arc::new(VirtualClock(Arc::clone(self))) }
    }

    pub(crate) fn runtime(self: &Arc<Self>) -> Runtime {
        Runtime {
            host: self.host(),
            provider: Arc::new(ScriptedProvider(Arc::clone(self))),
            instructions: None,
            hooks: None,
        }
    }

    pub(crate) fn runtime_factory(self: &Arc<Self>) -> RuntimeFactory {
        let world = Arc::clone(self);
        Arc::new(move || world.runtime())
    }

    pub(crate) fn host(self: &Arc<Self>) -> Arc<dyn Host> {
        Arc::new(LyingHost { world: Arc::clone(self), tools: spec().tools, people: OnceLock::new() })
    }
}

pub(crate) fn spec() -> SessionSpec {
    let tool = |name: &str, effect| ToolSpec {
        name: name.to_owned(),
        description: "".into(),
        parameters: json!({"type": "object"}).into(),
        effect,
    };
    SessionSpec {
        model: ModelRef::new("demo", "demo"),
        system: "Be brief.".to_owned(),
        tools: vec![tool("read_file", ToolEffect::Reads), tool("bash", ToolEffect::Command)],
        approve: ApprovalMode::Ask,
        dangerous_patterns: Vec::new(),
        deny: Vec::new(),
        policy: Default::default(),
        max_iterations: 6,
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

/// Follows the newest user message: `panic`, `slow`, `stream N`, `bash N`, `read`, `read wait`, `both`, `fail`; `hasty`
/// reads and answers, each without delay; otherwise answers at random.
struct ScriptedProvider(Arc<World>);

impl Provider for ScriptedProvider {
    fn stream(&self, request: ModelRequest) -> BoxStream<'static, ModelEvent> {
        let world = Arc::clone(&self.0);
        let asked = request.messages.iter().rev().find_map(|message| match message.message() {
            Message::User { text, .. } => Some(text.clone()),
            _ => None,
        });
        let results =
            request.messages.iter().filter(|m| matches!(m.message(), Message::ToolResults { .. })).count();
        let at_once = asked.as_deref().filter(|prompt| match *prompt {
            "hasty" => true,
            prompt => prompt.starts_with("random") && world.below(3) == 0,
        });
        if let Some(prompt) = at_once {
            world.asked.notify_one();
            return futures::stream::iter(script(&world, prompt, results)).boxed();
        }
        let (send, receive) = futures::channel::mpsc::unbounded();
        let work = async move {
            world.asked.notify_one();
            let _over = StreamEnd(Arc::clone(&world));
            world.pause().await;
            drop(world.model_arm.lock().await);
            let events = script(&world, &asked.expect("a prompt is always sent"), results);
            for event in events {
                world.pause().await;
                if matches!(&event, ModelEvent::Notice(text) if text == "for ever") {
                    std::future::pending::<()>().await;
                }
                if send.unbounded_send(event).is_err() {
                    return;
                }
            }
        };
        futures::stream::select(futures::stream::once(work).filter_map(|()| async { None }), receive).boxed()
    }
}

struct StreamEnd(Arc<World>);

impl Drop for StreamEnd {
    fn drop(&mut self) {
        self.0.answered.notify_one();
    }
}

fn script(world: &World, prompt: &str, results: usize) -> Vec<ModelEvent> {
    let number = world.calls.fetch_add(1, Ordering::SeqCst);
    let call = |name: &str, arguments: Value| {
        let Value::Object(arguments) = arguments else { unreachable!("written as an object") };
        ToolCall {
            id: CallId::new(format!("c{number}_{name}")),
            wire_id: None,
            name: name.to_owned(),
            arguments: Arguments::Object(arguments),
        }
    };
    let answer = |text: &str| {
        vec![
            ModelEvent::Text(text.to_owned()),
            ModelEvent::Done(Box::new(Reply { text: text.to_owned(), ..Reply::default() })),
        ]
    };
    let does = |calls| vec![ModelEvent::Done(Box::new(Reply { calls, ..Reply::default() }))];
    let command = |n: u64| call("bash", json!({"command": format!("touch f{n}")}));
    let words: Vec<_> = prompt.split(' ').collect();
    match words[..] {
        ["panic"] => panic!("as the prompt says"),
        ["slow"] => vec![ModelEvent::Notice("for ever".to_owned())],
        ["stream", n] => {
            let n: usize = n.parse().expect("a number");
            let mut events = vec![ModelEvent::Text("x".to_owned()); n];
            events.push(ModelEvent::Done(Box::new(Reply { text: "x".repeat(n), ..Reply::default() })));
            events
        }
        ["bash", n] if results < n.parse().expect("a number") => does(vec![command(number)]),
        ["both"] if results == 0 => does(vec![command(number), call("read_file", json!({}))]),
        ["read", "wait"] if results == 0 => does(vec![call("read_file", json!({"command": "wait"}))]),
        ["read" | "hasty"] if results == 0 => does(vec![call("read_file", json!({}))]),
        ["fail"] => vec![ModelEvent::Failed(ModelFailure {
            kind: FailureKind::Unreachable,
            message: "nobody answers".to_owned(),
        })],
        ["cut"] => vec![ModelEvent::Text("half".to_owned())],
        ["random", ..] => match world.below(6) {
            0 => does(vec![command(number), call("read_file", json!({}))]),
            1 => does(vec![command(number)]),
            2 => does(vec![call("read_file", Value::Object(Map::new()))]),
            3 => vec![ModelEvent::Text("half".to_owned())],
            _ => answer("done"),
        },
        _ => answer("done"),
    }
}

/// Runs nothing, records its calls, and may end in any way.
struct LyingHost {
    world: Arc<World>,
    tools: Vec<ToolSpec>,
    people: OnceLock<Arc<dyn Prompter>>,
}

impl LyingHost {
    /// Asks for a password. Returns the length of the answer.
    async fn ask(&self, call: &ToolCall, cancel: &CancellationToken) -> Outcome {
        let asked = PromptRequest {
            kind: QuestionKind::Secret,
            from: "sudo".to_owned(),
            details: Vec::new(),
            prompt: "Password: ".to_owned(),
            call: Some(call.id.clone()),
        };
        let people = self.people.get().expect("a host is attended before its first call");
        tokio::select! {
            answer = people.ask(asked) => match answer {
                PromptReply::Given { text, .. } => Outcome::ok(text.expose_secret().len().to_string()),
                PromptReply::NoSecret | PromptReply::Refused => Outcome::failed("nobody knows it"),
            },
            () = cancel.cancelled() => Outcome::new(Status::Cancelled, "not asked any more"),
        }
    }
}

#[async_trait]
impl Host for LyingHost {
    fn tools(&self) -> &[ToolSpec] {
        &self.tools
    }

    fn set_prompter(&self, people: Arc<dyn Prompter>) {
        assert!(self.people.set(people).is_ok(), "the prompter is set once");
    }

    async fn survey(&self, _: &ToolCall) -> Survey {
        if self.world.mutes_surveys.load(Ordering::SeqCst) {
            return std::future::pending().await;
        }
        Survey::elsewhere(CommandContext::bash())
    }

    async fn run(&self, call: ToolCall, sink: DeltaSink, cancel: CancellationToken) -> Outcome {
        self.world.ran.lock().push(call.id.clone());
        if !self.world.has_start_of(&call.id) {
            self.world.ran_ahead.lock().push(call.id.clone());
        }
        self.world.begun.notify_one();
        sink.output("begun");
        self.world.pause().await;
        drop(self.world.tool_arm.lock().await);
        match call.text_argument("command") {
            Some("panic") => panic!("as the command says"),
            Some("wait") => {
                cancel.cancelled().await;
                self.world.stopped.notify_one();
                return Outcome::new(Status::Cancelled, "half");
            }
            Some("hang") => std::future::pending().await,
            Some("ask") => return self.ask(&call, &cancel).await,
            _ => {}
        }
        for _ in 0..self.world.below(4) {
            self.world.pause().await;
            if cancel.is_cancelled() {
                return Outcome::new(Status::Cancelled, "half");
            }
        }
        match self.world.below(4) {
            0 => Outcome::failed("no"),
            1 => Outcome::new(Status::Unknown, "lost"),
            _ => Outcome::ok(call.id.as_str()),
        }
    }
}

/// A disk: events appended to it survive, even if the caller was never told.
struct Disk(Arc<World>);

#[async_trait]
impl Store for Disk {
    async fn append(&self, id: &SessionId, after: Seq, events: &[Arc<Logged>]) -> Result<Seq, StoreError> {
        self.0.pause().await;
        drop(self.0.disk_arm.lock().await);
        if let Some(error) = self.0.broken_disk.lock().clone() {
            assert_ne!(error.to_string(), PANIC, "as the test wants it");
            return Err(error);
        }
        let seq = {
            let mut disk = self.0.disk.lock();
            let log = disk.entry(id.clone()).or_default();
            let found = log.last().map_or(Seq(0), |last| last.seq);
            if found != after {
                return Err(StoreError::Conflict { id: id.clone(), expected: after, found });
            }
            log.extend(events.iter().map(|logged| Logged::clone(logged)));
            self.0.appends.lock().push(events.len());
            log.last().map_or(after, |last| last.seq)
        };
        self.0.pause().await;
        Ok(seq)
    }

    async fn load(&self, id: &SessionId, after: Seq, limit: usize) -> Result<Vec<Logged>, StoreError> {
        self.0.pause().await;
        let disk = self.0.disk.lock();
        let log = disk.get(id).map_or(&[][..], Vec::as_slice);
        Ok(log.iter().filter(|logged| logged.seq > after).take(limit).cloned().collect())
    }

    async fn claim(&self, id: &SessionId) -> Result<Option<SessionClaim>, StoreError> {
        let on_claim = self.0.on_claim.lock().take();
        if let Some(on_claim) = on_claim {
            on_claim();
        }
        if self.0.claimed_elsewhere.load(Ordering::SeqCst) {
            return Err(StoreError::InUse { id: id.clone(), process: Some(7) });
        }
        Ok(Some(SessionClaim::new(Arc::clone(&self.0.claims))))
    }

    async fn list(&self, _limit: usize) -> Result<Vec<SessionSummary>, StoreError> {
        Ok(Vec::new())
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        Err(StoreError::NotFound(id.clone()))
    }
}

struct VirtualClock(Arc<World>);

#[async_trait]
impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.time.fetch_add(1, Ordering::SeqCst))
    }

    async fn sleep(&self, _duration: Duration) {
        for _ in 0..50 {
            self.0.pause().await;
        }
    }
}

pub(crate) fn events(log: &[Logged]) -> Vec<Event> {
    log.iter().map(|logged| logged.event.clone()).collect()
}
