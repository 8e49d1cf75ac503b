//! The JSON Schema that the answer of `sysop exec --schema` must match.

use std::fmt::Write as _;

use jsonschema::Validator;
use serde_json::Value;
use sysop_core::attached_data::JSON_REQUEST;
use sysop_core::text::neutralize;

/// Maximum size of a schema in bytes, limited because the model receives all of it.
pub const SCHEMA_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of times that the model may correct its answer.
pub(super) const CORRECTIONS_MAX: u32 = 3;
/// Maximum number of validation errors reported to the model per answer.
const ERRORS_MAX: usize = 5;
const ERROR_CHARS_MAX: usize = 300;

#[derive(Debug)]
pub struct AnswerSchema {
    text: String,
    validator: Validator,
}

impl AnswerSchema {
    /// Parses a schema. Fails if the text is not JSON, is not a valid JSON Schema, or refers to other
    /// documents. The error is one sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > SCHEMA_BYTES_MAX {
            return Err(format!("the schema is longer than {SCHEMA_BYTES_MAX} bytes"));
        }
        let schema: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
        jsonschema::meta::validate(&schema).map_err(|error| format!("not a JSON Schema: {error}"))?;
        let validator = jsonschema::validator_for(&schema)
            .map_err(|error| format!("the schema is not usable: {error}"))?;
        Ok(Self { text: schema.to_string(), validator })
    }

    pub fn demand(&self, task: &str) -> String {
        format!(
            "{}\n\n{JSON_REQUEST}: no other text, no code fence. It must validate against this JSON Schema:\n{}",
            task.trim_end(),
            self.text
        )
    }

    /// Returns, as text, the JSON value in an answer if it matches the schema. The answer must be only the
    /// value, or contain it in its only code fence. Fails if the answer contains no JSON value or the value
    /// does not match. The error consists of sentences.
    pub(super) fn check(&self, answer: &str) -> Result<String, String> {
        let answer = answer.trim();
        let (text, value) = match serde_json::from_str::<Value>(answer) {
            Ok(value) => (answer, value),
            Err(error) => fenced(answer)
                .and_then(|text| Some((text, serde_json::from_str(text).ok()?)))
                .ok_or_else(|| format!("the answer is not JSON: {error}"))?,
        };
        let mut problems = String::new();
        for error in self.validator.iter_errors(&value).take(ERRORS_MAX) {
            let said: String = error.to_string().chars().take(ERROR_CHARS_MAX).collect();
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { "the value".to_owned() } else { place };
            write!(problems, "{}{place}: {said}", if problems.is_empty() { "" } else { "; " })
                .expect("writing to a string cannot fail");
        }
        if problems.is_empty() { Ok(printable(text)) } else { Err(problems) }
    }
}

/// Returns the prompt that asks for a corrected answer.
pub(super) fn correction(problems: &str) -> String {
    format!(
        "The answer does not validate: {problems}. Answer again with only the corrected JSON value: no other text, no \
         code fence."
    )
}

/// Returns the content of the only code fence.
fn fenced(answer: &str) -> Option<&str> {
    let (_, rest) = answer.split_once("```")?;
    let (inside, after) = rest.split_once("```")?;
    let (_language, content) = inside.split_once('\n')?;
    (!after.contains("```")).then(|| content.trim())
}

/// Returns the same JSON value as text that is safe for a terminal. Characters that a terminal would obey or
/// hide occur only inside strings and are escaped there; carriage returns occur only between tokens.
fn printable(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for sign in json.chars() {
        let mut bytes = [0; 4];
        let text = sign.encode_utf8(&mut bytes);
        if sign == '\r' {
            out.push(' ');
        } else if sign == ' ' || neutralize(text) == *text {
            out.push(sign);
        } else {
            for unit in text.encode_utf16() {
                write!(out, "\\u{unit:04x}").expect("writing to a string cannot fail");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> AnswerSchema {
        let text = r#"{"type":"object","required":["unit"],"properties":{"unit":{"type":"string"},"n":{"type":"integer"}}}"#;
        AnswerSchema::parse(text).unwrap()
    }

    #[test]
    fn a_matching_value_is_found_alone_or_in_the_only_fence() {
        let schema = schema();
        for answer in [
            "{\"unit\": \"nginx\"}",
            "\n {\"unit\": \"nginx\"} \n",
            "Here it is:\n```json\n{\"unit\": \"nginx\"}\n```\nDone.",
        ] {
            assert_eq!(schema.check(answer).as_deref(), Ok("{\"unit\": \"nginx\"}"), "{answer}");
        }
    }

    #[test]
    fn other_answers_are_refused_with_the_reason() {
        let schema = schema();
        let why = |answer: &str| schema.check(answer).unwrap_err();
        assert!(why("nginx restarts").starts_with("the answer is not JSON"));
        assert!(why("").starts_with("the answer is not JSON"));
        assert!(why("{} {}").starts_with("the answer is not JSON"));
        assert!(why("```\n{\"unit\":\"a\"}\n```\n```\n{\"unit\":\"b\"}\n```").contains("not JSON"));
        assert_eq!(why("{}"), "the value: \"unit\" is a required property");
        let two = why("{\"unit\": 1, \"n\": \"x\"}");
        assert!(two.contains("/unit: 1 is not of type \"string\""), "{two}");
        assert!(two.contains("/n: \"x\" is not of type \"integer\""), "{two}");
        assert!(why(&format!("{{\"unit\": [\"{}\"]}}", "x".repeat(10_000))).len() < 1_000);
    }

    #[test]
    fn schemas_that_cannot_be_used_are_errors() {
        for (text, why) in [
            ("", "not JSON"),
            ("{", "not JSON"),
            ("[]", "not a JSON Schema"),
            (r#"{"type": "strnig"}"#, "not a JSON Schema"),
            (r#"{"properties": 7}"#, "not a JSON Schema"),
            (r#"{"$ref": "https://example.org/a.json"}"#, "not usable"),
            (r##"{"$ref": "#/$defs/missing"}"##, "not usable"),
        ] {
            let error = AnswerSchema::parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(AnswerSchema::parse(&format!("\"{}\"", "x".repeat(SCHEMA_BYTES_MAX))).is_err());
    }

    #[test]
    fn characters_that_a_terminal_obeys_are_escaped_and_the_value_stays() {
        let any = AnswerSchema::parse("true").unwrap();
        let value = "\u{9b}31m \u{202e}x\u{e0041} é";
        let printed = any.check(&format!("[\"{value}\"]\r\n")).unwrap();
        assert_eq!(printed, "[\"\\u009b31m \\u202ex\\udb40\\udc41 é\"]");
        assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), serde_json::json!([value]));
        let big = "[12345678901234567890123456789, 1.10]";
        assert_eq!(any.check(big).as_deref(), Ok(big), "numbers keep their digits");
    }
}
