//! The key of each model provider: the source that counts, and its value.
//!
//! A key is sent only to the server for which it was issued.

use secrecy::{ExposeSecret, SecretString};
use sysop_core::redact::is_placeholder_key;

use super::{ProviderSettings, Settings};
use crate::config::{ConfigEntry, ConfigOrigin, ConfigValue, KeyPath, display_path};

const KEY_FILE_BYTES_MAX: u64 = 16 * 1024;

/// Keys of a provider's table that name its key, in the order in which those of variables count.
pub(crate) const KEY_SETTINGS: [&str; 3] = ["api_key", "api_key_env", "api_key_file"];

impl Settings {
    /// Returns true if a key or header may be sent to the provider's server: one of a file belongs to the server that
    /// the files name, or else to the vendor's, so it is not sent if a variable sets another one. The server of
    /// `LLM_BASE_URL` gets no secret of a file.
    pub(super) fn is_for_server(&self, base: &KeyPath, secret: &ConfigEntry) -> bool {
        let is_of_file = matches!(secret.origin(), ConfigOrigin::File { .. });
        let is_elsewhere = is_of_file && self.config.is_server_replaced(base);
        // Without an address beside it, an empty `api_key_env` says of any server that it needs no key.
        let is_for_any = is_empty(secret) && !self.config.file_servers.contains_key(base);
        is_own(secret) || !(self.has_borrowed_address(base) || is_elsewhere && !is_for_any)
    }

    /// Returns the keys and headers of the provider's table, in any layer of the config, that are not sent, because
    /// they are for another server or because another one counts. The model may not see them either.
    pub(super) fn unsent_secrets(&self, base: &KeyPath, settings: &ProviderSettings) -> Vec<SecretString> {
        let present = self.config.below(base).map(|(names, entry)| (names, &entry.value));
        let replaced = self.config.replaced_secrets.iter();
        let replaced =
            replaced.filter_map(|(path, value)| Some((path.names().strip_prefix(base.names())?, value)));
        let is_key = |secret: &SecretString| !is_placeholder_key(secret.expose_secret());
        let secret = |(names, value): (&[String], &ConfigValue)| match (names, value) {
            ([name], ConfigValue::Secret(key)) if name == "api_key" => Some(key.clone()).filter(is_key),
            ([name], ConfigValue::Text(path)) if name == "api_key_file" => {
                self.read_key_at(path, &ConfigOrigin::Default).0.filter(is_key)
            }
            ([table, _], ConfigValue::Secret(header)) if table == "headers" => Some(header.clone()),
            _ => None,
        };
        let is_sent = |secret: &SecretString| {
            let sent = settings.api_key.iter().chain(settings.headers.iter().map(|(_, value)| value));
            sent.map(ExposeSecret::expose_secret).any(|sent| sent == secret.expose_secret())
        };
        present.chain(replaced).filter_map(secret).filter(|secret| !is_sent(secret)).collect()
    }

    /// Returns true if `LLM_BASE_URL` sets the base URL.
    pub(super) fn has_borrowed_address(&self, base: &KeyPath) -> bool {
        self.config.entries.get(&base.child("base_url")).is_some_and(
            |entry| matches!(entry.origin(), ConfigOrigin::Environment { name } if name == "LLM_BASE_URL"),
        )
    }

    /// Reads the key of a provider. A key that the config names for the provider comes before the provider's usual
    /// variable, because that variable holds the key of the vendor's own server.
    pub(super) fn read_key(&self, base: &KeyPath, settings: &mut ProviderSettings) {
        let entry = |name: &str| self.config.entries.get(&base.child(name));
        let all = KEY_SETTINGS.map(entry);
        let [key, named, file] = all.map(|entry| entry.filter(|entry| self.is_for_server(base, entry)));
        let is_first = |key: &ConfigEntry| {
            let is_of_server = is_usual_variable(key) && self.has_address_of_variable(base);
            is_own(key) || (named.is_none() && file.is_none_or(|file| is_of_server && !is_own(file)))
        };
        (settings.api_key, settings.api_key_origin) = match (key, named, file) {
            (Some(key), _, _) if is_first(key) => {
                (self.config.get(base.child("api_key")), Some(key.origin().to_string()))
            }
            (_, Some(named), _) => self.read_named_key(base, named.origin()),
            (_, None, Some(file)) => self.read_key_file(base, file.origin()),
            (_, None, None) => (None, self.why_withheld(base, all.into_iter().flatten().next())),
        };
    }

    /// Returns the reason why no configured key is sent, or `None` if there is none.
    fn why_withheld(&self, base: &KeyPath, key: Option<&ConfigEntry>) -> Option<String> {
        let address = self.config.entries.get(&base.child("base_url"));
        match (key?.origin(), address?.origin()) {
            (_, ConfigOrigin::Environment { name }) if name == "LLM_BASE_URL" => {
                Some("LLM_BASE_URL is set, so the key must be in LLM_AUTH_TOKEN".to_owned())
            }
            (origin, ConfigOrigin::Environment { name }) => {
                Some(format!("the key at {origin} is not sent to the server of {name}"))
            }
            _ => None,
        }
    }

