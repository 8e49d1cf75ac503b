//! `sysop connect` and `sysop attach` against a real `sysop serve`: whole flows, cut connections, kills of either side.

mod live;

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::channel;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::support::{DEADLINE, Mock, Running, bash, call, files_below, say, served};
use crate::{Run, World};

/// TCP relay to a server; a test can cut its connections and change its target.
struct TcpRelay {
    address: SocketAddr,
    shared: Arc<Mutex<RelayEnds>>,
}

#[derive(Default)]
struct RelayEnds {
    target: Option<SocketAddr>,
    open: Vec<TcpStream>,
}

impl TcpRelay {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared: Arc<Mutex<RelayEnds>> = Arc::default();
        let ends = Arc::clone(&shared);
        // Ends with the test process.
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let mut ends = ends.lock();
                let far = ends.target.and_then(|target| TcpStream::connect(target).ok());
                let Some(far) = far else { continue };
                for (mut from, mut to) in [(clone(&near), clone(&far)), (clone(&far), clone(&near))] {
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
                ends.open.extend([near, far]);
            }
        });
        Self { address, shared }
    }

    fn leads_to(&self, target: &str) {
        self.shared.lock().target = Some(target.parse().unwrap());
    }

    /// Cuts all connections of the relay.
    fn cut(&self) {
        for end in self.shared.lock().open.drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

fn clone(stream: &TcpStream) -> TcpStream {
    stream.try_clone().unwrap()
}

/// Server behind a relay.
struct RelayedServer {
    world: World,
    link: TcpRelay,
    running: Option<Running>,
    token: String,
}

impl RelayedServer {
    fn start(mock: &Mock) -> Self {
        let mut server = Self::new(mock);
        server.again();
        server
    }

    fn new(mock: &Mock) -> Self {
        let world = World::with_openai(&mock.url()).variable("OPENAI_API_KEY", KEY);
        Self { world, link: TcpRelay::new(), running: None, token: String::new() }
    }

    /// Starts the server behind the same relay.
    fn again(&mut self) {
        let name = self.link.address.to_string();
        let running = self.world.start(&["serve", "--port", "0", "--allow-host", &name]);
        let said = running.out.wait_for("the address", |said| said.contains('\n'));
        let (page, token) = served(&said);
        self.link.leads_to(page.trim_start_matches("http://").trim_end_matches('/'));
        if self.token.is_empty() {
            self.token = token;
        }
        self.running = Some(running);
    }

    fn kill(&mut self) {
        self.running.take().expect("it runs").kill();
    }

    /// URL as printed by the server, with the relay's address.
    fn url(&self) -> String {
        format!("http://{}/?token={}", self.link.address, self.token)
    }

    /// Creates a token with this name.
    fn token_of(&self, name: &str) -> String {
        let run = self.world.finish(&["token", "create", "--name", name, "--scope", "operate,decide"]);
        assert_eq!(run.code, Some(0), "{run:?}");
        let token = run.out.split_whitespace().find(|word| word.starts_with("sysop_"));
        token.unwrap_or_else(|| panic!("no token in {run:?}")).to_owned()
    }
}

const KEY: &str = "sk-only-the-server-has-this";

/// A client without a model in its environment.
fn client() -> World {
    World::new()
}

fn connect(world: &World, server: &RelayedServer, arguments: &[&str]) -> Running {
    world.start_with_input(&[&["connect", "--plain", &server.url()], arguments].concat())
}

fn leaves(mut client: Running) -> Run {
    client.type_text("/exit\n");
    client.end_input();
    let run = client.finish();
    assert_eq!(run.code, Some(0), "{run:?}");
    run
}

/// Tool results sent to the model, in order.
fn results(mock: &Mock) -> Vec<String> {
    let body = mock.last_body();
    let messages = body["messages"].as_array().unwrap();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

/// Named pipe on which a command and a test wait for each other.
struct Fifo(PathBuf);

impl Fifo {
    fn new(folder: &Path, name: &str) -> Self {
        let path = folder.join(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        Self(path)
    }

    /// Waits until the command has written.
    fn read(&self) -> String {
        let path = self.0.clone();
        within_the_deadline("the command", move || std::fs::read_to_string(path).unwrap())
    }

    /// Lets the command that reads the pipe go on.
    fn release(&self) {
        let path = self.0.clone();
        within_the_deadline("the command", move || std::fs::write(path, "opened\n").unwrap());
    }
}

fn within_the_deadline<T: Send + 'static>(what: &str, act: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, done) = channel();
    // The receiver is gone if the test has ended.
    std::thread::spawn(move || drop(tell.send(act())));
    done.recv_timeout(DEADLINE).unwrap_or_else(|_| panic!("{what} did not come in time"))
}

/// Leaves a trace, reports that it has started, and ends when released.
const SLOW: &str = "echo ran >> witness; echo began > began; cat gate; echo went on >> witness";

fn slow(world: &World) -> (Fifo, Fifo) {
    (Fifo::new(&world.work(), "began"), Fifo::new(&world.work(), "gate"))
}

#[test]
fn the_session_is_on_the_server_and_tools_run_on_the_client() {
    let mock = Mock::start(&[(
        "write the docs",
        vec![
            call("ls", json!({ "path": "." })),
            call("write_file", json!({ "path": "docs/a.md", "content": "# A\n" })),
            call("write_file", json!({ "path": "../out.md", "content": "no" })),
            say("The docs are written."),
        ],
    )]);
    let (server, here) = (RelayedServer::start(&mock), client().file("work/kept.md", "x"));
    let mut talk = connect(&here, &server, &[]);
    talk.out.wait_for_text("You: ");
    // The server knows only the old path, so only the client's open directory still leads to the files.
    let elsewhere = here.home().join("elsewhere");
    std::fs::rename(here.work(), &elsewhere).unwrap();
    talk.type_text("write the docs\n");
    talk.out.wait_for_text("docs/a.md");
    talk.type_text("y\n");
    talk.out.wait_for_text("../out.md");
    talk.type_text("y\n");
    talk.out.wait_for_text("The docs are written.");
    std::fs::create_dir(here.work()).unwrap();
    let run = leaves(talk);
    assert_eq!(std::fs::read_to_string(elsewhere.join("docs/a.md")).unwrap(), "# A\n");
    assert!(run.out.contains("on the client in /"), "what is asked says where it would run: {}", run.out);
    assert!(run.out.contains("here: write_file docs/a.md · ok"), "{}", run.out);
    assert!(run.out.contains("· wrote docs/a.md"), "{}", run.out);
    assert!(!here.has("out.md") && files_below(&server.world.work()).is_empty());
    let results = results(&mock);
    assert!(results[0].contains("kept.md"), "{results:?}");
    assert!(results[2].contains("out.md") && !here.home().join("out.md").exists(), "{results:?}");
    // The key is sent to the model and exists nowhere on the client.
    assert!(mock.requests()[0].headers.iter().any(|(_, value)| value.contains(KEY)));
    for file in files_below(here.home()) {
        let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
        assert!(!text.contains(KEY) && !text.contains(&server.token), "{}", file.display());
    }
}

#[test]
fn a_call_runs_once_despite_broken_connections() {
    let mock = Mock::start(&[("go", vec![bash(SLOW), say("It is done.")])]);
    let (server, here) = (RelayedServer::start(&mock), client());
    let (began, gate) = slow(&here);
    let mut talk = connect(&here, &server, &["--profile", "coder", "--approve", "auto"]);
    talk.out.wait_for_text("You: ");
    talk.type_text("go\n");
    began.read();
    for times in 1..=3 {
        server.link.cut();
        let again = |said: &str| said.matches("reconnected to the server").count() >= times;
        talk.out.wait_for("the connection", again);
    }
    gate.release();
    talk.out.wait_for_text("It is done.");
    let run = leaves(talk);
    assert_eq!(here.read("witness"), "ran\nwent on\n");
    assert_eq!(run.out.matches("It is done.").count(), 1, "{}", run.out);
    assert_eq!(run.out.matches("here: bash").count(), 1, "{}", run.out);
    assert_eq!(mock.requests().len(), 2);
    assert!(results(&mock)[0].contains("opened"), "{:?}", results(&mock));
}

#[test]
fn many_broken_connections_lose_and_duplicate_nothing() {
    let steps: Vec<Value> = (0..8).map(|n| call("stat", json!({ "path": format!("file{n}") }))).collect();
    let lines: Vec<Value> = steps.into_iter().chain([say("All of it.")]).collect();
    let mock = Mock::start(&[("look around", lines)]);
    let (server, here) = (RelayedServer::start(&mock), client());
    let mut talk = connect(&here, &server, &["--approve", "auto"]);
    talk.out.wait_for_text("You: ");
    talk.type_text("look around\n");
    for times in 1..=10 {
        server.link.cut();
        let again = |said: &str| said.matches("reconnected to the server").count() >= times;
        talk.out.wait_for("the connection", again);
    }
    talk.out.wait_for_text("All of it.");
    talk.type_text("look around\n");
    talk.out.wait_for("the second time", |said| said.matches("All of it.").count() == 2);
    let run = leaves(talk);
    let events = server.world.exported(&server.world.only_session());
    let of = |kind: &str| events.iter().filter(|event| event.to_string().contains(kind)).count();
    assert_eq!(of("\"turn_started\""), 2, "{events:?}");
    assert_eq!(run.out.matches("All of it.").count(), 2, "{}", run.out);
}

#[test]
fn a_killed_client_does_not_repeat_its_call() {
    let mock = Mock::start(&[("go", vec![bash(SLOW), say("It broke off.")])]);
    let (server, here) = (RelayedServer::start(&mock), client());
    let (began, gate) = slow(&here);
    let arguments = ["--profile", "coder", "--approve", "auto"];
    let mut talk = connect(&here, &server, &arguments);
    talk.out.wait_for_text("You: ");
    talk.type_text("go\n");
    began.read();
    talk.kill();
    let talk = connect(&here, &server, &[&arguments[..], &["--resume"]].concat());
    talk.out.wait_for_text("It broke off.");
    leaves(talk);
    assert!(here.read("witness").starts_with("ran\n") && !here.read("witness").contains("ran\nran"));
    let result = results(&mock).pop().unwrap();
    assert!(result.contains("it was not repeated"), "{result}");
    let events = server.world.exported(&server.world.only_session());
    let finished = events.iter().find(|event| event.to_string().contains("\"tool_finished\"")).unwrap();
    assert!(finished.to_string().contains("\"interrupted\""), "{finished}");
    drop(gate);
}

#[test]
fn a_killed_server_continues_the_same_session() {
    let mock = Mock::start(&[
        ("go", vec![bash(SLOW), say("Never said.")]),
        ("are you there", vec![say("I am here.")]),
    ]);
    let (mut server, here) = (RelayedServer::start(&mock), client());
    let (began, _gate) = slow(&here);
    let mut talk = connect(&here, &server, &["--profile", "coder", "--approve", "auto"]);
    talk.out.wait_for_text("You: ");
    talk.type_text("go\n");
    began.read();
    server.kill();
    talk.out.wait_for_text("reconnecting…");
    server.again();
    talk.out.wait_for_text("reconnected to the server");
    talk.out.wait_for_text("interrupted");
    talk.type_text("/stop\n");
    talk.type_text("are you there\n");
    talk.out.wait_for_text("I am here.");
    leaves(talk);
    assert_eq!(here.read("witness"), "ran\n", "stopped, as nobody waits for it, and not run again");
    assert_eq!(server.world.session_ids().len(), 1);
}

#[test]
fn messages_sent_during_an_outage_arrive_once() {
    let mock = Mock::start(&[("hello", vec![say("Hello to you.")])]);
    let (mut server, here) = (RelayedServer::start(&mock), client());
    let mut talk = connect(&here, &server, &[]);
    talk.out.wait_for_text("You: ");
    server.kill();
    talk.out.wait_for_text("reconnecting…");
    talk.type_text("hello\n");
    server.again();
    talk.out.wait_for_text("Hello to you.");
    server.link.cut();
    talk.out.wait_for("the connection", |said| said.matches("reconnected to the server").count() == 2);
    leaves(talk);
    assert_eq!(mock.requests().len(), 1);
}

#[test]
fn the_client_runs_only_locally_approved_calls() {
    let write =
        |name: &str| vec![call("write_file", json!({ "path": name, "content": "x" })), say("So be it.")];
    let mock = Mock::start(&[("first", write("first.md")), ("second", write("second.md"))]);
    let (mut server, here) = (RelayedServer::new(&mock), client());
    let other = client().variable("SYSOP_TOKEN", &server.token_of("mallory"));
    server.again();
    let mut talk = connect(&here, &server, &[]);
    talk.out.wait_for_text("You: ");
    let address = format!("http://{}", server.link.address);
    let mut attached = other.start_with_input(&["attach", "--plain", &address]);
    attached.out.wait_for_text("You: ");
    attached.type_text("/approve auto\n");
    attached.out.wait_for_text("auto");
    talk.type_text("first\n");
    talk.out.wait_for_text("The server wants to run a tool");
    talk.type_text("no\n");
    talk.out.wait_for_text("So be it.");
    assert!(results(&mock)[0].contains("rejected the call"), "{:?}", results(&mock));
    talk.type_text("second\n");
    talk.out
        .wait_for("the second question", |said| said.matches("The server wants to run a tool").count() == 2);
    talk.type_text("yes\n");
    attached.out.wait_for("the second answer", |said| said.matches("So be it.").count() == 2);
    leaves(attached);
    leaves(talk);
    assert!(!here.has("first.md") && here.has("second.md"));
}

#[test]
fn only_lent_tools_run_and_no_partial_file_remains() {
    let chunk = |path: &str, content: &str, index: u64, total: u64| {
        call("write_file_chunk", json!({ "path": path, "content": content, "index": index, "total": total }))
    };
    let mock = Mock::start(&[(
        "go",
        vec![
            call("write_file", json!({ "path": "large.md", "content": "x".repeat(2000) })),
            chunk("whole.md", "one ", 0, 3),
            chunk("whole.md", "three", 2, 3),
            chunk("whole.md", "two ", 1, 3),
            chunk("whole.md", "two ", 1, 3),
            chunk("half.md", "half", 0, 2),
            call("delete_file", json!({ "path": "kept.md" })),
            call("mkdir", json!({ "path": "folder" })),
            chunk("whole.md", "three", 2, 3),
            say("That was all."),
        ],
    )]);
    let (server, here) = (RelayedServer::start(&mock), client().file("work/kept.md", "x"));
    let lent = ["--approve", "auto", "--tools", "write_file,write_file_chunk", "--max-file-size", "1K"];
    let mut talk = connect(&here, &server, &lent);
    talk.out.wait_for_text("You: ");
    talk.type_text("go\n");
    talk.out.wait_for_text("That was all.");
    leaves(talk);
    let results = results(&mock);
    assert!(results[0].contains("the limit for file tools is 1024"), "{results:?}");
    assert!(results[2].contains("expected piece 1"), "{results:?}");
    assert!(results[6].contains("delete_file") && results[7].contains("mkdir"), "{results:?}");
    assert_eq!(here.read("whole.md"), "one two three");
    for name in ["large.md", "half.md", "folder"] {
        assert!(!here.has(name), "{name}");
    }
    assert!(here.has("kept.md"));
    let wrong = here.finish(&["connect", &server.url(), "--tools", "bash"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.err.contains("unknown tool \"bash\""), "{wrong:?}");
}

#[test]
fn two_attached_clients_see_the_same_and_the_first_answer_counts() {
    let mock = Mock::start(&[("make it", vec![bash("touch made"), say("It is made.")])]);
    let mut server = RelayedServer::new(&mock);
    let [annas, berts] =
        ["anna", "bert"].map(|name| client().variable("SYSOP_TOKEN", &server.token_of(name)));
    server.again();
    let address = format!("http://{}", server.link.address);
    let mut anna = annas.start_with_input(&["attach", "--plain", &address]);
    anna.out.wait_for_text("You: ");
    anna.type_text("make it\n");
    anna.out.wait_for_text("touch made");
    let id = server.world.only_session();
    let bert = berts.start_with_input(&["attach", "--plain", &address, &id[..id.len() - 2]]);
    bert.out.wait_for_text("touch made");
    anna.type_text("y\n");
    anna.out.wait_for_text("It is made.");
    bert.out.wait_for_text("It is made.");
    let said = bert.kill().out;
    assert!(said.contains("(anna allowed it)"), "it says who answered: {said}");
    leaves(anna);
    assert!(server.world.has("made"));
    assert_eq!(mock.requests().len(), 2);
}

/// HTTP CONNECT proxy that tunnels every name to one server. Returns its address and the requested names.
fn proxy(target: String) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&asked);
    // Ends with the test process.
    std::thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let (kept, target) = (Arc::clone(&kept), target.clone());
            std::thread::spawn(move || {
                let mut head = String::new();
                let mut reader = BufReader::new(clone(&near));
                while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|count| count > 0)
                {
                }
                kept.lock().push(head.lines().next().unwrap_or_default().to_owned());
                let far = TcpStream::connect(target).unwrap();
                let mut back = clone(&near);
                back.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
                let (mut up, mut down) = (clone(&far), far);
                std::thread::spawn(move || drop(std::io::copy(&mut down, &mut back)));
                let _ = std::io::copy(&mut reader, &mut up);
            });
        }
    });
    (address, asked)
}

