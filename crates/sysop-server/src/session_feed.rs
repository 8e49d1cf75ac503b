//! Converts a session's updates to the messages of one client: first the missed ones, once and in order, then new ones.
//!
//! A client that offers tools also learns which calls to run and which to stop. Nothing is queued here without bound:
//! pending updates stay in the driver, which limits them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use serde_json::Value;
use sysop_core::event::{ConfigChange, Delta, Event, Logged, Update};
use sysop_core::id::{CallId, Seq, Timestamp};
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::policy::{Risk, Rule};
use sysop_core::redact::live::LiveRedactor;
use sysop_core::tool::ClientTools;
use sysop_wire::{Encoder, LogPosition, ServerMessage};
use tokio::time::Instant;

use crate::authenticator::Caller;
use crate::backend::SessionBackend;
use crate::client_tools::{CallState, ToolRegistration};
use crate::registry::SessionRef;

/// Maximum length of the text in one delta message, in bytes. Deltas for a slow client are merged, and many clients
/// limit the size of a message.
const DELTA_BYTES_MAX: usize = 64 * 1024;
/// Maximum time to hold back the message of a logged call while the session's host has not been called for it yet.
/// After this time, the message is sent without `run`.
const UNKNOWN_MAX: Duration = Duration::from_secs(2);

/// State folded from the log up to an event.
#[derive(Clone)]
pub(crate) struct Follower {
    encoder: Encoder,
    seq: Seq,
    /// Client tools offered at this point of the log.
    client_tools: ClientTools,
    /// Client tool calls that have started and not finished, with their messages.
    running: HashMap<CallId, ServerMessage>,
    asked: Option<ServerMessage>,
    /// Consents given so far to the call that is waiting for approval.
    given: Vec<ServerMessage>,
    host: String,
    /// The user's rules file, for display; `None` if rules cannot be written.
    rules_file: Option<String>,
    opened: Option<(String, Timestamp)>,
    prompted: Option<Timestamp>,
}

impl Follower {
    fn new(session_ref: &SessionRef) -> Self {
        Self {
            encoder: Encoder::new(session_ref.state.id.clone()),
            seq: Seq(0),
            client_tools: ClientTools::default(),
            running: HashMap::new(),
            asked: None,
            given: Vec::new(),
            host: String::new(),
            rules_file: session_ref.state.rules_file.clone(),
            opened: None,
            prompted: None,
        }
    }

    /// Reads the log up to the event that was the last one when `session_ref` was opened. Continues the previous read.
    pub(crate) async fn caught_up(session_ref: &SessionRef) -> Self {
        let mut kept = session_ref.state.followed.lock().await;
        let mut follower = kept.take().unwrap_or_else(|| Self::new(session_ref));
        let last = session_ref.opened.last;
        if follower.seq < last {
            let mut updates = session_ref.opened.session.subscribe(follower.seq);
            while follower.seq < last
                && let Some(update) = updates.next().await
            {
                if let Update::Logged(logged) = update {
                    follower.encode_event(&logged);
                }
            }
        }
        *kept = Some(follower.clone());
        follower
    }

    pub(crate) fn seq(&self) -> Seq {
        self.seq
    }

    /// Returns the rule that "allow always" would write for the pending approval, or `None` if no rule is offered.
    pub(crate) fn offered_rule(&self) -> Option<Rule> {
        self.rule_for(self.asked.as_ref()?)
    }

    /// Returns the rule that "allow always" would write for a request. Returns `None` if that decision is not offered,
    /// as for client tools, because the client has its own rules.
    fn rule_for(&self, request: &ServerMessage) -> Option<Rule> {
        let ServerMessage::ApprovalRequest { tool_call_id, name, command, arguments, risk, .. } = request
        else {
            return None;
        };
        if self.rules_file.is_none() || self.client_tools.named(name).is_some() {
            return None;
        }
        let Value::Object(arguments) = arguments else { return None };
        let arguments = Arguments::Object(arguments.clone());
        let call = ToolCall { id: tool_call_id.clone(), wire_id: None, name: name.clone(), arguments };
        Rule::for_approval(&self.host, &call, command, &Risk { class: *risk, findings: Vec::new() })
    }

