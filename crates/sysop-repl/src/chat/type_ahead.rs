//! Text that the user types while a turn is running. Enter queues it; nothing that is typed answers a question.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::event::{
    self, DisableBracketedPaste, EnableBracketedPaste, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers,
};
use sysop_term::cells::width;
use sysop_term::{StyleRole, TextRow};

use super::editor::{ends_with_continuation, sanitize_pasted_text};
use crate::render::{row, safe, span};

/// Interval for checking whether the request has been withdrawn. The prompt after a turn waits for it.
const LOOK_UP: Duration = Duration::from_millis(20);
/// Minimum width of a terminal whose row of typed text also names the keys.
const KEYS_COLUMNS_MIN: usize = 60;
/// Maximum length of the shown end of the text, in characters; more than any terminal has columns.
const SHOWN_CHARS_MAX: usize = 1000;

/// Maximum length of the text, in bytes; what exceeds it is dropped.
const TYPED_BYTES_MAX: usize = 1024 * 1024;

/// Result of reading ahead.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TypedAhead {
    /// The user pressed Enter after this text.
    Line(String),
    /// The user pressed Ctrl+P after this text.
    Pause(String),
    /// The user pressed Ctrl+D without any text.
    End,
    /// The request was withdrawn. Contains the text typed so far.
    Withdrawn(String),
    /// This text was cleared.
    Cleared(String),
}

/// Flags that another thread sets.
#[derive(Debug, Clone, Copy)]
pub(super) struct TypeAheadFlags<'a> {
    /// Ends the reading.
    pub(super) withdrawn: &'a AtomicBool,
    /// Ends the reading and clears the text.
    pub(super) cleared: &'a AtomicBool,
}

/// Reads keys until Enter or until one of the `flags` is set. `text` is what was typed before. Calls `show` with the
/// end of the text, which is what a row can show, after each change. The terminal must not echo.
pub(super) fn read(
    text: String,
    flags: TypeAheadFlags<'_>,
    mut show: impl FnMut(&str),
) -> io::Result<TypedAhead> {
    // A pasted line feed is then part of the text.
    crossterm::execute!(io::stderr(), EnableBracketedPaste)?;
    let read = read_events(text, flags, &mut show);
    crossterm::execute!(io::stderr(), DisableBracketedPaste)?;
    read
}

fn read_events(
    mut text: String,
    flags: TypeAheadFlags<'_>,
    show: &mut impl FnMut(&str),
) -> io::Result<TypedAhead> {
    show(end(&text));
    loop {
        // What was typed before the withdrawal is read, because whoever reads next may discard it.
        let is_withdrawn = flags.withdrawn.load(Ordering::Relaxed);
        if flags.cleared.swap(false, Ordering::Relaxed) {
            return Ok(TypedAhead::Cleared(text));
        }
        if !event::poll(if is_withdrawn { Duration::ZERO } else { LOOK_UP })? {
            if is_withdrawn {
                return Ok(TypedAhead::Withdrawn(text));
            }
            continue;
        }
        let event = event::read()?;
        if text.is_empty() && is_control(&event, 'd') {
            return Ok(TypedAhead::End);
        }
        if is_control(&event, 'p') {
            return Ok(TypedAhead::Pause(text));
        }
        if let Some(line) = edit(&mut text, event) {
            return Ok(TypedAhead::Line(line));
        }
        if !event::poll(Duration::ZERO)? {
            show(end(&text));
        }
    }
}

/// Returns true for Ctrl and this letter.
fn is_control(event: &Event, letter: char) -> bool {
    let is_it = |key: &KeyEvent| key.code == KeyCode::Char(letter) && key.modifiers == KeyModifiers::CONTROL;
    matches!(event, Event::Key(key) if key.kind != KeyEventKind::Release && is_it(key))
}

/// Applies an event to the text. Returns the whole text, and clears it, if the event is Enter.
fn edit(text: &mut String, event: Event) -> Option<String> {
    match event {
        Event::Paste(pasted) => {
            let room = TYPED_BYTES_MAX.saturating_sub(text.len());
            let pasted = sanitize_pasted_text(&pasted);
            text.push_str(&pasted[..pasted.floor_char_boundary(room)]);
        }
        Event::Key(key) if key.kind != KeyEventKind::Release => return edit_by_key(text, key),
        Event::Key(_) | Event::Resize(..) | Event::Mouse(_) | Event::FocusGained | Event::FocusLost => {}
    }
    None
}

