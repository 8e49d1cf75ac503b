//! Sessions on a server: many at a time, on any host, each with its host's models.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use sysop_core::catalog::Profile;
use sysop_core::deferred_tools;
use sysop_core::event::{ConfigChange, Event, Input, Logged};
use sysop_core::id::{Seq, SessionId, Timestamp, TurnId};
use sysop_core::image::{self, ImageHeader, ImageRef};
use sysop_core::message::{ModelRef, ModelRequest, ToolCall};
use sysop_core::model_provider::{OLLAMA_SSH, is_known};
use sysop_core::outcome::Outcome;
use sysop_core::policy::{ApprovalMode, Rule, Survey};
use sysop_core::skill::Skill;
use sysop_core::spec::SessionSpec;
use sysop_core::tool::ToolSpec;
use sysop_driver::cluster::Cluster as _;
use sysop_driver::frontend::{AttachedSession, NamedItem, SessionHandle, SessionService};
use sysop_driver::hooks::SessionHooks;
use sysop_driver::port::{
    Annotation, CancellationToken, DeltaSink, Host, ModelEvent, Provider, SearchHit, SessionSummary, Store,
    StoreError,
};
use sysop_driver::{Driver, DriverError, Ports, Runtime, RuntimeFactory, system_clock};
use sysop_host::ImageStoreError;
use sysop_server::audit::{Actor, AuditedCluster, AuditedStore};
use sysop_server::{
    Artifact, BackendError, CreateSession, HostDecorator, OpenedSession, ServerFacts, SessionBackend,
};
use sysop_store::PostgresNode;
use tokio_util::io::ReaderStream;

use super::{Services, ToolLocation, delete_session};
use crate::config::{UserDirs, unknown_provider};
use crate::settings::HostChoice;
use crate::system_prompt;

/// Maximum time for a server that is shutting down to notify the other nodes.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(3);
const EVENTS_MAX: usize = 256;
/// Host name of a session without a host, whose only tools are those offered by clients.
const NONE: &str = "none";

pub(crate) struct LocalSessions {
    services: Services,
    store: Arc<AuditedStore>,
    node: Option<PostgresNode>,
    driver: Driver,
    /// Set once the server has attempted to release all sessions.
    left: AtomicBool,
}

impl LocalSessions {
    /// Serves sessions from an audited store, optionally as one node of several. Must be called within a tokio runtime.
    pub(crate) fn new(services: Services, store: Arc<AuditedStore>, node: Option<PostgresNode>) -> Self {
        let ports = Ports { store: Arc::clone(&store) as Arc<dyn Store>, clock: system_clock() };
        let driver = match &node {
            Some(node) => {
                let audited = AuditedCluster::new(Arc::new(node.clone()), Arc::clone(&store));
                Driver::clustered(ports, Arc::new(audited))
            }
            None => Driver::new(ports),
        };
        let sessions = Self { services, store, node, driver, left: AtomicBool::new(false) };
        sessions.set_initial_inputs();
        sessions
    }

    /// Creates a session on a host for the user of this process. An empty name means the configured host.
    /// Fails with one sentence if the host is unknown or the session cannot be created.
    pub(crate) async fn create_on(&self, host: &str, opened_by: &str) -> Result<AttachedSession, String> {
        let request = CreateSession {
            host: Some(host.to_owned()).filter(|host| !host.is_empty()),
            opened_by: Some(opened_by.to_owned()),
            ..CreateSession::default()
        };
        let (spec, own) = self.plan_session(request).await.map_err(|error| error.to_string())?;
        let id = SessionId::new(uuid::Uuid::now_v7().to_string());
        let make_runtime = own.into_runtime_factory(Arc::new(|host| host));
        let opening = spec.clone();
        let created = self.driver.create_for(id, spec, Some(opened_by.to_owned()), make_runtime).await;
        let session = created.map_err(|error| error.to_string())?;
        let last = self.driver.last_seq(session.id()).unwrap_or(Seq(0));
        Ok(AttachedSession { session, last, spec: Arc::new(opening) })
    }

