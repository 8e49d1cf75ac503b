//! Layout of the screen, and drawing of everything but the history: proposal, question, live output, the composer, and
//! the lines above and below the composer.

mod help;
mod layout;
mod middle_pane;
mod start;
mod text_page;

use std::time::Duration;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui_textarea::{CursorMove, DataCursor, TextArea};
use sysop_core::text::neutralize_line;
use sysop_core::transcript::ItemId;
use sysop_term::cells::{truncate, width, wrap};
use sysop_term::diff::FileEdit;
use sysop_term::theme::{StyleRole, Theme};
use sysop_term::{Span, TextRow, link};

pub use self::layout::{COLUMNS_MIN, ROWS_MIN, Regions, regions};
use crate::app::{
    App, DraftAnswer, Focus, OFFERED_MAX, Overlay, Review, ReviewMode, State, Tone, text_area_rows,
};
use crate::picker::PickerStyle;
use crate::screen::Hyperlink;
use crate::terminal_pane::TerminalPane;
use crate::view::{FoldChange, MatchStyles, mark_matches};

/// Number of columns to the left of the composer's text.
const SIGN_COLUMNS: u16 = 2;
/// Separator between the parts of a line.
const DOT: &str = " · ";
/// Number of columns of the line above the composer that its text never fills.
const RULE_MARGINS: u16 = 4;
/// Number of columns of that line for the keys that run and reject a proposal.
const ANSWER_KEYS_COLUMNS: usize = 23;
/// Maximum number of rows of a flash message.
const MESSAGE_ROWS_MAX: usize = 3;
/// Note behind a prompt that may have arrived, while the connection to the server is lost.
const SENT_AGAIN: &str = " (sent again once the server is back, never twice)";
/// Minimum number of columns for a prompt that was sent, besides a note behind it.
const NOTED_COLUMNS_MIN: usize = 36;
/// Minimum height of the history, in rows, at which its last row is left empty.
const AIRY_ROWS_MIN: u16 = 10;
/// Maximum width of the names in the completion list, in columns.
const NAME_COLUMNS_MAX: usize = 28;

/// Draws everything except the session's terminal.
pub fn draw(app: &mut App, frame: &mut Frame<'_>, links: &mut Vec<Hyperlink>, now: Duration) {
    let theme = Theme::new(app.theme());
    let area = frame.area();
    if area.width < COLUMNS_MIN || area.height < ROWS_MIN {
        TextRow::of("window too small", theme.style(StyleRole::Warn)).draw(
            frame.buffer_mut(),
            area.x,
            area.y,
            area.width,
        );
        app.reset_debounce();
        return;
    }
    let columns = area.width.saturating_sub(SIGN_COLUMNS).max(1);
    let middle = middle_pane::MiddlePane::of(app, theme, area, now);
    let mut regions = regions(area, middle.rows(), box_rows(app, columns));
    let rows_max = MESSAGE_ROWS_MAX.min(usize::from(regions.history.height.saturating_sub(1)));
    let mut above = waiting_rows(app, theme, area.width, rows_max, now);
    let message = message_rows(app, theme, area.width, rows_max.saturating_sub(above.len()), now);
    let is_flash_above = !message.is_empty();
    above.extend(message);
    let above_area = regions.take_rows_above_rule(above.len());
    let air = u16::from(regions.history.height >= AIRY_ROWS_MIN);
    let history = Rect { height: regions.history.height - air, ..regions.history };
    if app.shows_start_screen() {
        start::draw(app, theme, history, frame.buffer_mut());
    } else {
        app.draw_history(theme, history, frame.buffer_mut());
    }
    if let Some(search) = app.search() {
        let styles =
            MatchStyles { current: theme.style(StyleRole::Chosen), other: theme.style(StyleRole::Found) };
        let current = app.history.visible_match();
        mark_matches(search.pattern(), current, styles, history, frame.buffer_mut());
    }
    let mut cursor = None;
    if let Some(area) = regions.middle {
        cursor = middle.draw(app, theme, area, frame);
    }
    draw_message(&above, above_area, frame.buffer_mut());
    let flash = app.flash().filter(|_| !is_flash_above || above_area.is_none());
    rule(app, flash, theme, regions.rule, frame.buffer_mut(), now);
    cursor = draw_box(app, theme, regions.input, frame).or(cursor);
    status(app, theme, regions.status, frame.buffer_mut(), now);
    offers(app, theme, &regions, frame.buffer_mut());
    if let Some(overlay) = app.overlay_mut() {
        let free = Rect { height: regions.status.y - area.y, ..area };
        cursor = match overlay {
            Overlay::Help { first, filter } => {
                *first = help::draw(theme, free, *first, filter, frame.buffer_mut());
                None
            }
            Overlay::Text { title, lines, first } => {
                *first = text_page::draw(theme, free, (title, lines), *first, frame.buffer_mut());
                None
            }
            Overlay::Picker { picker, .. } => {
                picker.draw(picker.popup_area(free), frame.buffer_mut(), &picker_style(theme))
            }
            Overlay::Form { form, .. } => {
                form.draw(form.popup_area(free), frame.buffer_mut(), &picker_style(theme))
            }
        };
    }
    if let Some(cursor) = cursor {
        frame.set_cursor_position(cursor);
    }
    take_links(frame.buffer_mut(), links);
    app.draw_selection(theme.style(StyleRole::Chosen), frame.buffer_mut());
    app.note_rendered();
}

