//! A client's socket: what it says goes to its session, what happens there goes to it.
//!
//! Reading and writing are one task: a peer that does not read is dropped, one that is silent too, and neither slows
//! the session. A message that cannot be used is answered by `error`, and the socket stays.

mod hear;
mod tell;
mod terminal;

use std::time::Duration;

use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use sysop_core::id::SessionId;
use sysop_core::tool::Lent;
use sysop_driver::people::TerminalView;
use sysop_wire::{ErrorCode, ServerMessage};
use tokio::sync::mpsc;

pub(crate) use self::terminal::{Watching, next_of};

use crate::Inner;
use crate::follow::Start;
use crate::guard::Caller;
use crate::house::Room;
use crate::http::{Shared, problem};

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
    pub last_words: Duration,
}

impl Default for SocketSettings {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(10),
            silence: Duration::from_secs(25),
            write: Duration::from_secs(10),
            last_words: Duration::from_secs(5),
        }
    }
}

/// What the hearing half tells the telling half.
enum Told {
    /// The client said hello: it begins here, and lends this.
    Hello(Box<Beginning>),
    /// A message for this client alone.
    Say(Box<ServerMessage>),
    /// It watches the terminal from now on, or no longer.
    Terminal(Option<Box<TerminalView>>),
}

/// Where a client begins, and what it lends.
struct Beginning {
    start: Start,
    lent: Lending,
}

/// What a `hello` says of tools.
enum Lending {
    /// It lends these.
    These(Lent),
    /// It lends none.
    Nothing,
}

/// `GET /api/agent/sessions/{id}/stream`.
pub(crate) async fn open(
    State(shared): State<Shared>,
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
    let room = match shared.house.open(&SessionId::new(id)).await {
        Ok(room) => room,
        Err(error) => return problem::room(&error),
    };
    let instance = [(INSTANCE, shared.instance.clone())];
    let upgraded = upgrade
        .max_message_size(READ_BYTES_MAX)
        .max_frame_size(READ_BYTES_MAX)
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(0)
        .on_upgrade(move |socket| {
            let sockets = shared.sockets.clone();
            sockets.track_future(serve(shared, room, caller, socket))
        });
    (instance, upgraded).into_response()
}

async fn serve(shared: Shared, room: Room, caller: Caller, socket: WebSocket) {
    let _present = shared.metrics.socket();
    let (sink, stream) = socket.split();
    let (told, telling) = mpsc::channel(WAITING_MAX);
    let inner: &Inner = &shared;
    let hears = hear::Hearing::new(inner, room.clone(), caller.clone(), told).run(stream);
    let tells = tell::Telling::new(inner, room, &caller, telling).run(sink);
    tokio::select! {
        () = hears => {}
        () = tells => {}
    }
}