    /// Returns true if a session has subscribers other than the caller, who has one subscription.
    pub(crate) fn is_watched(&self, id: &SessionId) -> bool {
        self.driver.subscriber_count(id) > 1
    }

    /// Sets the inputs that each resumed session receives first: its host's current rules, the current budget, and the
    /// approval mode `never` if the server is read-only.
    fn set_initial_inputs(&self) {
        let (services, reads_only) = (self.services.clone(), self.is_read_only());
        self.driver.set_initial_inputs(move |spec| {
            // A host that is no longer in the config cannot be used; its options do not matter.
            let host = services.settings.hosts.resolve(&spec.host);
            let options = services.policy_options(host.as_ref().unwrap_or(&services.settings.host));
            let rules = services.rules(options);
            let reads_only = reads_only.then_some(ConfigChange::Approve(ApprovalMode::Never));
            let changes = [rules].into_iter().chain(services.budget()).chain(reads_only);
            changes.map(|change| Input::Configure { change }).collect()
        });
    }

    /// Fails if the request is invalid. What needs no network is checked first.
    async fn plan_session(
        &self,
        request: CreateSession,
    ) -> Result<(SessionSpec, SessionTools), BackendError> {
        let settings = &self.services.settings;
        let profile: Profile = match &request.profile {
            Some(name) => {
                name.parse().map_err(|_| BackendError::Invalid(format!("unknown profile {name:?}")))?
            }
            None => settings.profile,
        };
        let place = match request.host.as_deref() {
            Some(NONE) => None,
            host => Some(self.place(host, request.root.as_deref())?),
        };
        if let Some(model) = &request.model {
            let host = place.as_ref().map_or_else(|| NONE.to_owned(), |place| place.host.to_string());
            self.check_model(model, &host)?;
        }
        if let Some(approve) = request.approve {
            self.check_change(&ConfigChange::Approve(approve)).map_err(BackendError::Invalid)?;
        }
        let (mut spec, own) = match place {
            Some(place) => {
                // The server's own host was checked at its start.
                if request.host.is_some() {
                    let checked = crate::known_host::check_host(settings, &place.host).await;
                    checked.map_err(|failure| BackendError::Invalid(failure.message))?;
                }
                self.plan_on_machine(place, profile)?
            }
            None => self.plan_without_host(),
        };
        profile.as_str().clone_into(&mut spec.profile);
        spec.model = request.model.unwrap_or(spec.model);
        spec.approve = request.approve.unwrap_or(spec.approve);
        Ok((spec, own))
    }

    fn plan_without_host(&self) -> (SessionSpec, SessionTools) {
        let place = ToolLocation::new(HostChoice::Local, PathBuf::new());
        let spec = SessionSpec {
            system: system_prompt::system_without_host(),
            text_system: None,
            host: NONE.to_owned(),
            root: String::new(),
            ..self.services.spec(&place, &[], &[])
        };
        (spec, self.without_host())
    }

    fn plan_on_machine(
        &self,
        place: ToolLocation,
        profile: Profile,
    ) -> Result<(SessionSpec, SessionTools), BackendError> {
        let external = self.services.external_tools();
        let first = self.services.runtime(None, &place, profile, &external);
        let first = Box::new(first.map_err(|error| invalid_request(&error))?);
        let spec = self.services.spec(&place, first.host.tools(), &external);
        let services = Box::new(self.services.clone());
        Ok((spec, SessionTools::Machine { place, profile, external, services, first }))
    }

