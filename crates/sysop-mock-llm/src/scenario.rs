//! The scenario file: format and validation.
//!
//! The format follows the lsimons-agent design ("Scenarios File"). Additional optional fields of a response are
//! described in [`Response`]. Parsing never guesses: an unknown field is an error.

use std::fmt;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

pub const SCENARIO_FILE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum bytes of a response's text, including the repetitions of `repeat_text`.
pub const TEXT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Maximum of `delay_ms` and `chunk_delay_ms`, in milliseconds.
const DELAY_MS_MAX: u64 = 10 * 60 * 1000;
/// Default for `chunk_bytes`, the bytes of text per event.
const CHUNK_BYTES_DEFAULT: usize = 24;
/// Text that `repeat_text` repeats if there is no `content`.
const REPEATED_TEXT_DEFAULT: &str = "word ";
const TOOL_NAME_BYTES_MAX: usize = 64;

const BUILTIN: &str = include_str!("scenarios.json");

#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenarios {
    scenarios: Vec<Scenario>,
    default_response: Response,
}

impl Scenarios {
    /// Returns the built-in scenarios: the scenarios of the lsimons-agent design, and a demo (`demo`).
    pub fn builtin() -> Self {
        Self::parse("scenarios.json", BUILTIN).expect("a test reads the built-in file")
    }

    /// Parses a scenario file. Error messages call it `file`; `Invalid` names the file, line and problem.
    pub fn parse(file: &str, text: &str) -> Result<Self, ScenarioError> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let invalid = |path: String, error: &serde_json::Error| ScenarioError::invalid(file, path, error);
        let scenarios = serde_path_to_error::deserialize(&mut reader)
            .map_err(|error| invalid(error.path().to_string(), error.inner()))?;
        reader.end().map_err(|error| invalid(String::new(), &error))?;
        Ok(scenarios)
    }

    /// Reads and parses a scenario file. Fails with `Unreadable`, `TooLong` or `Invalid`.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        let file = path.display().to_string();
        let mut text = String::new();
        std::fs::File::open(path)
            .and_then(|opened| opened.take(SCENARIO_FILE_BYTES_MAX as u64 + 1).read_to_string(&mut text))
            .map_err(|source| ScenarioError::Unreadable { file: file.clone(), source })?;
        if text.len() > SCENARIO_FILE_BYTES_MAX {
            return Err(ScenarioError::TooLong { file });
        }
        Self::parse(&file, &text)
    }

    /// Returns the scenarios in the order in which they are matched.
    pub fn scenarios(&self) -> &[Scenario] {
        &self.scenarios
    }

    pub fn default_response(&self) -> &Response {
        &self.default_response
    }

    /// Assigns each response a unique number (0 for the default) and returns their count.
    pub(crate) fn number_responses(&mut self) -> usize {
        let steps = self.scenarios.iter_mut().flat_map(|scenario| scenario.steps.iter_mut());
        let mut count = 1;
        for step in steps {
            step.response.number = count;
            count += 1;
        }
        count
    }
}

#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name for humans; not used for matching.
    pub name: String,
    /// Text that the last user message must contain; never empty.
    #[serde(deserialize_with = "not_empty")]
    pub trigger: String,
    /// Responses, indexed by the number of tool results; never empty.
    #[serde(deserialize_with = "some_steps")]
    pub steps: Vec<ScenarioStep>,
}

#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioStep {
    pub response: Response,
}

