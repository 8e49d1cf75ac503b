//! The middle pane: a proposal under review, a program's question, or the output of the running tool.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use sysop_core::id::Timestamp;
use sysop_core::policy::{Finding, Risk, RiskClass};
use sysop_core::question::Question;
use sysop_core::text::visible_text;
use sysop_core::transcript::{ItemBody, Proposal, SessionInfo, ToolOutput, call_summary};
use sysop_core::ui_text;
use sysop_core::undo::hosts_of_call;
use sysop_driver::frontend::OfferedRule;
use sysop_term::cells::{hang, truncate, width, wrap, wrap_exact};
use sysop_term::diff::FileEdit;
use sysop_term::plan::{
    canary_rows, command_rows, effect_rows, guard_rows, is_command, missed_host_rows, origin_rows,
    preview_rows, reason_rows, terms_rows, unshown_preview,
};
use sysop_term::question::{detail_rows, prompt_rows};
use sysop_term::theme::{StyleRole, Theme};
use sysop_term::{Span, TextRow};

use super::{DOT, write_area};
use crate::app::{App, Review, ReviewMode};

/// Maximum number of rows of live output, which is also limited to a third of the screen.
const LIVE_ROWS_MAX: u16 = 16;
const INDENT: u16 = 2;
/// Time after which a call is shown that is still being assessed. Most calls take less, and nothing flickers.
const PENDING_AFTER: Duration = Duration::from_millis(500);
/// Titles of a proposal.
const RUN_THIS: &str = "Run this?";
const APPLY_THIS: &str = "Apply this change?";
const CONFIRM_SESSION: &str = "Allow for this session? Press a again; Esc returns";

/// Content of the middle pane, laid out for a certain width.
pub(super) enum MiddlePane {
    Hidden,
    Rows {
        title: TextRow,
        /// Danger of a proposal, which its title states if the rows do not fit.
        danger: Option<Span>,
        rows: Vec<TextRow>,
        /// Number of rows above the command of a proposal; 0 for other contents.
        above: usize,
        content: MiddleContent,
    },
    /// The command editor, between the rows `above` and `below`, of which the last `risk` state the risk, the guard and
    /// the terms. The editor needs `wants` rows. The pane has at least `least` rows, so that it does not shrink when
    /// editing begins.
    Editing {
        title: TextRow,
        above: Vec<TextRow>,
        wants: u16,
        below: Vec<TextRow>,
        risk: usize,
        least: usize,
    },
}

/// Kind of content, which determines the visible rows if not all fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MiddleContent {
    /// A proposal, which must be scrolled to its end before it can be answered.
    Proposal,
    /// A question, or a call that is not proposed yet; only its beginning is shown if it does not fit.
    Question,
    /// Live output; only its end is shown if it does not fit.
    Live,
}

