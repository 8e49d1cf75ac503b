//! Reloading a session that another process continued while it was idle here. See `docs/adr/0088`.
//!
//! The conflict shows when the events of the next input are appended. The events of the other process are then
//! published here, the settings of this process are put back, and the input is handled again. Nothing is reloaded
//! during work, whose events would no longer fit the log.

use std::sync::Arc;
use std::time::Duration;

use sysop_core::event::{Delta, Effect, Input};
use sysop_core::id::Seq;

use super::{Inputs, LiveSession, Worker};
use crate::port::StoreError;
use crate::replay::replay;
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
        inputs: Inputs,
    ) -> Result<Vec<Effect>, DriverError> {
        // Before the log is read, so that no other process can begin a turn meanwhile.
        self.claim_when_free(&inputs).await?;
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

    /// Claims the session once no other process works on it. Fails if a user cancels, or if the session ends here.
    async fn claim_when_free(&self, inputs: &Inputs) -> Result<(), StoreError> {
        let mut is_told = false;
        let begins_turn = |input: &Input| matches!(input, Input::Prompt { .. } | Input::Direct { .. });
        // A cancel before a prompt is for an earlier turn.
        let last = inputs.iter().rfind(|(input, _)| begins_turn(input) || matches!(input, Input::Cancel));
        let cancels = last.is_some_and(|(input, _)| matches!(input, Input::Cancel));
        loop {
            let error = match self.lease.claim().await {
                Err(error @ StoreError::InUse { .. }) => error,
                claimed => return claimed,
            };
            if cancels || self.closed().is_some() || self.has_cancel() {
                return Err(error);
            }
            if !std::mem::replace(&mut is_told, true) {
                self.hub.delta(&Delta::Notice { text: waiting_notice(&error) });
            }
            self.ports.clock.sleep(CLAIM_POLL).await;
        }
    }

    fn has_cancel(&self) -> bool {
        self.inbox.lock().inputs.iter().any(|(input, _)| matches!(input, Input::Cancel))
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

fn waiting_notice(error: &StoreError) -> String {
    let process = match error {
        StoreError::InUse { process: Some(process), .. } => format!(" ({process})"),
        StoreError::InUse { process: None, .. }
        | StoreError::Conflict { .. }
        | StoreError::LeaseLost { .. }
        | StoreError::NotFound(_)
        | StoreError::NewerLog { .. }
        | StoreError::Unavailable(_)
        | StoreError::Corrupt(_) => String::new(),
    };
    format!("waiting: the session is running in another process{process}")
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
