//! Parses the arguments of tool calls in the forms in which models and servers write them.

use serde_json::{Map, Value};
use sysop_core::message::Arguments;

/// Maximum bytes of a tool name in OpenAI's API.
const NAME_BYTES_MAX: usize = 64;

/// Parses arguments: an object, possibly inside a string, or the first non-empty one of several run together.
pub(crate) fn parse_arguments(text: &str) -> Arguments {
    let strict = Arguments::parse(text);
    if matches!(strict, Arguments::Object(_)) {
        return strict;
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut object = match values.next() {
        Some(Ok(Value::Object(map))) => map,
        Some(Ok(Value::String(inner))) => return parse_nested(text, &inner),
        Some(_) | None => return strict,
    };
    // `{}{"a":1}`: an empty object, followed by the arguments.
    if object.is_empty()
        && let Some(Ok(Value::Object(second))) = values.next()
    {
        object = second;
    }
    Arguments::Object(object)
}

fn parse_nested(text: &str, inner: &str) -> Arguments {
    match serde_json::from_str::<Map<String, Value>>(inner) {
        Ok(map) => Arguments::Object(map),
        Err(_) => Arguments::Invalid(text.to_owned()),
    }
}

/// Returns true if the arguments form a complete JSON object.
pub(crate) fn is_complete_object(arguments: &str) -> bool {
    serde_json::from_str::<Map<String, Value>>(arguments).is_ok()
}

/// Returns a tool name that every server accepts in the history. Models invent names that servers refuse.
pub(crate) fn portable_tool_name(name: &str) -> String {
    let mut sendable: String = name
        .chars()
        .map(|sign| if sign.is_ascii_alphanumeric() || sign == '_' || sign == '-' { sign } else { '_' })
        .take(NAME_BYTES_MAX)
        .collect();
    if sendable.is_empty() {
        sendable.push_str("unknown");
    }
    sendable
}

/// Returns arguments as an object for the history. Invalid arguments are wrapped in an object as text.
pub(crate) fn arguments_object(arguments: &Arguments) -> Map<String, Value> {
    match arguments {
        Arguments::Object(map) => map.clone(),
        Arguments::Invalid(text) => Map::from_iter([("unreadable".to_owned(), Value::from(text.clone()))]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_object_in_written_arguments() {
        for (text, object) in [
            ("", "{}"),
            ("null", "{}"),
            (r#"{"a":1}"#, r#"{"a":1}"#),
            (r#"{}{"a":1}"#, r#"{"a":1}"#),
            (r#"{"a":1}{"a":2}"#, r#"{"a":1}"#),
            (r#"{"a":1}</tool_call>"#, r#"{"a":1}"#),
            (r#""{\"a\":1}""#, r#"{"a":1}"#),
        ] {
            assert_eq!(parse_arguments(text).to_value().to_string(), object, "{text}");
        }
        for text in [r#"{"a":"#, "ls", "[1]", r#""ls""#] {
            assert_eq!(parse_arguments(text), Arguments::Invalid(text.to_owned()));
        }
    }

    #[test]
    fn sanitizes_tool_names() {
        assert_eq!(portable_tool_name("functions.run now"), "functions_run_now");
        assert_eq!(portable_tool_name(""), "unknown");
        assert_eq!(portable_tool_name(&"é".repeat(99)).len(), NAME_BYTES_MAX);
    }
}
