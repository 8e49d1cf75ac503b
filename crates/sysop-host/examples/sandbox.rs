//! Measures `true` run by `bash`, alternating with and without a fence, and prints the minimum of each: `cargo run
//! --release -p sysop-host --example sandbox`.
#![expect(clippy::print_stdout, reason = "an example that prints")]

use std::time::{Duration, Instant};

use serde_json::{Map, json};
use sysop_core::id::CallId;
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::Status;
use sysop_core::policy::Fence;
use sysop_driver::port::{CancellationToken, DeltaSink, Host};
use sysop_host::{LocalHost, LocalSettings, SandboxSupport};

type Failure = Box<dyn std::error::Error>;

/// Number of commands of each kind.
const RUNS: usize = 300;

fn call(number: usize) -> ToolCall {
    let arguments = Map::from_iter([("command".to_owned(), json!("true"))]);
    ToolCall {
        id: CallId::new(format!("call-{number}")),
        wire_id: None,
        name: "bash".to_owned(),
        arguments: Arguments::Object(arguments),
    }
}

async fn run(host: &LocalHost, fence: &Fence, number: usize) -> Result<Duration, Failure> {
    let (call, sink, cancel) = (call(number), DeltaSink::none(), CancellationToken::new());
    let start = Instant::now();
    let outcome = match fence {
        Fence::Off => host.run(call, sink, cancel).await,
        Fence::ReadOnly { .. } | Fence::Workspace { .. } => {
            host.run_fenced(call, fence.clone(), sink, cancel).await
        }
    };
    let took = start.elapsed();
    if outcome.status != Status::Ok {
        return Err(outcome.output.into());
    }
    Ok(took)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let folder = std::env::temp_dir().join(format!("sysop-sandbox-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let settings = LocalSettings::new(&folder, folder.join("artefacts"));
    let host = LocalHost::open(LocalSettings { sandbox: SandboxSupport::of_kernel(), ..settings })?;
    let fences = [
        ("plain_ms", Fence::Off),
        ("workspace_ms", Fence::Workspace { write: Vec::new(), network: true }),
        ("read_only_ms", Fence::ReadOnly { network: false }),
    ];
    let mut best = [Duration::MAX; 3];
    for number in 0..RUNS {
        for ((_, fence), best) in fences.iter().zip(&mut best) {
            *best = run(&host, fence, number).await?.min(*best);
        }
    }
    for ((name, _), best) in fences.iter().zip(best) {
        println!("{name} {:.3}", best.as_secs_f64() * 1e3);
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
