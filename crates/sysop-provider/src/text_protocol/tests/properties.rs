//! Properties that the agent-rs design requires, and further properties of the parser.

use proptest::prelude::{ProptestConfig, Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};
use serde::Serialize;
use serde_json::{Map, Number, Value, json};

use super::super::lenient_json::{DEPTH_MAX, read_whole};
use super::super::{ParsedReply, TextToolCall, parse, render_call};
use super::{all_tools, bash, calls_of};
use sysop_core::message::Arguments;

/// Tool call of the agent-rs design.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct SeedCall {
    tool: String,
    command: String,
}

impl SeedCall {
    fn of(parsed: ParsedReply) -> Option<Self> {
        let [call] = <[TextToolCall; 1]>::try_from(calls_of(parsed)).ok()?;
        let Arguments::Object(map) = call.arguments else { return None };
        (map.len() == 1)
            .then_some(Self { tool: call.name, command: map.get("command")?.as_str()?.to_owned() })
    }
}

fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<char>().prop_map(String::from),
        prop::sample::select(vec![
            "\"", "\\", "{", "}", "'", "\n", "```", "</tool_call>", "Observation:", "é", "\0"
        ])
        .prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

/// Any JSON whose keys belong to no call or answer.
fn other_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        proptest::strategy::Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| Number::from_f64(number).map_or(Value::Null, Value::Number)),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::vec(("[a-b\"'é]{0,3}", inner), 0..6)
                .prop_map(|pairs| Value::Object(Map::from_iter(pairs))),
        ]
    })
}

fn whole_call() -> impl Strategy<Value = String> {
    let shapes = prop::sample::select(vec![
        "{CALL}",
        "Let me look.\n{CALL}",
        "```json\n{CALL}\n```",
        "<tool_call>{CALL}</tool_call>",
        "[TOOL_CALLS][{CALL}]",
        "Sure: {CALL}",
    ]);
    let call = prop_oneof![
        any_text().prop_map(|command| json!({"type": "shell", "command": command, "reason": "r"})),
        any_text().prop_map(|command| json!({"tool": "run_cmd", "command": command})),
        any_text().prop_map(|path| json!({"name": "read_file", "arguments": {"path": path}})),
    ];
    (shapes, call).prop_map(|(shape, call)| shape.replace("{CALL}", &call.to_string()))
}

/// Returns true if random tokens may form a call: a shell block, or a tool name after Mistral's mark.
fn may_be_a_call(text: &str) -> bool {
    let text = text.replace(char::is_whitespace, "");
    let named = text.split("[TOOL_CALLS]").skip(1).any(|rest| rest.starts_with(char::is_alphanumeric));
    named || text.contains("```shell")
}

