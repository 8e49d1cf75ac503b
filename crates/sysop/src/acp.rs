//! `sysop acp`: sessions for an editor, each in the directory that the editor names.
//!
//! The settings are loaded again for each session, because a workspace may have its own config and the user's
//! config may have changed. All sessions share one store.

mod servers;

use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use parking_lot::Mutex;
use sysop_acp::{AcpBackend, AcpContext, BackendError, EditorServer, OpenedSession, ServerConsents};
use sysop_core::event::{Event, Logged};
use sysop_core::id::{Seq, SessionId, Timestamp};
use sysop_core::policy::ApprovalMode;
use sysop_core::spec::SessionSpec;
use sysop_core::ui_text::is_local_host;
use sysop_driver::port::{SessionSummary, StoreError};
use sysop_repl::exec::{self, StopSignal};

use self::servers::NewSessionServers;
use crate::app::{Services, Storage, delete_session};
use crate::exit::Exit;
use crate::global_flags::GlobalFlags;
use crate::select_model::ModelChoice;
use crate::sessions::SESSIONS_MAX;
use crate::settings::{HostChoice, Settings};

const MODES: [ApprovalMode; 4] =
    [ApprovalMode::Ask, ApprovalMode::Each, ApprovalMode::Auto, ApprovalMode::Never];

/// Serves an editor on standard input and output.
pub(crate) fn run(flags: &GlobalFlags) -> Result<Exit> {
    let settings = crate::load(flags)?;
    crate::runtime()?.block_on(serve(flags.clone(), settings))
}

