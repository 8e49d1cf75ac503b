//! Parses a TOML file into a layer. Each valid entry and each warning records its line in the file.
//!
//! Files of sysop, Jexida and agent-rs follow the same rules, except for the meaning of a bare model name.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::hooks;
use super::keys::{self, KeyPath, ListKind, PROVIDERS, SECRET, ValueKind};
use super::rules::{self, RuleError};
use super::steps;
use super::value::{self, ConfigValue, PatternCheck};
use super::{ConfigEntry, ConfigError, ConfigLayer, ConfigOrigin, ConfigWarning, RoutineSteps};

pub(crate) const FILE_BYTES_MAX: u64 = 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavor {
    /// Sysop's dialect. Jexida's files are parsed in the same way.
    Own,
    BuiltIn,
    /// Dialect of agent-rs, in which `api_key` and a bare `model` refer to Gemini.
    AgentRs,
}

pub(crate) fn read(path: &Path) -> Result<Option<String>, ConfigError> {
    let unreadable = |why: String| ConfigError::Unreadable { path: path.to_owned(), why };
    let kind = match std::fs::metadata(path) {
        Ok(kind) => kind,
        Err(error)
            if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(unreadable(error.to_string())),
    };
    if !kind.is_file() {
        return Err(unreadable("not a regular file".to_owned()));
    }
    let file = std::fs::File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(unreadable(format!("larger than {FILE_BYTES_MAX} bytes")));
    }
    String::from_utf8(bytes).map(Some).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..good].iter().filter(|byte| **byte == b'\n').count() + 1;
        unreadable(format!("line {line} is not valid UTF-8"))
    })
}

/// Parses the text of the file at `path`.
pub(crate) fn parse(path: &Path, text: &str, flavor: Flavor) -> Result<ConfigLayer, ConfigError> {
    let lines = LineIndex::of(text);
    let document = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(text.len(), |span| span.start);
        let why = error.message().lines().collect::<Vec<_>>().join(", ");
        ConfigError::Syntax { path: path.to_owned(), line: lines.number(at), why }
    })?;
    let table = document.get_ref();
    let flavor = if table.get("api_key").is_some() { Flavor::AgentRs } else { flavor };
    let mut reader = ConfigFileReader { path: path.into(), lines, flavor, layer: ConfigLayer::default() };
    reader.table(&KeyPath::new::<&str>([]), table);
    Ok(reader.layer)
}

/// Returns true if a file was written for Jexida or agent-rs, based on top-level keys that only they use.
pub(super) fn is_foreign(text: &str) -> bool {
    let Ok(document) = DeTable::parse(text) else { return false };
    let table = document.get_ref();
    let names_model = |model: &DeTable<'_>| model.len() == 1 && model.get("name").is_some();
    let is_jexida =
        table.iter().all(|(name, _)| ["connection", "model", "routines"].contains(&name.get_ref().as_ref()))
            && table.get("model").and_then(|model| model.get_ref().as_table()).is_some_and(names_model);
    is_jexida || table.get("api_key").is_some()
}

/// Returns true if an unknown key or table may have been meant to restrict commands: its name is similar to that of a
/// restriction, or it contains rules, or restrictions of hosts in a table similar to `hosts`.
fn may_restrict(path: &KeyPath, found: &DeValue<'_>) -> bool {
    if keys::may_restrict(path) {
        return true;
    }
    let has_rules = |value: &DeValue<'_>| value.as_table().is_some_and(|table| table.get("rules").is_some());
    if has_rules(found)
        || found.as_array().is_some_and(|array| array.iter().any(|entry| has_rules(entry.get_ref())))
    {
        return true;
    }
    let Some(hosts) = found.as_table().filter(|_| keys::nearest(path) == Some(KeyPath::from("hosts"))) else {
        return false;
    };
    hosts.iter().filter_map(|(_, host)| host.get_ref().as_table()).any(|host| {
        let mut keys = host.iter().map(|(name, _)| KeyPath::new(["hosts", "*", name.get_ref()]));
        keys.any(|key| {
            keys::is_restriction(&key) || keys::nearest(&key).as_ref().is_some_and(keys::is_restriction)
        })
    })
}

struct LineIndex(Vec<usize>);

impl LineIndex {
    fn of(text: &str) -> Self {
        Self(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect())
    }

