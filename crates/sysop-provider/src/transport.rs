//! Sends a request of any API and streams its reply. Handles waits, retries, limits and error messages.
//!
//! Knows nothing about the individual APIs. Never follows a redirect, never shows a secret, and does nothing before the
//! first poll. Dropping the stream closes the connection.

mod clients;
mod error;
mod images;
mod progress;
mod retry;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures::stream::{BoxStream, StreamExt as _};
use parking_lot::Mutex;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use secrecy::{ExposeSecret as _, SecretString};
use sysop_core::message::{FailureKind, ModelRequest, Reply};
use sysop_core::model_provider::ProviderInfo;
use sysop_driver::port::ModelEvent;
use url::Url;

use crate::api::{ErrorAction, FrameError, HttpRequest, ModelApi, ModelQuirks};
use crate::frames::{FRAME_BYTES_MAX, FrameReader, FrameTooLong};
use crate::redact::Redactor;
use crate::reply_reader::ReplyReader;
use crate::settings::SettingSources;

pub(crate) use clients::{HttpClients, causes, is_loopback};
use error::{RequestError, is_closed_connection};
pub use error::{UNNAMED_MODEL, with_api_path};
pub(crate) use error::{error_text, missing_api_hint};
use progress::ReplyMeter;
pub use retry::RetrySettings;
use retry::{RetryAdvice, is_transient};

/// Maximum bytes of a reply's body; a longer body fails the call.
pub const REPLY_BYTES_MAX: usize = 64 * 1024 * 1024;
pub const ERROR_BODY_BYTES_MAX: usize = 64 * 1024;
const ERROR_BODY_WAIT_MAX: Duration = Duration::from_secs(10);
/// Maximum number of times one request changes form because the server refused the previous form.
const QUIRK_RETRIES_MAX: u32 = 8;
/// Maximum wait for the end of the body after the end of the reply. Only a body read to its end frees the connection.
const END_WAIT_MAX: Duration = Duration::from_millis(50);
/// Maximum time for a query about models.
const QUERY_MAX: Duration = Duration::from_secs(3);
const QUERY_BYTES_MAX: usize = 8 * 1024 * 1024;
const QUIRK_MODELS_MAX: usize = 256;
/// Maximum bytes of the body that are kept to describe an unreadable response.
const SAMPLE_BYTES_MAX: usize = 2_048;

#[derive(Debug, Default)]
pub(crate) struct QuirkCache(Mutex<HashMap<String, ModelQuirks>>);

impl QuirkCache {
    /// Returns a cache that holds only the quirks of `model`.
    pub(crate) fn with(model: String, quirks: ModelQuirks) -> Self {
        Self(Mutex::new(HashMap::from([(model, quirks)])))
    }

    /// Changes the quirks of a model and keeps the result. Starts without quirks if none are known.
    pub(crate) fn change(&self, model: &str, change: impl FnOnce(&mut ModelQuirks)) {
        let mut quirks = self.of(model);
        change(&mut quirks);
        self.keep(model.to_owned(), quirks);
    }

    pub(crate) fn of(&self, model: &str) -> ModelQuirks {
        self.0.lock().get(model).cloned().unwrap_or_default()
    }

    fn keep(&self, model: String, quirks: ModelQuirks) {
        let mut kept = self.0.lock();
        if kept.len() >= QUIRK_MODELS_MAX && !kept.contains_key(&model) {
            kept.clear();
        }
        kept.insert(model, quirks);
    }
}

/// Providers for which the user was already warned that the key is sent unencrypted.
#[derive(Debug, Default)]
pub(crate) struct CleartextKeyWarnings(Mutex<BTreeSet<&'static str>>);

impl CleartextKeyWarnings {
    /// Records that the user is warned about `provider`. Returns true the first time.
    fn is_first(&self, provider: &'static str) -> bool {
        self.0.lock().insert(provider)
    }
}

/// Everything that a call needs besides its request.
pub(crate) struct CallContext {
    pub(crate) clients: Arc<HttpClients>,
    pub(crate) api: Arc<dyn ModelApi>,
    pub(crate) target: &'static ProviderInfo,
    pub(crate) sources: SettingSources,
    /// Server address, used to choose the HTTP client.
    pub(crate) base_url: String,
    /// Address shown to the user, if it differs from the one used to connect.
    pub(crate) shown: Option<String>,
    /// Maximum time between two bytes.
    pub(crate) silence: Duration,
    pub(crate) retry: RetrySettings,
    pub(crate) known_quirks: Arc<QuirkCache>,
    pub(crate) cleartext_warnings: Arc<CleartextKeyWarnings>,
}

/// Starts a call. Nothing happens before the first poll.
pub(crate) fn stream(context: CallContext, request: ModelRequest) -> BoxStream<'static, ModelEvent> {
    let quirks = context.known_quirks.of(&request.model.to_string());
    // Boxed, because `unfold` moves it for each event.
    let call = Box::new(ModelCall {
        known_quirks: quirks.clone(),
        quirks,
        origin: context.shown.clone().unwrap_or_else(|| context.base_url.clone()),
        context,
        request,
        retries: 0,
        quirk_retries: 0,
        reconnected: false,
        shown: false,
        redactor: Redactor::default(),
        ready: VecDeque::new(),
        phase: CallPhase::Prepare,
    });
    futures::stream::unfold(call, |mut call| async move { call.next().await.map(|event| (event, call)) })
        .boxed()
}

