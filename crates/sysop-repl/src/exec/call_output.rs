//! Display of tool calls' output.

use sysop_core::id::CallId;
use sysop_core::outcome::{HostOutcome, Outcome, Status};
use sysop_core::text::{Stripper, strip_controls};
use sysop_term::output::{without_job_note, without_missed_hosts};

use crate::render::excerpt::{Excerpt, LINE_BYTES_MAX};
use crate::render::safe;

/// Number of lines to show from the start of an output, and also from its end.
const EXCERPT_LINES: usize = 20;
/// Number of lines to show from the end of a failed command's output.
const FAILURE_LINES: usize = 3;
/// Number of groups of hosts whose failure is explained.
const FAILED_GROUPS: usize = 3;
pub(super) const LINE_CHARS_MAX: usize = 400;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CallOutput {
    /// No output; only how each call ended is shown.
    #[default]
    Hidden,
    /// The first and last lines.
    Excerpt,
    /// All lines.
    Whole,
}

impl CallOutput {
    fn excerpt(self) -> Excerpt {
        match self {
            Self::Hidden => Excerpt::new(0, 0),
            Self::Excerpt => Excerpt::new(EXCERPT_LINES, EXCERPT_LINES),
            Self::Whole => Excerpt::new(usize::MAX, 0),
        }
    }

    /// Splits the text of an excerpt into lines.
    fn lines(self, text: &str) -> Vec<String> {
        let is_whole = self == Self::Whole;
        text.lines().map(|line| if is_whole { line.to_owned() } else { short(&line) }).collect()
    }
}

/// Returns the lines to show of an output that was not streamed.
pub(super) fn call_output_lines(outcome: &Outcome, shown: CallOutput) -> Vec<String> {
    if shown == CallOutput::Hidden {
        return Vec::new();
    }
    // The number of lines that the model does not get is unknown.
    let rest = if outcome.truncated { "more were truncated" } else { "use -vv to show them" };
    // The summaries of the hosts follow.
    let text = without_missed_hosts(text_for_people(outcome), &outcome.hosts);
    shown.lines(&shown.excerpt().of(&safe(&text), rest))
}

/// Returns the output without the last line that tells the model how to read a job or to go on with a program. The
/// summary says that it still runs.
fn text_for_people(outcome: &Outcome) -> &str {
    outcome.split_program_note().map_or_else(|| without_job_note(outcome), |(text, _)| text)
}

/// Output of a running call, shown as it arrives.
pub(super) struct StreamedOutput {
    call: CallId,
    shown: CallOutput,
    stripper: Stripper,
    excerpt: Excerpt,
    /// The unfinished line, up to `LINE_BYTES_MAX`.
    line: String,
    /// The last finished line that is not empty.
    last: String,
}

impl StreamedOutput {
    pub(super) fn new(call: CallId, shown: CallOutput) -> Self {
        let (line, last) = (String::new(), String::new());
        Self { call, shown, stripper: Stripper::live(), excerpt: shown.excerpt(), line, last }
    }

    pub(super) fn is_of(&self, call: &CallId) -> bool {
        self.call == *call
    }

    /// Adds output as it arrived. Returns the lines to show now.
    pub(super) fn push(&mut self, text: &str) -> Vec<String> {
        let text = self.stripper.push(text);
        self.push_stripped(&text)
    }

    fn push_stripped(&mut self, text: &str) -> Vec<String> {
        for part in text.split_inclusive('\n') {
            let room = LINE_BYTES_MAX.saturating_sub(self.line.len());
            self.line.push_str(&part[..part.floor_char_boundary(room)]);
            if part.ends_with('\n') {
                self.end_line();
            }
        }
        self.shown.lines(&self.excerpt.push(text))
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if !line.trim().is_empty() {
            self.last = line;
        }
    }

