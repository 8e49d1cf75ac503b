//! What is drawn, at several widths, of friendly and of hostile text.

use std::collections::BTreeSet;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::json;
use sysop_core::event::Origin;
use sysop_core::id::{CallId, StepId, TurnId};
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::policy::{Finding, Grant, Risk, RiskClass};
use sysop_core::text::neutralize_line;
use sysop_core::transcript::{Plan, PlanState, SessionPhase};

use super::cells::{row_width, truncate, width, wrap, wrap_exact};
use super::markdown::MarkdownRenderer;
use super::panel::Panel;
use super::plan::{PlanLocation, command_rows, rows};
use super::{Ink, RenderOptions, TextRow, TextSpan, paint, row, safe};

/// Everything that is known to act on a terminal, or to hide or turn text.
pub(crate) const HOSTILE: &[&str] = &[
    "\u{1b}[2J\u{1b}[H",
    "\u{1b}]0;title\u{7}",
    "\u{1b}]2;t\u{1b}\\",
    "\u{1b}]7;file://x/\u{7}",
    "\u{1b}]8;;http://evil\u{7}click\u{1b}]8;;\u{7}",
    "\u{1b}]9;note\u{7}",
    "\u{1b}]52;c;cm0gLXJmIC8=\u{7}",
    "\u{1b}]133;D;0\u{7}",
    "\u{1b}]633;E;x\u{7}",
    "\u{1b}]777;notify;a;b\u{7}",
    "\u{1b}]1337;CurrentDir=/\u{7}",
    "\u{1b}P$qm\u{1b}\\",
    "\u{1b}P+q544e\u{1b}\\",
    "\u{1b}Pq#0;2;0;0;0\u{1b}\\",
    "\u{1b}_Gf=24\u{1b}\\",
    "\u{1b}^pm\u{1b}\\",
    "\u{9b}31m",
    "\u{9d}0;x\u{9c}",
    "\u{90}x\u{9c}",
    "\u{1b}[c\u{1b}[6n\u{1b}[21t",
    "\u{1b}[?1049h",
    "\u{1b}[?2004h",
    "\u{1b}[201~rm -rf /\r",
    "\u{1b}[31mred",
    "\u{1b}]0;unterminated",
    "safe\rrm -rf /",
    "rm\u{8}\u{8}ls",
    "a\u{0}b\u{7f}c",
    "\u{202e}txt.exe",
    "\u{2066}x\u{2069}",
    "\u{200e}\u{200f}",
    "a\u{2028}b\u{2029}c",
];