enum CallPhase {
    Prepare,
    Send(reqwest::Client, Box<(Url, HttpRequest)>),
    Wait(Duration),
    Read(Box<ResponseReader>),
    Ended,
}

struct ResponseReader {
    http: reqwest::Client,
    response: reqwest::Response,
    frames: FrameReader,
    decoder: ReplyReader,
    first_byte: Duration,
    bytes: usize,
    has_frames: bool,
    sample: Vec<u8>,
    meter: ReplyMeter,
    /// Empty between two reads; kept because a read per token would allocate it again.
    events: Vec<ModelEvent>,
}

struct ModelCall {
    context: CallContext,
    request: ModelRequest,
    quirks: ModelQuirks,
    known_quirks: ModelQuirks,
    /// Scheme, host and port of the server.
    origin: String,
    retries: u32,
    quirk_retries: u32,
    /// True if the request was sent again because the server had closed an idle connection.
    reconnected: bool,
    /// True if text or reasoning was already shown, which a retry would invalidate.
    shown: bool,
    redactor: Redactor,
    ready: VecDeque<ModelEvent>,
    phase: CallPhase,
}

impl ModelCall {
    async fn next(&mut self) -> Option<ModelEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.shown |= matches!(event, ModelEvent::Text(_) | ModelEvent::Reasoning(_));
                return Some(event);
            }
            match std::mem::replace(&mut self.phase, CallPhase::Ended) {
                CallPhase::Ended => return None,
                CallPhase::Prepare => self.prepare().await,
                CallPhase::Send(http, request) => {
                    let (url, http_request) = *request;
                    self.send(http, url, http_request).await;
                }
                CallPhase::Wait(wait) => {
                    tokio::time::sleep(wait).await;
                    self.phase = CallPhase::Prepare;
                }
                CallPhase::Read(reader) => self.read(reader).await,
            }
        }
    }

    async fn prepare(&mut self) {
        let http = match self.context.clients.for_address(&self.context.base_url) {
            Ok(http) => http,
            Err(failure) => return self.fail(failure),
        };
        if let Err(failure) = self.context.api.prepare(&http).await {
            return self.fail(failure);
        }
        if let Err(failure) = self.leave_out_images() {
            return self.fail(failure);
        }
        match self.context.api.build(&self.request, &self.quirks) {
            Ok(http_request) => {
                self.redactor = Redactor::new(&http_request.headers);
                let url = match self.context.clients.parsed(&http_request.url) {
                    Ok(url) => url,
                    Err(error) => {
                        let what = format!("invalid URL for {} ({error})", self.context.target.name);
                        return self.retry_or_fail(RequestError::new(
                            FailureKind::BadRequest,
                            what,
                            self.check_address(),
                        ));
                    }
                };
                if self.context.shown.is_none() {
                    self.origin = url.origin().ascii_serialization();
                }
                self.warn_of_cleartext_key(&url);
                self.phase = CallPhase::Send(http, Box::new((url, http_request)));
            }
            Err(failure) => self.fail(failure),
        }
    }

    fn warn_of_cleartext_key(&mut self, url: &Url) {
        let open = url.scheme() == "http" && !is_loopback(url) && self.redactor.has_secrets();
        if open && self.context.cleartext_warnings.is_first(self.context.target.name) {
            let notice = format!(
                "the API key for {} is sent to {} unencrypted; use https",
                self.context.target.name, self.origin
            );
            self.ready.push_back(ModelEvent::Notice(notice));
        }
    }

    async fn send(&mut self, http: reqwest::Client, url: Url, http_request: HttpRequest) {
        let headers = match header_map(&http_request.headers) {
            Ok(headers) => headers,
            Err(what) => {
                let next = header_hint(self.context.target.name);
                return self.retry_or_fail(RequestError::new(FailureKind::BadRequest, what, next));
            }
        };
        let framing = http_request.framing;
        let may_be_idle = self.context.clients.has_answered(&url);
        let sent = http.post(url.clone()).headers(headers).body(http_request.body).send();
        let response = match tokio::time::timeout(http_request.first_byte, sent).await {
            Err(_) => return self.retry_or_fail(self.silence_error(http_request.first_byte)),
            Ok(Err(error)) if may_be_idle && is_closed_connection(&error) && !self.reconnected => {
                // Many servers close idle connections after a few seconds, some while a request is in flight.
                self.reconnected = true;
                self.phase = CallPhase::Prepare;
                return;
            }
            Ok(Err(error)) => return self.retry_or_fail(self.send_error(&error)),
            Ok(Ok(response)) => response,
        };
        self.context.clients.add_answered(&url);
        if !response.status().is_success() {
            return self.classify_error(response).await;
        }
        if content_type(&response) == "text/html" {
            return self.reject_web_page(response).await;
        }
        self.phase = CallPhase::Read(Box::new(ResponseReader {
            http,
            response,
            frames: FrameReader::new(framing),
            decoder: ReplyReader::new(self.context.api.decoder(&self.request, &self.quirks), &self.request),
            first_byte: http_request.first_byte,
            bytes: 0,
            has_frames: false,
            sample: Vec::new(),
            events: Vec::new(),
            meter: ReplyMeter::default(),
        }));
    }

    async fn reject_web_page(&mut self, response: reqwest::Response) {
        let quote = self.redactor.quote(&bounded_body(response).await);
        let what = format!("{} returned {quote}", self.target());
        self.retry_or_fail(RequestError::new(FailureKind::Protocol, what, self.check_address()));
    }

    async fn classify_error(&mut self, response: reqwest::Response) {
        let status = response.status().as_u16();
        if response.status().is_redirection() {
            let trouble = self.redirect_error(status, &response);
            return self.retry_or_fail(trouble);
        }
        let advice = RetryAdvice::read(response.headers(), SystemTime::now());
        let body = bounded_body(response).await;
        match self.learn_from_error(status, &body) {
            Some(ErrorAction::RetryNow) => self.phase = CallPhase::Prepare,
            Some(ErrorAction::RetryAfter(wait)) => {
                let mut trouble = self.status_error(status, &body, advice);
                trouble.retry = advice.retry != Some(false);
                trouble.wait = advice.wait.or(wait);
                self.retry_or_fail(trouble);
            }
            Some(ErrorAction::Fail(failure)) => self.fail(self.with_name_hint(failure)),
            None => {
                let trouble = self.status_error(status, &body, advice);
                self.retry_or_fail(trouble);
            }
        }
    }

    /// Lets the API interpret a refusal. Ignores `RetryNow` if no quirk changed, as retries would never end.
    fn learn_from_error(&mut self, status: u16, body: &str) -> Option<ErrorAction> {
        let before = self.quirks.clone();
        let switched = self.context.api.switch_endpoint(&self.request, status, body, &mut self.quirks);
        let refusal = if switched {
            Some(ErrorAction::RetryNow)
        } else {
            self.context.api.classify_error(status, body, &mut self.quirks)
        };
        let is_final = refusal.is_none()
            || matches!(&refusal, Some(ErrorAction::Fail(failure)) if failure.kind == FailureKind::BadRequest);
        if is_final && self.refuses_images(status, body) {
            return Some(ErrorAction::RetryNow);
        }
        if refusal != Some(ErrorAction::RetryNow) {
            return refusal;
        }
        self.quirk_retries += 1;
        (self.quirks != before && self.quirk_retries <= QUIRK_RETRIES_MAX).then_some(ErrorAction::RetryNow)
    }

    async fn read(&mut self, mut reader: Box<ResponseReader>) {
        let patience = if reader.bytes == 0 {
            reader.first_byte.max(self.context.silence)
        } else {
            self.context.silence
        };
        match tokio::time::timeout(patience, reader.response.chunk()).await {
            Err(_) => self.retry_or_fail(self.silence_error(patience)),
            Ok(Ok(Some(bytes))) => self.take(reader, &bytes).await,
            Ok(Ok(None)) => self.end(reader, None).await,
            Ok(Err(error)) => self.end(reader, Some(causes(&error))).await,
        }
    }

    async fn take(&mut self, mut reader: Box<ResponseReader>, bytes: &[u8]) {
        reader.bytes += bytes.len();
        if reader.bytes > REPLY_BYTES_MAX {
            let what = format!(
                "the reply from {} was too long and was stopped after {} MiB",
                self.target(),
                REPLY_BYTES_MAX >> 20
            );
            return self.retry_or_fail(RequestError::new(
                FailureKind::Protocol,
                what,
                "try again, or choose another model",
            ));
        }
        let room = SAMPLE_BYTES_MAX.saturating_sub(reader.sample.len());
        reader.sample.extend_from_slice(&bytes[..bytes.len().min(room)]);
        reader.frames.push(bytes);
        let mut out = std::mem::take(&mut reader.events);
        let result = decode(&mut reader, &mut out);
        reader.meter.observe(reader.decoder.received_bytes(), Instant::now(), &mut out);
        self.ready.extend(out.drain(..));
        reader.events = out;
        match result {
            Ok(false) => self.phase = CallPhase::Read(reader),
            Ok(true) => self.finish(reader).await,
            Err(FrameReadError::FrameTooLong) => {
                let what =
                    format!("{} sent a line of more than {} MiB", self.target(), FRAME_BYTES_MAX >> 20);
                self.retry_or_fail(RequestError::new(FailureKind::Protocol, what, self.check_address()));
            }
            Err(FrameReadError::Decode(error)) => self.on_frame_error(error),
        }
    }

    /// Handles the end of the body. `problem` describes the error if the connection broke.
    async fn end(&mut self, mut reader: Box<ResponseReader>, problem: Option<String>) {
        if problem.is_none()
            && let Some(frame) = reader.frames.last()
        {
            reader.has_frames = true;
            let mut out = Vec::new();
            let result = reader.decoder.decode_frame(frame.event, &frame.data, &mut out);
            self.ready.extend(out);
            if let Err(error) = result {
                return self.on_frame_error(error);
            }
        }
        if !reader.has_frames && problem.is_none() {
            return self.no_frames(&reader);
        }
        let mut out = Vec::new();
        let result = reader.decoder.finish(&mut out);
        self.ready.extend(out);
        match (result, problem) {
            (Ok(reply), _) => self.complete(&reader.http, reply).await,
            (Err(FrameError::InStream { retry: true, .. }), Some(problem)) => {
                let what = format!("the connection to {} broke during the reply ({problem})", self.target());
                self.retry_or_fail(
                    RequestError::new(FailureKind::Unreachable, what, self.unreachable_hint()).retryable(),
                );
            }
            (Err(error), _) => self.on_frame_error(error),
        }
    }

    fn no_frames(&mut self, reader: &ResponseReader) {
        if reader.bytes == 0 {
            let what = format!("{} closed the connection without a response", self.target());
            return self.retry_or_fail(
                RequestError::new(FailureKind::Unreachable, what, self.unreachable_hint()).retryable(),
            );
        }
        let quote = self.redactor.quote(&String::from_utf8_lossy(&reader.sample));
        let what = format!("{} returned an unexpected response: {quote}", self.target());
        self.retry_or_fail(RequestError::new(FailureKind::Protocol, what, self.check_address()));
    }

    async fn finish(&mut self, mut reader: Box<ResponseReader>) {
        let mut out = Vec::new();
        match reader.decoder.finish(&mut out) {
            Ok(reply) => {
                self.ready.extend(out);
                // A connection whose body was read to its end can be reused for the next step.
                let rest = async { while let Ok(Some(_)) = reader.response.chunk().await {} };
                tokio::time::timeout(END_WAIT_MAX, rest).await.ok();
                self.complete(&reader.http, reply).await;
            }
            Err(error) => self.on_frame_error(error),
        }
    }

    async fn complete(&mut self, http: &reqwest::Client, mut reply: Reply) {
        if self.quirks != self.known_quirks {
            self.context.known_quirks.keep(self.request.model.to_string(), self.quirks.clone());
        }
        let model = &self.request.model.name;
        if let Some(notice) = self.context.api.after_reply(http, model).await {
            self.ready.push_back(ModelEvent::Notice(self.redactor.message(&notice)));
        }
        reply.context_window = self.context.api.context_window(&self.request.model.name);
        reply.vision = self.vision();
        self.ready.push_back(ModelEvent::Done(Box::new(reply)));
    }

    /// Handles a failure reported by the API inside the stream.
    fn on_frame_error(&mut self, error: FrameError) {
        let (message, retry, kind) = match error {
            FrameError::InStream { message, retry, kind } => (message, retry, kind),
            FrameError::Malformed(message) => {
                let quote = self.redactor.quote(&message);
                let what = format!("{} sent an invalid response: {quote}", self.target());
                return self.retry_or_fail(RequestError::new(
                    FailureKind::Protocol,
                    what,
                    self.check_address(),
                ));
            }
        };
        // Some servers refuse a request inside a stream that began with a success status.
        let said_nothing =
            !self.shown && self.ready.iter().all(|event| matches!(event, ModelEvent::Progress(_)));
        if !retry && said_nothing {
            match self.learn_from_error(400, &message) {
                Some(ErrorAction::RetryNow) => {
                    self.phase = CallPhase::Prepare;
                    return;
                }
                Some(ErrorAction::Fail(failure)) if failure.kind == FailureKind::ContextOverflow => {
                    return self.fail(failure);
                }
                // The frame gave the kind of failure; the made-up status 400 would hide it.
                Some(ErrorAction::Fail(_) | ErrorAction::RetryAfter(_)) | None => {}
            }
        }
        let what = format!("{} failed in its reply: {}", self.target(), self.redactor.quote(&message));
        let mut trouble = RequestError::new(kind, what, self.hint_for(kind));
        trouble.retry = retry;
        self.retry_or_fail(trouble);
    }

    fn redirect_error(&self, status: u16, response: &reqwest::Response) -> RequestError {
        let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let target = target.and_then(|target| response.url().join(target).ok());
        let (to, next) = match target {
            Some(url) => {
                let origin = url.origin().ascii_serialization();
                let next = format!("if you trust {origin}, correct {}", self.address_setting());
                (format!("to {origin}"), next)
            }
            None => ("elsewhere".to_owned(), self.check_address()),
        };
        let what =
            format!("{} redirects {to} ({status}); nothing was sent to the new address", self.target());
        RequestError::new(FailureKind::Protocol, what, next)
    }
}

