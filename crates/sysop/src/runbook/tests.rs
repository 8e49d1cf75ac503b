//! Export of sessions and the way back: no processes, no store.

mod on_fail;
mod run;

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};
use sysop_core::event::{Decision, Event, Logged, Origin};
use sysop_core::id::{CallId, Seq, SessionId, StepId, Timestamp, TurnId};
use sysop_core::message::{Arguments, Reply, ToolCall};
use sysop_core::outcome::{ChangeKind, FileChange, Outcome, Reversibility, Status, SystemChange};
use sysop_core::policy::ApprovalMode;

use super::call::StepCall;
use super::export::{ExportOptions, RunbookDraft};
use super::{Runbook, flags, invocation, tells_notes};
use crate::cli::RunbookFormat;
use crate::config::tests::World;
use crate::config::{ABSENT, EditContent, FileEdit, Routine, StepAction, routines_of_text};
use crate::global_flags::GlobalFlags;
use crate::sessions::SessionRecord;
use crate::settings::tests::load;

fn call(number: usize, tool: &str, arguments: &Value) -> ToolCall {
    ToolCall {
        id: CallId::new(format!("c{number}")),
        wire_id: None,
        name: tool.to_owned(),
        arguments: Arguments::Object(arguments.as_object().unwrap().clone()),
    }
}

/// Record of a session whose calls ended with these outcomes.
fn record(calls: &[(&str, Value, Outcome)]) -> SessionRecord {
    let mut events = vec![Event::TurnStarted {
        turn: TurnId(1),
        prompt: "Renew the certificate".to_owned(),
        origin: Origin::Model,
        images: Vec::new(),
        by: None,
    }];
    for (number, (tool, arguments, outcome)) in calls.iter().enumerate() {
        let call = call(number, tool, arguments);
        let id = call.id.clone();
        if outcome.status == Status::Rejected {
            let reply = Reply { calls: vec![call], ..Reply::default() };
            events.push(Event::Replied { step: StepId { turn: TurnId(1), step: 1 }, reply });
        } else {
            events.push(Event::ToolStarted { call, origin: Origin::Model });
        }
        events.push(Event::ToolFinished { call: id, outcome: outcome.clone() });
    }
    recorded(events)
}

fn recorded(events: Vec<Event>) -> SessionRecord {
    let mut record = SessionRecord::default();
    for (seq, event) in (1..).zip(events) {
        record.apply(&Logged { seq: Seq(seq), at: Timestamp(0), event });
    }
    record
}

fn ended(code: i32, output: &str) -> Outcome {
    let status = if code == 0 { Status::Ok } else { Status::Failed };
    Outcome { exit_code: Some(code), ..Outcome::new(status, output) }
}

fn bash(command: &str, code: i32) -> (&'static str, Value, Outcome) {
    ("bash", json!({ "command": command }), ended(code, ""))
}

fn options() -> ExportOptions {
    ExportOptions { finds_variables: true, date: "2026-01-02".to_owned(), ..ExportOptions::default() }
}

fn draft(record: &SessionRecord, options: &ExportOptions) -> RunbookDraft {
    RunbookDraft::new(&SessionId::new("0198c2f1"), record, options).unwrap()
}

