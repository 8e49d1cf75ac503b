//! Live lines that count the hosts on which a call has finished.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sysop_core::outcome::{Outcome, Status};
use sysop_core::ui_text::duration;
use sysop_driver::port::DeltaSink;

/// Counts the hosts on which a call has finished. Its lines, `[7/20 hosts] web1: ok, exit code 0, 8 ms`, do
/// not start with a host name and `|`, so no host's output can look like one.
#[derive(Clone)]
pub(super) struct Progress {
    all: usize,
    ended: Arc<AtomicUsize>,
    display: DeltaSink,
}

impl Progress {
    pub(super) fn new(all: usize, display: DeltaSink) -> Self {
        Self { all, ended: Arc::default(), display }
    }

    /// Returns the sink for the live output of the hosts; the progress lines go to the same sink.
    pub(super) fn sink(&self) -> DeltaSink {
        self.display.clone()
    }

    /// Displays that the call has finished on a host, unless there is only one host.
    pub(super) fn host_ended(&self, name: &str, outcome: &Outcome) {
        if self.all < 2 {
            return;
        }
        let ended = self.ended.fetch_add(1, Ordering::Relaxed) + 1;
        self.display.output(&format!("[{ended}/{} hosts] {name}: {}\n", self.all, end(outcome)));
    }
}

/// Returns the end of a call on a host. Has no duration if nothing ran.
fn end(outcome: &Outcome) -> String {
    if outcome.unreachable || outcome.status == Status::Rejected {
        return "not run".to_owned();
    }
    let code = outcome.exit_code.map(|code| format!(", exit code {code}")).unwrap_or_default();
    format!("{}{code}, {}", outcome.status.as_str(), duration(outcome.duration_ms))
}
