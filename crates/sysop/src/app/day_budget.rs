//! The daily budget: shared limits for all sessions in this data directory, reset at local midnight.
//!
//! The amounts spent are in a file shared by all processes, which lock it before each use. Sessions do not know
//! about this budget: a request that would exceed it fails with `FailureKind::Budget`, which pauses the turn.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use sysop_core::budget::{BudgetLimits, Spending};
use sysop_core::budget_scope::BudgetScope;
use sysop_core::message::{FailureKind, HistoryMessage, ModelFailure, ModelRef, ModelRequest, Usage};
use sysop_core::model_table::{self, ModelPrice};
use sysop_core::token_estimate;
use sysop_driver::port::{ModelEvent, Provider};

use crate::config::create_private_folder;

/// Name of the file in the data directory.
const FILE: &str = "spent_today.json";

/// Daily limits, with the file that tracks the amounts spent.
#[derive(Debug, Clone)]
pub(super) struct DayBudget {
    limits: BudgetLimits,
    prices: Arc<HashMap<String, ModelPrice>>,
    file: PathBuf,
}

/// Content of the file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct SpentToday {
    /// Local date, such as `2026-11-23`.
    date: String,
    #[serde(flatten)]
    spent: Spending,
    /// True if a user has been told that the budget is nearly spent.
    #[serde(default)]
    warned: bool,
}

impl DayBudget {
    /// Creates the budget; `None` if there are no daily limits.
    pub(super) fn new(
        limits: BudgetLimits,
        prices: &HashMap<String, ModelPrice>,
        data: &Path,
    ) -> Option<Self> {
        (!limits.is_empty()).then(|| Self { limits, prices: Arc::new(prices.clone()), file: data.join(FILE) })
    }

    fn price(&self, model: &ModelRef) -> Option<ModelPrice> {
        self.prices.get(&model.to_string()).copied().or_else(|| model_table::price(model))
    }

    /// Returns a sentence with the numbers if this request would exceed today's budget.
    fn refusal(&self, request: &ModelRequest, today: &str) -> Option<String> {
        let spent = match self.update(today, |_| {}) {
            Ok(today) => today.spent,
            Err(error) => return Some(format!("cannot read {}: {error}", self.file.display())),
        };
        let messages = request.messages.iter().map(HistoryMessage::message).map(token_estimate::message);
        let prompt = token_estimate::prose(&request.system)
            + token_estimate::tools(&request.tools)
            + messages.sum::<u64>();
        let mut next = Spending::default();
        next.add(Usage { input_tokens: prompt, ..Usage::default() }, self.price(&request.model));
        BudgetScope::Day.exceeded(&self.limits, &spent, &next)
    }

    /// Returns the message that the budget is nearly spent, at most once a day across all processes.
    fn warning(&self, today: &str) -> Option<ModelEvent> {
        let mut text = None;
        let updated = self.update(today, |today| {
            if !today.warned && self.limits.is_nearly_spent(&today.spent) {
                today.warned = true;
                text = BudgetScope::Day.warning(&self.limits, &today.spent);
            }
        });
        updated.ok()?;
        text.map(ModelEvent::Notice)
    }

    fn add(&self, model: &ModelRef, usage: Usage, today: &str) {
        let mut call = Spending::default();
        call.add(usage, self.price(model));
        self.spend(call, today);
    }

    fn spend(&self, more: Spending, today: &str) {
        let added = self.update(today, |today| today.spent += more);
        if let Err(error) = added {
            tracing::warn!(%error, file = %self.file.display(), "cannot record today's spending");
        }
    }

    /// Changes the amounts spent today, under a lock. Unreadable or outdated content counts as zero.
    fn update(&self, today: &str, change: impl FnOnce(&mut SpentToday)) -> io::Result<SpentToday> {
        if let Some(folder) = self.file.parent() {
            create_private_folder(folder)?;
        }
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&self.file)?;
        file.lock()?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let before: SpentToday = serde_json::from_str(&text).unwrap_or_default();
        let mut spent = before.clone();
        if spent.date != today {
            spent = SpentToday { date: today.to_owned(), ..SpentToday::default() };
        }
        change(&mut spent);
        if spent == before {
            return Ok(spent);
        }
        let text = serde_json::to_string(&spent)?;
        file.rewind()?;
        file.write_all(text.as_bytes())?;
        file.set_len(text.len() as u64)?;
        Ok(spent)
    }

    /// Wraps a provider so that its calls are counted, and those that exceed the budget are refused.
    pub(super) fn limit(self, provider: Arc<dyn Provider>) -> Arc<dyn Provider> {
        Arc::new(BudgetedProvider { budget: self, provider })
    }
}

/// Provider that refuses requests exceeding the daily budget.
struct BudgetedProvider {
    budget: DayBudget,
    provider: Arc<dyn Provider>,
}

impl Provider for BudgetedProvider {
    fn stream(&self, request: ModelRequest) -> BoxStream<'static, ModelEvent> {
        if let Some(message) = self.budget.refusal(&request, &today()) {
            let failure = ModelFailure { kind: FailureKind::Budget, message };
            return futures::stream::iter([ModelEvent::Failed(failure)]).boxed();
        }
        let (budget, model) = (self.budget.clone(), request.model.clone());
        let warning = self.budget.warning(&today());
        let counted = self.provider.stream(request).flat_map(move |event| {
            let mut warning = None;
            if let ModelEvent::Done(reply) = &event {
                budget.add(&model, reply.usage, &today());
                warning = budget.warning(&today());
            }
            futures::stream::iter(warning.into_iter().chain([event]))
        });
        futures::stream::iter(warning).chain(counted).boxed()
    }

    fn time_spent(&self, time: Duration) {
        if self.budget.limits.minutes.is_some() {
            let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            self.budget.spend(Spending { time_ms, ..Spending::default() }, &today());
        }
    }
}

