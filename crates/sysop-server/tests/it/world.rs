//! A server whose scripted models follow the prompt, and whose host only records the calls.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use sysop_core::event::{ConfigChange, Logged};
use sysop_core::id::{CallId, Seq, SessionId, Timestamp, TurnId};
use sysop_core::image::{self, ImageHeader};
use sysop_core::message::{Arguments, HistoryMessage, Message, ModelRef, ModelRequest, Reply, ToolCall};
use sysop_core::outcome::Outcome;
use sysop_core::policy::{ApprovalMode, CommandContext, Rule, Survey};
use sysop_core::question::QuestionKind;
use sysop_core::spec::SessionSpec;
use sysop_core::tool::{ToolEffect, ToolSpec};
use sysop_driver::port::{
    Annotation, CancellationToken, DeltaSink, Host, ModelEvent, Provider, SearchHit, SessionSummary, Store,
    StoreError,
};
use sysop_driver::prompter::{
    NoPrompter, PromptReply, PromptRequest, Prompter, Terminal, TerminalOutput, TerminalSize, TerminalView,
};
use sysop_driver::tokens::Scopes;
use sysop_driver::{Driver, DriverError, Handle, Ports, Runtime, system_clock};
use sysop_server::limits::Listener;
use sysop_server::{
    Artifact, Authenticator, BackendError, Caller, ClientToolSettings, CreateSession, HostDecorator,
    OpenedSession, Peer, Scope, Server, ServerFacts, ServerSettings, SessionBackend, SocketSettings,
    TokenOrigin,
};
use sysop_store::MemoryStore;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::client::in_time;

/// A running server with everything behind it.
pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) driver: Driver,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) machine: Arc<Machine>,
    stop: CancellationToken,
    served: Option<JoinHandle<()>>,
}

/// Settings with short timeouts where tests wait for them.
pub(crate) fn settings() -> ServerSettings {
    ServerSettings {
        socket: SocketSettings { silence: Duration::from_secs(60), ..SocketSettings::default() },
        client_tools: ClientToolSettings {
            tool_timeout: Duration::from_secs(60),
            stop_wait: Duration::from_secs(60),
            ..ClientToolSettings::default()
        },
        notice: Duration::from_millis(200),
        ..ServerSettings::default()
    }
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::with(settings()).await
    }

    pub(crate) async fn with(settings: ServerSettings) -> Self {
        Self::on(Arc::new(MemoryStore::new()), settings).await
    }

    /// Starts a server on an existing store.
    pub(crate) async fn on(store: Arc<MemoryStore>, settings: ServerSettings) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let ports = Ports { store: Arc::clone(&store) as Arc<dyn Store>, clock: system_clock() };
        let driver = Driver::new(ports);
        let machine = Arc::new(Machine::default());
        let backend = ScriptedBackend {
            driver: driver.clone(),
            store: Arc::clone(&store),
            machine: Arc::clone(&machine),
        };
        let server = Server::new(Arc::new(backend), Arc::new(ByName), settings);
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let served =
            tokio::spawn(async move { server.serve(Listener::new(listener, None, 10_000), stopped).await });
        Self { address, driver, store, machine, stop, served: Some(served) }
    }

    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    pub(crate) async fn ended(&mut self) {
        in_time("end", self.served.take().unwrap()).await.unwrap();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.served.take().into_iter().for_each(|served| served.abort());
    }
}

/// Authenticator that accepts any token as the caller's name; some names have other scopes. `NAME, shared` is the token
/// of a read-only page that NAME shared.
struct ByName;

/// Returns scopes and provenance of a name's token.
fn bearer(name: &str) -> (Scopes, Option<TokenOrigin>) {
    match name {
        "reader" => (Scopes::READ, None),
        "operator" | "other operator" => (Scopes::OPERATE, None),
        "decider" => (Scopes::DECIDE, None),
        "late" => (Scopes::ALL, Some(TokenOrigin { created: Timestamp(i64::MAX), unattended: true })),
        "late person" => (Scopes::ALL, Some(TokenOrigin { created: Timestamp(i64::MAX), unattended: false })),
        _ => (Scopes::ALL, None),
    }
}

