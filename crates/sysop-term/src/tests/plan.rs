//! Proposals and edits.

use expect_test::expect;
use serde_json::json;
use sysop_core::event::Origin;
use sysop_core::guard::GuardTimeout;
use sysop_core::id::CallId;
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::policy::{CommandContext, Finding, Policy, Risk, RiskClass, Survey};
use sysop_core::transcript::{Proposal, ProposalState};

use super::{DARK, NASTY, buffer, drawn, intruder};
use crate::cells::TextRow;
use crate::diff::FileEdit;
use crate::plan::{command_lines, guard_rows, preview_rows, unshown_preview};
use crate::theme::StyleRole;

fn call(id: &str, name: &str, arguments: serde_json::Value) -> ToolCall {
    let serde_json::Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    ToolCall {
        id: CallId::new(id),
        wire_id: None,
        name: name.to_owned(),
        arguments: Arguments::Object(arguments),
    }
}

fn bash(id: &str, command: &str) -> ToolCall {
    call(id, "bash", json!({ "command": command }))
}

fn plan(call: ToolCall, command: &str) -> Proposal {
    Proposal {
        call,
        origin: Origin::Model,
        asked_by: None,
        command: command.to_owned(),
        folder: None,
        edited_from: None,
        reason: String::new(),
        risk: Risk::default(),
        preview: Vec::new(),
        previewed_edit: None,
        guarded: None,
        covers: None,
        state: ProposalState::Waiting,
        terms: Default::default(),
        given: Vec::new(),
    }
}

#[test]
fn the_changed_part_of_a_line_is_highlighted() {
    let arguments = json!({"path": "f", "old_string": "port = 80;", "new_string": "port = 8080;"});
    let plan = plan(call("a", "edit_file", arguments), "");
    let rows = preview_rows(&plan, "", &[], DARK, 60);
    let parts: Vec<&str> = rows
        .iter()
        .flat_map(|row| &row.spans)
        .filter(|span| {
            [StyleRole::AddedPart, StyleRole::RemovedPart].iter().any(|ink| span.style == DARK.style(*ink))
        })
        .map(|span| span.text())
        .collect();
    assert_eq!(parts, ["80"], "{}", drawn(&rows, 60));
}

#[test]
fn a_guarded_call_says_that_it_rolls_back_by_itself() {
    let mut plan = plan(bash("a", "reboot"), "reboot");
    assert!(guard_rows(&plan, 60, DARK).is_empty());
    plan.guarded = Some(GuardTimeout { seconds: 120 });
    let text: String = guard_rows(&plan, 200, DARK).iter().map(TextRow::text).collect();
    assert_eq!(text, "guarded: rolls back by itself after 120 s unless a fresh login works");
}

#[test]
fn the_text_of_a_finding_is_marked() {
    let command = "echo 'a b' && rm -rf \"$HOME/x\" # gone";
    let risk =
        Policy::new(&[r"rm\s+-rf".to_owned()], &[]).risk(command, &Survey::elsewhere(CommandContext::bash()));
    let parts: Vec<(String, String)> = command_lines(command, &risk.findings, DARK)
        .concat()
        .iter()
        .map(|span| {
            let ink = StyleRole::ALL.into_iter().find(|ink| DARK.style(*ink) == span.style).unwrap();
            (span.text().to_owned(), format!("{ink:?}"))
        })
        .collect();
    let marked: String =
        parts.iter().filter(|(_, ink)| ink == "Marked").map(|(text, _)| text.as_str()).collect();
    assert!(marked.contains("rm -rf"), "{parts:?}");
    assert!(!marked.contains("echo"), "{parts:?}");
    assert!(parts.contains(&("echo".into(), "Function".into())), "{parts:?}");
    assert!(parts.contains(&("'a b'".into(), "String".into())), "{parts:?}");
}

