//! Proposals and panels at several widths, with harmless and hostile text.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::json;
use sysop_core::event::Origin;
use sysop_core::id::{CallId, StepId, TurnId};
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::policy::{Finding, Grant, Risk, RiskClass};
use sysop_core::transcript::{Proposal, ProposalState, SessionPhase, Transcript};
use sysop_term::testing::{HOSTILE, painted_intruder, row_intruder};
use sysop_term::{StyleRole, TextRow, paint};

use super::panel::Panel;
use super::plan::{ProposalLocation, rows};
use super::{RenderOptions, row, safe, wrap};

fn shown(rows: &[TextRow]) -> String {
    rows.iter().map(|row| paint::row(row, false).trim_end().to_owned() + "\n").collect()
}

fn look(width: usize) -> RenderOptions {
    RenderOptions { width, color: true }
}

fn plan(command: &str, findings: Vec<Finding>) -> Proposal {
    let call = ToolCall {
        id: CallId::new("c1"),
        wire_id: None,
        name: "bash".into(),
        arguments: Arguments::Object(
            json!({ "command": command }).as_object().cloned().expect("it is an object"),
        ),
    };
    Proposal {
        call,
        origin: Origin::Model,
        asked_by: None,
        command: command.into(),
        folder: None,
        edited_from: None,
        reason: "Make room on the disk.".into(),
        risk: Risk { class: findings.iter().map(|f| f.class).max().unwrap_or_default(), findings },
        preview: Vec::new(),
        previewed_edit: None,
        guarded: None,
        covers: Some(Grant::Program { program: "rm".into(), subcommand: None }),
        state: ProposalState::Waiting,
        terms: Default::default(),
        given: Vec::new(),
    }
}

fn boxed(plan: &Proposal, columns: usize) -> Vec<TextRow> {
    let panel = Panel::new(look(columns));
    panel.around(
        "PLAN",
        rows(plan, ProposalLocation { host: "web1", folder: "/srv/app" }, None, panel.inner()),
    )
}

fn check_plan(columns: usize, expected: Expect) {
    let finding = Finding { start: 0, end: 6, class: RiskClass::Dangerous, why: "recursive delete".into() };
    expected
        .assert_eq(&shown(&boxed(&plan("rm -rf /var/cache/日本語 && echo\tdone", vec![finding]), columns)));
}

#[test]
fn a_typed_command_does_not_mention_the_model() {
    let thinking = |step| SessionPhase::Thinking { step: StepId { turn: TurnId(1), step } };
    assert_eq!(super::words::waiting_for(&thinking(0), "phi3", ""), None);
    assert_eq!(super::words::waiting_for(&thinking(1), "phi3", "").as_deref(), Some("waiting for phi3"));
}

#[test]
fn the_change_of_a_file_is_shown_once() {
    let mut plan = plan("", Vec::new());
    plan.call.name = "write_file".into();
    let arguments = json!({ "path": "f", "content": "one\ntwo\n" });
    plan.call.arguments = Arguments::Object(arguments.as_object().cloned().expect("it is an object"));
    let summary = "overwrites f (9 bytes, 2 lines): +1 −1 lines";
    plan.preview = [summary, "@@ -2 +2 @@", " one", "-2", "+two"].map(str::to_owned).to_vec();
    let text = shown(&boxed(&plan, 80));
    assert!(text.contains(&format!("→ {summary}")), "{text}");
    assert!(text.matches("two").count() == 1 && !text.contains("@@"), "{text}");
}

#[test]
fn a_write_of_the_same_content_adds_no_line() {
    let mut plan = plan("", Vec::new());
    plan.call.name = "write_file".into();
    let arguments = json!({ "path": "f", "content": "one\ntwo\n" });
    plan.call.arguments = Arguments::Object(arguments.as_object().cloned().expect("it is an object"));
    plan.preview = vec!["rewrites f with the same content".to_owned()];
    let text = shown(&boxed(&plan, 80));
    assert!(text.contains("+0 −0") && text.contains("  two") && !text.contains("+ two"), "{text}");
}

#[test]
fn a_silent_host_is_one_reason_and_not_about_parts_of_the_command() {
    let why = "web1 did not answer within 9.5 s";
    let finding = |start, end| Finding { start, end, class: RiskClass::Opaque, why: why.into() };
    let text = shown(&boxed(&plan("cat a b", vec![finding(0, 3), finding(4, 5), finding(6, 7)]), 80));
    assert_eq!(text.matches("did not answer").count(), 1, "{text}");
    assert!(text.contains(&format!("! {why} ")) && !text.contains('×'), "{text}");
}

#[test]
fn a_proposal_says_when_its_approval_expires() {
    let mut plan = plan("touch a", Vec::new());
    assert!(!shown(&boxed(&plan, 80)).contains("expire"));
    let in_ms = |ms: i64| Some(sysop_core::id::Timestamp(super::words::now().0 + ms));
    plan.terms.expires = in_ms(59 * 60_000 + 30_000);
    assert!(shown(&boxed(&plan, 80)).contains("expires in 1 h"), "{}", shown(&boxed(&plan, 80)));
    plan.terms.expires = in_ms(-1);
    assert!(shown(&boxed(&plan, 80)).contains("expired"));
}

