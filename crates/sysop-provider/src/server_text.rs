//! Quotes server text in messages to the user: on one short line, without keys. No I/O.

use secrecy::{ExposeSecret, SecretString};
use sysop_core::message::{FailureKind, ModelFailure};
use sysop_core::text::neutralize_line;

use crate::redact::{MASK, shortened};
use crate::settings::Endpoint;

const WORDS_CHARS_MAX: usize = 400;

/// Returns a server's text as one shortened line, with the key masked and control characters made visible.
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

/// Appends the headers that the user configured. They replace headers of the same name.
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

pub(crate) fn has_custom_header(endpoint: &Endpoint, names: &[&str]) -> bool {
    endpoint.headers.iter().any(|(name, _)| names.iter().any(|wanted| name.eq_ignore_ascii_case(wanted)))
}
