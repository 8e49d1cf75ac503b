//! Decides if a budget is spent or nearly spent, and formats the sentences about it.

use std::fmt;

use crate::auto_bounds::exact_cost;
use crate::budget::{Budget, BudgetLimits, MINUTE_MS, Spending};
use crate::ui_text;

/// Share of a budget at which the user is warned.
const WARNING_SHARE: f64 = 0.8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetScope {
    Turn,
    Session,
    /// All sessions of one local day together.
    Day,
}

impl BudgetScope {
    /// Returns a sentence with the numbers of the limit that the next model call would exceed, or `None` if there is no
    /// such limit.
    pub fn exceeded(self, limits: &BudgetLimits, spent: &Spending, next: &Spending) -> Option<String> {
        let (subject, advice) = (self.subject(), self.advice());
        if let Some(limit) = limits.tokens
            && spent.tokens + next.tokens > limit
        {
            if spent.tokens == 0 {
                let owner = self.owner();
                // Exact, because rounded numbers could look like enough.
                return Some(format!(
                    "the {owner}'s budget is too small: the next call needs about {} tokens, but only {limit} are left\
                     {advice}",
                    next.tokens
                ));
            }
            let [used, limit, next] = [spent.tokens, limit, next.tokens].map(ui_text::tokens);
            return Some(format!(
                "{subject} used {used} of {limit} tokens, and the next call takes about {next}{advice}"
            ));
        }
        if let Some(sentence) = self.time_spent(limits, spent) {
            return Some(sentence);
        }
        let limit = limits.cost?;
        if spent.unpriced || next.unpriced {
            let model = match self {
                Self::Turn | Self::Session => "the model",
                Self::Day => "a model",
            };
            let owner = self.owner();
            return Some(format!(
                "the price of {model} is unknown, so the {owner}'s limit of ${limit} cannot be checked{advice}"
            ));
        }
        if spent.cost == 0.0 && next.cost > limit {
            let (owner, cost, limit) = (self.owner(), next.cost, exact_cost(limit));
            return Some(format!(
                "the {owner}'s budget is too small: the next call costs about ${cost:.4}, but only {limit} is left\
                 {advice}"
            ));
        }
        (spent.cost + next.cost > limit).then(|| {
            format!(
                "{subject} cost ${:.3} of ${limit}, and the next call costs about ${:.3}{advice}",
                spent.cost, next.cost
            )
        })
    }

    /// Returns a sentence if the time limit is reached, otherwise `None`.
    pub fn time_spent(self, limits: &BudgetLimits, spent: &Spending) -> Option<String> {
        let limit = limits.minutes.filter(|_| limits.time_ms() <= Some(spent.time_ms))?;
        Some(format!("{} run for {}{}", self.subject(), minutes(limit), self.advice()))
    }

    /// Returns a line that warns the user of a nearly spent budget. Names the limit that is closest to being reached.
    pub fn warning(self, limits: &BudgetLimits, spent: &Spending) -> Option<String> {
        let (share, words) = limits.shares(spent).max_by(|one, other| one.0.total_cmp(&other.0))?;
        let owner = self.owner();
        Some(format!("{:.0}% of the {owner}'s budget is used: {words}", (share * 100.0).floor()))
    }

    fn owner(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Session => "session",
            Self::Day => "day",
        }
    }

    fn subject(self) -> &'static str {
        match self {
            Self::Turn => "the turn has",
            Self::Session => "the session has",
            Self::Day => "all sessions today have",
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Self::Turn | Self::Session => "",
            Self::Day => "; raise [budget] day in the config, or continue tomorrow",
        }
    }
}

/// Limit that a flag of `sysop exec` sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetFlag {
    /// Cost of the session.
    MaxCost,
    /// Tokens of the session.
    MaxTokensTotal,
    /// Time of each turn.
    MaxMinutes,
}

impl BudgetFlag {
    /// Returns the flag of the limit that a sentence of [`BudgetScope::exceeded`] is about. `None` if no flag sets that
    /// limit, or if a higher limit would not help.
    pub fn of_sentence(sentence: &str) -> Option<Self> {
        let starts = |start: String| sentence.starts_with(&start);
        if starts(format!("{} run for ", BudgetScope::Turn.subject())) {
            return Some(Self::MaxMinutes);
        }
        let (subject, owner) = (BudgetScope::Session.subject(), BudgetScope::Session.owner());
        if !starts(format!("{subject} ")) && !starts(format!("the {owner}'s budget is too small: ")) {
            return None;
        }
        match (sentence.contains(" tokens"), sentence.contains('$')) {
            (true, _) => Some(Self::MaxTokensTotal),
            (false, true) => Some(Self::MaxCost),
            (false, false) => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::MaxCost => "--max-cost",
            Self::MaxTokensTotal => "--max-tokens-total",
            Self::MaxMinutes => "--max-minutes",
        }
    }

