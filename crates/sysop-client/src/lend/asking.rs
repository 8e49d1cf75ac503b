//! What this machine itself asks the person at this client: programs that want a password, calls that nobody allowed.
//!
//! These questions are never sent to the server, and no answer to one of the server's is taken for one of these.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use async_trait::async_trait;
use sysop_core::event::{Delta, Typed, Update};
use sysop_core::question::{Question, QuestionId};
use sysop_driver::people::{Answer, Asked, People};
use tokio::sync::oneshot;

use crate::hub::Hub;

/// Where the numbers of this machine's own questions begin; a server counts from 1, and has none of these.
pub(crate) const OWN_FROM: u64 = 1 << 52;

/// The open questions of one session.
pub(crate) struct Asking {
    hub: Arc<Hub>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: u64,
    open: BTreeMap<QuestionId, oneshot::Sender<Answer>>,
}

impl Asking {
    pub(crate) fn new(hub: Arc<Hub>) -> Self {
        Self { hub, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks; dropping it takes the question back.
    pub(crate) async fn ask(&self, asked: Asked) -> Answer {
        let (sender, answer) = oneshot::channel();
        let Asked { kind, from, prompt, call } = asked;
        let id = {
            let mut state = self.state();
            state.last += 1;
            let id = QuestionId(OWN_FROM + state.last);
            state.open.insert(id, sender);
            id
        };
        let _open = Open { asking: self, id };
        self.hub.ask(Question { id, kind, from, prompt, call });
        answer.await.unwrap_or(Answer::Refused)
    }

    /// Answers; says whether it was open.
    pub(crate) fn answer(&self, id: QuestionId, answer: Answer) -> bool {
        let Some(waiting) = self.state().open.remove(&id) else { return false };
        let by = match &answer {
            Answer::Given { by, .. } => Some(by.clone()),
            Answer::NoSecret | Answer::Refused => None,
        };
        self.hub.close_question(id, by.as_deref());
        waiting.send(answer).is_ok()
    }
}

struct Open<'a> {
    asking: &'a Asking,
    id: QuestionId,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if self.asking.state().open.remove(&self.id).is_some() {
            self.asking.hub.close_question(self.id, None);
        }
    }
}

/// The people behind the session that is open now, for a host that several sessions use one after the other.
#[derive(Default)]
pub(crate) struct CurrentPeople(Mutex<Weak<Asking>>);

impl CurrentPeople {
    pub(crate) fn are(&self, asking: &Arc<Asking>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(asking);
    }

    fn now(&self) -> Option<Arc<Asking>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }
}

#[async_trait]
impl People for CurrentPeople {
    async fn ask(&self, asked: Asked) -> Answer {
        match self.now() {
            Some(asking) => asking.ask(asked).await,
            None => Answer::Refused,
        }
    }

    /// What a person types into a terminal of this machine is no business of the server's log.
    fn typed(&self, _: &str, _: Typed) {}

    fn control(&self, holder: Option<&str>) {
        if let Some(asking) = self.now() {
            let holder = holder.map(str::to_owned);
            asking.hub.publish(&Update::Delta(Delta::Control { holder }));
        }
    }

    fn notice(&self, text: &str) {
        if let Some(asking) = self.now() {
            asking.hub.notice(text);
        }
    }
}
