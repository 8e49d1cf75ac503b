//! Usage of a session: time, tokens, cost.

use std::collections::HashMap;
use std::time::Duration;

use sysop_core::event::{Delta, Event};
use sysop_core::message::Usage;

use crate::Price;

const TOKENS_A_PRICE: f64 = 1_000_000.0;

#[derive(Debug, Default)]
pub(super) struct UsageMeter {
    prices: HashMap<String, Price>,
    /// Start of the turn, and its duration once it is over.
    turn: Option<Duration>,
    took: Option<Duration>,
    phase: Duration,
    /// True once a part of the reply has arrived.
    answering: bool,
    /// Last notice while waiting for the model.
    notice: Option<String>,
    last: Usage,
    cost: f64,
    /// True if tokens were used whose price is unknown.
    unpriced: bool,
}

impl UsageMeter {
    pub(super) fn new(prices: HashMap<String, Price>) -> Self {
        Self { prices, ..Self::default() }
    }

    /// Resets the counters for another session.
    pub(super) fn begin(&mut self) {
        *self = Self::new(std::mem::take(&mut self.prices));
    }

    pub(super) fn event(&mut self, event: &Event, model: &str, now: Duration) {
        match event {
            Event::TurnStarted { .. } => (self.turn, self.took) = (Some(now), None),
            Event::TurnEnded { .. } => self.took = self.turn.map(|began| now.saturating_sub(began)),
            Event::StepStarted { .. } => (self.answering, self.notice, self.phase) = (false, None, now),
            Event::Replied { reply, .. } => self.used(reply.usage, model),
            Event::SessionOpened { .. }
            | Event::Configured { .. }
            | Event::PromptQueued { .. }
            | Event::ModelFailed { .. }
            | Event::ApprovalAsked { .. }
            | Event::Decided { .. }
            | Event::ToolStarted { .. }
            | Event::ToolFinished { .. }
            | Event::CancelAsked { .. }
            | Event::Paused { .. }
            | Event::Resumed
            | Event::TerminalInput { .. }
            | Event::Compacted { .. }
            | Event::ContextCompacted { .. }
            | Event::TodoChanged { .. }
            | Event::JobStarted { .. }
            | Event::JobFinished { .. }
            | Event::GuardArmed { .. }
            | Event::GuardEnded { .. }
            | Event::ApprovalGiven { .. }
            | Event::Undone { .. }
            | Event::HistoryCleared => {}
        }
    }

    fn used(&mut self, usage: Usage, model: &str) {
        if usage == Usage::default() {
            return;
        }
        self.last = usage;
        let Some(price) = self.prices.get(model) else {
            self.unpriced = true;
            return;
        };
        let fresh = usage.input_tokens.saturating_sub(usage.cached_tokens);
        #[expect(clippy::cast_precision_loss, reason = "tokens of a session are far below 2^52")]
        let cost = |tokens: u64, price: f64| tokens as f64 * price / TOKENS_A_PRICE;
        self.cost += cost(fresh, price.input)
            + cost(usage.cached_tokens, price.cached.unwrap_or(price.input))
            + cost(usage.output_tokens, price.output);
    }

    pub(super) fn delta(&mut self, delta: &Delta) {
        match delta {
            Delta::Text { .. } | Delta::Reasoning { .. } => (self.answering, self.notice) = (true, None),
            Delta::Restarted { .. } => self.answering = false,
            Delta::Notice { text } => self.notice = Some(text.clone()),
            Delta::Output { .. }
            | Delta::Question { .. }
            | Delta::QuestionClosed { .. }
            | Delta::Control { .. } => {}
        }
    }

    /// Starts timing a new phase.
    pub(super) fn phase(&mut self, now: Duration) {
        self.phase = now;
    }

    /// Time spent in the current phase.
    pub(super) fn waited(&self, now: Duration) -> Duration {
        now.saturating_sub(self.phase)
    }

    /// Duration of the current or last turn.
    pub(super) fn turn(&self, now: Duration) -> Option<Duration> {
        self.took.or_else(|| self.turn.map(|began| now.saturating_sub(began)))
    }

    pub(super) fn is_answering(&self) -> bool {
        self.answering
    }

    pub(super) fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// Tokens of the last request and reply: the size of the model's context.
    pub(super) fn context(&self) -> u64 {
        self.last.input_tokens + self.last.output_tokens
    }

    /// Cost so far; `None` if a price is unknown.
    pub(super) fn cost(&self) -> Option<f64> {
        (!self.unpriced && self.cost > 0.0).then_some(self.cost)
    }
}
