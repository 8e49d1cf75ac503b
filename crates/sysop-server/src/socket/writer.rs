//! Writing half of a socket.

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use futures::FutureExt as _;
use futures::SinkExt;
use futures::stream::SplitSink;
use sysop_core::event::{ConfigChange, Input};
use sysop_core::tool::ClientTools;
use sysop_wire::{ErrorCode, ServerMessage, to_json_line};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use super::terminal::{TerminalFeed, next_terminal_message};
use super::{SubscribeRequest, ToolManifest, WriterCommand};
use crate::ServerInner;
use crate::authenticator::Caller;
use crate::registry::SessionRef;
use crate::session_feed::SessionFeed;

/// Close codes from RFC 6455 and the IANA registry.
const GOING_AWAY: u16 = 1001;
const POLICY: u16 = 1008;
const FAULT: u16 = 1011;
const RESTART: u16 = 1012;
/// Maximum number of messages to send before other events of the socket are handled.
const BURST_MESSAGES_MAX: usize = 256;

pub(super) struct SocketWriter<'a> {
    inner: &'a ServerInner,
    session_ref: SessionRef,
    caller: &'a Caller,
    command: mpsc::Receiver<WriterCommand>,
    feed: Option<SessionFeed>,
    terminal: Option<TerminalFeed>,
    lends: bool,
}

struct SocketClose {
    code: ErrorCode,
    close: u16,
    why: String,
}

/// End of a socket, initiated by the peer or the server.
enum SocketEnd {
    PeerGone,
    Closed(SocketClose),
}

type Sink = SplitSink<WebSocket, Message>;

impl<'a> SocketWriter<'a> {
    pub(super) fn new(
        inner: &'a ServerInner,
        session_ref: SessionRef,
        caller: &'a Caller,
        command: mpsc::Receiver<WriterCommand>,
    ) -> Self {
        Self { inner, session_ref, caller, command, feed: None, terminal: None, lends: false }
    }

    /// Writes until the peer disconnects or the socket must close. Before closing it, sends the peer the reason.
    pub(super) async fn run(mut self, mut sink: Sink) {
        let SocketEnd::Closed(SocketClose { code, close, why }) = self.run_until_end(&mut sink).await else {
            return;
        };
        self.inner.metrics.socket_dropped(reason(code));
        tracing::info!(session = %self.session_ref.state.id, reason = reason(code), "socket closed");
        let message = ServerMessage::Error {
            session_id: self.session_ref.state.id.clone(),
            position: None,
            message: why,
            code: Some(code),
            reply_to: None,
        };
        let text = Message::Text(to_json_line(&message).into());
        let frame = CloseFrame { code: close, reason: reason(code).into() };
        let closing = async {
            sink.feed(text).await?;
            sink.send(Message::Close(Some(frame))).await
        };
        // A peer that does not accept the reason is disconnected without it.
        // Boxed, as in `write`: a future takes the room of all that it may wait for, and sockets mostly idle.
        let _ = Box::pin(tokio::time::timeout(self.inner.settings.socket.close_timeout, closing)).await;
    }