impl MiddlePane {
    /// `now` is the time since the start of the TUI.
    pub(super) fn of(app: &App, theme: Theme, area: Rect, now: Duration) -> Self {
        let columns = usize::from(area.width.saturating_sub(INDENT).max(1));
        if let Some(question_prompt) = app.question_prompt() {
            return question(question_prompt.question(), theme, columns);
        }
        let facts = app.transcript().session_info();
        if let (Some(review), Some(facts)) = (app.review(), facts)
            && let Some(plan) = app.transcript().plan(review.call())
        {
            let risk = app.risk().unwrap_or_default();
            let now = app.wall_clock(now);
            let number = app.transcript().call_number(review.call());
            let confirms = review.mode() == ReviewMode::ConfirmingSession;
            let question = match confirms {
                true => CONFIRM_SESSION,
                false if FileEdit::of(&plan.call).is_some() => APPLY_THIS,
                false => RUN_THIS,
            };
            let title = proposal_title(question, plan, review.is_edited(), number, facts, theme);
            if review.mode() == ReviewMode::Editing {
                let wants =
                    crate::app::text_area_rows(review.area(), area.width.saturating_sub(INDENT + 2).max(1));
                let above = rows_above_command(plan, facts, theme, columns);
                let command = review.command();
                let (edited, mode) = ((command.as_str(), &risk), review.mode());
                let (below, risk) = rows_below_command(plan, edited, mode, now, theme, columns);
                // Nothing moves, so that the user can go on reading.
                let proposed = (plan.command.as_str(), &plan.risk);
                let proposed_below =
                    rows_below_command(plan, proposed, ReviewMode::Deciding, now, theme, columns).0.len();
                let proposed = preview_rows(plan, &plan.command, &plan.risk.findings, theme, columns).len();
                let least = above.len() + proposed + proposed_below;
                return Self::Editing { title, above, wants, below, risk, least };
            }
            if let (ReviewMode::ConfirmingRule, Some(offered)) = (review.mode(), review.offered_rule()) {
                let title = TextRow::of("Save this rule and run the command?", theme.style(StyleRole::Title));
                let rows = rule_rows(offered, theme, columns);
                return Self::Rows { title, danger: None, rows, above: 0, content: MiddleContent::Proposal };
            }
            let command = review.command();
            let mut rows = rows_above_command(plan, facts, theme, columns);
            let above = rows.len();
            rows.extend(preview_rows(plan, &command, &risk.findings, theme, columns));
            let shown = (command.as_str(), &risk);
            rows.extend(rows_below_command(plan, shown, review.mode(), now, theme, columns).0);
            let danger = risk.class.always_asks().then(|| {
                let text = format!("  ⚠ {}", risk_text(&risk));
                Span::new(&text, theme.style(StyleRole::Bad))
            });
            return Self::Rows { title, danger, rows, above, content: MiddleContent::Proposal };
        }
        if let Some(pane) = pending_call(app, theme, area, now) {
            return pane;
        }
        let live = app.middle().and_then(|id| app.transcript().item(&id));
        match live.map(|item| &item.body) {
            Some(ItemBody::ToolOutput(output)) if !output.tail.is_empty() => {
                let most = usize::from((area.height / 3).clamp(1, LIVE_ROWS_MAX));
                Self::Rows {
                    title: live_title(output, theme),
                    danger: None,
                    rows: sysop_term::output::live_rows(output, columns, most, theme),
                    above: 0,
                    content: MiddleContent::Live,
                }
            }
            Some(_) | None => Self::Hidden,
        }
    }

    /// Returns the rows as text, without the title.
    #[cfg(test)]
    pub(super) fn text(&self) -> Vec<String> {
        match self {
            Self::Hidden => Vec::new(),
            Self::Rows { rows, .. } => rows.iter().map(TextRow::text).collect(),
            Self::Editing { above, below, .. } => above.iter().chain(below).map(TextRow::text).collect(),
        }
    }

    pub(super) fn rows(&self) -> u16 {
        let count = |rows: &[TextRow]| u16::try_from(rows.len()).unwrap_or(u16::MAX);
        match self {
            Self::Hidden => 0,
            Self::Rows { rows, .. } => count(rows).max(1).saturating_add(1),
            Self::Editing { above, wants, below, least, .. } => {
                let least = u16::try_from(*least).unwrap_or(u16::MAX);
                let rows = count(above).saturating_add(*wants).saturating_add(count(below));
                rows.max(least).saturating_add(1)
            }
        }
    }

