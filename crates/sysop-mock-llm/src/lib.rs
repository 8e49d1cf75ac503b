//! A scripted model server: imitates OpenAI, Gemini (and Vertex), Ollama and Anthropic from a file of scenarios, for
//! testing and demonstrating an agent without a model.
//!
//! The server validates its clients: a request that the real server would refuse (a tool call without its result, a
//! lost thought signature) is refused here too, with that server's own error message. The crate uses no other crate of
//! the workspace, needs no key, and makes no outgoing connection.
//!
//! | API | endpoints |
//! | --- | --- |
//! | OpenAI | `POST /v1/chat/completions` and `/chat/completions`, `GET /v1/models` and `/models` |
//! | Anthropic | `POST /v1/messages`, `GET /v1/models` with an `anthropic-version` header |
//! | Gemini | `POST /v1beta/models/{model}:generateContent` and `:streamGenerateContent` (`?alt=sse`, else one array), also under `/v1`; `GET /v1beta/models` |
//! | Vertex | the same methods under `/v1/projects/{p}/locations/{l}/publishers/google/models/{model}` and `/v1/publishers/google/models/{model}`, also under `/v1beta1` |
//! | Ollama | `POST /api/chat`, `/api/show`; `GET /`, `/api/version`, `/api/tags`, `/api/ps` |
//!
//! Requests with any model name are answered, with two exceptions. A name beginning with `missing` gets the API's 404.
//! On Ollama, a model whose name begins with `phi3` does not support tools: a request with tools is refused, and the
//! calls of a scenario are sent as text. [`Scenarios`] and [`Response`] describe the scenario file; [`Engine::reply`]
//! describes the selection of a response.
//!
//! ```no_run
//! # async fn example() -> std::io::Result<()> {
//! use sysop_mock_llm::{MockServer, Scenarios};
//! let server = MockServer::start(Scenarios::builtin()).await?;
//! println!("{}/v1/chat/completions", server.url());
//! # Ok(())
//! # }
//! ```

mod api;
mod engine;
mod event_stream;
mod ids;
mod open_replies;
mod request_log;
mod scenario;
mod server;
mod shutdown;

pub use api::{MISSING_MODEL_PREFIX, TEXT_ONLY_MODEL_PREFIX};
pub use engine::{Engine, OBSERVATION_PREFIX, Turn};
pub use request_log::{RECORDED_BYTES_MAX, RECORDED_REQUESTS_MAX, RecordedRequest};
pub use scenario::{
    DeliveryOptions, Response, SCENARIO_FILE_BYTES_MAX, Scenario, ScenarioError, ScenarioStep, Scenarios,
    ScriptedCall, ScriptedFailure, TEXT_BYTES_MAX, TokenUsage,
};
pub use server::{MockServer, REQUEST_BYTES_MAX, serve};
