//! Implementation of `Machine` for this machine.

mod files;
mod find;
mod piped_program;
mod process;
mod process_tree;
mod repository;
mod resolve;
mod root;

use std::ffi::{CString, OsStr};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use async_trait::async_trait;
use cap_std::fs::Dir;
use sysop_core::policy::{
    CommandContext, Dialect, Fence, Resolution, ResolvedTarget, Survey, Target, command_targets,
};
use sysop_driver::port::CancellationToken;

pub use self::piped_program::{PipedCommand, PipedProgram, ProgramPipes};
use self::process::ProcessRunner;
use crate::environment::{CommandEnvironment, Environment, GIT_VARIABLES};
use crate::machine::TimeLimit;
use crate::machine::{
    Echo, ExecResult, FILE_BYTES_MAX, FileSearch, FileSearchResult, FileStat, Foreground, Listing, Machine,
    MachineError, Precondition, Program, TerminalStart,
};
use crate::output::capture::Capture;
use crate::output::redact::Secrets;
use crate::path::RootPath;
use crate::sandbox::{FenceRequest, OpenRoot, PreparedFence, SandboxSupport};
use crate::settings::HostError;
use crate::terminal::shells::ShellKind;

/// Maximum depth of scripts that run scripts.
const RESOLUTIONS_MAX: usize = 3;

/// This machine as seen by tools: the files beneath one directory, and a shell.
pub(crate) struct LocalMachine {
    root: Arc<Dir>,
    /// Absolute paths of the root: as given, and with links resolved.
    names: Vec<String>,
    root_path: PathBuf,
    environment: Arc<CommandEnvironment>,
    shell: CString,
    processes: ProcessRunner,
    /// Configured shell for the terminal, if any.
    terminal_shell: Option<PathBuf>,
    file_bytes_max: u64,
    session_start: SystemTime,
    context: OnceLock<CommandContext>,
    sandbox: SandboxSupport,
}

/// Arguments for `posix_spawn`.
struct ProgramInvocation {
    executable: CString,
    arguments: Vec<CString>,
    environment: Arc<[CString]>,
}

impl ProgramInvocation {
    fn set_temporary_folder(&mut self, folder: &Path) {
        let others = self.environment.iter().filter(|entry| !entry.to_bytes().starts_with(b"TMPDIR="));
        let entry = CString::new([b"TMPDIR=", folder.as_os_str().as_bytes()].concat()).ok();
        self.environment = others.cloned().chain(entry).collect();
    }
}

impl LocalMachine {
    pub(crate) fn open(root: &Path, scrub: &[String], secrets: &Secrets) -> Result<Self, HostError> {
        let no_root = |source| HostError::Root { root: root.to_owned(), source };
        let root_path = std::fs::canonicalize(root).map_err(no_root)?;
        let opened = root::open(&root_path).map_err(no_root)?;
        let given = std::path::absolute(root).map_err(no_root)?;
        let environment = Environment::scrubbed(std::env::vars_os(), scrub, secrets);
        let environment = CommandEnvironment::of(environment);
        let shell = environment.shell.clone();
        let folder =
            CString::new(root_path.as_os_str().as_bytes()).expect("an opened path contains no NUL byte");
        Ok(Self {
            root: opened,
            names: [given.to_str(), root_path.to_str()].into_iter().flatten().map(str::to_owned).collect(),
            root_path,
            environment,
            processes: ProcessRunner::new(folder, shell.clone()),
            shell,
            terminal_shell: None,
            file_bytes_max: FILE_BYTES_MAX,
            session_start: SystemTime::now(),
            context: OnceLock::new(),
            sandbox: SandboxSupport::NONE,
        })
    }

    pub(crate) fn with_terminal_shell(self, shell: Option<PathBuf>) -> Self {
        Self { terminal_shell: shell, ..self }
    }

    pub(crate) fn with_session_start(self, session_start: SystemTime) -> Self {
        Self { session_start, ..self }
    }

    pub(crate) fn with_sandbox(self, sandbox: SandboxSupport) -> Self {
        Self { sandbox, ..self }
    }

    pub(crate) fn with_file_bytes_max(self, most: u64) -> Self {
        Self { file_bytes_max: most, ..self }
    }

    /// Determines the context of `bash` commands: dialect, directory, home directory and user.
    fn look_around(&self) -> CommandContext {
        let root = self.root_path.to_str().map(str::to_owned);
        let uid = rustix::process::getuid().as_raw();
        let home = self.environment.variables.value("HOME").and_then(OsStr::to_str).map(str::to_owned);
        let user = resolve::user_name(uid);
        let dialect = match ShellKind::of_program(&self.shell.to_string_lossy()) {
            Some(kind) => kind.dialect(),
            None => Dialect::Unknown,
        };
        CommandContext {
            dialect,
            own_shell: true,
            folder: root.clone(),
            root,
            home,
            user,
            uid: Some(uid),
            host: None,
        }
    }

