//! Compaction: keeps the prompt within the model's context window.
//!
//! Compaction has two stages, the cheap one first. Old outputs are omitted in one batch, so that the prefix that a
//! server has cached changes rarely. If that frees too little, the older messages are replaced with the ledger and, for
//! larger windows, a summary that the model writes. The request for a summary is not part of the state: it has no
//! effect on the world, so after a crash it is made again.

use super::state::Phase;
use super::{Activity, Session};
use crate::compaction::{Compaction, CompactionReason};
use crate::event::{Effect, Event, Output};
use crate::id::CallId;
use crate::image::{self, RequestImages};
use crate::job::RunningJobs;
use crate::ledger::{VisibleTail, cut};
use crate::message::{
    FinishReason, HistoryMessage, Message, ModelFailure, ModelRef, ModelRequest, Reply, ToolResult, Usage,
};
use crate::mode::{ANSWER_TOKENS, FILE_TOKENS, Mode, SamplingDefaults};
use crate::model_limits::{
    CONTEXT_WINDOW_DEFAULT, CONTEXT_WINDOW_MIN, LEDGER_ONLY_WINDOW_MAX, ModelLimits, compaction_threshold,
};
use crate::model_table::{self, ListedModel};
use crate::todo::{self, TodoItem};
use crate::token_estimate;

mod summary;

/// Maximum tokens of the newest outputs that stay when older outputs are omitted.
const KEPT_OUTPUT_TOKENS_MAX: u64 = 40_000;
/// Maximum bytes of the topic that a summary must keep.
const FOCUS_BYTES_MAX: usize = 1_000;
/// Minimum tokens allowed for a reply, even if the context window is nearly full.
const REPLY_TOKENS_MIN: u32 = 1_024;
const LEDGER_TOKENS_MAX: u64 = 4_000;
/// Minimum number of steps between two compactions of a turn that both get a summary. If the context fills faster than
/// that, the summaries would cost more than the work.
const SUMMARY_STEPS_MIN: u32 = 3;

/// A compaction that is waiting for the model's summary.
#[derive(Debug, Clone)]
pub(super) struct PendingSummary {
    attempt: u32,
    plan: Plan,
    reason: CompactionReason,
    focus: Option<String>,
    before: u64,
}

/// Messages and outputs that a compaction removes.
#[derive(Debug, Clone, Default, PartialEq)]
struct Plan {
    /// Number of newest messages that stay.
    keep: usize,
    /// Number of messages that the ledger replaces; 0 if only outputs are omitted.
    replaced: usize,
    elided: Vec<CallId>,
    /// True if images of older messages are omitted.
    images_elided: bool,
    /// Estimated prompt tokens after the compaction, not including a summary.
    after: u64,
}

impl Session {
    /// Returns the context window of the session's model in tokens. It comes from the config, from the model's server,
    /// from the built-in table or from a default, in this order. It shrinks after a prompt was too long.
    pub fn context_window(&self) -> u32 {
        self.known_window().unwrap_or(CONTEXT_WINDOW_DEFAULT)
    }

    fn known_window(&self) -> Option<u32> {
        let state = &self.state;
        let of_model = |told: &Option<(ModelRef, u32)>| {
            told.as_ref().filter(|(model, _)| *model == state.spec.model).map(|(_, window)| *window)
        };
        let cap = of_model(&state.window_cap);
        let known = self.model_limits().context_window.or_else(|| of_model(&state.context_window));
        let known = known.or_else(|| self.listed().map(|model| model.context_window)).or(cap);
        known.map(|window| window.min(cap.unwrap_or(u32::MAX)).max(CONTEXT_WINDOW_MIN))
    }

    /// Returns the model's row in the built-in table, if any.
    pub(super) fn listed(&self) -> Option<&ListedModel> {
        self.listed.get_or_init(|| model_table::find(&self.state.spec.model)).as_ref()
    }

