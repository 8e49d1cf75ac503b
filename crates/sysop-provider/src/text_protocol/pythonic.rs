//! Calls in Python's syntax, such as `[bash(command="df -h")]`, which some model families write by themselves.
//!
//! A call counts only if the reply consists of nothing else: in prose, the same text is a quotation.

use serde_json::{Map, Value};

use super::lenient_json;
use super::recognizer::SEGMENTS_MAX;

/// Marks around the calls, in the form of the LFM2 models. Many servers remove them.
const MARKS: (&str, &str) = ("<|tool_call_start|>", "<|tool_call_end|>");

/// Returns the calls of a reply with their arguments, or `None` if the reply is anything else. The names are unchecked.
pub(super) fn read(text: &str) -> Option<Vec<(String, Value)>> {
    let text = text.trim();
    let text = text.strip_prefix(MARKS.0).unwrap_or(text);
    let text = text.strip_suffix(MARKS.1).unwrap_or(text).trim();
    let (text, close) = match text.strip_prefix('[') {
        Some(rest) => (rest, "]"),
        None => (text, ""),
    };
    let mut calls = Vec::new();
    let mut at = 0;
    while calls.len() < SEGMENTS_MAX {
        let (call, end) = read_call(text, skip_blank(text, at))?;
        calls.push(call);
        at = skip_blank(text, end);
        match text[at..].strip_prefix(',') {
            Some(_) => at += 1,
            None => return (text[at..].trim() == close).then_some(calls),
        }
    }
    None
}

/// Reads `NAME(KEY=VALUE, ...)` at byte `at`. Returns the call and the byte offset after it.
fn read_call(text: &str, at: usize) -> Option<((String, Value), usize)> {
    let open = at + text[at..].find('(')?;
    let name = text[at..open].trim();
    if !is_name(name) {
        return None;
    }
    let mut arguments = Map::new();
    let mut at = skip_blank(text, open + 1);
    while !text[at..].starts_with(')') {
        let equals = at + text[at..].find('=')?;
        let key = text[at..equals].trim();
        if !is_name(key) {
            return None;
        }
        let (value, end) = lenient_json::read(text, skip_blank(text, equals + 1)).ok()?;
        arguments.insert(key.to_owned(), value);
        at = skip_blank(text, end);
        match text[at..].chars().next()? {
            ',' => at = skip_blank(text, at + 1),
            ')' => {}
            _ => return None,
        }
    }
    Some(((name.to_owned(), Value::Object(arguments)), at + 1))
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(&byte))
}

fn skip_blank(text: &str, at: usize) -> usize {
    let rest = &text[at..];
    at + rest.len() - rest.trim_start().len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::read;

    #[test]
    fn calls_in_python_syntax_are_read_whole_or_not_at_all() {
        let df = Some(vec![("bash".to_owned(), json!({"command": "df -h"}))]);
        for text in [
            r#"[bash(command="df -h")]"#,
            r#"bash(command='df -h')"#,
            "  <|tool_call_start|>[ bash( command = \"df -h\", ) ]<|tool_call_end|>\n",
        ] {
            assert_eq!(read(text), df, "{text}");
        }
        let two = read(r#"[a(x=1, y=[True, "b"]), b()]"#).expect("two calls");
        assert_eq!(two, [("a".to_owned(), json!({"x": 1, "y": [true, "b"]})), ("b".to_owned(), json!({}))]);
        for text in [
            "",
            "bash",
            "bash(",
            "bash(command=",
            "bash(\"df\")",
            r#"bash(command="df"#,
            r#"[bash(command="df")"#,
            r#"bash(command="df")]"#,
            r#"Use bash(command="df") now"#,
            r#"bash(command="df") now"#,
            "f(x=y)",
            "é(x=1)",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
