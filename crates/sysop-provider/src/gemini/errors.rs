//! Interprets refusals and learns quirks from them.

use std::time::Duration;

use secrecy::SecretString;
use serde_json::Value;
use sysop_core::message::FailureKind;

use super::encode::quirk;
use crate::api::{ErrorAction, ModelQuirks};
use crate::server_text::{failure, quote_server_text};

/// Maximum wait that counts as a rate limit. A longer wait means that the quota is used up.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// Backend that refused the request; determines the wording of messages and hints.
pub(crate) enum GeminiBackend {
    Gemini,
    /// Vertex AI, with its location.
    Vertex(String),
}

impl GeminiBackend {
    fn name(&self) -> &'static str {
        match self {
            Self::Gemini => "Gemini",
            Self::Vertex(_) => "Vertex AI",
        }
    }

    fn key_hint(&self) -> &'static str {
        match self {
            Self::Gemini => "check GEMINI_API_KEY and its permissions",
            Self::Vertex(_) => {
                "run `gcloud auth application-default login`, and check that the account has roles/aiplatform.user \
                 and the API is enabled"
            }
        }
    }

    fn model_hint(&self) -> String {
        match self {
            Self::Gemini => {
                "gemini-1.5 and gemini-2.0 models have been shut down; try gemini/gemini-flash-latest"
                    .to_owned()
            }
            Self::Vertex(location) if location == "global" => {
                "gemini-1.5 and gemini-2.0 models have been shut down; check the name".to_owned()
            }
            Self::Vertex(location) => format!(
                "location {} may not offer it: many models are only in `global`; gemini-1.5 and gemini-2.0 are shut down",
                quote_server_text(location, None)
            ),
        }
    }
}

/// An API error, from a response body or the stream.
pub(super) struct GeminiError {
    /// HTTP status, repeated in the body.
    pub(super) code: u64,
    /// Status name, such as `RESOURCE_EXHAUSTED`.
    pub(super) status: String,
    pub(super) message: String,
    details: Vec<Value>,
}

impl GeminiError {
    /// Parses `{"error":{..}}` or `[{"error":{..}}]`; any other body becomes the message.
    pub(super) fn read(body: &str) -> Self {
        let value: Value = serde_json::from_str(body).unwrap_or_default();
        let first = value.get(0).unwrap_or(&value);
        Self::of(&first["error"]).unwrap_or_else(|| Self {
            code: 0,
            status: String::new(),
            message: body.to_owned(),
            details: Vec::new(),
        })
    }

    /// Parses the inner error object; `None` if `error` is not an object.
    pub(super) fn of(error: &Value) -> Option<Self> {
        let error = error.as_object()?;
        let text = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(Self {
            code: error.get("code").and_then(Value::as_u64).unwrap_or(0),
            status: text("status"),
            message: text("message"),
            details: error.get("details").and_then(Value::as_array).cloned().unwrap_or_default(),
        })
    }

    fn says(&self, words: &str) -> bool {
        self.message.contains(words)
    }

    fn has_reason(&self, reason: &str) -> bool {
        self.details.iter().any(|detail| detail["reason"] == reason)
    }

    /// Returns true if the conversation is too long for the model.
    pub(super) fn is_overflow(&self) -> bool {
        self.says("exceeds the maximum number of tokens") || self.says("exceeds the maximum input token")
    }

    /// Returns true if waiting is useless: the daily quota is used up, or there is no quota at all.
    pub(super) fn is_spent(&self) -> bool {
        let violations =
            self.details.iter().flat_map(|detail| detail["violations"].as_array().into_iter().flatten());
        let mut quotas = violations.filter_map(|violation| violation["quotaId"].as_str());
        let none = |rest: &str| !rest.starts_with(|next: char| next.is_ascii_digit() || next == '.');
        quotas.any(|quota| quota.contains("PerDay"))
            || self.message.split("limit: 0").skip(1).any(none)
            || self.delay().is_some_and(|delay| delay > WAIT_MAX)
    }

    /// Returns the wait requested by the server, if any.
    pub(super) fn delay(&self) -> Option<Duration> {
        let told = self.details.iter().find_map(|detail| detail["retryDelay"].as_str());
        told.and_then(duration)
            .or_else(|| self.message.split_once("Please retry in ").and_then(|(_, rest)| duration(rest)))
    }
}

/// Parses a duration such as `37s`, `1.5s` or `250ms` at the start of the text.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|next: char| !next.is_ascii_digit() && next != '.')?;
    let number: f64 = text[..digits].parse().ok()?;
    let unit = &text[digits..];
    let seconds = if unit.starts_with("ms") {
        number / 1_000.0
    } else if unit.starts_with('s') {
        number
    } else {
        return None;
    };
    Duration::try_from_secs_f64(seconds).ok()
}

pub(crate) fn classify_error(
    status: u16,
    body: &str,
    quirks: &mut ModelQuirks,
    key: Option<&SecretString>,
    backend: &GeminiBackend,
) -> Option<ErrorAction> {
    let error = GeminiError::read(body);
    let said = quote_server_text(&error.message, key);
    let name = backend.name();
    let fail = |kind, sentence: String| Some(ErrorAction::Fail(failure(kind, sentence)));
    let shut_out = || format!("{name} rejected the credentials ({said}); {}", backend.key_hint());
    match status {
        400 | 413 if error.is_overflow() || status == 413 => fail(
            FailureKind::ContextOverflow,
            format!(
                "the prompt exceeds the model's context window ({said}); shorten the task, or start a new session"
            ),
        ),
        400 if error.has_reason("API_KEY_INVALID")
            || error.says("API key not valid")
            || error.says("API key expired") =>
        {
            fail(FailureKind::Auth, shut_out())
        }
        400 if error.status == "FAILED_PRECONDITION" => fail(
            FailureKind::Auth,
            format!(
                "{name} is not available to this account ({said}); enable billing, or use another provider if your \
                 region is not supported"
            ),
        ),
        400 if learn_quirk(&error, quirks) => Some(ErrorAction::RetryNow),
        400 if error.code == 0 => None, // not the API's own form
        400 => fail(FailureKind::BadRequest, format!("{name} rejected the request ({said})")),
        401 | 403 => fail(FailureKind::Auth, shut_out()),
        404 => fail(
            FailureKind::UnknownModel,
            format!("model not found at {name} ({said}); {}", backend.model_hint()),
        ),
        429 if error.is_spent() => fail(
            FailureKind::RateLimited,
            format!("quota exceeded at {name} ({said}); use another model, or wait for the quota to reset"),
        ),
        429 => Some(ErrorAction::RetryAfter(error.delay())),
        _ => error
            .delay()
            .filter(|_| status >= 500)
            .map(|delay| ErrorAction::RetryAfter(Some(delay.min(WAIT_MAX)))),
    }
}

/// Adds a quirk for the feature that, according to an error, the server refused. Returns false if the error names no
/// known feature or the quirk was already added.
fn learn_quirk(error: &GeminiError, quirks: &mut ModelQuirks) -> bool {
    let lower = error.message.to_lowercase();
    if lower.contains("function calling is not enabled") {
        return !std::mem::replace(&mut quirks.text_protocol, true);
    }
    let quirk = if lower.contains("thought_signature") || lower.contains("thought signature") {
        quirk::SIGNATURES
    } else if lower.contains("developer instruction is not enabled") {
        quirk::SYSTEM
    } else if lower.contains("thinking") || lower.contains("include_thoughts") {
        quirk::THINKING
    } else {
        return false;
    };
    if quirks.unsupported_params.contains(&quirk) {
        return false;
    }
    quirks.unsupported_params.push(quirk);
    true
}