    /// Returns the lines at the end: the rest of the output, and what sysop says about the call to the model.
    pub(super) fn finish(mut self, outcome: &Outcome) -> Vec<String> {
        let text = self.stripper.finish();
        let mut lines = self.push_stripped(&text);
        self.end_line();
        lines.extend(self.shown.lines(&self.excerpt.finish("use -vv to show them")));
        let (whole, last) = (safe(text_for_people(outcome)), self.last.trim_end());
        let whole: Vec<&str> = whole.lines().collect();
        let printed = whole.iter().rposition(|line| !last.is_empty() && line.trim_end() == last);
        // The outcome's line differs if it is redacted or cut.
        let is_note = |line: &&str| line.is_empty() || (line.starts_with('[') && line.ends_with(']'));
        let from = printed.map_or_else(
            || whole.iter().rposition(|line| !is_note(line)).map_or(0, |at| at + 1),
            |at| at + 1,
        );
        lines.extend(whole[from..].iter().filter(|line| !line.is_empty()).map(short));
        lines
    }
}

/// Returns the last lines of a failed command's output, which usually say why it failed, without sysop's line about its
/// exit code and about undo.
pub(super) fn failure_lines(output: &str) -> Vec<String> {
    let output = safe(output);
    let is_said = |line: &&str| {
        !line.trim().is_empty() && !["[exit code ", "[no undo: "].iter().any(|note| line.starts_with(note))
    };
    let mut lines: Vec<String> =
        output.lines().rev().filter(is_said).take(FAILURE_LINES).map(|line| short(&line)).collect();
    lines.reverse();
    lines
}

/// Returns why a call failed on some of several hosts: for each group of hosts that failed, the lines that usually say
/// why, after the hosts' names. A host that could not be reached has its reason in the group's own line.
pub(super) fn fleet_failure_lines(outcome: &Outcome) -> Vec<String> {
    let mut out = Vec::new();
    let failed = sections(&outcome.output).into_iter().filter_map(|(names, body)| {
        let first = names.split([',', ' ']).next().unwrap_or(names);
        let host = outcome.hosts.iter().find(|host| host.host == first)?;
        Some((names, reason_lines(host, &body))).filter(|(_, reason)| !reason.is_empty())
    });
    for (names, reason) in failed.take(FAILED_GROUPS) {
        out.extend(reason.iter().map(|line| short(&safe(&format!("{names}: {line}")).as_str())));
    }
    out
}

