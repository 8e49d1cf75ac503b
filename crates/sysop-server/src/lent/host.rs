//! The host of a session on the server: its own tools as they are, lent ones by their client; each call is counted
//! and told to the log of the server.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use sysop_core::message::ToolCall;
use sysop_core::outcome::Outcome;
use sysop_core::tool::ToolSpec;
use sysop_driver::people::{People, Terminal};
use sysop_driver::port::{CancellationToken, DeltaSink, Host};

use crate::house::RoomState;

/// A session's own host, with the door to what clients lend.
pub(crate) struct RoomHost {
    own: Arc<dyn Host>,
    room: Arc<RoomState>,
}

impl RoomHost {
    pub(crate) fn new(own: Arc<dyn Host>, room: Arc<RoomState>) -> Self {
        Self { own, room }
    }

    /// Tells of a call that is over; neither arguments nor output are told.
    fn tell(&self, call: &str, tool: &str, place: &'static str, began: Instant, outcome: &Outcome) {
        let took = began.elapsed();
        let status = outcome.status.as_str();
        // A name that a client made up must not become a series of its own.
        let counted = if place == LENT { LENT } else { tool };
        self.room.metrics.tool_ended(counted, status, took, outcome.output.len());
        tracing::info!(
            session = %self.room.id,
            call,
            tool,
            place,
            status,
            duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            output_bytes = outcome.output.len(),
            truncated = outcome.truncated,
            trace = self.room.trace_id(),
            "tool call"
        );
    }
}

const LENT: &str = "client";
const OWN: &str = "host";

#[async_trait]
impl Host for RoomHost {
    fn tools(&self) -> &[ToolSpec] {
        self.own.tools()
    }

    /// Every call is on record before it runs: it may have to be audited, and another node may have the session.
    fn may_look_ahead(&self, _: &ToolCall) -> bool {
        false
    }

    async fn run(&self, call: ToolCall, sink: DeltaSink, cancel: CancellationToken) -> Outcome {
        let (id, tool, began) = (call.id.clone(), call.name.clone(), Instant::now());
        let outcome = self.own.run(call, sink, cancel).await;
        self.tell(id.as_str(), &tool, OWN, began, &outcome);
        outcome
    }

    async fn run_lent(&self, call: ToolCall, sink: DeltaSink, cancel: CancellationToken) -> Outcome {
        let (id, tool, began) = (call.id.clone(), call.name.clone(), Instant::now());
        let outcome = self.room.lending.run(call, sink, cancel).await;
        self.tell(id.as_str(), &tool, LENT, began, &outcome);
        outcome
    }

    fn attend(&self, people: Arc<dyn People>) {
        self.own.attend(people);
    }

    fn terminal(&self) -> Option<Arc<dyn Terminal>> {
        self.own.terminal()
    }
}
