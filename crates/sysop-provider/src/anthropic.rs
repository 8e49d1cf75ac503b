//! The Anthropic Messages API.
//!
//! Sources: the types and stream code of `anthropic` 2.11.0 (Python); platform.claude.com, `api/versioning` and
//! `preserved-thinking`. Never sends sampling parameters: newer models refuse them.

use secrecy::SecretString;
use sysop_core::message::{FailureKind, ModelFailure, ModelRequest};
use sysop_core::model_provider::ANTHROPIC;

use crate::api::{ErrorAction, Framing, HttpRequest, ModelApi, ModelQuirks, ReplyDecoder};
use crate::server_text::{failure, has_custom_header, with_custom_headers};
use crate::settings::{Endpoint, SILENCE_MAX};

mod decode;
mod encode;
mod errors;
#[cfg(test)]
mod tests;

/// API version to request. Gateways support this version best, and the vendor still serves it alongside newer versions.
const VERSION: &str = "2023-06-01";
/// Beta header that lets the server drop thinking that no longer matches the conversation before it.
const BINDING_BETA: &str = "thinking-binding-controls-2026-08-01";
/// Prefix of keys that are sent as bearer tokens instead of in `x-api-key`.
const BEARER_KEY_PREFIX: &str = "sk-ant-oat";

pub(crate) struct Anthropic {
    endpoint: Endpoint,
}

impl Anthropic {
    /// Stores the settings; does no I/O.
    pub(crate) fn new(endpoint: &Endpoint) -> Self {
        Self { endpoint: endpoint.clone() }
    }

    fn url(&self) -> String {
        let base = self.endpoint.base_url.as_deref().unwrap_or(ANTHROPIC.base_url).trim_end_matches('/');
        format!("{}/v1/messages", base.strip_suffix("/v1").unwrap_or(base))
    }

    pub(crate) fn headers(
        &self,
        beta: Option<&'static str>,
    ) -> Result<Vec<(String, SecretString)>, ModelFailure> {
        use secrecy::ExposeSecret as _;
        let mut headers = vec![("anthropic-version".to_owned(), SecretString::from(VERSION))];
        match &self.endpoint.api_key {
            Some(key) if key.expose_secret().starts_with(BEARER_KEY_PREFIX) => {
                let bearer = SecretString::from(format!("Bearer {}", key.expose_secret()));
                headers.push(("authorization".to_owned(), bearer));
            }
            Some(key) if !key.expose_secret().is_empty() => {
                headers.push(("x-api-key".to_owned(), key.clone()));
            }
            Some(_) | None if has_custom_header(&self.endpoint, &["x-api-key", "authorization"]) => {}
            Some(_) | None => {
                return Err(failure(FailureKind::Auth, "no API key for Anthropic; set ANTHROPIC_API_KEY"));
            }
        }
        headers.extend(beta.map(|beta| ("anthropic-beta".to_owned(), SecretString::from(beta))));
        Ok(with_custom_headers(headers, &self.endpoint))
    }
}

impl ModelApi for Anthropic {
    fn build(&self, request: &ModelRequest, quirks: &ModelQuirks) -> Result<HttpRequest, ModelFailure> {
        let beta = encode::drops_unbound_thinking(request, quirks).then_some(BINDING_BETA);
        Ok(HttpRequest {
            url: self.url(),
            headers: self.headers(beta)?,
            body: encode::body(request, quirks),
            framing: Framing::Sse,
            first_byte: self.endpoint.timeout.unwrap_or(SILENCE_MAX),
        })
    }

    fn decoder(&self, request: &ModelRequest, _attempt: &ModelQuirks) -> Box<dyn ReplyDecoder> {
        Box::new(decode::AnthropicDecoder::new(request.model.clone(), self.endpoint.api_key.clone()))
    }

    fn classify_error(&self, status: u16, body: &str, quirks: &mut ModelQuirks) -> Option<ErrorAction> {
        errors::classify_error(status, body, quirks, self.endpoint.api_key.as_ref())
    }
}