/// Draws the session's terminal and its status. The terminal is to the right of the history or below it, or fills a
/// small screen.
pub fn draw_pane(app: &mut App, pane: &mut TerminalPane, frame: &mut Frame<'_>, links: &mut Vec<Hyperlink>) {
    let theme = Theme::new(app.theme());
    let area = frame.area();
    let rows = area.height.saturating_sub(1);
    let parts = layout::pane_regions(Rect { height: rows, ..area });
    if let Some((history, border)) = parts.history {
        let beside = border.height > border.width;
        // Keep a gap between the text and the border.
        let width = history.width.saturating_sub(u16::from(beside));
        app.draw_whole_history(theme, Rect { width, ..history }, frame.buffer_mut());
        take_links(frame.buffer_mut(), links);
        let sign = if beside { "│" } else { "─" };
        for at in border.positions() {
            frame.buffer_mut()[at].set_symbol(sign).set_style(theme.style(StyleRole::Dim));
        }
    }
    let cursor = pane.draw(parts.pane, frame.buffer_mut());
    let transcript = app.transcript();
    let host = transcript.session_info().map_or("", |facts| facts.host.as_str());
    let mut row = TextRow::of("─ ", theme.style(StyleRole::Dim));
    // A question or proposal may be waiting behind the terminal.
    let waits = match (app.question_prompt(), app.review()) {
        (Some(question_prompt), _) => Some(format!("{} asks", question_prompt.question().from)),
        (None, Some(_)) => Some("approval required".to_owned()),
        (None, None) => None,
    };
    if let Some(waits) = waits {
        row.push(Span::new(&format!("{waits} · "), theme.style(StyleRole::Warn)));
    }
    row.push(Span::new(&pane.status(host, transcript.holder()), theme.style(StyleRole::Text)));
    row.push(Span::new(" ", Style::new()));
    let columns = usize::from(area.width);
    row.push(Span::new(&"─".repeat(columns.saturating_sub(row.width())), theme.style(StyleRole::Dim)));
    let row = truncate(&row.spans, columns, theme.style(StyleRole::Dim));
    row.draw(frame.buffer_mut(), area.x, area.y + rows, area.width);
    if let Some(cursor) = cursor {
        frame.set_cursor_position(cursor);
    }
}

#[cfg(test)]
pub(crate) fn middle_of(app: &App, columns: u16, rows: u16) -> Vec<String> {
    let area = Rect::new(0, 0, columns, rows);
    middle_pane::MiddlePane::of(app, Theme::new(app.theme()), area, std::time::Duration::ZERO).text()
}

