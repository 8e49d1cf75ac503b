//! Proposals: their place, and their end.

use super::*;
use crate::outcome::TURN_STOPPED;
use crate::policy::{GrantScope, RiskClass};
use crate::ui_text;

#[test]
fn a_proposal_names_the_directory_in_which_it_would_run() {
    let place_on = |tool: &str, host: Option<&str>, folder: Option<&str>| {
        let call = call("c1", tool, json!({ "command": "rm *" }));
        let mut event = asked(&call);
        let Event::ApprovalAsked { scope, .. } = &mut event else { unreachable!("an approval") };
        *scope = folder.map(|folder| GrantScope {
            tool: tool.into(),
            folder: Some(folder.into()),
            host: host.map(str::to_owned),
            user: None,
        });
        let transcript = live(&[open(), started(1, "go").into(), event.into()]);
        let info = transcript.session_info().expect("the session is open");
        let root = info.root.clone();
        let (_, folder) = info.place_of_plan(transcript.plan(&call.id).expect("the call is shown"));
        (folder == root, folder.to_owned())
    };
    let place = |tool: &str, folder: Option<&str>| place_on(tool, None, folder);
    assert!(place("run_command", None).0);
    assert_eq!(place_on("run_command", Some("db1"), Some("/srv")).1, "db1:/srv", "after ssh in the terminal");
    assert!(place("bash", Some("/srv")).0, "a shell of its own starts in the root");
    assert_eq!(place("run_command", Some("/srv/a\u{1b}[31mb")), (false, "/srv/a\\x1b[31mb".to_owned()));
}

#[test]
fn a_proposal_that_a_stop_rejected_needs_no_summary() {
    let call = bash("c1", "rm *");
    let summary = |by: &str, reason: &str| {
        let decision = Decision::Reject { reason: reason.to_owned() };
        let decided = Event::Decided { call: call.id.clone(), decision, by: by.to_owned() };
        let transcript = live(&[open(), started(1, "go").into(), asked(&call).into(), decided.into()]);
        ui_text::decision_summary(transcript.plan(&call.id).expect("the call is shown"), "tui")
    };
    assert_eq!(summary(Decision::BY_SYSOP, TURN_STOPPED), None, "the outcome says it");
    let by_a_user = summary("ann", TURN_STOPPED);
    assert_eq!(by_a_user.as_deref(), Some("rejected by ann: the turn was stopped"));
    assert_eq!(summary("tui", "not today").as_deref(), Some("rejected: not today"));
}

#[test]
fn the_way_to_approve_helps_in_every_mode() {
    let hint_for = |call: ToolCall, class| {
        let mut event = asked(&call);
        let Event::ApprovalAsked { risk, .. } = &mut event else { unreachable!("an approval") };
        risk.class = class;
        let transcript = live(&[open(), started(1, "go").into(), event.into()]);
        ui_text::way_to_approve(transcript.plan(&call.id).expect("the call is shown"))
    };
    let hint = |class| hint_for(bash("c1", "git checkout a"), class);
    assert_eq!(
        hint(RiskClass::Changes),
        "run interactively, or allow the command with a rule in `[[policy.rules]]` or with --approve auto"
    );
    let rule = "run interactively, or allow the command with a rule in `[[policy.rules]]`";
    assert_eq!(hint(RiskClass::Opaque), rule, "`auto` asks about unknown effects, too");
    assert_eq!(hint(RiskClass::Dangerous), "run interactively: this call needs approval in every mode");
    for command in ["for f in a b; do rm $f; done", "touch $(id)", "sort a > b | tee c"] {
        let hint = |class| hint_for(bash("c1", command), class);
        assert_eq!(
            hint(RiskClass::Changes),
            "run interactively, or use --approve auto",
            "no rule covers {command}"
        );
        assert_eq!(hint(RiskClass::Opaque), "run interactively: this call needs approval in every mode");
    }
    let edit = call("c1", "edit_file", json!({ "path": "a", "old_string": "b", "new_string": "c" }));
    assert_eq!(hint_for(edit, RiskClass::Changes), "run interactively, or use --approve auto");
}

#[test]
fn streamed_text_between_a_proposal_and_its_output_does_not_change_their_order() {
    let call = bash("c1", "ls");
    let steps = [
        open(),
        asked(&call).into(),
        Event::StepStarted { step: step(1, 1) }.into(),
        Step::Delta(Delta::Reasoning { step: step(1, 1), text: "a".into() }),
        Event::HistoryCleared.into(),
        Event::ToolStarted { call, origin: Origin::Model }.into(),
    ];
    assert_eq!(logged_part(&live(&steps)), logged_part(&replay(&steps)));
}
