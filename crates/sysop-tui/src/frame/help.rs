//! The help: a full-screen list of keys and commands.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use sysop_term::cells::{width, wrap_hanging};
use sysop_term::command::COMMANDS;
use sysop_term::theme::{StyleRole, Theme};
use sysop_term::{Span, TextRow};

const KEY_COLUMNS: usize = 22;
const COMMAND_COLUMNS: usize = 26;
/// Indent of the second row of a description if the columns of the names take half of the screen.
const NARROW_INDENT: usize = 6;

/// Sections of the help, each with keys and their descriptions.
const KEYS: &[(&str, &[(&str, &str)])] = &[
    (
        "Input",
        &[
            ("Enter", "Send (queued while a turn is running)"),
            ("Alt+Enter, Ctrl+J", "New line (also \\ at the end of the line)"),
            ("↑ ↓", "Take back a queued message; browse earlier ones"),
            ("Ctrl+R", "Search earlier messages"),
            ("Tab", "Complete /commands and @files"),
            ("Ctrl+G", "Open $EDITOR"),
            ("Ctrl+V", "Paste an image from the clipboard"),
            ("Alt+u, Alt+r", "Undo, redo"),
        ],
    ),
    (
        "Proposal",
        &[
            ("Enter", "Run once, exactly as shown (Y if dangerous)"),
            ("i", "Edit first: Enter ends the edit, Esc discards it"),
            ("e", "Edit in $EDITOR"),
            ("a, a", "Run, and allow for this session (see the card)"),
            ("A", "Always allow this exact command (shows the rule)"),
            ("r, or a message", "Reject with feedback for the model"),
            ("PgUp PgDn, Home End", "Scroll a proposal that does not fit"),
            ("Esc", "Set aside typed text, else cancel the turn"),
        ],
    ),
    (
        "While running",
        &[
            ("Esc", "Stop now"),
            ("Ctrl+C", "Clear draft or edit, then stop; press again to quit"),
            ("Ctrl+P", "Pause after this step, or resume"),
            ("Ctrl+T", "Show the session's terminal"),
        ],
    ),
    (
        "Navigation",
        &[
            ("PgUp PgDn, wheel", "Scroll (Shift+↑, Shift+↓: one row)"),
            ("End", "Jump to latest"),
            ("Tab (empty input)", "Select cards: Tab older, Enter expand, o full output"),
            ("y (card)", "Copy the card"),
            ("/ (card)", "Search the transcript; n older match, N newer match"),
            ("drag the mouse", "Select and copy (with Shift: the terminal's own selection)"),
            ("Shift+Tab", "Cycle the approval mode: ask, each, never"),
            ("F1", "Open the command palette"),
            ("Ctrl+L", "Redraw"),
            ("Ctrl+Z", "Suspend (`fg` to return)"),
            ("Ctrl+D (empty input)", "Quit (twice if that stops running work)"),
        ],
    ),
];

/// Draws the rows of the help that contain the filter's words, from row `first`, or an earlier one to fill the last
/// page. Returns the first row drawn.
pub(super) fn draw(theme: Theme, area: Rect, first: usize, filter: &str, buffer: &mut Buffer) -> usize {
    let rows = rows(theme, filter, usize::from(area.width));
    let page = usize::from(area.height).saturating_sub(1);
    let first = first.min(rows.len().saturating_sub(page));
    for at in 0..page {
        let y = area.y + u16::try_from(at).unwrap_or(u16::MAX);
        rows.get(first + at).cloned().unwrap_or_default().draw(buffer, area.x, y, area.width);
    }
    let more = if first + page < rows.len() { "↓ more · " } else { "" };
    let search = if filter.is_empty() { "type to search".to_owned() } else { format!("search: {filter}") };
    let last = TextRow::of(&format!("  {more}{search} · Esc to close"), theme.style(StyleRole::Dim));
    last.draw(buffer, area.x, area.bottom().saturating_sub(1), area.width);
    first
}

/// Returns a title and its rows for each group that has a row with all words of the filter.
fn rows(theme: Theme, filter: &str, columns: usize) -> Vec<TextRow> {
    let words: Vec<String> = filter.split_whitespace().map(str::to_lowercase).collect();
    let fits = |name: &str, what: &str| {
        let text = format!("{name} {what}").to_lowercase();
        words.iter().all(|word| text.contains(word))
    };
    let mut rows = Vec::new();
    let line = |name: &str, what: &str, name_columns: usize| {
        let name = format!("    {name:<name_columns$} ");
        // Most of a narrow screen is for the descriptions.
        let indent = if 2 * width(&name) <= columns { width(&name) } else { NARROW_INDENT };
        let spans = [Span::new(&name, theme.style(StyleRole::Code)), Span::new(what, Style::new())];
        wrap_hanging(&spans, columns, indent)
    };
    let keys = KEYS.iter().map(|(title, keys)| {
        let found = keys.iter().filter(|(key, what)| fits(key, what));
        (*title, found.flat_map(|(key, what)| line(key, what, KEY_COLUMNS)).collect::<Vec<_>>())
    });
    let commands = COMMANDS.iter().map(|(name, arguments, what)| (format!("{name} {arguments}"), what));
    let commands = commands.filter(|(name, what)| fits(name, what));
    let commands = commands.flat_map(|(name, what)| line(&name, what, COMMAND_COLUMNS)).collect();
    for (title, found) in keys.chain([("Commands", commands)]).filter(|(_, found)| !found.is_empty()) {
        if !rows.is_empty() {
            rows.push(TextRow::default());
        }
        rows.push(TextRow::of(&format!("  {title}"), theme.style(StyleRole::Title)));
        rows.extend(found);
    }
    if rows.is_empty() {
        rows.push(TextRow::of("  no matches", theme.style(StyleRole::Dim)));
    }
    rows
}
