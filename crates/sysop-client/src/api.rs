//! Client for the server's HTTP API: sends the token with each request, reads JSON, and turns refusals into errors.
//!
//! Requests and sockets use the same kind of client, so that proxies (`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`,
//! `NO_PROXY`), the system's certificates and `SSL_CERT_FILE` apply to both.

use std::error::Error;
use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, Response, StatusCode};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use sysop_core::text::neutralize_line;
use sysop_wire::ErrorCode;
use url::Url;

use crate::{ClientError, ServerAddress};

/// Maximum time to establish a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time from the start of a request until its whole response has been read.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a response, in bytes. This exceeds the default maximum for one call's stored output.
const ANSWER_BYTES_MAX: usize = 80 * 1024 * 1024;
/// Maximum length of an error message from the server, in characters.
const SENTENCE_CHARS_MAX: usize = 400;

/// Client for a server's HTTP API. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Api {
    server: ServerAddress,
    requests: reqwest::Client,
    sockets: reqwest::Client,
}

impl Api {
    pub(crate) fn new(server: ServerAddress) -> Result<Self, ClientError> {
        let no_client = |error: reqwest::Error| {
            let why = causes(&error);
            ClientError::Failed(format!(
                "cannot create an HTTP client: {why}; check the proxy variables and the system's certificates"
            ))
        };
        let requests = build(&server, |it| it.timeout(REQUEST_TIMEOUT)).map_err(no_client)?;
        // A socket starts as HTTP/1.1, even if the server also supports HTTP/2.
        let sockets = build(&server, reqwest::ClientBuilder::http1_only).map_err(no_client)?;
        Ok(Self { server, requests, sockets })
    }

    pub(crate) fn server(&self) -> &ServerAddress {
        &self.server
    }

    pub(crate) fn socket(&self, url: Url) -> reqwest::RequestBuilder {
        self.sockets.get(url).bearer_auth(self.server.token().expose_secret())
    }

    pub(crate) async fn get(&self, parts: &[&str], query: &[(&str, &str)]) -> Result<Value, ClientError> {
        let mut url = self.server.at(parts);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        json(&self.server, &self.request(Method::GET, url, None).await?)
    }

    pub(crate) async fn post(&self, parts: &[&str], body: &Value) -> Result<Value, ClientError> {
        json(&self.server, &self.request(Method::POST, self.server.at(parts), Some(body)).await?)
    }

    pub(crate) async fn upload(
        &self,
        parts: &[&str],
        query: &[(&str, &str)],
        media_type: &str,
        bytes: Vec<u8>,
    ) -> Result<Value, ClientError> {
        let mut url = self.server.at(parts);
        url.query_pairs_mut().extend_pairs(query);
        let request = self.requests.post(url).header(CONTENT_TYPE, media_type).body(bytes);
        json(&self.server, &self.answer(request).await?)
    }

    pub(crate) async fn bytes(&self, parts: &[&str]) -> Result<Vec<u8>, ClientError> {
        self.request(Method::GET, self.server.at(parts), None).await
    }

    async fn request(&self, method: Method, url: Url, body: Option<&Value>) -> Result<Vec<u8>, ClientError> {
        let request = self.requests.request(method, url);
        self.answer(if let Some(body) = body { request.json(body) } else { request }).await
    }

    /// Sends a request with the token, and returns the body of its response.
    async fn answer(&self, request: reqwest::RequestBuilder) -> Result<Vec<u8>, ClientError> {
        let request = request.bearer_auth(self.server.token().expose_secret());
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        let answer = read(response).await.map_err(|error| self.unreachable(&error))?;
        let answer = answer.ok_or_else(|| {
            ClientError::Failed(format!("the server's response is longer than {ANSWER_BYTES_MAX} bytes"))
        })?;
        if status.is_success() { Ok(answer) } else { Err(refusal(&self.server, status, &answer)) }
    }

