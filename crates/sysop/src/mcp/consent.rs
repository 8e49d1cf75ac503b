//! Questions to the user: may this server start, and may its tools have different definitions than before?
//!
//! Only an explicit yes counts. A process below a tool call never asks, because a model could type the answer.

use std::io::{self, IsTerminal};

use anyhow::{Context, Result};
use sysop_core::text::neutralize_line;
use sysop_mcp::definition::ToolDefinition;
use sysop_mcp::record::{DefinitionChange, ServerRecord};
use sysop_mcp::{ConnectionError, probe};

use super::records::Records;
use crate::global_flags::Verbosity;
use crate::settings::{McpServer, Settings};
use crate::{origin, yes_no};

const TOOLS_LISTED_MAX: usize = 40;
const DESCRIPTION_CHARS_MAX: usize = 100;
const DIFF_LINES_MAX: usize = 200;

/// Returns true if this process may ask the user.
pub(super) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal() && !origin::is_under_call()
}

/// Asks about new and changed servers before `chat` or the TUI starts. If nobody can be asked, lists the
/// servers that are waiting for an answer. Fails if the user cannot be asked or the answer cannot be saved.
pub(crate) async fn ask_before_session(settings: &Settings) -> Result<()> {
    if settings.mcp.is_empty() {
        return Ok(());
    }
    if !can_ask() {
        tell_waiting(settings);
        return Ok(());
    }
    let records = Records::new(settings);
    for (server, record) in waiting(settings, &records) {
        if record.consents(&server.identity) {
            ask_about_changes(server, record, &records)?;
        } else if let Some(Err(error)) = ask_to_start(server, record, &records).await? {
            crate::tell(&format!("MCP server {}: {error}", server.settings.name));
        }
    }
    Ok(())
}

/// Returns the servers on which the user must decide.
fn waiting<'a>(settings: &'a Settings, records: &Records) -> Vec<(&'a McpServer, ServerRecord)> {
    let enabled = settings.mcp.iter().filter(|server| server.enabled);
    let with_record = enabled.map(|server| (server, records.load(&server.settings.name)));
    with_record
        .filter(|(server, record)| {
            let is_refused = record.refused && record.consent == server.identity;
            !is_refused && (!record.consents(&server.identity) || record.pending.is_some())
        })
        .collect()
}

/// Lists the servers on which the user must decide, because nobody can be asked now.
pub(crate) fn tell_waiting(settings: &Settings) {
    let waiting = waiting(settings, &Records::new(settings));
    if waiting.is_empty() || settings.verbosity == Verbosity::Quiet {
        return;
    }
    let names: Vec<_> = waiting.iter().map(|(server, _)| server.settings.name.as_str()).collect();
    let names = names.join(", ");
    crate::tell(&format!("MCP servers need your consent: {names}; run `sysop mcp list` on a terminal"));
}

/// Asks for permission to start a server. If the user agrees, starts it and pins its tool definitions.
/// Returns the result of starting it, or `None` if the user did not agree.
pub(super) async fn ask_to_start(
    server: &McpServer,
    mut record: ServerRecord,
    records: &Records,
) -> Result<Option<Result<Vec<ToolDefinition>, ConnectionError>>> {
    let name = &server.settings.name;
    let before = if record.consent.is_empty() { "is new" } else { "has changed since you allowed it" };
    let mut question = format!("The MCP server {name} ({}) {before}:\n", server.origin);
    for line in &server.shown {
        question.push_str(&format!("  {line}\n"));
    }
    question.push_str("It would run with all your rights. Start it, and offer its tools?");
    let agreed = yes_no::ask(&question)?;
    let Some(agreed) = agreed else { return Ok(None) };
    record.consent.clone_from(&server.identity);
    record.refused = !agreed;
    records.save(name, &record).context("cannot save the answer")?;
    if !agreed {
        return Ok(None);
    }
    let stated = start(server).await;
    if let Ok(stated) = &stated {
        record.pin(stated);
        records.save(name, &record).context("cannot save the definitions of the tools")?;
        crate::tell(summary(server, stated, &[]).trim_end());
    }
    Ok(Some(stated))
}

pub(super) async fn start(server: &McpServer) -> Result<Vec<ToolDefinition>, ConnectionError> {
    let connection = probe(&server.settings).await?;
    let stated = connection.tools().await;
    connection.close().await;
    stated
}

/// Shows the definitions that the user has not seen, and asks for permission to use them.
pub(super) fn ask_about_changes(
    server: &McpServer,
    mut record: ServerRecord,
    records: &Records,
) -> Result<bool> {
    let name = &server.settings.name;
    let changes = record.changes();
    let diff: String = changes.iter().map(DefinitionChange::to_text).collect();
    let mut lines: Vec<&str> = diff.lines().collect();
    let cut = lines.len().saturating_sub(DIFF_LINES_MAX);
    lines.truncate(DIFF_LINES_MAX);
    let mut question =
        format!("The MCP server {name} changed the definitions of its tools:\n{}\n", lines.join("\n"));
    if cut > 0 {
        question.push_str(&format!("and {cut} more lines; `sysop mcp list --definitions` shows all\n"));
    }
    question.push_str("The model reads these definitions. Use the new ones?");
    let agreed = yes_no::ask(&question)? == Some(true);
    if agreed && let Some(seen) = record.pending.take() {
        record.pin(&seen);
        records.save(name, &record).context("cannot save the definitions of the tools")?;
    }
    Ok(agreed)
}

/// Returns a summary of a server's tools. `others` are the tools of other servers; a description that
/// mentions one of them is reported.
pub(super) fn summary(
    server: &McpServer,
    tools: &[ToolDefinition],
    others: &[(sysop_mcp::settings::ServerName, String)],
) -> String {
    let count = tools.len();
    let plural = if count == 1 { "" } else { "s" };
    let mut text = format!("{}: {count} tool{plural}\n", server.settings.name);
    for tool in tools.iter().take(TOOLS_LISTED_MAX) {
        let description = tool.description.lines().next().unwrap_or_default();
        let short: String = neutralize_line(description).chars().take(DESCRIPTION_CHARS_MAX).collect();
        text.push_str(&format!("  {}  {short}\n", neutralize_line(&tool.name)));
        if let Err(why) = tool.spec(&server.settings.name, sysop_mcp::settings::ServerApproval::Ask) {
            text.push_str(&format!("    not offered: {why}\n"));
        }
        let mentions = tool.mentions(others.iter().map(|(server, tool)| (server, tool.as_str())));
        if !mentions.is_empty() {
            text.push_str(&format!(
                "    warning: its text mentions {}\n",
                neutralize_line(&mentions.join(", "))
            ));
        }
    }
    if let more @ 1.. = count.saturating_sub(TOOLS_LISTED_MAX) {
        text.push_str(&format!("  and {more} more\n"));
    }
    text
}
