//! Derives audit lines from events. Tracks the tool, arguments, decision and place of each call.
//!
//! The state contains only what future lines need. It can be rebuilt from the log, except for traces and for the caller
//! who asked for a retry.

use std::collections::HashMap;
use std::sync::Arc;

use sysop_core::event::{ConfigChange, Decision, Event, Logged, Origin, TypedInput};
use sysop_core::id::{CallId, Seq, SessionId, Timestamp};
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::{Outcome, Status};

use super::entry::{AuditEntry, Kind};
use super::redact::CommandRedactor;

/// Maximum number of sessions to track. If there are more, all are forgotten, and each is read from its log again when
/// it is needed.
const SESSIONS_MAX: usize = 16_384;
/// Maximum number of requests for a turn to remember for each session, the last ones.
const REQUESTS_MAX: usize = 16;
/// Value of `who` if nobody was asked.
pub const POLICY: &str = "policy";

/// Caller on whose behalf a session acts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Actor {
    pub name: String,
    pub trace: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct AuditTracker {
    redaction: CommandRedactor,
    sessions: HashMap<SessionId, TrackedSession>,
    /// The requests for a turn of each session.
    requests: HashMap<SessionId, TurnRequests>,
}

/// The requests for a turn of a session: the last prompt and the last retry of each caller, the latest at the end.
#[derive(Debug, Default)]
struct TurnRequests(Vec<TurnRequest>);

#[derive(Debug)]
struct TurnRequest {
    actor: Arc<Actor>,
    /// The caller did not ask for turns that began before this time, such as those that are read from the log.
    asked: Timestamp,
    is_retry: bool,
    /// True until a turn of this caller begins.
    waits: bool,
    /// The earlier request of the caller that this one replaced.
    replaced: Option<Box<TurnRequest>>,
}

#[derive(Debug, Default)]
struct TrackedSession {
    seen: Seq,
    /// Caller who asked for the current turn; `None` between turns, and in a turn of a local user.
    asker: Option<Arc<Actor>>,
    /// True if the last event dropped the history, as a retry does directly before its turn.
    is_cleared: bool,
    /// Hash of the last prompt and its sender, which a retry repeats.
    last_prompt: Option<String>,
    place: String,
    /// Names of the client tools, and their place (`client:ROOT`).
    lent: Option<(Vec<String>, String)>,
    calls: HashMap<CallId, TrackedCall>,
}

#[derive(Debug, Default, Clone)]
struct TrackedCall {
    tool: String,
    what: Option<String>,
    arguments: String,
    allowed_by: Option<String>,
    /// Users who have allowed the call so far, if the call needs further approvals.
    given: Vec<String>,
}

impl AuditTracker {
    pub(super) fn new(redaction: CommandRedactor) -> Self {
        Self { redaction, ..Self::default() }
    }

    /// Records the caller who asks for a turn. The turn may be queued, or belong to another caller who asked before.
    pub(super) fn attribute_to(&mut self, id: &SessionId, actor: Actor, is_retry: bool, asked: Timestamp) {
        if self.requests.len() >= SESSIONS_MAX {
            self.requests.clear();
        }
        self.requests.entry(id.clone()).or_default().add(actor, is_retry, asked);
    }

    /// Forgets the request of a caller that the session did not accept.
    pub(super) fn forget_request(&mut self, id: &SessionId, name: &str, is_retry: bool) {
        if let Some(requests) = self.requests.get_mut(id) {
            requests.forget_last(name, is_retry);
        }
    }

    /// Returns true if the session is tracked exactly up to `after`.
    pub(super) fn knows(&self, id: &SessionId, after: Seq) -> bool {
        after == Seq(0) || self.sessions.get(id).is_some_and(|known| known.seen == after)
    }

    /// Forgets a session whose state may be wrong.
    pub(super) fn forget(&mut self, id: &SessionId) {
        self.sessions.remove(id);
    }