    /// Returns true if the session's model accepts images, false if it does not, and `None` if that is unknown. The
    /// answer comes from the config, from the model's server or from the built-in table, in this order.
    pub fn vision(&self) -> Option<bool> {
        let state = &self.state;
        let told = state.vision.as_ref().filter(|(model, _)| *model == state.spec.model);
        let known = self.model_limits().vision.or(told.map(|(_, vision)| *vision));
        known.or_else(|| self.listed().map(|model| model.vision))
    }

    /// Returns the sentence for the user if the current prompt has images that the model cannot see.
    pub(super) fn image_refusal(&self) -> Option<String> {
        let state = &self.state;
        let refused = !state.last_images.is_empty() && state.step.step == 0 && self.vision() == Some(false);
        refused.then(|| image::no_vision(&state.spec.model))
    }

    fn model_limits(&self) -> ModelLimits {
        let spec = &self.state.spec;
        spec.models.get(&spec.model.to_string()).copied().unwrap_or_default()
    }

    /// Returns the configured maximum tokens of a reply, if any.
    pub(super) fn max_output_tokens(&self) -> Option<u32> {
        self.state.spec.max_output_tokens.or(self.model_limits().max_output_tokens)
    }

    /// Returns the sampling defaults of the next step. The reply is limited to the tokens that the prompt leaves free,
    /// because servers reject a request whose prompt and reply limit together exceed the context window.
    pub(super) fn sampling_defaults(&self) -> SamplingDefaults {
        let defaults = SamplingDefaults::of(self.state.turn_mode, &self.state.spec.tools);
        let listed = self.listed().and_then(|model| model.max_output_tokens).unwrap_or(u32::MAX);
        let (room, reasoning_room) = match self.known_window() {
            None => (ANSWER_TOKENS, FILE_TOKENS), // possibly a small local model
            Some(window) => {
                let prompt = u32::try_from(self.prompt_tokens() * 9 / 8).unwrap_or(u32::MAX);
                let room = window.saturating_sub(prompt).max(REPLY_TOKENS_MIN);
                // A small model that keeps repeating itself is slow, too.
                let room = if window <= LEDGER_ONLY_WINDOW_MAX {
                    room.min((window / 4).max(REPLY_TOKENS_MIN))
                } else {
                    room
                };
                (room, room)
            }
        };
        let fits = |tokens: Option<u32>, room: u32| tokens.map(|tokens| tokens.min(listed).min(room));
        SamplingDefaults {
            output_tokens: fits(defaults.output_tokens, room),
            reasoning_tokens: fits(defaults.reasoning_tokens, reasoning_room),
            ..defaults
        }
    }

    /// Returns the estimated tokens of the next request: the server's count of the last request and reply, plus an
    /// estimate of the messages added since then.
    pub fn prompt_tokens(&self) -> u64 {
        let state = &self.state;
        let estimate = self.estimated_tokens();
        let Some((messages, counted)) = state.counted_tokens else { return estimate };
        let added: u64 = state.history.tokens().iter().skip(messages).sum();
        // Some servers leave out the part of the prompt that they had cached.
        (counted + added).max(estimate / 2)
    }

    /// Returns the tokens of the next request, estimated from its text alone.
    fn estimated_tokens(&self) -> u64 {
        self.fixed_tokens() + self.state.history.tokens().iter().sum::<u64>()
    }

    /// Returns the estimated tokens of the system prompt, the tools, the instructions and the summary.
    fn fixed_tokens(&self) -> u64 {
        let (tools, history) = (self.offered_tools(), &self.state.history);
        let preamble = [history.instructions(), history.summary()].into_iter().flatten();
        token_estimate::prose(tools.system())
            + tools.tokens()
            + preamble.map(token_estimate::prose).sum::<u64>()
    }

    /// Compacts the context if the next request would exceed the threshold, or if `self.compact_next` is set. Returns
    /// true if the session must wait for a summary.
    pub(super) fn compact_if_needed(&mut self, out: &mut Output) -> bool {
        let (reason, focus) = match self.compact_next.take() {
            Some((reason, focus)) => (reason, focus),
            None => (CompactionReason::Threshold, None),
        };
        self.compact(out, reason, focus)
    }

