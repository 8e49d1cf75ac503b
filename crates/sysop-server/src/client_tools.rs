//! Tools that run on a client: the server sends the calls to the client, and the client sends back the results.
//!
//! Each session has one [`ClientToolBroker`]. A client that offers tools holds a [`ToolRegistration`]; the newest one
//! is in effect. A call waits for its result even while the client is disconnected, and only the same client (same
//! token, same root) may deliver it. This module accesses nothing on a client's machine.

mod host;
mod result_limits;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sysop_core::id::CallId;
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::text::strip_controls;
use sysop_core::tool::ClientTools;
use sysop_driver::port::{CancellationToken, DeltaSink};
use sysop_wire::ToolResult;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

pub(crate) use self::host::ClientToolHost;

/// Time that is added to a call's own time limit while waiting for its result.
const OWN_LIMIT_GRACE: Duration = Duration::from_secs(15);
/// Maximum number of refused calls, and also of abandoned calls, that are remembered for clients whose streams have not
/// processed them yet.
const REMEMBERED_MAX: usize = 64;
const MINUTE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
pub struct ClientToolSettings {
    /// Maximum time without a message about a call, whether or not its client is connected.
    pub tool_timeout: Duration,
    /// Maximum time to wait until a client reports the end of a call that it was told to stop. The user who stopped the
    /// call waits just as long. A result that arrives later is ignored.
    pub stop_wait: Duration,
    pub calls_per_minute: usize,
    /// Maximum size of a result, in bytes; larger ones are refused.
    pub result_bytes_max: usize,
    /// Maximum size of a result given to the model, in bytes; the middle is cut out.
    pub output_bytes: usize,
    /// Maximum number of lines of a result given to the model; the middle is cut out.
    pub output_lines: usize,
}

impl Default for ClientToolSettings {
    fn default() -> Self {
        Self {
            tool_timeout: Duration::from_secs(120),
            // Twice the time between `SIGTERM` and `SIGKILL`.
            stop_wait: Duration::from_secs(1),
            calls_per_minute: 120,
            result_bytes_max: 1024 * 1024,
            output_bytes: 50 * 1024,
            output_lines: 500,
        }
    }
}

/// The client tools of one session, and the calls in progress.
pub(crate) struct ClientToolBroker {
    settings: ClientToolSettings,
    state: Mutex<State>,
    /// Notified when the registration or the calls change.
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    registration: Option<RegisteredClient>,
    last_registration: u64,
    calls: BTreeMap<CallId, OutstandingCall>,
    refused: VecDeque<CallId>,
    /// Calls that were abandoned although the client may still be running them.
    given_up: VecDeque<CallId>,
    made: VecDeque<Instant>,
}

struct RegisteredClient {
    number: u64,
    owner: ToolOwner,
    client_tools: ClientTools,
}

/// Identity of the client's machine, as far as it can be known: its token and its root.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ToolOwner {
    key: String,
    root: String,
}

/// A call whose result has not arrived.
struct OutstandingCall {
    tool: String,
    /// The client that received the call; no other client may receive it.
    owner: Option<ToolOwner>,
    result: Option<oneshot::Sender<Outcome>>,
    sink: DeltaSink,
    stopping: bool,
    /// Time of the last message about the call, or of the client's last registration.
    last_activity: Instant,
}

/// State of a call, from the viewpoint of one client's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallState {
    /// Waiting for this client's result.
    Runnable,
    /// Finished, refused, or assigned to another client.
    Settled,
    /// Announced by an event, but the host has not been called yet.
    Unknown,
}

impl ClientToolBroker {
    pub(crate) fn new(settings: ClientToolSettings) -> Self {
        Self { settings, state: Mutex::default(), changed: watch::Sender::new(()) }
    }

    /// Registers a client; its tools replace the tools of the previous registration.
    pub(crate) fn register(self: &Arc<Self>, key: &str, client_tools: ClientTools) -> ToolRegistration {
        let number = {
            let mut state = self.state.lock();
            state.last_registration += 1;
            let number = state.last_registration;
            let owner = ToolOwner { key: key.to_owned(), root: client_tools.root.clone() };
            let now = Instant::now();
            for pending in state
                .calls
                .values_mut()
                .filter(|pending| pending.owner.as_ref().is_none_or(|is| *is == owner))
            {
                pending.last_activity = now;
                pending.owner = Some(owner.clone());
            }
            state.registration = Some(RegisteredClient { number, owner, client_tools });
            number
        };
        self.changed.send_replace(());
        ToolRegistration { tool_broker: Arc::clone(self), number, changes: self.changed.subscribe() }
    }

    pub(crate) fn is_registered(&self) -> bool {
        self.state.lock().registration.is_some()
    }