async fn serve(flags: GlobalFlags, settings: Settings) -> Result<Exit> {
    let mut stops = exec::signals().context("cannot listen for signals")?;
    let backend = Arc::new(EditorSessions::new(flags, settings)?);
    let context = AcpContext {
        input: Box::new(BufReader::new(io::stdin())),
        output: Box::new(io::stdout()),
        backend: Arc::clone(&backend) as Arc<dyn AcpBackend>,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let mut stopped = None;
    sysop_acp::serve(context, async { stopped = stops.recv().await }).await;
    backend.close().await;
    Ok(stopped.map_or(Exit::Done, StopSignal::exit))
}

#[derive(Clone)]
struct EditorSessions {
    flags: GlobalFlags,
    /// Settings at program startup.
    settings: Arc<Settings>,
    storage: Storage,
    /// Services of all sessions so far, closed at exit.
    services: Arc<Mutex<Vec<Services>>>,
}

impl EditorSessions {
    fn new(flags: GlobalFlags, settings: Settings) -> Result<Self> {
        let storage = Storage::file(&settings)?;
        Ok(Self { flags, settings: Arc::new(settings), storage, services: Arc::default() })
    }

    async fn close(&self) {
        let services = std::mem::take(&mut *self.services.lock());
        for services in services {
            services.close().await;
        }
        self.storage.close().await;
    }

    /// Creates the services for sessions in a local directory. With a remote host, the directory is ignored,
    /// because the tools work on that host. `add_servers` adds the editor's MCP servers and returns notes for the user.
    async fn services(
        &self,
        folder: Option<PathBuf>,
        add_servers: impl FnOnce(&mut Settings) -> Vec<String>,
    ) -> Result<(Services, Vec<String>), BackendError> {
        let is_local = matches!(self.settings.host, HostChoice::Local);
        let root = folder.filter(|_| is_local).or_else(|| self.flags.root.clone());
        let flags = GlobalFlags { root, resume: None, ..self.flags.clone() };
        // May wait for a model server.
        let loading = tokio::task::spawn_blocking(move || load(&flags));
        let (mut settings, pick) =
            loading.await.map_err(|error| BackendError::Failed(error.to_string()))??;
        if let Some(why) = settings.hosts.model_access(&settings.host).refusal(&pick.model) {
            return Err(BackendError::Failed(why));
        }
        let notes = add_servers(&mut settings);
        let services = Services::on(self.storage.clone(), settings, pick.model);
        self.services.lock().push(services.clone());
        Ok((services, notes))
    }

    fn opened(
        &self,
        services: &Services,
        attached: sysop_driver::frontend::AttachedSession,
    ) -> OpenedSession {
        // A program that was started as read-only stays read-only.
        let is_read_only = self.settings.approve(&self.settings.host) == ApprovalMode::Never;
        let modes = if is_read_only { vec![ApprovalMode::Never] } else { MODES.to_vec() };
        let service = Arc::new(services.clone());
        OpenedSession { attached, service, modes, notes: Vec::new(), consents: None }
    }

    /// Returns the settings with which a session was opened.
    async fn spec(&self, id: &SessionId) -> Result<Arc<SessionSpec>, BackendError> {
        let start = self.storage.store().load(id, Seq(0), 1).await;
        match start.map(|page| page.into_iter().next()) {
            Ok(Some(Logged { event: Event::SessionOpened { spec, .. }, .. })) => Ok(spec),
            Ok(_) | Err(StoreError::NotFound(_)) => {
                Err(BackendError::NotFound(format!("there is no session {id}")))
            }
            Err(error) => Err(BackendError::Failed(error.to_string())),
        }
    }
}

fn load(flags: &GlobalFlags) -> Result<(Settings, ModelChoice), BackendError> {
    let settings = Settings::load(flags).map_err(|error| BackendError::Failed(error.to_string()))?;
    settings.require_runnable().map_err(|error| BackendError::Failed(format!("{error:#}")))?;
    crate::with_model(settings).map_err(|error| BackendError::NoModel(format!("{error:#}")))
}

#[async_trait]
impl AcpBackend for EditorSessions {
    async fn create(&self, folder: &Path, servers: Vec<EditorServer>) -> Result<OpenedSession, BackendError> {
        let services =
            self.services(Some(folder.to_owned()), |settings| servers::add(settings, servers)).await;
        let (services, notes) = services?;
        let known = crate::known_host::check(services.settings()).await;
        known.map_err(|error| BackendError::Failed(format!("{error:#}")))?;
        let attached = services.create_lazy().map_err(|error| BackendError::Failed(format!("{error:#}")))?;
        let questions = servers::waiting(services.settings());
        let consents = (!questions.is_empty()).then(|| {
            let settings = services.shared_settings();
            let of_editor = settings.mcp.iter().filter(|server| server.is_of_editor).cloned().collect();
            let (sessions, folder) = (self.clone(), folder.to_owned());
            let (id, servers) = (attached.session.id().clone(), Mutex::new(of_editor));
            Arc::new(NewSessionServers { sessions, folder, id, settings, servers, questions })
                as Arc<dyn ServerConsents>
        });
        Ok(OpenedSession { notes, consents, ..self.opened(&services, attached) })
    }

    async fn open(&self, id: &SessionId, servers: Vec<EditorServer>) -> Result<OpenedSession, BackendError> {
        let spec = self.spec(id).await?;
        let folder = is_local_host(&spec.host).then(|| PathBuf::from(&spec.root));
        let (services, mut notes) = self.services(folder, |settings| servers::add(settings, servers)).await?;
        notes.extend(servers::waiting(services.settings()).iter().map(|question| {
            format!(
                "The editor's MCP server {} is not started, because it needs your consent. To be asked, start a new \
                 session.",
                question.server
            )
        }));
        let attached = services.resume(id).await;
        let attached = attached.map_err(|error| BackendError::Failed(format!("{error:#}")))?;
        Ok(OpenedSession { notes, ..self.opened(&services, attached) })
    }

    async fn list(&self) -> Result<Vec<SessionSummary>, BackendError> {
        let found = self.storage.store().list(SESSIONS_MAX).await;
        found.map_err(|error| BackendError::Failed(error.to_string()))
    }

    async fn delete(&self, id: &SessionId) -> Result<(), BackendError> {
        let store = self.storage.store();
        match delete_session(store.as_ref(), &self.storage, &self.settings, id).await {
            Ok(()) | Err(StoreError::NotFound(_)) => Ok(()),
            Err(error) => Err(BackendError::Failed(error.to_string())),
        }
    }

    fn format_time(&self, time: Timestamp) -> String {
        jiff::Timestamp::from_millisecond(time.0).map_or_else(|_| String::new(), |time| time.to_string())
    }

    async fn check_model(&self) -> Result<(), BackendError> {
        let flags = self.flags.clone();
        let loading = tokio::task::spawn_blocking(move || load(&flags).map(drop));
        loading.await.map_err(|error| BackendError::Failed(error.to_string()))?
    }
}