/// Response to one request.
///
/// In the file, `content` and `tool_calls` follow the design. The optional fields are:
///
/// | field | meaning |
/// | --- | --- |
/// | `delay_ms` | wait before the response |
/// | `chunk_bytes` | bytes of text (and arguments) per streamed event, by default 24; characters are never split |
/// | `write_bytes` | send the body in writes of exactly this many bytes, even if that splits a character |
/// | `chunk_delay_ms` | wait between two events, or between two writes if `write_bytes` is set |
/// | `cut_after_bytes` | break the connection after this many bytes of the body |
/// | `repeat_text` | send `content` (or `"word "`) this many times, each time as one event |
/// | `usage` | `{"input_tokens", "output_tokens"}` to report instead of an estimate |
/// | `status`, `error` | respond with this HTTP error (400 to 599) and text, in the API's own shape |
/// | `times` | fail only this many requests; later ones get `content` and `tool_calls` |
/// | `retry_after_s` | seconds in the error's `retry-after` |
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Response {
    pub content: Option<String>,
    pub tool_calls: Vec<ScriptedCall>,
    /// Pace of the response, and the point at which the connection breaks.
    pub delivery: DeliveryOptions,
    /// Number of times that `content` is sent; usually 1.
    pub repeats: usize,
    /// Tokens to report instead of an estimate.
    pub usage: Option<TokenUsage>,
    /// Error to respond with instead, if any.
    pub failure: Option<ScriptedFailure>,
    pub(crate) number: usize,
}

impl Response {
    /// Returns the whole text, including repetitions.
    pub fn text(&self) -> String {
        self.content.as_deref().unwrap_or_default().repeat(self.repeats)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ScriptedCall {
    /// Call id, as written in the file. Used only in OpenAI's APIs. If it is absent, and in the other APIs, an id is
    /// generated.
    pub id: Option<String>,
    pub name: String,
    pub arguments: Map<String, Value>,
    /// Arguments as written in the file.
    pub arguments_text: String,
}

/// Pace of a response, and the point at which its connection breaks, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryOptions {
    /// Wait before the response.
    pub delay: Duration,
    /// Bytes of text per event.
    pub chunk_bytes: usize,
    /// Bytes per write of the body; `None` means one write per event or block.
    pub write_bytes: Option<usize>,
    /// Wait between two events or writes.
    pub chunk_delay: Duration,
    /// Number of bytes of the body after which the connection breaks, if it is to break.
    pub cut_after_bytes: Option<usize>,
}

impl Default for DeliveryOptions {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            chunk_bytes: CHUNK_BYTES_DEFAULT,
            write_bytes: None,
            chunk_delay: Duration::ZERO,
            cut_after_bytes: None,
        }
    }
}

/// Token counts to report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
}

/// An HTTP error that is sent in place of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptedFailure {
    /// HTTP status, 400 to 599.
    pub status: u16,
    /// Error message, which is sent in the API's own shape.
    pub message: String,
    /// Number of requests that fail; `None` means that all fail.
    pub times: Option<usize>,
    /// Seconds of the `retry-after` header.
    pub retry_after_s: Option<u32>,
}

#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    #[error("cannot read the scenario file {file}: {source}")]
    Unreadable { file: String, source: std::io::Error },
    /// The file is longer than [`SCENARIO_FILE_BYTES_MAX`].
    #[error("the scenario file {file} is longer than {SCENARIO_FILE_BYTES_MAX} bytes")]
    TooLong { file: String },
    /// The file violates the format.
    #[error("{file}, line {line}: {what}")]
    Invalid {
        file: String,
        /// Line, counted from 1; for a missing field, the line where the object ends.
        line: usize,
        /// Description of the location in the document, and of the problem.
        what: String,
    },
}

impl ScenarioError {
    fn invalid(file: &str, path: String, error: &serde_json::Error) -> Self {
        let what = without_position(error);
        let what = match path.as_str() {
            "" | "." => what,
            _ => format!("{path}: {what}"),
        };
        Self::Invalid { file: file.to_owned(), line: error.line().max(1), what }
    }
}

/// Returns serde_json's error message without the position at its end.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}

