//! Nodes, their database, a load balancer, and clients whose waits name their condition.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::World;
use crate::pg::{Server, shared};
use crate::support::{DEADLINE, Running, lines_of_json, scenario_file};

/// Polling interval for conditions without a notification.
const LOOK: Duration = Duration::from_millis(5);

/// Polls until a condition holds; panics with its name at the deadline.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < until, "{what}: not within {DEADLINE:?}");
        std::thread::park_timeout(LOOK); // other processes need the CPU more
    }
}

/// Same as `wait_until`, but returns a value.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    wait_until(what, || {
        found = look();
        found.is_some()
    });
    found.expect("it was waited for")
}

/// A new database, and a runtime for queries.
pub(crate) struct Database {
    runtime: tokio::runtime::Runtime,
    url: String,
}

impl Database {
    /// Creates a database on the server shared by the tests.
    pub(crate) fn new() -> Self {
        Self::on(shared())
    }

    pub(crate) fn on(server: &Server) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let name = runtime.block_on(server.database());
        Self { runtime, url: server.url(&name) }
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// Returns the value of an SQL condition, or `None` if the database does not answer.
    pub(crate) fn says(&self, condition: &str) -> Option<bool> {
        use sqlx::ConnectOptions;
        let options: sqlx::postgres::PgConnectOptions = self.url.parse().unwrap();
        let ask = async {
            let mut connection = options.connect().await?;
            let query = sqlx::AssertSqlSafe(format!("SELECT {condition}"));
            sqlx::query_scalar::<_, bool>(query).fetch_one(&mut connection).await
        };
        self.runtime.block_on(async { tokio::time::timeout(DEADLINE, ask).await.ok()?.ok() })
    }

    /// Returns the value of an SQL condition; the database must be up.
    pub(crate) fn holds(&self, condition: &str) -> bool {
        self.says(condition).unwrap_or_else(|| panic!("the database cannot evaluate {condition}"))
    }
}

/// The mock model in its own process.
pub(crate) struct Model {
    _running: Running,
    pub(crate) url: String,
}

impl Model {
    pub(crate) fn start(world: &World, scenarios: &[(String, Vec<Value>)]) -> Self {
        let file = world.home().join("scenarios.json");
        std::fs::write(&file, scenario_file(scenarios)).unwrap();
        let running = world.start(&["mock-llm", "--port", "0", "--scenarios", file.to_str().unwrap()]);
        let said = running.out.wait_for("address", |said| said.contains('\n'));
        let url = said.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned();
        Self { _running: running, url }
    }
}

/// Running node.
pub(crate) struct Node {
    pub(crate) world: World,
    pub(crate) running: Running,
    pub(crate) address: SocketAddr,
}

impl Node {
    /// Starts a node in its own home.
    pub(crate) fn start(world: World, database: &Database, root: &Path, more: &[&str]) -> Self {
        let url = database.url();
        let root = root.to_str().unwrap();
        let arguments = ["serve", "--port", "0", "--database", &url, "--root", root, "--approve", "auto"];
        let limits = ["--max-requests", "100000", "--max-sessions", "1000"];
        let running = world.start(&[&arguments, &limits[..], more].concat());
        let said = running.out.wait_for("address", |said| said.contains('\n'));
        let url =
            said.split_whitespace().find(|word| word.starts_with("http://")).expect("it says where it is");
        let address = url.trim_start_matches("http://").split_once('/').unwrap().0.parse().unwrap();
        Self { world, running, address }
    }

    /// SQL condition that matches the node's row by the end of its name.
    pub(crate) fn name(&self) -> String {
        format!("name LIKE '%:{}'", self.address.port())
    }
}

/// Creates a token that all nodes accept.
pub(crate) fn token(world: &World, database: &Database) -> String {
    let url = database.url();
    let made = ["token", "create", "--name", "test", "--scope", "operate", "--database", &url];
    let run = world.finish(&made);
    assert_eq!(run.code, Some(0), "{run:?}");
    run.out.trim().to_owned()
}

/// Log of a session from the database.
pub(crate) fn exported(world: &World, database: &Database, session: &str) -> Vec<Value> {
    let run = world.finish(&["sessions", "export", session, "--database", &database.url()]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let log = lines_of_json(&run.out);
    let seqs: Vec<u64> = log.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "session {session} has a gap");
    log
}