    /// Returns the location of a new session: under the server's root, or on another machine.
    fn place(&self, host: Option<&str>, root: Option<&Path>) -> Result<ToolLocation, BackendError> {
        let settings = &self.services.settings;
        let host = match host {
            None => settings.host.clone(),
            Some(host) => {
                settings.hosts.resolve(host).map_err(|failure| BackendError::Invalid(failure.message))?
            }
        };
        let Some(root) = root else { return Ok(ToolLocation::new(host, settings.root.clone())) };
        if matches!(host, HostChoice::Local) {
            return Ok(ToolLocation::new(host, confine_root(&settings.root, root)?));
        }
        let there =
            root.to_str().ok_or_else(|| BackendError::Invalid("the root is not valid UTF-8".to_owned()))?;
        let host = host
            .with_root(Some(there.to_owned()))
            .map_err(|failure| BackendError::Invalid(failure.message))?;
        Ok(ToolLocation::new(host, settings.root.clone()))
    }

    fn check_model(&self, model: &ModelRef, host: &str) -> Result<(), BackendError> {
        let provider = model.provider.as_str();
        if !is_known(provider) {
            return Err(BackendError::Invalid(unknown_provider(provider)));
        }
        let far = self.services.settings.hosts.resolve(host);
        if provider == OLLAMA_SSH.name && !matches!(far, Ok(HostChoice::Ssh(_))) {
            return Err(BackendError::Invalid(format!(
                "{provider} needs exactly one remote host; set `host`"
            )));
        }
        if let Some(why) =
            far.ok().and_then(|far| self.services.settings.hosts.model_access(&far).refusal(model))
        {
            return Err(BackendError::Invalid(why));
        }
        Ok(())
    }

    fn opened(&self, id: &SessionId) -> Option<OpenedSession> {
        Some(found(&self.driver, self.driver.get(id)?))
    }

    async fn location_of(&self, id: &SessionId) -> Result<SessionTools, BackendError> {
        let (spec, start) = self.opening_of(id).await?;
        if spec.host == NONE {
            return Ok(self.without_host());
        }
        let profile = spec.profile.parse().unwrap_or(self.services.settings.profile);
        let place = self.services.location_of(&spec, start).map_err(|error| invalid_request(&error))?;
        let external: Vec<_> = deferred_tools::external(&spec.tools).cloned().collect();
        let first = self.services.runtime(None, &place, profile, &external);
        let first = first.map_err(|error| invalid_request(&error))?;
        Ok(SessionTools::Machine {
            place,
            profile,
            external,
            services: Box::new(self.services.clone()),
            first: Box::new(first),
        })
    }

    /// Returns the tools for a session without a host, which uses the models reachable from this machine.
    fn without_host(&self) -> SessionTools {
        let hooks = self.services.hooks.of_session(&HostChoice::Local);
        SessionTools::None(self.services.models.of(&HostChoice::Local), hooks)
    }

    /// Returns a session's specification and start time.
    async fn opening_of(&self, id: &SessionId) -> Result<(Arc<SessionSpec>, Timestamp), BackendError> {
        let start = self.store.load(id, Seq(0), 1).await.map_err(|error| failed(error.into()))?;
        match start.into_iter().next() {
            Some(Logged { at, event: Event::SessionOpened { spec, .. }, .. }) => Ok((spec, at)),
            Some(_) | None => Err(BackendError::NotFound(id.clone())),
        }
    }

    /// Returns true if the server was started with `--approve never`, which forbids every change.
    fn is_read_only(&self) -> bool {
        let settings = &self.services.settings;
        settings.approve(&settings.host) == ApprovalMode::Never
    }
}

#[async_trait]
impl SessionBackend for LocalSessions {
    async fn create(
        &self,
        id: SessionId,
        request: CreateSession,
        decorate: HostDecorator,
    ) -> Result<OpenedSession, BackendError> {
        let opened_by = request.opened_by.clone();
        let (spec, own) = self.plan_session(request).await?;
        let make_runtime = own.into_runtime_factory(decorate);
        let session = self.driver.create_for(id, spec, opened_by, make_runtime).await.map_err(failed)?;
        Ok(found(&self.driver, session))
    }

