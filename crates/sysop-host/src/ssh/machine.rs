//! The remote host as the tools see it.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use sysop_core::policy::single_quoted;
use sysop_core::policy::{CommandContext, Dialect, Fence, ResolvedTarget, Target};
use sysop_driver::port::CancellationToken;

use super::connection::{ConnectionInner, SCRIPT_MAX, SshConnection};
use super::container_shell::ContainerShell;
use super::error::{SshError, one_line};
use super::exec::{ProgramResult, RemotePrograms, git_script, guarded_script, shell_script};
use super::files::{RemoteFiles, TREE_BYTES_MAX};
use super::find::select_files;
use super::resolve::resolve;
use super::running_script::{RunError, run_script};
use super::script::RemoteScript;
use crate::machine::TimeLimit;
use crate::machine::{
    Echo, ExecResult, FileSearch, FileSearchResult, FileStat, Foreground, Listing, Machine, MachineError,
    Precondition, Program, TerminalStart,
};
use crate::output::capture::Capture;
use crate::path::RootPath;
use crate::sandbox::SandboxSupport;
use crate::terminal::shells::ShellKind;

/// Starts the user's login shell in the root, without a pager. Without a login, as in a container, starts
/// bash if available, because its language can be analyzed.
const LOGIN: &str = r#"cd -P -- "$1" 2>/dev/null; export PAGER=cat GIT_PAGER=cat MANPAGER=cat SYSTEMD_PAGER= LESS=-FRX; n=${SHELL:-$(command -v bash || echo /bin/sh)}; case $n in */csh|*/tcsh) exec "$n" -l;; esac; exec "$n" -il"#;

/// Prints the modes of a terminal.
const ECHO: &str = r#"stty -a <"$1""#;
/// Prints the process group of process `$2`, the foreground group of its terminal, the program of that group, and the
/// modes of the terminal `$1`.
const FOREGROUND: &str = r#"set -- "$1" $(ps -o pgid= -o tpgid= -p "$2" 2>/dev/null || { read -r l </proc/"$2"/stat; set -- ${l##*) }; echo "$3" "$6"; }); echo "$2 $3"; ps -o comm= -p "$3" 2>/dev/null || cat /proc/"$3"/comm; stty -a <"$1""#;
/// Prints a line for each guard that is open or has failed, then the user's id and name, the host's clock in seconds
/// since the Unix epoch, and the directory for commands.
const CONTEXT: &str = r#"for d in "${SYSOP_GUARD_DIR:-/var/lib/sysop-guard}" "${HOME:-/nowhere}/.sysop-guard"; do for s in armed firing failed; do for f in "$d"/*/$s; do [ -f "$f" ] && echo "guard $f"; done; done; done; unset CDPATH; [ -z "$1" ] || cd -P -- "$1" 2>/dev/null || exit 40; id -u; id -un; date +%s; pwd -P"#;
/// Maximum guards that are named when a session connects.
const GUARDS_NAMED_MAX: usize = 4;
/// Timeout of `ECHO` and `FOREGROUND`.
const ECHO_MAX: Duration = Duration::from_secs(5);

/// A remote host as seen by tools: the files below one directory, and a shell.
pub(crate) struct SshMachine {
    inner: Arc<ConnectionInner>,
    /// Root as the user gave it; empty for the home directory.
    given: String,
    /// Resolved root without links, once known.
    resolved_root: OnceLock<String>,
    programs: RemotePrograms,
    session_start: SystemTime,
    surroundings: OnceLock<Surroundings>,
}

/// Facts about the host that are determined once.
struct Surroundings {
    context: CommandContext,
    /// Start of the session by the host's clock, in seconds since the Unix epoch.
    session_start_s: i64,
}

