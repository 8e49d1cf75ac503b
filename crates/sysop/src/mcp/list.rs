//! `sysop mcp list`: connects to servers that have the user's consent, shows their state, asks about others.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use futures::future::join_all;
use sysop_core::text::neutralize;
use sysop_mcp::definition::ToolDefinition;
use sysop_mcp::record::ServerRecord;
use sysop_mcp::settings::{ServerApproval, ServerName};
use sysop_mcp::{ConnectionError, probe};

use super::consent::{ask_about_changes, ask_to_start, can_ask, summary};
use super::records::Records;
use crate::config::display_path;
use crate::exit::Exit;
use crate::settings::{McpServer, Settings};

/// Workspace files in which other programs list MCP servers.
const WORKSPACE_FILES: [&str; 3] = [".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json"];

/// Result of starting a server, or the reason that it was not started.
enum ServerState {
    Disabled,
    /// The user has not agreed to this command line or URL.
    NoConsent,
    Refused,
    /// The server responded. Holds its description and its tool definitions.
    Running(String, Vec<ToolDefinition>),
    Failed(ConnectionError),
}

pub(super) async fn run(settings: &Settings, definitions: bool) -> Result<Exit> {
    let records = Records::new(settings);
    let states =
        join_all(settings.mcp.iter().map(|server| state(server, records.load(&server.settings.name)))).await;
    let mut failed = false;
    for (server, state) in settings.mcp.iter().zip(states) {
        let mut record = records.load(&server.settings.name);
        if let ServerState::Running(_, stated) = &state {
            if record.tools.is_empty() {
                record.pin(stated);
            } else {
                record.observe(stated);
            }
            records.save(&server.settings.name, &record).context("cannot save the record of the server")?;
        }
        failed |= matches!(state, ServerState::Failed(_));
        if !(matches!(state, ServerState::NoConsent) && can_ask()) {
            crate::emit(neutralize(&describe(settings, server, &state, &record, definitions)).as_bytes())?;
        }
        if !can_ask() {
            continue;
        }
        match state {
            ServerState::NoConsent => {
                if let Some(Err(error)) = ask_to_start(server, record, &records).await? {
                    failed = true;
                    crate::tell(&format!("{}: {error}", server.settings.name));
                }
            }
            ServerState::Running(..) if record.pending.is_some() => {
                ask_about_changes(server, record, &records)?;
            }
            ServerState::Disabled
            | ServerState::Refused
            | ServerState::Running(..)
            | ServerState::Failed(_) => {}
        }
    }
    if settings.mcp.is_empty() {
        crate::emit(b"no MCP servers; add one with `sysop mcp add NAME -- COMMAND`\n")?;
    }
    crate::emit(workspace_files(&settings.root).as_bytes())?;
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

async fn state(server: &McpServer, record: ServerRecord) -> ServerState {
    if !server.enabled {
        return ServerState::Disabled;
    }
    if !record.consents(&server.identity) {
        let is_same = record.refused && record.consent == server.identity;
        return if is_same { ServerState::Refused } else { ServerState::NoConsent };
    }
    let connection = match probe(&server.settings).await {
        Ok(connection) => connection,
        Err(error) => return ServerState::Failed(error),
    };
    let stated = connection.tools().await;
    let description = connection.description();
    connection.close().await;
    match stated {
        Ok(stated) => ServerState::Running(description, stated),
        Err(error) => ServerState::Failed(error),
    }
}

fn describe(
    settings: &Settings,
    server: &McpServer,
    state: &ServerState,
    record: &ServerRecord,
    definitions: bool,
) -> String {
    let name = &server.settings.name;
    let approve = match server.settings.approve {
        ServerApproval::Ask => "every call needs approval",
        ServerApproval::Reads => "read-only calls run without asking",
        ServerApproval::Never => "all tools are disabled (approve = never)",
    };
    let status = match state {
        ServerState::Disabled => "turned off (enabled = false)".to_owned(),
        ServerState::NoConsent => "needs your consent; run `sysop mcp list` on a terminal".to_owned(),
        ServerState::Refused => {
            format!("you rejected it; to be asked again, run `sysop mcp remove {name}` and add it again")
        }
        ServerState::Running(description, _) => format!("ready ({description}); {approve}"),
        ServerState::Failed(error) => format!("failed: {error}"),
    };
    let mut text = format!("{name}  {status}\n");
    for line in &server.shown {
        let _ = writeln!(text, "  {line}");
    }
    let _ = writeln!(text, "  from {}", server.origin);
    if matches!(state, ServerState::Running(..)) {
        let lines = summary(server, &record.tools, &others(settings, name));
        text.extend(lines.lines().map(|line| format!("  {line}\n")));
        if record.pending.is_some() {
            let _ = writeln!(text, "  changed definitions to review: {}", record.changes().len());
        }
    }
    if definitions {
        text.extend(record.tools.iter().map(ToolDefinition::to_text));
        text.extend(record.changes().iter().map(|change| change.to_text()));
    }
    text
}

/// Returns the tools of all servers except `name`.
fn others(settings: &Settings, name: &ServerName) -> Vec<(ServerName, String)> {
    let records = Records::new(settings);
    let servers = settings.mcp.iter().map(|server| &server.settings.name).filter(|other| *other != name);
    let tools = servers.flat_map(|other| {
        let tools = records.load(other).tools;
        tools.into_iter().map(|tool| (other.clone(), tool.name))
    });
    tools.collect()
}

/// Returns a line for each workspace file that lists MCP servers. Servers in such files are never started.
fn workspace_files(root: &Path) -> String {
    let mut text = String::new();
    for name in WORKSPACE_FILES {
        let path = root.join(name);
        let Ok(count) = super::import::count_servers(&path) else { continue };
        let path = display_path(&path);
        let plural = if count == 1 { "" } else { "s" };
        let _ = writeln!(
            text,
            "{path} has {count} MCP server{plural}; to use them, run `sysop mcp import {path}`"
        );
    }
    text
}
