//! Settings of one run: flags, environment and config files, typed and validated.
//!
//! Only this module reads the config's keys. Problems that prevent a task from running are collected in
//! `problems`, so that read-only commands (`config show`, `doctor`) still work.

use std::collections::{BTreeMap, HashMap};
use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use etcetera::base_strategy::{BaseStrategy, choose_base_strategy};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use sysop_core::budget::{Budget, BudgetLimits};
use sysop_core::catalog::Profile;
use sysop_core::effort::Effort;
use sysop_core::message::ModelRef;
use sysop_core::model_limits::ModelLimits;
use sysop_core::model_provider::is_known;
use sysop_core::model_table::{self, ModelPrice};
use sysop_core::policy::{ApprovalMode, PolicyOptions};
use sysop_local::ModelOverride;
use sysop_provider::{NO_REMOTE_MACHINE, OpenAiApi, SettingSources};
use sysop_term::ThemeName;

use crate::config::{
    Config, ConfigEntry, ConfigError, ConfigLayer, ConfigOrigin, ConfigSources, ConfigValue, ConfigWarning,
    Environment, HookPoint, KeyPath, PROVIDERS, Routine, UntrustedWorkspace, UserDirs, display_path,
    nearest_word, unknown_provider,
};
use crate::exit::CommandError;
use crate::global_flags::{GlobalFlags, ResumeTarget, Verbosity};

mod bare_model;
mod checks;
mod hosts;
mod mcp;
mod provider_keys;
mod sandbox;
mod secrets;
mod ssh_names;

pub(crate) use hosts::{ConfiguredHost, HostChoice, HostInventory, SshTarget, approve_on, check_canary};
use hosts::{approve_source, asks_and_denies};
pub(crate) use mcp::McpServer;
pub(crate) use provider_keys::KEY_SETTINGS;