#[test]
fn requests_and_sockets_use_the_environments_proxy_and_certificates() {
    let mock = Mock::start(&[("hello", vec![call("ls", json!({})), say("Hello through all of it.")])]);
    let made = rcgen::generate_simple_self_signed(["sysop.test".to_owned()]).unwrap();
    let there = World::with_openai(&mock.url())
        .file("cert.pem", &made.cert.pem())
        .file("key.pem", &made.signing_key.serialize_pem());
    let path = |name: &str| there.home().join(name).display().to_string();
    let (cert, key) = (path("cert.pem"), path("key.pem"));
    let arguments =
        ["serve", "--port", "0", "--allow-host", "sysop.test", "--tls-cert", &cert, "--tls-key", &key];
    let running = there.start(&arguments);
    let said = running.out.wait_for("the address", |said| said.contains('\n'));
    let (page, token) = served(&said);
    let port = page.trim_end_matches('/').rsplit(':').next().unwrap();
    let (proxy, asked) = proxy(format!("127.0.0.1:{port}"));
    let here = client()
        .variable("SYSOP_TOKEN", &token)
        .variable("HTTPS_PROXY", &format!("http://{proxy}"))
        .variable("SSL_CERT_FILE", &cert);
    let mut talk = here.start_with_input(&["connect", "--plain", "https://sysop.test"]);
    talk.out.wait_for_text("You: ");
    talk.type_text("hello\n");
    talk.out.wait_for_text("Hello through all of it.");
    leaves(talk);
    let asked = asked.lock().clone();
    assert!(
        asked.len() >= 2 && asked.iter().all(|line| line == "CONNECT sysop.test:443 HTTP/1.1"),
        "{asked:?}"
    );
    let stranger =
        client().variable("SYSOP_TOKEN", &token).variable("HTTPS_PROXY", &format!("http://{proxy}"));
    let run = stranger.finish(&["connect", "--plain", "https://sysop.test"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.err.contains("certificate") && !run.err.contains(&token), "{run:?}");
}

#[test]
fn unreachable_and_forbidden_servers_are_reported() {
    let here = client();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let address = format!("http://{nobody}/?token=sysop_hush");
    for command in ["connect", "attach"] {
        let run = here.finish(&[command, "--plain", &address]);
        assert_eq!(run.code, Some(1), "{run:?}");
        let told = format!("error: cannot connect to http://{nobody} (Connection refused)\n");
        assert!(run.err.contains(&told) && !run.err.contains("hush"), "{run:?}");
        assert!(run.err.contains("check the URL, and that `sysop serve` is running there"), "{run:?}");
        let run = here.finish(&[command, "--plain", &format!("http://{nobody}")]);
        assert_eq!(run.code, Some(2), "{run:?}");
        assert!(run.err.contains("error: no token given\n") && run.err.contains("SYSOP_TOKEN"), "{run:?}");
    }
    let mock = Mock::start(&[]);
    let server = RelayedServer::start(&mock);
    let address = format!("http://{}", server.link.address);
    let run = here.finish(&["attach", "--plain", &format!("{address}/?token=sysop_hush")]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(
        run.err.contains(&format!("{address} rejected the token")) && !run.err.contains("hush"),
        "{run:?}"
    );
    let run = here.finish(&["attach", "--plain", &server.url(), "no-such-session"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.err.contains(&format!("error: no session no-such-session on {address}\n")), "{run:?}");
    assert!(run.err.contains("omit the ID for the most recent one"), "{run:?}");
    let run = here.finish(&["connect", "--plain", "--host", "web1", &server.url()]);
    assert_eq!(run.code, Some(2), "{run:?}");
}
