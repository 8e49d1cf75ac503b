//! Ollama on the remote machine: through a tunnel of real sockets, and by a real `sh` that replaces `ollama run`.

use std::path::PathBuf;
use std::sync::Arc;

use futures::StreamExt as _;
use serde_json::{Value, json};
use sysop_core::message::{FailureKind, Message, ToolProtocol};
use sysop_driver::port::{ModelEvent, Provider as _};
use sysop_mock_llm::{MockServer, Scenarios};
use sysop_provider::text_protocol;
use sysop_provider::{
    Endpoint, NO_REMOTE_MACHINE, OllamaSettings, Providers, ProvidersSettings, RetrySettings,
};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

use crate::remote_machine::{AWAY, FakeRemote, Policy, shared};
use crate::server::{Answer, DEADLINE, End, Server};
use crate::world::{QUICK, ask, bash, called, collect_events, request, results, user};

fn providers(remote: &Arc<FakeRemote>) -> Providers {
    with_settings(remote, OllamaSettings::default())
}

fn with_settings(remote: &Arc<FakeRemote>, ollama_ssh: OllamaSettings) -> Providers {
    let settings = ProvidersSettings { ollama_ssh, remote: shared(remote), ..ProvidersSettings::default() };
    Providers::new(settings).with_retries(QUICK)
}

fn hi() -> sysop_core::message::ModelRequest {
    request("ollama+ssh/phi3", vec![user("hi")])
}

fn line(message: &Value) -> String {
    format!("{}\n", json!({"message": message, "done": false}))
}

fn said(text: &str) -> Answer {
    let done = json!({"message": {"role": "assistant", "content": ""}, "done": true, "prompt_eval_count": 9});
    Answer::lines(&format!("{}{done}\n", line(&json!({"role": "assistant", "content": text}))))
}

