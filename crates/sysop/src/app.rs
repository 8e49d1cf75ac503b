//! Assembles providers, hosts, store and driver from the settings, and opens sessions on them.
//!
//! Everything starts on demand: creating the services opens no connection, and no file except the session log.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use sysop_core::catalog::{self, Profile};
use sysop_core::deferred_tools;
use sysop_core::event::{ConfigChange, Event, Input, Logged, Update};
use sysop_core::id::{Seq, SessionId, Timestamp};
use sysop_core::message::{ModelRef, ModelRequest};
use sysop_core::model_limits::LEDGER_ONLY_WINDOW_MAX;
use sysop_core::model_provider::DEMO;
use sysop_core::policy::{ApprovalMode, PolicyOptions, Rule};
use sysop_core::question::QuestionId;
use sysop_core::spec::SessionSpec;
use sysop_core::text::neutralize_line;
use sysop_core::tool::ToolSpec;
use sysop_core::tool_time_limit;
use sysop_driver::frontend::{AttachedSession, PreviousSession, SessionHandle};
use sysop_driver::port::{ModelEvent, Provider, Store, StoreError};
use sysop_driver::prompter::{PromptReply, Terminal};
use sysop_driver::{Driver, DriverError, Handle, Ports, Runtime, system_clock};
use sysop_mcp::McpHost;
use sysop_provider::{
    Endpoint, GoogleCredentialSources, LocalServers, MetadataServer, ModelStatus, OllamaSettings, Providers,
    ProvidersSettings, RemoteMachine, VertexSettings,
};
use sysop_store::SqliteStore;

mod day_budget;
mod delete_session;
mod image_loader;
mod local_sessions;
mod machines;
mod model_access;
mod notes_host;
mod scratch_store;
mod session_service;
mod session_titles;
mod storage;
mod unsaved_places;
mod user_hooks;
mod workspace_instructions;

use self::day_budget::DayBudget;
pub(crate) use self::delete_session::delete_session;
pub(crate) use self::local_sessions::LocalSessions;
use self::machines::HOME;
pub(crate) use self::machines::{Machines, SOCKETS, ToolLocation, artifacts};
pub(crate) use self::model_access::ModelAccess;
use self::notes_host::NotesHost;
use self::scratch_store::ScratchStore;
use self::session_titles::SessionTitles;
pub(crate) use self::storage::Storage;
use self::unsaved_places::UnsavedPlaces;
use self::user_hooks::UserHooks;
pub(crate) use self::workspace_instructions::{WorkspaceInstructions, add_skills, own_skill_folders};
use crate::config::{append_rule, display_path, rules_file};
use crate::demo::DemoProvider;
use crate::exit::CommandError;
use crate::global_flags::ResumeTarget;
use crate::local_model::{self, ServersOfMachine};
use crate::mcp;
use crate::origin;
use crate::serve_options::redaction;
use crate::sessions::{most_recent_in, most_recent_with_undo, resolve_id, title_of};
use crate::settings::{HostChoice, ProviderSettings, Settings, check_canary};
use crate::system_prompt;
use crate::tool_calling_file::ToolCallingFile;

/// File name of the session log, in the data directory.
pub(crate) const DATABASE: &str = "sysop.db";

/// Maximum time to wait until the settings of a resumed session are in its log.
const RESUME_WAIT: Duration = Duration::from_secs(2);

pub(crate) fn database(data: &Path) -> PathBuf {
    data.join(DATABASE)
}

/// Returns the stricter of the configured mode and that of an earlier session. `each` and `never` together also ask
/// before commands that only read.
fn stricter_mode(configured: ApprovalMode, left: ApprovalMode, options: &mut PolicyOptions) -> ApprovalMode {
    let modes = [configured, left];
    options.never_asks |= [ApprovalMode::Each, ApprovalMode::Never].iter().all(|mode| modes.contains(mode));
    configured.stricter(left)
}

