//! Interface of front ends: a session, local or on a server, and the service that opens and finds sessions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use sysop_core::event::{ConfigChange, Decision, Input, Update};
use sysop_core::id::{CallId, Seq, SessionId, TurnId};
use sysop_core::image::{self, ImageRef, PROMPT_IMAGES_MAX};
use sysop_core::message::ModelRef;
use sysop_core::model_provider::OLLAMA_SSH;
use sysop_core::policy::{ApprovalMode, Rule};
use sysop_core::question::QuestionId;
use sysop_core::skill::Skill;
use sysop_core::spec::SessionSpec;
use sysop_core::transcript::{Proposal, SessionInfo, Transcript};

use crate::Handle;
use crate::port::{SearchHit, SessionSummary};
use crate::prompter::{PromptReply, Terminal};

/// A live session, local or on a server.
pub trait SessionHandle: Send + Sync {
    fn id(&self) -> &SessionId;
    /// Sends an input; never blocks. The error is one sentence.
    fn send(&self, input: Input) -> Result<(), String>;
    /// Subscribes to every event after `after`, each once and in order, then to live updates, until the session ends.
    fn subscribe(&self, after: Seq) -> BoxStream<'static, Update>;
    /// Answers a program's question. Returns true if the question was still open, as far as this process knows.
    fn answer(&self, id: QuestionId, answer: PromptReply) -> bool;
    /// Returns the session's terminal, if its host has one.
    fn terminal(&self) -> Option<Arc<dyn Terminal>>;
    /// Returns true if another process appended the event at this position while the session was idle here. If a server
    /// runs the session, that is not known, and the result is false.
    fn is_by_another_process(&self, event: Seq) -> bool;
    /// Returns the reason why the session is gone, if known.
    fn last_error(&self) -> Option<String>;
    /// Returns the name under which the updates of a session on a server name the user of this front end, if known.
    fn viewer(&self) -> Option<&str> {
        None
    }
    /// Returns the state of the connection to the session's server. A session of this process has a connection that is
    /// never lost. A notice follows each change.
    fn connection(&self) -> ServerConnection {
        ServerConnection::default()
    }
    /// Takes back a prompt that waits for the connection. Returns false if no such prompt waits, for example because it
    /// is being sent.
    fn take_back(&self, _prompt: &str) -> bool {
        false
    }
}

/// State of the connection between a front end and the server of its session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerConnection {
    /// True while there is no connection, although there was an attempt. Only prompts are accepted then.
    pub is_lost: bool,
    /// Prompts that have not been sent, in order. Once the session has ended, also those that were not confirmed.
    pub undelivered: Vec<String>,
    /// Prompts that were sent and that the server has not confirmed, in order. They may have arrived.
    pub unconfirmed: Vec<String>,
}

/// Answer to an input that is not accepted while the connection to the server is lost.
pub const SERVER_AWAY: &str = "not sent; the server is away";

impl SessionHandle for Handle {
    fn id(&self) -> &SessionId {
        self.id()
    }

    fn send(&self, input: Input) -> Result<(), String> {
        self.send(input).map_err(|error| error.to_string())
    }

    fn subscribe(&self, after: Seq) -> BoxStream<'static, Update> {
        let updates = self.subscribe(after);
        futures::stream::unfold(updates, |mut updates| async {
            let update = updates.next().await?;
            Some((update, updates))
        })
        .boxed()
    }

    fn answer(&self, id: QuestionId, answer: PromptReply) -> bool {
        self.answer(id, answer)
    }

    fn terminal(&self) -> Option<Arc<dyn Terminal>> {
        self.terminal()
    }

    fn is_by_another_process(&self, event: Seq) -> bool {
        self.is_by_another_process(event)
    }

    fn last_error(&self) -> Option<String> {
        self.last_error()
    }
}

/// A session that was just opened.
#[derive(Clone)]
pub struct AttachedSession {
    pub session: Arc<dyn SessionHandle>,
    /// Position of the last event in the session's log when it was opened; 0 for a new session.
    pub last: Seq,
    /// Settings of the session. The log of a new session does not contain them until its first input is appended.
    pub spec: Arc<SessionSpec>,
}

/// The rule that the answer "always" to a proposal would write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedRule {
    pub call: CallId,
    /// The rule as TOML, as it would be written.
    pub toml: String,
    /// The file to which the rule would be written, for display.
    pub file: String,
    /// The rule; `None` if a server writes it.
    pub rule: Option<Rule>,
}

impl OfferedRule {
    /// Returns the rule to offer for a proposal, or `None` if none can be offered. `file` is the file to which the
    /// session's rules are written.
    pub fn for_proposal(transcript: &Transcript, proposal: &Proposal, file: String) -> Option<Self> {
        let rule = proposal.always_rule(transcript.session_info()?)?;
        Some(Self { call: proposal.call.id.clone(), toml: rule.to_toml(), file, rule: Some(rule) })
    }
}

