//! A connection to one remote host, shared by everything that runs on it.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex as Lock;
use sysop_driver::prompter::Prompter;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

use super::container::SessionTerminal;
use super::control_folder::ControlFolder;
use super::error::{SshError, last_line};
use super::master::{LoginPrompts, Master, program};
use super::mux::is_alive;
use super::recent_miss::RecentMiss;
use super::running_script::{MachineInfo, ScriptOutput, run_script};
use super::script::RemoteScript;
use super::settings::{SshSettings, literal};
use crate::askpass::Askpass;
use crate::settings::HostError;

/// Maximum concurrent sessions. OpenSSH servers allow ten per connection; two are for urgent requests.
const SESSIONS_MAX: usize = 8;
const SPARE_SESSIONS: usize = 2;
const ALIVE_MAX: Duration = Duration::from_secs(2);
/// Maximum time that `close` waits for tasks that are opening the connection to release its lock.
const CLOSE_MAX: Duration = Duration::from_secs(2);
/// Timeout of an internal script, which sysop runs for its own purposes.
pub(super) const SCRIPT_MAX: Duration = Duration::from_secs(60);
pub(super) const SCRIPT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A multiplexed connection to one destination through the user's own `ssh`. Cheap to clone. It connects on first use,
/// reconnects after a loss, and ends when its last clone is dropped.
#[derive(Clone)]
pub struct SshConnection(pub(super) Arc<ConnectionInner>);

/// State shared by all clones.
pub(super) struct ConnectionInner {
    settings: SshSettings,
    folder: OnceLock<ControlFolder>,
    /// The master. It is locked while a master is being started, so that there is only one.
    master: Mutex<Option<Arc<Master>>>,
    missed: RecentMiss,
    sessions: Arc<Semaphore>,
    spare: Arc<Semaphore>,
    facts: Lock<Option<Arc<MachineInfo>>>,
    people: Lock<Option<Arc<dyn Prompter>>>,
    askpass: OnceLock<Askpass>,
    /// Environment variables that mark the terminal shells running in the container; empty for an ssh host.
    shell_marks: Lock<Vec<String>>,
    /// Notifies waiters when the connection is closed.
    closed: watch::Sender<()>,
}

impl SshConnection {
    /// Prepares a connection without starting a process or creating a file.
    pub fn new(settings: SshSettings) -> Result<Self, HostError> {
        settings.check()?;
        Ok(Self(Arc::new(ConnectionInner {
            settings,
            folder: OnceLock::new(),
            master: Mutex::default(),
            missed: RecentMiss::default(),
            sessions: Arc::new(Semaphore::new(SESSIONS_MAX)),
            spare: Arc::new(Semaphore::new(SPARE_SESSIONS)),
            facts: Lock::default(),
            people: Lock::default(),
            askpass: OnceLock::new(),
            shell_marks: Lock::default(),
            closed: watch::Sender::new(()),
        })))
    }

    /// Sets the prompter for passwords and confirmations, if the settings allow prompts.
    pub fn set_prompter(&self, people: Arc<dyn Prompter>) {
        if let Some(askpass) = self.0.askpass.get() {
            askpass.set_prompter(Arc::clone(&people));
        }
        *self.0.people.lock() = Some(people);
    }

    /// Returns the destination as the user gave it.
    pub fn destination(&self) -> &str {
        self.0.name()
    }

    /// Returns true if this process has a connection to the host, or if the host is a container, which needs none. Does
    /// not query the host.
    pub fn is_connected(&self) -> bool {
        self.0.settings.container().is_some() || self.0.master.try_lock().is_ok_and(|master| master.is_some())
    }

    /// Connects if there is no connection yet, which may prompt the session's users.
    pub async fn connect(&self) -> Result<(), SshError> {
        self.0.connect().await
    }

    /// Returns the host's system information, which is determined once.
    pub async fn machine_info(&self) -> Result<Arc<MachineInfo>, SshError> {
        if let Some(facts) = self.0.known_machine_info() {
            return Ok(facts);
        }
        run_script(&self.0, RemoteScript::new("true", &[]), SCRIPT_BYTES_MAX, SCRIPT_MAX).await?;
        self.0.known_machine_info().ok_or_else(|| SshError::Failed {
            destination: self.destination().to_owned(),
            why: "the host did not report its system".to_owned(),
        })
    }

