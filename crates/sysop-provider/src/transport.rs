//! Sends a request of any wire and yields its reply: waiting, retrying, bounding, and telling what went wrong.
//!
//! Knows no API. Never follows a redirect, never shows a secret, and does nothing before it is polled. Dropping the
//! stream drops the connection.

mod clients;
mod retry;
mod trouble;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use futures::stream::{BoxStream, StreamExt as _};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use secrecy::{ExposeSecret as _, SecretString};
use sysop_core::message::{FailureKind, ModelRequest, Reply};
use sysop_driver::port::ModelEvent;
use url::Url;

use crate::clean::Cleaner;
use crate::frames::{FRAME_BYTES_MAX, Frames, TooLong};
use crate::wire::{Attempt, Built, Decoder, FrameError, Refusal, Wire};

pub(crate) use clients::{Clients, causes, is_loopback};
pub use retry::RetrySettings;
use retry::{Advice, is_transient};
use trouble::Trouble;
pub(crate) use trouble::{error_text, seconds};

/// The longest reply, in bytes of its body; a longer one ends the call.
pub const REPLY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The most bytes that are read of a refusal's body.
pub const ERROR_BODY_BYTES_MAX: usize = 64 * 1024;
/// The longest wait for the body of a refusal.
const ERROR_BODY_WAIT_MAX: Duration = Duration::from_secs(10);
/// How often one request changes its form because a server refused the one before.
const FORMS_MAX: u32 = 8;
/// How long the end of a body is waited for behind the end of the reply, so that its connection can be used again.
const END_WAIT_MAX: Duration = Duration::from_millis(50);
/// How many models are remembered with what was learnt of them.
const MODELS_LEARNT_MAX: usize = 256;
/// The bytes of a body that are kept to tell what it was.
const SAMPLE_BYTES_MAX: usize = 2_048;

/// Where requests go, in words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// The provider's name.
    pub(crate) provider: &'static str,
    /// What to do where nobody answers.
    pub(crate) unreachable: &'static str,
    /// What to do where the key is refused.
    pub(crate) key: &'static str,
}

/// What was learnt of models that were asked before.
#[derive(Debug, Default)]
pub(crate) struct Learnt(Mutex<HashMap<String, Attempt>>);

impl Learnt {
    fn of(&self, model: &str) -> Attempt {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(model).cloned().unwrap_or_default()
    }

    fn keep(&self, model: String, attempt: Attempt) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MODELS_LEARNT_MAX && !kept.contains_key(&model) {
            kept.clear();
        }
        kept.insert(model, attempt);
    }
}

/// The providers for which the person was told that a key goes out in the clear.
#[derive(Debug, Default)]
pub(crate) struct Warned(Mutex<BTreeSet<&'static str>>);

impl Warned {
    /// Whether it is the first time.
    fn is_news(&self, provider: &'static str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(provider)
    }
}

/// All that a call needs beside its request.
pub(crate) struct Plan {
    pub(crate) clients: Arc<Clients>,
    pub(crate) wire: Arc<dyn Wire>,
    pub(crate) place: Place,
    /// The server's address, to choose the client by.
    pub(crate) base_url: String,
    /// The address to tell a person, where it is another than the one that is connected to.
    pub(crate) shown: Option<String>,
    /// The longest silence between two bytes.
    pub(crate) silence: Duration,
    pub(crate) retry: RetrySettings,
    pub(crate) learnt: Arc<Learnt>,
    pub(crate) warned: Arc<Warned>,
}

/// Starts a call; nothing happens before the first poll.
pub(crate) fn stream(plan: Plan, request: ModelRequest) -> BoxStream<'static, ModelEvent> {
    let attempt = plan.learnt.of(&request.model.to_string());
    let call = Call {
        learnt: attempt.clone(),
        attempt,
        origin: plan.shown.clone().unwrap_or_else(|| plan.base_url.clone()),
        plan,
        request,
        retries: 0,
        forms: 0,
        shown: false,
        cleaner: Cleaner::default(),
        ready: VecDeque::new(),
        phase: Phase::Prepare,
    };
    futures::stream::unfold(call, |mut call| async move { call.next().await.map(|event| (event, call)) })
        .boxed()
}

/// What a call does next.
enum Phase {
    Prepare,
    Send(reqwest::Client, Box<(Url, Built)>),
    Wait(Duration),
    Read(Box<Reading>),
    Ended,
}

/// One response that is being read.
struct Reading {
    http: reqwest::Client,
    response: reqwest::Response,
    frames: Frames,
    decoder: Box<dyn Decoder>,
    first_byte: Duration,
    bytes: usize,
    has_frames: bool,
    sample: Vec<u8>,
}