/// Reads the draft back from its file.
fn read_back(draft: &RunbookDraft) -> Routine {
    let text = draft.write(RunbookFormat::Toml);
    let mut read =
        routines_of_text(Path::new("book.toml"), &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(read.warnings, [], "{text}");
    let routine =
        read.routines.remove(&draft.name).unwrap_or_else(|| panic!("{} is missing: {text}", draft.name));
    assert_eq!(routine.faults, [], "{text}");
    routine
}

/// Calls that a run with the default values would make.
fn planned(routine: Routine) -> Vec<StepCall> {
    let values = routine.values(&[]).unwrap();
    let book = Runbook { name: "r".to_owned(), routine, values, invocation: String::new() };
    let calls = book.routine.steps.iter().filter_map(|step| book.action(step, &book.values).unwrap());
    calls.collect()
}

fn commands(routine: Routine) -> Vec<String> {
    planned(routine).iter().map(StepCall::to_text).collect()
}

#[test]
fn failed_and_rejected_calls_are_left_out_and_noted() {
    let record = record(&[
        bash("mkdir a", 0),
        bash("mkdir a", 1),
        ("bash", json!({ "command": "reboot" }), Outcome::new(Status::Rejected, "no")),
        bash("ls a", 0),
        ("bash", json!({ "command": "sleep 99" }), Outcome::new(Status::Unknown, "")),
        bash("touch a/b", 0),
    ]);
    let draft = draft(&record, &options());
    assert_eq!(commands(draft.routine.clone()), ["mkdir a", "touch a/b"]);
    let expected = [
        "left out call 2 (`mkdir a`): it exited with 1",
        "left out call 3 (`reboot`): it was rejected",
        "left out call 5 (`sleep 99`): it ended as unknown",
        "left out 1 read-only command (--all keeps them)",
    ];
    assert_eq!(draft.notes(), expected);
    assert_eq!(
        (draft.name.as_str(), draft.routine.description.as_str()),
        ("renew_the_certificate", "Renew the certificate")
    );
    let all = ExportOptions { keeps_reads: true, keeps_failures: true, ..options() };
    let draft = super::tests::draft(&record, &all);
    assert_eq!(commands(draft.routine.clone()), ["mkdir a", "mkdir a", "ls a", "touch a/b"]);
    assert_eq!(read_back(&draft).steps[1].expect.exit, [1]);
}

#[test]
fn another_value_of_a_path_moves_the_files_too() {
    let created = |path: &str| FileChange { path: path.to_owned(), before: None, after_hash: String::new() };
    let written = Outcome { changes: vec![created("/srv/shop/app.conf")], ..Outcome::ok("") };
    let content = json!({ "path": "/srv/shop/app.conf", "content": "root = '/srv/shop/www'\n" });
    let record = record(&[
        bash("mkdir -p /srv/shop", 0),
        ("write_file", content, written),
        bash("chmod 700 /srv/shop", 0),
    ]);
    let draft = draft(&record, &options());
    let routine = read_back(&draft);
    assert_eq!(planned(routine.clone()), planned(draft.routine.clone()));
    let values = routine.values(&[("path".to_owned(), "/opt/x".to_owned())]).unwrap();
    let book = Runbook { name: "r".to_owned(), routine, values, invocation: String::new() };
    let calls: Vec<StepCall> =
        book.routine.steps.iter().filter_map(|step| book.action(step, &book.values).unwrap()).collect();
    let StepCall::Edit(edit) = &calls[1] else { panic!("{calls:?}") };
    assert_eq!(edit.file, "/opt/x/app.conf");
    assert_eq!(edit.content, EditContent::Whole("root = '/opt/x/www'\n".to_owned()));
    assert_eq!(calls[2].to_text(), "chmod 700 /opt/x");
}

#[test]
fn the_undo_of_another_folder_leaves_out_the_recorded_parents() {
    let mut made = ended(0, "");
    made.changed = vec![SystemChange {
        kind: ChangeKind::File,
        name: "/srv/shop/".to_owned(),
        how: "created".to_owned(),
    }];
    let record = record(&[
        ("bash", json!({ "command": "mkdir -p /srv/shop/www" }), made),
        bash("chmod 700 /srv/shop/www", 0),
    ]);
    let found = draft(&record, &options()).routine;
    assert!(found.vars.is_empty(), "{:?}", found.vars);
    assert_eq!(found.steps[0].undo.as_deref(), Some("rmdir -- /srv/shop/www /srv/shop"));
    let variables = vec![("dir".to_owned(), "/srv/shop/www".to_owned())];
    let given = draft(&record, &ExportOptions { variables, ..options() }).routine;
    assert_eq!(given.steps[0].undo.as_deref(), Some("rmdir -- {{dir}}"));
}

#[test]
fn an_edited_command_is_exported_as_it_ran() {
    let proposed = call(1, "bash", &json!({ "command": "touch proposed" }));
    let ran = call(1, "bash", &json!({ "command": "touch edited" }));
    let (id, step) = (ran.id.clone(), StepId { turn: TurnId(1), step: 1 });
    let decision = Decision::Allow { command: Some("touch edited".to_owned()) };
    let record = recorded(vec![
        Event::Replied { step, reply: Reply { calls: vec![proposed], ..Reply::default() } },
        Event::Decided { call: id.clone(), decision, by: "ada".to_owned() },
        Event::ToolStarted { call: ran, origin: Origin::Model },
        Event::ToolFinished { call: id, outcome: ended(0, "") },
    ]);
    assert_eq!(commands(read_back(&draft(&record, &options()))), ["touch edited"]);
    assert!(record.calls[0].decision.as_ref().is_some_and(|decision| decision.is_edit));
}

#[test]
fn a_read_only_call_stays_if_a_later_command_used_its_output() {
    let record = record(&[
        ("bash", json!({ "command": "ls /srv" }), ended(0, "webapp-blue\nother\n")),
        ("bash", json!({ "command": "ls /opt" }), ended(0, "nothing\n")),
        bash("touch /srv/webapp-blue/x", 0),
    ]);
    let commands = commands(draft(&record, &ExportOptions { finds_variables: false, ..options() }).routine);
    assert_eq!(commands, ["ls /srv", "touch /srv/webapp-blue/x"]);
}

#[test]
fn secrets_are_never_exported() {
    let secret = "hunter2hunter2";
    let record = record(&[
        bash(&format!("mysql -p{secret} -e 'select 1'"), 0),
        ("write_file", json!({ "path": "env", "content": format!("API_KEY={secret}\n") }), Outcome::ok("")),
        (
            "run_command",
            json!({ "command": format!("export TOKEN={secret}"), "reasoning": "" }),
            ended(0, ""),
        ),
        ("bash", json!({ "command": "touch a", "reason": format!("password={secret}") }), ended(0, "")),
        (
            "send_keys",
            json!({ "keys": format!("--password {secret} Enter"), "reasoning": "" }),
            Outcome::ok(""),
        ),
        ("bash", json!({ "command": format!("false --token {secret}") }), ended(1, "")),
    ]);
    let draft = draft(&record, &ExportOptions { matches_output: true, ..options() });
    for format in [RunbookFormat::Toml, RunbookFormat::Sh, RunbookFormat::Md] {
        let text = draft.write(format);
        assert!(!text.contains(secret), "{text}");
    }
    assert!(!draft.notes().concat().contains(secret));
    let routine = read_back(&draft);
    let by_hand = routine.steps.iter().filter(|step| step.action == StepAction::Manual);
    assert_eq!(by_hand.count(), 4);
}

#[test]
fn directories_and_variables_of_the_terminal_become_keys() {
    let terminal =
        |command: &str| ("run_command", json!({ "command": command, "reasoning": "" }), ended(0, ""));
    let record = record(&[
        terminal("cd /srv && export COLOR='light blue'"),
        terminal("cd app"),
        terminal("touch x"),
        bash("touch y", 0),
    ]);
    let routine = read_back(&draft(&record, &options()));
    let wrapped = "cd -- /srv/app && {\nexport COLOR='light blue'\ntouch x\n}";
    assert_eq!(commands(routine), [wrapped, "touch y"]);
}

#[test]
fn edits_of_files_keep_their_content_and_the_state_before() {
    let mut created = Outcome::ok("");
    created.changes = vec![FileChange { path: "a".to_owned(), before: None, after_hash: String::new() }];
    let content = "{{end}} 'x' \"y\"\n\n";
    let record = record(&[
        ("write_file", json!({ "path": "a", "content": content }), created),
        ("edit_file", json!({ "path": "a", "old_string": "x", "new_string": "" }), Outcome::ok("")),
    ]);
    let routine = read_back(&draft(&record, &options()));
    let names: Vec<_> = routine.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["create a", "edit a"]);
    let edit = |content, sha256: Option<&str>| {
        let sha256 = sha256.map(str::to_owned);
        StepCall::Edit(FileEdit { file: "a".to_owned(), content, sha256 })
    };
    let replaced = EditContent::Replace { old: "x".to_owned(), new: String::new() };
    assert_eq!(
        planned(routine),
        [edit(EditContent::Whole(content.to_owned()), Some(ABSENT)), edit(replaced, None)]
    );
}

