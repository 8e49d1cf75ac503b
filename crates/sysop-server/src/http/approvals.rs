//! Endpoint that lists the pending approvals of all sessions.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use sysop_core::approval::approval_id;
use sysop_core::id::{CallId, Seq, SessionId, Timestamp};
use sysop_core::open_approval::OpenApproval;
use sysop_core::policy::RiskClass;
use sysop_driver::port::SessionSummary;

use super::{SharedServer, problem};
use crate::backend::SessionBackend;

/// Maximum number of sessions examined, the most recently changed first.
const SESSIONS_MAX: usize = 1000;
/// Number of events examined at the end of a log. A session that is waiting for an answer logs little else.
const EVENTS_MAX: u64 = 64;

#[derive(Serialize, JsonSchema)]
pub(super) struct ApprovalList {
    approvals: Vec<ApprovalRow>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ApprovalRow {
    /// Id of the approval, as passed to `sysop approve`.
    id: String,
    session_id: SessionId,
    tool_call_id: CallId,
    host: String,
    /// Name of the tool, such as `bash`.
    tool: String,
    command: String,
    /// The model's reason; may be empty.
    reason: String,
    risk: RiskClass,
    /// Effects found by a dry run, one per line.
    preview: Vec<String>,
    asked_at: Timestamp,
    /// Time after which the call is rejected; omitted if the approval does not expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    /// Number of different people who must allow the call.
    approvals: u32,
    /// Users who have allowed the call so far.
    given: Vec<String>,
}

/// `GET /api/approvals`.
pub(super) async fn list(State(shared): State<SharedServer>) -> Response {
    let backend = &shared.registry.backend;
    let sessions = match backend.list(SESSIONS_MAX).await {
        Ok(sessions) => sessions,
        Err(error) => return problem::backend_error(&shared, &error),
    };
    let now = sysop_driver::system_clock().now();
    let mut approvals = Vec::new();
    for session in sessions {
        let Some(open) = find_open(&**backend, &session, now).await else { continue };
        approvals.push(ApprovalRow {
            id: approval_id(&session.id, open.seq),
            session_id: session.id,
            tool_call_id: open.call,
            host: session.host,
            tool: open.tool,
            command: open.command,
            reason: open.reason,
            risk: open.risk,
            preview: open.preview,
            asked_at: open.at,
            expires_at: open.terms.expires,
            approvals: open.terms.people,
            given: open.given,
        });
    }
    approvals.sort_by_key(|row| row.asked_at);
    Json(ApprovalList { approvals }).into_response()
}

/// Returns the approval that a session waits for, from its log, or `None` if the approval has expired: it is rejected
/// as soon as its session is loaded.
pub(super) async fn find_open(
    backend: &dyn SessionBackend,
    session: &SessionSummary,
    now: Timestamp,
) -> Option<OpenApproval> {
    let after = Seq(session.last_seq.0.saturating_sub(EVENTS_MAX));
    let events = backend.events(&session.id, after).await;
    OpenApproval::after(&events).filter(|open| !open.terms.is_expired(now))
}
