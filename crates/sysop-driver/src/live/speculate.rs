//! What is begun while its append is still on its way, since it does nothing that could be done twice: the model is
//! asked for a later step of a turn, and a call runs that is known to look only.
//!
//! Nothing that comes of it is told or handled before the append is durable; where that fails, it is dropped. What a
//! model answers at once shares the append.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use sysop_core::event::{Delta, Effect, Input, ToolLocation};
use sysop_core::id::StepId;
use sysop_core::message::{FailureKind, ModelFailure, ModelRequest, Reply};
use tokio::sync::oneshot;

use super::{LiveSession, Worker, bug};
use crate::port::DeltaSink;
use crate::stream_batch::Piece;

/// How many model events that are ready at once are published together.
const READY_EVENTS_MAX: usize = 256;
/// How long an append waits for the model's answer, to be one with that of the answer.
const SHARED_APPEND_WAIT: Duration = Duration::from_millis(2);
/// How much output of a call is kept until its start is durable, in bytes; the oldest goes first.
const BUFFERED_OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// A model that was asked before the batch is durable.
pub(super) struct EarlyModelCall {
    pub(super) step: StepId,
    /// Says that the batch is durable and told.
    pub(super) publish: oneshot::Sender<()>,
    /// The answer, if it comes whole and before that.
    pub(super) early_batch: oneshot::Receiver<Piece>,
}

/// What the one who asks a model waits for, and gives.
pub(super) struct ModelCallChannels {
    pub(super) published: oneshot::Receiver<()>,
    pub(super) early_batch: oneshot::Sender<Piece>,
}

/// A call that looks before its start is durable, and what it puts out until then.
pub(super) struct EarlyToolCall(Arc<BufferedOutput>);

impl EarlyToolCall {
    /// Its start is durable and told: what it puts out may be, too.
    pub(super) fn publish_output(self) {
        let mut text = self.0.text();
        if let Some(text) = text.take().filter(|text| !text.is_empty()) {
            self.0.output_sink.output(&text);
        }
    }
}

/// Keeps output back.
struct BufferedOutput {
    output_sink: DeltaSink,
    /// None once output is shown as it comes.
    text: Mutex<Option<String>>,
}

impl BufferedOutput {
    fn new(output_sink: DeltaSink) -> Arc<Self> {
        Arc::new(Self { output_sink, text: Mutex::new(Some(String::new())) })
    }

    fn sink(self: &Arc<Self>) -> DeltaSink {
        let buffered = Arc::clone(self);
        DeltaSink::new(move |more| buffered.take(more))
    }

    fn take(&self, more: &str) {
        let mut text = self.text();
        let Some(text) = text.as_mut() else { return self.output_sink.output(more) };
        text.push_str(more);
        let surplus = text.len().saturating_sub(BUFFERED_OUTPUT_BYTES_MAX);
        if surplus > 0 {
            text.drain(..text.ceil_char_boundary(surplus));
        }
    }

    fn text(&self) -> MutexGuard<'_, Option<String>> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveSession {
    /// Asks the model before the batch is logged, where nothing else is to be done; the answer waits for the sign.
    /// The first step of a turn waits: a prompt that cannot be kept is not sent to anybody.
    pub(super) fn start_model_early(
        self: &Arc<Self>,
        worker: &mut Worker,
        effects: &mut Vec<Effect>,
    ) -> Option<EarlyModelCall> {
        let (step, request) = match effects.pop() {
            Some(Effect::CallModel { step, request }) if effects.is_empty() && step.step > 1 => {
                (step, request)
            }
            other => {
                effects.extend(other);
                return None;
            }
        };
        let (publish, published) = oneshot::channel();
        let (answer, early_batch) = oneshot::channel();
        self.start_model_call(worker, step, request, ModelCallChannels { published, early_batch: answer });
        Some(EarlyModelCall { step, publish, early_batch })
    }

    /// The answer, if it is there before the append has waited too long for it.
    pub(super) async fn early_reply(
        &self,
        mut early_batch: oneshot::Receiver<Piece>,
    ) -> Option<(Vec<Delta>, Result<Reply, ModelFailure>)> {
        let answer = tokio::select! {
            biased;
            answer = &mut early_batch => answer.ok(),
            () = self.ports.clock.sleep(SHARED_APPEND_WAIT) => {
                early_batch.close(); // from here on the answer is an input like others
                early_batch.try_recv().ok()
            }
        };
        let Piece { told, end } = answer?;
        Some((told, end?))
    }