impl SshMachine {
    /// Prepares the machine without connecting.
    pub(crate) fn new(connection: &SshConnection, root: Option<&str>, session_start: SystemTime) -> Self {
        let inner = Arc::clone(&connection.0);
        // A `~` would not be expanded inside quotes; sessions start in the home directory.
        let given = match root.unwrap_or("") {
            "~" | "~/" => "",
            root => root.strip_prefix("~/").unwrap_or(root),
        };
        let programs = RemotePrograms::new(Arc::clone(&inner));
        Self {
            inner,
            given: given.to_owned(),
            resolved_root: OnceLock::new(),
            programs,
            session_start,
            surroundings: OnceLock::new(),
        }
    }

    /// Returns the resolved root, which is looked up once.
    async fn resolved_root(&self) -> Result<&str, MachineError> {
        if let Some(resolved_root) = self.resolved_root.get() {
            return Ok(resolved_root);
        }
        let text = r#"unset CDPATH; [ -z "$1" ] || cd -P -- "$1" 2>/dev/null || exit 40; pwd -P"#;
        let script = RemoteScript::new(text, &[&self.given]);
        let ran = run_script(&self.inner, script, 8 * 1024, SCRIPT_MAX).await;
        let ran = ran.map_err(|RunError { error, .. }| MachineError::Unreachable(error))?;
        let resolved_root = String::from_utf8(ran.output).ok().filter(|_| ran.status == 0);
        let resolved_root =
            resolved_root.and_then(|resolved_root| resolved_root.strip_suffix('\n').map(str::to_owned));
        let resolved_root = resolved_root.filter(|resolved_root| resolved_root.starts_with('/'));
        let resolved_root = resolved_root
            .ok_or_else(|| MachineError::Unreachable(SshError::root(self.inner.name(), &self.given)))?;
        Ok(self.resolved_root.get_or_init(|| resolved_root))
    }

    /// Returns the directory and user for `bash` commands, which are looked up once.
    async fn surroundings(&self) -> Result<&Surroundings, MachineError> {
        if let Some(surroundings) = self.surroundings.get() {
            return Ok(surroundings);
        }
        self.inner.connect_for_survey().await.map_err(MachineError::Unreachable)?;
        let script = RemoteScript::new(CONTEXT, &[&self.given]);
        let ran = run_script(&self.inner, script, 16 * 1024, SCRIPT_MAX).await;
        let ran = ran.map_err(|RunError { error, .. }| MachineError::Unreachable(error))?;
        let said = String::from_utf8(ran.output).ok().filter(|_| ran.status == 0);
        let read = said.and_then(|said| self.read_surroundings(&said));
        read.ok_or_else(|| MachineError::Unreachable(SshError::root(self.inner.name(), &self.given)))
    }

    /// Parses the output of `CONTEXT`.
    fn read_surroundings(&self, said: &str) -> Option<&Surroundings> {
        let (guards, said) = open_guards(said);
        self.name_guards(&guards);
        let mut lines = said.splitn(4, '\n');
        let uid: u32 = lines.next()?.parse().ok()?;
        let user = lines.next()?.to_owned();
        let now_s: i64 = lines.next()?.parse().ok()?;
        let root = lines.next()?.strip_suffix('\n').filter(|root| root.starts_with('/'))?.to_owned();
        let facts = self.inner.known_machine_info()?;
        self.resolved_root.get_or_init(|| root.clone());
        let context = CommandContext {
            dialect: if facts.bash.is_some() { Dialect::Bash } else { Dialect::Sh },
            own_shell: true,
            folder: Some(root.clone()),
            root: Some(root),
            home: Some(facts.home.clone()).filter(|home| home.starts_with('/')),
            user: Some(user).filter(|user| !user.is_empty()),
            uid: Some(uid),
            host: Some(self.inner.name().to_owned()),
        };
        let open = SystemTime::now().duration_since(self.session_start).unwrap_or_default();
        let open_s = i64::try_from(open.as_secs()).unwrap_or(i64::MAX);
        let session_start_s = now_s.saturating_sub(open_s).saturating_sub(1);
        Some(self.surroundings.get_or_init(|| Surroundings { context, session_start_s }))
    }

