//! Asks a model of the far machine by `ollama run`: the way where nothing is forwarded.
//!
//! The prompt goes in by standard input, so that nothing of it is quoted or seen in a list of processes. What is
//! printed is cleaned as it comes and read by the text protocol; a model without tools answers no differently. The
//! program knows no limit of a reply, no temperature and no window, so that those of the request have no effect.
//! Dropping the stream drops the command.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt as _};
use sysop_core::message::{FailureKind, ModelFailure, ModelRequest, Reply, ToolProtocol, Usage};
use sysop_core::mode::Mode;
use sysop_core::text_protocol;
use sysop_driver::port::ModelEvent;
use tokio::time::Instant;

use crate::clean::Cleaner;
use crate::think::Thinking;
use crate::transport::{REPLY_BYTES_MAX, RetrySettings, seconds};
use crate::unshown::WithoutProtocol;
use crate::wire::{Decoder, FrameError, push_reasoning, push_text};

use super::link::Link;
use super::noise::{self, Noise};
use super::script::{self, Run};
use super::{FarEvent, FarMachine, prompt};

/// The window of a model where nobody says another, in tokens: Ollama's own default on a small machine. `ollama run`
/// cannot set it.
const WINDOW: u32 = 4_096;
/// The most bytes that are kept of what the program writes to its standard error; the last ones count.
const ERRORS_BYTES_MAX: usize = 64 * 1024;
/// A reply that ends in so many blanks does not end by itself: a model that is bound to JSON may write them for ever.
const BLANKS_MAX: usize = 2_048;
/// The most models that are remembered as bound to no schema.
const MODELS_MAX: usize = 256;
/// What `ollama run` prints in place of a reply, and ends well, where a cloud model needs an account.
const SIGN_IN: &str = "You need to be signed in to Ollama";
/// The name of the decoder's event that ends a reply.
const END: &str = "end";

/// What was learnt while asking this way.
#[derive(Debug, Default)]
pub(crate) struct Learnt {
    /// Models that Ollama cannot bind to a schema.
    unbound: Mutex<BTreeSet<String>>,
    /// Whether a person knows that conversations are cut.
    cut_told: AtomicBool,
}

impl Learnt {
    fn is_unbound(&self, model: &str) -> bool {
        self.unbound.lock().unwrap_or_else(PoisonError::into_inner).contains(model)
    }

    /// Remembers that a model is bound to no schema; says whether that is new.
    fn unbind(&self, model: &str) -> bool {
        let mut models = self.unbound.lock().unwrap_or_else(PoisonError::into_inner);
        if models.len() >= MODELS_MAX {
            models.clear();
        }
        models.insert(model.to_owned())
    }
}