/// Settings of one run, typed and validated.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Requested model; if `None`, `select_model` chooses one.
    pub(crate) model: Option<ConfiguredValue<ModelRef>>,
    pub(crate) limits: TurnLimits,
    /// Sampling temperature; `None` uses the provider's default.
    pub(crate) temperature: Option<f32>,
    /// Regular expressions for dangerous commands.
    pub(crate) dangerous_patterns: Vec<String>,
    /// Regular expressions for commands that must never run.
    pub(crate) deny: Vec<String>,
    /// Settings by provider name, one for each entry of `PROVIDERS`.
    pub(crate) providers: BTreeMap<String, ProviderSettings>,
    pub(crate) routines: BTreeMap<String, Routine>,
    /// Host on which tools run; this machine if `problems` reports an invalid host.
    pub(crate) host: HostChoice,
    /// Hosts from `[hosts]` and `[connection]`.
    pub(crate) hosts: HostInventory,
    /// ssh config to use instead of the user's own.
    pub(crate) ssh_config: Option<PathBuf>,
    pub(crate) canary: Option<NonZeroUsize>,
    /// Canonical root for local file tools and for the workspace's config. Other roots are in `host`.
    pub(crate) root: PathBuf,
    /// Tools available to the model.
    pub(crate) profile: Profile,
    /// Database shared by the nodes of a server; `None` uses a SQLite file. The URL may contain a password.
    pub(crate) database: Option<SecretString>,
    /// OTLP endpoint (HTTP) for a server's spans; `None` disables them.
    pub(crate) otlp_endpoint: Option<String>,
    /// Config file from `--config`.
    pub(crate) explicit_config: Option<PathBuf>,
    pub(crate) resume: Option<ResumeTarget>,
    /// Directories in the user's account.
    pub(crate) folders: UserDirs,
    pub(crate) color: ColorMode,
    pub(crate) theme: ThemeName,
    /// Source that overrides the theme saved by a front end; `None` if the saved theme applies at the next start.
    pub(crate) theme_decided_by: Option<String>,
    /// True if the theme for the terminal is unknown, so that the TUI queries the background color.
    pub(crate) detects_theme: bool,
    /// Names of the parts of the TUI's status line; the default parts if empty.
    pub(crate) status_line: Vec<String>,
    /// True if the TUI captures the mouse.
    pub(crate) mouse: bool,
    /// True if the workspace's instructions are trusted without asking.
    pub(crate) trust_workspace: bool,
    /// True if compaction never asks a model for a summary.
    pub(crate) ledger_only: bool,
    /// True if unknown models of local servers are asked how they call tools.
    pub(crate) probe_models: bool,
    /// True if `bash` moves a command to the background at its time limit unless the call says otherwise.
    pub(crate) background_on_timeout: bool,
    /// Entries in `[models."local/NAME"]` for downloads, without `local/`.
    pub(crate) local_models: Vec<ModelOverride>,
    /// Model limits, by `PROVIDER/NAME`.
    pub(crate) models: BTreeMap<String, ModelLimits>,
    /// Token prices, by `PROVIDER/NAME`.
    pub(crate) prices: HashMap<String, ModelPrice>,
    /// Spending limits for a turn and a session.
    pub(crate) budget: Budget,
    /// Limits for all sessions in a day together.
    pub(crate) day_budget: BudgetLimits,
    /// Seconds until a change that may lock people out is rolled back unless confirmed; 0 disables guards.
    pub(crate) guard_seconds: u32,
    /// Time after which an unanswered approval is rejected; 0 for never, `None` for the default.
    pub(crate) approval_expires: Option<u32>,
    /// True if a server also writes its audit log to the systemd journal.
    pub(crate) audit_journald: bool,
    /// Maximum number of bytes to keep per call for undo; 0 keeps nothing.
    pub(crate) undo_bytes: u64,
    /// Amount of messages besides the result.
    pub(crate) verbosity: Verbosity,
    /// Environment variables with provider keys and tokens, which must not be passed to child processes.
    pub(crate) secret_variables: Vec<String>,
    /// MCP servers, sorted by name.
    pub(crate) mcp: Vec<McpServer>,
    pub(crate) environment: Environment,
    /// Problems that prevent a task from running, worst first.
    pub(crate) problems: Vec<CommandError>,
    pub(crate) config: Config,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfiguredValue<T> {
    pub(crate) value: T,
    pub(crate) origin: ConfigOrigin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TurnLimits {
    /// Maximum number of model calls in one turn.
    pub(crate) iterations: u32,
    /// Maximum number of messages sent to the model, counted from the newest. If it is 0, as many are sent as
    /// fit into the model's context window.
    pub(crate) history_messages: usize,
    /// Maximum size, in bytes, of a call's output sent to the model.
    pub(crate) output_bytes: usize,
    /// Maximum number of lines of a call's output sent to the model.
    pub(crate) output_lines: usize,
    /// Maximum number of tokens in a reply; `None` uses the model's own limit.
    pub(crate) output_tokens: Option<u32>,
    /// Time limit of commands whose calls specify none; `None` uses each tool's own limit.
    pub(crate) tool_timeout: Option<Duration>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ProviderSettings {
    /// Base URL; `None` uses the provider's default.
    pub(crate) base_url: Option<String>,
    #[serde(skip)]
    pub(crate) api_key: Option<SecretString>,
    /// Origin of the key, or the reason that it is missing; contains no secret.
    #[serde(skip)]
    pub(crate) api_key_origin: Option<String>,
    /// Places where the base URL and the key were set, for hints.
    #[serde(skip)]
    pub(crate) sources: SettingSources,
    /// Additional headers; their values may be secret.
    #[serde(skip)]
    pub(crate) headers: Vec<(String, SecretString)>,
    /// Keys and headers of the config that are not sent, such as those for another server.
    #[serde(skip)]
    pub(crate) unsent_secrets: Vec<SecretString>,
    /// Maximum time without data; `None` uses the provider's default.
    #[serde(rename = "timeout_s", deserialize_with = "seconds")]
    pub(crate) timeout: Option<Duration>,
    pub(crate) project: Option<String>,
    pub(crate) location: Option<String>,
    /// API to use (OpenAI only).
    pub(crate) api: OpenAiApi,
    /// Reasoning effort (OpenAI only).
    pub(crate) effort: Option<Effort>,
    /// Context window in tokens (Ollama only).
    pub(crate) num_ctx: Option<u32>,
    /// Time for which the model stays loaded, in Ollama's notation (Ollama only).
    pub(crate) keep_alive: Option<String>,
}

/// Setting for colored output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColorMode {
    On,
    Off,
}

impl Settings {
    /// Loads the settings from this process's flags, environment and files. Fails if the root is not a
    /// directory or a config file cannot be loaded.
    pub(crate) fn load(flags: &GlobalFlags) -> Result<Self, CommandError> {
        let environment = Environment::of_process();
        let folders = folders()?;
        let color = color(flags, &environment, std::io::stdout().is_terminal());
        Self::from_parts(flags, environment, folders, color)
    }

    /// Same as `load`, with all inputs as arguments.
    pub(crate) fn from_parts(
        flags: &GlobalFlags,
        environment: Environment,
        folders: UserDirs,
        color: ColorMode,
    ) -> Result<Self, CommandError> {
        let load = |root: Option<&Path>| {
            let (explicit, folders, environment) = (flags.config.as_deref(), &folders, &environment);
            let (creates_explicit, trust) = (flags.creates_config, flags.trust);
            let flags = flag_layer(flags);
            let sources =
                ConfigSources { explicit, creates_explicit, folders, root, environment, trust, flags };
            Config::load(sources).map_err(|error: ConfigError| CommandError::usage(error.to_string()))
        };
        // Locate the workspace's file before reading it, so that its content cannot change the location.
        let (root, far_root) = match &flags.root {
            Some(there) if !is_local(&load(None)?) => (root(None)?, Some(remote_root(there)?)),
            here => (root(here.as_deref())?, None),
        };
        let mut config = load(Some(&root))?;
        let mut problems = Vec::new();
        let mut hosts = HostInventory::read(&mut config);
        let host = host(&config, &mut hosts, far_root, flags, &mut problems);
        let model = model(&config, &host, &mut problems);
        let profile = profile(&config, &mut problems);
        let mcp = mcp::read(&mut config, &environment, &folders);
        require_reachable_model(&host, model.as_ref(), &mut problems);
        let mut settings = Self {
            model,
            limits: limits(&config),
            temperature: config.get("temperature"),
            dangerous_patterns: config.get("dangerous_patterns").unwrap_or_default(),
            deny: checks::deny_patterns(&config),
            providers: BTreeMap::new(),
            routines: BTreeMap::new(),
            host,
            hosts,
            ssh_config: ssh_config(&config, &folders.home),
            canary: flags.canary,
            root,
            profile,
            database: config.get("database"),
            otlp_endpoint: config.get("otlp_endpoint"),
            explicit_config: flags.config.as_deref().map(real_path),
            resume: flags.resume.clone(),
            color,
            theme: theme(&config, flags, &environment),
            detects_theme: detects_theme(&config, flags, &environment),
            status_line: config.get("status_line").unwrap_or_default(),
            mouse: built_in(&config, "mouse"),
            theme_decided_by: theme_decided_by(&config, flags, &environment, &folders),
            folders,
            trust_workspace: flags.trust,
            ledger_only: built_in(&config, "ledger_only"),
            probe_models: built_in(&config, "probe_models"),
            background_on_timeout: config.get::<String>("on_timeout").as_deref() == Some("background"),
            local_models: local_models(&config),
            models: config.get("models").unwrap_or_default(),
            prices: config.get("prices").unwrap_or_default(),
            budget: budget(&config, flags),
            day_budget: config.get("budget.day").unwrap_or_default(),
            undo_bytes: built_in::<u64>(&config, "undo.megabytes") << 20,
            guard_seconds: built_in(&config, "guard.seconds"),
            approval_expires: config.get("approval_expires_s"),
            audit_journald: built_in(&config, "audit.journald"),
            verbosity: flags.verbosity(),
            secret_variables: [crate::config::secret_variables(&environment), config.key_variables.clone()]
                .concat(),
            mcp,
            environment,
            problems,
            config,
        };
        settings.read_providers();
        settings.read_routines();
        checks::run(&mut settings);
        Ok(settings)
    }

    pub(crate) fn with_database(self, flag: Option<SecretString>) -> Self {
        Self { database: flag.or(self.database), ..self }
    }

    /// Returns the password in the database's URL, if any.
    pub(crate) fn database_password(&self) -> Option<SecretString> {
        let url = url::Url::parse(self.database.as_ref()?.expose_secret()).ok()?;
        url.password().filter(|password| !password.is_empty()).map(SecretString::from)
    }

    /// Returns a model's context window in tokens, from the config or the built-in table; `None` if unknown.
    pub(crate) fn context_window(&self, model: &ModelRef) -> Option<u32> {
        let configured = self.models.get(&model.to_string()).and_then(|limits| limits.context_window);
        configured.or_else(|| model_table::find(model).map(|model| model.context_window))
    }

    /// Fails if a task cannot run with these settings. The error is the first problem.
    pub(crate) fn require_runnable(&self) -> Result<(), CommandError> {
        self.problems.first().map_or(Ok(()), |problem| Err(problem.clone()))
    }

    /// Returns the models' limits, with their prices from `[prices]`.
    pub(crate) fn models_with_prices(&self) -> BTreeMap<String, ModelLimits> {
        let mut models = self.models.clone();
        for (name, price) in &self.prices {
            models.entry(name.clone()).or_default().price = Some(*price);
        }
        models
    }

    pub(crate) fn approve(&self, host: &HostChoice) -> ApprovalMode {
        approve_on(&self.config, host)
    }

    /// Returns the setting that makes [`Self::approve`] what it is, or `None` if it is the default.
    pub(crate) fn approve_source(&self, host: &HostChoice) -> Option<String> {
        approve_source(&self.config, host)
    }

    /// Returns the policy options for these hosts, except for the approval mode and the patterns.
    pub(crate) fn policy_options(&self, host: &HostChoice) -> PolicyOptions {
        let switch = |key: &str| self.config.get(key) == Some(true);
        PolicyOptions {
            never_network: switch("never_network"),
            never_asks: switch("never_asks") || asks_and_denies(&self.config, host),
            rules: self.hosts.rules(host, &self.config.rules),
            sandbox: self.sandbox_options(host),
            approvals: self.hosts.approvals(host),
            approval_expires_s: self.approval_expires.unwrap_or_default(),
            hooks: self.config.has_hook(HookPoint::CommandBefore),
            prompt_hooks: self.config.has_hook(HookPoint::Prompt),
            tags: self.hosts.common_tags(host),
        }
    }

    /// Returns the host names in the user's ssh config.
    pub(crate) fn ssh_names(&self) -> Vec<String> {
        let home = &self.folders.home;
        let config = self.ssh_config.clone().unwrap_or_else(|| home.join(".ssh/config"));
        ssh_names::ssh_names(&config, home)
    }

    /// Returns the hosts from which a user can choose, each with a description: this machine, the hosts in the config,
    /// and the hosts in the user's ssh config.
    pub(crate) fn host_names(&self) -> Vec<(String, String)> {
        let mut hosts = vec![("local".to_owned(), "this machine".to_owned())];
        hosts.extend(self.hosts.known.iter().map(|known| {
            let target = &known.target;
            (target.name.clone(), target.description.clone().unwrap_or_else(|| target.destination.clone()))
        }));
        for name in self.ssh_names() {
            if !hosts.iter().any(|(known, _)| *known == name) {
                hosts.push((name, "from ~/.ssh/config".to_owned()));
            }
        }
        hosts
    }

    pub(crate) fn warnings(&self) -> &[ConfigWarning] {
        &self.config.warnings
    }

    /// Returns the workspace's file, if parts of it are ignored because the user does not trust it.
    pub(crate) fn untrusted(&self) -> Option<&UntrustedWorkspace> {
        self.config.untrusted.as_ref()
    }

    /// Returns a routine by name. Fails if the routine does not exist; the error lists the available ones.
    pub(crate) fn routine(&self, name: &str) -> Result<&Routine, CommandError> {
        self.routines.get(name).ok_or_else(|| {
            if self.config.below(&KeyPath::new(["routines", name])).next().is_some() {
                return CommandError::usage(format!("the routine {name:?} has no `cmd` and no `steps`"));
            }
            let known: Vec<&str> = self.routines.keys().map(String::as_str).collect();
            let next = match (nearest_word(name, known.iter().copied()), known.is_empty()) {
                (Some(meant), _) => format!("did you mean `{meant}`?"),
                (None, true) => format!("add one to {}", display_path(&self.config.own_file)),
                (None, false) => format!("available: {}", known.join(", ")),
            };
            CommandError::usage(format!("unknown routine {name:?}; {next}"))
        })
    }

    fn read_providers(&mut self) {
        for provider in PROVIDERS {
            let settings = self.read_provider(provider);
            self.providers.insert((*provider).to_owned(), settings);
        }
    }

    fn read_provider(&mut self, provider: &str) -> ProviderSettings {
        let base = KeyPath::new(["providers", provider]);
        let headers = base.child("headers");
        let header = |(names, entry): (&[String], &ConfigEntry)| match (names, &entry.value) {
            ([name], ConfigValue::Secret(value)) => {
                self.is_for_server(&base, entry).then(|| (name.clone(), value.clone()))
            }
            _ => None,
        };
        let mut settings = ProviderSettings {
            headers: self.config.below(&headers).filter_map(header).collect(),
            ..self.config.get(base.clone()).unwrap_or_default()
        };
        self.read_key(&base, &mut settings);
        settings.unsent_secrets = self.unsent_secrets(&base, &settings);
        let key = settings.api_key.as_ref().and(settings.api_key_origin.as_ref());
        let own_key = self.has_borrowed_address(&base).then(|| "LLM_AUTH_TOKEN".to_owned());
        settings.sources = SettingSources {
            base_url: self.config.entries.get(&base.child("base_url")).map(|entry| match entry.origin() {
                ConfigOrigin::Environment { name } => name.clone(),
                origin @ (ConfigOrigin::Default | ConfigOrigin::File { .. } | ConfigOrigin::Flag { .. }) => {
                    format!("base_url at {origin}")
                }
            }),
            api_key: key.map(|origin| origin.trim_start_matches("environment ").to_owned()).or(own_key),
            no_key: match self.has_borrowed_address(&base) {
                true => checks::missing_key(self, &settings),
                false => checks::configured_without_key(&settings),
            },
        };
        settings
    }

    fn read_routines(&mut self) {
        self.routines = self.config.get("routines").unwrap_or_default();
        self.config.add_steps(&mut self.routines);
        for (name, steps) in &self.config.steps {
            let fault = self.routines.get(name).and_then(|routine| routine.faults.first());
            self.config.warnings.extend(fault.map(|fault| steps.warning(name, fault.clone())));
        }
        self.routines.retain(|name, routine| {
            let table = KeyPath::new(["routines", name]);
            let origin = self.config.below(&table).next().map(|(_, entry)| entry.origin().clone());
            if !self.config.steps.contains_key(name)
                && let (Some(origin), "") = (origin, routine.cmd.as_str())
            {
                let message = format!("the routine {name:?} has no `cmd`");
                self.config.warnings.push(ConfigWarning { origin, message });
            }
            !routine.cmd.is_empty() || self.config.steps.contains_key(name)
        });
    }
}

/// Fields in `[models."local/NAME"]` that concern the download.
#[derive(Default, Deserialize)]
#[serde(default)]
struct LocalModelTable {
    url: Option<String>,
    sha256: Option<String>,
    size: Option<u64>,
    license: Option<String>,
    context_window: Option<u32>,
}

/// Returns the value of a key that has a built-in value.
fn built_in<T: DeserializeOwned>(config: &Config, key: &str) -> T {
    config.get(key).expect("the key has a built-in value")
}

fn local_models(config: &Config) -> Vec<ModelOverride> {
    let tables: BTreeMap<String, LocalModelTable> = config.get("models").unwrap_or_default();
    let of_local = tables.into_iter().filter_map(|(model, table)| {
        let name = model.strip_prefix("local/")?.to_owned();
        let LocalModelTable { url, sha256, size, license, context_window } = table;
        Some(ModelOverride { name, url, sha256, size, license, context_window })
    });
    of_local.collect()
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    u64::deserialize(deserializer).map(|seconds| Some(Duration::from_secs(seconds)))
}

fn folders() -> Result<UserDirs, CommandError> {
    let strategy = choose_base_strategy().map_err(|_| CommandError::usage("no home directory; set HOME"))?;
    Ok(UserDirs {
        home: strategy.home_dir().to_owned(),
        config: strategy.config_dir(),
        data: strategy.data_dir().join("sysop"),
        cache: strategy.cache_dir().join("sysop"),
    })
}

fn color(flags: &GlobalFlags, environment: &Environment, terminal: bool) -> ColorMode {
    let plain = flags.no_color
        || environment.value("NO_COLOR").is_some()
        || environment.value("TERM") == Some("dumb")
        || !terminal;
    if plain { ColorMode::Off } else { ColorMode::On }
}

fn root(wanted: Option<&Path>) -> Result<PathBuf, CommandError> {
    let path = wanted.unwrap_or(Path::new("."));
    let root = path.canonicalize().map_err(|error| {
        CommandError::usage(format!(
            "cannot use {} as the root: {error}; set --root to an existing directory",
            display_path(path)
        ))
    })?;
    if root.is_dir() {
        return Ok(root);
    }
    Err(CommandError::usage(format!(
        "the root {} is not a directory; set --root to one",
        display_path(&root)
    )))
}

fn flag_layer(flags: &GlobalFlags) -> ConfigLayer {
    let mut layer = ConfigLayer::default();
    if let Some(host) = &flags.host {
        layer.flag("--host", "connection.host", host);
    }
    if let Some(model) = &flags.model {
        layer.flag("--model", "model.provider", &model.provider);
        layer.flag("--model", "model.name", &model.name);
    }
    if let Some(approve) = flags.approve {
        layer.flag("--approve", "approve", approve.as_str());
    }
    if let Some(profile) = flags.profile {
        layer.flag("--profile", "profile", profile.as_str());
    }
    layer
}

/// Returns the path of the configured ssh config, or `None` if none is configured. `~/` stands for the home
/// directory. A relative path is resolved against the directory of the config file that contains it, or
/// against the working directory if it does not come from a file.
fn ssh_config(config: &Config, home: &Path) -> Option<PathBuf> {
    let text: String = config.get("ssh_config")?;
    if let Some(rest) = text.strip_prefix("~/") {
        return Some(home.join(rest));
    }
    let from = match config.entry("ssh_config")?.origin() {
        ConfigOrigin::File { path, .. } => path.parent().map(Path::to_owned),
        ConfigOrigin::Default | ConfigOrigin::Environment { .. } | ConfigOrigin::Flag { .. } => {
            std::env::current_dir().ok()
        }
    };
    Some(from.unwrap_or_default().join(text))
}

fn real_path(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Returns the theme without colors if colors are disabled, and the configured theme otherwise. If no theme is
/// configured, returns the light theme if the terminal reports a light background, and the dark theme otherwise.
fn theme(config: &Config, flags: &GlobalFlags, environment: &Environment) -> ThemeName {
    if flags.no_color || environment.value("NO_COLOR").is_some() {
        return ThemeName::None;
    }
    if let Some(chosen) = config.get::<String>("theme").as_deref().and_then(ThemeName::of) {
        return chosen;
    }
    // `COLORFGBG` has the form "foreground;background", with palette numbers.
    let ground = environment.value("COLORFGBG").and_then(|both| both.rsplit(';').next()?.parse::<u8>().ok());
    match ground {
        Some(7 | 9..=15) => ThemeName::Light,
        Some(_) | None => ThemeName::Dark,
    }
}

fn detects_theme(config: &Config, flags: &GlobalFlags, environment: &Environment) -> bool {
    let told = ["NO_COLOR", "COLORFGBG"].iter().any(|name| environment.value(name).is_some());
    !(flags.no_color || told || config.entry("theme").is_some())
}

/// Returns the source of the theme if it overrides the theme saved by a front end, or `None` if not.
fn theme_decided_by(
    config: &Config,
    flags: &GlobalFlags,
    environment: &Environment,
    folders: &UserDirs,
) -> Option<String> {
    if flags.no_color {
        return Some("flag --no-color".to_owned());
    }
    if environment.value("NO_COLOR").is_some() {
        return Some("environment NO_COLOR".to_owned());
    }
    let origin = config.entry("theme")?.origin();
    let picked = crate::config::ui_state_file(&folders.data);
    let stays = matches!(origin, ConfigOrigin::File { path, .. } if **path == *picked);
    (!stays).then(|| origin.to_string())
}

fn limits(config: &Config) -> TurnLimits {
    TurnLimits {
        iterations: built_in(config, "max_iterations"),
        history_messages: built_in(config, "max_history_messages"),
        output_bytes: built_in(config, "max_output_bytes"),
        output_lines: built_in(config, "max_output_lines"),
        output_tokens: config.get("max_output_tokens"),
        tool_timeout: config.get("tool_timeout_s").map(Duration::from_secs),
    }
}

/// Returns the budget from the config. Limits set by flags take precedence.
fn budget(config: &Config, flags: &GlobalFlags) -> Budget {
    let mut budget: Budget = config.get("budget").unwrap_or_default();
    budget.session.cost = flags.max_cost.or(budget.session.cost);
    budget.session.tokens = flags.max_tokens_total.or(budget.session.tokens);
    budget.turn.minutes = flags.max_minutes.or(budget.turn.minutes);
    budget
}

impl Settings {
    /// Returns true if the cost of a turn, a session or a day is limited.
    fn limits_cost(&self) -> bool {
        self.budget.limits_cost() || self.day_budget.cost.is_some()
    }
}

/// Returns true if tools run on this machine.
fn is_local(config: &Config) -> bool {
    config.get::<String>("connection.host").is_none_or(|host| host.trim() == "local")
}

/// Returns the root on another machine as text, or an error if it is not valid UTF-8. Does not check that it exists.
fn remote_root(path: &Path) -> Result<String, CommandError> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        CommandError::usage(format!(
            "the root {} is not valid UTF-8; set --root to another directory",
            display_path(path)
        ))
    })
}

