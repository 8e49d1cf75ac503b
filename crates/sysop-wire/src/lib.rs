//! The wire protocol: the messages of the WebSocket, of the SSE stream and of `exec --json`.
//!
//! # Problem
//!
//! A page, a remote terminal and a script follow sessions over connections that break. They must show the same as a
//! local front end, resume without gaps or duplicates, and keep working when client and server differ in version. The
//! names must follow the JolliAgent design, so that its clients can be used.
//!
//! # Design
//!
//! Each message is one JSON object whose `type` identifies its kind. The server's messages are derived from
//! the log: an [`Encoder`] folds the events of one session and returns one or more messages per event. All
//! messages of an event have its `seq`, and all but the last are marked with `more`. A client can resume only
//! from the `seq` of the last message of an event: it sends this number as `resumeFrom`, and gets every later
//! event. Messages without a `seq` (deltas, notices, questions) are transient and never repeated. A
//! [`Decoder`] reverses the encoding for a front end: a `Transcript` gets the same items from its updates as
//! from the log itself. Messages from a client become inputs to the core ([`ClientMessage::inputs`]).
//!
//! Schemas, TypeScript types and `docs/protocol.md` are generated from these types, including their doc comments, and a
//! test fails if they are stale (`schema.rs`).
//!
//! # Rejected
//!
//! - Sending events as they are logged: the log contains system prompts and raw replies of providers, which clients
//!   must not see, and its format would become a public interface.
//! - JSON-RPC: nearly everything is a notification, and replies are events that every client sees.
//! - Numbering messages instead of events: to resume a connection, a server would have to store its numbers.
//!
//! # Invariants
//!
//! - Pure: no sockets, and no decisions about a session.
//! - Every event has at least one message, and a client that has received the last message of an event has received the
//!   whole event.
//! - Unknown fields are ignored, so that either side may be newer.
//! - Text is passed on unchanged, including control sequences. The program that displays it must neutralize it.
//! - A secret is only ever written to a message or read from one ([`Secret`]). Errors never repeat it.
//!
//! ```
//! use sysop_wire::ClientMessage;
//!
//! let message = ClientMessage::parse(r#"{"type":"user.message","content":"is the disk full?"}"#).unwrap();
//! assert_eq!(message.inputs("ann").len(), 1);
//! ```

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
    ChangedFile, ClientToolSet, ErrorCode, LogPosition, OfferedTool, PromptImage, ServerMessage,
    SessionState, State, StateEvent, TokenCounts, ToolCallRequest, TurnSummary,
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
