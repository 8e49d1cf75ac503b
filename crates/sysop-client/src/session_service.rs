//! Lists and opens the sessions on a server for front ends.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sysop_core::event::{Event, Update};
use sysop_core::id::{Seq, SessionId, Timestamp, TurnId};
use sysop_core::image::{self, IMAGE_BYTES_MAX, ImageRef};
use sysop_core::message::ModelRef;
use sysop_core::policy::ApprovalMode;
use sysop_core::skill::Skill;
use sysop_core::spec::SessionSpec;
use sysop_core::transcript::{Proposal, Transcript};
use sysop_driver::frontend::{
    AttachedSession, NamedItem, OfferedRule, PreviousSession, Routine, SessionHandle, SessionSelector,
    SessionService,
};
use sysop_driver::port::SessionSummary;
use sysop_wire::{Decoder, PromptImage, ServerMessage};
use tokio::io::AsyncReadExt as _;
use tokio_util::task::TaskTracker;

use crate::api::{Api, sentence};
use crate::client_tools::LocalTools;
use crate::outbox::UndeliveredPrompt;
use crate::own_name::OwnName;
use crate::server_machine::ServerMachine;
use crate::session::{self, RemoteSession};
use crate::{ClientError, ServerAddress};

const SESSIONS_MAX: usize = 1_000;
/// Maximum number of recent sessions to try, if the user names none.
const LATEST_MAX: usize = 20;
/// Host name of a session whose only tools are lent by clients.
const NO_HOST: &str = "none";
/// Maximum time for connections to close.
const CLOSE: Duration = Duration::from_secs(5);

/// Settings for new sessions. The server's config provides the settings that are not given here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewSessionOptions {
    pub model: Option<ModelRef>,
    pub approve: Option<ApprovalMode>,
    pub tool_placement: ToolPlacement,
    /// Name by which the front end knows its own user in events; empty to show the name that the server uses.
    pub own_name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolPlacement {
    /// The machine that the server's config selects.
    #[default]
    ServerDefault,
    ClientOnly,
}

pub struct RemoteSessionService {
    api: Api,
    options: NewSessionOptions,
    local_tools: Option<Arc<LocalTools>>,
    hosts: Vec<NamedItem>,
    /// The user's home directory on this machine.
    home: PathBuf,
    own_name: Option<OwnName>,
    server_machine: ServerMachine,
    /// Prompts that the server did not confirm before sessions ended.
    unsent: Arc<Mutex<Vec<UndeliveredPrompt>>>,
    tasks: TaskTracker,
    /// Sessions that are open in a front end. Opening one of them again returns the same object.
    open: Mutex<HashMap<SessionId, Weak<RemoteSession>>>,
}

impl RemoteSessionService {
    /// Connects to a server and checks the token. If `local_tools` is given, its tools are lent to each opened session.
    /// `home` is the user's home directory on this machine. Fails if the server is unreachable or rejects the token.
    pub async fn connect(
        server: ServerAddress,
        mut options: NewSessionOptions,
        local_tools: Option<Arc<LocalTools>>,
        home: PathBuf,
    ) -> Result<Self, ClientError> {
        let api = Api::new(server)?;
        api.get(&["api", "agent", "sessions"], &[("limit", "1")]).await?;
        // Some servers do not provide such a list.
        let hosts = api.get(&["api", "hosts"], &[]).await.unwrap_or_default();
        let hosts = serde_json::from_value::<HostList>(hosts).map(|list| list.hosts).unwrap_or_default();
        let server_machine = ServerMachine::of(api.server());
        let hosts = hosts.into_iter().map(|host| host.shown(&server_machine)).collect();
        let here = std::mem::take(&mut options.own_name);
        let own_name = match here.is_empty() {
            true => None,
            false => {
                let me = api.get(&["api", "me"], &[]).await.unwrap_or_default();
                me["name"].as_str().map(|name| OwnName { on_server: name.to_owned(), here })
            }
        };
        if local_tools.is_some() {
            options.tool_placement = ToolPlacement::ClientOnly;
        }
        let (unsent, tasks, open) = (Arc::default(), TaskTracker::new(), Mutex::default());
        Ok(Self { api, options, local_tools, hosts, home, own_name, server_machine, unsent, tasks, open })
    }

