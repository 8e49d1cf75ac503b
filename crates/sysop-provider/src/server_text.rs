//! Quotes server text in messages to the user: one line, short, without keys. No I/O.

use secrecy::{ExposeSecret, SecretString};
use sysop_core::message::{FailureKind, ModelFailure};
use sysop_core::text::neutralize_line;

use crate::redact::{MASK, shortened};
use crate::settings::Endpoint;

/// Maximum characters quoted from a server.
const WORDS_CHARS_MAX: usize = 400;

/// Quotes a server's text on one line, shortened, with visible control characters and the key masked.
pub(crate) fn quote_server_text(text: &str, key: Option<&SecretString>) -> String {
    let hidden = match key.map(ExposeSecret::expose_secret) {
        Some(key) if !key.is_empty() => text.replace(key, MASK),
        Some(_) | None => text.to_owned(),
    };
    shortened(&neutralize_line(hidden.trim()), WORDS_CHARS_MAX)
}

pub(crate) fn failure(kind: FailureKind, message: impl Into<String>) -> ModelFailure {
    ModelFailure { kind, message: message.into() }
}

/// Appends the user's own headers; they replace ours of the same name.
pub(crate) fn with_custom_headers(
    mut headers: Vec<(String, SecretString)>,
    endpoint: &Endpoint,
) -> Vec<(String, SecretString)> {
    for (name, value) in &endpoint.headers {
        headers.retain(|(kept, _)| !kept.eq_ignore_ascii_case(name));
        headers.push((name.clone(), value.clone()));
    }
    headers
}

/// Returns true if the user's own headers include one of `names`.
pub(crate) fn has_custom_header(endpoint: &Endpoint, names: &[&str]) -> bool {
    endpoint.headers.iter().any(|(name, _)| names.iter().any(|wanted| name.eq_ignore_ascii_case(wanted)))
}