    /// Adds the "allow always" rule to an approval request, if one can be offered.
    fn with_offer(&self, mut message: ServerMessage) -> ServerMessage {
        let rule = self.rule_for(&message);
        if let (ServerMessage::ApprovalRequest { always, rules_file, .. }, Some(rule)) = (&mut message, rule)
        {
            *always = Some(rule.to_toml());
            rules_file.clone_from(&self.rules_file);
        }
        message
    }

    pub(crate) fn prompted(&self) -> Option<Timestamp> {
        self.prompted
    }

    /// Returns true if this caller opened the session. Names are not unique, so a newer token does not count.
    pub(crate) fn is_opened_by(&self, caller: &Caller) -> bool {
        self.opened.as_ref().is_some_and(|(person, at)| {
            *person == caller.name && caller.token.is_none_or(|token| token.created <= *at)
        })
    }

    /// Returns true if the pending approval can only be given for this one call, and not for similar calls as well.
    pub(crate) fn allows_once_only(&self) -> bool {
        matches!(&self.asked, Some(ServerMessage::ApprovalRequest { risk, .. }) if risk.always_asks())
    }

    /// Returns the call that is waiting for approval, or `None`.
    pub(crate) fn asked_about(&self) -> Option<&CallId> {
        match &self.asked {
            Some(ServerMessage::ApprovalRequest { tool_call_id, .. }) => Some(tool_call_id),
            Some(_) | None => None,
        }
    }

    /// The `session.created` message for the current state; `None` if the log could not be read.
    pub(crate) fn hello_reply(&self) -> Option<ServerMessage> {
        self.encoder.hello_reply()
    }

    pub(crate) fn now(&self) -> &sysop_wire::State {
        self.encoder.now()
    }

    pub(crate) fn client_tools(&self) -> &ClientTools {
        &self.client_tools
    }

    fn encode_event(&mut self, logged: &Logged) -> Vec<ServerMessage> {
        self.seq = logged.seq;
        let messages = self.encoder.encode_event(logged);
        self.fold(logged, &messages);
        messages
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "only these events change the state")]
    fn fold(&mut self, logged: &Logged, messages: &[ServerMessage]) {
        match &logged.event {
            Event::SessionOpened { spec, opened_by, .. } => {
                self.host.clone_from(&spec.host);
                self.opened = opened_by.clone().map(|person| (person, logged.at));
            }
            Event::TurnStarted { .. } | Event::PromptQueued { .. } => self.prompted = Some(logged.at),
            Event::Configured { change: ConfigChange::ClientTools(client_tools), .. } => {
                self.client_tools = client_tools.clone()
            }
            Event::ToolStarted { call, .. } if self.client_tools.named(&call.name).is_some() => {
                let began = |message: &&ServerMessage| matches!(message, ServerMessage::ToolCall { .. });
                if let Some(message) = messages.iter().find(began) {
                    self.running.insert(call.id.clone(), message.clone());
                }
            }
            Event::ToolFinished { call, .. } => {
                self.running.remove(call);
            }
            Event::ApprovalAsked { .. } => {
                let asked =
                    |message: &&ServerMessage| matches!(message, ServerMessage::ApprovalRequest { .. });
                self.asked = messages.iter().find(asked).cloned();
                self.given.clear();
            }
            Event::ApprovalPreviewed { command: None, preview: found, .. } => {
                if let Some(ServerMessage::ApprovalRequest { preview, .. }) = &mut self.asked {
                    preview.clone_from(found);
                }
            }
            Event::ApprovalGiven { .. } => self.given.extend(messages.iter().cloned()),
            // A call whose approval expired is rejected by a decision, too.
            Event::Decided { .. } | Event::TurnEnded { .. } => {
                self.asked = None;
                self.given.clear();
            }
            _ => {}
        }
    }

    /// First messages for a client that joins live: greeting, current state, pending approval and the consents to it.
    fn joining(&self, session_ref: &SessionRef) -> VecDeque<ServerMessage> {
        let state = ServerMessage::State {
            session_id: session_ref.state.id.clone(),
            position: LogPosition { seq: self.seq, more: false },
            now: self.encoder.now().clone(),
            event: None,
            origin: None,
            by: None,
        };
        let mut messages: VecDeque<_> = self.encoder.hello_reply().into_iter().collect();
        messages.push_back(state);
        messages.extend(self.asked.clone().map(|asked| self.with_offer(asked)));
        messages.extend(self.given.iter().cloned());
        messages
    }
}

