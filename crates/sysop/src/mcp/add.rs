//! `sysop mcp add` and `remove`.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Serialize;
use sysop_mcp::settings::{ServerApproval, ServerName};

use super::config_file;
use super::consent::{start, summary};
use super::records::Records;
use crate::cli::McpAddArguments;
use crate::config::display_path;
use crate::exit::{CommandError, Exit};
use crate::settings::{McpServer, Settings};

#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct ServerEntry {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) command: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) args: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) env_pass: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) exclude_tools: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) approve: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timeout_s: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) startup_timeout_s: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) enabled: Option<bool>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) env: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) headers_env: BTreeMap<String, String>,
}

pub(super) fn to_toml(servers: &BTreeMap<String, ServerEntry>) -> Result<String> {
    #[derive(Serialize)]
    struct Tables<'a> {
        mcp: &'a BTreeMap<String, ServerEntry>,
    }
    toml::to_string(&Tables { mcp: servers }).context("cannot write the entry as TOML")
}

pub(super) async fn run(settings: Settings, arguments: McpAddArguments) -> Result<Exit> {
    let name = ServerName::parse(&arguments.name).map_err(CommandError::usage)?;
    let similar =
        settings.mcp.iter().map(|server| &server.settings.name).find(|known| known.resembles(&name));
    if let Some(known) = similar {
        let why = format!("the MCP server {known} already exists; remove it first, or choose another name");
        return Err(CommandError::usage(why).into());
    }
    let file = settings.config.own_file.clone();
    let entry = entry(arguments);
    let server =
        McpServer::from_toml(&name, &toml::to_string(&entry)?, &settings).map_err(CommandError::usage)?;
    let servers = BTreeMap::from([(name.to_string(), entry)]);
    config_file::add(&file, &to_toml(&servers)?).map_err(CommandError::failed)?;
    crate::tell(&format!("added to {}", display_path(&file)));
    let records = Records::new(&settings);
    let mut record = records.load(&name);
    record.consent.clone_from(&server.identity);
    record.refused = false;
    record.pin(&[]);
    records.save(&name, &record).context("cannot save your consent")?;
    if server.settings.approve == ServerApproval::Never {
        return Ok(Exit::Done);
    }
    match start(&server).await {
        Ok(tools) => {
            record.pin(&tools);
            records.save(&name, &record).context("cannot save the definitions of the tools")?;
            crate::emit(sysop_core::text::neutralize(&summary(&server, &tools, &[])).as_bytes())
        }
        Err(error) => {
            let hint = "hint: to try again, run `sysop mcp list`";
            crate::tell(&format!("warning: added, but {error}\n{hint}"));
            Ok(Exit::Failed)
        }
    }
}

fn entry(arguments: McpAddArguments) -> ServerEntry {
    let mut words = arguments.command.into_iter();
    ServerEntry {
        command: words.next(),
        args: words.collect(),
        cwd: arguments.cwd,
        url: arguments.url,
        env_pass: arguments.env_pass,
        tools: arguments.tools,
        approve: arguments.calls,
        env: arguments.env.into_iter().collect(),
        headers_env: arguments.headers.into_iter().collect(),
        ..ServerEntry::default()
    }
}

pub(super) fn remove(settings: &Settings, name: &str) -> Result<Exit> {
    let file = &settings.config.own_file;
    config_file::remove(file, name).map_err(CommandError::usage)?;
    if let Ok(name) = ServerName::parse(name) {
        Records::new(settings).remove(&name).context("cannot remove the record of the server")?;
    }
    crate::tell(&format!("removed from {}", display_path(file)));
    Ok(Exit::Done)
}
