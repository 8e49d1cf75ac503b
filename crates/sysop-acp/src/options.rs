//! A session's modes and config options, which editors show as menus.

use serde_json::{Value, json};
use sysop_core::message::ModelRef;
use sysop_core::policy::ApprovalMode;

pub(crate) const MODE: &str = "mode";
pub(crate) const MODEL: &str = "model";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionOptions {
    pub(crate) mode: ApprovalMode,
    /// Modes that can be chosen, including the current one.
    pub(crate) modes: Vec<ApprovalMode>,
    pub(crate) model: ModelRef,
    /// Models that can be chosen, including the current one.
    pub(crate) models: Vec<ModelRef>,
}

impl SessionOptions {
    pub(crate) fn new(
        mode: ApprovalMode,
        modes: &[ApprovalMode],
        model: ModelRef,
        models: Vec<ModelRef>,
    ) -> Self {
        let mut options = Self { mode, modes: modes.to_vec(), model, models };
        if !options.modes.contains(&options.mode) {
            options.modes.insert(0, options.mode);
        }
        if !options.models.contains(&options.model) {
            options.models.insert(0, options.model.clone());
        }
        options
    }

    pub(crate) fn modes(&self) -> Value {
        let available: Vec<Value> = self
            .modes
            .iter()
            .map(
                |mode| json!({ "id": mode.as_str(), "name": name(*mode), "description": description(*mode) }),
            )
            .collect();
        json!({ "currentModeId": self.mode.as_str(), "availableModes": available })
    }

    pub(crate) fn config_options(&self) -> Value {
        let modes: Vec<Value> = self
            .modes
            .iter()
            .map(|mode| json!({ "value": mode.as_str(), "name": name(*mode), "description": description(*mode) }))
            .collect();
        let models: Vec<Value> = self
            .models
            .iter()
            .map(|model| json!({ "value": model.to_string(), "name": model.to_string() }))
            .collect();
        json!([
            {
                "id": MODE, "name": "Approval", "category": "mode", "type": "select",
                "description": "Commands that run without asking",
                "currentValue": self.mode.as_str(), "options": modes,
            },
            {
                "id": MODEL, "name": "Model", "category": "model", "type": "select",
                "currentValue": self.model.to_string(), "options": models,
            },
        ])
    }
}

fn name(mode: ApprovalMode) -> &'static str {
    match mode {
        ApprovalMode::Each => "Each",
        ApprovalMode::Ask => "Ask",
        ApprovalMode::Auto => "Auto",
        ApprovalMode::Never => "Read-only",
    }
}

fn description(mode: ApprovalMode) -> &'static str {
    match mode {
        ApprovalMode::Each => "Ask before every command",
        ApprovalMode::Ask => "Run read-only commands; ask before everything else",
        ApprovalMode::Auto => "Run everything; ask before dangerous commands",
        ApprovalMode::Never => "Run read-only commands only",
    }
}
