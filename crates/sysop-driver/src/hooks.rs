//! Port to the user's hooks: programs that examine calls before they run, and that are told about events.

use std::sync::Arc;

use async_trait::async_trait;
use sysop_core::event::Logged;
use sysop_core::hook::{HookAnswer, HookQuestion};
use sysop_core::id::SessionId;

#[async_trait]
pub trait SessionHooks: Send + Sync {
    /// Asks the hooks about a call that the policy does not deny. A hook that fails answers as configured. The future
    /// is dropped if the session ends; its programs must end then, too.
    async fn ask(&self, session: &SessionId, question: HookQuestion) -> HookAnswer;

    /// Reports events that are durable. Must not block; what cannot be delivered is dropped.
    fn report(&self, session: &SessionId, events: &[Arc<Logged>]);
}