    /// Draws the pane. Returns the cursor position if the cursor is in the pane.
    pub(super) fn draw(
        &self,
        app: &mut App,
        theme: Theme,
        area: Rect,
        frame: &mut Frame<'_>,
    ) -> Option<Position> {
        let (title, is_high) = match self {
            Self::Hidden => return None,
            Self::Rows { title, .. } | Self::Editing { title, .. } => (title, area.height > 1),
        };
        let (top, mut area) = (area, area);
        if is_high {
            area = Rect { y: area.y + 1, height: area.height - 1, ..area };
        }
        let first = self.scroll(app, area);
        if is_high {
            let unread = app.review().map_or(0, Review::unread_above);
            let title = self.with_position(title, first, area.height, unread, theme);
            titled(&title, theme, top.width).draw(frame.buffer_mut(), top.x, top.y, top.width);
        }
        match self {
            Self::Hidden => None,
            Self::Rows { rows, .. } => {
                draw_rows(rows.iter().skip(usize::from(first)), area, frame);
                None
            }
            Self::Editing { above, wants, below, risk, .. } => {
                // Space goes to the command first, then the risk, then the reason.
                let command = (*wants).clamp(1, area.height);
                let (mut above, mut below) = (&above[..], &below[..]);
                if above.len() + below.len() > usize::from(area.height - command) {
                    above = above.strip_suffix(&[TextRow::default()]).unwrap_or(above);
                    below = &below[below.len() - risk..];
                }
                let below_rows = u16::try_from(below.len()).unwrap_or(0).min(area.height - command);
                let above_rows =
                    u16::try_from(above.len()).unwrap_or(0).min(area.height - command - below_rows);
                let part = |y: u16, height: u16| Rect { y: area.y + y, height, ..area };
                draw_rows(above.iter(), part(0, above_rows), frame);
                let place = part(above_rows, command);
                for y in place.top()..place.bottom() {
                    let sign = if y == place.top() { "  $ " } else { "    " };
                    TextRow::of(sign, theme.style(StyleRole::Sign)).draw(
                        frame.buffer_mut(),
                        place.x,
                        y,
                        place.width,
                    );
                }
                let rest = area.height - above_rows - command;
                draw_rows(below.iter(), part(above_rows + command, below_rows.max(rest)), frame);
                let indent = (INDENT + 2).min(place.width.saturating_sub(1));
                let place = Rect { x: place.x + indent, width: place.width - indent, ..place };
                let review = app.review_mut()?;
                review.set_editor_rows(*wants, command);
                Some(write_area(review.area_mut(), "", theme, place, frame))
            }
        }
    }
}

impl MiddlePane {
    /// Returns the first row to draw in `area`, and records which part of a proposal is visible.
    fn scroll(&self, app: &mut App, area: Rect) -> u16 {
        let Self::Rows { rows, above, content, .. } = self else { return 0 };
        let (count, page) = (u16::try_from(rows.len()).unwrap_or(u16::MAX), area.height);
        match content {
            MiddleContent::Question => 0,
            MiddleContent::Live => count.saturating_sub(page),
            MiddleContent::Proposal => app.review_mut().map_or(0, |review| {
                review.set_command_place(*above, area.width.saturating_sub(INDENT + 2).max(1));
                review.set_viewport(count, page)
            }),
        }
    }

    /// Adds the visible rows to the title of a proposal that does not fit, as in `lines 21–40 of 96`, the number of
    /// rows above them that were not displayed, and its danger.
    fn with_position(&self, title: &TextRow, first: u16, page: u16, unread: u16, theme: Theme) -> TextRow {
        let mut title = title.clone();
        if let Self::Rows { danger, rows, content: MiddleContent::Proposal, .. } = self
            && rows.len() > usize::from(page)
        {
            let (first, last) = (usize::from(first), usize::from(first) + usize::from(page));
            let text = format!("  lines {}–{} of {}", first + 1, last.min(rows.len()), rows.len());
            let at = title.spans.len().min(1);
            let mut added = vec![Span::new(&text, theme.style(StyleRole::Title))];
            if unread > 0 {
                let text = format!(", {} above not read yet", ui_text::counted(unread.into(), "line"));
                added.push(Span::new(&text, theme.style(StyleRole::Warn)));
            }
            added.extend(danger.clone());
            title.spans.splice(at..at, added);
        }
        title
    }
}

fn draw_rows<'a>(rows: impl Iterator<Item = &'a TextRow>, area: Rect, frame: &mut Frame<'_>) {
    let indent = INDENT.min(area.width.saturating_sub(1));
    let mut rows = rows;
    for y in area.top()..area.bottom() {
        TextRow::default().draw(frame.buffer_mut(), area.x, y, area.width);
        if let Some(row) = rows.next() {
            row.draw(frame.buffer_mut(), area.x + indent, y, area.width - indent);
        }
    }
}

