//! Budgets of a session: the amounts spent, and the pause before a model call that would exceed a limit.

use std::time::Duration;

use super::state::Phase;
use super::{Activity, Session};
use crate::budget::{BudgetLimits, Spending};
use crate::event::{Effect, Event, Output, PauseReason};
use crate::id::TurnId;
use crate::message::Usage;
use crate::model_table::{self, ModelPrice};
use crate::ui_text;

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
        let turn = exceeded(&budget.turn, "turn", &state.spent_turn, &next);
        turn.or_else(|| exceeded(&budget.session, "session", &state.spent_session, &next))
    }

    pub(super) fn set_turn_timer(&self, out: &mut Output) {
        if let Some(minutes) = self.state.spec.budget.turn.minutes {
            let after = Duration::from_secs(u64::from(minutes) * 60);
            out.effects.push(Effect::SetTurnTimer { turn: self.state.turn, after });
        }
    }

    /// Pauses a turn whose time limit has passed, and stops its running command.
    pub(super) fn on_turn_timer(&mut self, out: &mut Output, turn: TurnId) {
        let current = self.state.turn == turn && self.state.phase != Phase::Idle;
        let Some(minutes) = self.state.spec.budget.turn.minutes.filter(|_| current) else { return };
        if self.state.paused == Some(PauseReason::Budget) || self.state.cancel_requested.is_some() {
            return;
        }
        let detail = Some(format!("the turn has run for {minutes} minutes"));
        self.emit(out, Event::Paused { reason: PauseReason::Budget, detail });
        if self.activity() == Activity::Running
            && let Some(call) = self.state.running_call()
        {
            out.effects.push(Effect::CancelTool { call: call.id.clone() });
        }
    }
}

/// Returns a sentence with the numbers of the limit that the next model call would exceed, or `None` if it would exceed
/// none. `of` names the owner of the budget: `turn` or `session`.
fn exceeded(limits: &BudgetLimits, of: &str, spent: &Spending, next: &Spending) -> Option<String> {
    if let Some(limit) = limits.tokens
        && spent.tokens + next.tokens > limit
    {
        let (used, limit, next) =
            (ui_text::tokens(spent.tokens), ui_text::tokens(limit), ui_text::tokens(next.tokens));
        return Some(format!(
            "the {of} has used {used} of {limit} tokens, and the next call takes about {next}"
        ));
    }
    let limit = limits.cost?;
    if spent.unpriced || next.unpriced {
        return Some(format!("the price of the model is unknown, and the {of} may cost ${limit}"));
    }
    (spent.cost + next.cost > limit).then(|| {
        format!(
            "the {of} has cost ${:.3} of ${limit}, and the next call costs about ${:.3}",
            spent.cost, next.cost
        )
    })
}

#[cfg(test)]
mod tests {
    use super::exceeded;
    use crate::budget::{BudgetLimits, Spending};
    use crate::message::Usage;
    use crate::model_table::ModelPrice;

    #[test]
    fn a_stop_names_the_numbers() {
        let limits = BudgetLimits { tokens: Some(10_000), ..BudgetLimits::default() };
        let tokens = |tokens| Spending { tokens, ..Spending::default() };
        let stop = exceeded(&limits, "turn", &tokens(9_000), &tokens(2_000)).expect("a stop");
        assert_eq!(stop, "the turn has used 9000 of 10 k tokens, and the next call takes about 2000");
        assert_eq!(exceeded(&limits, "turn", &tokens(2_000), &tokens(2_000)), None);
    }

    #[test]
    fn costs_add_up_and_an_unknown_price_stops_a_cost_limit() {
        let price = ModelPrice { input: 1.0, output: 10.0, ..ModelPrice::default() };
        let usage = Usage { input_tokens: 500_000, output_tokens: 50_000, cached_tokens: 0 };
        let mut spent = Spending::default();
        spent.add(usage, Some(price));
        assert_eq!((spent.cost, spent.tokens, spent.unpriced), (1.0, 550_000, false));
        let limits = BudgetLimits { cost: Some(1.5), ..BudgetLimits::default() };
        assert_eq!(exceeded(&limits, "turn", &spent, &Spending::default()), None);
        let stop = exceeded(&limits, "turn", &spent, &Spending { cost: 0.6, ..Spending::default() });
        assert_eq!(
            stop.as_deref(),
            Some("the turn has cost $1.000 of $1.5, and the next call costs about $0.600")
        );
        spent.add(usage, None);
        let stop = exceeded(&limits, "session", &spent, &Spending::default()).expect("a stop");
        assert!(stop.starts_with("the price of the model is unknown"), "{stop}");
        assert_eq!(exceeded(&BudgetLimits::default(), "turn", &spent, &spent), None);
    }
}
