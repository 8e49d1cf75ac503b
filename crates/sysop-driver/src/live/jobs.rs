//! Effects for background jobs: moving a call to the background, and reading the output of a job.

use std::sync::Arc;
use std::time::Duration;

use sysop_core::event::Input;
use sysop_core::id::CallId;
use sysop_core::job::RunningJobs;

use super::{LiveSession, Worker};

/// Shown if a user stops a job that is not running.
pub(super) const NO_SUCH_JOB: &str = "no job with this number is running; see /jobs";
/// Shown if a user moves a command to the background and none is running that can go there.
pub(super) const NO_COMMAND: &str =
    "no running command to move to the background (only `bash` commands, 64 at most)";

impl LiveSession {
    pub(crate) fn running_jobs(&self) -> RunningJobs {
        self.inbox.lock().jobs.clone()
    }

    pub(super) fn start_background_timer(
        self: &Arc<Self>,
        worker: &mut Worker,
        call: CallId,
        after: Duration,
    ) {
        let (live, output) = (Arc::clone(self), Arc::clone(&worker.running(&call, &self.end).output));
        tokio::spawn(async move {
            tokio::select! {
                () = live.end.cancelled() => {}
                () = output.ended.cancelled() => {}
                () = live.ports.clock.sleep(after) => {
                    let output = output.tail(|text| live.host().redact(text));
                    live.deliver(Input::BackgroundTimer { call, output });
                }
            }
        });
    }

    pub(super) fn start_reading_job(
        self: &Arc<Self>,
        worker: &mut Worker,
        call: CallId,
        job: &CallId,
        wait: Duration,
    ) {
        let output = worker.tools.get(job).map(|running| Arc::clone(&running.output));
        let cancel = worker.running(&call, &self.end).cancel.clone();
        let live = Arc::clone(self);
        tokio::spawn(async move {
            let tail = match output {
                None => String::new(),
                Some(output) => {
                    tokio::select! {
                        biased;
                        () = output.ended.cancelled() => {}
                        () = cancel.cancelled() => {}
                        () = live.ports.clock.sleep(wait) => {}
                    }
                    output.tail(|text| live.host().redact(text))
                }
            };
            live.deliver(Input::JobRead { call, output: tail });
        });
    }
}