#[test]
fn a_command_is_shown_to_its_last_byte() {
    let finding = [Finding { start: 2, end: 5, class: RiskClass::Dangerous, why: String::new() }];
    for nasty in NASTY {
        let command = format!("echo {nasty}\nпривет \u{a0}ls");
        for columns in [6, 40] {
            let plan = plan(bash("a", &command), &command);
            let rows = preview_rows(&plan, &command, &finding, DARK, columns);
            let text: String = rows.iter().map(TextRow::text).collect();
            for hidden in command.chars().filter(|c| c.is_control() && *c != '\n' && *c != '\t') {
                let name = sysop_core::text::neutralize_line(&hidden.to_string()).into_owned();
                let bare: String = text.chars().filter(|c| *c != ' ').collect();
                assert!(bare.contains(&name), "{name} in {text:?}");
            }
            let mut buffer = buffer(u16::try_from(columns).unwrap(), u16::try_from(rows.len()).unwrap());
            for (row, y) in rows.iter().zip(0..) {
                assert!(row.width() <= columns, "{:?}", row.text());
                let wide = buffer.area.width;
                row.draw(&mut buffer, 0, y, wide);
            }
            assert_eq!(intruder(&buffer), None, "{nasty:?}");
        }
    }
}

#[test]
fn lookalike_letters_are_reported() {
    let plan = plan(bash("a", "сurl x"), "сurl x");
    let text = drawn(&preview_rows(&plan, "сurl x", &[], DARK, 60), 60);
    assert!(text.contains("look-alike letters: с (U+0441)"), "{text}");
}

