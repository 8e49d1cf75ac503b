//! The config in layers: what is built in, what was chosen in a front end, the person's file, the workspace's file, the environment, the flags.
//!
//! Later wins, key by key, and each value knows where it came from. Nothing here acts on a value: `settings` gives
//! them their meaning. A workspace that the person does not trust may only make things stricter.

mod environment;
mod file;
mod keys;
mod private_files;
mod routine;
mod rules;
mod show;
mod trust;
mod ui_state;
mod value;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use file::Flavor;
use sysop_core::policy::{Rule, RuleAction};

pub(crate) use environment::{Environment, secret_variables};
pub(crate) use keys::{DEMO, KeyPath, PROVIDERS, nearest_word, unknown_provider};
pub(crate) use private_files::{check_private_folder, create_private_folder, replace_private_file};
pub(crate) use routine::{Routine, Variable};
pub(crate) use trust::{TrustDecision, UntrustedWorkspace, save_trust, trust_file};
pub(crate) use ui_state::{keep_theme, ui_state_file};
pub(crate) use value::{ConfigValue, without_credentials};

/// The name of a workspace's config file, at its root.
pub(crate) const WORKSPACE_FILE: &str = ".sysop.toml";

/// The file of the rules that were written by answering `always`, beside the user's config file.
pub(crate) fn rules_file(own: &Path) -> PathBuf {
    own.with_file_name("rules.toml")
}

/// Adds a rule to that file, if it does not hold it, and gives its place, as `FILE:LINE`.
///
/// # Errors
/// One sentence if the file cannot be written.
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

/// A path for a person to read: what could play tricks on a terminal is escaped.
pub(crate) fn display_path(path: &Path) -> String {
    let escape = |c: char| match c {
        '\'' | '"' | '\\' => c.to_string(),
        other => other.escape_debug().to_string(),
    };
    path.to_string_lossy().chars().map(escape).collect()
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConfigOrigin {
    /// It is built in.
    Default,
    /// A line of a file.
    File {
        /// Which file.
        path: Arc<Path>,
        /// The line, from 1.
        line: usize,
    },
    /// An environment variable.
    Environment {
        /// Its name.
        name: String,
    },
    /// A flag of the command line.
    Flag {
        /// As it is typed.
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

/// A value and where it came from.
#[derive(Debug, Clone)]
pub(crate) struct ConfigEntry {
    /// The value.
    pub(crate) value: ConfigValue,
    /// Where it came from; more than one where a layer added to it. Never empty.
    pub(crate) origins: Vec<ConfigOrigin>,
}

impl ConfigEntry {
    fn new(value: ConfigValue, origin: ConfigOrigin) -> Self {
        Self { value, origins: vec![origin] }
    }

    /// Where the value, or the last part of it, came from.
    pub(crate) fn origin(&self) -> &ConfigOrigin {
        self.origins.last().expect("an entry is made with an origin")
    }
}

/// Something in a config that was not taken as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigWarning {
    /// Where it stands.
    pub(crate) origin: ConfigOrigin,
    /// One sentence.
    pub(crate) message: String,
}

impl fmt::Display for ConfigWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.message)
    }
}

/// The most warnings that one layer keeps; a last one says that there were more.
const WARNINGS_MAX: usize = 50;

/// One layer as it was read.
#[derive(Debug, Default)]
pub(crate) struct ConfigLayer {
    /// What fits, in the order of the source.
    pub(crate) entries: Vec<(KeyPath, ConfigEntry)>,
    /// What does not.
    pub(crate) warnings: Vec<ConfigWarning>,
    /// The rules on commands.
    pub(crate) rules: Vec<Rule>,
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

    /// A file of a program that asked about every command means that.
    fn ask_about_each(&mut self, path: &Path) {
        let approve = KeyPath::dotted("approve");
        if !self.entries.iter().any(|(key, _)| *key == approve) {
            let origin = ConfigOrigin::File { path: path.into(), line: 1 };
            self.entries.push((approve, ConfigEntry::new(ConfigValue::Text("each".to_owned()), origin)));
        }
    }

