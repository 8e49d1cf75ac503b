//! Messages of events that do not affect `state`.

use sysop_core::compaction::Compaction;
use sysop_core::event::Event;
use sysop_core::id::SessionId;
use sysop_core::instructions::Instructions;
use sysop_core::job::RunningJobs;

use crate::server_message::{LogPosition, ServerMessage};

/// Encodes an event that does not affect `state`; returns `None` for any other event.
#[expect(clippy::wildcard_enum_match_arm, reason = "other events affect `state`")]
pub(super) fn message(
    session_id: SessionId,
    position: LogPosition,
    event: &Event,
    jobs: &RunningJobs,
) -> Option<ServerMessage> {
    Some(match event.clone() {
        Event::TerminalInput { by, typed } => {
            ServerMessage::TerminalTyped { session_id, position, by, typed }
        }
        Event::ContextCompacted { compaction } => context_compacted(session_id, position, compaction),
        Event::InstructionsLoaded { instructions: Instructions { mut files, untrusted, mut skills } } => {
            // The user's own words are for the model only.
            files.iter_mut().for_each(|file| file.text.clear());
            skills.found.iter_mut().for_each(|skill| skill.body.clear());
            ServerMessage::Instructions { session_id, position, files, untrusted, skills }
        }
        Event::PromptExpanded { text, commands } => {
            ServerMessage::PromptExpanded { session_id, position, text, commands }
        }
        Event::TodoChanged { items } => ServerMessage::Todo { session_id, position, items },
        Event::JobStarted { job: job_id, call: tool_call_id, command, host } => {
            ServerMessage::JobStarted { session_id, position, job_id, tool_call_id, command, host }
        }
        Event::JobFinished { job: job_id, status, exit_code, output } => {
            let job = jobs.job(job_id);
            let command = job.map(|job| job.command.clone()).unwrap_or_default();
            let host = job.map(|job| job.host.clone()).unwrap_or_default();
            ServerMessage::JobFinished {
                session_id,
                position,
                job_id,
                command,
                host,
                status,
                exit_code,
                output,
            }
        }
        Event::GuardArmed { call: tool_call_id, host, seconds } => {
            ServerMessage::GuardArmed { session_id, position, tool_call_id, host, seconds }
        }
        Event::GuardEnded { call: tool_call_id, host, how } => {
            ServerMessage::GuardEnded { session_id, position, tool_call_id, host, how }
        }
        Event::ApprovalPreviewed { call: tool_call_id, command, risk, preview } => {
            let (risk, findings) = risk.map(|risk| (risk.class, risk.findings)).unzip();
            let findings = findings.unwrap_or_default();
            ServerMessage::ApprovalPreview {
                session_id,
                position,
                tool_call_id,
                command,
                risk,
                findings,
                preview,
            }
        }
        Event::ApprovalGiven { call: tool_call_id, by, needed, .. } => {
            ServerMessage::ApprovalGiven { session_id, position, tool_call_id, by, needed }
        }
        Event::Undone { call: tool_call_id, step, by, how } => {
            ServerMessage::Undone { session_id, position, tool_call_id, step, by, how }
        }
        _ => return None,
    })
}

fn context_compacted(session_id: SessionId, position: LogPosition, compaction: Compaction) -> ServerMessage {
    let Compaction {
        tokens_before,
        tokens_after,
        elided,
        images_elided: _,
        ledger,
        summary,
        focus,
        keep,
        replaced,
        reason,
        usage,
    } = compaction;
    ServerMessage::ContextCompacted {
        session_id,
        position,
        before: tokens_before,
        after: tokens_after,
        elided,
        ledger,
        summary,
        focus,
        kept_messages: keep,
        replaced_messages: replaced,
        reason,
        usage: (!usage.is_zero()).then(|| usage.into()),
    }
}
