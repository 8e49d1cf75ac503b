//! The instructions for a model, and the schema that constrains its replies.

use expect_test::expect;
use serde_json::{Value, json};

use super::super::{TextToolCall, instructions, render_call, render_results, schema};
use super::{all_tools, calls_of, offered, read_file, send_keys, shown};
use sysop_core::id::CallId;
use sysop_core::message::{Arguments, CallEnd, ToolResult};

/// Bytes per two tokens. Models of this size were measured to use at least 3.5 bytes per token of such text.
const TOKEN_BYTES: usize = 7;

fn result(name: &str, output: &str, is_error: bool) -> ToolResult {
    ToolResult {
        call: CallId::new("c1"),
        wire_id: None,
        name: name.to_owned(),
        output: output.to_owned(),
        is_error,
        end: CallEnd::Done,
        images: Vec::new(),
    }
}

#[test]
fn the_shell_prompt_is_short() {
    let text = instructions(&all_tools());
    assert!(text.len() * 2 / TOKEN_BYTES < 420, "{} bytes", text.len());
    assert!(!text.contains("read_file"), "the shell form is enough");
    let replies: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("Reply: ")).collect();
    let read: Vec<String> = replies.iter().map(|reply| shown(&offered(reply))).collect();
    expect![[r#"
        [
            "bash {\"command\":\"df -h /\",\"reason\":\"Show disk usage\"}",
            "answer: The disk is 27% full.",
            "bash {\"command\":\"grep ':/bin/bash$' /etc/passwd | cut -d: -f1 >report/bash.txt && cat report/bash.txt\",\"reason\":\"Write the names into the file and check it\"}",
            "bash {\"command\":\"mkdir -p report && grep ':/bin/bash$' /etc/passwd | cut -d: -f1 >report/bash.txt && cat report/bash.txt\",\"reason\":\"The folder was missing\"}",
            "answer: The names are in report/bash.txt; the folder report is new.",
            "answer: 4",
        ]
    "#]]
    .assert_debug_eq(&read);
    assert_eq!(text, instructions(&all_tools()));
}

#[test]
fn other_tools_are_listed() {
    let tools = [read_file(), send_keys()];
    expect![[r#"
        Reply with exactly one JSON object and nothing else. Either call one tool and wait for its result:
        {"name":"TOOL","arguments":{}}
        or answer the user:
        {"type":"answer","text":"TEXT"}
        Never invent results. An answer changes nothing: to change something, call a tool that does it.

        Tools:
        - read_file(path, lines?): Does read_file
        - send_keys(keys): Does send_keys

        Example:
        Reply: {"name":"read_file","arguments":{"path":"PATH"}}
        User: Observation: (its result)
        Reply: {"type":"answer","text":"Here is what I found."}

        Example:
        User: What is 2+2?
        Reply: {"type":"answer","text":"4"}
    "#]]
    .assert_eq(&instructions(&tools));
}

#[test]
fn without_tools_the_schema_allows_only_an_answer() {
    assert!(instructions(&[]).contains(r#"{"type":"answer","text":"TEXT"}"#));
    let schema = jsonschema::validator_for(&schema(&[], false)).expect("a valid schema");
    assert!(schema.is_valid(&json!({"type": "answer", "text": "x"})));
    assert!(!schema.is_valid(&json!({"type": "shell", "command": "ls", "reason": "x"})));
}

#[test]
fn the_schema_allows_no_answer_if_a_call_must_follow() {
    for (tools, call) in [
        (all_tools(), json!({"type": "shell", "command": "ls", "reason": "look"})),
        (vec![read_file()], json!({"name": "read_file", "arguments": {"path": "a"}})),
    ] {
        let schema = jsonschema::validator_for(&schema(&tools, true)).expect("a valid schema");
        assert!(schema.is_valid(&call));
        assert!(!schema.is_valid(&json!({"type": "answer", "text": "done"})));
    }
    let without = jsonschema::validator_for(&schema(&[], true)).expect("a valid schema");
    assert!(without.is_valid(&json!({"type": "answer", "text": "done"})), "nothing can be called");
}

#[test]
fn the_schema_allows_only_the_documented_replies() {
    let shell = jsonschema::validator_for(&schema(&all_tools(), false)).expect("a valid schema");
    let good = [
        json!({"type": "shell", "command": "ls", "reason": "look"}),
        json!({"type": "answer", "text": "done"}),
    ];
    let bad = [
        json!({"type": "shell", "reason": "look"}),
        json!({"type": "shell", "command": 1, "reason": "look"}),
        json!({"type": "answer"}),
        json!({"type": "answer", "text": "x", "command": "ls"}),
        json!({"name": "read_file", "arguments": {"path": "a"}}),
        json!("ls"),
    ];
    assert!(good.iter().all(|value| shell.is_valid(value)));
    assert!(!bad.iter().any(|value| shell.is_valid(value)));

    let listed = schema(&[read_file(), send_keys()], false);
    let validator = jsonschema::validator_for(&listed).expect("a valid schema");
    assert!(validator.is_valid(&json!({"name": "read_file", "arguments": {"path": "a", "lines": [1]}})));
    assert!(!validator.is_valid(&json!({"name": "read_file", "arguments": {"keys": "q"}})));
    assert!(!validator.is_valid(&json!({"name": "write_file", "arguments": {}})));
    for word in ["minimum", "maxItems", "$ref", "description"] {
        assert!(!listed.to_string().contains(word), "grammars do not support {word}");
    }
}

#[test]
fn calls_and_results_are_written_as_in_the_examples() {
    let arguments = json!({"command": "ls \"a\"", "reasoning": "look"});
    let Value::Object(arguments) = arguments else { panic!("an object") };
    let call = TextToolCall { name: "run_command".to_owned(), arguments: Arguments::Object(arguments) };
    assert_eq!(render_call(&call), r#"{"type":"shell","command":"ls \"a\"","reason":"look"}"#);
    assert_eq!(calls_of(offered(&render_call(&call))).len(), 1);

    expect![[r#"
        Observation: a.txt
        b.txt

        Is everything done that the user asked for? If so, answer with {"type":"answer","text":"TEXT"} and use only what the observations say. If not, make the next call."#]].assert_eq(&render_results(&[result("bash", "a.txt\nb.txt\n", false)]));
    let failed = ToolResult {
        end: CallEnd::Failed,
        ..result("bash", "cat: c.txt: No such file\n[exit code 1]", false)
    };
    expect![[r#"
        Observation: cat: c.txt: No such file
        [exit code 1]

        This failed, so the task is not done. Find out why, or try another way; do not repeat the call."#]]
    .assert_eq(&render_results(&[failed]));
    for (end, advice) in [
        (CallEnd::Refused, "This was not done, or not to its end. Do not try it another way."),
        (CallEnd::Unfinished, "Find out what it has done, then go on or try another way."),
    ] {
        let shown = render_results(&[ToolResult { end, ..result("bash", "no result", true) }]);
        assert!(shown.contains(advice), "{shown}");
    }
    let several = render_results(&[result("bash", "", false), result("read_file", "no such file", true)]);
    assert!(several.starts_with(
        "Observation:\n[bash] (nothing was printed)\n[read_file] the call failed: no such file\n\n"
    ));
}
