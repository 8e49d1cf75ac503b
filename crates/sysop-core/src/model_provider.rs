//! Registry of model providers: names, key variables, default models, addresses and hints.
//!
//! Everything that lists providers is derived from this table: commands, config keys, the environment, error
//! messages and `sysop doctor`. The registry is data; the clients are in `sysop-provider`.

use crate::message::ModelRef;
use crate::similar_word::nearest_word;

/// Name of the built-in scripted model's provider. This provider takes no settings.
pub const DEMO: &str = "demo";

#[derive(Debug)]
pub struct ProviderInfo {
    /// Name in `PROVIDER/NAME` and in `[providers.NAME]`.
    pub name: &'static str,
    /// The vendor's environment variables for the API key. The first one that is set wins.
    pub key_variables: &'static [&'static str],
    /// Model used if a key is set but no model is configured; empty if the user must name a model.
    pub default_model: &'static str,
    /// Base URL to use if none is configured; empty if it depends on other settings.
    pub base_url: &'static str,
    /// Hint for the user if the server cannot be reached.
    pub unreachable: &'static str,
    /// Hint for the user if the server rejects the key.
    pub rejected_key: &'static str,
}

impl ProviderInfo {
    /// Returns true if users run the provider's server themselves, so that no vendor issues its keys.
    pub fn is_self_hosted(&self) -> bool {
        self.base_url.starts_with("http:")
    }

    /// Returns the name of the config key with the base URL, for hints.
    pub fn address_setting(&self) -> String {
        format!("base_url in [providers.{}]", self.name)
    }

    /// Returns the hint for a server that cannot be reached at `address`. `source` names the setting with the base URL,
    /// if it is known and not the config key.
    pub fn unreachable_hint(&self, source: Option<&str>, address: &str) -> String {
        if self.name == OLLAMA.name
            && let Some(host) = remote_host(address)
        {
            let setting = source.map_or_else(|| self.address_setting(), str::to_owned);
            return format!("check that Ollama runs on {host} and accepts connections, and {setting}");
        }
        let Some(source) = source else {
            let is_vendors = self.base_url.starts_with("https:") && address.starts_with(self.base_url);
            let hint = if is_vendors { "check the network, DNS and HTTPS_PROXY" } else { self.unreachable };
            return hint.to_owned();
        };
        let setting = if self.name == OLLAMA.name { "OLLAMA_HOST" } else { &self.address_setting() };
        self.unreachable.replace(setting, source)
    }

    /// Returns the hint for a rejected key. `source` names the setting with the key, if it is known.
    pub fn key_hint(&self, source: Option<&str>) -> String {
        match (source, self.rejected_key.split_once('(')) {
            (Some(source), Some((hint, _))) => format!("{hint}({source})"),
            _ => self.rejected_key.to_owned(),
        }
    }
}

/// Returns the host of a URL, or `None` if it is this machine or the URL has none.
fn remote_host(address: &str) -> Option<&str> {
    let (_, rest) = address.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
    let host = match place.strip_prefix('[') {
        Some(rest) => rest.split(']').next()?,
        None => place.split(':').next()?,
    };
    let is_here = host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
    (!is_here && !host.is_empty()).then_some(host)
}

/// Any OpenAI-compatible server.
pub const OPENAI: &ProviderInfo = &ProviderInfo {
    name: "openai",
    key_variables: &["OPENAI_API_KEY"],
    default_model: "gpt-6.1-terra",
    base_url: "https://api.openai.com/v1",
    unreachable: "check that the server is running, and base_url in [providers.openai]",
    rejected_key: "check the key (OPENAI_API_KEY or LLM_AUTH_TOKEN)",
};

pub const GEMINI: &ProviderInfo = &ProviderInfo {
    name: "gemini",
    key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    default_model: "gemini-3.8-flash",
    base_url: "https://generativelanguage.googleapis.com",
    unreachable: "check the network, the proxy variables and base_url in [providers.gemini]",
    rejected_key: "check the key (GEMINI_API_KEY)",
};

/// Address of Vertex AI for API keys, and for accounts in the location `global`.
pub const VERTEX_GLOBAL_URL: &str = "https://aiplatform.googleapis.com";

/// Vertex AI; its address depends on the location.
pub const VERTEX: &ProviderInfo = &ProviderInfo {
    name: "vertex",
    key_variables: &[],
    default_model: "",
    base_url: "",
    unreachable: "check the network, the proxy variables and location in [providers.vertex]",
    rejected_key: "run `gcloud auth application-default login`, and check project in [providers.vertex]",
};

/// Ollama's native API.
pub const OLLAMA: &ProviderInfo = &ProviderInfo {
    name: "ollama",
    key_variables: &[],
    default_model: "",
    base_url: "http://127.0.0.1:11434",
    unreachable: "start Ollama with `ollama serve`, or check OLLAMA_HOST",
    rejected_key: "run `ollama signin` for cloud models, or check the key (OLLAMA_API_KEY)",
};

/// Ollama on the remote host. `base_url` is the address as seen from that host.
pub const OLLAMA_SSH: &ProviderInfo = &ProviderInfo {
    name: "ollama+ssh",
    key_variables: &[],
    default_model: "",
    base_url: OLLAMA.base_url,
    unreachable: "start Ollama on the remote host with `ollama serve`, or check its OLLAMA_HOST",
    rejected_key: "run `ollama signin` on the remote host for cloud models, or check the key in [providers.ollama+ssh]",
};

pub const ANTHROPIC: &ProviderInfo = &ProviderInfo {
    name: "anthropic",
    key_variables: &["ANTHROPIC_API_KEY"],
    default_model: "claude-sonnet-5-5",
    base_url: "https://api.anthropic.com",
    unreachable: "check the network, the proxy variables and base_url in [providers.anthropic]",
    rejected_key: "check the key (ANTHROPIC_API_KEY)",
};

