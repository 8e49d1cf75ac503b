//! A proposal, drawn so that what is shown is what runs: the command to its last byte, with what hides made visible.

use std::borrow::Cow;

use serde_json::Value;
use sysop_core::message::Arguments;
use sysop_core::policy::{Finding, RiskClass};
use sysop_core::text::neutralize_line;
use sysop_core::transcript::Plan;

use super::cells::{wrap, wrap_exact};
use super::{Ink, TextRow, TextSpan, row, words};

/// Where a plan is to run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlanLocation<'a> {
    /// The host.
    pub(crate) host: &'a str,
    /// The root on it.
    pub(crate) root: &'a str,
}

/// All there is to know before an answer: reason, place, what runs, risk, and what "for this session" covers.
pub(crate) fn rows(plan: &Plan, place: PlanLocation<'_>, columns: usize) -> Vec<TextRow> {
    let mut out = Vec::new();
    if !plan.reason.trim().is_empty() {
        for line in plan.reason.lines() {
            out.extend(wrap(&row(line, Ink::Plain), columns, 0));
        }
    }
    let several = words::is_fleet(place.host);
    let text = format!("on {} in {}", words::place(place.host), place.root);
    // What one answer starts on many hosts must not be overlooked.
    out.extend(wrap(&row(&text, if several { Ink::Bold } else { Ink::Dim }), columns, 2));
    out.push(TextRow::new());
    match plan.call.text_argument("command") {
        Some(_) => out.extend(command_rows(&plan.command, &plan.risk.findings, columns)),
        None => out.extend(call_rows(plan, columns)),
    }
    out.push(TextRow::new());
    out.extend(risk_rows(plan, columns));
    if let Some(grant) = &plan.covers {
        let text = format!("for this session would cover: {}", words::covers(grant));
        out.extend(wrap(&row(&text, Ink::Dim), columns, 2));
    }
    out
}

/// A command with its findings marked; nothing of it is left out or changed but to make it visible.
pub(crate) fn command_rows(command: &str, findings: &[Finding], columns: usize) -> Vec<TextRow> {
    let mut out = Vec::new();
    let mut start = 0;
    for (number, line) in command.split('\n').enumerate() {
        let sign = if number == 0 { "$ " } else { "  " };
        let mut spans = Vec::new();
        let mut at = start;
        for cut in cuts(command, findings, start, start + line.len()) {
            let marked = findings
                .iter()
                .any(|f| f.class >= RiskClass::Opaque && f.start <= at && at < f.end && f.start < f.end);
            let ink = if marked { Ink::Marked } else { Ink::Code };
            push_visible(&mut spans, &command[at..cut], ink);
            at = cut;
        }
        out.extend(under(sign, &spans, columns));
        start += line.len() + 1;
    }
    out
}

/// The places within a line where the ink may change, and its end.
fn cuts(command: &str, findings: &[Finding], start: usize, end: usize) -> Vec<usize> {
    let mut cuts: Vec<usize> = findings
        .iter()
        .flat_map(|finding| [finding.start, finding.end])
        .map(|at| command.floor_char_boundary(at.min(command.len())))
        .filter(|at| start < *at && *at < end)
        .collect();
    cuts.push(end);
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// Text of a command; each character that hides or acts is shown by name, and marked, so that it cannot be taken
/// for the same letters written out.
fn push_visible(spans: &mut TextRow, text: &str, ink: Ink) {
    let mut plain = String::new();
    let mut bytes = [0; 4];
    for c in text.chars() {
        let shown = neutralize_line(c.encode_utf8(&mut bytes));
        if let Cow::Borrowed(same) = shown {
            plain.push_str(same);
            continue;
        }
        if !plain.is_empty() {
            spans.push(TextSpan::new(&plain, ink));
            plain.clear();
        }
        spans.push(TextSpan::new(&shown, Ink::Warn));
    }
    if !plain.is_empty() {
        spans.push(TextSpan::new(&plain, ink));
    }
}

fn under(sign: &str, spans: &[TextSpan], columns: usize) -> Vec<TextRow> {
    wrap_exact(spans, columns.saturating_sub(2))
        .into_iter()
        .enumerate()
        .map(|(at, text)| {
            let mut out = row(if at == 0 { sign } else { "  " }, Ink::Dim);
            out.extend(text);
            out
        })
        .collect()
}

/// A call that is no command: every argument, whole.
fn call_rows(plan: &Plan, columns: usize) -> Vec<TextRow> {
    let mut out = vec![row(&plan.call.name, Ink::Bold)];
    match &plan.call.arguments {
        Arguments::Object(map) => {
            for (name, value) in map {
                out.extend(argument_rows(name, value, columns));
            }
        }
        Arguments::Invalid(text) => out.extend(text_rows("", text, Ink::Warn, columns)),
    }
    out
}

fn argument_rows(name: &str, value: &Value, columns: usize) -> Vec<TextRow> {
    let (sign, ink) = match name {
        "old_string" => ("- ", Ink::Bad),
        "new_string" => ("+ ", Ink::Good),
        _ => ("  ", Ink::Code),
    };
    match value {
        Value::String(text) if text.contains('\n') || name.ends_with("_string") => {
            let mut out = vec![row(&format!("{name}:"), Ink::Dim)];
            out.extend(text_rows(sign, text, ink, columns));
            out
        }
        Value::String(text) => named(name, text, columns),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            named(name, &value.to_string(), columns)
        }
    }
}

fn named(name: &str, text: &str, columns: usize) -> Vec<TextRow> {
    let mut spans = vec![TextSpan::new(&format!("{name}: "), Ink::Dim)];
    push_visible(&mut spans, text, Ink::Code);
    wrap_exact(&spans, columns)
}

fn text_rows(sign: &str, text: &str, ink: Ink, columns: usize) -> Vec<TextRow> {
    let mut out = Vec::new();
    for line in text.split('\n') {
        let mut spans = TextRow::new();
        push_visible(&mut spans, line, ink);
        for part in wrap_exact(&spans, columns.saturating_sub(2)) {
            let mut signed = row(sign, ink);
            signed.extend(part);
            out.push(signed);
        }
    }
    out
}

fn risk_rows(plan: &Plan, columns: usize) -> Vec<TextRow> {
    let (word, ink) = words::class(plan.risk.class);
    let mut out = wrap(&row(&format!("risk: {word}"), ink), columns, 2);
    for finding in plan.risk.findings.iter().filter(|finding| finding.class >= RiskClass::Opaque) {
        let start = plan.command.floor_char_boundary(finding.start.min(plan.command.len()));
        let end = plan.command.floor_char_boundary(finding.end.clamp(start, plan.command.len()));
        let mut spans = row("! ", ink);
        spans.push(TextSpan::new(&plan.command[start..end], Ink::Marked));
        spans.push(TextSpan::new(&format!(" — {}", finding.why), ink));
        out.extend(wrap(&spans, columns, 2));
    }
    let alike = words::confusables(&plan.command);
    if !alike.is_empty() {
        let text = format!("! letters that only look Latin: {}", alike.join(" "));
        out.extend(wrap(&row(&text, Ink::Warn), columns, 2));
    }
    out
}