    pub fn server(&self) -> String {
        self.api.server().display_url()
    }

    /// Opens the session that `which` selects, and creates or forks it first if necessary. Fails if the session does
    /// not exist or the server refuses the request; the error says which of the two.
    pub async fn open_session(&self, which: SessionSelector) -> Result<AttachedSession, ClientError> {
        let (id, approve) = match which {
            SessionSelector::New => (self.create(&NewSessionFields::default()).await?, None),
            SessionSelector::NewAfter(mut previous) => {
                previous.host = self.server_machine.on_server(&previous.host).to_owned();
                (self.create(&NewSessionFields::after(&previous)).await?, Some(previous.approve))
            }
            SessionSelector::NewOnHost { host, model, approve } => {
                (self.create_on(self.server_machine.on_server(&host), model.as_ref()).await?, approve)
            }
            SessionSelector::Existing(id) => (self.find(&id).await?, None),
            SessionSelector::Fork { from, before, approve } => {
                let opened = self.follow(self.fork(&from, before).await?).await?;
                // The copied log may have a looser mode.
                if let Some(mode) = approve.filter(|mode| *mode != ApprovalMode::Auto) {
                    self.set_first_mode(&opened, mode)?;
                }
                return Ok(opened);
            }
        };
        let opened = self.follow(id).await?;
        // Only the server knows the configured mode of the host.
        if let Some(mode) = approve.and_then(|left| stricter_mode(opened.spec.approve, left)) {
            self.set_first_mode(&opened, mode)?;
        }
        Ok(opened)
    }

    fn set_first_mode(&self, opened: &AttachedSession, mode: ApprovalMode) -> Result<(), ClientError> {
        let session = self.open_in_front_end(opened.session.id()).expect("the session has just been opened");
        session.set_first_mode(mode).map_err(ClientError::Failed)
    }

    fn open_in_front_end(&self, id: &SessionId) -> Option<Arc<RemoteSession>> {
        self.open.lock().get(id).and_then(Weak::upgrade)
    }

    /// Opens the most recently changed session that no other process uses, or else a new one. If that is not the most
    /// recent one, its front end says so.
    pub async fn open_latest(&self) -> Result<AttachedSession, ClientError> {
        let mut skipped = None;
        for session in self.sessions(LATEST_MAX).await? {
            let which = SessionSelector::Existing(session.id.as_str().to_owned());
            match self.open_session(which).await {
                Ok(opened) => {
                    let which = format!("session {}", session.id.short());
                    return Ok(self.opened_instead(opened, &which, skipped));
                }
                Err(ClientError::Busy(why)) => skipped = skipped.or(Some(why)),
                Err(error) => return Err(error),
            }
        }
        let opened = self.open_session(SessionSelector::New).await?;
        Ok(self.opened_instead(opened, "a new session", skipped))
    }

    /// Tells the user of the session that it was opened because the most recent one is in use, if it is.
    fn opened_instead(
        &self,
        opened: AttachedSession,
        which: &str,
        skipped: Option<String>,
    ) -> AttachedSession {
        if let (Some(session), Some(why)) = (self.open_in_front_end(opened.session.id()), skipped) {
            let notice = format!("opened {which} instead of the most recent one: {why}");
            session.set_first_notice(notice, opened.last);
        }
        opened
    }

    /// Waits a few seconds until all connections have sent their messages, stopped their calls and closed. Returns the
    /// prompts that the server did not confirm.
    pub async fn close(&self) -> Vec<UndeliveredPrompt> {
        self.tasks.close();
        // Slower connections end with the process.
        let _ = tokio::time::timeout(CLOSE, self.tasks.wait()).await;
        std::mem::take(&mut *self.unsent.lock())
    }

