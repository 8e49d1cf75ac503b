//! Port to the user's hooks: programs that examine prompts, calls and approvals, and that are notified of events.

use std::sync::Arc;

use async_trait::async_trait;
use sysop_core::event::Logged;
use sysop_core::hook::{HookAnswer, HookQuestion};
use sysop_core::id::SessionId;

#[async_trait]
pub trait SessionHooks: Send + Sync {
    /// Asks the hooks about a call that the policy does not deny. A hook that fails gives the configured
    /// answer. The future is dropped if the session ends; the hooks' programs must then be killed, too.
    async fn ask(&self, session: &SessionId, question: HookQuestion) -> HookAnswer;

    /// Asks the hooks about a prompt that no model has got yet.
    async fn ask_about_prompt(&self, session: &SessionId, prompt: &str) -> HookAnswer;

    /// Asks the hooks about an approval that was requested with this event. Their answer may reject it.
    async fn ask_about_approval(&self, session: &SessionId, asked: &Logged) -> HookAnswer;

    /// Reports durable events. Must not block; events that cannot be delivered are dropped.
    fn report(&self, session: &SessionId, events: &[Arc<Logged>]);
}
