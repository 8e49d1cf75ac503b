//! Live output of one host among several: whole lines, each prefixed with the host's name.

use std::sync::Arc;

use parking_lot::Mutex;
use sysop_driver::port::DeltaSink;

/// Maximum bytes of an incomplete line. A longer line is displayed in parts, each as a line of its own.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// Prefixes each line of one host's output with the name of the host, for the display that all hosts share.
#[derive(Clone)]
pub(super) struct LinePrefixer(Arc<PrefixerState>);

struct PrefixerState {
    name: Arc<str>,
    unfinished: Mutex<String>,
    display: DeltaSink,
}

impl LinePrefixer {
    pub(super) fn new(name: &Arc<str>, display: DeltaSink) -> Self {
        Self(Arc::new(PrefixerState { name: Arc::clone(name), unfinished: Mutex::default(), display }))
    }

    pub(super) fn sink(&self) -> DeltaSink {
        let shared = Arc::clone(&self.0);
        DeltaSink::new(move |text| shared.take(text))
    }

    /// Displays the last line if it is incomplete. Must be called after all output.
    pub(super) fn finish(&self) {
        self.0.pass_on(|unfinished| unfinished.len());
    }
}

impl PrefixerState {
    fn take(&self, text: &str) {
        self.pass_on(|unfinished| {
            unfinished.push_str(text);
            let whole = unfinished.rfind('\n').map_or(0, |end| end + 1);
            if unfinished.len() - whole > LINE_BYTES_MAX { unfinished.len() } else { whole }
        });
    }

    /// Displays the first bytes of `unfinished` in one update, with the host's name before each line, and removes them
    /// from `unfinished`. `ready` returns the number of these bytes.
    fn pass_on(&self, ready: impl FnOnce(&mut String) -> usize) {
        let mut unfinished = self.unfinished.lock();
        let ready = ready(&mut unfinished);
        let mut shown = String::new();
        for line in unfinished[..ready].lines() {
            shown.push_str(&self.name);
            shown.push_str(" | ");
            shown.push_str(line);
            shown.push('\n');
        }
        unfinished.drain(..ready);
        if !shown.is_empty() {
            self.display.output(&shown);
        }
    }
}
