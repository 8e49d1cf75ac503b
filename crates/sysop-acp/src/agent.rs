//! The agent side of the protocol: reads the editor's messages in order and answers them.

use std::collections::HashMap;
use std::io::BufRead;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use sysop_core::event::{ConfigChange, Input};
use sysop_core::id::SessionId;
use sysop_core::message::ModelRef;
use sysop_core::model_provider::is_known;
use sysop_core::policy::ApprovalMode;
use sysop_core::text::neutralize_line;
use tokio::sync::mpsc;

use crate::client::{Client, RpcError, code};
use crate::commands::PromptAction;
use crate::options::{self, SessionOptions};
use crate::prompt::PromptContent;
use crate::servers::{EditorServer, OpenConsent};
use crate::session::{Replay, SessionCommand, SessionLink};
use crate::{AcpBackend, AcpContext, BackendError, OpenedSession, commands, elicitation, prompt, servers};

const PROTOCOL_VERSION: u32 = 1;
const LINE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Maximum number of messages waiting to be handled.
const QUEUED_LINES_MAX: usize = 64;
const SESSIONS_MAX: usize = 64;
const LISTED_MAX: usize = 200;
/// Maximum time for the sessions to end after the end of input.
const LEAVE_WAIT: Duration = Duration::from_secs(12);
/// Maximum time for the last messages to be written.
const WRITE_WAIT: Duration = Duration::from_secs(2);
/// Id of the only sign-in method: the user's config.
const CONFIG_METHOD: &str = "config";

/// Serves one editor until the end of input or until `stop` completes. Stops all turns before returning.
pub async fn serve(context: AcpContext, stop: impl Future<Output = ()>) {
    let (client, written) = Client::new(context.output);
    let mut lines = read_lines(context.input);
    let agent = Agent {
        client,
        backend: context.backend,
        version: context.version,
        sessions: Arc::default(),
        consents: Mutex::default(),
        initialized: Mutex::new(false),
    };
    let agent = Arc::new(agent);
    let mut stop = std::pin::pin!(stop);
    loop {
        let line = tokio::select! {
            line = lines.recv() => line,
            () = &mut stop => None,
        };
        match line {
            Some(Ok(line)) => Arc::clone(&agent).handle_line(&line).await,
            Some(Err(why)) => {
                agent.client.respond(Value::Null, Err(RpcError::new(code::PARSE_ERROR, why))).await;
                break;
            }
            None => break,
        }
    }
    agent.consents.lock().drain().for_each(|(_, consent)| consent.cancel());
    let sessions: Vec<_> = agent.sessions.lock().drain().map(|(_, link)| link.close()).collect();
    let ended = futures::future::join_all(sessions);
    // A turn that does not end in time is abandoned.
    let _ = tokio::time::timeout(LEAVE_WAIT, ended).await;
    drop(agent);
    // An editor that does not read loses the last messages.
    let _ = tokio::time::timeout(WRITE_WAIT, written).await;
}

/// Reads lines on a separate thread until the input ends, also after an unreadable or overlong line.
fn read_lines(mut input: Box<dyn BufRead + Send>) -> mpsc::Receiver<Result<Vec<u8>, String>> {
    let (sender, lines) = mpsc::channel(QUEUED_LINES_MAX);
    std::thread::spawn(move || {
        loop {
            let mut line = Vec::new();
            let limit = LINE_BYTES_MAX as u64 + 1;
            let read = std::io::Read::take(&mut input, limit).read_until(b'\n', &mut line);
            let result = match read {
                Ok(0) => return,
                Ok(_) if line.len() > LINE_BYTES_MAX => Err("the message is too long".to_owned()),
                Ok(_) => Ok(line),
                Err(error) => Err(format!("cannot read the message: {error}")),
            };
            let is_end = result.is_err();
            if sender.blocking_send(result).is_err() || is_end {
                return;
            }
        }
    });
    lines
}

