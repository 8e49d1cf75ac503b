//! Markdown emitted row by row, and rows as text with colors.

use expect_test::expect;
use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};
use ratatui::style::{Color, Modifier, Style};
use sysop_core::text::neutralize_line;

use super::any_text;
use crate::cells::{Span, TextRow, wrap_hanging};
use crate::markdown::MarkdownStream;
use crate::paint;
use crate::plan::command_rows;
use crate::testing::{HOSTILE, painted_intruder, row_intruder};
use crate::theme::{Theme, ThemeName};

const TERMINAL: Theme = Theme { name: ThemeName::Terminal };

fn shown(rows: &[TextRow]) -> String {
    rows.iter().map(|row| paint::row(row, false).trim_end().to_owned() + "\n").collect()
}

#[test]
fn a_paragraph_streams_row_by_row() {
    let mut markdown = MarkdownStream::new(10, TERMINAL);
    assert_eq!(shown(&markdown.push("one two th")), "");
    assert_eq!(markdown.tail().map(TextRow::text).as_deref(), Some("one two th"));
    assert_eq!(shown(&markdown.push("ree fo")), "one two\n");
    assert_eq!(markdown.tail().map(TextRow::text).as_deref(), Some("three fo"));
    // An open mark holds back only the text that it may still change.
    assert_eq!(shown(&markdown.push("ur five **six seven eight")), "three four\n");
    assert_eq!(shown(&markdown.push("** nine")), "five six\nseven\n");
    assert_eq!(shown(&markdown.finish()), "eight nine\n");
}

#[test]
fn a_late_table_is_redrawn() {
    let mut markdown = MarkdownStream::new(12, TERMINAL);
    assert_eq!(shown(&markdown.push("one two three four five")), "one two\nthree four\n");
    let mut rows = markdown.push(" | b\n|---|---|\n| 1 | 2 |\n");
    rows.extend(markdown.finish());
    let text = shown(&rows);
    assert!(text.contains("one") && text.contains('│'), "{text}");
}

#[test]
fn an_unclickable_link_shows_its_target() {
    let rows = MarkdownStream::rows("see [the guide](http://x/y) or http://x/z", 60, TERMINAL);
    assert_eq!(shown(&rows), "see the guide (http://x/y) or http://x/z\n");
}

#[test]
fn rows_are_painted_with_or_without_styles() {
    let style = Style::new().fg(Color::LightRed).bg(Color::Indexed(200)).add_modifier(Modifier::BOLD);
    let row = TextRow::from(vec![
        Span::new("a", style),
        Span::new("b", Style::new()),
        Span::linked("c", Style::new().fg(Color::Rgb(1, 2, 3)), Some("http://x".into())),
    ]);
    expect!["^[1;91;48;5;200ma^[0mb^[38;2;1;2;3mc^[0m"]
        .assert_eq(&paint::row(&row, true).replace('\u{1b}', "^"));
    assert_eq!(paint::row(&row, false), "abc");
}

#[test]
fn the_checker_detects_anything_but_styles() {
    assert_eq!(painted_intruder("a\u{1b}[1;36mb\u{1b}[0m\n"), None);
    for bad in ["\u{1b}[2J", "\u{1b}[38:5:1mx", "\r", "\u{1b}", "\u{9b}1m", "\u{202e}"] {
        assert!(painted_intruder(bad).is_some(), "{bad:?}");
    }
    for bad in HOSTILE {
        assert!(bad.chars().any(|c| c.is_control()) || painted_intruder(bad).is_some(), "{bad:?}");
    }
}

#[test]
fn hostile_markdown_is_escaped() {
    for hostile in HOSTILE {
        for columns in [16, 36, 116] {
            let mut markdown = MarkdownStream::new(columns, TERMINAL);
            let mut all =
                markdown.push(&format!("# {hostile}\n- {hostile} **{hostile}** `{hostile}`\n```{hostile}\n"));
            all.extend(markdown.push(&format!("{hostile}\n```\n[{hostile}](x{hostile})")));
            all.extend(markdown.tail().cloned());
            all.extend(markdown.finish());
            for row in &all {
                assert_eq!(row_intruder(row), None, "{hostile:?} at {columns}");
            }
        }
    }
}