    /// Returns true if this budget has the limit.
    pub fn is_set(self, budget: &Budget) -> bool {
        match self {
            Self::MaxCost => budget.session.cost.is_some(),
            Self::MaxTokensTotal => budget.session.tokens.is_some(),
            Self::MaxMinutes => budget.turn.minutes.is_some(),
        }
    }
}

/// The limits that are set: `session $0.50, 200 k tokens; turn 20 minutes`.
impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scopes = [("session", self.session), ("turn", self.turn)];
        let limited = scopes.into_iter().filter(|(_, limits)| !limits.is_empty());
        let parts: Vec<_> = limited.map(|(scope, limits)| format!("{scope} {limits}")).collect();
        f.write_str(&parts.join("; "))
    }
}

impl fmt::Display for BudgetLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cost = self.cost.map(exact_cost);
        let tokens = self.tokens.map(|limit| format!("{} tokens", ui_text::tokens(limit)));
        let minutes = self.minutes.map(minutes);
        let parts: Vec<_> = [cost, tokens, minutes].into_iter().flatten().collect();
        f.write_str(&parts.join(", "))
    }
}

fn minutes(count: u32) -> String {
    format!("{count} {}", if count == 1 { "minute" } else { "minutes" })
}

impl BudgetLimits {
    /// Returns true if at least 80% of any limit is spent.
    pub fn is_nearly_spent(&self, spent: &Spending) -> bool {
        self.shares(spent).any(|(share, _)| share >= WARNING_SHARE)
    }

