//! Starts a program that is killed when its parent dies, however the parent dies.
//!
//! The kernel of Linux kills a process whose parent dies, but only if the process requests this, and `llama-server`
//! does not. So the supervisor starts its own executable, which makes the request and then becomes the server. On a
//! system without such a request, a child of the server looks once a second instead (`platform`). If that child is
//! killed, or its shell can start no programs and gives up, the server outlives its parent.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use rustix::process::Pid;

use crate::platform;

/// Variable with the parent's process id. Selects the launcher, and is removed before the program starts.
const PARENT: &str = "SYSOP_LAUNCHER_PARENT";
/// Exit code if the program cannot be started.
const NOT_STARTED: u8 = 127;

/// Becomes the program in the arguments, if this process was started as a launcher. Returns the exit code if
/// that fails, and `None` if this process is not a launcher. Must be called before any thread is started.
pub fn run_as_launcher() -> Option<u8> {
    let parent = std::env::var(PARENT).ok()?;
    let parent = parent.parse().ok().and_then(Pid::from_raw);
    let mut arguments = std::env::args_os().skip(1);
    let program = arguments.next()?;
    // If nothing would kill the program later, or the parent has already died, the program is not started.
    if parent.is_none_or(|parent| platform::die_with(parent).is_err()) {
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