    async fn open(&self, id: &SessionId, decorate: HostDecorator) -> Result<OpenedSession, BackendError> {
        if let Some(found) = self.opened(id) {
            return Ok(found);
        }
        let own = self.location_of(id).await?;
        let session = self.driver.open(id, own.into_runtime_factory(decorate)).await.map_err(failed)?;
        Ok(found(&self.driver, session))
    }

    fn facts(&self) -> Option<ServerFacts> {
        let settings = &self.services.settings;
        let place = ToolLocation::new(settings.host.clone(), settings.root.clone());
        Some(ServerFacts {
            machine: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            host: place.host.to_string(),
            root: place.display_root(),
            model: self.model(None),
            approve: settings.approve(&place.host),
        })
    }

    fn find_open(&self, id: &SessionId) -> Option<OpenedSession> {
        self.opened(id)
    }

    async fn list(&self, limit: usize) -> Result<Vec<SessionSummary>, BackendError> {
        self.store.list(limit).await.map_err(|error| failed(error.into()))
    }

    async fn search(&self, words: &[String], limit: usize) -> Result<Vec<SearchHit>, BackendError> {
        self.store.search(words, limit).await.map_err(|error| failed(error.into()))
    }

    async fn annotate(&self, id: &SessionId, annotation: &Annotation) -> Result<(), BackendError> {
        self.store.annotate(id, annotation).await.map_err(|error| failed(error.into()))
    }

    async fn events(&self, id: &SessionId, after: Seq) -> Vec<Logged> {
        self.store.load(id, after, EVENTS_MAX).await.unwrap_or_default()
    }

    async fn is_logged(&self, id: &SessionId, seq: Seq) -> bool {
        let found = self.store.load(id, Seq(seq.0.saturating_sub(1)), 1).await;
        !found.is_ok_and(|found| found.is_empty())
    }

    async fn delete(&self, id: &SessionId) -> Result<(), BackendError> {
        self.driver.end(id, "this session was deleted");
        let forgotten =
            delete_session(self.store.as_ref(), &self.services.storage, self.services.settings(), id).await;
        forgotten.map_err(|error| failed(error.into()))
    }

    async fn artifact(&self, id: &SessionId, name: &str) -> Result<Artifact, BackendError> {
        self.opening_of(id).await?;
        let path = self.services.artifact_path(name).map_err(BackendError::Invalid)?;
        let gone = |error: std::io::Error| {
            BackendError::Invalid(format!("cannot read the full output {name}: {error}"))
        };
        let file = tokio::fs::File::open(&path).await.map_err(gone)?;
        let bytes = file.metadata().await.map_err(gone)?.len();
        // Limited to the current size, in case the file is still growing.
        let pieces = ReaderStream::new(tokio::io::AsyncReadExt::take(file, bytes));
        Ok(Artifact { bytes, pieces: pieces.boxed() })
    }

    async fn store_image(
        &self,
        id: &SessionId,
        image: bytes::Bytes,
        name: String,
    ) -> Result<ImageRef, BackendError> {
        self.opening_of(id).await?;
        let folder = self.services.machines.artifacts();
        let storing =
            tokio::task::spawn_blocking(move || sysop_host::store_image(&folder, &image, &name)).await;
        let stored = storing.map_err(|error| BackendError::Failed(error.to_string()))?;
        stored.map_err(|error| match error {
            ImageStoreError::Refused(why) => BackendError::Invalid(why.to_string()),
            ImageStoreError::Io(_) => BackendError::Failed(error.to_string()),
        })
    }

    async fn image_header(&self, artifact: &str) -> Result<ImageHeader, BackendError> {
        let (folder, name) = (self.services.machines.artifacts(), artifact.to_owned());
        let loading = tokio::task::spawn_blocking(move || sysop_host::load_image(&folder, &name)).await;
        let bytes = loading.ok().and_then(Result::ok);
        let header = bytes.and_then(|bytes| image::check(&bytes).ok());
        header.ok_or_else(|| {
            let why = format!("the image {artifact} is not stored on this server; send it again");
            BackendError::Invalid(why)
        })
    }