    /// Delivers a client's result to the call that waits for it. Returns false if this client has no such call.
    pub(crate) fn finish(&self, key: &str, result: ToolResult) -> bool {
        let mut state = self.state.lock();
        let sender = match state.calls.get_mut(&result.tool_call_id) {
            Some(pending) if pending.owner.as_ref().is_some_and(|owner| owner.key == key) => {
                pending.result.take()
            }
            Some(_) | None => None,
        };
        drop(state);
        let Some(sender) = sender else { return false };
        let (_, outcome) = result.into_outcome();
        sender.send(result_limits::limit_result(outcome, &self.settings)).is_ok()
    }

    /// Forwards output of a running call. Returns false if no such call is running on this client.
    pub(crate) fn output(&self, key: &str, call: &CallId, text: &str) -> bool {
        let sink = match self.state.lock().calls.get_mut(call) {
            Some(pending) if pending.owner.as_ref().is_some_and(|owner| owner.key == key) => {
                pending.last_activity = Instant::now();
                pending.sink.clone()
            }
            Some(_) | None => return false,
        };
        sink.output(&strip_controls(text));
        true
    }

    pub(crate) async fn run(&self, call: ToolCall, sink: DeltaSink, cancel: CancellationToken) -> Outcome {
        let began = Instant::now();
        let result = match self.begin(&call, sink) {
            Ok(result) => result,
            Err(refusal) => {
                self.changed.send_replace(());
                return Outcome::failed(refusal);
            }
        };
        let _over = CallGuard { tool_broker: self, call: &call.id };
        self.changed.send_replace(());
        let outcome = self.wait(&call, result, cancel).await;
        let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Outcome { duration_ms: if outcome.duration_ms == 0 { took } else { outcome.duration_ms }, ..outcome }
    }

    /// Records the call and returns the receiver of its result, or the reason for refusing the call.
    fn begin(&self, call: &ToolCall, sink: DeltaSink) -> Result<oneshot::Receiver<Outcome>, String> {
        let mut state = self.state.lock();
        let now = Instant::now();
        while state.made.front().is_some_and(|made| now.duration_since(*made) >= MINUTE) {
            state.made.pop_front();
        }
        let refusal = match &state.registration {
            Some(registered) if registered.client_tools.named(&call.name).is_none() => {
                Some(format!("the client does not currently offer `{}`; nothing ran", call.name))
            }
            Some(_) | None if state.made.len() >= self.settings.calls_per_minute => Some(format!(
                "the client's limit of {} calls per minute is reached; nothing ran: wait, or do more in one call",
                self.settings.calls_per_minute
            )),
            Some(_) | None => None,
        };
        if let Some(refusal) = refusal {
            remember(&mut state.refused, &call.id);
            return Err(refusal);
        }
        state.made.push_back(now);
        let (send, result) = oneshot::channel();
        let owner = state.registration.as_ref().map(|registered| registered.owner.clone());
        let pending = OutstandingCall {
            tool: call.name.clone(),
            owner,
            result: Some(send),
            sink,
            stopping: false,
            last_activity: now,
        };
        state.calls.insert(call.id.clone(), pending);
        Ok(result)
    }

    async fn wait(
        &self,
        call: &ToolCall,
        mut result: oneshot::Receiver<Outcome>,
        cancel: CancellationToken,
    ) -> Outcome {
        let call_timeout = self.call_timeout(call);
        loop {
            let deadline = self.last_activity(&call.id) + call_timeout;
            tokio::select! {
                biased;
                outcome = &mut result => return outcome.unwrap_or_else(|_| connection_lost()),
                () = cancel.cancelled() => return self.wait_for_stop(call, result).await,
                () = tokio::time::sleep_until(deadline) => {
                    if self.last_activity(&call.id) + call_timeout <= Instant::now() {
                        self.stop(&call.id);
                        return Outcome::failed(self.timeout_message(call_timeout));
                    }
                }
            }
        }
    }

    /// Returns the maximum time without a message about a call. It is longer if the call has a longer time limit of its
    /// own.
    fn call_timeout(&self, call: &ToolCall) -> Duration {
        let own = match &call.arguments {
            Arguments::Object(map) => map.get("timeout_s").and_then(serde_json::Value::as_u64),
            Arguments::Invalid(_) => None,
        };
        let own = own.map_or(Duration::ZERO, |seconds| {
            Duration::from_secs(seconds.min(24 * 60 * 60)).saturating_add(OWN_LIMIT_GRACE)
        });
        self.settings.tool_timeout.max(own)
    }

    fn last_activity(&self, call: &CallId) -> Instant {
        self.state.lock().calls.get(call).map_or_else(Instant::now, |pending| pending.last_activity)
    }

    fn timeout_message(&self, call_timeout: Duration) -> String {
        let seconds = call_timeout.as_secs_f64();
        if self.is_registered() {
            format!("the client sent nothing about this call for {seconds} s; its result is unknown")
        } else {
            format!(
                "the client that offers this tool was disconnected for {seconds} s; it is unknown whether the call ran"
            )
        }
    }

