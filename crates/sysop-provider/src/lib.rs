//! Speaks to models: OpenAI-compatible servers, Gemini and Vertex AI, Ollama, Anthropic.
//!
//! Starts no process, keeps no session, and never shows a key. Making a client does no IO. What it needs of another
//! machine (a forwarded port, a command's output) it asks of the [`RemoteMachine`] that it is given.

mod anthropic;
mod api;
mod frames;
mod gemini;
mod json;
#[cfg(test)]
mod mock_conformance;
mod ollama;
mod openai;
mod providers;
mod redact;
mod remote;
mod reply_reader;
mod server_text;
mod settings;
pub mod text_protocol;
mod think_tags;
mod tool_arguments;
mod transport;
mod vertex;

pub use frames::FRAME_BYTES_MAX;
pub use ollama::{NUM_CTX_DEFAULT, ollama_base_url};
pub use providers::{PROBE_MAX, ProbeResult, Providers, default_model};
pub use remote::{ForwardedPort, NO_REMOTE_MACHINE, RemoteError, RemoteEvent, RemoteMachine};
pub use settings::{
    Endpoint, GoogleCredentialSources, MetadataServer, OllamaSettings, ProvidersSettings, SILENCE_MAX,
    VertexSettings,
};
pub use transport::{ERROR_BODY_BYTES_MAX, REPLY_BYTES_MAX, RetrySettings};
