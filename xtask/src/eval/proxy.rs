//! A proxy between an agent and the model's server. It counts requests and tokens in the same way for every agent. The
//! agents do not get the API key; the proxy adds it.
//!
//! The proxy listens on a loopback port and accepts one request per connection. It starts a `curl` process for each
//! request, because curl supports TLS, streaming, and the proxies set in the environment. Each run has its own proxy,
//! so that a request from a killed agent is not counted for another run.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Maximum bytes of a request or of its answer.
const BODY_BYTES_MAX: usize = 64 << 20;
/// Maximum bytes of the head of a request or of an answer.
const HEAD_BYTES_MAX: u64 = 64 << 10;
/// Maximum time to wait for open responses after the agent has ended, so that their tokens are counted.
const FINISH_TIME_MAX: Duration = Duration::from_secs(2);
/// Estimated bytes per token, used if the server reports no token counts.
const TOKEN_BYTES: u64 = 4;
/// Ends of the paths of requests to a model. Other requests are forwarded but not counted.
const CALLS: [&str; 6] =
    ["/chat/completions", "/completions", "/responses", "/messages", "/api/chat", "/api/generate"];
/// Request headers that are not forwarded, because the proxy or curl sets them itself.
const REQUEST_HEADERS: [&str; 9] = [
    "host", "connection", "content-length", "transfer-encoding", "expect", "accept-encoding",
    "authorization", "api-key", "x-api-key",
];
/// Response headers that are not forwarded, because they do not apply to the connection to the agent.
const ANSWER_HEADERS: [&str; 4] = ["connection", "keep-alive", "content-length", "transfer-encoding"];

/// Sums over the requests to the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModelUse {
    pub(crate) requests: u64,
    /// Number of requests that the server refused or did not answer.
    pub(crate) failed: u64,
    pub(crate) prompt_tokens: u64,
    pub(crate) completion_tokens: u64,
    /// Number of requests whose tokens are estimated, because the response has no usage data.
    pub(crate) estimated: u64,
    pub(crate) request_bytes: u64,
}

/// The server of a model.
#[derive(Clone)]
pub(crate) struct Upstream {
    /// Scheme, host and port.
    origin: String,
    /// Path of the API, such as `/v1`; empty for the root.
    path: String,
    key: Option<String>,
}

impl Upstream {
    /// Parses a base URL. Without a scheme, `http` is used. Fails if the URL has another scheme, a query or a fragment.
    pub(crate) fn parse(url: &str, key: Option<String>) -> Result<Self> {
        let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let (scheme, rest) = url.split_once("://").expect("it was added if it was missing");
        if !["http", "https"].contains(&scheme) || rest.contains(['"', '\\', '\n', ' ', '?', '#']) {
            bail!("`{url}` is not the base URL of a server");
        }
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let path = path.trim_end_matches('/');
        let path = if path.is_empty() { String::new() } else { format!("/{path}") };
        Ok(Self { origin: format!("{scheme}://{host}"), path, key })
    }
}

#[derive(Default)]
struct ProxyState {
    counts: ModelUse,
    /// Number of requests that are being answered.
    active: usize,
    /// Process ids of the running curl processes.
    curls: Vec<Pid>,
    stopped: bool,
}

/// A running proxy, stopped on drop.
pub(crate) struct CountingProxy {
    port: u16,
    path: String,
    state: Arc<Mutex<ProxyState>>,
}

impl CountingProxy {
    pub(crate) fn start(upstream: &Upstream) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("cannot listen for the agent")?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(Mutex::new(ProxyState::default()));
        let (upstream, shared) = (upstream.clone(), Arc::clone(&state));
        let path = upstream.path.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.lock().stopped {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let (upstream, shared) = (upstream.clone(), Arc::clone(&shared));
                shared.lock().active += 1;
                std::thread::spawn(move || {
                    let served = serve(&stream, &upstream, &shared);
                    shared.lock().active -= 1;
                    if let Err(error) = served {
                        eprintln!("    proxy: {error:#}");
                    }
                });
            }
        });
        Ok(Self { port, path, state })
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the base URL for the agent.
    pub(crate) fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}{}", self.port, self.path)
    }

    /// Returns the path of an operation below the base URL.
    pub(crate) fn path_of(&self, operation: &str) -> String {
        format!("{}{operation}", self.path)
    }

    /// Waits up to [`FINISH_TIME_MAX`] for open requests, ends the remaining ones, and returns the sums.
    pub(crate) fn finish(self) -> ModelUse {
        let deadline = Instant::now() + FINISH_TIME_MAX;
        while self.state.lock().active > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.state.lock().counts
    }
}

