//! Usage of a session: time, tokens and cost.

use std::collections::HashMap;
use std::time::Duration;

use sysop_core::cost_report::CostReport;
use sysop_core::event::{Delta, Event};
use sysop_core::message::Usage;
use sysop_core::model_table::ModelPrice;

#[derive(Debug, Default)]
pub(super) struct UsageMeter {
    prices: HashMap<String, ModelPrice>,
    /// Start of the current or last turn. `took` is the duration of the turn once it is over.
    turn: Option<Duration>,
    took: Option<Duration>,
    phase: Duration,
    /// True once a part of the reply has arrived.
    answering: bool,
    /// Last notice that arrived while waiting for the model.
    notice: Option<String>,
    /// Tokens of the model's context.
    context: u64,
    report: CostReport,
}

impl UsageMeter {
    pub(super) fn new(prices: HashMap<String, ModelPrice>) -> Self {
        Self { prices, ..Self::default() }
    }

    /// Resets the counters for another session.
    pub(super) fn begin(&mut self) {
        *self = Self::new(std::mem::take(&mut self.prices));
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "other events change no counter")]
    pub(super) fn event(&mut self, event: &Event, model: &str, now: Duration) {
        self.report.event(event, model, |model| self.prices.get(model).copied());
        match event {
            Event::TurnStarted { .. } => (self.turn, self.took) = (Some(now), None),
            Event::TurnEnded { .. } => self.took = self.turn.map(|began| now.saturating_sub(began)),
            Event::StepStarted { .. } => (self.answering, self.notice, self.phase) = (false, None, now),
            Event::Replied { reply, .. } if reply.usage != Usage::default() => {
                self.context = reply.usage.input_tokens + reply.usage.output_tokens;
            }
            Event::ContextCompacted { compaction } => self.context = compaction.tokens_after,
            Event::HistoryCleared => self.context = 0,
            _ => {}
        }
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

    /// Returns the time spent in the current phase.
    pub(super) fn waited(&self, now: Duration) -> Duration {
        now.saturating_sub(self.phase)
    }

    /// Returns the duration of the current or last turn, or `None` if there was none.
    pub(super) fn turn(&self, now: Duration) -> Option<Duration> {
        self.took.or_else(|| self.turn.map(|began| now.saturating_sub(began)))
    }

    pub(super) fn is_answering(&self) -> bool {
        self.answering
    }

    pub(super) fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// Returns the tokens of the model's context: those of the last request and reply, or what a compaction left.
    pub(super) fn context(&self) -> u64 {
        self.context
    }

    /// Returns the model calls of the session with their cost.
    pub(super) fn report(&self) -> &CostReport {
        &self.report
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sysop_core::compaction::Compaction;
    use sysop_core::event::Event;

    use super::UsageMeter;

    #[test]
    fn the_context_is_small_again_after_a_compaction() {
        let mut meter = UsageMeter { context: 9_000, ..UsageMeter::default() };
        let compaction = Compaction { tokens_before: 9_000, tokens_after: 1_200, ..Compaction::default() };
        meter.event(&Event::ContextCompacted { compaction }, "m", Duration::ZERO);
        assert_eq!(meter.context(), 1_200);
        meter.event(&Event::HistoryCleared, "m", Duration::ZERO);
        assert_eq!(meter.context(), 0);
    }
}
