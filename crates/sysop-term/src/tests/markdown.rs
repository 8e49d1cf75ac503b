//! Markdown: its layout, which is the same however it streams.

use expect_test::{Expect, expect};
use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};
use ratatui::style::{Modifier, Style};

use super::{DARK, NASTY, any_text, buffer, drawn, intruder};
use crate::cells::TextRow;
use crate::markdown::MarkdownDocument;

fn rows(text: &str, columns: usize) -> Vec<TextRow> {
    let document = MarkdownDocument::of(text, columns, DARK, Style::new());
    (0..document.len()).map(|at| document.row(at).unwrap().clone()).collect()
}

fn check(text: &str, columns: u16, expected: Expect) {
    expected.assert_eq(&drawn(&rows(text, usize::from(columns)), columns));
}

#[test]
fn blocks_are_laid_out() {
    let text = "# Title\nSome *soft* and **strong** words with `code`, ~~gone~~ and a line that is long enough to wrap.\n\n\
        - one\n- two\n  - inner [docs](https://docs.rs/x)\n- [x] done\n- [ ] open\n\n1. first\n1. second\n\n   still second\n\
        2. third\n\n> quoted\n> more\n\n---\nend <https://a.b/c>";
    check(
        text,
        44,
        expect![[r#"
        Title
        Some soft and strong words with code, gone
        and a line that is long enough to wrap.

        • one
        • two
          • inner docs (docs.rs)
        ☑ done
        ☐ open

        1. first
        2. second

           still second
        3. third

        ▎ quoted
        ▎ more

        ────────────────────────────────────────

        end https://a.b/c
    "#]],
    );
}

#[test]
fn rows_of_code_end_between_words() {
    let line =
        "journalctl -u nginx --since today | tail -n 20 /var/log/a-name-that-is-wider-than-a-row/of/it";
    for text in [format!("```sh\n{line}\n```\n"), format!("- item\n\n  ```sh\n  {line}\n  ```\n")] {
        let rows: Vec<String> = rows(&text, 40).iter().map(TextRow::text).collect();
        let code: Vec<&str> =
            rows.iter().filter_map(|row| row.split_once("▏ ")).map(|(_, code)| code).collect();
        let code = code.strip_prefix(&["sh"]).unwrap_or(&code); // a block in a list has no heading
        assert_eq!(code[..2], ["journalctl -u nginx --since today ", "| tail -n 20 "], "{rows:?}");
        assert_eq!(code.concat(), line, "nothing is omitted");
        assert!(rows.iter().all(|row| row.chars().count() <= 40), "{rows:?}");
    }
}

#[test]
fn prose_shows_joined_emoji_and_no_zero_width_characters_but_code_shows_each() {
    check(
        "zero\u{200b}width 👩\u{200d}💻 می\u{200c}خواهم `a\u{200b}b` \u{202e}x",
        60,
        expect![[r#"
            zerowidth 👩💻 میخواهم a\u{200b}b \u{202e}x
        "#]],
    );
}

#[test]
fn tables_are_aligned_wrapped_or_listed() {
    let table = "| name | what it is | n |\n|:--|:-:|--:|\n| ssh | a long description of the thing | 22 |\n| 日本 | x | 8080 |";
    check(
        table,
        60,
        expect![[r#"
        name │           what it is            │    n
        ─────┼─────────────────────────────────┼─────
        ssh  │ a long description of the thing │   22
        日本 │                x                │ 8080
    "#]],
    );
    check(
        table,
        30,
        expect![[r#"
        name │    what it is    │    n
        ─────┼──────────────────┼─────
        ssh  │      a long      │   22
             │  description of  │
             │    the thing     │
        ─────┼──────────────────┼─────
        日本 │        x         │ 8080
    "#]],
    );
    check(
        table,
        14,
        expect![[r#"
        name: ssh
        what it is: a
        long
        description of
        the thing
        n: 22

        name: 日本
        what it is: x
        n: 8080
    "#]],
    );
}

#[test]
fn code_keeps_its_lines_and_indentation() {
    let text = "Run:\n```sh\nfor x in *; do\n    echo \"$x\"   # all\ndone\n```\nand\n\n1. step\n   ```\n   inner\n     code\n   ```\n2. next";
    check(
        text,
        24,
        expect![[r##"
        Run:
        ▏ for x in *; do
        ▏     echo "$x"   # all
        ▏ done
        and

        1. step
           ▏ inner
           ▏   code
        2. next
    "##]],
    );
}

#[test]
fn a_link_shows_its_target() {
    check(
        "[https://good.com](https://evil.com/x) [good.com](http://evil.com) [docs](https://docs.rs/a) [x](javascript:1) \
        ![logo](http://a.b/c.png) https://good.com/a_b_c. [https://a.b/](https://a.b)",
        200,
        expect![[r#"
            https://good.com (https://evil.com/x) good.com (http://evil.com) docs (docs.rs) x (javascript:1) image: logo (a.b) https://good.com/a_b_c. https://a.b/
        "#]],
    );
    let linked: Vec<String> =
        rows("see https://good.com/a_b_c, (http://x.y/q_(z)) and https://u@evil.com/ ftp://x", 90)
            .iter()
            .flat_map(|row| row.spans.iter().filter_map(|span| span.link.as_ref().map(ToString::to_string)))
            .collect();
    assert_eq!(linked, ["https://good.com/a_b_c", "http://x.y/q_(z)"]);
}

#[test]
fn markers_within_words_and_escapes_are_text() {
    check(
        "snake_case_name, 2*3*4, \\*no\\*, a**b**c, `a*b*`, &lt;tag&gt; &#27;[31m",
        80,
        expect![[r#"
        snake_case_name, 234, *no*, abc, a*b*, <tag> \x1b[31m
    "#]],
    );
    let bold: Vec<String> = rows("**a *b* c**", 20)[0]
        .spans
        .iter()
        .filter(|span| span.style.add_modifier.contains(Modifier::BOLD))
        .map(|span| span.text().to_owned())
        .collect();
    assert_eq!(bold, ["a ", "b", " c"]);
}

#[test]
fn finished_blocks_are_not_laid_out_again() {
    let mut text = String::new();
    let mut document = MarkdownDocument::new(60, DARK, Style::new());
    for number in 0..200 {
        text.push_str(&format!(
            "Paragraph {number} with **some** words.\n\n- item\n- item\n\n```rust\nlet x = {number};\n```\n\n"
        ));
        document.update(&text);
    }
    // Everything but the open end is settled: the work per frame does not grow with the text.
    assert!(document.open_rows() <= 2, "{}", document.open_rows());
    assert_eq!(document.len(), rows(&text, 60).len());
}

#[test]
fn an_endless_line_has_bounded_cost() {
    let text = "word ".repeat(20_000);
    let mut document = MarkdownDocument::new(80, DARK, Style::new());
    document.update(&text);
    assert!(document.open_rows() < 200, "{}", document.open_rows());
    let shown: String = (0..document.len()).map(|at| document.row(at).unwrap().text() + " ").collect();
    assert_eq!(shown.split_whitespace().count(), 20_000);
}

#[test]
fn new_text_replaces_the_first() {
    let mut document = MarkdownDocument::new(40, DARK, Style::new());
    document.update("one\n\ntwo\n\nthree");
    document.update("other\n\ntext");
    assert_eq!(document.len(), 3);
    document.settle();
    document.update("other\n\ntext\n\nmore");
    assert_eq!(document.len(), 5);
}

#[test]
fn deep_nesting_is_flattened() {
    for text in
        [">".repeat(3_000), "- ".repeat(3_000), "1. ".repeat(3_000), "[".repeat(9_000), "*a ".repeat(6_000)]
    {
        assert!(!rows(&text, 30).is_empty());
    }
}

#[test]
fn control_characters_are_removed() {
    for nasty in NASTY {
        let text = format!(
            "# {nasty}\n- {nasty} **{nasty}** `{nasty}`\n\n| {nasty} | b |\n|--|--|\n| c | {nasty} |\n\n```{nasty}\n{nasty}\n```\n[{nasty}](http://x.y/{nasty})"
        );
        for columns in [7, 40, 120] {
            let rows = rows(&text, columns);
            let mut buffer = buffer(u16::try_from(columns).unwrap(), u16::try_from(rows.len()).unwrap());
            for (row, y) in rows.iter().zip(0..) {
                let wide = buffer.area.width;
                row.draw(&mut buffer, 0, y, wide);
            }
            assert_eq!(intruder(&buffer), None, "{nasty:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn streaming_does_not_change_the_layout(text in any_text(), columns in 1usize..60, cuts in proptest::collection::vec(1usize..9, 1..20)) {
        let mut document = MarkdownDocument::new(columns, DARK, Style::new());
        let mut end = 0;
        for cut in cuts.iter().cycle() {
            if end >= text.len() { break; }
            end = text[end..].char_indices().nth(*cut).map_or(text.len(), |(at, _)| end + at);
            document.update(&text[..end]);
        }
        let streamed: Vec<TextRow> = (0..document.len()).map(|at| document.row(at).unwrap().clone()).collect();
        prop_assert_eq!(&streamed, &rows(&text, columns));
    }

    #[test]
    fn rows_fit_the_width(text in any_text(), columns in 2usize..60) {
        for row in rows(&text, columns) {
            prop_assert!(row.width() <= columns, "{:?}", row.text());
        }
    }
}