    /// Returns the user's shell: the configured one, else `$SHELL` if it is usable, else the shell that runs commands.
    fn user_shell(&self) -> PathBuf {
        let theirs = || self.environment.variables.value("SHELL").map(PathBuf::from);
        let works = |shell: &PathBuf| shell.is_absolute() && crate::environment::is_executable(shell);
        self.terminal_shell
            .clone()
            .or_else(|| theirs().filter(works))
            .unwrap_or_else(|| PathBuf::from(OsStr::from_bytes(self.shell.to_bytes())))
    }

    /// Runs a file operation on a blocking thread.
    async fn with_root<T: Send + 'static>(
        &self,
        path: &RootPath,
        act: impl FnOnce(&Dir, &RootPath) -> Result<T, MachineError> + Send + 'static,
    ) -> Result<T, MachineError> {
        let (root, path) = (Arc::clone(&self.root), path.clone());
        let acting = tokio::task::spawn_blocking(move || act(&root, &path));
        acting.await.unwrap_or_else(|error| Err(MachineError::Refused(format!("internal error: {error}"))))
    }

    /// Like `with_root`, but stops waiting when canceled. Only for operations that change nothing.
    async fn with_root_until<T: Send + 'static>(
        &self,
        cancel: &CancellationToken,
        path: &RootPath,
        look: impl FnOnce(&Dir, &RootPath) -> Result<T, MachineError> + Send + 'static,
    ) -> Result<T, MachineError> {
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(MachineError::Cancelled),
            looked = self.with_root(path, look) => looked,
        }
    }

    fn command(&self, program: Program) -> Result<ProgramInvocation, MachineError> {
        let (executable, arguments, environment) = match program {
            Program::GuardedShell { .. } => {
                return Err(MachineError::Refused("guards work over ssh only; nothing ran".to_owned()));
            }
            Program::Shell { command, variables } => {
                let name = self.shell.to_bytes().rsplit(|byte| *byte == b'/').next();
                let name = String::from_utf8_lossy(name.unwrap_or_default()).into_owned();
                // After `--`, a command may begin with `-` or `+`.
                let arguments = vec![name, "-c".to_owned(), "--".to_owned(), command];
                let environment = if variables.is_empty() {
                    Arc::clone(&self.environment.entries)
                } else {
                    let mut environment = self.environment.variables.clone();
                    variables.iter().for_each(|(name, value)| environment.set(*name, *value));
                    environment.entries().into()
                };
                (self.shell.clone(), arguments, environment)
            }
            Program::Probe { text } => {
                let arguments = ["sh", "-c", "--", text.as_str()].map(str::to_owned).to_vec();
                (self.shell.clone(), arguments, Arc::clone(&self.environment.entries))
            }
            Program::Git { arguments, settings } => {
                let missing = || MachineError::Refused("git is not installed".to_owned());
                let executable = self.environment.variables.program("git").ok_or_else(missing)?;
                let arguments = ["git".to_owned()].into_iter().chain(arguments).collect();
                (executable, arguments, self.git_environment(&settings).entries().into())
            }
            Program::GitScript { text, arguments, settings } => {
                let arguments = ["sh", "-c", text, "sh"].map(str::to_owned).into_iter().chain(arguments);
                (self.shell.clone(), arguments.collect(), self.git_environment(&settings).entries().into())
            }
        };
        let zero = |_| MachineError::Refused("a command cannot contain a NUL byte".to_owned());
        let arguments = arguments.into_iter().map(CString::new).collect::<Result<_, _>>().map_err(zero)?;
        Ok(ProgramInvocation { executable, arguments, environment })
    }

    fn git_environment(&self, settings: &[(String, String)]) -> Environment {
        let mut environment = self.environment.variables.for_git();
        // Git must not use a repository above the root. One at the root has the root as its work tree.
        environment.set("GIT_CEILING_DIRECTORIES", self.root_path.parent().unwrap_or(Path::new("/")));
        environment.set("GIT_WORK_TREE", &self.root_path);
        for (name, value) in GIT_VARIABLES {
            environment.set(name, value);
        }
        environment.set("GIT_CONFIG_COUNT", settings.len().to_string());
        for (index, (key, value)) in settings.iter().enumerate() {
            environment.set(format!("GIT_CONFIG_KEY_{index}"), key);
            environment.set(format!("GIT_CONFIG_VALUE_{index}"), value);
        }
        environment
    }
}

/// Surveys a command on this machine outside of any session. With no session start to compare with, every
/// script counts as unchanged.
pub fn survey_here(context: CommandContext, command: &str) -> Survey {
    let opened = SystemTime::now();
    let home = context.home.clone();
    let mut survey = Survey { context, resolution: Resolution::Host, ..Survey::default() };
    for _ in 0..RESOLUTIONS_MAX {
        let mut targets = command_targets(command, &survey);
        targets.retain(|target| survey.targets.iter().all(|known| known.target != *target));
        if targets.is_empty() {
            break;
        }
        survey.targets.extend(resolve::resolve(targets, home.as_deref(), opened));
    }
    survey
}

