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
    section(&mut text, "Asked", &report.prompts, |text, prompt| {
        line(text, "");
        prompt.lines().for_each(|prompt| line(text, &format!("> {}", escape(prompt))));
    });
    section(&mut text, "Result", &report.answers, |text, answer| {
        line(text, "");
        answer.lines().for_each(|answer| line(text, &format!("> {}", escape(answer))));
    });
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
        line(text, &format!("\n## {title}\n"));
        items.iter().for_each(|item| write(text, item));
    }
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
