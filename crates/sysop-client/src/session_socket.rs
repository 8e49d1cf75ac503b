//! One WebSocket to a session on a server.

use std::time::Duration;

use futures::{SinkExt, StreamExt};
use reqwest::header::{
    CONNECTION, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use reqwest::{StatusCode, Upgraded};
use sysop_core::id::SessionId;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Message};

use crate::ClientError;
use crate::api::{Api, refusal};

/// Maximum time to connect, from name resolution to the server's response.
const OPEN: Duration = Duration::from_secs(20);
/// Maximum time for the peer to accept a message.
const WRITE: Duration = Duration::from_secs(10);
/// Maximum time without any message from the server, which pings every ten seconds.
const SILENCE: Duration = Duration::from_secs(25);
/// Reason for the end of a connection that failed in another way.
const LOST: &str = "connection to the server lost";
const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;
const REFUSAL_BYTES_MAX: usize = 64 * 1024;

/// Header that identifies the server process.
const INSTANCE: HeaderName = HeaderName::from_static("sysop-instance");

/// WebSocket that fails if the server sends or accepts nothing for too long.
pub(crate) struct SessionSocket<S = Upgraded> {
    socket: WebSocketStream<S>,
    /// Identity of the server process, if it sent one.
    pub(crate) instance: Option<String>,
}

pub(crate) enum SocketEvent {
    Text(String),
    /// Pong for the ping with this number. The server has handled everything that was sent before that ping.
    Pong(u64),
    /// Any other message; it shows that the connection is alive.
    Alive,
}

/// Reason why the connection closed.
#[derive(Debug)]
pub(crate) struct SocketError(pub(crate) String);

impl SessionSocket {
    pub(crate) async fn open(api: &Api, session: &SessionId) -> Result<Self, ClientError> {
        let opening = tokio::time::timeout(OPEN, Self::opening(api, session)).await;
        opening.unwrap_or_else(|_| {
            let server = api.server().display_url();
            Err(ClientError::Unreachable(format!("no response from {server}; check the network and the URL")))
        })
    }

    async fn opening(api: &Api, session: &SessionId) -> Result<Self, ClientError> {
        let url = api.server().at(&["api", "agent", "sessions", session.as_str(), "stream"]);
        let key = generate_key();
        let request = api
            .socket(url)
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key);
        let mut response = request.send().await.map_err(|error| api.unreachable(&error))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let status = response.status();
            let mut answer = Vec::new();
            while let Ok(Some(chunk)) = response.chunk().await
                && answer.len() < REFUSAL_BYTES_MAX
            {
                answer.extend_from_slice(&chunk);
            }
            return Err(refusal(api.server(), status, &answer));
        }
        let accepted = response.headers().get(SEC_WEBSOCKET_ACCEPT);
        if accepted.is_none_or(|accepted| accepted != derive_accept_key(key.as_bytes()).as_str()) {
            let why = "the server refused the WebSocket upgrade; check for a proxy in between";
            return Err(ClientError::Unreachable(why.to_owned()));
        }
        let instance =
            response.headers().get(&INSTANCE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let upgraded = response.upgrade().await.map_err(|error| api.unreachable(&error))?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX));
        let socket = WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await;
        Ok(Self { socket, instance })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> SessionSocket<S> {
    /// Receives the next event. Fails if the connection has closed or if nothing arrives within `SILENCE`
    /// after `since`, the time of the last event. Cancel safe if the same `since` is passed to the next call.
    pub(crate) async fn receive(&mut self, since: tokio::time::Instant) -> Result<SocketEvent, SocketError> {
        let Ok(heard) = tokio::time::timeout_at(since + SILENCE, self.socket.next()).await else {
            return Err(SocketError("no message from the server for 25 s".to_owned()));
        };
        match heard {
            Some(Ok(Message::Text(text))) => Ok(SocketEvent::Text(text.as_str().to_owned())),
            Some(Ok(Message::Pong(payload))) => {
                Ok(number(&payload).map_or(SocketEvent::Alive, SocketEvent::Pong))
            }
            Some(Ok(Message::Ping(_) | Message::Binary(_) | Message::Frame(_))) => Ok(SocketEvent::Alive),
            Some(Ok(Message::Close(_))) | None => {
                Err(SocketError("the server closed the connection".to_owned()))
            }
            Some(Err(_)) => Err(SocketError(LOST.to_owned())),
        }
    }

    pub(crate) async fn send_text(&mut self, text: String) -> Result<(), SocketError> {
        self.write(Message::Text(text.into())).await
    }

    pub(crate) async fn ping(&mut self, number: u64) -> Result<(), SocketError> {
        self.write(Message::Ping(Bytes::copy_from_slice(&number.to_be_bytes()))).await
    }

    /// Sends a WebSocket close frame.
    pub(crate) async fn close(&mut self) {
        // A peer that does not accept the frame notices the end of the connection anyway.
        let _ = tokio::time::timeout(WRITE, self.socket.close(None)).await;
    }

    async fn write(&mut self, message: Message) -> Result<(), SocketError> {
        match tokio::time::timeout(WRITE, self.socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(SocketError(LOST.to_owned())),
            Err(_) => Err(SocketError("the server stopped reading".to_owned())),
        }
    }
}

fn number(payload: &[u8]) -> Option<u64> {
    payload.try_into().ok().map(u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    type Ends = (SessionSocket<tokio::io::DuplexStream>, WebSocketStream<tokio::io::DuplexStream>);

    async fn ends(room: usize) -> Ends {
        let (near, far) = tokio::io::duplex(room);
        let socket = WebSocketStream::from_raw_socket(near, Role::Client, None).await;
        let server = WebSocketStream::from_raw_socket(far, Role::Server, None).await;
        (SessionSocket { socket, instance: None }, server)
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_times_out_within_half_a_minute() {
        let (mut link, mut server) = ends(1024).await;
        server.send(Message::text("one")).await.unwrap();
        let began = Instant::now();
        assert!(matches!(link.receive(began).await, Ok(SocketEvent::Text(text)) if text == "one"));
        let why = link.receive(began).await.err().unwrap().0;
        assert!(why.contains("no message from the server"), "{why}");
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_read_times_out_within_half_a_minute() {
        let (mut link, _server) = ends(64).await;
        let began = Instant::now();
        assert!(link.send_text("x".repeat(1000)).await.is_err());
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn a_pong_confirms_all_messages_before_its_ping() {
        let (mut link, mut server) = ends(1024).await;
        link.send_text("one".to_owned()).await.unwrap();
        link.ping(7).await.unwrap();
        assert_eq!(server.next().await.unwrap().unwrap(), Message::text("one"));
        let reading =
            tokio::spawn(async move { while server.next().await.is_some_and(|read| read.is_ok()) {} });
        assert!(matches!(link.receive(Instant::now()).await, Ok(SocketEvent::Pong(7))));
        link.close().await;
        reading.await.unwrap();
    }
}