#[async_trait]
impl Authenticator for ByName {
    async fn admit(&self, request: &Parts, _: Peer, scope: Scope) -> Result<Caller, Box<Response>> {
        let name = request.headers.get("authorization").and_then(|value| value.to_str().ok());
        let Some(name) = name.and_then(|value| value.strip_prefix("Bearer ")) else {
            return Err(Box::new(StatusCode::UNAUTHORIZED.into_response()));
        };
        let (name, (scopes, token)) = match name.strip_suffix(", shared") {
            Some(name) => (name, (Scopes::READ, None)),
            None => (name, bearer(name)),
        };
        if !scope.is_met_by(scopes) {
            return Err(Box::new(StatusCode::FORBIDDEN.into_response()));
        }
        let (name, ended) = (name.to_owned(), CancellationToken::new());
        Ok(Caller { person: name.clone(), key: name.clone(), name, scopes, token, ended, hold: None })
    }

    fn check_session_quota(&self, _: &Caller) -> Result<(), Box<Response>> {
        Ok(())
    }

    fn admit_public(&self, _: &Parts, _: Peer) -> Result<(), Box<Response>> {
        Ok(())
    }

    fn message_delay(&self, _: &Caller) -> Option<Duration> {
        None
    }

    async fn log_in(&self, _: &Parts, _: Peer, _: secrecy::SecretString) -> Response {
        StatusCode::NOT_FOUND.into_response()
    }

    fn add_response_headers(&self, _: Option<&HeaderValue>, _: &mut Response) {}
}

struct ScriptedBackend {
    driver: Driver,
    store: Arc<MemoryStore>,
    machine: Arc<Machine>,
}

fn found(handle: Handle) -> OpenedSession {
    let last = handle.last_seq();
    OpenedSession { session: Arc::new(handle), last }
}

fn failed(error: DriverError) -> BackendError {
    match error {
        DriverError::Store(StoreError::NotFound(id)) => BackendError::NotFound(id),
        other @ (DriverError::Store(_)
        | DriverError::Closed(_)
        | DriverError::QueueFull(_)
        | DriverError::NoTurn(..)
        | DriverError::OwnedByOtherNode(..)
        | DriverError::BadLog(..)) => BackendError::Failed(other.to_string()),
    }
}

impl ScriptedBackend {
    fn host(&self, decorate: &HostDecorator) -> Arc<dyn Host> {
        decorate(Arc::new(OwnHost::new(&self.machine)))
    }
}

#[async_trait]
impl SessionBackend for ScriptedBackend {
    async fn create(
        &self,
        id: SessionId,
        request: CreateSession,
        decorate: HostDecorator,
    ) -> Result<OpenedSession, BackendError> {
        let opened_by = request.opened_by;
        let spec = SessionSpec { approve: request.approve.unwrap_or(ApprovalMode::Auto), ..spec() };
        let runtime = Runtime {
            host: self.host(&decorate),
            provider: Arc::new(Obedient),
            instructions: None,
            hooks: None,
        };
        let again = runtime.clone();
        self.driver
            .create_for(id.clone(), spec, opened_by, Arc::new(move || again.clone()))
            .await
            .map_err(failed)?;
        self.driver.resume(&id, runtime).await.map(found).map_err(failed)
    }

    async fn open(&self, id: &SessionId, decorate: HostDecorator) -> Result<OpenedSession, BackendError> {
        let runtime = Runtime {
            host: self.host(&decorate),
            provider: Arc::new(Obedient),
            instructions: None,
            hooks: None,
        };
        self.driver.resume(id, runtime).await.map(found).map_err(failed)
    }

    fn find_open(&self, id: &SessionId) -> Option<OpenedSession> {
        Some(OpenedSession { session: self.driver.get(id)?, last: self.driver.last_seq(id)? })
    }

    async fn fork(
        &self,
        from: &SessionId,
        before: TurnId,
        id: &SessionId,
        person: &str,
    ) -> Result<(), BackendError> {
        self.driver.fork(from, before, id, Some(person)).await.map_err(failed)
    }

    async fn list(&self, limit: usize) -> Result<Vec<SessionSummary>, BackendError> {
        self.store.list(limit).await.map_err(|error| failed(error.into()))
    }