/// Address and token for requests to a server.
#[derive(Clone)]
pub(crate) struct NodeClient {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    /// Maximum time without data.
    pub(crate) patience: Duration,
}

impl NodeClient {
    pub(crate) fn of(node: &Node, token: &str) -> Self {
        Self { address: node.address, token: token.to_owned(), patience: DEADLINE }
    }

    fn send(&self, method: &str, path: &str, more: &str, body: &str) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect_timeout(&self.address, self.patience)?;
        stream.set_read_timeout(Some(self.patience))?;
        let (address, token, length) = (self.address, &self.token, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n{more}\r\n"
        );
        stream.write_all(format!("{head}{body}").as_bytes())?;
        Ok(stream)
    }

    /// Status and body of a response; `None` if the response is incomplete.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut text = String::new();
        self.send(method, path, "", &body).ok()?.read_to_string(&mut text).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some((status, serde_json::from_str(body).unwrap_or(Value::Null)))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Option<Value> {
        let (status, answer) = self.ask("POST", path, body)?;
        (200..300).contains(&status).then_some(answer)
    }

    pub(crate) fn create(&self) -> String {
        let made = wait_for("a new session", || self.post("/api/agent/sessions", &json!({})));
        made["sessionId"].as_str().unwrap().to_owned()
    }

    /// Posts to a session; returns true if the request was accepted.
    pub(crate) fn say(&self, session: &str, what: &str, body: &Value) -> bool {
        self.post(&format!("/api/agent/sessions/{session}/{what}"), body).is_some()
    }

    /// Missing dependency of a node that is not ready.
    pub(crate) fn missing(&self) -> Option<String> {
        let (status, said) = self.ask("GET", "/readyz", &Value::Null).expect("a server that lives answers");
        assert!(status == 200 || status == 503, "{status}: {said}");
        (status == 503).then(|| said["missing"].as_str().expect("it says what is missing").to_owned())
    }

    pub(crate) fn stream(&self, path: &str, after: u64) -> Option<Events> {
        let stream = self.send("GET", path, &format!("Last-Event-ID: {after}\r\n"), "").ok()?;
        let mut events = Events { lines: BufReader::new(stream), line: Vec::new() };
        let status = events.line(Instant::now() + self.patience)?;
        status.starts_with("HTTP/1.1 200").then_some(events)
    }
}

/// Stream of server-sent events.
pub(crate) struct Events {
    lines: BufReader<TcpStream>,
    line: Vec<u8>,
}

impl Events {
    /// Returns the next message and the id to resume after. Returns `None` if the stream ended or has no message before
    /// `until`; keep-alive lines do not count.
    pub(crate) fn next(&mut self, until: Instant) -> Option<(Value, Option<u64>)> {
        let (mut message, mut id) = (None, None);
        loop {
            let line = self.line(until)?;
            if let Some(data) = line.strip_prefix("data: ") {
                message = Some(serde_json::from_str(data).ok()?);
            } else if let Some(number) = line.strip_prefix("id: ") {
                id = Some(number.trim().parse().unwrap());
            } else if line.trim().is_empty()
                && let Some(message) = message.take()
            {
                return Some((message, id));
            }
        }
    }

    fn line(&mut self, until: Instant) -> Option<String> {
        self.line.clear();
        let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        self.lines.get_ref().set_read_timeout(Some(left)).ok()?;
        match self.lines.read_until(b'\n', &mut self.line) {
            Ok(1..) => Some(String::from_utf8_lossy(&self.line).into_owned()),
            Ok(0) | Err(_) => None,
        }
    }
}

/// Everything that one client received from its session, over all its connections.
pub(crate) struct Client {
    pub(crate) reach: NodeClient,
    pub(crate) session: String,
    /// Sequence number after which the client resumes when it reconnects.
    pub(crate) acknowledged: u64,
    pub(crate) told: BTreeMap<u64, Vec<Value>>,
    stream: Option<Events>,
    /// True if the last received event says that the session waits to be resumed.
    paused: bool,
}

impl Client {
    pub(crate) fn new(reach: &NodeClient, session: &str) -> Self {
        Self {
            reach: reach.clone(),
            session: session.to_owned(),
            acknowledged: 0,
            told: BTreeMap::new(),
            stream: None,
            paused: false,
        }
    }