    async fn run_until_end(&mut self, sink: &mut Sink) -> SocketEnd {
        let mut heartbeat = tokio::time::interval_at(
            Instant::now() + self.inner.settings.socket.heartbeat,
            self.inner.settings.socket.heartbeat,
        );
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let done = tokio::select! {
                biased;
                () = self.inner.closing.cancelled() => return SocketEnd::Closed(self.server_ends()),
                () = self.caller.ended.cancelled() => return SocketEnd::Closed(SocketClose {
                    code: ErrorCode::Forbidden,
                    close: POLICY,
                    why: "this token has expired or was revoked; reconnect with another one".to_owned(),
                }),
                command = self.command.recv() => match command {
                    Some(command) => self.command(sink, command).await,
                    None => return SocketEnd::PeerGone,
                },
                _ = heartbeat.tick() => self.send_heartbeat(sink).await,
                // Boxed, as in `write`.
                message = next(&mut self.feed) => Box::pin(self.send_ready(sink, message)).await,
                message = next_terminal_message(&mut self.terminal) => self.send_message(sink, &message).await,
            };
            if let Err(over) = done {
                return over;
            }
        }
    }

    async fn command(&mut self, sink: &mut Sink, command: WriterCommand) -> Result<(), SocketEnd> {
        match command {
            WriterCommand::Send(message) => self.send_message(sink, &message).await,
            WriterCommand::Terminal(None) => {
                self.terminal = None;
                Ok(())
            }
            WriterCommand::Terminal(Some(view)) => {
                let (watching, first) = TerminalFeed::new(self.session_ref.state.id.clone(), *view);
                self.terminal = Some(watching);
                self.send_message(sink, &first).await
            }
            // Boxed: the future is large, and sockets mostly wait.
            WriterCommand::Hello(beginning) => Box::pin(self.hello(*beginning)).await,
        }
    }

    /// Starts a new feed at the position that the client requested.
    async fn hello(&mut self, SubscribeRequest { start, lent }: SubscribeRequest) -> Result<(), SocketEnd> {
        // The log may have grown since the socket was opened.
        match self.inner.registry.open(&self.session_ref.state.id).await {
            Ok(session_ref) => self.session_ref = session_ref,
            Err(error) => {
                let why = error.to_string();
                return Err(SocketEnd::Closed(SocketClose { code: ErrorCode::Closed, close: FAULT, why }));
            }
        }
        self.feed = None; // also drops its tool registration
        let feed =
            SessionFeed::new(self.session_ref.clone(), self.inner.registry.backend.as_ref(), start, true)
                .await;
        let mut feed = feed.for_caller(self.caller);
        match lent {
            ToolManifest::Tools(lent) => {
                feed.register(Some(
                    self.session_ref.state.tool_broker.register(&self.caller.key, lent.clone()),
                ));
                self.lends = true;
                self.configure(lent)?;
            }
            ToolManifest::Empty if self.lends => {
                self.lends = false;
                self.configure(ClientTools::default())?;
            }
            ToolManifest::Empty => {}
        }
        self.feed = Some(feed);
        Ok(())
    }

    fn configure(&self, lent: ClientTools) -> Result<(), SocketEnd> {
        let input = Input::Configure { change: ConfigChange::ClientTools(lent) };
        self.session_ref
            .opened
            .session
            .send(input)
            .map_err(|why| SocketEnd::Closed(SocketClose { code: ErrorCode::Closed, close: FAULT, why }))
    }

    async fn send_heartbeat(&mut self, sink: &mut Sink) -> Result<(), SocketEnd> {
        self.write(sink, Message::Ping(bytes::Bytes::new())).await?;
        self.send_message(sink, &ServerMessage::Heartbeat {}).await
    }

    async fn send_message(&mut self, sink: &mut Sink, message: &ServerMessage) -> Result<(), SocketEnd> {
        self.inner.metrics.message_out();
        self.write(sink, Message::Text(to_json_line(message).into())).await
    }

    /// Sends a message of the feed, and those that are ready after it, with one flush for all: a long history would
    /// otherwise arrive in as many packets as it has messages. Ends if `message` is `None`: the session is gone.
    async fn send_ready(
        &mut self,
        sink: &mut Sink,
        mut message: Option<ServerMessage>,
    ) -> Result<(), SocketEnd> {
        for _ in 0..BURST_MESSAGES_MAX {
            let Some(ready) = &message else { break };
            self.inner.metrics.message_out();
            let text = Message::Text(to_json_line(ready).into());
            self.in_time(sink.feed(text)).await?;
            match next(&mut self.feed).now_or_never() {
                Some(next) => message = next,
                None => return self.in_time(sink.flush()).await,
            }
        }
        match message {
            Some(last) => self.send_message(sink, &last).await,
            None => {
                self.in_time(sink.flush()).await?;
                Err(SocketEnd::Closed(self.session_gone()))
            }
        }
    }

    async fn write(&mut self, sink: &mut Sink, message: Message) -> Result<(), SocketEnd> {
        self.in_time(sink.send(message)).await
    }

    /// Waits for a write. Fails if the peer is gone, or reads too slowly.
    async fn in_time(
        &mut self,
        writing: impl Future<Output = Result<(), axum::Error>>,
    ) -> Result<(), SocketEnd> {
        match Box::pin(tokio::time::timeout(self.inner.settings.socket.write, writing)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(SocketEnd::PeerGone),
            Err(_) => Err(SocketEnd::Closed(SocketClose {
                code: ErrorCode::TooSlow,
                close: POLICY,
                why: "this client reads too slowly; reconnect with `resumeFrom` to continue".to_owned(),
            })),
        }
    }

    fn server_ends(&self) -> SocketClose {
        let (code, why) = self.inner.end_reason();
        let close = if code == ErrorCode::Draining { RESTART } else { GOING_AWAY };
        SocketClose { code, close, why: why.to_owned() }
    }

    fn session_gone(&self) -> SocketClose {
        let why = self.session_ref.opened.session.last_error();
        let why = why.map(|why| self.inner.registry.backend.without_folders(why));
        let why = why.unwrap_or_else(|| "cannot read the log; reconnect to continue".to_owned());
        SocketClose { code: ErrorCode::Closed, close: FAULT, why }
    }
}

async fn next(feed: &mut Option<SessionFeed>) -> Option<ServerMessage> {
    match feed {
        Some(feed) => feed.next().await,
        None => std::future::pending().await, // no hello yet
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "refusals share one reason")]
fn reason(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::TooSlow => "too_slow",
        ErrorCode::Draining => "draining",
        ErrorCode::NoSession => "ended",
        ErrorCode::Closed => "closed",
        ErrorCode::Forbidden => "forbidden",
        _ => "refused",
    }
}
