//! Reading half of a socket.

use std::sync::Arc;

use axum::extract::ws::{Message, WebSocket};
use futures::StreamExt;
use futures::stream::SplitStream;
use sysop_wire::{ClientMessage, Envelope, ErrorCode, Hello, ServerMessage};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::{MESSAGE_BYTES_MAX, SubscribeRequest, ToolManifest, WriterCommand};
use crate::ServerInner;
use crate::authenticator::Caller;
use crate::dispatch::{MessageOutcome, MessageRejection, attach, handle_message, rejection, require_operate};
use crate::registry::SessionRef;
use crate::session_feed::StartPosition;
use crate::trace::TraceParent;

pub(super) struct SocketReader<'a> {
    inner: &'a ServerInner,
    session_ref: SessionRef,
    caller: Caller,
    command: mpsc::Sender<WriterCommand>,
    greeted: bool,
    /// True if the client typed into the terminal, which is then released when the client leaves.
    typed: bool,
    /// Task that opens the terminal; a new request replaces it.
    attaching: Option<AbortOnDropHandle<()>>,
}

impl<'a> SocketReader<'a> {
    pub(super) fn new(
        inner: &'a ServerInner,
        session_ref: SessionRef,
        caller: Caller,
        command: mpsc::Sender<WriterCommand>,
    ) -> Self {
        Self { inner, session_ref, caller, command, greeted: false, typed: false, attaching: None }
    }

    /// Reads until the peer disconnects or is silent for too long.
    pub(super) async fn run(mut self, mut stream: SplitStream<WebSocket>) {
        let silence = self.inner.settings.socket.silence;
        loop {
            let Ok(heard) = tokio::time::timeout(silence, stream.next()).await else {
                self.inner.metrics.socket_dropped("silent");
                tracing::info!(session = %self.session_ref.state.id, by = self.caller.name, "dropping a silent socket");
                return;
            };
            match heard {
                // Boxed: the futures are large, and sockets mostly wait.
                Some(Ok(Message::Text(text))) => Box::pin(self.handle_text(text.as_str())).await,
                Some(Ok(Message::Binary(_))) => {
                    let why = "messages must be text frames with one JSON object each";
                    Box::pin(self.refuse(None, &rejection(ErrorCode::BadMessage, why))).await;
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
            }
        }
    }

    async fn handle_text(&mut self, text: &str) {
        self.inner.metrics.message_in();
        // Over the rate limit, messages are delayed but not lost.
        while let Some(wait) = self.inner.authenticator.message_delay(&self.caller) {
            tokio::time::sleep(wait).await;
        }
        if text.len() > MESSAGE_BYTES_MAX {
            return self.handle_oversized(text).await;
        }
        let message = match ClientMessage::parse(text) {
            Ok(message) => message,
            Err(bad) => return self.refuse(None, &rejection(ErrorCode::BadMessage, bad.to_string())).await,
        };
        let envelope = message.envelope().cloned();
        let named = envelope.as_ref().and_then(|envelope| envelope.traceparent.as_deref());
        self.session_ref.state.begin_trace(&message, named.and_then(TraceParent::parse));
        if let Err(refused) = self.handle_message(message).await {
            self.refuse(envelope.as_ref(), &refused).await;
        }
    }

    /// Handles a message that is too large. A tool result is passed on, so that the model learns of its size. Any other
    /// message is refused.
    async fn handle_oversized(&mut self, text: &str) {
        if let Ok(ClientMessage::ToolResult(result)) = ClientMessage::parse(text)
            && self.caller.scopes.operate
            && self.session_ref.state.tool_broker.finish(&self.caller.key, result)
        {
            return;
        }
        let why = format!("the message is {} bytes; the limit is {MESSAGE_BYTES_MAX}", text.len());
        self.refuse(None, &rejection(ErrorCode::TooLarge, why)).await;
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "other messages go to the session")]
    async fn handle_message(&mut self, message: ClientMessage) -> Result<(), MessageRejection> {
        if let Some(other) = message.session_id()
            && *other != self.session_ref.state.id
        {
            let why = format!("this socket belongs to session {}, not to {other}", self.session_ref.state.id);
            return Err(rejection(ErrorCode::NoSession, why));
        }
        match message {
            ClientMessage::Hello(hello) => self.hello(hello).await,
            ClientMessage::Heartbeat {} => Ok(()),
            _ if !self.greeted => Err(rejection(ErrorCode::BadMessage, "the first message must be `hello`")),
            ClientMessage::TerminalAttach { cols, rows, scrollback, .. } => {
                self.attach(cols.zip(rows), usize::from(scrollback.unwrap_or(0)))
            }
            ClientMessage::TerminalDetach { .. } => {
                self.send_to_writer(WriterCommand::Terminal(None)).await;
                Ok(())
            }
            message => {
                self.typed |= matches!(message, ClientMessage::TerminalInput { .. });
                if handle_message(self.inner, &self.session_ref, &self.caller, message).await?
                    == MessageOutcome::Ignored
                {
                    // The result came late, or no call is waiting for it.
                    tracing::debug!(session = %self.session_ref.state.id, "ignoring a result that no call is waiting for");
                }
                Ok(())
            }
        }
    }

