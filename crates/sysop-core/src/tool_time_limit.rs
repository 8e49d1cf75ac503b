//! Time limit of commands whose calls specify none.

use std::sync::Arc;

use serde_json::Value;

use crate::catalog::{BASH_TOOL, TIMEOUT_S, bash_time_limit, run_command_time_limit};
use crate::message::{Arguments, ToolCall};
use crate::tool::{RUN_COMMAND, ToolSpec};

/// Sets the time limit of commands whose calls specify none, in seconds. Functions that replace tools come first.
pub fn set_time_limit(specs: &mut [ToolSpec], seconds: u64) {
    for spec in specs {
        let mut limit = match spec.name.as_str() {
            BASH_TOOL => bash_time_limit(seconds),
            RUN_COMMAND => run_command_time_limit(seconds),
            _ => continue,
        };
        limit["default"] = seconds.into();
        let mut parameters = (*spec.parameters).clone();
        parameters["properties"][TIMEOUT_S] = limit;
        spec.parameters = Arc::new(parameters);
    }
}

/// Returns the time limit that [`set_time_limit`] has set, in seconds.
pub(crate) fn time_limit(spec: &ToolSpec) -> Option<u64> {
    let runs_commands = matches!(spec.name.as_str(), BASH_TOOL | RUN_COMMAND);
    spec.parameters["properties"][TIMEOUT_S]["default"].as_u64().filter(|_| runs_commands)
}

/// Returns the call with the time limit that [`set_time_limit`] has set for its tool, unless it specifies one.
pub fn with_time_limit(spec: &ToolSpec, mut call: ToolCall) -> ToolCall {
    if let (Some(limit), Arguments::Object(arguments)) = (time_limit(spec), &mut call.arguments)
        && arguments.get(TIMEOUT_S).is_none_or(Value::is_null)
    {
        arguments.insert(TIMEOUT_S.to_owned(), limit.into());
    }
    call
}

#[cfg(test)]
mod tests {
    use super::{TIMEOUT_S, set_time_limit, time_limit};
    use crate::catalog::{Profile, background_on_timeout, bash, is_background_on_timeout, tools};

    #[test]
    fn the_schemas_state_the_configured_time_limit() {
        let mut full = tools(Profile::Full);
        background_on_timeout(&mut full);
        set_time_limit(&mut full, 7);
        let stated: Vec<_> = full
            .iter()
            .filter_map(|tool| Some((tool, tool.parameters["properties"].get(TIMEOUT_S)?)))
            .map(|(tool, limit)| (tool.name.as_str(), limit["description"].as_str(), time_limit(tool)))
            .collect();
        let terminal = Some("Default 7; then the command keeps running");
        assert_eq!(stated, [("bash", Some("Default 7"), Some(7)), ("run_command", terminal, Some(7))]);
        assert!(full.iter().any(is_background_on_timeout));
        assert_eq!(time_limit(&bash()), None);
    }
}
