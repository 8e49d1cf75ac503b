//! Converts a session's updates to the `session/update` messages of the protocol.
//!
//! No decisions are made here and nothing is sent: updates come in, messages come out. The same code handles
//! a live session and a replay of its log.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use sysop_core::catalog::TASK_LIST_TOOL;
use sysop_core::event::{ConfigChange, Delta, Event, PauseReason, Update};
use sysop_core::id::{CallId, StepId};
use sysop_core::message::{Reply, ToolCall};
use sysop_core::outcome::Outcome;
use sysop_core::text::{Neutralizer, neutralize, neutralize_line, neutralize_prose};
use sysop_core::todo::{TodoItem, TodoState};
use sysop_core::transcript::{ItemBody, ItemId, Transcript, event_notice};

use crate::permission;
use crate::tool_view::{self, Place};

const TITLE_CHARS_MAX: usize = 80;

/// Folds the updates of one session into messages.
#[derive(Default)]
pub(crate) struct UpdateEncoder {
    transcript: Transcript,
    announced: HashSet<CallId>,
    answer: TextStream,
    thought: TextStream,
    /// Number of messages that are not text from the model.
    notices: u64,
    has_title: bool,
    /// Call with output that has not been sent yet.
    unsent_output: Option<CallId>,
}

/// Text of one step that arrives in chunks.
#[derive(Default)]
struct TextStream {
    step: Option<StepId>,
    /// Text so far, verbatim.
    text: String,
    neutralizer: Neutralizer,
    /// Number of times that the text was restarted.
    restarts: u32,
}

impl TextStream {
    fn of(step: StepId) -> Self {
        Self { step: Some(step), neutralizer: Neutralizer::for_prose(), ..Self::default() }
    }

    /// Adds the next chunk; returns the text to send.
    fn push(&mut self, step: StepId, chunk: &str) -> String {
        if self.step != Some(step) {
            *self = Self::of(step);
        }
        self.text.push_str(chunk);
        self.neutralizer.push(chunk)
    }

    /// Takes the complete text of a step; returns the part to send.
    fn complete(&mut self, step: StepId, whole: &str) -> String {
        if self.step == Some(step)
            && let Some(rest) = whole.strip_prefix(self.text.as_str())
        {
            let mut rest = self.neutralizer.push(rest);
            rest.push_str(&self.neutralizer.finish());
            return rest;
        }
        // Text that has been sent cannot be withdrawn, so the text starts over.
        self.restart(step);
        neutralize_prose(whole).into_owned()
    }

    fn restart(&mut self, step: StepId) {
        let is_same = self.step == Some(step);
        let restarts = if is_same && !self.text.is_empty() { self.restarts + 1 } else { self.restarts };
        *self = Self { restarts: if is_same { restarts } else { 0 }, ..Self::of(step) };
    }

    fn message_id(&self, kind: &str) -> String {
        let step = self.step.unwrap_or_default();
        match self.restarts {
            0 => format!("{kind}-{step}"),
            restarts => format!("{kind}-{step}-{restarts}"),
        }
    }
}

impl UpdateEncoder {
    pub(crate) fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    pub(crate) fn place(&self) -> Place {
        self.transcript.session_info().map(Place::of).unwrap_or_default()
    }

    /// Applies an update. Prompts are included only if `replay` is true: editors show live ones themselves.
    pub(crate) fn apply(&mut self, update: &Update, replay: bool) -> Vec<Value> {
        self.transcript.apply(update);
        match update {
            Update::Delta(delta) => self.delta(delta),
            Update::Logged(logged) => self.event(&logged.event, replay),
        }
    }

    /// Returns the running call's output so far, if part of it has not been sent yet.
    pub(crate) fn take_output(&mut self) -> Option<Value> {
        let call = self.unsent_output.take()?;
        let item = self.transcript.item(&ItemId::ToolOutput(call.clone()))?;
        let ItemBody::ToolOutput(output) = &item.body else { return None };
        if output.outcome.is_some() || output.tail.is_empty() {
            return None;
        }
        let content = [tool_view::text_content(&tool_view::fence("console", &output.tail))];
        Some(json!({ "sessionUpdate": "tool_call_update", "toolCallId": call.as_str(), "content": content }))
    }

    pub(crate) fn has_unsent_output(&self) -> bool {
        self.unsent_output.is_some()
    }

