//! A program that this process talks to through its standard streams, such as an MCP server on this machine.
//!
//! The program leads a session of its own, so that it cannot read from or write to the user's terminal. It gets exactly
//! the environment that the caller states. When the value is dropped, or this process ends in any way, the program is
//! killed with all processes that it started.

use std::ffi::CString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_setfl};
use secrecy::{ExposeSecret, SecretString};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::time::{Instant, sleep, timeout};

use super::process::{ChildProcess, KILL_WAIT_MAX, STOP_POLL_INTERVAL, run_blocking};
use crate::environment::is_executable;
use crate::machine::ExitReason;
use crate::pipe::{blocking_pipe, default_pipe};
use crate::spawn::{SpawnSpec, spawn};
use crate::watchdog::{Watchdog, WatchedGroup};

static WATCHDOG: LazyLock<Watchdog> = LazyLock::new(Watchdog::default);
/// Shell that runs the watchdog's script.
const WATCHDOG_SHELL: &std::ffi::CStr = c"/bin/sh";

/// Command line of a program, with its complete environment.
#[derive(Debug, Clone)]
pub struct PipedCommand {
    /// Name to search for in `PATH`, or an absolute path.
    pub program: String,
    pub arguments: Vec<String>,
    /// All variables of the program. The program is also looked up in this `PATH`.
    pub environment: Vec<(String, SecretString)>,
    pub folder: PathBuf,
}

pub struct PipedProgram {
    child: ChildProcess,
    _watch: WatchedGroup<'static>,
}

/// Ends of a program's pipes: its standard input, output and error.
#[derive(Debug)]
pub struct ProgramPipes {
    pub stdin: Sender,
    pub stdout: Receiver,
    pub stderr: Receiver,
}

impl PipedProgram {
    /// Starts a program. Must be called on a tokio runtime with IO and time. Fails if the program is not found, or the
    /// system cannot start it.
    pub fn start(command: &PipedCommand) -> io::Result<(Self, ProgramPipes)> {
        let executable = command.executable()?;
        let zero_byte =
            |_| io::Error::new(io::ErrorKind::InvalidInput, "the command line contains a NUL byte");
        let argument = |text: &str| CString::new(text).map_err(zero_byte);
        let arguments: Vec<CString> = std::iter::once(command.program.as_str())
            .chain(command.arguments.iter().map(String::as_str))
            .map(argument)
            .collect::<io::Result<_>>()?;
        let entry = |(name, value): &(String, SecretString)| {
            CString::new(format!("{name}={}", value.expose_secret())).map_err(zero_byte)
        };
        let environment: Vec<CString> = command.environment.iter().map(entry).collect::<io::Result<_>>()?;
        let folder = CString::new(command.folder.as_os_str().as_bytes()).map_err(zero_byte)?;
        let mark = format!("SYSOP_CALL_{:016x}", rand::random::<u64>());
        let marked = argument(&format!("{mark}=1"))?;
        let (input, write) = blocking_pipe()?;
        fcntl_setfl(&write, OFlags::NONBLOCK)?;
        let (stdout, output) = default_pipe()?;
        let (stderr, errors) = default_pipe()?;
        let pid = spawn(&SpawnSpec {
            program: &executable,
            arguments: &arguments,
            environment: &environment,
            mark: Some(&marked),
            folder: &folder,
            stdin: input.as_fd(),
            output: output.as_fd(),
            errors: errors.as_fd(),
        })?;
        let child = ChildProcess::new(pid, mark);
        let program = Self { child, _watch: WATCHDOG.watch(WATCHDOG_SHELL, pid) };
        let stdin = Sender::from_owned_fd_unchecked(write)?;
        Ok((program, ProgramPipes { stdin, stdout, stderr }))
    }

    /// Waits for the program to exit and returns a phrase about its end: `exited with 1`, `was killed by
    /// signal 9`. Processes that it started may still be running. Cancel safe.
    pub async fn ended(&mut self) -> String {
        if let Err(error) = self.child.ended().await {
            return format!("cannot be waited for ({error})");
        }
        match self.child.peek() {
            Ok(ExitReason::Exited(code)) => format!("exited with {code}"),
            Ok(ExitReason::Killed { signal }) => format!("was killed by signal {signal}"),
            Ok(ExitReason::TimedOut | ExitReason::Cancelled | ExitReason::Unknown { .. }) | Err(_) => {
                "ended".to_owned()
            }
        }
    }