/// Whether a character acts on a terminal or turns its text.
fn moves(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// What must not come out: the first control character or sequence that is not a color of ours.
pub(crate) fn intruder(painted: &str) -> Option<String> {
    let ours: BTreeSet<&str> =
        ["0", "1", "2", "3", "1;36", "32", "31", "33", "36", "1;4;31"].into_iter().collect();
    let mut rest = painted;
    while let Some(at) = rest.find(|c: char| moves(c) && c != '\n') {
        let found = &rest[at..];
        let color = found.strip_prefix("\u{1b}[").and_then(|text| text.split_once('m'));
        match color {
            Some((parameters, after)) if ours.contains(parameters) => rest = after,
            Some(_) | None => {
                return Some(found.chars().take(12).collect::<String>().escape_debug().to_string());
            }
        }
    }
    None
}

fn shown(rows: &[TextRow]) -> String {
    rows.iter().map(|row| paint(row, false).trim_end().to_owned() + "\n").collect()
}

fn look(width: usize) -> RenderOptions {
    RenderOptions { width, color: true }
}

fn plan(command: &str, findings: Vec<Finding>) -> Plan {
    let call = ToolCall {
        id: CallId::new("c1"),
        wire_id: None,
        name: "bash".into(),
        arguments: Arguments::Object(
            json!({ "command": command }).as_object().cloned().expect("it is an object"),
        ),
    };
    Plan {
        call,
        origin: Origin::Model,
        command: command.into(),
        edited_from: None,
        reason: "Make room on the disk.".into(),
        risk: Risk { class: findings.iter().map(|f| f.class).max().unwrap_or_default(), findings },
        preview: Vec::new(),
        guarded: None,
        covers: Some(Grant::Program { program: "rm".into(), subcommand: None }),
        state: PlanState::Waiting,
    }
}

fn boxed(plan: &Plan, columns: usize) -> Vec<TextRow> {
    let panel = Panel::new(look(columns));
    panel.around("PLAN", rows(plan, PlanLocation { host: "web1", root: "/srv/app" }, panel.inner()))
}

fn check_plan(columns: usize, expected: Expect) {
    let finding = Finding { start: 0, end: 6, class: RiskClass::Dangerous, why: "recursive delete".into() };
    expected
        .assert_eq(&shown(&boxed(&plan("rm -rf /var/cache/日本語 && echo\tdone", vec![finding]), columns)));
}

#[test]
fn a_command_that_a_person_typed_waits_for_no_model() {
    let thinking = |step| SessionPhase::Thinking { step: StepId { turn: TurnId(1), step } };
    assert_eq!(super::words::waiting_for(&thinking(0), "phi3", ""), None);
    assert_eq!(super::words::waiting_for(&thinking(1), "phi3", "").as_deref(), Some("waiting for phi3"));
}

#[test]
fn a_plan_fits_every_width() {
    check_plan(
        20,
        expect![[r#"
            ── PLAN ───────────
            Make room on the
            disk.
            on web1 in /srv/app

            $ rm -rf /var/cache
              /日本語 && echo\t
              done

            risk: dangerous
            ! rm -rf —
              recursive delete
            for this session
              would cover: any
              plain `rm …`
        "#]],
    );
    check_plan(
        40,
        expect![[r#"
            ╭─ PLAN ──────────────────────────────╮
            │ Make room on the disk.              │
            │ on web1 in /srv/app                 │
            │                                     │
            │ $ rm -rf /var/cache/日本語 && echo\ │
            │   tdone                             │
            │                                     │
            │ risk: dangerous                     │
            │ ! rm -rf — recursive delete         │
            │ for this session would cover: any   │
            │   plain `rm …`                      │
            ╰─────────────────────────────────────╯
        "#]],
    );
    check_plan(
        80,
        expect![[r#"
            ╭─ PLAN ──────────────────────────────────────────────────────────────────────╮
            │ Make room on the disk.                                                      │
            │ on web1 in /srv/app                                                         │
            │                                                                             │
            │ $ rm -rf /var/cache/日本語 && echo\tdone                                    │
            │                                                                             │
            │ risk: dangerous                                                             │
            │ ! rm -rf — recursive delete                                                 │
            │ for this session would cover: any plain `rm …`                              │
            ╰─────────────────────────────────────────────────────────────────────────────╯
        "#]],
    );
}

#[test]
fn a_plan_of_a_file_tool_shows_all_that_it_writes() {
    let mut plan = plan("edit_file(\"a.py\", ...)", Vec::new());
    plan.call.name = "edit_file".into();
    plan.call.arguments = Arguments::Object(
        json!({ "path": "a.py", "old_string": "x = 1", "new_string": "x = 2\ny\u{a0}= 3" })
            .as_object()
            .cloned()
            .expect("it is an object"),
    );
    plan.covers = Some(Grant::Tool { name: "edit_file".into() });
    expect![[r#"
        ╭─ PLAN ──────────────────────────────────────────────────╮
        │ Make room on the disk.                                  │
        │ on web1 in /srv/app                                     │
        │                                                         │
        │ edit_file                                               │
        │ path: a.py                                              │
        │ old_string:                                             │
        │ - x = 1                                                 │
        │ new_string:                                             │
        │ + x = 2                                                 │
        │ + y\xa0= 3                                              │
        │                                                         │
        │ risk: changes something                                 │
        │ for this session would cover: any call of edit_file     │
        ╰─────────────────────────────────────────────────────────╯
    "#]]
    .assert_eq(&shown(&boxed(&plan, 60)));
}

#[test]
fn letters_that_only_look_latin_are_named() {
    let text = shown(&boxed(&plan("cat p\u{430}ssword привет", Vec::new()), 80));
    assert!(text.contains("letters that only look Latin: \u{430} (U+0430)"), "{text}");
    assert!(!text.contains("U+043F"), "a word of one script is no disguise: {text}");
}

#[test]
fn wide_combining_and_right_to_left_text_stay_inside_the_panel() {
    let panel = Panel::new(look(40));
    let text =
        "日本語のテキスト e\u{301}te\u{301} שלום עולם 👩\u{200d}👩\u{200d}👧 a\u{300}\u{301}\u{302} ️⚠️ ok";
    let rows = panel.around("AGENT RESPONSE", wrap(&row(text, Ink::Plain), panel.inner(), 0));
    expect![[r#"
        ╭─ AGENT RESPONSE ────────────────────╮
        │ 日本語のテキスト été שלום עולם 👩   │
        │ \u{200d}👩\u{200d}👧 à́̂ ️⚠️ ok        │
        ╰─────────────────────────────────────╯
    "#]]
    .assert_eq(&shown(&rows));
    for row in &rows {
        assert_eq!(row_width(row), 39, "{}", paint(row, false));
    }
}

#[test]
fn markdown_is_drawn() {
    let text = "# Disk report\n\nThe disk is **almost full**; see `df -h` and [the guide](http://x/y).\n\
                - one `a*b`\n- two *really* long item that has to be wrapped somewhere\n  - nested\n\
                1. first\n> quoted\n---\n```sh\nsudo rm -rf /tmp/*  # **not bold**\n```\n\
                | a | b |\n|---|---|\n2 * 3 * 4, snake_case_name, **kwargs\n";
    let mut markdown = MarkdownRenderer::new(36);
    let mut rows = markdown.push(text);
    rows.extend(markdown.finish());
    expect![[r#"
        Disk report

        The disk is almost full; see df -h
        and the guide (http://x/y).
        • one a*b
        • two really long item that has to
          be wrapped somewhere
          • nested
        1. first
        ▎ quoted
        ────────────────────────────────────
        ▏ sh
        ▏ sudo rm -rf /tmp/*  # **not bold**
        | a | b |
        |---|---|
        2 * 3 * 4, snake_case_name, **kwargs
    "#]]
    .assert_eq(&shown(&rows));
    let bold: Vec<&str> =
        rows.iter().flatten().filter(|span| span.ink() == Ink::Bold).map(TextSpan::text).collect();
    assert_eq!(bold, ["Disk report", "almost full"]);
}

#[test]
fn a_paragraph_streams_row_by_row() {
    let mut markdown = MarkdownRenderer::new(10);
    assert_eq!(shown(&markdown.push("one two th")), "");
    assert_eq!(markdown.tail().map(|row| paint(&row, false)).as_deref(), Some("one two th"));
    assert_eq!(shown(&markdown.push("ree fo")), "one two\n");
    assert_eq!(markdown.tail().map(|row| paint(&row, false)).as_deref(), Some("three fo"));
    // An open mark holds back only what it may still change.
    assert_eq!(shown(&markdown.push("ur five **six seven eight")), "three four\n");
    assert_eq!(shown(&markdown.push("** nine\n")), "five six\nseven\neight nine\n");
}

#[test]
fn truncation_counts_cells() {
    assert_eq!(paint(&truncate(&row("日本語", Ink::Plain), 5), false), "日本…");
    assert_eq!(paint(&truncate(&row("abc", Ink::Plain), 3), false), "abc");
    assert_eq!(paint(&truncate(&row("abcd", Ink::Plain), 0), false), "");
}

#[test]
fn hostile_text_comes_out_harmless_everywhere() {
    for hostile in HOSTILE {
        for columns in [20, 40, 80, 120] {
            let panel = Panel::new(look(columns));
            let mut markdown = MarkdownRenderer::new(panel.inner());
            let mut all =
                markdown.push(&format!("# {hostile}\n- {hostile} **{hostile}** `{hostile}`\n```{hostile}\n"));
            all.extend(markdown.push(&format!("{hostile}\n```\n[{hostile}](x{hostile})")));
            all.extend(markdown.tail());
            all.extend(markdown.finish());
            let mut plan = plan(
                hostile,
                vec![Finding { start: 1, end: 3, class: RiskClass::Dangerous, why: (*hostile).into() }],
            );
            plan.reason = (*hostile).into();
            plan.covers = Some(Grant::Tool { name: (*hostile).into() });
            all.extend(boxed(&plan, columns));
            plan.call.arguments = Arguments::Invalid((*hostile).into());
            plan.call.name = (*hostile).into();
            all.extend(boxed(&plan, columns));
            all.push(panel.top(hostile));
            for row in &all {
                assert_eq!(intruder(&paint(row, true)), None, "{hostile:?} at {columns}");
            }
        }
        assert_eq!(intruder(&super::words::tool_line(&plan(hostile, Vec::new()).call)), None, "{hostile:?}");
        assert_eq!(intruder(&safe(hostile).replace('\t', "")), None, "{hostile:?}");
    }
}

#[test]
fn the_checker_sees_what_is_not_ours() {
    assert_eq!(intruder("a\u{1b}[1;36mb\u{1b}[0m\n"), None);
    for bad in ["\u{1b}[2J", "\u{1b}[38;5;1mx", "\r", "\u{1b}", "\u{9b}1m", "\u{202e}"] {
        assert!(intruder(bad).is_some(), "{bad:?}");
    }
}

/// Text that is full of what the layout has to look at.
fn marked_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z]{1,8} ",
        1 => Just("**".to_owned()), 1 => Just("*".to_owned()), 1 => Just("_".to_owned()),
        1 => Just("`".to_owned()), 1 => Just("```".to_owned()), 1 => Just("\n".to_owned()),
        1 => Just("- ".to_owned()), 1 => Just("# ".to_owned()), 1 => Just("> ".to_owned()),
        1 => Just("[a](b)".to_owned()), 1 => Just("[".to_owned()), 1 => Just("\\".to_owned()),
        1 => Just("日本語".to_owned()), 1 => Just("e\u{301}".to_owned()), 1 => Just("|".to_owned()),
        1 => Just("---".to_owned()), 1 => Just(" ".to_owned()), 1 => Just("\t".to_owned()),
        1 => Just("👩\u{200d}👧".to_owned()), 1 => Just("\u{1b}[2J".to_owned()), 1 => Just("\r".to_owned()),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn markdown_is_the_same_however_it_is_cut(text in marked_text(), columns in 8usize..40, cuts in proptest::collection::vec(1usize..7, 1..20)) {
        let mut whole = MarkdownRenderer::new(columns);
        let mut expected = whole.push(&text);
        expected.extend(whole.finish());
        let mut pieces = MarkdownRenderer::new(columns);
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
    fn rows_fit_and_wrapping_loses_nothing(text in marked_text(), columns in 4usize..50) {
        let source = row(&text, Ink::Plain);
        let exact = wrap_exact(&source, columns);
        let joined: String = exact.iter().map(|row| paint(row, false)).collect();
        prop_assert_eq!(joined, paint(&source, false));
        for row in exact.iter().chain(&wrap(&source, columns, 2)) {
            prop_assert!(row_width(row) <= columns, "{:?}", row);
        }
        let words = |rows: &[TextRow]| -> String { rows.iter().map(|row| paint(row, false)).collect::<String>().replace(' ', "") };
        prop_assert_eq!(words(&wrap(&source, columns, 2)), words(std::slice::from_ref(&source)));
        let mut markdown = MarkdownRenderer::new(columns);
        let mut rows = markdown.push(&text);
        rows.extend(markdown.finish());
        for row in &rows {
            prop_assert!(row_width(row) <= columns, "{:?}", row);
        }
    }

    #[test]
    fn a_command_is_shown_to_its_last_character(command in "[ -~é日\u{1b}\u{202e}\u{7}\r\t\n\u{a0}]{0,200}", columns in 10usize..60, a in 0usize..200, b in 0usize..200) {
        let finding = Finding { start: a.min(b), end: a.max(b), class: RiskClass::Dangerous, why: String::new() };
        let rows = command_rows(&command, &[finding], columns);
        let drawn: String = rows.iter().map(|row| paint(&row[1..], false)).collect();
        let expected: String = command.split('\n').map(neutralize_line).collect();
        prop_assert_eq!(drawn, expected);
        for row in &rows {
            prop_assert!(row_width(row) <= columns);
            prop_assert!(intruder(&paint(row, true)).is_none());
        }
    }

    #[test]
    fn nothing_but_our_colors_comes_out(text in proptest::collection::vec(any::<char>(), 0..80), columns in 10usize..60) {
        let text: String = text.into_iter().collect();
        let mut markdown = MarkdownRenderer::new(columns);
        let mut rows = markdown.push(&text);
        rows.extend(markdown.finish());
        rows.extend(boxed(&plan(&text, Vec::new()), columns));
        for row in &rows {
            prop_assert_eq!(intruder(&paint(row, true)), None);
        }
        prop_assert!(width(&safe(&text)) < usize::MAX);
    }
}

#[test]
fn a_terminal_that_says_it_has_no_columns_gets_the_usual_ones() {
    assert_eq!(super::usable((0, 0)), (80, 24));
    assert_eq!(super::usable((34, 0)), (34, 24));
    assert_eq!(super::usable((120, 50)), (120, 50));
}