    /// Returns a message from sysop itself, which is not part of the model's text.
    pub(crate) fn message(&mut self, text: &str) -> Value {
        self.notices += 1;
        chunk("agent_message_chunk", &format!("sysop-{}", self.notices), &neutralize(text))
    }

    /// Returns a note from sysop itself, which editors show less prominently.
    pub(crate) fn note(&mut self, text: &str) -> Value {
        self.notices += 1;
        chunk("agent_thought_chunk", &format!("note-{}", self.notices), &neutralize(text))
    }

    fn delta(&mut self, delta: &Delta) -> Vec<Value> {
        match delta {
            Delta::Text { step, text } => {
                let text = self.answer.push(*step, text);
                chunks("agent_message_chunk", &self.answer.message_id("answer"), &text)
            }
            Delta::Reasoning { step, text } => {
                let text = self.thought.push(*step, text);
                chunks("agent_thought_chunk", &self.thought.message_id("thought"), &text)
            }
            Delta::Restarted { step } => {
                self.answer.restart(*step);
                self.thought.restart(*step);
                Vec::new()
            }
            Delta::Output { call, .. } => {
                self.unsent_output = Some(call.clone());
                Vec::new()
            }
            Delta::Notice { text } => vec![self.note(text)],
            Delta::Progress { .. }
            | Delta::Question { .. }
            | Delta::QuestionClosed { .. }
            | Delta::Control { .. } => Vec::new(),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "other events are shown by their notices")]
    fn event(&mut self, event: &Event, replay: bool) -> Vec<Value> {
        match event {
            Event::TurnStarted { turn, prompt, .. } => self.turn_started(&turn.to_string(), prompt, replay),
            Event::Replied { step, reply } => self.replied(*step, reply),
            Event::ApprovalAsked { call, command, .. } => self.announce(call, command, "pending"),
            Event::ApprovalPreviewed { call, .. } => self.previewed(call),
            Event::ToolStarted { call, .. } => self.tool_started(call),
            Event::ToolFinished { call, outcome } => self.tool_finished(call, outcome),
            Event::TodoChanged { items } => vec![plan(items)],
            Event::Paused { reason, detail, .. } => {
                let text = paused(*reason, detail.as_deref(), self.transcript.interruption());
                vec![self.message(&text)]
            }
            Event::Configured { change: ConfigChange::Approve(mode), .. } => {
                let update =
                    json!({ "sessionUpdate": "current_mode_update", "currentModeId": mode.as_str() });
                let notice = event_notice(event).map(|notice| self.note(&notice.text));
                [update].into_iter().chain(notice).collect()
            }
            _ => {
                let notice = event_notice(event);
                notice.map(|notice| self.note(&notice.text)).into_iter().collect()
            }
        }
    }

    fn turn_started(&mut self, turn: &str, prompt: &str, replay: bool) -> Vec<Value> {
        let mut out = Vec::new();
        if replay && !prompt.is_empty() {
            out.extend(chunks("user_message_chunk", &format!("prompt-{turn}"), &neutralize(prompt)));
        }
        if !self.has_title && !prompt.trim().is_empty() {
            self.has_title = true;
            let first = prompt.trim().lines().next().unwrap_or_default();
            let title: String = neutralize_line(first).chars().take(TITLE_CHARS_MAX).collect();
            out.push(json!({ "sessionUpdate": "session_info_update", "title": title }));
        }
        out
    }

    fn replied(&mut self, step: StepId, reply: &Reply) -> Vec<Value> {
        let thought = self.thought.complete(step, &reply.reasoning);
        let mut out = chunks("agent_thought_chunk", &self.thought.message_id("thought"), &thought);
        let text = self.answer.complete(step, &reply.text);
        out.extend(chunks("agent_message_chunk", &self.answer.message_id("answer"), &text));
        if let Some(size) = reply.context_window {
            let used = reply.usage.input_tokens + reply.usage.output_tokens;
            out.push(json!({ "sessionUpdate": "usage_update", "used": used, "size": size }));
        }
        out
    }

    /// Returns the first message about a call; empty if the editor already knows the call.
    fn announce(&mut self, call: &ToolCall, command: &str, status: &str) -> Vec<Value> {
        if !self.announced.insert(call.id.clone()) {
            return Vec::new();
        }
        let place = self.place();
        let mut fields = tool_view::fields(call, command, &place);
        fields.insert("sessionUpdate".into(), json!("tool_call"));
        fields.insert("status".into(), json!(status));
        fields.insert("content".into(), tool_view::diff(call, &place).into_iter().collect());
        vec![Value::Object(fields)]
    }