    /// Runs a script with `sh`, with `$1` and so on set to the arguments. Returns its status and standard output.
    pub async fn exec_sh(&self, script: &str, arguments: &[&str]) -> Result<(i32, Vec<u8>), SshError> {
        let ScriptOutput { status, output, .. } =
            run_script(&self.0, RemoteScript::new(script, arguments), SCRIPT_BYTES_MAX, SCRIPT_MAX).await?;
        Ok((status, output))
    }

    /// Returns the program, arguments and environment for starting an interactive session over this connection on the
    /// caller's terminal. `remote_command` replaces the login shell. Reconnects if necessary.
    pub async fn terminal_command(
        &self,
        remote_command: Option<&str>,
    ) -> Result<(OsString, Vec<OsString>, Vec<(OsString, OsString)>), SshError> {
        let settings = self.0.settings();
        let environment = settings.environment();
        let program = OsStr::from_bytes(program(settings, &environment)?.to_bytes()).to_owned();
        if let Some(container) = settings.container() {
            let line = remote_command.unwrap_or("exec sh -i");
            return Ok((program, container.arguments(line, SessionTerminal::Attached), environment.pairs()));
        }
        let mut master = self.0.master().await?;
        if !is_responsive(&master).await {
            self.0.discard_master(&master).await;
            master = self.0.master().await?;
        }
        let mut arguments = settings.arguments();
        arguments.extend([
            "-tt".into(),
            "-oRequestTTY=force".into(),
            "-oControlMaster=no".into(),
            // Without the socket, ssh would open its own connection and prompt on the wrong terminal.
            "-oProxyCommand=false".into(),
            "-S".into(),
        ]);
        arguments.push(literal(master.socket()));
        arguments.extend(settings.target());
        arguments.extend(remote_command.map(OsString::from));
        Ok((program, arguments, environment.pairs()))
    }

    /// Closes the `ssh` connection and everything that runs over it, and aborts a connection attempt.
    pub(super) async fn disconnect(&self) {
        self.0.closed.send_replace(());
        // Tasks that wait for the lock or hold it release it soon.
        let Ok(mut held) = timeout(CLOSE_MAX, self.0.master.lock()).await else { return };
        let master = held.take();
        drop(held);
        if let Some(master) = master {
            master.end().await;
        }
    }
}

async fn is_responsive(master: &Master) -> bool {
    matches!(timeout(ALIVE_MAX, is_alive(master.socket())).await, Ok(true))
}

impl std::fmt::Debug for SshConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SshConnection").field(&self.destination()).finish()
    }
}

impl std::fmt::Debug for ConnectionInner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Inner").field(&self.name()).finish()
    }
}

impl ConnectionInner {
    pub(super) fn name(&self) -> &str {
        &self.settings.destination
    }

    pub(super) fn settings(&self) -> &SshSettings {
        &self.settings
    }

    pub(super) fn shell_marks(&self) -> &Lock<Vec<String>> {
        &self.shell_marks
    }