/// Formats a title as a line across the screen.
fn titled(title: &TextRow, theme: Theme, columns: u16) -> TextRow {
    let (line, columns) = (theme.style(StyleRole::Dim), usize::from(columns));
    let mut row = TextRow::of("─ ", line);
    for span in truncate(&title.spans, columns.saturating_sub(4), line).spans {
        row.push(span);
    }
    row.push(Span::new(" ", line));
    row.push(Span::new(&"─".repeat(columns.saturating_sub(row.width())), line));
    row
}

fn proposal_title(
    question: &str,
    plan: &Proposal,
    edited: bool,
    number: Option<(usize, usize)>,
    facts: &SessionInfo,
    theme: Theme,
) -> TextRow {
    let mut row = TextRow::of(question, theme.style(StyleRole::Title));
    if let Some((number, count)) = number {
        row.push(Span::new(&format!("  {number} of {count}"), theme.style(StyleRole::Title)));
    }
    if edited {
        row.push(Span::new("  edited", theme.style(StyleRole::Warn)));
    }
    let (host, folder) = facts.place_of_plan(plan);
    let host = hosts_of_call(&plan.call, host);
    let place = format!("  {}{DOT}{} in {folder}", plan.call.name, ui_text::host_summary(&host));
    row.push(Span::new(&place, theme.style(StyleRole::Dim)));
    row
}

fn rows_above_command(plan: &Proposal, facts: &SessionInfo, theme: Theme, columns: usize) -> Vec<TextRow> {
    let mut rows = origin_rows(plan, columns, theme);
    rows.extend(reason_rows(plan, columns, theme));
    let host = hosts_of_call(&plan.call, facts.place_of(&plan.call.name).0);
    if ui_text::is_fleet(&host) {
        // A single answer starts the command on several hosts; make that obvious.
        let text = ui_text::on_place(&host);
        rows.extend(wrap(&[Span::new(&text, theme.style(StyleRole::Warn))], columns));
        rows.extend(missed_host_rows(plan, facts, columns, theme));
        rows.extend(canary_rows(plan, facts, columns, theme));
    }
    if !rows.is_empty() {
        rows.push(TextRow::default());
    }
    rows
}

/// Returns the rows, and the number of rows at their end that state the risk, the guard and the terms.
fn rows_below_command(
    plan: &Proposal,
    (command, risk): (&str, &Risk),
    mode: ReviewMode,
    now: Option<Timestamp>,
    theme: Theme,
    columns: usize,
) -> (Vec<TextRow>, usize) {
    let mut rows = vec![TextRow::default()];
    rows.extend(effect_rows(shown_preview(plan, command), columns, theme));
    let before = rows.len();
    if is_command(plan) && command.trim().is_empty() {
        rows.push(TextRow::of("! empty command: there is nothing to run", theme.style(StyleRole::Warn)));
    } else {
        rows.extend(risk_rows(risk, theme, columns));
    }
    // An edited command can only be allowed once, and in the editor, the key is a letter.
    let is_offered = mode != ReviewMode::Editing && command == plan.command;
    if let Some(grant) = plan.session_grant().filter(|_| is_offered) {
        let text = format!("a allow for this session: {}", ui_text::covers(grant));
        rows.extend(wrap(&[Span::new(&text, theme.style(StyleRole::Dim))], columns));
    }
    if command == plan.command {
        rows.extend(guard_rows(plan, columns, theme));
    }
    rows.extend(terms_rows(plan, now, columns, theme));
    let risk = rows.len() - before;
    (rows, risk)
}

/// Returns the preview of the command as currently edited, or an empty slice if it is not available yet.
fn shown_preview<'a>(plan: &'a Proposal, command: &str) -> &'a [String] {
    if !is_command(plan) || plan.previewed_command() == command { unshown_preview(plan) } else { &[] }
}