/// Services for sessions, created from the settings.
#[derive(Clone)]
pub(crate) struct Services {
    driver: Driver,
    storage: Storage,
    store: Arc<dyn Store>,
    settings: Arc<Settings>,
    machines: Machines,
    models: Arc<ProvidersByHost>,
    model: ModelRef,
    /// Rules that have been saved to the user's rules file since the config was read.
    written_rules: Arc<Mutex<Vec<Rule>>>,
    /// Hosts that have connections to MCP servers.
    mcp_hosts: Arc<Mutex<Vec<SessionMcpHost>>>,
    unsaved_places: UnsavedPlaces,
    hooks: Arc<UserHooks>,
    /// Title of new sessions, or `None` if their first prompt is their title.
    titles: Option<Arc<SessionTitles>>,
}

/// A session's connections to MCP servers.
struct SessionMcpHost {
    /// `None` for a session on a server.
    session: Option<SessionId>,
    host: Weak<McpHost>,
}

impl Services {
    /// Creates the services. This opens the store's file, but no other file and no connection.
    pub(crate) fn new(settings: Settings, model: ModelRef) -> Result<Self> {
        let storage = Storage::file(&settings)?;
        Ok(Self::on(storage, settings, model))
    }

    pub(crate) fn on(storage: Storage, settings: Settings, model: ModelRef) -> Self {
        let store = storage.store();
        let settings = Arc::new(settings);
        let machines = Machines::new(Arc::clone(&settings));
        let models = Arc::new(ProvidersByHost::new(Arc::clone(&settings), machines.clone()));
        let ports = Ports { store: Arc::clone(&store), clock: system_clock() };
        let driver = Driver::new(ports);
        let (written_rules, mcp_hosts, unsaved_places) = Default::default();
        let programs = settings.config.hooks.iter().map(|(_, hook)| hook.clone()).collect();
        let notify = settings.config.notify.clone();
        let hooks = Arc::new(UserHooks::new(programs, notify, redaction(&settings)));
        let titles = None;
        Self {
            driver,
            storage,
            store,
            settings,
            machines,
            models,
            model,
            written_rules,
            mcp_hosts,
            unsaved_places,
            hooks,
            titles,
        }
    }

    /// Gives this title to each new session.
    pub(crate) fn with_title(self, title: String) -> Self {
        let titles = Some(Arc::new(SessionTitles::new(title, Arc::clone(&self.store))));
        Self { titles, ..self }
    }

    /// Keeps what sessions append in memory, so that the store stays as it is.
    pub(crate) fn without_writes(self) -> Self {
        let store: Arc<dyn Store> = Arc::new(ScratchStore::over(self.store));
        let driver = Driver::new(Ports { store: Arc::clone(&store), clock: system_clock() });
        Self { driver, store, ..self }
    }

    /// Opens the session selected by the flags: a new one or an earlier one.
    pub(crate) async fn open(&self) -> Result<AttachedSession> {
        match self.selected_session().await? {
            Some(id) => self.resume(&id).await,
            None => self.create_lazy(),
        }
    }

    /// Fails if the session selected by the flags has no such call to undo. Writes nothing.
    pub(crate) async fn check_undo(&self, step: Option<u64>) -> Result<()> {
        let Some(id) = self.selected_session().await? else { return Ok(()) };
        let (session, _) = sysop_driver::replay(self.store.as_ref(), &id).await.map_err(failure)?;
        session.undo_refusal(step).map_or(Ok(()), |why| Err(CommandError::failed(why).into()))
    }

    /// Returns the earlier session selected by the flags; `None` for a new one.
    async fn selected_session(&self) -> Result<Option<SessionId>> {
        let id = match &self.settings.resume {
            None => return Ok(None),
            Some(ResumeTarget::Latest) => {
                let (host, root) = self.place_words();
                most_recent_in(self.store.as_ref(), &host, &root).await
            }
            Some(ResumeTarget::LatestWithUndo) => {
                let (host, root) = self.place_words();
                most_recent_with_undo(self.store.as_ref(), &host, &root).await
            }
            Some(ResumeTarget::Session(id)) => resolve_id(self.store.as_ref(), id.as_str()).await,
        };
        let id = id.map_err(|error| match error.exit_code() {
            2 => CommandError::usage(error.to_string()),
            _ => CommandError::failed(error.to_string()),
        })?;
        Ok(Some(id))
    }

