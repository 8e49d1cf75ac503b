//! The secrets in the settings, for redaction.

use secrecy::{ExposeSecret, SecretString};
use sysop_core::redact::is_placeholder_key;

use super::{ProviderSettings, Settings};

impl Settings {
    /// Returns the keys and passwords in these settings, which no model may see.
    pub(crate) fn secrets(&self) -> Vec<SecretString> {
        let of = self.providers.values().flat_map(ProviderSettings::secrets);
        let of_variables = self.config.key_variables.iter().filter_map(|name| self.environment.value(name));
        let of_variables = of_variables.filter(|key| !is_placeholder_key(key)).map(SecretString::from);
        let of_mcp = self.mcp.iter().flat_map(|server| server.secrets.iter().cloned());
        of.chain(of_variables).chain(self.database_password()).chain(of_mcp).collect()
    }
}

impl ProviderSettings {
    /// Returns the keys and the values of the headers, sent or not. Text that only stands in for a key is not secret,
    /// and may be an ordinary word.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = SecretString> {
        let key = self.api_key.iter().filter(|key| !is_placeholder_key(key.expose_secret()));
        key.chain(self.headers.iter().map(|(_, value)| value)).chain(&self.unsent_secrets).cloned()
    }
}