/// Starts a call; nothing runs before the first poll.
pub(crate) fn stream(
    link: Arc<Link>,
    learnt: Arc<Learnt>,
    retry: RetrySettings,
    request: ModelRequest,
) -> BoxStream<'static, ModelEvent> {
    let call = Call { link, learnt, retry, request };
    async_stream::stream! {
        let (far, mut command, prompt) = match call.prepare() {
            Ok(ready) => ready,
            Err(failure) => {
                yield ModelEvent::Failed(failure);
                return;
            }
        };
        if prompt.cut && !call.learnt.cut_told.swap(true, Ordering::Relaxed) {
            yield ModelEvent::Notice(call.cut());
        }
        let (mut retries, mut shown) = (0, false);
        loop {
            let mut reading = Reading::new(&call.request);
            let mut events = far.pipe(&command, prompt.text.clone().into_bytes());
            let mut patience = Instant::now() + call.link.silence();
            let end = loop {
                // The wheel that turns beside a model that hangs is silence too, however fast it turns.
                let event = match Instant::now() < patience {
                    true => tokio::time::timeout_at(patience, events.next()).await.ok(),
                    false => None,
                };
                if matches!(event, Some(Some(FarEvent::Output(_)))) {
                    patience = Instant::now() + call.link.silence();
                }
                let end = reading.take(event);
                while let Some(event) = reading.ready() {
                    shown |= matches!(event, ModelEvent::Text(_) | ModelEvent::Reasoning(_));
                    yield event;
                }
                if let Some(end) = end {
                    break end;
                }
            };
            drop(events);
            match call.judge(reading, end, retries) {
                Next::Done { said, reply } => {
                    for event in said {
                        yield event;
                    }
                    yield ModelEvent::Done(reply);
                    return;
                }
                Next::Failed(failure) => {
                    yield ModelEvent::Failed(failure);
                    return;
                }
                Next::Unbound => {
                    command = call.command();
                    if std::mem::take(&mut shown) {
                        yield ModelEvent::Restarted;
                    }
                }
                Next::Again { notice, wait } => {
                    retries += 1;
                    yield ModelEvent::Notice(notice);
                    if std::mem::take(&mut shown) {
                        yield ModelEvent::Restarted;
                    }
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }
    .boxed()
}

struct Call {
    link: Arc<Link>,
    learnt: Arc<Learnt>,
    retry: RetrySettings,
    request: ModelRequest,
}

/// How a run came to its end.
#[derive(Debug)]
enum End {
    /// By itself.
    Ended(Option<i32>),
    /// It had said enough, and was stopped.
    Enough,
    /// It said more than anyone reads.
    TooMuch,
    Silent,
    Broken(String),
}

/// What follows from the end of a run.
enum Next {
    /// The reply, behind what was not shown of it yet.
    Done {
        said: Vec<ModelEvent>,
        reply: Box<Reply>,
    },
    Failed(ModelFailure),
    /// The same without a schema.
    Unbound,
    /// The same after a while.
    Again {
        notice: String,
        wait: Duration,
    },
}

impl Call {
    fn model(&self) -> &str {
        &self.request.model.name
    }

    fn window(&self) -> u32 {
        self.link.settings().num_ctx.unwrap_or(WINDOW)
    }

    fn prepare(&self) -> Result<(Arc<dyn FarMachine>, String, prompt::Prompt), ModelFailure> {
        script::check_name(self.model())?;
        let far = Arc::clone(self.link.far()?);
        Ok((far, self.command(), prompt::prompt(&self.request, self.window())))
    }

    fn command(&self) -> String {
        let bound = self.request.mode == Mode::Agent && !self.learnt.is_unbound(self.model());
        let schema = bound.then(|| text_protocol::schema(&self.request.tools).to_string());
        let run = Run {
            model: self.model(),
            address: self.link.address_there(),
            schema: schema.as_deref(),
            keep_alive: self.link.settings().keep_alive.as_deref(),
        };
        run.command()
    }

    fn cut(&self) -> String {
        format!(
            "a part of the conversation is left out to fit a window of {} tokens; if Ollama there has a larger one, \
             say so with num_ctx of [providers.ollama+ssh], or begin a new chat",
            self.window()
        )
    }

    fn judge(&self, reading: Reading, end: End, retries: u32) -> Next {
        match end {
            End::Ended(Some(0)) => self.ended_well(reading),
            End::Enough => reading.reply(),
            End::Ended(code) => {
                let errors = reading.errors();
                let program = format!("ollama run {}", self.model());
                let failure = script::failure(&program, self.model(), code, &errors);
                let lower = errors.to_ascii_lowercase();
                let refuses_schema = lower.contains("grammar") || lower.contains("format");
                let may_differ = failure.kind == FailureKind::Unreachable && refuses_schema;
                if may_differ && self.learnt.unbind(self.model()) {
                    return Next::Unbound;
                }
                failed(failure.kind, &failure.message)
            }
            End::TooMuch => failed(
                FailureKind::Protocol,
                &format!(
                    "the reply of {} does not end (after {} MiB); ask again, or choose another model",
                    self.request.model,
                    REPLY_BYTES_MAX >> 20
                ),
            ),
            End::Silent => failed(
                FailureKind::Unreachable,
                &format!(
                    "{} said nothing for {}; ask again, or allow a longer silence with timeout_s of [providers.ollama+ssh]",
                    self.request.model,
                    seconds(self.link.silence())
                ),
            ),
            // A link that was never made is not knocked at again: that is the connection's own business.
            End::Broken(why) if reading.bytes == 0 && reading.errors.is_empty() => {
                failed(FailureKind::Unreachable, why.trim_end_matches('.'))
            }
            End::Broken(why) => self.broken(&why, retries),
        }
    }

    fn ended_well(&self, mut reading: Reading) -> Next {
        let rest = reading.noise.finish();
        reading.said(&rest);
        let text = reading.text.trim();
        if text.starts_with(SIGN_IN) {
            let message =
                format!("{} runs in Ollama's cloud; run `ollama signin` on the far machine", self.model());
            return failed(FailureKind::Auth, &message);
        }
        if text.is_empty() {
            let message = format!(
                "`ollama run {}` on the far machine printed nothing; look at Ollama's log there, or ask again",
                self.model()
            );
            return failed(FailureKind::Protocol, &message);
        }
        reading.reply()
    }

    fn broken(&self, why: &str, retries: u32) -> Next {
        if retries >= self.retry.retries {
            let tries = if retries == 0 { String::new() } else { format!(" (tried {} times)", retries + 1) };
            return failed(FailureKind::Unreachable, &format!("{}{tries}", why.trim_end_matches('.')));
        }
        let wait = self.retry.backoff(retries, rand::random());
        let notice = format!(
            "{}; trying again in {} ({} of {})",
            why.trim_end_matches('.'),
            seconds(wait),
            retries + 1,
            self.retry.retries
        );
        Next::Again { notice: Cleaner::default().message(&notice), wait }
    }
}

fn failed(kind: FailureKind, message: &str) -> Next {
    Next::Failed(ModelFailure { kind, message: Cleaner::default().message(message) })
}

/// One run whose output is read.
struct Reading {
    noise: Noise,
    decoder: Box<dyn Decoder>,
    out: VecDeque<ModelEvent>,
    /// All that was printed, clean.
    text: String,
    /// How many bytes of it the decoder has read.
    given: usize,
    errors: Vec<u8>,
    bytes: usize,
}

impl Reading {
    fn new(request: &ModelRequest) -> Self {
        let decoder: Box<dyn Decoder> = match request.mode {
            Mode::Agent => Box::new(WithoutProtocol::new(Printed::default(), Arc::clone(&request.tools))),
            Mode::Chat => Box::new(Printed::default()),
        };
        Self {
            noise: Noise::default(),
            decoder,
            out: VecDeque::new(),
            text: String::new(),
            given: 0,
            errors: Vec::new(),
            bytes: 0,
        }
    }

    fn ready(&mut self) -> Option<ModelEvent> {
        self.out.pop_front()
    }

    /// Takes what the command did; outer `None` where it did nothing for too long.
    fn take(&mut self, event: Option<Option<FarEvent>>) -> Option<End> {
        match event {
            None => Some(End::Silent),
            Some(None) => Some(End::Broken("the far machine's command ended without a word".to_owned())),
            Some(Some(FarEvent::Broken(why))) => Some(End::Broken(why)),
            Some(Some(FarEvent::Ended(code))) => Some(End::Ended(code)),
            Some(Some(FarEvent::Errors(bytes))) => {
                self.errors.extend_from_slice(&bytes);
                let surplus = self.errors.len().saturating_sub(ERRORS_BYTES_MAX);
                self.errors.drain(..surplus);
                None
            }
            Some(Some(FarEvent::Output(bytes))) => self.output(&bytes),
        }
    }

    fn output(&mut self, bytes: &[u8]) -> Option<End> {
        self.bytes += bytes.len();
        if self.bytes > REPLY_BYTES_MAX {
            return Some(End::TooMuch);
        }
        let text = self.noise.push(bytes);
        self.said(&text);
        let words = self.text.trim_end().len();
        (words > 0 && self.text.len() - words > BLANKS_MAX).then_some(End::Enough)
    }

    fn said(&mut self, text: &str) {
        self.text.push_str(text);
        let said = self.text.trim_start();
        // What Ollama prints in place of a reply is not shown as one.
        if !SIGN_IN.starts_with(said) && !said.starts_with(SIGN_IN) {
            self.give();
        }
    }

    /// Gives the decoder what it has not read, but for blanks at the end: those behind the reply are Ollama's own.
    fn give(&mut self) {
        let end = self.text.trim_end().len().max(self.given);
        let mut out = Vec::new();
        let read = self.decoder.frame("", &self.text[self.given..end], &mut out);
        debug_assert_eq!(read, Ok(false), "printed text is taken as it is");
        self.given = end;
        self.out.extend(out);
    }

    fn errors(&self) -> String {
        noise::clean(&self.errors)
    }

    fn reply(mut self) -> Next {
        let rest = self.noise.finish();
        self.said(&rest);
        self.give();
        let mut said = Vec::new();
        let (input_tokens, output_tokens) = script::counted(&self.errors());
        let ended = self.decoder.frame(END, "", &mut said);
        match ended.and_then(|_| self.decoder.finish()) {
            Ok(mut reply) => {
                reply.usage = Usage { input_tokens, output_tokens, cached_tokens: 0 };
                let said = self.out.into_iter().chain(said).collect();
                Next::Done { said, reply: Box::new(reply) }
            }
            Err(FrameError::InStream { message, .. } | FrameError::Garbage(message)) => {
                failed(FailureKind::Protocol, &message)
            }
        }
    }
}

/// Reads clean text as a reply.
#[derive(Default)]
struct Printed {
    thinking: Thinking,
    reply: Reply,
}

impl Decoder for Printed {
    fn frame(&mut self, event: &str, data: &str, out: &mut Vec<ModelEvent>) -> Result<bool, FrameError> {
        let (mut text, mut reasoning) = (String::new(), String::new());
        if event == END {
            self.thinking.finish(&mut |more| text.push_str(more), &mut |more| reasoning.push_str(more));
        } else {
            self.thinking.push(data, &mut |more| text.push_str(more), &mut |more| reasoning.push_str(more));
        }
        push_reasoning(out, &reasoning);
        push_text(out, &text);
        self.reply.reasoning.push_str(&reasoning);
        self.reply.text.push_str(&text);
        Ok(event == END)
    }

    fn finish(mut self: Box<Self>) -> Result<Reply, FrameError> {
        self.reply.protocol = ToolProtocol::Text;
        Ok(self.reply)
    }
}
