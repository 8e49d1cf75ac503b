//! A scripted model server: it answers like OpenAI, Gemini (and Vertex), Ollama and Anthropic do, from a file
//! of scenarios, so that an agent can be tested and shown without a model.
//!
//! It judges its clients: a request that the real server would refuse (a tool call without its result, a
//! thought signature that was lost) is refused here too, in that server's own words. It never reads another
//! crate of the workspace, never needs a key, and never calls out.
//!
//! ```no_run
//! # async fn example() -> std::io::Result<()> {
//! use sysop_mock_llm::{MockServer, Scenarios};
//! let server = MockServer::start(Scenarios::builtin()).await?;
//! println!("{}/v1/chat/completions", server.url());
//! # Ok(())
//! # }
//! ```

mod engine;
mod ids;
mod record;
mod scenario;
mod script;
mod server;
mod wire;

pub use engine::{Engine, OBSERVATION_PREFIX, Turn};
pub use record::{REQUESTS_KEPT_BYTES_MAX, REQUESTS_KEPT_MAX, RecordedRequest};
pub use scenario::{
    Failure, Pace, Response, SCENARIO_FILE_BYTES_MAX, Scenario, ScenarioError, Scenarios, ScriptedCall, Step,
    TEXT_BYTES_MAX, TokenUsage,
};
pub use server::{MISSING_MODEL_PREFIX, MockServer, REQUEST_BYTES_MAX, TEXT_ONLY_MODEL_PREFIX, serve};
