//! A host that adds MCP servers' tools to the tools of another host.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use futures::future::join_all;
use globset::Glob;
use parking_lot::Mutex;
use sysop_core::deferred_tools::inner_call;
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::{CommandContext, Fence, Survey};
use sysop_core::tool::ToolSpec;
use sysop_driver::port::{CancellationToken, DeltaSink, Host};
use sysop_driver::prompter::Prompter;
use sysop_host::OutcomeBuilder;

use crate::client_handler::{CallContext, ClientHandler};
use crate::connection::{Connection, ConnectionError};
use crate::content::{self, ResultContent};
use crate::definition::{ToolDefinition, model_name};
use crate::settings::{ServerApproval, ServerName, ServerSettings};

/// Records a server's current definitions, because they differ from those that the user has seen.
pub type RecordChange = Arc<dyn Fn(&ServerName, &[ToolDefinition]) + Send + Sync>;

/// Settings of an [`McpHost`].
pub struct McpHostSettings {
    /// Servers that the user agreed to, with the definitions that the user has seen.
    pub servers: Vec<(ServerSettings, Vec<ToolDefinition>)>,
    pub outcomes: OutcomeBuilder,
    pub record_change: RecordChange,
}

/// A server's tool, as offered by a session.
#[derive(Debug, Clone, PartialEq)]
pub struct ExternalTool {
    pub server: ServerName,
    pub definition: ToolDefinition,
    pub spec: ToolSpec,
}

/// State of a server in a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ServerState {
    /// No tool has been called yet.
    #[default]
    NotStarted,
    /// The server is running. Holds its name, its version and the protocol version.
    Running(String),
    /// The server failed. Holds the reason.
    Failed(String),
}

/// A server used by a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    pub name: ServerName,
    pub state: ServerState,
    /// Names of the tools that the session offers.
    pub tools: Vec<String>,
}

/// Tools of MCP servers, together with the tools of another host.
pub struct McpHost {
    inner: Arc<dyn Host>,
    tools: HashMap<String, ExternalTool>,
    servers: HashMap<ServerName, Server>,
    /// Reasons why tools of a resumed session cannot be called, by tool name.
    blocked: HashMap<String, String>,
    outcomes: OutcomeBuilder,
    record_change: RecordChange,
    prompter: Mutex<Option<Arc<dyn Prompter>>>,
}

struct Server {
    settings: ServerSettings,
    context: Arc<Mutex<CallContext>>,
    state: Mutex<ServerState>,
    /// The connection; `None` before the first call and after a failure. Calls run one at a time.
    connection: tokio::sync::Mutex<Option<Connection>>,
}

/// Returns the tools that sessions offer, ordered by server and tool name. Tools that cannot be offered are
/// returned with the reason.
pub fn offered_tools(
    servers: &[(ServerSettings, Vec<ToolDefinition>)],
) -> (Vec<ExternalTool>, Vec<(ServerName, String, String)>) {
    let (mut offered, mut refused): (Vec<ExternalTool>, Vec<_>) = (Vec::new(), Vec::new());
    for (settings, definitions) in servers {
        if settings.approve == ServerApproval::Never {
            continue;
        }
        for definition in definitions.iter().filter(|tool| is_selected(settings, &tool.name)) {
            let spec = definition.spec(&settings.name, settings.approve).and_then(|spec| {
                let taken = offered.iter().any(|tool| tool.spec.name == spec.name);
                if taken { Err("another tool has the same name".to_owned()) } else { Ok(spec) }
            });
            match spec {
                Ok(spec) => offered.push(ExternalTool {
                    server: settings.name.clone(),
                    definition: definition.clone(),
                    spec,
                }),
                Err(why) => refused.push((settings.name.clone(), definition.name.clone(), why)),
            }
        }
    }
    offered.sort_by(|a, b| (&a.server, &a.definition.name).cmp(&(&b.server, &b.definition.name)));
    (offered, refused)
}

fn is_selected(settings: &ServerSettings, name: &str) -> bool {
    let matches = |glob: &String| Glob::new(glob).is_ok_and(|glob| glob.compile_matcher().is_match(name));
    // An invalid glob excludes everything.
    let excludes = |glob: &String| Glob::new(glob).map_or(true, |glob| glob.compile_matcher().is_match(name));
    (settings.tools.is_empty() || settings.tools.iter().any(matches))
        && !settings.exclude_tools.iter().any(excludes)
}

