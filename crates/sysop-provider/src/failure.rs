//! Turns what went wrong into a kind and one sentence: what happened, where, what to do next.
//!
//! Text from servers is cut short and stripped of control characters before it is quoted. Keys are struck out by
//! the exchange that knows them, as the very last step.

use std::time::Duration;

use reqwest::header::HeaderMap;
use serde_json::Value;
use sysop_core::message::{FailureKind, ModelFailure, ModelRef};

use crate::retry;

/// Most characters quoted of what a server said.
const EXCERPT_CHARS_MAX: usize = 300;

/// What to do about a problem.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Then {
    /// Tell the person.
    GiveUp,
    /// Make the same request again after a while.
    Retry {
        /// What happened, in a few words, for the notice.
        label: String,
        /// How long the server wants us to wait.
        after: Option<Duration>,
        /// The most times that this reason is good for another try.
        most: u32,
    },
    /// The exchange has changed its request; send that one at once.
    Adapted,
}

/// Why an attempt came to nothing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Problem {
    pub(crate) failure: ModelFailure,
    pub(crate) then: Then,
}

impl Problem {
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { failure: ModelFailure { kind, message: message.into() }, then: Then::GiveUp }
    }

    pub(crate) fn retried(self, label: impl Into<String>, after: Option<Duration>) -> Self {
        Self { then: Then::Retry { label: label.into(), after, most: u32::MAX }, ..self }
    }

    pub(crate) fn at_most(mut self, times: u32) -> Self {
        if let Then::Retry { most, .. } = &mut self.then {
            *most = times;
        }
        self
    }

    pub(crate) fn adapted(self) -> Self {
        Self { then: Then::Adapted, ..self }
    }
}

/// Which model on which host; begins each sentence.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) model: ModelRef,
    pub(crate) host: String,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {}", excerpt(&self.model.to_string()), self.host)
    }
}

impl Place {
    /// The server sent what cannot be used.
    pub(crate) fn unusable(&self, what: impl std::fmt::Display) -> Problem {
        Problem::new(
            FailureKind::Protocol,
            format!("{self} {what}; check that base_url points at the right kind of server"),
        )
    }

    /// The stream ended before the reply did.
    pub(crate) fn cut(&self) -> Problem {
        Problem::new(
            FailureKind::Unreachable,
            format!("{self} broke off in the middle of its reply; try again"),
        )
        .retried("the reply broke off", None)
    }

    /// Nothing came for too long.
    pub(crate) fn silent(&self, silence: Duration) -> Problem {
        let seconds = silence.as_secs_f32();
        Problem::new(
            FailureKind::Unreachable,
            format!("{self} sent nothing for {seconds} s; try again, or raise timeout_s for a slow model"),
        )
        .retried(format!("no answer for {seconds} s"), None)
        .at_most(1)
    }
}

/// A server's refusal: its status, headers and what it said.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) error: ServerError,
    /// It came inside a stream that had begun well.
    pub(crate) in_stream: bool,
}

/// What servers say when they refuse, in whichever form they say it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerError {
    /// The words.
    pub(crate) message: String,
    /// `type` or `status`.
    pub(crate) kind: String,
    /// `code`, as text.
    pub(crate) code: String,
    /// Which parameter it is about.
    pub(crate) param: String,
    /// All of it, lower case, to look for words in.
    pub(crate) haystack: String,
    /// The object itself.
    pub(crate) value: Value,
}

impl ServerError {
    /// Reads a body: `{"error":{..}}`, `[{"error":..}]`, `{"error":"text"}`, `{"message"}`, `{"detail"}`, or anything.
    pub(crate) fn read(body: &str) -> Self {
        match serde_json::from_str::<Value>(body) {
            Ok(value) => Self::from_value(value, body),
            Err(_) => Self {
                message: if is_html(body) { "(a web page)".to_owned() } else { excerpt(body) },
                haystack: body.to_lowercase(),
                ..Self::default()
            },
        }
    }

    /// The same for an error inside a stream.
    pub(crate) fn from_value(value: Value, body: &str) -> Self {
        let value = match value {
            Value::Array(mut list) if !list.is_empty() => list.swap_remove(0),
            other => other,
        };
        let error = match value.get("error") {
            Some(Value::Null) | None => &value,
            Some(error) => error,
        };
        let text = |key: &str| match error.get(key) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        let message = [error.as_str().unwrap_or_default().to_owned(), text("message"), text("detail")]
            .into_iter()
            .find(|words| !words.is_empty())
            .unwrap_or_else(|| error.to_string());
        let kind = [text("type"), text("status")].into_iter().find(|word| !word.is_empty());
        Self {
            message: excerpt(&message),
            kind: kind.unwrap_or_default(),
            code: text("code"),
            param: text("param"),
            haystack: body.to_lowercase(),
            value: error.clone(),
        }
    }

