//! Size limits for the results of client tools.

use sysop_core::outcome::{Outcome, Status};
use sysop_core::text::strip_controls;

use super::ClientToolSettings;

/// Shortens a result to the limits for the model, and refuses a result that is larger than `result_bytes_max`.
pub(super) fn limit_result(mut outcome: Outcome, settings: &ClientToolSettings) -> Outcome {
    let bytes = outcome.output.len();
    if bytes > settings.result_bytes_max {
        let most = settings.result_bytes_max;
        return Outcome::failed(format!(
            "the client's result is {bytes} bytes; the limit is {most}; the call ran, but its result was dropped: \
             request less at a time"
        ));
    }
    let text = strip_controls(&outcome.output);
    let (text, cut) = shortened(&text, settings.output_bytes, settings.output_lines);
    outcome.truncated |= cut;
    outcome.output = text;
    // Only this server can know that a call was rejected; a client cannot claim it.
    if outcome.status == Status::Rejected {
        outcome.status = Status::Failed;
    }
    outcome
}

/// Returns the head and the tail of the text, with the size of the gap between them, and true if text was cut out.
fn shortened(text: &str, bytes_max: usize, lines_max: usize) -> (String, bool) {
    let (head, tail) = by_lines(text, lines_max);
    let (head, tail) = by_bytes(text, head, tail, bytes_max);
    if head >= tail {
        return (text.to_owned(), false);
    }
    let gap = tail - head;
    (format!("{}\n[… {gap} bytes omitted …]\n{}", text[..head].trim_end_matches('\n'), &text[tail..]), true)
}

/// Returns the end of the head and the start of the tail, as byte offsets. Each part keeps half of `lines_max` lines.
/// The offsets are equal if nothing needs to be cut out.
fn by_lines(text: &str, lines_max: usize) -> (usize, usize) {
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    let lines = ends.len() + usize::from(!text.ends_with('\n') && !text.is_empty());
    if lines <= lines_max || ends.is_empty() {
        return (text.len(), text.len());
    }
    let half = (lines_max / 2).max(1);
    let head = ends[half - 1];
    let tail = ends[lines - half - 1];
    (head, tail.max(head))
}

/// Shrinks the head and the tail further so that they fit into `bytes_max`. Returns their byte offsets like `by_lines`.
fn by_bytes(text: &str, head: usize, tail: usize, bytes_max: usize) -> (usize, usize) {
    let whole = head >= tail;
    if whole && text.len() <= bytes_max {
        return (text.len(), text.len());
    }
    let half = bytes_max / 2;
    let head = text.floor_char_boundary(head.min(half));
    let tail = if whole { 0 } else { tail };
    let tail = text.ceil_char_boundary(tail.max(text.len().saturating_sub(half)));
    (head, tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> ClientToolSettings {
        ClientToolSettings {
            result_bytes_max: 1000,
            output_bytes: 40,
            output_lines: 4,
            ..ClientToolSettings::default()
        }
    }

    #[test]
    fn short_results_are_unchanged() {
        for text in ["", "one", "one\n", "a\nb\nc\nd\n", "a\nb\nc\nd"] {
            let outcome = limit_result(Outcome::ok(text), &settings());
            assert_eq!((outcome.output.as_str(), outcome.truncated), (text, false));
        }
    }

    #[test]
    fn long_results_keep_head_and_tail() {
        let lines: String = (1..=9).map(|n| format!("{n}\n")).collect();
        let outcome = limit_result(Outcome::ok(lines), &settings());
        assert_eq!(outcome.output, "1\n2\n[… 10 bytes omitted …]\n8\n9\n");
        assert!(outcome.truncated);

        let outcome = limit_result(Outcome::ok("é".repeat(100)), &settings());
        assert_eq!(outcome.output, format!("{0}\n[… 160 bytes omitted …]\n{0}", "é".repeat(10)));
    }

    #[test]
    fn oversized_results_are_rejected_with_a_reason() {
        let outcome = limit_result(Outcome::ok("x".repeat(1001)), &settings());
        assert_eq!(outcome.status, Status::Failed);
        assert!(outcome.output.contains("1001 bytes; the limit is 1000"), "{}", outcome.output);
    }

    #[test]
    fn a_client_cannot_set_server_fields_or_send_control_sequences() {
        let outcome = limit_result(Outcome::new(Status::Rejected, "a\u{1b}[2Jb"), &settings());
        assert_eq!((outcome.status, outcome.output.as_str()), (Status::Failed, "ab"));
    }
}