    /// Returns the title of the session `id` if the flags ask for the latest session without naming it.
    pub(crate) async fn chosen_title(&self, id: &SessionId) -> Result<Option<String>> {
        match self.settings.resume {
            Some(ResumeTarget::Latest | ResumeTarget::LatestWithUndo) => {
                Ok(Some(title_of(self.store.as_ref(), id).await?))
            }
            Some(ResumeTarget::Session(_)) | None => Ok(None),
        }
    }

    /// Returns the configured host and root, as sessions name them.
    fn place_words(&self) -> (String, String) {
        let place = self.configured_place();
        (place.host.to_string(), place.display_root())
    }

    fn configured_place(&self) -> ToolLocation {
        ToolLocation::new(self.settings.host.clone(), self.settings.root.clone())
    }

    /// Creates a session at the configured location. The session is saved only once it receives its first input.
    pub(crate) fn create_lazy(&self) -> Result<AttachedSession> {
        self.create_lazy_as(new_session_id())
    }

    /// Like `create_lazy`, with an id that no saved session and no other session of these services has.
    pub(crate) fn create_lazy_as(&self, id: SessionId) -> Result<AttachedSession> {
        self.create_at(id, self.configured_place(), None)
    }

    /// Creates a session on the hosts named by `host`, in the syntax of `--host`, not on the configured host. Its mode
    /// is at least as strict as `approve`. If the hosts' output must not go to `model`, it has the configured model.
    pub(crate) fn create_on(
        &self,
        host: &str,
        model: Option<ModelRef>,
        approve: Option<ApprovalMode>,
    ) -> Result<AttachedSession> {
        let host = self.settings.hosts.resolve(host)?;
        let access = self.settings.hosts.model_access(&host);
        let model = model.filter(|model| access.refusal(model).is_none());
        let services = Self { model: model.unwrap_or_else(|| self.model.clone()), ..self.clone() };
        services.create_at(new_session_id(), ToolLocation::new(host, self.settings.root.clone()), approve)
    }

    /// Creates a session with the place and the model of another one, and a mode that is at least as strict.
    pub(crate) fn create_after(&self, previous: &PreviousSession) -> Result<AttachedSession> {
        let place = self.location_at(&previous.host, &previous.root, SystemTime::now())?;
        let services = Self { model: previous.model.clone(), ..self.clone() };
        services.create_at(new_session_id(), place, Some(previous.approve))
    }

    fn create_at(
        &self,
        id: SessionId,
        place: ToolLocation,
        approve: Option<ApprovalMode>,
    ) -> Result<AttachedSession> {
        let external = self.external_tools();
        let runtime = self.runtime(Some(&id), &place, self.settings.profile, &external)?;
        let mut spec = self.spec(&place, runtime.host.tools(), &external);
        if let Some(approve) = approve {
            spec.approve = stricter_mode(spec.approve, approve, &mut spec.policy);
        }
        self.unsaved_places.add(id.clone(), place);
        let opening = spec.clone();
        let session = self.driver.create_lazy(id, spec, runtime);
        if let Some(titles) = &self.titles {
            titles.add(&session);
        }
        Ok(opened(session, Seq(0), Arc::new(opening)))
    }

    /// Returns the MCP servers' tools that a new session offers.
    fn external_tools(&self) -> Vec<ToolSpec> {
        if self.settings.mcp.is_empty() {
            return Vec::new();
        }
        mcp::tools(&mcp::ready_servers(&self.settings)).into_iter().map(|tool| tool.spec).collect()
    }

