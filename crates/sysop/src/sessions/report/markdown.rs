//! A report as Markdown.

use std::fmt::Write;

use super::{ReportedCall, SessionReport};
use crate::markdown::{escape, fence_for};

pub(super) fn write(report: &SessionReport) -> String {
    let mut text = format!("# {}\n\n", escape(&report.title));
    for (name, value) in &report.facts {
        line(&mut text, &format!("- {name}: {}", escape(value)));
    }
    for recording in &report.recordings {
        let target =
            recording.replace('\\', "%5C").replace('<', "%3C").replace('>', "%3E").replace(' ', "%20");
        line(
            &mut text,
            &format!("- Recording of the terminal (asciicast): [{}](<{target}>)", escape(recording)),
        );
    }
    section(&mut text, "Asked", &report.prompts, |text, prompt| quote(text, prompt));
    section(&mut text, "Result", &report.answers, |text, answer| quote(text, answer));
    section(&mut text, "Done", &report.done, call);
    section(&mut text, "Changed", &report.changes, |text, change| {
        line(text, &format!("- {}", escape(change)))
    });
    section(&mut text, "Undone", &report.undone, |text, undo| line(text, &format!("- {}", escape(undo))));
    section(&mut text, "Not run", &report.not_run, call);
    text
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("writing to a string cannot fail");
}

fn section<T>(text: &mut String, title: &str, items: &[T], write: impl Fn(&mut String, &T)) {
    if !items.is_empty() {
        blank_line(text);
        line(text, &format!("## {title}\n"));
        items.iter().for_each(|item| write(text, item));
    }
}

fn blank_line(text: &mut String) {
    if !text.ends_with("\n\n") {
        line(text, "");
    }
}

/// Writes a quotation of its own, also after another one.
fn quote(text: &mut String, quoted: &str) {
    blank_line(text);
    quoted.lines().for_each(|quoted| line(text, format!("> {}", escape(quoted)).trim_end()));
}

fn call(text: &mut String, call: &ReportedCall) {
    line(text, &format!("{}. {}", call.number, escape(&call.facts)));
    for note in &call.notes {
        line(text, &format!("   - {}", escape(note)));
    }
    let fence = fence_for(&call.text);
    line(text, &format!("\n   {fence}sh"));
    call.text.lines().for_each(|part| line(text, &format!("   {part}")));
    line(text, &format!("   {fence}\n"));
}
