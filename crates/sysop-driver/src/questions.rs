//! Open questions of one session, and the prompter that connects its host to its users.

use std::collections::BTreeMap;
use std::sync::Weak;

use async_trait::async_trait;
use parking_lot::Mutex;
use secrecy::ExposeSecret;
use sysop_core::event::{Delta, Input, TypedInput};
use sysop_core::guard::GuardReport;
use sysop_core::id::{CallId, SessionId};
use sysop_core::question::{Question, QuestionId, QuestionKind};
use tokio::sync::oneshot;

use crate::live::LiveSession;
use crate::prompter::{PromptReply, PromptRequest, Prompter};

#[derive(Default)]
pub(crate) struct Questions {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: u64,
    open: BTreeMap<QuestionId, (Question, oneshot::Sender<PromptReply>)>,
}

impl Questions {
    fn open(&self, asked: PromptRequest) -> (Question, oneshot::Receiver<PromptReply>) {
        let mut state = self.state.lock();
        state.last += 1;
        let PromptRequest { kind, from, details, prompt, call } = asked;
        let question = Question { id: QuestionId(state.last), kind, from, details, prompt, call };
        let (sender, receiver) = oneshot::channel();
        state.open.insert(question.id, (question.clone(), sender));
        (question, receiver)
    }

    /// Removes a question, to answer or to withdraw it.
    pub(crate) fn take(&self, id: QuestionId) -> Option<(Question, oneshot::Sender<PromptReply>)> {
        self.state.lock().open.remove(&id)
    }

    pub(crate) fn has_open(&self) -> bool {
        !self.state.lock().open.is_empty()
    }

    /// Removes all questions, because the session ended.
    pub(crate) fn clear(&self) {
        self.state.lock().open.clear();
    }
}

/// Connects the host of a session to the session's users. It does not keep the session alive.
pub(crate) struct SessionPrompter(pub(crate) Weak<LiveSession>);

/// Closes a question when it is dropped, because the program no longer waits for the answer.
struct OpenQuestion<'a> {
    prompter: &'a SessionPrompter,
    id: QuestionId,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        if let Some(live) = self.prompter.0.upgrade()
            && live.questions.take(self.id).is_some()
        {
            live.hub.close_question(self.id, None);
        }
    }
}

#[async_trait]
impl Prompter for SessionPrompter {
    async fn ask(&self, asked: PromptRequest) -> PromptReply {
        // An unanswered question must not keep the session alive.
        let (_open, answer) = {
            let Some(live) = self.0.upgrade() else { return PromptReply::Refused };
            if live.last_error().is_some() {
                return PromptReply::Refused;
            }
            let (question, answer) = live.questions.open(asked);
            let open = OpenQuestion { prompter: self, id: question.id };
            live.hub.ask(&question);
            (open, answer)
        };
        answer.await.unwrap_or(PromptReply::Refused)
    }

    fn typed(&self, by: &str, typed: TypedInput) {
        if let Some(live) = self.0.upgrade() {
            live.deliver(Input::TerminalInput { by: by.to_owned(), typed });
        }
    }

    fn control(&self, holder: Option<&str>) {
        if let Some(live) = self.0.upgrade() {
            live.hub.delta(&Delta::Control { holder: holder.map(str::to_owned) });
        }
    }

    fn notice(&self, text: &str) {
        if let Some(live) = self.0.upgrade() {
            live.hub.delta(&Delta::Notice { text: text.to_owned() });
        }
    }

    fn guard(&self, call: &CallId, host: &str, report: GuardReport) {
        if let Some(live) = self.0.upgrade() {
            live.deliver(Input::Guard { call: call.clone(), host: host.to_owned(), report });
        }
    }

    fn session(&self) -> Option<SessionId> {
        self.0.upgrade().map(|live| live.id().clone())
    }
}

/// Returns the user's name and the part of the answer that may be logged, or `None` if no answer was given. For a
/// secret, only the program's prompt is returned.
pub(crate) fn loggable_input(question: &Question, answer: &PromptReply) -> Option<(String, TypedInput)> {
    let PromptReply::Given { by, text } = answer else { return None };
    let prompt = question.prompt.clone();
    let typed = match question.kind {
        QuestionKind::Secret | QuestionKind::PerhapsSecret => TypedInput::Secret { prompt },
        QuestionKind::Text => TypedInput::Answer { prompt, text: text.expose_secret().to_owned() },
    };
    Some((by.clone(), typed))
}
