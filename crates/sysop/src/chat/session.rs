//! A session as the line-oriented faces need it: inputs in, updates out. Holds no logic.

use std::sync::Arc;

use futures::stream::BoxStream;
use sysop_core::event::{Input, Update};
use sysop_core::id::{Seq, SessionId};
use sysop_core::question::QuestionId;
use sysop_core::session::SessionSpec;
use sysop_driver::people::{Answer, Terminal};

/// A live session, here or on a server.
pub(crate) trait Session: Send + Sync {
    /// Its id.
    fn id(&self) -> &SessionId;
    /// Tells it something; never blocks. The error is one sentence.
    fn send(&self, input: Input) -> Result<(), String>;
    /// What is logged after `after`, once and in order, then live. Ends when the session is gone.
    fn subscribe(&self, after: Seq) -> BoxStream<'static, Update>;
    /// Answers a question of a program; says whether it was still open.
    fn answer(&self, id: QuestionId, answer: Answer) -> bool;
    /// Its terminal, where its host has one.
    fn terminal(&self) -> Option<Arc<dyn Terminal>>;
    /// Why it is gone, where that is known.
    fn last_error(&self) -> Option<String>;
}

/// A session that was just opened.
#[derive(Clone)]
pub(crate) struct Opened {
    /// The session.
    pub(crate) session: Arc<dyn Session>,
    /// The last event that was in its log before; 0 for a new one.
    pub(crate) last: Seq,
    /// How it works. A new one is logged with its first input only, so that this is not in its log yet.
    pub(crate) spec: Arc<SessionSpec>,
}
