//! What a client says.

use axum::extract::ws::{Message, WebSocket};
use futures::StreamExt;
use futures::stream::SplitStream;
use sysop_wire::{ClientMessage, Envelope, ErrorCode, Hello, ServerMessage};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::{Beginning, Lending, MESSAGE_BYTES_MAX, Told};
use crate::Inner;
use crate::act::{Acted, Refused, act, attach, need, refused};
use crate::follow::Start;
use crate::guard::{Caller, Scope};
use crate::house::Room;
use crate::trace::TraceParent;

/// The hearing half of a socket.
pub(super) struct Hearing<'a> {
    inner: &'a Inner,
    room: Room,
    caller: Caller,
    told: mpsc::Sender<Told>,
    greeted: bool,
    /// The terminal that this client has typed into.
    typed: bool,
    /// The terminal is being opened for it: once, however often it asks.
    attaching: Option<AbortOnDropHandle<()>>,
}

impl<'a> Hearing<'a> {
    pub(super) fn new(inner: &'a Inner, room: Room, caller: Caller, told: mpsc::Sender<Told>) -> Self {
        Self { inner, room, caller, told, greeted: false, typed: false, attaching: None }
    }

    /// Hears until the peer is gone, or silent for too long.
    pub(super) async fn run(mut self, mut stream: SplitStream<WebSocket>) {
        let silence = self.inner.settings.socket.silence;
        loop {
            let Ok(heard) = tokio::time::timeout(silence, stream.next()).await else {
                self.inner.metrics.socket_dropped("silent");
                tracing::info!(session = %self.room.state.id, by = self.caller.name, "a silent socket is dropped");
                return;
            };
            match heard {
                Some(Ok(Message::Text(text))) => self.heard(text.as_str()).await,
                Some(Ok(Message::Binary(_))) => {
                    let why = "messages are text: one JSON object each";
                    self.refuse(None, &refused(ErrorCode::BadMessage, why)).await;
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
            }
        }
    }

    async fn heard(&mut self, text: &str) {
        self.inner.metrics.message_in();
        // Who says too much is listened to more slowly; nothing of it is lost.
        while let Some(wait) = self.inner.guard.may_say(&self.caller) {
            tokio::time::sleep(wait).await;
        }
        if text.len() > MESSAGE_BYTES_MAX {
            return self.heard_too_much(text).await;
        }
        let message = match ClientMessage::parse(text) {
            Ok(message) => message,
            Err(bad) => return self.refuse(None, &refused(ErrorCode::BadMessage, bad.to_string())).await,
        };
        let envelope = message.envelope().cloned();
        let named = envelope.as_ref().and_then(|envelope| envelope.traceparent.as_deref());
        self.room.state.begins(&message, named.and_then(TraceParent::parse));
        // Apart: most of the time a socket waits, and this is large.
        if let Err(refused) = Box::pin(self.act(message)).await {
            self.refuse(envelope.as_ref(), &refused).await;
        }
    }

    /// Of what is too long only a result counts: the model is told that it is.
    async fn heard_too_much(&mut self, text: &str) {
        if let Ok(ClientMessage::ToolResult(result)) = ClientMessage::parse(text)
            && self.caller.scope >= Scope::Operate
            && self.room.state.lending.finish(&self.caller.key, result)
        {
            return;
        }
        let why = format!("the message has {} bytes, and {MESSAGE_BYTES_MAX} are the most", text.len());
        self.refuse(None, &refused(ErrorCode::TooLarge, why)).await;
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "what is not of the connection goes to the session")]
    async fn act(&mut self, message: ClientMessage) -> Result<(), Refused> {
        if let Some(other) = message.session_id()
            && *other != self.room.state.id
        {
            let why = format!("this socket is of session {}, not of {other}", self.room.state.id);
            return Err(refused(ErrorCode::NoSession, why));
        }
        match message {
            ClientMessage::Hello(hello) => self.hello(hello).await,
            ClientMessage::Heartbeat {} => Ok(()),
            _ if !self.greeted => Err(refused(ErrorCode::BadMessage, "say `hello` first")),
            ClientMessage::TerminalAttach { cols, rows, scrollback, .. } => {
                self.attach(cols.zip(rows), usize::from(scrollback.unwrap_or(0)))
            }
            ClientMessage::TerminalDetach { .. } => {
                self.tell(Told::Terminal(None)).await;
                Ok(())
            }
            message => {
                self.typed |= matches!(message, ClientMessage::TerminalInput { .. });
                if act(self.inner, &self.room, &self.caller, message).await? == Acted::Ignored {
                    // Late, or never asked for: nobody waits for it.
                    tracing::debug!(session = %self.room.state.id, "a result that nobody waits for is ignored");
                }
                Ok(())
            }
        }
    }

    async fn hello(&mut self, hello: Hello) -> Result<(), Refused> {
        let lent = hello.lent().map_err(|bad| refused(ErrorCode::BadManifest, bad.to_string()))?;
        let lent = if lent.tools.is_empty() {
            Lending::Nothing
        } else {
            need(&self.caller, Scope::Operate)?;
            Lending::These(lent)
        };
        tracing::info!(
            session = %self.room.state.id,
            by = self.caller.name,
            client = %sysop_core::text::neutralise_line(&hello.client_version),
            tools = hello.tool_manifest.len(),
            "client connected"
        );
        let start = hello.resume_from.map_or(Start::Now, Start::After);
        self.greeted = true;
        self.tell(Told::Hello(Box::new(Beginning { start, lent }))).await;
        Ok(())
    }

    /// Opening a shell takes a while; the socket does not wait for it.
    fn attach(&mut self, size: Option<(u16, u16)>, scrollback_rows: usize) -> Result<(), Refused> {
        let terminal = attach(&self.room, &self.caller, size)?;
        let (told, session_id) = (self.told.clone(), self.room.state.id.clone());
        let attaching = tokio::spawn(async move {
            let told_of = match terminal.watch_back(scrollback_rows).await {
                Ok(view) => Told::Terminal(Some(Box::new(view))),
                Err(message) => {
                    let (code, reply_to) = (Some(ErrorCode::NoTerminal), None);
                    Told::Say(Box::new(ServerMessage::Error {
                        session_id,
                        place: None,
                        message,
                        code,
                        reply_to,
                    }))
                }
            };
            // Nobody hears of it where the socket is gone.
            let _ = told.send(told_of).await;
        });
        self.attaching = Some(AbortOnDropHandle::new(attaching));
        Ok(())
    }

    async fn refuse(&self, envelope: Option<&Envelope>, refused: &Refused) {
        let message = ServerMessage::Error {
            session_id: self.room.state.id.clone(),
            place: None,
            message: refused.why.clone(),
            code: Some(refused.code),
            reply_to: envelope.and_then(|envelope| envelope.message_id.clone()),
        };
        self.tell(Told::Say(Box::new(message))).await;
    }

    /// Waits where the peer does not read: then nothing more is heard of it either.
    async fn tell(&self, told: Told) {
        // The telling half ends the socket when it ends.
        let _ = self.told.send(told).await;
    }
}

impl Drop for Hearing<'_> {
    fn drop(&mut self) {
        if self.typed
            && let Some(terminal) = self.room.opened.session.terminal()
        {
            terminal.release(&self.caller.name); // nobody is there any more to give it back
        }
    }
}