    /// Creates a location's tools and the models that sessions there can use. Tools of MCP servers can be called only
    /// if `session_tools` contains them.
    fn runtime(
        &self,
        session: Option<&SessionId>,
        place: &ToolLocation,
        profile: Profile,
        session_tools: &[ToolSpec],
    ) -> Result<Runtime> {
        let mut host = self.machines.host(place, profile)?;
        if let Some(notes) = workspace_instructions::notes_file(&self.settings, place)
            && matches!(profile, Profile::Full | Profile::Operator)
        {
            host = Arc::new(NotesHost::new(host, notes));
        }
        if deferred_tools::external(session_tools).next().is_some() {
            let external = Arc::new(self.machines.with_mcp_servers(host).for_resumed(session_tools));
            self.mcp_hosts
                .lock()
                .push(SessionMcpHost { session: session.cloned(), host: Arc::downgrade(&external) });
            host = external;
        }
        let instructions = self.instructions(place);
        Ok(Runtime {
            host,
            provider: self.models.of(&place.host),
            instructions: Some(Arc::new(instructions)),
            hooks: self.hooks.of_session(&place.host),
        })
    }

    fn instructions(&self, place: &ToolLocation) -> WorkspaceInstructions {
        WorkspaceInstructions::new(self.machines.clone(), place.clone())
    }

    /// Returns the settings for a new session. `tools` are its host's tools, `external` the tools of MCP servers.
    fn spec(&self, place: &ToolLocation, tools: &[ToolSpec], external: &[ToolSpec]) -> SessionSpec {
        let settings = &self.settings;
        let window = settings.context_window(&self.model);
        let window = window.or_else(|| local_model::context_window(settings, &self.model));
        let is_small = window.is_some_and(|window| window <= LEDGER_ONLY_WINDOW_MAX);
        let mut tools = if is_small { catalog::small(tools) } else { tools.to_vec() };
        tools.extend_from_slice(external);
        if settings.background_on_timeout && !is_small {
            catalog::background_on_timeout(&mut tools);
        }
        if let Some(limit) = settings.limits.tool_timeout {
            tool_time_limit::set_time_limit(&mut tools, limit.as_secs());
        }
        // Models in the table call tools natively.
        let lists = place.host == HostChoice::Local
            && !system_prompt::shows_home(&place.root, &settings.folders.home)
            && sysop_core::model_table::find(&self.model).is_none();
        let small_system = system_prompt::small_system(&place.host, lists.then_some(&*place.root), &tools);
        let (system, text_system) = if is_small && external.is_empty() {
            (small_system, None)
        } else {
            (system_prompt::system(&place.host, &place.display_root(), &tools), Some(small_system))
        };
        SessionSpec {
            model: self.model.clone(),
            system,
            text_system,
            tools,
            approve: settings.approve(&place.host),
            dangerous_patterns: settings.dangerous_patterns.clone(),
            deny: settings.deny.clone(),
            policy: self.policy_options(&place.host),
            max_iterations: settings.limits.iterations,
            max_history_messages: settings.limits.history_messages,
            ledger_only: settings.ledger_only,
            canary: settings.canary.and_then(|canary| u32::try_from(canary.get()).ok()),
            models: settings.models_with_prices(),
            budget: settings.budget,
            instructions: true,
            max_output_tokens: settings.limits.output_tokens,
            temperature: settings.temperature,
            effort: settings.providers.get("openai").and_then(|openai| openai.effort),
            host: place.host.to_string(),
            root: place.display_root(),
            profile: settings.profile.as_str().to_owned(),
        }
    }

    /// Returns the path of the artifact `name`, a call's complete output. Fails if the name is invalid.
    fn artifact_path(&self, name: &str) -> Result<PathBuf, String> {
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
        if !plain || name.starts_with('.') {
            return Err(format!("invalid artifact name {name:?}"));
        }
        Ok(self.machines.artifacts().join(name))
    }

