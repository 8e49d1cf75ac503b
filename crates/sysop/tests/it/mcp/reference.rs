//! The reference servers of MCP, from PyPI and npm, over standard streams and HTTP, in both eras of the protocol.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::json;

use super::results;
use crate::World;
use crate::support::{DEADLINE, Mock, call, say};

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
        .variable("WEB_BEARER", "Bearer hunter22hunter22")
        .file(".config/sysop/config.toml", "[models.\"openai/test-model\"]\ncontext_window = 1000000\n");
    let url = format!("http://127.0.0.1:{port}/mcp");
    let run = world.finish(&["mcp", "add", "web", "--url", &url, "--header", "Authorization=WEB_BEARER"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let mut chat = world.start_with_input(&["chat"]);
    chat.type_text("go\ny\n");
    chat.end_input();
    let run = chat.finish();
    assert!(results(&server).first().is_some_and(|text| text.contains("over http")), "{run:?}");
}
