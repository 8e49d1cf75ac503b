//! A client's socket: what it says goes to its session, what happens there goes to it.
//!
//! Reading and writing are one task: a peer that does not read is dropped, one that is silent too, and neither slows
//! the session. A message that cannot be used is answered by `error`, and the socket stays.

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

/// The most bytes of one message; what is longer is answered by an error.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// The most bytes that are read of a message, so that it can be answered; what is longer ends the connection.
const READ_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The buffer that one connection reads into while it waits; what is longer has the room that it needs.
const BUFFER_BYTES: usize = 1024;
/// Says which process this is: only to the same one may a client repeat what it was not told to have arrived.
const INSTANCE: &str = "sysop-instance";
/// How many answers may wait for a client that does not read.
const WAITING_MAX: usize = 32;

/// Times of a socket.
#[derive(Debug, Clone)]
pub struct SocketSettings {
    /// How often the server says that it lives.
    pub heartbeat: Duration,
    /// How long a peer may be silent; it answers pings without knowing.
    pub silence: Duration,
    /// How long a message may take to be taken by the peer.
    pub write: Duration,
    /// How long the reason of an end may then take.
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

/// What the hearing half tells the telling half.
enum WriterCommand {
    /// The client said hello: it begins here, and lends this.
    Hello(Box<SubscribeRequest>),
    /// A message for this client alone.
    Send(Box<ServerMessage>),
    /// It watches the terminal from now on, or no longer.
    Terminal(Option<Box<TerminalView>>),
}

/// Where a client begins, and what it lends.
struct SubscribeRequest {
    start: StartPosition,
    lent: ToolManifest,
}

/// What a `hello` says of tools.
enum ToolManifest {
    /// It lends these.
    Tools(ClientTools),
    /// It lends none.
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
            let why = "this is a socket: connect with `Upgrade: websocket`, version 13";
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
