//! What is particular to one API: how a request is written and how its stream is read. No IO.

use std::borrow::Cow;
use std::time::Duration;

use futures::future::BoxFuture;
use sysop_core::message::{ModelFailure, ModelRequest, Reply, ToolProtocol};
use sysop_core::mode::Mode;
use sysop_driver::port::ModelEvent;

/// How frames are cut out of a response body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Sse,
    /// One JSON value a line.
    Lines,
}

/// A request, ready to be sent by POST.
pub(crate) struct HttpRequest {
    /// The whole address.
    pub(crate) url: String,
    /// Headers beside `content-type: application/json`; values may be secrets.
    pub(crate) headers: Vec<(String, secrecy::SecretString)>,
    /// The JSON body.
    pub(crate) body: String,
    /// How the answer is framed.
    pub(crate) framing: Framing,
    /// The longest silence before the first byte.
    pub(crate) first_byte: Duration,
}

/// One API. Cheap to make; lives as long as its client.
pub(crate) trait ModelApi: Send + Sync {
    /// Gets what `build` needs and cannot get by itself: a token, what a model can do.
    fn prepare<'a>(&'a self, http: &'a reqwest::Client) -> BoxFuture<'a, Result<(), ModelFailure>> {
        let _ = http;
        Box::pin(async { Ok(()) })
    }

    /// Looks back at a reply before it is given out; may return something that the person should know.
    fn after_reply<'a>(
        &'a self,
        http: &'a reqwest::Client,
        reply: &'a Reply,
    ) -> BoxFuture<'a, Option<String>> {
        let _ = (http, reply);
        Box::pin(async { None })
    }

    /// Writes a request. `quirks` remembers what earlier tries of the same request taught.
    fn build(&self, request: &ModelRequest, quirks: &ModelQuirks) -> Result<HttpRequest, ModelFailure>;

    /// Reads one response.
    fn decoder(&self, request: &ModelRequest, quirks: &ModelQuirks) -> Box<dyn ReplyDecoder>;

    /// What a refused request (status other than 2xx) means, by its body; `None` leaves it to the rules for all.
    /// May change `quirks` so that the request can be made in another form at once.
    fn classify_error(&self, status: u16, body: &str, quirks: &mut ModelQuirks) -> Option<ErrorAction>;
}

/// What was learnt about a model or server while trying; kept for later requests to the same model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ModelQuirks {
    /// The model has no native tools: the text protocol is used.
    pub(crate) text_protocol: bool,
    /// Parameters that the server refused and that are left out.
    pub(crate) unsupported_params: Vec<&'static str>,
    /// The server wants `reasoning_effort: none` beside tools.
    pub(crate) reasoning_none: bool,
}

impl ModelQuirks {
    /// What counts for this request: in a plain chat there are no tools, so nothing that was learnt of them.
    pub(crate) fn for_request(&self, request: &ModelRequest) -> Cow<'_, Self> {
        match request.mode {
            Mode::Agent => Cow::Borrowed(self),
            Mode::Chat => Cow::Owned(Self {
                text_protocol: false,
                unsupported_params: self.unsupported_params.clone(),
                reasoning_none: false,
            }),
        }
    }
}

/// What to do about a refusal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ErrorAction {
    /// Make the request again at once, in the form that `ModelQuirks` now says.
    RetryNow,
    /// Wait as long as the server says (or by backoff), then make it again.
    RetryAfter(Option<Duration>),
    /// Give up.
    Fail(ModelFailure),
}

/// What a frame may say that ends the reading.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FrameError {
    /// The server failed in the middle of the stream; may be tried again where the flag says so.
    InStream { message: String, retry: bool, kind: sysop_core::message::FailureKind },
    /// The frame is not what the API sends.
    Malformed(String),
}

/// Reads the frames of one response.
pub(crate) trait ReplyDecoder: Send {
    /// How the tools were offered in the request.
    fn protocol(&self) -> ToolProtocol;

    /// Takes a frame (`event` is the SSE event name, empty for lines); pushes what is to be shown.
    /// Returns true when the API's own end marker was seen.
    fn decode_frame(
        &mut self,
        event: &str,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<bool, FrameError>;

    /// The whole reply as the API gave it, after the end marker or at the end of the body. `Err` where the stream was cut before
    /// its end (`InStream` with `retry`), or ended in a way that is a failure.
    fn finish(self: Box<Self>) -> Result<Reply, FrameError>;
}

/// Adds text to what is to be shown; pieces that come together are shown together.
pub(crate) fn push_text(out: &mut Vec<ModelEvent>, text: &str) {
    match out.last_mut() {
        _ if text.is_empty() => {}
        Some(ModelEvent::Text(before)) => before.push_str(text),
        _ => out.push(ModelEvent::Text(text.to_owned())),
    }
}

/// Adds reasoning to what is to be shown, in the same way.
pub(crate) fn push_reasoning(out: &mut Vec<ModelEvent>, text: &str) {
    match out.last_mut() {
        _ if text.is_empty() => {}
        Some(ModelEvent::Reasoning(before)) => before.push_str(text),
        _ => out.push(ModelEvent::Reasoning(text.to_owned())),
    }
}