    async fn fork(
        &self,
        from: &SessionId,
        before: TurnId,
        id: &SessionId,
        person: &str,
    ) -> Result<(), BackendError> {
        self.opening_of(from).await?;
        match self.driver.fork(from, before, id, Some(person)).await {
            Err(DriverError::NoTurn(..)) => {
                Err(BackendError::Invalid(format!("session {from} has no turn {before}")))
            }
            done => done.map_err(failed),
        }
    }

    async fn paths(&self, id: &SessionId, word: &str, limit: usize) -> Result<Vec<String>, BackendError> {
        self.opening_of(id).await?;
        Ok(SessionService::paths(&self.services, id, word, limit).await)
    }

    async fn skills(&self, id: &SessionId) -> Result<Vec<Skill>, BackendError> {
        self.opening_of(id).await?;
        Ok(SessionService::skills(&self.services, id).await)
    }

    fn hosts(&self) -> Vec<NamedItem> {
        SessionService::hosts(&self.services)
    }

    fn default_approval(&self, host: &str) -> Option<ApprovalMode> {
        let settings = &self.services.settings;
        settings.hosts.resolve(host).ok().map(|host| settings.approve(&host))
    }

    async fn models(&self) -> Vec<ModelRef> {
        SessionService::models(&self.services).await
    }

    fn check_change(&self, change: &ConfigChange) -> Result<(), String> {
        match change {
            ConfigChange::Approve(mode) if self.is_read_only() && *mode != ApprovalMode::Never => {
                Err("the server is read-only (`--approve never`)".to_owned())
            }
            ConfigChange::Auto(_) if self.is_read_only() => {
                Err("the server is read-only (`--approve never`)".to_owned())
            }
            ConfigChange::Model(model) if !is_known(&model.provider) => {
                Err(unknown_provider(&model.provider))
            }
            ConfigChange::Approve(_)
            | ConfigChange::Auto(_)
            | ConfigChange::Model(_)
            | ConfigChange::Mode(_)
            | ConfigChange::Effort(_)
            | ConfigChange::Budget(_)
            | ConfigChange::Revoke(_)
            | ConfigChange::Rules { .. }
            | ConfigChange::ClientTools(_) => Ok(()),
        }
    }

    fn rules_file(&self) -> Option<String> {
        Some(self.services.rules_file())
    }

    async fn save_rule(&self, rule: Rule) -> Result<Rule, String> {
        let services = self.services.clone();
        let written = tokio::task::spawn_blocking(move || services.write_rule(&rule)).await;
        let rule = written.unwrap_or_else(|error| Err(format!("cannot write the rule: {error}")))?;
        // Sessions resumed from now on will also receive it.
        self.set_initial_inputs();
        Ok(rule)
    }

    fn attribute_to(&self, id: &SessionId, who: &str, trace: Option<&str>, is_retry: bool) {
        let actor = Actor { name: who.to_owned(), trace: trace.map(str::to_owned) };
        self.store.attribute_to(id, actor, is_retry);
    }

    fn forget_request(&self, id: &SessionId, who: &str, is_retry: bool) {
        self.store.forget_request(id, who, is_retry);
    }

    async fn audit_refusal(&self, id: &SessionId, who: &str, what: &str) {
        self.store.audit_refusal(id, who, what).await;
    }

    fn model(&self, wanted: Option<&str>) -> ModelRef {
        let own = &self.services.model;
        let Some(wanted) = wanted.filter(|name| !name.is_empty()) else { return own.clone() };
        match wanted.parse::<ModelRef>() {
            Ok(model) if is_known(&model.provider) => model,
            // A bare name is a Gemini model; if another provider is configured, its model is used instead.
            _ if matches!(own.provider.as_str(), "gemini" | "vertex") => ModelRef::new(&own.provider, wanted),
            Ok(_) | Err(_) => own.clone(),
        }
    }

