//! Text built to break the parser: too long, too deep, never closed, or random.

use std::path::Path;
use std::time::Duration;

use super::super::{ParsedReply, TextToolCall, parse, render_call};
use super::{all_tools, calls_of};
use sysop_core::message::Arguments;

/// Time limit that is far more than a linear parser needs and far less than a quadratic parser would take.
const DEADLINE: Duration = Duration::from_secs(60);

const MEGABYTE: usize = 1 << 20;

const PATTERNS: [&str; 45] = [
    "{",
    "[",
    "\"",
    "'",
    "\\",
    "`",
    "```",
    "```\n",
    "```a\n",
    "```json\n",
    "````a\n```\n",
    "<tool_call>",
    "<tool_call>{",
    "[TOOL_CALLS]",
    "[TOOL_CALLS]a",
    "[TOOL_CALLS][{",
    "functools[",
    "functools [",
    "<function=",
    "<function=a>{",
    "<think>",
    "</think>",
    "Observation:",
    "\n",
    " ",
    "{\"",
    "{'",
    "{\"a\":",
    "{\"a\":[",
    "[{",
    "[ ",
    "{}",
    "{}\n",
    "{\"a\":1} ",
    "{\"a\" {'b':",
    "\"{\",\":\":",
    "```json {} ```\n",
    "```json\n{\"\n```\n",
    "```sh\nls\n```\n",
    "```json {\"type\":\"answer\",\"text\":\"a\"} ```\n</think>\n",
    "x {\"tool\":\"run_cmd\",\"command\":\"ls\"} y ",
    "{\"type\":\"answer\",\"text\":\"a\"}",
    "{\"a\":\"\\",
    "f",
    "é{",
];

#[test]
fn hostile_repetitions_are_read_in_linear_time() {
    let started = std::time::Instant::now();
    for pattern in PATTERNS {
        for head in ["", "{\"a\":\"", "{\"a\":[", "```json\n", "<tool_call>"] {
            let text = format!("{head}{}", pattern.repeat(MEGABYTE / 8 / pattern.len()));
            check(&text);
            assert!(started.elapsed() < DEADLINE, "stuck at {head:?} and {pattern:?}");
        }
    }
}

#[test]
fn a_megabyte_of_anything_is_read_in_linear_time() {
    let started = std::time::Instant::now();
    for pattern in [
        "{",
        "[",
        "\"",
        "```",
        "```\n",
        "<tool_call>",
        "{\"a\":",
        "{\"",
        "{} ",
        "```json {} ```\n",
        "```json {\"type\":\"answer\",\"text\":\"a\"} ```\n</think>\n",
    ] {
        parse(&pattern.repeat(MEGABYTE / pattern.len()), &all_tools(), true);
        assert!(started.elapsed() < DEADLINE, "stuck at {pattern:?}");
    }
    let spaces = " ".repeat(MEGABYTE);
    let objects = "{\"a\":1}".repeat(MEGABYTE / 7);
    parse(&format!("{spaces}{objects}{spaces}"), &all_tools(), true);
    assert!(started.elapsed() < DEADLINE);
}

#[test]
fn a_call_behind_ten_megabytes_of_prose_is_found() {
    let text = format!(
        "{}\n{{\"tool\":\"run_cmd\",\"command\":\"ls\"}}",
        "All work and no play. ".repeat(10 * MEGABYTE / 22)
    );
    assert_eq!(calls_of(parse(&text, &all_tools(), true)).len(), 1);
}

/// Checks that any text parses without panic and consistently.
fn check(text: &str) {
    let tools = all_tools();
    for fences in [true, false] {
        match parse(text, &tools, fences) {
            ParsedReply::Answer(answer) => {
                assert!(answer.len() <= text.len() * 2 + 2, "the answer is longer than the text")
            }
            ParsedReply::Calls { calls, .. } => {
                assert!(!calls.is_empty(), "calls without a call");
                for call in &calls {
                    check_call(text, call, fences);
                }
            }
        }
    }
}

fn check_call(text: &str, call: &TextToolCall, fences: bool) {
    let known = all_tools().iter().any(|tool| tool.name == call.name);
    assert!(known || fences, "a call of {:?} in the text of a model with native tools", call.name);
    let Arguments::Object(arguments) = &call.arguments else { return };
    if let Some(command) = arguments.get("command").and_then(|command| command.as_str()) {
        let word = command.split(|sign: char| !sign.is_ascii_alphanumeric()).max_by_key(|word| word.len());
        assert!(text.contains(word.unwrap_or_default()), "{command:?} does not occur in the text");
    }
    let again = calls_of(parse(&render_call(call), &all_tools(), true));
    assert!(again.len() == 1 && (!known || again[0].name == call.name), "{call:?} does not round-trip");
}

#[test]
fn recorded_replies_are_parsed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpora/text_protocol");
    let mut files = 0;
    let mut calls = 0;
    for entry in std::fs::read_dir(&folder).expect("the corpus is part of the repository") {
        let path = entry.expect("a readable folder").path();
        let bytes = std::fs::read(&path).expect("a readable file");
        let text = String::from_utf8_lossy(&bytes);
        check(&text);
        calls += usize::from(matches!(parse(&text, &all_tools(), true), ParsedReply::Calls { .. }));
        for end in 0..text.len().min(400) {
            check(&text[..text.floor_char_boundary(end)]);
        }
        files += 1;
    }
    assert!(files >= 20, "only {files} files");
    assert!(calls >= 10 && calls < files, "{calls} of {files} are calls");
}

#[test]
fn random_text_keeps_the_parser_invariants() {
    let tokens = [
        "{",
        "}",
        "[",
        "]",
        "\"",
        "'",
        ":",
        ",",
        "\n",
        " ",
        "\\",
        "`",
        "```",
        "```json\n",
        "```sh\n",
        "\n```\n",
        "type",
        "\"type\"",
        "\"shell\"",
        "\"command\"",
        "\"tool\"",
        "\"run_cmd\"",
        "\"name\"",
        "\"arguments\"",
        "\"bash\"",
        "\"answer\"",
        "\"text\"",
        "<tool_call>",
        "</tool_call>",
        "[TOOL_CALLS]",
        "functools",
        "<function=bash>",
        "Observation:",
        "<think>",
        "</think>",
        "ls",
        "{\"tool\":\"run_cmd\",\"command\":\"ls\"}",
        "é",
        "\u{202e}",
        "1e9",
        "{\"name\":\"bash\",\"arguments\":{\"command\":\"",
        "\"}}",
    ];
    arbtest::arbtest(|source| {
        let mut text = String::new();
        while !source.is_empty() {
            match source.int_in_range(0..=9)? {
                0 => text.push(source.arbitrary()?),
                _ => text.push_str(source.choose(&tokens)?),
            }
        }
        check(&text);
        Ok(())
    })
    .budget_ms(1_000);
}
