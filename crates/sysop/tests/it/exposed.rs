//! Access to the server from the network: the real binary, and raw bytes on real connections.
//!
//! The cases are published vulnerabilities of other servers; each test is named after one.

mod audit;
mod cases;
pub(crate) mod private;
mod spans;
mod tls;
mod tokens;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::World;
use crate::support::{DEADLINE, Running, served};

/// Running server with its start-up token.
pub(crate) struct ServeProcess {
    pub(crate) running: Running,
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
}

impl ServeProcess {
    pub(crate) fn start(world: &World, arguments: &[&str]) -> Self {
        let arguments: Vec<_> = ["serve", "--port", "0"].iter().chain(arguments).copied().collect();
        Self::with(world, &arguments)
    }

    /// Starts a server with this complete command line.
    pub(crate) fn with(world: &World, arguments: &[&str]) -> Self {
        let running = world.start(arguments);
        let said = running.out.wait_for("the address", |said| said.contains('\n'));
        let (page, token) = served(&said);
        let address = page.trim_end_matches('/').split_once("://").unwrap().1.parse().unwrap();
        Self { running, address, token }
    }

    /// Sends a request of exactly these header lines and the body.
    pub(crate) fn raw(&self, head: &[String], body: &str) -> HttpResponse {
        let mut stream = self.connect();
        let request = format!("{}\r\n\r\n{body}", head.join("\r\n"));
        // The server may close a rejected request before reading all of it.
        let _ = stream.write_all(request.as_bytes());
        HttpResponse::read(&mut stream)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream
    }

    /// Sends a request with the usual headers and the header lines in `lines`.
    pub(crate) fn ask(&self, method: &str, path: &str, lines: &[&str], body: &str) -> HttpResponse {
        let mut head = vec![format!("{method} {path} HTTP/1.1"), "connection: close".to_owned()];
        if !lines.iter().any(|line| line.starts_with("host:")) {
            head.push(format!("host: {}", self.address));
        }
        if !body.is_empty() {
            head.push(format!("content-length: {}", body.len()));
        }
        head.extend(lines.iter().map(|line| (*line).to_owned()));
        self.raw(&head, body)
    }

    pub(crate) fn bearer(&self) -> String {
        format!("authorization: Bearer {}", self.token)
    }

    /// Sends a JSON request with the server's own token; the request must succeed.
    pub(crate) fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.ask(method, path, &[&self.bearer(), "content-type: application/json"], &body);
        assert!(answer.status / 100 == 2, "{method} {path}: {answer:?}");
        serde_json::from_str(&answer.body).unwrap_or(Value::Null)
    }

    /// Creates a session and returns its path.
    pub(crate) fn session(&self) -> String {
        let made = self.call("POST", "/api/agent/sessions", &serde_json::json!({}));
        format!("/api/agent/sessions/{}", made["sessionId"].as_str().unwrap())
    }

    /// Follows a session's events until they contain the text. Returns all of them.
    pub(crate) fn follow(&self, session: &str, wanted: &str) -> String {
        let mut stream = self.connect();
        let (bearer, host) = (self.bearer(), self.address);
        write!(stream, "GET {session}/events HTTP/1.1\r\nhost: {host}\r\n{bearer}\r\n\r\n").unwrap();
        read_until(&mut stream, wanted)
    }
}

/// Reads until the text appears.
pub(crate) fn read_until(stream: &mut impl Read, wanted: &str) -> String {
    let mut heard = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        let text = String::from_utf8_lossy(&heard);
        if text.contains(wanted) {
            return text.into_owned();
        }
        let count = stream.read(&mut chunk).unwrap();
        assert!(count > 0, "the output ended without {wanted:?}: {text}");
        heard.extend_from_slice(&chunk[..count]);
    }
}

/// Response of a server.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    /// Status code; 0 if the connection ended without a response.
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl HttpResponse {
    /// Reads to the end of the response: the end of the body if its length is known, the end of the head for an endless
    /// stream, and the end of the connection otherwise.
    fn read(stream: &mut impl Read) -> Self {
        let mut bytes = Vec::new();
        let mut chunk = [0; 16 * 1024];
        // A connection reset ends the response too.
        while let Ok(count @ 1..) = stream.read(&mut chunk) {
            bytes.extend_from_slice(&chunk[..count]);
            let answer = Self::of(&bytes);
            let endless = answer.status == 101 || answer.line("content-type") == Some("text/event-stream");
            let length = answer.line("content-length").and_then(|length| length.parse().ok());
            if endless || length.is_some_and(|length: usize| answer.body.len() >= length) {
                break;
            }
        }
        Self::of(&bytes)
    }

    fn of(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            return Self { status: 0, head: String::new(), body: text.into_owned() };
        };
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// Value of a header.
    pub(crate) fn line(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

/// Polls until the condition holds.
pub(crate) fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let until = std::time::Instant::now() + DEADLINE;
    while !so() {
        assert!(std::time::Instant::now() < until, "never: {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}
