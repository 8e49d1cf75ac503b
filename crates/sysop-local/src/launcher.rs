//! Starts a program that cannot outlive its parent, however the parent dies.
//!
//! The kernel kills a process whose parent dies, but only if the process requests this, and `llama-server` does not. So
//! the supervisor starts its own executable, which makes the request and then becomes the server.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal};

/// Variable with the parent's process id. Selects the launcher, and is removed before the program starts.
const PARENT: &str = "SYSOP_LAUNCHER_PARENT";
/// Exit code if the program cannot be started.
const NOT_STARTED: u8 = 127;

/// Becomes the program in the arguments, if this process was started as a launcher. Returns the exit code if
/// that fails, and `None` if this process is not a launcher. Must be called before any thread is started.
pub fn run_as_launcher() -> Option<u8> {
    let parent = std::env::var(PARENT).ok()?;
    let mut arguments = std::env::args_os().skip(1);
    let program = arguments.next()?;
    if !follow(&parent) {
        return Some(NOT_STARTED);
    }
    let error = Command::new(&program).args(arguments).env_remove(PARENT).exec();
    // The parent reads the server's standard error.
    #[expect(clippy::print_stderr, reason = "the parent process shows the error")]
    {
        eprintln!("cannot start {}: {error}", program.display());
    }
    Some(NOT_STARTED)
}

/// Asks the kernel to kill this process when its parent dies. Returns false if the parent has already died.
#[cfg(target_os = "linux")]
fn follow(parent: &str) -> bool {
    let asked = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let id = parent.parse().ok().and_then(Pid::from_raw);
    asked.is_ok() && id.is_some() && rustix::process::getppid() == id
}

#[cfg(not(target_os = "linux"))]
fn follow(_parent: &str) -> bool {
    true
}

/// Returns the command that starts `program` through the launcher executable.
pub(crate) fn command(
    launcher: Option<&Path>,
    program: &Path,
    arguments: impl IntoIterator<Item = OsString>,
) -> tokio::process::Command {
    let Some(launcher) = launcher else {
        let mut command = tokio::process::Command::new(program);
        command.args(arguments);
        return command;
    };
    let mut command = tokio::process::Command::new(launcher);
    command.env(PARENT, rustix::process::getpid().as_raw_nonzero().to_string());
    command.arg(program).args(arguments);
    command
}
