//! Config layer from the environment.
//!
//! Each key has a variable `SYSOP_<KEY>`: the key in capitals, with `__` between a table and its keys
//! (`SYSOP_MAX_ITERATIONS`, `SYSOP_PROVIDERS__OPENAI__BASE_URL`). `SYSOP_MODEL` holds `PROVIDER/NAME`, and
//! `SYSOP_HOST` takes the same values as `--host`. Other programs' variables also work, with lower
//! precedence. An empty variable counts as unset.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use sysop_core::model_provider::{self, ANTHROPIC, GEMINI};

use crate::origin::CALL_VARIABLE_PREFIX;

use super::keys::{self, KeyPath, PROVIDERS};
use super::value::{self, ConfigValue};
use super::{ConfigEntry, ConfigLayer, ConfigOrigin};

/// Variables with the prefix `SYSOP_` that do not set a config key.
const NO_KEYS: &[&str] = &["SYSOP_TOKEN", "SYSOP_URL", "SYSOP_LOG"];

/// A copy of the environment variables, so that no other code queries the environment of the process.
#[derive(Clone, Default)]
pub(crate) struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Returns the variables with which the process was started, including secrets that have since been
    /// wiped. Variables that are not UTF-8 are omitted.
    pub(crate) fn of_process() -> Self {
        static STARTED_WITH: OnceLock<Environment> = OnceLock::new();
        STARTED_WITH.get_or_init(Self::read_process).clone()
    }

    fn read_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(std::env::vars_os().filter_map(text).collect())
    }

    /// Returns the value of a variable; `None` if it is unset or empty.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns a copy in which these variables are unset.
    pub(crate) fn without(&self, names: &[&str]) -> Self {
        let kept = self.0.iter().filter(|(name, _)| !names.contains(&name.as_str()));
        Self(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    pub(crate) fn first<'a>(&'a self, names: &[&'static str]) -> Option<(&'static str, &'a str)> {
        names.iter().find_map(|name| Some((*name, self.value(name)?)))
    }
}

impl fmt::Debug for Environment {
    /// Prints only names, because many values are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// Other programs' variables, and the key that each group of them sets. The first one with a value is used.
const BORROWED: &[(&[&str], &str)] = &[
    (GEMINI.key_variables, "providers.gemini.api_key"),
    (ANTHROPIC.key_variables, "providers.anthropic.api_key"),
];

/// Returns true for a variable of another program.
pub(super) fn is_borrowed(origin: &ConfigOrigin) -> bool {
    matches!(origin, ConfigOrigin::Environment { name } if !name.starts_with("SYSOP_"))
}

/// Builds the config layer from environment variables, including those of other programs.
pub(crate) fn layer(environment: &Environment) -> ConfigLayer {
    let mut layer = ConfigLayer::default();
    for (names, path) in BORROWED {
        if let Some((name, value)) = environment.first(names) {
            take(&mut layer, name, &KeyPath::from(*path), value);
        }
    }
    let base_url = KeyPath::from("providers.openai.base_url");
    let borrowed = environment
        .value("LLM_BASE_URL")
        .filter(|_| environment.value(&variable_of(&base_url)).is_none())
        .map_or(VariableUse::Rejected, |value| take(&mut layer, "LLM_BASE_URL", &base_url, value));
    // A key is sent only to the server for which it was issued, so each variable belongs to one base URL.
    let openai_key = match borrowed {
        VariableUse::Applied => "LLM_AUTH_TOKEN",
        VariableUse::Rejected => "OPENAI_API_KEY",
    };
    if let Some(value) = environment.value(openai_key) {
        take(&mut layer, openai_key, &KeyPath::from("providers.openai.api_key"), value);
    }
    if let Some(value) = environment.value("OLLAMA_HOST") {
        let address = ollama_address(value);
        take(&mut layer, "OLLAMA_HOST", &KeyPath::from("providers.ollama.base_url"), &address);
    }
    for (name, value) in &environment.0 {
        if let Some(key) = name.strip_prefix("SYSOP_")
            && !value.is_empty()
            && !NO_KEYS.contains(&name.as_str())
            && !name.starts_with(CALL_VARIABLE_PREFIX)
        {
            own(&mut layer, name, key, value);
        }
    }
    layer
}

fn own(layer: &mut ConfigLayer, name: &str, key: &str, value: &str) {
    let path = KeyPath::new(key.to_lowercase().split("__").map(|part| match part {
        // Names of variables cannot contain `+`.
        "ollama_ssh" => "ollama+ssh",
        other => other,
    }));
    if path == KeyPath::from("model") {
        return model(layer, name, value);
    }
    if path == KeyPath::from("host") {
        take(layer, name, &KeyPath::from("connection.host"), value);
        return;
    }
    match keys::find(&path) {
        Some(_) => {
            take(layer, name, &path, value);
        }
        None => {
            let meant = keys::meant(&path).filter(|meant| keys::is_key(meant) || keys::is_table(meant));
            let meant =
                meant.map(|path| format!("; did you mean `{}`?", variable_of(&path))).unwrap_or_default();
            let message = format!("`{path}` is not a config key{meant}");
            if keys::may_restrict(&path) {
                layer.deny_all(origin(name), &message);
            } else {
                layer.warn(origin(name), message);
            }
        }
    }
}

/// Sets `model.provider` and `model.name` from the two halves of `SYSOP_MODEL`. An error in the value is
/// reported only if a model is needed.
fn model(layer: &mut ConfigLayer, name: &str, value: &str) {
    let (provider, model) = match value {
        keys::DEMO => (keys::DEMO, keys::DEMO),
        _ => value.split_once('/').unwrap_or((value, "")),
    };
    for (half, text) in [("provider", provider), ("name", model)] {
        let path = KeyPath::new(["model", half]);
        layer.entries.push((path, ConfigEntry::new(ConfigValue::Text(text.to_owned()), origin(name))));
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VariableUse {
    Applied,
    Rejected,
}

fn take(layer: &mut ConfigLayer, name: &str, path: &KeyPath, text: &str) -> VariableUse {
    let Some(key) = keys::find(path) else { return VariableUse::Rejected };
    let (value, errors) = value::from_text(key.kind, text);
    for error in errors {
        let message = format!("`{path}` {}", error.why);
        if keys::denies_if_invalid(path) {
            layer.deny_all(origin(name), &message);
        } else {
            layer.warn(origin(name), message);
        }
    }
    let value = value.or_else(|| {
        super::fallback_value(path, Some(text), text.trim().parse().ok()).inspect(|value| {
            if let Some(warning) = super::fallback_warning(path, value) {
                layer.warn(origin(name), warning);
            }
        })
    });
    match value {
        Some(value) => {
            layer.entries.push((path.clone(), ConfigEntry::new(value, origin(name))));
            VariableUse::Applied
        }
        None => VariableUse::Rejected,
    }
}

fn origin(name: &str) -> ConfigOrigin {
    ConfigOrigin::Environment { name: name.to_owned() }
}

pub(crate) fn variable_of(path: &KeyPath) -> String {
    let names: Vec<String> = path.names().iter().map(|name| name.replace('+', "_").to_uppercase()).collect();
    format!("SYSOP_{}", names.join("__"))
}

/// Returns the names of variables whose values are always secret, such as provider keys and sysop's own token.
pub(crate) fn secret_variables(environment: &Environment) -> Vec<String> {
    let borrowed = model_provider::PROVIDERS.iter().flat_map(|provider| provider.key_variables);
    let of_providers =
        PROVIDERS.iter().map(|provider| variable_of(&KeyPath::new(["providers", provider, "api_key"])));
    let of_headers = environment
        .0
        .keys()
        .filter(|name| name.starts_with("SYSOP_PROVIDERS__") && name.contains("__HEADERS__"));
    let more = [
        "LLM_AUTH_TOKEN",
        "SYSOP_TOKEN",
        "SYSOP_DATABASE",
        "OLLAMA_API_KEY",
        "HF_TOKEN",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    ];
    borrowed
        .chain(&more)
        .map(|name| (*name).to_owned())
        .chain(of_providers)
        .chain(of_headers.cloned())
        .collect()
}

/// Converts `OLLAMA_HOST` to a base URL, following Ollama's documentation: without a scheme, http and port
/// 11434 are used; with a scheme, its default port. The wildcard address means this machine.
pub(crate) fn ollama_address(host: &str) -> String {
    let host = host.trim().trim_end_matches('/');
    let (scheme, rest) = host.split_once("://").unwrap_or(("", host));
    let (authority, path) = match rest.split_once('/') {
        Some((authority, path)) => (authority, format!("/{path}")),
        None => (rest, String::new()),
    };
    let (credentials, authority) = match authority.rsplit_once('@') {
        Some((credentials, authority)) => (format!("{credentials}@"), authority),
        None => (String::new(), authority),
    };
    let (name, port) = match authority.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') && (!name.contains(':') || name.ends_with(']')) => {
            (name, Some(port))
        }
        Some(_) | None => (authority, None),
    };
    let name = match name {
        "" | "0.0.0.0" => "127.0.0.1".to_owned(),
        "[::]" | "::" => "[::1]".to_owned(),
        bare if bare.contains(':') && !bare.starts_with('[') => format!("[{bare}]"),
        other => other.to_owned(),
    };
    let port = match (port, scheme) {
        (Some(port), _) => format!(":{port}"),
        (None, "") => ":11434".to_owned(),
        (None, _) => String::new(),
    };
    format!("{}://{credentials}{name}{port}{path}", if scheme.is_empty() { "http" } else { scheme })
}
