//! Behavior shared by every API: retries, bounds, redirects, secrets, cancellation.

use std::time::Duration;

use futures::StreamExt as _;
use sysop_core::message::FailureKind;
use sysop_driver::port::{ModelEvent, Provider as _};
use sysop_provider::{Endpoint, Providers, ProvidersSettings, RetrySettings, SettingSources};

use sysop_mock_llm::{MockServer, Scenarios};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use crate::server::{Answer, DEADLINE, End, Server, read_request};
use crate::world::{QUICK, ask, openai, openai_at, request, user};

const HELLO: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"hello\"}}]}\n\n\
    data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
const HALF: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"hel\"}}]}\n\n";

fn hello() -> sysop_core::message::ModelRequest {
    request("openai/m", vec![user("hi")])
}

#[tokio::test]
async fn retries_transient_errors_and_shows_a_notice() {
    for status in [408, 409, 425, 429, 500, 502, 503, 529] {
        let server = Server::start(vec![
            Answer::json(status, r#"{"error":{"message":"slow down"}}"#),
            Answer::events(HELLO),
        ])
        .await;
        let heard = ask(&openai_at(&server.url), hello()).await;
        assert_eq!(heard.notices.len(), 1, "{status}");
        let notice = &heard.notices[0];
        assert!(notice.starts_with("retrying in ") && notice.contains(", attempt 2 of 5: "), "{notice}");
        assert!(notice.ends_with(&format!("returned {status}: slow down")), "{notice}");
        assert_eq!((heard.restarts, heard.text.as_str()), (0, "hello"));
        assert_eq!(heard.reply().text, "hello");
    }
}

#[tokio::test]
async fn fails_with_the_right_kind_after_all_retries() {
    for (status, kind) in [(429, FailureKind::RateLimited), (503, FailureKind::Unreachable)] {
        let server = Server::start(vec![Answer::json(status, r#"{"error":"busy"}"#)]).await;
        let heard = ask(&openai_at(&server.url), hello()).await;
        assert_eq!(heard.notices.len(), 4);
        assert_eq!(server.seen().len(), 5);
        let failure = heard.failure();
        assert_eq!(failure.kind, kind);
        assert!(failure.message.contains("busy (tried 5 times); "), "{}", failure.message);
    }
}

#[tokio::test]
async fn does_not_retry_permanent_errors() {
    for (status, kind) in [
        (400, FailureKind::BadRequest),
        (401, FailureKind::Auth),
        (402, FailureKind::RateLimited),
        (403, FailureKind::Auth),
        (404, FailureKind::Protocol),
        (413, FailureKind::ContextOverflow),
        (422, FailureKind::BadRequest),
    ] {
        let server = Server::start(vec![Answer::json(status, r#"{"message":"no"}"#)]).await;
        let heard = ask(&openai_at(&server.url), hello()).await;
        assert_eq!((server.seen().len(), heard.failure().kind), (1, kind), "{status}");
    }
}

#[tokio::test]
async fn follows_the_servers_retry_header() {
    let never = Answer::status(500, "x-should-retry: false\r\n", "");
    let server = Server::start(vec![never]).await;
    assert_eq!(ask(&openai_at(&server.url), hello()).await.notices.len(), 0);
    let please = Answer::status(418, "x-should-retry: true\r\nretry-after-ms: 7\r\n", "");
    let server = Server::start(vec![please, Answer::events(HELLO)]).await;
    assert_eq!(ask(&openai_at(&server.url), hello()).await.reply().text, "hello");
}

#[tokio::test]
async fn fails_at_once_if_the_requested_wait_is_too_long() {
    let server = Server::start(vec![Answer::status(429, "retry-after: 600\r\n", "{}")]).await;
    let heard = ask(&openai_at(&server.url), hello()).await;
    assert!(heard.notices.is_empty());
    let failure = heard.failure();
    assert_eq!(failure.kind, FailureKind::RateLimited);
    assert!(failure.message.contains("try again in 600 s"), "{}", failure.message);
}

#[tokio::test]
async fn waits_as_long_as_the_server_asks() {
    let server =
        Server::start(vec![Answer::status(429, "retry-after-ms: 80\r\n", ""), Answer::events(HELLO)]).await;
    let begin = std::time::Instant::now();
    let heard = ask(&openai_at(&server.url), hello()).await;
    assert!(begin.elapsed() >= Duration::from_millis(80));
    assert!(heard.notices[0].contains("in 0.1 s"), "{}", heard.notices[0]);
}

#[tokio::test]
async fn restarts_a_broken_stream_and_discards_the_shown_text() {
    for end in [End::Cut, End::Reset, End::Whole] {
        let server = Server::start(vec![Answer::events(HALF).end(end), Answer::events(HELLO)]).await;
        let heard = ask(&openai_at(&server.url), hello()).await;
        assert_eq!(heard.notices.len(), 1, "{end:?}");
        assert_eq!(heard.text, "hello");
        if end != End::Reset {
            assert_eq!(heard.restarts, 1, "{end:?}");
        }
        assert_eq!(heard.reply().text, "hello");
    }
}

/// Answers one request and leaves the connection open.
async fn answer_and_keep(connection: &mut TcpStream) {
    read_request(connection).await.expect("a request");
    let length = HELLO.len();
    let head =
        format!("HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n");
    connection.write_all(format!("{head}{HELLO}").as_bytes()).await.unwrap();
}

/// Returns the address of a server that closes each connection when the request after `answered` ones arrives.
async fn closing_server(answered: [usize; 2]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        for count in answered.into_iter().chain([1]) {
            let (mut connection, _) = listener.accept().await.unwrap();
            for _ in 0..count {
                answer_and_keep(&mut connection).await;
            }
            read_request(&mut connection).await;
        }
    });
    url
}

#[tokio::test]
async fn a_request_on_a_connection_that_the_server_closes_is_sent_again_silently() {
    // The first connection ends with the query for the model's window, the second with the third call.
    let providers = openai_at(&closing_server([1, 1]).await);
    for _ in 0..3 {
        let heard = ask(&providers, hello()).await;
        assert!(heard.notices.is_empty(), "{:?}", heard.notices);
        assert_eq!(heard.reply().text, "hello");
    }
}

#[tokio::test]
async fn a_new_connection_that_the_server_closes_is_a_visible_failure() {
    let heard = ask(&openai_at(&closing_server([0, 0]).await), hello()).await;
    assert_eq!(heard.notices.len(), 2, "{:?}", heard.notices);
    assert!(heard.notices[0].contains("broke before a response arrived"), "{:?}", heard.notices);
    assert_eq!(heard.reply().text, "hello");
}

#[tokio::test]
async fn reports_an_unreachable_server() {
    let url = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let heard = ask(&openai_at(&url), hello()).await;
    assert!(heard.notices[0].contains("s, attempt 2 of 2: "), "{:?}", heard.notices);
    let failure = heard.failure();
    assert_eq!(failure.kind, FailureKind::Unreachable);
    // Nothing listens there, so the user does not wait for more than one retry.
    let what = format!("cannot connect to openai at {url} (Connection refused) (tried 2 times); ");
    assert!(failure.message.starts_with(&what), "{}", failure.message);
    assert!(failure.message.ends_with("and base_url in [providers.openai]"), "{}", failure.message);
}

#[tokio::test]
async fn hints_name_the_place_of_the_setting() {
    let server = Server::start(vec![Answer::json(401, "{}"), Answer::json(404, "{}")]).await;
    let sources = SettingSources {
        base_url: Some("LLM_BASE_URL".into()),
        api_key: Some("LLM_AUTH_TOKEN".into()),
        no_key: None,
    };
    let endpoint = Endpoint { base_url: Some(server.url.clone()), sources, ..Endpoint::default() };
    let address = format!("; check LLM_BASE_URL: did you mean `{}/v1`?", server.url);
    for hint in ["; check the key (LLM_AUTH_TOKEN)", &address] {
        let failure = ask(&openai(endpoint.clone()), hello()).await.failure();
        assert!(failure.message.ends_with(hint), "{}", failure.message);
    }
}

#[tokio::test]
async fn an_unknown_model_that_nothing_names_gets_a_hint() {
    let unknown = || Answer::json(404, r#"{"error":{"message":"The model `default` does not exist."}}"#);
    let server = Server::start(vec![unknown(), unknown()]).await;
    let sources = SettingSources { base_url: Some("LLM_BASE_URL".into()), ..SettingSources::default() };
    let endpoint = Endpoint { base_url: Some(server.url.clone()), sources, ..Endpoint::default() };
    for (name, is_hinted) in [("default", true), ("qwen", false)] {
        let mut request = hello();
        request.model.name = name.to_owned();
        let failure = ask(&openai(endpoint.clone()), request).await.failure();
        assert_eq!(failure.kind, FailureKind::UnknownModel);
        let hint = "; set LLM_DEFAULT_MODEL to the name of a model on that server";
        assert_eq!(failure.message.ends_with(hint), is_hinted, "{}", failure.message);
    }
}

#[tokio::test]
async fn the_hint_says_why_no_key_was_sent() {
    let server = Server::start(vec![Answer::json(401, "{}")]).await;
    let why = "no key was sent: LLM_AUTH_TOKEN is not set";
    let sources = SettingSources { no_key: Some(why.to_owned()), ..SettingSources::default() };
    let endpoint = Endpoint { base_url: Some(server.url.clone()), sources, ..Endpoint::default() };
    let failure = ask(&openai(endpoint), hello()).await.failure();
    assert!(failure.message.ends_with(&format!("; {why}")), "{}", failure.message);
}

#[tokio::test]
async fn a_failing_server_is_not_said_to_be_missing() {
    let failing = || Answer::json(500, r#"{"error":"out of memory"}"#);
    let server = Server::start(std::iter::repeat_with(failing).take(8).collect()).await;
    let failure = ask(&openai_at(&server.url), hello()).await.failure();
    assert!(failure.message.contains("returned 500: out of memory"), "{}", failure.message);
    assert!(
        failure.message.ends_with("; read the server's log, or choose another model"),
        "{}",
        failure.message
    );
}

#[tokio::test]
async fn times_out_on_silence() {
    let silence = Duration::from_millis(60);
    for answer in [Answer::events(HALF).end(End::Silence), Answer::events("").end(End::Silence)] {
        let server = Server::start(vec![answer]).await;
        let endpoint =
            Endpoint { base_url: Some(server.url.clone()), timeout: Some(silence), ..Endpoint::default() };
        let heard = ask(&openai(endpoint), hello()).await;
        assert_eq!(heard.notices.len(), 1, "the user does not wait for several silences");
        assert!(heard.notices[0].contains("s, attempt 2 of 2: "), "{:?}", heard.notices);
        let failure = heard.failure();
        assert_eq!(failure.kind, FailureKind::Unreachable);
        assert!(failure.message.contains("for 0.1 s"), "{}", failure.message);
        assert!(failure.message.contains("timeout_s"), "{}", failure.message);
    }
}

#[tokio::test]
async fn does_not_follow_redirects_with_the_key() {
    let other = Server::start(vec![Answer::events(HELLO)]).await;
    for status in [301, 302, 303, 307, 308] {
        let location = format!("location: {}/v1/chat?secret=1\r\n", other.url);
        let server = Server::start(vec![Answer::status(status, &location, "")]).await;
        let endpoint = Endpoint {
            base_url: Some(server.url.clone()),
            api_key: Some("sk-canary".into()),
            headers: vec![("x-api-key".to_owned(), "canary-2".into())],
            ..Endpoint::default()
        };
        let failure = ask(&openai(endpoint), hello()).await.failure();
        assert_eq!(failure.kind, FailureKind::Protocol);
        assert!(
            failure.message.contains(&other.url) && !failure.message.contains("secret"),
            "{}",
            failure.message
        );
        assert_eq!(server.seen().len(), 1);
    }
    assert!(other.seen().is_empty());
}

#[tokio::test]
async fn never_shows_a_key() {
    let body = r#"{"error":{"message":"Incorrect key sk-canary\u001b[31m and canary-2 provided"}}"#;
    for status in [401, 500] {
        let server = Server::start(vec![Answer::json(status, body)]).await;
        let endpoint = Endpoint {
            base_url: Some(server.url.clone()),
            api_key: Some("sk-canary".into()),
            headers: vec![("x-gate".to_owned(), "canary-2".into())],
            ..Endpoint::default()
        };
        let heard = ask(&openai(endpoint), hello()).await;
        let all = format!("{heard:?}");
        assert!(!all.contains("canary") && !all.contains('\u{1b}'), "{all}");
        assert!(all.contains("Incorrect key [key] and [key] provided"), "{all}");
        assert_eq!(server.seen()[0].header("authorization"), Some("Bearer sk-canary"));
        assert_eq!(server.seen()[0].header("x-gate"), Some("canary-2"));
    }
}

#[tokio::test]
async fn an_unsendable_key_is_reported_but_not_shown() {
    let endpoint = Endpoint {
        base_url: Some("http://127.0.0.1:9".to_owned()),
        api_key: Some("sk-canary\nx".into()),
        ..Endpoint::default()
    };
    let failure = ask(&openai(endpoint), hello()).await.failure();
    assert_eq!(failure.kind, FailureKind::BadRequest);
    assert!(
        failure.message.contains("`authorization`")
            && failure.message.contains("check the API key")
            && !failure.message.contains("canary"),
        "{}",
        failure.message
    );
}

#[tokio::test]
async fn warns_once_about_an_unencrypted_key() {
    let endpoint = Endpoint {
        base_url: Some("http://sysop.invalid".to_owned()),
        api_key: Some("sk-canary".into()),
        ..Endpoint::default()
    };
    let settings = ProvidersSettings { openai: endpoint, ..ProvidersSettings::default() };
    let providers = Providers::new(settings).with_retries(RetrySettings { retries: 0, ..QUICK });
    for warnings in [1, 0] {
        let heard = ask(&providers, hello()).await;
        let found = heard.notices.iter().filter(|notice| notice.contains("unencrypted")).count();
        assert_eq!(found, warnings, "{heard:?}");
    }
}

#[tokio::test]
async fn shows_html_errors_as_their_title() {
    let page = "<html><head><title>Sign in</title></head><body>x</body></html>";
    let server =
        Server::start(vec![Answer::status(200, "content-type: text/html; charset=utf-8\r\n", page)]).await;
    let failure = ask(&openai_at(&server.url), hello()).await.failure();
    assert_eq!(failure.kind, FailureKind::Protocol);
    assert!(failure.message.contains("a web page: Sign in; check base_url"), "{}", failure.message);
    let server = Server::start(vec![Answer::status(502, "content-type: text/html\r\n", page)]).await;
    let heard = ask(&openai_at(&server.url), hello()).await;
    assert_eq!(heard.notices.len(), 4);
    assert!(heard.failure().message.contains("returned 502: a web page: Sign in"));
}

#[tokio::test]
async fn reports_responses_that_are_not_from_a_model() {
    let server =
        Server::start(vec![Answer::status(200, "content-type: text/plain\r\n", "It works!\x07")]).await;
    let failure = ask(&openai_at(&server.url), hello()).await.failure();
    assert_eq!(failure.kind, FailureKind::Protocol);
    assert!(failure.message.contains("an unexpected response: It works!;"), "{}", failure.message);
    let server = Server::start(vec![Answer::events("data: {\"choices\":\n\n")]).await;
    let failure = ask(&openai_at(&server.url), hello()).await.failure();
    assert_eq!(failure.kind, FailureKind::Protocol);
    assert!(failure.message.contains("invalid response"), "{}", failure.message);
}

#[tokio::test]
async fn an_empty_response_is_retried() {
    let server = Server::start(vec![Answer::events(""), Answer::events(HELLO)]).await;
    assert_eq!(ask(&openai_at(&server.url), hello()).await.reply().text, "hello");
}

#[tokio::test]
async fn bounds_an_unterminated_line() {
    let piece = vec![b'x'; 1 << 20];
    let server = Server::start(vec![Answer::events("").pieces(vec![piece]).end(End::Forever)]).await;
    let failure = ask(&openai_at(&server.url), hello()).await.failure();
    assert_eq!(failure.kind, FailureKind::Protocol);
    assert!(failure.message.contains("a line of more than 16 MiB"), "{}", failure.message);
}

#[tokio::test]
async fn bounds_an_endless_reply() {
    let piece = ": keep alive\n\n".repeat(1 << 16).into_bytes();
    let server = Server::start(vec![Answer::events("").pieces(vec![piece]).end(End::Forever)]).await;
    let failure = ask(&openai_at(&server.url), hello()).await.failure();
    assert_eq!(failure.kind, FailureKind::Protocol);
    assert!(failure.message.contains("was too long and was stopped after 64 MiB"), "{}", failure.message);
}

#[tokio::test]
async fn accepts_a_long_terminated_line() {
    let long = "y".repeat(10 << 20);
    let body = HELLO.replace("hello", &long);
    let server = Server::start(vec![Answer::events(&body)]).await;
    assert_eq!(ask(&openai_at(&server.url), hello()).await.reply().text.len(), 10 << 20);
}

#[tokio::test]
async fn a_dropped_stream_closes_its_connection() {
    let mut server = Server::start(vec![Answer::events(HALF).end(End::Silence)]).await;
    let mut stream = openai_at(&server.url).stream(hello());
    let first = tokio::time::timeout(DEADLINE, stream.next()).await.unwrap();
    assert_eq!(first, Some(ModelEvent::Text("hel".to_owned())));
    drop(stream);
    server.wait_for_gone(1).await;
}

#[tokio::test]
async fn does_nothing_before_it_is_polled() {
    let server = Server::start(vec![Answer::events(HELLO)]).await;
    let providers = openai_at(&server.url);
    let stream = providers.stream(hello());
    let heard = ask(&providers, hello()).await;
    assert_eq!(heard.text, "hello");
    assert_eq!(server.seen().len(), 1);
    drop(stream);
}

#[tokio::test]
async fn an_unknown_provider_is_a_failure() {
    let failure = ask(&Providers::new(ProvidersSettings::default()), request("nobody/m", vec![user("hi")]))
        .await
        .failure();
    assert_eq!(failure.kind, FailureKind::UnknownModel);
    assert!(failure.message.contains("`nobody`"), "{}", failure.message);
}

#[tokio::test]
async fn probing_any_provider_lists_its_models_or_names_the_missing_key() {
    let mock = MockServer::start(Scenarios::builtin()).await.unwrap();
    let endpoint =
        || Endpoint { base_url: Some(mock.url()), api_key: Some("sk-canary".into()), ..Endpoint::default() };
    let providers = Providers::new(ProvidersSettings {
        gemini: endpoint(),
        anthropic: endpoint(),
        ..ProvidersSettings::default()
    });
    for provider in ["gemini", "anthropic"] {
        let probe = providers.probe(provider).await;
        assert!(
            probe.reachable && !probe.models.is_empty() && probe.problem.is_none(),
            "{provider}: {probe:?}"
        );
        assert!(probe.models.iter().all(|model| !model.contains('/')), "{probe:?}");
    }
    let providers = Providers::new(ProvidersSettings::default());
    for (provider, word) in [
        ("openai", "OPENAI_API_KEY"),
        ("gemini", "GEMINI_API_KEY"),
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("vertex", "--model"),
        ("nobody", "PROVIDER/NAME"),
    ] {
        let probe = providers.probe(provider).await;
        assert!(!probe.reachable, "{provider}");
        let problem = probe.problem.unwrap().message;
        assert!(problem.contains(word), "{provider}: {problem}");
    }
}

#[tokio::test]
async fn a_probe_of_a_silent_server_times_out() {
    let server = Server::with_models(|_, _| Answer::events("").end(End::Silence)).await;
    let begin = std::time::Instant::now();
    let probe = openai_at(&server.url).probe("openai").await;
    assert!(begin.elapsed() < DEADLINE / 2);
    assert!(!probe.reachable && probe.problem.unwrap().message.contains("did not respond within 3 s"));
}
