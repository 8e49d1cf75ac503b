//! States of a session's servers, for `/mcp`.

use sysop_driver::frontend::ToolServer;
use sysop_mcp::settings::ServerApproval;
use sysop_mcp::{ServerState, ServerStatus};

use super::records::Records;
use crate::settings::{McpServer, Settings};

/// Returns the servers in the config. `of_session` are those whose tools the session offers. Starts no server.
pub(crate) fn servers(settings: &Settings, of_session: &[ServerStatus]) -> Vec<ToolServer> {
    let records = Records::new(settings);
    let servers = settings.mcp.iter().map(|server| {
        let name = &server.settings.name;
        let in_session = of_session.iter().find(|status| status.name == *name);
        let record = records.load(name);
        let state = if !server.enabled {
            "turned off (enabled = false)".to_owned()
        } else if !record.consents(&server.identity) {
            "needs your consent; run `sysop mcp list` on a terminal".to_owned()
        } else if record.pending.is_some() {
            let state = in_session.map(|status| format!("{}; ", state_in_session(status)));
            format!(
                "{}changed its tools; run `sysop mcp list` on a terminal to review them",
                state.unwrap_or_default()
            )
        } else {
            in_session.map_or_else(|| unused(server), state_in_session)
        };
        let tools = in_session.map(|status| status.tools.clone()).unwrap_or_default();
        ToolServer { name: name.to_string(), state, tools }
    });
    servers.collect()
}

fn state_in_session(status: &ServerStatus) -> String {
    match &status.state {
        ServerState::NotStarted => "not started; starts with its first call".to_owned(),
        ServerState::Running(description) => format!("running ({description})"),
        ServerState::Failed(why) => format!("failed: {why}"),
    }
}

/// Returns the state of a server that is not used by the session.
fn unused(server: &McpServer) -> String {
    match server.settings.approve {
        ServerApproval::Never => "all tools are disabled (approve = never)".to_owned(),
        ServerApproval::Ask | ServerApproval::Reads => {
            "not part of this session; start a new session to use it".to_owned()
        }
    }
}
