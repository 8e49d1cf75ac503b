//! A tool call before it runs. It is drawn so that the displayed text is exactly what runs, byte for byte.

use ratatui::style::{Modifier, Style};
use serde_json::Value;
use sysop_core::id::Timestamp;
use sysop_core::message::Arguments;
use sysop_core::policy::{Finding, RiskClass};
use sysop_core::text::{neutralize_line, visible_text};
use sysop_core::transcript::{Proposal, SessionInfo};
use sysop_core::ui_text;
use sysop_core::undo::{UNDO_TOOL, UNDOES, hosts_of_call};
use sysop_shell::{HighlightKind, highlight};

use crate::cells::{Span, TextRow, exact, hang, wrap, wrap_command, wrap_exact};
use crate::diff::FileEdit;
use crate::theme::{StyleRole, Theme};

/// Argument of an undo: the number of the call to undo.
const STEP: &str = "step";

/// Returns true if the proposal is a command. A client tool may have an argument named `command` with another meaning.
/// For such a tool, the session describes the call with different text, so false is returned.
pub fn is_command(plan: &Proposal) -> bool {
    plan.call.text_argument("command") == Some(plan.command.as_str())
}

/// Returns the full preview of a call: a command as it would run, an edit as removed and added lines, or any other call
/// with all its arguments.
pub fn preview_rows(
    plan: &Proposal,
    command: &str,
    findings: &[Finding],
    theme: Theme,
    columns: usize,
) -> Vec<TextRow> {
    if !is_command(plan) {
        return call_rows(plan, columns, theme);
    }
    let mut rows = command_rows(command, findings, columns, theme);
    if let Arguments::Object(map) = &plan.call.arguments {
        // The reason is shown above.
        let others =
            map.iter().filter(|(name, _)| !matches!(name.as_str(), "command" | "reason" | "reasoning"));
        rows.extend(others.flat_map(|(name, value)| argument_rows(name, value, columns, theme)));
    }
    let alike = ui_text::confusables(command);
    if !alike.is_empty() {
        let text = format!("! look-alike letters: {}", alike.join(" "));
        rows.extend(wrap(&[Span::new(&text, theme.style(StyleRole::Warn))], columns));
    }
    rows
}

/// Returns the rows about a call's guard; none if the call would run without a guard.
pub fn guard_rows(plan: &Proposal, columns: usize, theme: Theme) -> Vec<TextRow> {
    let text = plan.guarded.map(ui_text::guarded);
    text.iter().flat_map(|text| wrap(&[Span::new(text, theme.style(StyleRole::Strong))], columns)).collect()
}

/// Returns the rows that say how many people must allow a call, if more than one, and when its approval expires, if it
/// does and the time is known.
pub fn terms_rows(plan: &Proposal, now: Option<Timestamp>, columns: usize, theme: Theme) -> Vec<TextRow> {
    let people = plan.terms.progress(plan.given.len());
    let expiry = now.and_then(|now| plan.terms.expiry(now));
    let text = people.iter().chain(&expiry);
    text.flat_map(|text| wrap(&[Span::new(text, theme.style(StyleRole::Warn))], columns)).collect()
}

/// Returns the rows of a preview, which shows the effects of the command. `preview` holds summary lines, then
/// diff lines. The text comes from the host, so control characters are made visible.
pub fn effect_rows(preview: &[String], columns: usize, theme: Theme) -> Vec<TextRow> {
    let mut rows = Vec::new();
    let mut in_diff = false;
    for line in preview {
        in_diff |= line.starts_with("@@ ") || line.starts_with("--- ");
        let role = match line.chars().next() {
            _ if !in_diff => StyleRole::Strong,
            Some('+') => StyleRole::Good,
            Some('-') => StyleRole::Bad,
            _ => StyleRole::Dim,
        };
        let mark = if in_diff { "  " } else { "→ " };
        let text =
            wrap(&[Span::new(&visible_text(line), theme.style(role))], columns.saturating_sub(2).max(1));
        let dim = theme.style(StyleRole::Dim);
        rows.extend(hang(text, &Span::new(mark, dim), &Span::new("  ", dim)));
    }
    rows
}

/// Returns the row that names the user of a server who asked for a call; none if a model proposed it, or if the log
/// names nobody.
pub fn origin_rows(plan: &Proposal, columns: usize, theme: Theme) -> Vec<TextRow> {
    let text = ui_text::origin_summary(plan).filter(|_| plan.asked_by.is_some());
    text.iter().flat_map(|text| wrap(&[Span::new(text, theme.style(StyleRole::Dim))], columns)).collect()
}

