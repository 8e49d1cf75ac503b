//! Replies as small models write them, one by one.

use super::super::{ParsedReply, parse};
use super::{all_tools, bash, native, offered, read_file, run_command, send_keys, shown};

/// Expected parse of a reply, for a model that was offered the protocol and for one with native tools.
struct Case {
    name: &'static str,
    reply: &'static str,
    offered: &'static str,
    native: &'static str,
}

/// Expectation for a reply that is returned unchanged.
const ANSWER: &str = "(unchanged)";

const LS: &str = r#"bash {"command":"ls"}"#;

const fn both(name: &'static str, reply: &'static str, expected: &'static str) -> Case {
    Case { name, reply, offered: expected, native: expected }
}

const fn apart(name: &'static str, reply: &'static str, offered: &'static str, native: &'static str) -> Case {
    Case { name, reply, offered, native }
}

fn check(cases: &[Case]) {
    let mut wrong = Vec::new();
    for case in cases {
        for (mode, parsed, expected) in
            [("offered", offered(case.reply), case.offered), ("native", native(case.reply), case.native)]
        {
            let expected =
                if expected == ANSWER { format!("answer: {}", case.reply) } else { expected.to_owned() };
            if shown(&parsed) != expected {
                wrong.push(format!(
                    "{} ({mode})\n  expected {expected}\n  read     {}",
                    case.name,
                    shown(&parsed)
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_form_of_a_call_is_parsed() {
    check(&[
        both(
            "Jexida shell",
            r#"{"type":"shell","command":"ls","reason":"look"}"#,
            r#"bash {"command":"ls","reason":"look"}"#,
        ),
        both("Jexida answer", r#"{"type":"answer","text":"The sky is blue."}"#, "answer: The sky is blue."),
        both("pretty printed", "{\n  \"type\": \"shell\",\n  \"command\": \"ls\"\n}\n", LS),
        both("answer that is a number", r#"{"type":"answer","text":4}"#, "answer: 4"),
        both("agent-rs", r#"{"tool": "run_cmd", "command": "ls"}"#, LS),
        both("agent-rs with a reason", r#"{"tool":"run_cmd","command":"ls","explanation":"x"}"#, LS),
        both("tool and args", r#"{"tool":"read_file","args":{"path":"a"}}"#, r#"read_file {"path":"a"}"#),
        both("tool, flat", r#"{"tool":"read_file","path":"a"}"#, r#"read_file {"path":"a"}"#),
        both("name and arguments", r#"{"name":"bash","arguments":{"command":"ls"}}"#, LS),
        both("name and parameters", r#"{"name":"bash","parameters":{"command":"ls"}}"#, LS),
        both("llama 3 function", r#"{"type":"function","name":"bash","parameters":{"command":"ls"}}"#, LS),
        both(
            "OpenAI function",
            r#"{"type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}"#,
            LS,
        ),
        both(
            "OpenAI tool_calls",
            r#"{"tool_calls":[{"id":"c1","function":{"name":"bash","arguments":{"command":"ls"}}}]}"#,
            LS,
        ),
        both("arguments as text", r#"{"name":"bash","arguments":"{\"command\": \"ls\"}"}"#, LS),
        both(
            "arguments one level down",
            r#"{"name":"bash","arguments":{"parameters":{"command":"ls"}}}"#,
            LS,
        ),
        both("arguments as empty text", r#"{"name":"read_file","arguments":""}"#, "read_file {}"),
        both(
            "arguments that are no object",
            r#"{"name":"read_file","arguments":"a.txt"}"#,
            "read_file invalid a.txt",
        ),
        both(
            "hermes",
            "<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}\n</tool_call>",
            LS,
        ),
        both("hermes, not closed", "<tool_call>{\"name\":\"bash\",\"arguments\":{\"command\":\"ls\"}}", LS),
        both("qwen coder", "<tools>\n{\"name\":\"bash\",\"arguments\":{\"command\":\"ls\"}}\n</tools>", LS),
        both("mistral", r#"[TOOL_CALLS][{"name":"bash","arguments":{"command":"ls"}}]"#, LS),
        both("mistral, newer", r#"[TOOL_CALLS]bash{"command":"ls"}"#, LS),
        both("mistral, newest", r#"[TOOL_CALLS]bash[ARGS]{"command":"ls"}"#, LS),
        both(
            "phi 4 mini",
            r#"<|tool_call|>[{"name":"bash","arguments":{"command":"ls"}}]<|/tool_call|>"#,
            LS,
        ),
        both("phi 4 functools", r#"functools[{"name":"bash","arguments":{"command":"ls"}}]"#, LS),
        both("llama function mark", r#"<function=bash>{"command":"ls"}</function>"#, LS),
        both("llama python tag", r#"<|python_tag|>{"name":"bash","parameters":{"command":"ls"}}"#, LS),
        both("fenced json", "```json\n{\"type\":\"shell\",\"command\":\"ls\"}\n```", LS),
        both("fenced, no language", "```\n{\"type\":\"shell\",\"command\":\"ls\"}\n```\n", LS),
        both("fenced on one line", "```json {\"type\":\"shell\",\"command\":\"ls\"} ```", LS),
        both("fenced, never closed", "```json\n{\"type\":\"shell\",\"command\":\"ls\"}\n", LS),
        both("json in a bash fence", "```bash\n{\"type\":\"shell\",\"command\":\"ls\"}\n```", LS),
        both("in backticks", "`{\"type\":\"shell\",\"command\":\"ls\"}`", LS),
        both(
            "a name of its own for the shell",
            r#"{"name":"execute_command","arguments":{"command":"ls"}}"#,
            LS,
        ),
        both("name with a prefix", r#"{"name":"functions.Bash","arguments":{"command":"ls"}}"#, LS),
    ]);
}

#[test]
fn text_around_calls_is_kept() {
    check(&[
        both(
            "a sentence before",
            "I will list the files.\n\n{\"type\":\"shell\",\"command\":\"ls\"}",
            "I will list the files. => bash {\"command\":\"ls\"}",
        ),
        both(
            "a sentence on the line",
            "Sure: {\"type\":\"shell\",\"command\":\"ls\"}",
            "Sure: => bash {\"command\":\"ls\"}",
        ),
        both(
            "a sentence before a fence",
            "Let me look.\n```json\n{\"tool\":\"run_cmd\",\"command\":\"ls\"}\n```\nThis lists the files.",
            "Let me look. => bash {\"command\":\"ls\"}",
        ),
        both("prose behind on the line", r#"{"tool":"run_cmd","command":"ls"} That lists them."#, LS),
        both(
            "several",
            "{\"tool\":\"run_cmd\",\"command\":\"ls\"}\n{\"name\":\"send_keys\",\"arguments\":{\"keys\":\"q\"}}",
            r#"bash {"command":"ls"} ; send_keys {"keys":"q"}"#,
        ),
        both(
            "several on one line",
            r#"{"tool":"run_cmd","command":"ls"}, {"tool":"run_cmd","command":"pwd"}"#,
            r#"bash {"command":"ls"} ; bash {"command":"pwd"}"#,
        ),
        both(
            "an array",
            r#"[{"tool":"run_cmd","command":"ls"},{"tool":"run_cmd","command":"pwd"}]"#,
            r#"bash {"command":"ls"} ; bash {"command":"pwd"}"#,
        ),
        both(
            "two hermes calls",
            "<tool_call>{\"name\":\"bash\",\"arguments\":{\"command\":\"ls\"}}</tool_call>\n<tool_call>{\"name\":\"bash\",\"arguments\":{\"command\":\"pwd\"}}</tool_call>",
            r#"bash {"command":"ls"} ; bash {"command":"pwd"}"#,
        ),
        both(
            "a call and an answer",
            "{\"type\":\"shell\",\"command\":\"ls\"}\n{\"type\":\"answer\",\"text\":\"Done.\"}",
            "Done. => bash {\"command\":\"ls\"}",
        ),
        both(
            "two answers",
            "{\"type\":\"answer\",\"text\":\"One.\"}\n{\"type\":\"answer\",\"text\":\"Two.\"}",
            "answer: One.\n\nTwo.",
        ),
        both(
            "the same answer again and again",
            "{\"type\":\"answer\",\"text\":\"One.\"}\n{\"type\":\"answer\",\"text\":\"One.\"}",
            "answer: One.",
        ),
        both(
            "an answer with prose",
            "Well.\n{\"type\":\"answer\",\"text\":\"One.\"}\nBye.",
            "answer: Well.\n\nOne.\n\nBye.",
        ),
    ]);
}

#[test]
fn invented_results_after_calls_are_dropped() {
    check(&[
        both(
            "an invented result",
            "{\"tool\":\"run_cmd\",\"command\":\"ls\"}\nObservation: a b c\n{\"tool\":\"run_cmd\",\"command\":\"rm a\"}",
            LS,
        ),
        both(
            "an invented result, long",
            concat!(
                "{\"tool\":\"run_cmd\",\"command\":\"ls\"}\n**Observation**: ",
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
            ),
            LS,
        ),
        both(
            "an invented result behind a mark",
            "<tool_call>{\"name\":\"bash\",\"arguments\":{\"command\":\"ls\"}}</tool_call>\n<tool_response>\n{\"name\":\"bash\",\"arguments\":{\"command\":\"pwd\"}}",
            LS,
        ),
        both(
            "an invented result in an open fence",
            "```json\n{\"tool\":\"run_cmd\",\"command\":\"ls\"}\nObservation: x",
            LS,
        ),
        both(
            "reasoning first",
            "<think>maybe {\"tool\":\"run_cmd\",\"command\":\"rm x\"}\n</think>\n{\"tool\":\"run_cmd\",\"command\":\"ls\"}",
            LS,
        ),
        both(
            "reasoning without its opening",
            "{\"tool\":\"run_cmd\",\"command\":\"rm x\"} or so\n</think>\n{\"tool\":\"run_cmd\",\"command\":\"ls\"}",
            LS,
        ),
        both("reasoning that never ends", "<think>\n{\"tool\":\"run_cmd\",\"command\":\"rm x\"}", ANSWER),
        both(
            "a list",
            "1. {\"tool\":\"run_cmd\",\"command\":\"ls\"}\n2. {\"tool\":\"run_cmd\",\"command\":\"pwd\"}",
            "1.\n\n2. => bash {\"command\":\"ls\"} ; bash {\"command\":\"pwd\"}",
        ),
    ]);
}

#[test]
fn broken_and_truncated_json_is_handled() {
    check(&[
        both("single quotes", "{'type': 'shell', 'command': 'ls'}", LS),
        both("trailing commas", "{\"type\":\"shell\",\"command\":\"ls\",}", LS),
        both(
            "Python words",
            "{'name': 'read_file', 'arguments': {'path': 'a', 'lines': None}}",
            r#"read_file {"path":"a","lines":null}"#,
        ),
        both(
            "a line break in a string",
            "{\"type\":\"shell\",\"command\":\"a\nb\"}",
            r#"bash {"command":"a\nb"}"#,
        ),
        both(
            "an escape that JSON lacks",
            r#"{"type":"shell","command":"grep '\.txt$' \$HOME it\'s"}"#,
            r#"bash {"command":"grep '\\.txt$' \\$HOME it's"}"#,
        ),
        both(
            "braces in a string",
            r#"{"type":"shell","command":"awk '{print \"}\"}' {a,b}"}"#,
            r#"bash {"command":"awk '{print \"}\"}' {a,b}"}"#,
        ),
        both(
            "escapes",
            r#"{"type":"shell","command":"echo \u00e9\ud83e\udd80\t\\n\/"}"#,
            r#"bash {"command":"echo é🦀\t\\n/"}"#,
        ),
        both("doubled braces", r#"{{"type":"shell","command":"ls"}}"#, ANSWER),
        both("cut in the command", r#"{"type":"shell","command":"rm -rf /tmp"#, ANSWER),
        both("cut before the brace", r#"{"type":"shell","command":"rm -rf /tmp""#, ANSWER),
        both("cut answer", r#"{"type":"answer","text":"The disk is"#, ANSWER),
        both(
            "cut around a whole call",
            r#"{"tool_calls":[{"name":"bash","arguments":{"command":"ls"}}"#,
            ANSWER,
        ),
        both(
            "cut around a whole call, pretty",
            "{\"tool_calls\": [\n  {\"name\":\"bash\",\"arguments\":{\"command\":\"rm x\"}}\n",
            ANSWER,
        ),
        both(
            "cut in an unknown object",
            "{\"steps\": [\n{\"tool\":\"run_cmd\",\"command\":\"rm x\"}\n",
            ANSWER,
        ),
        both("cut in marks", r#"<tool_call>{"name":"bash","arguments":{"command":"ls"}"#, ANSWER),
        both(
            "second call cut",
            "{\"tool\":\"run_cmd\",\"command\":\"ls\"}\n{\"tool\":\"run_cmd\",\"command\":\"rm",
            LS,
        ),
        both("unescaped quotes in the command", r#"{"type":"shell","command":"echo "hi" > f"}"#, ANSWER),
        both(
            "a call inside a broken answer",
            "{\"type\":\"answer\",\"text\":\"He said \"hi\".\n{\"type\":\"shell\",\"command\":\"rm x\"}\n\"}",
            ANSWER,
        ),
        both("shell without a command", r#"{"type":"shell","reason":"x"}"#, ANSWER),
        both("command that is no text", r#"{"type":"shell","command":["ls"]}"#, ANSWER),
        both("empty object", "{}", ANSWER),
        both("empty array", "[]", ANSWER),
        both("nothing", "", ANSWER),
        both("blank lines without end", "\n\n\n\n\n\n", ANSWER),
    ]);
}

#[test]
fn quotations_are_answers() {
    check(&[
        both(
            "in the middle of a line",
            r#"If you send {"type":"shell","command":"rm x"} to me, I run it."#,
            ANSWER,
        ),
        both("in an inline code span", "The form is `{\"type\":\"shell\",\"command\":\"rm x\"}`.\n", ANSWER),
        both(
            "one of two on a line",
            r#"either {"tool":"run_cmd","command":"a"} or {"tool":"run_cmd","command":"b"}"#,
            ANSWER,
        ),
        both(
            "in Python",
            "```python\ncall = {\"tool\": \"run_cmd\", \"command\": \"rm x\"}\n{\"tool\":\"run_cmd\",\"command\":\"rm x\"}\n```",
            ANSWER,
        ),
        both(
            "in Markdown in a longer fence",
            "````markdown\n```\n{\"tool\":\"run_cmd\",\"command\":\"rm x\"}\n```\n````\nSo it is written.",
            ANSWER,
        ),
        both(
            "with other text in a fence",
            "```\n> {\"tool\":\"run_cmd\",\"command\":\"rm x\"}\n< ok\n```",
            ANSWER,
        ),
        both("as a value", r#"{"example": {"tool":"run_cmd","command":"rm x"}}"#, ANSWER),
        both("as a part of an expression", r#"const x = {"tool":"run_cmd","command":"rm x"}"#, ANSWER),
        both(
            "as a member",
            "The file holds\n  \"call\": {\"tool\":\"run_cmd\",\"command\":\"rm x\"}\n",
            ANSWER,
        ),
        both(
            "a blank form",
            "I was told:\n{\"tool\": \"run_cmd\", \"command\": \"<shell command here>\"}\n",
            ANSWER,
        ),
    ]);
}

#[test]
fn text_that_resembles_a_call_is_an_answer() {
    check(&[
        both("JSON about other things", r#"{"name":"Alice","age":7,"tool":{"x":1}}"#, ANSWER),
        both("a hammer", r#"The shop has {"tool":"hammer","price":5}"#, ANSWER),
        both("C code", "for (;;) { [0] = {1}; } // {\"", ANSWER),
        both("only an invented result", "Observation: {\"a\": 1}", ANSWER),
        both(
            "prose about tool-call tags",
            "Hermes writes `<tool_call>{\"name\":\"bash\",\"arguments\":{\"command\":\"ls\"}}</tool_call>` for a call.",
            ANSWER,
        ),
        apart(
            "announced as an example",
            "For example, the format would be:\n{\"tool\":\"run_cmd\",\"command\":\"ls\"}\n",
            "For example, the format would be: => bash {\"command\":\"ls\"}",
            ANSWER,
        ),
        apart(
            "in the middle of an explanation",
            concat!(
                "The agent speaks JSON:\n```json\n{\"type\":\"shell\",\"command\":\"ls\"}\n```\n",
                "The `type` says what is wanted. With `shell`, the command in `command` is shown to the person, who can ",
                "edit it, allow it or refuse it. With `answer`, the text is shown and the turn ends. Anything else is ",
                "shown as it is, so that nothing is lost when the model forgets its manners."
            ),
            "The agent speaks JSON: => bash {\"command\":\"ls\"}",
            ANSWER,
        ),
        apart(
            "a name that nobody offered",
            r#"{"name":"web_search","arguments":{"q":"x"}}"#,
            r#"web_search {"q":"x"}"#,
            ANSWER,
        ),
        apart(
            "an unknown tool, marked",
            "<tool_call>{\"name\":\"web\",\"arguments\":{}}</tool_call>",
            "web {}",
            ANSWER,
        ),
        both(
            "an unknown name beside text",
            "This is the file:\n```json\n{\"name\":\"web\",\"parameters\":{}}\n```",
            ANSWER,
        ),
    ]);
}

#[test]
fn fenced_shell_blocks_are_calls() {
    check(&[
        apart(
            "bash",
            "Let me see.\n```bash\nls\n```\nThis lists files.",
            "Let me see. => bash {\"command\":\"ls\"}",
            ANSWER,
        ),
        apart(
            "sh, indented",
            "1. Run\n   ```sh\n   cd /tmp\n     ls\n   ```",
            r#"1. Run => bash {"command":"cd /tmp\n  ls"}"#,
            ANSWER,
        ),
        apart(
            "beside another language",
            "```yaml\na: 1\n```\n```shell\nls\n```",
            "```yaml\na: 1\n``` => bash {\"command\":\"ls\"}",
            ANSWER,
        ),
        apart("with a prompt", "```bash\n$ ls\n```", LS, ANSWER),
        apart("and an invented result", "```bash\nls\n```\nObservation: a\n```bash\nrm a\n```", LS, ANSWER),
        both("a transcript", "```bash\n$ ls\na b\n$ rm a\n```", ANSWER),
        both("two of them", "```bash\nls\n```\nor\n```sh\npwd\n```", ANSWER),
        both("never closed", "```bash\nrm -rf /tmp/x", ANSWER),
        both("cut by a fence inside", "```bash\ncat > a.md <<'EOF'\n```sh\nmake\n```\nEOF\n```", ANSWER),
        both("another fence left open", "```bash\ncat > a.md <<'EOF'\n```\nmake\n```\nEOF\n```bash", ANSWER),
        both("empty", "```bash\n\n```", ANSWER),
        both("only a comment", "```bash\n# nothing\n```", ANSWER),
        both("another language", "```python\nprint(1)\n```", ANSWER),
    ]);
}

#[test]
fn a_shell_call_goes_to_the_offered_shell() {
    let reply = r#"{"type":"shell","command":"ls","reason":"why"}"#;
    let cases = [
        (vec![run_command(), bash()], r#"bash {"command":"ls","reason":"why"}"#),
        (vec![run_command()], r#"run_command {"command":"ls","reasoning":"why"}"#),
        (vec![read_file()], r#"shell {"command":"ls","reason":"why"}"#),
        (vec![], r#"shell {"command":"ls","reason":"why"}"#),
    ];
    for (tools, expected) in cases {
        for fences in [true, false] {
            assert_eq!(shown(&parse(reply, &tools, fences)), expected);
        }
    }
    let bare = r#"{"tool":"run_cmd","command":"ls"}"#;
    assert_eq!(
        shown(&parse(bare, &[run_command()], false)),
        r#"run_command {"command":"ls","reasoning":""}"#
    );
    assert_eq!(shown(&parse(bare, &[send_keys()], true)), r#"run_cmd {"command":"ls"}"#);
    let direct = r#"{"name":"run_command","arguments":{"command":"ls","reason":"why"}}"#;
    assert_eq!(
        shown(&parse(direct, &[run_command()], false)),
        r#"run_command {"command":"ls","reasoning":"why"}"#
    );
    let extra = r#"{"type":"shell","command":"ls","timeout_s":5,"color":"red"}"#;
    assert_eq!(shown(&parse(extra, &[bash()], true)), r#"bash {"command":"ls","timeout_s":5}"#);
    assert_eq!(shown(&parse("```sh\nls\n```", &[read_file()], true)), "answer: ```sh\nls\n```");
}

#[test]
fn a_runaway_reply_is_bounded() {
    let reply = "{\"tool\":\"run_cmd\",\"command\":\"ls\"}\n".repeat(5_000);
    let ParsedReply::Calls { calls, .. } = parse(&reply, &all_tools(), true) else {
        panic!("calls expected")
    };
    assert_eq!(calls.len(), 32);
}
