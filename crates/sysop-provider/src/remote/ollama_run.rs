//! Calls a model by `ollama run`, the transport for machines that forbid forwarding.
//!
//! The prompt goes through standard input, so it needs no quoting and appears in no process list. Output is cleaned as
//! it arrives and parsed by the text protocol; a model without tools replies in the same way. `ollama run` has no
//! option for reply limit, temperature or window, so those of the request have no effect. Dropping the stream kills the
//! command.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::text_protocol;
use futures::stream::{BoxStream, StreamExt as _};
use sysop_core::message::{FailureKind, ModelFailure, ModelRequest, Reply, ToolProtocol, Usage};
use sysop_core::mode::Mode;
use sysop_driver::port::ModelEvent;
use tokio::time::Instant;

use crate::api::{FrameError, ReplyDecoder, push_reasoning, push_text};
use crate::redact::Redactor;
use crate::reply_reader::ReplyReader;
use crate::think_tags::ThinkTagParser;
use crate::transport::{REPLY_BYTES_MAX, RetrySettings, seconds};

use super::commands::{self, OllamaRunCommand};
use super::ollama::RemoteOllama;
use super::ollama_run_output::{self, RunOutputFilter};
use super::{RemoteEvent, RemoteMachine, prompt};

/// Assumed window of a model in tokens, unless configured: Ollama's own default on a small machine. `ollama run` cannot
/// set the window.
const WINDOW: u32 = 4_096;
/// Maximum bytes kept of the program's standard error, counted from the end.
const ERRORS_BYTES_MAX: usize = 64 * 1024;
/// Trailing blanks after which a reply is stopped: a model constrained to JSON may emit them endlessly.
const BLANKS_MAX: usize = 2_048;
/// Maximum number of models remembered as refusing a schema.
const MODELS_MAX: usize = 256;
/// Text that `ollama run` prints instead of a reply, with exit code 0, if a cloud model needs an account.
const SIGN_IN: &str = "You need to be signed in to Ollama";
/// Name of the decoder event that ends a reply.
const END: &str = "end";

/// Quirks learned from earlier runs.
#[derive(Debug, Default)]
pub(crate) struct RunQuirkCache {
    /// Models that Ollama cannot constrain to a schema.
    without_schema: Mutex<BTreeSet<String>>,
    /// The user was told that conversations are truncated.
    truncation_notice_sent: AtomicBool,
}

impl RunQuirkCache {
    fn rejects_schema(&self, model: &str) -> bool {
        self.without_schema.lock().unwrap_or_else(PoisonError::into_inner).contains(model)
    }

    /// Remembers that a model refuses a schema; returns true if that is new.
    fn mark_schema_rejected(&self, model: &str) -> bool {
        let mut models = self.without_schema.lock().unwrap_or_else(PoisonError::into_inner);
        if models.len() >= MODELS_MAX {
            models.clear();
        }
        models.insert(model.to_owned())
    }
}