    /// Puts a value there that a flag gave; the command line has checked it already.
    pub(crate) fn flag(&mut self, name: &'static str, path: &str, value: impl Into<String>) {
        let entry = ConfigEntry::new(ConfigValue::Text(value.into()), ConfigOrigin::Flag { name });
        self.entries.push((KeyPath::dotted(path), entry));
    }
}

/// A config that cannot be used at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigError {
    /// A file that was asked for is not there.
    #[error("config file not found: {}; check the path given with --config", display_path(.0))]
    Missing(PathBuf),
    /// A file cannot be read.
    #[error("cannot read the config file {}: {why}", display_path(.path))]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        why: String,
    },
    /// A file is not TOML.
    #[error("{}:{line}: invalid TOML: {why}", display_path(.path))]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What the parser says.
        why: String,
    },
}

/// The folders of the person's account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UserDirs {
    /// Their home.
    pub(crate) home: PathBuf,
    /// Where programs keep their config, each in its own folder.
    pub(crate) config: PathBuf,
    /// Where sysop keeps what must not be lost.
    pub(crate) data: PathBuf,
    /// Where sysop keeps what can be made again.
    pub(crate) cache: PathBuf,
}

impl UserDirs {
    /// Returns the folder of a server's audit.
    pub(crate) fn audit(&self) -> PathBuf {
        self.data.join("audit")
    }
}

/// What a config is loaded from.
#[derive(Debug)]
pub(crate) struct ConfigSources<'a> {
    /// `--config`: takes the place of the person's own file.
    pub(crate) explicit: Option<&'a Path>,
    /// Where the person's files are.
    pub(crate) folders: &'a UserDirs,
    /// The root of the workspace; none where its file is not to be read.
    pub(crate) root: Option<&'a Path>,
    /// The environment.
    pub(crate) environment: &'a Environment,
    /// What the flags say.
    pub(crate) flags: ConfigLayer,
}

/// Every value that holds, and how it came about.
#[derive(Debug, Default)]
pub(crate) struct Config {
    /// The values.
    pub(crate) entries: BTreeMap<KeyPath, ConfigEntry>,
    /// The rules on commands, in the order of the layers.
    pub(crate) rules: Vec<Rule>,
    /// What was not taken as it stands.
    pub(crate) warnings: Vec<ConfigWarning>,
    /// The files that were read, in the order of the layers.
    pub(crate) files: Vec<PathBuf>,
    /// The person's own file: the one in use, else the place where ours would be.
    pub(crate) own_file: PathBuf,
    /// The workspace's file, if parts of it are left out because the person does not trust it.
    pub(crate) untrusted: Option<UntrustedWorkspace>,
}

