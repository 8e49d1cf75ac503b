//! Prints a config, or one of its keys, with the origin of each value. Secrets are shown as `[set]`.

use std::fmt::Write;
use std::path::Path;

use sysop_core::ui_text::counted;

use super::file::Flavor;
use super::value::{ConfigValue, RedactedProgram};
use super::{Config, ConfigEntry, ConfigOrigin, KeyPath, keys};

/// Value of a key, for display.
pub(crate) struct EffectiveValue {
    /// Key and value as TOML; a list of tables as `key += { … }`.
    line: String,
    /// The value, without quotes if it is a string.
    value: String,
    /// Places where the value was set.
    origin: String,
}

/// Answer to `sysop config get`.
pub(crate) enum EffectiveKey {
    /// The value of a key.
    Value(EffectiveValue),
    /// The values in a table or in a list of tables; none if nothing is set.
    Table(Vec<EffectiveValue>),
    /// A key without a value.
    Unset,
    Unknown {
        /// The known key that is most similar.
        meant: Option<KeyPath>,
    },
}

impl EffectiveValue {
    fn of(path: &KeyPath, entry: &ConfigEntry) -> Self {
        let value = match (&entry.value, path.names().last().map(String::as_str)) {
            (ConfigValue::Texts(words), Some("command" | "args")) => RedactedProgram(words).to_string(),
            (value, _) => value.to_string(),
        };
        let origins: Vec<String> = entry.origins.iter().map(ConfigOrigin::to_string).collect();
        let plain = match &entry.value {
            ConfigValue::Text(text) => super::value::without_credentials(text),
            ConfigValue::Secret(_)
            | ConfigValue::Integer(_)
            | ConfigValue::Number(_)
            | ConfigValue::Switch(_)
            | ConfigValue::Texts(_) => value.clone(),
        };
        Self { line: format!("{path} = {value}"), value: plain, origin: origins.join(", then ") }
    }

    /// Returns the value, and with `is_verbose` its origin as a comment.
    pub(crate) fn value_line(&self, is_verbose: bool) -> String {
        if is_verbose { format!("{}  # {}\n", self.value, self.origin) } else { format!("{}\n", self.value) }
    }

    /// Returns the key and its value, and with `is_verbose` the origin as a comment.
    pub(crate) fn key_line(&self, is_verbose: bool) -> String {
        if is_verbose { format!("{}  # {}\n", self.line, self.origin) } else { format!("{}\n", self.line) }
    }
}

impl Config {
    /// Returns the values as TOML, one line per key, with their origins as comments.
    pub(crate) fn show(&self) -> String {
        let mut shown = String::new();
        for (_, row) in self.rows() {
            write!(shown, "{}", row.key_line(true)).expect("writing to a string cannot fail");
        }
        shown
    }

    /// Returns the value of a key, or of all keys in a table.
    pub(crate) fn show_key(&self, path: &KeyPath) -> EffectiveKey {
        let mut rows: Vec<_> = self.rows();
        if let Some(at) = rows.iter().position(|(key, _)| key == path && !is_list_of_tables(path)) {
            return EffectiveKey::Value(rows.swap_remove(at).1);
        }
        if keys::is_key(path) || path.names() == ["model"] {
            let entry = self.entries.get(path).map(|entry| EffectiveValue::of(path, entry));
            return entry.map_or(EffectiveKey::Unset, EffectiveKey::Value);
        }
        if keys::is_table(path) || keys::is_steps(path) || is_list_of_tables(path) {
            let inside = rows.into_iter().filter(|(key, _)| key.names().starts_with(path.names()));
            return EffectiveKey::Table(inside.map(|(_, row)| row).collect());
        }
        EffectiveKey::Unknown { meant: keys::nearest(path) }
    }