fn reason_lines(host: &HostOutcome, output: &str) -> Vec<String> {
    match (host.status, host.exit_code) {
        (Status::Failed, Some(_)) => failure_lines(output),
        (Status::Failed, None) if host.unreachable.is_none() => {
            output.lines().next().map(|line| short(&line)).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// Splits the output of a call on several hosts at the headings `== web1, web2 (2 of 3): exit code 1 ==`, which no host
/// can imitate. Returns the names and the output of each group.
fn sections(output: &str) -> Vec<(&str, String)> {
    let mut out: Vec<(&str, String)> = Vec::new();
    for line in output.lines() {
        let heading = line.strip_prefix("== ").and_then(|rest| rest.strip_suffix(" =="));
        match (heading.and_then(|heading| heading.split_once(" (")), out.last_mut()) {
            (Some((names, _)), _) => out.push((names, String::new())),
            (None, Some((_, body))) => {
                body.push_str(line);
                body.push('\n');
            }
            (None, None) => {}
        }
    }
    out
}

fn short(line: &&str) -> String {
    match line.char_indices().nth(LINE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => (*line).to_owned(),
    }
}

/// Returns the part of an output that was not streamed: its end, or the whole output of a call on several
/// hosts. Empty if a call on a single host streamed nothing, as its outcome then has only sysop's text.
pub(super) fn unprinted_output(stripped: Option<Stripper>, outcome: &Outcome) -> String {
    match stripped {
        Some(mut stripped) => stripped.finish(),
        None if outcome.hosts.is_empty() => String::new(),
        None => strip_controls(&outcome.output).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(range: std::ops::RangeInclusive<u32>) -> String {
        range.map(|number| format!("{number}\n")).collect()
    }

    #[test]
    fn an_output_is_shown_as_it_arrives_and_its_omitted_lines_are_counted() {
        let mut streamed = StreamedOutput::new(CallId::new("c1"), CallOutput::Excerpt);
        assert_eq!(streamed.push("1\n2"), ["1"]);
        assert_eq!(streamed.push("\n3\n"), ["2", "3"]);
        assert_eq!(streamed.push(&numbers(4..=3000)).len(), EXCERPT_LINES - 3);
        // The model gets an excerpt, too.
        let kept = format!("{}[… 962 lines omitted …]\n{}", numbers(1..=1000), numbers(1963..=3000));
        let output = format!("{kept}[no undo: it wrote to a pipe]\n[exit code 1]");
        let lines = streamed.finish(&Outcome { truncated: true, ..Outcome::ok(output) });
        assert_eq!(lines[0], "… 2960 lines omitted; use -vv to show them …");
        assert_eq!((&*lines[1], &*lines[EXCERPT_LINES]), ("2981", "3000"));
        assert_eq!(lines[EXCERPT_LINES + 1..], ["[no undo: it wrote to a pipe]", "[exit code 1]"]);
    }

    #[test]
    fn notes_are_shown_after_a_last_line_that_differs_in_the_outcome() {
        let long = "x".repeat(3 * LINE_BYTES_MAX);
        for (arrived, kept) in [("key=s3cret\n", "key=[redacted]"), (&*long, "xx[… cut …]xx"), ("\n", "")]
        {
            let mut streamed = StreamedOutput::new(CallId::new("c1"), CallOutput::Excerpt);
            streamed.push(arrived);
            assert!(streamed.line.len() + streamed.last.len() <= LINE_BYTES_MAX);
            let lines = streamed.finish(&Outcome::ok(format!("{kept}\n[no undo: a pipe]\n[exit code 1]")));
            assert!(lines.ends_with(&["[no undo: a pipe]".into(), "[exit code 1]".into()]), "{lines:?}");
            assert!(!lines.iter().any(|line| !kept.is_empty() && line == kept), "{lines:?}");
        }
    }

    #[test]
    fn advice_for_the_model_is_not_shown() {
        let note = format!("[{}]", sysop_core::outcome::WAITS_FOR_ANSWER);
        let outcome = Outcome::new(Status::Unknown, format!("Really? [y/N]\n{note}"));
        assert_eq!(call_output_lines(&outcome, CallOutput::Excerpt), ["Really? [y/N]"]);
        let mut streamed = StreamedOutput::new(CallId::new("c1"), CallOutput::Excerpt);
        streamed.push("Really? [y/N]\n");
        assert_eq!(streamed.finish(&outcome), Vec::<String>::new());
    }

    #[test]
    fn a_host_that_was_not_reached_has_no_section() {
        let host = |name: &str, unreachable: Option<&str>| HostOutcome {
            host: name.into(),
            status: Status::Failed,
            exit_code: None,
            duration_ms: 1,
            group: 0,
            unreachable: unreachable.map(str::to_owned),
        };
        let report = "== a (1 host of 2): not run ==\na: no route\n== b (1 host of 2): exit code 1 ==\nup";
        let hosts = vec![host("a", Some("a: no route")), host("b", None)];
        let outcome = Outcome { hosts, ..Outcome::failed(report) };
        let lines = call_output_lines(&outcome, CallOutput::Excerpt);
        assert_eq!(lines, ["== b (1 host of 2): exit code 1 ==", "up"]);
    }

    #[test]
    fn the_whole_output_is_shown_as_it_arrives() {
        let mut streamed = StreamedOutput::new(CallId::new("c1"), CallOutput::Whole);
        assert_eq!(streamed.push(&numbers(1..=99)).len(), 99);
        assert_eq!(streamed.push("half a line"), Vec::<String>::new());
        let outcome = Outcome::ok(format!("{}half a line", numbers(1..=99)));
        assert_eq!(streamed.finish(&outcome), ["half a line"]);
    }
}
