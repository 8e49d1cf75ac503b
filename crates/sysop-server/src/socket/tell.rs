//! What a client is told.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use futures::SinkExt;
use futures::stream::SplitSink;
use sysop_core::event::{Change, Input};
use sysop_core::tool::Lent;
use sysop_wire::{ErrorCode, ServerMessage, to_line};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use super::terminal::Watching;
use super::{Lending, Told};
use crate::Inner;
use crate::follow::{Feed, Start};
use crate::guard::Caller;
use crate::house::Room;

/// How long the reason of an end may take to be taken by the peer.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Close codes of RFC 6455 and IANA's list.
const POLICY: u16 = 1008;
const FAULT: u16 = 1011;
const RESTART: u16 = 1012;

/// The telling half of a socket.
pub(super) struct Telling<'a> {
    inner: &'a Inner,
    room: Room,
    caller: &'a Caller,
    told: mpsc::Receiver<Told>,
    feed: Option<Feed>,
    terminal: Option<Watching>,
    lends: bool,
}

/// Why the server ends a socket.
struct End {
    code: ErrorCode,
    close: u16,
    why: String,
}

/// The peer is gone, or is to go.
enum Over {
    Gone,
    End(End),
}

type Sink = SplitSink<WebSocket, Message>;

impl<'a> Telling<'a> {
    pub(super) fn new(inner: &'a Inner, room: Room, caller: &'a Caller, told: mpsc::Receiver<Told>) -> Self {
        Self { inner, room, caller, told, feed: None, terminal: None, lends: false }
    }

    /// Tells until the peer is gone or the socket is to end; then says why.
    pub(super) async fn run(mut self, mut sink: Sink) {
        let Over::End(End { code, close, why }) = self.tell(&mut sink).await else { return };
        self.inner.metrics.socket_dropped(reason(code));
        tracing::info!(session = %self.room.state.id, reason = reason(code), "socket closed");
        let message = ServerMessage::Error {
            session_id: self.room.state.id.clone(),
            place: None,
            message: why,
            code: Some(code),
            reply_to: None,
        };
        let last_words = async {
            let frame = CloseFrame { code: close, reason: reason(code).into() };
            sink.feed(Message::Text(to_line(&message).into())).await?;
            sink.send(Message::Close(Some(frame))).await
        };
        // Who does not take it is dropped without.
        let _ = tokio::time::timeout(LAST_WORDS, last_words).await;
    }

    async fn tell(&mut self, sink: &mut Sink) -> Over {
        let mut heartbeat = tokio::time::interval_at(
            Instant::now() + self.inner.settings.socket.heartbeat,
            self.inner.settings.socket.heartbeat,
        );
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let done = tokio::select! {
                biased;
                () = self.inner.closing.cancelled() => return Over::End(End {
                    code: ErrorCode::Draining,
                    close: RESTART,
                    why: crate::act::DRAINING.to_owned(),
                }),
                () = self.caller.ended.cancelled() => return Over::End(End {
                    code: ErrorCode::Forbidden,
                    close: POLICY,
                    why: "this token has ended; connect again with another".to_owned(),
                }),
                told = self.told.recv() => match told {
                    Some(told) => self.told(sink, told).await,
                    None => return Over::Gone,
                },
                _ = heartbeat.tick() => self.live(sink).await,
                message = next(&mut self.feed) => match message {
                    Some(message) => self.say(sink, &message).await,
                    None => return Over::End(self.gone()),
                },
                message = next_of(&mut self.terminal) => self.say(sink, &message).await,
            };
            if let Err(over) = done {
                return over;
            }
        }
    }

    async fn told(&mut self, sink: &mut Sink, told: Told) -> Result<(), Over> {
        match told {
            Told::Say(message) => self.say(sink, &message).await,
            Told::Terminal(None) => {
                self.terminal = None;
                Ok(())
            }
            Told::Terminal(Some(view)) => {
                let (watching, first) = Watching::new(self.room.state.id.clone(), *view);
                self.terminal = Some(watching);
                self.say(sink, &first).await
            }
            Told::Hello { start, lent } => self.hello(start, lent).await,
        }
    }

    /// Begins anew with what the client asked for.
    async fn hello(&mut self, start: Start, lent: Lending) -> Result<(), Over> {
        // Where the log ends now is what counts, not where it ended when the socket was opened.
        match self.inner.house.open(&self.room.state.id).await {
            Ok(room) => self.room = room,
            Err(error) => {
                let why = error.to_string();
                return Err(Over::End(End { code: ErrorCode::Closed, close: FAULT, why }));
            }
        }
        self.feed = None; // and with it the seat that it had
        let mut feed = Feed::new(self.room.clone(), self.inner.house.rooms.as_ref(), start, true).await;
        match lent {
            Lending::These(lent) => {
                feed.sit(Some(self.room.state.lending.sit(&self.caller.key, lent.clone())));
                self.lends = true;
                self.configure(lent)?;
            }
            Lending::Nothing if self.lends => {
                self.lends = false;
                self.configure(Lent::default())?;
            }
            Lending::Nothing => {}
        }
        self.feed = Some(feed);
        Ok(())
    }

    fn configure(&self, lent: Lent) -> Result<(), Over> {
        let input = Input::Configure { change: Change::Lent(lent) };
        self.room
            .opened
            .session
            .send(input)
            .map_err(|why| Over::End(End { code: ErrorCode::Closed, close: FAULT, why }))
    }

    async fn live(&mut self, sink: &mut Sink) -> Result<(), Over> {
        self.write(sink, Message::Ping(bytes::Bytes::new())).await?;
        self.say(sink, &ServerMessage::Heartbeat {}).await
    }

    async fn say(&mut self, sink: &mut Sink, message: &ServerMessage) -> Result<(), Over> {
        self.inner.metrics.message_out();
        self.write(sink, Message::Text(to_line(message).into())).await
    }

    async fn write(&mut self, sink: &mut Sink, message: Message) -> Result<(), Over> {
        match tokio::time::timeout(self.inner.settings.socket.write, sink.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Over::Gone),
            Err(_) => Err(Over::End(End {
                code: ErrorCode::TooSlow,
                close: POLICY,
                why: "this client does not read fast enough; connect again with `resumeFrom` to go on"
                    .to_owned(),
            })),
        }
    }

    /// The session is gone.
    fn gone(&self) -> End {
        let why = self.room.opened.session.last_error();
        let why = why.unwrap_or_else(|| "the log cannot be read now; connect again to go on".to_owned());
        End { code: ErrorCode::Closed, close: FAULT, why }
    }
}

async fn next(feed: &mut Option<Feed>) -> Option<ServerMessage> {
    match feed {
        Some(feed) => feed.next().await,
        None => std::future::pending().await, // it has not said hello
    }
}

async fn next_of(terminal: &mut Option<Watching>) -> ServerMessage {
    loop {
        match terminal {
            Some(watching) => match watching.next().await {
                Some(message) => return message,
                None => *terminal = None,
            },
            None => std::future::pending().await,
        }
    }
}

fn reason(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::TooSlow => "too_slow",
        ErrorCode::Draining => "draining",
        ErrorCode::Closed => "closed",
        ErrorCode::Forbidden => "forbidden",
        ErrorCode::BadMessage
        | ErrorCode::BadManifest
        | ErrorCode::TooLarge
        | ErrorCode::TooMany
        | ErrorCode::NoSession
        | ErrorCode::Stale
        | ErrorCode::Busy
        | ErrorCode::NoTerminal
        | ErrorCode::Internal => "refused",
    }
}
