//! Usage of a session: time, tokens and cost.

use std::collections::HashMap;
use std::time::Duration;

use sysop_core::cost_report::CostReport;
use sysop_core::event::{Delta, Event};
use sysop_core::id::CallId;
use sysop_core::model_table::ModelPrice;
use sysop_core::transcript::is_host_work;
use sysop_core::ui_text;

#[derive(Debug, Default)]
pub(super) struct UsageMeter {
    prices: HashMap<String, ModelPrice>,
    /// Start of the current or last turn. `took` is the duration of the turn once it is over.
    turn: Option<Duration>,
    took: Option<Duration>,
    phase: Duration,
    /// The call that has been running since `phase`, also while a pause is requested; `None` if none runs.
    call: Option<CallId>,
    /// True once a part of the reply has arrived.
    answering: bool,
    /// Last notice that arrived while the session was waiting for the model, and the time at which it arrived.
    notice: Option<(String, Duration)>,
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
            // After the reply, its calls are prepared.
            Event::StepStarted { .. } | Event::Replied { .. } => {
                (self.answering, self.notice, self.phase) = (false, None, now);
            }
            _ => {}
        }
    }

    /// Begins the wait for the log's answer to an input that was sent.
    pub(super) fn begin_wait(&mut self, now: Duration) {
        (self.answering, self.notice, self.phase) = (false, None, now);
    }

    pub(super) fn delta(&mut self, delta: &Delta, now: Duration) {
        match delta {
            Delta::Text { .. } | Delta::Reasoning { .. } => (self.answering, self.notice) = (true, None),
            Delta::Restarted { .. } => self.answering = false,
            Delta::Notice { text } if is_host_work(text) => {} // the transcript keeps it
            Delta::Notice { text } => self.notice = Some((text.clone(), now)),
            Delta::Output { .. }
            | Delta::Progress { .. }
            | Delta::Question { .. }
            | Delta::QuestionClosed { .. }
            | Delta::Control { .. } => {}
        }
    }

    /// Begins a phase, in which `call` runs. The time goes on if the call ran in the last phase, too.
    pub(super) fn phase(&mut self, call: Option<CallId>, now: Duration) {
        if call.is_none() || call != self.call {
            self.phase = now;
        }
        self.call = call;
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

    /// Returns the last notice; the time in the notice of a retry counts down.
    pub(super) fn notice(&self, now: Duration) -> Option<String> {
        let (text, at) = self.notice.as_ref()?;
        Some(ui_text::retry_countdown(text, now.saturating_sub(*at)))
    }

    /// Returns the session's model calls and their costs.
    pub(super) fn report(&self) -> &CostReport {
        &self.report
    }
}
