//! The host of a session on the server: runs the session's own tools, sends client tools to the client, and logs and
//! counts every call.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use sysop_core::guard::GuardTimeout;
use sysop_core::message::ToolCall;
use sysop_core::outcome::Outcome;
use sysop_core::policy::{Fence, Survey};
use sysop_core::tool::ToolSpec;
use sysop_driver::port::{CancellationToken, DeltaSink, Host};

use crate::registry::SessionContext;

/// Wraps a session's host and adds the tools that clients offer.
pub(crate) struct ClientToolHost {
    own: Arc<dyn Host>,
    session_context: Arc<SessionContext>,
}

impl ClientToolHost {
    pub(crate) fn new(own: Arc<dyn Host>, session_context: Arc<SessionContext>) -> Self {
        Self { own, session_context }
    }

    /// Logs and counts a finished call, without its arguments and output.
    fn record_call(&self, call: &str, tool: &str, place: &'static str, began: Instant, outcome: &Outcome) {
        let took = began.elapsed();
        let status = outcome.status.as_str();
        // Clients choose the names of their tools, so these must not become metric labels.
        let counted = if place == CLIENT { CLIENT } else { tool };
        self.session_context.metrics.tool_ended(counted, status, took, outcome.output.len());
        tracing::info!(
            session = %self.session_context.id,
            call,
            tool,
            place,
            status,
            duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            output_bytes = outcome.output.len(),
            truncated = outcome.truncated,
            trace = self.session_context.trace_id(),
            "tool call"
        );
    }
}

const CLIENT: &str = "client";
const SERVER_HOST: &str = "host";

#[async_trait]
impl Host for ClientToolHost {
    fn tools(&self) -> &[ToolSpec] {
        self.own.tools()
    }

    fn wrapped(&self) -> Option<&dyn Host> {
        Some(&*self.own)
    }

    async fn survey(&self, call: &ToolCall) -> Survey {
        self.own.survey(call).await
    }

    async fn run(&self, call: ToolCall, sink: DeltaSink, cancel: CancellationToken) -> Outcome {
        let (id, tool, began) = (call.id.clone(), call.name.clone(), Instant::now());
        let outcome = self.own.run(call, sink, cancel).await;
        self.record_call(id.as_str(), &tool, SERVER_HOST, began, &outcome);
        outcome
    }

    async fn run_fenced(
        &self,
        call: ToolCall,
        fence: Fence,
        sink: DeltaSink,
        cancel: CancellationToken,
    ) -> Outcome {
        let (id, tool, began) = (call.id.clone(), call.name.clone(), Instant::now());
        let outcome = self.own.run_fenced(call, fence, sink, cancel).await;
        self.record_call(id.as_str(), &tool, SERVER_HOST, began, &outcome);
        outcome
    }

    async fn run_guarded(
        &self,
        call: ToolCall,
        guard: GuardTimeout,
        sink: DeltaSink,
        cancel: CancellationToken,
    ) -> Outcome {
        let (id, tool, began) = (call.id.clone(), call.name.clone(), Instant::now());
        let outcome = self.own.run_guarded(call, guard, sink, cancel).await;
        self.record_call(id.as_str(), &tool, SERVER_HOST, began, &outcome);
        outcome
    }

    async fn run_client_tool(&self, call: ToolCall, sink: DeltaSink, cancel: CancellationToken) -> Outcome {
        let (id, tool, began) = (call.id.clone(), call.name.clone(), Instant::now());
        let outcome = self.session_context.tool_broker.run(call, sink, cancel).await;
        self.record_call(id.as_str(), &tool, CLIENT, began, &outcome);
        outcome
    }
}
