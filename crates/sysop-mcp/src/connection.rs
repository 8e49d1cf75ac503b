//! A connection to one server: starting it, listing its tools, calling them, and shutting it down.
//!
//! Both generations of the protocol are supported: `server/discover` is tried first, then `initialize`. The
//! list of tools is fetched once the server has started, and again after the server reports a change.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, PaginatedRequestParams, ProtocolVersion, Tool as ListedTool,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, RunningService, ServiceError,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{RoleClient, model::ErrorCode};
use secrecy::ExposeSecret;
use serde_json::{Map, Value};
use sysop_core::redact::{KnownSecrets, REDACTED};
use sysop_core::text::neutralize_line;
use sysop_driver::port::CancellationToken;
use sysop_host::PipedProgram;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::time::{Instant, sleep_until, timeout};

use crate::activity::Activity;
use crate::client_handler::ClientHandler;
use crate::definition::ToolDefinition;
use crate::settings::{ServerSettings, ServerTransport};
use crate::transport::AnyTransport;

/// Maximum size of a message from a server, in bytes; larger ones are dropped.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
const TOOLS_MAX: usize = 1_000;
const PAGES_MAX: usize = 50;
/// Maximum number of lines to keep from a server's standard error.
const STDERR_LINES_MAX: usize = 8;
/// Maximum length of a kept line from standard error, in bytes.
const STDERR_LINE_BYTES_MAX: usize = 512;
/// Multiple of the call's timeout after which a call is aborted even if the server reports progress.
const PROGRESS_FACTOR_MAX: u32 = 10;
/// Grace period for a server to exit on its own, and again after SIGTERM.
const STOP_GRACE: Duration = Duration::from_millis(500);
/// Time to wait for a failed server to exit, so that the error can report its exit status.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// Time for a server to answer `initialize` after it has answered a discovery that was given up.
const INITIALIZE_GRACE: Duration = Duration::from_secs(3);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Failure of a server. `Display` is one sentence, followed by the last lines of the server's standard error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    #[error("cannot start the MCP server ({0})")]
    Start(String),
    #[error("the MCP server did not respond within {} s; raise startup_timeout_s{stderr}", limit.as_secs())]
    StartTimeout { limit: Duration, stderr: String },
    #[error("cannot connect to the MCP server: {why}{stderr}")]
    Open { why: String, stderr: String },
    #[error("the MCP server closed the connection{stderr}")]
    Closed { stderr: String },
    #[error("no result within {} s; the call may still run on the MCP server{stderr}", limit.as_secs())]
    CallTimeout { limit: Duration, stderr: String },
    #[error("the MCP server reports an error: {0}")]
    Protocol(String),
    #[error("canceled")]
    Canceled,
}

/// Lines that a server has written to standard error, newest last.
#[derive(Debug, Clone, Default)]
pub(crate) struct StderrTail(Arc<Mutex<Vec<String>>>);

impl StderrTail {
    fn read(&self, stderr: impl AsyncRead + Unpin + Send + 'static) {
        let lines = Arc::clone(&self.0);
        tokio::spawn(async move {
            let mut reader = BufReader::new(stderr);
            let mut line = Vec::new();
            loop {
                let (taken, ends) = match reader.fill_buf().await {
                    Ok([]) | Err(_) => break,
                    Ok(bytes) => {
                        let end = bytes.iter().position(|byte| *byte == b'\n');
                        let part = &bytes[..end.unwrap_or(bytes.len())];
                        let room = STDERR_LINE_BYTES_MAX.saturating_sub(line.len());
                        line.extend_from_slice(&part[..part.len().min(room)]);
                        (end.map_or(bytes.len(), |end| end + 1), end.is_some())
                    }
                };
                reader.consume(taken);
                if ends {
                    keep(&lines, &std::mem::take(&mut line));
                }
            }
            keep(&lines, &line);
        });
    }

    /// Returns the kept lines as a suffix for an error; empty if there are none.
    fn suffix(&self) -> String {
        let lines = self.0.lock();
        if lines.is_empty() {
            return String::new();
        }
        format!(". Its last output on standard error:\n{}", lines.join("\n"))
    }
}

fn keep(lines: &Mutex<Vec<String>>, line: &[u8]) {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end();
    if text.is_empty() {
        return;
    }
    let mut lines = lines.lock();
    if lines.len() == STDERR_LINES_MAX {
        lines.remove(0);
    }
    lines.push(neutralize_line(text).into_owned());
}

pub struct Connection {
    service: RunningService<RoleClient, ClientHandler>,
    program: tokio::sync::Mutex<Option<PipedProgram>>,
    stderr: StderrTail,
    activity: Arc<Activity>,
    /// Definitions from the server's latest list.
    tools: Mutex<Vec<ToolDefinition>>,
    call_timeout: Duration,
    /// Values of the headers, which errors must not contain.
    secrets: KnownSecrets,
}

