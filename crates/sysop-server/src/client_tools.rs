//! Tools that a client lends: calls go out to it, its results come in.
//!
//! Each session has one [`ClientToolBroker`]. A client that lends takes a [`ToolRegistration`]; the newest seat counts. A call waits for
//! its result, also while the client is away, and is given to the same client only: to whoever comes back with the
//! same token and the same root. Nothing of a client's machine is touched from here.

mod host;
mod result_limits;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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

/// How much longer than a call's own time limit its result may take.
const OWN_LIMIT_GRACE: Duration = Duration::from_secs(15);
/// How many refused calls, and how many that were given up, are remembered for streams that have yet to hear of it.
const REMEMBERED_MAX: usize = 64;
/// A minute.
const MINUTE: Duration = Duration::from_secs(60);

/// Bounds of what is lent.
#[derive(Debug, Clone)]
pub struct ClientToolSettings {
    /// The longest silence of a call: while its client is away, or says nothing of it.
    pub tool_timeout: Duration,
    /// How long a client that is told to stop a call may take to say how it ended. The person who stopped it waits for that;
    /// a client that takes longer goes on to stop, and its result is ignored.
    pub stop_wait: Duration,
    /// The most calls that are sent to one session's client in a minute.
    pub calls_per_minute: usize,
    /// The most bytes of a result; a longer one is refused.
    pub result_bytes_max: usize,
    /// The most bytes of a result that the model is told; head and tail are kept.
    pub output_bytes: usize,
    /// The most lines of a result that the model is told.
    pub output_lines: usize,
}

impl Default for ClientToolSettings {
    fn default() -> Self {
        Self {
            tool_timeout: Duration::from_secs(120),
            // Twice as long as a process gets to end by itself.
            stop_wait: Duration::from_secs(1),
            calls_per_minute: 120,
            result_bytes_max: 1024 * 1024,
            output_bytes: 50 * 1024,
            output_lines: 500,
        }
    }
}

/// What one session's clients lend, and the calls that are out.
pub(crate) struct ClientToolBroker {
    settings: ClientToolSettings,
    state: Mutex<State>,
    /// Told when seats or calls change.
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    registration: Option<RegisteredClient>,
    last_registration: u64,
    calls: BTreeMap<CallId, OutstandingCall>,
    refused: VecDeque<CallId>,
    /// Calls that were given up while the client may still run them.
    given_up: VecDeque<CallId>,
    /// When the calls of the last minute were made.
    made: VecDeque<Instant>,
}

struct RegisteredClient {
    number: u64,
    owner: ToolOwner,
    client_tools: ClientTools,
}

/// Whose machine it is, as far as that can be known.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ToolOwner {
    key: String,
    root: String,
}

/// A call that waits for its result.
struct OutstandingCall {
    tool: String,
    /// Who was given it; nobody else is.
    owner: Option<ToolOwner>,
    result: Option<oneshot::Sender<Outcome>>,
    sink: DeltaSink,
    stopping: bool,
    /// When something was last heard of it.
    last_activity: Instant,
}

/// What is to become of a call, for the stream that tells its client of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallState {
    /// It waits for this client's result.
    Runnable,
    /// It will not be run, or not by this client, or is over.
    Settled,
    /// Nobody has said yet: the host is about to be asked.
    Unknown,
}

