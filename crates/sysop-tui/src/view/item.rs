//! Layout of a single item. Each kind of item has a distinct symbol, to tell kinds apart without colors.

use ratatui::buffer::Buffer;
use ratatui::style::{Modifier, Style};
use sysop_core::event::StopReason;
use sysop_core::text::{neutralize, neutralize_line};
use sysop_core::transcript::{
    Item, ItemBody, Notice, Severity, StreamedText, TextState, TurnEnd, UserPrompt,
};
use sysop_core::ui_text;
use sysop_term::cells::{Span, TextRow, hang, linked, width, wrap};
use sysop_term::markdown::MarkdownDocument;
use sysop_term::theme::{StyleRole, Theme};

use super::{output, plan};

/// Number of columns to the left of the text.
const GUTTER: usize = 2;
/// Maximum number of rows of a prompt; a longer prompt is folded.
const PROMPT_ROWS_MAX: usize = 12;
/// Number of rows of the model's reasoning to show while it is streaming.
const LIVE_THOUGHT_ROWS: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ToolLocation<'a> {
    pub(super) host: &'a str,
    pub(super) root: &'a str,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct LayoutOptions<'a> {
    pub(super) columns: usize,
    pub(super) theme: Theme,
    pub(super) place: ToolLocation<'a>,
    /// True if the item is unfolded.
    pub(super) open: bool,
}

#[derive(Debug, Clone)]
pub(super) struct ItemLayout {
    rows: Vec<TextRow>,
    /// Text that may grow, shown below `rows`.
    document: Option<MarkdownDocument>,
    /// Number of rows to show from the end of the document.
    window: usize,
    after: Vec<TextRow>,
    first: Span,
    rest: Span,
}

impl ItemLayout {
    pub(super) fn of(item: &Item, options: LayoutOptions<'_>) -> Self {
        let theme = options.theme;
        match &item.body {
            ItemBody::Prompt(text) => prompt(text, options),
            ItemBody::Answer(text) => {
                let mut item_layout = Self::text(options, Style::new());
                item_layout.signs("● ", theme.style(StyleRole::Sign));
                item_layout.update_text(text, theme);
                item_layout
            }
            ItemBody::Reasoning(text) => reasoning(text, options),
            ItemBody::Proposal(plan) => {
                Self::rows(plan::history_rows(plan, options.place, options.columns, theme, options.open))
            }
            ItemBody::ToolOutput(output) => {
                Self::rows(output::history_rows(output, options.columns, theme, options.open))
            }
            ItemBody::Notice(notice) => Self::rows(notice_rows(notice, options)),
            ItemBody::End(end) => Self::rows(end_rows(end, options)),
        }
    }

    /// Updates the layout of a changed item. If its text has only grown, the layout is extended, not rebuilt.
    pub(super) fn update(&mut self, item: &Item, options: LayoutOptions<'_>) {
        match &item.body {
            ItemBody::Answer(text) if self.document.is_some() => self.update_text(text, options.theme),
            ItemBody::Reasoning(text) if self.document.is_some() && text.state == TextState::Streaming => {
                self.update_text(text, options.theme);
            }
            ItemBody::Prompt(_)
            | ItemBody::Answer(_)
            | ItemBody::Reasoning(_)
            | ItemBody::Proposal(_)
            | ItemBody::ToolOutput(_)
            | ItemBody::Notice(_)
            | ItemBody::End(_) => *self = Self::of(item, options),
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
            TextRow::from(vec![gutter.clone()]).draw(buffer, x, y, taken);
        }
        match row {
            Some(row) => row.draw(buffer, x + taken, y, columns - taken),
            None => TextRow::default().draw(buffer, x + taken, y, columns - taken),
        }
    }

    /// Returns the text of each row.
    pub(super) fn texts(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.len()).map(|at| self.row(at).map(TextRow::text).unwrap_or_default())
    }

    fn text_rows(&self) -> usize {
        self.document.as_ref().map_or(0, |document| document.len().min(self.window))
    }

    fn row(&self, at: usize) -> Option<&TextRow> {
        let Some(below) = at.checked_sub(self.rows.len()) else { return self.rows.get(at) };
        match below.checked_sub(self.text_rows()) {
            Some(after) => self.after.get(after),
            None => {
                let document = self.document.as_ref()?;
                document.row(below + document.len().saturating_sub(self.window))
            }
        }
    }

    fn rows(rows: Vec<TextRow>) -> Self {
        let none = Span::new("", Style::new());
        Self { rows, document: None, window: usize::MAX, after: Vec::new(), first: none.clone(), rest: none }
    }

    fn text(options: LayoutOptions<'_>, base: Style) -> Self {
        let columns = options.columns.saturating_sub(GUTTER).max(1);
        Self { document: Some(MarkdownDocument::new(columns, options.theme, base)), ..Self::rows(Vec::new()) }
    }

    fn signs(&mut self, first: &str, style: Style) {
        (self.first, self.rest) = (Span::new(first, style), Span::new("  ", Style::new()));
    }

    fn update_text(&mut self, text: &StreamedText, theme: Theme) {
        if let Some(document) = &mut self.document {
            document.update(&text.text);
            if text.state != TextState::Streaming {
                document.settle();
            }
        }
        self.after.clear();
        if text.state == TextState::Broken {
            self.after.push(TextRow::of("■ incomplete", theme.style(StyleRole::Warn)));
        }
    }
}

