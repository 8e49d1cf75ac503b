//! Rendering of every kind of item.

use std::collections::HashSet;

use expect_test::{Expect, expect};
use ratatui::style::{Color, Modifier};
use serde_json::json;
use sysop_core::event::{Decision, Delta, Event, Origin, StopReason};
use sysop_core::id::CallId;
use sysop_core::message::{FailureKind, ModelFailure, Reply, Usage};
use sysop_core::outcome::{
    FULL_SCREEN_RUNS, HostOutcome, Outcome, Reversibility, SCREEN_FOLLOWS, Status, WAITS_FOR_ANSWER,
};
use sysop_core::policy::{CommandContext, Grant, Policy, Survey};
use sysop_core::spec::SessionSpec;
use sysop_core::text::split_styles;
use sysop_core::transcript::{ItemBody, ItemId, Transcript};
use sysop_term::output::live_rows;

use super::{DARK, NASTY, STEP, Story, bash, call, drawn, intruder};

fn check(story: &Story, columns: u16, rows: u16, expected: Expect) {
    expected.assert_eq(&story.screen(columns, rows));
}

/// A turn with every kind of item.
fn typical() -> Story {
    let mut story = Story::new();
    story.prompt("Why is the disk full?\nLook at /var first.");
    let step = story.step();
    story.log(Event::Replied {
        step,
        reply: Reply {
            text: "I'll look at the **biggest** folders.".into(),
            reasoning: "The user asks about disks.\nUse du.".into(),
            usage: Usage { input_tokens: 1_200, output_tokens: 80, cached_tokens: 0 },
            ..Reply::default()
        },
    });
    let asked = bash("a", "sudo du -xh /var | sort -h | tail -3");
    let risk = Policy::new(&[], &[])
        .risk("sudo du -xh /var | sort -h | tail -3", &Survey::elsewhere(CommandContext::bash()));
    story.log(Event::ApprovalAsked {
        call: asked.clone(),
        command: "sudo du -xh /var | sort -h | tail -3".into(),
        reason: "Find what is big".into(),
        risk,
        covers: Grant::Exact { command: "x".into() },
        preview: Vec::new(),
        guarded: None,
        scope: None,
        terms: Default::default(),
    });
    let decision = Decision::Allow { command: None };
    story.log(Event::Decided { call: CallId::new("a"), decision, by: "tui".into() });
    let output = "1.1G\t/var/lib\n2.0G\t/var/log\n3.4G\t/var\n";
    story.ran(asked, Outcome { exit_code: Some(0), duration_ms: 1_240, ..Outcome::ok(output) });
    story.answer("`/var/log` has grown. See [the manual](https://man7.org/x).");
    let turn = story.transcript.turn();
    story.log(Event::TurnEnded { turn, reason: StopReason::EndTurn, error: None, active_ms: 0 });
    story
}

#[test]
fn a_tab_looks_the_same_in_an_edited_command_and_in_the_proposed_one() {
    let mut story = Story::new();
    story.prompt("go");
    story.step();
    let command = "cat <<-E\n\tx\nE";
    story.log(Event::ApprovalAsked {
        call: bash("a", command),
        command: command.into(),
        reason: String::new(),
        risk: Policy::new(&[], &[]).risk(command, &Survey::elsewhere(CommandContext::bash())),
        covers: Grant::Exact { command: "x".into() },
        preview: Vec::new(),
        guarded: None,
        scope: None,
        terms: Default::default(),
    });
    let decision = Decision::Allow { command: Some("cat <<-E\n\ty\nE".to_owned()) };
    story.log(Event::Decided { call: CallId::new("a"), decision, by: "tui".into() });
    let screen = story.screen(60, 20);
    assert!(screen.contains("  \\ty") && screen.contains("\\tx"), "{screen}");
}

