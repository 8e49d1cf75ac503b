//! The policy that a transcript has seen, to tell a change of it from its repetition.

use super::sentence::{POLICY_SET, RULES_ADDED};
use crate::event::ConfigChange;
use crate::policy::PolicyOptions;
use crate::spec::SessionSpec;

/// Options, and patterns of dangerous commands and of commands that are always denied. A server sends none of them.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownPolicy {
    options: PolicyOptions,
    dangerous: Vec<String>,
    deny: Vec<String>,
}

impl KnownPolicy {
    pub(super) fn of(spec: &SessionSpec) -> Self {
        Self {
            options: spec.policy.clone(),
            dangerous: spec.dangerous_patterns.clone(),
            deny: spec.deny.clone(),
        }
    }

    pub(super) fn configure(&mut self, change: &ConfigChange) {
        let ConfigChange::Rules { dangerous, deny, options, rules } = change else { return };
        if let Some(options) = options {
            self.options = options.clone();
        }
        add_missing(&mut self.options.rules, rules);
        add_missing(&mut self.dangerous, dangerous);
        add_missing(&mut self.deny, deny);
    }

    /// Returns a sentence about policy options that replace the current ones, and patterns of dangerous and denied
    /// commands that are added. `None` if they judge each call as before. The time after which an approval expires
    /// judges none: it depends on the front end that continues the session.
    pub(super) fn sentence(
        &self,
        options: &PolicyOptions,
        dangerous: &[String],
        deny: &[String],
    ) -> Option<&'static str> {
        let adds = |new: &[String], known: &[String]| new.iter().any(|pattern| !known.contains(pattern));
        if options.rules.iter().any(|rule| !self.options.rules.contains(rule))
            || adds(dangerous, &self.dangerous)
            || adds(deny, &self.deny)
        {
            return Some(RULES_ADDED);
        }
        let approval_expires_s = self.options.approval_expires_s;
        let is_same = PolicyOptions { approval_expires_s, ..options.clone() } == self.options;
        (!is_same).then_some(POLICY_SET)
    }
}

fn add_missing<T: Clone + PartialEq>(known: &mut Vec<T>, added: &[T]) {
    for new in added {
        if !known.contains(new) {
            known.push(new.clone());
        }
    }
}