fn picker_style(theme: Theme) -> PickerStyle {
    PickerStyle {
        text: theme.style(StyleRole::Text),
        dim: theme.style(StyleRole::Dim),
        matched: theme.style(StyleRole::Sign),
        selected: theme.style(StyleRole::Chosen),
        border: theme.style(StyleRole::Dim),
        title: theme.style(StyleRole::Title),
    }
}

/// Moves hyperlinks from the cells to `links`, because links are sent to the terminal separately.
fn take_links(buffer: &mut Buffer, links: &mut Vec<Hyperlink>) {
    let area = buffer.area;
    for y in area.top()..area.bottom() {
        for x in area.left()..area.right() {
            let cell = &mut buffer[(x, y)];
            if !cell.symbol().starts_with('\u{1b}') {
                continue;
            }
            let (shown, address) = link::shown(cell.symbol());
            let (shown, address) = (shown.to_owned(), address.map(str::to_owned));
            cell.set_symbol(&shown);
            cell.set_diff_option(ratatui::buffer::CellDiffOption::None);
            let Some(address) = address else { continue };
            let wide = u16::try_from(width(&shown)).unwrap_or(1).max(1);
            match links.last_mut() {
                Some(last) if last.address == address && last.area.y == y && last.area.right() == x => {
                    last.area.width += wide;
                }
                Some(_) | None => links.push(Hyperlink { area: Rect::new(x, y, wide, 1), address }),
            }
        }
    }
}

fn box_rows(app: &App, columns: u16) -> u16 {
    match (app.question_prompt(), app.review()) {
        (Some(_), _) => 1,
        (None, _) if app.search().is_some() => 1,
        (None, Some(review)) if review.mode() == ReviewMode::Rejecting => 1,
        (None, _) => app.composer().rows(columns),
    }
}

fn tone_role(tone: Tone) -> StyleRole {
    match tone {
        Tone::Plain => StyleRole::Text,
        Tone::Dim => StyleRole::Dim,
        Tone::Host => StyleRole::Strong,
        Tone::Busy => StyleRole::Sign,
        Tone::Good => StyleRole::Good,
        Tone::Warn => StyleRole::Warn,
        Tone::Bad => StyleRole::Bad,
    }
}

/// Returns the rows of the prompts that wait for another process, or that the server has not confirmed or not got, the
/// oldest first.
fn waiting_rows(app: &App, theme: Theme, columns: u16, rows_max: usize, now: Duration) -> Vec<TextRow> {
    let (style, columns) = (theme.style(StyleRole::Warn), usize::from(columns));
    let row = |what: &str, prompt: &str, note: &str| {
        let note = if columns < width(note) + NOTED_COLUMNS_MIN { "" } else { note };
        let text = format!("· {what}: {}", neutralize_line(prompt));
        let mut row = truncate(&[Span::new(&text, style)], columns - width(note), style);
        row.push(Span::new(note, style));
        row
    };
    let note = if app.is_offline() { SENT_AGAIN } else { "" };
    let for_process = app.waiting_for_process().map(|prompt| row("waiting", prompt, ""));
    let sent = app.unconfirmed(now).map(|prompt| row("sent, not confirmed yet", prompt, note));
    let waiting = app.undelivered().iter().map(|prompt| row("not delivered yet", prompt, ""));
    let mut rows: Vec<TextRow> = for_process.chain(sent).chain(waiting).collect();
    let shown = if rows.len() > rows_max { rows_max.saturating_sub(1) } else { rows.len() };
    if let more @ 1.. = rows.len() - shown {
        let undelivered = app.undelivered().len();
        let text = match more {
            _ if more <= undelivered => format!("· {more} more not delivered yet"),
            _ if more <= undelivered + app.unconfirmed(now).count() => {
                format!("· {more} more not confirmed yet")
            }
            _ => format!("· {more} more waiting"),
        };
        rows.truncate(shown);
        rows.push(truncate(&[Span::new(&text, style)], columns, style));
    }
    rows.truncate(rows_max);
    rows
}

