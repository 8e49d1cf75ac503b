//! Published vulnerabilities of agents' servers, each tried on this server.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;

use super::{HttpResponse, ServeProcess};
use crate::World;

const JSON: &str = "content-type: application/json";

fn demo() -> World {
    World::new().variable("SYSOP_MODEL", "demo")
}

/// All operations in the server's OpenAPI description that need a token, with example paths.
fn operations(served: &ServeProcess) -> Vec<(String, String)> {
    let described = served.call("GET", "/api/openapi.json", &Value::Null);
    let mut operations = Vec::new();
    for (path, methods) in described["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            if operation["security"].as_array().is_none_or(|needs| !needs.is_empty()) {
                let path = path.replace("{id}", "01a0").replace("{name}", "x");
                operations.push((method.to_uppercase(), path));
            }
        }
    }
    assert!(operations.len() > 15, "{operations:?}");
    operations
}

#[test]
fn opencode_cve_2026_22812_openyak_cve_2026_46409_every_route_asks_who_calls_and_from_where() {
    let world = demo();
    let served = ServeProcess::start(&world, &[]);
    let bearer = served.bearer();
    for (method, path) in operations(&served) {
        let status = |lines: &[&str]| {
            let body = if method == "GET" { "" } else { "{}" };
            served.ask(&method, &path, lines, body).status
        };
        let foreign = "origin: https://evil.example";
        assert_eq!(status(&[JSON]), 401, "{method} {path}: no token");
        assert_eq!(status(&[JSON, foreign]), 403, "{method} {path}");
        assert_eq!(status(&[JSON, &bearer, foreign]), 403, "{method} {path}");
        assert_eq!(status(&[JSON, &bearer, "origin: null"]), 403, "{method} {path}");
        assert_eq!(status(&[JSON, &bearer, "sec-fetch-site: cross-site"]), 403, "{method} {path}");
        assert_eq!(status(&[JSON, &bearer, "host: evil.example"]), 403, "{method} {path}");
        if method != "GET" {
            assert_eq!(status(&["content-type: text/plain", &bearer]), 415, "{method} {path}");
        }
        let preflight = served.ask("OPTIONS", &path, &[foreign, "access-control-request-method: POST"], "");
        assert!(preflight.status == 403 && !preflight.head.contains("access-control-allow"), "{preflight:?}");
    }
    let sessions = served.call("GET", "/api/agent/sessions", &Value::Null);
    assert_eq!(sessions["sessions"], serde_json::json!([]), "no request had an effect");
}

#[test]
fn get_routes_change_nothing() {
    let world = demo();
    let served = ServeProcess::start(&world, &[]);
    let session = served.session();
    let before = served.call("GET", "/api/agent/sessions", &Value::Null);
    let paths = operations(&served).into_iter().filter(|(method, _)| method == "GET");
    for (_, path) in paths.filter(|(_, path)| !path.ends_with("/events")) {
        let path = path.replace("/api/agent/sessions/01a0", &session);
        served.ask("GET", &path, &[&served.bearer()], "");
        served.ask("HEAD", &path, &[&served.bearer()], "");
    }
    assert_eq!(served.call("GET", "/api/agent/sessions", &Value::Null), before);
}

#[test]
fn mcp_inspector_cve_2025_49596_jupyter_4_3_a_token_is_made_for_every_start() {
    let world = demo();
    let first = ServeProcess::start(&world, &[]);
    let other = demo();
    let second = ServeProcess::start(&other, &[]);
    assert_ne!(first.token, second.token);
    let lines = [format!("authorization: Bearer {}", first.token)];
    assert_eq!(second.ask("GET", "/api/agent/sessions", &[&lines[0]], "").status, 401, "of another server");
    assert_eq!(first.ask("GET", "/api/agent/sessions", &[&lines[0]], "").status, 200);
}

