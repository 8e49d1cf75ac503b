//! Property 13 of the agent-rs design: a history survives conversion to the API's form and back.

use proptest::prelude::*;

use super::*;

/// One round of a conversation: a prompt, steps that call tools, and an answer.
#[derive(Debug, Clone)]
struct Round {
    prompt: String,
    steps: Vec<(String, Vec<Step>)>,
    answer: String,
}

#[derive(Debug, Clone)]
struct Step {
    name: String,
    command: String,
    output: String,
    is_error: bool,
}

fn text() -> impl Strategy<Value = String> {
    "\\PC{1,20}|[\"\\\\{},\\[\\]\n\t ]{1,6}"
}

fn rounds() -> impl Strategy<Value = Vec<Round>> {
    let step = ("[a-z_][a-z0-9_]{0,12}", text(), text(), any::<bool>())
        .prop_map(|(name, command, output, is_error)| Step { name, command, output, is_error });
    let steps = prop::collection::vec(
        (prop_oneof![Just(String::new()), text()], prop::collection::vec(step, 1..4)),
        0..3,
    );
    let round = (text(), steps, text()).prop_map(|(prompt, steps, answer)| Round { prompt, steps, answer });
    prop::collection::vec(round, 1..4)
}

/// Returns the valid history of these rounds: it begins and ends with the user, and roles alternate.
fn history(rounds: &[Round]) -> Vec<Message> {
    let mut messages = Vec::new();
    for (index, round) in rounds.iter().enumerate() {
        messages.push(user(&round.prompt));
        for (text, steps) in &round.steps {
            let calls = steps.iter().map(|step| {
                let mut call = call("", &step.name);
                call.arguments =
                    Arguments::Object(json!({ "command": step.command }).as_object().unwrap().clone());
                call
            });
            let reply = Reply { text: text.clone(), calls: calls.collect(), ..Reply::default() };
            messages.push(Message::Assistant { reply });
            let results = steps.iter().map(|step| {
                let mut result = result("", &step.name);
                result.output.clone_from(&step.output);
                result.is_error = step.is_error;
                result
            });
            messages.push(Message::ToolResults { results: results.collect() });
        }
        if index + 1 < rounds.len() || !round.steps.is_empty() {
            messages.push(said(&round.answer));
        }
    }
    if matches!(messages.last(), Some(Message::Assistant { .. })) {
        messages.push(user("more"));
    }
    messages
}

/// Parses the API's form back into messages.
fn deserialized(contents: &Value) -> Vec<Message> {
    contents.as_array().unwrap().iter().map(message_of).collect()
}

fn message_of(content: &Value) -> Message {
    let parts = content["parts"].as_array().unwrap();
    let text: String = parts.iter().filter_map(|part| part["text"].as_str()).collect();
    match content["role"].as_str().unwrap() {
        "model" => {
            let calls = parts.iter().filter(|part| !part["functionCall"].is_null()).map(|part| {
                let mut call = call("", part["functionCall"]["name"].as_str().unwrap());
                call.arguments = Arguments::Object(part["functionCall"]["args"].as_object().unwrap().clone());
                call
            });
            Message::Assistant { reply: Reply { text, calls: calls.collect(), ..Reply::default() } }
        }
        "user" if parts[0].get("functionResponse").is_some() => {
            let results = parts.iter().map(|part| {
                let response = &part["functionResponse"];
                let mut result = result("", response["name"].as_str().unwrap());
                result.is_error = response["response"].get("error").is_some();
                let key = if result.is_error { "error" } else { "output" };
                result.output = response["response"][key].as_str().unwrap().to_owned();
                result
            });
            Message::ToolResults { results: results.collect() }
        }
        "user" => Message::user(text),
        other => panic!("unknown role: {other}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    // **Feature: agent-rs, Property 13: For any valid Vec<Message>, serializing it to Gemini API format and
    // deserializing back SHALL preserve the message count, roles, and content.**
    #[test]
    fn history_serialization_round_trip(rounds in rounds(), old in any::<bool>()) {
        let messages = history(&rounds);
        let model = if old { "gemini-2.5-flash" } else { "gemini-3.8-flash" };
        let body = body(&named(model, request(messages.clone())));
        prop_assert_eq!(deserialized(&body["contents"]), messages);
    }
}