/// Returns the rows of a flash message that does not fit in the line above the composer, at a proposal beside its keys;
/// none if it fits.
fn message_rows(app: &App, theme: Theme, columns: u16, rows_max: usize, now: Duration) -> Vec<TextRow> {
    let room = usize::from(columns.saturating_sub(RULE_MARGINS)).max(1);
    let beside = room.saturating_sub(kept_columns(app, app.flash(), &keys(app, now)));
    let Some(text) = app.flash().filter(|text| width(text) > beside) else { return Vec::new() };
    let style = theme.style(StyleRole::Warn);
    let mut rows = wrap(&[Span::new(text, style)], room);
    if rows.len() > rows_max {
        rows.truncate(rows_max);
        if let Some(last) = rows.last_mut() {
            last.push(Span::new("…", style));
        }
    }
    rows.into_iter().map(|row| row.with_prefix(Span::new("  ", style))).collect()
}

fn draw_message(rows: &[TextRow], area: Option<Rect>, buffer: &mut Buffer) {
    let Some(area) = area else { return };
    for (row, y) in rows.iter().zip(area.top()..area.bottom()) {
        row.draw(buffer, area.x, y, area.width);
    }
}

/// Draws the line above the composer: a flash message or the current activity, and key hints.
fn rule(app: &App, said: Option<&str>, theme: Theme, area: Rect, buffer: &mut Buffer, now: Duration) {
    let columns = usize::from(area.width);
    let mut left = TextRow::default();
    let keys = keys(app, now);
    let room = columns.saturating_sub(usize::from(RULE_MARGINS));
    let least = if app.review().is_some() { room / 3 } else { room / 4 };
    let free = room.saturating_sub(kept_columns(app, said, &keys)).max(least);
    match (said, app.activity(now)) {
        (Some(text), _) => left.push(Span::new(text, theme.style(StyleRole::Warn))),
        (None, Some(activity)) => {
            let text = match activity.text.split_once(' ') {
                Some((first, _)) if app.review().is_some() && width(&activity.text) + 2 > free => first,
                Some(_) | None => &activity.text,
            };
            left.push(Span::new(&format!("{} ", activity.sign), theme.style(tone_role(activity.tone))));
            let role = if activity.moves { StyleRole::Text } else { tone_role(activity.tone) };
            left.push(Span::new(text, theme.style(role)));
        }
        (None, None) => {}
    }
    let line = theme.style(StyleRole::Dim);
    let mut row = TextRow::default();
    if left.spans.is_empty() {
        row.push(Span::new("─", line));
    } else {
        row.push(Span::new("─ ", line));
        for span in truncate(&left.spans, free, line).spans {
            row.push(span);
        }
        row.push(Span::new(" ", line));
    }
    let room = columns.saturating_sub(row.width() + 4);
    let refusing = keys.iter().position(|key| is_refusing(key)).filter(|_| app.review().is_none());
    let hint = hint(&fitting(&keys, room, refusing), theme);
    let filler =
        columns.saturating_sub(row.width() + if hint.spans.is_empty() { 0 } else { hint.width() + 3 });
    row.push(Span::new(&"─".repeat(filler), line));
    if !hint.spans.is_empty() {
        row.push(Span::new(" ", line));
        hint.spans.into_iter().for_each(|span| row.push(span));
        row.push(Span::new(" ─", line));
    }
    row.draw(buffer, area.x, area.y, area.width);
}

/// Returns the columns that the most important keys need beside the text of the line: those that answer a proposal, or
/// all up to the one that declines a question or stops the turn.
fn kept_columns(app: &App, said: Option<&str>, keys: &[&str]) -> usize {
    let refusing = keys.iter().position(|key| is_refusing(key));
    let (kept, least) = match (app.review(), refusing, said) {
        // The keys appear once they answer; nothing moves then.
        (Some(_), ..) => (2, ANSWER_KEYS_COLUMNS),
        (None, Some(refusing), _) => (refusing + 1, 0),
        (None, None, None) => (1, 0),
        (None, None, Some(_)) => (0, 0),
    };
    keys.iter().take(kept).map(|key| width(key) + width(DOT)).sum::<usize>().max(least)
}

