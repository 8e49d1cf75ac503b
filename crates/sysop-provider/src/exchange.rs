//! Runs one model call: attempts, waits, restarts, silence; the same for every API.
//!
//! What a request looks like and what its answer means is the [`Exchange`]'s business. Nothing here knows a vendor.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{Stream, StreamExt, pin_mut};
use reqwest::Response;
use reqwest::header::HeaderMap;
use serde_json::Value;
use sysop_core::message::{ModelFailure, Reply};
use sysop_driver::port::ModelEvent;

use crate::failure::{Place, Problem, Refusal, ServerError, Then, excerpt, is_html};
use crate::frames::{Frame, Frames};
use crate::http::{Http, Outgoing, redact, redirected, refusal};
use crate::retry;
use crate::settings::RetrySettings;

/// Most times that an exchange may change its request within one call.
const ADAPTATIONS_MAX: u32 = 8;

/// Longest time with signs of life but without anything of the reply.
const FRAME_GAP_MAX: Duration = Duration::from_secs(15 * 60);

/// Longest wait for more of a stream whose reply is whole.
const LINGER_MAX: Duration = Duration::from_secs(2);

/// One model call in the terms of one API. Used from the first request to the last, also when it is made again.
pub(crate) trait Exchange: Send {
    /// Where it goes, for sentences.
    fn place(&self) -> Place;
    /// What must never show up in a message.
    fn secrets(&self) -> Vec<String>;
    /// The next request. Forgets what the last one's answer has brought, unless that is being continued.
    fn outgoing<'a>(&'a mut self, http: &'a Http) -> BoxFuture<'a, Result<Outgoing, Problem>>;
    /// What a refusal means; may change the next request.
    fn refused(&mut self, refusal: &Refusal) -> Problem;
    /// Takes a piece of the answer.
    fn frame(&mut self, frame: &Frame, out: &mut Vec<ModelEvent>) -> Result<Flow, Problem>;
    /// Whether the reply is whole although its stream may go on.
    fn is_whole(&self) -> bool;
    /// The answer has ended, by its own end mark or not.
    fn end<'a>(
        &'a mut self,
        http: &'a Http,
        out: &'a mut Vec<ModelEvent>,
    ) -> BoxFuture<'a, Result<Ending, Problem>>;
}

/// Whether there is more to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    More,
    End,
}

/// What an answer came to.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The reply.
    Done(Box<Reply>),
    /// The reply goes on in the answer to another request.
    Continued,
}

enum Step {
    Event(ModelEvent),
    Ended(Result<Ending, Problem>),
}