impl ClientToolBroker {
    pub(crate) fn new(settings: ClientToolSettings) -> Self {
        Self { settings, state: Mutex::default(), changed: watch::Sender::new(()) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seats a client that lends; the one before it has its tools back.
    pub(crate) fn register(self: &Arc<Self>, key: &str, client_tools: ClientTools) -> ToolRegistration {
        let number = {
            let mut state = self.state();
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

    /// Whether somebody lends now.
    pub(crate) fn is_registered(&self) -> bool {
        self.state().registration.is_some()
    }

    /// Takes a client's result; says whether somebody waited for it from this client.
    pub(crate) fn finish(&self, key: &str, result: ToolResult) -> bool {
        let mut state = self.state();
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

    /// Passes on more of a running call's output; says whether somebody waits for it from this client.
    pub(crate) fn output(&self, key: &str, call: &CallId, text: &str) -> bool {
        let sink = match self.state().calls.get_mut(call) {
            Some(pending) if pending.owner.as_ref().is_some_and(|owner| owner.key == key) => {
                pending.last_activity = Instant::now();
                pending.sink.clone()
            }
            Some(_) | None => return false,
        };
        sink.output(&strip_controls(text));
        true
    }

    /// Gives a call to the client and waits for what comes of it.
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

    /// Notes the call, or says why it is not made.
    fn begin(&self, call: &ToolCall, sink: DeltaSink) -> Result<oneshot::Receiver<Outcome>, String> {
        let mut state = self.state();
        let now = Instant::now();
        while state.made.front().is_some_and(|made| now.duration_since(*made) >= MINUTE) {
            state.made.pop_front();
        }
        let refusal = match &state.registration {
            Some(registered) if registered.client_tools.named(&call.name).is_none() => {
                Some(format!("`{}` is not among the tools that the client lends now; nothing ran", call.name))
            }
            Some(_) | None if state.made.len() >= self.settings.calls_per_minute => Some(format!(
                "the client may be sent {} calls a minute, and these were made; nothing ran: wait, or do more with one call",
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

    /// The longest silence: calls that say themselves how long they may take are given that.
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
        self.state().calls.get(call).map_or_else(Instant::now, |pending| pending.last_activity)
    }

    fn timeout_message(&self, call_timeout: Duration) -> String {
        let seconds = call_timeout.as_secs_f64();
        if self.is_registered() {
            format!("the client said nothing of this call for {seconds} s; nobody knows how far it came")
        } else {
            format!("the client that lends this tool was away for {seconds} s; nobody knows whether it ran")
        }
    }

    /// Tells the client to stop, and waits a while for how it ended.
    async fn wait_for_stop(&self, call: &ToolCall, result: oneshot::Receiver<Outcome>) -> Outcome {
        self.stop(&call.id);
        if !self.is_registered() {
            return Outcome::new(
                Status::Unknown,
                "stopped while the client was away; nobody knows whether it ran",
            );
        }
        match tokio::time::timeout(self.settings.stop_wait, result).await {
            Ok(outcome) => outcome.unwrap_or_else(|_| connection_lost()),
            Err(_) => Outcome::new(
                Status::Unknown,
                "the client was told to stop and did not say at once how it ended; nobody knows how far it came",
            ),
        }
    }

    fn stop(&self, call: &CallId) {
        if let Some(pending) = self.state().calls.get_mut(call) {
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
    Outcome::new(Status::Unknown, "the connection to the client broke; nobody knows how far it came")
}

/// Forgets a call that is over, however its waiting ended.
struct CallGuard<'a> {
    tool_broker: &'a ClientToolBroker,
    call: &'a CallId,
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        {
            let mut state = self.tool_broker.state();
            if state.calls.remove(self.call).is_some_and(|pending| pending.result.is_some()) {
                remember(&mut state.given_up, self.call);
            }
        }
        self.tool_broker.changed.send_replace(());
    }
}

/// The place of a client that lends; given back when it is dropped.
pub(crate) struct ToolRegistration {
    tool_broker: Arc<ClientToolBroker>,
    number: u64,
    changes: watch::Receiver<()>,
}

impl ToolRegistration {
    /// Returns when seats or calls may have changed. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            std::future::pending::<()>().await; // it lives as long as this seat
        }
    }

    /// What is to become of a call.
    pub(crate) fn call_state(&self, call: &CallId) -> CallState {
        let state = self.tool_broker.state();
        let Some(registered) =
            state.registration.as_ref().filter(|registered| registered.number == self.number)
        else {
            return CallState::Settled; // somebody else lends now
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

    /// Whether this client is to stop the call.
    pub(crate) fn is_stopping(&self, call: &CallId) -> bool {
        let state = self.tool_broker.state();
        state.calls.get(call).is_some_and(|pending| pending.stopping) || state.given_up.contains(call)
    }
}

impl Drop for ToolRegistration {
    fn drop(&mut self) {
        {
            let mut state = self.tool_broker.state();
            if state.registration.as_ref().is_none_or(|registered| registered.number != self.number) {
                return; // another one has taken its place
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
    async fn a_client_that_does_not_answer_a_stop_keeps_nobody_waiting() {
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
        assert!(!broker.finish("ann", late), "nobody waits for its result any more");
    }
}
