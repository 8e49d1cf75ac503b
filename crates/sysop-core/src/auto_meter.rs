//! Tracks the bounds of `auto` mode from the events of a log, for display.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::auto_bounds::AutoProgress;
use crate::event::{ConfigChange, Origin};
use crate::id::Timestamp;
use crate::message::{ModelRef, Usage};
use crate::model_limits::ModelLimits;
use crate::model_table::{self, ModelPrice};
use crate::spec::SessionSpec;

/// Amounts left of the bounds of `auto` mode. Bounds that were not set are `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AutoLeft {
    /// Number of tool calls that may still start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands: Option<u32>,
    /// Time at which the mode ends, in milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// US dollars that model calls may still cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Hosts and tags on which calls may run without approval. If empty, all hosts of the session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
}

/// Bounds of `auto` mode in effect at one position of the log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AutoMeter {
    progress: Option<AutoProgress>,
    model: Option<ModelRef>,
    /// Prices from the config, by model.
    prices: BTreeMap<String, ModelPrice>,
}

impl AutoMeter {
    /// Returns the bounds in effect, with the amounts used.
    pub fn progress(&self) -> Option<&AutoProgress> {
        self.progress.as_ref()
    }

    /// Returns what is left of the bounds in effect.
    pub fn left(&self) -> Option<AutoLeft> {
        let AutoProgress { bounds, commands, spent, .. } = self.progress.as_ref()?;
        Some(AutoLeft {
            commands: bounds.commands.map(|limit| limit.saturating_sub(*commands)),
            until: bounds.until,
            cost: bounds.cost.map(|limit| (limit - spent.cost).max(0.0)),
            hosts: bounds.hosts.clone(),
        })
    }

    /// Resets the meter for a newly opened session.
    pub fn open(&mut self, spec: &SessionSpec) {
        let price = |(model, limits): (&String, &ModelLimits)| Some((model.clone(), limits.price?));
        self.prices = spec.models.iter().filter_map(price).collect();
        self.model = Some(spec.model.clone());
        self.progress = None;
    }

    /// Applies a configuration change.
    pub fn configure(&mut self, change: &ConfigChange) {
        match change {
            ConfigChange::Model(model) => self.model = Some(model.clone()),
            ConfigChange::Approve(_) => self.progress = None,
            ConfigChange::Auto(bounds) => self.progress = Some(AutoProgress::new(bounds.clone())),
            ConfigChange::Mode(_)
            | ConfigChange::Effort(_)
            | ConfigChange::Budget(_)
            | ConfigChange::Revoke(_)
            | ConfigChange::Rules { .. }
            | ConfigChange::ClientTools(_) => {}
        }
    }

    /// Counts a tool call that started.
    pub fn count_call(&mut self, origin: Origin) {
        if let Some(progress) = self.progress.as_mut().filter(|_| origin != Origin::User) {
            progress.commands += 1;
        }
    }

    /// Counts the tokens of a model call.
    pub fn count_usage(&mut self, usage: Usage) {
        let (Some(progress), Some(model)) = (&mut self.progress, &self.model) else { return };
        if !usage.is_zero() {
            let price = self.prices.get(&model.to_string()).copied();
            progress.add_usage(usage, price.or_else(|| model_table::price(model)));
        }
    }
}