    /// Returns the line, from 1, that contains this byte.
    fn number(&self, at: usize) -> usize {
        self.0.partition_point(|end| *end < at) + 1
    }
}

/// Names that people give to the key of a host that is called `host`.
const ADDRESS_NAMES: [&str; 5] = ["address", "addr", "hostname", "ip", "url"];

struct ConfigFileReader {
    path: Arc<Path>,
    lines: LineIndex,
    flavor: Flavor,
    layer: ConfigLayer,
}

impl ConfigFileReader {
    fn table(&mut self, outer: &KeyPath, table: &DeTable<'_>) {
        for (name, raw) in table.iter() {
            let path = outer.child(name.get_ref());
            let top_level = outer.names().is_empty().then_some(name.get_ref().as_ref());
            match (top_level, raw.get_ref()) {
                (Some("api_key"), _) => {
                    self.leaf(&KeyPath::new(["providers", "gemini", "api_key"]), SECRET, raw);
                }
                (Some("policy"), DeValue::Table(inner)) => self.rules(inner),
                (Some("policy"), _) => {
                    self.deny_all(name.span().start, "`policy` must be a table with [[policy.rules]]");
                }
                _ if keys::is_steps(&path) => self.steps(&path, name.span().start, raw),
                (Some("hooks" | "notify"), _) => self.program(name.get_ref(), raw),
                (_, DeValue::Table(inner)) if keys::is_table(&path) => {
                    self.table(&path, inner);
                    if inner.is_empty() {
                        self.table_without_keys(&path, name.span().start);
                    }
                }
                (Some("model"), found) => self.model(found, raw.span().start),
                (_, found) => match keys::find(&path) {
                    Some(key) => self.leaf(&path, key.kind, raw),
                    None if keys::is_table(&path) => {
                        let found = found.type_str();
                        let message =
                            format!("`{path}` must be a table, not {} {found}", value::article(found));
                        self.warn(name.span().start, message);
                    }
                    None => self.unknown(&path, name.span().start, found),
                },
            }
        }
    }

    /// Keeps what an empty table declares: a host, whose name is its address, a routine, or a variable of one.
    fn table_without_keys(&mut self, path: &KeyPath, at: usize) {
        match path.names() {
            [outer, host] if outer == "hosts" => {
                self.keep(path.child("host"), ConfigValue::Text(host.clone()), at);
            }
            [outer, _] | [outer, _, _, _] if outer == "routines" => {
                self.keep(path.child("description"), ConfigValue::Text(String::new()), at);
            }
            _ => {}
        }
    }

    /// Parses `[[hooks]]` or `[notify]`. An invalid one is an error: a skipped hook would deny nothing.
    fn program(&mut self, key: &str, raw: &Spanned<DeValue<'_>>) {
        let read = match key {
            "hooks" => hooks::read_hooks(raw).map(|read| {
                let place = |(at, hook)| (self.origin(at), hook);
                self.layer.hooks = read.into_iter().map(place).collect();
            }),
            _ => hooks::read_notify(raw).map(|read| {
                for (key, value) in read.entries() {
                    self.keep(KeyPath::from(key), value, raw.span().start);
                }
            }),
        };
        if let Err((at, why)) = read {
            let origin = self.origin(at);
            self.layer.program_errors.push(ConfigWarning { origin, message: why });
        }
        self.layer.programs.extend(self.layer.programs.is_empty().then(|| self.origin(raw.span().start)));
    }

    fn rules(&mut self, policy: &DeTable<'_>) {
        let read = rules::read(policy, |at| self.origin(at).to_string());
        for (at, rule) in read {
            match rule {
                Ok(rule) => self.layer.rules.push(rule),
                Err(RuleError::Skipped(why)) => self.warn(at, why),
                Err(RuleError::Denying(why)) => self.deny_all(at, &why),
            }
        }
    }

    fn steps(&mut self, path: &KeyPath, at: usize, raw: &Spanned<DeValue<'_>>) {
        let (steps, faults) = steps::read(raw, |at| self.lines.number(at));
        let origin = self.origin(at);
        let routine = path.names()[1].clone();
        self.layer.steps.push((routine, RoutineSteps { steps, faults, origin }));
    }

