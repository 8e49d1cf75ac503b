//! The Gemini Developer API. Vertex AI shares its request and stream format.
//!
//! Sources: `google-genai` 3.4.0 (Python) types; ai.google.dev, "Thought signatures". The key goes into a header, never
//! into the URL, which ends up in logs.

use secrecy::{ExposeSecret as _, SecretString};
use sysop_core::message::{FailureKind, ModelFailure, ModelRequest};
use sysop_core::model_provider::GEMINI;
use url::Url;

use crate::api::{ErrorAction, Framing, HttpRequest, ModelApi, ModelQuirks, ReplyDecoder};
use crate::server_text::{failure, has_custom_header, with_custom_headers};
use crate::settings::{Endpoint, SILENCE_MAX};

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod errors;
#[cfg(test)]
mod tests;

use errors::GeminiBackend;

/// API version that has every feature used here.
const VERSION: &str = "v1beta";
pub(crate) const KEY_HEADER: &str = "x-goog-api-key";

pub(crate) struct Gemini {
    endpoint: Endpoint,
}

impl Gemini {
    /// Stores the settings; does no I/O.
    pub(crate) fn new(endpoint: &Endpoint) -> Self {
        Self { endpoint: endpoint.clone() }
    }

    pub(crate) fn headers(&self) -> Result<Vec<(String, SecretString)>, ModelFailure> {
        let mut headers = Vec::new();
        match &self.endpoint.api_key {
            Some(key) if !key.expose_secret().is_empty() => {
                headers.push((KEY_HEADER.to_owned(), key.clone()));
            }
            Some(_) | None if has_custom_header(&self.endpoint, &[KEY_HEADER, "authorization"]) => {}
            Some(_) | None => {
                return Err(failure(
                    FailureKind::Auth,
                    "no API key for Gemini; set GEMINI_API_KEY (create one at aistudio.google.com)",
                ));
            }
        }
        Ok(with_custom_headers(headers, &self.endpoint))
    }
}

impl ModelApi for Gemini {
    fn build(&self, request: &ModelRequest, quirks: &ModelQuirks) -> Result<HttpRequest, ModelFailure> {
        let base = self.endpoint.base_url.as_deref().unwrap_or(GEMINI.base_url);
        let method = method(&request.model.name);
        Ok(HttpRequest {
            url: address(base, VERSION, &["models", &method])?,
            headers: self.headers()?,
            body: encode::body(request, quirks),
            framing: Framing::Sse,
            first_byte: self.endpoint.timeout.unwrap_or(SILENCE_MAX),
        })
    }

    fn decoder(&self, request: &ModelRequest, quirks: &ModelQuirks) -> Box<dyn ReplyDecoder> {
        Box::new(decode::GeminiDecoder::new(request, quirks, self.endpoint.api_key.clone()))
    }

    fn classify_error(&self, status: u16, body: &str, quirks: &mut ModelQuirks) -> Option<ErrorAction> {
        errors::classify_error(status, body, quirks, self.endpoint.api_key.as_ref(), &GeminiBackend::Gemini)
    }
}

/// Returns the last segment of the URL, which names the model and the method.
pub(crate) fn method(model: &str) -> String {
    format!("{}:streamGenerateContent", bare(model))
}

/// Strips the `models/` prefix that model lists show.
pub(crate) fn bare(model: &str) -> &str {
    model.strip_prefix("models/").unwrap_or(model)
}

/// Returns the URL of `base`, the version (unless `base` ends in one), the segments, and the query that selects SSE.
pub(crate) fn address(base: &str, version: &str, segments: &[&str]) -> Result<String, ModelFailure> {
    let wrong = || {
        let sentence = "base_url is not an HTTP URL; use https://host";
        failure(FailureKind::BadRequest, sentence)
    };
    let mut url = Url::parse(base).map_err(|_| wrong())?;
    let last = url.path_segments().and_then(|mut parts| parts.rfind(|part| !part.is_empty()));
    let has_version = last.is_some_and(is_version);
    {
        let mut path = url.path_segments_mut().map_err(|()| wrong())?;
        path.pop_if_empty();
        if !has_version {
            path.push(version);
        }
        path.extend(segments);
    }
    url.set_query(Some("alt=sse"));
    Ok(url.into())
}

fn is_version(segment: &str) -> bool {
    segment.strip_prefix('v').is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}