/// A response as written in the file, before the combination of its fields is validated.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawResponse {
    content: Option<String>,
    #[serde(default)]
    tool_calls: Vec<RawToolCall>,
    delay_ms: Option<u64>,
    chunk_bytes: Option<usize>,
    write_bytes: Option<usize>,
    chunk_delay_ms: Option<u64>,
    cut_after_bytes: Option<usize>,
    repeat_text: Option<usize>,
    usage: Option<TokenUsage>,
    status: Option<u16>,
    error: Option<String>,
    times: Option<usize>,
    retry_after_s: Option<u32>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawToolCall {
    id: Option<String>,
    #[serde(rename = "type")]
    _kind: CallKind,
    function: RawFunction,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum CallKind {
    Function,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFunction {
    #[serde(deserialize_with = "tool_name")]
    name: String,
    #[serde(deserialize_with = "argument_text")]
    arguments: (String, Map<String, Value>),
}

impl RawResponse {
    fn check(self) -> Result<Response, String> {
        if self.content.is_none()
            && self.tool_calls.is_empty()
            && self.status.is_none()
            && self.repeat_text.is_none()
        {
            return Err("a response needs `content`, `tool_calls`, `repeat_text` or `status`".to_owned());
        }
        let failure = self.failure()?;
        let delivery = self.delivery()?;
        let repeats = self.repeat_text.unwrap_or(1);
        let content = match self.content {
            None if self.repeat_text.is_some() => Some(REPEATED_TEXT_DEFAULT.to_owned()),
            content => content,
        };
        let longest = content.as_ref().map_or(0, String::len).saturating_mul(repeats);
        if repeats == 0 || longest > TEXT_BYTES_MAX {
            return Err(format!(
                "`content` repeated `repeat_text` times must be at most {TEXT_BYTES_MAX} bytes, and `repeat_text` at \
                 least 1"
            ));
        }
        let tool_calls = self.tool_calls.into_iter().map(ScriptedCall::from).collect();
        Ok(Response { content, tool_calls, delivery, repeats, usage: self.usage, failure, number: 0 })
    }

    fn failure(&self) -> Result<Option<ScriptedFailure>, String> {
        let Some(status) = self.status else {
            if self.error.is_some() || self.times.is_some() || self.retry_after_s.is_some() {
                return Err("`error`, `times` and `retry_after_s` need `status`".to_owned());
            }
            return Ok(None);
        };
        if !(400..=599).contains(&status) {
            return Err(format!("`status` {status} is not an HTTP error (400 to 599)"));
        }
        let message = self.error.clone().unwrap_or_else(|| format!("scripted error {status}"));
        Ok(Some(ScriptedFailure { status, message, times: self.times, retry_after_s: self.retry_after_s }))
    }

    fn delivery(&self) -> Result<DeliveryOptions, String> {
        let wait = |name: &str, given: Option<u64>| match given.unwrap_or(0) {
            millis if millis <= DELAY_MS_MAX => Ok(Duration::from_millis(millis)),
            millis => Err(format!("`{name}` {millis} is more than {DELAY_MS_MAX}")),
        };
        if self.chunk_bytes == Some(0) || self.write_bytes == Some(0) {
            return Err("`chunk_bytes` and `write_bytes` must be at least 1".to_owned());
        }
        Ok(DeliveryOptions {
            delay: wait("delay_ms", self.delay_ms)?,
            chunk_bytes: self.chunk_bytes.unwrap_or(CHUNK_BYTES_DEFAULT),
            write_bytes: self.write_bytes,
            chunk_delay: wait("chunk_delay_ms", self.chunk_delay_ms)?,
            cut_after_bytes: self.cut_after_bytes,
        })
    }
}

impl From<RawToolCall> for ScriptedCall {
    fn from(raw: RawToolCall) -> Self {
        let (arguments_text, arguments) = raw.function.arguments;
        Self { id: raw.id, name: raw.function.name, arguments, arguments_text }
    }
}

// The visitors below validate inside the value, so that serde_json reports the line of that value and not of the text
// after it.

impl<'de> Deserialize<'de> for Response {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ResponseVisitor;
        impl<'de> Visitor<'de> for ResponseVisitor {
            type Value = Response;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a response object")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Response, A::Error> {
                let raw = RawResponse::deserialize(de::value::MapAccessDeserializer::new(map))?;
                raw.check().map_err(de::Error::custom)
            }
        }
        deserializer.deserialize_map(ResponseVisitor)
    }
}