fn host(
    config: &Config,
    hosts: &mut HostInventory,
    root: Option<String>,
    flags: &GlobalFlags,
    problems: &mut Vec<CommandError>,
) -> HostChoice {
    let host = match hosts.choose(config).and_then(|host| host.with_root(root)) {
        Ok(host) => host,
        Err(problem) => {
            problems.push(problem);
            return HostChoice::Local;
        }
    };
    // A resumed session has its own hosts; its canary group is checked when the session is opened.
    if let (Some(canary), None) = (flags.canary, &flags.resume)
        && let Err(problem) = check_canary(canary.get(), &host)
    {
        problems.push(problem);
    }
    host
}

/// Returns the configured model. A name without a provider means Ollama on the tools' host, as in Jexida.
fn model(
    config: &Config,
    host: &HostChoice,
    problems: &mut Vec<CommandError>,
) -> Option<ConfiguredValue<ModelRef>> {
    let entry = config.entry("model.name").or_else(|| config.entry("model.provider"))?;
    let origin = entry.origin().clone();
    let name = config.get::<String>("model.name").unwrap_or_default();
    let provider = config.get("model.provider").unwrap_or_else(|| {
        match host {
            HostChoice::Local => "ollama",
            HostChoice::Ssh(_) | HostChoice::Fleet(_) => "ollama+ssh",
        }
        .to_owned()
    });
    if name.is_empty() {
        return None; // `bare_model` reports it
    }
    if !is_known(&provider) {
        problems.push(CommandError::usage(format!("{origin}: {}", unknown_provider(&provider))));
        return None;
    }
    Some(ConfiguredValue { value: ModelRef::new(provider, name), origin })
}

