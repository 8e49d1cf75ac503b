//! Interprets refusals and learns quirks from them.

use secrecy::SecretString;
use serde_json::Value;
use sysop_core::message::FailureKind;

use super::encode::quirk;
use crate::api::{ErrorAction, ModelQuirks};
use crate::server_text::{failure, quote_server_text};

/// An API error, from a response body or the stream.
pub(super) struct AnthropicError {
    /// `error.details.error_code` if present, else `error.type`.
    pub(super) code: String,
    pub(super) message: String,
}

impl AnthropicError {
    /// Parses `{"type":"error","error":{..}}`; any other body becomes the message.
    pub(super) fn read(body: &str) -> Self {
        let value: Value = serde_json::from_str(body).unwrap_or_default();
        Self::of(&value["error"]).unwrap_or_else(|| Self { code: String::new(), message: body.to_owned() })
    }

    /// Parses the inner error object; `None` if it has no message.
    pub(super) fn of(error: &Value) -> Option<Self> {
        let message = error["message"].as_str()?.to_owned();
        let code = error["details"]["error_code"].as_str().or_else(|| error["type"].as_str());
        Some(Self { code: code.unwrap_or_default().to_owned(), message })
    }

    /// Returns true if the credit or a spending limit is used up, so that a retry is useless.
    pub(super) fn is_spent(&self) -> bool {
        self.code.ends_with("spend_limit_reached")
            || self.code == "billing_error"
            || self.message.contains("credit balance")
    }

    /// Returns true if the conversation is too long for the model.
    pub(super) fn is_overflow(&self) -> bool {
        self.code == "request_too_large"
            || self.message.contains("prompt is too long")
            || self.message.contains("exceed context limit")
    }
}

pub(super) fn classify_error(
    status: u16,
    body: &str,
    quirks: &mut ModelQuirks,
    key: Option<&SecretString>,
) -> Option<ErrorAction> {
    let error = AnthropicError::read(body);
    let said = quote_server_text(&error.message, key);
    let fail = |kind, sentence: String| Some(ErrorAction::Fail(failure(kind, sentence)));
    match status {
        400 | 413 if error.is_overflow() || status == 413 => fail(
            FailureKind::ContextOverflow,
            format!(
                "the prompt exceeds the model's context window ({said}); shorten the task, or start a new session"
            ),
        ),
        400 | 402 | 429 if error.is_spent() || status == 402 => {
            let kind = if status == 429 { FailureKind::RateLimited } else { FailureKind::BadRequest };
            fail(kind, format!("the Anthropic account has no credit ({said}); check its billing page"))
        }
        400 if learn_quirk(&error.message, quirks) => Some(ErrorAction::RetryNow),
        400 if error.code.is_empty() => None, // not the API's own form
        400 => fail(FailureKind::BadRequest, format!("Anthropic rejected the request ({said})")),
        401 => fail(
            FailureKind::Auth,
            format!("Anthropic rejected the API key ({said}); check ANTHROPIC_API_KEY"),
        ),
        403 => fail(
            FailureKind::Auth,
            format!("the API key lacks a permission at Anthropic ({said}); check the key's permissions"),
        ),
        404 => fail(
            FailureKind::UnknownModel,
            format!("model not found at Anthropic ({said}); check the name in --model anthropic/NAME"),
        ),
        409 | 529 => Some(ErrorAction::RetryAfter(None)),
        _ => None,
    }
}

/// Adds a quirk for the feature that, according to an error message, the server refused. Returns false if the message
/// names no known feature or the quirk was already added.
fn learn_quirk(message: &str, quirks: &mut ModelQuirks) -> bool {
    let Some(quirk) = quirk_of(message, quirks) else { return false };
    if quirks.unsupported_params.contains(&quirk) {
        return false;
    }
    quirks.unsupported_params.push(quirk);
    true
}

fn quirk_of(message: &str, quirks: &ModelQuirks) -> Option<&'static str> {
    let says = |words: &str| message.contains(words);
    if says("bound to a different conversation") {
        let asked = quirks.unsupported_params.contains(&quirk::STRICT_BINDING);
        return Some(if asked { quirk::THINKING_BLOCKS } else { quirk::STRICT_BINDING });
    }
    if says("block_binding") || says("anthropic-beta") || says("thinking-binding-controls") {
        return Some(quirk::BLOCK_BINDING);
    }
    if says("max_tokens:") && says("maximum allowed") {
        return Some(quirk::LONG_ANSWERS);
    }
    if !says("thinking") {
        return None;
    }
    if says("signature") || says("cannot be modified") || says("Expected `thinking`") {
        return Some(quirk::THINKING_BLOCKS);
    }
    if says("display") {
        return Some(quirk::DISPLAY);
    }
    let unknown = ["not support", "adaptive", "Input tag", "Extra inputs", "not permitted"];
    unknown.iter().any(|words| says(words)).then_some(quirk::THINKING)
}