    async fn search(&self, words: &[String], limit: usize) -> Result<Vec<SearchHit>, BackendError> {
        self.store.search(words, limit).await.map_err(|error| failed(error.into()))
    }

    async fn annotate(&self, id: &SessionId, annotation: &Annotation) -> Result<(), BackendError> {
        self.store.annotate(id, annotation).await.map_err(|error| failed(error.into()))
    }

    async fn events(&self, id: &SessionId, after: Seq) -> Vec<Logged> {
        self.store.load(id, after, usize::MAX).await.unwrap_or_default()
    }

    async fn is_logged(&self, id: &SessionId, seq: Seq) -> bool {
        let found = self.store.load(id, Seq(seq.0.saturating_sub(1)), 1).await;
        found.is_ok_and(|found| !found.is_empty())
    }

    async fn delete(&self, id: &SessionId) -> Result<(), BackendError> {
        self.driver.end(id, "it was deleted");
        self.store.delete(id).await.map_err(|error| failed(error.into()))
    }

    async fn artifact(&self, id: &SessionId, name: &str) -> Result<Artifact, BackendError> {
        let pieces = match name {
            "kept" => ["<b>", "whole", "</b>"],
            "env" => ["DB_PASSWORD=", "hunter22", "\n"],
            "notes" => ["GIF89a", "\npassword: hunter22", "\n"],
            "picture" => ["GIF8", "9a\u{1}\0\u{1}\0", "\npassword: hunter22\n"],
            _ => return Err(BackendError::NotFound(id.clone())),
        };
        let bytes = pieces.concat().len() as u64;
        let pieces = pieces.map(|piece| Ok(Bytes::from(piece)));
        Ok(Artifact { bytes, pieces: futures::stream::iter(pieces).boxed() })
    }

    async fn image_header(&self, artifact: &str) -> Result<ImageHeader, BackendError> {
        let read = self.artifact(&SessionId::new("s"), artifact).await?.pieces;
        let bytes = read.map(|piece| piece.expect("the artifact is in memory")).collect::<Vec<_>>().await;
        image::check(&bytes.concat()).map_err(|error| BackendError::Invalid(error.to_string()))
    }

    fn check_change(&self, change: &ConfigChange) -> Result<(), String> {
        match change {
            ConfigChange::Model(model) if model.name == "forbidden" => {
                Err("that model is not for you".to_owned())
            }
            ConfigChange::Model(_)
            | ConfigChange::Approve(_)
            | ConfigChange::Auto(_)
            | ConfigChange::Mode(_)
            | ConfigChange::Effort(_)
            | ConfigChange::Revoke(_)
            | ConfigChange::Budget(_)
            | ConfigChange::Rules { .. }
            | ConfigChange::ClientTools(_) => Ok(()),
        }
    }

    fn rules_file(&self) -> Option<String> {
        Some("rules.toml".to_owned())
    }

    async fn save_rule(&self, rule: Rule) -> Result<Rule, String> {
        if *self.machine.rules_are_full.lock() {
            return Err("no rule was written: there is no room".to_owned());
        }
        self.machine.rules.lock().push(rule.clone());
        Ok(Rule { origin: "rules.toml:1".to_owned(), ..rule })
    }

    fn attribute_to(&self, _: &SessionId, who: &str, _: Option<&str>, is_retry: bool) {
        self.machine.requests.lock().push((who.to_owned(), is_retry));
    }

    fn forget_request(&self, _: &SessionId, who: &str, is_retry: bool) {
        self.machine.requests.lock().retain(|request| *request != (who.to_owned(), is_retry));
    }

    async fn audit_refusal(&self, _: &SessionId, who: &str, _: &str) {
        self.machine.refused.lock().push(who.to_owned());
    }

    fn facts(&self) -> Option<ServerFacts> {
        Some(ServerFacts {
            machine: "lab".to_owned(),
            host: "local".to_owned(),
            root: "/srv".to_owned(),
            model: self.model(None),
            approve: ApprovalMode::Auto,
        })
    }

    fn model(&self, wanted: Option<&str>) -> ModelRef {
        ModelRef::new("demo", wanted.unwrap_or("demo"))
    }

