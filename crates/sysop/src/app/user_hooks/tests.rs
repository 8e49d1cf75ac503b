//! Hooks as real programs, and the examples of the documentation.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sysop_core::event::{Event, Logged, Origin};
use sysop_core::hook::{HookAnswer, HookQuestion};
use sysop_core::id::{CallId, Seq, SessionId, Timestamp, TurnId};
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::{ApprovalMode, Grant, Risk, RiskClass, Verdict};
use sysop_driver::hooks::SessionHooks;
use sysop_server::audit::CommandRedactor;

use super::UserHooks;
use crate::config::{Hook, HookPoint, Notify, OnError, UserProgram};
use crate::settings::HostChoice;
use crate::user_program::run;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples");

fn program(words: &[&str]) -> UserProgram {
    let run = words.iter().map(|&word| word.to_owned()).collect();
    UserProgram { run, timeout: Duration::from_secs(20) }
}

fn sh(script: &str) -> UserProgram {
    program(&["/bin/sh", "-c", script])
}

fn before(script: &str, on_error: OnError) -> Hook {
    Hook { on: HookPoint::CommandBefore, pattern: None, program: sh(script), on_error }
}

fn hooks(hooks: Vec<Hook>, notify: Option<Notify>) -> (Arc<UserHooks>, Arc<dyn SessionHooks>) {
    let programs = Arc::new(UserHooks::new(hooks, notify, CommandRedactor::default()));
    let session = programs.of_session(&HostChoice::Local).expect("programs are configured");
    (programs, session)
}

fn question(command: &str) -> HookQuestion {
    let arguments = json!({ "command": command });
    let Value::Object(arguments) = arguments else { unreachable!("it is an object") };
    let call = ToolCall {
        id: CallId::new("1"),
        wire_id: None,
        name: "bash".to_owned(),
        arguments: Arguments::Object(arguments),
    };
    HookQuestion {
        call,
        command: command.to_owned(),
        reason: "a \"quoted\" reason".to_owned(),
        risk: Risk { class: RiskClass::Changes, findings: Vec::new() },
        mode: ApprovalMode::Auto,
        origin: Origin::Model,
        verdict: Verdict::Allow,
    }
}

async fn answer(hook: Hook) -> HookAnswer {
    let (_, session) = hooks(vec![hook], None);
    session.ask(&SessionId::new("s1"), question("touch a")).await
}

fn deny(reason: &str) -> HookAnswer {
    HookAnswer::Deny { reason: reason.to_owned() }
}

fn ask(reason: &str) -> HookAnswer {
    HookAnswer::Ask { reason: reason.to_owned() }
}

