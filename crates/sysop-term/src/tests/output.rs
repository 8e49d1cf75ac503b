//! Output of programs.

use expect_test::{Expect, expect};
use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};
use ratatui::style::{Color, Modifier, Style};

use sysop_core::outcome::{HostOutcome, Outcome, Status, WAITS_FOR_ANSWER};
use sysop_core::style::TextStyle;
use sysop_core::text::split_styles;

use super::{DARK, NASTY, any_text, buffer, intruder};
use crate::ansi::{LINE_CHARS_MAX, lines, styled_lines};
use crate::output::{lines_told_by_hosts, newest_rows, shown_beside_hosts, shown_text, without_missed_hosts};
use crate::theme::{Theme, ThemeName};

fn check(text: &str, expected: Expect) {
    let rows = lines(text, DARK, Style::new());
    let shown: Vec<String> = rows.iter().map(|row| row.text()).collect();
    expected.assert_eq(&shown.join("\n"));
}

#[test]
fn carriage_returns_overwrite_within_the_line() {
    check(
        "10%\r50%\r100%\nabc\rX\n",
        expect![[r#"
        100%
        Xbc"#]],
    );
    check(
        "progress 1\r\u{1b}[Kdone\nab\u{8}c\n日本\rx\n",
        expect![[r#"
        done
        ac
        x 本"#]],
    );
    check("a\tb\u{1b}[3Dc\u{1b}[2Gz\n", expect!["az    c b"]);
    check("up\u{1b}[1A\u{1b}[2Jstay\u{1b}[10;10H!\n", expect!["upstay!"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// A sequence at the beginning makes all lines count.
    #[test]
    fn rendering_only_the_newest_lines_changes_nothing(
        pieces in proptest::collection::vec("[a-c]{0,9}|\n{1,3}|\r|\t|\u{8}|\u{1b}\\[3[1-3]m|\u{1b}\\[2K|日本", 0..40),
        rows in 0_usize..9,
    ) {
        let text = pieces.concat();
        let all = newest_rows(&format!("\u{1b}[m{text}"), 7, rows, DARK);
        prop_assert_eq!(newest_rows(&text, 7, rows, DARK), all);
    }
}

#[test]
fn sequences_are_removed_and_controls_are_visible() {
    check(
        "\u{1b}]0;title\u{7}a\u{1b}]8;;http://x\u{1b}\\b\u{1b}]8;;\u{1b}\\c\u{1b}(Bd\u{1b}=e\u{1b}Pq\u{1b}\\f",
        expect!["abcdef"],
    );
    check(
        "\u{1b}]open\nnext\u{1b}[999999999999999999;1\n\u{1b}",
        expect![[r#"
            open
            next"#]],
    );
    check("\u{9b}31m \u{202e}x \u{0}", expect![[r#"\x9b31m \u{202e}x ␀"#]]);
}

#[test]
fn colors_and_weights_are_kept() {
    let rows = lines(
        "\u{1b}[1;31mred\u{1b}[0m \u{1b}[38;5;208mo\u{1b}[38;2;1;2;3mr\u{1b}[48;5;4mg\u{1b}[7;9mx\u{1b}[m.",
        DARK,
        Style::new(),
    );
    let styles: Vec<Style> = rows[0].spans.iter().map(|span| span.style).collect();
    let plain = Style::new();
    assert_eq!(
        styles,
        [
            plain.fg(Color::Red).add_modifier(Modifier::BOLD),
            plain,
            plain.fg(Color::Indexed(208)),
            plain.fg(Color::Rgb(1, 2, 3)),
            plain.fg(Color::Rgb(1, 2, 3)).bg(Color::Blue),
            plain
                .fg(Color::Rgb(1, 2, 3))
                .bg(Color::Blue)
                .add_modifier(Modifier::REVERSED | Modifier::CROSSED_OUT),
            plain,
        ]
    );
    let rows = lines("\u{1b}[1;31mred", Theme::new(ThemeName::None), Style::new());
    assert_eq!(rows[0].spans[0].style, plain.add_modifier(Modifier::BOLD));
}

#[test]
fn finished_output_keeps_its_live_colors() {
    let text = "\u{1b}[1;31merror\u{1b}[0m: \u{1b}[48;5;22mno\u{1b}[m\n\u{1b}]0;t\u{7}\u{1b}[2J\u{1b}[38;2;1;2;3mx\ty\n";
    let (plain, styles) = split_styles(text);
    let live = lines(text, DARK, Style::new());
    assert_eq!(styled_lines(&plain, &styles, DARK, Style::new()), live);
    assert_eq!(live[0].spans[0].style, Style::new().fg(Color::Red).add_modifier(Modifier::BOLD));
}

#[test]
fn text_cannot_be_hidden_by_its_color() {
    let rows = lines("\u{1b}[8mhid\u{1b}[0m\u{1b}[31;41mden", DARK, Style::new());
    assert_eq!(rows[0].spans[0].style, Style::new());
    assert_eq!(rows[0].spans[1].style.bg, None);
}

#[test]
fn an_endless_line_is_bounded() {
    let rows = lines(&"x".repeat(LINE_CHARS_MAX * 4), DARK, Style::new());
    assert_eq!(rows[0].width(), LINE_CHARS_MAX);
    let rows = lines(&"\u{1b}[8000C\tx\u{1b}[1000000000G!".repeat(1_000), DARK, Style::new());
    assert!(rows[0].width() <= LINE_CHARS_MAX);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_control_sequence_passes(text in any_text(), more in "[\\x00-\\x7f]{0,60}", csi in "(\u{1b}\\[[0-9;]{0,9}[A-Za-z][a-z日]{0,4}){0,9}") {
        for text in [text.as_str(), &more, &csi, &format!("{csi}{text}{more}")] {
            let (plain, styles) = split_styles(text);
            let finished = styled_lines(&plain, &styles, DARK, Style::new());
            for row in lines(text, DARK, Style::new()).into_iter().chain(finished) {
                let columns = u16::try_from(row.width()).unwrap().max(1);
                let mut buffer = buffer(columns, 1);
                row.draw(&mut buffer, 0, 0, columns);
                prop_assert_eq!(intruder(&buffer), None);
            }
        }
        let plain = "plain text é 日本";
        let rows = lines(plain, DARK, Style::new());
        prop_assert!(rows.len() == 1 && rows[0].text() == plain);
    }
}

#[test]
fn hostile_output_is_escaped() {
    for nasty in NASTY {
        for row in lines(nasty, DARK, Style::new()) {
            let mut buffer = buffer(60, 1);
            row.draw(&mut buffer, 0, 0, 60);
            assert_eq!(intruder(&buffer), None, "{nasty:?}");
        }
    }
}

#[test]
fn a_host_cannot_have_its_output_left_out() {
    let host = |name: &str, unreachable: Option<&str>| HostOutcome {
        host: name.into(),
        status: Status::Ok,
        exit_code: Some(0),
        duration_ms: 1,
        group: 1,
        unreachable: unreachable.map(str::to_owned),
    };
    let hosts = [host("a", Some("a: no route")), host("b", None)];
    let told = |text: &str| -> Vec<usize> {
        let marks = lines_told_by_hosts(text, &hosts);
        (0..marks.len()).filter(|at| marks[*at]).collect()
    };
    let section = "== a (1 host of 2): not run ==\na: no route";
    assert_eq!(told(&format!("{section}\n== b (1 host of 2): exit code 0 ==\nup")), [0, 1]);
    assert_eq!(told(&format!("== b (1 host of 2): exit code 0 ==\nup\n{section}\n")), [2, 3]);
    assert_eq!(told(&format!("{section}\nrm -rf /srv\n")), [0; 0], "more than the reason");
    assert_eq!(told("== a: not run ==\nb: up"), [0; 0], "another text");
    assert_eq!(told(&format!("{section}\n== b: exit code 0 ==\na: no route\nup")), [0, 1]);
}

#[test]
fn an_output_beside_the_summaries_of_hosts_keeps_its_styles() {
    let host = |name: &str, unreachable: Option<&str>| HostOutcome {
        host: name.into(),
        status: Status::Failed,
        exit_code: None,
        duration_ms: 1,
        group: 0,
        unreachable: unreachable.map(str::to_owned),
    };
    let section = "== a (1 host of 2): not run ==\na: no route";
    let printed = format!("{section}\n== b (1 host of 2): exit code 0 ==\n\u{1b}[31mup");
    let (text, styles) = split_styles(&printed);
    let outcome = Outcome {
        hosts: vec![host("a", Some("a: no route")), host("b", None)],
        styles,
        ..Outcome::failed(text)
    };
    let (shown, styles) = shown_beside_hosts(&outcome);
    assert_eq!(shown, "== b (1 host of 2): exit code 0 ==\nup");
    assert_eq!(without_missed_hosts(&outcome.output, &outcome.hosts), shown);
    let red = styles.runs(&shown).last().expect("a run");
    assert_eq!((red.0, red.1 == TextStyle::of("31")), ("up", true));
    let missed = Outcome { hosts: vec![host("a", Some("a: no route"))], ..Outcome::failed(section) };
    assert_eq!(shown_beside_hosts(&missed).0, "");
}

#[test]
fn the_reason_for_the_lack_of_an_undo_stays_after_the_note_about_a_program() {
    let shown = |notes: &str| {
        let output = format!("Name?\n[{WAITS_FOR_ANSWER}]{notes}");
        shown_text(&Outcome::new(Status::Unknown, output)).to_owned()
    };
    assert_eq!(shown(""), "Name?");
    assert!(shown("\n[no undo: timed out after 15 s]").ends_with("[no undo: timed out after 15 s]"));
}