impl Drop for CountingProxy {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        state.stopped = true;
        for curl in state.curls.drain(..) {
            // curl is a child that nobody has waited for, so the id is still its own.
            let _ = kill_process(curl, Signal::KILL);
        }
        drop(state);
        // Wakes the thread that accepts connections.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// A request from the agent, read to its end.
struct AgentRequest {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// Reads lines up to the empty line: the first line, and the headers.
fn read_head(from: &mut impl BufRead) -> Result<(String, Vec<(String, String)>)> {
    let mut from = from.take(HEAD_BYTES_MAX);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if from.read_line(&mut line).context("cannot read a head")? == 0 {
            bail!("a head ends early");
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        lines.push(line.to_owned());
    }
    let mut lines = lines.into_iter();
    let first = lines.next().context("a head is empty")?;
    let headers = lines.filter_map(|line| {
        line.split_once(':').map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
    });
    Ok((first, headers.collect()))
}

fn read_request(stream: &TcpStream) -> Result<AgentRequest> {
    let mut from = BufReader::new(stream);
    let (first, headers) = read_head(&mut from)?;
    let mut words = first.split(' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else { bail!("not a request: {first}") };
    if headers.iter().any(|(name, _)| name == "transfer-encoding") {
        bail!("the agent sent a body without a length");
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.map_or(Ok(0), |(_, value)| value.parse()).context("not a length")?;
    if length > BODY_BYTES_MAX {
        bail!("a request has {length} bytes");
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).context("a request ends early")?;
    Ok(AgentRequest { method: method.to_owned(), target: target.to_owned(), headers, body })
}

/// Forwards one request to the server and the response to the agent, and counts both.
fn serve(mut stream: &TcpStream, upstream: &Upstream, state: &Mutex<ProxyState>) -> Result<()> {
    let request = read_request(stream)?;
    let is_call = request.method == "POST" && CALLS.iter().any(|end| request.target.ends_with(end));
    if is_call {
        let counts = &mut state.lock().counts;
        counts.requests += 1;
        counts.request_bytes += request.body.len() as u64;
    }
    let file = tempfile::NamedTempFile::new().context("cannot save a request")?;
    std::fs::write(file.path(), &request.body).context("cannot save a request")?;
    let body = (!request.body.is_empty()).then(|| file.path().display().to_string());
    let mut curl = spawn_curl(&curl_config(&request, upstream, body.as_deref()))?;
    let output = curl.stdout.take().expect("it is piped");
    let id = Pid::from_child(&curl);
    {
        let mut state = state.lock();
        state.curls.push(id);
        if state.stopped {
            // A child that nobody has waited for.
            let _ = kill_process(id, Signal::KILL);
        }
    }
    let answer = relay(output, stream);
    // An agent that has left cannot be told; curl ends by itself or here.
    let _ = kill_process(id, Signal::KILL);
    state.lock().curls.retain(|other| *other != id);
    let mut complaint = String::new();
    curl.stderr.take().expect("it is piped").read_to_string(&mut complaint).context("curl is unreadable")?;
    curl.wait().context("cannot wait for curl")?;
    if answer.is_err() && !state.lock().stopped {
        // Fails if the answer had begun or the agent has left.
        let _ = write!(stream, "HTTP/1.1 502 Bad Gateway\r\nconnection: close\r\n\r\n{complaint}");
    }
    if is_call {
        count(&mut state.lock().counts, answer.ok(), request.body.len() as u64);
    }
    Ok(())
}

/// Adds the tokens of a response to the sums, or counts the request as failed. `answer` is the status and body of the
/// response, or `None` if none arrived.
fn count(counts: &mut ModelUse, answer: Option<(u16, Vec<u8>)>, request_bytes: u64) {
    let Some((200..=299, body)) = answer else {
        counts.failed += 1;
        return;
    };
    let (prompt, completion) = tokens(&body).unwrap_or_else(|| {
        counts.estimated += 1;
        (request_bytes / TOKEN_BYTES, body.len() as u64 / TOKEN_BYTES)
    });
    counts.prompt_tokens += prompt;
    counts.completion_tokens += completion;
}

/// Returns curl's config file for a request. The config comes on standard input, because other users see arguments.
fn curl_config(request: &AgentRequest, upstream: &Upstream, body: Option<&str>) -> String {
    let quote = |text: &str| {
        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
        format!("\"{}\"", text.replace(['\r', '\n'], ""))
    };
    let url = format!("{}{}", upstream.origin, request.target);
    let mut config = format!("url = {}\nrequest = {}\n", quote(&url), quote(&request.method));
    let mut header = |text: String| config.push_str(&format!("header = {}\n", quote(&text)));
    for (name, value) in request.headers.iter().filter(|(name, _)| !REQUEST_HEADERS.contains(&name.as_str()))
    {
        header(format!("{name}: {value}"));
    }
    header("Expect:".to_owned());
    if let Some(key) = &upstream.key {
        header(format!("Authorization: Bearer {key}"));
    }
    if let Some(body) = body {
        config.push_str(&format!("data-binary = {}\n", quote(&format!("@{body}"))));
    }
    config
}

fn spawn_curl(config: &str) -> Result<Child> {
    let mut curl = Command::new("curl");
    curl.args(["--disable", "--silent", "--show-error", "--no-buffer", "--include", "--http1.1"]);
    curl.args(["--suppress-connect-headers", "--globoff", "--config", "-"]);
    curl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut curl = curl.spawn().context("cannot start curl")?;
    let mut input = curl.stdin.take().expect("it is piped");
    input.write_all(config.as_bytes()).context("cannot configure curl")?;
    Ok(curl)
}

/// Copies a response from curl to the agent as it arrives. Returns its status and body.
fn relay(output: ChildStdout, mut to: &TcpStream) -> Result<(u16, Vec<u8>)> {
    let mut from = BufReader::new(output);
    let (status, headers) = loop {
        let (first, headers) = read_head(&mut from)?;
        let status: u16 = first.split(' ').nth(1).unwrap_or_default().parse().context("not a status")?;
        // Interim answers come before the real one.
        if status >= 200 {
            break (status, headers);
        }
    };
    let mut head = format!("HTTP/1.1 {status} Status\r\nconnection: close\r\n");
    for (name, value) in headers.iter().filter(|(name, _)| !ANSWER_HEADERS.contains(&name.as_str())) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    to.write_all(format!("{head}\r\n").as_bytes()).context("the agent has left")?;
    let mut body = Vec::new();
    loop {
        let piece = from.fill_buf().context("cannot read from curl")?;
        if piece.is_empty() {
            return Ok((status, body));
        }
        to.write_all(piece).context("the agent has left")?;
        body.extend_from_slice(piece);
        let length = piece.len();
        from.consume(length);
        if body.len() > BODY_BYTES_MAX {
            bail!("an answer has more than {BODY_BYTES_MAX} bytes");
        }
    }
}

/// Returns the prompt tokens and completion tokens that a response reports. The body is one JSON value, lines of JSON,
/// or server-sent events. In a stream, the last reported count is the total.
pub(crate) fn tokens(body: &[u8]) -> Option<(u64, u64)> {
    if let Ok(value) = serde_json::from_slice(body) {
        return tokens_of(&value);
    }
    let text = String::from_utf8_lossy(body);
    let lines = text.lines().map(|line| line.strip_prefix("data:").unwrap_or(line));
    lines.filter_map(|line| serde_json::from_str(line).ok()).filter_map(|value| tokens_of(&value)).next_back()
}

fn tokens_of(value: &Value) -> Option<(u64, u64)> {
    let pair = |of: &Value, prompt: &str, completion: &str| {
        Some((of.get(prompt)?.as_u64()?, of.get(completion).and_then(Value::as_u64).unwrap_or_default()))
    };
    let usage = value.get("usage").or_else(|| value.get("response")?.get("usage"));
    usage
        .and_then(|usage| {
            pair(usage, "prompt_tokens", "completion_tokens")
                .or_else(|| pair(usage, "input_tokens", "output_tokens"))
        })
        .or_else(|| pair(value, "prompt_eval_count", "eval_count"))
}

/// Sends JSON to a port of this machine and returns the status and the JSON of the answer.
pub(crate) fn post(port: u16, path: &str, body: &Value, timeout: Duration) -> Result<(u16, Value)> {
    let body = body.to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).context("cannot reach the proxy")?;
    stream.set_read_timeout(Some(timeout.max(Duration::from_millis(1))))?;
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )?;
    let mut from = BufReader::new(stream);
    let (first, _) = read_head(&mut from)?;
    let status = first.split(' ').nth(1).unwrap_or_default().parse().context("not a status")?;
    let mut answer = Vec::new();
    from.read_to_end(&mut answer).context("the answer ends early")?;
    let text = || Value::String(String::from_utf8_lossy(&answer).into_owned());
    Ok((status, serde_json::from_slice(&answer).unwrap_or_else(|_| text())))
}