    /// Sets the base URL of sysop's web page, for links in notifications.
    pub(crate) fn set_page(&self, page: String) {
        self.hooks.set_page(page);
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn shared_settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings)
    }

    /// Stops background jobs, lists them on standard error, and closes connections and the store.
    pub(crate) async fn close(&self) {
        for job in self.driver.stop_jobs().await {
            let command = neutralize_line(&job.command);
            crate::tell(&format!("stopped the background job on {}: {command}", neutralize_line(&job.host)));
        }
        let hosts: Vec<_> = self.mcp_hosts.lock().drain(..).filter_map(|of| of.host.upgrade()).collect();
        futures::future::join_all(hosts.iter().map(|host| host.close())).await;
        self.hooks.close().await;
        self.machines.close().await;
        if let Some(titles) = &self.titles {
            titles.close().await;
        }
        self.storage.close().await;
    }

    /// Resumes an earlier session with its own root and tools. The approval mode, the limits of the budget that are
    /// set, and the model if one is configured, come from the current settings. The current rules are added to the
    /// session's rules.
    pub(crate) async fn resume(&self, id: &SessionId) -> Result<AttachedSession> {
        self.resume_at_least(id, None).await
    }

    /// Like `resume`, in a mode that is at least as strict as `approve`.
    pub(crate) async fn resume_at_least(
        &self,
        id: &SessionId,
        approve: Option<ApprovalMode>,
    ) -> Result<AttachedSession> {
        let log_start = self.store.load(id, Seq(0), 1).await?;
        let Some(Logged { at, event: Event::SessionOpened { spec, .. }, .. }) = log_start.first() else {
            return Err(CommandError::failed(
                DriverError::from(StoreError::NotFound(id.clone())).to_string(),
            )
            .into());
        };
        let spec = Arc::clone(spec);
        let profile = spec.profile.parse().unwrap_or(self.settings.profile);
        let place = self.location_of(&spec, *at)?;
        let runtime = self.runtime(Some(id), &place, profile, &spec.tools)?;
        let handle = self.driver.resume(id, runtime).await.map_err(failure)?;
        let last = handle.last_seq();
        if self.settings.model.is_some() {
            handle
                .send(Input::Configure { change: ConfigChange::Model(self.model.clone()) })
                .map_err(failure)?;
        }
        let mut options = self.policy_options(&place.host);
        let mut mode = self.settings.approve(&place.host);
        if let Some(approve) = approve {
            mode = stricter_mode(mode, approve, &mut options);
        }
        let changes = [ConfigChange::Approve(mode), self.rules(options)];
        for change in changes.into_iter().chain(self.budget()) {
            handle.send(Input::Configure { change }).map_err(failure)?;
        }
        // A front end first shows the settings in effect. It can do without them if the store is slow.
        let _ = tokio::time::timeout(RESUME_WAIT, handle.settle()).await;
        Ok(opened(handle, last, spec))
    }

    /// Returns the change that sets the limits of the current settings, or `None` if they set none.
    fn budget(&self) -> Option<ConfigChange> {
        Some(self.settings.budget).filter(|budget| !budget.is_empty()).map(ConfigChange::Budget)
    }

    fn rules(&self, options: PolicyOptions) -> ConfigChange {
        ConfigChange::Rules {
            dangerous: self.settings.dangerous_patterns.clone(),
            deny: self.settings.deny.clone(),
            options: Some(options),
            rules: Vec::new(),
        }
    }

    /// Returns the policy options from the current config, including rules saved since the config was read.
    fn policy_options(&self, host: &HostChoice) -> PolicyOptions {
        let mut options = self.settings.policy_options(host);
        options.rules.extend(self.written_rules.lock().iter().cloned());
        options
    }

    /// Path of the user's rules file, for display.
    fn rules_file(&self) -> String {
        display_path(&rules_file(&self.settings.config.own_file))
    }

    /// Saves a rule to the user's rules file, where later sessions will also find it. Returns the rule with
    /// its origin. Fails if the file cannot be written. The error is one sentence.
    fn write_rule(&self, rule: &Rule) -> Result<Rule, String> {
        let mut written = self.written_rules.lock(); // one writer at a time
        let origin = append_rule(&self.settings.config.own_file, rule)?;
        let rule = Rule { origin, ..rule.clone() };
        if !written.contains(&rule) {
            written.push(rule.clone());
        }
        Ok(rule)
    }

    /// Returns the location of an earlier session: its hosts and its root on each of them.
    fn location_of(&self, spec: &SessionSpec, start: Timestamp) -> Result<ToolLocation> {
        let start_ms = u64::try_from(start.0).unwrap_or_default();
        self.location_at(&spec.host, &spec.root, SystemTime::UNIX_EPOCH + Duration::from_millis(start_ms))
    }

    fn location_at(&self, host: &str, root: &str, session_start: SystemTime) -> Result<ToolLocation> {
        let host = self.settings.hosts.resolve(host)?;
        if let Some(canary) = self.settings.canary {
            check_canary(canary.get(), &host)?;
        }
        let one_root = root != HOME && !root.contains(", ");
        let host = match &host {
            HostChoice::Ssh(_) | HostChoice::Fleet(_) if one_root => host.with_root(Some(root.to_owned()))?,
            HostChoice::Local | HostChoice::Ssh(_) | HostChoice::Fleet(_) => host,
        };
        let place = ToolLocation { host, root: PathBuf::from(root), session_start };
        // Per-host roots come from the config, which may have changed.
        if place.display_root() != root {
            let (was, is) = (root, place.display_root());
            let why = format!(
                "this session worked in {was}, but the config now sets {is} for {}; restore `root` in [hosts.NAME], \
                 or start a new session",
                place.host
            );
            return Err(CommandError::usage(why).into());
        }
        Ok(place)
    }
}

