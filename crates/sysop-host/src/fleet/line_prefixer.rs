//! Live output of one host among several: whole lines, each prefixed with the host's name.
//!
//! A reader that redacts secrets sees them one line at a time, so a line must not be divided unless it says so.

use std::sync::Arc;

use parking_lot::Mutex;
use sysop_driver::port::DeltaSink;

/// Maximum bytes of an incomplete line. A longer line is displayed in parts, each as a line of its own.
const LINE_BYTES_MAX: usize = 256 * 1024;
/// Line between two parts of a line. A reader that redacts secrets takes it for missing output, because a secret may be
/// divided.
const DIVIDED_LINE: &str = "… [end of the line omitted] …";

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
        let unfinished = std::mem::take(&mut *self.0.unfinished.lock());
        self.0.display(&unfinished, None);
    }
}

impl PrefixerState {
    fn take(&self, text: &str) {
        let mut unfinished = self.unfinished.lock();
        let complete = text.rfind('\n').map_or(0, |end| unfinished.len() + end + 1);
        unfinished.push_str(text);
        if unfinished.len() - complete > LINE_BYTES_MAX {
            self.display(&unfinished, Some(DIVIDED_LINE));
            unfinished.clear();
        } else {
            self.display(&unfinished[..complete], None);
            unfinished.drain(..complete);
        }
    }

    /// Displays lines and a notice behind them in one update, with the host's name before each.
    fn display(&self, lines: &str, notice: Option<&str>) {
        let mut shown = String::new();
        for line in lines.lines().chain(notice) {
            shown.push_str(&self.name);
            shown.push_str(" | ");
            shown.push_str(line);
            shown.push('\n');
        }
        if !shown.is_empty() {
            self.display.output(&shown);
        }
    }
}

#[cfg(test)]
mod tests {
    use sysop_core::redact::live::LiveRedactor;

    use super::*;

    /// Returns the updates of the display for output in chunks.
    fn displayed(chunks: &[&str]) -> Vec<String> {
        let updates = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&updates);
        let display = DeltaSink::new(move |text| shared.lock().push(text.to_owned()));
        let lines = LinePrefixer::new(&"web1".into(), display);
        chunks.iter().for_each(|chunk| lines.sink().output(chunk));
        lines.finish();
        std::mem::take(&mut *updates.lock())
    }

    #[test]
    fn a_line_is_displayed_whole_once_it_is_complete() {
        let long = "x".repeat(LINE_BYTES_MAX / 2);
        let chunks = ["a\r\nb", "\n\n", &long, &long, "\nc\nd"];
        let lines =
            ["web1 | a\n", "web1 | b\nweb1 | \n", &format!("web1 | {long}{long}\nweb1 | c\n"), "web1 | d\n"];
        assert_eq!(displayed(&chunks), lines);
    }

    #[test]
    fn a_token_in_two_parts_of_a_long_line_is_not_shown_to_a_reader_of_redacted_output() {
        let first = format!("{}ghp_a1B2", "x ".repeat(LINE_BYTES_MAX / 2));
        for rest in ["c3D4c3D4 x\n", "\n"] {
            let updates = displayed(&["a\n", &first, rest, "next\n"]);
            let shown = updates.concat();
            assert!(shown.contains(&format!("web1 | {first}\nweb1 | {DIVIDED_LINE}\nweb1 | {rest}")));
            let mut redactor = LiveRedactor::default();
            let clean: String = updates.iter().map(|update| redactor.push(update)).collect();
            assert!(!clean.contains("ghp_") && !clean.contains("D4"));
            assert!(clean.ends_with(&format!("[redacted: token]\nweb1 | {DIVIDED_LINE}\nweb1 | next\n")));
        }
    }
}