impl Connection {
    /// Starts the server or connects to it, and fetches the list of its tools.
    pub(crate) async fn open(
        settings: &ServerSettings,
        handler: ClientHandler,
    ) -> Result<Self, ConnectionError> {
        let stderr = StderrTail::default();
        let secrets = KnownSecrets::new(settings.transport.header_secrets());
        let activity = handler.activity();
        let mut lifecycle = either_generation();
        let (service, program) = loop {
            let (transport, program) = match &settings.transport {
                ServerTransport::Stdio(command) => {
                    let (program, pipes) = PipedProgram::start(command)
                        .map_err(|error| ConnectionError::Start(error.to_string()))?;
                    stderr.read(pipes.stderr);
                    (AnyTransport::stdio(pipes.stdout, pipes.stdin, MESSAGE_BYTES_MAX), Some(program))
                }
                ServerTransport::Http { url, headers } => {
                    (AnyTransport::http(http_transport(url, headers)?), None)
                }
            };
            let discovered_late = transport.discovered_late();
            let opening = handler.clone().serve_with_lifecycle(transport, lifecycle);
            let opened = tokio::select! {
                opened = timeout(settings.startup_timeout, opening) => opened.ok(),
                () = grace_after(&discovered_late) => None,
            };
            let why = match opened {
                Some(Ok(service)) => break (service, program),
                // A slow server of the new generation, which rejects `initialize` or ignores it: this time, it gets the
                // time that it needs.
                Some(Err(_)) | None if discovered_late.is_cancelled() => {
                    if let Some(program) = program {
                        program.stop(Duration::ZERO).await;
                    }
                    lifecycle = new_generation();
                    continue;
                }
                Some(Err(error)) => Some(initialize_error(&error, &secrets)),
                None => None,
            };
            return Err(not_opened(settings, why, program, &stderr).await);
        };
        let connection = Self {
            service,
            program: tokio::sync::Mutex::new(program),
            stderr,
            activity,
            tools: Mutex::default(),
            call_timeout: settings.call_timeout,
            secrets,
        };
        match timeout(settings.startup_timeout, connection.list_tools()).await {
            Ok(Ok(())) => Ok(connection),
            Ok(Err(error)) => Err(connection.close_after(error).await),
            Err(_) => {
                let error = start_timeout(settings, connection.stderr.suffix());
                Err(connection.close_after(error).await)
            }
        }
    }

    async fn close_after(self, error: ConnectionError) -> ConnectionError {
        self.close().await;
        error
    }

    /// Returns the current definitions from the server.
    pub async fn tools(&self) -> Result<Vec<ToolDefinition>, ConnectionError> {
        if self.activity.take_list_changed() {
            timeout(self.call_timeout, self.list_tools()).await.map_err(|_| {
                ConnectionError::CallTimeout { limit: self.call_timeout, stderr: self.stderr.suffix() }
            })??;
        }
        Ok(self.tools.lock().clone())
    }

    async fn list_tools(&self) -> Result<(), ConnectionError> {
        self.activity.take_list_changed();
        let mut tools: Vec<ToolDefinition> = Vec::new();
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let params = cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            let page = match self.service.list_tools(params).await {
                Ok(page) => page,
                Err(error) => return Err(self.service_error(error).await),
            };
            tools.extend(page.tools.into_iter().map(definition));
            cursor = page.next_cursor;
            if cursor.is_none() || tools.len() >= TOOLS_MAX {
                break;
            }
        }
        tools.truncate(TOOLS_MAX);
        *self.tools.lock() = tools;
        Ok(())
    }

    /// Calls a tool and waits for its result. On `cancel` or a timeout, the call is canceled on the server.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        cancel: &CancellationToken,
    ) -> Result<CallToolResult, ConnectionError> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let mut calling = std::pin::pin!(self.service.call_tool(params));
        self.activity.touch();
        let started = Instant::now();
        loop {
            let last_activity = self.activity.last().max(started);
            let patience = (last_activity + self.call_timeout)
                .min(started + self.call_timeout * PROGRESS_FACTOR_MAX + self.activity.asked_for(started));
            tokio::select! {
                result = &mut calling => {
                    return match result {
                        Ok(result) => Ok(result),
                        Err(error) => Err(self.service_error(error).await),
                    };
                }
                () = cancel.cancelled() => return Err(ConnectionError::Canceled),
                () = self.activity.question_ended(), if self.activity.is_asking() => {}
                () = sleep_until(patience), if !self.activity.is_asking() => {
                    if self.activity.last() <= last_activity {
                        let stderr = self.stderr.suffix();
                        return Err(ConnectionError::CallTimeout { limit: self.call_timeout, stderr });
                    }
                }
            }
        }
    }

    async fn service_error(&self, error: ServiceError) -> ConnectionError {
        if let ServiceError::McpError(error) = &error {
            let kind = if error.code == ErrorCode::METHOD_NOT_FOUND { " (unknown method)" } else { "" };
            return ConnectionError::Protocol(format!("{}{kind}", safe(&error.message, &self.secrets)));
        }
        if !matches!(error, ServiceError::TransportClosed) {
            let why = safe(&causes(&error), &self.secrets);
            return ConnectionError::Open { why, stderr: self.stderr.suffix() };
        }
        let mut program = self.program.lock().await;
        let ended = match program.as_mut() {
            Some(program) => timeout(LAST_WORDS, program.ended()).await.ok(),
            None => None,
        };
        let end = ended.map(|end| format!(": the program {end}")).unwrap_or_default();
        ConnectionError::Closed { stderr: format!("{end}{}", self.stderr.suffix()) }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.service.is_closed() || self.service.is_transport_closed()
    }

    /// Returns the protocol version in use and the server's own name and version, for users.
    pub fn description(&self) -> String {
        let Some(info) = self.service.peer_info() else { return String::new() };
        let text = match info.server_info.as_ref() {
            Some(server) => {
                let name = format!("{} {}", server.name, server.version);
                format!("{}, protocol {}", name.trim(), info.protocol_version)
            }
            None => format!("protocol {}", info.protocol_version),
        };
        neutralize_line(&text).into_owned()
    }

    /// Closes the connection and terminates the server's processes.
    pub async fn close(self) {
        let Self { mut service, program, .. } = self;
        // A server that does not read delays this; its processes are terminated in any case.
        let _ = service.close_with_timeout(STOP_GRACE).await;
        drop(service);
        if let Some(program) = program.into_inner() {
            program.stop(STOP_GRACE).await;
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("tools", &self.tools.lock().len()).finish_non_exhaustive()
    }
}

