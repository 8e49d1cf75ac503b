//! This machine's questions to the client's user: passwords that programs ask for, calls that need approval.
//!
//! These questions are never sent to the server, and an answer to the server's question never answers one of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use parking_lot::Mutex;
use sysop_core::event::{Delta, TypedInput, Update};
use sysop_core::question::{Question, QuestionId};
use sysop_driver::prompter::{PromptReply, PromptRequest, Prompter};
use tokio::sync::oneshot;

use crate::fanout::UpdateFanout;

/// Asks this machine's questions in one session, and passes each answer to the code that asked.
pub(crate) struct LocalPrompts {
    fanout: Arc<UpdateFanout>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: u64,
    open: BTreeMap<QuestionId, oneshot::Sender<PromptReply>>,
}

impl LocalPrompts {
    pub(crate) fn new(fanout: Arc<UpdateFanout>) -> Self {
        Self { fanout, state: Mutex::default() }
    }

    /// Asks the user and waits for the reply. Dropping the future withdraws the question.
    pub(crate) async fn ask(&self, asked: PromptRequest) -> PromptReply {
        let (sender, answer) = oneshot::channel();
        let PromptRequest { kind, from, details, prompt, call } = asked;
        let id = {
            let mut state = self.state.lock();
            state.last += 1;
            let id = QuestionId(QuestionId::OF_CLIENT_FROM + state.last);
            state.open.insert(id, sender);
            id
        };
        let _open = PendingPrompt { prompts: self, id };
        self.fanout.ask(Question { id, kind, from, details, prompt, call });
        answer.await.unwrap_or(PromptReply::Refused)
    }

    /// Answers a question. Returns true if the question was pending.
    pub(crate) fn answer(&self, id: QuestionId, answer: PromptReply) -> bool {
        let Some(waiting) = self.state.lock().open.remove(&id) else { return false };
        let by = match &answer {
            PromptReply::Given { by, .. } => Some(by.clone()),
            PromptReply::NoSecret | PromptReply::Refused => None,
        };
        self.fanout.close_question(id, by.as_deref());
        waiting.send(answer).is_ok()
    }
}

struct PendingPrompt<'a> {
    prompts: &'a LocalPrompts,
    id: QuestionId,
}

impl Drop for PendingPrompt<'_> {
    fn drop(&mut self) {
        if self.prompts.state.lock().open.remove(&self.id).is_some() {
            self.prompts.fanout.close_question(self.id, None);
        }
    }
}

/// Prompter for a host that several sessions use in turn. Forwards questions to the session that is open now.
#[derive(Default)]
pub(crate) struct CurrentSessionPrompter(Mutex<Weak<LocalPrompts>>);

impl CurrentSessionPrompter {
    pub(crate) fn set_current(&self, prompts: &Arc<LocalPrompts>) {
        *self.0.lock() = Arc::downgrade(prompts);
    }

    fn current(&self) -> Option<Arc<LocalPrompts>> {
        self.0.lock().upgrade()
    }
}

#[async_trait]
impl Prompter for CurrentSessionPrompter {
    async fn ask(&self, asked: PromptRequest) -> PromptReply {
        match self.current() {
            Some(prompts) => prompts.ask(asked).await,
            None => PromptReply::Refused,
        }
    }

    /// Does nothing, because input typed into a terminal of this machine does not belong in the server's log.
    fn typed(&self, _: &str, _: TypedInput) {}

    fn control(&self, holder: Option<&str>) {
        if let Some(prompts) = self.current() {
            let holder = holder.map(str::to_owned);
            prompts.fanout.publish(&Update::Delta(Delta::Control { holder }));
        }
    }

    fn notice(&self, text: &str) {
        if let Some(prompts) = self.current() {
            prompts.fanout.notice(text);
        }
    }
}