/// Starts a call; nothing runs before the first poll.
pub(crate) fn stream(
    remote_ollama: Arc<RemoteOllama>,
    known_quirks: Arc<RunQuirkCache>,
    retry: RetrySettings,
    request: ModelRequest,
) -> BoxStream<'static, ModelEvent> {
    let call = OllamaRunCall { remote_ollama, known_quirks, retry, request };
    async_stream::stream! {
        let (remote, mut command, prompt) = match call.prepare() {
            Ok(ready) => ready,
            Err(failure) => {
                yield ModelEvent::Failed(failure);
                return;
            }
        };
        if prompt.cut && !call.known_quirks.truncation_notice_sent.swap(true, Ordering::Relaxed) {
            yield ModelEvent::Notice(call.truncation_notice());
        }
        let (mut retries, mut shown) = (0, false);
        loop {
            let mut reader = RunReader::new(&call.request);
            let mut events = remote.pipe(&command, prompt.text.clone().into_bytes());
            let mut silence_deadline = Instant::now() + call.remote_ollama.silence();
            let end = loop {
                // The spinner of a hanging model counts as silence, however fast it turns.
                let event = match Instant::now() < silence_deadline {
                    true => tokio::time::timeout_at(silence_deadline, events.next()).await.ok(),
                    false => None,
                };
                if matches!(event, Some(Some(RemoteEvent::Stdout(_)))) {
                    silence_deadline = Instant::now() + call.remote_ollama.silence();
                }
                let end = reader.take(event);
                while let Some(event) = reader.pop_event() {
                    shown |= matches!(event, ModelEvent::Text(_) | ModelEvent::Reasoning(_));
                    yield event;
                }
                if let Some(end) = end {
                    break end;
                }
            };
            drop(events);
            match call.action_after(reader, end, retries) {
                RunAction::Finish { said, reply } => {
                    for event in said {
                        yield event;
                    }
                    yield ModelEvent::Done(reply);
                    return;
                }
                RunAction::Fail(failure) => {
                    yield ModelEvent::Failed(failure);
                    return;
                }
                RunAction::RetryWithoutSchema => {
                    command = call.command();
                    if std::mem::take(&mut shown) {
                        yield ModelEvent::Restarted;
                    }
                }
                RunAction::Retry { notice, wait } => {
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

struct OllamaRunCall {
    remote_ollama: Arc<RemoteOllama>,
    known_quirks: Arc<RunQuirkCache>,
    retry: RetrySettings,
    request: ModelRequest,
}

#[derive(Debug)]
enum RunEnd {
    Exited(Option<i32>),
    /// Stopped because the reply was complete.
    Stopped,
    /// Printed more than the limit.
    TooLong,
    TimedOut,
    Disconnected(String),
}

enum RunAction {
    /// Return the reply, after text not shown yet.
    Finish {
        said: Vec<ModelEvent>,
        reply: Box<Reply>,
    },
    Fail(ModelFailure),
    RetryWithoutSchema,
    /// Run again after a wait.
    Retry {
        notice: String,
        wait: Duration,
    },
}

impl OllamaRunCall {
    fn model(&self) -> &str {
        &self.request.model.name
    }

    fn window(&self) -> u32 {
        self.remote_ollama.settings().num_ctx.unwrap_or(WINDOW)
    }

    fn prepare(&self) -> Result<(Arc<dyn RemoteMachine>, String, prompt::Prompt), ModelFailure> {
        commands::check_model_name(self.model())?;
        let remote = Arc::clone(self.remote_ollama.remote()?);
        Ok((remote, self.command(), prompt::prompt(&self.request, self.window())))
    }

    fn command(&self) -> String {
        let bound = self.request.mode == Mode::Agent && !self.known_quirks.rejects_schema(self.model());
        let schema = bound.then(|| text_protocol::schema(&self.request.tools).to_string());
        let run = OllamaRunCommand {
            model: self.model(),
            address: self.remote_ollama.ollama_host_override(),
            schema: schema.as_deref(),
            keep_alive: self.remote_ollama.settings().keep_alive.as_deref(),
        };
        run.command()
    }

    fn truncation_notice(&self) -> String {
        format!(
            "a part of the conversation is left out to fit a window of {} tokens; if Ollama there has a larger one, \
             say so with num_ctx of [providers.ollama+ssh], or begin a new chat",
            self.window()
        )
    }

    fn action_after(&self, reader: RunReader, end: RunEnd, retries: u32) -> RunAction {
        match end {
            RunEnd::Exited(Some(0)) => self.on_success(reader),
            RunEnd::Stopped => reader.reply(),
            RunEnd::Exited(code) => {
                let errors = reader.errors();
                let program = format!("ollama run {}", self.model());
                let failure = commands::failure(&program, self.model(), code, &errors);
                let lower = errors.to_ascii_lowercase();
                let refuses_schema = lower.contains("grammar") || lower.contains("format");
                let may_differ = failure.kind == FailureKind::Unreachable && refuses_schema;
                if may_differ && self.known_quirks.mark_schema_rejected(self.model()) {
                    return RunAction::RetryWithoutSchema;
                }
                fail(failure.kind, &failure.message)
            }
            RunEnd::TooLong => fail(
                FailureKind::Protocol,
                &format!(
                    "the reply of {} does not end (after {} MiB); ask again, or choose another model",
                    self.request.model,
                    REPLY_BYTES_MAX >> 20
                ),
            ),
            RunEnd::TimedOut => fail(
                FailureKind::Unreachable,
                &format!(
                    "{} said nothing for {}; ask again, or allow a longer silence with timeout_s of [providers.ollama+ssh]",
                    self.request.model,
                    seconds(self.remote_ollama.silence())
                ),
            ),
            // A connection that could not be made is not retried here: that is the connection's own business.
            RunEnd::Disconnected(why) if reader.bytes == 0 && reader.errors.is_empty() => {
                fail(FailureKind::Unreachable, why.trim_end_matches('.'))
            }
            RunEnd::Disconnected(why) => self.retry_after_disconnect(&why, retries),
        }
    }

    fn on_success(&self, mut reader: RunReader) -> RunAction {
        let rest = reader.output_filter.finish();
        reader.append_text(&rest);
        let text = reader.text.trim();
        if text.starts_with(SIGN_IN) {
            let message =
                format!("{} runs in Ollama's cloud; run `ollama signin` on the remote machine", self.model());
            return fail(FailureKind::Auth, &message);
        }
        if text.is_empty() {
            let message = format!(
                "`ollama run {}` on the remote machine printed nothing; look at Ollama's log there, or ask again",
                self.model()
            );
            return fail(FailureKind::Protocol, &message);
        }
        reader.reply()
    }

    fn retry_after_disconnect(&self, why: &str, retries: u32) -> RunAction {
        if retries >= self.retry.retries {
            let tries = if retries == 0 { String::new() } else { format!(" (tried {} times)", retries + 1) };
            return fail(FailureKind::Unreachable, &format!("{}{tries}", why.trim_end_matches('.')));
        }
        let wait = self.retry.backoff(retries, rand::random());
        let notice = format!(
            "{}; trying again in {} ({} of {})",
            why.trim_end_matches('.'),
            seconds(wait),
            retries + 1,
            self.retry.retries
        );
        RunAction::Retry { notice: Redactor::default().message(&notice), wait }
    }
}

fn fail(kind: FailureKind, message: &str) -> RunAction {
    RunAction::Fail(ModelFailure { kind, message: Redactor::default().message(message) })
}

struct RunReader {
    output_filter: RunOutputFilter,
    decoder: ReplyReader,
    out: VecDeque<ModelEvent>,
    /// All output so far, cleaned.
    text: String,
    /// Bytes of `text` already decoded.
    decoded_bytes: usize,
    errors: Vec<u8>,
    bytes: usize,
}

impl RunReader {
    fn new(request: &ModelRequest) -> Self {
        Self {
            output_filter: RunOutputFilter::default(),
            decoder: ReplyReader::new(Box::new(PlainTextDecoder::default()), request),
            out: VecDeque::new(),
            text: String::new(),
            decoded_bytes: 0,
            errors: Vec::new(),
            bytes: 0,
        }
    }

    fn pop_event(&mut self) -> Option<ModelEvent> {
        self.out.pop_front()
    }

    /// Handles an event of the command; outer `None` means silence beyond the limit. Returns the end of the run, if
    /// reached.
    fn take(&mut self, event: Option<Option<RemoteEvent>>) -> Option<RunEnd> {
        match event {
            None => Some(RunEnd::TimedOut),
            Some(None) => {
                Some(RunEnd::Disconnected("the remote machine's command ended without a word".to_owned()))
            }
            Some(Some(RemoteEvent::Disconnected(why))) => Some(RunEnd::Disconnected(why)),
            Some(Some(RemoteEvent::Exited(code))) => Some(RunEnd::Exited(code)),
            Some(Some(RemoteEvent::Stderr(bytes))) => {
                self.errors.extend_from_slice(&bytes);
                let surplus = self.errors.len().saturating_sub(ERRORS_BYTES_MAX);
                self.errors.drain(..surplus);
                None
            }
            Some(Some(RemoteEvent::Stdout(bytes))) => self.output(&bytes),
        }
    }

    fn output(&mut self, bytes: &[u8]) -> Option<RunEnd> {
        self.bytes += bytes.len();
        if self.bytes > REPLY_BYTES_MAX {
            return Some(RunEnd::TooLong);
        }
        let text = self.output_filter.push(bytes);
        self.append_text(&text);
        let words = self.text.trim_end().len();
        (words > 0 && self.text.len() - words > BLANKS_MAX).then_some(RunEnd::Stopped)
    }

    fn append_text(&mut self, text: &str) {
        self.text.push_str(text);
        let said = self.text.trim_start();
        // Ollama's sign-in message is not shown as a reply.
        if !SIGN_IN.starts_with(said) && !said.starts_with(SIGN_IN) {
            self.feed_decoder();
        }
    }

    /// Passes new text to the decoder, except trailing blanks: those after the reply are Ollama's own.
    fn feed_decoder(&mut self) {
        let end = self.text.trim_end().len().max(self.decoded_bytes);
        let mut out = Vec::new();
        let read = self.decoder.decode_frame("", &self.text[self.decoded_bytes..end], &mut out);
        debug_assert_eq!(read, Ok(false), "printed text is taken as it is");
        self.decoded_bytes = end;
        self.out.extend(out);
    }

    fn errors(&self) -> String {
        ollama_run_output::clean(&self.errors)
    }

    fn reply(mut self) -> RunAction {
        let rest = self.output_filter.finish();
        self.append_text(&rest);
        self.feed_decoder();
        let mut said = Vec::new();
        let (input_tokens, output_tokens) = commands::token_counts(&self.errors());
        let ended = self.decoder.decode_frame(END, "", &mut said);
        match ended.and_then(|_| self.decoder.finish(&mut said)) {
            Ok(mut reply) => {
                reply.usage = Usage { input_tokens, output_tokens, cached_tokens: 0 };
                let said = self.out.into_iter().chain(said).collect();
                RunAction::Finish { said, reply: Box::new(reply) }
            }
            Err(FrameError::InStream { message, .. } | FrameError::Malformed(message)) => {
                fail(FailureKind::Protocol, &message)
            }
        }
    }
}

#[derive(Default)]
struct PlainTextDecoder {
    thinking: ThinkTagParser,
    reply: Reply,
}

impl ReplyDecoder for PlainTextDecoder {
    fn protocol(&self) -> ToolProtocol {
        ToolProtocol::Text
    }

    fn decode_frame(
        &mut self,
        event: &str,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<bool, FrameError> {
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
