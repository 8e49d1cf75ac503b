//! What the clients are told before they start. Plain values: nothing here reads a file or the environment.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

/// Longest silence of a server, where nothing else is wanted.
pub const SILENCE_DEFAULT: Duration = Duration::from_secs(300);

/// Longest wait for Ollama's first byte, which may come only after gigabytes of model were loaded.
pub const OLLAMA_LOAD_DEFAULT: Duration = Duration::from_secs(600);

/// Window that Ollama is asked for, in tokens.
pub const OLLAMA_NUM_CTX_DEFAULT: u32 = 32_768;

/// Settings of all clients; the defaults are the vendors' public servers, without keys.
#[derive(Debug, Clone, Default)]
pub struct ProvidersSettings {
    /// Any server that speaks OpenAI's chat completions.
    pub openai: Endpoint,
    /// The Gemini Developer API.
    pub gemini: Endpoint,
    /// Gemini on Vertex AI.
    pub vertex: VertexSettings,
    /// An Ollama that can be reached directly.
    pub ollama: OllamaSettings,
    /// An Ollama on the far machine: `base_url` is this end of its tunnel. `None` where there is no far machine.
    pub ollama_ssh: Option<OllamaSettings>,
    /// The Anthropic API.
    pub anthropic: Endpoint,
    /// When a failed request is made again.
    pub retry: RetrySettings,
}

/// Where a server is and how to be let in.
#[derive(Clone)]
pub struct Endpoint {
    /// What comes before the API's own path; `None` is the vendor's public server.
    pub base_url: Option<String>,
    /// The key, where the server wants one.
    pub api_key: Option<SecretString>,
    /// Headers to add to each request. Their values are kept out of messages as keys are.
    pub headers: Vec<(String, String)>,
    /// The longest silence before a request is given up.
    pub timeout: Duration,
}

impl Default for Endpoint {
    fn default() -> Self {
        Self { base_url: None, api_key: None, headers: Vec::new(), timeout: SILENCE_DEFAULT }
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Endpoint")
            .field("base_url", &self.base_url)
            .field("api_key", &self.api_key.as_ref().map(|_| "[REDACTED]"))
            .field("headers", &names)
            .field("timeout", &self.timeout)
            .finish()
    }
}

/// Settings of an Ollama.
#[derive(Debug, Clone)]
pub struct OllamaSettings {
    /// Where it is; see [`crate::ollama_base_url`] for the forms of `OLLAMA_HOST`.
    pub endpoint: Endpoint,
    /// The window to ask for, in tokens. Changing it between requests reloads the model.
    pub num_ctx: u32,
    /// How long the model stays loaded: a duration (`30m`), seconds, `0` or a negative number for ever.
    pub keep_alive: Option<String>,
    /// The longest wait for the first byte of an answer.
    pub load_timeout: Duration,
}

impl Default for OllamaSettings {
    fn default() -> Self {
        Self {
            endpoint: Endpoint::default(),
            num_ctx: OLLAMA_NUM_CTX_DEFAULT,
            keep_alive: Some("30m".to_owned()),
            load_timeout: OLLAMA_LOAD_DEFAULT,
        }
    }
}

/// Settings of Vertex AI. With a key in `endpoint` and no project it is express mode.
#[derive(Debug, Clone, Default)]
pub struct VertexSettings {
    /// Where it is; `base_url` replaces scheme and host, which otherwise follow from the location.
    pub endpoint: Endpoint,
    /// The project; `None` takes the one that the credentials name.
    pub project: Option<String>,
    /// `global` (the default), `us`, `eu`, or a region.
    pub location: Option<String>,
    /// Where to look for credentials.
    pub credentials: CredentialSources,
}

/// Where Google's application default credentials are looked for; the first hit wins.
#[derive(Debug, Clone, Default)]
pub struct CredentialSources {
    /// A file that must be used if it is named.
    pub file: Option<PathBuf>,
    /// The file that `gcloud auth application-default login` writes; used if it exists.
    pub gcloud_file: Option<PathBuf>,
    /// The metadata server, as `host[:port]`; `None` skips it.
    pub metadata_host: Option<String>,
}

impl CredentialSources {
    /// Reads the variables that Google's own libraries read, through `variable`.
    ///
    /// `GOOGLE_APPLICATION_CREDENTIALS`, `CLOUDSDK_CONFIG`, `GCE_METADATA_HOST`, `NO_GCE_CHECK`, and `HOME` or `APPDATA`.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let folder = set("CLOUDSDK_CONFIG")
            .map(PathBuf::from)
            .or_else(|| set("APPDATA").map(|folder| PathBuf::from(folder).join("gcloud")))
            .or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".config").join("gcloud")));
        let skip = set("NO_GCE_CHECK").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let metadata = set("GCE_METADATA_HOST").unwrap_or_else(|| "metadata.google.internal".to_owned());
        Self {
            file: set("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from),
            gcloud_file: folder.map(|folder| folder.join("application_default_credentials.json")),
            metadata_host: (!skip).then_some(metadata),
        }
    }
}

/// When a failed request is made again, and how long before.
#[derive(Debug, Clone)]
pub struct RetrySettings {
    /// The most requests for one model call, the first one included.
    pub attempts_max: u32,
    /// The wait before the second request; each further one waits twice as long.
    pub first_wait: Duration,
    /// The longest wait that we choose.
    pub wait_max: Duration,
    /// The longest wait that a server may ask for; a longer one ends the call at once.
    pub asked_wait_max: Duration,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self {
            attempts_max: 5,
            first_wait: Duration::from_millis(500),
            wait_max: Duration::from_secs(20),
            asked_wait_max: Duration::from_secs(120),
        }
    }
}
