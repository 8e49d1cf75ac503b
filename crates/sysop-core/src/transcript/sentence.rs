//! Sentences about calls, changes of the configuration and terminal input. Text is untrusted; front ends neutralize it.

use super::{Proposal, SHORT_ARGUMENT_CHARS_MAX, approval_label};
use crate::catalog::{JOBS_TOOL, REASONS};
use crate::event::{ConfigChange, Origin, TypedInput};
use crate::message::{Arguments, ToolCall};
use crate::policy::{PolicyOptions, Rule};
use crate::tool::ClientTools;
use crate::ui_text;
use crate::undo::undo_summary;

pub fn client_tools_sentence(client_tools: &ClientTools) -> String {
    if client_tools.tools.is_empty() {
        return "client tools disconnected".to_owned();
    }
    let names: Vec<_> = client_tools.tools.iter().map(|tool| tool.name.as_str()).collect();
    format!("tools on a client in {}: {}", client_tools.root, names.join(", "))
}

/// Formats a call on one line, as in `edit_file("src/main.py", ...)`: the first argument, and dots if there are more.
/// The model's reason for the call is not counted.
pub fn call_summary(call: &ToolCall) -> String {
    if let Some(undo) = undo_summary(call) {
        return undo;
    }
    match &call.arguments {
        Arguments::Object(map) => {
            let mut arguments =
                map.iter().filter(|(name, _)| !REASONS.contains(&name.as_str())).map(|(_, value)| value);
            let first = arguments.next().map(short_argument).unwrap_or_default();
            let more = if arguments.next().is_some() { ", ..." } else { "" };
            format!("{}({first}{more})", call.name)
        }
        Arguments::Invalid(_) => format!("{}(...)", call.name),
    }
}

/// Formats a proposed call on one line, as [`call_summary`] does. A look at the output of a job that a user asked for says
/// so.
pub fn proposal_summary(plan: &Proposal) -> String {
    let job = match &plan.call.arguments {
        Arguments::Object(map) if map.get("action").is_some_and(|action| action == "read") => map.get("id"),
        Arguments::Object(_) | Arguments::Invalid(_) => None,
    };
    match job.filter(|_| plan.origin == Origin::User && plan.call.name == JOBS_TOOL) {
        Some(job) => format!("job {job}: output so far"),
        None => call_summary(&plan.call),
    }
}

fn short_argument(value: &serde_json::Value) -> String {
    // JSON-quoted, so that quotes and line breaks in the argument cannot end it.
    let written = value.to_string();
    match written.char_indices().nth(SHORT_ARGUMENT_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &written[..at]),
        None => written,
    }
}

/// Says what a change of the configuration set.
pub fn change_sentence(change: &ConfigChange) -> String {
    match change {
        ConfigChange::Model(model) => format!("model set to {model}"),
        ConfigChange::Approve(mode) => format!("approval mode set to `{}`", approval_label(*mode)),
        ConfigChange::Auto(bounds) => format!("approval mode set to `auto` for {bounds}, then `ask`"),
        ConfigChange::Mode(mode) => ui_text::mode_sentence(*mode).to_owned(),
        ConfigChange::Effort(effort) => format!("reasoning effort set to `{}`", effort.as_str()),
        ConfigChange::Budget(limits) => format!("budget set: {limits}"),
        ConfigChange::Rules { options, rules, .. } => rules_sentence(options.as_ref(), rules).to_owned(),
        ConfigChange::Revoke(grants) => ui_text::revoked(grants),
        ConfigChange::ClientTools(client_tools) => client_tools_sentence(client_tools),
    }
}

/// Says where rules came from that were added to a session. The answer "always" adds a rule without options. A message
/// of a server names no rules.
pub fn rules_sentence(options: Option<&PolicyOptions>, rules: &[Rule]) -> &'static str {
    match (options, rules) {
        (Some(_), _) => "rules added from the current config",
        (None, [_, ..]) => "rule saved to rules.toml",
        (None, []) => "rules added",
    }
}

pub fn terminal_input_sentence(by: &str, typed: &TypedInput) -> String {
    match typed {
        TypedInput::Activity { keys, seconds } => {
            let plural = if *keys == 1 { "" } else { "s" };
            let time = if *seconds == 0 { String::new() } else { format!(" in {seconds} s") };
            format!("{by} used the terminal: {keys} key{plural}{time}")
        }
        TypedInput::Keys { text } => format!("{by} typed into the terminal: {text}"),
        TypedInput::Secret { prompt } if prompt.trim().is_empty() => format!("{by}: [password entered]"),
        TypedInput::Secret { prompt } => format!("{by} answered `{}`: [password entered]", prompt.trim()),
        TypedInput::Answer { prompt, text } => format!("{by} answered `{}`: {text}", prompt.trim()),
    }
}
