//! Editing keys shared by all text areas.
#![expect(clippy::wildcard_enum_match_arm, reason = "most keys have no binding")]

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Style;
use ratatui_textarea::{CursorMove, TextArea, WrapMode};
use sysop_core::text::visible_text;
use sysop_term::cells::{exact, wrap_command};
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

const UNDO_MAX: usize = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EditResult {
    Changed,
    Moved,
    Nothing,
}

/// Creates a text area that wraps lines, with the cursor at the end.
pub(super) fn area(text: &str) -> TextArea<'static> {
    let mut area = TextArea::new(text.split('\n').map(str::to_owned).collect());
    area.set_wrap_mode(WrapMode::Glyph);
    area.set_cursor_line_style(Style::default());
    area.set_max_histories(UNDO_MAX);
    area.move_cursor(CursorMove::Bottom);
    area.move_cursor(CursorMove::End);
    area
}

pub(super) fn text(area: &TextArea<'_>) -> String {
    area.lines().join("\n")
}

/// Replaces the whole text. The user can undo this.
pub(super) fn replace(area: &mut TextArea<'_>, text: &str) {
    let yank = area.yank_text();
    area.select_all();
    if !area.cut() {
        area.cancel_selection();
    }
    area.set_yank_text(yank);
    area.insert_str(text);
}

/// Returns the number of rows that the text needs at a width of `columns`.
pub fn rows(area: &TextArea<'_>, columns: u16) -> u16 {
    let columns = usize::from(columns.max(1));
    let rows: usize = area.lines().iter().map(|line| rows_of(line, columns)).sum();
    u16::try_from(rows).unwrap_or(u16::MAX)
}

/// Returns the line that contains a row of a command, or the last line, if the command is drawn with `columns`.
pub(super) fn line_of_row(area: &TextArea<'_>, row: usize, columns: u16) -> usize {
    let mut rows = 0;
    let line = area.lines().iter().position(|line| {
        let spans = exact(line, Style::new(), Style::new());
        rows += wrap_command(&spans, usize::from(columns)).len();
        row < rows
    });
    line.unwrap_or(area.lines().len() - 1)
}

/// Returns the number of rows that a line needs, with the room for the cursor after the last character.
fn rows_of(line: &str, columns: usize) -> usize {
    let (mut rows, mut used) = (1, 0);
    for sign in line.graphemes(true) {
        let width = if sign == "\t" { 4 } else { sign.width() };
        if used + width > columns {
            rows += 1;
            used = 0;
        }
        used += width;
    }
    rows + usize::from(used >= columns)
}

/// Returns true if the key inserts a newline in a text area in which Enter submits.
pub(super) fn is_newline(key: KeyEvent) -> bool {
    match key.code {
        KeyCode::Enter => key.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SHIFT),
        KeyCode::Char('j') => key.modifiers == KeyModifiers::CONTROL,
        _ => false,
    }
}

pub(super) fn key(area: &mut TextArea<'_>, key: KeyEvent) -> EditResult {
    if is_newline(key) {
        area.insert_newline();
        return EditResult::Changed;
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    let alt = key.modifiers.contains(KeyModifiers::ALT);
    match (key.code, control, alt) {
        (KeyCode::Char(sign), false, false) => {
            area.insert_char(sign);
            EditResult::Changed
        }
        (KeyCode::Char(letter), true, false) => control_key(area, letter),
        (KeyCode::Char(letter), false, true) => alt_key(area, letter),
        (KeyCode::Backspace, false, false) => changed(area.delete_char()),
        (KeyCode::Backspace, ..) => changed(area.delete_word()),
        (KeyCode::Delete, false, false) => changed(area.delete_next_char()),
        (KeyCode::Delete, ..) => changed(area.delete_next_word()),
        (KeyCode::Left, false, false) => moved(area, CursorMove::Back),
        (KeyCode::Left, ..) => moved(area, CursorMove::WordBack),
        (KeyCode::Right, false, false) => moved(area, CursorMove::Forward),
        (KeyCode::Right, ..) => moved(area, CursorMove::WordForward),
        (KeyCode::Up, ..) => moved(area, CursorMove::Up),
        (KeyCode::Down, ..) => moved(area, CursorMove::Down),
        (KeyCode::Home, ..) => moved(area, CursorMove::Head),
        (KeyCode::End, ..) => moved(area, CursorMove::End),
        _ => EditResult::Nothing,
    }
}

fn control_key(area: &mut TextArea<'_>, letter: char) -> EditResult {
    match letter {
        'a' => moved(area, CursorMove::Head),
        'e' => moved(area, CursorMove::End),
        'b' => moved(area, CursorMove::Back),
        'f' => moved(area, CursorMove::Forward),
        'd' => changed(area.delete_next_char()),
        'h' => changed(area.delete_char()),
        'k' => changed(area.delete_line_by_end()),
        'u' => changed(area.delete_line_by_head()),
        'w' => changed(area.delete_word()),
        'y' => changed(area.paste()),
        // Terminals send Ctrl+_ and Ctrl+/ as what crossterm calls Ctrl+7.
        '7' | '_' | '/' => changed(area.undo()),
        _ => EditResult::Nothing,
    }
}

fn alt_key(area: &mut TextArea<'_>, letter: char) -> EditResult {
    match letter {
        'b' => moved(area, CursorMove::WordBack),
        'f' => moved(area, CursorMove::WordForward),
        'd' => changed(area.delete_next_word()),
        'u' => changed(area.undo()),
        'r' => changed(area.redo()),
        _ => EditResult::Nothing,
    }
}

fn changed(did: bool) -> EditResult {
    if did { EditResult::Changed } else { EditResult::Moved }
}

fn moved(area: &mut TextArea<'_>, to: CursorMove) -> EditResult {
    area.move_cursor(to);
    EditResult::Moved
}

/// Removes bidirectional formatting characters, and control characters except newline and tab. A text area
/// would hide or obey them.
pub(super) fn strip_control(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let hides = |sign: char| {
        (sign.is_control() && sign != '\n' && sign != '\t')
            || matches!(sign, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().filter(|sign| !hides(*sign)).collect()
}

/// Removes all characters that a text area would hide, so that the visible command is exactly what runs.
pub(super) fn strip_invisible(command: &str) -> String {
    visible_text(&strip_control(command))
}