#[cfg(target_os = "linux")]
#[test]
fn claude_code_templates_studio_ghsa_79wm_x847_7cvg_it_listens_on_this_machine_only() {
    let world = demo();
    let served = ServeProcess::start(&world, &[]);
    let port = format!(":{:04X}", served.address.port());
    let mut listens = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in std::fs::read_to_string(table).unwrap_or_default().lines().skip(1) {
            let fields: Vec<_> = line.split_whitespace().collect();
            if fields[1].ends_with(&port) && fields[3] == "0A" {
                listens.push(fields[1].to_owned());
            }
        }
    }
    assert_eq!(listens, [format!("0100007F{port}")]);
    // Address of the outgoing interface, if there is one; nothing is sent.
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    if socket.connect("192.0.2.1:9").is_ok() {
        let outer = socket.local_addr().unwrap().ip();
        assert!(outer.is_loopback() || TcpStream::connect((outer, served.address.port())).is_err());
    }
}

#[test]
fn listening_beyond_loopback_needs_tls_or_a_proxy() {
    let world = demo();
    for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let run = world.finish(&["serve", "--listen", listen]);
        assert_eq!(run.code, Some(2), "{run:?}");
        let sentence = run.err.lines().collect::<Vec<_>>();
        assert!(sentence[0].starts_with("error: "), "{run:?}");
        assert!(run.err.contains("--tls-cert") && run.err.contains("--behind-proxy"), "{run:?}");
        assert_eq!(run.out, "");
    }
    let served = ServeProcess::with(
        &world,
        &["serve", "--listen", "0.0.0.0:0", "--behind-proxy", "--allow-host", "ops.example"],
    );
    let status = |lines: &[&str]| served.ask("GET", "/api/agent/sessions", lines, "").status;
    assert_eq!(status(&["host: ops.example"]), 401, "a token is needed there too");
    assert_eq!(status(&["host: ops.example", &served.bearer()]), 200);
    assert_eq!(status(&["host: other.example", &served.bearer()]), 403);
}

#[test]
fn gitlab_mcp_cve_2026_44895_open_webui_cve_2026_56400_no_answer_is_for_other_origins() {
    let world = demo();
    let served = ServeProcess::start(&world, &["--allow-origin", "https://board.example"]);
    let session = served.session();
    for path in ["/", "/healthz", "/api/agent/sessions", &format!("{session}/events")] {
        let answer = served.ask("GET", path, &[&served.bearer()], "");
        assert!(!answer.head.to_lowercase().contains("access-control-allow"), "{answer:?}");
        let answer = served.ask("GET", path, &[&served.bearer(), "origin: https://evil.example"], "");
        assert!(
            answer.status == 403 && !answer.head.to_lowercase().contains("access-control-allow"),
            "{answer:?}"
        );
    }
    let allowed = ["origin: https://board.example", &served.bearer()];
    let answer = served.ask("GET", "/api/agent/sessions", &allowed, "");
    assert_eq!(
        (answer.status, answer.line("access-control-allow-origin")),
        (200, Some("https://board.example"))
    );
    assert_eq!(
        answer.line("access-control-allow-credentials"),
        None,
        "another origin cannot use the page's cookie"
    );
}

#[test]
fn openocd_ghsa_6gfh_wrq3_9f83_another_protocol_is_not_understood() {
    let world = demo();
    let served = ServeProcess::start(&world, &[]);
    for said in [
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "EHLO evil\r\nDATA\r\n\r\n",
        "{\"type\":\"user.message\",\"content\":\"x\"}\r\n\r\n",
        "\u{16}\u{3}\u{1}\r\n\r\n",
    ] {
        let mut stream = served.connect();
        stream.write_all(said.as_bytes()).unwrap();
        let answer = HttpResponse::read(&mut stream);
        assert!(matches!(answer.status, 0 | 400 | 403), "{said:?}: {answer:?}");
    }
}

