//! Puts the parts together: settings to providers, host, store and driver; and opens sessions on them.
//!
//! Nothing here is started before it is needed: no connection, no file but the session's own.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use futures::stream::BoxStream;
use sysop_core::catalog::Profile;
use sysop_core::event::{ConfigChange, Event, Input, Logged};
use sysop_core::id::{Seq, SessionId, Timestamp};
use sysop_core::message::{ModelRef, ModelRequest};
use sysop_core::policy::{PolicyOptions, Rule};
use sysop_core::spec::SessionSpec;
use sysop_core::tool::ToolSpec;
use sysop_driver::frontend::AttachedSession;
use sysop_driver::port::{ModelEvent, Provider, Store, StoreError};
use sysop_driver::{Driver, DriverError, Handle, Ports, Runtime, system_clock};
use sysop_provider::{
    Endpoint, GoogleCredentialSources, MetadataServer, OllamaSettings, Providers, ProvidersSettings,
    RemoteMachine, VertexSettings,
};
use sysop_store::SqliteStore;

mod delete_session;
mod local_sessions;
mod machines;
mod model_access;
mod session_service;
mod storage;

pub(crate) use self::delete_session::delete_session;
pub(crate) use self::local_sessions::LocalSessions;
use self::machines::HOME;
pub(crate) use self::machines::{Machines, ToolLocation};
pub(crate) use self::model_access::ModelAccess;
pub(crate) use self::storage::Storage;
use crate::config::{append_rule, display_path, rules_file};
use crate::demo::{DEMO, DemoProvider};
use crate::exit::CommandError;
use crate::global_flags::ResumeTarget;
use crate::sessions::{most_recent, resolve_id};
use crate::settings::{HostChoice, ProviderSettings, Settings, check_canary};
use crate::system_prompt;

/// The file of the session log, in the data folder.
pub(crate) const DATABASE: &str = "sysop.db";

/// Where the sessions are kept.
pub(crate) fn database(data: &Path) -> PathBuf {
    data.join(DATABASE)
}

/// Everything that sessions need, made of the settings.
#[derive(Clone)]
pub(crate) struct Services {
    driver: Driver,
    storage: Storage,
    store: Arc<dyn Store>,
    settings: Arc<Settings>,
    machines: Machines,
    models: Arc<ProvidersByHost>,
    model: ModelRef,
    /// Rules that were written since the config was read.
    written_rules: Arc<Mutex<Vec<Rule>>>,
}

impl Services {
    /// Puts the parts together; opens the store's file and nothing else.
    pub(crate) fn new(settings: Settings, model: ModelRef) -> Result<Self> {
        let storage = Storage::file(&settings)?;
        Ok(Self::on(storage, settings, model))
    }

    /// Puts the parts together on a store that is open.
    pub(crate) fn on(storage: Storage, settings: Settings, model: ModelRef) -> Self {
        let store = storage.store();
        let settings = Arc::new(settings);
        let machines = Machines::new(Arc::clone(&settings));
        let models = Arc::new(ProvidersByHost::new(Arc::clone(&settings), machines.clone()));
        let ports = Ports { store: Arc::clone(&store), clock: system_clock() };
        let (driver, written_rules) = (Driver::new(ports), Arc::default());
        Self { driver, storage, store, settings, machines, models, model, written_rules }
    }

    /// The session that the flags ask for: a new one, or an earlier one.
    pub(crate) async fn open(&self) -> Result<AttachedSession> {
        let id = match &self.settings.resume {
            None => return self.create_lazy(),
            Some(ResumeTarget::Latest) => most_recent(self.store.as_ref()).await,
            Some(ResumeTarget::Session(id)) => resolve_id(self.store.as_ref(), id.as_str()).await,
        };
        let id = id.map_err(|error| match error.exit_code() {
            2 => CommandError::usage(error.to_string()),
            _ => CommandError::failed(error.to_string()),
        })?;
        self.resume(&id).await
    }

    /// A new session where the settings say; it is kept from its first input on.
    pub(crate) fn create_lazy(&self) -> Result<AttachedSession> {
        let settings = &self.settings;
        self.create_at(&ToolLocation::new(settings.host.clone(), settings.root.clone()))
    }

