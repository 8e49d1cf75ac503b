//! Draws the start screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use sysop_core::text::neutralize_line;
use sysop_core::ui_text;
use sysop_term::cells::{truncate, width};
use sysop_term::theme::{StyleRole, Theme};
use sysop_term::{Span, TextRow};

use super::DOT;
use crate::app::{App, StartTarget};

/// Number of columns to the left of the text.
const INDENT: usize = 2;
/// Maximum width of a session's title, in columns.
const TITLE_COLUMNS_MAX: usize = 48;

/// Draws the start screen at the bottom of `area`, above the composer. Top rows that do not fit are dropped.
pub(super) fn draw(app: &mut App, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let rows = rows(app, theme, usize::from(area.width));
    let room = usize::from(area.height);
    for y in area.top()..area.bottom() {
        TextRow::default().draw(buffer, area.x, y, area.width);
    }
    // The name stays if there is room for more than the rest.
    let skip = rows.len().saturating_sub(room);
    let mut targets = Vec::new();
    for (at, (row, target)) in rows.into_iter().skip(skip).enumerate() {
        let y = area.y + u16::try_from(at).unwrap_or(u16::MAX);
        truncate(&row.spans, usize::from(area.width), theme.style(StyleRole::Dim))
            .draw(buffer, area.x, y, area.width);
        targets.extend(target.map(|target| (y, target)));
    }
    app.set_start_targets(targets);
}

fn rows(app: &App, theme: Theme, columns: usize) -> Vec<(TextRow, Option<StartTarget>)> {
    let (text, dim) = (theme.style(StyleRole::Text), theme.style(StyleRole::Dim));
    let indent = " ".repeat(INDENT);
    let mut rows = vec![(TextRow::default(), None)];
    let mut name = TextRow::of(&indent, Style::new());
    name.push(Span::new("sysop", theme.style(StyleRole::Title)));
    name.push(Span::new(&format!(" {}", env!("CARGO_PKG_VERSION")), dim));
    rows.push((name, None));
    if let Some(info) = app.transcript().session_info() {
        let mut place = TextRow::of(&indent, Style::new());
        place.push(Span::new(&safe(&ui_text::place(info.place())), theme.style(StyleRole::Strong)));
        if !info.root.is_empty() {
            place.push(Span::new(&format!("{DOT}{}", safe(&app.folder())), text));
        }
        rows.push((place, None));
        rows.push((TextRow::of(&format!("{indent}{}", safe(&info.model.to_string())), text), None));
    }
    rows.push((TextRow::default(), None));
    rows.push((TextRow::of(&format!("{indent}Try (Tab)"), dim), None));
    for example in app.examples() {
        let row = TextRow::of(&format!("{indent}  {example}"), text);
        rows.push((row, Some(StartTarget::Example(example))));
    }
    if !app.recent_sessions().is_empty() {
        rows.push((TextRow::default(), None));
        rows.push((TextRow::of(&format!("{indent}Recent (/sessions)"), dim), None));
        let titles: Vec<_> =
            app.recent_sessions().iter().map(|recent| title(&recent.title, columns)).collect();
        let widest = titles.iter().map(|title| width(title)).max().unwrap_or(0);
        for (recent, title) in app.recent_sessions().iter().zip(titles) {
            let gap = " ".repeat(widest - width(&title) + 2);
            let mut row = TextRow::of(&format!("{indent}  {title}"), text);
            row.push(Span::new(
                &safe(&format!("{gap}{}{DOT}{}", ui_text::host_summary(&recent.host), recent.age)),
                dim,
            ));
            rows.push((row, Some(StartTarget::Recent(recent.id.clone()))));
        }
    }
    rows.push((TextRow::default(), None));
    let mut keys = TextRow::of(&indent, Style::new());
    for (at, (key, what)) in
        [("F1", "commands"), ("?", "keys"), ("Shift+Tab", "approval mode")].iter().enumerate()
    {
        keys.push(Span::new(if at > 0 { DOT } else { "" }, dim));
        keys.push(Span::new(key, text));
        keys.push(Span::new(&format!(" {what}"), dim));
    }
    rows.push((keys, None));
    rows
}

fn safe(text: &str) -> String {
    neutralize_line(text).into_owned()
}

fn title(text: &str, columns: usize) -> String {
    let text = safe(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    let most = TITLE_COLUMNS_MAX.min(columns / 2).max(8);
    truncate(&[Span::new(&text, Style::new())], most, Style::new()).text()
}
