//! `sysop token`, and its effect on a running server.

use std::io::{Read, Write};

use super::{ServeProcess, eventually};
use crate::World;

fn demo() -> World {
    World::new().variable("SYSOP_MODEL", "demo")
}

fn create(world: &World, scope: &str) -> String {
    let run = world.finish(&["token", "create", "--name", "laptop", "--scope", scope]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let token = run.out.trim().to_owned();
    assert!(token.starts_with("sysop_") && !run.err.contains(&token), "{run:?}");
    token
}

/// Returns the id of the token with this name, from the list.
fn id_of(world: &World, name: &str) -> String {
    let list = world.finish(&["token", "list"]).out;
    let row = list.lines().find(|line| line.ends_with(name)).unwrap_or_else(|| panic!("{list}"));
    row.split(' ').next().unwrap().to_owned()
}

/// Returns true if a file below the directory contains these bytes.
fn is_in_files(folder: &std::path::Path, wanted: &str) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return is_in_files(&path, wanted);
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        bytes.windows(wanted.len()).any(|window| window == wanted.as_bytes())
    })
}

#[test]
fn a_token_is_shown_once_and_never_stored() {
    let world = demo();
    let token = create(&world, "operate");
    let served = ServeProcess::start(&world, &[]);
    let bearer = format!("authorization: Bearer {token}");
    assert_eq!(served.ask("GET", "/api/agent/sessions", &[&bearer], "").status, 200);
    let list = world.finish(&["token", "list"]);
    assert!(
        list.out.contains("laptop") && list.out.contains("operate") && !list.out.contains("sysop_"),
        "{list:?}"
    );
    let start = served.token.clone();
    let said = served.running.kill();
    assert!(!said.err.contains("sysop_"), "a token is in a log: {}", said.err);
    // A killed server leaves its token file, which only its user can read.
    let file =
        world.home().join(format!(".local/share/sysop/sysop-127.0.0.1-{}.token", served.address.port()));
    std::fs::remove_file(file).unwrap();
    for secret in [&token, &start] {
        assert!(!is_in_files(world.home(), &secret[6..]), "no file contains a token");
    }
}

#[test]
fn tokens_survive_a_restart() {
    let world = demo();
    let token = create(&world, "read");
    let first = ServeProcess::start(&world, &[]);
    let start = first.token.clone();
    let visit = first.ask("GET", &format!("/?token={start}"), &[], "");
    let cookie = visit.line("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let port = first.address.port().to_string();
    first.running.kill();
    let second = ServeProcess::with(&world, &["serve", "--port", &port]);
    assert_ne!(second.token, start);
    for token in [token, start, second.token.clone()] {
        let bearer = format!("authorization: Bearer {token}");
        assert_eq!(second.ask("GET", "/api/agent/sessions", &[&bearer], "").status, 200);
    }
    assert_eq!(
        second.ask("GET", "/", &[&format!("cookie: {cookie}")], "").status,
        200,
        "the browser stays logged in"
    );
}

#[test]
fn a_read_token_can_only_watch() {
    let world = demo();
    let token = create(&world, "read");
    let served = ServeProcess::start(&world, &[]);
    let session = served.session();
    let bearer = format!("authorization: Bearer {token}");
    for path in ["/api/agent/sessions", &session, &format!("{session}/events"), "/metrics"] {
        assert_eq!(served.ask("GET", path, &[&bearer], "").status, 200, "{path}");
    }
    for (method, path) in [
        ("POST", "/api/agent/sessions".to_owned()),
        ("POST", format!("{session}/messages")),
        ("POST", format!("{session}/decisions")),
        ("POST", format!("{session}/tool-results")),
        ("POST", format!("{session}/direct")),
        ("POST", format!("{session}/terminal/input")),
        ("POST", "/chat".to_owned()),
        ("DELETE", session.clone()),
    ] {
        let answer = served.ask(method, &path, &[&bearer, "content-type: application/json"], "{}");
        assert_eq!(answer.status, 403, "{method} {path}: {answer:?}");
    }
}

#[test]
fn a_running_server_honors_revocation_at_once() {
    let world = demo();
    let served = ServeProcess::start(&world, &[]);
    let session = served.session();
    let token = create(&world, "operate");
    let bearer = format!("authorization: Bearer {token}");
    eventually("the new token is seen", || served.ask("GET", &session, &[&bearer], "").status == 200);
    let mut socket = served.connect();
    let upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: \
                   dGhlIHNhbXBsZSBub25jZQ==";
    let host = served.address;
    write!(socket, "GET {session}/stream HTTP/1.1\r\nhost: {host}\r\n{bearer}\r\n{upgrade}\r\n\r\n").unwrap();
    super::read_until(&mut socket, "101 ");
    let mut events = served.connect();
    let close = "connection: close";
    write!(events, "GET {session}/events HTTP/1.1\r\nhost: {host}\r\n{bearer}\r\n{close}\r\n\r\n").unwrap();
    super::read_until(&mut events, "session.created");

    let id = id_of(&world, "laptop");
    let run = world.finish(&["token", "revoke", &id]);
    assert_eq!(run.code, Some(0), "{run:?}");
    eventually("it opens nothing", || served.ask("GET", &session, &[&bearer], "").status == 401);
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).expect("the socket ends");
    events.read_to_end(&mut rest).expect("the stream ends");
    assert_eq!(served.ask("GET", &session, &[&served.bearer()], "").status, 200, "other tokens stay valid");
    assert_eq!(world.finish(&["token", "revoke", &id]).code, Some(2));
}

#[test]
fn the_token_list_shows_the_last_use() {
    let world = demo();
    let token = create(&world, "read");
    let served = ServeProcess::start(&world, &[]);
    let bearer = format!("authorization: Bearer {token}");
    assert_eq!(served.ask("GET", "/metrics", &[&bearer], "").status, 200);
    eventually("it was used", || {
        let list = world.finish(&["token", "list"]).out;
        list.lines().any(|line| line.ends_with("laptop") && !line.contains("never      you"))
    });
}
