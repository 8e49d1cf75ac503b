//! Answers to `/status` and `/permissions`, and the text of a transcript's items. Used by the TUI and
//! the REPL. Pure.

use std::borrow::Cow;

use sysop_core::cost_report::CostReport;
use sysop_core::host_names::fold_names;
use sysop_core::id::SessionId;
use sysop_core::policy::Grant;
use sysop_core::text::neutralize_line;
use sysop_core::transcript::{ItemBody, SessionPhase, Transcript};
use sysop_core::ui_text;

use crate::command::PermissionsCommand;

/// Answer to `/permissions`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionsAnswer {
    /// Lines to show.
    Lines(Vec<String>),
    /// Grants to revoke.
    Revoke(Vec<Grant>),
}

/// Returns a session's status as labels and values. `branch` is the current branch at the root, and `model_status` says
/// how the model gets its tools, if known.
pub fn status_lines(
    session: Option<&SessionId>,
    transcript: &Transcript,
    cost: &CostReport,
    branch: Option<&str>,
    model_status: Option<&str>,
) -> Vec<(&'static str, String)> {
    let Some(facts) = transcript.session_info() else { return Vec::new() };
    let names: Vec<&str> = facts.place().split(',').map(str::trim).collect();
    let place = match names.as_slice() {
        [_] => ui_text::place(facts.place()),
        names => format!("{} hosts: {}", names.len(), fold_names(names)),
    };
    let branch = branch.map(|branch| format!(" ({branch})")).unwrap_or_default();
    let mut lines = vec![("host", place), ("directory", format!("{}{branch}", facts.root))];
    lines.extend(facts.canary_sentence().map(|text| ("", text)));
    lines.push(("model", facts.model.to_string()));
    lines.extend(model_status.map(|status| ("protocol", status.to_owned())));
    lines.push(("mode", format!("{}, profile {}", facts.mode.as_str(), facts.profile)));
    lines.push(("approval", facts.approval_status(None)));
    let unlabeled = if ui_text::is_server_machine(&facts.host) { "set by the server" } else { "off" };
    lines.push(("sandbox", facts.fence_label().unwrap_or(unlabeled).to_owned()));
    lines.push(("context", context(transcript)));
    lines.push(("usage", cost.line()));
    lines.push(("state", state(transcript).to_owned()));
    lines.extend(session.map(|id| ("session", id.as_str().to_owned())));
    if !transcript.jobs().is_empty() {
        lines.push(("jobs", ui_text::running_jobs(transcript.jobs())));
    }
    let permissions = match transcript.grants().len() {
        0 => "none for this session".to_owned(),
        count => format!("{count} for this session; see /permissions"),
    };
    lines.push(("permissions", permissions));
    lines.extend(ui_text::other_readers(transcript.output_readers()).map(|text| ("privacy", text)));
    lines.into_iter().map(|(label, value)| (label, neutralize_line(&value).into_owned())).collect()
}

/// Returns the percentage of the model's context window in use, or `None` if one of the two is unknown.
pub fn context_percent(transcript: &Transcript) -> Option<u64> {
    let window = u64::from(transcript.context_window()?);
    let used = transcript.context_tokens();
    (used > 0).then(|| (used.saturating_mul(100) / window).min(100))
}

fn context(transcript: &Transcript) -> String {
    let used = ui_text::tokens(transcript.context_tokens());
    match (transcript.context_window(), context_percent(transcript)) {
        (Some(window), percent) => {
            let window = ui_text::tokens(u64::from(window));
            format!("{used} of {window} tokens ({}%)", percent.unwrap_or(0))
        }
        (None, _) => format!("{used} tokens; the window of this model is unknown"),
    }
}

fn state(transcript: &Transcript) -> &'static str {
    match transcript.phase() {
        SessionPhase::Idle => "waiting for a prompt",
        SessionPhase::Thinking { .. } => "the model is answering",
        SessionPhase::AwaitingApproval { .. } => "waiting for approval",
        SessionPhase::Running { .. } => "a command is running",
        SessionPhase::Paused { .. } => "paused",
        SessionPhase::Stopping => "stopping",
    }
}

/// Describes a grant in full, on one line.
pub fn grant_line(grant: &Grant) -> String {
    match grant {
        Grant::Exact { command } => {
            neutralize_line(&format!("exactly `{command}`, in the directory where it was allowed"))
                .into_owned()
        }
        Grant::Program { .. } | Grant::Tool { .. } => ui_text::covers(grant),
    }
}

/// Answers `/permissions`. Fails with one sentence if no grant has this number.
pub fn permissions(
    transcript: &Transcript,
    command: PermissionsCommand,
) -> Result<PermissionsAnswer, String> {
    let grants = transcript.grants();
    match command {
        PermissionsCommand::List if grants.is_empty() => Ok(PermissionsAnswer::Lines(vec![
            "nothing is allowed for this session beyond the approval mode and your rules".to_owned(),
        ])),
        PermissionsCommand::List => {
            let listed = grants.iter().enumerate();
            let mut lines: Vec<_> =
                listed.map(|(at, grant)| format!("{}  {}", at + 1, grant_line(grant))).collect();
            lines.push(
                "revoke one with /permissions revoke N, or all with /permissions revoke all".to_owned(),
            );
            Ok(PermissionsAnswer::Lines(lines))
        }
        PermissionsCommand::RevokeAll if grants.is_empty() => Err("nothing to revoke".to_owned()),
        PermissionsCommand::RevokeAll => Ok(PermissionsAnswer::Revoke(grants.to_vec())),
        PermissionsCommand::Revoke(number) => match number.checked_sub(1).and_then(|at| grants.get(at)) {
            Some(grant) => Ok(PermissionsAnswer::Revoke(vec![grant.clone()])),
            None => Err(format!("there is no permission {number}; see /permissions")),
        },
    }
}

/// Returns true if a call has printed more than the transcript has, and all of it was kept.
pub fn has_longer_output(transcript: &Transcript) -> bool {
    transcript.items().any(|item| match &item.body {
        ItemBody::ToolOutput(output) => {
            output.outcome.as_ref().is_some_and(|outcome| outcome.truncated && outcome.artifact.is_some())
        }
        ItemBody::Prompt(_)
        | ItemBody::Answer(_)
        | ItemBody::Reasoning(_)
        | ItemBody::Proposal(_)
        | ItemBody::Notice(_)
        | ItemBody::End(_) => false,
    })
}

/// Returns an item's text as a user would search or copy it. The text is untrusted.
pub fn item_text(body: &ItemBody) -> Cow<'_, str> {
    match body {
        ItemBody::Prompt(prompt) => Cow::Borrowed(&prompt.text),
        ItemBody::Answer(text) | ItemBody::Reasoning(text) => Cow::Borrowed(&text.text),
        ItemBody::Proposal(plan) => Cow::Borrowed(&plan.command),
        ItemBody::ToolOutput(output) => match &output.outcome {
            Some(outcome) => Cow::Borrowed(&outcome.output),
            None => Cow::Borrowed(&output.tail),
        },
        ItemBody::Notice(notice) => Cow::Borrowed(&notice.text),
        ItemBody::End(end) => Cow::Owned(ui_text::turn_end_summary(end).unwrap_or_default()),
    }
}
