//! Reloading a session that another process continued while it was idle here. See `docs/adr/0088`.
//!
//! The conflict shows when the events of the next input are appended. The events of the other process are then
//! published here, the settings of this process are put back, and the input is handled again. Nothing is reloaded
//! during work, whose events would no longer fit the log.

use std::sync::Arc;
use std::time::Duration;

use sysop_core::event::{Delta, Effect, Input};
use sysop_core::id::Seq;
use sysop_core::ui_text;

use super::{Inputs, LiveSession, Worker};
use crate::port::StoreError;
use crate::replay::{replay, replay_until};
use crate::speculate::EarlyCall;
use crate::{DriverError, LOAD_EVENTS_MAX};

/// Interval at which a session checks if another process still works on it.
const CLAIM_POLL: Duration = Duration::from_millis(500);

/// Notice shown before the events of another process.
const CONTINUED_ELSEWHERE: &str = "the session was continued in another process";

impl LiveSession {
    /// Handles inputs, then appends and publishes their events. Returns the effects, and the model call that was
    /// started early.
    pub(super) async fn handle_and_append(
        self: &Arc<Self>,
        worker: &mut Worker,
        inputs: Inputs,
    ) -> Result<(Vec<Effect>, Option<EarlyCall>), DriverError> {
        let again = self.is_reloadable(worker).then(|| inputs.clone());
        let effects = self.handle_all(worker, inputs);
        let end = self.end.child_token();
        let early = EarlyCall::start(&self.runtime.provider, &self.lease, end, &effects);
        match (self.append_and_publish(worker).await, again) {
            (Ok(()), _) => Ok((effects, early)),
            (Err(DriverError::Store(error)), Some(inputs)) if is_by_another_process(&error) => {
                drop(early);
                Ok((self.reload_and_handle(worker, inputs).await?, None))
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Returns true if the session waits for a prompt, all of its events are durable, and another process may append.
    fn is_reloadable(&self, worker: &Worker) -> bool {
        !self.lease.excludes_other_writers() && !worker.session.has_work() && worker.is_quiet()
    }

    /// Handles inputs again after another process has appended, or claimed the session. Waits until it ends its turn.
    async fn reload_and_handle(
        self: &Arc<Self>,
        worker: &mut Worker,
        mut inputs: Inputs,
    ) -> Result<Vec<Effect>, DriverError> {
        // Before the log is read, so that no other process can begin a turn meanwhile.
        self.claim_when_free(&mut inputs).await?;
        if inputs.is_empty() {
            // All of them were taken back. The worker's session has handled them already, and may have claimed its log.
            self.lease.end_claim();
            worker.session = replay_until(self.ports.store.as_ref(), &self.id, worker.seq).await?.0;
            return Ok(Vec::new());
        }
        let (session, seq) = replay(self.ports.store.as_ref(), &self.id).await?;
        let settings = session.changes_back_to(&worker.session);
        worker.session = session;
        if worker.seq < seq {
            self.inbox.lock().reloaded = worker.seq.next()..seq.next();
            self.hub.delta(&Delta::Notice { text: CONTINUED_ELSEWHERE.to_owned() });
        }
        self.publish_until(worker, seq).await?;
        let settings = settings.into_iter().map(|change| Input::Configure { change });
        let first = std::iter::once(Input::Recovered).chain(settings).map(|input| (input, None));
        let effects = self.handle_all(worker, first.chain(inputs).collect());
        self.append_and_publish(worker).await?;
        if !worker.session.has_work() {
            self.lease.end_claim(); // nothing was appended if the other process had set the same
        }
        Ok(effects)
    }

    /// Returns true if the last reload brought the event at this position.
    pub(crate) fn is_by_another_process(&self, event: Seq) -> bool {
        self.inbox.lock().reloaded.contains(&event)
    }

    /// Claims the session once no other process works on it. Removes the prompts that users take back meanwhile;
    /// returns without a claim if none of the inputs is left. Fails if a user cancels, or if the session ends here.
    async fn claim_when_free(&self, inputs: &mut Inputs) -> Result<(), StoreError> {
        let mut is_told = false;
        loop {
            self.withdraw_prompts(inputs);
            if inputs.is_empty() {
                return Ok(());
            }
            let error = match self.lease.claim().await {
                Err(error @ StoreError::InUse { .. }) => error,
                claimed => return claimed,
            };
            // A user may have decided during the attempt.
            let is_canceled = self.withdraw_prompts(inputs);
            if inputs.is_empty() {
                return Ok(());
            }
            if is_canceled || self.closed().is_some() {
                return Err(error);
            }
            if !std::mem::replace(&mut is_told, true) {
                self.hub.delta(&Delta::Notice { text: waiting_notice(&error) });
            }
            self.ports.clock.sleep(CLAIM_POLL).await;
        }
    }

    /// Carries out the queued requests to take back a prompt that waits: among `inputs`, or behind them in the queue.
    /// Returns true if a user cancels what is left.
    fn withdraw_prompts(&self, inputs: &mut Inputs) -> bool {
        let mut inbox = self.inbox.lock();
        let mut at = 0;
        while let Some((input, _)) = inbox.inputs.get(at) {
            let Input::WithdrawPrompt { text, by } = input.clone() else {
                at += 1;
                continue;
            };
            let is_it = |(input, _): &(Input, _)| is_prompt(input, &text, by.as_deref());
            if let Some(newest) = inbox.inputs.range(..at).rposition(is_it) {
                inbox.inputs.remove(at);
                inbox.inputs.remove(newest);
                at -= 1;
            } else if let Some(newest) = inputs.iter().rposition(is_it) {
                inbox.inputs.remove(at);
                inputs.remove(newest);
            } else {
                at += 1;
            }
        }
        is_canceled(inputs.iter().chain(&inbox.inputs).map(|(input, _)| input))
    }

    /// Publishes the events of the log up to `end` that the worker does not know.
    async fn publish_until(&self, worker: &mut Worker, end: Seq) -> Result<(), DriverError> {
        while worker.seq < end {
            let mut page = self.ports.store.load(&self.id, worker.seq, LOAD_EVENTS_MAX).await?;
            page.retain(|logged| logged.seq <= end);
            let Some(last) = page.last().map(|logged| logged.seq) else {
                return Err(StoreError::NotFound(self.id.clone()).into()); // deleted in the meantime
            };
            let page: Vec<_> = page.into_iter().map(Arc::new).collect();
            worker.seq = last;
            self.inbox.lock().seq = last;
            self.hub.publish(&page);
        }
        Ok(())
    }
}

fn is_prompt(input: &Input, wanted: &str, sender: Option<&str>) -> bool {
    matches!(input, Input::Prompt { text, by, .. } if text == wanted && by.as_deref() == sender)
}

/// Returns true if a cancel follows an input that begins work. A cancel before it is for an earlier turn.
fn is_canceled<'a>(inputs: impl Iterator<Item = &'a Input>) -> bool {
    let begins_work = |input: &&Input| {
        matches!(input, Input::Prompt { .. } | Input::Direct { .. } | Input::Retry | Input::Compact { .. })
    };
    inputs.skip_while(|input| !begins_work(input)).any(|input| matches!(input, Input::Cancel))
}

fn waiting_notice(error: &StoreError) -> String {
    let process = match error {
        StoreError::InUse { process, .. } => *process,
        StoreError::Conflict { .. }
        | StoreError::LeaseLost { .. }
        | StoreError::NotFound(_)
        | StoreError::NewerLog { .. }
        | StoreError::Unavailable(_)
        | StoreError::Corrupt(_) => None,
    };
    ui_text::waiting_for_process(process)
}

fn is_by_another_process(error: &StoreError) -> bool {
    match error {
        StoreError::Conflict { expected, found, .. } => found > expected,
        StoreError::InUse { .. } => true,
        StoreError::LeaseLost { .. }
        | StoreError::NotFound(_)
        | StoreError::NewerLog { .. }
        | StoreError::Unavailable(_)
        | StoreError::Corrupt(_) => false,
    }
}
