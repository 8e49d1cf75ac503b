//! One connection to one machine, shared by all that is done there.

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

use super::control_folder::ControlFolder;
use super::error::{SshError, last_line};
use super::master::{LoginPrompts, Master, program};
use super::mux::is_alive;
use super::running_script::{MachineInfo, ScriptOutput, run_script};
use super::script::RemoteScript;
use super::settings::{SshSettings, literal};
use crate::askpass::Askpass;
use crate::settings::HostError;

/// Sessions at a time; OpenSSH's servers allow ten on a connection, and two are for what must not wait.
const SESSIONS_MAX: usize = 8;
const SPARE_SESSIONS: usize = 2;
/// How long a connection has to say that it is there.
const ALIVE_MAX: Duration = Duration::from_secs(2);
/// How long those who make a connection may take to let go of it.
const CLOSE_MAX: Duration = Duration::from_secs(2);
/// How long a script of ours may take.
pub(super) const SCRIPT_MAX: Duration = Duration::from_secs(60);
/// The most bytes that a script of ours may print.
pub(super) const SCRIPT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// One multiplexed connection to one destination by the user's own `ssh`. Cheap to clone. Connects when it is
/// first used, connects again when it was lost, and ends with its last clone.
#[derive(Clone)]
pub struct SshConnection(pub(super) Arc<ConnectionInner>);

/// What the clones share.
pub(super) struct ConnectionInner {
    settings: SshSettings,
    folder: OnceLock<ControlFolder>,
    /// The master; held while one is started, so that there is one.
    master: Mutex<Option<Arc<Master>>>,
    sessions: Arc<Semaphore>,
    spare: Arc<Semaphore>,
    facts: Lock<Option<Arc<MachineInfo>>>,
    people: Lock<Option<Arc<dyn Prompter>>>,
    askpass: OnceLock<Askpass>,
    /// Changes when the connection is closed.
    closed: watch::Sender<()>,
}

impl SshConnection {
    /// Prepares a connection. Starts no process and creates no file.
    pub fn new(settings: SshSettings) -> Result<Self, HostError> {
        settings.check()?;
        Ok(Self(Arc::new(ConnectionInner {
            settings,
            folder: OnceLock::new(),
            master: Mutex::default(),
            sessions: Arc::new(Semaphore::new(SESSIONS_MAX)),
            spare: Arc::new(Semaphore::new(SPARE_SESSIONS)),
            facts: Lock::default(),
            people: Lock::default(),
            askpass: OnceLock::new(),
            closed: watch::Sender::new(()),
        })))
    }

    /// Says who is asked for passwords and the like from now on, where the settings say so.
    pub fn set_prompter(&self, people: Arc<dyn Prompter>) {
        if let Some(askpass) = self.0.askpass.get() {
            askpass.set_prompter(Arc::clone(&people));
        }
        *self.0.people.lock() = Some(people);
    }

    /// The destination as it was given.
    pub fn destination(&self) -> &str {
        self.0.name()
    }

    /// Connects, where it is not connected.
    pub async fn connect(&self) -> Result<(), SshError> {
        self.0.master().await.map(drop)
    }

    /// What kind of machine it is; found out once.
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

    /// Runs a script with `sh` beside all else: its status, and what it printed on standard output.
    pub async fn exec_sh(&self, script: &str) -> Result<(i32, Vec<u8>), SshError> {
        let ScriptOutput { status, output, .. } =
            run_script(&self.0, RemoteScript::new(script, &[]), SCRIPT_BYTES_MAX, SCRIPT_MAX).await?;
        Ok((status, output))
    }

    /// Program, arguments and environment of an interactive session on a terminal that the caller provides, over
    /// this connection and no other; with a command in the place of the login shell. Connects again where the
    /// connection was lost.
    pub async fn terminal_command(
        &self,
        remote_command: Option<&str>,
    ) -> Result<(OsString, Vec<OsString>, Vec<(OsString, OsString)>), SshError> {
        let settings = self.0.settings();
        let environment = settings.environment();
        let program = OsStr::from_bytes(program(&environment)?.to_bytes()).to_owned();
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
            // Without the socket ssh would connect by itself, and ask for passwords where nobody expects it.
            "-oProxyCommand=false".into(),
            "-S".into(),
        ]);
        arguments.push(literal(master.socket()));
        arguments.extend(settings.target());
        arguments.extend(remote_command.map(OsString::from));
        Ok((program, arguments, environment.pairs()))
    }

    /// Ends the connection and all that runs through it, and gives up one that is being made. The next use
    /// connects again.
    pub async fn close(&self) {
        self.0.closed.send_replace(());
        // Whoever waits for it, or makes it, lets go at their next turn.
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

    /// Waits until another session may be opened.
    pub(super) async fn permit(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.sessions).acquire_owned().await.expect("it is never closed")
    }

    /// The same, for what must not wait for other work.
    pub(super) async fn spare_permit(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.spare).acquire_owned().await.expect("it is never closed")
    }

    /// The master; started where there is none, unless the connection is closed meanwhile.
    pub(super) async fn master(&self) -> Result<Arc<Master>, SshError> {
        let mut closed = self.closed.subscribe();
        tokio::select! {
            biased;
            // Dropped, what is being started ends.
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

    /// The settings by which ssh asks the people of the session, where there are any; and who may be waited for.
    fn login_settings(&self) -> Result<(Cow<'_, SshSettings>, LoginPrompts), SshError> {
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

    /// The master, where there is one.
    pub(super) async fn running_master(&self) -> Option<Arc<Master>> {
        self.master.lock().await.clone()
    }

    /// Lets go of a master that is of no use any more, so that another is started.
    pub(super) async fn discard_master(&self, useless: &Arc<Master>) {
        let mut master = self.master.lock().await;
        if master.as_ref().is_some_and(|master| Arc::ptr_eq(master, useless)) {
            *master = None;
        }
    }

    /// Whether a connection is there and its `ssh` answers.
    pub(super) async fn is_alive(&self) -> bool {
        match self.running_master().await {
            Some(master) => is_responsive(&master).await,
            None => false,
        }
    }

    /// Why a connection is gone.
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
