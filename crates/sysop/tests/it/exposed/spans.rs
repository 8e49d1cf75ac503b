//! Data sent to an OpenTelemetry collector, and secrets that must not be sent.

use serde_json::{Value, json};

use super::{ServeProcess, eventually};
use crate::World;
use crate::support::{Mock, RawServer, bash, call, http, say};

/// Secrets that no span may contain; each enters the session in a different way.
const SECRETS: [&str; 7] = [
    "canary-of-the-prompt", "canary-of-the-command", "canary-of-the-output", "canary-of-the-file",
    "canary-of-the-answer", "canary-of-the-error", "sk-canary-of-the-key",
];

fn spans(collector: &RawServer) -> Vec<Value> {
    let bodies = collector.bodies();
    let of = |body: &Value| body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
    bodies.iter().flat_map(of).collect()
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a Value {
    let all = span["attributes"].as_array().unwrap();
    let found = all.iter().find(|attribute| attribute["key"] == key);
    &found.unwrap_or_else(|| panic!("no {key} in {span}"))["value"]
}

#[test]
fn a_turn_with_its_calls_is_one_trace_without_content() {
    let collector = RawServer::replies(vec![http("200 OK", "application/json", "{}")]);
    let mock = Mock::start(&[(
        "canary-of-the-prompt",
        vec![
            bash("echo canary-of-the-command >/dev/null; echo canary-of-the-out''put"),
            call("read_file", json!({ "path": "a.txt" })),
            call("read_file", json!({ "path": "canary-of-the-error" })),
            say("canary-of-the-answer"),
        ],
    )]);
    let world = World::with_openai(&mock.url())
        .variable("OPENAI_API_KEY", "sk-canary-of-the-key")
        .variable("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url())
        .variable("OTEL_SERVICE_NAME", "the-ops-server")
        .file("work/a.txt", "canary-of-the-file\n");
    let served = ServeProcess::start(&world, &["--approve", "auto"]);
    let session = served.session();
    let prompt = json!({
        "content": "canary-of-the-prompt",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    });
    served.call("POST", &format!("{session}/messages"), &prompt);
    let told = served.follow(&session, "assistant.done");
    assert!(told.contains("canary-of-the-output") && told.contains("canary-of-the-file"), "{told}");
    eventually("the spans", || spans(&collector).len() == 8);
    let spans = spans(&collector);

    let named = |name: &str| spans.iter().filter(|span| span["name"] == name).collect::<Vec<_>>();
    let turn = named("turn")[0];
    assert_eq!(turn["parentSpanId"], "b7ad6b7169203331");
    assert_eq!(attribute(turn, "sysop.stop_reason")["stringValue"], "end_turn");
    assert_eq!((named("chat").len(), named("execute_tool read_file").len()), (4, 2));
    for span in &spans {
        assert_eq!(span["traceId"], "0af7651916cd43dd8448eb211c80319c");
        assert!(span["name"] == "turn" || span["parentSpanId"] == turn["spanId"], "{span}");
        let id = attribute(span, "sysop.session.id")["stringValue"].as_str().unwrap();
        assert!(session.ends_with(id) && !id.is_empty());
        let time = |key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
        let took = time("endTimeUnixNano") - time("startTimeUnixNano");
        let told = attribute(span, "sysop.duration_ms")["intValue"].as_str().unwrap();
        assert_eq!(told, (took / 1_000_000).to_string());
    }
    let ran = named("execute_tool bash")[0];
    let bytes = attribute(ran, "sysop.tool.output_bytes")["intValue"].as_str().unwrap();
    assert!(bytes.parse::<usize>().unwrap() >= "canary-of-the-output\n".len(), "{ran}");
    assert_eq!(attribute(ran, "sysop.tool.status")["stringValue"], "ok");
    let failed = named("execute_tool read_file")[1];
    assert_eq!(
        (&failed["status"]["code"], attribute(failed, "sysop.tool.status")),
        (&json!(2), &json!({"stringValue": "failed"}))
    );
    let body = collector.bodies()[0].to_string();
    assert!(body.contains("the-ops-server"), "{body}");
    let all = format!("{:?}", collector.bodies());
    for secret in SECRETS {
        assert!(!all.contains(secret), "{secret}: {all}");
    }
}

#[test]
fn spans_are_flushed_at_exit_and_a_failing_collector_blocks_nothing() {
    let collector = RawServer::replies(vec![
        http("503 Service Unavailable", "text/plain", "no"),
        http("200 OK", "application/json", "{}"),
    ]);
    let mock = Mock::start(&[("hello", vec![say("Hello.")])]);
    let config = format!("otlp_endpoint = \"{}\"\n", collector.url());
    let world = World::with_openai(&mock.url()).file(".config/sysop/config.toml", &config);
    let served = ServeProcess::start(&world, &[]);
    let session = served.session();
    for turn in 1..=2 {
        served.call("POST", &format!("{session}/messages"), &json!({ "content": "hello" }));
        let done = format!("\"turn\":{turn},");
        served.follow(&session, &done);
        eventually("a request", || collector.bodies().len() >= turn || turn == 2);
    }
    served.running.signal(rustix::process::Signal::TERM);
    let run = served.running.finish();
    assert_eq!(run.code, Some(0), "{run:?}");
    let told = collector.bodies();
    assert!(
        told.len() >= 2 && run.err.contains("cannot export spans to the OTLP collector"),
        "{told:?} {run:?}"
    );
    let first = World::with_openai(&mock.url());
    let before = collector.bodies().len();
    let served = ServeProcess::start(&first, &[]);
    let session = served.session();
    served.call("POST", &format!("{session}/messages"), &json!({ "content": "hello" }));
    served.follow(&session, "assistant.done");
    served.running.signal(rustix::process::Signal::TERM);
    assert_eq!(served.running.finish().code, Some(0));
    assert_eq!(collector.bodies().len(), before, "without a collector, nothing is sent");
}