struct Call {
    plan: Plan,
    request: ModelRequest,
    attempt: Attempt,
    /// What was known when the call began.
    learnt: Attempt,
    /// Scheme, host and port that are asked.
    origin: String,
    retries: u32,
    forms: u32,
    /// Whether something was shown that a new try makes void.
    shown: bool,
    cleaner: Cleaner,
    ready: VecDeque<ModelEvent>,
    phase: Phase,
}

impl Call {
    async fn next(&mut self) -> Option<ModelEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.shown |= matches!(event, ModelEvent::Text(_) | ModelEvent::Reasoning(_));
                return Some(event);
            }
            match std::mem::replace(&mut self.phase, Phase::Ended) {
                Phase::Ended => return None,
                Phase::Prepare => self.prepare().await,
                Phase::Send(http, request) => {
                    let (url, built) = *request;
                    self.send(http, url, built).await;
                }
                Phase::Wait(wait) => {
                    tokio::time::sleep(wait).await;
                    self.phase = Phase::Prepare;
                }
                Phase::Read(reading) => self.read(reading).await,
            }
        }
    }

    async fn prepare(&mut self) {
        let http = match self.plan.clients.for_address(&self.plan.base_url) {
            Ok(http) => http,
            Err(failure) => return self.fail(failure),
        };
        if let Err(failure) = self.plan.wire.prepare(&http).await {
            return self.fail(failure);
        }
        match self.plan.wire.build(&self.request, &self.attempt) {
            Ok(built) => {
                self.cleaner = Cleaner::new(&built.headers);
                let url = match self.plan.clients.parsed(&built.url) {
                    Ok(url) => url,
                    Err(error) => {
                        let what =
                            format!("the address of {} cannot be read ({error})", self.plan.place.provider);
                        return self.trouble(Trouble::new(
                            FailureKind::BadRequest,
                            what,
                            self.check_address(),
                        ));
                    }
                };
                if self.plan.shown.is_none() {
                    self.origin = url.origin().ascii_serialization();
                }
                self.warn_of_open_key(&url);
                self.phase = Phase::Send(http, Box::new((url, built)));
            }
            Err(failure) => self.fail(failure),
        }
    }

    fn warn_of_open_key(&mut self, url: &Url) {
        let open = url.scheme() == "http" && !is_loopback(url) && self.cleaner.has_secrets();
        if open && self.plan.warned.is_news(self.plan.place.provider) {
            let notice = format!(
                "the key for {} goes to {} without encryption; use https if it can",
                self.plan.place.provider, self.origin
            );
            self.ready.push_back(ModelEvent::Notice(notice));
        }
    }

    async fn send(&mut self, http: reqwest::Client, url: Url, built: Built) {
        let headers = match header_map(&built.headers) {
            Ok(headers) => headers,
            Err(name) => {
                let next = format!("correct that header of [providers.{}]", self.plan.place.provider);
                let what = format!(
                    "the header `{name}` cannot be sent: it holds characters that HTTP does not allow"
                );
                return self.trouble(Trouble::new(FailureKind::BadRequest, what, next));
            }
        };
        let framing = built.framing;
        let sent = http.post(url).headers(headers).body(built.body).send();
        let response = match tokio::time::timeout(built.first_byte, sent).await {
            Err(_) => return self.trouble(self.silent(built.first_byte)),
            Ok(Err(error)) => return self.trouble(self.unsent(&error)),
            Ok(Ok(response)) => response,
        };
        if !response.status().is_success() {
            return self.refused(response).await;
        }
        if content_type(&response) == "text/html" {
            return self.page(response).await;
        }
        self.phase = Phase::Read(Box::new(Reading {
            http,
            response,
            frames: Frames::new(framing),
            decoder: self.plan.wire.decoder(&self.request, &self.attempt),
            first_byte: built.first_byte,
            bytes: 0,
            has_frames: false,
            sample: Vec::new(),
        }));
    }

    async fn page(&mut self, response: reqwest::Response) {
        let quote = self.cleaner.quote(&bounded_body(response).await);
        let what = format!("{} answered with {quote}", self.place());
        self.trouble(Trouble::new(FailureKind::Protocol, what, self.check_address()));
    }

    async fn refused(&mut self, response: reqwest::Response) {
        let status = response.status().as_u16();
        if response.status().is_redirection() {
            let trouble = self.redirected(status, &response);
            return self.trouble(trouble);
        }
        let advice = Advice::read(response.headers(), SystemTime::now());
        let body = bounded_body(response).await;
        match self.teach(status, &body) {
            Some(Refusal::Again) => self.phase = Phase::Prepare,
            Some(Refusal::Later(wait)) => {
                let mut trouble = self.by_status(status, &body, advice);
                trouble.retry = advice.retry != Some(false);
                trouble.wait = advice.wait.or(wait);
                self.trouble(trouble);
            }
            Some(Refusal::Fail(failure)) => self.fail(failure),
            None => {
                let trouble = self.by_status(status, &body, advice);
                self.trouble(trouble);
            }
        }
    }

    /// Lets the wire read a refusal. A wire that wants to try again without having changed anything has nothing to say.
    fn teach(&mut self, status: u16, body: &str) -> Option<Refusal> {
        let before = self.attempt.clone();
        let refusal = self.plan.wire.refused(status, body, &mut self.attempt);
        if refusal != Some(Refusal::Again) {
            return refusal;
        }
        self.forms += 1;
        (self.attempt != before && self.forms <= FORMS_MAX).then_some(Refusal::Again)
    }

    async fn read(&mut self, mut reading: Box<Reading>) {
        let patience =
            if reading.bytes == 0 { reading.first_byte.max(self.plan.silence) } else { self.plan.silence };
        match tokio::time::timeout(patience, reading.response.chunk()).await {
            Err(_) => self.trouble(self.silent(patience)),
            Ok(Ok(Some(bytes))) => self.take(reading, &bytes).await,
            Ok(Ok(None)) => self.end(reading, None).await,
            Ok(Err(error)) => self.end(reading, Some(causes(&error))).await,
        }
    }

    async fn take(&mut self, mut reading: Box<Reading>, bytes: &[u8]) {
        reading.bytes += bytes.len();
        if reading.bytes > REPLY_BYTES_MAX {
            let what =
                format!("the reply of {} does not end (after {} MiB)", self.place(), REPLY_BYTES_MAX >> 20);
            return self.trouble(Trouble::new(
                FailureKind::Protocol,
                what,
                "ask again, or choose another model",
            ));
        }
        let room = SAMPLE_BYTES_MAX.saturating_sub(reading.sample.len());
        reading.sample.extend_from_slice(&bytes[..bytes.len().min(room)]);
        reading.frames.push(bytes);
        let mut out = Vec::new();
        let result = decode(&mut reading, &mut out);
        self.ready.extend(out);
        match result {
            Ok(false) => self.phase = Phase::Read(reading),
            Ok(true) => self.finish(reading).await,
            Err(Unreadable::TooLong) => {
                let what = format!("{} sent a line of more than {} MiB", self.place(), FRAME_BYTES_MAX >> 20);
                self.trouble(Trouble::new(FailureKind::Protocol, what, self.check_address()));
            }
            Err(Unreadable::Frame(error)) => self.broken(error),
        }
    }

    /// The body ended; `problem` where it broke off.
    async fn end(&mut self, mut reading: Box<Reading>, problem: Option<String>) {
        if problem.is_none()
            && let Some(frame) = reading.frames.last()
        {
            reading.has_frames = true;
            let mut out = Vec::new();
            let result = reading.decoder.frame(frame.event, &frame.data, &mut out);
            self.ready.extend(out);
            if let Err(error) = result {
                return self.broken(error);
            }
        }
        if !reading.has_frames && problem.is_none() {
            return self.no_frames(&reading);
        }
        match (reading.decoder.finish(), problem) {
            (Ok(reply), _) => self.done(&reading.http, reply).await,
            (Err(FrameError::InStream { retry: true, .. }), Some(problem)) => {
                let what = format!(
                    "the connection to {} broke in the middle of the reply ({problem})",
                    self.place()
                );
                self.trouble(
                    Trouble::new(FailureKind::Unreachable, what, self.plan.place.unreachable).again(),
                );
            }
            (Err(error), _) => self.broken(error),
        }
    }

    fn no_frames(&mut self, reading: &Reading) {
        if reading.bytes == 0 {
            let what = format!("{} closed the connection without an answer", self.place());
            return self
                .trouble(Trouble::new(FailureKind::Unreachable, what, self.plan.place.unreachable).again());
        }
        let quote = self.cleaner.quote(&String::from_utf8_lossy(&reading.sample));
        let what = format!("{} answered with what is no reply of a model: {quote}", self.place());
        self.trouble(Trouble::new(FailureKind::Protocol, what, self.check_address()));
    }

    async fn finish(&mut self, mut reading: Box<Reading>) {
        match reading.decoder.finish() {
            Ok(reply) => {
                // A connection whose body was read to its end can be used for the next step.
                let rest = async { while let Ok(Some(_)) = reading.response.chunk().await {} };
                tokio::time::timeout(END_WAIT_MAX, rest).await.ok();
                self.done(&reading.http, reply).await;
            }
            Err(error) => self.broken(error),
        }
    }

    async fn done(&mut self, http: &reqwest::Client, reply: Reply) {
        if self.attempt != self.learnt {
            self.plan.learnt.keep(self.request.model.to_string(), self.attempt.clone());
        }
        if let Some(notice) = self.plan.wire.afterwards(http, &reply).await {
            self.ready.push_back(ModelEvent::Notice(self.cleaner.message(&notice)));
        }
        self.ready.push_back(ModelEvent::Done(Box::new(reply)));
    }

    /// The API itself said that the reply failed.
    fn broken(&mut self, error: FrameError) {
        let (message, retry, kind) = match error {
            FrameError::InStream { message, retry, kind } => (message, retry, kind),
            FrameError::Garbage(message) => {
                let quote = self.cleaner.quote(&message);
                let what = format!("{} sent what cannot be read: {quote}", self.place());
                return self.trouble(Trouble::new(FailureKind::Protocol, what, self.check_address()));
            }
        };
        // Some servers refuse a request inside a stream that has begun well.
        let said_nothing = !self.shown && self.ready.is_empty();
        if !retry && said_nothing {
            match self.teach(400, &message) {
                Some(Refusal::Again) => {
                    self.phase = Phase::Prepare;
                    return;
                }
                Some(Refusal::Fail(failure)) if failure.kind == FailureKind::ContextOverflow => {
                    return self.fail(failure);
                }
                // The frame told the kind; the status that is made up here would hide it.
                Some(Refusal::Fail(_) | Refusal::Later(_)) | None => {}
            }
        }
        let what = format!("{} failed in its reply: {}", self.place(), self.cleaner.quote(&message));
        let mut trouble = Trouble::new(kind, what, self.next_for(kind));
        trouble.retry = retry;
        self.trouble(trouble);
    }

    fn redirected(&self, status: u16, response: &reqwest::Response) -> Trouble {
        let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let target = target.and_then(|target| response.url().join(target).ok());
        let (to, next) = match target {
            Some(url) => {
                let origin = url.origin().ascii_serialization();
                let next = format!(
                    "if you trust {origin}, correct the base_url of [providers.{}]",
                    self.plan.place.provider
                );
                (format!("to {origin}"), next)
            }
            None => ("elsewhere".to_owned(), self.check_address()),
        };
        let what = format!("{} redirects {to} ({status}), where nothing was sent", self.place());
        Trouble::new(FailureKind::Protocol, what, next)
    }
}

