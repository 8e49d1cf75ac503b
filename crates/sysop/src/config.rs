//! Layered config: built-in defaults, choices made in a front end, the user's file, the workspace's file, the
//! environment, and flags.
//!
//! Later layers win key by key, and each value records its origin. This module does not interpret values; `settings`
//! does.
//! An untrusted workspace can only make settings stricter.

mod edit;
mod environment;
mod file;
mod hooks;
mod keys;
mod private_files;
mod routine;
mod routine_file;
mod rules;
mod show;
mod steps;
mod table_error;
mod trust;
mod ui_state;
mod value;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use file::Flavor;
use serde::de::DeserializeOwned;
use sysop_core::model_provider::{self, VERTEX_GLOBAL_URL};
use sysop_core::policy::{Rule, RuleAction};

pub(crate) use edit::{
    ConfigChangeError, apply_changes, check_text, new_problem, parse_key, remove_key, save_config,
};
pub(crate) use environment::{Environment, secret_variables};
pub(crate) use file::read as read_text;
#[cfg(test)]
pub(crate) use hooks::TIMEOUT_S as HOOK_TIMEOUT_S;
pub(crate) use hooks::{Hook, HookPoint, Notify, OnError, UserProgram};
pub(crate) use keys::WorkspaceRule;
#[cfg(test)]
pub(crate) use keys::{ConfigKey, HOOK_KEYS, ListKind};
pub(crate) use keys::{
    DEMO, KEYS, KeyPath, PROVIDERS, TextKind, ValueKind, find as find_key, is_key, nearest_word,
    unknown_provider,
};
pub(crate) use private_files::{check_private_folder, create_private_folder, replace_private_file};
pub(crate) use routine::{
    Routine, RoutineError, RoutineSource, TemplatePart, Variable, fill_template, takes_a_word, template_of,
    template_parts,
};
pub(crate) use routine_file::routines_in;
#[cfg(test)]
pub(crate) use routine_file::routines_of_text;
pub(crate) use show::{EffectiveKey, value_in};
pub(crate) use steps::{
    ABSENT, EditContent, FailureAction, FileEdit, RunbookStep, STEP_TIMEOUT_S_DEFAULT, STEPS_MAX, StepAction,
    StepExpectation, StepFault, VerifyRetry, output_pattern, with_sample_values,
};
pub(crate) use table_error::table_error;
pub(crate) use trust::{
    InstructionSet, TrustDecision, UntrustedWorkspace, revoke_trust, save_trust, trust_file,
};
pub(crate) use ui_state::{forget_theme, keep_theme, ui_state_file};
pub(crate) use value::{ConfigValue, is_http_url, without_credentials};

pub(crate) const WORKSPACE_FILE: &str = ".sysop.toml";

/// Returns the path of the file with the rules saved with `always`. It is next to the user's config file.
pub(crate) fn rules_file(own: &Path) -> PathBuf {
    own.with_file_name("rules.toml")
}

/// Adds a rule to the rules file next to the user's config file `own`, unless it is already there. Returns
/// the rule's position as `FILE:LINE`. Fails if the file cannot be written. The error is one sentence.
pub(crate) fn append_rule(own: &Path, rule: &Rule) -> Result<String, String> {
    let path = rules_file(own);
    let failed = |error: &dyn fmt::Display| {
        format!("cannot write the rule, so the command is still pending: {}: {error}", display_path(&path))
    };
    let entry = rule.to_toml();
    let mut text = file::read(&path).map_err(|error| failed(&error))?.unwrap_or_default();
    if let Some(at) = text.find(&entry) {
        return Ok(format!("{}:{}", display_path(&path), text[..at].lines().count() + 1));
    }
    if !text.is_empty() {
        text.push_str(if text.ends_with('\n') { "\n" } else { "\n\n" });
    }
    let line = text.lines().count() + 1;
    text.push_str(&entry);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    }
    private_files::replace_private_file(&path, text.as_bytes()).map_err(|error| failed(&error))?;
    Ok(format!("{}:{line}", display_path(&path)))
}

const DEFAULTS: &str = include_str!("config/default.toml");

/// Returns a path for display; characters that could deceive a reader are escaped.
pub(crate) fn display_path(path: &Path) -> String {
    let escape = |c: char| match c {
        '\'' | '"' | '\\' => c.to_string(),
        other => other.escape_debug().to_string(),
    };
    path.to_string_lossy().chars().map(escape).collect()
}