    /// Runs a call that only looks before the batch is logged, where nothing else is to be done and the host has nothing
    /// against it. Other nodes have to know first.
    pub(super) async fn start_read_only_early(
        self: &Arc<Self>,
        worker: &mut Worker,
        effects: &mut Vec<Effect>,
    ) -> Option<EarlyToolCall> {
        let is_read_only = |effect: &mut Effect| {
            matches!(effect, Effect::RunTool { call, place: ToolLocation::Host, read_only: true }
                if self.host().can_start_early(call))
        };
        // Where more is to be done, it may be to stop that call.
        if self.nodes.is_some() || effects.len() != 1 {
            return None;
        }
        let Some(Effect::RunTool { call, place, .. }) = effects.pop_if(is_read_only) else { return None };
        let buffered = BufferedOutput::new(self.output_sink(&call.id));
        self.start_tool_call(worker, call, place, buffered.sink());
        tokio::task::yield_now().await; // it begins, before the append is made ready
        Some(EarlyToolCall(buffered))
    }

    pub(super) fn start_model_call(
        self: &Arc<Self>,
        worker: &mut Worker,
        step: StepId,
        request: ModelRequest,
        channels: ModelCallChannels,
    ) {
        let cancel = self.end.child_token();
        worker.model = Some((step, cancel.clone()));
        let live = Arc::clone(self);
        tokio::spawn(async move {
            if !live.lease.is_valid() {
                return live.lose_lease();
            }
            let asked = AssertUnwindSafe(live.call_model(step, request, channels)).catch_unwind();
            let result = tokio::select! {
                biased;
                () = cancel.cancelled() => return, // the session has gone on without it
                result = asked => result.unwrap_or_else(|_| Some(Err(bug("asking the model")))),
            };
            if let Some(result) = result {
                live.deliver(Input::Reply { step, result });
            }
        });
    }

    /// Asks; tells nothing of the answer before `published`. None where the answer was given at once.
    async fn call_model(
        &self,
        step: StepId,
        request: ModelRequest,
        channels: ModelCallChannels,
    ) -> Option<Result<Reply, ModelFailure>> {
        let ModelCallChannels { published, early_batch } = channels;
        let events = self.runtime.provider.stream(request).ready_chunks(READY_EVENTS_MAX);
        let mut pieces = events.map(|events| Piece::of(step, events));
        let mut next = pieces.next().await;
        if next.as_ref().is_some_and(|first| first.end.is_some()) {
            // It comes back where nobody waits for it any more.
            next = next.and_then(|whole| early_batch.send(whole).err());
        } else {
            drop(early_batch); // it takes longer
        }
        // Where the sign cannot come any more, the answer was taken, or the session is closed.
        published.await.ok()?;
        while let Some(Piece { told, end }) = next {
            told.iter().for_each(|delta| self.hub.delta(delta));
            if end.is_some() {
                return end;
            }
            next = pieces.next().await;
        }
        Some(Err(ModelFailure {
            kind: FailureKind::Protocol,
            message: "the model's stream ended without an end; try again".to_owned(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_kept_until_it_may_be_shown_and_of_much_the_newest() {
        let said = Arc::new(Mutex::new(Vec::<String>::new()));
        let all = Arc::clone(&said);
        let buffered =
            BufferedOutput::new(DeltaSink::new(move |text| all.lock().unwrap().push(text.to_owned())));
        let sink = buffered.sink();
        sink.output("lost ");
        for _ in 0..=BUFFERED_OUTPUT_BYTES_MAX / 3 {
            sink.output("\u{20ac}"); // three bytes
        }
        assert!(said.lock().unwrap().is_empty());
        EarlyToolCall(Arc::clone(&buffered)).publish_output();
        sink.output("after");
        let said = said.lock().unwrap();
        assert_eq!(said.len(), 2);
        assert!(said[0].len() <= BUFFERED_OUTPUT_BYTES_MAX && said[0].len() + 3 > BUFFERED_OUTPUT_BYTES_MAX);
        assert!(said[0].chars().all(|letter| letter == '\u{20ac}'));
        assert_eq!(said[1], "after");
    }

    #[test]
    fn a_call_that_has_said_nothing_shows_nothing() {
        let buffered = BufferedOutput::new(DeltaSink::new(|text| panic!("it said {text:?}")));
        EarlyToolCall(buffered).publish_output();
    }
}
