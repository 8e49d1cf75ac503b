//! One item of a transcript as rows. Each kind has a sign of its own, so that it can be told without colours.

use ratatui::buffer::Buffer;
use ratatui::style::{Modifier, Style};
use sysop_core::event::StopReason;
use sysop_core::text::neutralise;
use sysop_core::transcript::{Body, Item, Notice, Text, TextState, TurnEnd, Weight};
use sysop_core::words;

use super::cells::{Row, Span, hang, linked, width, wrap};
use super::markdown::Document;
use super::theme::{Ink, Theme};
use super::{output, plan};

/// Columns left of a text.
const GUTTER: usize = 2;
/// Rows of a prompt before it is folded.
const PROMPT_ROWS_MAX: usize = 12;
/// Rows of a thought that is still coming.
const LIVE_THOUGHT_ROWS: usize = 3;

/// Where a session's tools run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// The host or hosts.
    pub host: &'a str,
    /// The root on it.
    pub root: &'a str,
}

/// How an item is to be laid out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look<'a> {
    pub(super) columns: usize,
    pub(super) theme: Theme,
    pub(super) place: Place<'a>,
    /// Whether it is unfolded.
    pub(super) open: bool,
}

/// An item laid out.
#[derive(Debug, Clone)]
pub(super) struct Laid {
    rows: Vec<Row>,
    /// Text that may grow, below the rows.
    document: Option<Document>,
    /// Only the last rows of the document are shown.
    window: usize,
    /// What stands below the text.
    after: Vec<Row>,
    first: Span,
    rest: Span,
}

impl Laid {
    pub(super) fn of(item: &Item, look: Look<'_>) -> Self {
        let theme = look.theme;
        match &item.body {
            Body::Prompt(text) => prompt(text, look),
            Body::Answer(text) => {
                let mut laid = Self::text(look, Style::new());
                laid.signs("● ", theme.style(Ink::Sign));
                laid.update_text(text, theme);
                laid
            }
            Body::Reasoning(text) => reasoning(text, look),
            Body::Plan(plan) => {
                Self::rows(plan::history_rows(plan, look.place, look.columns, theme, look.open))
            }
            Body::Output(output) => Self::rows(output::history_rows(output, look.columns, theme, look.open)),
            Body::Notice(notice) => Self::rows(notice_rows(notice, look)),
            Body::End(end) => Self::rows(end_rows(end, look)),
        }
    }