/// Text that holds no valid tool call by construction.
fn no_call() -> impl Strategy<Value = String> {
    let tokens = vec![
        "{", "}", "[", "]", "\"", "'", ":", ",", "type", "shell", "tool", "name", "function", "<tool_call>",
        "</tool_call>", "[TOOL_CALLS]", "functools", "```", "\n```\n", "```json\n", "\n", "Observation:",
        " ", "\\", "<think>", "</think>", "\"type\":\"shell\"", "{\"name\":", "0", "true", "é",
    ];
    prop_oneof![
        any_text().prop_map(|text| text.replace('{', "(")),
        prop::collection::vec(prop::sample::select(tokens), 0..60)
            .prop_map(|tokens| tokens.concat())
            .prop_filter("a call by chance", |text| !may_be_a_call(text)),
        other_json().prop_map(|value| value.to_string()),
        other_json()
            .prop_map(|value| format!("Here it is:\n```json\n{value:#}\n```\nAs you see, it is JSON.")),
        (any_text(), 1_usize..40).prop_map(|(command, cut)| {
            let call = json!({"tool": "run_cmd", "command": command}).to_string();
            let end = call.floor_char_boundary(call.len().saturating_sub(cut));
            call[..end].to_owned()
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    // **Feature: agent-rs, Property 3: For any valid ToolCall struct, serializing it to JSON and parsing it back SHALL
    // produce an equivalent ToolCall.**
    #[test]
    fn tool_call_parsing_round_trip(tool in any_text(), command in any_text()) {
        let call = SeedCall { tool, command };
        let compact = serde_json::to_string(&call).expect("strings serialize");
        let pretty = serde_json::to_string_pretty(&call).expect("strings serialize");
        for reply in [compact.clone(), pretty.clone(), format!("```json\n{pretty}\n```"), format!("```\n{compact}\n```\n")] {
            prop_assert_eq!(SeedCall::of(parse(&reply, &[], true)), Some(call.clone()), "from {}", reply);
        }
    }

    // **Feature: agent-rs, Property 3: For any valid ToolCall struct, serializing it to JSON and parsing it back SHALL
    // produce an equivalent ToolCall.**
    #[test]
    fn tool_call_reaches_the_offered_shell_with_the_same_command(command in any_text()) {
        let call = SeedCall { tool: "run_cmd".to_owned(), command };
        let reply = serde_json::to_string(&call).expect("strings serialize");
        let expected = SeedCall { tool: "bash".to_owned(), command: call.command };
        for fences in [true, false] {
            prop_assert_eq!(SeedCall::of(parse(&reply, &[bash()], fences)), Some(expected.clone()));
        }
    }

    // **Feature: agent-rs, Property 4: For any AI response string that does not contain valid tool call JSON, the
    // response SHALL be added to message history as a Model message and state SHALL transition to Input.**
    #[test]
    fn non_tool_response_is_an_answer_with_the_same_text(text in no_call()) {
        for fences in [true, false] {
            prop_assert_eq!(parse(&text, &all_tools(), fences), ParsedReply::Answer(text.clone()));
        }
    }

    #[test]
    fn a_truncated_reply_never_yields_a_different_call(reply in whole_call(), cut in any::<prop::sample::Index>()) {
        for fences in [true, false] {
            let whole = calls_of(parse(&reply, &all_tools(), fences));
            prop_assert_eq!(whole.len(), 1, "{}", reply);
            let part = &reply[..reply.floor_char_boundary(cut.index(reply.len()))];
            match parse(part, &all_tools(), fences) {
                ParsedReply::Answer(text) => prop_assert_eq!(text, part),
                ParsedReply::Calls { calls, .. } => prop_assert_eq!(calls, whole),
            }
        }
    }

    #[test]
    fn history_text_round_trips(command in any_text(), reason in any_text(), path in any_text()) {
        let arguments = |value: Value| Arguments::Object(value.as_object().expect("an object").clone());
        let calls = [
            TextToolCall { name: "bash".to_owned(), arguments: arguments(json!({"command": command, "reason": reason})) },
            TextToolCall { name: "read_file".to_owned(), arguments: arguments(json!({"path": path})) },
            TextToolCall { name: "read_file".to_owned(), arguments: Arguments::Invalid("not json".to_owned()) },
        ];
        for call in calls {
            for fences in [true, false] {
                let read = calls_of(parse(&render_call(&call), &all_tools(), fences));
                prop_assert_eq!(&read, std::slice::from_ref(&call));
            }
        }
    }

    #[test]
    fn the_reader_agrees_with_serde(value in other_json()) {
        let value = json!({ "v": value });
        prop_assert_eq!(read_whole(&value.to_string()), Some(value.clone()));
        prop_assert_eq!(read_whole(&format!(" {value:#}\n")), Some(value));
    }
}

#[test]
fn nesting_depth_is_bounded() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(read_whole(&nested(DEPTH_MAX)).is_some());
    assert!(read_whole(&nested(DEPTH_MAX + 1)).is_none());
    let call = r#"{"tool":"run_cmd","command":"ls"}"#;
    let buried = format!("{}\n{call}\n", "{\"a\":".repeat(DEPTH_MAX));
    assert_eq!(parse(&buried, &all_tools(), true), ParsedReply::Answer(buried.clone()));
}