    fn shares(&self, spent: &Spending) -> impl Iterator<Item = (f64, String)> {
        let cost = self.cost.filter(|limit| *limit > 0.0).map(|limit| {
            let places = if limit < 0.1 { 4 } else { 2 };
            (spent.cost / limit, format!("${:.places$} of ${limit:.places$}", spent.cost))
        });
        let tokens = self.tokens.map(|limit| {
            let words = format!("{} of {} tokens", ui_text::tokens(spent.tokens), ui_text::tokens(limit));
            (spent.tokens as f64 / limit.max(1) as f64, words)
        });
        let minutes = self.time_ms().map(|limit| {
            let words = format!("{} of {} minutes", spent.time_ms / MINUTE_MS, limit / MINUTE_MS);
            (spent.time_ms as f64 / limit.max(1) as f64, words)
        });
        [cost, tokens, minutes].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::{BudgetFlag, BudgetScope};
    use crate::budget::{Budget, BudgetLimits, Spending};
    use crate::message::Usage;
    use crate::model_table::ModelPrice;

    const LIMITS: BudgetLimits = BudgetLimits { cost: None, tokens: None, minutes: None };

    fn tokens(tokens: u64) -> Spending {
        Spending { tokens, ..Spending::default() }
    }

    #[test]
    fn a_stop_names_the_numbers() {
        let limits = BudgetLimits { tokens: Some(10_000), ..LIMITS };
        let stop = BudgetScope::Turn.exceeded(&limits, &tokens(9_000), &tokens(2_000)).expect("a stop");
        assert_eq!(stop, "the turn has used 9000 of 10 k tokens, and the next call takes about 2000");
        assert_eq!(BudgetScope::Turn.exceeded(&limits, &tokens(2_000), &tokens(2_000)), None);
        let stop = BudgetScope::Day.exceeded(&limits, &tokens(9_000), &tokens(2_000)).expect("a stop");
        assert_eq!(
            stop,
            "all sessions today have used 9000 of 10 k tokens, and the next call takes about 2000; raise [budget] \
             day in the config, or continue tomorrow"
        );
    }

    #[test]
    fn a_limit_below_the_first_call_is_too_small_and_not_spent() {
        let limits = BudgetLimits { tokens: Some(100), ..LIMITS };
        let stop = BudgetScope::Session.exceeded(&limits, &Spending::default(), &tokens(1_374));
        assert_eq!(
            stop.as_deref(),
            Some(
                "the session's budget is too small: the next call needs about 1374 tokens, but only 100 are left"
            )
        );
        let limits = BudgetLimits { cost: Some(0.001), ..LIMITS };
        let next = Spending { cost: 0.0123, ..tokens(1_374) };
        let stop = BudgetScope::Turn.exceeded(&limits, &Spending::default(), &next);
        assert_eq!(
            stop.as_deref(),
            Some(
                "the turn's budget is too small: the next call costs about $0.0123, but only $0.001 is left"
            )
        );
    }

    #[test]
    fn a_budget_names_the_limits_that_are_set() {
        let session = BudgetLimits { cost: Some(0.5), tokens: Some(200_000), minutes: None };
        let budget = Budget { session, turn: BudgetLimits { minutes: Some(1), ..LIMITS } };
        assert_eq!(budget.to_string(), "session $0.50, 200 k tokens; turn 1 minute");
    }

    #[test]
    fn costs_add_up_and_an_unknown_price_stops_a_cost_limit() {
        let price = ModelPrice { input: 1.0, output: 10.0, ..ModelPrice::default() };
        let usage = Usage { input_tokens: 500_000, output_tokens: 50_000, cached_tokens: 0 };
        let mut spent = Spending::default();
        spent.add(usage, Some(price));
        assert_eq!((spent.cost, spent.tokens, spent.unpriced), (1.0, 550_000, false));
        let limits = BudgetLimits { cost: Some(1.5), ..LIMITS };
        assert_eq!(BudgetScope::Turn.exceeded(&limits, &spent, &Spending::default()), None);
        let next = Spending { cost: 0.6, ..Spending::default() };
        let stop = BudgetScope::Turn.exceeded(&limits, &spent, &next);
        assert_eq!(
            stop.as_deref(),
            Some("the turn has cost $1.000 of $1.5, and the next call costs about $0.600")
        );
        spent.add(usage, None);
        let stop = BudgetScope::Session.exceeded(&limits, &spent, &Spending::default()).expect("a stop");
        assert_eq!(
            stop,
            "the price of the model is unknown, so the session's limit of $1.5 cannot be checked"
        );
        let stop = BudgetScope::Day.exceeded(&limits, &spent, &Spending::default()).expect("a stop");
        assert!(
            stop.starts_with(
                "the price of a model is unknown, so the day's limit of $1.5 cannot be checked;"
            ),
            "{stop}"
        );
        assert_eq!(BudgetScope::Turn.exceeded(&LIMITS, &spent, &spent), None);
    }

    #[test]
    fn a_stop_by_a_limit_of_a_flag_tells_the_flag() {
        let flag = |scope: BudgetScope, limits: BudgetLimits, spent: Spending, next: Spending| {
            let stop = scope.exceeded(&limits, &spent, &next).expect("a stop");
            BudgetFlag::of_sentence(&stop).map(BudgetFlag::name)
        };
        let (of_tokens, of_cost) =
            (BudgetLimits { tokens: Some(100), ..LIMITS }, BudgetLimits { cost: Some(0.1), ..LIMITS });
        let (of_time, long) =
            (BudgetLimits { minutes: Some(1), ..LIMITS }, Spending { time_ms: 60_000, ..tokens(0) });
        let (dear, some) = (Spending { cost: 1.0, ..tokens(200) }, Spending { cost: 0.01, ..tokens(90) });
        let unpriced = Spending { unpriced: true, ..tokens(90) };
        for spent in [Spending::default(), some] {
            assert_eq!(flag(BudgetScope::Session, of_tokens, spent, dear), Some("--max-tokens-total"));
            assert_eq!(flag(BudgetScope::Session, of_cost, spent, dear), Some("--max-cost"));
            assert_eq!(flag(BudgetScope::Turn, of_tokens, spent, dear), None);
            assert_eq!(flag(BudgetScope::Turn, of_cost, spent, dear), None);
            assert_eq!(flag(BudgetScope::Day, of_tokens, spent, dear), None);
        }
        assert_eq!(flag(BudgetScope::Turn, of_time, long, dear), Some("--max-minutes"));
        assert_eq!(flag(BudgetScope::Session, of_time, long, dear), None);
        assert_eq!(flag(BudgetScope::Session, of_cost, unpriced, dear), None, "a price is missing");
    }

    #[test]
    fn time_is_spent_at_its_limit() {
        let limits = BudgetLimits { minutes: Some(2), ..LIMITS };
        let time = |time_ms| Spending { time_ms, ..Spending::default() };
        let next = Spending::default();
        assert_eq!(BudgetScope::Session.exceeded(&limits, &time(119_999), &next), None);
        let stop = BudgetScope::Session.exceeded(&limits, &time(120_000), &next);
        assert_eq!(stop.as_deref(), Some("the session has run for 2 minutes"));
    }

    #[test]
    fn a_warning_comes_at_80_percent_and_names_the_fullest_limit() {
        let limits = BudgetLimits { cost: Some(0.5), tokens: Some(10_000), minutes: Some(20) };
        let spent = |cost, tokens, time_ms| Spending { cost, tokens, time_ms, unpriced: false };
        for (amount, warning) in [
            (spent(0.4, 0, 0), Some("80% of the session's budget is used: $0.40 of $0.50")),
            (spent(0.3, 9_050, 0), Some("90% of the session's budget is used: 9050 of 10 k tokens")),
            (spent(0.0, 0, 960_000), Some("80% of the session's budget is used: 16 of 20 minutes")),
            (spent(0.39, 7_999, 959_999), None),
        ] {
            let said = BudgetScope::Session.warning(&limits, &amount);
            assert_eq!(said.filter(|_| limits.is_nearly_spent(&amount)).as_deref(), warning, "{amount:?}");
        }
        assert!(!LIMITS.is_nearly_spent(&spent(9.0, 9_000_000, 9_000_000)));
        let small = BudgetLimits { cost: Some(0.02), ..LIMITS };
        assert_eq!(
            BudgetScope::Turn.warning(&small, &spent(0.0163, 0, 0)).as_deref(),
            Some("81% of the turn's budget is used: $0.0163 of $0.0200")
        );
    }
}