    async fn create(&self, fields: &NewSessionFields<'_>) -> Result<SessionId, ClientError> {
        let mut body = Map::new();
        let here = self.options.tool_placement == ToolPlacement::ClientOnly;
        if let Some(host) = fields.host.or(here.then_some(NO_HOST)) {
            body.insert("host".to_owned(), host.into());
        }
        if let Some(root) = fields.root {
            body.insert("root".to_owned(), root.into());
        }
        if let Some(model) = fields.model.or(self.options.model.as_ref()) {
            body.insert("model".to_owned(), model.to_string().into());
        }
        if let Some(approve) = self.options.approve {
            body.insert("approve".to_owned(), json!(approve));
        }
        let made = self.api.post(&["api", "agent", "sessions"], &Value::Object(body)).await?;
        id_of(&made)
    }

    /// Creates a session on a host. If the server does not accept `model` there, the session has the usual model.
    async fn create_on(&self, host: &str, model: Option<&ModelRef>) -> Result<SessionId, ClientError> {
        let fields = |model| NewSessionFields { host: Some(host), root: None, model };
        match self.create(&fields(model)).await {
            Err(ClientError::Invalid(_)) if model.is_some() => self.create(&fields(None)).await,
            created => created,
        }
    }

    async fn fork(&self, from: &SessionId, before: TurnId) -> Result<SessionId, ClientError> {
        let path = ["api", "agent", "sessions", from.as_str(), "fork"];
        id_of(&self.api.post(&path, &json!({ "before": before })).await?)
    }

    /// Finds the session whose id equals `word`, or else the only one whose id begins with `word`. An empty `word`
    /// means the latest session.
    async fn find(&self, word: &str) -> Result<SessionId, ClientError> {
        let sessions = self.sessions(SESSIONS_MAX).await?;
        let server = self.server();
        if word.is_empty() {
            let latest = sessions.into_iter().next().map(|session| session.id);
            return latest.ok_or_else(|| {
                ClientError::Unknown(format!("no sessions on {server}; start one with `sysop connect`"))
            });
        }
        let mut found = sessions.iter().filter(|session| session.id.as_str().starts_with(word));
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one.id.clone()),
            (Some(_), Some(_)) if !sessions.iter().any(|session| session.id.as_str() == word) => {
                Err(ClientError::Unknown(format!(
                    "several sessions on {server} match {word}; use a longer id prefix"
                )))
            }
            // Old sessions are not in the list.
            (Some(_), Some(_)) | (None, _) => Ok(SessionId::new(word)),
        }
    }

    async fn follow(&self, id: SessionId) -> Result<AttachedSession, ClientError> {
        let shown = self.api.get(&["api", "agent", "sessions", id.as_str()], &[]).await;
        let mut shown = shown.map_err(|error| match error {
            ClientError::Unknown(_) => self.no_session(&id),
            ClientError::Address(_)
            | ClientError::NoToken
            | ClientError::Refused(_)
            | ClientError::Invalid(_)
            | ClientError::Busy(_)
            | ClientError::Unreachable(_)
            | ClientError::Failed(_)
            | ClientError::Ledger(_) => error,
        })?;
        let (last, mut spec) = read_session(&mut shown).ok_or_else(|| {
            ClientError::Unreachable("the server's session list has an unknown format".to_owned())
        })?;
        self.server_machine.rename_host(&mut spec);
        let has_terminal = spec.host != NO_HOST;
        if let Some(session) = self.open_in_front_end(&id) {
            return Ok(AttachedSession { session, last, spec });
        }
        let (local_tools, own_name) = (self.local_tools.clone(), self.own_name.clone());
        let unsent = Arc::clone(&self.unsent);
        let which = session::RemoteSessionOptions { id, has_terminal, local_tools, own_name, unsent };
        let session = Arc::new(RemoteSession::new(self.api.clone(), which, &self.tasks)?);
        let mut open = self.open.lock();
        open.retain(|_, session| session.strong_count() > 0);
        open.insert(session.id().clone(), Arc::downgrade(&session));
        drop(open);
        Ok(AttachedSession { session, last, spec })
    }

    fn no_session(&self, id: &SessionId) -> ClientError {
        ClientError::Unknown(format!(
            "no session {} on {}; omit the ID for the most recent one, or run `sysop sessions list` on the server",
            sentence(id.as_str()),
            self.server()
        ))
    }

    async fn sessions(&self, limit: usize) -> Result<Vec<SessionSummary>, ClientError> {
        let limit = limit.to_string();
        let list = self.api.get(&["api", "agent", "sessions"], &[("limit", &limit)]).await?;
        let list: SessionList = serde_json::from_value(list)
            .map_err(|_| ClientError::Unreachable("cannot read the server's session list".to_owned()))?;
        let mut sessions: Vec<_> = list.sessions.into_iter().map(SessionSummary::from).collect();
        for session in &mut sessions {
            session.host = self.server_machine.shown(&session.host).to_owned();
        }
        Ok(sessions)
    }
}

