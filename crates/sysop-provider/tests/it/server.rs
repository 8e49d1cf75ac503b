//! A tiny HTTP server that sends scripted bytes in scripted chunks.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Maximum time that any test waits.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// Response to one connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    head: String,
    /// Written and flushed one by one; the other side reads in between.
    pieces: Vec<Vec<u8>>,
    end: End,
}

/// Behavior after the last chunk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum End {
    /// Ends the body as HTTP requires.
    #[default]
    Whole,
    /// Closes the connection in the middle of the body.
    Cut,
    Reset,
    /// Sends nothing more.
    Silence,
    /// Repeats the last chunk until the other side is gone.
    Forever,
}

impl Answer {
    pub(crate) fn status(status: u16, headers: &str, body: &str) -> Self {
        Self {
            head: format!("HTTP/1.1 {status} X\r\n{headers}"),
            pieces: vec![body.as_bytes().to_vec()],
            end: End::Whole,
        }
    }

    pub(crate) fn json(status: u16, body: &str) -> Self {
        Self::status(status, "content-type: application/json\r\n", body)
    }

    pub(crate) fn events(body: &str) -> Self {
        Self::status(200, "content-type: text/event-stream\r\n", body)
    }

    pub(crate) fn lines(body: &str) -> Self {
        Self::status(200, "content-type: application/x-ndjson\r\n", body)
    }

    pub(crate) fn pieces(mut self, pieces: Vec<Vec<u8>>) -> Self {
        self.pieces = pieces;
        self
    }

    pub(crate) fn end(mut self, end: End) -> Self {
        self.end = end;
        self
    }
}

#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) line: String,
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl ReceivedRequest {
    pub(crate) fn path(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// Server that answers the first request with the first answer, and so on; the last answer repeats.
pub(crate) struct Server {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<ReceivedRequest>>>,
    gone: watch::Receiver<usize>,
}

impl Server {
    pub(crate) async fn start(answers: Vec<Answer>) -> Self {
        Self::with_routes(move |_, number| answers[number.min(answers.len() - 1)].clone()).await
    }

    /// Starts a server; `choose` receives the request and the number of earlier ones. A request for `/models` is not
    /// counted and finds nothing.
    pub(crate) async fn with_routes(
        choose: impl Fn(&ReceivedRequest, usize) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::listen(false, choose).await
    }

    /// Like `with_routes`, but with requests for `/models`.
    pub(crate) async fn with_models(
        choose: impl Fn(&ReceivedRequest, usize) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::listen(true, choose).await
    }

    async fn listen(
        has_models: bool,
        choose: impl Fn(&ReceivedRequest, usize) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<ReceivedRequest>>> = Arc::default();
        let (gone_sender, gone) = watch::channel(0);
        let (choose, kept) = (Arc::new(choose), Arc::clone(&seen));
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let (choose, kept, gone) = (Arc::clone(&choose), Arc::clone(&kept), gone_sender.clone());
                tokio::spawn(async move {
                    let request = read_request(&mut connection).await;
                    if !has_models && request.as_ref().is_some_and(|request| request.path() == "/models") {
                        return answer(connection, Answer::json(404, "{}")).await;
                    }
                    if let Some(request) = request {
                        let number = {
                            let mut kept = kept.lock();
                            kept.push(request.clone());
                            kept.len() - 1
                        };
                        answer(connection, choose(&request, number)).await;
                    }
                    gone.send_modify(|count| *count += 1);
                });
            }
        });
        Self { url, seen, gone }
    }

    pub(crate) fn seen(&self) -> Vec<ReceivedRequest> {
        self.seen.lock().clone()
    }

    /// Waits until `count` connections were served to their end, or closed by the other side.
    pub(crate) async fn wait_for_gone(&mut self, count: usize) {
        tokio::time::timeout(DEADLINE, self.gone.wait_for(|gone| *gone >= count))
            .await
            .expect("the connection is closed in time")
            .unwrap();
    }
}

pub(crate) async fn read_request(connection: &mut TcpStream) -> Option<ReceivedRequest> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if connection.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let line = head.lines().next().unwrap_or_default().to_owned();
    let mut seen = ReceivedRequest { line, head, body: Value::Null };
    let length: usize = seen.header("content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
    while bytes.len() < head_end + length {
        if connection.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    seen.body = serde_json::from_slice(&bytes[head_end..]).unwrap_or(Value::Null);
    Some(seen)
}

async fn answer(mut connection: TcpStream, answer: Answer) {
    let head = format!("{}connection: close\r\ntransfer-encoding: chunked\r\n\r\n", answer.head);
    connection.set_nodelay(true).unwrap();
    let _ = connection.write_all(head.as_bytes()).await;
    for piece in answer.pieces.iter().filter(|piece| !piece.is_empty()) {
        if write_chunk(&mut connection, piece).await.is_err() {
            return;
        }
    }
    match answer.end {
        End::Whole => {
            let _ = connection.write_all(b"0\r\n\r\n").await;
            let _ = connection.shutdown().await;
        }
        End::Cut => {}
        End::Reset => {
            // The written bytes must arrive first: a reset discards what the other side has not read.
            wait_until_read(&connection).await;
            connection.set_zero_linger().unwrap();
        }
        End::Silence => {
            let mut rest = Vec::new();
            let _ = connection.read_to_end(&mut rest).await;
        }
        End::Forever => while write_chunk(&mut connection, answer.pieces.last().unwrap()).await.is_ok() {},
    }
}

async fn write_chunk(connection: &mut TcpStream, piece: &[u8]) -> std::io::Result<()> {
    let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
    chunk.extend_from_slice(piece);
    chunk.extend_from_slice(b"\r\n");
    connection.write_all(&chunk).await?;
    tokio::task::yield_now().await;
    Ok(())
}

async fn wait_until_read(connection: &TcpStream) {
    tokio::task::yield_now().await;
    connection.writable().await.unwrap();
}
