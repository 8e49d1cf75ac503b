//! The answer "always": a rule is shown, written and obeyed, in each front end.

use serde_json::json;

use crate::World;
use crate::person::at_a_terminal;
use crate::serve::serve;
use crate::support::{Mock, bash, say};
use crate::viewer::Viewer;

/// Rule for `touch made` on this machine.
const RULE: &str = "[[policy.rules]]\naction = \"allow\"\nmatch = { program = \"touch\", options = [], \
                    operands = [\"made\"], host = \"local\" }\n";

fn rules_file(world: &World) -> std::path::PathBuf {
    world.home().join(".config/sysop/rules.toml")
}

fn rules(world: &World) -> String {
    std::fs::read_to_string(rules_file(world)).unwrap_or_default()
}

fn mock() -> Mock {
    Mock::start(&[("go", vec![bash("touch made"), say("Done.")])])
}

/// Returns true if the answers to the question about the rule are on the screen, as those to the proposal are.
fn asks_about_the_rule(screen: &str) -> bool {
    screen.matches("y yes  n no").count() >= 2
}

#[test]
fn always_in_exec_writes_a_rule_that_the_next_exec_uses() {
    let mock = mock();
    let world = World::with_openai(&mock.url());
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&world, &["exec", "go"]);
        viewer.sees("A always").await;
        viewer.types("A").await;
        let screen = viewer.sees("Save this rule to").await;
        assert!(screen.contains("program = \"touch\""), "{screen}");
        assert!(!rules_file(&world).exists(), "not before it is confirmed");
        viewer.sees_that("the question about the rule", asks_about_the_rule).await;
        viewer.types("y").await;
        viewer.sees("Done.").await;
        assert_eq!(viewer.ends().await, 0);
    });
    assert_eq!(rules(&world), RULE);
    std::fs::remove_file(world.work().join("made")).unwrap();
    let run = world.finish(&["exec", "go"]);
    assert_eq!(run.code, Some(0), "nobody is there to be asked: {run:?}");
    assert!(world.has("made"));
}

#[test]
fn an_unwritable_rule_leaves_the_proposal_open() {
    let mock = mock();
    let world = World::with_openai(&mock.url());
    std::fs::create_dir_all(rules_file(&world).parent().unwrap()).unwrap();
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&world, &["exec", "go"]);
        viewer.sees("A always").await;
        // A directory in place of the file: not even root can write it.
        std::fs::create_dir(rules_file(&world)).unwrap();
        viewer.types("A").await;
        viewer.sees_that("the question about the rule", asks_about_the_rule).await;
        viewer.types("y").await;
        viewer.sees("cannot write the rule, so the command is still pending").await;
        assert!(!world.has("made"));
        viewer.sees_that("the next question", |screen| screen.matches("Run it?").count() >= 2).await;
        viewer.types("s").await;
        viewer.ends().await;
    });
    assert!(!world.has("made"));
}

#[test]
fn always_in_the_tui_writes_a_rule_for_later_sessions() {
    let mock = mock();
    let world = World::with_openai(&mock.url());
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&world, &["go"]);
        viewer.reads_the_proposal().await;
        assert!(viewer.screen().contains("A always"), "{}", viewer.screen());
        viewer.types("A").await;
        let screen = viewer.sees("Enter save and run").await;
        assert!(screen.contains("program = \"touch\"") && screen.contains("rules.toml"), "{screen}");
        assert!(!rules_file(&world).exists() && !world.has("made"), "not before it is confirmed");
        viewer.types("\r").await;
        viewer.sees("Done.").await;
        assert_eq!(rules(&world), RULE);
        // Another session of the same process.
        std::fs::remove_file(world.work().join("made")).unwrap();
        viewer.types("/new\r").await;
        viewer.sees_that("a new session", |screen| !screen.contains("Done.")).await;
        viewer.types("go\r").await;
        viewer.sees("Done.").await;
        assert!(world.has("made"));
        viewer.types("\x04").await;
        assert_eq!(viewer.ends().await, 0);
    });
    // Another process.
    std::fs::remove_file(world.work().join("made")).unwrap();
    assert_eq!(world.finish(&["exec", "go"]).code, Some(0));
    assert!(world.has("made"));
    assert_eq!(rules(&world), RULE, "it is written once");
}

