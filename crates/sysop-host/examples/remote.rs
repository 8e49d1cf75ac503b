//! Measures tool calls of `true` on other machines: `remote SSH_CONFIG FOLDER HOST..`. One host is measured as a
//! single machine, several as a fleet. Each result is the minimum of many runs.
#![expect(clippy::print_stdout, reason = "an example that prints")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value};
use sysop_core::id::CallId;
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::Status;
use sysop_driver::port::{CancellationToken, DeltaSink, Host};
use sysop_host::{Fleet, FleetSettings, RemoteSettings, SshConnection, SshHost, SshSettings};

type Failure = Box<dyn std::error::Error>;

/// Duration of repeated calls on open connections, and their minimum number.
const TIME: Duration = Duration::from_secs(1);
const RUNS_MIN: usize = 10;
const CONNECTS: usize = 4;

/// One host, or a fleet of several; not connected yet.
struct RemoteHost {
    host: Arc<dyn Host>,
    connections: Vec<SshConnection>,
}

impl RemoteHost {
    fn open(config: &Path, folder: &Path, names: &[String]) -> Result<Self, Failure> {
        let mut connections = Vec::new();
        let mut hosts: Vec<(String, Arc<dyn Host>)> = Vec::new();
        for name in names {
            let mut settings = SshSettings::new(name, folder.join("control"));
            settings.config_file = Some(config.to_owned());
            let connection = SshConnection::new(settings)?;
            connections.push(connection.clone());
            let host = SshHost::open(RemoteSettings::new(connection, None, folder.join("artefacts")))?;
            hosts.push((name.clone(), Arc::new(host)));
        }
        let host = match hosts.as_slice() {
            [(_, host)] => Arc::clone(host),
            _ => Arc::new(Fleet::new(hosts, FleetSettings::new(folder.join("artefacts")))?),
        };
        Ok(Self { host, connections })
    }

    /// Measures `true` on all hosts.
    async fn command(&self) -> Result<Duration, Failure> {
        let arguments = Map::from_iter([("command".to_owned(), Value::from("true"))]);
        let call = ToolCall {
            id: CallId::new("call"),
            wire_id: None,
            name: "bash".to_owned(),
            arguments: Arguments::Object(arguments),
        };
        let begun = Instant::now();
        let outcome = self.host.run(call, DeltaSink::none(), CancellationToken::new()).await;
        let took = begun.elapsed();
        if outcome.status != Status::Ok {
            return Err(format!("`true` did not run: {}", outcome.output).into());
        }
        Ok(took)
    }

    /// Closes the connections, so that closing does not affect the next measurement.
    async fn close(self) {
        for connection in &self.connections {
            connection.close().await;
        }
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Processor time of this process in milliseconds, without its `ssh` children.
fn own_cpu_ms() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let (Some(config), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("usage: remote SSH_CONFIG FOLDER HOST..".into());
    };
    let (config, folder) = (PathBuf::from(config), PathBuf::from(folder));
    let names: Vec<String> = arguments.collect();

    let (mut first, mut first_cpu) = (Duration::MAX, f64::MAX);
    for _ in 0..CONNECTS {
        let cpu = own_cpu_ms();
        let far = RemoteHost::open(&config, &folder, &names)?;
        first = first.min(far.command().await?);
        first_cpu = first_cpu.min(own_cpu_ms() - cpu);
        far.close().await;
    }
    println!("first_ms {:.3}", ms(first));
    println!("first_own_cpu_ms {:.3}", first_cpu / names.len() as f64);

    let far = RemoteHost::open(&config, &folder, &names)?;
    far.command().await?;
    let (mut best, mut runs) = (Duration::MAX, 0);
    let (begun, cpu) = (Instant::now(), own_cpu_ms());
    while begun.elapsed() < TIME || runs < RUNS_MIN {
        best = best.min(far.command().await?);
        runs += 1;
    }
    let own_cpu = (own_cpu_ms() - cpu) / (runs * names.len()) as f64;
    println!("open_ms {:.3}", ms(best));
    println!("open_own_cpu_ms {own_cpu:.3}");
    far.close().await;
    Ok(())
}