/// Adds a rule to a session and allows the rule's call. Fails with one sentence if the session accepts no inputs.
pub fn allow_by_rule(session: &dyn SessionHandle, rule: Rule, call: CallId, by: &str) -> Result<(), String> {
    session.send(Input::Configure { change: ConfigChange::added_rule(rule) })?;
    let decision = Decision::Allow { command: None };
    session.send(Input::Decision { call, decision, by: by.to_owned(), person: None })
}

/// Turns the text into a prompt with the images that the text names as `@PATH`. Names of missing files stay text. Fails
/// with one sentence if a file cannot be sent, for example because an image is too large.
pub async fn prompt_with_images(
    service: &dyn SessionService,
    session: &SessionId,
    text: String,
) -> Result<Input, String> {
    let mut images = Vec::new();
    for path in image::mentioned(&text) {
        images.extend(service.attach_image(session, Path::new(&path)).await?);
    }
    if images.len() > PROMPT_IMAGES_MAX {
        return Err(format!("a prompt may have at most {PROMPT_IMAGES_MAX} images"));
    }
    Ok(Input::Prompt { text, images, by: None })
}

/// Settings of a session that a user leaves for a new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviousSession {
    pub host: String,
    pub root: String,
    pub model: ModelRef,
    pub approve: ApprovalMode,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionSelector {
    /// A new session with the configured settings.
    New,
    /// A new session with the host, the root and the model of another one. If the other one's approval mode is stricter
    /// than the configured one, the new session has it too.
    NewAfter(PreviousSession),
    /// A new session on the hosts `host`, in the syntax of `--host`, with the configured model unless `model` is set,
    /// and at least as strict as `approve`.
    NewOnHost { host: String, model: Option<ModelRef>, approve: Option<ApprovalMode> },
    /// An existing session, by its id or a prefix of it.
    Existing(String),
    /// A new session with a copy of the log of `from`, up to but excluding the prompt of the turn `before`, at least as
    /// strict as `approve`.
    Fork { from: SessionId, before: TurnId, approve: Option<ApprovalMode> },
}

impl PreviousSession {
    /// Returns the root, or `None` if it is the home directory or not the same on all hosts, as the config says.
    pub fn single_root(&self) -> Option<&str> {
        Some(self.root.as_str()).filter(|root| !root.is_empty() && *root != "~" && !root.contains(", "))
    }
}

impl SessionSelector {
    /// Returns the selector of a new session for a user who leaves the session of this transcript.
    pub fn new_after(left: &Transcript) -> Self {
        let Some(info) = left.session_info() else { return Self::New };
        Self::NewAfter(PreviousSession {
            host: info.host.clone(),
            root: info.root.clone(),
            model: info.model.clone(),
            approve: mode_without_bounds(info),
        })
    }

    /// Returns the selector of a new session on `host` for a user who leaves the session of this transcript. The new
    /// session gets its model, unless that one runs on the host that is left.
    pub fn on_host_after(host: String, left: &Transcript) -> Self {
        let info = left.session_info();
        let model = info.map(|info| info.model.clone()).filter(|model| model.provider != OLLAMA_SSH.name);
        Self::NewOnHost { host, model, approve: info.map(mode_without_bounds) }
    }

    /// Returns the selector of a fork of the session `from`, whose transcript is `left`, for a user who leaves it.
    pub fn fork_of(from: SessionId, before: TurnId, left: &Transcript) -> Self {
        Self::Fork { from, before, approve: left.session_info().map(mode_without_bounds) }
    }
}

/// Returns the mode of a session that a new one gets, too. It gets no bounds of `auto`, so it asks instead.
fn mode_without_bounds(info: &SessionInfo) -> ApprovalMode {
    if info.auto.progress().is_some() { ApprovalMode::Ask } else { info.approve }
}

/// Opens and finds sessions for a front end. Errors are one sentence.
#[async_trait]
pub trait SessionService: Send + Sync {
    async fn open(&self, which: SessionSelector) -> Result<AttachedSession, String>;

    /// Lists sessions, the most recently changed first.
    async fn list(&self) -> Result<Vec<SessionSummary>, String>;

    /// Lists the models that are known and usable, the configured model first. May query the models' servers.
    async fn models(&self) -> Vec<ModelRef>;

    /// Returns the full output of a call from its artifact.
    async fn artifact(&self, session: &SessionId, name: &str) -> Result<Vec<u8>, String>;

    /// Returns the directory with the artifacts, if it is on this machine.
    fn artifact_directory(&self) -> Option<PathBuf> {
        None
    }