#[test]
fn rmcp_cve_2026_42559_mcp_sdks_cve_2025_66414_ollama_cve_2024_28224_dns_rebinding() {
    let world = demo();
    let served = ServeProcess::start(&world, &[]);
    let (bearer, port) = (served.bearer(), served.address.port());
    let status = |first: &str, hosts: &[&str]| {
        let mut head = vec![first.to_owned(), "connection: close".to_owned(), bearer.clone()];
        head.extend(hosts.iter().map(|host| format!("host: {host}")));
        served.raw(&head, "").status
    };
    for path in ["/", "/healthz", "/readyz", "/api/agent/sessions", "/no/such/thing"] {
        let get = format!("GET {path} HTTP/1.1");
        for name in ["127.0.0.1", "[::1]", "localhost"] {
            let status = status(&get, &[&format!("{name}:{port}")]);
            assert!(status == 200 || path == "/no/such/thing" && status == 404, "{path} {name}: {status}");
        }
        let other = port.wrapping_add(1).max(1);
        for host in [
            format!("evil.example:{port}"),
            format!("127.0.0.1.nip.io:{port}"),
            format!("localhost.evil.com:{port}"),
            format!("127.0.0.1:{other}"),
            format!("0.0.0.0:{port}"),
            format!("localhost:{port}@evil"),
            String::new(),
        ] {
            assert_eq!(status(&get, &[&host]), 403, "{path} {host}");
        }
        let own = format!("127.0.0.1:{port}");
        assert_eq!(status(&format!("GET {path} HTTP/1.0"), &[]), 403, "{path}: no host name");
        assert!(matches!(status(&get, &[&own, &own]), 400 | 403), "{path}: two host names");
        assert_eq!(status(&format!("GET http://evil{path} HTTP/1.1"), &[&own]), 403, "{path}");
        let forwarded = format!("evil.example\r\nx-forwarded-host: {own}");
        assert_eq!(status(&get, &[&forwarded]), 403, "{path}");
    }
}

#[test]
fn claude_code_cve_2025_52882_code_server_cve_2023_26114_jupyter_server_proxy_cve_2024_28179_socket_hijacking()
 {
    let world = demo();
    let served = ServeProcess::start(&world, &[]);
    let path = format!("{}/stream", served.session());
    let visit = served.ask("GET", &format!("/?token={}", served.token), &[], "");
    let cookie = format!("cookie: {}", visit.line("set-cookie").unwrap().split(';').next().unwrap());
    let status = |lines: &[&str]| {
        let upgrade = [
            "upgrade: websocket",
            "sec-websocket-version: 13",
            "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
        ];
        let mut head = vec![format!("GET {path} HTTP/1.1"), format!("host: {}", served.address)];
        head.push("connection: upgrade".to_owned());
        head.extend(upgrade.iter().chain(lines).map(|line| (*line).to_owned()));
        served.raw(&head, "").status
    };
    let own = format!("origin: http://{}", served.address);
    assert_eq!(status(&[]), 401, "no token; a token in a message comes too late");
    assert_eq!(status(&[&own]), 401);
    assert_eq!(status(&[&own, &cookie]), 101);
    assert_eq!(status(&[&served.bearer()]), 101);
    assert_eq!(status(&[&cookie]), 403, "a cookie without an origin");
    let neighbour = format!("origin: http://localhost:{}", served.address.port().wrapping_add(1));
    for origin in [&neighbour, "origin: null", "origin: https://evil.example", "origin: vscode-webview://x"] {
        assert_eq!(status(&[&cookie, origin]), 403, "{origin}");
        assert_eq!(status(&[&served.bearer(), origin]), 403, "{origin}");
    }
    let ended = "authorization: Bearer sysop_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    assert_eq!(status(&[ended]), 401);
}

#[test]
fn opencode_cve_2026_22813_the_page_runs_only_its_own_scripts() {
    let world = demo();
    let served = ServeProcess::start(&world, &[]);
    for path in ["/", "/no/such/thing", "/api/agent/sessions"] {
        for bearer in [served.bearer(), "x: y".to_owned()] {
            let answer = served.ask("GET", path, &[&bearer, "accept: text/html"], "");
            let policy = answer.line("content-security-policy").unwrap();
            for part in
                ["default-src 'self'", "script-src 'self';", "frame-ancestors 'none'", "base-uri 'none'"]
            {
                assert!(policy.contains(part), "{policy}");
            }
            assert!(!answer.body.contains("<script>"), "{answer:?}");
            assert_eq!(answer.line("x-content-type-options"), Some("nosniff"));
        }
    }
}

