//! The one way out: building clients when they are first needed, sending a request, and what may go wrong there.
//!
//! Never follows a redirect: the key would go along. Never reads more of a refusal than a bounded part.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Response};
use secrecy::{ExposeSecret, SecretString};
use sysop_core::message::FailureKind;
use url::{Host, Url};

use crate::failure::{Place, Problem, Refusal, ServerError};
use crate::frames::Framing;
use crate::settings::Endpoint;

/// Longest wait for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(15);

/// Most bytes read of a refusal.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// Most bytes read of a small answer: a list of models, a token.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// A request that is ready to go.
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) framing: Framing,
    /// Longest wait for the first byte of the answer.
    pub(crate) first_byte: Duration,
    /// Longest silence after that.
    pub(crate) silence: Duration,
    /// What to do where nobody answers.
    pub(crate) unreachable_hint: &'static str,
    /// What the person should know before it goes.
    pub(crate) notice: Option<String>,
}

/// The clients. Making one is free; TLS roots are read at the first request that needs them.
#[derive(Debug, Default)]
pub(crate) struct Http {
    /// For plain http on this machine: no proxy, no roots to load.
    near: OnceLock<Client>,
    far: OnceLock<Client>,
}

impl Http {
    /// Sends a request and waits for the head of its answer, whatever its status.
    pub(crate) async fn send(&self, outgoing: Outgoing, place: &Place) -> Result<Response, Problem> {
        let client = self.client(&outgoing.url).map_err(|why| {
            Problem::new(
                FailureKind::Unreachable,
                format!("{place} cannot be reached: {why}; install the system's CA certificates or set SSL_CERT_FILE"),
            )
        })?;
        let near = is_loopback(&outgoing.url);
        let request =
            client.request(outgoing.method, outgoing.url).headers(outgoing.headers).body(outgoing.body);
        match tokio::time::timeout(outgoing.first_byte, request.send()).await {
            Err(_) => Err(place.silent(outgoing.first_byte)),
            Ok(Err(error)) => Err(unsent(&error, place, near, outgoing.unreachable_hint)),
            Ok(Ok(response)) => Ok(response),
        }
    }

    /// Sends a request whose answer is one small JSON document.
    pub(crate) async fn fetch(&self, outgoing: Outgoing, place: &Place) -> Result<Fetched, Problem> {
        let silence = outgoing.silence;
        let response = self.send(outgoing, place).await?;
        let status = response.status().as_u16();
        if let Some(problem) = redirected(&response, place) {
            return Err(problem);
        }
        let headers = response.headers().clone();
        let body = body_text(response, silence, ANSWER_BYTES_MAX).await;
        if !(200..300).contains(&status) {
            return Ok(Fetched::Refused(Refusal {
                status,
                headers,
                error: ServerError::read(&body),
                in_stream: false,
            }));
        }
        match serde_json::from_str(&body) {
            Ok(value) => Ok(Fetched::Answer { value, headers }),
            Err(_) => Err(place.unusable("answered with something that is not JSON")),
        }
    }

    /// Sends a request whose answer is one line of text.
    pub(crate) async fn fetch_text(&self, outgoing: Outgoing, place: &Place) -> Result<String, Problem> {
        let silence = outgoing.silence;
        let response = self.send(outgoing, place).await?;
        if !response.status().is_success() {
            return Err(place.unusable(format_args!("answered {}", response.status().as_u16())));
        }
        Ok(body_text(response, silence, REFUSAL_BYTES_MAX).await.trim().to_owned())
    }

    fn client(&self, url: &Url) -> Result<&Client, String> {
        let near = url.scheme() == "http" && (is_loopback(url) || is_metadata(url));
        let cell = if near { &self.near } else { &self.far };
        if let Some(client) = cell.get() {
            return Ok(client);
        }
        // Another crate may have installed one already; any will do.
        rustls::crypto::ring::default_provider().install_default().ok();
        let builder = Client::builder()
            .redirect(Policy::none())
            .connect_timeout(CONNECT_MAX)
            .user_agent(concat!("sysop/", env!("CARGO_PKG_VERSION")));
        let builder = if near { builder.no_proxy().tls_certs_only([]) } else { builder };
        let client = builder.build().map_err(|error| root_cause(&error))?;
        Ok(cell.get_or_init(|| client))
    }
}

/// A small answer.
pub(crate) enum Fetched {
    Answer { value: serde_json::Value, headers: HeaderMap },
    Refused(Refusal),
}

/// Reads a refusal.
pub(crate) async fn refusal(response: Response, silence: Duration) -> Refusal {
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let body = body_text(response, silence, REFUSAL_BYTES_MAX).await;
    Refusal { status, headers, error: ServerError::read(&body), in_stream: false }
}

/// The problem with an answer that points elsewhere.
pub(crate) fn redirected(response: &Response, place: &Place) -> Option<Problem> {
    if !response.status().is_redirection() {
        return None;
    }
    let location = response.headers().get("location").and_then(|value| value.to_str().ok());
    let target = location
        .and_then(|location| response.url().join(location).ok())
        .map_or_else(|| "an unknown address".to_owned(), |url| host_of(&url));
    let status = response.status().as_u16();
    Some(Problem::new(
        FailureKind::Protocol,
        format!(
            "{place} answered {status} and points to {target}, which is not followed so that the key stays here; \
             set base_url to the final address if you trust it"
        ),
    ))
}