#[test]
fn always_on_a_server_writes_the_offered_rule() {
    let mock = Mock::start(&[
        ("go", vec![bash("touch made"), say("Done.")]),
        ("wipe", vec![bash("rm -rf /etc"), say("Wiped.")]),
    ]);
    let world = World::with_openai(&mock.url());
    let served = serve(&world, &[]);
    let id = served.session();
    let path = |what: &str| format!("/api/agent/sessions/{id}/{what}");
    let always = |call: &serde_json::Value| json!({"toolCallId": call, "decision": "allow_always"});
    let mut events = served.events(&id, 0);
    served.post(&path("messages"), &json!({"content": "wipe"}));
    let asked = events.until("approval.request").pop().unwrap();
    let (status, text) = served.post_as(&served.token, &path("decisions"), &always(&asked["toolCallId"]));
    assert_eq!((status, asked.get("always")), (400, None), "{text}");
    served.post(
        &path("decisions"),
        &json!({"toolCallId": asked["toolCallId"], "decision": "reject", "reason": "stop"}),
    );
    events.until("assistant.done");
    served.post(&path("messages"), &json!({"content": "go"}));
    let asked = events.until("approval.request").pop().unwrap();
    assert_eq!(asked["always"], RULE);
    assert!(asked["rulesFile"].as_str().unwrap().ends_with("rules.toml"), "{asked}");
    let run = world.finish(&["token", "create", "--name", "looks", "--scope", "read"]);
    let reader = run.out.split_whitespace().find(|word| word.starts_with("sysop_")).unwrap();
    assert_eq!(served.post_as(reader, &path("decisions"), &always(&asked["toolCallId"])).0, 403);
    assert!(!rules_file(&world).exists() && !world.has("made"));
    served.post(&path("decisions"), &always(&asked["toolCallId"]));
    let heard = events.until("assistant.done");
    let closed = heard.iter().find(|message| message["type"] == "approval.closed").unwrap();
    assert_eq!(closed["decision"], "allow");
    assert_eq!((rules(&world).as_str(), world.has("made")), (RULE, true));
    // Another session of the same server.
    let other = served.session();
    let mut events = served.events(&other, 0);
    served.post(&format!("/api/agent/sessions/{other}/messages"), &json!({"content": "go"}));
    let heard = events.until("assistant.done");
    assert!(heard.iter().all(|message| message["type"] != "approval.request"), "{heard:?}");
    assert!(heard.iter().any(|message| message["status"] == "ok"), "{heard:?}");
}

#[test]
fn an_attached_client_makes_the_server_write_the_rule() {
    let mock = mock();
    let world = World::with_openai(&mock.url());
    let served = serve(&world, &[]);
    let (id, here) = (served.session(), World::new());
    let url = format!("http://{}/?token={}", served.address, served.token);
    at_a_terminal(async {
        let mut viewer = Viewer::sits_down(&here, &["attach", &url, &id]);
        viewer.sees("Describe a task").await;
        viewer.types("go\r").await;
        viewer.reads_the_proposal().await;
        viewer.types("A").await;
        let screen = viewer.sees("Enter save and run").await;
        assert!(screen.contains("program = \"touch\""), "{screen}");
        viewer.types("\r").await;
        viewer.sees("Done.").await;
        viewer.types("\x04").await;
        viewer.ends().await;
    });
    assert_eq!((rules(&world).as_str(), world.has("made")), (RULE, true));
    assert!(!rules_file(&here).exists(), "the rules of the client are its own");
}