    /// Returns the content of a waiting call again, now with the preview that has arrived.
    fn previewed(&self, call: &CallId) -> Vec<Value> {
        let Some(plan) = self.transcript.waiting().filter(|plan| plan.call.id == *call) else {
            return Vec::new();
        };
        let mut fields = Map::new();
        fields.insert("toolCallId".into(), json!(call.as_str()));
        fields.insert("content".into(), permission::content(plan, &self.place()));
        vec![call_update(fields)]
    }

    fn tool_started(&mut self, call: &ToolCall) -> Vec<Value> {
        // The list is shown as a separate plan, and the summary as an answer.
        if call.name == TASK_LIST_TOOL || self.is_completing(&call.id) {
            return Vec::new();
        }
        if !self.announced.contains(&call.id) {
            return self.announce(call, &tool_view::command_of(call), "in_progress");
        }
        // The command may have been edited.
        let mut fields = tool_view::fields(call, &tool_view::command_of(call), &self.place());
        fields.insert("status".into(), json!("in_progress"));
        vec![call_update(fields)]
    }

    fn tool_finished(&mut self, id: &CallId, outcome: &Outcome) -> Vec<Value> {
        if self.unsent_output.as_ref() == Some(id) {
            self.unsent_output = None;
        }
        if let Some(ItemBody::Answer(summary)) =
            self.transcript.item(&ItemId::Summary(id.clone())).map(|item| &item.body)
        {
            return chunks("agent_message_chunk", &format!("summary-{id}"), &neutralize_prose(&summary.text));
        }
        let plan = self.transcript.plan(id).map(|plan| (plan.call.clone(), plan.command.clone()));
        let mut out = Vec::new();
        if let Some((call, command)) = &plan {
            if call.name == TASK_LIST_TOOL && !self.announced.contains(id) {
                return out;
            }
            out.extend(self.announce(call, command, "pending"));
        }
        if !self.announced.contains(id) {
            return out;
        }
        let call = plan.map(|(call, _)| call);
        let mut fields = tool_view::result(call.as_ref(), outcome, &self.place());
        fields.insert("toolCallId".into(), json!(id.as_str()));
        out.push(call_update(fields));
        out
    }

    /// Returns true if the call ends the turn with a summary. Such a call has no proposal.
    fn is_completing(&self, call: &CallId) -> bool {
        self.transcript.item(&ItemId::Proposal(call.clone())).is_none()
    }
}

fn call_update(mut fields: Map<String, Value>) -> Value {
    fields.insert("sessionUpdate".into(), json!("tool_call_update"));
    Value::Object(fields)
}

fn chunk(kind: &str, message: &str, text: &str) -> Value {
    json!({ "sessionUpdate": kind, "messageId": message, "content": { "type": "text", "text": text } })
}

fn chunks(kind: &str, message: &str, text: &str) -> Vec<Value> {
    if text.is_empty() { Vec::new() } else { vec![chunk(kind, message, text)] }
}

fn plan(items: &[TodoItem]) -> Value {
    let entries: Vec<Value> = items
        .iter()
        .map(|item| {
            let status = match item.state {
                TodoState::Pending => "pending",
                TodoState::Active => "in_progress",
                TodoState::Done => "completed",
            };
            json!({ "content": neutralize_line(&item.text), "priority": "medium", "status": status })
        })
        .collect();
    json!({ "sessionUpdate": "plan", "entries": entries })
}

/// Returns the message about a paused turn. `interruption` is the transcript's sentence about an interrupted one.
fn paused(reason: PauseReason, detail: Option<&str>, interruption: Option<&str>) -> String {
    let why = match (reason, detail) {
        (PauseReason::Budget, Some(detail)) => detail.to_owned(),
        (PauseReason::Budget, None) => "the budget is spent".to_owned(),
        (PauseReason::Loop, _) => "the model repeated the same call 3 times".to_owned(),
        (PauseReason::Interrupted, _) => interruption.unwrap_or("sysop exited during this turn").to_owned(),
        (PauseReason::Asked, _) => "requested".to_owned(),
    };
    format!("Paused: {why}. Send /continue to resume, or a new prompt to cancel this turn.")
}

#[cfg(test)]
mod tests;
