//! Comparison of the settings of a session with an earlier state of it.

use super::Session;
use crate::event::ConfigChange;
use crate::policy::ApprovalMode;

impl Session {
    /// Returns the changes that give this session the settings of `earlier`, a state of the same session before another
    /// process continued it. If `auto` mode was bounded and the other process changed the mode, the session asks.
    ///
    /// These stay as the other process left them: what a person allowed for the session; an effort, and each limit of
    /// the budget, that `earlier` does not have; and additional `dangerous` and `deny` patterns, which only tighten.
    pub fn changes_back_to(&self, earlier: &Self) -> Vec<ConfigChange> {
        let (own, wanted) = (&self.state, &earlier.state);
        let bounds = |session: &Self| session.auto_progress().map(|auto| auto.bounds.clone());
        let mut changes = Vec::new();
        if own.spec.model != wanted.spec.model {
            changes.push(ConfigChange::Model(wanted.spec.model.clone()));
        }
        if own.spec.approve != wanted.spec.approve || bounds(self) != bounds(earlier) {
            let mode = if wanted.auto.is_some() { ApprovalMode::Ask } else { wanted.spec.approve };
            changes.push(ConfigChange::Approve(mode));
        }
        if own.mode != wanted.mode {
            changes.push(ConfigChange::Mode(wanted.mode));
        }
        if let Some(effort) = wanted.spec.effort.filter(|effort| own.spec.effort != Some(*effort)) {
            changes.push(ConfigChange::Effort(effort));
        }
        if own.spec.budget.updated(wanted.spec.budget) != own.spec.budget {
            changes.push(ConfigChange::Budget(wanted.spec.budget));
        }
        if own.spec.policy != wanted.spec.policy {
            let options = Some(wanted.spec.policy.clone());
            let (dangerous, deny) = (wanted.spec.dangerous_patterns.clone(), wanted.spec.deny.clone());
            changes.push(ConfigChange::Rules { dangerous, deny, options, rules: Vec::new() });
        }
        if own.client_tools != wanted.client_tools {
            changes.push(ConfigChange::ClientTools(wanted.client_tools.clone()));
        }
        changes
    }
}