enum FrameReadError {
    FrameTooLong,
    Decode(FrameError),
}

fn decode(reader: &mut ResponseReader, out: &mut Vec<ModelEvent>) -> Result<bool, FrameReadError> {
    let ResponseReader { frames, decoder, has_frames, .. } = reader;
    while let Some(frame) = frames.next().map_err(|FrameTooLong| FrameReadError::FrameTooLong)? {
        *has_frames = true;
        if decoder.decode_frame(frame.event, &frame.data, out).map_err(FrameReadError::Decode)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The error is one sentence. It does not contain the value, which may be secret.
pub(crate) fn header_map(headers: &[(String, SecretString)]) -> Result<HeaderMap, String> {
    let mut map = HeaderMap::new();
    map.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in headers {
        let parsed =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("invalid header name {name:?}"))?;
        let mut value = HeaderValue::from_str(value.expose_secret()).map_err(|_| {
            format!("the value of the header `{parsed}` has characters that HTTP does not allow")
        })?;
        value.set_sensitive(true);
        map.insert(parsed, value);
    }
    Ok(map)
}

pub(crate) fn header_hint(provider: &str) -> String {
    format!("check the API key and `headers` in [providers.{provider}]")
}

fn content_type(response: &reqwest::Response) -> String {
    let value =
        response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Sends a query about models, such as one for their capabilities. Returns `None` if no JSON arrives in time.
pub(crate) async fn query(
    request: reqwest::RequestBuilder,
    headers: &[(String, SecretString)],
) -> Option<serde_json::Value> {
    let headers = header_map(headers).ok()?;
    let asking = async {
        let response = request.headers(headers).send().await.ok()?;
        if response.status().is_redirection() {
            return None;
        }
        serde_json::from_str(&body_up_to(response, QUERY_BYTES_MAX).await).ok()
    };
    tokio::time::timeout(QUERY_MAX, asking).await.ok().flatten()
}

/// Reads the beginning of a body, at most [`ERROR_BODY_BYTES_MAX`] bytes.
pub(crate) async fn bounded_body(response: reqwest::Response) -> String {
    body_up_to(response, ERROR_BODY_BYTES_MAX).await
}

/// Reads at most `bytes_max` bytes of a body, for at most [`ERROR_BODY_WAIT_MAX`].
pub(crate) async fn body_up_to(mut response: reqwest::Response, bytes_max: usize) -> String {
    let mut body = Vec::new();
    let reader = async {
        while body.len() < bytes_max
            && let Ok(Some(bytes)) = response.chunk().await
        {
            let room = bytes_max - body.len();
            body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    };
    tokio::time::timeout(ERROR_BODY_WAIT_MAX, reader).await.ok();
    String::from_utf8_lossy(&body).into_owned()
}