/// Message stream of one client.
pub(crate) struct SessionFeed {
    follower: Follower,
    updates: BoxStream<'static, Update>,
    ready: VecDeque<ServerMessage>,
    /// Events up to this one are already known to the client.
    known: Seq,
    registration: Option<ToolRegistration>,
    /// Calls that this client was told to run.
    announced: HashSet<CallId>,
    stopped: HashSet<CallId>,
    /// Messages held back until it is known whether their call must run on this client.
    deferred: Option<DeferredCall>,
    /// Live output of the calls that are running, for a client that must not see more than the log has. `None` for
    /// others, who need prompts and progress bars as they are.
    redactors: Option<HashMap<CallId, LiveRedactor>>,
    session_ref: SessionRef,
}

struct DeferredCall {
    messages: Vec<ServerMessage>,
    call: CallId,
    since: Instant,
}

/// Position in the log at which a client starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartPosition {
    /// At the current end.
    Live,
    /// After an event that the client already has.
    After(Seq),
}

impl SessionFeed {
    /// Subscribes to a session. With `greet`, the first message describes the session.
    pub(crate) async fn new(
        session_ref: SessionRef,
        backend: &dyn SessionBackend,
        start: StartPosition,
        greet: bool,
    ) -> Self {
        let now = Follower::caught_up(&session_ref).await;
        let (mut ready, known, follower) = match start {
            StartPosition::Live => (now.joining(&session_ref), now.seq, now),
            StartPosition::After(seq) => {
                let greeting = now.encoder.hello_reply().into_iter().collect();
                if seq < now.seq {
                    // The client missed events: replay the log from its start to build the encoder's state.
                    (greeting, seq, Follower::new(&session_ref))
                } else if seq == now.seq || backend.is_logged(&session_ref.state.id, seq).await {
                    // The client is up to date. In a cluster it may know more events than this server, from another
                    // one.
                    (greeting, seq, now)
                } else {
                    (greeting, now.seq, now) // no server ever sent this event
                }
            }
        };
        if !greet {
            ready.clear();
        }
        let updates = session_ref.opened.session.subscribe(follower.seq);
        Self {
            follower,
            updates,
            ready,
            known,
            registration: None,
            announced: HashSet::new(),
            stopped: HashSet::new(),
            deferred: None,
            redactors: None,
            session_ref,
        }
    }

    /// Redacts live output if the caller may not operate. Called before the first message is read.
    pub(crate) fn for_caller(mut self, caller: &Caller) -> Self {
        self.redactors = (!caller.scopes.operate).then(HashMap::new);
        self
    }

    /// Starts or stops offering tools through this client.
    pub(crate) fn register(&mut self, registration: Option<ToolRegistration>) {
        self.registration = registration;
        self.announce_calls();
    }

