//! Approval of a call: by the people watching the session, or by the users of the MCP client.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    ElicitRequestParams, ElicitationAction, ElicitationSchema, ProgressNotificationParam, ProgressToken,
};
use rmcp::service::{ElicitationMode, Peer, RequestContext};
use sysop_core::event::Event;
use sysop_core::text::neutralize;
use sysop_core::ui_text;

/// Interval between progress messages, which keep a waiting client from timing out.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum time to wait for an answer from the client's users.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(600);

/// The client that made a call.
pub(crate) struct Caller {
    peer: Peer<RoleServer>,
    progress_token: Option<ProgressToken>,
    /// Number of progress messages sent so far.
    progress: AtomicU32,
    pub(crate) canceled: tokio_util::sync::CancellationToken,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ClientAnswer {
    Allow,
    Reject,
    /// The client cannot ask.
    Unable,
}

impl Caller {
    pub(crate) fn new(context: &RequestContext<RoleServer>) -> Self {
        Self {
            peer: context.peer.clone(),
            progress_token: context.meta.get_progress_token(),
            progress: AtomicU32::new(0),
            canceled: context.ct.clone(),
        }
    }

    /// Returns the client's name for the log: `claude-code (MCP client)`.
    pub(crate) fn name(&self) -> String {
        let info = self.peer.peer_info();
        let name = info.map(|info| info.client_info.name.clone()).unwrap_or_default();
        let name: String = name.chars().filter(|sign| !sign.is_control()).take(64).collect();
        format!("{} (MCP client)", if name.is_empty() { "unnamed" } else { &name })
    }

    /// Tells a waiting client that the call is still in progress.
    pub(crate) async fn report_progress(&self, message: &str) {
        let Some(token) = self.progress_token.clone() else { return };
        let step = self.progress.fetch_add(1, Ordering::Relaxed) + 1;
        let params = ProgressNotificationParam::new(token, f64::from(step)).with_message(message);
        // If the client is gone, the call is canceled.
        let _ = self.peer.notify_progress(params).await;
    }

    /// Asks the client's users about a call that is waiting for approval.
    pub(crate) async fn ask(&self, host: &str, asked: &Event) -> ClientAnswer {
        let Some(message) = question(host, asked) else { return ClientAnswer::Unable };
        if !self.peer.supported_elicitation_modes().contains(&ElicitationMode::Form) {
            return ClientAnswer::Unable;
        }
        let schema = ElicitationSchema::builder().required_bool("approve").build();
        let Ok(requested_schema) = schema else { return ClientAnswer::Unable };
        let request = ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema };
        match self.peer.create_elicitation_with_timeout(request, Some(QUESTION_TIMEOUT)).await {
            Ok(result) => {
                let approves = result
                    .content
                    .as_ref()
                    .and_then(|content| content.get("approve"))
                    .and_then(|it| it.as_bool());
                match (result.action, approves) {
                    (ElicitationAction::Accept, Some(true)) => ClientAnswer::Allow,
                    _ => ClientAnswer::Reject,
                }
            }
            Err(_) => ClientAnswer::Unable,
        }
    }
}

/// Returns the question about a call that is waiting for approval. Returns `None` for other events.
fn question(host: &str, asked: &Event) -> Option<String> {
    let Event::ApprovalAsked { command, reason, risk, .. } = asked else { return None };
    let mut message = format!("Allow sysop to run this on {host}?\n\n{command}\n\n");
    if !reason.is_empty() {
        message.push_str(&format!("Reason: {reason}\n"));
    }
    let (unreached, findings): (Vec<_>, Vec<_>) =
        risk.findings.iter().partition(|finding| finding.is_unreached());
    message.push_str(&format!("Risk: {}", ui_text::class(risk.class)));
    for finding in findings {
        message.push_str(&format!("; {}", finding.why));
    }
    for finding in unreached {
        message.push_str(&format!("\n{}", finding.why));
    }
    Some(neutralize(&message).into_owned())
}

#[cfg(test)]
mod tests {
    use sysop_core::id::CallId;
    use sysop_core::message::{Arguments, ToolCall};
    use sysop_core::policy::{Finding, Grant, Risk, RiskClass};

    use super::*;

    #[test]
    fn a_host_that_cannot_be_reached_has_a_line_of_its_own() {
        let arguments = Arguments::Object(serde_json::Map::new());
        let (id, wire_id, name) = (CallId::new("c1"), None, "bash".to_owned());
        let (class, why) = (RiskClass::Changes, "creates a file".to_owned());
        let findings =
            vec![Finding::unreached("dead1: connection refused"), Finding { start: 0, end: 7, class, why }];
        let asked = Event::ApprovalAsked {
            call: ToolCall { id, wire_id, name, arguments },
            command: "touch a".to_owned(),
            reason: String::new(),
            risk: Risk { class, findings },
            covers: Grant::Exact { command: String::new() },
            preview: Vec::new(),
            guarded: None,
            scope: None,
            terms: Default::default(),
        };
        let expected = "Allow sysop to run this on web1,dead1?\n\ntouch a\n\n\
            Risk: makes changes; creates a file\ndead1: connection refused; nothing will run there";
        assert_eq!(question("web1,dead1", &asked).as_deref(), Some(expected));
    }
}