fn new_session_id() -> SessionId {
    SessionId::new(uuid::Uuid::now_v7().to_string())
}

pub(crate) fn open_store(settings: &Settings) -> Result<SqliteStore> {
    let path = database(&settings.folders.data);
    SqliteStore::open(&path).map_err(|error| CommandError::failed(error.to_string()).into())
}

fn failure(error: DriverError) -> CommandError {
    CommandError::failed(error.to_string())
}

/// Returns the models that sessions on the configured host may use, for a request outside a session.
pub(crate) fn session_provider(settings: Settings) -> Arc<dyn Provider> {
    let settings = Arc::new(settings);
    let machines = Machines::new(Arc::clone(&settings));
    ProvidersByHost::new(Arc::clone(&settings), machines).of(&settings.host)
}

/// Model providers of this process. Each ssh host has a separate provider, because `ollama+ssh` means the
/// Ollama server on that host. Sessions that do not run on a single ssh host share one provider.
struct ProvidersByHost {
    settings: Arc<Settings>,
    machines: Machines,
    /// Providers by display name of the host; the empty name stands for the shared provider. Each provider is
    /// kept, with everything that it has learned about its servers.
    by_host: Mutex<HashMap<String, Arc<HostProvider>>>,
    /// Servers of local models, shared by all hosts.
    local: Arc<dyn LocalServers>,
}

impl ProvidersByHost {
    fn new(settings: Arc<Settings>, machines: Machines) -> Self {
        let local = ServersOfMachine::shared(&settings);
        Self { settings, machines, by_host: Mutex::default(), local }
    }

    /// Returns the status of a model for sessions on this host.
    fn status(&self, host: &HostChoice, model: &ModelRef) -> ModelStatus {
        self.host_provider(host).providers.model_status(model)
    }

    fn host_provider(&self, host: &HostChoice) -> Arc<HostProvider> {
        let remote = self.machines.remote_machine(host);
        let name = if remote.is_some() { host.to_string() } else { String::new() };
        let mut by_host = self.by_host.lock();
        let provider = by_host.entry(name).or_insert_with(|| {
            let mut settings = providers(&self.settings, remote);
            settings.local = Some(Arc::clone(&self.local));
            let providers = Providers::new(settings);
            Arc::new(HostProvider { demo: DemoProvider::new(), providers })
        });
        Arc::clone(provider)
    }

    /// Returns the models that sessions on this host may use.
    fn of(&self, host: &HostChoice) -> Arc<dyn Provider> {
        let provider = self.host_provider(host);
        let provider = image_loader::with_images(provider, self.machines.artifacts());
        let provider = self.settings.hosts.model_access(host).restrict(provider);
        let (limits, data) = (self.settings.day_budget, &self.settings.folders.data);
        match DayBudget::new(limits, &self.settings.prices, data) {
            Some(budget) => budget.limit(provider),
            None => provider,
        }
    }
}

/// The demo model and all other providers, set up for the sessions of one host.
struct HostProvider {
    demo: DemoProvider,
    providers: Providers,
}