    /// Waits until the program has exited by itself, for at most `grace`. Then sends SIGTERM to it and all processes
    /// that it started, waits again for at most `grace`, and kills them. Close the program's input first.
    pub async fn stop(mut self, grace: Duration) {
        let _ = timeout(grace, self.child.ended()).await;
        let tree = self.child.tree.clone();
        run_blocking(tree.clone(), |tree| tree.terminate()).await;
        let until = Instant::now() + grace;
        while Instant::now() < until && run_blocking(tree.clone(), |tree| tree.is_alive()).await {
            sleep(STOP_POLL_INTERVAL).await;
        }
        run_blocking(tree, |tree| tree.kill()).await;
        if let Ok(Ok(())) = timeout(KILL_WAIT_MAX, self.child.ended()).await {
            // Without reaping, dropping the child would search for its processes again.
            let _ = self.child.reap();
        }
    }
}

impl PipedCommand {
    /// Returns the absolute path of the program.
    fn executable(&self) -> io::Result<CString> {
        let not_found = |why: String| io::Error::new(io::ErrorKind::NotFound, why);
        let found = if self.program.contains('/') {
            let path = Path::new(&self.program);
            if !path.is_absolute() {
                return Err(not_found(format!("{} is not an absolute path", self.program)));
            }
            is_executable(path).then(|| path.to_owned())
        } else {
            let path = self.environment.iter().find(|(name, _)| name == "PATH");
            let folders = path.map(|(_, value)| value.expose_secret()).unwrap_or_default();
            let mut folders = std::env::split_paths(folders).filter(|folder| folder.is_absolute());
            folders.find_map(|folder| Some(folder.join(&self.program)).filter(|file| is_executable(file)))
        };
        let found = found.ok_or_else(|| not_found(format!("{} is not installed", self.program)))?;
        CString::new(found.into_os_string().into_vec()).map_err(io::Error::other)
    }
}

impl std::fmt::Debug for PipedProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PipedProgram").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::{PipedCommand, PipedProgram};

    fn shell(script: &str) -> PipedCommand {
        PipedCommand {
            program: "sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: vec![("PATH".into(), std::env::var("PATH").expect("a PATH").into())],
            folder: "/".into(),
        }
    }

    #[tokio::test]
    async fn a_program_gets_only_the_stated_environment_and_no_terminal() {
        let (mut program, mut pipes) = PipedProgram::start(&shell(
            "read line; echo \"$line\"; env | grep -c HOME; (: < /dev/tty) 2>&1 | head -1",
        ))
        .expect("it starts");
        pipes.stdin.write_all(b"hello\n").await.expect("it reads");
        let mut output = String::new();
        pipes.stdout.read_to_string(&mut output).await.expect("it prints");
        assert!(output.starts_with("hello\n0\n"), "{output}");
        assert!(output.contains("/dev/tty"), "the program has no terminal: {output}");
        assert_eq!(program.ended().await, "exited with 0");
    }

    #[tokio::test]
    async fn stopping_ends_the_whole_process_tree() {
        let (program, mut pipes) =
            PipedProgram::start(&shell("trap '' TERM; sleep 600 & echo $!; wait; wait")).expect("it starts");
        let mut pid = [0; 16];
        let length = pipes.stdout.read(&mut pid).await.expect("it prints");
        let pid = String::from_utf8_lossy(&pid[..length]).trim().to_owned();
        assert!(std::path::Path::new(&format!("/proc/{pid}")).exists());
        program.stop(Duration::from_millis(50)).await;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
    }

    #[tokio::test]
    async fn a_missing_or_relative_program_is_named() {
        for (program, why) in
            [("no-such-program", "no-such-program is not installed"), ("./x", "./x is not an absolute path")]
        {
            let command = PipedCommand { program: program.into(), ..shell("") };
            let error = PipedProgram::start(&command).expect_err("it does not start");
            assert_eq!(error.to_string(), why);
        }
    }
}
