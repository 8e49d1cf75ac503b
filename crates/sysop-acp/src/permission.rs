//! Permission requests: the question to the editor, and its answer.

use serde_json::{Value, json};
use sysop_core::event::Decision;
use sysop_core::text::{neutralize, neutralize_line};
use sysop_core::transcript::Proposal;
use sysop_core::ui_text;

use crate::client::Answer;
use crate::tool_view::{self, Place};

const ONCE: &str = "once";
const SESSION: &str = "session";
const EDIT: &str = "edit";
const REJECT: &str = "reject";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PermissionAnswer {
    Decided(Decision),
    /// The user wants to edit the command.
    Edit,
    /// The editor canceled the turn instead of answering.
    Cancelled,
}

/// Returns the parameters of the request. Both the title and the content contain the exact command.
/// `can_edit` adds the option to edit it.
pub(crate) fn request(session: &str, plan: &Proposal, place: &Place, can_edit: bool) -> Value {
    let mut call = tool_view::fields(&plan.call, &plan.command, place);
    call.insert("status".into(), json!("pending"));
    call.insert("content".into(), content(plan, place));
    let mut options = vec![json!({ "optionId": ONCE, "name": "Run once", "kind": "allow_once" })];
    if let Some(grant) = plan.session_grant() {
        let name = format!("Run in this session: {}", ui_text::covers(grant));
        options.push(json!({ "optionId": SESSION, "name": name, "kind": "allow_always" }));
    }
    if can_edit {
        options.push(json!({ "optionId": EDIT, "name": "Edit, then run once", "kind": "allow_once" }));
    }
    options.push(json!({ "optionId": REJECT, "name": "Reject", "kind": "reject_once" }));
    json!({ "sessionId": session, "toolCall": call, "options": options })
}

/// Returns the content for a call waiting for approval: the text of the request, and a file change as a diff.
pub(crate) fn content(plan: &Proposal, place: &Place) -> Value {
    let mut content = vec![tool_view::text_content(&description(plan, place))];
    content.extend(tool_view::diff(&plan.call, place));
    Value::Array(content)
}

/// Returns the text of the request: the command, the reason, the risk and the location.
fn description(plan: &Proposal, place: &Place) -> String {
    let is_command = plan.call.text_argument("command") == Some(plan.command.as_str());
    let mut parts = vec![tool_view::fence(if is_command { "sh" } else { "" }, &plan.command)];
    let shown: &[&str] = match plan.call.name.as_str() {
        _ if is_command => &["command"],
        // The diff shows these arguments.
        "write_file" if tool_view::diff(&plan.call, place).is_some() => &["path", "content"],
        "edit_file" if tool_view::diff(&plan.call, place).is_some() => &["path", "old_string", "new_string"],
        _ => &[],
    };
    let others = tool_view::other_arguments(&plan.call, shown);
    if !others.is_empty() {
        parts.push(tool_view::fence("", &others));
    }
    let reason = neutralize(plan.reason.trim());
    if !reason.is_empty() {
        parts.push(format!("Reason: {}", neutralize_line(&reason)));
    }
    let (unreached, found): (Vec<_>, Vec<_>) =
        plan.risk.findings.iter().partition(|finding| finding.is_unreached());
    let findings: Vec<_> = found.iter().map(|finding| neutralize_line(&finding.why)).collect();
    let class = ui_text::class(plan.risk.class);
    parts.push(match findings.is_empty() {
        true => format!("Risk: {class}"),
        false => format!("Risk: {class} ({})", findings.join(", ")),
    });
    parts.extend(unreached.iter().map(|finding| neutralize_line(&finding.why).into_owned()));
    let alike = ui_text::confusables(&plan.command);
    if !alike.is_empty() {
        parts.push(format!("Look-alike letters: {}", alike.join(" ")));
    }
    let root = neutralize_line(&place.root);
    parts.push(format!("In {root} on {}", neutralize_line(&ui_text::place(&place.host))));
    if !plan.preview.is_empty() {
        parts.push(tool_view::fence("", &plan.preview.join("\n")));
    }
    if let Some(guard) = plan.guarded {
        parts.push(format!("Guarded: rolled back after {} s unless it is confirmed", guard.seconds));
    }
    parts.join("\n\n")
}

