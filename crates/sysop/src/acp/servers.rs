//! The user's consent to the MCP servers that an editor names for a new session.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use sysop_acp::{BackendError, ConsentScope, EditorServer, OpenedSession, ServerConsents, ServerQuestion};
use sysop_core::id::SessionId;
use sysop_core::text::neutralize_line;

use super::EditorSessions;
use crate::mcp;
use crate::settings::{McpServer, Settings};

/// Adds the editor's servers to a session's settings. Returns sentences about those that cannot be used.
pub(super) fn add(settings: &mut Settings, servers: Vec<EditorServer>) -> Vec<String> {
    let mut notes = Vec::new();
    for server in servers {
        let name = neutralize_line(&server.name).into_owned();
        match mcp::server_of_editor(server, settings) {
            Ok(server) => settings.mcp.push(server),
            Err(why) => notes.push(format!("The editor's MCP server {name} is not used: {why}.")),
        }
    }
    notes
}

/// Returns the editor's servers that wait for the user.
pub(super) fn waiting(settings: &Settings) -> Vec<ServerQuestion> {
    let of_editor = settings.mcp.iter().filter(|server| server.is_of_editor);
    of_editor.filter_map(|server| mcp::question(server, settings)).collect()
}

/// The servers of a session that was just created, with their questions.
pub(super) struct NewSessionServers {
    pub(super) sessions: EditorSessions,
    pub(super) folder: PathBuf,
    pub(super) id: SessionId,
    /// Settings with which the session was created.
    pub(super) settings: Arc<Settings>,
    /// The editor's servers, with the records of this session.
    pub(super) servers: Mutex<Vec<McpServer>>,
    pub(super) questions: Vec<ServerQuestion>,
}

#[async_trait]
impl ServerConsents for NewSessionServers {
    fn questions(&self) -> Vec<ServerQuestion> {
        self.questions.clone()
    }

    async fn allow(&self, server: &str, scope: ConsentScope) -> Result<String, String> {
        let find =
            |servers: &[McpServer]| servers.iter().position(|known| known.settings.name.as_str() == server);
        let asked = {
            let servers = self.servers.lock();
            find(&servers).map(|at| servers[at].clone())
        };
        let mut asked = asked.ok_or("no such server")?;
        let summary = mcp::allow(&mut asked, scope, &self.settings).await?;
        let mut servers = self.servers.lock();
        if let Some(at) = find(&servers) {
            servers[at] = asked;
        }
        Ok(summary)
    }

    async fn reopen(&self) -> Result<OpenedSession, BackendError> {
        let servers = self.servers.lock().clone();
        let services = self.sessions.services(Some(self.folder.clone()), move |settings| {
            settings.mcp.extend(servers);
            Vec::new()
        });
        let (services, _) = services.await?;
        let attached = services.create_lazy_as(self.id.clone());
        let attached = attached.map_err(|error| BackendError::Failed(format!("{error:#}")))?;
        Ok(self.sessions.opened(&services, attached))
    }
}
