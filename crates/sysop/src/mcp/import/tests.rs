//! Imports of the configurations of other programs.

use super::{import, json};
use crate::mcp::add::to_toml;

fn imported(text: &str) -> (String, Vec<String>) {
    let import = import(&serde_json::from_str(&json::plain(text)).unwrap());
    (to_toml(&import.servers).unwrap(), import.notes)
}

#[test]
fn files_of_claude_and_cursor_are_read() {
    let (toml, notes) = imported(
        r#"{"mcpServers": {
            "git hub": {"command": "npx", "args": ["-y", "srv"], "env": {"TOKEN": "${TOKEN}", "LEVEL": "info"}, "trust": true},
            "web": {"type": "http", "url": "https://x.example/mcp", "headers": {"Authorization": "${BEARER}", "X-A": "b"}},
            "old": {"type": "sse", "url": "https://x.example/sse"},
            "odd": {"command": "${HOME}/bin/x"},
        }}"#,
    );
    assert_eq!(
        toml,
        "[mcp.git-hub]\ncommand = \"npx\"\nargs = [\"-y\", \"srv\"]\nenv_pass = [\"TOKEN\"]\n\n[mcp.git-hub.env]\nLEVEL = \
         \"info\"\n\n[mcp.web]\nurl = \"https://x.example/mcp\"\n\n[mcp.web.headers_env]\nAuthorization = \"BEARER\"\n"
    );
    let notes = notes.join("\n");
    assert!(notes.contains("git hub is named git-hub here"), "{notes}");
    assert!(notes.contains("web: the header X-A is left out"), "{notes}");
    assert!(notes.contains("old: left out: the old SSE transport is not supported"), "{notes}");
    assert!(notes.contains("odd: left out: ${HOME}/bin/x would be expanded"), "{notes}");
}

#[test]
fn files_of_vs_code_and_opencode_are_read() {
    let (toml, notes) = imported(
        r#"{"servers": {"a": {"type": "stdio", "command": "x", "env": {"K": "${input:key}"}}, "b": {"command": "y"}}}"#,
    );
    assert_eq!(toml, "[mcp.b]\ncommand = \"y\"\n");
    assert!(notes[0].contains("the variable K would be expanded"), "{notes:?}");
    let (toml, _) = imported(
        r#"{"mcp": {"a": {"type": "local", "command": ["npx", "srv"], "environment": {"K": "{env:K}"}, "enabled": false}}}"#,
    );
    assert_eq!(toml, "[mcp.a]\ncommand = \"npx\"\nargs = [\"srv\"]\nenv_pass = [\"K\"]\nenabled = false\n");
}

#[test]
fn files_of_codex_are_read() {
    let table: toml::Table =
        "[mcp_servers.a]\ncommand = 'x'\nenv_vars = ['K']\ntool_timeout_sec = 9\nenabled_tools = ['t']\n\
                              default_tools_approval_mode = 'approve'\n"
            .parse()
            .unwrap();
    let import = import(&serde_json::to_value(table).unwrap());
    let toml = to_toml(&import.servers).unwrap();
    assert_eq!(toml, "[mcp.a]\ncommand = \"x\"\nenv_pass = [\"K\"]\ntools = [\"t\"]\ntimeout_s = 9\n");
}

#[test]
fn files_of_gemini_keep_tools_and_timeouts() {
    let (toml, notes) = imported(
        r#"{"mcpServers": {
            "a": {"command": "x", "excludeTools": ["rm", "drop(table)"], "timeout": 600000, "trust": true},
            "b": {"httpUrl": "https://b.example/mcp", "includeTools": ["q", "w"], "excludeTools": ["w"], "oauth": {"enabled": true}},
            "c": {"command": "x", "timeout": 30}
        }}"#,
    );
    assert_eq!(
        toml,
        "[mcp.a]\ncommand = \"x\"\nexclude_tools = [\"rm\", \"drop\"]\ntimeout_s = 600\n\n[mcp.b]\nurl = \"https://b.example/mcp\"\n\
         tools = [\"q\", \"w\"]\nexclude_tools = [\"w\"]\n\n[mcp.c]\ncommand = \"x\"\n"
    );
    assert_eq!(
        notes,
        [
            "b: not imported: oauth",
            "c: `timeout` is not imported, because its unit is unclear; use timeout_s"
        ]
    );
}

#[test]
fn other_forms_of_timeouts_headers_and_switches_are_read() {
    let (toml, notes) = imported(
        r#"{"mcp": {"servers": {"a": {"type": "local", "command": ["x"], "disabled": true, "timeout": {"startup": 90000, "request": 1500}},
            "b": {"url": "https://b.example/mcp", "bearer_token_env_var": "T", "env_http_headers": {"X": "V"}, "scopes": ["s"]}}}}"#,
    );
    assert_eq!(
        toml,
        "[mcp.a]\ncommand = \"x\"\ntimeout_s = 2\nstartup_timeout_s = 90\nenabled = false\n\n[mcp.b]\n\
         url = \"https://b.example/mcp\"\n\n[mcp.b.headers_env]\nX = \"V\"\n"
    );
    assert!(
        notes[0].contains("`Bearer ` followed by the value of T") && notes[1] == "b: not imported: scopes",
        "{notes:?}"
    );
}

#[test]
fn a_file_without_servers_imports_nothing() {
    assert_eq!(imported("{}").0, "[mcp]\n");
    assert_eq!(
        imported(r#"{"mcpServers": {"\u001b[2J": 7}}"#).1[1],
        "\\x1b[2J: left out: the entry is not a table"
    );
}