#[async_trait]
impl Machine for LocalMachine {
    async fn path(&self, text: &str) -> Result<RootPath, MachineError> {
        RootPath::parse(text, &self.names)
    }

    async fn exec(
        &self,
        program: Program,
        fence: &Fence,
        limit: &TimeLimit,
        capture: &mut Capture<'_>,
        cancel: &CancellationToken,
    ) -> Result<ExecResult, MachineError> {
        let is_probe = matches!(program, Program::Probe { .. });
        let mut invocation = self.command(program)?;
        let refused = |error| MachineError::Refused(format!("cannot run the command: {error}"));
        let root = OpenRoot { folder: self.root.as_fd(), path: &self.root_path };
        let request = FenceRequest { fence, root: Some(root), tty: None };
        // A probe is fenced even if the config turns the sandbox off for commands.
        let sandbox = if is_probe { SandboxSupport::of_kernel() } else { self.sandbox };
        let mut fence = PreparedFence::new(&request, sandbox).map_err(refused)?;
        let temporary = fence.as_mut().and_then(PreparedFence::take_temporary_folder);
        if let Some(folder) = &temporary {
            invocation.set_temporary_folder(folder.path());
        }
        self.processes.run(&invocation, fence, limit, capture, cancel).await.map_err(refused)
    }

    fn uses_sudo(&self) -> bool {
        false
    }

    async fn read(&self, path: &RootPath, cancel: &CancellationToken) -> Result<Vec<u8>, MachineError> {
        self.with_root_until(cancel, path, files::read).await
    }

    async fn write(&self, path: &RootPath, bytes: Vec<u8>, before: Precondition) -> Result<(), MachineError> {
        let (length, most) = (bytes.len() as u64, self.file_bytes_max);
        if length > most {
            return Err(MachineError::TooLarge { path: path.to_string(), bytes: length, most });
        }
        self.with_root(path, move |root, path| files::write(root, path, &bytes, &before)).await
    }

    async fn remove(&self, path: &RootPath, before: Precondition) -> Result<(), MachineError> {
        self.with_root(path, move |root, path| files::remove(root, path, &before)).await
    }

    async fn make_folder(&self, path: &RootPath, _: &CancellationToken) -> Result<(), MachineError> {
        self.with_root(path, files::make_folder).await
    }

    async fn stat(&self, path: &RootPath, cancel: &CancellationToken) -> Result<FileStat, MachineError> {
        self.with_root_until(cancel, path, files::stat).await
    }

    async fn list(&self, path: &RootPath, cancel: &CancellationToken) -> Result<Listing, MachineError> {
        let stop = cancel.clone();
        self.with_root_until(cancel, path, move |root, path| files::list(root, path, &stop)).await
    }

    async fn find(
        &self,
        search: FileSearch,
        cancel: &CancellationToken,
    ) -> Result<FileSearchResult, MachineError> {
        let stop = cancel.clone();
        let folder = search.folder.clone();
        self.with_root_until(cancel, &folder, move |root, _| find::find(root, &search, &stop)).await
    }

    async fn context(&self) -> Result<CommandContext, MachineError> {
        Ok(self.context.get_or_init(|| self.look_around()).clone())
    }

    async fn resolve(&self, targets: Vec<Target>, home: Option<&str>) -> Option<Vec<ResolvedTarget>> {
        let (home, opened) = (home.map(str::to_owned), self.session_start);
        let resolving =
            tokio::task::spawn_blocking(move || resolve::resolve(targets, home.as_deref(), opened));
        resolving.await.ok()
    }

    fn resolutions_max(&self) -> usize {
        RESOLUTIONS_MAX
    }

    /// Returns `None`: on this machine, the terminal's PTY reports the foreground program itself.
    async fn foreground(&self, _: &str, _: u32) -> Option<Foreground> {
        None
    }

    async fn terminal(&self) -> Result<TerminalStart, MachineError> {
        let program = self.user_shell();
        let mut environment = self.environment.variables.for_terminal();
        environment.set("SYSOP_CALL_TERMINAL", "1"); // lets a sysop started in this terminal detect that it is nested
        environment.set("SHELL", &program);
        Ok(TerminalStart {
            program,
            arguments: Vec::new(),
            environment: environment.pairs(),
            folder: self.root_path.clone(),
            remote_host: None,
            shell: None,
            runner: self.shell.to_string_lossy().into_owned(),
            fence: Fence::Off,
            sandbox: self.sandbox,
            guard: None,
        })
    }

    async fn echo(&self, tty: &str) -> Option<Echo> {
        let tty = tty.to_owned();
        let looking = tokio::task::spawn_blocking(move || crate::terminal::echo_of(&tty));
        looking.await.ok().flatten()
    }
}