/// Returns the rows with the model's reason for a call.
pub fn reason_rows(plan: &Proposal, columns: usize, theme: Theme) -> Vec<TextRow> {
    let lines = plan.reason.trim().lines().filter(|line| !line.trim().is_empty());
    lines.flat_map(|line| wrap(&[Span::new(line, theme.style(StyleRole::Text))], columns)).collect()
}

/// Returns the rows of a command with its findings marked. Hidden characters are made visible.
pub fn command_rows(command: &str, findings: &[Finding], columns: usize, theme: Theme) -> Vec<TextRow> {
    let dim = theme.style(StyleRole::Dim);
    let (first, rest) = (Span::new("$ ", dim), Span::new("  ", dim));
    let lines = command_lines(command, findings, theme);
    let rows = lines.iter().flat_map(|line| wrap_command(line, columns.saturating_sub(2).max(1))).collect();
    hang(rows, &first, &rest)
}

/// Returns the lines of a command, highlighted as shell and with findings marked.
pub fn command_lines(command: &str, findings: &[Finding], theme: Theme) -> Vec<Vec<Span>> {
    let highlight = highlight(command);
    let odd = theme.style(StyleRole::Warn);
    let mut out = Vec::new();
    let mut start = 0;
    for line in command.split('\n') {
        let mut spans = Vec::new();
        let mut at = start;
        let end = start + line.len();
        while at < end {
            let (style, until) = style_at(command, findings, &highlight, at, theme);
            let until = until.clamp(at + 1, end);
            let until = command.ceil_char_boundary(until).min(end);
            spans.extend(exact(&command[at..until], style, odd));
            at = until;
        }
        out.push(spans);
        start = end + 1;
    }
    out
}

/// Returns the style at a byte offset, and the offset at which this style ends.
fn style_at(
    command: &str,
    findings: &[Finding],
    highlight: &[(std::ops::Range<usize>, HighlightKind)],
    at: usize,
    theme: Theme,
) -> (Style, usize) {
    let mut until = command.len();
    let mut class = RiskClass::ReadOnly;
    for finding in findings.iter().filter(|finding| finding.class >= RiskClass::Opaque) {
        if finding.start <= at && at < finding.end {
            class = class.max(finding.class);
            until = until.min(finding.end);
        } else if at < finding.start {
            until = until.min(finding.start);
        }
    }
    let next = highlight.partition_point(|(range, _)| range.end <= at);
    let role = match highlight.get(next) {
        Some((range, part)) if range.start <= at => {
            until = until.min(range.end);
            part_role(*part)
        }
        Some((range, _)) => {
            until = until.min(range.start);
            StyleRole::Text
        }
        None => StyleRole::Text,
    };
    let style = match class {
        RiskClass::ReadOnly | RiskClass::ReadsRemote | RiskClass::Changes => theme.style(role),
        // The effect is unknown, which is no alarm.
        RiskClass::Opaque => theme.style(StyleRole::Warn).add_modifier(Modifier::UNDERLINED),
        RiskClass::ReadsSecret | RiskClass::Dangerous | RiskClass::Lockout => theme.style(StyleRole::Marked),
    };
    (style, until)
}

fn part_role(part: HighlightKind) -> StyleRole {
    match part {
        HighlightKind::Program => StyleRole::Function,
        HighlightKind::Option => StyleRole::Type,
        HighlightKind::Text => StyleRole::String,
        HighlightKind::Variable => StyleRole::Variable,
        HighlightKind::Keyword => StyleRole::Keyword,
        HighlightKind::Operator => StyleRole::Operator,
        HighlightKind::Comment => StyleRole::Comment,
    }
}

/// Returns the rows of a call that is not a command, with all arguments in full. Edits are shown as diffs.
pub fn call_rows(plan: &Proposal, columns: usize, theme: Theme) -> Vec<TextRow> {
    let (code, odd) = (theme.style(StyleRole::Code), theme.style(StyleRole::Warn));
    let edit = FileEdit::of(&plan.call);
    let undo = undo_head(plan);
    let name = undo.as_deref().unwrap_or(&plan.call.name);
    let mut head = exact(name, theme.style(StyleRole::Strong), odd);
    if let Some(edit) = &edit {
        head.push(Span::new(" ", code));
        head.extend(exact(edit.path, code, odd));
        head.push(Span::new(&format!("  {}", edit.counts(&plan.preview)), theme.style(StyleRole::Dim)));
    }
    let mut out = wrap_exact(&head, columns);
    match &plan.call.arguments {
        Arguments::Object(map) => {
            // The reason is shown above.
            let is_reason = |name: &str, value: &Value| {
                matches!(name, "reason" | "reasoning") && value.as_str() == Some(plan.reason.as_str())
            };
            let shown = |(name, value): &(&String, &Value)| {
                !is_reason(name, value)
                    && !is_internal(plan, name)
                    && (undo.is_none() || ![STEP, UNDOES].contains(&name.as_str()))
                    && (edit.is_none() || !FileEdit::shows(name))
            };
            for (name, value) in map.iter().filter(shown) {
                out.extend(argument_rows(name, value, columns, theme));
            }
        }
        Arguments::Invalid(text) => {
            out.extend(text.split('\n').flat_map(|line| wrap_exact(&exact(line, odd, odd), columns)));
        }
    }
    if let Some(edit) = edit {
        out.extend(edit.rows(&plan.preview, columns, theme));
    }
    out
}