/// Returns the mode of the session that is left, if a new session with the configured mode would be looser.
fn stricter_mode(configured: ApprovalMode, left: ApprovalMode) -> Option<ApprovalMode> {
    Some(configured.tightened(left)).filter(|mode| *mode != configured)
}

/// Values for a new session that take precedence over the options of the service.
#[derive(Default)]
struct NewSessionFields<'a> {
    host: Option<&'a str>,
    root: Option<&'a str>,
    model: Option<&'a ModelRef>,
}

impl<'a> NewSessionFields<'a> {
    fn after(previous: &'a PreviousSession) -> Self {
        let model = Some(&previous.model);
        // Only a client that lends tools can use a session without a host.
        if previous.host == NO_HOST {
            return Self { model, ..Self::default() };
        }
        Self { host: Some(&previous.host), root: previous.single_root(), model }
    }
}

/// Reads the last event number and the specification from the server's description of a session. Returns `None` if the
/// format is unknown.
fn read_session(shown: &mut Value) -> Option<(Seq, Arc<SessionSpec>)> {
    let last = serde_json::from_value(shown.get("lastSeq")?.clone()).ok()?;
    let fields = shown.as_object_mut()?;
    fields.insert("type".to_owned(), "session.created".into());
    fields.insert("seq".to_owned(), 1.into());
    let created: ServerMessage = serde_json::from_value(shown.clone()).ok()?;
    let Some(Update::Logged(logged)) = Decoder::new().take(created) else { return None };
    let Event::SessionOpened { spec, .. } = &logged.event else { return None };
    Some((last, Arc::clone(spec)))
}

fn id_of(made: &Value) -> Result<SessionId, ClientError> {
    let id = made["sessionId"].as_str().filter(|id| !id.is_empty());
    id.map(SessionId::new)
        .ok_or_else(|| ClientError::Unreachable("the server did not create a session".to_owned()))
}

#[derive(Deserialize)]
struct SessionList {
    sessions: Vec<SessionListRow>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionListRow {
    session_id: SessionId,
    #[serde(default)]
    title: String,
    created: Timestamp,
    changed: Timestamp,
    last_seq: Seq,
    #[serde(default)]
    host: String,
    #[serde(default)]
    root: String,
    #[serde(default)]
    pinned: bool,
}

impl From<SessionListRow> for SessionSummary {
    fn from(row: SessionListRow) -> Self {
        let SessionListRow { session_id: id, title, created, changed, last_seq, host, root, pinned } = row;
        Self { id, title, created, changed, last_seq, host, root, pinned }
    }
}

#[derive(Default, Deserialize)]
struct HostList {
    hosts: Vec<HostRow>,
}

#[derive(Deserialize)]
struct HostRow {
    name: String,
    #[serde(default)]
    description: String,
}

impl HostRow {
    fn shown(&self, server_machine: &ServerMachine) -> NamedItem {
        let name = sentence(server_machine.shown(&self.name));
        // The server describes its own machine as this one.
        let description = if name == self.name { &self.description } else { "the machine of the server" };
        NamedItem { name, description: sentence(description) }
    }
}

#[derive(Default, Deserialize)]
struct ModelsResponse {
    models: Vec<ModelRef>,
}

#[derive(Default, Deserialize)]
struct PathList {
    paths: Vec<String>,
}

#[derive(Default, Deserialize)]
struct SkillList {
    skills: Vec<Skill>,
}

/// Reads a file, up to one byte more than the maximum size of an image.
async fn read_image_file(path: &Path) -> io::Result<Vec<u8>> {
    let file = tokio::fs::File::open(path).await?;
    if !file.metadata().await?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
    }
    let mut bytes = Vec::new();
    file.take(IMAGE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).await?;
    Ok(bytes)
}

