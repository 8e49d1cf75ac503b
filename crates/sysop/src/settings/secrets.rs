//! The secrets in the settings, for redaction.

use secrecy::{ExposeSecret, SecretString};
use sysop_core::redact::is_placeholder_key;

use super::{ProviderSettings, Settings};

impl Settings {
    /// Returns the keys and passwords in these settings, which no model may see.
    pub(crate) fn secrets(&self) -> Vec<SecretString> {
        let of = self.providers.values().flat_map(ProviderSettings::secrets);
        let of_mcp = self.mcp.iter().flat_map(|server| server.secrets.iter().cloned());
        of.chain(self.database_password()).chain(of_mcp).collect()
    }
}

impl ProviderSettings {
    /// Returns the key and the values of the headers. Text that only stands in for a key is not secret, and may be an
    /// ordinary word.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = SecretString> {
        let key = self.api_key.iter().filter(|key| !is_placeholder_key(key.expose_secret()));
        key.chain(self.headers.iter().map(|(_, value)| value)).cloned()
    }
}
