//! Budgets: limits of cost, tokens and time for a turn, for a session and for a day.
//!
//! A spent budget pauses the turn before the next model call. Only the time limit interrupts a running call.
//! Resuming grants the same amount once more.

use serde::{Deserialize, Serialize};

use crate::message::Usage;
use crate::model_table::ModelPrice;

pub(crate) const MINUTE_MS: u64 = 60_000;

/// Limits of each turn and of the whole session, from the config and flags.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Budget {
    /// Limits of each turn.
    pub turn: BudgetLimits,
    /// Limits of the whole session.
    pub session: BudgetLimits,
}

impl Budget {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns this budget with the limits that `newer` sets. The other limits stay.
    #[must_use]
    pub fn updated(self, newer: Self) -> Self {
        Self { turn: self.turn.updated(newer.turn), session: self.session.updated(newer.session) }
    }

    /// Returns true if the cost of a turn or of the session is limited. Such a limit requires the model's price.
    pub fn limits_cost(&self) -> bool {
        self.turn.cost.is_some() || self.session.cost.is_some()
    }
}

/// Limits of a turn, a session or a day; `None` for no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BudgetLimits {
    /// Maximum cost in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Maximum number of tokens, input and output together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Maximum time in which turns are active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minutes: Option<u32>,
}

impl BudgetLimits {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn updated(self, newer: Self) -> Self {
        Self {
            cost: newer.cost.or(self.cost),
            tokens: newer.tokens.or(self.tokens),
            minutes: newer.minutes.or(self.minutes),
        }
    }

    /// Returns the maximum time in milliseconds.
    pub(crate) fn time_ms(&self) -> Option<u64> {
        self.minutes.map(|minutes| u64::from(minutes) * MINUTE_MS)
    }

    /// Returns the active time in milliseconds at which the user is warned that the time is nearly spent.
    pub(crate) fn warning_ms(&self) -> Option<u64> {
        self.time_ms().map(|limit| limit / 5 * 4)
    }
}

/// Amounts spent so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spending {
    /// US dollars.
    pub cost: f64,
    /// Input and output tokens together.
    pub tokens: u64,
    /// True if the price of some call was unknown. `cost` does not include that call.
    pub unpriced: bool,
    /// Milliseconds in which turns were active.
    pub time_ms: u64,
}

impl std::ops::AddAssign for Spending {
    fn add_assign(&mut self, other: Self) {
        self.cost += other.cost;
        self.tokens += other.tokens;
        self.unpriced |= other.unpriced;
        self.time_ms += other.time_ms;
    }
}

impl Spending {
    /// Adds the tokens and the cost of one model call. `price` is `None` if the model's price is unknown.
    pub fn add(&mut self, usage: Usage, price: Option<ModelPrice>) {
        self.tokens += usage.input_tokens + usage.output_tokens;
        match price {
            Some(price) => self.cost += price.cost(usage),
            None => self.unpriced |= !usage.is_zero(),
        }
    }
}