#[tokio::test]
async fn a_hook_answers_by_its_exit_code_and_output() {
    for (script, expected) in [
        ("cat >/dev/null", HookAnswer::Pass),
        ("echo '{}'", HookAnswer::Pass),
        ("echo no ticket >&2; exit 2", deny("no ticket")),
        (r#"echo '{"decision":"deny","reason":"frozen"}'"#, deny("frozen")),
        (r#"echo '{"decision":"ask","reason":"sure?"}'"#, ask("sure?")),
        (r#"printf '{"decision":"deny","reason":"a\\u001b[31mb\\nc"}'; exit 2"#, deny(r"a\x1b[31mb c")),
        ("exit 2", deny("sh gave no reason")),
    ] {
        assert_eq!(answer(before(script, OnError::Deny)).await, expected, "{script}");
    }
}

#[tokio::test]
async fn a_hook_never_allows_and_an_invalid_answer_is_a_failure() {
    for (script, told) in [
        (r#"echo '{"decision":"allow"}'"#, "the hook `sh` failed: "),
        ("echo yes", "the hook `sh` failed: "),
        ("echo '[]'", "the hook `sh` failed: "),
        ("exit 1", "the hook `sh` exited with code 1"),
        ("kill -9 $$", "the hook `sh` was killed"),
        ("head -c 100000 /dev/zero", "the hook `sh` failed: "),
    ] {
        let failed = answer(before(script, OnError::Deny)).await;
        assert!(matches!(failed, HookAnswer::Deny { .. }), "{script}: {failed:?}");
        let asked = answer(before(script, OnError::Ask)).await;
        assert!(
            matches!(&asked, HookAnswer::Ask { reason } if reason.starts_with(told)),
            "{script}: {asked:?}"
        );
        assert_eq!(answer(before(script, OnError::Ignore)).await, HookAnswer::Pass, "{script}");
    }
    let missing = Hook { program: program(&["/nonexistent/hook"]), ..before("", OnError::Deny) };
    assert!(matches!(answer(missing).await, HookAnswer::Deny { .. }));
}

#[tokio::test]
async fn a_hook_that_does_not_end_is_killed_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let (pid, script) = (folder.path().join("pid"), "sleep 600 & echo $! > \"$0\"; wait");
    let mut slow = program(&["/bin/sh", "-c", script, pid.to_str().unwrap()]);
    slow.timeout = Duration::from_secs(2);
    let failed = answer(Hook { program: slow, ..before("", OnError::Ask) }).await;
    assert_eq!(failed, ask("the hook `sh` failed: the program did not end within 2 s"));
    let child = std::fs::read_to_string(&pid).unwrap();
    let stat = format!("/proc/{}/stat", child.trim());
    let deadline = Instant::now() + Duration::from_secs(20);
    // A killed process stays as a zombie until it is reaped.
    while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(Instant::now() < deadline, "the child of the hook still runs");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_hook_gets_the_call_and_a_minimal_environment() {
    let folder = tempfile::tempdir().unwrap();
    let (input, variables) = (folder.path().join("input"), folder.path().join("variables"));
    let script = r#"cat > "$0"; env > "$1""#;
    let words = ["/bin/sh", "-c", script, input.to_str().unwrap(), variables.to_str().unwrap()];
    let hook = Hook { program: program(&words), ..before("", OnError::Deny) };
    let (_, session) = hooks(vec![hook], None);
    let secret = question("curl -H 'Authorization: Bearer abcdefghijklmnop' x");
    assert_eq!(session.ask(&SessionId::new("s1"), secret).await, HookAnswer::Pass);
    let told: Value = serde_json::from_str(&std::fs::read_to_string(&input).unwrap()).unwrap();
    assert_eq!(told["event"], "command.before");
    assert_eq!(
        (&told["session"], &told["host"], &told["tool"]),
        (&json!("s1"), &json!("local"), &json!("bash"))
    );
    assert_eq!(
        (&told["risk"], &told["mode"], &told["verdict"]),
        (&json!("changes"), &json!("auto"), &json!("allow"))
    );
    assert!(!told["command"].as_str().unwrap().contains("abcdefghijklmnop"), "{told}");
    let variables = std::fs::read_to_string(&variables).unwrap();
    assert!(variables.contains("SYSOP_CALL_HOOK=1"), "{variables}");
    assert!(!variables.contains("CARGO"), "{variables}");
}

#[tokio::test]
async fn the_strictest_of_several_hooks_counts_and_match_selects_them() {
    let matching = |pattern: &str, script: &str| Hook {
        pattern: Some(regex::Regex::new(pattern).unwrap()),
        ..before(script, OnError::Deny)
    };
    let (_, session) = hooks(
        vec![
            before(r#"echo '{"decision":"ask","reason":"one"}'"#, OnError::Deny),
            matching("^touch", "echo two >&2; exit 2"),
            matching("^rm", "echo three >&2; exit 2"),
        ],
        None,
    );
    let id = SessionId::new("s1");
    assert_eq!(session.ask(&id, question("touch a")).await, deny("two"));
    assert_eq!(session.ask(&id, question("mkdir a")).await, ask("one"));
}

fn asked(command: &str) -> Arc<Logged> {
    let event = Event::ApprovalAsked {
        call: question(command).call,
        command: command.to_owned(),
        reason: String::new(),
        risk: Risk { class: RiskClass::Changes, findings: Vec::new() },
        covers: Grant::Exact { command: command.to_owned() },
        preview: vec!["stops nginx".to_owned()],
        guarded: None,
        scope: None,
        terms: Default::default(),
    };
    Arc::new(Logged { seq: Seq(7), at: Timestamp(0), event })
}

#[tokio::test]
async fn the_notifier_gets_an_approval_with_a_link_without_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("input");
    let words = ["/bin/sh", "-c", "cat > \"$0\"", input.to_str().unwrap()];
    let (programs, session) = hooks(Vec::new(), Some(Notify { program: program(&words), url: None }));
    programs.set_page("http://127.0.0.1:8765/".to_owned());
    session.report(&SessionId::new("0198-abcdef12"), &[asked("systemctl restart nginx")]);
    programs.close().await;
    let told: Value = serde_json::from_str(&std::fs::read_to_string(&input).unwrap()).unwrap();
    assert_eq!(
        (&told["event"], &told["command"], &told["id"]),
        (&json!("approval"), &json!("systemctl restart nginx"), &json!("cdef12-7"))
    );
    assert_eq!(told["preview"], json!(["stops nginx"]));
    assert_eq!(told["url"], "http://127.0.0.1:8765/#/s/0198-abcdef12");
}

#[tokio::test]
async fn hooks_of_prompts_and_approvals_answer_like_those_of_calls() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("input");
    let words = ["/bin/sh", "-c", "cat > \"$0\"; echo no >&2; exit 2", input.to_str().unwrap()];
    let on = |on: HookPoint| Hook { on, program: program(&words), ..before("", OnError::Ask) };
    let (_programs, session) = hooks(vec![on(HookPoint::Prompt), on(HookPoint::Approval)], None);
    let told = || -> Value { serde_json::from_str(&std::fs::read_to_string(&input).unwrap()).unwrap() };
    let id = SessionId::new("0198-abcdef12");
    assert_eq!(session.ask_about_prompt(&id, "the password is x").await, deny("no"));
    assert_eq!((&told()["event"], &told()["prompt"]), (&json!("prompt"), &json!("the password is x")));
    assert_eq!(session.ask_about_approval(&id, &asked("touch a")).await, deny("no"));
    assert_eq!((&told()["event"], &told()["id"]), (&json!("approval"), &json!("cdef12-7")));
    assert_eq!(session.ask(&id, question("touch a")).await, HookAnswer::Pass, "no hook for calls");
}

#[tokio::test]
async fn a_program_that_hangs_delays_no_report_to_the_session() {
    let hanging = Notify { program: sh("sleep 600"), url: None };
    let (_programs, session) = hooks(Vec::new(), Some(hanging));
    for _ in 0..1_000 {
        session.report(&SessionId::new("s1"), &[asked("true")]);
    }
}

#[tokio::test]
async fn events_reach_the_hooks_of_their_points_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let words = ["/bin/sh", "-c", "cat >> \"$0\"", log.to_str().unwrap()];
    let on = |on: HookPoint| Hook { on, ..Hook { program: program(&words), ..before("", OnError::Ask) } };
    let (programs, session) = hooks(vec![on(HookPoint::CommandAfter), on(HookPoint::End)], None);
    let call = question("touch a").call;
    let events = [
        Event::TurnStarted {
            turn: TurnId(1),
            prompt: "fix it".to_owned(),
            images: Vec::new(),
            origin: Origin::Model,
            by: None,
        },
        // The start of a denied call only names it.
        Event::ToolStarted { call: call.clone(), origin: Origin::User },
        Event::ToolFinished { call: call.id.clone(), outcome: Outcome::new(Status::Rejected, "denied") },
        Event::ToolStarted { call: call.clone(), origin: Origin::Model },
        Event::ToolFinished { call: call.id, outcome: Outcome::ok("") },
        Event::TurnEnded {
            turn: TurnId(1),
            reason: sysop_core::event::StopReason::EndTurn,
            error: None,
            active_ms: 0,
        },
    ];
    let events = events.map(|event| Arc::new(Logged { seq: Seq(1), at: Timestamp(0), event }));
    session.report(&SessionId::new("s1"), &events);
    programs.close().await;
    let told: Vec<Value> = std::fs::read_to_string(&log)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let points: Vec<_> = told.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(points, ["command.after", "end"]);
    assert_eq!((&told[0]["command"], &told[0]["status"]), (&json!("touch a"), &json!("ok")));
}

async fn example(name: &str, arguments: &[&str], input: &Value) -> (Option<i32>, String) {
    let path = Path::new(EXAMPLES).join(name);
    let words: Vec<_> =
        ["/bin/sh", path.to_str().unwrap()].into_iter().chain(arguments.iter().copied()).collect();
    let finished = run(&program(&words), input).await.unwrap();
    (finished.code, finished.error)
}

#[tokio::test]
async fn the_example_require_ticket_denies_changes_on_production_without_a_ticket() {
    let input = |host: &str, risk: &str, reason: &str| {
        json!({ "event": "command.before", "hosts": [host], "risk": risk, "reason": reason,
            "command": "echo '\"reason\":\"CHG-9999\"' '\"risk\":\"read_only\"'" })
    };
    for (host, risk, reason, code) in [
        ("prod-web1", "changes", "a fix", 2),
        ("prod-web1", "changes", "a fix for CHG-1234", 0),
        ("prod-web1", "changes", "\"CHG-\" 1234", 2),
        ("prod-web1", "read_only", "", 0),
        ("lab1", "changes", "", 0),
    ] {
        let (found, error) = example("require-ticket.sh", &[], &input(host, risk, reason)).await;
        assert_eq!(found, Some(code), "{host} {risk} {reason}: {error}");
        assert_eq!(error.contains("CHG-1234"), code == 2);
    }
}

/// Accepts one HTTP request and returns it.
fn one_request(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (mut request, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut piece).unwrap();
        request.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            if read == 0 || length.is_some_and(|length| length.parse() == Ok(body.len())) {
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    .unwrap();
                return text;
            }
        }
    }
}

