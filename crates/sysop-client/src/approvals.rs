//! Pending approvals on a server, for a program that answers one and exits.

use serde::Deserialize;
use serde_json::json;
use sysop_core::id::{CallId, SessionId, Timestamp};
use sysop_core::policy::RiskClass;

use crate::api::Api;
use crate::{ClientError, ServerAddress};

/// An approval that is waiting for an answer. Its strings are untrusted.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingApproval {
    /// Approval id, unique per request.
    pub id: String,
    pub session_id: SessionId,
    pub tool_call_id: CallId,
    pub host: String,
    pub tool: String,
    pub command: String,
    #[serde(default)]
    pub reason: String,
    pub risk: RiskClass,
    #[serde(default)]
    pub preview: Vec<String>,
    pub asked_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    /// Number of different people who must allow the call.
    #[serde(default)]
    pub approvals: u32,
    /// Users who have allowed the call so far.
    #[serde(default)]
    pub given: Vec<String>,
}

#[derive(Deserialize)]
struct ApprovalList {
    approvals: Vec<WaitingApproval>,
}

pub struct ApprovalClient(Api);

impl ApprovalClient {
    /// Creates a client. Nothing is sent yet.
    pub fn new(server: ServerAddress) -> Result<Self, ClientError> {
        Api::new(server).map(Self)
    }

    /// Lists the pending approvals, oldest first. Fails if the server is unreachable or rejects the token.
    pub async fn waiting(&self) -> Result<Vec<WaitingApproval>, ClientError> {
        let list = self.0.get(&["api", "approvals"], &[]).await?;
        let list: ApprovalList = serde_json::from_value(list).map_err(|error| {
            ClientError::Failed(format!("the server's list of approvals is invalid: {error}"))
        })?;
        Ok(list.approvals)
    }

    /// Allows a call once, or rejects it with a reason. Fails if the server is unreachable, rejects the
    /// token, or is no longer waiting for this answer.
    pub async fn answer(&self, approval: &WaitingApproval, reject: Option<&str>) -> Result<(), ClientError> {
        let decision = match reject {
            None => json!({ "toolCallId": approval.tool_call_id, "decision": "allow" }),
            Some(why) => json!({ "toolCallId": approval.tool_call_id, "decision": "reject", "reason": why }),
        };
        let session = approval.session_id.as_str();
        self.0.post(&["api", "agent", "sessions", session, "decisions"], &decision).await.map(drop)
    }
}