fn some_steps<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ScenarioStep>, D::Error> {
    struct StepsVisitor;
    impl<'de> Visitor<'de> for StepsVisitor {
        type Value = Vec<ScenarioStep>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of at least one step")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<ScenarioStep>, A::Error> {
            let mut steps = Vec::new();
            while let Some(step) = items.next_element()? {
                steps.push(step);
            }
            if steps.is_empty() { Err(de::Error::custom("`steps` is empty")) } else { Ok(steps) }
        }
    }
    deserializer.deserialize_seq(StepsVisitor)
}

struct StringVisitor<T> {
    expected: &'static str,
    read: fn(&str) -> Result<T, String>,
}

impl<T> Visitor<'_> for StringVisitor<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.read)(text).map_err(E::custom)
    }
}

fn not_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    deserializer.deserialize_str(StringVisitor {
        expected: "a string",
        read: |text| match text {
            "" => {
                Err("an empty `trigger` would match every message; use `default_response` for that"
                    .to_owned())
            }
            _ => Ok(text.to_owned()),
        },
    })
}

fn tool_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    deserializer.deserialize_str(StringVisitor {
        expected: "the name of a tool",
        read: |text| {
            if is_tool_name(text, TOOL_NAME_BYTES_MAX) {
                return Ok(text.to_owned());
            }
            Err(format!(
                "`{text}` is not a valid tool name; use 1 to {TOOL_NAME_BYTES_MAX} of A-Z, a-z, 0-9, _ and -"
            ))
        },
    })
}

fn argument_text<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<(String, Map<String, Value>), D::Error> {
    deserializer.deserialize_str(StringVisitor {
        expected: "a JSON object in a string",
        read: |text| match serde_json::from_str::<Map<String, Value>>(text) {
            Ok(map) => Ok((text.to_owned(), map)),
            // serde_json would take the position in the inner error for the position in the file.
            Err(error) => {
                Err(format!("`arguments` must be a JSON object in a string: {}", without_position(&error)))
            }
        },
    })
}