fn is_refusing(key: &str) -> bool {
    key.starts_with("Esc ")
}

/// Returns the leading key hints that fit in `room`; the list is ordered by importance. The hint at index `kept` has a
/// place before all others.
fn fitting<'a>(keys: &[&'a str], room: usize, kept: Option<usize>) -> Vec<&'a str> {
    let columns = |key: &str| width(key) + width(DOT);
    let kept = kept.filter(|at| width(keys[*at]) <= room);
    // The last hint has no dot behind it.
    let mut free = (room + width(DOT)).saturating_sub(kept.map_or(0, |at| columns(keys[at])));
    let mut is_full = false;
    let fits = keys.iter().enumerate().filter(|(at, key)| {
        if kept == Some(*at) {
            return true;
        }
        is_full |= columns(key) > free;
        free = free.saturating_sub(columns(key));
        !is_full
    });
    fits.map(|(_, key)| *key).collect()
}

/// Formats key hints, each as a key followed by its action in a dim style.
fn hint(keys: &[&str], theme: Theme) -> TextRow {
    let mut row = TextRow::default();
    for (at, key) in keys.iter().enumerate() {
        let (name, does) = key.split_once(' ').unwrap_or((key, ""));
        row.push(Span::new(if at > 0 { DOT } else { "" }, theme.style(StyleRole::Dim)));
        row.push(Span::new(name, theme.style(StyleRole::Text)));
        row.push(Span::new(&format!(" {does}"), theme.style(StyleRole::Dim)));
    }
    row
}

/// Returns the key hints for the current state, most important first; empty while keys are still ignored.
fn keys(app: &App, now: Duration) -> Vec<&'static str> {
    if !app.accepts_answers(now) {
        return Vec::new();
    }
    if let Some(question_prompt) = app.question_prompt() {
        return if question_prompt.is_doubtful() {
            vec!["y secret", "n not secret", "Esc decline"]
        } else {
            vec!["Enter send", "Esc decline"]
        };
    }
    if app.focus() == Focus::Cards {
        return match app.search() {
            Some(search) if search.is_typing() => vec!["Enter find", "Esc back"],
            Some(_) => vec!["n older", "N newer", "y copy", "Esc end search"],
            None => card_keys(app),
        };
    }
    if app.is_offline() {
        let takes_back = app.review().is_none() && app.composer().is_empty() && !app.undelivered().is_empty();
        return if takes_back { vec!["↑ take back"] } else { Vec::new() };
    }
    if let Some(review) = app.review() {
        return review_keys(app, review);
    }
    if !app.history.follows() {
        return vec!["End latest"];
    }
    match app.state() {
        _ if app.waiting_for_process().next().is_some() => vec!["Esc take back"],
        // The activity names the keys.
        _ if app.pause_delay().is_some() => Vec::new(),
        State::Thinking | State::Executing | State::Finalizing => vec!["Esc stop", "Ctrl+P pause"],
        State::ReviewAction | State::Input | State::Done => Vec::new(),
    }
}