    /// Processes events that are already in the log.
    pub(super) fn follow<'a>(&mut self, id: &SessionId, events: impl IntoIterator<Item = &'a Logged>) {
        for logged in events {
            let next = self.sessions.get(id).is_some_and(|known| known.seen.next() == logged.seq);
            if next || logged.seq == Seq(1) && !self.sessions.contains_key(id) {
                self.entry(id, logged);
            }
        }
    }

    /// Returns the lines for these events, which must continue the tracked state.
    pub(super) fn entries(&mut self, id: &SessionId, events: &[Arc<Logged>]) -> Vec<AuditEntry> {
        let mut entries = Vec::new();
        for (at, logged) in events.iter().enumerate() {
            let entry = self.entry(id, logged);
            entries.extend(entry.filter(|_| !is_denied(logged, events.get(at + 1))));
        }
        entries
    }

    fn entry(&mut self, id: &SessionId, logged: &Logged) -> Option<AuditEntry> {
        if self.sessions.len() >= SESSIONS_MAX && !self.sessions.contains_key(id) {
            self.sessions.clear();
        }
        let known = self.sessions.entry(id.clone()).or_default();
        known.seen = logged.seq;
        if let Event::TurnStarted { prompt, origin, by, .. } = &logged.event {
            let had_prompt = known.last_prompt.is_some();
            let is_retry = known.begins_retry(prompt, *origin, by.as_deref());
            let mut requests = self.requests.get_mut(id);
            known.asker = if is_retry {
                requests.and_then(|requests| requests.take_retry(by.as_deref(), logged.at))
            } else {
                // Otherwise, a retry may follow that ends this turn.
                if let Some(requests) = requests.as_mut().filter(|_| !had_prompt) {
                    requests.end_retries(logged.at);
                }
                by.as_deref().map(|name| asker(name, requests, logged.at))
            };
        } else if let Event::PromptWithdrawn { by: Some(name), .. } = &logged.event {
            if let Some(requests) = self.requests.get_mut(id) {
                requests.take(name, logged.at);
            }
        } else if matches!(logged.event, Event::TurnEnded { .. }) {
            known.asker = None;
        }
        known.is_cleared = matches!(logged.event, Event::HistoryCleared);
        let mut entry = known.line(&self.redaction, logged)?;
        entry.session = id.as_str().to_owned();
        entry.seq = Some(logged.seq.0);
        if let Some(actor) = &known.asker {
            entry.wished = Some(actor.name.clone());
            entry.trace.clone_from(&actor.trace);
        }
        if entry.who.as_deref() == Some("") {
            entry.who.clone_from(&entry.wished); // typed by the user on whose behalf the session acts
        }
        Some(entry)
    }
}

/// Returns the caller who asked for a turn that begins and is no retry: the sender of its prompt or call.
fn asker(name: &str, requests: Option<&mut TurnRequests>, begun: Timestamp) -> Arc<Actor> {
    let known = requests.and_then(|requests| requests.take(name, begun));
    known.unwrap_or_else(|| Arc::new(Actor { name: name.to_owned(), trace: None }))
}

impl TurnRequests {
    fn add(&mut self, actor: Actor, is_retry: bool, asked: Timestamp) {
        let replaced = self.remove(&actor.name, is_retry);
        let replaced = replaced.map(|replaced| Box::new(TurnRequest { replaced: None, ..replaced }));
        if self.0.len() >= REQUESTS_MAX {
            self.0.remove(0);
        }
        self.0.push(TurnRequest { actor: Arc::new(actor), asked, is_retry, waits: true, replaced });
    }

    fn remove(&mut self, name: &str, is_retry: bool) -> Option<TurnRequest> {
        let is_it = |request: &TurnRequest| request.actor.name == name && request.is_retry == is_retry;
        let at = self.0.iter().position(is_it)?;
        Some(self.0.remove(at))
    }

    /// Removes the last request of a caller, and puts back the one that it replaced.
    fn forget_last(&mut self, name: &str, is_retry: bool) {
        if let Some(before) = self.remove(name, is_retry).and_then(|request| request.replaced) {
            let at = self.0.partition_point(|request| request.asked <= before.asked);
            self.0.insert(at, *before);
        }
    }