/// Models that sysop downloads and runs on this machine. The provider takes no settings and is not in [`PROVIDERS`].
pub const LOCAL: &ProviderInfo = &ProviderInfo {
    name: "local",
    key_variables: &[],
    default_model: "",
    base_url: "",
    unreachable: "run `sysop doctor`",
    rejected_key: "run `sysop doctor`",
};

/// All providers that take settings. If no model is configured, the first one whose key is set is used.
pub const PROVIDERS: [&ProviderInfo; 6] = [OPENAI, GEMINI, VERTEX, OLLAMA, OLLAMA_SSH, ANTHROPIC];

/// Names of the providers in [`PROVIDERS`], in the same order.
pub const PROVIDER_NAMES: &[&str] = &{
    let mut names = [""; PROVIDERS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = PROVIDERS[at].name;
        at += 1;
    }
    names
};

/// Returns the provider with this name, or `None` if it is unknown or takes no settings.
pub fn find(name: &str) -> Option<&'static ProviderInfo> {
    PROVIDERS.into_iter().find(|provider| provider.name == name)
}

/// Returns true if this is the name of a provider, including [`DEMO`] and [`LOCAL`].
pub fn is_known(name: &str) -> bool {
    name == DEMO || name == LOCAL.name || find(name).is_some()
}

/// Parses a model that a user typed, either as `PROVIDER/NAME` or as the name of one of the current provider's models.
/// The error is a sentence. As with `--model`, a name that contains a slash needs its provider.
pub fn typed_model(text: &str, current: ModelRef) -> Result<ModelRef, String> {
    match text.split_once('/') {
        Some((_, "")) => Err("the name of the model is missing; use PROVIDER/NAME".to_owned()),
        Some((provider, name)) if is_known(provider) => Ok(ModelRef::new(provider, name)),
        Some((provider, name)) => {
            let known = PROVIDER_NAMES.iter().copied().chain([LOCAL.name]);
            let next = match nearest_word(provider, known.clone()) {
                Some(meant) => format!("did you mean `{meant}/{name}`?"),
                None => format!("available: {}, {DEMO}", known.collect::<Vec<_>>().join(", ")),
            };
            Err(format!("unknown provider {provider:?}; {next}"))
        }
        None if text == DEMO => Ok(ModelRef::new(DEMO, DEMO)),
        None => Ok(ModelRef::new(current.provider, text)),
    }
}

#[cfg(test)]
mod tests {
    use super::{ANTHROPIC, OLLAMA, OPENAI, VERTEX, typed_model};
    use crate::message::ModelRef;

    #[test]
    fn a_typed_model_never_has_an_unknown_provider() {
        let typed = |text: &str| typed_model(text, ModelRef::new("openai", "x"));
        assert_eq!(typed("gemini/flash"), Ok(ModelRef::new("gemini", "flash")));
        assert_eq!(typed("gpt"), Ok(ModelRef::new("openai", "gpt")));
        assert_eq!(typed("demo"), Ok(ModelRef::new("demo", "demo")));
        assert!(typed("openai/").is_err());
        assert_eq!(typed("openai/meta/llama"), Ok(ModelRef::new("openai", "meta/llama")));
        let error = typed("nope/x").unwrap_err();
        assert!(error.starts_with("unknown provider \"nope\"; available: openai, "), "{error}");
        assert!(error.ends_with(", local, demo"), "{error}");
        let error = typed("ollma/qwen").unwrap_err();
        assert_eq!(error, "unknown provider \"ollma\"; did you mean `ollama/qwen`?");
    }

    #[test]
    fn hints_name_the_setting_in_use() {
        assert_eq!(OPENAI.unreachable_hint(None, OPENAI.base_url), "check the network, DNS and HTTPS_PROXY");
        assert_eq!(OPENAI.unreachable_hint(None, "http://127.0.0.1:8000"), OPENAI.unreachable);
        assert_eq!(OLLAMA.unreachable_hint(None, OLLAMA.base_url), OLLAMA.unreachable);
        assert_eq!(
            OPENAI.unreachable_hint(Some("LLM_BASE_URL"), OPENAI.base_url),
            "check that the server is running, and LLM_BASE_URL"
        );
        assert_eq!(
            OLLAMA.unreachable_hint(Some("base_url at config.toml:3"), ""),
            "start Ollama with `ollama serve`, or check base_url at config.toml:3"
        );
        for here in ["http://localhost:1/x", "http://127.0.0.2", "http://a:b@[::1]:11434"] {
            assert_eq!(OLLAMA.unreachable_hint(None, here), OLLAMA.unreachable, "{here}");
        }
        for (address, host) in [
            ("http://box:11434", "box"),
            ("https://me:key@box.lan/ollama", "box.lan"),
            ("http://[fd00::1]:1", "fd00::1"),
        ] {
            assert_eq!(
                OLLAMA.unreachable_hint(Some("OLLAMA_HOST"), address),
                format!("check that Ollama runs on {host} and accepts connections, and OLLAMA_HOST")
            );
        }
        assert!(
            OLLAMA.unreachable_hint(None, "http://box").ends_with(", and base_url in [providers.ollama]")
        );
        assert_eq!(OPENAI.key_hint(Some("LLM_AUTH_TOKEN")), "check the key (LLM_AUTH_TOKEN)");
        assert_eq!(ANTHROPIC.key_hint(None), "check the key (ANTHROPIC_API_KEY)");
        assert_eq!(VERTEX.key_hint(Some("x")), VERTEX.rejected_key, "it uses no key");
    }
}