#[test]
fn a_proposal_for_several_people_says_how_many_have_allowed_it() {
    let mut plan = plan("touch a", Vec::new());
    assert!(!shown(&boxed(&plan, 80)).contains("people"));
    plan.terms.people = 2;
    assert!(shown(&boxed(&plan, 80)).contains("0 of 2 people have allowed this"));
    plan.given.push("ada".into());
    assert!(shown(&boxed(&plan, 80)).contains("1 of 2 people have allowed this"));
}

#[test]
fn a_proposal_fits_every_width() {
    check_plan(
        20,
        expect![[r#"
            ── PLAN ───────────
            Make room on the
            disk.
            on web1 in /srv/app

            $ rm -rf
              /var/cache/日本語
               && echo\tdone

            risk: dangerous
            ! rm -rf —
              recursive delete
        "#]],
    );
    check_plan(
        40,
        expect![[r#"
            ╭─ PLAN ──────────────────────────────╮
            │ Make room on the disk.              │
            │ on web1 in /srv/app                 │
            │                                     │
            │ $ rm -rf /var/cache/日本語          │
            │   && echo\tdone                     │
            │                                     │
            │ risk: dangerous                     │
            │ ! rm -rf — recursive delete         │
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
            ╰─────────────────────────────────────────────────────────────────────────────╯
        "#]],
    );
}

#[test]
fn equal_findings_share_a_row() {
    let command = "rm x\n".repeat(40);
    let finding =
        |at: usize| Finding { start: at, end: at + 4, class: RiskClass::Dangerous, why: "deletes".into() };
    let findings = (0..40).map(|number| finding(number * 5)).collect();
    let text = shown(&boxed(&plan(&command, findings), 80));
    assert_eq!(text.matches("! rm x — deletes ×40 ").count(), 1, "{text}");
    assert_eq!(text.matches("deletes").count(), 1, "{text}");
}

#[test]
fn a_file_proposal_shows_everything_it_writes() {
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
        │ edit_file a.py  +2 −1                                   │
        │ - x = 1                                                 │
        │ + x = 2                                                 │
        │ + y\xa0= 3                                              │
        │                                                         │
        │ risk: makes changes                                     │
        │ allow for session: all edits here, except to protected  │
        │   files                                                 │
        ╰─────────────────────────────────────────────────────────╯
    "#]]
    .assert_eq(&shown(&boxed(&plan, 60)));
}

#[test]
fn an_undo_is_not_offered_for_the_session() {
    let mut plan = plan("undo step 3", Vec::new());
    plan.covers = Some(Grant::Tool { name: "edit_file".into() });
    assert!(shown(&boxed(&plan, 80)).contains("allow for session"));
    plan.call.name = "undo".into();
    assert!(!shown(&boxed(&plan, 80)).contains("allow for session"));
    let question = crate::chat::approval::ApprovalPrompt::new(Vec::new(), &plan, &Transcript::new());
    assert_eq!(question.covers, "");
}

#[test]
fn lookalike_letters_are_named() {
    let text = shown(&boxed(&plan("cat p\u{430}ssword привет", Vec::new()), 80));
    assert!(text.contains("look-alike letters: \u{430} (U+0430)"), "{text}");
    assert!(!text.contains("U+043F"), "a word in one script is not a disguise: {text}");
}

#[test]
fn wide_combining_and_right_to_left_text_stay_inside_the_panel() {
    let panel = Panel::new(look(40));
    let text =
        "日本語のテキスト e\u{301}te\u{301} שלום עולם 👩\u{200d}👩\u{200d}👧 a\u{300}\u{301}\u{302} ️⚠️ ok";
    let rows = panel.around("AGENT RESPONSE", wrap(&row(text, StyleRole::Text), panel.inner(), 0));
    expect![[r#"
        ╭─ AGENT RESPONSE ────────────────────╮
        │ 日本語のテキスト été שלום עולם 👩👩 │
        │ 👧 à́̂ ⚠ ok                           │
        ╰─────────────────────────────────────╯
    "#]]
    .assert_eq(&shown(&rows));
    for row in &rows {
        assert_eq!(row.width(), 39, "{}", paint::row(row, false));
    }
}

#[test]
fn hostile_text_is_escaped_everywhere() {
    for hostile in HOSTILE {
        for columns in [20, 40, 80, 120] {
            let panel = Panel::new(look(columns));
            let mut all = vec![panel.top(hostile)];
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
            for row in &all {
                assert_eq!(row_intruder(row), None, "{hostile:?} at {columns}");
            }
        }
        assert_eq!(
            painted_intruder(&super::words::tool_line(&plan(hostile, Vec::new()).call)),
            None,
            "{hostile:?}"
        );
        assert_eq!(painted_intruder(&safe(hostile).replace('\t', "")), None, "{hostile:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn only_our_own_colors_are_printed(text in proptest::collection::vec(any::<char>(), 0..80), columns in 10usize..60) {
        let text: String = text.into_iter().collect();
        for row in boxed(&plan(&text, Vec::new()), columns) {
            prop_assert_eq!(row_intruder(&row), None);
            prop_assert!(row.width() < columns);
        }
    }
}

#[test]
fn a_terminal_with_zero_columns_uses_the_default_width() {
    assert_eq!(super::usable((0, 0)), (80, 24));
    assert_eq!(super::usable((34, 0)), (34, 24));
    assert_eq!(super::usable((120, 50)), (120, 50));
}