pub(crate) struct Agent {
    pub(crate) client: Client,
    backend: Arc<dyn AcpBackend>,
    version: String,
    pub(crate) sessions: Arc<Mutex<HashMap<String, SessionLink>>>,
    /// New sessions whose servers wait for the user's consent.
    pub(crate) consents: Mutex<HashMap<String, OpenConsent>>,
    initialized: Mutex<bool>,
}

type RpcResult = Result<Value, RpcError>;

impl Agent {
    async fn handle_line(self: Arc<Self>, line: &[u8]) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let refuse = |code, why: &str| RpcError::new(code, why);
        let message: Value = match serde_json::from_slice(line) {
            Ok(message) => message,
            Err(error) => {
                let error = RpcError::new(code::PARSE_ERROR, format!("the message is not JSON: {error}"));
                return self.client.respond(Value::Null, Err(error)).await;
            }
        };
        if message.is_array() {
            let error = refuse(code::INVALID_REQUEST, "batches are not supported");
            return self.client.respond(Value::Null, Err(error)).await;
        }
        let id = message.get("id").cloned();
        let Some(method) = message["method"].as_str() else {
            let answer = message.get("result").cloned();
            match id {
                Some(id) if answer.is_some() || message.get("error").is_some() => {
                    self.client.take_answer(&id, answer);
                }
                id => {
                    let error = refuse(code::INVALID_REQUEST, "the message has no method");
                    self.client.respond(id.unwrap_or_default(), Err(error)).await;
                }
            }
            return;
        };
        let params = message["params"].clone();
        match id {
            None => self.handle_notification(method, &params),
            Some(id @ (Value::Number(_) | Value::String(_))) => self.handle_request(id, method, params).await,
            Some(_) => {
                let error = refuse(code::INVALID_REQUEST, "the id must be a number or a string");
                self.client.respond(Value::Null, Err(error)).await;
            }
        }
    }

    /// Handles a notification. Unknown ones are ignored, as the protocol requires.
    fn handle_notification(&self, method: &str, params: &Value) {
        if method != "session/cancel" {
            return;
        }
        let Some(id) = params["sessionId"].as_str() else { return };
        if let Some(consent) = self.consents.lock().get(id) {
            return consent.cancel();
        }
        if let Some(link) = self.sessions.lock().get(id) {
            link.send(SessionCommand::Cancel);
        }
    }

    async fn handle_request(self: Arc<Self>, id: Value, method: &str, params: Value) {
        let result = match method {
            "initialize" => Ok(self.initialize(&params)),
            _ if !*self.initialized.lock() => {
                Err(RpcError::new(code::INVALID_REQUEST, "the first request must be `initialize`"))
            }
            "session/prompt" if self.waits_for_consent(&id, &params) => return,
            "session/prompt" => match self.prompt(id.clone(), &params) {
                Ok(()) => return,
                Err(error) => Err(error),
            },
            "session/set_mode" => self.set_mode(&params),
            "session/set_config_option" => self.set_config_option(&params),
            "session/close" => self.close(&params),
            // These may take long and must not delay a cancellation.
            "session/new" | "session/load" | "session/resume" | "session/list" | "session/delete"
            | "authenticate" => {
                let method = method.to_owned();
                tokio::spawn(async move { self.handle_slow_request(id, &method, &params).await });
                return;
            }
            _ => Err(RpcError::new(code::METHOD_NOT_FOUND, format!("unknown method {method:?}"))),
        };
        self.client.respond(id, result).await;
    }

    async fn handle_slow_request(&self, id: Value, method: &str, params: &Value) {
        let result = match method {
            "session/new" => return self.new_session(id, params).await,
            "session/load" => return self.open_session(id, params, Replay::Send).await,
            "session/resume" => return self.open_session(id, params, Replay::Skip).await,
            "session/list" => self.list(params).await,
            "session/delete" => self.delete(params).await,
            _ => self.authenticate(params).await,
        };
        self.client.respond(id, result).await;
    }

    fn initialize(&self, params: &Value) -> Value {
        self.client.set_forms(elicitation::is_offered(&params["clientCapabilities"]));
        *self.initialized.lock() = true;
        json!({
            "protocolVersion": PROTOCOL_VERSION,
            "agentInfo": { "name": "sysop", "title": "sysop", "version": self.version },
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": { "image": true, "audio": false, "embeddedContext": true },
                "mcpCapabilities": { "http": true, "sse": false },
                "sessionCapabilities": { "list": {}, "resume": {}, "close": {}, "delete": {} },
            },
            "authMethods": [{
                "id": CONFIG_METHOD,
                "name": "sysop's config",
                "description": "Set a model and its key as for `sysop` in a terminal; `sysop doctor` checks it",
            }],
        })
    }

    async fn authenticate(&self, params: &Value) -> RpcResult {
        match params["methodId"].as_str() {
            Some(CONFIG_METHOD) => self.backend.check_model().await.map(|()| json!({})).map_err(rpc_error),
            _ => Err(RpcError::invalid("unknown sign-in method")),
        }
    }

    async fn new_session(&self, id: Value, params: &Value) {
        let (servers, notes) = servers::read(params);
        let opened = match folder(params) {
            Ok(folder) if self.sessions.lock().len() < SESSIONS_MAX => {
                self.backend.create(&folder, servers).await.map_err(rpc_error)
            }
            Ok(_) => Err(RpcError::new(code::INVALID_REQUEST, "too many open sessions; close some")),
            Err(error) => Err(error),
        };
        match opened {
            Ok(opened) => self.start(id, opened, Replay::Skip, notes, true).await,
            Err(error) => self.client.respond(id, Err(error)).await,
        }
    }

    async fn open_session(&self, id: Value, params: &Value, replay: Replay) {
        let (servers, notes) = servers::read(params);
        let opened = self.reopen(params, servers).await;
        match opened {
            Ok(opened) => self.start(id, opened, replay, notes, false).await,
            Err(error) => self.client.respond(id, Err(error)).await,
        }
    }

    async fn reopen(&self, params: &Value, servers: Vec<EditorServer>) -> Result<OpenedSession, RpcError> {
        let id = string(params, "sessionId")?;
        folder(params)?;
        let open = self.sessions.lock().remove(id);
        if let Some(link) = open {
            let mut opened = link.opened.clone();
            opened.attached.last = link.last_seen();
            opened.notes.clear();
            link.send(SessionCommand::Detach);
            // The task ends on its own after the command.
            let _ = link.close().await;
            return Ok(opened);
        }
        self.backend.open(&SessionId::new(id), servers).await.map_err(rpc_error)
    }

    /// Starts a session's task. After the log is replayed, answers the request that opened the session.
    async fn start(
        &self,
        id: Value,
        mut opened: OpenedSession,
        replay: Replay,
        mut notes: Vec<String>,
        is_new: bool,
    ) {
        let session = opened.attached.session.id().clone();
        notes.append(&mut opened.notes);
        let note = (!notes.is_empty()).then(|| notes.join("\n"));
        let service = Arc::clone(&opened.service);
        if let Some(consents) = opened.consents.clone().filter(|_| is_new) {
            self.consents
                .lock()
                .insert(session.as_str().to_owned(), OpenConsent::new(consents, note.clone()));
        }
        let link = self.link(opened, replay, note, None).await;
        let options = Arc::clone(&link.options);
        self.sessions.lock().insert(session.as_str().to_owned(), link);
        let (modes, config_options) = {
            let options = options.lock();
            (options.modes(), options.config_options())
        };
        let mut result = json!({ "modes": modes, "configOptions": config_options });
        if is_new {
            result["sessionId"] = json!(session.as_str());
        }
        self.client.respond(id, Ok(result)).await;
        let skills = service.skills(&session).await;
        self.client.update(session.as_str(), commands::available(&skills)).await;
    }

    /// Starts a session's task and waits until its log is replayed. `options` are the options of an earlier task of the
    /// session.
    pub(crate) async fn link(
        &self,
        opened: OpenedSession,
        replay: Replay,
        note: Option<String>,
        options: Option<Arc<Mutex<SessionOptions>>>,
    ) -> SessionLink {
        let options = match options {
            Some(options) => options,
            None => {
                let (spec, models) = (&opened.attached.spec, opened.service.models().await);
                let options = SessionOptions::new(spec.approve, &opened.modes, spec.model.clone(), models);
                Arc::new(Mutex::new(options))
            }
        };
        let (link, ready) = SessionLink::start(self.client.clone(), opened, options, replay, note);
        // Fails if the session is gone; its prompts are then answered with the reason.
        let _ = ready.await;
        link
    }

    pub(crate) fn prompt(&self, id: Value, params: &Value) -> Result<(), RpcError> {
        let blocks =
            params["prompt"].as_array().ok_or_else(|| RpcError::invalid("`prompt` must be a list"))?;
        self.with_session(params, |link| {
            let PromptContent { text, images } = prompt::read(blocks, &link.opened.attached.spec.root)?;
            // A command is something that the user typed, never part of an attached file.
            let typed = blocks.first().and_then(|block| block["text"].as_str()).unwrap_or_default();
            let action = commands::action(text.clone());
            let is_whole = blocks.len() <= 1 && typed == text;
            let acts = matches!(action, PromptAction::Run(_) | PromptAction::Undo(_));
            let is_text = !images.is_empty() || acts && !is_whole;
            let action = if is_text { PromptAction::Ask(text, images) } else { action };
            link.send(SessionCommand::Prompt { id, action });
            Ok(())
        })
    }

    fn with_session<T>(
        &self,
        params: &Value,
        act: impl FnOnce(&SessionLink) -> Result<T, RpcError>,
    ) -> Result<T, RpcError> {
        self.with_open(string(params, "sessionId")?, act)
    }

    pub(crate) fn with_open<T>(
        &self,
        id: &str,
        act: impl FnOnce(&SessionLink) -> Result<T, RpcError>,
    ) -> Result<T, RpcError> {
        let sessions = self.sessions.lock();
        let link = sessions.get(id).ok_or_else(|| {
            RpcError::new(code::RESOURCE_NOT_FOUND, format!("no open session {}", neutralize_line(id)))
        })?;
        act(link)
    }

    fn set_mode(&self, params: &Value) -> RpcResult {
        let mode = string(params, "modeId")?;
        self.with_session(params, |link| self.set_approval(link, mode))?;
        Ok(json!({}))
    }

    fn set_config_option(&self, params: &Value) -> RpcResult {
        let (option, value) = (string(params, "configId")?, string(params, "value")?);
        self.with_session(params, |link| {
            match option {
                options::MODE => self.set_approval(link, value)?,
                options::MODEL => self.set_model(link, value)?,
                _ => return Err(RpcError::invalid("unknown config option")),
            }
            Ok(json!({ "configOptions": link.options.lock().config_options() }))
        })
    }

    fn set_approval(&self, link: &SessionLink, name: &str) -> Result<(), RpcError> {
        let mode = ApprovalMode::from_name(name).filter(|mode| link.options.lock().modes.contains(mode));
        let mode = mode.ok_or_else(|| RpcError::invalid("this mode cannot be chosen here"))?;
        self.configure(link, ConfigChange::Approve(mode))?;
        link.options.lock().mode = mode;
        Ok(())
    }

    fn set_model(&self, link: &SessionLink, name: &str) -> Result<(), RpcError> {
        let model: ModelRef = name.parse().map_err(|_| RpcError::invalid("use PROVIDER/NAME for a model"))?;
        if !is_known(&model.provider) {
            return Err(RpcError::invalid("unknown model provider"));
        }
        self.configure(link, ConfigChange::Model(model.clone()))?;
        let mut options = link.options.lock();
        if !options.models.contains(&model) {
            options.models.insert(0, model.clone());
        }
        options.model = model;
        Ok(())
    }

    /// Changes a session's config: at once, or when its servers have the user's consent.
    fn configure(&self, link: &SessionLink, change: ConfigChange) -> Result<(), RpcError> {
        if let Some(consent) = self.consents.lock().get_mut(link.opened.attached.session.id().as_str()) {
            consent.configure(change);
            return Ok(());
        }
        configure(link, change)
    }

    fn close(&self, params: &Value) -> RpcResult {
        let id = string(params, "sessionId")?;
        self.withdraw_consent(id);
        match self.sessions.lock().remove(id) {
            Some(link) => {
                drop(link.close());
                Ok(json!({}))
            }
            None => Err(RpcError::new(code::RESOURCE_NOT_FOUND, "no such open session")),
        }
    }

    /// Cancels a pending question about a session's MCP servers, or forgets its answer. Called when the session closes.
    fn withdraw_consent(&self, session: &str) {
        let mut consents = self.consents.lock();
        match consents.get(session) {
            Some(consent) if consent.is_asking() => consent.cancel(),
            Some(_) => drop(consents.remove(session)),
            None => {}
        }
    }

    async fn delete(&self, params: &Value) -> RpcResult {
        let id = string(params, "sessionId")?;
        self.withdraw_consent(id);
        let open = self.sessions.lock().remove(id);
        if let Some(link) = open {
            // A task that panicked has also ended.
            let _ = link.close().await;
        }
        self.backend.delete(&SessionId::new(id)).await.map(|()| json!({})).map_err(rpc_error)
    }

    async fn list(&self, params: &Value) -> RpcResult {
        let folder = params["cwd"].as_str();
        let found = self.backend.list().await.map_err(rpc_error)?;
        let sessions: Vec<Value> = found
            .iter()
            .filter(|session| session.root.starts_with('/'))
            .filter(|session| folder.is_none_or(|folder| session.root == folder))
            .take(LISTED_MAX)
            .map(|session| {
                let title = neutralize_line(&session.title);
                json!({
                    "sessionId": session.id.as_str(),
                    "cwd": session.root,
                    "title": if title.is_empty() { Value::Null } else { json!(title) },
                    "updatedAt": self.backend.format_time(session.changed),
                })
            })
            .collect();
        Ok(json!({ "sessions": sessions }))
    }
}