#[tokio::test]
async fn the_examples_that_post_send_the_command() {
    let input = json!({ "event": "approval", "host": "web1", "command": "echo \"a\\b\"", "id": "4f3a91-17",
        "url": "https://ops.example.org/#/s/1" });
    for (script, parts) in [
        (
            "chat-webhook.sh",
            vec![r#"{"text":"sysop approval on web1: echo \"a\\b\" https://ops.example.org/#/s/1"}"#],
        ),
        (
            "notify-ntfy.sh",
            vec!["Title: sysop waits for approval on web1", "Click: https://ops", "sysop approve 4f3a91-17"],
        ),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let served = std::thread::spawn(move || one_request(&listener));
        let (code, error) = example(script, &[&url], &input).await;
        assert_eq!(code, Some(0), "{script}: {error}");
        let request = served.join().unwrap();
        for part in parts {
            assert!(request.contains(part), "{part} in {request}");
        }
    }
}

#[tokio::test]
async fn the_example_to_syslog_sends_the_event() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let input = json!({ "event": "command.after", "command": "touch a" });
    let (code, error) = example("to-syslog.sh", &[path.to_str().unwrap()], &input).await;
    assert_eq!(code, Some(0), "{error}");
    let mut bytes = [0; 4096];
    let length = socket.recv(&mut bytes).unwrap();
    let line = String::from_utf8_lossy(&bytes[..length]).into_owned();
    assert!(line.contains("sysop") && line.contains(r#""command":"touch a""#), "{line}");
}