#[async_trait]
impl SessionService for RemoteSessionService {
    async fn open(&self, which: SessionSelector) -> Result<AttachedSession, String> {
        self.open_session(which).await.map_err(|error| error.to_string())
    }

    async fn list(&self) -> Result<Vec<SessionSummary>, String> {
        self.sessions(SESSIONS_MAX).await.map_err(|error| error.to_string())
    }

    async fn attach_image(&self, session: &SessionId, path: &Path) -> Result<Option<ImageRef>, String> {
        let path = match path.strip_prefix("~") {
            Ok(rest) => self.home.join(rest),
            Err(_) => path.to_owned(),
        };
        let shown = path.display();
        let bytes = match read_image_file(&path).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| format!("cannot read {shown}: {error}"))?,
        };
        let header = image::check(&bytes).map_err(|error| format!("{shown}: {error}"))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let parts = ["api", "agent", "sessions", session.as_str(), "images"];
        let sent = self.api.upload(&parts, &[("name", &name)], header.format.media_type(), bytes).await;
        let stored = sent.map_err(|error| format!("cannot send {shown}: {error}"))?;
        let stored: PromptImage =
            serde_json::from_value(stored).map_err(|error| format!("cannot send {shown}: {error}"))?;
        Ok(Some(stored.into()))
    }

    async fn models(&self) -> Vec<ModelRef> {
        let models = self.api.get(&["api", "models"], &[]).await.unwrap_or_default();
        serde_json::from_value::<ModelsResponse>(models).unwrap_or_default().models
    }

    async fn artifact(&self, session: &SessionId, name: &str) -> Result<Vec<u8>, String> {
        let path = ["api", "agent", "sessions", session.as_str(), "artefacts", name];
        self.api.bytes(&path).await.map_err(|error| error.to_string())
    }

    async fn paths(&self, session: &SessionId, word: &str, limit: usize) -> Vec<String> {
        let path = ["api", "agent", "sessions", session.as_str(), "paths"];
        let limit = limit.to_string();
        let paths = self.api.get(&path, &[("word", word), ("limit", &limit)]).await.unwrap_or_default();
        serde_json::from_value::<PathList>(paths).unwrap_or_default().paths
    }

    async fn skills(&self, session: &SessionId) -> Vec<Skill> {
        let path = ["api", "agent", "sessions", session.as_str(), "skills"];
        let skills = self.api.get(&path, &[]).await.unwrap_or_default();
        serde_json::from_value::<SkillList>(skills).unwrap_or_default().skills
    }

    fn hosts(&self) -> Vec<NamedItem> {
        self.hosts.clone()
    }

    fn offered_rule(&self, session: &SessionId, _: &Transcript, proposal: &Proposal) -> Option<OfferedRule> {
        let session = self.open_in_front_end(session)?;
        session.offered_rule(&proposal.call.id)
    }

    /// Asks the server to save the rule that it offered. The rule as displayed here is not sent.
    async fn allow_always(
        &self,
        session: &dyn SessionHandle,
        offered: &OfferedRule,
        _: &str,
    ) -> Result<(), String> {
        let path = ["api", "agent", "sessions", session.id().as_str(), "decisions"];
        let body = json!({ "toolCallId": offered.call, "decision": "allow_always" });
        self.api.post(&path, &body).await.map(|_| ()).map_err(|error| error.to_string())
    }

    /// Returns no routines, because routines come from the user's own config and run with the user's own tools.
    fn routines(&self) -> Vec<Routine> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use sysop_core::event::{Delta, Logged};
    use sysop_wire::Encoder;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    async fn read_head(stream: &mut TcpStream) -> Vec<u8> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        head
    }

    /// Serves an empty list of sessions, and this response for each session. Returns the URL.
    async fn server(status: &'static str, body: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let head = read_head(&mut stream).await;
                let is_session = head.starts_with(b"GET /api/agent/sessions/");
                let (status, body) =
                    if is_session { (status, body) } else { ("200 OK", r#"{"sessions":[]}"#) };
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
                     Connection: close\r\n\r\n{body}"
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        format!("http://{address}")
    }

    async fn complaint(url: &str, word: &str) -> ClientError {
        let address = ServerAddress::parse(url, Some("sysop_x".into())).unwrap();
        let options = NewSessionOptions::default();
        let service =
            RemoteSessionService::connect(address, options, None, PathBuf::from("/root")).await.unwrap();
        let opened = service.open_session(SessionSelector::Existing(word.to_owned())).await;
        opened.err().expect("there is no such session")
    }

    #[tokio::test]
    async fn only_a_session_that_is_not_found_is_called_missing() {
        let url = server("404 Not Found", r#"{"error":"no session 4f"}"#).await;
        let missing = format!(
            "no session 4f on {url}; omit the ID for the most recent one, or run `sysop sessions list` on the server"
        );
        assert_eq!(complaint(&url, "4f").await, ClientError::Unknown(missing));
        for status in ["400 Bad Request", "422 Unprocessable Content"] {
            let url = server(status, r#"{"error":"the id is too long"}"#).await;
            assert_eq!(
                complaint(&url, "4f").await,
                ClientError::Invalid("the id is too long".to_owned()),
                "{status}"
            );
        }
    }

    #[tokio::test]
    async fn an_empty_server_names_the_command_that_starts_a_session() {
        let url = server("404 Not Found", "{}").await;
        let empty = format!("no sessions on {url}; start one with `sysop connect`");
        assert_eq!(complaint(&url, "").await, ClientError::Unknown(empty));
    }

    #[tokio::test]
    async fn a_new_session_on_another_host_keeps_the_model_unless_the_server_rejects_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let creating = async {
            let address = ServerAddress::parse(&format!("http://{address}"), Some("sysop_x".into())).unwrap();
            let options = NewSessionOptions::default();
            let service = RemoteSessionService::connect(address, options, None, PathBuf::from("/root")).await;
            let model = ModelRef::new("openai", "chosen");
            service.unwrap().create_on("web1", Some(&model)).await
        };
        let mut bodies = Vec::new();
        let serving = async {
            while let Ok((mut stream, _)) = listener.accept().await {
                let head = read_head(&mut stream).await;
                let head = String::from_utf8(head).unwrap().to_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
                stream.read_exact(&mut body).await.unwrap();
                let (status, answer) = match serde_json::from_slice::<Value>(&body) {
                    Err(_) => ("200 OK", r#"{"sessions":[]}"#),
                    Ok(body) => {
                        let is_rejected = body.get("model").is_some();
                        bodies.push(body);
                        if is_rejected {
                            ("422 Unprocessable Content", r#"{"error":"web1 does not allow the model"}"#)
                        } else {
                            ("200 OK", r#"{"sessionId":"s1"}"#)
                        }
                    }
                };
                let length = answer.len();
                let answer = format!(
                    "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
                     Connection: close\r\n\r\n{answer}"
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        };
        let created = tokio::select! {
            created = creating => created,
            () = serving => panic!("the server ended"),
        };
        assert_eq!(created, Ok(SessionId::new("s1")));
        assert_eq!(bodies, [json!({"host": "web1", "model": "openai/chosen"}), json!({"host": "web1"})]);
    }

    /// Returns the description of a session that the server shows to clients.
    fn shown_session(id: &str) -> String {
        let spec: SessionSpec = serde_json::from_value(json!({
            "model": "demo/demo", "system": "", "tools": [], "approve": "ask", "dangerous_patterns": [],
            "max_iterations": 5, "max_history_messages": 5, "host": "local", "root": "/srv", "profile": "full",
        }))
        .unwrap();
        let event = Event::SessionOpened { spec: Arc::new(spec), opened_by: None };
        let logged = Logged { seq: Seq(1), at: Timestamp(0), event };
        let mut encoder = Encoder::new(SessionId::new(id));
        encoder.encode_event(&logged);
        serde_json::to_string(&encoder.hello_reply().unwrap()).unwrap()
    }

    /// Serves a list of two sessions. The older one can be opened; requests for the newer one get this response.
    async fn service_with_a_session_in_use(status: &'static str, body: Value) -> RemoteSessionService {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let head = read_head(&mut stream).await;
                let row = |id: &str| json!({ "sessionId": id, "created": 0, "changed": 0, "lastSeq": 1, "host": "local" });
                let is_at = |path: &str| head.starts_with(format!("GET {path} ").as_bytes());
                let (status, body) = match () {
                    () if is_at("/api/agent/sessions/busy") => (status, body.to_string()),
                    () if is_at("/api/agent/sessions/free") => ("200 OK", shown_session("free")),
                    () if is_at("/api/hosts") => {
                        let local = json!({ "name": "local", "description": "this machine" });
                        let web1 = json!({ "name": "web1", "description": "the first" });
                        ("200 OK", json!({ "hosts": [local, web1] }).to_string())
                    }
                    () => ("200 OK", json!({ "sessions": [row("busy"), row("free")] }).to_string()),
                };
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
                     Connection: close\r\n\r\n{body}"
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        let server = ServerAddress::parse(&format!("http://{address}"), Some("sysop_x".into())).unwrap();
        let options = NewSessionOptions::default();
        RemoteSessionService::connect(server, options, None, PathBuf::from("/root")).await.unwrap()
    }

    #[tokio::test]
    async fn the_most_recent_session_that_nobody_else_uses_is_opened_and_named() {
        let body = json!({ "error": "busy elsewhere", "code": "busy" });
        let service = service_with_a_session_in_use("409 Conflict", body).await;
        let opened = service.open_latest().await.unwrap();
        assert_eq!(opened.session.id().as_str(), "free");
        let machine = format!("local on {}", service.api.server().authority());
        assert_eq!(opened.spec.host, machine);
        assert_eq!(service.list().await.unwrap()[0].host, machine);
        let first = opened.session.subscribe(opened.last).next().await;
        let Some(Update::Delta(Delta::Notice { text })) = &first else { panic!("{first:?}") };
        assert_eq!(text, "opened session free instead of the most recent one: busy elsewhere");
    }

    #[tokio::test]
    async fn no_other_session_is_opened_if_the_server_cannot_answer_now() {
        for (status, code) in [
            ("429 Too Many Requests", "too_many"),
            ("503 Service Unavailable", "draining"),
            ("500 Internal Server Error", "internal"),
            ("409 Conflict", "closed"),
        ] {
            let body = json!({ "error": "not now", "code": code });
            let service = service_with_a_session_in_use(status, body).await;
            let refused = service.open_latest().await.err();
            assert_eq!(refused, Some(ClientError::Failed("not now".to_owned())), "{status}");
        }
    }

    #[tokio::test]
    async fn the_servers_machine_is_not_offered_as_this_machine() {
        let service = service_with_a_session_in_use("409 Conflict", json!({})).await;
        let hosts: Vec<_> =
            service.hosts().into_iter().map(|host| format!("{}: {}", host.name, host.description)).collect();
        let machine = format!("local on {}", service.api.server().authority());
        assert_eq!(hosts, [format!("{machine}: the machine of the server"), "web1: the first".to_owned()]);
        assert_eq!(service.server_machine.on_server(&machine), "local");
    }

    #[test]
    fn a_new_session_is_no_looser_than_configured_or_than_the_one_that_is_left() {
        use ApprovalMode::{Ask, Auto, Each, Never};
        for (configured, left, mode) in [
            (Ask, Never, Some(Never)),
            (Auto, Ask, Some(Ask)),
            (Ask, Auto, None),
            (Ask, Ask, None),
            (Each, Never, None),
            (Never, Each, None),
        ] {
            assert_eq!(stricter_mode(configured, left), mode, "{configured:?} {left:?}");
        }
    }

    #[test]
    fn a_new_session_after_one_without_a_host_is_where_the_server_says() {
        let previous = |host: &str| PreviousSession {
            host: host.to_owned(),
            root: "/srv".to_owned(),
            model: ModelRef::new("demo", "demo"),
            approve: ApprovalMode::Ask,
        };
        let (far, none) = (previous("web1"), previous(NO_HOST));
        let fields = NewSessionFields::after(&far);
        assert_eq!((fields.host, fields.root), (Some("web1"), Some("/srv")));
        let fields = NewSessionFields::after(&none);
        assert_eq!((fields.host, fields.root, fields.model), (None, None, Some(&none.model)));
    }
}
