//! A host with one MCP server, which `server.py` plays.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use sysop_core::id::CallId;
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::Outcome;
use sysop_driver::port::{CancellationToken, DeltaSink, Host};
use sysop_host::{LocalHost, LocalSettings, OutcomeBuilder, OutputLimits, PipedCommand};
use sysop_mcp::definition::ToolDefinition;
use sysop_mcp::settings::{ServerApproval, ServerName, ServerSettings, ServerTransport};
use sysop_mcp::{McpHost, McpHostSettings, probe};
use tempfile::TempDir;

pub(crate) const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/server.py");

pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) host: McpHost,
    /// Lists of definitions that the host recorded as changed.
    pub(crate) changes: Arc<Mutex<Vec<Vec<ToolDefinition>>>>,
    pub(crate) live: Arc<Mutex<String>>,
}

/// Returns the settings of a server with a behavior of `server.py`.
pub(crate) fn server(name: &str, mode: &str, argument: &Path) -> ServerSettings {
    let environment = vec![
        ("PATH".to_owned(), std::env::var("PATH").expect("a PATH").into()),
        ("GIVEN_TOKEN".to_owned(), "hunter22".into()),
    ];
    ServerSettings {
        name: ServerName::parse(name).expect("a name"),
        transport: ServerTransport::Stdio(PipedCommand {
            program: "python3".into(),
            arguments: vec![SERVER.into(), mode.into(), argument.display().to_string()],
            environment,
            folder: "/".into(),
        }),
        tools: Vec::new(),
        exclude_tools: Vec::new(),
        approve: ServerApproval::Ask,
        call_timeout: Duration::from_secs(60),
        startup_timeout: Duration::from_secs(60),
    }
}

impl World {
    /// Creates a host with the server `test`, whose definitions are pinned as they are now.
    pub(crate) async fn new(mode: &str) -> Self {
        Self::with(mode, |_| {}).await
    }

    pub(crate) async fn with(mode: &str, change: impl FnOnce(&mut ServerSettings)) -> Self {
        let folder = TempDir::new().expect("a folder");
        std::fs::write(folder.path().join("argument"), "Returns its text").expect("a file");
        let mut settings = server("test", mode, &folder.path().join("argument"));
        let calm = server("test", "calm", &folder.path().join("argument"));
        let connection = probe(&calm).await.expect("it starts");
        let definitions = connection.tools().await.expect("it lists its tools");
        connection.close().await;
        change(&mut settings);
        Self::assemble(folder, settings, definitions)
    }

    fn assemble(folder: TempDir, settings: ServerSettings, definitions: Vec<ToolDefinition>) -> Self {
        let artifacts = folder.path().join("artefacts");
        let inner = LocalHost::open(LocalSettings::new(folder.path(), &artifacts)).expect("a host");
        let changes: Arc<Mutex<Vec<Vec<ToolDefinition>>>> = Arc::default();
        let recorded = Arc::clone(&changes);
        let limits = OutputLimits { bytes: 2_000, lines: 100 };
        let settings = McpHostSettings {
            servers: vec![(settings, definitions)],
            outcomes: OutcomeBuilder::new(limits, artifacts, &["hunter22".into()]),
            record_change: Arc::new(move |_, tools| recorded.lock().push(tools.to_vec())),
        };
        let host = McpHost::new(Arc::new(inner), settings);
        Self { folder, host, changes, live: Arc::default() }
    }

    /// Calls a tool of the server.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        self.call_until(tool, arguments, CancellationToken::new()).await
    }

    pub(crate) async fn call_until(
        &self,
        tool: &str,
        arguments: Value,
        cancel: CancellationToken,
    ) -> Outcome {
        let live = Arc::clone(&self.live);
        let sink = DeltaSink::new(move |text| live.lock().push_str(text));
        self.host.run(call(&format!("mcp__test__{tool}"), arguments), sink, cancel).await
    }

    /// Lets the server act as its mode says.
    pub(crate) async fn act(&self) -> Outcome {
        self.call("act", json!({})).await
    }
}

pub(crate) fn call(name: &str, arguments: Value) -> ToolCall {
    let arguments: Map<String, Value> = serde_json::from_value(arguments).expect("an object");
    ToolCall {
        id: CallId::new("1"),
        wire_id: None,
        name: name.to_owned(),
        arguments: Arguments::Object(arguments),
    }
}
