//! Cells: measuring, wrapping, drawing.

use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};
use ratatui::style::Style;
use sysop_core::text::neutralize_line;

use super::{DARK, NASTY, any_text, buffer, intruder, screen};
use crate::cells::{Span, TextRow, exact, truncate, width, wrap, wrap_command, wrap_exact};
use crate::theme::StyleRole;

#[test]
fn characters_of_disputed_width_are_replaced() {
    let shown = |text: &str| Span::new(text, Style::new()).text().to_owned();
    assert_eq!(shown("❤\u{fe0f}"), "❤");
    assert_eq!(shown("👍🏽"), "👍");
    assert_eq!(shown("\u{301}x"), "◌\u{301}x");
    assert_eq!(shown("e\u{301}"), "e\u{301}");
    assert_eq!(width("日本"), 4);
    assert_eq!(width(&shown("ｶﾞ")), 3);
    assert!(shown(&format!("a{}", "\u{301}".repeat(100))).chars().count() <= 8);
}

#[test]
fn significant_text_shows_every_character() {
    let shown =
        |text: &str| -> String { exact(text, Style::new(), Style::new()).iter().map(Span::text).collect() };
    assert_eq!(shown("a\u{fe0f}\t\u{202e}👍🏽"), "a\\u{fe0f}\\t\\u{202e}👍\\u{1f3fd}");
    let marks: Vec<Style> =
        exact("a\u{1b}b", Style::new(), DARK.style(StyleRole::Warn)).iter().map(|span| span.style).collect();
    assert_eq!(marks, [Style::new(), DARK.style(StyleRole::Warn), Style::new()]);
}

#[test]
fn a_wide_character_at_the_edge_is_not_cut_in_half() {
    let mut buffer = buffer(3, 1);
    TextRow::of("ab日c", Style::new()).draw(&mut buffer, 0, 0, 3);
    assert_eq!(screen(&buffer), "ab\n");
}

#[test]
fn commands_are_wrapped_before_arguments_and_operators() {
    let rows = |text: &str, columns: usize| -> Vec<String> {
        wrap_command(&[Span::new(text, Style::new())], columns).iter().map(TextRow::text).collect()
    };
    assert_eq!(rows("rm -rf /srv/data && df -h", 18), ["rm -rf /srv/data ", "&& df -h"]);
    assert_eq!(rows("rm -rf /srv/data && df -h", 20), ["rm -rf /srv/data ", "&& df -h"]);
    assert_eq!(rows("cp first second third", 10), ["cp first ", "second ", "third"]);
    assert_eq!(rows("cp abcdefg hi", 10), ["cp abcdefg", " hi"]);
    assert_eq!(rows("cat /a/very/long/path", 8), ["cat ", "/a/very/", "long/pat", "h"]);
    assert_eq!(rows("    indented", 8), ["    inde", "nted"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn wrapping_fits_and_loses_nothing(text in any_text(), columns in 2usize..50) {
        let spans = [Span::new(&text, Style::new())];
        let exact = wrap_exact(&spans, columns);
        prop_assert_eq!(exact.iter().map(TextRow::text).collect::<String>(), spans[0].text());
        let command = wrap_command(&spans, columns);
        prop_assert_eq!(command.iter().map(TextRow::text).collect::<String>(), spans[0].text());
        let words = |rows: &[TextRow]| rows.iter().map(TextRow::text).collect::<String>().replace(' ', "");
        let wrapped = wrap(&spans, columns);
        prop_assert_eq!(words(&wrapped), words(&exact));
        for row in exact.iter().chain(&wrapped).chain(&command).chain([&truncate(&spans, columns, Style::new())]) {
            prop_assert!(row.width() <= columns);
        }
    }

    #[test]
    fn a_row_never_exceeds_its_cells(text in any_text(), columns in 1u16..30) {
        let mut buffer = buffer(40, 3);
        buffer.set_string(0, 1, "#".repeat(40), Style::new());
        TextRow::of(&text, Style::new()).draw(&mut buffer, 3, 1, columns);
        for x in (0..3).chain(3 + columns..40) {
            prop_assert_eq!(buffer[(x, 1)].symbol(), "#");
        }
        prop_assert_eq!(intruder(&buffer), None);
    }

    #[test]
    fn significant_text_is_shown_completely(text in any_text()) {
        let shown: String = exact(&text, Style::new(), Style::new()).iter().map(Span::text).collect();
        let plain = |c: &char| c.is_ascii_graphic() && *c != '\\';
        let expected: String = neutralize_line(&text).chars().filter(plain).collect();
        let got: String = shown.chars().filter(plain).collect();
        prop_assert!(got.len() >= expected.len());
        if text.is_ascii() {
            prop_assert_eq!(shown, neutralize_line(&text));
        }
    }
}

#[test]
fn cells_contain_no_control_characters() {
    for nasty in NASTY {
        for columns in [1, 2, 5, 60] {
            let mut buffer = buffer(columns, 1);
            TextRow::of(nasty, Style::new()).draw(&mut buffer, 0, 0, columns);
            assert_eq!(intruder(&buffer), None, "{nasty:?}");
        }
    }
}