/// Place where a value was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConfigOrigin {
    Default,
    File {
        path: Arc<Path>,
        /// Line number, from 1.
        line: usize,
    },
    Environment {
        name: String,
    },
    Flag {
        /// Flag as typed.
        name: &'static str,
    },
}

impl fmt::Display for ConfigOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", display_path(path)),
            Self::Environment { name } => write!(f, "environment {name}"),
            Self::Flag { name } => write!(f, "flag {name}"),
        }
    }
}

/// Value of a key, with the places where it was set.
#[derive(Debug, Clone)]
pub(crate) struct ConfigEntry {
    pub(crate) value: ConfigValue,
    /// Origins; several if more than one layer added to a list. Never empty.
    pub(crate) origins: Vec<ConfigOrigin>,
}

impl ConfigEntry {
    fn new(value: ConfigValue, origin: ConfigOrigin) -> Self {
        Self { value, origins: vec![origin] }
    }

    /// Returns the origin of the value. If several layers added to a list, returns the origin of the last addition.
    pub(crate) fn origin(&self) -> &ConfigOrigin {
        self.origins.last().expect("an entry has at least one origin")
    }
}

impl RoutineSteps {
    pub(crate) fn warning(&self, name: &str, fault: StepFault) -> ConfigWarning {
        let origin = if let ConfigOrigin::File { path, .. } = &self.origin {
            ConfigOrigin::File { path: Arc::clone(path), line: fault.line }
        } else {
            self.origin.clone()
        };
        let message = format!("the routine {name:?} cannot run: {}", fault.message);
        ConfigWarning { origin, message }
    }

    /// Describes each step in one line, for a user who must decide on the steps.
    fn lines(&self, name: &str) -> impl Iterator<Item = String> {
        self.steps.iter().map(move |step| {
            let texts: Vec<String> = step
                .templates()
                .iter()
                .map(|(key, text, _)| format!("{key} = {}", value::quoted(text)))
                .collect();
            format!("routines.{name}.steps += {{ {} }}", texts.join(", "))
        })
    }
}

/// Problem in a config that does not prevent its use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigWarning {
    pub(crate) origin: ConfigOrigin,
    /// The problem, in one sentence.
    pub(crate) message: String,
}

impl fmt::Display for ConfigWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.message)
    }
}

/// Maximum number of warnings per layer; the last one says that more were omitted.
const WARNINGS_MAX: usize = 50;

/// Maximum number of errors per layer that deny all commands. A reader mends these first, and sees the next ones then.
const DENIALS_MAX: usize = 50;

/// One layer of the config, parsed from a file, the environment or the flags.
#[derive(Debug, Default)]
pub(crate) struct ConfigLayer {
    /// Valid entries, in source order.
    pub(crate) entries: Vec<(KeyPath, ConfigEntry)>,
    /// Warnings about invalid or ignored parts of the layer.
    pub(crate) warnings: Vec<ConfigWarning>,
    /// Errors because of which all commands are denied.
    pub(crate) denials: Vec<ConfigWarning>,
    /// Rules for commands, from `[[policy.rules]]`.
    pub(crate) rules: Vec<Rule>,
    pub(crate) steps: Vec<(String, RoutineSteps)>,
    /// The user's programs, from `[[hooks]]`.
    pub(crate) hooks: Vec<(ConfigOrigin, Hook)>,
    /// Errors in `[[hooks]]` and `[notify]`.
    pub(crate) program_errors: Vec<ConfigWarning>,
    /// First position in the layer that names a program to run.
    pub(crate) programs: Vec<ConfigOrigin>,
}

#[derive(Debug, Clone)]
pub(crate) struct RoutineSteps {
    pub(crate) steps: Vec<RunbookStep>,
    pub(crate) faults: Vec<StepFault>,
    /// Position of the first step.
    pub(crate) origin: ConfigOrigin,
}

impl ConfigLayer {
    fn warn(&mut self, origin: ConfigOrigin, message: String) {
        match self.warnings.len() {
            0..WARNINGS_MAX => self.warnings.push(ConfigWarning { origin, message }),
            WARNINGS_MAX => {
                self.warnings.push(ConfigWarning {
                    origin,
                    message: "too many problems; omitting the rest".to_owned(),
                });
            }
            _ => {}
        }
    }