    /// Tells the users about open and failed guards on the host.
    fn name_guards(&self, guards: &[(String, String)]) {
        let Some(people) = self.inner.prompter() else { return };
        let name = self.inner.name();
        for (id, state) in guards.iter().take(GUARDS_NAMED_MAX) {
            let what = match state.as_str() {
                "failed" => "failed to roll a change back",
                "firing" => "is rolling a change back",
                _ => "will roll a change back unless it is confirmed",
            };
            people.notice(&format!("{name}: guard {id} {what}; see `sysop guard status {name}`"));
        }
    }

    async fn files(&self) -> Result<RemoteFiles<'_>, MachineError> {
        Ok(RemoteFiles { inner: &self.inner, root: self.resolved_root().await? })
    }
}

/// Splits the lines about guards off the output of `CONTEXT`. Returns each guard's id and state, and the rest.
fn open_guards(said: &str) -> (Vec<(String, String)>, &str) {
    let mut guards = Vec::new();
    let mut rest = said;
    while let Some((line, after)) = rest.strip_prefix("guard ").and_then(|rest| rest.split_once('\n')) {
        let mut parts = line.rsplit('/');
        if let (Some(state), Some(id)) = (parts.next(), parts.next()) {
            guards.push((one_line(id), one_line(state)));
        }
        rest = after;
    }
    (guards, rest)
}