#[test]
fn every_argument_of_a_call_is_shown() {
    let arguments =
        json!({"path": "x", "old_string": "a", "new_string": "b", "mode": "0777", "more": ["c\nd"]});
    let text = drawn(&preview_rows(&plan(call("a", "edit_file", arguments), ""), "", &[], DARK, 60), 60);
    expect![[r#"
        edit_file x  +1 −1
        mode: 0777
        more: ["c\nd"]
        - a
        + b
    "#]]
    .assert_eq(&text);
}

#[test]
fn an_undo_shows_what_it_undoes_and_not_its_records() {
    let arguments = json!({
        "step": 2, "call": "call_x1", "records": [{ "id": "db78", "rights": "own" }], "undoes": "rm a",
    });
    let undo = plan(call("a", "undo", arguments.clone()), "undo call 2");
    let text = drawn(&preview_rows(&undo, "undo call 2", &[], DARK, 60), 60);
    assert_eq!(text.trim(), "Undo call 2: `rm a`");
    let other = plan(call("a", "undo_move", arguments), "undo_move");
    assert!(drawn(&preview_rows(&other, "undo_move", &[], DARK, 60), 60).contains("db78"));
}

#[test]
fn a_changed_final_newline_is_shown() {
    let shown = |old: &str, new: &str| {
        let edit = FileEdit { path: "a", old: Some(old), new };
        edit.rows(&[], 60, DARK).iter().map(TextRow::text).collect::<Vec<_>>().join("|")
    };
    assert_eq!(shown("a\n", "a"), "- newline at end of file");
    assert_eq!(shown("a", "a\n"), "+ newline at end of file");
    assert_eq!(shown("a", "b\n"), "- a|+ b|+ newline at end of file");
    assert_eq!(shown("a\n", "a\n"), "no changes");
}

fn preview_of(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[test]
fn a_write_shows_the_change_of_the_present_file() {
    let content: String = (1..=40).map(|number| format!("\tline {number}\n")).collect();
    let content = content.replace("line 9\n", "line nine\n");
    let mut plan = plan(call("a", "write_file", json!({ "path": "f", "content": content })), "");
    plan.preview = preview_of(&[
        "overwrites f (340 bytes, 41 lines): +1 −2 lines",
        "@@ -1 +1 @@",
        "-\\tline zero",
        " \\tline 1",
        "@@ -10 +9 @@",
        " \\tline 8",
        "-\\tline 9",
        "+\\tline nine",
        " \\tline 10",
    ]);
    let text = drawn(&preview_rows(&plan, "", &[], DARK, 60), 60);
    expect![[r#"
        write_file f  +1 −2
         1 - →   line zero
         1   →   line 1
         2   →   line 2
        ⋮
         7   →   line 7
         8   →   line 8
        10 - →   line 9
         9 + →   line nine
        10   →   line 10
        11   →   line 11
    "#]]
    .assert_eq(&text);
    assert_eq!(unshown_preview(&plan), &plan.preview[..1]);
}

#[test]
fn a_write_shows_its_whole_text_if_the_preview_does_not_fit_it() {
    let whole = |preview: &[&str]| {
        let content = "one\ntwo\nthree\n";
        let mut plan = plan(call("a", "write_file", json!({ "path": "f", "content": content })), "");
        plan.preview = preview_of(preview);
        assert_eq!(unshown_preview(&plan), plan.preview);
        let text = drawn(&preview_rows(&plan, "", &[], DARK, 60), 60);
        let head = text.lines().next().unwrap_or_default().to_owned();
        assert!(text.ends_with("+ one\n+ two\n+ three\n"), "{text}");
        head
    };
    assert_eq!(whole(&[]), "write_file f  +3");
    assert_eq!(whole(&["creates f with 3 lines"]), "write_file f  +3");
    let summary = "overwrites f (9 bytes, 3 lines): +1 −1 lines";
    // Shortened, redacted, and of another text.
    assert_eq!(whole(&[summary, "@@ -2 +2 @@", " one", "… 2 more lines"]), "write_file f  +1 −1");
    whole(&[summary, "@@ -2 +2 @@", " one", "-2", "+[redacted]", " three"]);
    whole(&[summary, "@@ -9 +9 @@", " one", "-2", "+two", " three"]);
    whole(&[summary, "@@ -2 +2 @@", " one", "-2"]);
}

#[test]
fn a_write_shows_the_added_lines_that_its_preview_omits() {
    let content: String = (1..=30).map(|number| format!("new {number}\n")).collect();
    let write = |preview: &[&str]| {
        let mut plan = plan(call("a", "write_file", json!({ "path": "f", "content": content })), "");
        plan.preview = preview_of(preview);
        (drawn(&preview_rows(&plan, "", &[], DARK, 60), 60), unshown_preview(&plan).len())
    };
    let summary = "overwrites f (12 bytes, 2 lines): +30 −2 lines";
    let (text, unshown) = write(&[summary, "@@ -1 +1 @@", "-old 1", "-old 2", "+new 1", "… 29 more lines"]);
    let signs: String = text.lines().filter_map(|line| line.chars().nth(3)).collect();
    assert_eq!(signs, format!("t--{}", "+".repeat(30)), "{text}");
    assert!(text.ends_with("30 + new 30\n") && unshown == 1, "{text}");
    // The omitted lines are not only added ones.
    let parts: [&[&str]; 3] = [
        &["-old 1", "+new 1", "… 30 more lines"],
        &["-old 1", "-old 2", "+new 1", "… 30 more lines"],
        &["-old 1", "-old 2", "+new 1", " new 2", "… 28 more lines"],
    ];
    for part in parts {
        let (text, unshown) = write(&[&[summary, "@@ -1 +1 @@"][..], part].concat());
        assert!(text.contains("the whole new text:\n+ new 1\n+ new 2\n"), "{text}");
        assert!(unshown > 1, "{text}");
    }
}

#[test]
fn a_wrapped_line_of_an_edit_has_one_sign() {
    let edit = FileEdit { path: "a", old: Some("one\n"), new: "wraps in the middle\n" };
    let rows: Vec<String> = edit.rows(&[], 14, DARK).iter().map(TextRow::text).collect();
    assert_eq!(rows, ["- one", "+ wraps in the", "↪  middle"]);
    let line = "0123456789abcdefghijklmnopqrst";
    let mut plan = plan(call("a", "write_file", json!({ "path": "f", "content": line })), "");
    plan.preview =
        preview_of(&["overwrites f (0 bytes, 0 lines): +1 −0 lines", "@@ -1 +1 @@", &format!("+{line}")]);
    let text = drawn(&preview_rows(&plan, "", &[], DARK, 30), 30);
    assert!(text.ends_with("1 + 0123456789abcdefghijklmnop\n  ↪ qrst\n"), "{text}");
}

#[test]
fn a_command_of_unknown_effect_is_not_marked_as_dangerous() {
    let command = "echo $((i*33))";
    let findings = [Finding { start: 5, end: 14, class: RiskClass::Opaque, why: String::new() }];
    let spans = command_lines(command, &findings, DARK).concat();
    let style = spans.iter().find(|span| span.text().contains("33")).map(|span| span.style);
    let style = style.expect("the arithmetic is shown");
    assert_eq!((style.fg, style.bg), (DARK.style(StyleRole::Warn).fg, None));
    // The worst of several findings decides.
    let worst = Finding { class: RiskClass::Dangerous, ..findings[0].clone() };
    let spans = command_lines(command, &[worst, findings[0].clone()], DARK).concat();
    assert!(spans.iter().any(|span| span.style == DARK.style(StyleRole::Marked)));
}
