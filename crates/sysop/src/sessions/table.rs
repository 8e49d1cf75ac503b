//! Table of sessions that fits the terminal.

use std::io::{self, Write};

use sysop_core::id::Timestamp;
use sysop_core::text::neutralize;
use sysop_driver::port::SessionSummary;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::DisplayOptions;

/// Minimum number of characters of an id to show.
const ID_CHARS_MIN: usize = 8;
/// Maximum width of the host column and of the root column; smaller on a narrow terminal.
const PLACE_COLUMNS_MAX: usize = 24;
/// Maximum width of the same columns on the narrowest terminal, in terminal columns.
const PLACE_COLUMNS_MIN: usize = 8;
const TITLE_COLUMNS_MIN: usize = 8;
/// Space between two columns.
const GAP: &str = "  ";

/// Writes a line of headings and one line per session.
pub(super) fn write_table(
    summaries: &[SessionSummary],
    id_chars: usize,
    view: &DisplayOptions,
    out: &mut impl Write,
) -> io::Result<()> {
    let place =
        view.width.map_or(PLACE_COLUMNS_MAX, |width| (width / 5).clamp(PLACE_COLUMNS_MIN, PLACE_COLUMNS_MAX));
    let heading = ["ID", "AGE", "HOST", "ROOT", "TITLE"].map(str::to_owned);
    let rows: Vec<[String; 5]> = summaries
        .iter()
        .map(|summary| {
            [
                one_line(&summary.id.as_str().chars().take(id_chars).collect::<String>()),
                age(summary.changed, view.now),
                cut_end(&one_line(&summary.host), place),
                cut_start(&one_line(&summary.root), place),
                title(summary),
            ]
        })
        .collect();
    let mut widths = [0; 4];
    for row in rows.iter().chain([&heading]) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let taken = widths.iter().sum::<usize>() + widths.len() * GAP.len();
    let left = view.width.map(|width| width.saturating_sub(taken).max(TITLE_COLUMNS_MIN));
    for row in [&heading].into_iter().chain(&rows) {
        let [cells @ .., title] = row;
        for (cell, width) in cells.iter().zip(widths) {
            write!(out, "{cell}{}{GAP}", " ".repeat(width - cell.width()))?;
        }
        match left {
            Some(left) => writeln!(out, "{}", cut_end(title, left))?,
            None => writeln!(out, "{title}")?,
        }
    }
    Ok(())
}

pub(super) fn title(summary: &SessionSummary) -> String {
    if summary.title.is_empty() { "(no prompt)".to_owned() } else { one_line(&summary.title) }
}

/// Neutralizes text and puts it on one line: line feeds and tabs become spaces.
pub(super) fn one_line(text: &str) -> String {
    neutralize(text).chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

/// Returns the number of leading characters that make all ids distinct.
pub(super) fn unique_chars(summaries: &[SessionSummary]) -> usize {
    let mut ids: Vec<&str> = summaries.iter().map(|summary| summary.id.as_str()).collect();
    ids.sort_unstable();
    let common = |pair: &[&str]| pair[0].chars().zip(pair[1].chars()).take_while(|(a, b)| a == b).count();
    ids.windows(2).map(|pair| common(pair) + 1).max().unwrap_or(0).max(ID_CHARS_MIN)
}

fn age(changed: Timestamp, now: Timestamp) -> String {
    let seconds = now.0.saturating_sub(changed.0).max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Returns the start of the text, at most `columns` wide. If anything is cut off, the result ends with `…`.
fn cut_end(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    format!("{}…", fitting(text.chars(), columns.saturating_sub(1)))
}

/// Returns the end of the text, at most `columns` wide. If anything is cut off, the result begins with `…`. Used for
/// paths, whose ends are more informative.
fn cut_start(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let end = fitting(text.chars().rev(), columns.saturating_sub(1));
    format!("…{}", end.chars().rev().collect::<String>())
}

fn fitting(characters: impl Iterator<Item = char>, columns: usize) -> String {
    let mut used = 0;
    characters
        .take_while(|character| {
            used += character.width().unwrap_or(0);
            used <= columns
        })
        .collect()
}
