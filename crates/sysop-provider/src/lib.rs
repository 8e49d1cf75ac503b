//! Speaks to models: OpenAI-compatible servers, Gemini and Vertex AI, Ollama, Anthropic.
//!
//! Starts no process, keeps no session, and never shows a key. Making a client does no IO. What it needs of another
//! machine (a forwarded port, a command's output) it asks of the [`FarMachine`] that it is given.

mod anthropic;
mod calls;
mod clean;
mod far;
mod frames;
mod gemini;
mod json;
#[cfg(test)]
mod judged;
mod ollama;
mod openai;
mod providers;
mod server_text;
mod settings;
mod think;
mod transport;
mod unshown;
mod vertex;
mod wire;

pub use far::{FarError, FarEvent, FarMachine, Forwarded, NO_FAR_MACHINE};
pub use frames::FRAME_BYTES_MAX;
pub use ollama::{NUM_CTX_DEFAULT, ollama_base_url};
pub use providers::{PROBE_MAX, Probe, Providers, default_model};
pub use settings::{
    Endpoint, GoogleCredentials, MetadataServer, OllamaSettings, ProvidersSettings, SILENCE_MAX,
    VertexSettings,
};
pub use transport::{ERROR_BODY_BYTES_MAX, REPLY_BYTES_MAX, RetrySettings};
