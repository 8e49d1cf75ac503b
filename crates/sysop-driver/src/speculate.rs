//! Model calls that start before the event of their step is durable.
//!
//! A model call has no side effects, so it may start early. [`EarlyCall`] wraps the provider's stream: it reads ahead
//! into a bounded buffer and releases the stream once the step's event is stored. Nothing from the model is published
//! or handled before that; if the append fails or the session ends, the call is dropped. See `docs/adr/0008`.

use std::sync::Arc;
use std::task::Poll;

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use sysop_core::event::Effect;
use sysop_core::id::StepId;
use tokio::sync::mpsc::{Receiver, channel};
use tokio_util::task::AbortOnDropHandle;

use crate::lease::SessionLease;
use crate::port::{CancellationToken, ModelEvent, Provider};

/// Maximum model events read ahead before the step is durable.
const EVENTS_AHEAD_MAX: usize = 256;

/// A model call that has started before its step is durable. Dropping it cancels the call.
pub(crate) struct EarlyCall {
    step: StepId,
    events: Receiver<ModelEvent>,
    reader: AbortOnDropHandle<()>,
}

impl EarlyCall {
    /// Starts a model call early if it is the only effect in `effects`. Otherwise returns `None`.
    ///
    /// The first step of a turn is excluded: a prompt that cannot be stored is not sent to a model.
    ///
    /// `end` cancels the call when the session ends. This is needed because an append may wait for as long as its
    /// database is unavailable, and the lease may be lost in the meantime.
    pub(crate) fn start(
        provider: &Arc<dyn Provider>,
        lease: &Arc<dyn SessionLease>,
        end: CancellationToken,
        effects: &[Effect],
    ) -> Option<Self> {
        let [Effect::CallModel { step, request }] = effects else { return None };
        if step.step == 1 {
            return None;
        }
        let (provider, lease, request) = (Arc::clone(provider), Arc::clone(lease), request.clone());
        let (sender, events) = channel(EVENTS_AHEAD_MAX);
        let reading = async move {
            if !lease.is_valid() {
                return;
            }
            let mut stream = provider.stream(request);
            while let Some(event) = stream.next().await {
                if sender.send(event).await.is_err() {
                    return;
                }
            }
        };
        let reader = tokio::spawn(async move {
            end.run_until_cancelled(reading).await;
        });
        Some(Self { step: *step, events, reader: AbortOnDropHandle::new(reader) })
    }

    pub(crate) fn step(&self) -> StepId {
        self.step
    }

    /// Returns the events of the call, from its start.
    pub(crate) fn into_stream(self) -> BoxStream<'static, ModelEvent> {
        let Self { mut events, reader, .. } = self;
        let mut reader = Some(reader);
        futures::stream::poll_fn(move |context| {
            let next = events.poll_recv(context);
            // A reader that panicked closes the channel, too; the panic is resumed in the stream's reader.
            if let (Poll::Ready(None), Some(ended)) = (&next, &mut reader) {
                match ended.poll_unpin(context) {
                    Poll::Ready(Err(error)) if error.is_panic() => {
                        std::panic::resume_unwind(error.into_panic());
                    }
                    Poll::Ready(_) => reader = None,
                    Poll::Pending => return Poll::Pending,
                }
            }
            next
        })
        .boxed()
    }
}