    /// Adds an error in a part that restricts commands, unless there are [`DENIALS_MAX`].
    fn deny_all(&mut self, origin: ConfigOrigin, message: &str) {
        if self.denials.len() == DENIALS_MAX {
            return;
        }
        let message = format!("{message}; all commands are denied until it is fixed");
        self.denials.push(ConfigWarning { origin, message });
    }

    /// Adds `approve = "each"` unless the layer sets `approve`. Used for the config file of another program
    /// that asks about every command.
    fn ask_about_each(&mut self, path: &Path) {
        let approve = KeyPath::from("approve");
        if !self.entries.iter().any(|(key, _)| *key == approve) {
            let origin = ConfigOrigin::File { path: path.into(), line: 1 };
            self.entries.push((approve, ConfigEntry::new(ConfigValue::Text("each".to_owned()), origin)));
        }
    }

    /// Adds the value of a flag, which the command line parser has validated.
    pub(crate) fn flag(&mut self, name: &'static str, path: &str, value: impl Into<String>) {
        let entry = ConfigEntry::new(ConfigValue::Text(value.into()), ConfigOrigin::Flag { name });
        self.entries.push((KeyPath::from(path), entry));
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigError {
    /// An explicitly named file does not exist.
    #[error("config file not found: {}; check the path given with --config", display_path(.0))]
    Missing(PathBuf),
    /// A file cannot be read.
    #[error("cannot read the config file {}: {why}", display_path(.path))]
    Unreadable { path: PathBuf, why: String },
    /// A file is not valid TOML.
    #[error("{}:{line}: invalid TOML: {why}", display_path(.path))]
    Syntax {
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        why: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UserDirs {
    pub(crate) home: PathBuf,
    /// Directory that contains the config directories of all programs.
    pub(crate) config: PathBuf,
    /// Data directory of sysop. Its content must not be lost.
    pub(crate) data: PathBuf,
    /// Cache directory of sysop. Its content can be rebuilt.
    pub(crate) cache: PathBuf,
}

impl UserDirs {
    /// Returns the directory for a server's audit log.
    pub(crate) fn audit(&self) -> PathBuf {
        self.data.join("audit")
    }
}

/// Everything from which a config is loaded.
#[derive(Debug)]
pub(crate) struct ConfigSources<'a> {
    /// `--config`; replaces the user's file.
    pub(crate) explicit: Option<&'a Path>,
    /// True if the file given with `--config` may be missing, because the command writes it.
    pub(crate) creates_explicit: bool,
    pub(crate) folders: &'a UserDirs,
    /// Root of the workspace; `None` to ignore the workspace's file.
    pub(crate) root: Option<&'a Path>,
    pub(crate) environment: &'a Environment,
    /// True to trust the workspace's file without asking (`--trust`).
    pub(crate) trust: bool,
    pub(crate) flags: ConfigLayer,
}

#[derive(Debug, Default)]
pub(crate) struct Config {
    pub(crate) entries: BTreeMap<KeyPath, ConfigEntry>,
    /// Rules for commands, in the order of the layers.
    pub(crate) rules: Vec<Rule>,
    pub(crate) steps: BTreeMap<String, RoutineSteps>,
    /// The user's programs that examine calls and follow events.
    pub(crate) hooks: Vec<(ConfigOrigin, Hook)>,
    /// The user's program that is notified of approvals.
    pub(crate) notify: Option<Notify>,
    /// Errors in `[[hooks]]` and `[notify]`; tasks must not run while there are any.
    pub(crate) program_errors: Vec<ConfigWarning>,
    /// Warnings from all layers.
    pub(crate) warnings: Vec<ConfigWarning>,
    /// Errors in parts that restrict commands: all commands are denied while there are any.
    pub(crate) denials: Vec<ConfigWarning>,
    /// Files that were read, in layer order.
    pub(crate) files: Vec<PathBuf>,
    /// Path of the user's file that was read, or sysop's default path if none was read.
    pub(crate) own_file: PathBuf,
    /// The workspace's file, if parts of it are ignored because the user does not trust it.
    pub(crate) untrusted: Option<UntrustedWorkspace>,
    /// Addresses of the providers' servers in files, by the provider's table. Variables may override them.
    pub(crate) file_servers: BTreeMap<KeyPath, String>,
    /// Variables that any layer names as the source of a provider's key.
    pub(crate) key_variables: Vec<String>,
    /// Keys, key files and headers of providers that a later layer replaced.
    pub(crate) replaced_secrets: Vec<(KeyPath, ConfigValue)>,
}

impl Config {
    /// Loads all layers. Fails if an explicitly named file is missing, or a file is unreadable or not TOML.
    pub(crate) fn load(sources: ConfigSources<'_>) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        let defaults = file::parse(Path::new("default.toml"), DEFAULTS, Flavor::BuiltIn)?;
        for (path, entry) in defaults.entries {
            config.entries.insert(path, ConfigEntry::new(entry.value, ConfigOrigin::Default));
        }
        config.merge(ui_state::layer(&sources.folders.data));
        config.load_own(&sources)?;
        config.load_rules()?;
        config.load_workspace(&sources)?;
        let mut environment = environment::layer(sources.environment);
        config.withhold_usual_keys(&mut environment);
        config.file_servers = config.servers_of_files();
        config.merge(environment);
        config.merge(sources.flags);
        config.notify = Notify::of(&config);
        Ok(config)
    }

    /// Removes the usual key variable of each provider whose server and key are both in a file: that variable holds the
    /// key of another server.
    fn withhold_usual_keys(&self, environment: &mut ConfigLayer) {
        let addresses: Vec<KeyPath> = environment.entries.iter().map(|(path, _)| path.clone()).collect();
        environment.entries.retain(|(path, entry)| {
            let [outer, provider, key] = path.names() else { return true };
            let base_url = KeyPath::new([outer, provider, "base_url"]);
            let is_usual =
                environment::is_borrowed(entry.origin()) && outer == "providers" && key == "api_key";
            let is_of_file = self.entries.contains_key(path) && self.entries.contains_key(&base_url);
            !is_usual || !is_of_file || addresses.contains(&base_url)
        });
    }

    /// Returns the address of each provider's server that a file sets, by the provider's table.
    fn servers_of_files(&self) -> BTreeMap<KeyPath, String> {
        let addresses = self.entries.iter().filter(|(path, _)| keys::is_provider_address(path));
        let of_file = addresses.filter_map(|(path, entry)| match (entry.origin(), &entry.value) {
            (ConfigOrigin::File { .. }, ConfigValue::Text(address)) => Some((path, address)),
            _ => None,
        });
        of_file.map(|(path, address)| (KeyPath::new(&path.names()[..2]), address.clone())).collect()
    }

    /// Returns the server to which the keys and headers in files belong: the one beside them, or else that of the
    /// provider's vendor. Returns `None` for a provider without a vendor.
    pub(crate) fn server_of_files(&self, table: &KeyPath) -> Option<&str> {
        let vendors = || {
            let info = table.names().last().and_then(|provider| model_provider::find(provider));
            info.filter(|info| !info.is_self_hosted()).map(|info| match info.base_url {
                "" => VERTEX_GLOBAL_URL, // the only server without a fixed address, and the one for its keys
                url => url,
            })
        };
        self.file_servers.get(table).map(String::as_str).or_else(vendors)
    }

    /// Returns true if a variable names another server for the provider with this table than the one to which the keys
    /// and headers in files belong.
    pub(crate) fn is_server_replaced(&self, table: &KeyPath) -> bool {
        let entry = self.entries.get(&table.child("base_url"));
        match (self.server_of_files(table), entry.map(|entry| &entry.value)) {
            (Some(of_files), Some(ConfigValue::Text(address))) => !is_same_server(of_files, address),
            _ => false,
        }
    }

    pub(crate) fn has_hook(&self, point: HookPoint) -> bool {
        self.hooks.iter().any(|(_, hook)| hook.on == point)
    }

    pub(crate) fn entry(&self, path: &str) -> Option<&ConfigEntry> {
        self.entries.get(&KeyPath::from(path))
    }

    /// Returns the value or the table at a path, or `None` if it is unset.
    ///
    /// # Panics
    /// If `T` does not fit the table of keys.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: impl Into<KeyPath>) -> Option<T> {
        let mut found: Option<toml::Value> = None;
        let path = path.into();
        for (names, entry) in self.below(&path) {
            let table = || toml::Value::Table(toml::Table::new());
            let mut slot = found.get_or_insert_with(table);
            for name in names {
                let outer = slot.as_table_mut().expect("a key has no keys below it");
                slot = outer.entry(name).or_insert_with(table);
            }
            *slot = entry.value.to_toml();
        }
        found.map(|found| found.try_into().expect("the table of keys determines the type"))
    }

    /// Returns the entry at a path, or all entries of the table at that path. Each entry is paired with the
    /// part of its key after the path.
    pub(crate) fn below<'a>(
        &'a self,
        path: &'a KeyPath,
    ) -> impl Iterator<Item = (&'a [String], &'a ConfigEntry)> {
        self.entries.iter().filter_map(|(key, entry)| Some((key.names().strip_prefix(path.names())?, entry)))
    }

    /// Adds the steps to their routines, and finds faults that involve a whole routine.
    pub(crate) fn add_steps(&self, routines: &mut BTreeMap<String, Routine>) {
        for (name, steps) in &self.steps {
            let routine = routines.entry(name.clone()).or_default();
            routine.steps.clone_from(&steps.steps);
            routine.faults.clone_from(&steps.faults);
            routine.find_faults();
        }
    }

    /// Returns the environment variable that takes precedence over the files for this key or a key in this table, or
    /// `None` if none does.
    pub(crate) fn overriding_variable<'a>(&'a self, path: &'a KeyPath) -> Option<&'a str> {
        self.below(path).find_map(|(_, entry)| match entry.origin() {
            ConfigOrigin::Environment { name } => Some(name.as_str()),
            ConfigOrigin::Default | ConfigOrigin::File { .. } | ConfigOrigin::Flag { .. } => None,
        })
    }

    fn load_own(&mut self, sources: &ConfigSources<'_>) -> Result<(), ConfigError> {
        let folders = sources.folders;
        let own = folders.config.join("sysop").join("config.toml");
        let candidates = match sources.explicit {
            Some(path) => vec![(path.to_owned(), Flavor::Own)],
            None => vec![
                (own.clone(), Flavor::Own),
                (folders.home.join(".jexida").join("config.toml"), Flavor::Own),
                (folders.config.join("agent-rs").join("config.toml"), Flavor::AgentRs),
            ],
        };
        for (path, flavor) in candidates {
            if let Some(text) = file::read(&path)? {
                let mut layer = file::parse(&path, &text, flavor)?;
                if path != own && (sources.explicit.is_none() || file::is_foreign(&text)) {
                    layer.ask_about_each(&path);
                }
                self.warn_of_open_secret(&path, &layer);
                self.hooks = std::mem::take(&mut layer.hooks);
                self.program_errors = std::mem::take(&mut layer.program_errors);
                layer.programs.clear();
                self.merge(layer);
                self.own_file.clone_from(&path);
                self.files.push(path);
                return Ok(());
            }
        }
        if let Some(path) = sources.explicit
            && !sources.creates_explicit
        {
            return Err(ConfigError::Missing(path.to_owned()));
        }
        self.own_file = sources.explicit.map_or(own, Path::to_owned);
        Ok(())
    }

    /// Loads the rules saved with `always`, from a separate file next to the user's file.
    fn load_rules(&mut self) -> Result<(), ConfigError> {
        let path = rules_file(&self.own_file);
        let Some(text) = file::read(&path)? else { return Ok(()) };
        let mut layer = file::parse(&path, &text, Flavor::Own)?;
        for (key, entry) in std::mem::take(&mut layer.entries) {
            let message = format!("ignoring `{key}`: this file is for rules only");
            layer.warn(entry.origin().clone(), message);
        }
        self.merge(layer);
        self.files.push(path);
        Ok(())
    }

    #[cfg(unix)]
    fn warn_of_open_secret(&mut self, path: &Path, layer: &ConfigLayer) {
        use std::os::unix::fs::PermissionsExt;
        // Most headers are not secrets.
        let is_key = |name: &String| {
            name == "api_key" || name == "database" || name.eq_ignore_ascii_case("authorization")
        };
        let secret = layer.entries.iter().find(|(key, entry)| {
            matches!(entry.value, ConfigValue::Secret(_)) && key.names().last().is_some_and(is_key)
        });
        let open = std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o077 != 0);
        if let (Some((key, entry)), true) = (secret, open) {
            let message = format!(
                "`{key}` is a secret in a file that other users can read; run `chmod 600 {}`",
                display_path(path)
            );
            self.warnings.push(ConfigWarning { origin: entry.origin().clone(), message });
        }
    }

