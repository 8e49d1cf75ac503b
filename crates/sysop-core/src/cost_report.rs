//! Number, tokens and cost of a session's model calls, for `/cost` and the status line.

use crate::budget::Spending;
use crate::event::Event;
use crate::message::Usage;
use crate::model_table::{self, ModelPrice};
use crate::ui_text;

/// Totals of the model calls of one session so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CostReport {
    calls: u32,
    usage: Usage,
    spending: Spending,
}

impl CostReport {
    /// Counts the model call that an event reports, if any. `price` returns the price that the user set for a model, or
    /// `None` to use the built-in table.
    pub fn event(&mut self, event: &Event, model: &str, price: impl Fn(&str) -> Option<ModelPrice>) {
        let usage = if let Event::Replied { reply, .. } = event {
            reply.usage
        } else if let Event::ContextCompacted { compaction } = event {
            compaction.usage
        } else {
            return;
        };
        if usage.is_zero() {
            return;
        }
        self.calls += 1;
        self.usage += usage;
        let listed = || model.parse().ok().and_then(|model| model_table::price(&model));
        self.spending.add(usage, price(model).or_else(listed));
    }

    /// Returns the cost so far in US dollars, or `None` if it is zero or the price of a call is unknown.
    pub fn cost(&self) -> Option<f64> {
        (!self.spending.unpriced && self.spending.cost > 0.0).then_some(self.spending.cost)
    }

    /// Returns one line with the number of calls, the tokens and the cost.
    pub fn line(&self) -> String {
        let Usage { input_tokens, output_tokens, cached_tokens } = self.usage;
        let calls =
            if self.calls == 1 { "1 model call".to_owned() } else { format!("{} model calls", self.calls) };
        let (input, output) = (ui_text::tokens(input_tokens), ui_text::tokens(output_tokens));
        let cached = match cached_tokens {
            0 => String::new(),
            tokens => format!(" ({} cached)", ui_text::tokens(tokens)),
        };
        let cost = match (self.spending.unpriced, self.spending.cost) {
            (true, cost) if cost > 0.0 => format!("more than ${cost:.4}, because a price is unknown"),
            (true, _) => "cost unknown: set [prices] in the config".to_owned(),
            (false, cost) => format!("about ${cost:.4} (prices of {} or yours)", model_table::date()),
        };
        format!("{calls}: {input} tokens in{cached}, {output} out; {cost}")
    }
}