    /// Returns all values with their keys, in the order of `config show`.
    fn rows(&self) -> Vec<(KeyPath, EffectiveValue)> {
        let mut rows = Vec::new();
        let [provider, name] = ["provider", "name"].map(|half| KeyPath::new(["model", half]));
        let model = match (self.entries.get(&provider), self.entries.get(&name)) {
            (Some(one), Some(other)) if one.origin() == other.origin() => Some((one, other)),
            (Some(_) | None, Some(_) | None) => None,
        };
        if let Some((one, other)) = model
            && let (ConfigValue::Text(provider), ConfigValue::Text(name)) = (&one.value, &other.value)
        {
            let path = KeyPath::from("model");
            let value = ConfigValue::Text(format!("{provider}/{name}"));
            let entry = ConfigEntry::new(value, one.origin().clone());
            rows.push((path.clone(), EffectiveValue::of(&path, &entry)));
        }
        for (path, entry) in &self.entries {
            if model.is_none() || (*path != provider && *path != name) {
                rows.push((path.clone(), EffectiveValue::of(path, entry)));
            }
        }
        let of_list = |path: KeyPath, line: String, origin: String| {
            let value = line.clone();
            (path, EffectiveValue { line, value, origin })
        };
        for (name, steps) in &self.steps {
            let count = counted(steps.steps.len() as u64, "step");
            let path = KeyPath::new(["routines", name, "steps"]);
            let line = format!("routines.{name}.steps = [{count}]");
            rows.push(of_list(path, line, steps.origin.to_string()));
        }
        for rule in &self.rules {
            let line = super::rules::RuleLine(rule).to_string();
            rows.push(of_list(KeyPath::from("policy.rules"), line, rule.origin.clone()));
        }
        for (origin, hook) in &self.hooks {
            rows.push(of_list(KeyPath::from("hooks"), hook.to_string(), origin.to_string()));
        }
        rows
    }
}

/// Describes the value of a key in the text of a config file: the lines of `config show`, or that the key is not set or
/// is invalid there.
pub(crate) fn value_in(file: &Path, text: &str, key: &KeyPath) -> String {
    let lines = values_in(file, text, key);
    let is_set = super::remove_key(text, key).is_ok_and(|without| without.is_some());
    let is_invalid = is_set && {
        let problems = super::check_text(file, text).unwrap_or_default();
        let is_about = format!("`{key}`");
        lines.is_empty() || problems.iter().any(|problem| problem.to_string().contains(&is_about))
    };
    match (is_invalid, lines.is_empty()) {
        (true, _) => format!("{key} is invalid"),
        (false, true) => format!("{key} is not set"),
        (false, false) => lines.join(", "),
    }
}

fn values_in(file: &Path, text: &str, key: &KeyPath) -> Vec<String> {
    let mut layer = super::file::parse(file, text, Flavor::Own).unwrap_or_default();
    let mut config = Config { hooks: std::mem::take(&mut layer.hooks), ..Config::default() };
    config.merge(layer);
    let mut rows = config.rows();
    rows.retain(|(path, _)| path.names().starts_with(key.names()));
    rows.into_iter().map(|(_, row)| row.line).collect()
}

/// Returns true if a path is a list of tables with a separate parser, or the table that contains only that list.
fn is_list_of_tables(path: &KeyPath) -> bool {
    matches!(
        path.names().iter().map(String::as_str).collect::<Vec<_>>()[..],
        ["hooks"] | ["policy"] | ["policy", "rules"]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_invalid_in_a_text_has_no_other_value() {
        let value = |text: &str, key: &str| value_in(Path::new("config.toml"), text, &KeyPath::from(key));
        assert_eq!(value("approve = 'nevr'\n", "approve"), "approve is invalid");
        assert_eq!(value("max_iterations = 'x'\n", "max_iterations"), "max_iterations is invalid");
        assert_eq!(value("approve = 'each'\n", "approve"), "approve = \"each\"");
        assert_eq!(value("max_iterations = 'x'\n", "approve"), "approve is not set");
    }
}