impl McpHost {
    /// Adds servers' tools to a host. Starts no server.
    pub fn new(inner: Arc<dyn Host>, settings: McpHostSettings) -> Self {
        let (offered, _) = offered_tools(&settings.servers);
        let tools = offered.into_iter().map(|tool| (tool.spec.name.clone(), tool)).collect();
        let servers = settings.servers.into_iter().map(|(settings, _)| {
            let (context, state, connection) =
                (Arc::default(), Mutex::default(), tokio::sync::Mutex::new(None));
            (settings.name.clone(), Server { settings, context, state, connection })
        });
        Self {
            inner,
            tools,
            servers: servers.collect(),
            blocked: HashMap::new(),
            outcomes: settings.outcomes,
            record_change: settings.record_change,
            prompter: Mutex::default(),
        }
    }

    /// Blocks a resumed session's tools whose definition or permissions have changed since the session
    /// started: the session's policy would check calls against the old ones.
    #[must_use]
    pub fn for_resumed(mut self, tools: &[ToolSpec]) -> Self {
        for old in tools.iter().filter(|tool| tool.effect.is_external()) {
            let why = match self.tools.get(&old.name) {
                Some(tool) if tool.spec == *old => continue,
                Some(_) => "has changed since this session started",
                None => "is no longer available",
            };
            let why =
                format!("`{}` {why}; not called. Start a new session to use the current tools", old.name);
            self.blocked.insert(old.name.clone(), why);
        }
        self
    }

    /// Returns the servers, sorted by name.
    pub fn servers(&self) -> Vec<ServerStatus> {
        let mut servers: Vec<_> = self
            .servers
            .iter()
            .map(|(name, server)| {
                let of_server = self.tools.values().filter(|tool| tool.server == *name);
                let mut tools: Vec<_> = of_server.map(|tool| tool.spec.name.clone()).collect();
                tools.sort();
                ServerStatus { name: name.clone(), state: server.state.lock().clone(), tools }
            })
            .collect();
        servers.sort_by(|a, b| a.name.cmp(&b.name));
        servers
    }

    /// Closes all connections at once and terminates the servers' processes.
    pub async fn close(&self) {
        join_all(self.servers.values().map(|server| async {
            if let Some(connection) = server.connection.lock().await.take() {
                connection.close().await;
            }
        }))
        .await;
    }

    /// Returns true if the call is to a tool of this host, or one that a server had at the session's start.
    fn owns(&self, call: &ToolCall) -> bool {
        self.tools.contains_key(&call.name)
            || self.blocked.contains_key(&call.name)
            || call.name.starts_with(sysop_core::deferred_tools::EXTERNAL_PREFIX)
            || call.name == sysop_core::deferred_tools::CALL_TOOL
    }

    async fn call(&self, call: &ToolCall, sink: DeltaSink, cancel: &CancellationToken) -> Outcome {
        if let Some(why) = self.blocked.get(&call.name) {
            return Outcome::failed(why.clone());
        }
        let Some((tool, server)) =
            self.tools.get(&call.name).and_then(|tool| Some((tool, self.servers.get(&tool.server)?)))
        else {
            return Outcome::failed(format!("no MCP server offers `{}`; not called", call.name));
        };
        let Arguments::Object(arguments) = &call.arguments else {
            return Outcome::failed("the arguments are not a JSON object; not called");
        };
        {
            let mut context = server.context.lock();
            context.prompter = self.prompter.lock().clone();
            context.call = Some((call.id.clone(), sink.clone()));
        }
        let result = self.call_server(tool, server, arguments.clone(), cancel).await;
        server.context.lock().call = None;
        if let Err(
            error @ (ConnectionError::Start(_)
            | ConnectionError::StartTimeout { .. }
            | ConnectionError::Open { .. }
            | ConnectionError::Closed { .. }),
        ) = &result
        {
            *server.state.lock() = ServerState::Failed(error.to_string());
        }
        let (status, content) = match result {
            Ok(called) => called,
            Err(error) => {
                let status = match &error {
                    ConnectionError::CallTimeout { .. } => Status::Timeout,
                    ConnectionError::Canceled => Status::Cancelled,
                    ConnectionError::Closed { .. } => Status::Unknown,
                    ConnectionError::Start(_)
                    | ConnectionError::StartTimeout { .. }
                    | ConnectionError::Open { .. }
                    | ConnectionError::Protocol(_) => Status::Failed,
                };
                (status, ResultContent { text: error.to_string(), images: Vec::new() })
            }
        };
        let mut outcome = self.outcomes.outcome(status, &content.text).await;
        outcome.images = content.images;
        // The other host knows the secrets that users have entered in this session.
        let clean = self.inner.redact(&outcome.output);
        if clean != outcome.output {
            outcome.output = clean;
            outcome.styles = Default::default();
        }
        if !outcome.output.is_empty() {
            sink.output(&format!("{}\n", outcome.output.trim_end_matches('\n')));
        }
        outcome
    }