    fn compact(&mut self, out: &mut Output, reason: CompactionReason, focus: Option<String>) -> bool {
        let Some(plan) = self.plan_compaction(reason) else { return false };
        let before = self.prompt_tokens();
        if plan.replaced == 0 || !self.wants_summary(reason) {
            self.emit_compaction(out, plan, reason, focus, before, None);
            return false;
        }
        self.summaries = self.summaries.wrapping_add(1);
        let attempt = self.summaries;
        let request = self.summary_request(&plan, focus.as_deref());
        out.effects.push(Effect::Summarize { attempt, request: Box::new(request) });
        self.summary = Some(PendingSummary { attempt, plan, reason, focus, before });
        true
    }

    /// Returns true if a model's summary is worth its cost.
    fn wants_summary(&self, reason: CompactionReason) -> bool {
        let state = &self.state;
        let soon = state
            .compacted_at
            .is_some_and(|at| at.turn == state.turn && state.step.step < at.step + SUMMARY_STEPS_MIN);
        !state.spec.ledger_only
            && self.context_window() > LEDGER_ONLY_WINDOW_MAX
            && reason != CompactionReason::Overflow
            && !soon
    }

    /// Returns the compaction to make, or `None` if no compaction is needed or none would help.
    fn plan_compaction(&self, reason: CompactionReason) -> Option<Plan> {
        let state = &self.state;
        if state.spec.max_history_messages > 0 && reason == CompactionReason::Threshold {
            return None; // the limit on messages bounds the prompt
        }
        let window = u64::from(self.context_window());
        let limit = compaction_threshold(self.context_window(), self.max_output_tokens());
        let before = self.prompt_tokens();
        if reason == CompactionReason::Threshold && before <= limit {
            return None;
        }
        // The server's count and the estimate can differ by half for plain English.
        let estimate = self.estimated_tokens().max(1);
        let as_counted = |tokens: u64| tokens * before / estimate;
        let history = &state.history;
        let of_images = as_counted(history.omissible_image_tokens());
        let images_elided = of_images > 0;
        if images_elided && reason != CompactionReason::Asked && before - of_images.min(before) <= limit {
            let after = before - of_images;
            return Some(Plan { keep: history.len(), images_elided, after, ..Plan::default() });
        }
        let outputs = history.omissible((window / 8).min(KEPT_OUTPUT_TOKENS_MAX), is_protected);
        let saved = as_counted(outputs.iter().map(|(_, tokens)| tokens).sum());
        let elided: Vec<CallId> = outputs.into_iter().map(|(call, _)| call).collect();
        let after = before.saturating_sub(saved + of_images);
        if reason != CompactionReason::Asked && saved >= window / 5 && after <= limit * 6 / 10 {
            return Some(Plan { keep: history.len(), replaced: 0, elided, images_elided, after });
        }
        let tail = match reason {
            CompactionReason::Asked => (window / 4).min(before / 3),
            CompactionReason::Threshold | CompactionReason::Overflow => window / 4,
        };
        let keep = history.tail(tail);
        let from = history.len() - keep;
        let replaced = from - usize::from(history.prompt().is_some_and(|prompt| prompt < from));
        if replaced == 0 {
            let helps = saved > 0 || images_elided;
            return helps.then_some(Plan { keep: history.len(), replaced: 0, elided, images_elided, after });
        }
        let sizes = history.tokens();
        let prompt = history.prompt().filter(|prompt| *prompt < from).map_or(0, |prompt| sizes[prompt]);
        let replaced_summary = history.summary().map_or(0, token_estimate::prose);
        let fixed = self.fixed_tokens() - replaced_summary;
        let ledger = token_estimate::prose(&self.ledger_text(keep));
        let after = as_counted(fixed + ledger + prompt + sizes[from..].iter().sum::<u64>());
        let helps = after < before * 9 / 10 || reason == CompactionReason::Asked && after < before;
        let in_tail = |call: &CallId| history.messages().skip(from).any(|message| has_result(message, call));
        let elided = elided.into_iter().filter(in_tail).collect();
        helps.then_some(Plan { keep, replaced, elided, images_elided, after })
    }

