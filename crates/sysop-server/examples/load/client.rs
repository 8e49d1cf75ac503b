//! A cheap client: minimal HTTP and WebSocket without libraries.

use std::io::{Error, Result};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A keep-alive connection for requests.
pub(crate) struct Http {
    stream: TcpStream,
    address: String,
    token: String,
}

impl Http {
    pub(crate) async fn open(address: &str, token: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, address: address.to_owned(), token: token.to_owned() })
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<String> {
        self.ask("GET", path, "").await
    }

    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Result<String> {
        self.ask("POST", path, body).await
    }

    async fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<String> {
        let (address, token) = (&self.address, &self.token);
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\ncontent-type: \
             application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.write_all(request.as_bytes()).await?;
        let mut read = Vec::with_capacity(4096);
        loop {
            if let Some((head, length)) = head(&read)
                && read.len() >= head + length
            {
                let answer = String::from_utf8_lossy(&read[head..head + length]).into_owned();
                if !read.starts_with(b"HTTP/1.1 2") {
                    return Err(Error::other(format!("{method} {path}: {answer}")));
                }
                return Ok(answer);
            }
            if self.stream.read_buf(&mut read).await? == 0 {
                return Err(Error::other(format!("{method} {path}: the server closed the connection")));
            }
        }
    }
}

fn head(read: &[u8]) -> Option<(usize, usize)> {
    let head = read.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&read[..head]).to_ascii_lowercase();
    let length = text.split("content-length:").nth(1).and_then(|rest| rest.lines().next());
    Some((head, length.and_then(|length| length.trim().parse().ok()).unwrap_or(0)))
}

/// Returns the string value of a key that occurs once in JSON text.
pub(crate) fn field<'a>(json: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = json.split_once(&format!("\"{key}\":\""))?;
    Some(rest.split_once('"')?.0)
}

pub(crate) struct Socket {
    stream: TcpStream,
    read: Vec<u8>,
    /// Length of the consumed part of `read`.
    taken: usize,
}

impl Socket {
    /// Connects and sends hello.
    pub(crate) async fn open(address: &str, token: &str, session: &str, hello: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut socket = Self { stream, read: Vec::new(), taken: 0 };
        let request = format!(
            "GET /api/agent/sessions/{session}/stream HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer \
             {token}\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: \
             13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        );
        socket.stream.write_all(request.as_bytes()).await?;
        let end = loop {
            if let Some((head, _)) = head(&socket.read) {
                break head;
            }
            if socket.stream.read_buf(&mut socket.read).await? == 0 {
                return Err(Error::other("the server closed the connection"));
            }
        };
        if !socket.read.starts_with(b"HTTP/1.1 101") {
            let said = String::from_utf8_lossy(&socket.read).into_owned();
            return Err(Error::other(format!("no socket: {said}")));
        }
        socket.taken = end;
        socket.say(hello).await?;
        Ok(socket)
    }

    pub(crate) async fn say(&mut self, text: &str) -> Result<()> {
        self.stream.write_all(&frame(1, text.as_bytes())).await
    }

    /// Returns the next message and answers pings.
    pub(crate) async fn next(&mut self) -> Result<String> {
        loop {
            if let Some((code, from, to)) = whole(&self.read, self.taken) {
                self.taken = to;
                match code {
                    1 => return Ok(String::from_utf8_lossy(&self.read[from..to]).into_owned()),
                    8 => return Err(Error::other("the server closed the socket")),
                    9 => {
                        let pong = frame(10, &self.read[from..to]);
                        self.stream.write_all(&pong).await?;
                    }
                    _ => {}
                }
                continue;
            }
            self.read.drain(..self.taken);
            self.taken = 0;
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Err(Error::other("the server closed the connection"));
            }
        }
    }

    /// Reads up to and including a message of this type.
    pub(crate) async fn until(&mut self, kind: &str) -> Result<String> {
        let wanted = format!("{{\"type\":\"{kind}\"");
        loop {
            let message = self.next().await?;
            if message.starts_with(&wanted) {
                return Ok(message);
            }
        }
    }

    /// Resets the connection, like a network failure.
    pub(crate) fn tear(self) -> Result<()> {
        self.stream.set_zero_linger()
    }
}

fn frame(code: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x80 | code];
    match payload.len() {
        short @ 0..126 => frame.push(0x80 | short as u8),
        long => {
            frame.push(0x80 | 126);
            frame.extend(u16::try_from(long).unwrap_or(u16::MAX).to_be_bytes());
        }
    }
    // A mask of zeros is valid and leaves the payload unchanged.
    frame.extend([0; 4]);
    frame.extend(payload);
    frame
}

/// Parses a complete frame: its opcode and the range of its payload.
fn whole(read: &[u8], at: usize) -> Option<(u8, usize, usize)> {
    let read = &read[at..];
    let (code, length) = (read.first()? & 0x0f, read.get(1)? & 0x7f);
    let (head, length) = match length {
        126 => (4, usize::from(u16::from_be_bytes(read.get(2..4)?.try_into().ok()?))),
        127 => (10, usize::try_from(u64::from_be_bytes(read.get(2..10)?.try_into().ok()?)).ok()?),
        short => (2, usize::from(short)),
    };
    (read.len() >= head + length).then_some((code, at + head, at + head + length))
}