    #[cfg(not(unix))]
    #[expect(clippy::unused_self, reason = "the signature is the same on every system")]
    fn warn_of_open_secret(&mut self, _path: &Path, _layer: &ConfigLayer) {}

    fn load_workspace(&mut self, sources: &ConfigSources<'_>) -> Result<(), ConfigError> {
        let Some(root) = sources.root else { return Ok(()) };
        let path = root.join(WORKSPACE_FILE);
        let Some(text) = file::read(&path)? else { return Ok(()) };
        let mut layer = file::parse(&path, &text, Flavor::Own)?;
        layer.entries.retain(|(key, _)| key.names()[0] != "notify"); // a warning says so
        let hash = trust::hash(text.as_bytes());
        let answer = trust::answer(&sources.folders.data, &path, &hash);
        self.files.push(path.clone());
        if sources.trust || answer == Some(TrustDecision::Trusted) {
            self.merge(layer);
            return Ok(());
        }
        let left_out = self.tighten(layer);
        if !left_out.is_empty() {
            self.untrusted = Some(UntrustedWorkspace {
                path,
                hash,
                left_out,
                refused: answer == Some(TrustDecision::Refused),
            });
        }
        Ok(())
    }

    fn merge(&mut self, mut layer: ConfigLayer) {
        self.take_warnings(&mut layer);
        let named = layer.entries.iter().filter(|(path, _)| keys::is_key_variable(path));
        self.key_variables.extend(named.filter_map(|(_, entry)| match &entry.value {
            ConfigValue::Text(name) => Some(name.clone()).filter(|name| !name.is_empty()),
            ConfigValue::Secret(_)
            | ConfigValue::Integer(_)
            | ConfigValue::Number(_)
            | ConfigValue::Switch(_)
            | ConfigValue::Texts(_) => None,
        }));
        for (path, entry) in layer.entries {
            let replaced = self.entries.insert(path.clone(), entry);
            let secret = replaced.filter(|_| keys::is_provider_secret(&path));
            self.replaced_secrets.extend(secret.map(|old| (path, old.value)));
        }
        self.rules.append(&mut layer.rules);
        self.steps.extend(layer.steps);
    }