    /// Reports an unknown key. If it may be a misspelled restriction, skipping it would allow more commands.
    fn unknown(&mut self, path: &KeyPath, at: usize, found: &DeValue<'_>) {
        let meant = match (keys::meant(path), path.names()) {
            (Some(meant), _) => format!("; did you mean `{meant}`?"),
            (None, [outer, _]) if outer == "providers" => {
                format!("; available providers: {}", PROVIDERS.join(", "))
            }
            (None, [outer, host, name]) if outer == "hosts" && ADDRESS_NAMES.contains(&name.as_str()) => {
                format!("; did you mean `hosts.{host}.host`?")
            }
            (None, _) => String::new(),
        };
        let message = format!("`{path}` is not a config key{meant}");
        if may_restrict(path, found) { self.deny_all(at, &message) } else { self.warn(at, message) }
    }

    fn leaf(&mut self, path: &KeyPath, kind: ValueKind, raw: &Spanned<DeValue<'_>>) {
        let check = match self.flavor {
            Flavor::BuiltIn => PatternCheck::Skip,
            Flavor::Own | Flavor::AgentRs => PatternCheck::Compile,
        };
        let (mut value, complaints) = value::from_toml(kind, raw, check);
        if let (ValueKind::List(ListKind::Patterns), Some(ConfigValue::Texts(patterns)), false) =
            (kind, &mut value, complaints.is_empty())
        {
            // The user's replacement is incomplete, so the built-in patterns stay.
            let missing = super::built_in_patterns().into_iter().filter(|it| !patterns.contains(it));
            let missing: Vec<_> = missing.collect();
            patterns.extend(missing);
        }
        for complaint in complaints {
            let message = format!("`{path}` {}", complaint.why);
            if keys::denies_if_invalid(path) {
                self.deny_all(complaint.at, &message);
            } else {
                self.warn(complaint.at, message);
            }
        }
        let value = value.or_else(|| {
            let number = if let DeValue::Integer(number) = raw.get_ref() {
                i64::from_str_radix(number.as_str(), number.radix()).ok()
            } else {
                None
            };
            super::fallback_value(path, raw.get_ref().as_str(), number).inspect(|value| {
                if let Some(warning) = super::fallback_warning(path, value) {
                    self.warn(raw.span().start, warning);
                }
            })
        });
        if let Some(value) = value {
            self.keep(path.clone(), value, raw.span().start);
        }
    }

    /// Expands `model = "…"` to the two keys in `[model]`.
    fn model(&mut self, found: &DeValue<'_>, at: usize) {
        let Some(text) = found.as_str() else {
            let found = found.type_str();
            let article = value::article(found);
            return self.warn(at, format!("`model` must be \"PROVIDER/NAME\", not {article} {found}"));
        };
        let halves = match (self.flavor, text.split_once('/')) {
            (Flavor::AgentRs, _) => Some(("gemini", text.trim_start_matches("gemini/"))),
            (Flavor::Own | Flavor::BuiltIn, Some((provider, name))) => Some((provider, name)),
            (Flavor::Own | Flavor::BuiltIn, None) if text == keys::DEMO => Some((keys::DEMO, keys::DEMO)),
            (Flavor::Own | Flavor::BuiltIn, None) if text.starts_with("gemini-") => Some(("gemini", text)),
            (Flavor::Own | Flavor::BuiltIn, None) => None,
        };
        match halves {
            Some((provider, name)) if !provider.is_empty() && !name.is_empty() => {
                let path = KeyPath::new(["model"]);
                self.keep(path.child("provider"), ConfigValue::Text(provider.to_owned()), at);
                self.keep(path.child("name"), ConfigValue::Text(name.to_owned()), at);
            }
            Some(_) | None => {
                let text = value::quoted(text);
                self.warn(at, format!("`model` is {text}; use PROVIDER/NAME, such as `ollama/phi3`"));
            }
        }
    }

    fn keep(&mut self, path: KeyPath, value: ConfigValue, at: usize) {
        let origin = self.origin(at);
        self.layer.entries.push((path, ConfigEntry::new(value, origin)));
    }

    fn warn(&mut self, at: usize, message: String) {
        let origin = self.origin(at);
        self.layer.warn(origin, message);
    }

    /// Adds an error because of which all commands are denied.
    fn deny_all(&mut self, at: usize, message: &str) {
        let origin = self.origin(at);
        self.layer.deny_all(origin, message);
    }

    fn origin(&self, at: usize) -> ConfigOrigin {
        ConfigOrigin::File { path: self.path.clone(), line: self.lines.number(at) }
    }
}