/// Starts an Ollama whose model has tools, and which answers chats in turn.
async fn ollama(chats: Vec<Answer>) -> Server {
    let count = std::sync::atomic::AtomicUsize::new(0);
    Server::with_routes(move |seen, _| match seen.path() {
        "/api/version" => Answer::json(200, r#"{"version":"0.33.0"}"#),
        "/api/show" => Answer::json(200, r#"{"capabilities":["completion","tools"]}"#),
        "/api/ps" => Answer::json(200, r#"{"models":[]}"#),
        "/api/tags" => Answer::json(200, r#"{"models":[{"name":"phi3:latest"}]}"#),
        _ => chats[count.fetch_add(1, std::sync::atomic::Ordering::SeqCst).min(chats.len() - 1)].clone(),
    })
    .await
}

fn chats(server: &Server) -> usize {
    server.seen().iter().filter(|seen| seen.path() == "/api/chat").count()
}

#[tokio::test]
async fn without_a_far_machine_one_sentence_says_what_is_missing() {
    let here = Providers::new(ProvidersSettings::default());
    let failure = ask(&here, hi()).await.failure();
    assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::BadRequest, NO_REMOTE_MACHINE));
    assert_eq!(here.probe("ollama+ssh").await.problem.as_deref(), Some(NO_REMOTE_MACHINE));
}

#[tokio::test]
async fn a_turn_goes_through_the_tunnel_with_tools() {
    let mock = MockServer::start(Scenarios::builtin()).await.unwrap();
    let remote = Arc::new(FakeRemote::with_ollama_at(&mock.url()));
    let providers = providers(&remote);
    let mut messages = vec![user("please write hello world")];
    for name in ["write_file", "bash"] {
        let heard = ask(&providers, request("ollama+ssh/mock-model", messages.clone())).await;
        assert!(heard.notices.is_empty(), "{heard:?}");
        let reply = heard.reply();
        assert_eq!((reply.calls[0].name.as_str(), reply.protocol), (name, ToolProtocol::Native));
        let results = results(&reply.calls, "ok");
        messages.extend([Message::Assistant { reply }, results]);
    }
    let reply = ask(&providers, request("ollama+ssh/mock-model", messages)).await.reply();
    assert!(reply.text.starts_with("Done!"), "{reply:?}");
    let text = ask(&providers, request("ollama+ssh/phi3", vec![user("please write hello world")])).await;
    assert_eq!(text.reply().protocol, ToolProtocol::Text);
    assert_eq!(remote.forwards(), [mock.url().trim_start_matches("http://")], "one tunnel for all");
    let failure = ask(&providers, request("ollama+ssh/missing", vec![user("hi")])).await.failure();
    assert_eq!(failure.kind, FailureKind::UnknownModel);
    assert_eq!(
        failure.message,
        "no model missing in Ollama on the remote host; run `ollama pull missing` there"
    );
    let probe = providers.probe("ollama+ssh").await;
    assert!(probe.reachable && probe.models.contains(&"phi3:latest".to_owned()), "{probe:?}");
}

#[tokio::test]
async fn the_far_address_is_read_as_ollama_reads_it_and_is_the_name_it_is_called_by() {
    let server = ollama(vec![said("a")]).await;
    for (host, base_url, target, name) in [
        (None, None, "127.0.0.1:11434", "127.0.0.1:11434"),
        (Some("0.0.0.0:9"), None, "127.0.0.1:9", "127.0.0.1:9"),
        (Some("[::]"), None, "[::1]:11434", "[::1]:11434"),
        (Some("http://gpu"), None, "gpu:80", "gpu"),
        (Some("gpu:1"), Some("other"), "other:11434", "other:11434"),
    ] {
        let remote = Arc::new(FakeRemote::with_host(host, Some(&server.url)));
        let endpoint = Endpoint {
            base_url: base_url.map(str::to_owned),
            api_key: Some("sk-canary".into()),
            ..Endpoint::default()
        };
        let providers =
            with_settings(&remote, OllamaSettings { endpoint, num_ctx: Some(8192), keep_alive: None });
        assert_eq!(ask(&providers, hi()).await.reply().text, "a");
        assert_eq!(remote.forwards(), [target], "{host:?}");
        let seen = server.seen().pop().unwrap();
        let chat = server.seen().into_iter().rev().find(|seen| seen.path() == "/api/chat").unwrap();
        assert_eq!((seen.header("host"), chat.header("host")), (Some(name), Some(name)), "{host:?}");
        assert_eq!(chat.header("authorization"), Some("Bearer sk-canary"));
        assert_eq!(chat.body["options"]["num_ctx"], 8192);
    }
    for (host, words) in [
        ("gpu:port", "OLLAMA_HOST on the remote machine cannot be used: `gpu:port` is no address"),
        ("ftp://x", "ftp://x"),
    ] {
        let failure =
            ask(&providers(&Arc::new(FakeRemote::with_host(Some(host), None))), hi()).await.failure();
        assert_eq!(failure.kind, FailureKind::BadRequest);
        assert!(failure.message.contains(words), "{}", failure.message);
    }
}

#[tokio::test]
async fn errors_name_the_far_address_and_no_secret() {
    let server = ollama(vec![Answer::json(401, r#"{"error":"key sk-canary is wrong"}"#)]).await;
    let remote = Arc::new(FakeRemote::with_host(Some("gpu"), Some(&server.url)));
    let endpoint = Endpoint { api_key: Some("sk-canary".into()), ..Endpoint::default() };
    let settings = OllamaSettings { endpoint, ..OllamaSettings::default() };
    let failure = ask(&with_settings(&remote, settings), hi()).await.failure();
    assert_eq!(failure.kind, FailureKind::Auth);
    assert!(
        failure.message.starts_with("ollama+ssh at http://gpu:11434 answered 401"),
        "{}",
        failure.message
    );
    assert!(failure.message.contains("`ollama signin` there") && !failure.message.contains("canary"));
}

#[tokio::test]
async fn a_tunnel_that_breaks_in_the_middle_of_a_reply_is_opened_again() {
    let half = line(&json!({"role": "assistant", "content": "half "}));
    let server = ollama(vec![Answer::lines(&half).end(End::Silence), said("whole")]).await;
    let remote = Arc::new(FakeRemote::with_ollama_at(&server.url));
    let mut stream = providers(&remote).stream(hi());
    let mut events = Vec::new();
    while !events.contains(&ModelEvent::Text("half ".to_owned())) {
        events.push(tokio::time::timeout(DEADLINE, stream.next()).await.unwrap().unwrap());
    }
    remote.break_tunnels();
    events.extend(tokio::time::timeout(DEADLINE, stream.collect::<Vec<_>>()).await.unwrap());
    let heard = collect_events(events);
    assert_eq!((heard.restarts, heard.notices.len(), heard.text.as_str()), (1, 1, "whole"), "{heard:?}");
    assert!(heard.notices[0].starts_with("the connection to ollama+ssh at http://127.0.0.1:"), "{heard:?}");
    assert_eq!((remote.forwards().len(), chats(&server)), (2, 2));
}

#[tokio::test]
async fn a_tunnel_that_broke_between_two_calls_is_opened_again() {
    let server = ollama(vec![said("a")]).await;
    let remote = Arc::new(FakeRemote::with_ollama_at(&server.url));
    let providers = providers(&remote);
    for tunnels in 1..4 {
        assert_eq!(ask(&providers, hi()).await.reply().text, "a");
        assert_eq!(remote.forwards().len(), tunnels);
        remote.break_tunnels();
    }
}

#[tokio::test]
async fn a_link_that_stays_broken_is_told() {
    let server = ollama(vec![said("a")]).await;
    let remote = Arc::new(FakeRemote::with_ollama_at(&server.url));
    let providers = providers(&remote);
    ask(&providers, hi()).await.reply();
    remote.set(Policy::Fails);
    remote.break_tunnels();
    let failure = ask(&providers, hi()).await.failure();
    assert_eq!(failure.kind, FailureKind::Unreachable);
    assert_eq!(failure.message, AWAY);
    let probe = providers.probe("ollama+ssh").await;
    assert_eq!(probe.problem.as_deref(), Some(AWAY));
    remote.set(Policy::Allows);
    assert_eq!(ask(&providers, hi()).await.reply().text, "a");
}

#[tokio::test]
async fn where_nothing_is_forwarded_ollama_run_answers_and_that_is_told_once() {
    let remote = Arc::new(FakeRemote::with_run(r#"printf '{"type":"answer","text":"two"}\n\n'"#));
    let providers = providers(&remote);
    let first = ask(&providers, hi()).await;
    assert_eq!(first.text, "two");
    assert_eq!(first.notices.len(), 1, "{first:?}");
    let told = &first.notices[0];
    assert!(told.starts_with("the sshd of web1 does not allow forwarding; `ollama run` is used"), "{told}");
    let reply = first.reply();
    assert_eq!((reply.protocol, reply.text.as_str()), (ToolProtocol::Text, "two"));
    assert!(ask(&providers, hi()).await.notices.is_empty());
    assert_eq!(remote.forwards(), ["127.0.0.1:11434"], "asked once");
    let probe = providers.probe("ollama+ssh").await;
    assert!(probe.reachable, "{probe:?}");
    assert_eq!(probe.models, ["phi3:latest", "qwen3:8b"]);
}

#[tokio::test]
async fn a_tunnel_that_lets_nothing_through_is_told_from_an_ollama_that_does_not_run() {
    let remote = Arc::new(FakeRemote::with_run("echo two"));
    remote.set(Policy::Closes);
    let asked = providers(&remote);
    let heard = ask(&asked, hi()).await;
    assert!(
        heard.notices[0].starts_with("no connection comes through to http://127.0.0.1:11434 there"),
        "{heard:?}"
    );
    assert_eq!(heard.reply().text, "two");

    for missing in [false, true] {
        let remote = Arc::new(FakeRemote::with_run("echo two"));
        remote.set(Policy::Closes);
        if missing {
            remote.remove("ollama")
        } else {
            remote.write("down", "")
        }
        let providers = providers(&remote);
        let heard = ask(&providers, hi()).await;
        assert!(heard.notices.is_empty(), "{heard:?}");
        let failure = heard.failure();
        assert_eq!(failure.kind, FailureKind::Unreachable);
        assert!(failure.message.starts_with("cannot connect to Ollama at http://127.0.0.1:11434 on the remote host; start it there with `ollama serve`"), "{}", failure.message);
        assert_eq!(providers.probe("ollama+ssh").await.problem, Some(failure.message));
        assert_eq!(remote.forwards().len(), 2, "nothing is kept of a way that leads nowhere");
    }
}

#[tokio::test]
async fn an_ollama_behind_https_is_asked_by_its_own_program() {
    let remote = Arc::new(FakeRemote::with_host(Some("https://gpu"), None));
    remote.write("run", "echo two");
    let heard = ask(&providers(&remote), hi()).await;
    assert!(heard.notices[0].contains("by https"), "{heard:?}");
    assert_eq!(heard.reply().text, "two");
    assert!(remote.forwards().is_empty());
}

#[tokio::test]
async fn the_prompt_goes_in_as_it_is_and_flags_are_used_where_they_are_known() {
    let nasty = "say 'hi' \"there\" $(touch pwned) `touch pwned` \\ \n!! %s é";
    let calls = vec![called("c", r#"{"command":"ls 'a b'","reason":"look"}"#)];
    let reply = sysop_core::message::Reply { calls: calls.clone(), ..Default::default() };
    let messages = vec![user(nasty), Message::Assistant { reply }, results(&calls, "a.txt\n[exit code 2]")];
    for (help, flags) in [
        (None, "--nowordwrap\n--verbose\n--hidethinking\n--think=false\n--keepalive\n30m\n--format\n"),
        (Some("--nowordwrap --verbose --format"), "--nowordwrap\n--verbose\n--format\njson\n"),
        (Some("nothing"), ""),
    ] {
        let remote = Arc::new(FakeRemote::with_run("echo '{}'"));
        if let Some(help) = help {
            remote.write("help", help);
        }
        let settings = OllamaSettings { keep_alive: Some("30m".to_owned()), ..OllamaSettings::default() };
        ask(&with_settings(&remote, settings), request("ollama+ssh/phi3", messages.clone())).await.reply();
        let schema = text_protocol::schema(&[bash()]).to_string();
        let schema = if help.is_none() { format!("{schema}\n") } else { String::new() };
        assert_eq!(remote.read("arguments"), format!("{flags}{schema}phi3\n"));
        let prompt = remote.read("prompt");
        assert!(prompt.contains(&format!("User: {nasty}\n\nReply: ")), "{prompt}");
        assert!(
            prompt.contains("Observation:\nCommand: ls 'a b'\nExit code: 2\nOutput:\na.txt\n"),
            "{prompt}"
        );
        assert!(!remote.path("pwned").exists());
    }
}

fn recorded(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpora/ollama_run").join(name)
}

#[tokio::test]
async fn what_is_meant_for_a_terminal_is_taken_out_of_a_reply() {
    let statistics = "printf 'prompt eval count:    26 token(s)\\neval count:           298 token(s)\\n' >&2";
    for output in ["merged.out", "wrapped.out", "reply.json"] {
        let (output, errors) = (recorded(output), recorded("wheel.err"));
        let remote = Arc::new(FakeRemote::with_run(&format!(
            "cat '{}' >&2; cat '{}'; {statistics}",
            errors.display(),
            output.display()
        )));
        let heard = ask(&providers(&remote), hi()).await;
        assert_eq!(heard.text, "", "a call is not shown as text");
        let read = heard.reply();
        assert_eq!((read.text.as_str(), read.calls.len()), ("", 1), "{}", output.display());
        assert_eq!((read.usage.input_tokens, read.usage.output_tokens), (26, 298));
        assert_eq!(read.calls[0].text_argument("command"), Some("df -h / && echo \"it's done\""));
    }
}

#[tokio::test]
async fn words_and_thoughts_are_shown_as_they_come() {
    let remote = Arc::new(FakeRemote::with_run(
        "printf '<think>hm</think>There are\\n2 \\033[1mfiles\\033[0m.\\n\\n'",
    ));
    let heard = ask(&providers(&remote), hi()).await;
    assert_eq!((heard.text.as_str(), heard.reasoning.as_str()), ("There are\n2 files.", "hm"));
    let reply = heard.reply();
    assert_eq!((reply.text.as_str(), reply.reasoning.as_str()), ("There are\n2 files.", "hm"));
}

#[tokio::test]
async fn each_bad_end_says_what_to_do() {
    let cases = [
        (
            "echo \"Error: model requires more system memory (8 GiB) than is available (4 GiB)\" >&2; exit 1",
            FailureKind::BadRequest,
            "the remote machine is too small for phi3 (model requires more system memory (8 GiB) than is available (4 GiB)); choose a smaller model",
        ),
        (
            "printf '\\033[?25lError: llama runner process has terminated: exit status 2\\n' >&2; exit 1",
            FailureKind::Unreachable,
            "`ollama run phi3` on the remote machine ended with exit code 1: llama runner process has terminated: exit status 2; look at Ollama's log there",
        ),
        (
            "kill -KILL $$",
            FailureKind::Unreachable,
            "`ollama run phi3` on the remote machine ended by a signal; look at Ollama's log there",
        ),
        (
            "exit 0",
            FailureKind::Protocol,
            "`ollama run phi3` on the remote machine printed nothing; look at Ollama's log there, or ask again",
        ),
        (
            "printf 'You need to be signed in to Ollama to run Cloud models.\\n\\nTo sign in, navigate to:\\n    https://ollama.com/connect?key=x\\n'",
            FailureKind::Auth,
            "phi3 runs in Ollama's cloud; run `ollama signin` on the remote machine",
        ),
    ];
    for (run, kind, message) in cases {
        let heard = ask(&providers(&Arc::new(FakeRemote::with_run(run))), hi()).await;
        assert_eq!(heard.text, "");
        let failure = heard.failure();
        assert_eq!((failure.kind, failure.message.as_str()), (kind, message), "{run}");
    }
    let remote = Arc::new(FakeRemote::with_run("echo x"));
    remote.write("down", "");
    let failure = ask(&providers(&remote), hi()).await.failure();
    assert_eq!(failure.kind, FailureKind::Unreachable);
    assert!(
        failure.message.starts_with("Ollama is not running on the remote host; start it there"),
        "{failure:?}"
    );
    remote.remove("ollama");
    let failure = ask(&providers(&remote), hi()).await.failure();
    assert_eq!(failure.kind, FailureKind::Unreachable);
    assert!(failure.message.starts_with("`ollama` not found on the remote host; install it"), "{failure:?}");
}

#[tokio::test]
async fn a_model_that_is_not_there_is_not_downloaded() {
    let remote = Arc::new(FakeRemote::with_run("echo x"));
    let failure = ask(&providers(&remote), request("ollama+ssh/llama9", vec![user("hi")])).await.failure();
    assert_eq!(failure.kind, FailureKind::UnknownModel);
    assert_eq!(
        failure.message,
        "no model llama9 in Ollama on the remote host; run `ollama pull llama9` there"
    );
    assert_eq!(remote.read("calls"), "show\n");
    let failure = ask(&providers(&remote), request("ollama+ssh/a;id", vec![user("hi")])).await.failure();
    assert_eq!(failure.kind, FailureKind::UnknownModel);
    assert_eq!(remote.read("calls"), "show\n", "nothing ran");
}

#[tokio::test]
async fn a_schema_that_ollama_cannot_bind_to_is_left_out() {
    let remote = Arc::new(FakeRemote::with_run(
        "case \"$*\" in *--format*) echo 'Error: failed to load model vocabulary required for format' >&2; exit 1 ;; esac; echo two",
    ));
    let providers = providers(&remote);
    for _ in 0..2 {
        assert_eq!(ask(&providers, hi()).await.reply().text, "two");
        assert!(!remote.read("arguments").contains("--format"));
    }
    assert_eq!(remote.read("calls").matches("show").count(), 3, "the refusal is remembered");
}

#[tokio::test]
async fn a_connection_that_breaks_under_a_command_is_tried_again() {
    let remote = Arc::new(FakeRemote::with_run("echo There are two files."));
    remote.break_commands(1);
    let heard = ask(&providers(&remote), hi()).await;
    assert_eq!((heard.restarts, heard.text.as_str()), (1, "There are two files."), "{heard:?}");
    assert!(heard.notices[1].starts_with("the connection to web1 broke; trying again in"), "{heard:?}");
    remote.break_commands(usize::MAX);
    let failure = ask(&providers(&remote), hi()).await.failure();
    assert_eq!(failure.kind, FailureKind::Unreachable);
    assert_eq!(failure.message, "the connection to web1 broke (tried 5 times)");
}

#[tokio::test]
async fn a_connection_that_is_not_made_is_not_knocked_at_again() {
    let remote = Arc::new(FakeRemote::with_run("echo two"));
    let providers = providers(&remote);
    ask(&providers, hi()).await.reply();
    remote.set(Policy::Fails);
    let heard = ask(&providers, hi()).await;
    assert!(heard.notices.is_empty(), "{heard:?}");
    let failure = heard.failure();
    assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Unreachable, AWAY));
    assert_eq!(providers.probe("ollama+ssh").await.problem.as_deref(), Some(AWAY));
}

#[tokio::test]
async fn an_address_of_the_config_is_that_of_the_command_too_unless_it_holds_a_password() {
    let remote = Arc::new(FakeRemote::with_run("echo two; echo \"$OLLAMA_HOST\" >\"$here/address\""));
    let at = |base_url: &str| {
        let endpoint = Endpoint { base_url: Some(base_url.to_owned()), ..Endpoint::default() };
        with_settings(&remote, OllamaSettings { endpoint, ..OllamaSettings::default() })
    };
    ask(&at("http://gpu:1/it's"), hi()).await.reply();
    assert_eq!(remote.read("address"), "http://gpu:1/it's\n");
    let failure = ask(&at("http://me:canary@gpu"), hi()).await.failure();
    assert_eq!(failure.kind, FailureKind::BadRequest);
    assert!(failure.message.contains("take it out") && !failure.message.contains("canary"), "{failure:?}");
}

#[tokio::test]
async fn a_conversation_that_does_not_fit_is_cut_and_that_is_told() {
    let remote = Arc::new(FakeRemote::with_run("echo two"));
    let long = request("ollama+ssh/phi3", vec![user(&"x".repeat(20_000)), user("the question")]);
    let asked = providers(&remote);
    let heard = ask(&asked, long.clone()).await;
    assert!(ask(&asked, long.clone()).await.notices.is_empty(), "told once");
    assert!(heard.notices[1].contains("to fit a window of 4096 tokens"), "{heard:?}");
    let prompt = remote.read("prompt");
    assert!(prompt.len() < 3 * 4096 && prompt.contains("User: the question"), "{prompt}");
    let larger = OllamaSettings { num_ctx: Some(32_768), ..OllamaSettings::default() };
    assert_eq!(ask(&with_settings(&remote, larger), long).await.notices.len(), 1);
    assert!(remote.read("prompt").len() > 20_000);
}

#[tokio::test]
async fn blanks_without_end_end_a_reply_and_its_command() {
    let remote = Arc::new(FakeRemote::with_run(
        "echo '{\"type\":\"answer\",\"text\":\"two\"}'; while echo '      '; do :; done",
    ));
    let heard = ask(&providers(&remote), hi()).await;
    assert_eq!(heard.text, "two");
    assert_eq!(heard.reply().text, "two");
}

#[tokio::test]
async fn silence_ends_a_call() {
    let turning = format!("while cat '{}' >&2; do :; done", recorded("wheel.err").display());
    for run in ["exec tail -f /dev/null", &turning] {
        let remote = Arc::new(FakeRemote::with_run(run));
        let endpoint =
            Endpoint { timeout: Some(std::time::Duration::from_millis(300)), ..Endpoint::default() };
        let settings = OllamaSettings { endpoint, ..OllamaSettings::default() };
        let failure = ask(&with_settings(&remote, settings), hi()).await.failure();
        assert_eq!(failure.kind, FailureKind::Unreachable);
        assert!(failure.message.starts_with("ollama+ssh/phi3 said nothing for 0.3 s"), "{}", failure.message);
    }
}

#[tokio::test]
async fn dropping_a_call_ends_the_far_command() {
    let remote = Arc::new(FakeRemote::with_run("exec 9>\"$here/alive\"; echo Here I am; tail -f /dev/null"));
    let made = std::process::Command::new("mkfifo").arg(remote.path("alive")).status().unwrap();
    assert!(made.success());
    let mut alive = pipe::OpenOptions::new().open_receiver(remote.path("alive")).unwrap();
    let mut stream = providers(&remote).stream(hi());
    let mut shown = String::new();
    while !shown.starts_with("Here I am") {
        match tokio::time::timeout(DEADLINE, stream.next()).await.unwrap().unwrap() {
            ModelEvent::Text(text) => shown.push_str(&text),
            ModelEvent::Notice(_) | ModelEvent::Reasoning(_) | ModelEvent::Restarted => {}
            ModelEvent::Done(_) | ModelEvent::Failed(_) => panic!("the call ended"),
        }
    }
    drop(stream);
    let mut rest = Vec::new();
    tokio::time::timeout(DEADLINE, alive.read_to_end(&mut rest)).await.expect("the command ends").unwrap();
    assert!(rest.is_empty());
}

#[tokio::test]
async fn calls_at_once_share_one_way() {
    let server = ollama(vec![said("a")]).await;
    let remote = Arc::new(FakeRemote::with_ollama_at(&server.url));
    let providers = providers(&remote);
    let heard = futures::future::join_all((0..8).map(|_| ask(&providers, hi()))).await;
    assert!(heard.into_iter().all(|heard| heard.reply().text == "a"));
    assert_eq!(remote.forwards().len(), 1);
}

#[tokio::test]
async fn nothing_is_asked_before_the_first_poll() {
    let remote = Arc::new(FakeRemote::with_run("echo two"));
    let providers = providers(&remote).with_retries(RetrySettings { retries: 0, ..QUICK });
    drop(providers.stream(hi()));
    assert!(remote.forwards().is_empty() && remote.read("calls").is_empty());
}