    /// Merges an untrusted layer's values that make settings stricter. Returns the other values, as TOML.
    fn tighten(&mut self, mut layer: ConfigLayer) -> Vec<String> {
        let mut left_out = Vec::new();
        for (path, entry) in std::mem::take(&mut layer.entries) {
            let rule = keys::find(&path).map_or(WorkspaceRule::Ignored, |key| key.workspace);
            if !self.tighten_one(rule, &path, &entry) {
                left_out.push(format!("{path} = {}", entry.value));
                let message =
                    format!("ignoring `{path}`: an untrusted workspace can only make settings stricter");
                layer.warn(entry.origin().clone(), message);
            }
        }
        for (name, steps) in std::mem::take(&mut layer.steps) {
            left_out.extend(steps.lines(&name));
            let message = format!(
                "ignoring the steps of the routine {name:?}: an untrusted workspace can only make settings stricter"
            );
            layer.warn(steps.origin, message);
        }
        for rule in std::mem::take(&mut layer.rules) {
            if rule.action == RuleAction::Allow {
                left_out.push(rule.to_toml());
                let message = format!(
                    "{}: ignoring this rule: an untrusted workspace can only ask or deny",
                    rule.origin
                );
                self.warnings.push(ConfigWarning { origin: ConfigOrigin::Default, message });
            } else {
                self.rules.push(rule);
            }
        }
        self.take_warnings(&mut layer);
        left_out
    }