/// Returns the lines of a call's preview that its rows do not show: for a write whose rows show the change of the
/// present file, all but the lines of that change.
pub fn unshown_preview(plan: &Proposal) -> &[String] {
    let is_shown = FileEdit::of(&plan.call).is_some_and(|edit| edit.shows_preview(&plan.preview));
    let summary = plan.preview.iter().take_while(|line| !line.starts_with("@@ ")).count();
    if is_shown { &plan.preview[..summary] } else { &plan.preview }
}

/// Returns the head of an undo that names a call, with the command of that call, as in ``Undo call 2: `rm a` ``.
fn undo_head(plan: &Proposal) -> Option<String> {
    let arguments = match &plan.call.arguments {
        Arguments::Object(map) if plan.call.name == UNDO_TOOL => map,
        Arguments::Object(_) | Arguments::Invalid(_) => return None,
    };
    let step = arguments.get(STEP)?;
    let command = arguments.get(UNDOES).and_then(Value::as_str);
    let command = command.map_or_else(String::new, |command| format!(": `{}`", neutralize_line(command)));
    Some(format!("Undo call {step}{command}"))
}

/// Returns true for an argument of an undo that only hosts understand. The log has it. The tool's name is reserved: no
/// model and no client can propose a call of it, so these arguments are always those that the session made.
fn is_internal(plan: &Proposal, name: &str) -> bool {
    plan.call.name == UNDO_TOOL && matches!(name, "call" | "records")
}

fn argument_rows(name: &str, value: &Value, columns: usize, theme: Theme) -> Vec<TextRow> {
    let (dim, code, odd) =
        (theme.style(StyleRole::Dim), theme.style(StyleRole::Code), theme.style(StyleRole::Warn));
    let written = match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    };
    let mut head = exact(name, dim, odd);
    head.push(Span::new(": ", dim));
    if !written.contains('\n') {
        head.extend(exact(&written, code, odd));
        return wrap_exact(&head, columns);
    }
    let mut out = wrap_exact(&head, columns);
    let space = Span::new("  ", dim);
    for line in written.split('\n') {
        let rows = wrap_exact(&exact(line, code, odd), columns.saturating_sub(2).max(1));
        out.extend(rows.into_iter().map(|row| row.with_prefix(space.clone())));
    }
    out
}

/// Returns rows that name the hosts of a call on several hosts that the last calls did not reach, with the reasons.
pub fn missed_host_rows(plan: &Proposal, facts: &SessionInfo, columns: usize, theme: Theme) -> Vec<TextRow> {
    let hosts = hosts_of_call(&plan.call, facts.place_of(&plan.call.name).0);
    let hosts: Vec<&str> = hosts.split(',').map(str::trim).collect();
    let style = theme.style(StyleRole::Warn);
    // The survey of the call is newer than the outcome of an earlier one.
    let found = plan.risk.findings.iter().filter(|finding| finding.is_unreached());
    let mut lines: Vec<String> = found.map(|finding| finding.why.clone()).collect();
    if lines.is_empty() {
        lines = facts.missed_hosts.reasons_on(&hosts);
    }
    let rows = lines.into_iter().flat_map(|line| {
        let rows = wrap(&[Span::new(&neutralize_line(&line), style)], columns.saturating_sub(2).max(1));
        hang(rows, &Span::new("! ", style), &Span::new("  ", style))
    });
    rows.collect()
}

/// Returns a row with the hosts on which a change runs first. Empty for a read-only call and for an undo, which run on
/// all hosts at once.
pub fn canary_rows(plan: &Proposal, facts: &SessionInfo, columns: usize, theme: Theme) -> Vec<TextRow> {
    let (host, _) = facts.place_of(&plan.call.name);
    let is_canaried = plan.risk.class > RiskClass::ReadsRemote && plan.call.name != UNDO_TOOL;
    let changes = is_canaried && host == facts.host;
    let text = facts.canary_sentence().filter(|_| changes);
    text.map_or_else(Vec::new, |text| {
        let text = neutralize_line(&text).into_owned();
        wrap(&[Span::new(&text, theme.style(StyleRole::Warn))], columns)
    })
}