    /// Returns the error for a connection that could not be established.
    pub(crate) fn unreachable(&self, error: &reqwest::Error) -> ClientError {
        let (server, why) = (self.server.display_url(), causes(error));
        let next = "check the URL, and that `sysop serve` is running there";
        ClientError::Unreachable(format!("cannot connect to {server} ({why}); {next}"))
    }
}

/// Builds a client. Without the system's certificates if it has none and the server needs none, as in many containers.
fn build(
    server: &ServerAddress,
    options: impl Fn(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
) -> reqwest::Result<reqwest::Client> {
    let built = options(builder(server)).build();
    if built.is_err() && server.is_http() {
        return options(builder(server).tls_certs_only([])).build();
    }
    built
}

fn builder(server: &ServerAddress) -> reqwest::ClientBuilder {
    // Fails only if the process already has a default provider, which serves as well.
    rustls::crypto::ring::default_provider().install_default().ok();
    let builder = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .user_agent(concat!("sysop/", env!("CARGO_PKG_VERSION")));
    if let Some(certificate) = server.certificate() {
        return builder.no_proxy().tls_backend_preconfigured(certificate.client_config());
    }
    match (server.is_here(), server.is_http()) {
        // Reading the system's certificates takes milliseconds.
        (true, true) => builder.no_proxy().tls_certs_only([]),
        (true, false) => builder.no_proxy(),
        (false, _) => builder, // proxies from the environment, certificates from the system
    }
}

/// Reads the whole response; `None` if it is too long.
async fn read(mut response: Response) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut answer = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if answer.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Ok(None);
        }
        answer.extend_from_slice(&chunk);
    }
    Ok(Some(answer))
}

fn json(server: &ServerAddress, answer: &[u8]) -> Result<Value, ClientError> {
    serde_json::from_slice(answer).map_err(|_| ClientError::Unreachable(no_server(server)))
}

fn no_server(server: &ServerAddress) -> String {
    format!("{} is not a sysop server; check the URL", server.display_url())
}

/// Converts a response whose status is not a success into an error.
pub(crate) fn refusal(server: &ServerAddress, status: StatusCode, answer: &[u8]) -> ClientError {
    let body: Option<Value> = serde_json::from_slice(answer).ok();
    let is_busy = body.as_ref().is_some_and(|body| body["code"] == json!(ErrorCode::Busy));
    let said = body.as_ref().and_then(|said| said["error"].as_str()).map(sentence);
    let told = |otherwise: &str| said.clone().unwrap_or_else(|| otherwise.to_owned());
    match status {
        // The server's own text tells programs to send a token; this request had one.
        StatusCode::UNAUTHORIZED => ClientError::Refused(format!(
            "{} rejected the token; run `sysop token list` on the server to see valid ones",
            server.display_url()
        )),
        StatusCode::FORBIDDEN => ClientError::Refused(told("this token lacks the required scope")),
        StatusCode::NOT_FOUND => ClientError::Unknown(said.unwrap_or_else(|| no_server(server))),
        StatusCode::UNPROCESSABLE_ENTITY | StatusCode::BAD_REQUEST => {
            ClientError::Invalid(said.unwrap_or_else(|| no_server(server)))
        }
        StatusCode::CONFLICT if is_busy => ClientError::Busy(told("another process uses the session")),
        _ if status.is_redirection() => ClientError::Unreachable(format!(
            "{} redirected the request; use the URL of the server itself",
            server.display_url()
        )),
        _ => ClientError::Failed(told(&format!("{} returned {status}", server.display_url()))),
    }
}

/// Converts text from the server to one line of bounded length that is safe to display.
pub(crate) fn sentence(text: &str) -> String {
    let short: String = text.chars().take(SENTENCE_CHARS_MAX).collect();
    neutralize_line(&short).to_string()
}

/// Returns the root cause of an error, without the request's URL and the number of a system error.
fn causes(error: &reqwest::Error) -> String {
    let mut last: &dyn Error = error;
    while let Some(source) = last.source() {
        last = source;
    }
    if error.is_timeout() {
        return "timed out".to_owned();
    }
    let text = last.to_string();
    sentence(text.split_once(" (os error ").map_or(text.as_str(), |(cause, _)| cause))
}
