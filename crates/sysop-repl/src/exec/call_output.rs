//! What calls printed, as a person is shown it.

use sysop_core::outcome::Outcome;
use sysop_core::text::{Stripper, strip_controls};

use crate::render::safe;

/// The lines of an output that are shown from its beginning, and as many from its end.
const EXCERPT_LINES: usize = 20;
/// The longest line of it, in characters.
pub(super) const LINE_CHARS_MAX: usize = 400;

/// How much a person is shown of what calls print.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CallOutput {
    /// Nothing: how each call ended.
    #[default]
    Hidden,
    /// The first and the last lines.
    Excerpt,
    /// All that the model is told.
    Whole,
}

/// The lines of an output that a person is shown, safe to write.
pub(super) fn call_output_lines(output: &str, shown: CallOutput) -> Vec<String> {
    let output = safe(output);
    let lines: Vec<&str> = output.lines().collect();
    match shown {
        CallOutput::Hidden => Vec::new(),
        CallOutput::Whole => lines.into_iter().map(str::to_owned).collect(),
        CallOutput::Excerpt => {
            let gap = lines.len().saturating_sub(2 * EXCERPT_LINES);
            let short = |line: &&str| match line.char_indices().nth(LINE_CHARS_MAX) {
                Some((end, _)) => format!("{}…", &line[..end]),
                None => (*line).to_owned(),
            };
            if gap == 0 {
                return lines.iter().map(short).collect();
            }
            let (head, tail) = (&lines[..EXCERPT_LINES], &lines[EXCERPT_LINES + gap..]);
            let between = format!("… {gap} lines are not shown; -vv shows them …");
            head.iter().map(short).chain([between]).chain(tail.iter().map(short)).collect()
        }
    }
}

/// What has not been written of an output: its end; of a fleet's all of it. Where nothing came of one machine
/// there was none, and its outcome holds our own words alone.
pub(super) fn unprinted_output(stripped: Option<Stripper>, outcome: &Outcome) -> String {
    match stripped {
        Some(mut stripped) => stripped.finish(),
        None if outcome.hosts.is_empty() => String::new(),
        None => strip_controls(&outcome.output).into_owned(),
    }
}
