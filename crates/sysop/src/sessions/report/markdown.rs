//! Report as Markdown.

use std::fmt::Write;

use super::{ReportedCall, SessionReport};

/// Minimum length of a code fence.
const FENCE_MIN: usize = 3;

pub(super) fn write(report: &SessionReport) -> String {
    let mut text = format!("# {}\n\n", escaped(&report.title));
    for (name, value) in &report.facts {
        line(&mut text, &format!("- {name}: {}", escaped(value)));
    }
    for recording in &report.recordings {
        let target =
            recording.replace('\\', "%5C").replace('<', "%3C").replace('>', "%3E").replace(' ', "%20");
        line(
            &mut text,
            &format!("- Recording of the terminal (asciicast): [{}](<{target}>)", escaped(recording)),
        );
    }
    section(&mut text, "Asked", &report.prompts, |text, prompt| {
        line(text, "");
        prompt.lines().for_each(|prompt| line(text, &format!("> {}", escaped(prompt))));
    });
    section(&mut text, "Done", &report.done, call);
    section(&mut text, "Changed", &report.changes, |text, change| {
        line(text, &format!("- {}", escaped(change)))
    });
    section(&mut text, "Undone", &report.undone, |text, undo| line(text, &format!("- {}", escaped(undo))));
    section(&mut text, "Not run", &report.not_run, call);
    text
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("writes to a string");
}

fn section<T>(text: &mut String, title: &str, items: &[T], write: impl Fn(&mut String, &T)) {
    if !items.is_empty() {
        line(text, &format!("\n## {title}\n"));
        items.iter().for_each(|item| write(text, item));
    }
}

fn call(text: &mut String, call: &ReportedCall) {
    line(text, &format!("{}. {}", call.number, escaped(&call.facts)));
    for hosts in &call.hosts {
        line(text, &format!("   - {}", escaped(hosts)));
    }
    let longest = call.text.split(|character| character != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(FENCE_MIN.max(longest + 1));
    line(text, &format!("\n   {fence}sh"));
    call.text.lines().for_each(|part| line(text, &format!("   {part}")));
    line(text, &format!("   {fence}\n"));
}

/// Escapes the characters that Markdown or HTML would interpret.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '|' | '~' | '!' | '$' => {
                escaped.push('\\');
                escaped.push(character);
            }
            other => escaped.push(other),
        }
    }
    escaped
}
