//! WebSocket of a client: passes messages between the client and the session.
//!
//! Reader and writer run in one task. A peer that does not read or is silent for too long is disconnected, without
//! slowing the session. A malformed message gets an `error` reply, and the socket stays open.

mod reader;
mod terminal;
mod writer;

use std::time::Duration;

use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use sysop_core::id::SessionId;
use sysop_core::tool::ClientTools;
use sysop_driver::prompter::TerminalView;
use sysop_wire::{ErrorCode, ServerMessage};
use tokio::sync::mpsc;

pub(crate) use self::terminal::{TerminalFeed, next_terminal_message};

use crate::ServerInner;
use crate::authenticator::Caller;
use crate::http::{SharedServer, problem};
use crate::registry::SessionRef;
use crate::session_feed::StartPosition;

/// Maximum size of a message, in bytes; a larger one gets an error reply.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// Maximum size of a message that is still read, in bytes, so that the server can answer it with an error. A larger
/// message closes the connection.
const READ_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Size of the read buffer of an idle connection, in bytes; it grows for larger messages.
const BUFFER_BYTES: usize = 1024;
/// Header with the instance id. Clients may resend unacknowledged messages only to the same instance.
const INSTANCE: &str = "sysop-instance";
/// Maximum number of commands queued for the writer while the peer does not read.
const WAITING_MAX: usize = 32;

#[derive(Debug, Clone)]
pub struct SocketSettings {
    /// Interval of the server's heartbeat messages.
    pub heartbeat: Duration,
    /// Maximum time without any frame from the peer; pongs count, and WebSocket libraries send them automatically.
    pub silence: Duration,
    /// Maximum time for the peer to accept a message.
    pub write: Duration,
    /// Maximum time to send the reason for closing before the connection is dropped.
    pub close_timeout: Duration,
}

impl Default for SocketSettings {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(10),
            silence: Duration::from_secs(25),
            write: Duration::from_secs(10),
            close_timeout: Duration::from_secs(5),
        }
    }
}

enum WriterCommand {
    /// The client said hello: start its feed and register its tools.
    Hello(Box<SubscribeRequest>),
    Send(Box<ServerMessage>),
    /// Start or stop sending terminal output.
    Terminal(Option<Box<TerminalView>>),
}

struct SubscribeRequest {
    start: StartPosition,
    lent: ToolManifest,
}

/// Tools in a `hello` message.
enum ToolManifest {
    Tools(ClientTools),
    /// The client offers no tools.
    Empty,
}

/// `GET /api/agent/sessions/{id}/stream`.
pub(crate) async fn open(
    State(shared): State<SharedServer>,
    Path(id): Path<String>,
    Extension(caller): Extension<Caller>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        Err(_) => {
            let why = "this endpoint is a WebSocket; connect with `Upgrade: websocket`, version 13";
            return problem::of(StatusCode::UPGRADE_REQUIRED, ErrorCode::BadMessage, why);
        }
    };
    if !shared.is_open() {
        return problem::draining();
    }
    let session_ref = match shared.registry.open(&SessionId::new(id)).await {
        Ok(session_ref) => session_ref,
        Err(error) => return problem::backend_error(&shared, &error),
    };
    let instance = [(INSTANCE, shared.instance.clone())];
    let upgraded = upgrade
        .max_message_size(READ_BYTES_MAX)
        .max_frame_size(READ_BYTES_MAX)
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(0)
        .on_upgrade(move |socket| {
            let sockets = shared.sockets.clone();
            sockets.track_future(serve(shared, session_ref, caller, socket))
        });
    (instance, upgraded).into_response()
}

async fn serve(shared: SharedServer, session_ref: SessionRef, caller: Caller, socket: WebSocket) {
    let _present = shared.metrics.socket();
    let (sink, stream) = socket.split();
    let (command, telling) = mpsc::channel(WAITING_MAX);
    let inner: &ServerInner = &shared;
    let hears = reader::SocketReader::new(inner, session_ref.clone(), caller.clone(), command).run(stream);
    let tells = writer::SocketWriter::new(inner, session_ref, &caller, telling).run(sink);
    tokio::select! {
        () = hears => {}
        () = tells => {}
    }
}
