//! Model providers: OpenAI-compatible servers, Gemini, Vertex AI, Ollama (local and over ssh) and Anthropic.
//!
//! # Problem
//!
//! Each vendor has its own request format, stream framing and error bodies, and deviates from its own documentation.
//! The driver wants one stream of [`sysop_driver::port::ModelEvent`]s that ends exactly once, with either a whole reply
//! or a failure that tells the user what to do.
//!
//! # Design
//!
//! [`Providers`] chooses the API by the model's provider name and passes the request to `transport`, which sends it.
//! Everything that differs between vendors sits behind one trait, `api::ModelApi`: `build` writes the request,
//! `decoder` reads the frames of the response, `classify_error` interprets a refusal. Implementations do no I/O in
//! these methods, so tests can feed them recorded streams byte by byte. The common path is:
//!
//! 1. `transport` prepares and sends the request, waits, retries, and limits time and size.
//! 2. `frames` splits the body into SSE events or JSON lines.
//! 3. The API's decoder turns frames into text, reasoning and tool calls.
//! 4. `model_probe` asks a model of a local server how it gets its tools best: natively, by a schema, or as text.
//! 5. For models without native tools, `reply_reader` finds tool calls that the model wrote as text (`text_protocol`).
//!
//! A parameter that one model rejects becomes a `ModelQuirks` entry: the request is sent again in another form at once,
//! and later requests to that model start with that form. The few rules by model name in the encoders only choose a
//! good first form; a full table of models would be out of date as soon as a vendor releases a new one.
//!
//! A reply keeps the API's own JSON (`Reply::raw`), and the next request to the same model sends that JSON back
//! unchanged, so thought signatures and reasoning survive. For another model, the reply is rebuilt from its text and
//! calls.
//!
//! # Rejected
//!
//! - A library for all vendors. The best one (genai 0.7.2) failed against a mock server in eight ways, among them
//!   silent truncation by Ollama, lost tool results, and mid-stream errors read as normal ends (`docs/adr/0002`).
//! - A library per vendor. Each covers only one API, and some print to the terminal or break weekly.
//! - An SSE crate. eventsource-stream 0.2.3 parses an unfinished line again with every chunk, which is quadratic in
//!   long lines, and has no bound.
//! - Ollama's OpenAI-compatible API, which cannot set the context window.
//!
//! # Invariants
//!
//! - A stream ends with exactly one `Done` or `Failed`. Nothing happens before its first poll; dropping it closes the
//!   connection.
//! - Bodies, frames, error messages and waits are bounded; each bound is a named constant with its unit.
//! - Redirects are never followed. Keys never appear in messages: server text and our own text pass through a redactor.
//! - This crate starts no process and keeps no session, and [`Providers::new`] does no I/O. Forwarded ports come from
//!   the [`RemoteMachine`] in the settings.

mod anthropic;
mod api;
mod frames;
mod gemini;
mod images;
mod json;
mod local;
mod local_server;
#[cfg(test)]
mod mock_conformance;
mod model_probe;
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
mod tool_calling;
mod transport;
mod vertex;

pub use frames::FRAME_BYTES_MAX;
pub use local_server::{LocalServer, LocalServers};
pub use ollama::{NUM_CTX_DEFAULT, ollama_base_url};
pub use providers::{ModelStatus, PROBE_MAX, ProbeResult, Providers};
pub use remote::{ForwardedPort, NO_REMOTE_MACHINE, RemoteError, RemoteMachine};
pub use settings::{
    Endpoint, GoogleCredentialSources, MetadataServer, OllamaSettings, OpenAiApi, ProvidersSettings,
    SILENCE_MAX, SettingSources, VertexSettings,
};
pub use tool_calling::{CallForm, ToolCalling, ToolCallingReport, ToolCallingStore};
pub use transport::{ERROR_BODY_BYTES_MAX, REPLY_BYTES_MAX, RetrySettings, UNNAMED_MODEL, with_api_path};