    /// Ends the wait of retries that were asked for before the first turn began: the session had nothing to retry.
    fn end_retries(&mut self, begun: Timestamp) {
        let is_old = |request: &&mut TurnRequest| request.is_retry && request.asked <= begun;
        self.0.iter_mut().filter(is_old).for_each(|request| request.waits = false);
    }

    /// Returns the caller with this name, whose prompt no longer waits.
    fn take(&mut self, name: &str, begun: Timestamp) -> Option<Arc<Actor>> {
        let is_prompt = |request: &&mut TurnRequest| {
            request.actor.name == name && !request.is_retry && request.asked <= begun
        };
        let request = self.0.iter_mut().find(is_prompt)?;
        request.waits = false;
        Some(Arc::clone(&request.actor))
    }

    /// Returns the caller who asked last for a retry that has not begun, which the log does not name. `None` if nobody
    /// did, as after a restart, or if another node got the message. `by` is the sender of the prompt: a caller who
    /// sends the same prompt in a new chat does not retry it.
    fn take_retry(&mut self, by: Option<&str>, begun: Timestamp) -> Option<Arc<Actor>> {
        let mut waiting: Vec<_> =
            self.0.iter_mut().filter(|request| request.waits && request.asked <= begun).collect();
        let retry = waiting.iter().rposition(|request| request.is_retry);
        let sent = || waiting.iter().rposition(|request| Some(request.actor.name.as_str()) == by);
        let chosen = retry.or_else(sent)?;
        // A turn answers all retries that came before it.
        waiting.iter_mut().filter(|request| request.is_retry).for_each(|request| request.waits = false);
        waiting[chosen].waits = false;
        Some(Arc::clone(&waiting[chosen].actor))
    }
}

/// Returns true for the start of a call that was denied, which is logged only to name the call: nothing began.
fn is_denied(start: &Logged, next: Option<&Arc<Logged>>) -> bool {
    let (Event::ToolStarted { call: started, .. }, Some(next)) = (&start.event, next) else { return false };
    matches!(&next.event, Event::ToolFinished { call, outcome }
        if *call == started.id && outcome.status == Status::Rejected)
}

/// Returns true if the event produces an audit line.
pub(super) fn is_audited(event: &Event) -> bool {
    matches!(
        event,
        Event::Decided { .. }
            | Event::ApprovalGiven { .. }
            | Event::ToolStarted { .. }
            | Event::ToolFinished { .. }
            | Event::TerminalInput { .. }
    )
}

impl TrackedSession {
    /// Records the beginning of a turn. Returns true if the turn retries the last prompt.
    fn begins_retry(&mut self, prompt: &str, origin: Origin, by: Option<&str>) -> bool {
        if origin != Origin::Model {
            return false;
        }
        let sent = hash(format!("{}\0{prompt}", by.unwrap_or_default()).as_bytes());
        let is_retry = self.is_cleared && self.last_prompt.as_ref() == Some(&sent);
        self.last_prompt = Some(sent);
        is_retry
    }

