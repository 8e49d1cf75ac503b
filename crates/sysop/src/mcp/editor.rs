//! MCP servers that an editor names for a session: as settings, and the user's consent to them.
//!
//! They follow the rules of servers in the config. Their records are stored by command line, because different
//! workspaces give different servers the same name.

use anyhow::Result;
use sysop_acp::{ConsentScope, EditorServer, ServerQuestion};
use sysop_core::text::neutralize_line;
use sysop_mcp::record::{DefinitionChange, ServerRecord};
use sysop_mcp::settings::ServerName;

use super::consent::{start, summary};
use super::import::clean_name;
use super::records::Records;
use crate::settings::{McpServer, Settings};

/// Returns the settings of a server that an editor names. Fails with one sentence if it cannot be used, or if the
/// config or the editor already has a server of this name.
pub(crate) fn server_of_editor(server: EditorServer, settings: &Settings) -> Result<McpServer, String> {
    let name = ServerName::parse(&clean_name(&server.name))?;
    if settings.mcp.iter().any(|known| known.settings.name.resembles(&name)) {
        return Err(
            "there is a server of this name already, in the config or in the editor's list".to_owned()
        );
    }
    McpServer::of_editor(name, server.transport, settings)
}

/// Returns the question about a server, or `None` if it needs no consent.
pub(crate) fn question(server: &McpServer, settings: &Settings) -> Option<ServerQuestion> {
    let record = super::record(server, &Records::new(settings));
    let name = &server.settings.name;
    let shown = server.shown.iter().map(|line| format!("- {line}\n")).collect::<String>();
    let (title, text) = if !record.consents(&server.identity) {
        let title =
            format!("Start the MCP server {name} ({})", server.shown.first().map_or("", String::as_str));
        let text = format!(
            "The editor names the MCP server {name}:\n\n{shown}\nA workspace may have written this. It would run with all your \
             rights; each call of its tools needs your approval."
        );
        (title, text)
    } else {
        let diff: String = record.changes().iter().map(DefinitionChange::to_text).collect();
        if diff.is_empty() {
            return None;
        }
        let text = format!(
            "The MCP server {name} changed the definitions of its tools, which are text for the model:\n\n```diff\n{}```",
            diff.replace("```", "` ` `")
        );
        (format!("Use the changed tools of the MCP server {name}"), text)
    };
    Some(ServerQuestion { server: name.to_string(), title, text })
}

/// Records the user's consent to a server and starts it once to see its tools, or accepts its changed definitions.
/// Returns a summary of the tools. Fails with one sentence if the server does not start or the record cannot be saved.
pub(crate) async fn allow(
    server: &mut McpServer,
    scope: ConsentScope,
    settings: &Settings,
) -> Result<String, String> {
    let records = Records::new(settings);
    let mut record = super::record(server, &records);
    let seen = match record.pending.take() {
        Some(seen) if record.consents(&server.identity) => seen,
        _ => start(server).await.map_err(|error| error.to_string())?,
    };
    record = ServerRecord { consent: server.identity.clone(), refused: false, ..record };
    record.pin(&seen);
    if scope == ConsentScope::Always {
        let saved = records.save(&server.settings.name, &record);
        saved
            .map_err(|error| format!("cannot save your consent: {}", neutralize_line(&error.to_string())))?;
    }
    server.session_record = Some(record);
    Ok(summary(server, &seen, &[]))
}
