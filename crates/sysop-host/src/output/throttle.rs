//! Limits the rate of live output to a readable speed. If there is more output, its middle is left out.

use std::time::Duration;

use sysop_core::ui_text::counted;
use sysop_driver::port::DeltaSink;
use tokio::time::Instant;

use super::OutputLimits;
use super::head_tail::{HeadTail, unfinished};

/// Maximum bytes per update of the display.
const DELTA_BYTES_MAX: usize = 64 * 1024;
/// Minimum time between two updates.
const DELTA_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Throttle {
    sink: DeltaSink,
    waiting: HeadTail,
    next: Instant,
}

impl Throttle {
    pub(crate) fn new(sink: DeltaSink) -> Self {
        Self { sink, waiting: empty(), next: Instant::now() }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.waiting.push(bytes);
    }

    /// Returns the time of the next `flush`, or `None` if nothing is pending.
    pub(crate) fn due(&self) -> Option<Instant> {
        (!self.waiting.is_empty()).then_some(self.next)
    }

    /// Sends pending output, except an incomplete character at the end.
    pub(crate) fn flush(&mut self) {
        let unfinished = self.pass_on(false);
        self.waiting.push(&unfinished);
        self.next = Instant::now() + DELTA_INTERVAL;
    }

    pub(crate) fn finish(&mut self) {
        self.pass_on(true);
    }

    fn pass_on(&mut self, last: bool) -> Vec<u8> {
        let waiting = std::mem::replace(&mut self.waiting, empty());
        if waiting.is_empty() {
            return Vec::new();
        }
        if waiting.exceeded() {
            let excerpt = waiting.finish();
            let bytes = excerpt.gap.map_or(0, |gap| gap.bytes);
            let skipped = counted(bytes, "byte");
            self.sink.output(&format!("{}\n… [{skipped} omitted] …\n{}", excerpt.head, excerpt.tail));
            return Vec::new();
        }
        let mut whole = waiting.whole();
        let unfinished = if last { Vec::new() } else { whole.split_off(whole.len() - unfinished(&whole)) };
        if !whole.is_empty() {
            self.sink.output(&String::from_utf8_lossy(&whole));
        }
        unfinished
    }
}

fn empty() -> HeadTail {
    HeadTail::new(OutputLimits { bytes: DELTA_BYTES_MAX, lines: usize::MAX })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use sysop_driver::port::DeltaSink;

    use super::{DELTA_BYTES_MAX, Throttle};

    fn recorded() -> (Throttle, Arc<Mutex<Vec<String>>>) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&seen);
        (Throttle::new(DeltaSink::new(move |text| record.lock().push(text.to_owned()))), seen)
    }

    #[test]
    fn characters_are_never_split() {
        let (mut pace, seen) = recorded();
        let bytes = "aß€".as_bytes();
        for byte in bytes {
            pace.push(&[*byte]);
            pace.flush();
        }
        pace.push(&bytes[1..2]);
        pace.finish();
        assert_eq!(*seen.lock(), ["a", "ß", "€", "\u{FFFD}"]);
    }

    #[test]
    fn output_that_arrives_too_fast_loses_its_middle() {
        let (mut pace, seen) = recorded();
        for number in 0..100_000 {
            pace.push(format!("{number}\n").as_bytes());
        }
        pace.flush();
        let seen = seen.lock();
        assert_eq!(seen.len(), 1);
        assert!(seen[0].len() <= DELTA_BYTES_MAX, "{}", seen[0].len());
        assert!(seen[0].starts_with("0\n1\n") && seen[0].ends_with("\n99999\n"));
        assert!(seen[0].contains("bytes omitted] …\n"));
    }
}