/// Why a frame could not be taken.
enum Unreadable {
    TooLong,
    Frame(FrameError),
}

fn decode(reading: &mut Reading, out: &mut Vec<ModelEvent>) -> Result<bool, Unreadable> {
    let Reading { frames, decoder, has_frames, .. } = reading;
    while let Some(frame) = frames.next().map_err(|TooLong| Unreadable::TooLong)? {
        *has_frames = true;
        if decoder.frame(frame.event, &frame.data, out).map_err(Unreadable::Frame)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Headers as they are sent; `Err` names the one that cannot be.
pub(crate) fn header_map(headers: &[(String, SecretString)]) -> Result<HeaderMap, String> {
    let mut map = HeaderMap::new();
    map.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in headers {
        let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| name.clone())?;
        let mut value = HeaderValue::from_str(value.expose_secret()).map_err(|_| name.clone())?;
        value.set_sensitive(true);
        map.insert(parsed, value);
    }
    Ok(map)
}

fn content_type(response: &reqwest::Response) -> String {
    let value =
        response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The beginning of a body that nobody needs whole.
pub(crate) async fn bounded_body(response: reqwest::Response) -> String {
    body_up_to(response, ERROR_BODY_BYTES_MAX).await
}

/// A body, up to a bound in bytes and in time.
pub(crate) async fn body_up_to(mut response: reqwest::Response, bytes_max: usize) -> String {
    let mut body = Vec::new();
    let reading = async {
        while body.len() < bytes_max
            && let Ok(Some(bytes)) = response.chunk().await
        {
            let room = bytes_max - body.len();
            body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    };
    tokio::time::timeout(ERROR_BODY_WAIT_MAX, reading).await.ok();
    String::from_utf8_lossy(&body).into_owned()
}