    /// Returns the ledger as text, without the entries that the newest `keep` messages and the current prompt show.
    fn ledger_text(&self, keep: usize) -> String {
        let state = &self.state;
        let from = state.history.len() - keep;
        let mut shown = VisibleTail::default();
        for (index, message) in state.history.messages().enumerate() {
            match message {
                Message::User { .. } if index >= from || state.history.prompt() == Some(index) => {
                    shown.prompts += 1
                }
                Message::ToolResults { results } if index >= from => shown.commands += results.len(),
                Message::User { .. } | Message::Assistant { .. } | Message::ToolResults { .. } => {}
            }
        }
        let window = u64::from(self.context_window());
        let tokens = (window / 10).min(LEDGER_TOKENS_MAX);
        let spec = &state.spec;
        let host = if spec.host == "local" { "this machine" } else { &spec.host };
        state.ledger.text(&format!("{host}, in {}", spec.root), shown, tokens)
    }

    fn emit_compaction(
        &mut self,
        out: &mut Output,
        plan: Plan,
        reason: CompactionReason,
        focus: Option<String>,
        tokens_before: u64,
        reply: Option<&Reply>,
    ) {
        let ledger = if plan.replaced > 0 { self.ledger_text(plan.keep) } else { String::new() };
        let hosts = self.ledger_hosts();
        let summary = reply.and_then(|reply| summary::parse(&reply.text, &hosts));
        let compaction = Compaction {
            tokens_before,
            tokens_after: plan.after + summary.as_deref().map_or(0, token_estimate::prose),
            elided: plan.elided,
            images_elided: plan.images_elided,
            ledger,
            summary,
            focus,
            keep: plan.keep,
            replaced: plan.replaced,
            reason,
            usage: reply.map_or_else(Usage::default, |reply| reply.usage),
        };
        self.emit(out, Event::ContextCompacted { compaction });
    }

    fn ledger_hosts(&self) -> Vec<String> {
        self.state.ledger.hosts(&self.state.spec.host)
    }

    /// Returns the request for a summary of the messages that the plan removes. It is plain text without tools, so that
    /// every provider can answer it, and so that the model does not continue the conversation instead.
    fn summary_request(&self, plan: &Plan, focus: Option<&str>) -> ModelRequest {
        let state = &self.state;
        let window = u64::from(self.context_window());
        let from = state.history.len() - plan.keep;
        let older: Vec<&Message> = state.history.messages().take(from).collect();
        let bytes = token_estimate::tool_output_bytes(window / 2);
        let previous = state.compaction.as_ref().and_then(|compaction| compaction.summary.as_deref());
        let text = summary::request_text(&older, previous, focus, &self.ledger_hosts(), bytes);
        ModelRequest {
            model: state.spec.model.clone(),
            system: summary::PROMPT.into(),
            text_system: None,
            messages: vec![HistoryMessage::new(Message::user(text))],
            trimmed: false,
            images: RequestImages::default(),
            tools: Default::default(),
            known_tools: Default::default(),
            max_output_tokens: Some(summary::reply_tokens_max(window)),
            temperature: state.spec.temperature,
            mode: Mode::Chat,
            effort: None,
            calls_as_text: false,
            must_call: false,
            sampling_defaults: SamplingDefaults::of(Mode::Chat, &[]),
        }
    }

    /// Handles the answer to `Effect::Summarize`. If there is no usable summary, the ledger replaces the messages.
    pub(super) fn on_summarized(
        &mut self,
        out: &mut Output,
        attempt: u32,
        result: Result<Reply, ModelFailure>,
    ) {
        let Some(pending) = self.summary.take_if(|pending| pending.attempt == attempt) else { return };
        let PendingSummary { plan, reason, focus, before, .. } = pending;
        let reply = result.ok().filter(|reply| reply.finish != FinishReason::Refused);
        self.emit_compaction(out, plan, reason, focus, before, reply.as_ref());
    }