/// Returns the key hints at a proposal.
fn review_keys(app: &App, review: &Review) -> Vec<&'static str> {
    let plan = app.transcript().plan(review.call());
    let is_edit = plan.is_some_and(|plan| FileEdit::of(&plan.call).is_some());
    let is_own = plan.is_some_and(|plan| plan.is_own(None));
    let run = match (review.takes_capital_y(), is_edit) {
        (true, false) => "Y run",
        (true, true) => "Y apply",
        (false, false) => "Enter run",
        (false, true) => "Enter apply",
    };
    let more = if review.unread_above() > 0 { "Enter unread lines" } else { "Enter more" };
    let mut hints = match review.mode() {
        // Keys go to the draft until it is empty.
        ReviewMode::Deciding if !app.composer().is_empty() => {
            let enter = match app.draft_answer() {
                Some(DraftAnswer::Run) if is_edit => "Enter apply",
                Some(DraftAnswer::Run) => "Enter run",
                Some(DraftAnswer::NeedsCapitalY) if is_edit => "Enter clear (only Y applies this)",
                Some(DraftAnswer::NeedsCapitalY) => "Enter clear (only Y runs this)",
                Some(DraftAnswer::Reject) => "Enter reject",
                Some(DraftAnswer::RejectWithText) if is_own => "Enter reject, keep text",
                Some(DraftAnswer::RejectWithText) => "Enter reject with this text",
                None => "Enter send",
            };
            vec![enter, "Esc set aside", "Ctrl+U clear line"]
        }
        ReviewMode::Deciding if !review.is_read() => vec![more, "r reject", "Esc cancel"],
        ReviewMode::Deciding if review.is_emptied() => vec!["i edit", "r reject", "Esc cancel"],
        ReviewMode::Editing if review.is_emptied() => vec!["Esc discard", "Alt+u undo"],
        ReviewMode::Deciding if review.awaits_preview() => {
            vec!["checking the effect…", "r reject", "i edit", "Esc cancel"]
        }
        ReviewMode::Deciding if review.is_editable() => {
            vec![run, "r reject", "i edit", "a session", "A always", "Esc cancel", "e editor"]
        }
        ReviewMode::Deciding => vec![run, "r reject", "a session", "A always", "Esc cancel"],
        ReviewMode::Editing => vec!["Enter done", "Esc discard", "Alt+Enter new line", "Alt+u undo"],
        ReviewMode::Rejecting => vec!["Enter reject", "Esc back"],
        ReviewMode::ConfirmingSession => vec!["a allow for this session", "Esc back"],
        ReviewMode::ConfirmingRule if !review.is_read() => vec![more, "Esc back"],
        ReviewMode::ConfirmingRule => vec!["Enter save and run", "Esc back"],
    };
    if review.is_long() && review.is_answering() && app.composer().is_empty() {
        hints.insert(hints.len().min(2), "PgUp/PgDn scroll");
        hints.push("Home/End first, last page");
    }
    hints.retain(|hint| match *hint {
        "a session" => review.has_session_grant(),
        "A always" => review.offered_rule().is_some(),
        _ => true,
    });
    hints
}

/// Returns the key hints for the focused card.
fn card_keys(app: &App) -> Vec<&'static str> {
    let fold = app.history.focused_fold().map(|change| match change {
        FoldChange::Fold => "Enter fold",
        FoldChange::Unfold => "Enter expand",
    });
    let whole = match app.history.focused() {
        Some(ItemId::ToolOutput(_) | ItemId::Proposal(_)) => "o full output",
        Some(_) | None => "o full text",
    };
    fold.into_iter().chain(["Esc back", "Tab older", "y copy", whole, "/ search"]).collect()
}

/// Draws the line below the composer: the status of the session.
fn status(app: &App, theme: Theme, area: Rect, buffer: &mut Buffer, now: Duration) {
    let columns = usize::from(area.width);
    let mut parts = app.status(now);
    let total = |parts: &[crate::app::StatusSegment]| -> usize {
        2 + parts.iter().map(|part| width(&part.text)).sum::<usize>() + 3 * parts.len().saturating_sub(1)
    };
    while total(&parts) > columns {
        let Some(last) = parts.iter().map(|part| part.rank).max().filter(|rank| *rank > 0) else { break };
        let Some(at) = parts.iter().rposition(|part| part.rank == last) else { break };
        parts.remove(at);
    }
    let mut row = TextRow::of("  ", Style::new());
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            row.push(Span::new(DOT, theme.style(StyleRole::Dim)));
        }
        row.push(Span::new(&part.text, theme.style(tone_role(part.tone))));
    }
    let hint = "? keys";
    let room = columns.saturating_sub(row.width() + 2);
    if room > hint.len() && !app.is_working() && app.composer().is_empty() {
        row.push(Span::new(&" ".repeat(room - hint.len()), Style::new()));
        row.push(Span::new(hint, theme.style(StyleRole::Dim)));
    }
    truncate(&row.spans, columns, theme.style(StyleRole::Dim)).draw(buffer, area.x, area.y, area.width);
}