/// A call of the tool `undo` as the session makes it for the call with this number.
fn undo(number: usize) -> (&'static str, Value, Outcome) {
    ("undo", json!({ "step": number, "call": format!("c{}", number - 1), "records": [] }), Outcome::ok(""))
}

#[test]
fn undone_calls_of_any_tool_are_left_out() {
    let calls = [bash("touch s1", 0), bash("rm s1", 0), bash("echo x >> log.txt", 0)];
    let exported = |undos: &[(&'static str, Value, Outcome)]| {
        let draft = draft(&record(&[calls.as_slice(), undos].concat()), &options());
        (commands(draft.routine.clone()), draft.notes())
    };
    let (steps, notes) = exported(&[undo(3), undo(2)]);
    assert_eq!(steps, ["touch s1"]);
    assert_eq!(
        notes,
        [
            "left out call 2 (`rm s1`): it was undone by call 5",
            "left out call 3 (`echo x >> log.txt`): it was undone by call 4"
        ]
    );
    let (steps, notes) = exported(&[undo(3), undo(4)]);
    assert_eq!((steps.len(), notes.len()), (3, 0), "the call was redone: {notes:?}");
    let (steps, notes) = exported(&[undo(3), undo(4), undo(5)]);
    assert_eq!((steps.len(), notes.len()), (2, 1), "the redo was undone: {notes:?}");
    let failed = Outcome::failed("the file has changed since");
    let (steps, notes) = exported(&[("undo", undo(3).1, failed)]);
    assert_eq!(steps.len(), 3);
    assert_eq!(notes, ["left out call 4 (`undo call 3`): it ended as failed"]);
}

#[test]
fn a_call_that_was_undone_only_in_part_is_left_out_as_such() {
    for (how, rest) in [
        (Reversibility::Exact, ""),
        (Reversibility::Partly, ", but only in part; add it if its other effects are needed"),
    ] {
        let mut record = record(&[bash("apt-get install nginx", 0), undo(1), bash("touch x", 0)]);
        let undone = Event::Undone { call: CallId::new("c0"), step: Some(1), by: "ada".to_owned(), how };
        record.apply(&Logged { seq: Seq(99), at: Timestamp(0), event: undone });
        let notes = draft(&record, &options()).notes();
        let note = format!("left out call 1 (`apt-get install nginx`): it was undone by call 2{rest}");
        assert!(notes.contains(&note), "{notes:?}");
    }
}

#[test]
fn an_undo_of_the_last_file_change_leaves_out_the_calls_that_made_it() {
    let change = |path: &str| FileChange { path: path.to_owned(), before: None, after_hash: path.to_owned() };
    let edit = |path: &str| {
        let outcome = Outcome { changes: vec![change(path)], ..Outcome::ok("") };
        ("write_file", json!({ "path": path, "content": "1\n" }), outcome)
    };
    let calls = [edit("a"), edit("b"), bash("touch c", 0), edit("d")];
    let last = ("undo", json!({ "changes": [change("b"), change("d")] }), Outcome::ok(""));
    let draft_of = |undo| draft(&record(&[calls.as_slice(), &[undo]].concat()), &options());
    let draft = draft_of(last);
    assert_eq!(commands(draft.routine.clone()), ["write 2 bytes to a", "touch c"]);
    let twice = [
        edit("a"),
        bash("rm a", 0),
        edit("a"),
        ("undo", json!({ "changes": [change("a")] }), Outcome::ok("")),
    ];
    let draft = self::draft(&record(&twice), &options());
    assert_eq!(commands(draft.routine), ["write 2 bytes to a", "rm a"], "only the last of equal changes");
    let draft = draft_of(("undo", json!({}), Outcome::ok("")));
    assert_eq!(draft.routine.steps.len(), 4, "it is unknown which call was undone");
    assert!(
        draft.notes()[0].starts_with("call 5 (`undo the file edits of the last turn`) undid a call"),
        "{:?}",
        draft.notes()
    );
}

#[test]
fn recurring_values_become_variables_with_patterns() {
    let record = record(&[
        bash("systemctl stop nginx.service", 0),
        bash("cp /srv/app/conf /srv/app/conf.bak", 0),
        bash("chmod 600 /srv/app/conf", 0),
        bash("systemctl start nginx.service", 0),
    ]);
    let draft = draft(&record, &options());
    let routine = read_back(&draft);
    assert_eq!(routine.vars.keys().collect::<Vec<_>>(), ["path", "unit"]);
    assert_eq!(routine.steps[0].action, StepAction::Command("systemctl stop {{unit}}".to_owned()));
    assert_eq!(routine.steps[0].undo.as_deref(), Some("systemctl start {{unit}}"));
    let injected = routine.values(&[("unit".to_owned(), "x; reboot".to_owned())]);
    assert!(injected.is_err() && routine.values(&[("unit".to_owned(), "-x".to_owned())]).is_err());
    let script = draft.write(RunbookFormat::Sh);
    assert!(script.contains("run '0' 'systemctl stop \"${UNIT}\"'"), "{script}");
}

#[test]
fn the_undo_of_replaced_text_in_a_script_has_values_and_no_placeholders() {
    let edit = json!({ "path": "/srv/app/x", "old_string": "at /srv/app/x", "new_string": "{{end}}" });
    let record = record(&[
        bash("touch /srv/app/x", 0),
        bash("chmod 600 /srv/app/x", 0),
        ("edit_file", edit, Outcome::ok("")),
    ]);
    let script = draft(&record, &options()).write(RunbookFormat::Sh);
    let undo = script.lines().find(|line| line.contains("undo_by '# in ")).expect("there is a remark");
    assert!(undo.contains(r#"undo_by '# in '"${PATH_}"', replace "'"#), "{undo}");
    assert!(undo.contains(r#"'" with "''at '"${PATH_}"'"'"#), "{undo}");
    assert!(!undo.contains("{{path}}") && !undo.contains("{{\"{{\"}}"), "{undo}");
}

#[test]
fn blocks_of_a_document_are_apart_by_one_blank_line() {
    let mut created = Outcome::ok("");
    created.changes = vec![FileChange { path: "a".to_owned(), before: None, after_hash: String::new() }];
    let record = record(&[
        bash("touch /srv/app/x", 0),
        bash("chmod 600 /srv/app/x", 0),
        ("write_file", json!({ "path": "a", "content": "one\n" }), created),
        ("edit_file", json!({ "path": "a", "old_string": "one\n", "new_string": "two\n" }), Outcome::ok("")),
        bash("reboot", 1),
    ]);
    let text = draft(&record, &options()).write(RunbookFormat::Md);
    assert!(!text.contains("\n\n\n") && !text.ends_with("\n\n") && text.ends_with('\n'), "{text}");
    assert!(text.contains("```\none\n```\n\nwith\n\n```\ntwo\n```\n"), "{text}");
    let mut before = "";
    for line in text.lines() {
        assert!(!line.starts_with("## ") || before.is_empty(), "{line}: {text}");
        before = line;
    }
}

#[test]
fn a_person_renames_variables_and_chooses_expected_lines() {
    let record = record(&[
        (
            "bash",
            json!({ "command": "systemctl restart nginx.service" }),
            ended(0, "12:01 done\nall is well\n"),
        ),
        bash("systemctl enable nginx.service", 0),
        bash("touch /srv/app/x", 0),
        bash("chmod 600 /srv/app/x", 0),
    ]);
    let mut draft = draft(&record, &options());
    let mut asked = Vec::new();
    draft.confirm(&mut "service\n-\ny\n".as_bytes(), &mut asked).unwrap();
    let asked = String::from_utf8(asked).unwrap();
    assert!(asked.contains("variable unit = nginx.service (2 times)"), "{asked}");
    let routine = read_back(&draft);
    assert_eq!(routine.vars.keys().collect::<Vec<_>>(), ["service"]);
    assert_eq!(routine.steps[0].expect.pattern.as_deref(), Some("^all is well$"));
}

/// Generates parts of commands that are hard to quote.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("'it'\\''s'".to_owned()),
        Just("\"a b\"".to_owned()),
        Just("{{unit}}".to_owned()),
        Just("'{{range .}}{{end}}'".to_owned()),
        Just("{{\"{{\"}}".to_owned()),
        Just("-rf --".to_owned()),
        Just("nginx.service".to_owned()),
        Just("/srv/app/conf".to_owned()),
        Just("a.example.org".to_owned()),
        Just("{".to_owned()),
        Just("}}".to_owned()),
        Just("<<E\n{{x}}\nE\n".to_owned()),
        Just("\\\n".to_owned()),
        Just("'''\"\"\"".to_owned()),
        "[ -~]{0,8}",
        "[^\\x00]{0,6}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever ran is what a run of the exported file would run.
    #[test]
    fn an_export_is_read_back_as_it_ran(
        texts in prop::collection::vec(prop::collection::vec(piece(), 1..5), 1..6),
        file in "[^\\x00]{1,12}",
        separator in prop::sample::select(vec!["", " ", "\n", "\t"]),
    ) {
        let texts: Vec<String> = texts.into_iter().map(|pieces| pieces.join(separator)).collect();
        prop_assume!(texts.iter().all(|text| !text.trim().is_empty()));
        let mut calls: Vec<_> = texts.iter().map(|text| bash(text, 0)).collect();
        let content = texts.concat();
        calls.push(("write_file", json!({ "path": file, "content": content }), Outcome::ok("")));
        let record = record(&calls);
        let options = ExportOptions { keeps_reads: true, ..options() };
        let Ok(draft) = RunbookDraft::new(&SessionId::new("0198c2f1"), &record, &options) else {
            return Ok(());
        };
        let asks = draft.routine.steps.iter().filter(|step| step.action == StepAction::Manual).count();
        let calls = planned(read_back(&draft));
        prop_assert_eq!(calls.len() + asks, texts.len() + 1);
        let edit = FileEdit { file, content: EditContent::Whole(content), sha256: None };
        let mut expected = texts.into_iter().map(StepCall::Command).chain([StepCall::Edit(edit)]);
        // Calls that may contain a secret are questions; the others are the same, in the same order.
        for call in calls {
            prop_assert!(expected.any(|expected| expected == call), "{:?}", call);
        }
    }
}

#[test]
fn an_invocation_quotes_only_values_that_need_it() {
    let values = [("name", "web"), ("text", "light blue"), ("empty", "")];
    let values = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let written = invocation("--host web1 ", "greet", &values);
    assert_eq!(written, "sysop run --host web1 greet name=web text='light blue' empty=''");
    let words = shell_words::split(&written).unwrap();
    assert_eq!(words[4..], ["greet", "name=web", "text=light blue", "empty="]);
}

#[test]
fn the_command_line_in_hints_repeats_the_flags_of_the_run() {
    let hosts = Some("web1,web2".to_owned());
    let given = GlobalFlags { approve: Some(ApprovalMode::Auto), host: hosts, ..GlobalFlags::default() };
    let settings = load(&World::new(), &given, &[]).unwrap();
    let flags_of_file = flags(&settings, Some(Path::new("my book.toml")));
    assert_eq!(flags_of_file, "--file 'my book.toml' --host web1,web2 --approve auto ");
    let mode_of_config = World::new().own("approve = 'auto'\n");
    let settings = load(&mode_of_config, &GlobalFlags::default(), &[]).unwrap();
    assert_eq!(flags(&settings, None), "", "the next run reads the same config");
}

#[test]
fn notes_are_not_printed_twice_on_a_terminal() {
    assert!(!tells_notes(false, true), "the runbook on the same terminal has them");
    assert!(tells_notes(false, false) && tells_notes(true, true));
}
