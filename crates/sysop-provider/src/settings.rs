//! What the binary knows of each provider, as plain values.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;

use crate::remote::RemoteMachine;

/// The longest silence by default.
pub const SILENCE_MAX: Duration = Duration::from_secs(120);

/// One table of `[providers.NAME]`.
#[derive(Debug, Clone, Default)]
pub struct Endpoint {
    /// The address; none means the vendor's public one.
    pub base_url: Option<String>,
    /// The key.
    pub api_key: Option<SecretString>,
    /// More headers.
    pub headers: Vec<(String, SecretString)>,
    /// The longest silence; none means the default.
    pub timeout: Option<Duration>,
}

/// Vertex AI.
#[derive(Debug, Clone, Default)]
pub struct VertexSettings {
    /// Address, headers, timeout; a key means express mode.
    pub endpoint: Endpoint,
    /// The project; none means that of the credentials.
    pub project: Option<String>,
    /// The location; none means `global`.
    pub location: Option<String>,
    /// Where to find the account, unless a key is set.
    pub credentials: GoogleCredentialSources,
}

/// Where Google's application default credentials may be; the first that is there counts.
#[derive(Debug, Clone, Default)]
pub struct GoogleCredentialSources {
    /// A file that the person named (`GOOGLE_APPLICATION_CREDENTIALS`); it must be there.
    pub file: Option<PathBuf>,
    /// The file that `gcloud auth application-default login` writes; it may be missing.
    pub gcloud_file: Option<PathBuf>,
    /// The server that machines of Google Cloud ask.
    pub metadata: MetadataServer,
}

/// The server that tells a machine of Google Cloud who it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum MetadataServer {
    /// Where it always is.
    #[default]
    Standard,
    /// At another host, with its port where it has one (`GCE_METADATA_HOST`).
    At(String),
    /// Not to be asked (`NO_GCE_CHECK=true`).
    Off,
}

/// Ollama.
#[derive(Debug, Clone, Default)]
pub struct OllamaSettings {
    /// Address, key, headers, timeout.
    pub endpoint: Endpoint,
    /// The context window in tokens; none means 32768.
    pub num_ctx: Option<u32>,
    /// How long the model stays loaded, as Ollama writes it.
    pub keep_alive: Option<String>,
}

/// All providers.
#[derive(Debug, Clone, Default)]
pub struct ProvidersSettings {
    /// Any OpenAI-compatible server.
    pub openai: Endpoint,
    /// The Gemini Developer API.
    pub gemini: Endpoint,
    /// Vertex AI.
    pub vertex: VertexSettings,
    /// Ollama's native API.
    pub ollama: OllamaSettings,
    /// Ollama on the remote machine; its address is as seen from there, and none means the remote machine's own
    /// `OLLAMA_HOST`. Without a `num_ctx`, `ollama run` is taken to have a window of 4096 tokens.
    pub ollama_ssh: OllamaSettings,
    /// The remote machine, where the session's host is one.
    pub remote: Option<Arc<dyn RemoteMachine>>,
    /// The Anthropic Messages API.
    pub anthropic: Endpoint,
}
