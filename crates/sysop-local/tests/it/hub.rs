//! A server that answers as Hugging Face does: a redirect to a signed URL that expires, with the file's hash in the
//! first response, and ranges at the second. Faults are set by the test.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;

/// Path of the file on the server.
pub(crate) const PATH: &str = "/org/repo/resolve/0123456789abcdef0123456789abcdef01234567/model.gguf";

#[derive(Default)]
pub(crate) struct HubState {
    pub(crate) file: Vec<u8>,
    /// Hash in `X-Linked-Etag`; empty to send none.
    pub(crate) linked_etag: String,
    /// Bytes after which each of the next transfers is interrupted.
    pub(crate) cuts: Vec<usize>,
    /// Number of signed URLs that have expired when they are used.
    pub(crate) expired: usize,
    /// True to answer requests for a range with the whole file.
    pub(crate) ignores_ranges: bool,
    /// Status codes of the next responses at the original URL.
    pub(crate) statuses: Vec<u16>,
    /// True to keep an interrupted connection open and silent instead of closing it.
    pub(crate) hangs: bool,
    signatures: usize,
    /// Requests so far.
    pub(crate) requests: Vec<HubRequest>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HubRequest {
    pub(crate) path: String,
    pub(crate) range: Option<String>,
    pub(crate) authorization: Option<String>,
}

/// A model hub that redirects downloads to a storage server. The storage has another port, so it is another origin.
#[derive(Clone)]
pub(crate) struct Hub {
    address: SocketAddr,
    pub(crate) state: Arc<Mutex<HubState>>,
}

impl Hub {
    pub(crate) fn start(file: &[u8], linked_etag: &str) -> Self {
        let (hub, storage) =
            (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let storage_address = storage.local_addr().unwrap();
        let state =
            HubState { file: file.to_owned(), linked_etag: linked_etag.to_owned(), ..HubState::default() };
        let server = Self { address: hub.local_addr().unwrap(), state: Arc::new(Mutex::new(state)) };
        let first = Arc::clone(&server.state);
        serve(hub, move |request, stream| redirect(&first, storage_address, request, stream));
        let second = Arc::clone(&server.state);
        serve(storage, move |request, stream| transfer(&second, &request, stream));
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ranges of the requests to the storage.
    pub(crate) fn ranges(&self) -> Vec<Option<String>> {
        let state = self.state.lock();
        let storage = state.requests.iter().filter(|request| request.path.starts_with("/signed/"));
        storage.map(|request| request.range.clone()).collect()
    }
}

fn serve(listener: TcpListener, answer: impl Fn(HubRequest, &mut TcpStream) + Send + Sync + 'static) {
    let answer = Arc::new(answer);
    // Ends with the test process; a broken connection is the client's choice.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(mut stream), answer) = (stream, Arc::clone(&answer)) else { return };
            std::thread::spawn(move || {
                if let Some(request) = read_request(&stream) {
                    answer(request, &mut stream);
                }
            });
        }
    });
}

fn read_request(stream: &TcpStream) -> Option<HubRequest> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let mut request = HubRequest { path, range: None, authorization: None };
    for line in lines.take_while(|line| !line.is_empty()) {
        let Some((name, value)) = line.split_once(": ") else { continue };
        match name.to_ascii_lowercase().as_str() {
            "range" => request.range = Some(value.to_owned()),
            "authorization" => request.authorization = Some(value.to_owned()),
            _ => {}
        }
    }
    Some(request)
}

fn redirect(state: &Mutex<HubState>, storage: SocketAddr, request: HubRequest, stream: &mut TcpStream) {
    let mut state = state.lock();
    let path = request.path.clone();
    state.requests.push(request);
    if path != PATH {
        let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        return;
    }
    if !state.statuses.is_empty() {
        let status = state.statuses.remove(0);
        let _ = write!(stream, "HTTP/1.1 {status} Status\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        return;
    }
    state.signatures += 1;
    let etag = match state.linked_etag.as_str() {
        "" => String::new(),
        hash => format!("X-Linked-Etag: \"{hash}\"\r\nX-Linked-Size: {}\r\n", state.file.len()),
    };
    let _ = write!(
        stream,
        "HTTP/1.1 302 Found\r\nLocation: http://{storage}/signed/{}?X-Amz-Signature=secret\r\n{etag}Content-Length: 0\r\n\
         Connection: close\r\n\r\n",
        state.signatures
    );
}

fn transfer(state: &Mutex<HubState>, request: &HubRequest, stream: &mut TcpStream) {
    let (head, body, hangs) = {
        let mut state = state.lock();
        state.requests.push(request.clone());
        let expected = format!("/signed/{}?", state.signatures);
        if state.expired > 0 || !request.path.starts_with(&expected) {
            state.expired = state.expired.saturating_sub(1);
            let _ =
                stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            return;
        }
        let length = state.file.len();
        let range = request.range.as_deref().filter(|_| !state.ignores_ranges);
        let from = range.map(|range| range["bytes=".len()..].trim_end_matches('-').parse::<usize>().unwrap());
        let (head, body) = match from {
            Some(from) if from >= length => (
                format!(
                    "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */{length}\r\nContent-Length: 0"
                ),
                Vec::new(),
            ),
            Some(from) => (
                format!(
                    "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {from}-{}/{length}\r\nContent-Length: {}",
                    length - 1,
                    length - from
                ),
                state.file[from..].to_vec(),
            ),
            None => (format!("HTTP/1.1 200 OK\r\nContent-Length: {length}"), state.file.clone()),
        };
        let cut = if state.cuts.is_empty() { body.len() } else { state.cuts.remove(0).min(body.len()) };
        let hangs = state.hangs && cut < body.len();
        (head, body[..cut].to_vec(), hangs)
    };
    let _ = write!(stream, "{head}\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(&body);
    if hangs {
        let _ = stream.flush();
        let _ = std::io::Read::read(stream, &mut [0]); // until the client leaves
    }
}