fn today() -> String {
    jiff::Zoned::now().date().to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use sysop_core::budget::{BudgetLimits, Spending};
    use sysop_core::budget_scope::BudgetScope;
    use sysop_core::message::{ModelRef, Usage};
    use sysop_core::model_table::ModelPrice;

    use sysop_driver::port::ModelEvent;

    use super::DayBudget;

    fn budget(limits: BudgetLimits, folder: &std::path::Path) -> DayBudget {
        let price = ModelPrice { input: 1.0, output: 10.0, ..ModelPrice::default() };
        let prices = HashMap::from([("openai/known".to_owned(), price)]);
        DayBudget::new(limits, &prices, folder).expect("limits")
    }

    fn spent(budget: &DayBudget, day: &str) -> (f64, u64, bool) {
        let spent = budget.update(day, |_| {}).expect("a file").spent;
        (spent.cost, spent.tokens, spent.unpriced)
    }

    #[test]
    fn the_spending_of_all_processes_adds_up_until_midnight() {
        let folder = tempfile::tempdir().expect("a folder");
        let limits = BudgetLimits { cost: Some(1.0), ..BudgetLimits::default() };
        let (one, two) = (budget(limits, folder.path()), budget(limits, folder.path()));
        let usage = Usage { input_tokens: 100_000, output_tokens: 10_000, cached_tokens: 0 };
        one.add(&ModelRef::new("openai", "known"), usage, "2026-11-23");
        two.add(&ModelRef::new("openai", "known"), usage, "2026-11-23");
        assert_eq!(spent(&one, "2026-11-23"), (0.4, 220_000, false));
        two.add(&ModelRef::new("openai", "unknown"), usage, "2026-11-23");
        assert_eq!(spent(&one, "2026-11-23"), (0.4, 330_000, true));
        assert_eq!(spent(&one, "2026-11-24"), (0.0, 0, false));
    }

    #[test]
    fn the_minutes_of_all_turns_add_up_and_the_next_request_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let limits = BudgetLimits { minutes: Some(2), ..BudgetLimits::default() };
        let (one, two) = (budget(limits, folder.path()), budget(limits, folder.path()));
        let minute = Spending { time_ms: 60_000, ..Spending::default() };
        one.spend(minute, "2026-11-23");
        let spent = |today: &str| two.update(today, |_| {}).expect("a file").spent;
        let none = Spending::default();
        assert_eq!(BudgetScope::Day.exceeded(&limits, &spent("2026-11-23"), &none), None);
        two.spend(minute, "2026-11-23");
        let refusal = BudgetScope::Day.exceeded(&limits, &spent("2026-11-23"), &none).expect("a refusal");
        assert!(
            refusal.starts_with("all sessions today have run for 2 minutes; raise [budget]"),
            "{refusal}"
        );
        assert_eq!(spent("2026-11-24"), none);
    }

    #[test]
    fn one_process_warns_once_a_day() {
        let folder = tempfile::tempdir().expect("a folder");
        let limits = BudgetLimits { tokens: Some(10), ..BudgetLimits::default() };
        let (one, two) = (budget(limits, folder.path()), budget(limits, folder.path()));
        let add = |budget: &DayBudget, day: &str| {
            let usage = Usage { input_tokens: 4, ..Usage::default() };
            budget.add(&ModelRef::new("ollama", "phi3"), usage, day);
            match budget.warning(day) {
                Some(ModelEvent::Notice(text)) => text,
                other => format!("{other:?}"),
            }
        };
        assert_eq!(add(&one, "2026-11-23"), "None");
        assert_eq!(add(&two, "2026-11-23"), "80% of the day's budget is used: 8 of 10 tokens");
        assert_eq!(add(&one, "2026-11-23"), "None");
        assert_eq!(add(&one, "2026-11-24"), "None");
        assert_eq!(add(&one, "2026-11-24"), "80% of the day's budget is used: 8 of 10 tokens");
    }

    #[test]
    fn a_file_of_an_older_version_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let budget = budget(BudgetLimits { tokens: Some(1), ..BudgetLimits::default() }, folder.path());
        let older = r#"{"date":"2026-11-23","cost":0.5,"tokens":7,"unpriced":true}"#;
        std::fs::write(&budget.file, older).expect("written");
        assert_eq!(spent(&budget, "2026-11-23"), (0.5, 7, true));
    }

    #[test]
    fn a_broken_file_counts_as_empty_and_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let budget = budget(BudgetLimits { tokens: Some(1), ..BudgetLimits::default() }, folder.path());
        std::fs::write(&budget.file, "{\"date\":").expect("written");
        let usage = Usage { input_tokens: 5, ..Usage::default() };
        budget.add(&ModelRef::new("ollama", "phi3"), usage, "2026-11-23");
        assert_eq!(spent(&budget, "2026-11-23"), (0.0, 5, false));
        assert!(DayBudget::new(BudgetLimits::default(), &HashMap::new(), folder.path()).is_none());
    }
}