/// Returns true if every provider accepts `text` as a tool name of at most `bytes_max` bytes.
pub(crate) fn is_tool_name(text: &str, bytes_max: usize) -> bool {
    (1..=bytes_max).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses an invalid file; returns line and error.
    fn complaint(text: &str) -> (usize, String) {
        match Scenarios::parse("test.json", text) {
            Err(ScenarioError::Invalid { file, line, what }) => {
                assert_eq!(file, "test.json");
                (line, what)
            }
            other => panic!("expected an invalid file, got {other:?}"),
        }
    }

    /// Parses a valid file, one field per line, with `from` replaced with `to`.
    fn changed(from: &str, to: &str) -> String {
        let good = r#"{
  "scenarios": [
    {
      "name": "one",
      "trigger": "go",
      "steps": [
        {
          "response": {
            "content": "Going.",
            "tool_calls": [
              {
                "id": "call_1",
                "type": "function",
                "function": {
                  "name": "bash",
                  "arguments": "{\"command\": \"ls\"}"
                }
              }
            ]
          }
        }
      ]
    }
  ],
  "default_response": {
    "content": "No."
  }
}
"#;
        Scenarios::parse("good.json", good).unwrap();
        assert!(good.contains(from), "{from}");
        good.replacen(from, to, 1)
    }

    #[test]
    fn an_invalid_file_is_reported_with_line_and_reason() {
        let cases: &[(&str, &str, usize, &str)] = &[
            (r#""trigger": "go","#, "", 23, "scenarios[0]: missing field `trigger`"),
            (r#""name": "one","#, r#""name": "one", "nmae": 1,"#, 4, "unknown field `nmae`"),
            (r#""content": "Going.","#, r#""contents": "x","#, 9, "unknown field `contents`"),
            (r#""content": "Going.","#, r#""content": 7,"#, 9, "response.content: invalid type: integer `7`"),
            (r#""content": "Going.","#, r#""content": "a", "content": "b","#, 9, "duplicate field `content`"),
            (r#""type": "function","#, r#""type": "custom","#, 13, "unknown variant `custom`"),
            (r#""name": "bash","#, r#""name": "ba sh","#, 15, "`ba sh` is not a valid tool name"),
            (r#""{\"command\": \"ls\"}""#, r#""[1]""#, 16, "must be a JSON object in a string"),
            (r#""{\"command\": \"ls\"}""#, r#""{oops""#, 16, "must be a JSON object in a string"),
            (r#""{\"command\": \"ls\"}""#, "{}", 16, "invalid type: map, expected a JSON object in a string"),
            (r#""trigger": "go","#, r#""trigger": "","#, 5, "an empty `trigger`"),
            (r#""content": "Going.","#, r#""error": "x","#, 20, "need `status`"),
            (r#""content": "Going.","#, r#""status": 200,"#, 20, "`status` 200 is not an HTTP error"),
            (r#""content": "Going.","#, r#""chunk_bytes": 0,"#, 20, "must be at least 1"),
            (r#""content": "Going.","#, r#""delay_ms": 99999999,"#, 20, "`delay_ms` 99999999 is more than"),
            (r#""content": "Going.","#, r#""repeat_text": 99999999,"#, 20, "`content` repeated"),
            (r#""content": "Going.","#, r#""repeat_text": 0,"#, 20, "`repeat_text` at least 1"),
            (r#""content": "No.""#, "", 27, "a response needs `content`"),
            (r#""content": "No.""#, r#""content": "No.","#, 27, "trailing comma"),
            (r#""default_response": {"#, r#""default": {"#, 25, "unknown field `default`"),
        ];
        for (from, to, line, what) in cases {
            let (found_line, found) = complaint(&changed(from, to));
            assert!(found.contains(what), "{to}: {found}");
            assert_eq!(found_line, *line, "{to}: {found}");
        }
    }

    #[test]
    fn empty_scenarios_and_trailing_content_are_rejected() {
        let text = "{\"scenarios\": [\n{\"name\": \"a\", \"trigger\": \"b\",\n\"steps\": []\n}],\n\"default_response\": {\"content\": \"\"}}";
        assert_eq!(complaint(text), (3, "scenarios[0].steps: `steps` is empty".to_owned()));
        let followed = format!("{}\n\nx", text.replace("[]", r#"[{"response": {"content": "c"}}]"#));
        let (line, what) = complaint(&followed);
        assert_eq!((line, what.as_str()), (7, "trailing characters"));
    }

    #[test]
    fn the_error_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.json");
        let missing = Scenarios::load(&path).unwrap_err().to_string();
        assert!(missing.contains("mine.json"), "{missing}");
        std::fs::write(&path, "{\n\"scenarios\": 4}").unwrap();
        let wrong = Scenarios::load(&path).unwrap_err().to_string();
        assert!(wrong.contains("mine.json, line 2: scenarios: invalid type: integer `4`"), "{wrong}");
    }

    #[test]
    fn a_response_accepts_all_extensions() {
        let text = r#"{"scenarios": [], "default_response": {"content": "a", "delay_ms": 1, "chunk_bytes": 2,
            "write_bytes": 3, "chunk_delay_ms": 4, "cut_after_bytes": 5, "repeat_text": 6, "status": 429,
            "usage": {"input_tokens": 7, "output_tokens": 8}, "error": "slow", "times": 9, "retry_after_s": 10}}"#;
        let read = Scenarios::parse("x", text).unwrap();
        let expected = Response {
            content: Some("a".to_owned()),
            tool_calls: Vec::new(),
            delivery: DeliveryOptions {
                delay: Duration::from_millis(1),
                chunk_bytes: 2,
                write_bytes: Some(3),
                chunk_delay: Duration::from_millis(4),
                cut_after_bytes: Some(5),
            },
            repeats: 6,
            usage: Some(TokenUsage { input_tokens: 7, output_tokens: 8 }),
            failure: Some(ScriptedFailure {
                status: 429,
                message: "slow".to_owned(),
                times: Some(9),
                retry_after_s: Some(10),
            }),
            number: 0,
        };
        assert_eq!(read.default_response(), &expected);
        assert_eq!(read.default_response().text(), "aaaaaa");
    }
}
