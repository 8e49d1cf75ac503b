//! Bounds of `auto` mode: when they take effect, and the return to `ask` when one is reached.

use std::time::Duration;

use super::Session;
use crate::auto_bounds::{ACCEPTED_BOUNDS, AutoBounds, AutoProgress};
use crate::event::{ConfigChange, Effect, Event, Output};
use crate::id::Timestamp;
use crate::policy::ApprovalMode;

impl Session {
    /// Returns the bounds of `auto` mode that are in effect, with the amounts used.
    pub fn auto_progress(&self) -> Option<&AutoProgress> {
        self.state.auto.as_ref()
    }

    /// Puts `auto` mode with bounds into effect. Refuses bounds that the session cannot enforce, such as a cost if the
    /// price of the model is unknown.
    pub(super) fn on_auto(&mut self, out: &mut Output, bounds: AutoBounds) {
        let spec = &self.state.spec;
        let refused = if bounds.excludes(&spec.host, &spec.policy.tags) {
            Some(match bounds.foreign_host(&spec.host) {
                Some(word) => format!(
                    "the mode is unchanged: `{word}` is not a host of this session, which runs on {}; {ACCEPTED_BOUNDS}",
                    spec.host
                ),
                None => format!(
                    "the mode is unchanged: this session runs on {}, which is not in these bounds",
                    spec.host
                ),
            })
        } else if bounds.cost.is_some() && self.price().is_none() {
            Some(format!(
                "the mode is unchanged: the price of {} is unknown, so its cost cannot be bounded; set it in [prices]",
                spec.model
            ))
        } else {
            None
        };
        if let Some(text) = refused {
            return out.effects.push(Effect::Notify { text });
        }
        let until = bounds.seconds.map(|seconds| {
            let ms = i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
            Timestamp(self.now.0.saturating_add(ms))
        });
        self.emit(out, Event::configured(ConfigChange::Auto(AutoBounds { until, ..bounds })));
        self.set_auto_timer(out);
    }

    /// Sets a timer for the end of the bounds' duration. Any input that arrives after that ends the bounds.
    pub(super) fn set_auto_timer(&self, out: &mut Output) {
        let Some(until) = self.state.auto.as_ref().and_then(|auto| auto.bounds.until) else { return };
        let left = u64::try_from(until.0.saturating_sub(self.now.0)).unwrap_or_default();
        out.effects
            .push(Effect::SetTurnTimer { turn: self.state.turn, after: Duration::from_millis(left.max(1)) });
    }

    /// Returns to `ask` mode if a bound is reached.
    pub(super) fn end_auto_if_reached(&mut self, out: &mut Output) {
        let Some(reached) = self.state.auto.as_ref().and_then(|auto| auto.reached(self.now)) else { return };
        let change = ConfigChange::Approve(ApprovalMode::Ask);
        self.emit(out, Event::Configured { change, reached: Some(reached) });
    }
}