fn edit_by_key(text: &mut String, key: KeyEvent) -> Option<String> {
    let modifiers = key.modifiers - KeyModifiers::SHIFT;
    match (key.code, modifiers) {
        (KeyCode::Enter, KeyModifiers::ALT) | (KeyCode::Char('j'), KeyModifiers::CONTROL) => text.push('\n'),
        (KeyCode::Enter, _) if ends_with_continuation(text) => text.push('\n'),
        (KeyCode::Enter, _) if text.trim().is_empty() => text.clear(),
        (KeyCode::Enter, _) => return Some(std::mem::take(text)),
        (KeyCode::Backspace, _) | (KeyCode::Char('h'), KeyModifiers::CONTROL) => {
            text.pop();
        }
        (KeyCode::Char('u'), KeyModifiers::CONTROL) => text.clear(),
        (KeyCode::Char('w'), KeyModifiers::CONTROL) => {
            let rest = text.trim_end();
            let begin = rest.rfind(char::is_whitespace).map_or(0, |at| rest.ceil_char_boundary(at + 1));
            text.truncate(begin);
        }
        (KeyCode::Char(c), KeyModifiers::NONE) if text.len() < TYPED_BYTES_MAX => text.push(c),
        // The editor of the next prompt has the other keys.
        (_, _) => {}
    }
    None
}

/// Returns the row that shows the text while a turn is running: its end, if it is longer than the row.
pub(super) fn typed_row(text: &str, columns: usize) -> TextRow {
    let keys = if columns < KEYS_COLUMNS_MIN { "" } else { "Enter queue · Ctrl+C clear line " };
    let mut out = row(keys, StyleRole::Dim);
    out.push(span("› ", StyleRole::Title));
    let room = columns.saturating_sub(out.width() + 1);
    out.push(span(&end_of(&safe(text).replace('\n', "↵"), room), StyleRole::Text));
    out
}

/// Returns the end of the text that may fit in a row.
fn end(text: &str) -> &str {
    let from = text.char_indices().rev().nth(SHOWN_CHARS_MAX - 1);
    &text[from.map_or(0, |(at, _)| at)..]
}

/// Returns the longest end of the text that fits in `columns`, marked if it is not the whole text.
fn end_of(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut ends = text.char_indices().map(|(at, _)| &text[at..]);
    let end = ends.find(|end| width(end) < columns).unwrap_or_default();
    format!("…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode) -> Event {
        Event::Key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    fn with(modifiers: KeyModifiers, code: KeyCode) -> Event {
        Event::Key(KeyEvent::new(code, modifiers))
    }

    /// Returns the submitted lines, and the text that is left.
    fn typed(events: Vec<Event>) -> (Vec<String>, String) {
        let mut text = String::new();
        let lines = events.into_iter().filter_map(|event| edit(&mut text, event)).collect();
        (lines, text)
    }

    fn letters(text: &str) -> Vec<Event> {
        text.chars().map(|c| key(KeyCode::Char(c))).collect()
    }

    #[test]
    fn enter_submits_what_was_typed_and_edited() {
        let mut events = letters("check nginxx");
        events.extend([key(KeyCode::Backspace), key(KeyCode::Left), key(KeyCode::Enter)]);
        events.extend(letters("and ünï"));
        events.extend([key(KeyCode::Esc), with(KeyModifiers::CONTROL, KeyCode::Char('w'))]);
        events.extend(letters("then"));
        assert_eq!(typed(events), (vec!["check nginx".to_owned()], "and then".to_owned()));
    }

    #[test]
    fn a_paste_and_a_continued_line_are_one_text() {
        let mut events = vec![Event::Paste("one\r\ntwo\u{1b}[31m\u{202e}\n".to_owned())];
        events.extend(letters("three \\"));
        events.extend([
            key(KeyCode::Enter),
            with(KeyModifiers::ALT, KeyCode::Enter),
            key(KeyCode::Char('x')),
        ]);
        events.push(key(KeyCode::Enter));
        assert_eq!(typed(events), (vec!["one\ntwo[31m\nthree \\\n\nx".to_owned()], String::new()));
    }

    #[test]
    fn a_cleared_or_empty_line_is_not_submitted() {
        let mut events = letters("never mind");
        events.extend([with(KeyModifiers::CONTROL, KeyCode::Char('u')), key(KeyCode::Enter)]);
        events.extend([key(KeyCode::Char(' ')), key(KeyCode::Enter)]);
        events.push(with(KeyModifiers::CONTROL, KeyCode::Char('a')));
        assert_eq!(typed(events), (Vec::new(), String::new()));
    }

    #[test]
    fn control_keys_of_the_turn_are_told_from_text() {
        assert!(is_control(&with(KeyModifiers::CONTROL, KeyCode::Char('p')), 'p'));
        assert!(!is_control(&key(KeyCode::Char('p')), 'p'));
        assert!(!is_control(&with(KeyModifiers::CONTROL, KeyCode::Char('d')), 'p'));
    }

    #[test]
    fn the_row_shows_the_end_of_a_long_text_in_every_width() {
        let text = |text: &str, columns| typed_row(text, columns).text();
        assert_eq!(text("check nginx", 80), "Enter queue · Ctrl+C clear line › check nginx");
        assert_eq!(text("one\ntwo\u{1b}[2J", 40), "› one↵two\\x1b[2J");
        assert_eq!(text("the quick brown fox", 16), "› …ck brown fox");
        for columns in 0..90 {
            for sample in ["x".repeat(3000), "漢字".repeat(700)] {
                assert!(typed_row(end(&sample), columns).width() <= columns.max(3), "{columns}");
            }
        }
    }
}