#[test]
fn a_turn_fits_40_columns() {
    check(
        &typical(),
        40,
        28,
        expect![[r#"
            ❯ Why is the disk full?
              Look at /var first.

            ∴ thought, 2 lines

            ● I'll look at the biggest folders.

            $ sudo du -xh /var | sort -h | tail -3
            · Find what is big
            │ 1.1G    /var/lib
            │ 2.0G    /var/log
            │ 3.4G    /var
            ✓ 1.2 s

            ● /var/log has grown. See the manual
              (man7.org).
            ─ 2 model calls, 1200 in, 80 out











        "#]],
    );
}

#[test]
fn a_turn_fits_80_columns() {
    check(
        &typical(),
        80,
        24,
        expect![[r#"
            ❯ Why is the disk full?
              Look at /var first.

            ∴ thought, 2 lines

            ● I'll look at the biggest folders.

            $ sudo du -xh /var | sort -h | tail -3
            · Find what is big
            │ 1.1G    /var/lib
            │ 2.0G    /var/log
            │ 3.4G    /var
            ✓ 1.2 s

            ● /var/log has grown. See the manual (man7.org).
            ─ 2 model calls, 1200 in, 80 out








        "#]],
    );
}

#[test]
fn a_turn_fits_120_columns() {
    check(
        &typical(),
        120,
        24,
        expect![[r#"
            ❯ Why is the disk full?
              Look at /var first.

            ∴ thought, 2 lines

            ● I'll look at the biggest folders.

            $ sudo du -xh /var | sort -h | tail -3
            · Find what is big
            │ 1.1G    /var/lib
            │ 2.0G    /var/log
            │ 3.4G    /var
            ✓ 1.2 s

            ● /var/log has grown. See the manual (man7.org).
            ─ 2 model calls, 1200 in, 80 out








        "#]],
    );
}

#[test]
fn turn_endings_are_described() {
    let mut story = Story::new();
    story.prompt("go").step();
    let ends = [
        (Status::Failed, Some(3)),
        (Status::Timeout, None),
        (Status::Cancelled, None),
        (Status::Interrupted, None),
        (Status::Unknown, None),
        (Status::Rejected, None),
    ];
    for (number, (status, exit_code)) in ends.into_iter().enumerate() {
        let outcome = Outcome { exit_code, duration_ms: 61_000, ..Outcome::new(status, "") };
        story.ran(bash(&number.to_string(), "make"), outcome);
    }
    let turn = story.transcript.turn();
    let failure = ModelFailure {
        kind: FailureKind::Auth,
        message: "openai does not know this key; set OPENAI_API_KEY".into(),
    };
    story.log(Event::ModelFailed { step: STEP, failure });
    story.log(Event::TurnEnded { turn, reason: StopReason::Failed, error: None, active_ms: 0 });
    check(
        &story,
        60,
        24,
        expect![[r#"
            ❯ go

            $ make
            ✗ exit code 3, 1 min 1 s

            $ make
            ✗ timed out, 1 min 1 s

            $ make
            ■ canceled, 1 min 1 s

            $ make
            ■ interrupted, 1 min 1 s

            $ make
            ■ outcome unknown: the connection or the output was lost;
              not run again

            $ make
            ■ rejected

            ✗ openai does not know this key; set OPENAI_API_KEY


        "#]],
    );
}

#[test]
fn the_reason_why_a_host_was_not_reached_is_told_once() {
    let host = |name: &str, group, unreachable: Option<&str>| HostOutcome {
        host: name.into(),
        status: if unreachable.is_some() { Status::Failed } else { Status::Ok },
        exit_code: unreachable.is_none().then_some(0),
        duration_ms: 200,
        group,
        unreachable: unreachable.map(str::to_owned),
    };
    let why = "web2: connection refused";
    let output =
        format!("== web2 (1 host of 2): not run ==\n{why}\n== web1 (1 host of 2): exit code 0 ==\nup");
    let mut outcome = Outcome::new(Status::Failed, output);
    outcome.hosts = vec![host("web2", 1, Some(why)), host("web1", 2, None)];
    let mut story = Story::new();
    story.prompt("go").step();
    story.ran(bash("a", "uptime"), outcome);
    check(
        &story,
        60,
        9,
        expect![[r#"
            ❯ go

            $ uptime
            │ == web1 (1 host of 2): exit code 0 ==
            │ up
            ✗ web2: not run: connection refused
            ✓ web1: exit 0, 200 ms
            ✗ not run on 1 of 2 hosts, 200 ms

        "#]],
    );
}

#[test]
fn a_fleet_shows_odd_hosts_first() {
    let host = |name: &str, status, exit_code, group| HostOutcome {
        host: name.into(),
        status,
        exit_code: Some(exit_code),
        duration_ms: 200,
        group,
        unreachable: None,
    };
    let mut outcome = Outcome::new(Status::Failed, "web3: disk full\nweb1, web2: ok\n");
    outcome.hosts = vec![
        host("web3", Status::Failed, 1, 0),
        host("web1", Status::Ok, 0, 1),
        host("web2", Status::Ok, 0, 1),
    ];
    let mut story = Story::new();
    story.prompt("go").step();
    story.ran(bash("a", "df"), outcome);
    check(
        &story,
        60,
        9,
        expect![[r#"
            ❯ go

            $ df
            │ web3: disk full
            │ web1, web2: ok
            ✗ web3: exit 1, 200 ms
            ✓ 2 hosts (web1, web2): exit 0, 200 ms
            ✗ failed on 1 of 3 hosts, 200 ms

        "#]],
    );
}

#[test]
fn headings_of_a_fleet_break_between_words() {
    let host = |name: &str| HostOutcome {
        host: name.into(),
        status: Status::Ok,
        exit_code: Some(0),
        duration_ms: 200,
        group: 1,
        unreachable: None,
    };
    let heading = "== app15, app16, app17, app18, app19 (5 hosts of 5): exit code 0 ==";
    let mut outcome = Outcome::ok(format!("{heading}\nup"));
    outcome.hosts = ["app15", "app16", "app17", "app18", "app19"].map(host).into();
    let mut story = Story::new();
    story.prompt("go").step();
    story.ran(bash("a", "uptime"), outcome);
    check(
        &story,
        40,
        9,
        expect![[r#"
            ❯ go

            $ uptime
            │ == app15, app16, app17, app18, app19
            │ (5 hosts of 5): exit code 0 ==
            │ up
            ✓ 5 hosts (app[15-19]): exit 0, 200 ms
            ✓ 200 ms

        "#]],
    );
}

#[test]
fn edits_are_shown_as_diffs() {
    let mut story = Story::new();
    story.prompt("go").step();
    let arguments = json!({
        "path": "src/main.rs",
        "old_string": "fn main() {\n    let port = 80;\n    serve(port);\n}\n",
        "new_string": "fn main() {\n    let port = 8080;\n    serve(port);\n\tlog();\n}\n",
    });
    story.ran(call("a", "edit_file", arguments), Outcome::ok("edited"));
    story.ran(
        call("b", "write_file", json!({"path": "a b", "content": "one\ntwo\r\n"})),
        Outcome::ok("written"),
    );
    story.ran(call("c", "read_file", json!({"path": "src/main.rs", "start": 3})), Outcome::ok("x"));
    check(
        &story,
        60,
        26,
        expect![[r#"
            ❯ go

            → edit_file src/main.rs  +2 −1
                fn main() {
              -     let port = 80;
              +     let port = 8080;
                    serve(port);
              + →   log();
                }
            │ edited
            ✓ 0 ms

            → write_file a b  +2
              + one
              + two\r
            │ written
            ✓ 0 ms

            → read_file("src/main.rs", ...)
            │ x
            ✓ 0 ms





        "#]],
    );
}

#[test]
fn a_running_tool_shows_its_tail() {
    let mut story = Story::new();
    story.prompt("go").step();
    story.log(Event::ToolStarted { call: bash("a", "make"), origin: Origin::Model });
    let mut text: String = (0..200).map(|line| format!("\u{1b}[32mline {line}\u{1b}[0m\n")).collect();
    text.push_str("10%\r20%");
    story.delta(Delta::Output { call: CallId::new("a"), text });
    check(
        &story,
        40,
        16,
        expect![[r#"
        ❯ go

        $ make
        │ line 191
        │ line 192
        │ line 193
        │ line 194
        │ line 195
        │ line 196
        │ line 197
        │ line 198
        │ line 199
        │ 20%
        ▸ running


    "#]],
    );
    let Some(ItemBody::ToolOutput(output)) =
        story.transcript.item(&ItemId::ToolOutput(CallId::new("a"))).map(|item| &item.body)
    else {
        panic!("there is an output")
    };
    let rows = live_rows(output, 40, 3, DARK);
    assert_eq!(drawn(&rows, 40), "line 198\nline 199\n20%\n");
    assert_eq!(rows[0].spans[0].style.fg, Some(ratatui::style::Color::Green));
}

#[test]
fn reasoning_is_short_while_streaming_and_folded_afterwards() {
    let mut story = Story::new();
    story.prompt("go").log(Event::StepStarted { step: STEP });
    for line in 0..9 {
        story.delta(Delta::Reasoning { step: STEP, text: format!("thought {line}\n") });
    }
    check(
        &story,
        40,
        8,
        expect![[r#"
        ❯ go

        ∴ thinking
          thought 6
          thought 7
          thought 8


    "#]],
    );
    let reply = Reply { reasoning: "a\nb\nc\n".into(), text: "so".into(), ..Reply::default() };
    story.log(Event::Replied { step: STEP, reply });
    check(
        &story,
        40,
        8,
        expect![[r#"
        ❯ go

        ∴ thought, 3 lines

        ● so



    "#]],
    );
}

#[test]
fn an_interrupted_reply_is_marked() {
    let mut story = Story::new();
    story.prompt("go").log(Event::StepStarted { step: STEP });
    story.delta(Delta::Text { step: STEP, text: "Half a sent".into() });
    let failure = ModelFailure { kind: FailureKind::Unreachable, message: "nobody answers".into() };
    story.log(Event::ModelFailed { step: STEP, failure });
    let turn = story.transcript.turn();
    story.log(Event::TurnEnded { turn, reason: StopReason::Failed, error: None, active_ms: 0 });
    check(
        &story,
        40,
        7,
        expect![[r#"
        ❯ go

        ● Half a sent
          ■ incomplete

        ✗ nobody answers

    "#]],
    );
}

#[test]
fn hostile_items_are_escaped() {
    for nasty in NASTY {
        let mut story = Story::new();
        story.prompt(nasty).answer(nasty);
        story.ran(bash("a", nasty), Outcome::ok(nasty));
        story.ran(call("b", nasty, json!({ nasty: nasty, "path": nasty })), Outcome::failed(nasty));
        story.ran(
            call("c", "edit_file", json!({"path": nasty, "old_string": nasty, "new_string": "x"})),
            Outcome::ok(nasty),
        );
        let turn = story.transcript.turn();
        story.log(Event::TurnEnded {
            turn,
            reason: StopReason::Failed,
            error: Some(nasty.to_owned()),
            active_ms: 0,
        });
        for columns in [1, 3, 20, 100] {
            story.screen(columns, 60);
        }
    }
}

#[test]
fn speakers_are_distinguishable_without_colors() {
    let mut story = Story::new();
    story.log(sysop_core::event::Event::HistoryCleared);
    story.prompt("same words").answer("same words");
    story.ran(bash("a", "same words"), sysop_core::outcome::Outcome::ok("same words"));
    let screen = story.screen(40, 12);
    let signs: Vec<char> = screen
        .lines()
        .filter(|line| line.contains("same words"))
        .filter_map(|line| line.chars().next())
        .collect();
    assert_eq!(signs, ['❯', '●', '$', '│'], "{screen}");
    assert_eq!(signs.iter().collect::<HashSet<_>>().len(), 4);
    assert!(screen.contains("· History cleared"), "{screen}");
}

#[test]
fn finished_output_keeps_its_colors() {
    let (plain, styles) = split_styles("\u{1b}[1;31merror\u{1b}[0m: no\n");
    let mut story = Story::new();
    let outcome = Outcome { styles, ..Outcome::ok(plain.trim_end()) };
    story.ran(bash("a", "make"), outcome);
    let buffer = story.buffer(40, 8);
    let cell = &buffer[(2, 1)];
    assert_eq!((cell.fg, cell.modifier), (Color::Red, Modifier::BOLD), "{buffer:?}");
    assert_eq!(intruder(&buffer), None);
}

#[test]
fn prompts_show_their_senders_once_several_people_take_part() {
    let mut story = Story::new();
    story.prompt_by("first", Some("ada"));
    check(
        &story,
        20,
        3,
        expect![[r#"
        ❯ first


    "#]],
    );
    story.prompt_by("second", Some("b\u{1b}[31mob"));
    check(
        &story,
        40,
        7,
        expect![[r#"
            ❯ from ada (server token):
              first

            ❯ from b\x1b[31mob (server token):
              second


        "#]],
    );
}

#[test]
fn a_typed_command_and_an_undo_show_who_asked_for_them() {
    let text = |by: Option<&str>| {
        let mut story = Story::new();
        let turn = story.transcript.turn().next();
        let by = by.map(str::to_owned);
        let (prompt, images) = (String::new(), Vec::new());
        story.log(Event::TurnStarted { turn, prompt, origin: Origin::User, images, by });
        let undo = call("c2", "undo", json!({ "call": "direct_1", "step": 1 }));
        for call in [bash("c1", "uptime"), undo] {
            story.log(Event::ToolStarted { call, origin: Origin::User });
        }
        story.screen(40, 12)
    };
    let bob = text(Some("bob"));
    assert!(bob.contains("$ uptime") && bob.contains("· typed by bob"), "{bob}");
    assert!(bob.contains("→ undo call 1") && bob.contains("· requested by bob"), "{bob}");
    assert!(text(None).contains("· typed by you"));
}

#[test]
fn an_undo_names_only_the_hosts_that_it_changes() {
    let spec = SessionSpec { host: "web1,web2,web3,db".into(), ..crate::tests::world::spec() };
    let mut story = Story { transcript: Transcript::of(&spec), ..Story::default() };
    let record = |host: &str| json!({ "id": "a", "host": host, "rights": "own" });
    let undo = call("c1", "undo", json!({ "step": 1, "records": [record("web1"), record("db")] }));
    story.prompt("go").step();
    story.log(Event::ToolStarted { call: undo, origin: Origin::User });
    let screen = story.screen(60, 12);
    assert!(screen.contains("on 2 hosts: web1, db"), "{screen}");
}

#[test]
fn a_program_that_waits_for_a_person_is_told_without_advice_for_the_model() {
    let mut story = Story::new();
    story.prompt("go").step();
    let output = format!("Name?\n[{WAITS_FOR_ANSWER}]\n[no undo: timed out after 15 s]");
    let undo = Some(Reversibility::None);
    story.ran(bash("a", "ask"), Outcome { undo, ..Outcome::new(Status::Unknown, output) });
    let screen = story.screen(120, 9);
    let end =
        "■ still running; it waits for input · Ctrl+T opens the terminal · no undo: timed out after 15 s";
    assert!(screen.contains(&format!("│ Name?\n{end}\n")), "{screen}");
}

#[test]
fn rows_of_a_full_screen_program_are_clipped_unless_the_card_is_open() {
    let mut story = Story::new();
    story.prompt("go").step();
    let text = "word ".repeat(20);
    let output = format!("{text}\n{SCREEN_FOLLOWS}\n{text}\n[{FULL_SCREEN_RUNS}]");
    story.ran(bash("a", "vi f"), Outcome::new(Status::Unknown, output));
    let screen = story.screen(60, 14);
    let (before, rows) = screen.split_once(SCREEN_FOLLOWS).expect("the heading is shown");
    let count = |text: &str| text.lines().filter(|row| row.contains("word word")).count();
    assert_eq!((count(before), count(rows)), (2, 1), "{screen}");
    assert!(rows.contains("…"), "{screen}");
}

#[test]
fn people_do_not_see_what_the_model_is_told_about_their_typing() {
    let notes = [
        "[tui entered a password; tui typed into the terminal for 11 s; the output is private unless they share it]",
        "[tui entered a password]",
    ];
    for note in notes {
        let mut story = Story::new();
        story.prompt("go").step();
        story.ran(bash("a", "id"), Outcome::ok(format!("{note}\nuid=0")));
        let screen = story.screen(60, 9);
        assert!(screen.contains("│ uid=0") && !screen.contains("tui"), "{screen}");
    }
}