async fn body_text(mut response: Response, silence: Duration, most: usize) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < most {
        match tokio::time::timeout(silence, response.chunk()).await {
            Ok(Ok(Some(chunk))) => bytes.extend_from_slice(&chunk[..chunk.len().min(most - bytes.len())]),
            Ok(Ok(None) | Err(_)) | Err(_) => break,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn unsent(error: &reqwest::Error, place: &Place, near: bool, hint: &str) -> Problem {
    let cause = root_cause(error);
    let lower = cause.to_lowercase();
    if error.is_builder() {
        return Problem::new(
            FailureKind::BadRequest,
            format!("{place}: {cause}; check base_url and headers"),
        );
    }
    let tls = lower.contains("certificate") || lower.contains("tls") || lower.contains("corrupt message");
    if error.is_connect() && tls {
        return Problem::new(
            FailureKind::Unreachable,
            format!("{place} cannot be trusted: {cause}; set SSL_CERT_FILE if your network has its own CA"),
        );
    }
    let problem =
        Problem::new(FailureKind::Unreachable, format!("{place} cannot be reached: {cause}; {hint}"))
            .retried(cause, None);
    // A port of this machine that refuses is not about to open.
    if near && lower.contains("refused") { problem.at_most(1) } else { problem }
}

/// The innermost cause, without the URL that the outer ones quote.
pub(crate) fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    if std::ptr::addr_eq(cause, std::ptr::from_ref(error)) && error.url().is_some() {
        return "the connection failed".to_owned();
    }
    crate::failure::excerpt(&cause.to_string())
}

/// `host[:port]` of a URL, without anything that may be secret.
pub(crate) fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or("nowhere");
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Whether a URL leads to this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Whether a URL leads to Google's metadata server, which no proxy reaches.
fn is_metadata(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "metadata.google.internal" || name == "metadata",
        Some(Host::Ipv4(address)) => address.is_link_local(),
        Some(Host::Ipv6(_)) | None => false,
    }
}

/// Reads a base URL, without its last slash.
pub(crate) fn base_url(text: &str, provider: &str) -> Result<Url, Problem> {
    let wrong = |why: &str| {
        Problem::new(
            FailureKind::BadRequest,
            format!(
                "providers.{provider}.base_url is not usable: {why}; it should look like https://host/path"
            ),
        )
    };
    let mut url = Url::parse(text.trim()).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(wrong("it is not an http address"));
    }
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    url.set_fragment(None);
    Ok(url)
}

/// `base` with `path` behind its own; a query stays at the end.
pub(crate) fn with_path(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    let whole = format!("{}/{}", base.path().trim_end_matches('/'), path.trim_start_matches('/'));
    url.set_path(&whole);
    url
}

/// The last segment of a base URL's path.
pub(crate) fn last_segment(url: &Url) -> &str {
    url.path().trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}

/// The headers of a request: JSON, the configured ones, and the key under `key_header`.
pub(crate) fn headers(
    endpoint: &Endpoint,
    provider: &str,
    key: Option<(&'static str, String)>,
) -> Result<HeaderMap, Problem> {
    let wrong = |name: &str| {
        Problem::new(
            FailureKind::BadRequest,
            format!(
                "the {name} header of provider {provider} has characters that HTTP does not allow; check its value"
            ),
        )
    };
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    if let Some((name, value)) = key {
        let mut value = HeaderValue::from_str(&value).map_err(|_| wrong(name))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    for (name, value) in &endpoint.headers {
        let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong(name))?;
        let mut value = HeaderValue::from_str(value).map_err(|_| wrong(name))?;
        value.set_sensitive(true);
        headers.insert(parsed, value);
    }
    Ok(headers)
}

/// What to say when a key would cross a network in the clear; once for each client.
///
/// It is said and not forbidden: model servers inside a home or office network often have a key and no certificate.
pub(crate) fn clear_key_notice(url: &Url, endpoint: &Endpoint, warned: &AtomicBool) -> Option<String> {
    let clear = url.scheme() == "http" && !is_loopback(url) && key_of(endpoint).is_some();
    if !clear || warned.swap(true, Ordering::Relaxed) {
        return None;
    }
    Some(format!("the key goes to {} unencrypted; use https where the server can", host_of(url)))
}

/// The key, where there is one that is not blank.
pub(crate) fn key_of(endpoint: &Endpoint) -> Option<&str> {
    endpoint.api_key.as_ref().map(SecretString::expose_secret).map(str::trim).filter(|key| !key.is_empty())
}

/// All that must not show up in a message.
pub(crate) fn secrets_of(endpoint: &Endpoint) -> Vec<String> {
    let mut secrets: Vec<String> = key_of(endpoint).map(str::to_owned).into_iter().collect();
    for (_, value) in &endpoint.headers {
        let bare = value.strip_prefix("Bearer ").unwrap_or(value);
        // Short values (a flag, a version) are no secrets, and striking them out would garble sentences.
        if bare.len() >= 8 {
            secrets.push(bare.to_owned());
        }
    }
    secrets
}

/// Strikes secrets out of a text.
pub(crate) fn redact(text: String, secrets: &[String]) -> String {
    secrets.iter().filter(|secret| !secret.is_empty()).fold(text, |text, secret| {
        if text.contains(secret.as_str()) { text.replace(secret.as_str(), "[REDACTED]") } else { text }
    })
}
