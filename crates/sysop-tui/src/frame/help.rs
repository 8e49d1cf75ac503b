//! What the keys do, on the whole screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use sysop_term::cells::truncate;
use sysop_term::command::{COMMANDS, FULL_SCREEN_COMMANDS};
use sysop_term::theme::{StyleRole, Theme};
use sysop_term::{Span, TextRow};

/// Columns of the keys.
const KEY_COLUMNS: usize = 22;
/// Columns of the commands and what follows them.
const COMMAND_COLUMNS: usize = 26;

/// The keys: when, and each with what it does.
const KEYS: &[(&str, &[(&str, &str)])] = &[
    (
        "Writing",
        &[
            ("Enter", "sends; while a turn runs the message waits for its end"),
            ("Alt+Enter, Ctrl+J", "begins another line; so does \\ at the end"),
            ("↑ ↓", "go through earlier messages"),
            ("Ctrl+R", "searches in them"),
            ("Tab", "completes /commands and @files"),
            ("Ctrl+G", "opens your editor"),
            ("Alt+u, Alt+r", "take back a change, and bring it back"),
        ],
    ),
    (
        "A proposal",
        &[
            ("Enter", "runs it once, exactly as shown; a dangerous one only Y runs"),
            ("i", "changes it in place; what is there then is what runs"),
            ("e", "changes it in your editor"),
            ("a", "runs it, and what it says it covers, for this session"),
            ("A", "shows a rule that allows exactly this from now on, and writes it if you say so"),
            ("r", "rejects it, with a word to the model"),
            ("Esc", "cancels the turn"),
        ],
    ),
    (
        "While it works",
        &[
            ("Esc", "stops at once"),
            ("Ctrl+C", "stops; again leaves"),
            ("Ctrl+P", "pauses after this step, and goes on"),
            ("Ctrl+T", "shows the session's terminal"),
        ],
    ),
    (
        "Reading",
        &[
            ("PgUp PgDn, wheel", "scroll; Shift+↑ and Shift+↓ by one row"),
            ("End", "follows the end again"),
            (
                "Tab on an empty box",
                "goes to the cards and back: ↑↓ choose, Enter unfolds, o shows the whole",
            ),
            ("Shift+Tab", "changes what asks: ask, each, never"),
            ("F1", "offers all commands"),
            ("Ctrl+L", "draws everything anew"),
            ("Ctrl+Z", "goes back to the shell; `fg` comes back"),
            ("Ctrl+D", "leaves"),
        ],
    ),
];

/// Draws the keys from this row on, at most so far that the last ones are at the bottom; gives the row.
pub(super) fn draw(theme: Theme, area: Rect, first: usize, buffer: &mut Buffer) -> usize {
    let rows = rows(theme);
    let page = usize::from(area.height).saturating_sub(1);
    let first = first.min(rows.len().saturating_sub(page));
    for at in 0..page {
        let y = area.y + u16::try_from(at).unwrap_or(u16::MAX);
        let row = rows.get(first + at).cloned().unwrap_or_default();
        truncate(&row.spans, usize::from(area.width), theme.style(StyleRole::Dim))
            .draw(buffer, area.x, y, area.width);
    }
    let more =
        if first + page < rows.len() { "↓ more · any other key closes" } else { "any other key closes" };
    let last = TextRow::of(&format!("  {more}"), theme.style(StyleRole::Dim));
    last.draw(buffer, area.x, area.bottom().saturating_sub(1), area.width);
    first
}

fn rows(theme: Theme) -> Vec<TextRow> {
    let mut rows = Vec::new();
    let line = |name: &str, what: &str, columns: usize| {
        TextRow::from(vec![
            Span::new(&format!("    {name:<columns$} "), theme.style(StyleRole::Code)),
            Span::new(what, Style::new()),
        ])
    };
    for (title, keys) in KEYS {
        rows.push(TextRow::of(&format!("  {title}"), theme.style(StyleRole::Title)));
        rows.extend(keys.iter().map(|(key, what)| line(key, what, KEY_COLUMNS)));
        rows.push(TextRow::default());
    }
    rows.push(TextRow::of("  Commands", theme.style(StyleRole::Title)));
    for (name, arguments, what) in COMMANDS.iter().chain(FULL_SCREEN_COMMANDS) {
        rows.push(line(&format!("{name} {arguments}"), what, COMMAND_COLUMNS));
    }
    rows
}