/// Draws the composer and returns the cursor position, if the cursor is in it.
fn draw_box(app: &mut App, theme: Theme, area: Rect, frame: &mut Frame<'_>) -> Option<Position> {
    let text = Rect { x: area.x + SIGN_COLUMNS, width: area.width - SIGN_COLUMNS, ..area };
    let sign = |frame: &mut Frame<'_>, sign: &str, ink: StyleRole| {
        TextRow::of(sign, theme.style(ink)).draw(frame.buffer_mut(), area.x, area.y, SIGN_COLUMNS);
    };
    let in_front = app.overlay().is_some();
    if let Some(question_prompt) = app.question_prompt() {
        sign(frame, "› ", StyleRole::Warn);
        let shown = question_prompt.shown().unwrap_or_default().to_owned();
        let hint = match (question_prompt.is_doubtful(), question_prompt.shown()) {
            (true, _) => "Is this a password or secret prompt? y or n",
            (false, None) => "Input is hidden",
            (false, Some(_)) => "",
        };
        let line = if shown.is_empty() {
            TextRow::of(hint, theme.style(StyleRole::Dim))
        } else {
            tail(&shown, text.width, theme)
        };
        line.draw(frame.buffer_mut(), text.x, text.y, text.width);
        let at = u16::try_from(width(&shown)).unwrap_or(u16::MAX).min(text.width.saturating_sub(1));
        return Some(Position::new(text.x + at, text.y));
    }
    if let Some(review) = app.review_mut()
        && review.mode() == ReviewMode::Rejecting
    {
        sign(frame, "✗ ", StyleRole::Warn);
        return Some(write_area(
            review.reason_mut(),
            "Feedback for the model (optional)",
            theme,
            text,
            frame,
        ));
    }
    if let Some(search) = app.search() {
        sign(frame, "/ ", StyleRole::Sign);
        let shown = search.pattern().to_owned();
        let position = search.position().map(|position| format!("  {position}")).unwrap_or_default();
        let room = text.width.saturating_sub(u16::try_from(width(&position)).unwrap_or(0));
        let mut line = tail(&shown, room, theme);
        line.push(Span::new(&position, theme.style(StyleRole::Dim)));
        line.draw(frame.buffer_mut(), text.x, text.y, text.width);
        let at = u16::try_from(width(&shown)).unwrap_or(u16::MAX).min(text.width.saturating_sub(1));
        return search.is_typing().then_some(Position::new(text.x + at, text.y));
    }
    let writes = app.review().is_none() && app.focus() == Focus::Box && !in_front;
    sign(frame, "› ", if writes { StyleRole::Sign } else { StyleRole::Dim });
    let letter = app.pending_key().map(String::from);
    let placeholder = match app.state() {
        State::ReviewAction => letter.as_deref().unwrap_or_default(),
        _ if app.is_paused() => "A message ends the paused turn",
        State::Input | State::Done if !app.is_working() => "Describe a task, or / for commands",
        State::Thinking | State::Executing | State::Finalizing | State::Input | State::Done => {
            "Queue a message"
        }
    };
    let at = write_area(app.composer_mut().area_mut(), placeholder, theme, text, frame);
    writes.then_some(at)
}

/// Wraps text to `columns` and returns the last row, which contains the end of the text.
fn tail(text: &str, columns: u16, theme: Theme) -> TextRow {
    let spans = [Span::new(text, theme.style(StyleRole::Text))];
    let rows = sysop_term::cells::wrap_exact(&spans, usize::from(columns.saturating_sub(1)).max(1));
    rows.into_iter().next_back().unwrap_or_default()
}

