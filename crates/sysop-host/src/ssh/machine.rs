//! The far machine as tools see it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use sysop_driver::port::CancellationToken;

use super::connection::{Inner, SCRIPT_MAX, SshConnection};
use super::error::SshError;
use super::exec::{Done, Programs, git_script, shell_script};
use super::files::{Files, TREE_BYTES_MAX};
use super::find::choose;
use super::script::Script;
use super::shell::{RunError, run_script};
use crate::machine::{
    Before, Echo, Exec, Found, Listing, Machine, MachineError, Program, Search, Stat, TerminalStart,
};
use crate::output::capture::Capture;
use crate::path::RootPath;
use crate::terminal::shells::ShellKind;

/// Begins a person's login shell in the root, with no pager in the way.
const LOGIN: &str = r#"cd -P -- "$1" 2>/dev/null; export PAGER=cat GIT_PAGER=cat MANPAGER=cat SYSTEMD_PAGER= LESS=-FRX; n=${SHELL:-/bin/sh}; case $n in */csh|*/tcsh) exec "$n" -l;; esac; exec "$n" -il"#;

/// Tells the modes of a terminal.
const ECHO: &str = r#"stty -a <"$1""#;
/// How long that may take.
const ECHO_MAX: Duration = Duration::from_secs(5);

/// Files beneath one folder of another machine, and its shell.
pub(crate) struct SshMachine {
    inner: Arc<Inner>,
    /// The root as it was given; empty for the home.
    given: String,
    /// The root's place, without links; known once something was done there.
    place: OnceLock<String>,
    programs: Programs,
}

impl SshMachine {
    /// Prepares it; connects to nothing.
    pub(crate) fn new(connection: &SshConnection, root: Option<&str>) -> Self {
        let inner = Arc::clone(&connection.0);
        // What no shell there would take for the home in quotes; sessions begin in it.
        let given = match root.unwrap_or("") {
            "~" | "~/" => "",
            root => root.strip_prefix("~/").unwrap_or(root),
        };
        let programs = Programs::new(Arc::clone(&inner));
        Self { inner, given: given.to_owned(), place: OnceLock::new(), programs }
    }

    /// The root's place; looked up once.
    async fn place(&self) -> Result<&str, MachineError> {
        if let Some(place) = self.place.get() {
            return Ok(place);
        }
        let text = r#"unset CDPATH; [ -z "$1" ] || cd -P -- "$1" 2>/dev/null || exit 40; pwd -P"#;
        let script = Script::new(text, &[&self.given]);
        let ran = run_script(&self.inner, script, 8 * 1024, SCRIPT_MAX).await;
        let ran = ran.map_err(|RunError { error, .. }| MachineError::Unreachable(error))?;
        let place = String::from_utf8(ran.output).ok().filter(|_| ran.status == 0);
        let place = place.and_then(|place| place.strip_suffix('\n').map(str::to_owned));
        let place = place.filter(|place| place.starts_with('/'));
        let place =
            place.ok_or_else(|| MachineError::Unreachable(SshError::root(self.inner.name(), &self.given)))?;
        Ok(self.place.get_or_init(|| place))
    }

    async fn files(&self) -> Result<Files<'_>, MachineError> {
        Ok(Files { inner: &self.inner, root: self.place().await? })
    }
}

/// Gives up what only looks when it is cancelled.
async fn until<T>(
    cancel: &CancellationToken,
    looking: impl Future<Output = Result<T, MachineError>>,
) -> Result<T, MachineError> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(MachineError::Cancelled),
        looked = looking => looked,
    }
}

#[async_trait]
impl Machine for SshMachine {
    async fn path(&self, text: &str) -> Result<RootPath, MachineError> {
        if !text.starts_with('/') {
            return RootPath::parse(text, &[]);
        }
        let place = self.place().await?.to_owned();
        let given = Some(self.given.clone()).filter(|given| given.starts_with('/'));
        RootPath::parse(text, &given.into_iter().chain([place]).collect::<Vec<_>>())
    }

