//! Prints a config with the origin of each value. Secrets are shown as `[set]`.

use std::fmt::Write;

use sysop_core::ui_text::counted;

use super::{Config, ConfigOrigin, ConfigValue, KeyPath};

impl Config {
    /// Returns the values as TOML, one line per key, with their origins as comments.
    pub(crate) fn show(&self) -> String {
        let mut rows: Vec<(String, String)> = Vec::new();
        let [provider, name] = ["provider", "name"].map(|half| KeyPath::new(["model", half]));
        let model = match (self.entries.get(&provider), self.entries.get(&name)) {
            (Some(one), Some(other)) if one.origin() == other.origin() => Some((one, other)),
            (Some(_) | None, Some(_) | None) => None,
        };
        if let Some((one, other)) = model
            && let (ConfigValue::Text(provider), ConfigValue::Text(name)) = (&one.value, &other.value)
        {
            let text = ConfigValue::Text(format!("{provider}/{name}"));
            rows.push((format!("model = {text}"), one.origin().to_string()));
        }
        for (path, entry) in &self.entries {
            if model.is_some() && (*path == provider || *path == name) {
                continue;
            }
            let origins: Vec<String> = entry.origins.iter().map(ConfigOrigin::to_string).collect();
            rows.push((format!("{path} = {}", entry.value), origins.join(", then ")));
        }
        for (name, steps) in &self.steps {
            let count = counted(steps.steps.len() as u64, "step");
            let text = format!("routines.{name}.steps = [{count}]");
            rows.push((text, steps.origin.to_string()));
        }
        for rule in &self.rules {
            rows.push((super::rules::RuleLine(rule).to_string(), rule.origin.clone()));
        }
        let mut shown = String::new();
        for (row, origin) in rows {
            writeln!(shown, "{row}  # {origin}").expect("writing to a string cannot fail");
        }
        shown
    }
}