    /// Returns the next message, or `None` once the session is gone. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<ServerMessage> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                if self.ready.is_empty() {
                    self.ready = VecDeque::new(); // frees memory: most feeds idle, after a large first batch
                }
                return Some(message);
            }
            let deferred_until = self.deferred.as_ref().map(|deferred| deferred.since + UNKNOWN_MAX);
            let changed = async {
                match &mut self.registration {
                    Some(registration) => registration.changed().await,
                    None => std::future::pending().await,
                }
            };
            if let Some(until) = deferred_until {
                tokio::select! {
                    () = changed => self.flush_deferred(),
                    () = tokio::time::sleep_until(until) => self.release_deferred(false),
                }
            } else {
                tokio::select! {
                    biased;
                    update = self.updates.next() => self.take(&update?),
                    () = changed => self.announce_calls(),
                }
            }
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "only calls need more than their messages")]
    fn take(&mut self, update: &Update) {
        let logged = match update {
            Update::Delta(Delta::Output { call, text }) if self.redactors.is_some() => {
                // The beginning of the output is known only if the call began while this feed was open.
                let redactors = self.redactors.get_or_insert_default();
                let text = redactors.entry(call.clone()).or_insert_with(LiveRedactor::after_gap).push(text);
                return self.take_output(call, text);
            }
            Update::Delta(delta) => {
                self.ready.extend(in_pieces(self.follower.encoder.encode_delta(delta)));
                return;
            }
            Update::Logged(logged) => logged,
        };
        self.follow_output(logged);
        let messages = self.follower.encode_event(logged);
        match &logged.event {
            Event::ToolFinished { call, .. } => {
                self.announced.remove(call);
                self.stopped.remove(call);
            }
            Event::ToolStarted { call, .. } if self.follower.running.contains_key(&call.id) => {
                if logged.seq > self.known {
                    let deferred = DeferredCall { messages, call: call.id.clone(), since: Instant::now() };
                    self.deferred = Some(deferred);
                    self.flush_deferred();
                } else {
                    self.announce_calls();
                }
                return;
            }
            _ => {}
        }
        if logged.seq > self.known {
            let follower = &self.follower;
            self.ready.extend(messages.into_iter().map(|message| follower.with_offer(message)));
        }
    }

    /// Begins the redaction of a call's live output at its start, and sends the rest of the output at its end.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only calls have live output")]
    fn follow_output(&mut self, logged: &Logged) {
        let Some(redactors) = &mut self.redactors else { return };
        match &logged.event {
            Event::ToolStarted { call, .. } if logged.seq > self.session_ref.opened.last => {
                redactors.insert(call.id.clone(), LiveRedactor::default());
            }
            Event::ToolFinished { call, .. } => {
                if let Some(mut redactor) = redactors.remove(call) {
                    self.take_output(call, redactor.finish());
                }
            }
            Event::TurnEnded { .. } => redactors.clear(),
            _ => {}
        }
    }

    fn take_output(&mut self, call: &CallId, text: String) {
        if !text.is_empty() {
            let delta = Delta::Output { call: call.clone(), text };
            self.ready.extend(in_pieces(self.follower.encoder.encode_delta(&delta)));
        }
    }

    /// Sends the held-back messages once the state of their call is known.
    fn flush_deferred(&mut self) {
        let Some(deferred) = &self.deferred else { return };
        let history = self.follower.seq <= self.session_ref.opened.last;
        match self.registration.as_ref().map(|registration| registration.call_state(&deferred.call)) {
            Some(CallState::Runnable) => self.release_deferred(true),
            // For a call from the history, `announce_calls` sends it later if it must still run.
            Some(CallState::Unknown) if !history => {}
            Some(CallState::Unknown | CallState::Settled) | None => self.release_deferred(false),
        }
    }

    fn release_deferred(&mut self, run: bool) {
        let Some(deferred) = self.deferred.take() else { return };
        for message in deferred.messages {
            let wanted = run && matches!(message, ServerMessage::ToolCall { .. });
            self.ready.push_back(if wanted { self.with_run_flag(message) } else { message });
        }
        if run {
            self.announced.insert(deferred.call);
        }
        self.announce_calls(); // for changes of other calls in the meantime
    }

    /// Announces calls that this client must run or stop and has not been told about.
    fn announce_calls(&mut self) {
        let Some(registration) = &self.registration else { return };
        let deferred = self.deferred.as_ref().map(|deferred| &deferred.call);
        let running = self.follower.running.keys().filter(|call| Some(*call) != deferred);
        let due: Vec<CallId> = running
            .clone()
            .filter(|call| {
                !self.announced.contains(*call) && registration.call_state(call) == CallState::Runnable
            })
            .cloned()
            .collect();
        let stopping: Vec<CallId> = running
            .filter(|call| !self.stopped.contains(*call) && registration.is_stopping(call))
            .cloned()
            .collect();
        for call in due {
            let message = self.follower.running[&call].clone();
            let message = self.with_run_flag(message);
            self.ready.push_back(message);
            self.announced.insert(call);
        }
        for call in stopping {
            let session_id = self.session_ref.state.id.clone();
            self.ready.push_back(ServerMessage::ToolCancel { session_id, tool_call_id: call.clone() });
            self.stopped.insert(call);
        }
    }

    fn with_run_flag(&self, mut message: ServerMessage) -> ServerMessage {
        if let ServerMessage::ToolCall { run, traceparent, .. } = &mut message {
            *run = true;
            *traceparent = self.session_ref.state.trace().map(|trace| trace.to_string());
        }
        message
    }
}

