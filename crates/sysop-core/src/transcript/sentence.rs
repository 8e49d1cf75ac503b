//! Sentences about calls, changes of the configuration and terminal input. Text is untrusted; front ends neutralize it.

use serde_json::Value;

use super::{Proposal, approval_label};
use crate::catalog::{JOBS_TOOL, REASONS, main_argument};
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

/// Maximum characters of an argument in a call summary.
const SHORT_ARGUMENT_CHARS_MAX: usize = 60;
/// Maximum lines to show from the beginning of a command in [`call_lines`].
const COMMAND_HEAD_LINES_MAX: usize = 15;
/// Maximum lines to show from the end of a command in [`call_lines`].
const COMMAND_TAIL_LINES_MAX: usize = 5;
/// Maximum characters of a command's line in [`call_lines`].
const COMMAND_LINE_CHARS_MAX: usize = 2000;

/// Formats a call on one line, as in `edit_file("src/main.py", ...)`: the argument that says what the call does, and
/// dots if there are more. It is chosen by its name, because a model chooses the order of the arguments. Of a tool that
/// is not in the catalog, all arguments are shown. The model's reason for the call is not counted.
pub fn call_summary(call: &ToolCall) -> String {
    summary(call, SHORT_ARGUMENT_CHARS_MAX)
}

/// Formats a call as [`call_summary`] does, but with its whole command. A command of several lines follows on lines of
/// its own; a long one is shown in part, with the number of lines that are left out.
pub fn call_lines(call: &ToolCall) -> Vec<String> {
    let command =
        call.text_argument("command").filter(|_| shown_argument(call).is_none_or(|name| name == "command"));
    let Some(command) = command.map(str::trim_end).filter(|command| !command.is_empty()) else {
        return vec![call_summary(call)];
    };
    let lines: Vec<&str> = command.lines().collect();
    if let [line] = lines[..]
        && line.chars().count() <= COMMAND_LINE_CHARS_MAX
    {
        return vec![summary(call, usize::MAX)];
    }
    let shown = |line: &&str| match line.char_indices().nth(COMMAND_LINE_CHARS_MAX) {
        Some((at, _)) => format!("  | {}… {} more characters", &line[..at], line[at..].chars().count()),
        None => format!("  | {line}"),
    };
    let omitted = lines.len().saturating_sub(COMMAND_HEAD_LINES_MAX + COMMAND_TAIL_LINES_MAX);
    let mut out = vec![call_summary(call)];
    // One line is not omitted: the note would take as much.
    if omitted > 1 {
        out.extend(lines[..COMMAND_HEAD_LINES_MAX].iter().map(shown));
        out.push(format!("  … {omitted} more lines …"));
        out.extend(lines[COMMAND_HEAD_LINES_MAX + omitted..].iter().map(shown));
    } else {
        out.extend(lines.iter().map(shown));
    }
    out
}

fn summary(call: &ToolCall, chars_max: usize) -> String {
    if let Some(undo) = undo_summary(call) {
        return undo;
    }
    let Arguments::Object(map) = &call.arguments else { return format!("{}(...)", call.name) };
    let arguments = || map.iter().filter(|(name, _)| !REASONS.contains(&name.as_str()));
    if let Some(value) = shown_argument(call).and_then(|name| map.get(name)) {
        let more = if arguments().count() > 1 { ", ..." } else { "" };
        return format!("{}({}{more})", call.name, short_argument(value, chars_max));
    }
    let is_single = arguments().count() == 1;
    let shown: Vec<String> = arguments()
        .map(|(name, value)| {
            let chars_max = if name == "command" { chars_max } else { SHORT_ARGUMENT_CHARS_MAX };
            let value = short_argument(value, chars_max);
            if is_single { value } else { format!("{name}={value}") }
        })
        .collect();
    format!("{}({})", call.name, shown.join(", "))
}

/// Returns the name of the argument that says what a call does. `None` if all of its arguments are shown.
fn shown_argument(call: &ToolCall) -> Option<&'static str> {
    let Arguments::Object(map) = &call.arguments else { return None };
    main_argument(&call.name).filter(|name| map.contains_key(*name))
}

/// Formats a proposed call on one line, as [`call_summary`] does. A look at the output of a job that a user asked for
/// says so.
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

fn short_argument(value: &Value, chars_max: usize) -> String {
    // JSON-quoted, so that quotes and line breaks in the argument cannot end it.
    let written = value.to_string();
    match written.char_indices().nth(chars_max) {
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

/// Sentence about rules that a session gets when it is resumed.
pub(super) const RULES_ADDED: &str = "rules added from the current config";
/// Sentence about other policy options that a session gets when it is resumed.
pub(super) const POLICY_SET: &str = "policy set from the current config";

/// Says where rules came from that were added to a session. The answer "always" adds a rule without options. A message
/// of a server names no rules.
pub fn rules_sentence(options: Option<&PolicyOptions>, rules: &[Rule]) -> &'static str {
    match (options, rules) {
        (Some(options), _) if options.rules.is_empty() => POLICY_SET,
        (Some(_), _) => RULES_ADDED,
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