    /// Compacts at a user's request: at once if no turn runs, otherwise before the next step.
    pub(super) fn on_compact(&mut self, out: &mut Output, focus: Option<String>) {
        let focus = focus.as_deref().map(str::trim).filter(|focus| !focus.is_empty());
        let focus = focus.map(|focus| cut(focus, FOCUS_BYTES_MAX).to_owned());
        if self.activity() == Activity::Idle {
            self.compact(out, CompactionReason::Asked, focus);
        } else if self.summary.is_none() {
            self.compact_next = Some((CompactionReason::Asked, focus));
        }
    }

    /// Stops waiting for a summary. Returns true if a summary was pending.
    pub(super) fn cancel_summary(&mut self, out: &mut Output) -> bool {
        self.compact_next = None;
        let Some(pending) = self.summary.take() else { return false };
        out.effects.push(Effect::CancelSummary { attempt: pending.attempt });
        true
    }

    /// Plans a compaction after an overflow, before the next step. Returns false if none would help.
    pub(super) fn can_compact_after_overflow(&mut self) -> bool {
        let helps = self.state.spec.max_history_messages == 0
            && self.state.phase == Phase::BetweenSteps
            && self.plan_compaction(CompactionReason::Overflow).is_some();
        if helps {
            self.compact_next = Some((CompactionReason::Overflow, None));
        }
        helps
    }

    /// Returns the maximum bytes of one tool result: about 15% of the context window.
    pub(super) fn result_bytes_max(&self) -> usize {
        token_estimate::tool_output_bytes(u64::from(self.context_window()) * 15 / 100)
    }

    /// Returns one sentence of advice for a prompt that no compaction makes small enough. `None` if its fixed part
    /// takes less than half of the context window, because then something else in it is too long.
    pub(super) fn overflow_advice(&self) -> Option<String> {
        let offered = self.offered_tools();
        let (instructions, tools) = (token_estimate::prose(offered.system()), offered.tokens());
        let is_large = (instructions + tools) * 2 > u64::from(self.context_window());
        is_large.then(|| {
            format!(
                "the fixed part of the prompt (about {instructions} tokens of instructions and {tools} of tools) \
                 leaves too little room in the context window; use a model with a larger window, or a profile with \
                 fewer tools"
            )
        })
    }
}

fn has_result(message: &Message, call: &CallId) -> bool {
    matches!(message, Message::ToolResults { results } if results.iter().any(|result| result.call == *call))
}

/// Returns true if an output must never be omitted. This protects the body of a skill, because it is an instruction.
fn is_protected(result: &ToolResult) -> bool {
    result.name == crate::catalog::SKILL_TOOL
}

/// Returns the text that precedes the first message after a compaction.
pub(super) fn summary_message(compaction: &Compaction, items: &[TodoItem], jobs: &RunningJobs) -> String {
    let mut text = String::from(
        "[The earlier part of this session was compacted. sysop extracted these facts from its log:]\n",
    );
    text.push_str(compaction.ledger.trim_end());
    if let Some(summary) = &compaction.summary {
        text.push_str("\n[Summary that the model wrote of that part:]\n");
        text.push_str(summary.trim_end());
    }
    for (id, job) in jobs.iter() {
        text.push_str(&format!("\n[Background job {id} is running on {}: {}]", job.host, job.command));
    }
    if !items.is_empty() {
        text.push_str("\n[Todo list:]\n");
        text.push_str(&todo::as_text(items));
    }
    text.push_str("\n[End of the compacted part. The task continues:]");
    text
}

/// Returns the start and the end of a result that is longer than `bytes_max`, with a note about the lines between them.
/// `None` if the whole result fits.
pub(super) fn shorten_output(result: &ToolResult, bytes_max: usize) -> Option<String> {
    let output = &result.output;
    if output.len() <= bytes_max {
        return None;
    }
    let head = &output[..output.floor_char_boundary(bytes_max * 2 / 3)];
    let tail = &output[output.ceil_char_boundary(output.len() - bytes_max / 3)..];
    let (first, last) = (head.lines().count(), output.lines().count() - tail.lines().count() + 1);
    let call = &result.call;
    Some(format!(
        "{head}\n[lines {first} to {last} are omitted: the output is large for this model; read them with read_output, id \
         \"{call}\", range \"{first}-{last}\"]\n{tail}"
    ))
}