fn profile(config: &Config, problems: &mut Vec<CommandError>) -> Profile {
    let Some(entry) = config.entry("profile") else { return Profile::Full };
    let name: String = config.get("profile").unwrap_or_default();
    name.parse().unwrap_or_else(|_| {
        let known = Profile::ALL.map(Profile::as_str);
        let next = match nearest_word(&name, known.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("available: {}", known.join(", ")),
        };
        problems.push(CommandError::usage(format!("{}: unknown profile {name:?}; {next}", entry.origin())));
        Profile::Full
    })
}

/// Adds a problem if the model uses `ollama+ssh` but the tools do not run on exactly one remote host.
fn require_reachable_model(
    host: &HostChoice,
    model: Option<&ConfiguredValue<ModelRef>>,
    problems: &mut Vec<CommandError>,
) {
    let Some(model) = model.filter(|model| model.value.provider == "ollama+ssh") else { return };
    let why = match host {
        HostChoice::Ssh(_) => return,
        HostChoice::Local => NO_REMOTE_MACHINE,
        HostChoice::Fleet(_) => SINGLE_REMOTE_MACHINE,
    };
    problems.push(CommandError::usage(format!(
        "{}: {why}; use --model ollama/{} for Ollama on this machine",
        model.origin, model.value.name
    )));
}

/// Error for `ollama+ssh` with several hosts.
pub(crate) const SINGLE_REMOTE_MACHINE: &str = "ollama+ssh needs a single remote host";

#[cfg(test)]
pub(crate) mod tests;