    /// Reads the key from the variable specified by `api_key_env`, which is set at `origin`. An empty name means that
    /// the server needs no key. Returns the key, and its origin or the reason why there is none.
    fn read_named_key(
        &self,
        base: &KeyPath,
        origin: &ConfigOrigin,
    ) -> (Option<SecretString>, Option<String>) {
        let variable: String = self.config.get(base.child("api_key_env")).unwrap_or_default();
        if variable.is_empty() {
            return (None, Some(format!("api_key_env is empty at {origin}")));
        }
        let value = self.environment.value(&variable).map(SecretString::from);
        let found = match &value {
            Some(_) => format!("environment {variable}, configured at {origin}"),
            None => format!("environment variable {variable}, named at {origin}, is not set"),
        };
        (value, Some(found))
    }

    /// Returns the first setting of a provider's key that a variable of sysop's own sets, and the variable, which
    /// overrides that setting in every file.
    pub(crate) fn overridden_key(&self, provider: &str) -> Option<(&'static str, String)> {
        let base = KeyPath::new(["providers", provider]);
        KEY_SETTINGS.into_iter().find_map(|setting| {
            let entry = self.config.entries.get(&base.child(setting))?;
            if let ConfigOrigin::Environment { name } = entry.origin()
                && name.starts_with("SYSOP_")
            {
                Some((setting, name.clone()))
            } else {
                None
            }
        })
    }

    /// Returns the key of the setting that [`Self::overridden_key`] found, if it can be read.
    pub(crate) fn overriding_key(&self, provider: &str, setting: &str) -> Option<SecretString> {
        let base = KeyPath::new(["providers", provider]);
        let entry = self.config.entries.get(&base.child(setting))?;
        match setting {
            "api_key" => self.config.get(base.child(setting)),
            "api_key_env" => {
                let name: String = self.config.get(base.child(setting))?;
                self.environment.value(&name).map(SecretString::from)
            }
            _ => self.read_key_file(&base, entry.origin()).0,
        }
    }

    /// Returns true if a variable sets the base URL.
    fn has_address_of_variable(&self, base: &KeyPath) -> bool {
        let entry = self.config.entries.get(&base.child("base_url"));
        entry.is_some_and(|entry| matches!(entry.origin(), ConfigOrigin::Environment { .. }))
    }

    /// Reads the key from the file specified by `api_key_file`, which is set at `origin`. Returns the key, and its
    /// origin or the reason why there is none.
    fn read_key_file(&self, base: &KeyPath, origin: &ConfigOrigin) -> (Option<SecretString>, Option<String>) {
        match self.config.get::<String>(base.child("api_key_file")) {
            Some(path) => self.read_key_at(&path, origin),
            None => (None, None),
        }
    }

    /// Like [`Self::read_key_file`], for the file at `path`.
    fn read_key_at(&self, path: &str, origin: &ConfigOrigin) -> (Option<SecretString>, Option<String>) {
        let path = match path.strip_prefix("~/") {
            Some(rest) => self.folders.home.join(rest),
            None => self.folders.home.join(path),
        };
        let shown = display_path(&path);
        let read = std::fs::File::open(&path).and_then(|file| {
            let mut text = String::new();
            std::io::Read::read_to_string(&mut std::io::Read::take(file, KEY_FILE_BYTES_MAX), &mut text)?;
            Ok(text)
        });
        match read {
            Ok(text) if !text.trim().is_empty() => {
                (Some(SecretString::from(text.trim())), Some(format!("file {shown}, configured at {origin}")))
            }
            Ok(_) => (None, Some(format!("the key file {shown}, named at {origin}, is empty"))),
            Err(error) => {
                (None, Some(format!("cannot read the key file {shown}, named at {origin}: {error}")))
            }
        }
    }
}

/// Returns true if a secret comes from `LLM_AUTH_TOKEN`, which belongs to `LLM_BASE_URL`, or from a variable
/// whose name starts with `SYSOP_`.
fn is_own(entry: &ConfigEntry) -> bool {
    match entry.origin() {
        ConfigOrigin::Environment { name } => name.starts_with("SYSOP_") || name == "LLM_AUTH_TOKEN",
        ConfigOrigin::Default | ConfigOrigin::File { .. } | ConfigOrigin::Flag { .. } => false,
    }
}

fn is_empty(entry: &ConfigEntry) -> bool {
    matches!(&entry.value, ConfigValue::Text(text) if text.is_empty())
}

/// Returns true if a key comes from the usual variable of its provider, such as `OPENAI_API_KEY`.
fn is_usual_variable(entry: &ConfigEntry) -> bool {
    matches!(entry.origin(), ConfigOrigin::Environment { .. }) && !is_own(entry)
}