    fn tighten_one(&mut self, rule: WorkspaceRule, path: &KeyPath, entry: &ConfigEntry) -> bool {
        if keys::is_approve(path) && self.combine_never(entry) {
            return true;
        }
        let present = self.entries.get_mut(path);
        let stricter = match (rule, present, &entry.value) {
            (WorkspaceRule::Stricter(words), Some(present), ConfigValue::Text(new)) => {
                let rank = |word: &str| words.iter().position(|known| *known == word);
                matches!(&present.value, ConfigValue::Text(old) if rank(new) >= rank(old))
            }
            (WorkspaceRule::Lower, Some(present), ConfigValue::Integer(new)) => {
                let limit = |number: i64| if number == 0 { i64::MAX } else { number };
                matches!(&present.value, ConfigValue::Integer(old) if limit(*new) <= limit(*old))
            }
            (WorkspaceRule::Only(strict), _, ConfigValue::Switch(new)) => *new == strict,
            (WorkspaceRule::Lower | WorkspaceRule::Adds, None, _) => true,
            (
                WorkspaceRule::Adds,
                Some(ConfigEntry { value: ConfigValue::Texts(old), origins }),
                ConfigValue::Texts(new),
            ) => {
                let added: Vec<String> = new.iter().filter(|text| !old.contains(text)).cloned().collect();
                if !added.is_empty() {
                    old.extend(added);
                    origins.push(entry.origin().clone());
                }
                return true;
            }
            _ => false,
        };
        if stricter {
            self.entries.insert(path.clone(), entry.clone());
        }
        stricter
    }