    async fn call_server(
        &self,
        tool: &ExternalTool,
        server: &Server,
        arguments: serde_json::Map<String, serde_json::Value>,
        cancel: &CancellationToken,
    ) -> Result<(Status, ResultContent), ConnectionError> {
        let mut slot = tokio::select! {
            slot = server.connection.lock() => slot,
            () = cancel.cancelled() => return Err(ConnectionError::Canceled),
        };
        if slot.as_ref().is_some_and(Connection::is_closed)
            && let Some(closed) = slot.take()
        {
            closed.close().await;
        }
        let connection = match slot.take() {
            Some(connection) => connection,
            None => {
                let handler = ClientHandler::new(tool.server.clone(), Arc::clone(&server.context));
                tokio::select! {
                    opened = Connection::open(&server.settings, handler) => {
                        let connection = opened?;
                        *server.state.lock() = ServerState::Running(connection.description());
                        connection
                    }
                    () = cancel.cancelled() => return Err(ConnectionError::Canceled),
                }
            }
        };
        let connection = slot.insert(connection);
        let stated = connection.tools().await?;
        if let Some(why) = self.difference(tool, &stated) {
            (self.record_change)(&tool.server, &stated);
            let notice = format!("MCP server {}: {why}. Run `sysop mcp list` to review it", tool.server);
            if let Some(prompter) = self.prompter.lock().as_ref() {
                prompter.notice(&notice);
            }
            let text = format!("not called: {why}. The user can see the change with `sysop mcp list`");
            return Ok((Status::Rejected, ResultContent { text, images: Vec::new() }));
        }
        let result = connection.call(&tool.definition.name, arguments, cancel).await?;
        let status = if result.is_error == Some(true) { Status::Failed } else { Status::Ok };
        Ok((status, content::read(&result, tool.server.as_str(), &self.outcomes).await))
    }

    /// Returns a phrase if the server's current definition of the tool differs from the one seen by the user.
    fn difference(&self, tool: &ExternalTool, stated: &[ToolDefinition]) -> Option<String> {
        let name = model_name(&tool.server, &tool.definition.name);
        match stated.iter().find(|stated| stated.name == tool.definition.name) {
            None => Some(format!("the server no longer has the tool `{name}`")),
            Some(stated) if stated.hash() != tool.definition.hash() => {
                Some(format!("the server changed the definition of `{name}` since the user saw it"))
            }
            Some(_) => None,
        }
    }
}

#[async_trait]
impl Host for McpHost {
    fn tools(&self) -> &[ToolSpec] {
        self.inner.tools()
    }

    // Fenced calls also go to the wrapped host, which has no server tools: the policy never fences those.
    fn wrapped(&self) -> Option<&dyn Host> {
        Some(&*self.inner)
    }

    async fn survey(&self, call: &ToolCall) -> Survey {
        // Paths in the arguments are checked as written: only the server knows where they lead.
        let inner = inner_call(call);
        if self.owns(&inner) {
            Survey::elsewhere(CommandContext::bash())
        } else {
            self.inner.survey(call).await
        }
    }

    async fn survey_fenced(&self, call: &ToolCall, shell: &Fence) -> Survey {
        if self.owns(&inner_call(call)) {
            return self.survey(call).await;
        }
        self.inner.survey_fenced(call, shell).await
    }

    async fn run(&self, call: ToolCall, sink: DeltaSink, cancel: CancellationToken) -> Outcome {
        let inner = inner_call(&call).into_owned();
        if !self.owns(&inner) && inner.name == call.name {
            return self.inner.run(call, sink, cancel).await;
        }
        let started = Instant::now();
        let outcome = self.call(&inner, sink, &cancel).await;
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Outcome { duration_ms, ..outcome }
    }

    fn redact(&self, output: &str) -> String {
        self.outcomes.redact(&self.inner.redact(output))
    }

    fn set_prompter(&self, people: Arc<dyn Prompter>) {
        *self.prompter.lock() = Some(Arc::clone(&people));
        self.inner.set_prompter(people);
    }
}

impl std::fmt::Debug for McpHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpHost").field("servers", &self.servers.len()).finish_non_exhaustive()
    }
}
