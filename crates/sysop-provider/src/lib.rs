//! Speaks to models: any OpenAI-compatible server, Gemini by key or on Vertex AI, Ollama, Anthropic.
//!
//! A call streams, is made again where that helps, and ends once: with a whole reply or with one sentence of failure.
//! This crate starts no process, runs no tool, reads no environment (the proxy and CA variables of the HTTP library
//! apart) and keeps no history: what a request needs comes with it. A key goes to the configured host and nowhere
//! else: no redirect is followed, and no message holds one.
#![warn(missing_docs)]

mod anthropic;
mod credentials;
mod exchange;
mod failure;
mod frames;
mod gemini;
mod history;
mod http;
mod ollama;
mod openai;
mod providers;
mod retry;
mod settings;
mod think;

pub use ollama::{BadOllamaHost, ollama_base_url};
pub use providers::{Probe, Providers, default_model};
pub use settings::{
    CredentialSources, Endpoint, OLLAMA_LOAD_DEFAULT, OLLAMA_NUM_CTX_DEFAULT, OllamaSettings,
    ProvidersSettings, RetrySettings, SILENCE_DEFAULT, VertexSettings,
};