    fn ask(&self, request: ModelRequest) -> BoxStream<'static, ModelEvent> {
        self.services.models.of(&self.services.settings.host).stream(request)
    }

    async fn readiness_error(&self) -> Option<String> {
        let missing = match &self.node {
            Some(node) => node.ready().err(),
            None => None,
        };
        let missing = match missing {
            None => self.services.storage.ready().await.err(),
            missing => missing,
        };
        missing.map(|error| error.to_string())
    }

    fn without_folders(&self, error: String) -> String {
        hide_own_folders(error, &self.services.settings.folders)
    }

    fn live_session_count(&self) -> usize {
        self.driver.live_sessions()
    }

    fn evict_idle(&self, idle: Duration) {
        self.driver.evict_idle(idle);
    }

    async fn leave(&self) {
        if self.left.load(Ordering::SeqCst) {
            return;
        }
        let leaving = async {
            self.driver.leave().await.map_err(|error| error.to_string())?;
            match &self.node {
                Some(node) => node.leave().await.map_err(|error| error.to_string()),
                None => Ok(()),
            }
        };
        let left = tokio::time::timeout(LEAVE_TIME_MAX, leaving).await;
        if let Err(error) = left.unwrap_or_else(|_| Err("the database timed out".to_owned())) {
            tracing::warn!(error, "cannot leave the cluster; other nodes will detect that this node stopped");
        }
        self.left.store(true, Ordering::SeqCst);
    }
}

fn found(driver: &Driver, session: Arc<dyn SessionHandle>) -> OpenedSession {
    let last = driver.last_seq(session.id()).unwrap_or(Seq(0));
    OpenedSession { session, last }
}

enum SessionTools {
    /// The session has no tools of its own. It can use this provider's models.
    None(Arc<dyn Provider>, Option<Arc<dyn SessionHooks>>),
    Machine {
        place: ToolLocation,
        profile: Profile,
        /// MCP servers' tools that the session offers.
        external: Vec<ToolSpec>,
        services: Box<Services>,
        first: Box<Runtime>,
    },
}

impl SessionTools {
    /// Returns a factory that creates a new runtime each time the session is opened on this node. The host's
    /// state, such as a terminal, is lost when the session leaves the node.
    fn into_runtime_factory(self, decorate: HostDecorator) -> RuntimeFactory {
        match self {
            Self::None(provider, hooks) => Arc::new(move || {
                let (provider, hooks) = (Arc::clone(&provider), hooks.clone());
                Runtime { host: decorate(Arc::new(ToollessHost)), provider, instructions: None, hooks }
            }),
            Self::Machine { place, profile, external, services, first } => {
                let first = Mutex::new(Some(first));
                Arc::new(move || {
                    let runtime = match first.lock().take() {
                        Some(first) => Ok(*first),
                        None => services.runtime(None, &place, profile, &external),
                    };
                    let Runtime { host, provider, instructions, hooks } = runtime.unwrap_or_else(|error| {
                        let why = hide_own_folders(format!("{error:#}"), &services.settings.folders);
                        let host = Arc::new(UnreachableHost(why));
                        let hooks = services.hooks.of_session(&place.host);
                        Runtime { host, provider: services.models.of(&place.host), instructions: None, hooks }
                    });
                    Runtime { host: decorate(host), provider, instructions, hooks }
                })
            }
        }
    }
}

/// Rewrites an error for clients so that paths in sysop's own directories become relative to these directories.
fn hide_own_folders(error: String, folders: &UserDirs) -> String {
    let own = [&folders.data, &folders.cache, &folders.config];
    own.into_iter().fold(error, |error, folder| hide_folder(&error, folder))
}

