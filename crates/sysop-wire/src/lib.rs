//! The messages of the WebSocket, of the SSE stream and of `exec --json`: one JSON object each, told apart by
//! `type`.
//!
//! Pure: it opens no socket and knows no server. It decides nothing about a session either; it puts the log into
//! messages ([`Encoder`]) and back ([`Decoder`]), and messages into inputs ([`ClientMessage::inputs`]). Texts are
//! passed on as they are, control sequences included: whoever shows them neutralises them.
#![warn(missing_docs)]

pub use client::{
    BadMessage, ClientMessage, DecisionWord, DirectOrigin, Envelope, Hello, ManifestTool, QuestionReply,
    ToolResult,
};
pub use decoder::Decoder;
pub use encoder::Encoder;
pub use line::to_line;
pub use manifest::{BadManifest, MANIFEST_BYTES_MAX, MANIFEST_TOOLS_MAX};
pub use secret::Secret;
pub use server::{
    ChangedFile, Done, ErrorCode, LentTools, OfferedTool, Place, ServerMessage, SessionState, State,
    StateEvent, Tokens, WantedCall,
};

mod client;
mod decoder;
mod encoder;
mod line;
mod manifest;
#[cfg(feature = "schema")]
pub mod schema;
mod secret;
mod server;
