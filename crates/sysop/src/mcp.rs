//! `sysop mcp`: MCP servers in the config, the user's consent to them, and the tool definitions that the user
//! has seen.
//!
//! A server starts only after the user has agreed to its command line or URL. `sysop mcp add` is consent,
//! because the user typed the command. Otherwise, `sysop mcp list`, `chat` and the TUI ask for it.

mod add;
mod config_file;
mod consent;
mod editor;
mod import;
mod list;
mod records;
mod serve;
mod status;

use std::sync::Arc;

use anyhow::Result;
use sysop_core::policy::ApprovalMode;
use sysop_mcp::definition::ToolDefinition;
use sysop_mcp::record::ServerRecord;
use sysop_mcp::settings::ServerSettings;
use sysop_mcp::{ExternalTool, RecordChange, offered_tools};

pub(crate) use self::consent::{ask_before_session, tell_waiting};
pub(crate) use self::editor::{allow, question, server_of_editor};
use self::records::Records;
pub(crate) use self::status::servers;
use crate::cli::McpCommand;
use crate::exit::Exit;
use crate::global_flags::GlobalFlags;
use crate::settings::{McpServer, Settings};

/// Returns the flags for a command: `serve` is read-only unless the command line says otherwise.
pub(crate) fn flags(flags: GlobalFlags, command: &McpCommand) -> GlobalFlags {
    let approve = match command {
        McpCommand::Serve { .. } => flags.approve.or(Some(ApprovalMode::Never)),
        McpCommand::List { .. }
        | McpCommand::Add(_)
        | McpCommand::Remove { .. }
        | McpCommand::Import { .. } => flags.approve,
    };
    GlobalFlags { approve, ..flags }
}

/// Runs a subcommand of `sysop mcp`.
pub(crate) async fn run(settings: Settings, command: McpCommand) -> Result<Exit> {
    match command {
        McpCommand::List { definitions } => list::run(&settings, definitions).await,
        McpCommand::Add(arguments) => add::run(settings, arguments).await,
        McpCommand::Remove { name } => add::remove(&settings, &name),
        McpCommand::Import { file } => import::run(&settings, &file),
        McpCommand::Serve { attachable } => serve::run(settings, attachable).await,
    }
}

/// Returns the servers that the user has agreed to, each with the definitions that the user has seen.
pub(crate) fn ready_servers(settings: &Settings) -> Vec<(ServerSettings, Vec<ToolDefinition>)> {
    let records = Records::new(settings);
    let ready = settings.mcp.iter().filter(|server| server.enabled).filter_map(|server| {
        let record = record(server, &records);
        record.consents(&server.identity).then(|| (server.settings.clone(), record.tools))
    });
    ready.collect()
}

/// Returns a server's record: the one of this session, or the saved one.
fn record(server: &McpServer, records: &Records) -> ServerRecord {
    server.session_record.clone().unwrap_or_else(|| records.load(&server.settings.name))
}

pub(crate) fn tools(servers: &[(ServerSettings, Vec<ToolDefinition>)]) -> Vec<ExternalTool> {
    offered_tools(servers).0
}

/// Returns the function that records definitions which differ from those that the user has seen.
pub(crate) fn recorder(settings: &Settings) -> RecordChange {
    let records = Records::new(settings);
    Arc::new(move |name, stated| {
        let mut record = records.load(name);
        // Consent for one session has no record: the next session asks in any case.
        if !record.consent.is_empty() && record.observe(stated) {
            // Without the record, the next start does not ask; the call has not been made in any case.
            let _ = records.save(name, &record);
        }
    })
}