impl Config {
    /// Loads all layers.
    ///
    /// # Errors
    /// A file is missing that was named, cannot be read, or is not TOML.
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
        config.merge(environment::layer(sources.environment));
        config.merge(sources.flags);
        Ok(config)
    }

    /// The value at a path that is written with dots.
    pub(crate) fn entry(&self, path: &str) -> Option<&ConfigEntry> {
        self.entries.get(&KeyPath::dotted(path))
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
                self.merge(layer);
                self.own_file.clone_from(&path);
                self.files.push(path);
                return Ok(());
            }
        }
        if let Some(path) = sources.explicit {
            return Err(ConfigError::Missing(path.to_owned()));
        }
        self.own_file = own;
        Ok(())
    }

    /// The rules that were written by answering `always`, in a file of their own beside the user's.
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
        // Most headers are no secrets.
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
    #[expect(clippy::unused_self, reason = "the same call on every system")]
    fn warn_of_open_secret(&mut self, _path: &Path, _layer: &ConfigLayer) {}

    fn load_workspace(&mut self, sources: &ConfigSources<'_>) -> Result<(), ConfigError> {
        let Some(root) = sources.root else { return Ok(()) };
        let path = root.join(WORKSPACE_FILE);
        let Some(text) = file::read(&path)? else { return Ok(()) };
        let layer = file::parse(&path, &text, Flavor::Own)?;
        let hash = trust::hash(text.as_bytes());
        let answer = trust::answer(&sources.folders.data, &path, &hash);
        self.files.push(path.clone());
        if answer == Some(TrustDecision::Trusted) {
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
        self.entries.extend(layer.entries);
        self.rules.append(&mut layer.rules);
    }

    /// Takes of an untrusted layer only what makes things stricter; gives the rest, as TOML.
    fn tighten(&mut self, mut layer: ConfigLayer) -> Vec<String> {
        let mut left_out = Vec::new();
        for (path, entry) in std::mem::take(&mut layer.entries) {
            let rule = keys::find(&path).map_or(keys::WorkspaceRule::Ignored, |key| key.workspace);
            if !self.tighten_one(rule, &path, &entry) {
                left_out.push(format!("{path} = {}", entry.value));
                let message =
                    format!("ignoring `{path}`: an untrusted workspace can only make settings stricter");
                layer.warn(entry.origin().clone(), message);
            }
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

    fn tighten_one(&mut self, rule: keys::WorkspaceRule, path: &KeyPath, entry: &ConfigEntry) -> bool {
        if keys::is_approve(path) && self.combine_never(entry) {
            return true;
        }
        let present = self.entries.get_mut(path);
        let stricter = match (rule, present, &entry.value) {
            (keys::WorkspaceRule::Stricter, Some(present), ConfigValue::Text(new)) => {
                let Some(keys::ValueKind::Word(words)) = keys::find(path).map(|key| key.kind) else {
                    return false;
                };
                let rank = |word: &str| words.iter().position(|known| *known == word);
                matches!(&present.value, ConfigValue::Text(old) if rank(new) >= rank(old))
            }
            (keys::WorkspaceRule::Lower, Some(present), ConfigValue::Integer(new)) => {
                matches!(&present.value, ConfigValue::Integer(old) if new <= old)
            }
            (keys::WorkspaceRule::Only(strict), _, ConfigValue::Switch(new)) => *new == strict,
            (keys::WorkspaceRule::Lower | keys::WorkspaceRule::Adds, None, _) => true,
            (
                keys::WorkspaceRule::Adds,
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
            (
                keys::WorkspaceRule::Ignored
                | keys::WorkspaceRule::Stricter
                | keys::WorkspaceRule::Only(_)
                | keys::WorkspaceRule::Lower
                | keys::WorkspaceRule::Adds,
                _,
                _,
            ) => false,
        };
        if stricter {
            self.entries.insert(path.clone(), entry.clone());
        }
        stricter
    }

    /// Where `each` and `never` meet, both hold: changes are denied, and what only reads asks.
    fn combine_never(&mut self, entry: &ConfigEntry) -> bool {
        let word = |value: &ConfigValue| {
            if let ConfigValue::Text(text) = value { text.clone() } else { String::new() }
        };
        let approve = KeyPath::dotted("approve");
        let Some(present) = self.entries.get(&approve) else { return false };
        let (old, new) = (word(&present.value), word(&entry.value));
        if !matches!((old.as_str(), new.as_str()), ("each", "never") | ("never", "each")) {
            return false;
        }
        let origin = entry.origin().clone();
        if new == "never" {
            self.entries.insert(approve, entry.clone());
        }
        self.entries
            .insert(KeyPath::dotted("never_asks"), ConfigEntry::new(ConfigValue::Switch(true), origin));
        true
    }

    fn take_warnings(&mut self, layer: &mut ConfigLayer) {
        layer.warnings.sort_by_key(|warning| match &warning.origin {
            ConfigOrigin::File { line, .. } => *line,
            ConfigOrigin::Default | ConfigOrigin::Environment { .. } | ConfigOrigin::Flag { .. } => 0,
        });
        self.warnings.append(&mut layer.warnings);
    }
}

/// What a key counts as while its value is unusable, where leaving it out could loosen things.
fn fallback_value(path: &KeyPath) -> Option<ConfigValue> {
    keys::is_approve(path).then(|| ConfigValue::Text("each".to_owned()))
}

#[cfg(test)]
pub(crate) mod tests;
