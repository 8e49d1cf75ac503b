//! sysop as an MCP server (`sysop mcp serve`): a front end for other agents.
//!
//! An agent gets hosts, not a shell: each of its calls is a turn of a normal session, with the session's
//! policy, approvals and log. There is one session per host. The calling agent never approves anything.
//! Approvals are requested from the people watching the session. If there are none, they are requested from
//! the users of the MCP client (elicitation). If the client cannot ask, the call is rejected.
//!
//! The server supports only the protocol versions that start with `initialize`, because only these let a
//! server ask during a call. Clients that prefer later versions fall back to them.

mod approval;
mod session;
mod tools;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, DiscoverResult, ErrorCode,
    ErrorData, Implementation, ListToolsResult, PaginatedRequestParams, ProtocolVersion, ServerCapabilities,
    ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, ServiceExt};
use sysop_core::event::Input;
use sysop_core::id::SessionId;
use sysop_driver::frontend::{AttachedSession, NamedItem};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;

use self::session::{CallEnd, HostSession};
use self::tools::Request;

const INSTRUCTIONS: &str = "Runs commands on the user's machines through sysop. A person may have to approve a call; a \
     rejected call did not run. Do not repeat a rejected call in another form.";

/// Opens a session on a host; an empty name means the default host. The error is one sentence.
pub type OpenSession =
    Arc<dyn Fn(String) -> BoxFuture<'static, Result<AttachedSession, String>> + Send + Sync>;
/// Returns true if people are watching a session elsewhere and can approve its calls.
pub type WatchCheck = Arc<dyn Fn(&SessionId) -> bool + Send + Sync>;

/// Names a session after the client that it serves.
pub type NameSession = Arc<dyn Fn(SessionId, String) -> BoxFuture<'static, ()> + Send + Sync>;

pub struct McpServerSettings {
    pub open: OpenSession,
    pub name_session: NameSession,
    /// Hosts from the user's config.
    pub hosts: Vec<NamedItem>,
    /// True if a model is available for tasks; without one, `ask` is not offered.
    pub has_model: bool,
    pub is_watched: WatchCheck,
    /// Sentence that tells a person how to approve calls; part of the reply if nobody could approve a call.
    pub hint: String,
    /// Sentence for the caller if a call was denied because the session is read-only.
    pub read_only_hint: String,
}

struct Server {
    settings: McpServerSettings,
    /// Sessions by host name, as written by callers.
    sessions: Mutex<BTreeMap<String, Arc<HostSession>>>,
}

/// Serves one client until its input ends. Fails with one sentence if the client does not speak MCP.
pub async fn serve<R, W>(settings: McpServerSettings, input: R, output: W) -> Result<(), String>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let server = Server { settings, sessions: Mutex::default() };
    let running = server.serve((input, output)).await;
    let running = running.map_err(|error| format!("the client does not speak MCP: {error}"))?;
    running.waiting().await.map_err(|error| format!("the server failed: {error}"))?;
    Ok(())
}

impl Server {
    /// Returns the session of a host, opening it if necessary.
    async fn session(&self, host: &str) -> Result<Arc<HostSession>, String> {
        let mut sessions = self.sessions.lock().await;
        if let Some(session) = sessions.get(host)
            && session.is_usable()
        {
            return Ok(Arc::clone(session));
        }
        let opened = (self.settings.open)(host.to_owned()).await?;
        let session = Arc::new(HostSession::new(opened));
        sessions.insert(host.to_owned(), Arc::clone(&session));
        Ok(session)
    }

    fn hosts(&self) -> String {
        let hosts = self.settings.hosts.iter();
        let lines = hosts.map(|host| format!("{}  {}", host.name, host.description).trim_end().to_owned());
        std::iter::once("(if `host` is omitted: the host that sysop was started for)".to_owned())
            .chain(lines)
            .collect::<Vec<_>>()
            .join("\n")
    }

    async fn call(&self, request: Request, context: &RequestContext<RoleServer>) -> Result<CallEnd, String> {
        let Request::Session { host, input } = request else { return Ok(CallEnd::ok(self.hosts())) };
        let session = self.session(&host).await?;
        let caller = approval::Caller::new(context);
        let has_title = matches!(*input, Input::Prompt { .. });
        let end = session.run(*input, &caller, &self.settings).await;
        // The session exists in the store only after its first call.
        if session.take_unnamed() && !has_title {
            (self.settings.name_session)(session.id().clone(), caller.name()).await;
        }
        end
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        info.server_info = Implementation::new("sysop", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(INSTRUCTIONS.to_owned());
        info
    }

    async fn discover(&self, _: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        // Make clients of the later generation use `initialize`.
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "server/discover", None))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::list(self.settings.has_model)))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let parsed = tools::parse(&request.name, request.arguments.unwrap_or_default());
        let ended = match parsed {
            Ok(request) => self.call(request, &context).await,
            Err(why) => Err(why),
        };
        let end = ended.unwrap_or_else(CallEnd::failed);
        let content = vec![ContentBlock::text(end.text)];
        let result = match end.is_error {
            true => CallToolResult::error(content),
            false => CallToolResult::success(content),
        };
        Ok(result.into())
    }
}
