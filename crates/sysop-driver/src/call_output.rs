//! Output of a running call. It is shown live, and its tail is kept in case the call moves to the background.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Maximum bytes from the end of an output that [`CallOutput::tail`] returns.
const TAIL_BYTES_MAX: usize = 16 * 1024;

#[derive(Debug, Default)]
pub(crate) struct CallOutput {
    tail: Mutex<Tail>,
    hidden: AtomicBool,
    /// Canceled as soon as the call has ended.
    pub(crate) ended: CancellationToken,
}

#[derive(Debug, Default)]
struct Tail {
    text: String,
    cut: bool,
}

impl CallOutput {
    /// Stores a chunk of output. Returns true if the chunk is to be shown live.
    pub(crate) fn push(&self, text: &str) -> bool {
        let mut tail = self.tail.lock();
        tail.text.push_str(text);
        if tail.text.len() > 2 * TAIL_BYTES_MAX {
            let start = tail.text.ceil_char_boundary(tail.text.len() - TAIL_BYTES_MAX);
            tail.text.drain(..start);
            tail.cut = true;
        }
        !self.hidden.load(Ordering::Relaxed)
    }

    /// Hides the output: from now on, it is no longer shown live.
    pub(crate) fn hide(&self) {
        self.hidden.store(true, Ordering::Relaxed);
    }

    /// Returns the tail of the output, redacted with `redact`. A truncated tail begins with a whole line.
    pub(crate) fn tail(&self, redact: impl Fn(&str) -> String) -> String {
        let (text, is_cut) = {
            let tail = self.tail.lock();
            let start = tail.text.ceil_char_boundary(tail.text.len().saturating_sub(TAIL_BYTES_MAX));
            (tail.text[start..].to_owned(), start > 0 || tail.cut)
        };
        if !is_cut {
            return redact(&text);
        }
        let lines = text.split_once('\n').map_or(&*text, |(_, lines)| lines);
        format!("[earlier output omitted]\n{}", redact(lines))
    }
}

#[cfg(test)]
mod tests {
    use super::{CallOutput, TAIL_BYTES_MAX};

    #[test]
    fn a_short_output_is_kept_whole() {
        let output = CallOutput::default();
        assert!(output.push("a\n") && output.push("b"));
        output.hide();
        assert!(!output.push("c"));
        assert_eq!(output.tail(str::to_uppercase), "A\nBC");
    }

    #[test]
    fn the_last_lines_of_a_long_output_are_kept() {
        let output = CallOutput::default();
        for number in 0..20_000 {
            output.push(&format!("línea {number}\n"));
        }
        let tail = output.tail(str::to_owned);
        assert!(tail.starts_with("[earlier output omitted]\nlínea "), "{}", &tail[..80]);
        assert!(tail.ends_with("línea 19999\n"));
        assert!(tail.len() <= TAIL_BYTES_MAX + 30);
    }
}