    /// Whether any of these words (lower case) is in it.
    pub(crate) fn says(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.haystack.contains(word))
    }

    /// Whether it says that the prompt is longer than the window.
    pub(crate) fn is_overflow(&self) -> bool {
        self.says(&[
            "context_length_exceeded",
            "exceed_context_size",
            "maximum context length",
            "prompt is too long",
            "input token count",
            "exceeds the context length",
            "longer than the context length",
            "context window",
            "context overflows",
        ])
    }

    fn is_out_of_quota(&self) -> bool {
        self.says(&[
            "insufficient_quota",
            "perday",
            "limit: 0",
            "spend_limit_reached",
            "billing_error",
            "billing_hard_limit",
        ])
    }
}

/// What a refusal means, as far as all APIs agree.
pub(crate) fn classify(place: &Place, refusal: &Refusal) -> Problem {
    let error = &refusal.error;
    let status = refusal.status;
    let said = if error.message.is_empty() { String::new() } else { format!(": {}", error.message) };
    let how =
        if refusal.in_stream { "broke off with an error".to_owned() } else { format!("answered {status}") };
    let refused = |kind, next: &str| Problem::new(kind, format!("{place} {how}{said}; {next}"));
    if error.is_overflow() && matches!(status, 400 | 413 | 422 | 500) {
        let next = "the history is too long for its window: start a new chat, or lower max_history_messages";
        return refused(FailureKind::ContextOverflow, next);
    }
    let problem = match status {
        401 => refused(FailureKind::Auth, "check the key"),
        403 => refused(
            FailureKind::Auth,
            "check that the key may use this model, from here and without restrictions",
        ),
        402 => refused(FailureKind::RateLimited, "add credit or choose another model"),
        404 => refused(FailureKind::UnknownModel, "check the model's name and base_url"),
        413 => refused(FailureKind::ContextOverflow, "the request is too large: start a new chat"),
        429 if error.is_out_of_quota() => {
            return refused(
                FailureKind::RateLimited,
                "the quota is used up: wait for it to renew, or pay for more",
            );
        }
        429 => refused(FailureKind::RateLimited, "wait a while, or choose another model"),
        408 | 409 | 425 | 500..=599 => {
            refused(FailureKind::Unreachable, "the server is in trouble: try again later")
        }
        _ => refused(FailureKind::BadRequest, "the server does not accept this request"),
    };
    retry::decide(problem, refusal)
}

/// A short form of foreign text that is safe in a sentence: one line, no control characters.
pub(crate) fn excerpt(text: &str) -> String {
    let text = sysop_core::text::strip_controls(text);
    let mut out = String::new();
    let mut chars = 0;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control() || is_invisible(c)) {
        if word.is_empty() {
            continue;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        for c in word.chars() {
            if chars >= EXCERPT_CHARS_MAX {
                out.push('…');
                return out;
            }
            out.push(c);
            chars += 1;
        }
    }
    out
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Whether a body is a web page.
pub(crate) fn is_html(body: &str) -> bool {
    let start = body.trim_start().get(..15).unwrap_or(body.trim_start()).to_ascii_lowercase();
    start.starts_with("<!doctype html") || start.starts_with("<html") || start.starts_with("<head")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_read_in_every_known_form() {
        let cases = [
            (r#"{"error":{"message":"m","type":"t","code":"c","param":"p"}}"#, ("m", "t", "c")),
            (r#"{"error":{"message":"m","code":429}}"#, ("m", "", "429")),
            (r#"[{"error":{"message":"m","status":"UNAVAILABLE","code":503}}]"#, ("m", "UNAVAILABLE", "503")),
            (r#"{"error":"m"}"#, ("m", "", "")),
            (r#"{"message":"m"}"#, ("m", "", "")),
            (r#"{"detail":"m"}"#, ("m", "", "")),
            ("m", ("m", "", "")),
            ("<!DOCTYPE html><p>502", ("(a web page)", "", "")),
        ];
        for (body, (message, kind, code)) in cases {
            let error = ServerError::read(body);
            assert_eq!((&*error.message, &*error.kind, &*error.code), (message, kind, code), "{body}");
        }
    }

    #[test]
    fn an_excerpt_is_short_and_has_no_controls() {
        let text = excerpt(&format!("a\u{1b}[31mb\r\nc\u{202e}d {}", "x".repeat(1000)));
        assert!(text.chars().count() <= EXCERPT_CHARS_MAX + 10, "{text}");
        assert!(!text.chars().any(|c| c.is_control() || is_invisible(c)), "{text}");
    }

    #[test]
    fn html_is_found_in_short_and_multibyte_bodies() {
        assert!(is_html(" <html>"));
        assert!(!is_html("ééééééééé"));
        assert!(!is_html(""));
    }
}
