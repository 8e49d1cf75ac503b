//! Effects that examine a call before it runs: the survey of its host, and the questions to the user's hooks.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use sysop_core::event::Input;
use sysop_core::hook::{HookAnswer, HookQuestion};
use sysop_core::message::ToolCall;
use sysop_core::policy::{CommandContext, Fence, Survey};
use sysop_core::tool::ClientTools;

use super::LiveSession;

/// Reason shown to the user who must decide because the hooks panicked.
const FAILED: &str = "the hooks failed with an internal error";

impl LiveSession {
    /// Surveys the host for a call, unless its survey is already known.
    pub(super) fn start_survey(
        self: &Arc<Self>,
        call: ToolCall,
        known: Option<Survey>,
        shell: Fence,
        attempt: u32,
    ) {
        let live = Arc::clone(self);
        tokio::spawn(async move {
            let surveying = async {
                match known {
                    Some(survey) => survey,
                    None if shell == Fence::Off => live.host().survey(&call).await,
                    None => live.host().survey_fenced(&call, &shell).await,
                }
            };
            let survey = tokio::select! {
                biased;
                () = live.end.cancelled() => return,
                result = AssertUnwindSafe(surveying).catch_unwind() => result.ok(),
                () = live.survey_overdue() => None,
            };
            let survey = survey.unwrap_or_default(); // an empty survey makes the call opaque
            live.deliver(Input::Surveyed { call: call.id, attempt, survey: Box::new(survey) });
        });
    }

    pub(super) fn start_hooks(self: &Arc<Self>, question: HookQuestion, attempt: u32) {
        let (live, call) = (Arc::clone(self), question.call.id.clone());
        tokio::spawn(async move {
            let answering = async {
                match &live.runtime.hooks {
                    Some(hooks) => hooks.ask(&live.id, question).await,
                    None => HookAnswer::Pass, // the config no longer has hooks
                }
            };
            let answer = tokio::select! {
                biased;
                () = live.end.cancelled() => return,
                answer = AssertUnwindSafe(answering).catch_unwind() => answer,
            };
            let answer = answer.unwrap_or_else(|_| HookAnswer::Ask { reason: FAILED.to_owned() });
            live.deliver(Input::HooksAnswered { call, attempt, answer });
        });
    }
}

/// Returns the survey of a call that runs on a client. The client assesses the call again with its own survey.
pub(super) fn survey_of_client(client_tools: &ClientTools) -> Survey {
    let root = Some(client_tools.root.clone()).filter(|root| root.starts_with('/'));
    Survey::elsewhere(CommandContext { folder: root.clone(), root, ..CommandContext::bash() })
}
