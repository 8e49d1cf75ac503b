//! Budgets of a session: amounts spent, the warning at 80%, and the pause before a model call above a limit.

use std::time::Duration;

use super::state::Phase;
use super::{Activity, Session};
use crate::budget::{BudgetLimits, Spending};
use crate::budget_scope::BudgetScope;
use crate::event::{Effect, Event, Origin, Output, PauseReason, StopReason};
use crate::id::TurnId;
use crate::message::Usage;
use crate::model_table::{self, ModelPrice};

/// Minimum duration of a timer. It matters only if the clock was set back.
const TIMER_MIN: Duration = Duration::from_secs(1);

impl Session {
    /// Returns the price of the session's model from the config or the built-in table, or `None` if it is unknown.
    pub fn price(&self) -> Option<ModelPrice> {
        let spec = &self.state.spec;
        let configured = spec.models.get(&spec.model.to_string()).and_then(|limits| limits.price);
        configured.or_else(|| model_table::price(&spec.model))
    }

    pub(super) fn spend(&mut self, usage: Usage) {
        if usage.is_zero() {
            return;
        }
        let price = self.price();
        self.state.spent_turn.add(usage, price);
        self.state.spent_session.add(usage, price);
        if let Some(auto) = &mut self.state.auto {
            auto.add_usage(usage, price);
        }
    }

    /// Returns a sentence about the budget that the next model call would exceed, or `None` if it would exceed none.
    pub(super) fn budget_stop(&self) -> Option<String> {
        let (state, budget) = (&self.state, &self.state.spec.budget);
        if budget.is_empty() {
            return None;
        }
        let prompt = self.prompt_tokens();
        // Later steps of a turn repeat the prompt of the one before, which the server has cached.
        let cached_tokens = if state.step.step > 0 { prompt } else { 0 };
        let mut next = Spending::default();
        next.add(Usage { input_tokens: prompt, output_tokens: 0, cached_tokens }, self.price());
        let budgets = self.budgets();
        budgets.iter().find_map(|(scope, limits, spent)| scope.exceeded(limits, spent, &next))
    }

    /// Returns the budgets of the turn and of the session, with the amounts spent until now.
    fn budgets(&self) -> [(BudgetScope, BudgetLimits, Spending); 2] {
        let (state, budget) = (&self.state, &self.state.spec.budget);
        let (mut turn, mut session) = (state.spent_turn, state.spent_session);
        turn.time_ms += self.active_ms();
        if self.is_time_counted() {
            session.time_ms += self.active_ms();
        }
        [(BudgetScope::Turn, budget.turn, turn), (BudgetScope::Session, budget.session, session)]
    }

    /// Returns true while a turn is running that counts toward the time of the session and of the day. A turn
    /// that is paused, or that runs one call without a model, does not count.
    pub fn is_time_counted(&self) -> bool {
        self.is_active() && !self.state.direct
    }

    fn is_active(&self) -> bool {
        self.state.phase != Phase::Idle && self.state.paused.is_none()
    }

    /// Returns the milliseconds since the turn was started or resumed in this process; 0 if inactive.
    pub(super) fn active_ms(&self) -> u64 {
        let since = self.active_since.unwrap_or(self.now);
        u64::try_from(self.now.0.saturating_sub(since.0)).unwrap_or_default()
    }

    /// Starts or stops measuring the turn's time, depending on the state.
    pub(super) fn measure_time(&mut self) {
        let since = self.active_since.unwrap_or(self.now);
        self.active_since = self.is_active().then_some(since);
    }

    /// Adds the time of a turn that ended or paused.
    pub(super) fn spend_time(&mut self, active_ms: u64) {
        let state = &mut self.state;
        state.spent_turn.time_ms += active_ms;
        if !state.direct {
            state.spent_session.time_ms += active_ms;
        }
    }

    /// Returns, for each scope, true if at least 80% of any limit is spent.
    pub(super) fn nearly_spent(&self) -> [bool; 2] {
        self.budgets().map(|(_, limits, spent)| limits.is_nearly_spent(&spent))
    }

    /// Warns users of the budgets that are nearly spent now and were not before this input.
    pub(super) fn warn_of_budgets(&self, before: [bool; 2], out: &mut Output) {
        if self.state.paused == Some(PauseReason::Budget) {
            return; // the pause reports the numbers
        }
        for ((scope, limits, spent), warned) in self.budgets().into_iter().zip(before) {
            if !warned
                && limits.is_nearly_spent(&spent)
                && let Some(text) = scope.warning(&limits, &spent)
            {
                out.effects.push(Effect::Notify { text });
            }
        }
    }

    pub(super) fn pause(&mut self, out: &mut Output, reason: PauseReason, detail: Option<String>) {
        let active_ms = self.active_ms();
        self.emit(out, Event::Paused { reason, detail, active_ms });
    }

    /// Ends the turn. A requested pause that found nothing left to stop in it stops the turn of the next queued prompt.
    pub(super) fn end_turn(&mut self, out: &mut Output, reason: StopReason, error: Option<String>) {
        let (turn, active_ms) = (self.state.turn, self.active_ms());
        let is_pausing = self.state.paused == Some(PauseReason::Asked);
        self.emit(out, Event::TurnEnded { turn, reason, error, active_ms });
        if let Some(prompt) = self.state.queue.front().filter(|_| is_pausing).cloned() {
            self.start_turn(out, prompt, Origin::Model);
            self.pause(out, PauseReason::Asked, None);
        }
    }

    /// Sets a timer for the moment when the turn reaches 80% of a time limit, or the limit itself.
    pub(super) fn set_turn_timer(&self, out: &mut Output) {
        let marks = self.budgets().into_iter().filter_map(|(scope, limits, spent)| {
            let counts = scope == BudgetScope::Turn || self.is_time_counted();
            let marks = [limits.warning_ms(), limits.time_ms()].into_iter().flatten();
            marks.filter(|_| counts).map(|mark| mark.saturating_sub(spent.time_ms)).find(|left| *left > 0)
        });
        if let Some(left) = marks.min() {
            let after = Duration::from_millis(left).max(TIMER_MIN);
            out.effects.push(Effect::SetTurnTimer { turn: self.state.turn, after });
        }
    }

    /// Pauses a turn whose time limit has passed, and stops its running command.
    pub(super) fn on_turn_timer(&mut self, out: &mut Output, turn: TurnId) {
        let current = self.state.turn == turn && self.is_active();
        if !current || self.state.cancel_requested.is_some() {
            return;
        }
        let counted = self.is_time_counted();
        let mut budgets = self.budgets().into_iter();
        let detail = budgets.find_map(|(scope, limits, spent)| {
            let counts = scope == BudgetScope::Turn || counted;
            scope.time_spent(&limits, &spent).filter(|_| counts)
        });
        if detail.is_none() {
            return self.set_turn_timer(out);
        }
        self.pause(out, PauseReason::Budget, detail);
        if self.activity() == Activity::Running
            && let Some(call) = self.state.running_call()
        {
            out.effects.push(Effect::CancelTool { call: call.id.clone() });
        }
    }
}
