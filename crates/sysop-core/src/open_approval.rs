//! The approval that is open at the end of a log.

use crate::approval::ApprovalTerms;
use crate::event::{Event, Logged};
use crate::id::{CallId, Seq, Timestamp};
use crate::policy::RiskClass;

/// An approval that is waiting for an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenApproval {
    /// Position of the request in the log.
    pub seq: Seq,
    /// Time of the request.
    pub at: Timestamp,
    pub call: CallId,
    pub tool: String,
    /// The command, or a short form of the call.
    pub command: String,
    /// The model's reason; may be empty.
    pub reason: String,
    pub risk: RiskClass,
    pub preview: Vec<String>,
    pub terms: ApprovalTerms,
    /// Users who have allowed the call so far.
    pub given: Vec<String>,
}

impl OpenApproval {
    /// Returns the approval that is open after these events, the last ones of a log.
    #[expect(clippy::wildcard_enum_match_arm, reason = "no other event opens or closes an approval")]
    pub fn after<'a>(events: impl IntoIterator<Item = &'a Logged>) -> Option<Self> {
        let mut open: Option<Self> = None;
        for logged in events {
            match &logged.event {
                Event::ApprovalAsked { call, command, reason, risk, preview, terms, .. } => {
                    open = Some(Self {
                        seq: logged.seq,
                        at: logged.at,
                        call: call.id.clone(),
                        tool: call.name.clone(),
                        command: command.clone(),
                        reason: reason.clone(),
                        risk: risk.class,
                        preview: preview.clone(),
                        terms: *terms,
                        given: Vec::new(),
                    });
                }
                Event::ApprovalGiven { by, .. } => {
                    open.iter_mut().for_each(|open| open.given.push(by.clone()));
                }
                Event::Decided { .. } | Event::ToolStarted { .. } | Event::TurnEnded { .. } => open = None,
                _ => {}
            }
        }
        open
    }
}