    /// Processes an event and returns its line, if any.
    fn line(&mut self, redaction: &CommandRedactor, logged: &Logged) -> Option<AuditEntry> {
        let entry = |kind| AuditEntry::new(kind, logged.at);
        match &logged.event {
            Event::SessionOpened { spec, .. } => {
                self.place = format!("{}:{}", spec.host, spec.root);
                None
            }
            Event::Configured { change: ConfigChange::ClientTools(lent), .. } => {
                let tools: Vec<_> = lent.tools.iter().map(|tool| tool.name.clone()).collect();
                self.lent = (!tools.is_empty()).then(|| (tools, format!("client:{}", lent.root)));
                None
            }
            Event::Replied { reply, .. } => {
                self.calls
                    .extend(reply.calls.iter().map(|call| (call.id.clone(), known_call(redaction, call))));
                None
            }
            Event::ApprovalAsked { call, .. } => {
                self.calls.entry(call.id.clone()).or_insert_with(|| known_call(redaction, call));
                None
            }
            Event::ApprovalGiven { call, by, needed, .. } => {
                Some(self.given(entry(Kind::Decided), call, by, *needed))
            }
            Event::Decided { call, decision, by } => {
                Some(self.decided(entry(Kind::Decided), call, decision, by))
            }
            Event::ToolStarted { call, origin } => {
                Some(self.started(entry(Kind::Started), known_call(redaction, call), &call.id, *origin))
            }
            Event::ToolFinished { call, outcome } => {
                Some(self.finished(entry(Kind::Finished), call, outcome))
            }
            Event::TerminalInput { by, typed } => Some(self.typed(entry(Kind::Typed), by, typed)),
            Event::TurnEnded { .. } => {
                self.calls.clear();
                None
            }
            Event::Configured { .. }
            | Event::PromptQueued { .. }
            | Event::PromptWithdrawn { .. }
            | Event::TurnStarted { .. }
            | Event::StepStarted { .. }
            | Event::ModelFailed { .. }
            | Event::CancelAsked { .. }
            | Event::Paused { .. }
            | Event::Resumed
            | Event::Compacted { .. }
            | Event::ContextCompacted { .. }
            | Event::InstructionsLoaded { .. }
            | Event::PromptExpanded { .. }
            | Event::TodoChanged { .. }
            | Event::JobStarted { .. }
            | Event::JobFinished { .. }
            | Event::GuardArmed { .. }
            | Event::GuardEnded { .. }
            | Event::ApprovalPreviewed { .. }
            | Event::Undone { .. }
            | Event::HistoryCleared => None,
        }
    }

    /// Records a user's consent to a call that needs further ones, and returns the line for it.
    fn given(&mut self, entry: AuditEntry, call: &CallId, by: &str, needed: u32) -> AuditEntry {
        let known = self.calls.entry(call.clone()).or_default();
        known.given.push(by.to_owned());
        let outcome = format!("allow_{}_of_{needed}", known.given.len());
        self.about(AuditEntry { who: Some(by.to_owned()), outcome: Some(outcome), ..entry }, call)
    }

    fn decided(&mut self, entry: AuditEntry, call: &CallId, decision: &Decision, by: &str) -> AuditEntry {
        let outcome = match decision {
            Decision::Allow { .. } => "allow",
            Decision::AllowSession { .. } => "allow_session",
            Decision::Reject { .. } => "reject",
        };
        let known = self.calls.entry(call.clone()).or_default();
        let everyone = known.given.iter().map(String::as_str).chain([by]).collect::<Vec<_>>().join(", ");
        known.allowed_by = (outcome != "reject").then_some(everyone);
        // An edited command is in the line of the call's start.
        self.about(AuditEntry { who: Some(by.to_owned()), outcome: Some(outcome.to_owned()), ..entry }, call)
    }

    fn started(
        &mut self,
        entry: AuditEntry,
        known: TrackedCall,
        call: &CallId,
        origin: Origin,
    ) -> AuditEntry {
        let before = self.calls.insert(call.clone(), known);
        let nobody_asked = match origin {
            Origin::User => String::new(), // filled in by `AuditTracker::entry`
            Origin::Model | Origin::Routine | Origin::Plan | Origin::McpClient => POLICY.to_owned(),
        };
        let allowed_by = before.and_then(|known| known.allowed_by);
        self.about(AuditEntry { who: Some(allowed_by.unwrap_or(nobody_asked)), ..entry }, call)
    }

    fn finished(&mut self, entry: AuditEntry, call: &CallId, outcome: &Outcome) -> AuditEntry {
        let line = AuditEntry {
            outcome: Some(outcome.status.as_str().to_owned()),
            exit_code: outcome.exit_code,
            duration_ms: Some(outcome.duration_ms),
            ..entry
        };
        let line = self.about(line, call);
        self.calls.remove(call);
        line
    }

    fn typed(&self, entry: AuditEntry, by: &str, typed: &TypedInput) -> AuditEntry {
        let (what, arguments) = match typed {
            TypedInput::Activity { .. } => ("keys", None),
            TypedInput::Keys { text } => ("keys", Some(hash(text.as_bytes()))),
            TypedInput::Answer { text, .. } => ("an answer", Some(hash(text.as_bytes()))),
            TypedInput::Secret { .. } => ("a secret", None),
        };
        let place = Some(self.place.clone());
        AuditEntry { who: Some(by.to_owned()), place, what: Some(what.to_owned()), arguments, ..entry }
    }

