//! Test clients: WebSocket, requests, event stream. Every wait has a deadline.

use std::net::SocketAddr;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// Deadline for anything that should happen at once, generous for busy machines.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("no {what} in time"))
}

pub(crate) struct Client {
    pub(crate) ws: WebSocketStream<MaybeTlsStream<TcpStream>>,
    pub(crate) closed: Option<CloseFrame>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr, session: &str, name: &str) -> Self {
        let url = format!("ws://{address}/api/agent/sessions/{session}/stream");
        let mut request = url.into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {name}").parse().unwrap());
        let (ws, _) = in_time("handshake", tokio_tungstenite::connect_async(request)).await.unwrap();
        Self { ws, closed: None }
    }

    /// Connects, sends hello and returns the client with the reply.
    pub(crate) async fn join(address: SocketAddr, session: &str, name: &str, hello: Value) -> (Self, Value) {
        let mut client = Self::connect(address, session, name).await;
        let mut message = json!({"type": "hello", "clientVersion": "test"});
        message.as_object_mut().unwrap().extend(hello.as_object().unwrap().clone());
        client.say(message).await;
        let created = client.until("session.created").await;
        (client, created)
    }

    pub(crate) async fn say(&mut self, message: Value) {
        self.ws.send(Message::text(message.to_string())).await.unwrap();
    }

    /// Returns the next message, or `None` if the server closed the socket.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            match in_time("message", self.ws.next()).await {
                Some(Ok(Message::Text(text))) => return Some(serde_json::from_str(text.as_str()).unwrap()),
                Some(Ok(Message::Close(frame))) => self.closed = frame,
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// Returns the next message of this type and skips the ones before.
    pub(crate) async fn until(&mut self, kind: &str) -> Value {
        self.all_until(kind).await.pop().unwrap()
    }

    /// Returns all messages up to the next one of this type.
    pub(crate) async fn all_until(&mut self, kind: &str) -> Vec<Value> {
        let mut all = Vec::new();
        let reading = async {
            loop {
                let Some(message) = self.next().await else { panic!("closed before {kind}: {all:?}") };
                let found = message["type"] == kind;
                all.push(message);
                if found {
                    return;
                }
            }
        };
        in_time(kind, reading).await; // needs its own deadline: heartbeats never stop
        all
    }

    /// Sends a prompt and waits for the end of its turn.
    pub(crate) async fn turn(&mut self, content: &str) -> Vec<Value> {
        self.say(json!({"type": "user.message", "content": content})).await;
        self.all_until("assistant.done").await
    }

    pub(crate) async fn leave(mut self) {
        // Fails if the server closed it first.
        let _ = self.ws.close(None).await;
    }
}

#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl HttpResponse {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

async fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    if !body.is_empty() && headers.iter().all(|(name, _)| *name != "transfer-encoding") {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).await.unwrap();
    stream
}

/// Sends a request with these headers.
pub(crate) async fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> HttpResponse {
    let mut stream = send(address, method, path, headers, body).await;
    let mut text = Vec::new();
    in_time("answer", stream.read_to_end(&mut text)).await.unwrap();
    let text = String::from_utf8_lossy(&text).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { unchunked(body) } else { body.to_owned() };
    HttpResponse { status, head: head.to_owned(), body }
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        whole += &rest[..size];
        body = rest[size..].trim_start_matches("\r\n");
        if size == 0 {
            break;
        }
    }
    whole
}

/// Posts JSON with this name as the token.
pub(crate) async fn post(address: SocketAddr, name: &str, path: &str, body: &Value) -> HttpResponse {
    let token = format!("Bearer {name}");
    let headers = [("authorization", token.as_str()), ("content-type", "application/json")];
    request(address, "POST", path, &headers, &body.to_string()).await
}

pub(crate) async fn get(address: SocketAddr, name: &str, path: &str) -> HttpResponse {
    request(address, "GET", path, &[("authorization", &format!("Bearer {name}"))], "").await
}

/// Creates a session and returns its id.
pub(crate) async fn session(address: SocketAddr, name: &str, wish: &Value) -> String {
    let made = post(address, name, "/api/agent/sessions", wish).await;
    assert_eq!(made.status, 201, "{made:?}");
    made.json()["sessionId"].as_str().unwrap().to_owned()
}

pub(crate) struct Events {
    lines: tokio::io::Lines<BufReader<TcpStream>>,
    pub(crate) head: String,
}

#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) id: Option<u64>,
    pub(crate) name: String,
    pub(crate) data: Value,
}

impl Events {
    pub(crate) async fn open(
        address: SocketAddr,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Self {
        let stream = send(address, method, path, headers, body).await;
        let mut lines = BufReader::new(stream).lines();
        let mut head = String::new();
        loop {
            let line = in_time("head", lines.next_line()).await.unwrap().unwrap();
            if line.is_empty() {
                break;
            }
            head += &line;
            head.push('\n');
        }
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        Self { lines, head }
    }

    pub(crate) async fn of(address: SocketAddr, name: &str, session: &str, last: Option<u64>) -> Self {
        let path = format!("/api/agent/sessions/{session}/events");
        let (token, last) = (format!("Bearer {name}"), last.map(|last| last.to_string()));
        let mut headers = vec![("authorization", token.as_str())];
        headers.extend(last.as_deref().map(|last| ("last-event-id", last)));
        Self::open(address, "GET", &path, &headers, "").await
    }

    /// Returns the next event, or `None` if the stream ended.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        let (mut id, mut name, mut data) = (None, String::new(), None);
        loop {
            let line = in_time("event", self.lines.next_line()).await.ok().flatten()?;
            if let Some(text) = line.strip_prefix("data: ") {
                // Fails to parse if the connection was cut off.
                data = Some(serde_json::from_str(text).ok()?);
            } else if let Some(text) = line.strip_prefix("id: ") {
                id = text.parse().ok();
            } else if let Some(text) = line.strip_prefix("event: ") {
                name = text.to_owned();
            } else if line.is_empty()
                && let Some(data) = data.take()
            {
                return Some(Event { id, name, data });
            }
        }
    }

    /// Returns all events up to the next one with this name or message type.
    pub(crate) async fn until(&mut self, kind: &str) -> Vec<Event> {
        let mut all = Vec::new();
        loop {
            let Some(event) = self.next().await else { panic!("ended before {kind}: {all:?}") };
            let found = event.data["type"] == kind || event.name == kind;
            all.push(event);
            if found {
                return all;
            }
        }
    }
}