    /// Combines `each` with `never` so that both apply: changes are denied, and read-only commands require
    /// approval. Returns false if the current and the new value are not these two modes.
    fn combine_never(&mut self, entry: &ConfigEntry) -> bool {
        let (Some(old), ConfigValue::Text(new)) = (self.get::<String>("approve"), &entry.value) else {
            return false;
        };
        if !matches!((old.as_str(), new.as_str()), ("each", "never") | ("never", "each")) {
            return false;
        }
        let origin = entry.origin().clone();
        if new == "never" {
            self.entries.insert(KeyPath::from("approve"), entry.clone());
        }
        self.entries.insert(KeyPath::from("never_asks"), ConfigEntry::new(ConfigValue::Switch(true), origin));
        true
    }

    fn take_warnings(&mut self, layer: &mut ConfigLayer) {
        for origin in std::mem::take(&mut layer.programs) {
            let message = "ignoring `hooks` and `notify`: only your own config may name programs to run";
            layer.warn(origin, message.to_owned());
        }
        let line = |warning: &ConfigWarning| match &warning.origin {
            ConfigOrigin::File { line, .. } => *line,
            ConfigOrigin::Default | ConfigOrigin::Environment { .. } | ConfigOrigin::Flag { .. } => 0,
        };
        layer.denials.sort_by_key(line);
        layer.warnings.sort_by_key(line);
        self.denials.append(&mut layer.denials);
        self.warnings.append(&mut layer.warnings);
    }
}

/// Returns the built-in `dangerous_patterns`.
fn built_in_patterns() -> Vec<String> {
    let mut config = Config::default();
    if let Ok(layer) = file::parse(Path::new("built-in"), DEFAULTS, Flavor::BuiltIn) {
        config.merge(layer);
    }
    config.get("dangerous_patterns").unwrap_or_default()
}

/// Returns true if two URLs have the same scheme, host and port.
pub(crate) fn is_same_server(one: &str, other: &str) -> bool {
    let origin = |text: &str| url::Url::parse(text).ok().map(|url| url.origin());
    one == other || origin(one).is_some_and(|one| one.is_tuple() && Some(one) == origin(other))
}

/// Returns the value to use instead of the invalid `text`, for a key that would be dangerous to ignore. An approval
/// mode or a sandbox counts as the strictest one, so that no more commands run. The address of a provider is kept, or
/// is empty if it is no text, so that prompts go to no other server; `Settings` reports it. A `number` above the
/// highest valid one counts as that, for a key with a cap. Returns `None` for any other key.
fn fallback_value(path: &KeyPath, text: Option<&str>, number: Option<i64>) -> Option<ConfigValue> {
    if let Some(cap) = keys::cap(path) {
        return number.filter(|number| *number > cap).map(|_| ConfigValue::Integer(cap));
    }
    if let Some(strict) = keys::strict_value(path) {
        return Some(ConfigValue::Text(strict.to_owned()));
    }
    keys::is_provider_address(path).then(|| ConfigValue::Text(text.unwrap_or_default().to_owned()))
}

/// Returns the warning about an invalid value of a key, for which `value` counts. Returns `None` for the address of a
/// provider, which `Settings` reports.
fn fallback_warning(path: &KeyPath, value: &ConfigValue) -> Option<String> {
    (!keys::is_provider_address(path)).then(|| format!("falling back to {value} because `{path}` is invalid"))
}

#[cfg(test)]
pub(crate) mod tests;
