//! Remembers secrets that users enter for programs, so that all later output is redacted.

use std::sync::Arc;

use async_trait::async_trait;
use sysop_core::event::TypedInput;
use sysop_core::guard::GuardReport;
use sysop_core::id::{CallId, SessionId};
use sysop_core::question::QuestionKind;
use sysop_driver::prompter::{PromptReply, PromptRequest, Prompter};

use crate::output::redact::Secrets;

/// Prompter that forwards to another one and records the secrets among its replies.
pub(crate) struct LearningPrompter {
    people: Arc<dyn Prompter>,
    secrets: Arc<Secrets>,
}

impl LearningPrompter {
    pub(crate) fn wrap(people: Arc<dyn Prompter>, secrets: &Arc<Secrets>) -> Arc<dyn Prompter> {
        Arc::new(Self { people, secrets: Arc::clone(secrets) })
    }
}

#[async_trait]
impl Prompter for LearningPrompter {
    async fn ask(&self, asked: PromptRequest) -> PromptReply {
        let kind = asked.kind;
        let reply = self.people.ask(asked).await;
        if let (PromptReply::Given { text, .. }, QuestionKind::Secret | QuestionKind::PerhapsSecret) =
            (&reply, kind)
        {
            self.secrets.learn(text);
        }
        reply
    }

    fn typed(&self, by: &str, typed: TypedInput) {
        self.people.typed(by, typed);
    }

    fn control(&self, holder: Option<&str>) {
        self.people.control(holder);
    }

    fn notice(&self, text: &str) {
        self.people.notice(text);
    }

    fn guard(&self, call: &CallId, host: &str, report: GuardReport) {
        self.people.guard(call, host, report);
    }

    fn session(&self) -> Option<SessionId> {
        self.people.session()
    }
}