/// Returns rows that show the rule and the file to which it would be written.
fn rule_rows(offered: &OfferedRule, theme: Theme, columns: usize) -> Vec<TextRow> {
    let mut rows = Vec::new();
    for line in offered.toml.lines() {
        rows.extend(wrap_exact(&[Span::new(&visible_text(line), theme.style(StyleRole::Code))], columns));
    }
    rows.push(TextRow::default());
    rows.extend(wrap(&[Span::new(ui_text::RULE_SCOPE, theme.style(StyleRole::Warn))], columns));
    let file = format!("into {}", visible_text(&offered.file));
    rows.extend(wrap_exact(&[Span::new(&file, theme.style(StyleRole::Dim))], columns));
    rows
}

/// Returns rows that show the risk of the call.
fn risk_rows(risk: &Risk, theme: Theme, columns: usize) -> Vec<TextRow> {
    let (sign, ink) = match risk.class {
        RiskClass::ReadOnly => ("✓ ", StyleRole::Good),
        RiskClass::ReadsRemote | RiskClass::Changes => ("• ", StyleRole::Text),
        RiskClass::Opaque => ("! ", StyleRole::Warn),
        RiskClass::ReadsSecret | RiskClass::Dangerous | RiskClass::Lockout => ("⚠ ", StyleRole::Bad),
    };
    let text = risk_text(risk);
    let sign = Span::new(sign, theme.style(ink));
    let gap = Span::new(&" ".repeat(width(sign.text())), Style::new());
    let lines = wrap(&[Span::new(&text, theme.style(ink))], columns.saturating_sub(2));
    hang(lines, &sign, &gap)
}

/// Returns the class of a risk and its reasons.
fn risk_text(risk: &Risk) -> String {
    let class = ui_text::class(risk.class);
    let mut text = class.to_owned();
    let mut seen: Vec<&Finding> = Vec::new();
    let tells = |finding: &&Finding| finding.class == risk.class && finding.why != class;
    // Hosts that cannot be reached are named above the command.
    for finding in risk.findings.iter().filter(tells).filter(|finding| !finding.is_unreached()) {
        if seen.iter().all(|known| known.why != finding.why) {
            text.push_str(if seen.is_empty() { ": " } else { ", " });
            text.push_str(&finding.why);
            seen.push(finding);
        }
    }
    text
}

fn question(question: &Question, theme: Theme, columns: usize) -> MiddlePane {
    let title = TextRow::of(&format!("{} asks", question.from), theme.style(StyleRole::Warn));
    let mut rows = detail_rows(question, columns, theme);
    rows.extend(prompt_rows(question, columns, theme));
    MiddlePane::Rows { title, danger: None, rows, above: 0, content: MiddleContent::Question }
}

/// Returns the pane with the next call of the reply while its host is being asked about it, once that takes long.
fn pending_call(app: &App, theme: Theme, area: Rect, now: Duration) -> Option<MiddlePane> {
    let call = app.transcript().pending_call().filter(|_| app.waited(now) >= PENDING_AFTER)?;
    let facts = app.transcript().session_info()?;
    let mut title = TextRow::of("Next", theme.style(StyleRole::Title));
    let (host, root) = facts.place_of(&call.name);
    let place = format!("  {}{DOT}{} in {root}", call.name, ui_text::host_summary(host));
    title.push(Span::new(&place, theme.style(StyleRole::Dim)));
    let columns = usize::from(area.width.saturating_sub(INDENT).max(1));
    let mut rows = match call.text_argument("command") {
        Some(command) => command_rows(command, &[], columns, theme),
        None => {
            let text = [Span::new(&call_summary(call), theme.style(StyleRole::Code))];
            wrap_exact(&text, columns)
        }
    };
    rows.truncate(usize::from((area.height / 3).clamp(1, LIVE_ROWS_MAX)));
    Some(MiddlePane::Rows { title, danger: None, rows, above: 0, content: MiddleContent::Question })
}

fn live_title(output: &ToolOutput, theme: Theme) -> TextRow {
    let mut row = TextRow::of(&output.tool, theme.style(StyleRole::Title));
    row.push(Span::new("  output so far", theme.style(StyleRole::Dim)));
    row
}
