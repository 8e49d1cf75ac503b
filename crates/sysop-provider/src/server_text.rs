//! What a server said, made fit for a sentence to a person: one line, short, without keys. No IO.

use secrecy::{ExposeSecret, SecretString};
use sysop_core::message::{FailureKind, ModelFailure};
use sysop_core::text::neutralize_line;

use crate::settings::Endpoint;

/// Most characters of a server's own words in one sentence of ours.
const WORDS_CHARS_MAX: usize = 400;
/// What stands where a key was.
const KEY_HIDDEN: &str = "[key]";

/// A server's words on one line, cut, control characters made visible, the key hidden.
pub(crate) fn quote_server_text(text: &str, key: Option<&SecretString>) -> String {
    let hidden = match key.map(ExposeSecret::expose_secret) {
        Some(key) if !key.is_empty() => text.replace(key, KEY_HIDDEN),
        Some(_) | None => text.to_owned(),
    };
    let line = neutralize_line(hidden.trim());
    match line.char_indices().nth(WORDS_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.into_owned(),
    }
}

/// A failure with its sentence.
pub(crate) fn failure(kind: FailureKind, message: impl Into<String>) -> ModelFailure {
    ModelFailure { kind, message: message.into() }
}

/// The person's own headers, behind those of the wire, unless they name one of the same.
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

/// Whether the person's own headers hold one of `names`.
pub(crate) fn has_custom_header(endpoint: &Endpoint, names: &[&str]) -> bool {
    endpoint.headers.iter().any(|(name, _)| names.iter().any(|wanted| name.eq_ignore_ascii_case(wanted)))
}
