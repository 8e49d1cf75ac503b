//! The mock model server in a separate process, with scenarios for measurements.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const START_MAX: Duration = Duration::from_secs(10);

/// A running mock server, killed on drop.
pub(crate) struct MockProcess {
    child: Child,
    /// Port on 127.0.0.1.
    pub(crate) port: u16,
}

impl MockProcess {
    /// Starts the mock server built into `sysop` with these scenarios, each given as JSON.
    pub(crate) fn start(sysop: &Path, folder: &Path, scenarios: &[String]) -> Result<Self> {
        let file = folder.join("scenarios.json");
        let text =
            format!(r#"{{"scenarios":[{}],"default_response":{{"content":"ok"}}}}"#, scenarios.join(","));
        fs::write(&file, text).context("cannot write the scenarios")?;
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let child = Command::new(sysop)
            .args(["mock-llm", "--port", &port.to_string(), "--scenarios"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start the mock server")?;
        let mock = Self { child, port };
        let deadline = Instant::now() + START_MAX;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if Instant::now() > deadline {
                bail!("the mock server did not start within {START_MAX:?}");
            }
            std::thread::yield_now();
        }
        Ok(mock)
    }
}

impl Drop for MockProcess {
    fn drop(&mut self) {
        // The server may have exited already; either way nothing is left to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a prompt as a JSON message.
pub(crate) fn prompt(text: &str) -> String {
    format!(r#"{{"role":"user","content":"{text}"}}"#)
}

/// Returns, as JSON, the messages that a client sends after the first `calls` calls of a scenario from [`commands`].
pub(crate) fn conversation(trigger: &str, calls: usize) -> String {
    let mut messages = prompt(trigger);
    for index in 0..calls {
        messages.push_str(&format!(
            r#",{{"role":"assistant","content":null,"tool_calls":[{{"id":"call_{index}","type":"function","function":{{"name":"bash","arguments":"{{\"command\":\"true {index}\"}}"}}}}]}},{{"role":"tool","tool_call_id":"call_{index}","content":"[exit code 0]"}}"#
        ));
    }
    messages
}

pub(crate) fn answer(trigger: &str, response: &str) -> String {
    format!(r#"{{"name":"{trigger}","trigger":"{trigger}","steps":[{{"response":{response}}}]}}"#)
}

/// Returns a scenario that calls `bash` with each command, one per step, then answers `done`.
pub(crate) fn commands(trigger: &str, commands: impl IntoIterator<Item = String>) -> String {
    let steps: String = commands
        .into_iter()
        .enumerate()
        .map(|(index, command)| {
            format!(
                r#"{{"response":{{"tool_calls":[{{"id":"call_{index}","type":"function","function":{{"name":"bash","arguments":"{{\"command\":\"{command}\"}}"}}}}]}}}},"#
            )
        })
        .collect();
    format!(
        r#"{{"name":"{trigger}","trigger":"{trigger}","steps":[{steps}{{"response":{{"content":"done"}}}}]}}"#
    )
}