fn prompt(prompt: &UserPrompt, options: LayoutOptions<'_>) -> ItemLayout {
    let style = options.theme.style(StyleRole::Prompt);
    let columns = options.columns.saturating_sub(GUTTER).max(1);
    let safe = neutralize(prompt.text.trim_end());
    let rows: Vec<TextRow> =
        safe.split('\n').flat_map(|line| wrap(&[Span::new(line, style)], columns)).collect();
    let limit = if options.open { usize::MAX } else { PROMPT_ROWS_MAX };
    let mut rows = fold(rows, limit, limit - limit / 4, style);
    if let Some(sender) = prompt.sender() {
        let dim = options.theme.style(StyleRole::Dim);
        let from = format!("from {} (server token):", neutralize_line(sender));
        rows.splice(0..0, wrap(&[Span::new(&from, dim)], columns));
    }
    for row in &mut rows {
        row.ground = style;
    }
    let mut item_layout = ItemLayout::rows(rows);
    let sign = style.patch(options.theme.style(StyleRole::Sign));
    item_layout.first = Span::new("❯ ", Style { bg: style.bg, ..sign });
    item_layout.rest = Span::new("  ", style);
    item_layout
}

/// Returns true if the text of the model's reasoning is shown, not only its title.
fn is_shown(text: &StreamedText, options: LayoutOptions<'_>) -> bool {
    options.open || text.state == TextState::Streaming
}

fn reasoning(text: &StreamedText, options: LayoutOptions<'_>) -> ItemLayout {
    let dim = options.theme.style(StyleRole::Dim);
    let lines = text.text.lines().filter(|line| !line.trim().is_empty()).count();
    let title = match (text.state, lines) {
        (TextState::Streaming, _) => "thinking".to_owned(),
        (TextState::Whole | TextState::Broken, 1) => "thought, 1 line".to_owned(),
        (TextState::Whole | TextState::Broken, lines) => format!("thought, {lines} lines"),
    };
    let mut item_layout = if is_shown(text, options) {
        let mut item_layout = ItemLayout::text(options, dim.add_modifier(Modifier::ITALIC));
        item_layout.window = if options.open { usize::MAX } else { LIVE_THOUGHT_ROWS };
        item_layout.update_text(text, options.theme);
        item_layout
    } else {
        ItemLayout::rows(Vec::new())
    };
    item_layout.rows.push(TextRow::of(&title, dim));
    item_layout.signs("∴ ", dim);
    item_layout
}

fn notice_rows(notice: &Notice, options: LayoutOptions<'_>) -> Vec<TextRow> {
    let (sign, role) = match notice.weight {
        Severity::Note => ("· ", StyleRole::Dim),
        Severity::Warning => ("! ", StyleRole::Warn),
    };
    signed(sign, &notice.text, options, role)
}

fn end_rows(end: &TurnEnd, options: LayoutOptions<'_>) -> Vec<TextRow> {
    let mut out = Vec::new();
    if let Some(text) = ui_text::turn_end_summary(end).filter(|_| !end.is_told_by_call) {
        let (sign, role) = match end.reason {
            StopReason::EndTurn => ("· ", StyleRole::Dim),
            StopReason::MaxIterations | StopReason::Cancelled | StopReason::Paused => ("■ ", StyleRole::Warn),
            StopReason::Failed => ("✗ ", StyleRole::Bad),
        };
        out.extend(signed(sign, &text, options, role));
    }
    let calls = if end.iterations == 1 {
        "1 model call".to_owned()
    } else {
        format!("{} model calls", end.iterations)
    };
    if let Some(tokens) = ui_text::usage(end.usage) {
        out.extend(signed("─ ", &format!("{calls}, {tokens}"), options, StyleRole::Dim));
    }
    out
}

fn signed(sign: &str, text: &str, options: LayoutOptions<'_>, role: StyleRole) -> Vec<TextRow> {
    let style = options.theme.style(role);
    let columns = options.columns.saturating_sub(GUTTER).max(1);
    let safe = neutralize(text);
    let rows = safe
        .split('\n')
        .flat_map(|line| wrap(&linked(vec![Span::new(line, style)], options.theme), columns))
        .collect();
    hang(rows, &Span::new(sign, style), &Span::new("  ", style))
}

/// If there are more than `rows_max` rows, replaces the middle ones with a row that says how many are hidden.
pub(super) fn fold(mut rows: Vec<TextRow>, rows_max: usize, first: usize, style: Style) -> Vec<TextRow> {
    if rows.len() <= rows_max {
        return rows;
    }
    let last = rows_max.saturating_sub(first + 1);
    let rest = rows.len() - first - last;
    let end = rows.split_off(rows.len() - last);
    rows.truncate(first);
    rows.push(TextRow::of(&format!("… {rest} more rows"), style));
    rows.extend(end);
    rows
}