/// Replaces paths under a directory with relative paths, and the directory's own path with its name.
fn hide_folder(text: &str, folder: &Path) -> String {
    let (Some(whole), Some(name)) = (folder.to_str(), folder.file_name().and_then(|name| name.to_str()))
    else {
        return text.to_owned();
    };
    let mut parts = text.split(whole.trim_end_matches('/'));
    let mut told = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.strip_prefix('/') {
            Some(below) => told.push_str(below),
            None => told.extend([name, part]),
        }
    }
    told
}

/// Returns the requested root if it is under the server's root.
fn confine_root(own: &Path, wished: &Path) -> Result<PathBuf, BackendError> {
    let outside = || BackendError::Invalid("the root must be a directory below the server's root".to_owned());
    let root = own.join(wished).canonicalize().map_err(|_| outside())?;
    if root.starts_with(own) && root.is_dir() { Ok(root) } else { Err(outside()) }
}

fn invalid_request(error: &anyhow::Error) -> BackendError {
    BackendError::Invalid(format!("{error:#}"))
}

fn failed(error: DriverError) -> BackendError {
    match error {
        DriverError::Store(StoreError::NotFound(id)) => BackendError::NotFound(id),
        DriverError::Store(StoreError::InUse { .. }) | DriverError::OwnedByOtherNode(..) => {
            BackendError::InUse(error.to_string())
        }
        DriverError::Store(_)
        | DriverError::Closed(_)
        | DriverError::QueueFull(_)
        | DriverError::NoTurn(..)
        | DriverError::BadLog(..) => BackendError::Failed(error.to_string()),
    }
}

struct ToollessHost;

#[async_trait]
impl Host for ToollessHost {
    fn tools(&self) -> &[ToolSpec] {
        &[]
    }

    async fn survey(&self, _: &ToolCall) -> Survey {
        Survey::default()
    }

    async fn run(&self, call: ToolCall, _: DeltaSink, _: CancellationToken) -> Outcome {
        Outcome::failed(format!("no host in this session can run {}", call.name))
    }
}

/// Placeholder for a host that could not be created. It has no tools, and every call fails with this reason.
struct UnreachableHost(String);

#[async_trait]
impl Host for UnreachableHost {
    fn tools(&self) -> &[ToolSpec] {
        &[]
    }

    async fn survey(&self, _: &ToolCall) -> Survey {
        Survey::default()
    }

    async fn run(&self, _: ToolCall, _: DeltaSink, _: CancellationToken) -> Outcome {
        Outcome::failed(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use sysop_core::id::SessionId;
    use sysop_driver::DriverError;
    use sysop_driver::port::StoreError;
    use sysop_server::BackendError;

    use super::{failed, hide_folder};

    #[test]
    fn a_session_that_another_process_uses_is_told_apart_from_a_failure() {
        let id = SessionId::new("s1");
        let in_use = DriverError::from(StoreError::InUse { id: id.clone(), process: Some(7) });
        for error in [in_use, DriverError::OwnedByOtherNode(id.clone(), "b".to_owned())] {
            assert!(matches!(failed(error.clone()), BackendError::InUse(_)), "{error:?}");
        }
        let broken = DriverError::BadLog(id, "damaged".to_owned());
        assert!(matches!(failed(broken), BackendError::Failed(_)));
    }

    #[test]
    fn a_file_is_named_relative_to_its_root() {
        let hidden = |text| hide_folder(text, Path::new("/home/me/.local/share/sysop"));
        for (text, told) in [
            (
                "the database /home/me/.local/share/sysop/sysop.db is damaged",
                "the database sysop.db is damaged",
            ),
            ("/home/me/.local/share/sysop: not a folder", "sysop: not a folder"),
            ("a /home/me/.local/share/sysop/b/c, /home/me/.local/share/sysop/d", "a b/c, d"),
            ("/home/me/project is no folder", "/home/me/project is no folder"),
        ] {
            assert_eq!(hidden(text), told);
        }
    }
}
