//! Effects that examine a call before it runs: the survey of its host, and the questions to the user's hooks, which
//! also examine prompts and approvals.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use sysop_core::event::{Decision, Event, Input, Logged};
use sysop_core::hook::{HookAnswer, HookQuestion};
use sysop_core::id::TurnId;
use sysop_core::message::ToolCall;
use sysop_core::policy::{CommandContext, Fence, NO_ANSWER, Survey};
use sysop_core::tool::ClientTools;

use super::{LiveSession, SURVEY_TIME_MAX};
use crate::hooks::SessionHooks;

/// Reason why nothing is known of a host whose survey panicked.
const SURVEY_FAILED: &str = "the survey of the host failed with an internal error";
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
                result = AssertUnwindSafe(surveying).catch_unwind() => {
                    result.unwrap_or_else(|_| Survey::without_facts(SURVEY_FAILED))
                }
                () = live.survey_overdue() => {
                    let seconds = SURVEY_TIME_MAX.as_secs();
                    Survey::without_facts(format!("the host {NO_ANSWER} {seconds} s"))
                }
            };
            live.deliver(Input::Surveyed { call: call.id, attempt, survey: Box::new(survey) });
        });
    }

    pub(super) fn start_hooks(self: &Arc<Self>, question: HookQuestion, attempt: u32) {
        let (live, call) = (Arc::clone(self), question.call.id.clone());
        tokio::spawn(async move {
            let asking = async {
                match &live.runtime.hooks {
                    Some(hooks) => hooks.ask(&live.id, question).await,
                    None => HookAnswer::Pass, // the config no longer has hooks
                }
            };
            let Some(answer) = live.hook_answer(asking).await else { return };
            live.deliver(Input::HooksAnswered { call, attempt, answer });
        });
    }

    pub(super) fn start_prompt_hooks(self: &Arc<Self>, turn: TurnId, prompt: String) {
        let live = Arc::clone(self);
        tokio::spawn(async move {
            let asking = async {
                match &live.runtime.hooks {
                    Some(hooks) => hooks.ask_about_prompt(&live.id, &prompt).await,
                    None => HookAnswer::Pass,
                }
            };
            let Some(answer) = live.hook_answer(asking).await else { return };
            live.deliver(Input::PromptHooksAnswered { turn, answer });
        });
    }

    /// Asks the hooks about each approval among these events. A hook may reject it like a user, and never allows it.
    pub(super) fn start_approval_hooks(
        self: &Arc<Self>,
        hooks: &Arc<dyn SessionHooks>,
        events: &[Arc<Logged>],
    ) {
        for asked in events {
            let Event::ApprovalAsked { call, .. } = &asked.event else { continue };
            let (live, hooks) = (Arc::clone(self), Arc::clone(hooks));
            let (call, asked) = (call.id.clone(), Arc::clone(asked));
            tokio::spawn(async move {
                let answer = live.hook_answer(hooks.ask_about_approval(&live.id, &asked)).await;
                if let Some(HookAnswer::Deny { reason }) = answer {
                    let decision = Decision::Reject { reason };
                    live.deliver(Input::Decision {
                        call,
                        decision,
                        by: Decision::BY_HOOK.to_owned(),
                        person: None,
                    });
                }
            });
        }
    }

    /// Waits for the hooks. Returns `None` if the session ends first, and `Ask` if the hooks panic.
    async fn hook_answer(&self, asking: impl Future<Output = HookAnswer>) -> Option<HookAnswer> {
        tokio::select! {
            biased;
            () = self.end.cancelled() => None,
            answer = AssertUnwindSafe(asking).catch_unwind() => {
                Some(answer.unwrap_or_else(|_| HookAnswer::Ask { reason: FAILED.to_owned() }))
            }
        }
    }
}

/// Returns the survey of a call that runs on a client. The client assesses the call again with its own survey.
pub(super) fn survey_of_client(client_tools: &ClientTools) -> Survey {
    let root = Some(client_tools.root.clone()).filter(|root| root.starts_with('/'));
    Survey::elsewhere(CommandContext { folder: root.clone(), root, ..CommandContext::bash() })
}