fn write_area(
    area: &mut TextArea<'static>,
    placeholder: &str,
    theme: Theme,
    place: Rect,
    frame: &mut Frame<'_>,
) -> Position {
    area.set_style(theme.style(StyleRole::Text));
    // The terminal's own cursor is used instead.
    area.set_cursor_style(Style::new());
    area.set_selection_style(theme.style(StyleRole::Chosen));
    for y in place.top()..place.bottom() {
        TextRow::default().draw(frame.buffer_mut(), place.x, y, place.width);
    }
    if area.is_empty() {
        let placeholder = [Span::new(placeholder, theme.style(StyleRole::Dim))];
        let row = truncate(&placeholder, usize::from(place.width), theme.style(StyleRole::Dim));
        row.draw(frame.buffer_mut(), place.x, place.y, place.width);
        return Position::new(place.x, place.y);
    }
    show_hidden_rows(area, place);
    frame.render_widget(&*area, place);
    let (cursor, (top, left)) = (area.screen_cursor(), area.scroll_offset());
    let within = |at: usize, first: u16, most: u16| {
        u16::try_from(at).unwrap_or(u16::MAX).saturating_sub(first).min(most.saturating_sub(1))
    };
    Position::new(
        place.x + within(cursor.col, left, place.width),
        place.y + within(cursor.row, top, place.height),
    )
}

/// Scrolls back if rows are left empty below the text. A text area that has become higher keeps its offset.
fn show_hidden_rows(area: &mut TextArea<'static>, place: Rect) {
    let hidden = text_area_rows(area, place.width).saturating_sub(place.height);
    let surplus = area.scroll_offset().0.saturating_sub(hidden);
    if surplus == 0 {
        return;
    }
    let DataCursor(row, column) = area.cursor();
    area.scroll((-i16::try_from(surplus).unwrap_or(i16::MAX), 0));
    // Scrolling moves the cursor into the rows that were visible.
    let [row, column] = [row, column].map(|at| u16::try_from(at).unwrap_or(u16::MAX));
    area.move_cursor(CursorMove::Jump(row, column));
}

/// Draws the completions above the composer. If not all are visible, a row above them says which are.
fn offers(app: &App, theme: Theme, regions: &Regions, buffer: &mut Buffer) {
    let Some(completion) = app.completion() else { return };
    let room = regions.rule.y.saturating_sub(regions.history.y);
    let all = completion.offers.len();
    let room = usize::from(room);
    let is_cut = all > OFFERED_MAX.min(room) && room > 1;
    let shown = all.min(OFFERED_MAX).min(room - usize::from(is_cut));
    let first = completion.chosen.map_or(0, |at| (at + 1).saturating_sub(shown));
    let offers = &completion.offers[first..first + shown];
    let names = offers.iter().map(|offer| width(&offer.name)).max().unwrap_or(0).min(NAME_COLUMNS_MAX);
    let top = regions.rule.y - u16::try_from(shown).unwrap_or(0);
    if is_cut {
        let position = format!("  {}–{} of {all}", first + 1, first + shown);
        let row = TextRow::of(&position, theme.style(StyleRole::Dim));
        row.draw(buffer, regions.rule.x, top - 1, regions.rule.width);
    }
    for (at, offer) in offers.iter().enumerate() {
        let chosen = completion.chosen == Some(first + at);
        let style = theme.style(if chosen { StyleRole::Chosen } else { StyleRole::Text });
        let sign = if chosen { "▸ " } else { "  " };
        let gap = names.saturating_sub(width(&offer.name)) + 2;
        let mut row = TextRow::from(vec![Span::new(&format!("{sign}{}", offer.name), style)]);
        if !offer.description.is_empty() {
            row.push(Span::new(&" ".repeat(gap), Style::new()));
            row.push(Span::new(&offer.description, theme.style(StyleRole::Dim)));
        }
        let y = top + u16::try_from(at).unwrap_or(0);
        let columns = usize::from(regions.rule.width);
        truncate(&row.spans, columns, theme.style(StyleRole::Dim))
            .draw(buffer, regions.rule.x, y, regions.rule.width);
    }
}