    async fn exec(
        &self,
        program: Program,
        timeout: Duration,
        capture: &mut Capture<'_>,
        cancel: &CancellationToken,
    ) -> Result<Exec, MachineError> {
        let piece = match &program {
            Program::Shell(command) => shell_script(command),
            Program::Git { arguments, settings } => git_script(arguments, settings),
        };
        if piece.1.iter().any(|argument| argument.contains('\0')) {
            let zero = "the command cannot be run: a command cannot hold a zero byte";
            return Err(MachineError::Refused(zero.to_owned()));
        }
        let root = self.place.get().map_or(self.given.as_str(), String::as_str);
        let done = self.programs.run(root, piece, timeout, capture, cancel).await;
        let Done { exec, folder } = done.map_err(MachineError::Unreachable)?;
        if let Some(folder) = folder.filter(|folder| folder.starts_with('/')) {
            self.place.get_or_init(|| folder);
        }
        Ok(exec)
    }

    async fn read(&self, path: &RootPath, cancel: &CancellationToken) -> Result<Vec<u8>, MachineError> {
        until(cancel, async { self.files().await?.read(path).await }).await
    }

    async fn write(&self, path: &RootPath, bytes: Vec<u8>, before: Before) -> Result<(), MachineError> {
        self.files().await?.write(path, &bytes, &before).await
    }

    async fn remove(&self, path: &RootPath, before: Before) -> Result<(), MachineError> {
        self.files().await?.remove(path, &before).await
    }

    async fn make_folder(&self, path: &RootPath, cancel: &CancellationToken) -> Result<(), MachineError> {
        // Given up on the way there, but not once it is asked for: nobody would know whether it was done.
        let connecting = async { self.inner.master().await.map_err(MachineError::Unreachable) };
        until(cancel, connecting).await?;
        until(cancel, self.place()).await?;
        self.files().await?.make_folder(path).await
    }

    async fn stat(&self, path: &RootPath, cancel: &CancellationToken) -> Result<Stat, MachineError> {
        until(cancel, async { self.files().await?.stat(path).await }).await
    }

    async fn list(&self, path: &RootPath, cancel: &CancellationToken) -> Result<Listing, MachineError> {
        until(cancel, async { self.files().await?.list(path).await }).await
    }

    async fn find(&self, search: Search, cancel: &CancellationToken) -> Result<Found, MachineError> {
        let said = until(cancel, async { self.files().await?.tree(&search.folder).await }).await?;
        let choosing = tokio::task::spawn_blocking(move || choose(&search, &said, TREE_BYTES_MAX));
        choosing.await.map_err(|error| MachineError::Refused(error.to_string()))
    }

    async fn terminal(&self) -> Result<TerminalStart, MachineError> {
        let place = self.place().await?;
        let unreachable = |error: SshError| MachineError::Unreachable(error);
        let connection = SshConnection(Arc::clone(&self.inner));
        let facts = connection.facts().await.map_err(unreachable)?;
        // What no login shell passes on as a word would have to be typed; then it begins in the home.
        let line = Script::new(LOGIN, &[place]).line();
        let (program, arguments, mut environment) =
            connection.terminal_command(line.as_deref()).await.map_err(unreachable)?;
        environment.retain(|(name, _)| name != "TERM");
        environment.push(("TERM".into(), "xterm-256color".into()));
        Ok(TerminalStart {
            program: program.into(),
            arguments,
            environment,
            folder: "/".into(),
            far: Some(self.inner.name().to_owned()),
            shell: ShellKind::of_program(&facts.login_shell),
        })
    }

    async fn echo(&self, tty: &str) -> Option<Echo> {
        let script = Script::new(ECHO, &[tty]);
        let ran = run_script(&self.inner, script, 1024, ECHO_MAX).await.ok().filter(|ran| ran.status == 0)?;
        let modes = String::from_utf8_lossy(&ran.output).into_owned();
        let has = |mode: &str| modes.split([' ', ';', '\n']).any(|word| word == mode);
        if !has("icanon") && !has("-icanon") {
            return None;
        }
        Some(if has("-echo") && has("icanon") { Echo::Hidden } else { Echo::Shown })
    }
}