/// Runs a read-only operation until it is done or canceled.
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
        let resolved_root = self.resolved_root().await?.to_owned();
        let given = Some(self.given.clone()).filter(|given| given.starts_with('/'));
        RootPath::parse(text, &given.into_iter().chain([resolved_root]).collect::<Vec<_>>())
    }

    async fn exec(
        &self,
        program: Program,
        fence: &Fence,
        limit: &TimeLimit,
        capture: &mut Capture<'_>,
        cancel: &CancellationToken,
    ) -> Result<ExecResult, MachineError> {
        if *fence != Fence::Off {
            return Err(MachineError::Refused(
                "the sandbox is not available on remote hosts; nothing ran".to_owned(),
            ));
        }
        let piece = match &program {
            Program::Shell { command, variables } => shell_script(command, variables),
            Program::GuardedShell { command, guard } => guarded_script(command, guard),
            Program::Probe { text } => shell_script(text, &[]),
            Program::Git { arguments, settings } => git_script("git", arguments, settings),
            Program::GitScript { text, arguments, settings } => {
                git_script(&format!("sh -c {} sh", single_quoted(text)), arguments, settings)
            }
        };
        if piece.1.iter().any(|argument| argument.contains('\0')) {
            let zero = "cannot run the command: a command cannot contain a NUL byte";
            return Err(MachineError::Refused(zero.to_owned()));
        }
        let root = self.resolved_root.get().map_or(self.given.as_str(), String::as_str);
        let done = self.programs.run(root, piece, limit, capture, cancel).await;
        let ProgramResult { exec, folder } = done.map_err(MachineError::Unreachable)?;
        if let Some(folder) = folder.filter(|folder| folder.starts_with('/')) {
            self.resolved_root.get_or_init(|| folder);
        }
        Ok(exec)
    }

    fn uses_sudo(&self) -> bool {
        true
    }

    async fn read(&self, path: &RootPath, cancel: &CancellationToken) -> Result<Vec<u8>, MachineError> {
        until(cancel, async { self.files().await?.read(path).await }).await
    }

    async fn write(&self, path: &RootPath, bytes: Vec<u8>, before: Precondition) -> Result<(), MachineError> {
        self.files().await?.write(path, &bytes, &before).await
    }

    async fn remove(&self, path: &RootPath, before: Precondition) -> Result<(), MachineError> {
        self.files().await?.remove(path, &before).await
    }

    async fn make_folder(&self, path: &RootPath, cancel: &CancellationToken) -> Result<(), MachineError> {
        // Cancels while connecting, but not once requested: the result would be unknown.
        let connecting = async { self.inner.connect().await.map_err(MachineError::Unreachable) };
        until(cancel, connecting).await?;
        until(cancel, self.resolved_root()).await?;
        self.files().await?.make_folder(path).await
    }

    async fn stat(&self, path: &RootPath, cancel: &CancellationToken) -> Result<FileStat, MachineError> {
        until(cancel, async { self.files().await?.stat(path).await }).await
    }

    async fn list(&self, path: &RootPath, cancel: &CancellationToken) -> Result<Listing, MachineError> {
        until(cancel, async { self.files().await?.list(path).await }).await
    }

    async fn find(
        &self,
        search: FileSearch,
        cancel: &CancellationToken,
    ) -> Result<FileSearchResult, MachineError> {
        let said = until(cancel, async { self.files().await?.tree(&search.folder).await }).await?;
        let choosing = tokio::task::spawn_blocking(move || select_files(&search, &said, TREE_BYTES_MAX));
        choosing.await.map_err(|error| MachineError::Refused(error.to_string()))
    }

    async fn context(&self) -> Result<CommandContext, MachineError> {
        self.surroundings().await.map(|surroundings| surroundings.context.clone())
    }

    async fn resolve(&self, targets: Vec<Target>, home: Option<&str>) -> Option<Vec<ResolvedTarget>> {
        let session_start_s = self.surroundings().await.ok()?.session_start_s;
        resolve(&self.inner, targets, home, session_start_s).await
    }

    fn resolutions_max(&self) -> usize {
        1
    }

    async fn foreground(&self, tty: &str, shell: u32) -> Option<Foreground> {
        let script = RemoteScript::new(FOREGROUND, &[tty, &shell.to_string()]);
        let ran = run_script(&self.inner, script, 1024, ECHO_MAX).await.ok().filter(|ran| ran.status == 0)?;
        let said = String::from_utf8_lossy(&ran.output).into_owned();
        let mut lines = said.lines();
        let (group, foreground) = lines.next()?.trim().split_once(' ')?;
        let program = lines.next()?.trim().rsplit('/').next().unwrap_or_default().to_owned();
        let is_raw = lines.any(|line| line.split([' ', ';']).any(|word| word == "-icanon"));
        Some(Foreground { is_shell: group == foreground.trim(), is_raw, program })
    }

    async fn terminal(&self) -> Result<TerminalStart, MachineError> {
        let resolved_root = self.resolved_root().await?;
        let unreachable = |error: SshError| MachineError::Unreachable(error);
        let connection = SshConnection(Arc::clone(&self.inner));
        let facts = connection.machine_info().await.map_err(unreachable)?;
        // If a login shell might change the root, the root is left out and the shell starts in the home directory.
        let line = RemoteScript::new(LOGIN, &[resolved_root]).line();
        let container = self.inner.settings().container().map(|_| ContainerShell::new(&self.inner));
        let line = match &container {
            Some(shell) => Some(shell.prefix() + line.as_deref().unwrap_or("exec sh -i")),
            None => line,
        };
        let (program, arguments, mut environment) =
            connection.terminal_command(line.as_deref()).await.map_err(unreachable)?;
        environment.retain(|(name, _)| name != "TERM");
        environment.push(("TERM".into(), "xterm-256color".into()));
        Ok(TerminalStart {
            program: program.into(),
            arguments,
            environment,
            folder: "/".into(),
            remote_host: Some(self.inner.name().to_owned()),
            shell: ShellKind::of_program(&facts.login_shell),
            runner: facts.bash.clone().unwrap_or_else(|| "sh".to_owned()),
            fence: Fence::Off,
            sandbox: SandboxSupport::NONE,
            guard: container.map(ContainerShell::into_guard),
        })
    }

    async fn echo(&self, tty: &str) -> Option<Echo> {
        let script = RemoteScript::new(ECHO, &[tty]);
        let ran = run_script(&self.inner, script, 1024, ECHO_MAX).await.ok().filter(|ran| ran.status == 0)?;
        let modes = String::from_utf8_lossy(&ran.output).into_owned();
        let has = |mode: &str| modes.split([' ', ';', '\n']).any(|word| word == mode);
        if !has("icanon") && !has("-icanon") {
            return None;
        }
        Some(if has("-echo") && has("icanon") { Echo::Off } else { Echo::On })
    }
}