    /// Tells the client to stop the call, and waits up to `stop_wait` for the result.
    async fn wait_for_stop(&self, call: &ToolCall, result: oneshot::Receiver<Outcome>) -> Outcome {
        self.stop(&call.id);
        if !self.is_registered() {
            return Outcome::new(
                Status::Unknown,
                "stopped while the client was disconnected; it is unknown whether the call ran",
            );
        }
        match tokio::time::timeout(self.settings.stop_wait, result).await {
            Ok(outcome) => outcome.unwrap_or_else(|_| connection_lost()),
            Err(_) => Outcome::new(
                Status::Unknown,
                "the client was asked to stop and did not report a result in time; the result is unknown",
            ),
        }
    }

    fn stop(&self, call: &CallId) {
        if let Some(pending) = self.state.lock().calls.get_mut(call) {
            pending.stopping = true;
        }
        self.changed.send_replace(());
    }
}

fn remember(calls: &mut VecDeque<CallId>, call: &CallId) {
    if calls.len() == REMEMBERED_MAX {
        calls.pop_front();
    }
    calls.push_back(call.clone());
}

fn connection_lost() -> Outcome {
    Outcome::new(Status::Unknown, "the connection to the client broke; the result is unknown")
}

/// Removes a call when its future ends or is dropped.
struct CallGuard<'a> {
    tool_broker: &'a ClientToolBroker,
    call: &'a CallId,
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        {
            let mut state = self.tool_broker.state.lock();
            if state.calls.remove(self.call).is_some_and(|pending| pending.result.is_some()) {
                remember(&mut state.given_up, self.call);
            }
        }
        self.tool_broker.changed.send_replace(());
    }
}

/// A client's registration; removed on drop.
pub(crate) struct ToolRegistration {
    tool_broker: Arc<ClientToolBroker>,
    number: u64,
    changes: watch::Receiver<()>,
}

impl ToolRegistration {
    /// Waits until the registration or the calls may have changed. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            std::future::pending::<()>().await; // unreachable: the broker outlives its registrations
        }
    }

    pub(crate) fn call_state(&self, call: &CallId) -> CallState {
        let state = self.tool_broker.state.lock();
        let Some(registered) =
            state.registration.as_ref().filter(|registered| registered.number == self.number)
        else {
            return CallState::Settled; // replaced by a newer registration
        };
        match state.calls.get(call) {
            Some(pending) if pending.stopping || pending.result.is_none() => CallState::Settled,
            Some(pending) => {
                let ours = pending.owner.as_ref() == Some(&registered.owner);
                if ours && registered.client_tools.named(&pending.tool).is_some() {
                    CallState::Runnable
                } else {
                    CallState::Settled
                }
            }
            None if state.refused.contains(call) || state.given_up.contains(call) => CallState::Settled,
            None => CallState::Unknown,
        }
    }

    /// Returns true if this client must stop the call.
    pub(crate) fn is_stopping(&self, call: &CallId) -> bool {
        let state = self.tool_broker.state.lock();
        state.calls.get(call).is_some_and(|pending| pending.stopping) || state.given_up.contains(call)
    }
}

impl Drop for ToolRegistration {
    fn drop(&mut self) {
        {
            let mut state = self.tool_broker.state.lock();
            if state.registration.as_ref().is_none_or(|registered| registered.number != self.number) {
                return; // replaced by a newer registration
            }
            state.registration = None;
            let now = Instant::now();
            state.calls.values_mut().for_each(|pending| pending.last_activity = now);
        }
        self.tool_broker.changed.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use serde_json::{Map, json};
    use sysop_core::id::CallId;
    use sysop_core::message::{Arguments, ToolCall};
    use sysop_core::outcome::Status;
    use sysop_core::tool::ClientTools;
    use sysop_driver::port::{CancellationToken, DeltaSink};
    use sysop_wire::ToolResult;
    use tokio::time::Instant;

    use super::{ClientToolBroker, ClientToolSettings};

    #[tokio::test(start_paused = true)]
    async fn a_client_that_ignores_a_stop_does_not_block_the_turn() {
        let broker = Arc::new(ClientToolBroker::new(ClientToolSettings::default()));
        let tools = json!([{"name": "ls", "description": "List", "parameters": {"type": "object"}, "effect": "reads"}]);
        let tools = ClientTools { tools: serde_json::from_value(tools).unwrap(), root: "/x".to_owned() };
        let registration = broker.register("ann", tools);
        let call = ToolCall {
            id: CallId::new("c1"),
            wire_id: None,
            name: "ls".to_owned(),
            arguments: Arguments::Object(Map::new()),
        };
        let cancel = CancellationToken::new();
        cancel.cancel();
        let began = Instant::now();
        let outcome = broker.run(call.clone(), DeltaSink::none(), cancel).await;
        assert_eq!(outcome.status, Status::Unknown);
        assert!(began.elapsed() <= Duration::from_secs(1), "{:?}", began.elapsed());
        assert!(registration.is_stopping(&call.id), "the client is told to stop all the same");
        let late = json!({"toolCallId": "c1", "output": "late"});
        let late: ToolResult = serde_json::from_value(late).unwrap();
        assert!(!broker.finish("ann", late), "the result is no longer awaited");
    }
}
