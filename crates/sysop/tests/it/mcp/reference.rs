//! The reference servers of MCP, from PyPI and npm, over standard streams and HTTP, in both eras of the protocol.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::json;

use super::results;
use crate::World;
use crate::support::{DEADLINE, Mock, RawServer, call, files_below, http, say};

/// Returns the path of an installed server.
fn program(path: &str) -> String {
    let target = PathBuf::from(env!("CARGO_BIN_EXE_sysop")).ancestors().nth(2).unwrap().to_owned();
    let program = target.join("tools").join(path);
    assert!(program.exists(), "{} is missing; `cargo xtask setup` installs it", program.display());
    program.display().to_string()
}

/// A server in the background, which ends with the test.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn servers_of_both_eras_work_in_one_session() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "text of the file").unwrap();
    let place = std::fs::canonicalize(folder.path()).unwrap().display().to_string();
    let file = format!("{place}/a.txt");
    let server = Mock::start(&[(
        "go",
        vec![
            call("mcp__files__read_text_file", json!({"path": file})),
            call("mcp__all__echo", json!({"message": "hello"})),
            call("mcp__time__get_current_time", json!({"timezone": "Europe/Berlin"})),
            say("Done."),
        ],
    )]);
    let world = World::with_openai(&server.url())
        .file(".config/sysop/config.toml", "[models.\"openai/test-model\"]\ncontext_window = 1000000\n");
    let bin = "mcp-npm/node_modules/.bin";
    for (name, command) in [
        ("files", vec![program(&format!("{bin}/mcp-server-filesystem")), place.clone()]),
        ("all", vec![program(&format!("{bin}/mcp-server-everything"))]),
        ("time", vec![program("mcp-servers/bin/mcp-server-time")]),
    ] {
        let mut arguments = vec!["mcp", "add", name, "--"];
        arguments.extend(command.iter().map(String::as_str));
        let run = world.finish(&arguments);
        assert_eq!(run.code, Some(0), "{name}: {run:?}");
    }
    let run = world.finish(&["mcp", "list"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    for version in ["protocol 2025-11-25", "protocol 2026-07-28"] {
        assert!(run.out.contains(version), "{version}: {run:?}");
    }
    let mut chat = world.start_with_input(&["chat"]);
    chat.type_text("go\ny\ny\ny\n");
    chat.end_input();
    let run = chat.finish();
    let results = results(&server);
    assert_eq!(results.len(), 3, "{results:?} {run:?}");
    assert!(results[0].contains("text of the file") && results[1].contains("hello"), "{results:?}");
    assert!(results[2].contains("Europe/Berlin"), "{results:?}");
}

/// Value of the header in these tests, and the part of it that is secret.
const BEARER: &str = "Bearer hunter22hunter22";
const TOKEN: &str = "hunter22hunter22";

/// Forwards connections to a port of this machine, and records what clients send.
struct RecordingProxy {
    port: u16,
    /// Bytes from each connection.
    sent: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl RecordingProxy {
    fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let sent: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let kept = Arc::clone(&sent);
        // Ends with the test process; a broken connection is one of the two ends' choice.
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(("127.0.0.1", to))) else {
                    return;
                };
                let number = {
                    let mut kept = kept.lock();
                    kept.push(Vec::new());
                    kept.len() - 1
                };
                let (back, kept) = (server.try_clone().unwrap(), Arc::clone(&kept));
                let answers = client.try_clone().unwrap();
                std::thread::spawn(move || {
                    forward(&client, &server, |bytes| kept.lock()[number].extend(bytes))
                });
                std::thread::spawn(move || forward(&back, &answers, |_| ()));
            }
        });
        Self { port, sent }
    }

    /// Heads of the requests to the server so far.
    fn heads(&self) -> Vec<String> {
        let sent = self.sent.lock();
        let texts = sent.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let is_request = |line: &str| line.ends_with(" HTTP/1.1");
        texts
            .flat_map(|text| text.split("\r\n\r\n").map(str::to_owned).collect::<Vec<_>>())
            .filter_map(|part| {
                let start = part.lines().find(|line| is_request(line))?.to_owned();
                Some(part[part.find(&start)?..].to_owned())
            })
            .collect()
    }
}

