//! The messages of the WebSocket, of the SSE stream and of `exec --json`: one JSON object each, told apart by
//! `type`.
//!
//! Pure: it opens no socket and knows no server. It decides nothing about a session either; it puts the log into
//! messages ([`Encoder`]) and back ([`Decoder`]), and messages into inputs ([`ClientMessage::inputs`]). Texts are
//! passed on as they are, control sequences included: whoever shows them neutralizes them.
#![warn(missing_docs)]

pub use client_message::{
    ClientMessage, DecisionKind, DirectOrigin, Envelope, Hello, ManifestTool, MessageError, QuestionReply,
    ToolResult,
};
pub use decoder::Decoder;
pub use encoder::Encoder;
pub use json_line::to_json_line;
pub use manifest::{MANIFEST_BYTES_MAX, MANIFEST_TOOLS_MAX, ManifestError};
pub use secret::Secret;
pub use server_message::{
    ChangedFile, ClientToolSet, ErrorCode, LogPosition, OfferedTool, ServerMessage, SessionState, State,
    StateEvent, TokenCounts, ToolCallRequest, TurnSummary,
};

mod client_message;
mod decoder;
mod encoder;
mod json_line;
mod manifest;
#[cfg(feature = "schema")]
pub mod schema;
mod secret;
mod server_message;