    fn ask(&self, request: ModelRequest) -> BoxStream<'static, ModelEvent> {
        Obedient.stream(request)
    }

    async fn readiness_error(&self) -> Option<String> {
        None
    }

    fn live_session_count(&self) -> usize {
        self.driver.live_sessions()
    }

    fn evict_idle(&self, idle: Duration) {
        self.driver.evict_idle(idle);
    }

    async fn leave(&self) {}
}

fn tool(name: &str, effect: ToolEffect) -> ToolSpec {
    let parameters = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    let (name, parameters) = (name.to_owned(), parameters.into());
    ToolSpec { name, description: "".into(), parameters, effect }
}

fn spec() -> SessionSpec {
    SessionSpec {
        model: ModelRef::new("demo", "demo"),
        system: "Be brief.".to_owned(),
        tools: vec![tool("read_file", ToolEffect::Reads), tool("bash", ToolEffect::Command)],
        approve: ApprovalMode::Auto,
        dangerous_patterns: Vec::new(),
        deny: Vec::new(),
        policy: Default::default(),
        max_iterations: 8,
        max_history_messages: 50,
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

/// Model that follows the last prompt: `call TOOL JSON` calls a tool and then repeats its result; `stream N BYTES`
/// streams; `hang` never ends; any other prompt is echoed.
struct Obedient;

impl Provider for Obedient {
    fn stream(&self, request: ModelRequest) -> BoxStream<'static, ModelEvent> {
        futures::stream::iter(script(&request.messages)).flatten().boxed()
    }
}

fn script(messages: &[HistoryMessage]) -> Option<BoxStream<'static, ModelEvent>> {
    let said = messages.iter().rposition(|message| matches!(message.message(), Message::User { .. }))?;
    let Message::User { text, .. } = messages[said].message() else { return None };
    let after = messages[said + 1..].iter().rev().find_map(|message| match message.message() {
        Message::ToolResults { results } => results.first().map(|result| result.output.clone()),
        Message::User { .. } | Message::Assistant { .. } => None,
    });
    if let Some(output) = after {
        return Some(says(&format!("result: {output}")));
    }
    let words: Vec<&str> = text.splitn(3, ' ').collect();
    Some(match words[..] {
        ["call", tool, arguments] => {
            let arguments = serde_json::from_str::<Map<String, Value>>(arguments).unwrap();
            let call = ToolCall {
                id: CallId::new(format!("c{}", messages.len())),
                wire_id: None,
                name: tool.to_owned(),
                arguments: Arguments::Object(arguments),
            };
            let reply = Reply { calls: vec![call], ..Reply::default() };
            futures::stream::iter([ModelEvent::Done(Box::new(reply))]).boxed()
        }
        ["stream", times, bytes] => {
            let piece = "x".repeat(bytes.parse().unwrap());
            let times: usize = times.parse().unwrap();
            let text = piece.repeat(times);
            // One at a time, yielding in between, as chunks arrive from a real model.
            let pieces = futures::stream::repeat(piece).take(times).then(|piece| async {
                tokio::task::yield_now().await;
                ModelEvent::Text(piece)
            });
            let reply = ModelEvent::Done(Box::new(Reply {
                text: text.chars().take(64).collect(),
                ..Reply::default()
            }));
            pieces.chain(futures::stream::iter([reply])).boxed()
        }
        ["hang"] => futures::stream::pending().boxed(),
        _ => says(text),
    })
}

fn says(text: &str) -> BoxStream<'static, ModelEvent> {
    let reply = Reply { text: text.to_owned(), ..Reply::default() };
    futures::stream::iter([ModelEvent::Text(text.to_owned()), ModelEvent::Done(Box::new(reply))]).boxed()
}

/// Record of the calls that the host received.
#[derive(Default)]
pub(crate) struct Machine {
    pub(crate) ran: Mutex<Vec<String>>,
    pub(crate) typed: Mutex<Vec<u8>>,
    is_terminal_open: AtomicBool,
    /// Callers whose decision was refused.
    pub(crate) refused: Mutex<Vec<String>>,
    /// Callers who asked for a turn, each with true if it was a retry.
    pub(crate) requests: Mutex<Vec<(String, bool)>>,
    pub(crate) arrived: Notify,
    pub(crate) rules: Mutex<Vec<Rule>>,
    /// True to make writing a rule fail.
    pub(crate) rules_are_full: Mutex<bool>,
}