    /// Waits until another session may be opened, and returns the permit for it.
    pub(super) async fn permit(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.sessions).acquire_owned().await.expect("the semaphore is never closed")
    }

    /// Like `permit`, but takes one of the sessions reserved for urgent requests.
    pub(super) async fn spare_permit(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.spare).acquire_owned().await.expect("the semaphore is never closed")
    }

    /// Connects if necessary. A container has nothing to connect to.
    pub(super) async fn connect(&self) -> Result<(), SshError> {
        match self.settings.container() {
            Some(_) => Ok(()),
            None => self.master().await.map(drop),
        }
    }

    /// Like `connect`, but waits at most for the settings' `survey_timeout`, or less shortly after an attempt that did
    /// not reach the host. The attempt continues after that, so that a slow host is connected when it is needed next.
    pub(super) async fn connect_for_survey(self: &Arc<Self>) -> Result<(), SshError> {
        if self.settings.container().is_some() {
            return Ok(());
        }
        let connecting = async {
            if self.master.try_lock().is_err() {
                return self.connect().await; // another task is connecting already
            }
            let inner = Arc::clone(self);
            let attempt = tokio::spawn(async move { inner.connect().await });
            attempt.await.unwrap_or_else(|error| Err(SshError::here(self.name(), error)))
        };
        let (_, prompts) = self.login_settings()?;
        let connected = prompts.wait(self.missed.wait_max(self.settings.survey_timeout), connecting).await;
        self.missed.note(connected, self.name())
    }

    /// Derives the error from the output of a separate session's program.
    pub(super) fn read_error(&self, printed: &str) -> SshError {
        let destination = self.name().to_owned();
        match self.settings.container() {
            Some(container) => {
                let printed = last_line(printed);
                let why = if printed.is_empty() {
                    "the program ended without a message".to_owned()
                } else {
                    printed
                };
                SshError::Container { destination, why, list: container.list_command() }
            }
            None => SshError::read(&destination, printed),
        }
    }

    /// Returns the master, and starts one if necessary. Fails if the connection is closed in the meantime.
    pub(super) async fn master(&self) -> Result<Arc<Master>, SshError> {
        let mut closed = self.closed.subscribe();
        tokio::select! {
            biased;
            // Dropping the future kills the process being started.
            _ = closed.changed() => Err(SshError::Dropped {
                destination: self.name().to_owned(),
                why: "the connection was closed".to_owned(),
            }),
            master = self.started_master() => master,
        }
    }

    async fn started_master(&self) -> Result<Arc<Master>, SshError> {
        let mut master = self.master.lock().await;
        if let Some(master) = &*master {
            return Ok(Arc::clone(master));
        }
        let (settings, prompts) = self.login_settings()?;
        let started = Arc::new(Master::start(&settings, self.folder()?.socket(), prompts).await?);
        *master = Some(Arc::clone(&started));
        Ok(started)
    }

    /// Returns the settings for `ssh`, and the prompts that a login may wait for. If the session has a prompter and
    /// `askpass_helper` is set, the settings make `ssh` prompt the session's users.
    pub(super) fn login_settings(&self) -> Result<(Cow<'_, SshSettings>, LoginPrompts), SshError> {
        let people = self.people.lock().clone();
        let (Some(program), Some(people)) = (&self.settings.askpass_helper, people) else {
            let asks = self.settings.askpass.is_some();
            let prompts = if asks { LoginPrompts::External } else { LoginPrompts::Never };
            return Ok((Cow::Borrowed(&self.settings), prompts));
        };
        let askpass = match self.askpass.get() {
            Some(askpass) => askpass,
            None => {
                let folder = self.folder()?.path();
                let listening = Askpass::listen(folder, format!("ssh {}", self.name()))
                    .map_err(|error| SshError::here(self.name(), error))?;
                self.askpass.get_or_init(|| listening)
            }
        };
        askpass.set_prompter(people);
        let mut settings = self.settings.clone();
        settings.askpass = Some(program.clone());
        settings.askpass_env = vec![askpass.variable()];
        Ok((Cow::Owned(settings), LoginPrompts::Session(askpass.questions())))
    }

    pub(super) fn prompter(&self) -> Option<Arc<dyn Prompter>> {
        self.people.lock().clone()
    }

    pub(super) async fn running_master(&self) -> Option<Arc<Master>> {
        self.master.lock().await.clone()
    }

    /// Discards a broken master, so that a new one is started.
    pub(super) async fn discard_master(&self, useless: &Arc<Master>) {
        let mut master = self.master.lock().await;
        if master.as_ref().is_some_and(|master| Arc::ptr_eq(master, useless)) {
            *master = None;
        }
    }

    /// Returns true if the connection exists and its `ssh` responds.
    pub(super) async fn is_alive(&self) -> bool {
        match self.running_master().await {
            Some(master) => is_responsive(&master).await,
            None => false,
        }
    }

    /// Returns the error of a lost connection. The cause is `ssh`'s last line, or `otherwise` if `ssh` printed nothing.
    pub(super) fn connection_lost(&self, master: &Master, otherwise: &str) -> SshError {
        let printed = last_line(&master.printed());
        let why = if printed.is_empty() { otherwise.to_owned() } else { printed };
        SshError::Dropped { destination: self.name().to_owned(), why }
    }

    pub(super) fn known_machine_info(&self) -> Option<Arc<MachineInfo>> {
        self.facts.lock().clone()
    }

    pub(super) fn set_machine_info(&self, facts: MachineInfo) {
        let mut known = self.facts.lock();
        known.get_or_insert_with(|| Arc::new(facts));
    }

    fn folder(&self) -> Result<&ControlFolder, SshError> {
        if let Some(folder) = self.folder.get() {
            return Ok(folder);
        }
        let opened = ControlFolder::open(Path::new(&self.settings.control_folder))
            .map_err(|error| SshError::here(self.name(), error))?;
        Ok(self.folder.get_or_init(|| opened))
    }
}