pub(crate) fn configure(link: &SessionLink, change: ConfigChange) -> Result<(), RpcError> {
    let sent = link.opened.attached.session.send(Input::Configure { change });
    sent.map_err(|error| RpcError::new(code::INTERNAL_ERROR, error))
}

/// Returns the session's directory from the parameter `cwd`. Fails if the path is not absolute.
fn folder(params: &Value) -> Result<PathBuf, RpcError> {
    let folder = PathBuf::from(string(params, "cwd")?);
    if !folder.is_absolute() {
        return Err(RpcError::invalid("`cwd` must be an absolute path"));
    }
    Ok(folder)
}

fn string<'a>(params: &'a Value, name: &str) -> Result<&'a str, RpcError> {
    params[name].as_str().ok_or_else(|| RpcError::invalid(format!("missing parameter `{name}`")))
}

pub(crate) fn rpc_error(error: BackendError) -> RpcError {
    match error {
        BackendError::NoModel(why) => RpcError::new(code::AUTH_REQUIRED, neutralize_line(&why)),
        BackendError::NotFound(why) => RpcError::new(code::RESOURCE_NOT_FOUND, neutralize_line(&why)),
        BackendError::Failed(why) => RpcError::new(code::INTERNAL_ERROR, neutralize_line(&why)),
    }
}
