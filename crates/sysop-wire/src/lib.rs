//! The wire protocol: the messages of the WebSocket, of the SSE stream and of `exec --json`.
//!
//! # Problem
//!
//! A page, a remote terminal and a script follow sessions over connections that break. They must show the same as a
//! local front end, resume without gaps or duplicates, and keep working when client and server differ in version. The
//! names of the JolliAgent design are given, so that its clients can be used.
//!
//! # Design
//!
//! Each message is one JSON object, told apart by `type`. The server's messages are derived from the log: an
//! [`Encoder`] folds the events of one session and returns one or more messages per event. All messages of an event
//! carry its `seq`; all but the last say `more`. The `seq` of a last message is the only resume point: a client sends
//! it as `resumeFrom`, and gets every later event. Messages without a `seq` (deltas, notices, questions) are transient
//! and never repeated. A [`Decoder`] reverses the encoding for a front end: its updates lead a `Transcript` to the same
//! items as the log itself. Messages of a client become inputs of the core ([`ClientMessage::inputs`]).
//!
//! Schemas, TypeScript types and `docs/protocol.md` are generated from these types, including their doc comments, and a
//! test fails if they are stale (`schema.rs`).
//!
//! # Rejected
//!
//! - Sending events as they are logged: the log contains system prompts and raw replies of providers, which clients
//!   must not see, and its format would become a public interface.
//! - JSON-RPC: nearly everything is a notification, and replies are events that every client sees.
//! - Numbering messages instead of events: a server would have to store numbers per connection to resume one.
//!
//! # Invariants
//!
//! - Pure: no sockets, and no decisions about a session.
//! - Every event has at least one message, and a client that has the last one has all of the event.
//! - Unknown fields are ignored, so that either side may be newer.
//! - Texts pass unchanged, including control sequences: whatever displays them neutralizes them.
//! - A secret is written to and read from a message and nowhere else ([`Secret`]); errors never repeat it.
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
