//! Runs one of the user's programs: without a shell, in a separate process group, with a minimal environment,
//! a JSON object on standard input, and bounded output and time.

use std::io;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use crate::config::UserProgram;
use crate::origin::CALL_VARIABLE_PREFIX;

/// Maximum size of standard output, in bytes; larger output is an error.
const OUTPUT_BYTES_MAX: u64 = 64 * 1024;
const ERROR_BYTES_MAX: u64 = 4 * 1024;
/// Variables passed to a program from sysop's environment.
const VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
];

/// Result of a program that has exited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finished {
    /// Exit code; `None` if the program was killed by a signal.
    pub(crate) code: Option<i32>,
    pub(crate) output: String,
    pub(crate) error: String,
}

/// A process group that is killed on drop.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Fails if all of the group's processes have exited.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Runs a program until it exits, then kills what is left of its process group. Dropping the future kills the
/// program. Fails if it cannot be started, does not exit in time, or prints too much. The error is a phrase.
pub(crate) async fn run(program: &UserProgram, input: &Value) -> Result<Finished, String> {
    let work = run_to_end(program, input);
    match tokio::time::timeout(program.timeout, work).await {
        Ok(finished) => finished,
        Err(_) => Err(format!("the program did not end within {} s", program.timeout.as_secs())),
    }
}

async fn run_to_end(program: &UserProgram, input: &Value) -> Result<Finished, String> {
    let mut command = Command::new(&program.run[0]);
    command.args(&program.run[1..]).env_clear();
    command.envs(VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    // A hook is not a user: subcommands such as `sysop approve` refuse to run under it.
    command.env(format!("{CALL_VARIABLE_PREFIX}HOOK"), "1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.current_dir("/").process_group(0).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| format!("the program cannot be started: {error}"))?;
    let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let group = Group(id);
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let line = format!("{input}\n");
    let writing = async {
        if let Some(mut stdin) = stdin {
            // A program may exit without reading its input.
            let _ = stdin.write_all(line.as_bytes()).await;
        }
    };
    // What is left of the group may hold the pipes open, so it is killed before their end is awaited.
    let ending = async {
        let status = child.wait().await;
        drop(group);
        status
    };
    let (status, output, error, ()) =
        tokio::join!(ending, read(stdout, OUTPUT_BYTES_MAX), read(stderr, ERROR_BYTES_MAX), writing);
    let status = status.map_err(|error| format!("the exit status of the program is unknown: {error}"))?;
    let (output, cut) =
        output.map_err(|error| format!("the output of the program cannot be read: {error}"))?;
    if cut {
        return Err(format!("the program printed more than {} KiB", OUTPUT_BYTES_MAX / 1024));
    }
    let error = error.map(|(text, _)| text).unwrap_or_default();
    Ok(Finished { code: status.code(), output, error })
}

/// Reads up to `most` bytes and discards the rest. The second value is true if there was more.
async fn read(from: Option<impl AsyncRead + Unpin>, most: u64) -> io::Result<(String, bool)> {
    let Some(mut from) = from else { return Ok((String::new(), false)) };
    let mut kept = Vec::new();
    (&mut from).take(most).read_to_end(&mut kept).await?;
    let more = tokio::io::copy(&mut from, &mut tokio::io::sink()).await?;
    Ok((String::from_utf8_lossy(&kept).into_owned(), more > 0))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::run;
    use crate::config::UserProgram;

    #[tokio::test]
    async fn a_child_that_keeps_running_delays_no_answer() {
        let script = "sleep 1000 & echo no; exit 2";
        let run_words = ["sh", "-c", script].map(str::to_owned).to_vec();
        let program = UserProgram { run: run_words, timeout: Duration::from_secs(60) };
        let finished = run(&program, &json!({})).await.unwrap();
        assert_eq!((finished.code, finished.output.as_str()), (Some(2), "no\n"));
    }
}