impl Provider for HostProvider {
    fn stream(&self, request: ModelRequest) -> BoxStream<'static, ModelEvent> {
        if request.model.provider == DEMO {
            self.demo.stream(request)
        } else {
            self.providers.stream(request)
        }
    }
}

pub(crate) fn providers(settings: &Settings, remote: Option<Arc<dyn RemoteMachine>>) -> ProvidersSettings {
    let of = |name: &str| settings.providers.get(name).cloned().unwrap_or_default();
    let vertex = of("vertex");
    ProvidersSettings {
        openai_api: of("openai").api,
        openai: endpoint(of("openai")),
        gemini: endpoint(of("gemini")),
        anthropic: endpoint(of("anthropic")),
        vertex: VertexSettings {
            project: vertex.project.clone().or(variable(settings, "GOOGLE_CLOUD_PROJECT")),
            location: vertex.location.clone(),
            credentials: google_credentials(settings),
            endpoint: endpoint(vertex),
        },
        ollama: ollama(of("ollama")),
        ollama_ssh: ollama(of("ollama+ssh")),
        remote,
        local: None,
        tool_calling: Some(ToolCallingFile::store(&settings.folders.data)),
        probe_models: settings.probe_models,
    }
}

fn ollama(settings: ProviderSettings) -> OllamaSettings {
    OllamaSettings {
        num_ctx: settings.num_ctx,
        keep_alive: settings.keep_alive.clone(),
        endpoint: endpoint(settings),
    }
}

fn variable(settings: &Settings, name: &str) -> Option<String> {
    settings.environment.value(name).map(str::to_owned)
}

/// Returns the credential sources used by Google's own libraries.
fn google_credentials(settings: &Settings) -> GoogleCredentialSources {
    let gcloud = variable(settings, "CLOUDSDK_CONFIG")
        .map_or_else(|| settings.folders.home.join(".config/gcloud"), PathBuf::from);
    let skip = variable(settings, "NO_GCE_CHECK").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    GoogleCredentialSources {
        file: variable(settings, "GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from),
        gcloud_file: Some(gcloud.join("application_default_credentials.json")),
        metadata: match variable(settings, "GCE_METADATA_HOST") {
            _ if skip => MetadataServer::Off,
            Some(host) => MetadataServer::At(host),
            None => MetadataServer::Standard,
        },
    }
}

fn endpoint(settings: ProviderSettings) -> Endpoint {
    Endpoint {
        base_url: settings.base_url,
        api_key: settings.api_key,
        headers: settings.headers,
        timeout: settings.timeout,
        sources: settings.sources,
    }
}

/// Converts a local session to the form that front ends receive.
pub(crate) fn opened(handle: Handle, last: Seq, spec: Arc<SessionSpec>) -> AttachedSession {
    let session = LocalUserSession { handle, user: origin::user_name() };
    AttachedSession { session: Arc::new(session), last, spec }
}

/// A session in a front end of this process. Decisions are attributed to the process's user, who counts as
/// the same person as the owner of the tokens that this user created.
struct LocalUserSession {
    handle: Handle,
    user: String,
}

impl SessionHandle for LocalUserSession {
    fn id(&self) -> &SessionId {
        self.handle.id()
    }

    fn send(&self, mut input: Input) -> Result<(), String> {
        if let Input::Decision { person, .. } = &mut input {
            *person = Some(self.user.clone());
        }
        SessionHandle::send(&self.handle, input)
    }

    fn subscribe(&self, after: Seq) -> BoxStream<'static, Update> {
        SessionHandle::subscribe(&self.handle, after)
    }

    fn answer(&self, id: QuestionId, answer: PromptReply) -> bool {
        self.handle.answer(id, answer)
    }

    fn terminal(&self) -> Option<Arc<dyn Terminal>> {
        self.handle.terminal()
    }

    fn is_by_another_process(&self, event: Seq) -> bool {
        self.handle.is_by_another_process(event)
    }

    fn last_error(&self) -> Option<String> {
        self.handle.last_error()
    }
}
