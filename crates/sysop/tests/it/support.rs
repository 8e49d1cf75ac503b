//! Shared parts of the tests of the whole binary: a scripted model, a server with byte-exact responses, and the binary
//! as a child process that has a deadline and never outlives its test.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use sysop_mock_llm::{MockServer, RecordedRequest, Scenarios};

use crate::{Run, World};

/// Deadline on a busy machine for anything that should happen at once.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Scripted model server on its own thread.
pub(crate) struct Mock {
    server: MockServer,
    _runtime: tokio::runtime::Runtime,
}

/// Builds the text of a scenario file from triggers and responses.
pub(crate) fn scenario_file(scenarios: &[(impl AsRef<str>, Vec<Value>)]) -> String {
    let list: Vec<Value> = scenarios
        .iter()
        .map(|(trigger, responses)| {
            let trigger = trigger.as_ref();
            let steps: Vec<Value> =
                responses.iter().map(|response| json!({ "response": response })).collect();
            json!({ "name": trigger, "trigger": trigger, "steps": steps })
        })
        .collect();
    json!({ "scenarios": list, "default_response": { "content": "No scenario fits." } }).to_string()
}

impl Mock {
    /// Starts the server with triggers and responses.
    pub(crate) fn start(scenarios: &[(&str, Vec<Value>)]) -> Self {
        Self::start_with(&scenario_file(scenarios))
    }

    /// Starts the server with the text of a scenario file.
    pub(crate) fn start_with(text: &str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let scenarios = Scenarios::parse("test.json", text).unwrap();
        let server = runtime.block_on(MockServer::start(scenarios)).unwrap();
        Self { server, _runtime: runtime }
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    pub(crate) fn address(&self) -> String {
        self.server.address().to_string()
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.server.requests()
    }

    /// Body of the newest request.
    pub(crate) fn last_body(&self) -> Value {
        self.requests().pop().expect("the model was asked").body
    }
}

/// Response with text and no calls.
pub(crate) fn say(text: &str) -> Value {
    json!({ "content": text })
}

/// Response with tool calls: id (generated if empty), name, arguments.
pub(crate) fn calls(text: &str, calls: &[(&str, &str, Value)]) -> Value {
    let calls: Vec<Value> = calls
        .iter()
        .map(|(id, name, arguments)| {
            let mut call = json!({
                "type": "function",
                "function": { "name": name, "arguments": arguments.to_string() },
            });
            if !id.is_empty() {
                call["id"] = json!(id);
            }
            call
        })
        .collect();
    json!({ "content": text, "tool_calls": calls })
}

/// Response with one call.
pub(crate) fn call(name: &str, arguments: Value) -> Value {
    calls("", &[("", name, arguments)])
}

/// Response with one bash command.
pub(crate) fn bash(command: &str) -> Value {
    call("bash", json!({ "command": command }))
}

/// Reply of a server that has no list of models.
const NO_MODELS: &[u8] = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Server whose responses are written by the test.
pub(crate) struct RawServer {
    address: SocketAddr,
    bodies: Arc<Mutex<Vec<Value>>>,
}

impl RawServer {
    /// Starts the server. `answer` gets the number of the request, counted from 0, its head, and the connection, which
    /// is closed when `answer` returns. Requests for the list of models are not counted and get a 404.
    pub(crate) fn start(answer: impl Fn(usize, &str, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&bodies);
        let address = answering(move |head, body, stream| {
            if head.starts_with("GET ") && head.lines().next().unwrap_or("").contains("/models ") {
                let _ = stream.write_all(NO_MODELS);
                return;
            }
            let number = {
                let mut kept = kept.lock();
                kept.push(serde_json::from_slice(body).unwrap_or(Value::Null));
                kept.len() - 1
            };
            answer(number, head, stream);
        });
        Self { address, bodies }
    }

    /// Starts a server that gives each request the next of these replies, and repeats the last one.
    pub(crate) fn replies(replies: Vec<Vec<u8>>) -> Self {
        Self::start(move |number, _, stream| {
            let reply = replies.get(number).or(replies.last()).unwrap();
            let _ = stream.write_all(reply);
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Bodies of the requests so far.
    pub(crate) fn bodies(&self) -> Vec<Value> {
        self.bodies.lock().clone()
    }
}

/// Starts a server and returns its address. `answer` gets the head and the body of each request, and the connection,
/// which is closed when `answer` returns.
pub(crate) fn answering(answer: impl Fn(&str, &[u8], &mut TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    // Ends with the test process; a broken connection is the client's choice.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(mut stream), answer) = (stream, Arc::clone(&answer)) else { return };
            std::thread::spawn(move || {
                let Some((head, body)) = read_request(&mut stream) else { return };
                answer(&head, &body, &mut stream);
            });
        }
    });
    address
}

fn read_request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 16 * 1024];
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok())
        .unwrap_or(0);
    let mut body = bytes.split_off(end);
    while body.len() < length {
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(count) => body.extend_from_slice(&chunk[..count]),
        }
    }
    Some((head, body))
}