struct OwnHost {
    machine: Arc<Machine>,
    tools: Vec<ToolSpec>,
    people: Mutex<Arc<dyn Prompter>>,
    terminal: Arc<Screen>,
}

impl OwnHost {
    fn new(machine: &Arc<Machine>) -> Self {
        let terminal = Arc::new(Screen(Arc::clone(machine)));
        Self {
            machine: Arc::clone(machine),
            tools: spec().tools,
            people: Mutex::new(Arc::new(NoPrompter)),
            terminal,
        }
    }
}

#[async_trait]
impl Host for OwnHost {
    fn tools(&self) -> &[ToolSpec] {
        &self.tools
    }

    fn set_prompter(&self, people: Arc<dyn Prompter>) {
        *self.people.lock() = people;
    }

    fn terminal(&self) -> Option<Arc<dyn Terminal>> {
        Some(Arc::clone(&self.terminal) as Arc<dyn Terminal>)
    }

    async fn survey(&self, _: &ToolCall) -> Survey {
        Survey::elsewhere(CommandContext::bash())
    }

    async fn run(&self, call: ToolCall, sink: DeltaSink, cancel: CancellationToken) -> Outcome {
        let command = call.text_argument("command").unwrap_or_default().to_owned();
        self.machine.ran.lock().push(format!("{} {command}", call.name));
        self.machine.arrived.notify_one();
        sink.output("begun\n");
        match command.as_str() {
            "wait" => {
                cancel.cancelled().await;
                Outcome::ok("stopped")
            }
            "ask" => {
                let people = Arc::clone(&*self.people.lock());
                let asked = PromptRequest {
                    kind: QuestionKind::Secret,
                    from: "sudo".to_owned(),
                    details: Vec::new(),
                    prompt: "Password: ".to_owned(),
                    call: Some(call.id),
                };
                match people.ask(asked).await {
                    PromptReply::Given { by, text } => Outcome::ok(format!(
                        "{by}: {} letters",
                        secrecy::ExposeSecret::expose_secret(&text).len()
                    )),
                    PromptReply::NoSecret | PromptReply::Refused => Outcome::failed("nobody answered"),
                }
            }
            "env" => {
                for text in [
                    "DB_PASSWORD=hun",
                    "ter22\n-----BEGIN PRIVATE KEY-----\nMII",
                    "E\n-----END PRIVATE KEY-----\n$ ",
                ] {
                    sink.output(text);
                }
                Outcome::ok("done")
            }
            _ => Outcome::ok(format!("ran {command}")),
        }
    }
}

/// A terminal that shows one line and records the input. It is open once somebody watches it.
struct Screen(Arc<Machine>);

#[async_trait]
impl Terminal for Screen {
    async fn watch(&self) -> Result<TerminalView, String> {
        self.0.is_terminal_open.store(true, Ordering::Relaxed);
        let outputs = VecDeque::from([
            TerminalOutput::Bytes(Bytes::from_static(b"caf\xc3")),
            TerminalOutput::Bytes(Bytes::from_static(b"\xa9\r\n")),
            TerminalOutput::Resized(TerminalSize { columns: 100, rows: 30 }),
        ]);
        let live = futures::stream::iter(outputs).chain(futures::stream::pending()).boxed();
        Ok(TerminalView {
            size: TerminalSize { columns: 80, rows: 24 },
            picture: Bytes::from_static(b"$ "),
            live,
        })
    }

    fn input(&self, by: &str, bytes: &[u8]) {
        let mut typed = self.0.typed.lock();
        typed.extend_from_slice(by.as_bytes());
        typed.push(b':');
        typed.extend_from_slice(bytes);
        self.0.arrived.notify_one();
    }

    fn release(&self, _: &str) {}

    fn resize(&self, _: TerminalSize) {}

    fn is_open(&self) -> bool {
        self.0.is_terminal_open.load(Ordering::Relaxed)
    }
}
