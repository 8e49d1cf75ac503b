//! Hostile visitors of a server, and a hostile server of a client.

use serde_json::json;

use super::{Victim, commands, in_parallel};
use crate::World;
use crate::exposed::ServeProcess;
use crate::support::{Mock, calls, say};

/// Requests that would have an effect, with the headers that a browser adds for a page of another site.
fn visits(served: &ServeProcess) -> Vec<(&'static str, &'static str, Vec<String>, String)> {
    let session = "/api/agent/sessions";
    let bearer = format!("authorization: Bearer {}", served.token);
    let cookie = format!("cookie: sysop={}", served.token);
    let json = "content-type: application/json".to_owned();
    let own = format!("origin: http://{}", served.address);
    let typed = json!({"tool": "bash", "arguments": {"command": "touch new"}, "origin": "typed"}).to_string();
    let mut visits = Vec::new();
    // From a page of another site, with every token that a browser may add.
    for origin in [
        "http://evil.example",
        "https://evil.example",
        "null",
        "http://127.0.0.1",
        "http://127.0.0.1:1",
        "http://localhost.evil.example",
        "http://127.0.0.1.evil.example",
        "file://",
        "chrome-extension://x",
    ] {
        for credentials in [&bearer, &cookie] {
            for kind in ["application/json", "text/plain", "application/x-www-form-urlencoded"] {
                let lines =
                    vec![format!("origin: {origin}"), credentials.clone(), format!("content-type: {kind}")];
                visits.push(("POST", session, lines, "{}".to_owned()));
            }
        }
    }
    // By a host name that resolves to this server.
    for host in
        ["evil.example", "127.0.0.1.nip.io", "localhost.evil.example", "127.0.0.1:1@evil.example", "[::1", ""]
    {
        visits.push((
            "POST",
            session,
            vec![format!("host: {host}"), bearer.clone(), json.clone()],
            "{}".to_owned(),
        ));
    }
    // Without a token, or with an invalid one.
    for line in [
        "x-nothing: 1".to_owned(),
        "authorization: Bearer".to_owned(),
        "authorization: Bearer undefined".to_owned(),
        format!("authorization: Basic {}", served.token),
        format!("authorization: Bearer {}x", served.token),
        format!("authorization: Bearer {}", &served.token[..served.token.len() - 1]),
        format!("authorization: bearer {}", served.token.to_uppercase()),
        format!("x-token: {}", served.token),
        "cookie: sysop=".to_owned(),
        "x-forwarded-for: 127.0.0.1".to_owned(),
        "x-forwarded-user: root".to_owned(),
        "x-original-url: /healthz".to_owned(),
        "x-http-method-override: GET".to_owned(),
    ] {
        visits.push(("POST", session, vec![own.clone(), line, json.clone()], "{}".to_owned()));
    }
    // With the token in the URL, where logs and histories would keep it.
    for path in ["/api/agent/sessions?token={token}", "/api/agent/sessions?access_token={token}"] {
        visits.push(("POST", path, vec![own.clone(), json.clone()], typed.clone()));
    }
    visits
}

#[test]
fn a_hostile_visitor_gets_no_access() {
    let world = World::new().variable("SYSOP_MODEL", "demo");
    let served = ServeProcess::start(&world, &[]);
    let visits = visits(&served);
    assert!(visits.len() >= 70, "{}", visits.len());
    let let_in: Vec<_> = visits
        .iter()
        .filter_map(|(method, path, lines, body)| {
            let path = path.replace("{token}", &served.token);
            let lines: Vec<_> = lines.iter().map(String::as_str).collect();
            let answer = served.ask(method, &path, &lines, body);
            let refused = matches!(answer.status, 0 | 400 | 401 | 403 | 415 | 421 | 429);
            (!refused || answer.line("access-control-allow-origin").is_some())
                .then(|| format!("{method} {path} {lines:?}: {answer:?}"))
        })
        .collect();
    assert!(let_in.is_empty(), "{} of {}:\n{}", let_in.len(), visits.len(), let_in.join("\n"));
    let there = served.call("GET", "/api/agent/sessions", &json!(null));
    assert_eq!(there["sessions"].as_array().or(there.as_array()).map(Vec::len), Some(0), "{there}");
}

/// Number of calls that a hostile server makes to one client.
const CALLS: usize = 25;

#[test]
fn a_hostile_server_does_no_harm_to_a_never_mode_client() {
    let commands = commands();
    let tries: Vec<_> = commands.chunks(CALLS).collect();
    let harmed = in_parallel(&tries, |tried| {
        let victim = Victim::new();
        let made: Vec<_> = tried
            .iter()
            .map(|(_, command)| {
                let arguments = json!({"command": victim.fill(command), "reason": "It only looks."});
                ("", "bash", arguments)
            })
            .collect();
        let mock = Mock::start(&[("attack", vec![calls("", &made), say("All tried.")])]);
        // The server allows everything and has no root: only the client restricts the calls.
        let server = World::with_openai(&mock.url()).variable("SYSOP_APPROVE", "auto");
        let served = ServeProcess::start(&server, &[]);
        let url = format!("http://{}/?token={}", served.address, served.token);
        let arguments = ["connect", "--plain", "--profile", "coder", "--approve", "never", &url];
        let mut client = victim.world.start_with_input(&arguments);
        client.out.wait_for_text("You: ");
        client.type_text("attack\n");
        client.out.wait_for_text("All tried.");
        client.type_text("/exit\n");
        client.end_input();
        let run = client.finish();
        let heard: String = mock.requests().iter().map(|request| request.body.to_string()).collect();
        assert_eq!(heard.matches("tool_call_id").count(), tried.len(), "{run:?}");
        let harm = victim.harm(&heard);
        (!harm.is_empty()).then(|| format!("{harm}by one of {tried:?}"))
    });
    assert!(harmed.is_empty(), "{} clients:\n{}", harmed.len(), harmed.join("\n"));
}