    async fn hello(&mut self, hello: Hello) -> Result<(), MessageRejection> {
        let lent = hello.client_tools().map_err(|bad| rejection(ErrorCode::BadManifest, bad.to_string()))?;
        let lent = if lent.tools.is_empty() {
            ToolManifest::Empty
        } else {
            require_operate(&self.caller)?;
            ToolManifest::Tools(lent)
        };
        tracing::info!(
            session = %self.session_ref.state.id,
            by = self.caller.name,
            client = %sysop_core::text::neutralize_line(&hello.client_version),
            tools = hello.tool_manifest.len(),
            "client connected"
        );
        let start = hello.resume_from.map_or(StartPosition::Live, StartPosition::After);
        self.greeted = true;
        self.send_to_writer(WriterCommand::Hello(Box::new(SubscribeRequest { start, lent }))).await;
        Ok(())
    }

    /// Opens the terminal in a task, because starting a shell takes a while.
    fn attach(&mut self, size: Option<(u16, u16)>, scrollback_rows: usize) -> Result<(), MessageRejection> {
        let terminal = attach(&self.session_ref, &self.caller, size)?;
        let (command, session_id) = (self.command.clone(), self.session_ref.state.id.clone());
        let backend = Arc::clone(&self.inner.registry.backend);
        let attaching = tokio::spawn(async move {
            let told_of = match terminal.watch_back(scrollback_rows).await {
                Ok(view) => WriterCommand::Terminal(Some(Box::new(view))),
                Err(message) => {
                    let message = backend.without_folders(message);
                    let (code, reply_to) = (Some(ErrorCode::NoTerminal), None);
                    WriterCommand::Send(Box::new(ServerMessage::Error {
                        session_id,
                        position: None,
                        message,
                        code,
                        reply_to,
                    }))
                }
            };
            // Fails only if the socket has closed.
            let _ = command.send(told_of).await;
        });
        self.attaching = Some(AbortOnDropHandle::new(attaching));
        Ok(())
    }

    async fn refuse(&self, envelope: Option<&Envelope>, refused: &MessageRejection) {
        let message = ServerMessage::Error {
            session_id: self.session_ref.state.id.clone(),
            position: None,
            message: self.inner.registry.backend.without_folders(refused.why.clone()),
            code: Some(refused.code),
            reply_to: envelope.and_then(|envelope| envelope.message_id.clone()),
        };
        self.send_to_writer(WriterCommand::Send(Box::new(message))).await;
    }

    /// Sends a command to the writer. While the peer does not read, this waits, and nothing more is read from the peer.
    async fn send_to_writer(&self, command: WriterCommand) {
        // If the writer has stopped, it closes the socket as well.
        let _ = self.command.send(command).await;
    }
}

impl Drop for SocketReader<'_> {
    fn drop(&mut self) {
        if self.typed
            && let Some(terminal) = self.session_ref.opened.session.terminal()
        {
            terminal.release(&self.caller.name); // the client can no longer release it
        }
    }
}