    /// Takes in that the item has changed. A text that has grown is not laid out anew.
    pub(super) fn update(&mut self, item: &Item, look: Look<'_>) {
        match &item.body {
            Body::Answer(text) if self.document.is_some() => self.update_text(text, look.theme),
            Body::Reasoning(text) if self.document.is_some() && text.state == TextState::Streaming => {
                self.update_text(text, look.theme);
            }
            Body::Prompt(_)
            | Body::Answer(_)
            | Body::Reasoning(_)
            | Body::Plan(_)
            | Body::Output(_)
            | Body::Notice(_)
            | Body::End(_) => *self = Self::of(item, look),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len() + self.text_rows() + self.after.len()
    }

    pub(super) fn draw(&self, at: usize, buffer: &mut Buffer, x: u16, y: u16, columns: u16) {
        let row = self.row(at);
        let gutter = if at == 0 { &self.first } else { &self.rest };
        let taken = u16::try_from(width(gutter.text())).unwrap_or(0).min(columns);
        if taken > 0 {
            Row::from(vec![gutter.clone()]).draw(buffer, x, y, taken);
        }
        match row {
            Some(row) => row.draw(buffer, x + taken, y, columns - taken),
            None => Row::default().draw(buffer, x + taken, y, columns - taken),
        }
    }

    fn text_rows(&self) -> usize {
        self.document.as_ref().map_or(0, |document| document.len().min(self.window))
    }

    fn row(&self, at: usize) -> Option<&Row> {
        let Some(below) = at.checked_sub(self.rows.len()) else { return self.rows.get(at) };
        match below.checked_sub(self.text_rows()) {
            Some(after) => self.after.get(after),
            None => {
                let document = self.document.as_ref()?;
                document.row(below + document.len().saturating_sub(self.window))
            }
        }
    }

    fn rows(rows: Vec<Row>) -> Self {
        let none = Span::new("", Style::new());
        Self { rows, document: None, window: usize::MAX, after: Vec::new(), first: none.clone(), rest: none }
    }

    fn text(look: Look<'_>, base: Style) -> Self {
        let columns = look.columns.saturating_sub(GUTTER).max(1);
        Self { document: Some(Document::new(columns, look.theme, base)), ..Self::rows(Vec::new()) }
    }

    fn signs(&mut self, first: &str, style: Style) {
        (self.first, self.rest) = (Span::new(first, style), Span::new("  ", Style::new()));
    }

    fn update_text(&mut self, text: &Text, theme: Theme) {
        if let Some(document) = &mut self.document {
            document.update(&text.text);
            if text.state != TextState::Streaming {
                document.settle();
            }
        }
        self.after.clear();
        if text.state == TextState::Broken {
            self.after.push(Row::of("■ broken off here", theme.style(Ink::Warn)));
        }
    }
}

fn prompt(text: &str, look: Look<'_>) -> Laid {
    let style = look.theme.style(Ink::Prompt);
    let columns = look.columns.saturating_sub(GUTTER).max(1);
    let safe = neutralise(text.trim_end());
    let rows: Vec<Row> = safe.split('\n').flat_map(|line| wrap(&[Span::new(line, style)], columns)).collect();
    let limit = if look.open { usize::MAX } else { PROMPT_ROWS_MAX };
    let mut rows = fold(rows, limit, limit - limit / 4, style);
    for row in &mut rows {
        row.ground = style;
    }
    let mut laid = Laid::rows(rows);
    let sign = style.patch(look.theme.style(Ink::Sign));
    laid.first = Span::new("❯ ", Style { bg: style.bg, ..sign });
    laid.rest = Span::new("  ", style);
    laid
}

/// Whether the text of a thought is shown, and not only that there is one.
fn is_shown(text: &Text, look: Look<'_>) -> bool {
    look.open || text.state == TextState::Streaming
}

fn reasoning(text: &Text, look: Look<'_>) -> Laid {
    let dim = look.theme.style(Ink::Dim);
    let lines = text.text.lines().filter(|line| !line.trim().is_empty()).count();
    let title = match (text.state, lines) {
        (TextState::Streaming, _) => "thinking".to_owned(),
        (TextState::Whole | TextState::Broken, 1) => "thought, 1 line".to_owned(),
        (TextState::Whole | TextState::Broken, lines) => format!("thought, {lines} lines"),
    };
    let mut laid = if is_shown(text, look) {
        let mut laid = Laid::text(look, dim.add_modifier(Modifier::ITALIC));
        laid.window = if look.open { usize::MAX } else { LIVE_THOUGHT_ROWS };
        laid.update_text(text, look.theme);
        laid
    } else {
        Laid::rows(Vec::new())
    };
    laid.rows.push(Row::of(&title, dim));
    laid.signs("∴ ", dim);
    laid
}

fn notice_rows(notice: &Notice, look: Look<'_>) -> Vec<Row> {
    let (sign, ink) = match notice.weight {
        Weight::Note => ("· ", Ink::Dim),
        Weight::Warning => ("! ", Ink::Warn),
    };
    signed(sign, &notice.text, look, ink)
}

fn end_rows(end: &TurnEnd, look: Look<'_>) -> Vec<Row> {
    let mut out = Vec::new();
    if let Some(text) = words::end_words(end) {
        let (sign, ink) = match end.reason {
            StopReason::EndTurn => ("· ", Ink::Dim),
            StopReason::MaxIterations | StopReason::Cancelled | StopReason::Paused => ("■ ", Ink::Warn),
            StopReason::Failed => ("✗ ", Ink::Bad),
        };
        out.extend(signed(sign, &text, look, ink));
    }
    let calls = if end.iterations == 1 {
        "1 model call".to_owned()
    } else {
        format!("{} model calls", end.iterations)
    };
    if let Some(tokens) = words::usage(end.usage) {
        out.extend(signed("─ ", &format!("{calls}, {tokens}"), look, Ink::Dim));
    }
    out
}

fn signed(sign: &str, text: &str, look: Look<'_>, ink: Ink) -> Vec<Row> {
    let style = look.theme.style(ink);
    let columns = look.columns.saturating_sub(GUTTER).max(1);
    let safe = neutralise(text);
    let rows = safe
        .split('\n')
        .flat_map(|line| wrap(&linked(vec![Span::new(line, style)], look.theme), columns))
        .collect();
    hang(rows, &Span::new(sign, style), &Span::new("  ", style))
}

/// The first and last rows of many, and the count of the rest.
pub(super) fn fold(mut rows: Vec<Row>, rows_max: usize, first: usize, style: Style) -> Vec<Row> {
    if rows.len() <= rows_max {
        return rows;
    }
    let last = rows_max.saturating_sub(first + 1);
    let rest = rows.len() - first - last;
    let end = rows.split_off(rows.len() - last);
    rows.truncate(first);
    rows.push(Row::of(&format!("… {rest} rows more"), style));
    rows.extend(end);
    rows
}
