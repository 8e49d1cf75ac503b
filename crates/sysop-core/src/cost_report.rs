//! Number, tokens and cost of a session's model calls, for `/cost` and the status line.

use crate::budget::Spending;
use crate::event::Event;
use crate::message::Usage;
use crate::model_table::{self, ModelPrice};
use crate::ui_text;

/// Totals over the model calls of one session so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CostReport {
    calls: u32,
    usage: Usage,
    spending: Spending,
    /// True if the next reply comes from sysop itself instead of a model: it runs the commands of an expanded prompt.
    expects_own_reply: bool,
}

impl CostReport {
    /// Counts the model call that an event reports, if any. `price` returns the price that the user set for a model, or
    /// `None` to use the built-in table.
    pub fn event(&mut self, event: &Event, model: &str, price: impl Fn(&str) -> Option<ModelPrice>) {
        if let Event::PromptExpanded { commands, .. } = event {
            self.expects_own_reply = !commands.is_empty();
            return;
        }
        let usage = if let Event::Replied { reply, .. } = event
            && !std::mem::take(&mut self.expects_own_reply)
        {
            reply.usage
        } else if let Event::ContextCompacted { compaction } = event
            && !compaction.usage.is_zero()
        {
            compaction.usage
        } else {
            return;
        };
        self.calls += 1;
        self.usage += usage;
        let listed = || model.parse().ok().and_then(|model| model_table::price(&model));
        self.spending.add(usage, price(model).or_else(listed));
    }

    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the cost so far in US dollars, or `None` if it is zero or the price of a call is unknown.
    pub fn cost(&self) -> Option<f64> {
        (!self.spending.unpriced && self.spending.cost > 0.0).then_some(self.spending.cost)
    }

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

#[cfg(test)]
mod tests {
    use super::CostReport;
    use crate::event::Event;
    use crate::id::StepId;
    use crate::message::{Reply, Usage};

    fn replied(input_tokens: u64) -> Event {
        let usage = Usage { input_tokens, ..Usage::default() };
        Event::Replied { step: StepId::default(), reply: Reply { usage, ..Reply::default() } }
    }

    fn line(events: &[Event]) -> String {
        let mut report = CostReport::default();
        events.iter().for_each(|event| report.event(event, "ollama/phi3", |_| None));
        report.line()
    }

    #[test]
    fn each_reply_of_a_model_counts_even_without_a_usage() {
        assert!(line(&[replied(500), replied(0)]).starts_with("2 model calls: 500 tokens in"));
    }

    #[test]
    fn the_reply_that_runs_the_commands_of_a_prompt_is_not_a_model_call() {
        let expanded = |commands: &[&str]| Event::PromptExpanded {
            text: "t".to_owned(),
            commands: commands.iter().map(|command| (*command).to_owned()).collect(),
        };
        let with_commands = [expanded(&["uptime"]), replied(0), replied(70), replied(0)];
        assert!(line(&with_commands).starts_with("2 model calls: 70 tokens in"), "{}", line(&with_commands));
        assert!(line(&[expanded(&[]), replied(70)]).starts_with("1 model call: 70 tokens in"));
    }
}