/// Tries `server/discover`, and after ten seconds without an answer `initialize`.
fn either_generation() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::LATEST],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    }
}

/// Returns when the server has had its time for `initialize` after a late answer to the discovery.
async fn grace_after(discovered_late: &CancellationToken) {
    discovered_late.cancelled().await;
    tokio::time::sleep(INITIALIZE_GRACE).await;
}

fn new_generation() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] }
}

/// Ends the program of a connection that did not open. Without `why`, the time was up.
async fn not_opened(
    settings: &ServerSettings,
    why: Option<String>,
    program: Option<PipedProgram>,
    stderr: &StderrTail,
) -> ConnectionError {
    let mut ended = None;
    if let Some(mut program) = program {
        ended = timeout(LAST_WORDS, program.ended()).await.ok();
        program.stop(Duration::ZERO).await;
    }
    let stderr = stderr.suffix();
    match (why, ended) {
        (None, _) => start_timeout(settings, stderr),
        (Some(_), Some(end)) => ConnectionError::Open { why: format!("the program {end}"), stderr },
        (Some(why), None) => ConnectionError::Open { why, stderr },
    }
}

fn start_timeout(settings: &ServerSettings, stderr: String) -> ConnectionError {
    ConnectionError::StartTimeout { limit: settings.startup_timeout, stderr }
}

/// Returns the transport for a URL. Redirects are not followed: they would send the headers elsewhere.
fn http_transport(
    url: &url::Url,
    headers: &[(String, secrecy::SecretString)],
) -> Result<StreamableHttpClientTransport<reqwest::Client>, ConnectionError> {
    let bad = |why: String| ConnectionError::Open { why, stderr: String::new() };
    let mut custom = std::collections::HashMap::new();
    for (name, value) in headers {
        let name: reqwest::header::HeaderName =
            name.parse().map_err(|_| bad(format!("invalid header name {name:?}")))?;
        let mut value = reqwest::header::HeaderValue::from_str(value.expose_secret()).map_err(|_| {
            bad(format!("the value of the header `{name}` has characters that HTTP does not allow"))
        })?;
        value.set_sensitive(true);
        custom.insert(name, value);
    }
    // Fails only if the process already has a default provider, which works as well.
    rustls::crypto::ring::default_provider().install_default().ok();
    let client = match url.host_str() {
        Some("localhost" | "127.0.0.1" | "[::1]") => reqwest::Client::builder().no_proxy(),
        Some(_) | None => reqwest::Client::builder(),
    };
    let client = client
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!("sysop/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| bad(causes(&error)))?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
    config.custom_headers = custom;
    config.max_json_response_size = MESSAGE_BYTES_MAX;
    config.max_sse_event_size = MESSAGE_BYTES_MAX;
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

fn initialize_error(error: &ClientInitializeError, secrets: &KnownSecrets) -> String {
    if error.is_authorization_required() {
        return "the server asks for authorization; set the header `Authorization` with headers_env"
            .to_owned();
    }
    safe(&causes(error), secrets)
}

/// Neutralizes text of a server, and removes the headers' values from it.
fn safe(text: &str, secrets: &KnownSecrets) -> String {
    neutralize_line(&secrets.redact(text, REDACTED)).into_owned()
}

fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

fn definition(tool: ListedTool) -> ToolDefinition {
    let annotations = tool.annotations.map(serde_json::to_value);
    ToolDefinition {
        name: tool.name.into_owned(),
        description: tool.description.unwrap_or_default().into_owned(),
        input_schema: Value::Object(tool.input_schema.as_ref().clone()),
        annotations: annotations.and_then(Result::ok).unwrap_or(Value::Null),
    }
}
