//! The messages of the WebSocket, of the SSE stream and of `exec --json`: one JSON object each, told apart by
//! `type`.
//!
//! Pure: it opens no socket and knows no server. It decides nothing about a session either; it puts the log into
//! messages ([`Encoder`]) and messages into inputs ([`ClientMessage::input`]). Texts are passed on as they
//! are, control sequences included: whoever shows them neutralises them.
#![warn(missing_docs)]

pub use client::{BadMessage, ClientMessage, DecisionWord, Hello, ManifestTool, ToolResult};
pub use encoder::Encoder;
pub use line::to_line;
pub use server::{Done, Place, ServerMessage, SessionState, State, Tokens};

mod client;
mod encoder;
mod line;
mod server;
