//! Forms that the editor fills in (`elicitation/create`), if it supports them: for questions from programs
//! and MCP servers, and for editing a command before it runs.

use serde_json::{Value, json};
use sysop_core::question::{Question, QuestionKind};
use sysop_core::text::neutralize;
use sysop_core::transcript::Proposal;

use crate::client::Answer;

/// Field of a form that holds the answer to a question.
pub(crate) const ANSWER: &str = "answer";
/// Field of a form that holds a command.
pub(crate) const COMMAND: &str = "command";

/// Returns true if an editor's capabilities include forms.
pub(crate) fn is_offered(client_capabilities: &Value) -> bool {
    client_capabilities["elicitation"]["form"].is_object()
}

/// Returns true if a question may be asked in a form. Answers are visible, so questions for secrets may not.
pub(crate) fn can_ask(question: &Question) -> bool {
    question.kind == QuestionKind::Text
}

/// Returns the parameters of the request that asks a question.
pub(crate) fn question(session: &str, question: &Question) -> Value {
    let mut lines = vec![format!("{} asks:", question.from), question.prompt.trim().to_owned()];
    lines.extend(question.details.iter().cloned());
    let call = question.call.as_ref().map(|call| call.as_str());
    // An empty answer is valid, so the field is not required.
    form(session, call, &lines.join("\n"), ANSWER, json!({ "type": "string", "title": "Answer" }), json!([]))
}

/// Returns the parameters of the request for an edited command. Returns `None` if the call is not a command,
/// or if the command contains invisible or control characters, which would not survive being edited as text.
pub(crate) fn edit(session: &str, plan: &Proposal) -> Option<Value> {
    let is_command = plan.call.text_argument("command") == Some(plan.command.as_str());
    if !is_command || neutralize(&plan.command) != plan.command {
        return None;
    }
    let field = json!({ "type": "string", "title": "Command", "default": plan.command, "minLength": 1 });
    let message = "Edit the command. It runs as soon as you submit the form.";
    Some(form(session, Some(plan.call.id.as_str()), message, COMMAND, field, json!([COMMAND])))
}

fn form(
    session: &str,
    call: Option<&str>,
    message: &str,
    name: &str,
    field: Value,
    required: Value,
) -> Value {
    let mut params = json!({
        "sessionId": session,
        "mode": "form",
        "message": neutralize(message),
        "requestedSchema": { "type": "object", "properties": { name: field }, "required": required },
    });
    if let Some(call) = call {
        params["toolCallId"] = json!(call);
    }
    params
}

/// Returns the text of a field, or `None` if the form was not accepted. An accepted form without the field
/// counts as empty text.
pub(crate) fn text(answer: &Answer, field: &str) -> Option<String> {
    let answer = answer.as_ref().filter(|answer| answer["action"] == "accept")?;
    match &answer["content"][field] {
        Value::String(text) => Some(text.clone()),
        Value::Null => Some(String::new()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use sysop_core::question::QuestionId;

    use super::*;

    #[test]
    fn a_question_for_visible_text_is_a_form_and_others_are_not() {
        let asked = |kind| Question {
            id: QuestionId(1),
            kind,
            from: "MCP server \u{1b}[2Jforms".into(),
            details: vec!["Do not enter passwords.".into()],
            prompt: "Are you sure?\n".into(),
            call: None,
        };
        let text = asked(QuestionKind::Text);
        assert!(can_ask(&text));
        assert!(!can_ask(&asked(QuestionKind::Secret)) && !can_ask(&asked(QuestionKind::PerhapsSecret)));
        let params = question("s1", &text);
        assert_eq!(
            params["message"],
            "MCP server \\x1b[2Jforms asks:\nAre you sure?\nDo not enter passwords."
        );
        assert_eq!(params["requestedSchema"]["properties"][ANSWER]["type"], "string");
        assert!(params.get("toolCallId").is_none());
    }

    #[test]
    fn only_an_accepted_form_has_an_answer() {
        let given = |value: Value| text(&Some(value), ANSWER);
        assert_eq!(given(json!({ "action": "accept", "content": { "answer": "yes" } })), Some("yes".into()));
        assert_eq!(given(json!({ "action": "accept", "content": {} })), Some(String::new()));
        assert_eq!(given(json!({ "action": "accept" })), Some(String::new()));
        for other in [
            json!({ "action": "decline", "content": { "answer": "yes" } }),
            json!({ "action": "cancel" }),
            json!({ "action": "Accept", "content": { "answer": "yes" } }),
            json!({ "action": "accept", "content": { "answer": 7 } }),
            json!("accept"),
            Value::Null,
        ] {
            assert_eq!(given(other.clone()), None, "{other}");
        }
        assert_eq!(text(&None, ANSWER), None, "an error");
    }

    #[test]
    fn forms_are_offered_only_by_an_object() {
        assert!(is_offered(&json!({ "elicitation": { "form": {} } })));
        for other in [json!({}), json!({ "elicitation": { "form": null, "url": {} } }), Value::Null] {
            assert!(!is_offered(&other), "{other}");
        }
    }
}
