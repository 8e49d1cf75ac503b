//! Tracing spans for turns, model calls and tool calls, derived from events once they are in the log.
//!
//! A span contains numbers and names: session, tool, durations, sizes, result. A span never contains prompts, commands,
//! file contents or replies: only the fields below are read from events.

mod otlp;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use sysop_core::event::{Event, Logged, StopReason};
use sysop_core::id::{CallId, SessionId, StepId, Timestamp, TurnId};
use sysop_core::message::Usage;
use sysop_core::outcome::{Outcome, Status};
use tokio::sync::mpsc;

pub use self::otlp::{ServiceInfo, export_request};
use crate::trace::TraceParent;

/// Maximum number of sessions with open spans; further sessions get no spans.
const SESSIONS_MAX: usize = 16_384;
/// Maximum number of spans waiting for export; further ones are dropped and counted.
const WAITING_MAX: usize = 8_192;
/// Maximum length of a tool name, in characters; clients choose the names of their tools.
const NAME_CHARS_MAX: usize = 64;

#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    trace: String,
    id: String,
    parent: Option<String>,
    name: String,
    kind: Kind,
    began: Timestamp,
    ended: Timestamp,
    attributes: Vec<(&'static str, Value)>,
    failed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Internal,
    Client,
}

#[derive(Debug, Clone, PartialEq)]
enum Value {
    Text(String),
    Number(i64),
    Flag(bool),
}

/// Builds spans from events. See the module documentation.
#[derive(Debug)]
pub struct SpanRecorder {
    sessions: Mutex<HashMap<SessionId, SessionTrace>>,
    out: mpsc::Sender<Span>,
    left_out: AtomicU64,
}

#[derive(Debug, Default)]
struct SessionTrace {
    /// Trace context of the last message that had one. The turn's span becomes a child of the span that it names.
    trace_parent: Option<TraceParent>,
    turn: Option<OpenTurn>,
}

#[derive(Debug)]
struct OpenTurn {
    turn: TurnId,
    trace: String,
    parent: Option<String>,
    open: OpenSpan,
    step: Option<(StepId, OpenSpan)>,
    tools: HashMap<CallId, (String, OpenSpan)>,
}

#[derive(Debug)]
struct OpenSpan {
    id: String,
    began: Timestamp,
}

impl OpenSpan {
    fn at(began: Timestamp) -> Self {
        Self { id: span_id(), began }
    }
}

fn span_id() -> String {
    uuid::Uuid::new_v4().simple().to_string()[..16].to_owned()
}

impl SpanRecorder {
    /// Creates a recorder and the channel of its finished spans.
    pub fn new() -> (Arc<Self>, mpsc::Receiver<Span>) {
        let (out, spans) = mpsc::channel(WAITING_MAX);
        (Arc::new(Self { sessions: Mutex::default(), out, left_out: AtomicU64::new(0) }), spans)
    }

    /// Returns the number of dropped spans since the last call.
    pub fn left_out(&self) -> u64 {
        self.left_out.swap(0, Ordering::Relaxed)
    }

    /// Assigns the session's next turn to a trace.
    pub(crate) fn attribute_to(&self, id: &SessionId, trace: TraceParent) {
        let mut sessions = self.sessions.lock();
        if let Some(traced) = session_trace(&mut sessions, id) {
            traced.trace_parent = Some(trace);
        }
    }

    pub(crate) fn logged(&self, id: &SessionId, events: &[Arc<Logged>]) {
        let mut sessions = self.sessions.lock();
        for logged in events {
            let begins = matches!(logged.event, Event::TurnStarted { .. });
            let traced = if begins { session_trace(&mut sessions, id) } else { sessions.get_mut(id) };
            let Some(traced) = traced else { continue };
            for span in traced.take(id, logged) {
                if self.out.try_send(span).is_err() {
                    self.left_out.fetch_add(1, Ordering::Relaxed);
                }
            }
            // A trace named during this turn belongs to the next one, unless the turn was canceled.
            if let Event::TurnEnded { reason, .. } = &logged.event
                && (traced.trace_parent.is_none() || *reason == StopReason::Cancelled)
            {
                sessions.remove(id);
            }
        }
    }
}

/// Returns the trace state of a session, or `None` if too many sessions are traced.
fn session_trace<'a>(
    sessions: &'a mut HashMap<SessionId, SessionTrace>,
    id: &SessionId,
) -> Option<&'a mut SessionTrace> {
    if sessions.len() >= SESSIONS_MAX && !sessions.contains_key(id) {
        sessions.retain(|_, traced| traced.turn.is_some()); // traces whose turn never started
        if sessions.len() >= SESSIONS_MAX {
            return None;
        }
    }
    Some(sessions.entry(id.clone()).or_default())
}