/// Splits a delta into messages of at most [`DELTA_BYTES_MAX`].
#[expect(clippy::wildcard_enum_match_arm, reason = "only these messages contain joined deltas")]
fn in_pieces(message: ServerMessage) -> Vec<ServerMessage> {
    match message {
        ServerMessage::AssistantDelta { session_id, content } => pieces(&content)
            .map(|content| ServerMessage::AssistantDelta { session_id: session_id.clone(), content })
            .collect(),
        ServerMessage::AssistantReasoning { session_id, content } => pieces(&content)
            .map(|content| ServerMessage::AssistantReasoning { session_id: session_id.clone(), content })
            .collect(),
        ServerMessage::ToolOutput { session_id, tool_call_id, content } => pieces(&content)
            .map(|content| ServerMessage::ToolOutput {
                session_id: session_id.clone(),
                tool_call_id: tool_call_id.clone(),
                content,
            })
            .collect(),
        other => vec![other],
    }
}

fn pieces(mut text: &str) -> impl Iterator<Item = String> {
    std::iter::from_fn(move || {
        let (piece, rest) = text.split_at(text.floor_char_boundary(DELTA_BYTES_MAX));
        text = rest;
        (!piece.is_empty()).then(|| piece.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use sysop_core::event::Input;
    use sysop_core::id::{SessionId, Timestamp};
    use sysop_core::message::{ModelRef, ModelRequest};
    use sysop_core::question::QuestionId;
    use sysop_driver::frontend::SessionHandle;
    use sysop_driver::port::{ModelEvent, SessionSummary};
    use sysop_driver::prompter::{PromptReply, Terminal};

    use super::*;
    use crate::backend::{Artifact, BackendError, CreateSession, HostDecorator, OpenedSession};
    use crate::client_tools::ClientToolSettings;
    use crate::metrics::Metrics;
    use crate::registry::SessionRegistry;

    /// A session of which this server knows two events and then receives three more from another server.
    struct Behind(SessionId);

    fn event(seq: u64) -> Update {
        Update::Logged(Arc::new(Logged {
            seq: Seq(seq),
            at: Timestamp(0),
            event: Event::PromptQueued { text: format!("prompt {seq}"), images: Vec::new(), by: None },
        }))
    }

    impl SessionHandle for Behind {
        fn id(&self) -> &SessionId {
            &self.0
        }

        fn send(&self, _: Input) -> Result<(), String> {
            Ok(())
        }

        fn subscribe(&self, after: Seq) -> BoxStream<'static, Update> {
            futures::stream::iter((after.0 + 1..=5).map(event)).chain(futures::stream::pending()).boxed()
        }

        fn answer(&self, _: QuestionId, _: PromptReply) -> bool {
            false
        }

        fn terminal(&self) -> Option<Arc<dyn Terminal>> {
            None
        }

        fn is_by_another_process(&self, _: Seq) -> bool {
            false
        }

        fn last_error(&self) -> Option<String> {
            None
        }
    }

    struct SingleSession;

    #[async_trait]
    impl SessionBackend for SingleSession {
        async fn create(
            &self,
            id: SessionId,
            _: CreateSession,
            _: HostDecorator,
        ) -> Result<OpenedSession, BackendError> {
            Ok(OpenedSession { session: Arc::new(Behind(id)), last: Seq(2) })
        }

        async fn open(&self, id: &SessionId, _: HostDecorator) -> Result<OpenedSession, BackendError> {
            Err(BackendError::NotFound(id.clone()))
        }

        async fn is_logged(&self, _: &SessionId, seq: Seq) -> bool {
            seq <= Seq(5)
        }

        async fn list(&self, _: usize) -> Result<Vec<SessionSummary>, BackendError> {
            Ok(Vec::new())
        }

        async fn delete(&self, _: &SessionId) -> Result<(), BackendError> {
            Ok(())
        }

        async fn artifact(&self, id: &SessionId, _: &str) -> Result<Artifact, BackendError> {
            Err(BackendError::NotFound(id.clone()))
        }

        fn check_change(&self, _: &ConfigChange) -> Result<(), String> {
            Ok(())
        }

        fn attribute_to(&self, _: &SessionId, _: &str, _: Option<&str>, _: bool) {}

        fn forget_request(&self, _: &SessionId, _: &str, _: bool) {}

        fn model(&self, _: Option<&str>) -> ModelRef {
            ModelRef::new("demo", "demo")
        }

        fn ask(&self, _: ModelRequest) -> BoxStream<'static, ModelEvent> {
            futures::stream::empty().boxed()
        }

        async fn readiness_error(&self) -> Option<String> {
            None
        }

        fn live_session_count(&self) -> usize {
            1
        }

        fn evict_idle(&self, _: Duration) {}

        async fn leave(&self) {}
    }

    /// Returns the event numbers sent to a client that already has the events up to `had`.
    async fn told_after(had: u64) -> Vec<u64> {
        let registry = SessionRegistry::new(
            Arc::new(SingleSession),
            ClientToolSettings::default(),
            Arc::new(Metrics::new()),
        );
        let session_ref = registry.create(SessionId::new("s"), CreateSession::default()).await.unwrap();
        let mut feed =
            SessionFeed::new(session_ref, registry.backend.as_ref(), StartPosition::After(Seq(had)), false)
                .await;
        let mut announced = Vec::new();
        while let Ok(Some(message)) = tokio::time::timeout(Duration::from_secs(1), feed.next()).await {
            announced.extend(message.position().map(|position| position.seq.0));
        }
        announced.dedup();
        announced
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_ahead_of_this_server_gets_nothing_twice() {
        assert_eq!(told_after(0).await, [1, 2, 3, 4, 5]);
        assert_eq!(told_after(2).await, [3, 4, 5]);
        assert_eq!(told_after(4).await, [5], "another server sent 3 and 4");
        assert_eq!(told_after(99).await, [3, 4, 5], "no server sent 99");
    }

    #[test]
    fn a_long_delta_is_split_at_characters() {
        let text = "é".repeat(DELTA_BYTES_MAX);
        let announced: Vec<String> = pieces(&text).collect();
        assert!(announced.iter().all(|piece| piece.len() <= DELTA_BYTES_MAX));
        assert_eq!((announced.len(), announced.concat()), (2, text));
        assert_eq!(pieces("").count(), 0);
    }
}
