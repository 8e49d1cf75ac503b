//! Budgets: limits of cost, tokens and time for a turn and for a session.
//!
//! A spent budget pauses the turn before the next model call. A running call is not interrupted, except by the limit of
//! minutes. Resuming grants the same amount once more.

use serde::{Deserialize, Serialize};

use crate::message::Usage;
use crate::model_table::ModelPrice;

/// Limits of each turn and of the whole session, from the config and flags.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    pub turn: BudgetLimits,
    /// `minutes` does not apply to a whole session.
    pub session: BudgetLimits,
}

impl Budget {
    /// Returns true if nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if the cost of a turn or of the session is limited. Such a limit requires that the price of the
    /// model is known.
    pub fn limits_cost(&self) -> bool {
        self.turn.cost.is_some() || self.session.cost.is_some()
    }
}

/// Limits of a turn or a session; `None` for no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BudgetLimits {
    /// Maximum cost in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Maximum number of tokens, input and output together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minutes: Option<u32>,
}

/// Amounts spent on model calls.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spending {
    /// US dollars.
    pub cost: f64,
    /// Input and output tokens together.
    pub tokens: u64,
    /// True if the price of some call was unknown. `cost` does not include that call.
    pub unpriced: bool,
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