/// Runs a call to its end.
pub(crate) fn run(
    http: Arc<Http>,
    settings: RetrySettings,
    mut exchange: Box<dyn Exchange>,
) -> impl Stream<Item = ModelEvent> + Send {
    async_stream::stream! {
        let mut tries = Tries { settings, made: 0, same: 0, adapted: 0, label: String::new() };
        let mut shown = false;
        loop {
            let mut ended = None;
            {
                let steps = attempt(&http, &mut *exchange);
                pin_mut!(steps);
                while let Some(step) = steps.next().await {
                    match step {
                        Step::Event(event) => {
                            shown |= matches!(event, ModelEvent::Text(_) | ModelEvent::Reasoning(_));
                            yield event;
                        }
                        Step::Ended(result) => ended = Some(result),
                    }
                }
            }
            let problem = match ended.expect("an attempt ends") {
                Ok(Ending::Done(reply)) => {
                    yield ModelEvent::Done(reply);
                    return;
                }
                Ok(Ending::Continued) => continue,
                Err(problem) => problem,
            };
            let secrets = exchange.secrets();
            match tries.next(problem) {
                Next::Fail(failure) => {
                    let message = redact(failure.message, &secrets);
                    yield ModelEvent::Failed(ModelFailure { message, ..failure });
                    return;
                }
                Next::Again { notice, wait } => {
                    if let Some(notice) = notice {
                        let model = exchange.place().model;
                        yield ModelEvent::Notice(redact(format!("{model}: {notice}"), &secrets));
                    }
                    if std::mem::take(&mut shown) {
                        yield ModelEvent::Restarted;
                    }
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }
}

/// How often it was tried, and why.
struct Tries {
    settings: RetrySettings,
    made: u32,
    /// How often in a row for the same reason.
    same: u32,
    adapted: u32,
    label: String,
}

enum Next {
    Fail(ModelFailure),
    Again { notice: Option<String>, wait: Duration },
}

impl Tries {
    fn next(&mut self, problem: Problem) -> Next {
        let Problem { failure, then } = problem;
        match &then {
            Then::GiveUp => return Next::Fail(failure),
            Then::Adapted if self.adapted >= ADAPTATIONS_MAX => return Next::Fail(failure),
            Then::Adapted => {
                self.adapted += 1;
                return Next::Again { notice: None, wait: Duration::ZERO };
            }
            Then::Retry { label, .. } => {
                self.made += 1;
                self.same = if *label == self.label { self.same + 1 } else { 1 };
                self.label.clone_from(label);
            }
        }
        let Then::Retry { label, after, .. } = &then else { return Next::Fail(failure) };
        if let Some(asked) = after.filter(|asked| *asked > self.settings.asked_wait_max) {
            let message = format!(
                "{}; it asks to wait {} s, which is too long to wait for here",
                failure.message,
                asked.as_secs()
            );
            return Next::Fail(ModelFailure { message, ..failure });
        }
        if !retry::may_retry(&self.settings, &then, self.made, self.same) {
            let tried = if self.made > 1 { format!(" (tried {} times)", self.made) } else { String::new() };
            return Next::Fail(ModelFailure { message: format!("{}{tried}", failure.message), ..failure });
        }
        let wait = retry::wait(&self.settings, self.made, *after, rand::random());
        let seconds = (wait.as_secs_f64() * 10.0).ceil() / 10.0;
        let (next, most) = (self.made + 1, self.settings.attempts_max);
        let notice = Some(format!("{label}, trying again in {seconds} s ({next} of {most})"));
        Next::Again { notice, wait }
    }
}

fn attempt<'a>(http: &'a Http, exchange: &'a mut dyn Exchange) -> impl Stream<Item = Step> + Send + 'a {
    async_stream::stream! {
        let mut outgoing = match exchange.outgoing(http).await {
            Ok(outgoing) => outgoing,
            Err(problem) => {
                yield Step::Ended(Err(problem));
                return;
            }
        };
        if let Some(notice) = outgoing.notice.take() {
            yield Step::Event(ModelEvent::Notice(notice));
        }
        let (framing, silence) = (outgoing.framing, outgoing.silence);
        let mut response = match open(http, exchange, outgoing).await {
            Ok(response) => response,
            Err(problem) => {
                yield Step::Ended(Err(problem));
                return;
            }
        };
        let place = exchange.place();
        let mut frames = Frames::new(framing);
        let mut events = Vec::new();
        let mut since = tokio::time::Instant::now();
        loop {
            let whole = exchange.is_whole();
            let patience = if whole { silence.min(LINGER_MAX) } else { silence };
            let chunk = match tokio::time::timeout(patience, response.chunk()).await {
                Err(_) | Ok(Err(_)) if whole => Ok(None),
                Err(_) => Err(place.silent(silence)),
                Ok(Err(_)) => Err(place.cut()),
                Ok(Ok(_)) if since.elapsed() > FRAME_GAP_MAX => Err(place.silent(FRAME_GAP_MAX)),
                Ok(Ok(chunk)) => Ok(chunk),
            };
            let over = matches!(chunk, Ok(None));
            let taken = match chunk {
                Ok(Some(bytes)) => take(&mut frames, &bytes, exchange, &mut events),
                Ok(None) => take_last(&mut frames, exchange, &mut events),
                Err(problem) => Err(problem),
            };
            if !events.is_empty() {
                since = tokio::time::Instant::now();
            }
            for event in events.drain(..) {
                yield Step::Event(event);
            }
            match taken {
                Ok(Flow::More) if !over => {}
                Ok(Flow::More | Flow::End) => break,
                Err(problem) => {
                    yield Step::Ended(Err(problem));
                    return;
                }
            }
        }
        drop(response);
        let ended = exchange.end(http, &mut events).await;
        for event in events.drain(..) {
            yield Step::Event(event);
        }
        yield Step::Ended(ended);
    }
}

/// Passes on all frames that `bytes` complete.
pub(crate) fn take(
    frames: &mut Frames,
    bytes: &[u8],
    exchange: &mut dyn Exchange,
    events: &mut Vec<ModelEvent>,
) -> Result<Flow, Problem> {
    frames.push(bytes);
    loop {
        match frames.next() {
            Err(fault) => return Err(exchange.place().unusable(fault)),
            Ok(None) => return Ok(Flow::More),
            Ok(Some(frame)) => {
                if exchange.frame(&frame, events)? == Flow::End {
                    return Ok(Flow::End);
                }
            }
        }
    }
}

/// Passes on what the stream left unfinished.
pub(crate) fn take_last(
    frames: &mut Frames,
    exchange: &mut dyn Exchange,
    events: &mut Vec<ModelEvent>,
) -> Result<Flow, Problem> {
    match frames.finish() {
        Err(fault) => Err(exchange.place().unusable(fault)),
        Ok(None) => Ok(Flow::More),
        Ok(Some(frame)) => exchange.frame(&frame, events),
    }
}

async fn open(http: &Http, exchange: &mut dyn Exchange, outgoing: Outgoing) -> Result<Response, Problem> {
    let place = exchange.place();
    let silence = outgoing.silence;
    let response = http.send(outgoing, &place).await?;
    if let Some(problem) = redirected(&response, &place) {
        return Err(problem);
    }
    if !response.status().is_success() {
        let refusal = refusal(response, silence).await;
        return Err(exchange.refused(&refusal));
    }
    let content = response.headers().get("content-type").and_then(|value| value.to_str().ok());
    if content.is_some_and(|content| content.starts_with("text/html")) {
        return Err(place.unusable("answered with a web page"));
    }
    Ok(response)
}

/// The JSON of a frame.
pub(crate) fn json(frame: &Frame, place: &Place) -> Result<Value, Problem> {
    serde_json::from_str(&frame.data).map_err(|_| {
        if frame.partial {
            place.cut()
        } else if is_html(&frame.data) {
            place.unusable("answered with a web page")
        } else {
            place.unusable(format_args!("sent something that is not JSON: {}", excerpt(&frame.data)))
        }
    })
}

/// The refusal that an error inside a stream amounts to. Servers that name no status there are judged by their words.
pub(crate) fn refusal_in_stream(value: Value, body: &str) -> Refusal {
    let error = ServerError::from_value(value, body);
    let named = [&error.code, &error.kind].into_iter().find_map(|word| word.parse::<u16>().ok());
    let words = format!("{} {}", error.kind, error.code).to_lowercase();
    let by_words = || match () {
        () if words.contains("rate_limit") || words.contains("exhausted") => 429,
        () if words.contains("overloaded") => 529,
        () if ["server", "api_error", "unavailable", "internal", "timeout"]
            .iter()
            .any(|w| words.contains(w)) =>
        {
            500
        }
        () => 400,
    };
    let status = named.filter(|status| (400..600).contains(status)).unwrap_or_else(by_words);
    Refusal { status, headers: HeaderMap::new(), error, in_stream: true }
}
