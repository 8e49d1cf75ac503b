//! Forms and images: what an editor may show beyond text and permissions.

use serde_json::{Value, json};

use super::{Editor, texts};
use crate::World;
use crate::support::{Mock, bash, call, say};

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sysop-mcp/tests/it/server.py");

fn forms() -> Value {
    json!({ "elicitation": { "form": {} } })
}

/// Option ids of a permission request.
fn options(request: &Value) -> Vec<&str> {
    let options = request["params"]["options"].as_array().unwrap();
    options.iter().map(|option| option["optionId"].as_str().unwrap()).collect()
}

#[test]
fn a_command_is_edited_in_a_form_before_it_runs() {
    let mock = Mock::start(&[("make", vec![bash("touch made"), say("Ended.")])]);
    let world = World::with_openai(&mock.url());
    let mut editor = Editor::start_with(&world, &[], forms());
    let (session, _) = editor.open(&world);
    let prompt = editor.prompt(&session, "make it");
    let request = editor.permission();
    assert_eq!(options(&request), ["once", "session", "edit", "reject"]);
    editor.select(&request, "edit");
    let form = editor.form();
    assert_eq!(form["params"]["requestedSchema"]["properties"]["command"]["default"], "touch made");
    assert_eq!(form["params"]["toolCallId"], request["params"]["toolCall"]["toolCallId"]);
    editor.fill_in(&form, json!({ "action": "accept", "content": { "command": "touch other" } }));
    let started = editor.next("the start", |message| message["params"]["update"]["status"] == "in_progress");
    assert_eq!(started["params"]["update"]["title"], "touch other");
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
    editor.leave();
    assert!(world.has("other") && !world.has("made"));
}

#[test]
fn a_form_that_is_declined_asks_again_and_only_without_the_option_to_edit() {
    let mock = Mock::start(&[("make", vec![bash("touch made"), say("Ended.")])]);
    let world = World::with_openai(&mock.url());
    for refusal in [
        json!({ "action": "decline" }),
        json!({ "action": "cancel" }),
        json!({ "action": "accept", "content": { "command": " " } }),
    ] {
        let mut editor = Editor::start_with(&world, &[], forms());
        let (session, _) = editor.open(&world);
        let prompt = editor.prompt(&session, "make it");
        let request = editor.permission();
        editor.select(&request, "edit");
        let form = editor.form();
        editor.fill_in(&form, refusal);
        let again = editor.permission();
        assert_eq!(options(&again), ["once", "session", "reject"]);
        editor.select(&again, "reject");
        assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
        editor.leave();
    }
    assert!(!world.has("made"));
}

#[test]
fn editing_is_not_offered_without_forms_and_then_rejects() {
    let mock = Mock::start(&[("make", vec![bash("touch made"), say("Ended.")])]);
    let world = World::with_openai(&mock.url());
    let mut editor = Editor::start(&world, &[]);
    let (session, _) = editor.open(&world);
    let prompt = editor.prompt(&session, "make it");
    let request = editor.permission();
    assert_eq!(options(&request), ["once", "session", "reject"]);
    editor.select(&request, "edit");
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
    editor.leave();
    assert!(!world.has("made"));
}

/// A world with an MCP server that asks a question during its call.
fn world_that_asks(mock: &Mock) -> World {
    let world = World::with_openai(&mock.url());
    let run = world.finish(&["mcp", "add", "test", "--", "python3", SERVER, "asks", "x"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    world
}

#[test]
fn a_question_of_a_server_is_a_form_of_the_editor() {
    let mock = Mock::start(&[("act", vec![call("mcp__test__act", json!({ "text": "" })), say("Ended.")])]);
    let world = world_that_asks(&mock);
    for (answer, expected) in [
        (json!({ "action": "accept", "content": { "answer": "yes" } }), r#"{\"action\": \"accept\""#),
        (json!({ "action": "decline" }), r#"{\"action\": \"decline\""#),
    ] {
        let mut editor = Editor::start_with(&world, &[], forms());
        let (session, _) = editor.open(&world);
        let prompt = editor.prompt(&session, "act");
        let request = editor.permission();
        assert_eq!(options(&request), ["once", "session", "reject"], "a call of a server is no command");
        editor.select(&request, "once");
        let form = editor.form();
        let message = form["params"]["message"].as_str().unwrap();
        assert!(message.starts_with("MCP server test asks:\nAre you sure?"), "{message}");
        assert!(message.contains("Do not enter passwords"), "{message}");
        editor.fill_in(&form, answer);
        assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
        editor.leave();
        assert!(mock.last_body().to_string().contains(expected), "{}", mock.last_body());
    }
}

#[test]
fn a_question_that_the_editor_cannot_show_is_declined_with_a_message() {
    let mock = Mock::start(&[("act", vec![call("mcp__test__act", json!({ "text": "" })), say("Ended.")])]);
    let world = world_that_asks(&mock);
    let mut editor = Editor::start(&world, &[]);
    let (session, _) = editor.open(&world);
    let prompt = editor.prompt(&session, "act");
    let request = editor.permission();
    editor.select(&request, "once");
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
    let text = texts(&editor.leave(), &session, "agent_message_chunk");
    assert!(text.contains("MCP server test asks `Are you sure?"), "{text}");
    assert!(mock.last_body().to_string().contains("decline"), "{}", mock.last_body());
}

#[test]
fn images_of_a_prompt_reach_models_that_see_them() {
    let mock = Mock::start(&[("look", vec![say("A red light.")])]);
    let config = "[models.\"openai/test-model\"]\nvision = true\n";
    let world = World::with_openai(&mock.url()).file(".config/sysop/config.toml", config);
    let mut editor = Editor::start(&world, &[]);
    let (session, _) = editor.open(&world);
    let send = |editor: &mut Editor, data: &str| {
        let image =
            json!({ "type": "image", "data": data, "mimeType": "image/png", "uri": "file:///tmp/a.png" });
        let prompt = json!([{ "type": "text", "text": "look" }, image]);
        editor.call("session/prompt", json!({ "sessionId": session, "prompt": prompt }))
    };
    // The header of a PNG file of 5 by 4 pixels; sysop reads no more of it.
    let png = "iVBORw0KGgoAAAANSUhEUgAAAAUAAAAECAIAAAA=";
    assert_eq!(send(&mut editor, png)["result"]["stopReason"], "end_turn");
    let body = mock.last_body().to_string();
    assert!(body.contains(&format!("data:image/png;base64,{png}")), "{body}");
    let refused = send(&mut editor, "AAAA");
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("not a PNG"), "{refused}");
    editor.leave();
}