    /// Returns the next message from the log; `None` if the connection was lost or silent. The next call then
    /// reconnects.
    pub(crate) fn next(&mut self) -> Option<Value> {
        if self.stream.is_none() {
            let path = format!("/api/agent/sessions/{}/events", self.session);
            self.stream = self.reach.stream(&path, self.acknowledged);
            let acknowledged = self.acknowledged;
            self.told.retain(|seq, _| *seq <= acknowledged);
        }
        let until = Instant::now() + self.reach.patience;
        loop {
            let Some((message, id)) = self.stream.as_mut().and_then(|events| events.next(until)) else {
                self.stream = None;
                return None;
            };
            let Some(seq) = message["seq"].as_u64() else {
                continue;
            };
            assert!(seq > self.acknowledged, "received twice, behind {}: {message}", self.acknowledged);
            self.told.entry(seq).or_default().push(message.clone());
            self.acknowledged = id.unwrap_or(self.acknowledged).max(self.acknowledged);
            match message["event"].as_str() {
                Some("paused") => self.paused = true,
                Some("resumed") => self.paused = false,
                Some(_) | None => {}
            }
            return Some(message);
        }
    }

    /// Waits for a message that matches; panics with the last received messages at the deadline.
    pub(crate) fn until(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + DEADLINE;
        loop {
            if let Some(message) = self.next().filter(&wanted) {
                return message;
            }
            assert!(
                Instant::now() < until,
                "{what}: not within {DEADLINE:?}; {} behind {} received {:#?}",
                self.session,
                self.acknowledged,
                self.told.iter().next_back()
            );
        }
    }

    /// Sends a prompt once and follows the turn to its end.
    pub(crate) fn turn(&mut self, prompt: &str) {
        let said = json!({ "content": prompt });
        wait_until("it is accepted", || self.reach.say(&self.session, "messages", &said));
        self.until(&format!("{prompt:?} is heard"), |message| {
            message["type"] == "user.message" && message["content"] == prompt
        });
        self.until(&format!("{prompt:?} has its answer"), |message| message["type"] == "assistant.done");
    }

    /// Sends a prompt to nodes that may be killed at any time. If it seems lost, sends another prompt, and follows
    /// until one of them was answered. Resumes interrupted turns. Returns the number of prompts sent.
    pub(crate) fn turn_somehow(&mut self, prompt: impl Fn(usize) -> String) -> usize {
        let until = Instant::now() + DEADLINE;
        let say = |client: &Self, time: usize| {
            client.reach.say(&client.session, "messages", &json!({ "content": prompt(time) }))
        };
        let mut times = 1;
        let mut accepted = say(self, 0);
        let mut seen = false;
        loop {
            assert!(
                Instant::now() < until,
                "{:?} never ended; {} behind {} received {:#?}",
                prompt(0),
                self.session,
                self.acknowledged,
                self.told.iter().next_back()
            );
            match self.next() {
                Some(message) => {
                    let is_said = |time| message["content"] == prompt(time).as_str();
                    seen |= message["type"] == "user.message" && (0..times).any(is_said);
                    if seen && message["type"] == "assistant.done" {
                        return times;
                    }
                    accepted |= message["type"] == "prompt.queued";
                }
                None if seen => {}
                // Silence: the prompt may have been lost with its node. One more silent wait avoids an early
                // repetition.
                None if accepted => accepted = false,
                None => {
                    accepted = say(self, times);
                    times += 1;
                }
            }
            if self.paused && seen {
                self.paused = !self.reach.say(&self.session, "resume", &json!({}));
            }
        }
    }
}

/// Plain load balancer: each connection goes to the next node that accepts it.
pub(crate) struct Balancer {
    pub(crate) address: SocketAddr,
    pub(crate) nodes: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Balancer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let nodes: Arc<Mutex<Vec<SocketAddr>>> = Arc::default();
        let (balanced, turn) = (Arc::clone(&nodes), AtomicUsize::new(0));
        // Ends with the test process.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let nodes = balanced.lock().clone();
                let first = turn.fetch_add(1, Ordering::Relaxed);
                let node = (0..nodes.len())
                    .find_map(|step| TcpStream::connect(nodes[(first + step) % nodes.len()]).ok());
                let Some(node) = node else { continue };
                pipe(client.try_clone().unwrap(), node.try_clone().unwrap());
                pipe(node, client);
            }
        });
        Self { address, nodes }
    }
}

/// Copies data until either end closes.
fn pipe(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Both);
        let _ = from.shutdown(std::net::Shutdown::Both);
    });
}