    fn about(&self, mut entry: AuditEntry, call: &CallId) -> AuditEntry {
        entry.call = Some(call.as_str().to_owned());
        entry.place = Some(self.place.clone());
        if let Some(known) = self.calls.get(call).filter(|known| !known.tool.is_empty()) {
            if let Some((tools, place)) = &self.lent
                && tools.contains(&known.tool)
            {
                entry.place = Some(place.clone());
            }
            entry.tool = Some(known.tool.clone());
            entry.what.clone_from(&known.what);
            entry.arguments = Some(known.arguments.clone());
        }
        entry
    }
}

fn known_call(redaction: &CommandRedactor, call: &ToolCall) -> TrackedCall {
    // Other arguments may be file contents, so only their hash is logged.
    let what = call.text_argument("command").or_else(|| call.text_argument("path"));
    let arguments = match &call.arguments {
        Arguments::Object(map) => serde_json::to_vec(map).expect("a JSON object can be serialized"),
        Arguments::Invalid(text) => text.clone().into_bytes(),
    };
    TrackedCall {
        tool: call.name.clone(),
        what: what.map(|what| redaction.command(what)),
        arguments: hash(&arguments),
        allowed_by: None,
        given: Vec::new(),
    }
}

fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use sysop_core::id::TurnId;

    use super::*;

    /// A session and its log.
    struct World {
        tracker: AuditTracker,
        log: Vec<Logged>,
    }

    impl World {
        fn new() -> Self {
            Self { tracker: AuditTracker::new(CommandRedactor::default()), log: Vec::new() }
        }

        fn id() -> SessionId {
            SessionId::new("s1")
        }

        /// A time that advances with each event.
        fn now(&self) -> Timestamp {
            Timestamp(self.log.len() as i64)
        }

        fn asks(&mut self, name: &str, trace: &str) {
            self.requests(name, trace, false);
        }

        fn retries(&mut self, name: &str, trace: &str) {
            self.requests(name, trace, true);
        }

        fn requests(&mut self, name: &str, trace: &str, is_retry: bool) {
            let actor = Actor { name: name.to_owned(), trace: Some(trace.to_owned()) };
            self.tracker.attribute_to(&Self::id(), actor, is_retry, self.now());
        }

        /// The process restarts, and reads the log again.
        fn restart(&mut self) {
            self.tracker = AuditTracker::new(CommandRedactor::default());
            self.learn();
        }

        fn learn(&mut self) {
            self.tracker.forget(&Self::id());
            self.tracker.follow(&Self::id(), &self.log);
        }

        fn append(&mut self, event: Event) -> Option<AuditEntry> {
            let seq = Seq(self.log.len() as u64 + 1);
            let logged = Logged { seq, at: self.now(), event };
            self.log.push(logged.clone());
            self.tracker.entries(&Self::id(), &[Arc::new(logged)]).pop()
        }

        fn clear(&mut self) {
            self.append(Event::HistoryCleared);
        }

        /// Runs a turn, and returns the name and the trace of the caller in the line of its call.
        fn turn(&mut self, prompt: &str, by: Option<&str>) -> (Option<String>, Option<String>) {
            let (by, images) = (by.map(str::to_owned), Vec::new());
            let turn = TurnId(1);
            self.append(Event::TurnStarted {
                turn,
                prompt: prompt.to_owned(),
                origin: Origin::Model,
                images,
                by,
            });
            let call = ToolCall {
                id: CallId::new("c1"),
                name: "bash".to_owned(),
                wire_id: None,
                arguments: Arguments::Invalid(String::new()),
            };
            let line = self.append(Event::ToolStarted { call, origin: Origin::Model }).unwrap();
            let reason = sysop_core::event::StopReason::EndTurn;
            self.append(Event::TurnEnded { turn, reason, error: None, active_ms: 0 });
            (line.wished, line.trace)
        }
    }

    fn caller(name: &str, trace: &str) -> (Option<String>, Option<String>) {
        (Some(name.to_owned()), Some(trace.to_owned()))
    }

    #[test]
    fn a_retry_belongs_to_the_caller_who_asked_for_it() {
        let mut world = World::new();
        assert_eq!(world.turn("a", None), (None, None));
        world.retries("boss", "t1");
        world.asks("phone", "t2"); // its prompt comes later, and stays queued
        world.clear();
        assert_eq!(world.turn("a", None), caller("boss", "t1"), "a local user sent the prompt");
        assert_eq!(world.turn("c", Some("phone")), caller("phone", "t2"));
        assert_eq!(world.turn("b", None), (None, None), "the caller asked for one turn only");
    }

    #[test]
    fn a_retry_by_an_unknown_caller_belongs_to_nobody() {
        let mut world = World::new();
        world.asks("laptop", "t1");
        assert_eq!(world.turn("a", Some("laptop")), caller("laptop", "t1"));
        world.clear(); // a retry that another node got
        assert_eq!(world.turn("a", Some("laptop")), (None, None));
        world.restart();
        world.clear();
        assert_eq!(world.turn("a", Some("laptop")), (None, None));
    }

    #[test]
    fn a_request_that_never_begins_does_not_get_a_later_retry() {
        let mut world = World::new();
        world.retries("boss", "t1"); // there is no prompt yet
        world.turn("a", Some("laptop"));
        world.clear();
        assert_eq!(world.turn("a", Some("laptop")), (None, None), "a retry that another node got");
        world.retries("boss", "t2");
        world.tracker.forget_request(&World::id(), "boss", true);
        world.asks("laptop", "t3");
        world.append(Event::PromptWithdrawn { text: "b".to_owned(), by: Some("laptop".to_owned()) });
        world.clear();
        assert_eq!(world.turn("a", Some("laptop")), (None, None));
    }

    #[test]
    fn a_retry_behind_the_prompt_that_it_repeats_belongs_to_the_caller_who_asked_for_it() {
        let mut world = World::new();
        world.turn("a", Some("laptop"));
        world.asks("phone", "t1");
        world.retries("boss", "t2");
        assert_eq!(world.turn("b", Some("phone")), caller("phone", "t1"));
        world.clear();
        assert_eq!(world.turn("b", Some("phone")), caller("boss", "t2"));
    }

    #[test]
    fn a_refused_request_does_not_replace_the_earlier_one_of_its_caller() {
        let mut world = World::new();
        world.asks("laptop", "t1");
        world.asks("laptop", "t2");
        world.tracker.forget_request(&World::id(), "laptop", false);
        assert_eq!(world.turn("a", Some("laptop")), caller("laptop", "t1"));
        world.retries("boss", "t3");
        world.retries("boss", "t4");
        world.tracker.forget_request(&World::id(), "boss", true);
        world.clear();
        assert_eq!(world.turn("a", Some("laptop")), caller("boss", "t3"));
    }

    #[test]
    fn turns_of_the_past_do_not_take_the_caller_of_a_retry() {
        let mut world = World::new();
        world.turn("a", Some("laptop"));
        world.clear();
        world.turn("a", Some("laptop"));
        world.restart();
        world.retries("laptop", "t2");
        world.learn();
        world.clear();
        assert_eq!(world.turn("a", Some("laptop")), caller("laptop", "t2"));
    }

    #[test]
    fn a_turn_after_a_new_chat_belongs_to_its_sender() {
        let mut world = World::new();
        world.turn("a", Some("laptop"));
        world.clear();
        world.asks("laptop", "t1");
        world.asks("phone", "t2");
        assert_eq!(world.turn("b", Some("laptop")), caller("laptop", "t1"));
        assert_eq!(
            world.turn("c", Some("phone")),
            caller("phone", "t2"),
            "two prompts wait, each with a trace"
        );
    }

    #[test]
    fn the_same_prompt_in_a_new_chat_belongs_to_its_sender() {
        let mut world = World::new();
        world.asks("laptop", "t1");
        world.turn("a", Some("laptop"));
        world.clear();
        world.asks("laptop", "t2");
        world.asks("phone", "t3");
        assert_eq!(world.turn("a", Some("laptop")), caller("laptop", "t2"));
    }
}
