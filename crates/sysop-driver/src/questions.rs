//! The questions of one session that wait for an answer, and the line from its host to its people.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use async_trait::async_trait;
use secrecy::ExposeSecret;
use sysop_core::event::{Delta, Input, Typed};
use sysop_core::id::SessionId;
use sysop_core::question::{Question, QuestionId, QuestionKind};
use tokio::sync::oneshot;

use crate::live::Live;
use crate::people::{Answer, Asked, People};

/// The open questions of a session.
#[derive(Default)]
pub(crate) struct Questions {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: u64,
    open: BTreeMap<QuestionId, (Question, oneshot::Sender<Answer>)>,
}

impl Questions {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, asked: Asked) -> (Question, oneshot::Receiver<Answer>) {
        let mut state = self.state();
        state.last += 1;
        let Asked { kind, from, prompt, call } = asked;
        let question = Question { id: QuestionId(state.last), kind, from, prompt, call };
        let (sender, receiver) = oneshot::channel();
        state.open.insert(question.id, (question.clone(), sender));
        (question, receiver)
    }

    /// Takes a question away, to answer it or to forget it.
    pub(crate) fn take(&self, id: QuestionId) -> Option<(Question, oneshot::Sender<Answer>)> {
        self.state().open.remove(&id)
    }

    /// Takes all away: the session ended.
    pub(crate) fn clear(&self) {
        self.state().open.clear();
    }
}

/// The people of a session, for its host. Knows the session only as long as somebody else does.
pub(crate) struct SessionPeople(pub(crate) Weak<Live>);

/// Closes a question that nobody waits for any more.
struct Open<'a> {
    people: &'a SessionPeople,
    id: QuestionId,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(live) = self.people.0.upgrade()
            && live.questions.take(self.id).is_some()
        {
            live.hub.close_question(self.id, None);
        }
    }
}

#[async_trait]
impl People for SessionPeople {
    async fn ask(&self, asked: Asked) -> Answer {
        // The session must not be kept alive by a question that nobody answers.
        let (_open, answer) = {
            let Some(live) = self.0.upgrade() else { return Answer::Refused };
            if live.last_error().is_some() {
                return Answer::Refused;
            }
            let (question, answer) = live.questions.open(asked);
            let open = Open { people: self, id: question.id };
            live.hub.ask(&question);
            (open, answer)
        };
        answer.await.unwrap_or(Answer::Refused)
    }

    fn typed(&self, by: &str, typed: Typed) {
        if let Some(live) = self.0.upgrade() {
            live.answer(Input::TerminalInput { by: by.to_owned(), typed });
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

    fn session(&self) -> Option<SessionId> {
        self.0.upgrade().map(|live| live.id().clone())
    }
}

/// What the log may know of an answer.
pub(crate) fn logged(question: &Question, answer: &Answer) -> Option<(String, Typed)> {
    let Answer::Given { by, text } = answer else { return None };
    let prompt = question.prompt.clone();
    let typed = match question.kind {
        QuestionKind::Secret | QuestionKind::PerhapsSecret => Typed::Secret { prompt },
        QuestionKind::Text => Typed::Answer { prompt, text: text.expose_secret().to_owned() },
    };
    Some((by.clone(), typed))
}
