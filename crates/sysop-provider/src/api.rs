//! The interface between vendor APIs and transport: writing requests and reading the reply stream. No I/O.

use std::borrow::Cow;
use std::time::Duration;

use futures::future::BoxFuture;
use sysop_core::message::{ModelFailure, ModelRequest, Reply, ToolProtocol};
use sysop_core::mode::Mode;
use sysop_driver::port::ModelEvent;

/// Parameter of Chat Completions that constrains a reply to a schema.
pub(crate) const RESPONSE_FORMAT: &str = "response_format";
/// Parameter of Ollama's API that constrains a reply to a schema.
pub(crate) const FORMAT: &str = "format";

/// Way to split a response body into frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Sse,
    /// One JSON value per line.
    Lines,
}

/// A POST request, ready to send.
pub(crate) struct HttpRequest {
    pub(crate) url: String,
    /// Headers besides `content-type: application/json`. Values may be secrets.
    pub(crate) headers: Vec<(String, secrecy::SecretString)>,
    pub(crate) body: String,
    pub(crate) framing: Framing,
    /// Maximum wait for the first byte of the response.
    pub(crate) first_byte: Duration,
}

/// One vendor API. An implementation is cheap to create and lives as long as its client.
pub(crate) trait ModelApi: Send + Sync {
    /// Fetches what `build` needs but cannot get without I/O, such as a token or the model's capabilities.
    fn prepare<'a>(&'a self, http: &'a reqwest::Client) -> BoxFuture<'a, Result<(), ModelFailure>> {
        let _ = http;
        Box::pin(async { Ok(()) })
    }

    /// Called after a reply from `model`, before the reply is emitted. Returns a notice for the user, if any.
    fn after_reply<'a>(&'a self, http: &'a reqwest::Client, model: &'a str) -> BoxFuture<'a, Option<String>> {
        let _ = (http, model);
        Box::pin(async { None })
    }

    /// Returns the context window of `model` in tokens if the server reported it; called after `after_reply`.
    fn context_window(&self, model: &str) -> Option<u32> {
        let _ = model;
        None
    }

    /// Returns true if the server reports that the model sees images, false if not; called after `prepare`.
    fn vision(&self) -> Option<bool> {
        None
    }

    /// Returns true if the model gets the text protocol, which has no images.
    fn calls_as_text(&self, request: &ModelRequest, quirks: &ModelQuirks) -> bool {
        quirks.for_request(request).text_protocol
    }

    /// Writes a request. `quirks` were learned from earlier attempts and requests to the model.
    fn build(&self, request: &ModelRequest, quirks: &ModelQuirks) -> Result<HttpRequest, ModelFailure>;

    fn decoder(&self, request: &ModelRequest, quirks: &ModelQuirks) -> Box<dyn ReplyDecoder>;

    /// Interprets the body of a refusal (a status other than 2xx). `None` means that the rules shared by all APIs
    /// apply. May change `quirks` and return [`ErrorAction::RetryNow`] to send the request in another form.
    fn classify_error(&self, status: u16, body: &str, quirks: &mut ModelQuirks) -> Option<ErrorAction>;

    /// Switches to another endpoint of the vendor if the refusal of `request` requires it. Returns true if it switched.
    /// Called before `classify_error`.
    fn switch_endpoint(
        &self,
        request: &ModelRequest,
        status: u16,
        body: &str,
        quirks: &mut ModelQuirks,
    ) -> bool {
        let _ = (request, status, body, quirks);
        false
    }
}

/// Quirks of a model or server, learned from refused requests and kept for later requests to the same model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ModelQuirks {
    /// True if requests use the text protocol, because the model does not support native tools or fails to use them.
    pub(crate) text_protocol: bool,
    /// True if a test has shown that the model can use native tools, whatever its server or its size suggests.
    pub(crate) native_tools: bool,
    /// Parameters that the server refused and that later requests therefore leave out.
    pub(crate) unsupported_params: Vec<&'static str>,
    /// True if the server requires `reasoning_effort: none` when tools are present.
    pub(crate) reasoning_none: bool,
}

impl ModelQuirks {
    /// Returns the quirks that apply to `request`. Quirks about tools do not apply in chat mode, which has no tools.
    pub(crate) fn for_request(&self, request: &ModelRequest) -> Cow<'_, Self> {
        match request.mode {
            Mode::Agent if request.calls_as_text && !self.text_protocol => {
                Cow::Owned(Self { text_protocol: true, ..self.clone() })
            }
            Mode::Agent => Cow::Borrowed(self),
            Mode::Chat => Cow::Owned(Self {
                text_protocol: false,
                native_tools: false,
                unsupported_params: self.unsupported_params.clone(),
                reasoning_none: false,
            }),
        }
    }
}

/// Reaction to a refusal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ErrorAction {
    /// Send again at once, in the form given by the changed `ModelQuirks`.
    RetryNow,
    /// Send again after the wait that the server requested, or after a backoff if it requested none.
    RetryAfter(Option<Duration>),
    Fail(ModelFailure),
}

/// Failure that ends the reading of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FrameError {
    /// The server reported a failure inside the stream; `retry` allows another attempt.
    InStream {
        message: String,
        retry: bool,
        kind: sysop_core::message::FailureKind,
    },
    Malformed(String),
}

pub(crate) trait ReplyDecoder: Send {
    fn protocol(&self) -> ToolProtocol;

    /// Decodes one frame and pushes displayable events to `out`. `event` is the SSE event name, empty for JSON lines.
    /// Returns true at the API's own end marker.
    fn decode_frame(
        &mut self,
        event: &str,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<bool, FrameError>;

    /// Returns the bytes of tool calls received so far, which no event shows while they stream; 0 for an API whose
    /// calls arrive whole.
    fn call_bytes(&self) -> usize {
        0
    }

    /// Returns the whole reply in the API's own form. Call after the end marker or at the end of the body. Fails if the
    /// stream was cut off before its end (`InStream` with `retry`) or ended in a failure.
    fn finish(self: Box<Self>) -> Result<Reply, FrameError>;
}

/// Appends text for display, merging it with a preceding text event.
pub(crate) fn push_text(out: &mut Vec<ModelEvent>, text: &str) {
    match out.last_mut() {
        _ if text.is_empty() => {}
        Some(ModelEvent::Text(before)) => before.push_str(text),
        _ => out.push(ModelEvent::Text(text.to_owned())),
    }
}

/// Appends reasoning for display, merging it with a preceding reasoning event.
pub(crate) fn push_reasoning(out: &mut Vec<ModelEvent>, text: &str) {
    match out.last_mut() {
        _ if text.is_empty() => {}
        Some(ModelEvent::Reasoning(before)) => before.push_str(text),
        _ => out.push(ModelEvent::Reasoning(text.to_owned())),
    }
}
