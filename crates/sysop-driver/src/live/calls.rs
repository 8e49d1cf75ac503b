//! Tool calls of a live session: runs each call where the core decided, and publishes its output.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use sysop_core::event::{Delta, Input, ToolLocation};
use sysop_core::guard::GuardTimeout;
use sysop_core::id::CallId;
use sysop_core::message::ToolCall;
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::Fence;

use super::{LiveSession, Worker, bug};
use crate::call_output::CallOutput;
use crate::port::DeltaSink;

impl LiveSession {
    pub(super) fn start_tool_call(
        self: &Arc<Self>,
        worker: &mut Worker,
        call: ToolCall,
        place: ToolLocation,
        (fence, guard): (Fence, Option<GuardTimeout>),
    ) {
        let output = Arc::clone(&worker.running(&call.id, &self.end).output);
        let sink = self.output_sink(&call.id, &output);
        let cancel = worker.running(&call.id, &self.end).cancel.clone();
        let live = Arc::clone(self);
        tokio::spawn(async move {
            // Checked as late as possible: the task may have waited to be scheduled.
            if !live.lease.is_valid() {
                return live.lose_lease();
            }
            let id = call.id.clone();
            let running = async {
                match (place, guard) {
                    (ToolLocation::Host, Some(guard)) => {
                        live.host().run_guarded(call, guard, sink, cancel).await
                    }
                    (ToolLocation::Host, None) if fence == Fence::Off => {
                        live.host().run(call, sink, cancel).await
                    }
                    (ToolLocation::Host, None) => live.host().run_fenced(call, fence, sink, cancel).await,
                    (ToolLocation::Client, _) => live.host().run_client_tool(call, sink, cancel).await,
                }
            };
            let outcome = AssertUnwindSafe(running).catch_unwind().await;
            let outcome =
                outcome.unwrap_or_else(|_| Outcome::new(Status::Unknown, bug("running the tool").message));
            live.deliver(Input::Outcome { call: id, outcome });
        });
    }

    pub(super) fn output_sink(self: &Arc<Self>, call: &CallId, output: &Arc<CallOutput>) -> DeltaSink {
        let (live, id, output) = (Arc::clone(self), call.clone(), Arc::clone(output));
        DeltaSink::new(move |text| {
            if output.push(text) {
                live.hub.delta(&Delta::Output { call: id.clone(), text: text.to_owned() });
            }
        })
    }
}
