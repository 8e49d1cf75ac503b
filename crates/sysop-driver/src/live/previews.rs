//! Probes of effect previews. A probe never delays an approval for longer than [`WAIT_MAX`].

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use sysop_core::event::Input;
use sysop_core::preview::{self, PreviewPlan, ProbeResult};

use super::{LiveSession, Worker};

/// Time after which approval is requested without the preview.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// Time beyond the probe's own limit that a host gets to reach the machine and to stop the probe.
const ANSWER_TIME: Duration = Duration::from_secs(2);

impl LiveSession {
    pub(super) fn start_preview(self: &Arc<Self>, worker: &mut Worker, attempt: u32, plan: Box<PreviewPlan>) {
        let cancel = self.end.child_token();
        worker.preview = Some((attempt, cancel.clone()));
        let live = Arc::clone(self);
        tokio::spawn(async move {
            let probing = AssertUnwindSafe(live.host().probe(&plan, cancel.clone())).catch_unwind();
            let limit = plan.limit() + ANSWER_TIME;
            let overdue = live.ports.clock.sleep(limit);
            let late = live.ports.clock.sleep(WAIT_MAX);
            tokio::pin!(probing, overdue, late);
            let mut is_late = false;
            let results = loop {
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => return,
                    result = &mut probing => break result.map_err(|_| "internal error".to_owned()),
                    () = &mut overdue => break Err(format!("no answer within {} s", limit.as_secs())),
                    () = &mut late, if !is_late => {
                        is_late = true;
                        live.deliver(Input::PreviewLate { attempt });
                    }
                }
            };
            let failed = |why| vec![ProbeResult { host: String::new(), output: Err(why) }];
            let results = results.unwrap_or_else(failed);
            live.deliver(Input::Previewed { attempt, lines: preview::lines(&plan, &results) });
        });
    }
}

impl Worker {
    pub(super) fn cancel_preview(&mut self, attempt: u32) {
        if let Some((_, cancel)) = self.preview.take_if(|(running, _)| *running == attempt) {
            cancel.cancel();
        }
    }
}
