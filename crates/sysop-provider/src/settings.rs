//! Provider settings as plain values, filled in by the binary from config and environment.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use sysop_core::model_provider::ProviderInfo;

use crate::local_server::LocalServers;
use crate::remote::RemoteMachine;
use crate::tool_calling::ToolCallingStore;

/// Default for the longest silence between two bytes.
pub const SILENCE_MAX: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Default)]
pub struct Endpoint {
    /// Base URL; `None` means the vendor's public one.
    pub base_url: Option<String>,
    /// API key, sent in the API's own header.
    pub api_key: Option<SecretString>,
    /// Additional headers. They replace sysop's own headers of the same name.
    pub headers: Vec<(String, SecretString)>,
    /// Maximum time between two bytes; `None` means [`SILENCE_MAX`].
    pub timeout: Option<Duration>,
    pub sources: SettingSources,
}

/// Places where an endpoint's settings were made, for hints: a variable or a position in a file. `None` stands for the
/// usual setting of the provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettingSources {
    pub base_url: Option<String>,
    pub api_key: Option<String>,
    /// Sentence that says why no key is sent, if there is a reason to tell; without a period.
    pub no_key: Option<String>,
}

impl SettingSources {
    /// Returns the hint for a server that rejects the key, or wants one and got none.
    pub(crate) fn key_hint(&self, provider: &ProviderInfo) -> String {
        self.no_key.clone().unwrap_or_else(|| provider.key_hint(self.api_key.as_deref()))
    }
}

#[derive(Debug, Clone, Default)]
pub struct VertexSettings {
    /// Address, headers and timeout. An API key here selects express mode.
    pub endpoint: Endpoint,
    /// Project id; `None` means the credentials' project.
    pub project: Option<String>,
    /// Region; `None` means `global`.
    pub location: Option<String>,
    /// Sources of the account to use; ignored if an API key is set.
    pub credentials: GoogleCredentialSources,
}

/// Places to look for Google's application default credentials, in order. The first one that exists is used.
#[derive(Debug, Clone, Default)]
pub struct GoogleCredentialSources {
    /// File named by the user (`GOOGLE_APPLICATION_CREDENTIALS`). It is an error if the file is missing.
    pub file: Option<PathBuf>,
    /// File written by `gcloud auth application-default login`. The file may be missing.
    pub gcloud_file: Option<PathBuf>,
    /// Metadata server of Google Cloud machines, tried last.
    pub metadata: MetadataServer,
}

/// Google Cloud metadata server, which gives a machine the access token of its service account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum MetadataServer {
    /// Server at its well-known address.
    #[default]
    Standard,
    /// Server at another host, with an optional port (`GCE_METADATA_HOST`).
    At(String),
    /// No metadata server is used (`NO_GCE_CHECK=true`).
    Off,
}

#[derive(Debug, Clone, Default)]
pub struct OllamaSettings {
    /// Address, key, headers and timeout.
    pub endpoint: Endpoint,
    /// Context window in tokens; `None` means 32768.
    pub num_ctx: Option<u32>,
    /// Time the model stays loaded, in Ollama's syntax (`5m`, `-1`).
    pub keep_alive: Option<String>,
}

/// API used for models of the `openai` provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OpenAiApi {
    /// The Responses API at OpenAI and Azure and for models that need it, otherwise Chat Completions.
    #[default]
    Auto,
    Chat,
    Responses,
}

#[derive(Debug, Clone, Default)]
pub struct ProvidersSettings {
    /// Any OpenAI-compatible server.
    pub openai: Endpoint,
    pub openai_api: OpenAiApi,
    /// The Gemini Developer API.
    pub gemini: Endpoint,
    pub vertex: VertexSettings,
    /// Ollama's native API.
    pub ollama: OllamaSettings,
    /// Ollama on the remote machine. The base URL is as seen there; `None` means its own `OLLAMA_HOST`.
    pub ollama_ssh: OllamaSettings,
    /// Remote machine; `None` if the session's host is not one.
    pub remote: Option<Arc<dyn RemoteMachine>>,
    /// The Anthropic Messages API.
    pub anthropic: Endpoint,
    /// Servers for downloaded models; `None` if this process has no such servers.
    pub local: Option<Arc<dyn LocalServers>>,
    /// Store of what is known about models of local servers; `None` means that every model gets native tools.
    pub tool_calling: Option<Arc<dyn ToolCallingStore>>,
    /// True if unknown models of local servers are probed for how they call tools before their first use.
    pub probe_models: bool,
}
