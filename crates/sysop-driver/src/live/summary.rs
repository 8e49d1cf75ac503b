//! The model call that writes the summary of a compaction.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::{FutureExt, StreamExt};
use sysop_core::event::{Delta, Input};
use sysop_core::message::ModelRequest;

use super::{LiveSession, Worker, bug, unexpected_end};
use crate::port::ModelEvent;

/// Notice shown while a model writes the summary of a compaction.
const COMPACTING: &str = "compacting the context: the model summarizes older messages";

impl LiveSession {
    /// Asks the model for a summary of older messages. Users see only notices about the call, such as retries.
    pub(super) fn start_summary(self: &Arc<Self>, worker: &mut Worker, attempt: u32, request: ModelRequest) {
        let cancel = self.end.child_token();
        worker.summary = Some((attempt, cancel.clone()));
        self.hub.delta(&Delta::Notice { text: COMPACTING.to_owned() });
        let live = Arc::clone(self);
        tokio::spawn(async move {
            if !live.lease.is_valid() {
                return live.lose_lease();
            }
            let reading = async {
                let mut events = live.runtime.provider.stream(request);
                while let Some(event) = events.next().await {
                    match event {
                        ModelEvent::Done(reply) => return Ok(*reply),
                        ModelEvent::Failed(failure) => return Err(failure),
                        ModelEvent::Notice(text) => live.hub.delta(&Delta::Notice { text }),
                        ModelEvent::Text(_)
                        | ModelEvent::Reasoning(_)
                        | ModelEvent::Progress(_)
                        | ModelEvent::Restarted => {}
                    }
                }
                Err(unexpected_end())
            };
            let reading = AssertUnwindSafe(reading).catch_unwind();
            let result = tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                result = reading => result.unwrap_or_else(|_| Err(bug("summarizing"))),
            };
            live.deliver(Input::Summarized { attempt, result });
        });
    }
}