/// Interprets the editor's response. Anything other than an option of the request is a rejection.
pub(crate) fn answer(answer: &Answer, plan: Option<&Proposal>, can_edit: bool) -> PermissionAnswer {
    let outcome = answer.as_ref().map(|answer| &answer["outcome"]);
    let field = |name: &str| outcome.and_then(|outcome| outcome[name].as_str());
    let can_grant = plan.is_some_and(|plan| plan.session_grant().is_some());
    let decision = match (field("outcome"), field("optionId")) {
        (Some("cancelled"), _) => return PermissionAnswer::Cancelled,
        (Some("selected"), Some(ONCE)) => Decision::Allow { command: None },
        (Some("selected"), Some(SESSION)) if can_grant => Decision::AllowSession { command: None },
        (Some("selected"), Some(EDIT)) if can_edit => return PermissionAnswer::Edit,
        (Some(_) | None, _) => Decision::Reject { reason: String::new() },
    };
    PermissionAnswer::Decided(decision)
}

#[cfg(test)]
mod tests {
    use sysop_core::event::Origin;
    use sysop_core::id::CallId;
    use sysop_core::message::ToolCall;
    use sysop_core::policy::{Finding, Risk, RiskClass};
    use sysop_core::transcript::ProposalState;

    use super::*;

    fn given(value: Value) -> PermissionAnswer {
        answer(&Some(value), None, false)
    }

    #[test]
    fn a_host_that_cannot_be_reached_has_a_paragraph_of_its_own() {
        let arguments = sysop_core::message::Arguments::Object(serde_json::Map::new());
        let (id, wire_id, name) = (CallId::new("c1"), None, "bash".to_owned());
        let (class, why) = (RiskClass::Changes, "creates a file".to_owned());
        let findings =
            vec![Finding::unreached("dead1: connection refused"), Finding { start: 0, end: 7, class, why }];
        let plan = Proposal {
            call: ToolCall { id, wire_id, name, arguments },
            origin: Origin::Model,
            asked_by: None,
            command: "touch a".to_owned(),
            folder: None,
            edited_from: None,
            reason: String::new(),
            risk: Risk { class, findings },
            covers: None,
            preview: Vec::new(),
            previewed_edit: None,
            guarded: None,
            terms: Default::default(),
            given: Vec::new(),
            state: ProposalState::Waiting,
        };
        let text = description(&plan, &Place::default());
        let expected =
            "Risk: makes changes (creates a file)\n\ndead1: connection refused; nothing will run there\n\n";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn only_a_known_option_allows() {
        let once = given(json!({ "outcome": { "outcome": "selected", "optionId": "once" } }));
        assert_eq!(once, PermissionAnswer::Decided(Decision::Allow { command: None }));
        let reject = PermissionAnswer::Decided(Decision::Reject { reason: String::new() });
        for other in [
            json!({ "outcome": { "outcome": "selected", "optionId": "reject" } }),
            json!({ "outcome": { "outcome": "selected", "optionId": "Once" } }),
            json!({ "outcome": { "outcome": "selected" } }),
            json!({ "outcome": { "outcome": "selected", "optionId": "session" } }),
            json!({ "outcome": { "optionId": "once" } }),
            json!({ "outcome": "once" }),
            json!("once"),
            Value::Null,
        ] {
            assert_eq!(given(other.clone()), reject, "{other}");
        }
        let edit = json!({ "outcome": { "outcome": "selected", "optionId": "edit" } });
        assert_eq!(given(edit.clone()), reject, "it was not offered");
        assert_eq!(answer(&Some(edit), None, true), PermissionAnswer::Edit);
        assert_eq!(answer(&None, None, true), reject, "an error");
        assert_eq!(given(json!({ "outcome": { "outcome": "cancelled" } })), PermissionAnswer::Cancelled);
    }
}
