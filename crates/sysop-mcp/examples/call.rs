//! Prints the shortest duration of a tool call: `call CALLS TOOL ARGUMENTS COMMAND…` starts an MCP server and calls the
//! tool that often, as a session does.
#![expect(clippy::print_stdout, reason = "an example that prints")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use sysop_core::id::CallId;
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::Status;
use sysop_driver::port::{CancellationToken, DeltaSink, Host};
use sysop_host::{LocalHost, LocalSettings, OutcomeBuilder, OutputLimits, PipedCommand};
use sysop_mcp::settings::{
    CALL_TIMEOUT_DEFAULT, STARTUP_TIMEOUT_DEFAULT, ServerApproval, ServerName, ServerSettings,
    ServerTransport,
};
use sysop_mcp::{McpHost, McpHostSettings, probe};

type BoxError = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| arguments.next().ok_or_else(|| format!("missing {what}"));
    let calls: u32 = next("number of calls")?.parse()?;
    let (tool, tool_arguments) = (next("tool")?, serde_json::from_str(&next("arguments")?)?);
    let program = next("command")?;
    let settings = ServerSettings {
        name: ServerName::parse("bench")?,
        transport: ServerTransport::Stdio(PipedCommand {
            program,
            arguments: arguments.collect(),
            environment: vec![("PATH".to_owned(), std::env::var("PATH")?.into())],
            folder: "/".into(),
        }),
        tools: Vec::new(),
        exclude_tools: Vec::new(),
        approve: ServerApproval::Ask,
        call_timeout: CALL_TIMEOUT_DEFAULT,
        startup_timeout: STARTUP_TIMEOUT_DEFAULT,
    };
    let connection = probe(&settings).await?;
    let definitions = connection.tools().await?;
    connection.close().await;
    let folder = std::env::temp_dir();
    let inner = LocalHost::open(LocalSettings::new(&folder, &folder))?;
    let host = McpHost::new(
        Arc::new(inner),
        McpHostSettings {
            servers: vec![(settings, definitions)],
            outcomes: OutcomeBuilder::new(OutputLimits::default(), folder, &[]),
            record_change: Arc::new(|_, _| {}),
        },
    );
    let call = ToolCall {
        id: CallId::new("1"),
        wire_id: None,
        name: format!("mcp__bench__{tool}"),
        arguments: Arguments::Object(tool_arguments),
    };
    let mut best = Duration::MAX;
    for _ in 0..calls {
        let begun = Instant::now();
        let outcome = host.run(call.clone(), DeltaSink::none(), CancellationToken::new()).await;
        best = best.min(begun.elapsed());
        if outcome.status != Status::Ok {
            return Err(outcome.output.into());
        }
    }
    host.close().await;
    println!("best_ms {}", best.as_secs_f64() * 1e3);
    Ok(())
}