/// Sends nothing more until the client has closed the connection.
pub(crate) fn hang(stream: &mut TcpStream) {
    let mut rest = [0; 1024];
    while matches!(stream.read(&mut rest), Ok(1..)) {}
}

/// Complete HTTP response.
pub(crate) fn http(status: &str, kind: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Page of a server and its start-up token, from the first line of output when standard output is not a terminal.
pub(crate) fn served(line: &str) -> (String, String) {
    let (before, file) = line.trim_end().split_once(", token file ").expect("it says where the token is");
    let page = before.strip_prefix("sysop listening on ").expect("it says where it is");
    let token = fs::read_to_string(file).unwrap();
    (page.to_owned(), token.trim_end().to_owned())
}

/// Head of an event stream that ends with the connection.
pub(crate) const EVENTS_HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";

/// One event of an OpenAI stream.
pub(crate) fn event(delta: &Value, finish: Option<&str>) -> String {
    let chunk = json!({
        "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }],
    });
    format!("data: {chunk}\n\n")
}

/// Complete streamed OpenAI response with this text.
pub(crate) fn streamed(text: &str) -> Vec<u8> {
    let said = event(&json!({ "role": "assistant", "content": text }), None);
    format!("{EVENTS_HEAD}{said}{}data: [DONE]\n\n", event(&json!({}), Some("stop"))).into_bytes()
}

/// Output of the child so far, on one stream.
#[derive(Clone)]
pub(crate) struct OutputStream(Arc<(Mutex<OutputBuffer>, Condvar)>);

#[derive(Default)]
struct OutputBuffer {
    bytes: Vec<u8>,
    ended: bool,
}

impl OutputStream {
    fn read(mut from: impl Read + Send + 'static) -> Self {
        let stream = Self(Arc::default());
        let kept = stream.clone();
        std::thread::spawn(move || {
            let mut chunk = [0; 16 * 1024];
            loop {
                let count = from.read(&mut chunk).unwrap_or(0);
                let (heard, changed) = &*kept.0;
                let mut heard = heard.lock();
                heard.bytes.extend_from_slice(&chunk[..count]);
                heard.ended = count == 0;
                changed.notify_all();
                if heard.ended {
                    return;
                }
            }
        });
        stream
    }

    /// Waits until the text so far matches, and returns it.
    pub(crate) fn wait_for(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + DEADLINE;
        let (heard, changed) = &*self.0;
        let mut heard = heard.lock();
        loop {
            let text = String::from_utf8_lossy(&heard.bytes).into_owned();
            if wanted(&text) {
                return text;
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(
                !heard.ended && !left.is_zero(),
                "{what} never appeared (ended: {}):\n{text}",
                heard.ended
            );
            changed.wait_for(&mut heard, left);
        }
    }

    /// Waits until the text so far contains `text`, and returns it.
    pub(crate) fn wait_for_text(&self, text: &str) -> String {
        self.wait_for(text, |heard| heard.contains(text))
    }

    fn all(&self) -> Vec<u8> {
        let until = Instant::now() + DEADLINE;
        let (heard, changed) = &*self.0;
        let mut heard = heard.lock();
        while !heard.ended {
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "something holds the stream open after the program ended");
            changed.wait_for(&mut heard, left);
        }
        std::mem::take(&mut heard.bytes)
    }
}

/// The running binary. The process is killed if the test ends first.
pub(crate) struct Running {
    pid: Pid,
    stdin: Option<ChildStdin>,
    pub(crate) out: OutputStream,
    pub(crate) err: OutputStream,
    exited: Receiver<ExitStatus>,
    status: Option<ExitStatus>,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (tell, exited) = channel();
        let running = Self {
            pid: Pid::from_child(&child),
            stdin: child.stdin.take(),
            out: OutputStream::read(child.stdout.take().unwrap()),
            err: OutputStream::read(child.stderr.take().unwrap()),
            exited,
            status: None,
        };
        std::thread::spawn(move || {
            // The receiver is gone if the test has ended.
            let _ = tell.send(child.wait().unwrap());
        });
        running
    }

    /// Types the text; a program that no longer reads is not an error.
    pub(crate) fn type_text(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().expect("started with an input");
        let _ = stdin.write_all(text.as_bytes()).and_then(|()| stdin.flush());
    }

    /// Closes its standard input.
    pub(crate) fn end_input(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).unwrap();
    }

    /// Returns true if the process ends by itself in time.
    pub(crate) fn ends_within(&mut self, wait: Duration) -> bool {
        if self.status.is_none() {
            self.status = match self.exited.recv_timeout(wait) {
                Ok(status) => Some(status),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => panic!("the child cannot be waited for"),
            };
        }
        self.status.is_some()
    }

    /// Waits for its end.
    pub(crate) fn finish(self) -> Run {
        self.finish_within(DEADLINE)
    }

    /// Waits for its end, up to `wait`.
    pub(crate) fn finish_within(mut self, wait: Duration) -> Run {
        if !self.ends_within(wait) {
            self.signal(Signal::KILL);
            assert!(self.ends_within(DEADLINE), "a killed process ends");
            let said = self.said();
            panic!("the process did not end within {wait:?}: {said:?}");
        }
        self.said()
    }

    /// Kills it, as a power failure would.
    pub(crate) fn kill(mut self) -> Run {
        if self.status.is_none() {
            // The process may have ended just now.
            let _ = kill_process(self.pid, Signal::KILL);
        }
        assert!(self.ends_within(DEADLINE), "a killed process ends");
        self.said()
    }

    fn said(&self) -> Run {
        Run {
            code: self.status.and_then(|status| status.code()),
            out: String::from_utf8(self.out.all()).expect("standard output is UTF-8"),
            err: String::from_utf8(self.err.all()).expect("standard error is UTF-8"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ends_within(Duration::ZERO) {
            // The process may have ended just now.
            let _ = kill_process(self.pid, Signal::KILL);
        }
    }
}

impl World {
    /// Creates a world with an OpenAI-compatible model at this address (without `/v1`).
    pub(crate) fn with_openai(url: &str) -> Self {
        Self::new()
            .variable("SYSOP_MODEL", "openai/test-model")
            .variable("SYSOP_PROVIDERS__OPENAI__BASE_URL", &format!("{url}/v1"))
    }

    /// Starts the binary without input.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        let mut command = self.plain_command(arguments);
        command.stdin(Stdio::null());
        Running::start(command)
    }

    /// Starts another program without input, in the environment of the binary.
    pub(crate) fn start_program(&self, program: &str, arguments: &[&str]) -> Running {
        let mut command = self.plain_command_of(program, arguments);
        command.stdin(Stdio::null());
        Running::start(command)
    }

    /// Starts the binary with an input that the test writes.
    pub(crate) fn start_with_input(&self, arguments: &[&str]) -> Running {
        let mut command = self.plain_command(arguments);
        command.stdin(Stdio::piped());
        Running::start(command)
    }

    /// Starts the binary with a file as its input.
    pub(crate) fn start_with_file(&self, arguments: &[&str], input: fs::File) -> Running {
        let mut command = self.plain_command(arguments);
        command.stdin(input);
        Running::start(command)
    }

    /// Runs the binary to its end, without input.
    pub(crate) fn finish(&self, arguments: &[&str]) -> Run {
        self.start(arguments).finish()
    }

    fn plain_command(&self, arguments: &[&str]) -> Command {
        self.plain_command_of(env!("CARGO_BIN_EXE_sysop"), arguments)
    }

    fn plain_command_of(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.home())
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(self.work())
            .args(arguments);
        command
    }

    /// Data directory of sysop.
    pub(crate) fn data(&self) -> PathBuf {
        self.home().join(".local/share/sysop")
    }

    /// Text of a file in the workspace.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.work().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Returns true if a file exists in the workspace.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.work().join(name).exists()
    }

    /// Events of a session, exported by the binary.
    pub(crate) fn exported(&self, id: &str) -> Vec<Value> {
        let run = self.finish(&["sessions", "export", id]);
        assert_eq!(run.code, Some(0), "{run:?}");
        lines_of_json(&run.out)
    }

    /// Ids of the stored sessions as listed, most recent first.
    pub(crate) fn session_ids(&self) -> Vec<String> {
        let run = self.finish(&["sessions", "list"]);
        assert_eq!(run.code, Some(0), "{run:?}");
        run.out.lines().skip(1).filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect()
    }

    /// Id of the only session.
    pub(crate) fn only_session(&self) -> String {
        let ids = self.session_ids();
        assert_eq!(ids.len(), 1, "{ids:?}");
        ids.into_iter().next().unwrap()
    }
}

/// Parses each line as JSON.
pub(crate) fn lines_of_json(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

/// All files below a directory, of any kind.
pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                Ok(_) | Err(_) => {}
            }
        }
    }
    found
}

/// Processes whose command line contains the text.
pub(crate) fn processes_with(text: &str) -> Vec<String> {
    let folders = fs::read_dir("/proc").unwrap().flatten();
    folders
        .filter(|entry| entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(text))
        .collect()
}

/// Waits until a process with this text in its command line runs. While one program replaces another, none may match
/// for a moment.
pub(crate) fn wait_until_there(text: &str, within: Duration) {
    let until = Instant::now() + within;
    while processes_with(text).is_empty() {
        assert!(Instant::now() < until, "no process runs with `{text}`");
        std::thread::yield_now();
    }
}

/// Waits until no process has this text in its command line.
pub(crate) fn wait_until_gone(text: &str, within: Duration) {
    let until = Instant::now() + within;
    loop {
        let left = processes_with(text);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "these still run: {left:?}");
        std::thread::yield_now();
    }
}