#[test]
fn openclaw_cve_2026_25253_the_token_leaves_the_address_at_once_and_works_there_once() {
    let world = demo();
    let served = ServeProcess::start(&world, &[]);
    let visit = || served.ask("GET", &format!("/?token={}", served.token), &["accept: text/html"], "");
    let first = visit();
    assert_eq!((first.status, first.line("location")), (303, Some("/")));
    assert_eq!(first.line("referrer-policy"), Some("no-referrer"));
    assert_eq!(first.line("cache-control"), Some("no-store"));
    let cookie = first.line("set-cookie").unwrap().to_owned();
    for part in ["; HttpOnly", "; SameSite=Strict", "; Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains(&served.token) && !first.head.contains(&served.token));
    let cookie = format!("cookie: {}", cookie.split(';').next().unwrap());
    assert_eq!(served.ask("GET", "/", &[&cookie], "").status, 200);
    let second = visit();
    assert_eq!(second.status, 401);
    assert!(second.body.contains("<form") && !second.body.contains(&served.token));
    // With a cookie, only our own page may change something.
    let make = |lines: &[&str]| {
        let lines: Vec<_> = [JSON, &cookie].iter().chain(lines).copied().collect();
        served.ask("POST", "/api/agent/sessions", &lines, "{}").status
    };
    assert_eq!(make(&[]), 403);
    assert_eq!(make(&["sec-fetch-site: same-origin"]), 201);
    assert_eq!(make(&[&format!("origin: http://{}", served.address)]), 201);
}

#[test]
fn guessing_is_throttled_and_token_holders_are_not() {
    let world = demo();
    let served = ServeProcess::start(&world, &[]);
    let guess = || served.ask("GET", "/api/agent/sessions", &["authorization: Bearer sysop_guess"], "");
    let first = guess();
    assert_eq!(first.status, 401);
    let slowed = (0..1000).map(|_| guess()).find(|answer| answer.status == 429).expect("it is slowed down");
    assert!(slowed.line("retry-after").is_some(), "{slowed:?}");
    assert_eq!(served.ask("GET", "/api/agent/sessions", &[&served.bearer()], "").status, 200);
}

#[test]
fn silent_connections_lock_nobody_out() {
    // Both ends of all connections are open in this process at once.
    let limits = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, ..limits }).unwrap();
    let world = demo();
    let served = ServeProcess::start(&world, &[]);
    let session = served.session();
    let mut watching = served.connect();
    let (bearer, host) = (served.bearer(), served.address);
    write!(watching, "GET {session}/events HTTP/1.1\r\nhost: {host}\r\n{bearer}\r\n\r\n").unwrap();
    super::read_until(&mut watching, "session.created");
    let login = format!("POST /login HTTP/1.1\r\nhost: {host}\r\ncontent-length: 9\r\n\r\n");
    for said in ["", "GET /healthz HTTP/1.1\r\nx: ", &login] {
        let mut silent: Vec<_> = (0..1100).map(|_| served.connect()).collect();
        for stream in &mut silent {
            // The server drops the first connections while the last are still opened.
            let _ = stream.write_all(said.as_bytes());
        }
        assert_eq!(served.ask("GET", "/healthz", &[], "").status, 200, "{said:?}");
        assert_eq!(served.ask("GET", "/api/agent/sessions", &[&bearer], "").status, 200, "{said:?}");
    }
    served.call("POST", &format!("{session}/messages"), &serde_json::json!({"content": "hi"}));
    super::read_until(&mut watching, "assistant.done"); // not dropped, because it has a token
}

#[test]
fn resources_of_one_token_are_limited() {
    let world = demo();
    let served = ServeProcess::start(&world, &["--max-connections", "2"]);
    let session = served.session();
    let open = || {
        let mut stream = served.connect();
        let (bearer, host) = (served.bearer(), served.address);
        write!(stream, "GET {session}/events HTTP/1.1\r\nhost: {host}\r\n{bearer}\r\n\r\n").unwrap();
        let mut first = [0; 12];
        stream.read_exact(&mut first).unwrap();
        (String::from_utf8(first.to_vec()).unwrap(), stream)
    };
    let (first, second, third) = (open(), open(), open());
    assert_eq!([&first.0, &second.0, &third.0], ["HTTP/1.1 200", "HTTP/1.1 200", "HTTP/1.1 429"]);
    drop(first);
    super::eventually("there is room again", || open().0 == "HTTP/1.1 200");
    let large = format!(r#"{{"message":"{}"}}"#, "x".repeat(4 << 20));
    let answer = served.ask("POST", "/chat", &[&served.bearer(), JSON], &large);
    assert_eq!(answer.status, 413, "{answer:?}");
}