fn forward(mut from: &TcpStream, mut to: &TcpStream, mut record: impl FnMut(&[u8])) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        record(&bytes[..count]);
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write); // the other end may be gone
}

/// Asserts that no file below the home directory contains the token, apart from the test's own.
fn assert_is_not_stored(world: &World) {
    for file in files_below(world.home()) {
        let bytes = std::fs::read(&file).unwrap_or_default();
        assert!(!bytes.windows(TOKEN.len()).any(|part| part == TOKEN.as_bytes()), "{}", file.display());
    }
}

#[test]
fn errors_of_a_server_over_http_do_not_repeat_its_header() {
    let echoing = RawServer::start(|_, head, stream| {
        let lines = head.lines().find(|line| line.to_ascii_lowercase().starts_with("authorization:"));
        let value = lines.and_then(|line| line.split_once(": ")).map(|(_, value)| value).unwrap_or_default();
        let token = value.trim_start_matches("Bearer ");
        let body = format!("no: {value}; {token}");
        let _ = stream.write_all(&http("500 No", "text/plain", &body));
    });
    let world = World::new().variable("WEB_BEARER", BEARER);
    let url = format!("{}/mcp", echoing.url());
    let added = world.finish(&["mcp", "add", "web", "--url", &url, "--header", "Authorization=WEB_BEARER"]);
    let listed = world.finish(&["-v", "mcp", "list"]);
    assert!(!echoing.bodies().is_empty(), "the server was asked");
    assert_eq!((added.code, listed.code), (Some(1), Some(1)), "{added:?} {listed:?}");
    let said = [added.out, added.err, listed.out, listed.err].concat();
    assert!(said.contains("500") && !said.contains(TOKEN), "{said}");
    assert_is_not_stored(&world);
}

#[test]
fn a_server_over_http_works_and_gets_its_header() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let running = Command::new(program("mcp-npm/node_modules/.bin/mcp-server-everything"))
        .arg("streamableHttp")
        .env("PORT", port.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _running = Background(running);
    let until = Instant::now() + DEADLINE;
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < until, "the server does not listen");
        std::thread::yield_now();
    }
    let server =
        Mock::start(&[("go", vec![call("mcp__web__echo", json!({"message": "over http"})), say("Done.")])]);
    let world = World::with_openai(&server.url())
        .variable("WEB_BEARER", BEARER)
        .file(".config/sysop/config.toml", "[models.\"openai/test-model\"]\ncontext_window = 1000000\n");
    let proxy = RecordingProxy::start(port);
    let url = format!("http://127.0.0.1:{}/mcp", proxy.port);
    let run = world.finish(&["mcp", "add", "web", "--url", &url, "--header", "Authorization=WEB_BEARER"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let mut chat = world.start_with_input(&["chat"]);
    chat.type_text("go\ny\n");
    chat.end_input();
    let run = chat.finish();
    assert!(results(&server).first().is_some_and(|text| text.contains("over http")), "{run:?}");
    let heads = proxy.heads();
    assert!(heads.len() >= 4, "each start sends `initialize` and lists the tools: {heads:?}");
    for head in heads {
        let sent: Vec<_> =
            head.lines().filter(|line| line.to_ascii_lowercase().starts_with("authorization:")).collect();
        assert_eq!(sent, [format!("authorization: {BEARER}")], "{head}");
    }
    let asked: String = server.requests().iter().map(|request| request.body.to_string()).collect();
    let listed = world.finish(&["-v", "mcp", "list"]);
    let exported = world.exported(&world.only_session()).iter().map(ToString::to_string).collect::<String>();
    for text in [asked, exported, run.out, run.err, listed.out, listed.err] {
        assert!(!text.contains(TOKEN), "{text}");
    }
    assert_is_not_stored(&world);
}