#[test]
fn a_fence_that_becomes_a_code_span_emits_no_row_twice() {
    let text = "aa ```\n```a `";
    let mut pieces = MarkdownStream::new(8, TERMINAL);
    let mut rows = Vec::new();
    for at in 0..text.len() {
        rows.extend(pieces.push(&text[at..=at]));
    }
    rows.extend(pieces.finish());
    assert_eq!(shown(&rows), shown(&MarkdownStream::rows(text, 8, TERMINAL)));
}

#[test]
fn an_ampersand_does_not_hide_the_code_span_behind_it() {
    let text = "&```👩\u{200d}👩\u{200d}👧 👍🏽 ❤\u{fe0f} 1\u{fe0f}\u{20e3} 🇩🇪a ```";
    let mut pieces = MarkdownStream::new(8, TERMINAL);
    let mut rows = Vec::new();
    for letter in text.chars() {
        rows.extend(pieces.push(&letter.to_string()));
    }
    rows.extend(pieces.finish());
    assert_eq!(shown(&rows), shown(&MarkdownStream::rows(text, 8, TERMINAL)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn rows_do_not_depend_on_chunk_boundaries(text in any_text(), columns in 8usize..40, cuts in proptest::collection::vec(1usize..7, 1..20)) {
        // The exception: a line that becomes a table by a bar in its middle.
        let text: String = text.split_inclusive('\n').map(|line| if line.starts_with('|') { line.to_owned() } else { line.replace('|', "/") }).collect();
        let expected = MarkdownStream::rows(&text, columns, TERMINAL);
        let mut pieces = MarkdownStream::new(columns, TERMINAL);
        let mut rows = Vec::new();
        let mut rest = text.as_str();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() { break; }
            let at = rest.char_indices().nth(*cut).map_or(rest.len(), |(at, _)| at);
            rows.extend(pieces.push(&rest[..at]));
            let _ = pieces.tail();
            rest = &rest[at..];
        }
        rows.extend(pieces.finish());
        prop_assert_eq!(shown(&rows), shown(&expected));
    }

    #[test]
    fn indented_rows_fit_and_lose_nothing(text in any_text(), columns in 2usize..50, indent in 0usize..6) {
        let source = [Span::new(&text, Style::new())];
        let rows = wrap_hanging(&source, columns, indent);
        for row in &rows {
            prop_assert!(row.width() <= columns.max(2), "{:?}", row);
        }
        let words = |text: String| text.replace(' ', "");
        let joined = rows.iter().map(TextRow::text).collect::<String>();
        prop_assert_eq!(words(joined), words(source[0].text().to_owned()));
    }

    #[test]
    fn a_command_is_shown_to_its_last_character(command in "[ -~é日\u{1b}\u{202e}\u{7}\r\t\n\u{a0}]{0,200}", columns in 10usize..60) {
        let rows = command_rows(&command, &[], columns, TERMINAL);
        let drawn: String = rows.iter().flat_map(|row| &row.spans[1..]).map(Span::text).collect();
        let expected: String = command.split('\n').map(neutralize_line).collect();
        prop_assert_eq!(drawn, expected);
        for row in &rows {
            prop_assert!(row.width() <= columns);
            prop_assert_eq!(row_intruder(row), None);
        }
    }

    #[test]
    fn only_styles_are_emitted(text in proptest::collection::vec(any::<char>(), 0..80), columns in 10usize..60) {
        let text: String = text.into_iter().collect();
        for row in MarkdownStream::rows(&text, columns, TERMINAL) {
            prop_assert_eq!(row_intruder(&row), None);
        }
    }
}
