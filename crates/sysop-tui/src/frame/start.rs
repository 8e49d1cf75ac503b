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

/// Parts of the start screen. If not all fit, the later ones are dropped first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StartPart {
    Name,
    Place,
    Model,
    Keys,
    KeysGap,
    RecentTitle,
    Recent,
    ExamplesTitle,
    Example,
    TopGap,
}

struct StartRow {
    part: StartPart,
    row: TextRow,
    target: Option<StartTarget>,
}

/// Draws the start screen at the top of `area`. Rows that do not fit are dropped: the examples first, the name last.
pub(super) fn draw(app: &mut App, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let rows = fitting_rows(rows(app, theme, usize::from(area.width)), usize::from(area.height));
    for y in area.top()..area.bottom() {
        TextRow::default().draw(buffer, area.x, y, area.width);
    }
    let mut targets = Vec::new();
    for (at, StartRow { row, target, .. }) in rows.into_iter().enumerate() {
        let y = area.y + u16::try_from(at).unwrap_or(u16::MAX);
        truncate(&row.spans, usize::from(area.width), theme.style(StyleRole::Dim))
            .draw(buffer, area.x, y, area.width);
        targets.extend(target.map(|target| (y, target)));
    }
    app.set_start_targets(targets);
}

fn fitting_rows(mut rows: Vec<StartRow>, room: usize) -> Vec<StartRow> {
    while rows.len() > room {
        let Some(least) = rows.iter().map(|row| row.part).max() else { break };
        let Some(at) = rows.iter().rposition(|row| row.part == least) else { break };
        rows.remove(at);
    }
    // A title without its list says nothing.
    for (title, list) in
        [(StartPart::ExamplesTitle, StartPart::Example), (StartPart::RecentTitle, StartPart::Recent)]
    {
        if rows.iter().all(|row| row.part != list) {
            rows.retain(|row| row.part != title);
        }
    }
    rows
}

fn rows(app: &App, theme: Theme, columns: usize) -> Vec<StartRow> {
    let (text, dim) = (theme.style(StyleRole::Text), theme.style(StyleRole::Dim));
    let indent = " ".repeat(INDENT);
    let mut rows = Vec::new();
    let mut push = |part: StartPart, row: TextRow, target: Option<StartTarget>| {
        rows.push(StartRow { part, row, target });
    };
    push(StartPart::TopGap, TextRow::default(), None);
    let mut name = TextRow::of(&indent, Style::new());
    name.push(Span::new("sysop", theme.style(StyleRole::Title)));
    name.push(Span::new(&format!(" {}", env!("CARGO_PKG_VERSION")), dim));
    push(StartPart::Name, name, None);
    if let Some(info) = app.transcript().session_info() {
        let mut place = TextRow::of(&indent, Style::new());
        place.push(Span::new(&safe(&ui_text::place(info.place())), theme.style(StyleRole::Strong)));
        if !info.root.is_empty() {
            place.push(Span::new(&format!("{DOT}{}", safe(&app.folder())), text));
        }
        push(StartPart::Place, place, None);
        let model = format!("{indent}{}", safe(&info.model.to_string()));
        push(StartPart::Model, TextRow::of(&model, text), None);
    }
    push(StartPart::ExamplesTitle, TextRow::default(), None);
    push(StartPart::ExamplesTitle, TextRow::of(&format!("{indent}Try (Tab or Enter)"), dim), None);
    for example in app.examples() {
        let row = TextRow::of(&format!("{indent}  {example}"), text);
        push(StartPart::Example, row, Some(StartTarget::Example(example)));
    }
    if !app.recent_sessions().is_empty() {
        push(StartPart::RecentTitle, TextRow::default(), None);
        push(StartPart::RecentTitle, TextRow::of(&format!("{indent}Recent (/sessions)"), dim), None);
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
            push(StartPart::Recent, row, Some(StartTarget::Recent(recent.id.clone())));
        }
    }
    push(StartPart::KeysGap, TextRow::default(), None);
    let mut keys = TextRow::of(&indent, Style::new());
    for (at, (key, what)) in
        [("F1", "commands"), ("?", "keys"), ("Shift+Tab", "approval mode")].iter().enumerate()
    {
        keys.push(Span::new(if at > 0 { DOT } else { "" }, dim));
        keys.push(Span::new(key, text));
        keys.push(Span::new(&format!(" {what}"), dim));
    }
    push(StartPart::Keys, keys, None);
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