impl SessionTrace {
    /// Returns the spans that end with this event.
    fn take(&mut self, id: &SessionId, logged: &Logged) -> Vec<Span> {
        let at = logged.at;
        match (&logged.event, &mut self.turn) {
            (Event::TurnStarted { turn, .. }, _) => {
                let trace_parent = self.trace_parent.take();
                let wanted = trace_parent.as_ref().is_none_or(TraceParent::is_sampled);
                self.turn = wanted.then(|| OpenTurn::begin(*turn, trace_parent, at));
                Vec::new()
            }
            (Event::StepStarted { step }, Some(turn)) => {
                turn.step = Some((*step, OpenSpan::at(at)));
                Vec::new()
            }
            (Event::Replied { step, reply }, Some(turn)) => turn.model_span(id, *step, at, Some(reply.usage)),
            (Event::ModelFailed { step, .. }, Some(turn)) => turn.model_span(id, *step, at, None),
            (Event::ToolStarted { call, .. }, Some(turn)) => {
                let name = call.name.chars().take(NAME_CHARS_MAX).collect();
                turn.tools.insert(call.id.clone(), (name, OpenSpan::at(at)));
                Vec::new()
            }
            (Event::ToolFinished { call, outcome }, Some(turn)) => turn.tool_span(id, call, at, outcome),
            (Event::TurnEnded { reason, .. }, turn) => {
                turn.take().map(|turn| turn.end(id, at, *reason)).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }
}

impl OpenTurn {
    fn begin(turn: TurnId, trace_parent: Option<TraceParent>, at: Timestamp) -> Self {
        let own = trace_parent.is_none();
        let trace_parent = trace_parent.unwrap_or_else(TraceParent::new);
        // In a trace that started here, the turn is the root span.
        let began_here = own || trace_parent.is_own();
        let id = if began_here { trace_parent.span_id().to_owned() } else { span_id() };
        Self {
            turn,
            trace: trace_parent.trace_id().to_owned(),
            parent: (!began_here).then(|| trace_parent.span_id().to_owned()),
            open: OpenSpan { id, began: at },
            step: None,
            tools: HashMap::new(),
        }
    }

    fn span(&self, id: &SessionId, open: OpenSpan, name: String, at: Timestamp) -> Span {
        Span {
            trace: self.trace.clone(),
            id: open.id,
            parent: Some(self.open.id.clone()),
            name,
            kind: Kind::Client,
            began: open.began,
            ended: at,
            attributes: vec![
                ("sysop.session.id", Value::Text(id.as_str().to_owned())),
                ("sysop.duration_ms", Value::Number(at.0.saturating_sub(open.began.0))),
            ],
            failed: false,
        }
    }

    fn model_span(&mut self, id: &SessionId, step: StepId, at: Timestamp, usage: Option<Usage>) -> Vec<Span> {
        let Some((_, open)) = self.step.take_if(|(asked, _)| *asked == step) else { return Vec::new() };
        let mut span = self.span(id, open, "chat".to_owned(), at);
        span.attributes.push(("gen_ai.operation.name", Value::Text("chat".to_owned())));
        span.attributes.push(("sysop.step", Value::Number(i64::from(step.step))));
        if let Some(usage) = usage {
            let count = |count: u64| Value::Number(i64::try_from(count).unwrap_or(i64::MAX));
            span.attributes.push(("gen_ai.usage.input_tokens", count(usage.input_tokens)));
            span.attributes.push(("gen_ai.usage.output_tokens", count(usage.output_tokens)));
        }
        span.failed = usage.is_none();
        vec![span]
    }

    fn tool_span(&mut self, id: &SessionId, call: &CallId, at: Timestamp, outcome: &Outcome) -> Vec<Span> {
        let Some((tool, open)) = self.tools.remove(call) else { return Vec::new() };
        let mut span = self.span(id, open, format!("execute_tool {tool}"), at);
        span.kind = Kind::Internal;
        let bytes = i64::try_from(outcome.output.len()).unwrap_or(i64::MAX);
        span.attributes.extend([
            ("gen_ai.operation.name", Value::Text("execute_tool".to_owned())),
            ("gen_ai.tool.name", Value::Text(tool)),
            ("sysop.tool.status", Value::Text(outcome.status.as_str().to_owned())),
            ("sysop.tool.output_bytes", Value::Number(bytes)),
            ("sysop.tool.truncated", Value::Flag(outcome.truncated)),
        ]);
        let code = outcome.exit_code.map(|code| ("sysop.tool.exit_code", Value::Number(code.into())));
        span.attributes.extend(code);
        span.failed = outcome.status != Status::Ok;
        vec![span]
    }

    fn end(mut self, id: &SessionId, at: Timestamp, reason: StopReason) -> Span {
        let open = OpenSpan { id: self.open.id.clone(), began: self.open.began };
        let parent = self.parent.take();
        let mut span = self.span(id, open, "turn".to_owned(), at);
        span.parent = parent;
        span.kind = Kind::Internal;
        span.attributes.push(("sysop.turn", Value::Number(i64::from(self.turn.0))));
        span.attributes.push(("sysop.stop_reason", Value::Text(reason.as_str().to_owned())));
        span.failed = reason == StopReason::Failed;
        span
    }
}