    /// A new session on other hosts, as `--host` names them.
    pub(crate) fn create_on(&self, host: &str) -> Result<AttachedSession> {
        let host = self.settings.hosts.resolve(host)?;
        self.create_at(&ToolLocation::new(host, self.settings.root.clone()))
    }

    fn create_at(&self, place: &ToolLocation) -> Result<AttachedSession> {
        let runtime = self.runtime(place, self.settings.profile.into())?;
        let spec = self.spec(place, runtime.host.tools());
        let id = SessionId::new(uuid::Uuid::now_v7().to_string());
        let opening = spec.clone();
        Ok(opened(self.driver.create_lazy(id, spec, runtime), Seq(0), opening))
    }

    /// The tools of a place, and the models that sessions there reach.
    fn runtime(&self, place: &ToolLocation, profile: Profile) -> Result<Runtime> {
        let host = self.machines.host(place, profile)?;
        Ok(Runtime { host, provider: self.models.of(&place.host) })
    }

    /// How a new session there works with these tools, as the settings say.
    fn spec(&self, place: &ToolLocation, tools: &[ToolSpec]) -> SessionSpec {
        let settings = &self.settings;
        SessionSpec {
            model: self.model.clone(),
            system: system_prompt::system(&place.host, &place.display_root(), tools),
            tools: tools.to_vec(),
            approve: settings.approve(&place.host),
            dangerous_patterns: settings.dangerous_patterns.clone(),
            deny: settings.deny.clone(),
            policy: self.policy_options(&place.host),
            max_iterations: settings.limits.iterations,
            max_history_messages: settings.limits.history_messages,
            max_output_tokens: settings.limits.output_tokens,
            temperature: settings.temperature,
            host: place.host.to_string(),
            root: place.display_root(),
            profile: settings.profile.as_str().to_owned(),
        }
    }

    /// Where the whole output of a call is kept.
    ///
    /// # Errors
    /// When it is no name of one.
    fn artifact_path(&self, name: &str) -> Result<PathBuf, String> {
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
        if !plain || name.starts_with('.') {
            return Err(format!("invalid artifact name {name:?}"));
        }
        Ok(self.machines.artifacts().join(name))
    }

    /// What they were made of.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Ends what is connected or open.
    pub(crate) async fn close(&self) {
        self.machines.close().await;
        self.storage.close().await;
    }

    /// An earlier session, with its own root and tools; model and approval mode are those asked for now,
    /// and the rules of today's config are added to its own.
    pub(crate) async fn resume(&self, id: &SessionId) -> Result<AttachedSession> {
        let log_start = self.store.load(id, Seq(0), 1).await?;
        let Some(Logged { at, event: Event::SessionOpened { spec, .. }, .. }) = log_start.first() else {
            return Err(CommandError::failed(
                DriverError::from(StoreError::NotFound(id.clone())).to_string(),
            )
            .into());
        };
        let spec = spec.clone();
        let profile = spec.profile.parse().unwrap_or(self.settings.profile.into());
        let place = self.location_of(&spec, *at)?;
        let runtime = self.runtime(&place, profile)?;
        let handle = self.driver.resume(id, runtime).await.map_err(failure)?;
        let last = handle.last_seq();
        if self.settings.model.is_some() {
            handle
                .send(Input::Configure { change: ConfigChange::Model(self.model.clone()) })
                .map_err(failure)?;
        }
        for change in [ConfigChange::Approve(self.settings.approve(&place.host)), self.rules(&place.host)] {
            handle.send(Input::Configure { change }).map_err(failure)?;
        }
        Ok(opened(handle, last, spec))
    }

    /// The rules of today's config.
    fn rules(&self, host: &HostChoice) -> ConfigChange {
        ConfigChange::Rules {
            dangerous: self.settings.dangerous_patterns.clone(),
            deny: self.settings.deny.clone(),
            options: Some(self.policy_options(host)),
            rules: Vec::new(),
        }
    }

    /// The policy of today's config, with the rules that were written since.
    fn policy_options(&self, host: &HostChoice) -> PolicyOptions {
        let mut options = self.settings.policy_options(host);
        options.rules.extend(self.written_rules().iter().cloned());
        options
    }