    /// Completes paths below the root of a session's file tools. Returns at most `limit` paths that contain
    /// `word`, first those that begin with it. Directories have a trailing `/`. Returns no paths if listing takes long.
    async fn paths(&self, session: &SessionId, word: &str, limit: usize) -> Vec<String>;

    /// Checks an image file on this machine and stores it for a prompt of the session. A leading `~/` means the user's
    /// home directory. Returns `None` if there is no such file. The error is one sentence that names the file.
    async fn attach_image(&self, session: &SessionId, path: &Path) -> Result<Option<ImageRef>, String> {
        let _ = (session, path);
        Ok(None)
    }

    /// Checks an image and stores it for a prompt of the session. `name` is for display. The error is one sentence.
    async fn store_image(&self, session: &SessionId, bytes: Vec<u8>, name: &str) -> Result<ImageRef, String> {
        let _ = (session, bytes, name);
        Err("images cannot be sent from here".to_owned())
    }

    fn hosts(&self) -> Vec<NamedItem>;

    /// Returns the rule that the answer "always" would write, or `None` if that answer is not offered.
    fn offered_rule(
        &self,
        session: &SessionId,
        transcript: &Transcript,
        proposal: &Proposal,
    ) -> Option<OfferedRule> {
        let _ = (session, transcript, proposal);
        None
    }

    /// Answers a proposal with "always": writes the offered rule, adds it to the session and allows the call. If this
    /// returns an error, no decision was made.
    async fn allow_always(
        &self,
        session: &dyn SessionHandle,
        offered: &OfferedRule,
        by: &str,
    ) -> Result<(), String> {
        let _ = (session, offered, by);
        Err("cannot write rules here; the command is still pending".to_owned())
    }

    fn routines(&self) -> Vec<Routine>;

    /// Returns the MCP servers in the config, with their state in a session. Starts none of them. The error is one
    /// sentence.
    async fn tool_servers(&self, session: &SessionId) -> Result<Vec<ToolServer>, String> {
        let _ = session;
        Err("a remote client does not know the MCP servers; run `sysop mcp list` on the server".to_owned())
    }

    /// Returns the skills and custom commands that users of a session can invoke, without their text. Reads files;
    /// returns an empty list if files cannot be read here.
    async fn skills(&self, session: &SessionId) -> Vec<Skill> {
        let _ = session;
        Vec::new()
    }

    /// Finds the past sessions that contain all words of `text`, the most recently changed first.
    async fn search(&self, text: &str) -> Result<Vec<SearchHit>, String> {
        let _ = text;
        Ok(Vec::new())
    }

    /// Returns the branch of the git repository at a session's root, if it can be read without delay.
    async fn git_branch(&self, session: &SessionId) -> Option<String> {
        let _ = session;
        None
    }

    /// Returns how a model gets its tools in a session, and its server, in words for the user; `None` if that is not
    /// known here. Sends no request.
    async fn model_status(&self, session: &SessionId, model: &ModelRef) -> Option<String> {
        let _ = (session, model);
        None
    }

    /// Asks a model's server if it offers the model. Returns one sentence that says why a request would fail, or `None`
    /// if no reason is known. Takes a few seconds at most.
    async fn model_problem(&self, session: &SessionId, model: &ModelRef) -> Option<String> {
        let _ = (session, model);
        None
    }

    /// Writes a session to a Markdown file. `file` is a path on this machine; without it, the name is made from the
    /// session's id. Returns one sentence for the user.
    async fn export(&self, session: &SessionId, file: Option<&str>) -> Result<String, String> {
        let _ = (session, file);
        Err("a remote client cannot export; run `sysop sessions export` on the server".to_owned())
    }

    /// Marks the instruction files of a session's workspace, in their current form, as trusted. The model
    /// gets them with its next step. Returns one sentence for the user.
    async fn trust_workspace(&self, session: &dyn SessionHandle) -> Result<String, String> {
        let _ = session;
        Err("a remote client cannot trust a workspace; start sysop with --trust on the server".to_owned())
    }
}

/// A name with a description, for lists and completions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedItem {
    /// Name, as typed by users.
    pub name: String,
    pub description: String,
}

/// An MCP server from the config, as listed by `/mcp`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolServer {
    pub name: String,
    /// State as a phrase for users, such as `not started; starts with its first call` or `failed: ` with the reason.
    pub state: String,
    /// Names of the server's tools that the session offers.
    pub tools: Vec<String>,
}

/// Renders a routine's command for a session on the given host, from the routine's variables (name and value). The
/// error is one sentence.
pub type RoutineRenderer = Arc<dyn Fn(&str, &[(String, String)]) -> Result<String, String> + Send + Sync>;

/// A named command, possibly with variables.
#[derive(Clone)]
pub struct Routine {
    /// Name, as typed by users.
    pub name: String,
    pub description: String,
    pub variables: Vec<NamedItem>,
    pub render: RoutineRenderer,
}