    fn written_rules(&self) -> MutexGuard<'_, Vec<Rule>> {
        self.written_rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file of the user's rules, for people.
    fn rules_file(&self) -> String {
        display_path(&rules_file(&self.settings.config.own_file))
    }

    /// Writes a rule into the user's own file, for sessions that begin from now on as well; gives it with its place.
    ///
    /// # Errors
    /// One sentence if the file cannot be written.
    fn write_rule(&self, rule: &Rule) -> Result<Rule, String> {
        let mut written = self.written_rules(); // one writer at a time
        let origin = append_rule(&self.settings.config.own_file, rule)?;
        let rule = Rule { origin, ..rule.clone() };
        if !written.contains(&rule) {
            written.push(rule.clone());
        }
        Ok(rule)
    }

    /// Where an earlier session worked: on its hosts, with its roots.
    fn location_of(&self, spec: &SessionSpec, start: Timestamp) -> Result<ToolLocation> {
        let start_ms = u64::try_from(start.0).unwrap_or_default();
        let session_start = SystemTime::UNIX_EPOCH + Duration::from_millis(start_ms);
        let host = self.settings.hosts.resolve(&spec.host)?;
        if let Some(canary) = self.settings.canary {
            check_canary(canary.get(), &host)?;
        }
        let one_root = spec.root != HOME && !spec.root.contains(", ");
        let host = match &host {
            HostChoice::Ssh(_) | HostChoice::Fleet(_) if one_root => {
                host.with_root(Some(spec.root.clone()))?
            }
            HostChoice::Local | HostChoice::Ssh(_) | HostChoice::Fleet(_) => host,
        };
        let place = ToolLocation { host, root: PathBuf::from(&spec.root), session_start };
        // Roots of their own are those of the config, which may have changed.
        if place.display_root() != spec.root {
            let (was, is) = (&spec.root, place.display_root());
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

/// Opens the store of these settings.
pub(crate) fn open_store(settings: &Settings) -> Result<SqliteStore> {
    let path = database(&settings.folders.data);
    SqliteStore::open(&path).map_err(|error| CommandError::failed(error.to_string()).into())
}

fn failure(error: DriverError) -> CommandError {
    CommandError::failed(error.to_string())
}

/// The models of this process. Each ssh host has a provider of its own, because `ollama+ssh` is the Ollama of that host;
/// all other sessions share one.
struct ProvidersByHost {
    settings: Arc<Settings>,
    machines: Machines,
    /// By the host's name as shown; the empty name is the provider that all other sessions share. What a provider learned of its
    /// servers stays.
    by_host: Mutex<HashMap<String, Arc<HostProvider>>>,
}

impl ProvidersByHost {
    fn new(settings: Arc<Settings>, machines: Machines) -> Self {
        Self { settings, machines, by_host: Mutex::default() }
    }

    /// The models that sessions on this host reach, but for those that may not see what it shows.
    fn of(&self, host: &HostChoice) -> Arc<dyn Provider> {
        let remote = self.machines.remote_machine(host);
        let name = if remote.is_some() { host.to_string() } else { String::new() };
        let mut by_host = self.by_host.lock().unwrap_or_else(PoisonError::into_inner);
        let provider = by_host.entry(name).or_insert_with(|| {
            let providers = Providers::new(providers(&self.settings, remote));
            Arc::new(HostProvider { demo: DemoProvider::new(), providers })
        });
        self.settings.hosts.model_access(host).restrict(Arc::clone(provider) as Arc<dyn Provider>)
    }
}

/// The demo model, and every provider as it is reached from one host.
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

/// The settings of the providers in the form that their crate takes.
pub(crate) fn providers(settings: &Settings, remote: Option<Arc<dyn RemoteMachine>>) -> ProvidersSettings {
    let of = |name: &str| settings.providers.get(name).cloned().unwrap_or_default();
    let vertex = of("vertex");
    ProvidersSettings {
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

/// Where Google's own libraries look for credentials.
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
    }
}

/// A session of this process as a front end gets it.
pub(crate) fn opened(handle: Handle, last: Seq, spec: SessionSpec) -> AttachedSession {
    AttachedSession { session: Arc::new(handle), last, spec: Arc::new(spec) }
}
