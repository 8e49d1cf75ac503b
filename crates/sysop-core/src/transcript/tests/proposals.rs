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
    assert_eq!(
        hint(RiskClass::Dangerous),
        "run it on a terminal, because this call needs approval in every mode"
    );
    for command in ["for f in a b; do rm $f; done", "touch $(id)", "sort a > b | tee c"] {
        let hint = |class| hint_for(bash("c1", command), class);
        assert_eq!(
            hint(RiskClass::Changes),
            "run interactively, or use --approve auto",
            "no rule covers {command}"
        );
        assert_eq!(
            hint(RiskClass::Opaque),
            "run it on a terminal, because this call needs approval in every mode"
        );
    }
    let edit = call("c1", "edit_file", json!({ "path": "a", "old_string": "b", "new_string": "c" }));
    assert_eq!(hint_for(edit, RiskClass::Changes), "run interactively, or use --approve auto");
}

#[test]
fn a_call_whose_host_did_not_answer_is_to_be_tried_again() {
    let call = bash("c1", "ls");
    let mut event = asked(&call);
    let Event::ApprovalAsked { risk, .. } = &mut event else { unreachable!("an approval") };
    let why = format!("web1 {} 9.5 s", crate::policy::NO_ANSWER);
    let finding = crate::policy::Finding { start: 0, end: 2, class: RiskClass::Opaque, why };
    *risk = crate::policy::Risk { class: RiskClass::Opaque, findings: vec![finding] };
    let transcript = live(&[open(), started(1, "go").into(), event.into()]);
    let hint = ui_text::way_to_approve(transcript.plan(&call.id).expect("the call is shown"));
    let expected = "the host did not answer, so the effect is unknown: try again or run interactively";
    assert_eq!(hint, expected);
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

#[test]
fn a_refusal_of_the_policy_is_told_by_the_outcome_alone() {
    let call = bash("c1", "touch a");
    let denied = Outcome::new(Status::Rejected, crate::policy::READ_ONLY_REFUSAL);
    let steps = [
        open(),
        started(1, "go").into(),
        replied(step(1, 1), "", vec![call.clone()]).into(),
        finished("c1", denied).into(),
    ];
    let transcript = live(&steps);
    let plan = transcript.plan(&call.id).expect("the call is shown");
    assert_eq!(ui_text::decision_summary(plan, "tui"), None);
    let outcome = transcript.output_of(&call.id).and_then(|output| output.outcome.as_ref());
    let outcome = outcome.expect("the call has ended");
    assert_eq!(outcome.output, "denied: this session is read-only (approve = never)");
    assert_eq!(ui_text::not_run_text(outcome), "not run: this session is read-only (approve = never)");
}

#[test]
fn an_undo_and_a_note_can_be_allowed_only_once() {
    use crate::{catalog::REMEMBER_TOOL, undo::UNDO_TOOL};
    for (tool, is_grantable) in [("bash", true), (UNDO_TOOL, false), (REMEMBER_TOOL, false)] {
        let call = call("c1", tool, json!({ "step": 3 }));
        let transcript = live(&[open(), started(1, "").into(), asked(&call).into()]);
        let plan = transcript.plan(&call.id).expect("the call is shown");
        assert_eq!(plan.session_grant().is_some(), is_grantable, "{tool}");
    }
}

#[test]
fn a_turn_that_did_not_reach_its_host_was_not_done_there() {
    let run = |id: &str| bash(id, "uptime");
    let unreachable = |id: &str| finished(id, Outcome::unreachable("cannot reach local"));
    let mut steps: Vec<Step> = vec![
        open(),
        started(1, "go").into(),
        replied(step(1, 1), "", vec![run("c1")]).into(),
        unreachable("c1").into(),
    ];
    let mut reached = steps.clone();
    reached.push(Event::ToolStarted { call: run("c2"), origin: Origin::Model }.into());
    reached.push(finished("c2", Outcome::ok("up")).into());
    assert_eq!(live(&reached).missed_hosts(), None, "a later call reached it");
    steps.push(ended(1, StopReason::EndTurn).into());
    assert_eq!(live(&steps).missed_hosts().as_deref(), Some("not done on local"));
    steps.push(started(2, "again").into());
    assert_eq!(live(&steps).missed_hosts(), None, "a new turn");
}

#[test]
fn a_rule_that_was_saved_is_told_apart_from_the_rules_of_a_config() {
    use crate::policy::{CommandPattern, PolicyOptions, Rule, RuleAction};
    let saved = Rule {
        action: RuleAction::Allow,
        pattern: CommandPattern::default(),
        origin: "~/.config/sysop/rules.toml:1".into(),
    };
    let options = PolicyOptions::default();
    let with_rule = PolicyOptions { rules: vec![saved.clone()], ..PolicyOptions::default() };
    assert_eq!(rules_sentence(None, &[saved]), "rule saved to rules.toml");
    assert_eq!(rules_sentence(Some(&with_rule), &[]), "rules added from the current config");
    assert_eq!(rules_sentence(Some(&options), &[]), "policy set from the current config");
    assert_eq!(rules_sentence(None, &[]), "rules added");
    let configured = |options: Option<PolicyOptions>| -> Step {
        let (dangerous, deny, rules) = Default::default();
        let change = ConfigChange::Rules { dangerous, deny, options, rules };
        Event::Configured { change, reached: None }.into()
    };
    let notices = |steps: &[Step]| {
        let drawn = drawn(&live(&[&[open()], steps].concat()));
        (drawn.matches("rules added").count(), drawn.matches("policy set").count())
    };
    assert_eq!(notices(&[configured(None)]), (0, 0));
    assert_eq!(notices(&[configured(Some(with_rule.clone()))]), (1, 0));
    let expiring = PolicyOptions { approval_expires_s: 3600, ..options.clone() };
    let taken_over = [configured(Some(expiring)), configured(Some(options.clone()))];
    assert_eq!(notices(&taken_over), (0, 0), "a server, and then a terminal, continues the session");
    let asking = PolicyOptions { never_asks: true, ..options.clone() };
    assert_eq!(notices(&[configured(Some(asking)), configured(Some(with_rule))]), (1, 1));
    let change = ConfigChange::Rules {
        dangerous: vec!["deploy".to_owned()],
        deny: Vec::new(),
        options: Some(options),
        rules: Vec::new(),
    };
    assert_eq!(notices(&[Event::Configured { change, reached: None }.into()]), (1, 0));
}

#[test]
fn a_typed_call_that_cannot_run_says_what_to_do() {
    let refusal = |steps: &[Step]| ui_text::typed_call_refusal(&live(steps), "Esc");
    let call = bash("c1", "make");
    let mut steps: Vec<Step> = vec![open()];
    assert_eq!(refusal(&steps), None);
    steps.push(started(1, "go").into());
    let runs = "not run: a turn is running; wait for it, or stop it with Esc";
    assert_eq!(refusal(&steps).as_deref(), Some(runs));
    steps.extend([replied(step(1, 1), "", vec![call.clone()]).into(), asked(&call).into()]);
    let waits = "not run: a proposal is waiting; answer it first";
    assert_eq!(refusal(&steps).as_deref(), Some(waits));
    steps.push(decided("c1", Decision::Allow { command: None }).into());
    steps.push(Event::ToolStarted { call, origin: Origin::Model }.into());
    let paused = Event::Paused { reason: PauseReason::Asked, detail: None, active_ms: 0 };
    steps.push(paused.into());
    assert_eq!(refusal(&steps).as_deref(), Some(runs), "the command still runs");
    steps.push(finished("c1", Outcome::ok("made")).into());
    assert_eq!(refusal(&steps), None, "a paused turn makes way");
}

#[test]
fn a_denied_call_that_a_user_typed_is_shown_as_rejected_and_remains_a_proposed_step() {
    let denied = || Outcome::new(Status::Rejected, crate::policy::READ_ONLY_REFUSAL);
    let transcript = live(&[
        open(),
        turn_started(1, "go", Origin::Model).into(),
        replied(step(1, 1), "", vec![bash("c1", "touch a")]).into(),
        finished("c1", denied()).into(),
        ended(1, StopReason::EndTurn).into(),
        turn_started(2, "", Origin::Plan).into(),
        Event::ToolStarted { call: bash("c2", "touch a"), origin: Origin::Plan }.into(),
        finished("c2", denied()).into(),
        ended(2, StopReason::Failed).into(),
    ]);
    let plan = transcript.plan(&CallId::new("c2")).expect("the call is shown");
    let rejected = ProposalState::Rejected { by: Decider::Policy, reason: String::new() };
    assert_eq!((plan.command.as_str(), &plan.state), ("touch a", &rejected));
    assert_eq!(transcript.proposed_steps().len(), 1, "it has not run");
    let notices: Vec<&str> = transcript
        .items()
        .filter_map(|item| if let ItemBody::Notice(notice) = &item.body { Some(&*notice.text) } else { None })
        .collect();
    let list = "1 proposed step; /approve ask, then /plan runs the next one\n1. touch a";
    assert_eq!(notices, [list, "1 proposed step left; /plan runs the next one: `touch a`"]);
}

#[test]
fn a_summary_names_the_argument_that_tells_the_call_in_any_order() {
    let summary = |name: &str, arguments| call_summary(&call("c", name, arguments));
    let shown = [
        summary("bash", json!({ "background": false, "command": "rm -rf /srv" })),
        summary("run_command", json!({ "reasoning": "look", "timeout_s": 3, "command": "df" })),
        summary("write_file", json!({ "content": "x", "path": "/etc/passwd" })),
        summary("edit_file", json!({ "new_string": "", "old_string": "a", "path": "a.c" })),
        summary("send_keys", json!({ "command": "ls", "keys": "y Enter" })),
        summary("mcp__web__deploy", json!({ "quiet": true, "to": "b", "path": "a" })),
        summary("mcp__web__run", json!({ "quiet": true, "command": "make" })),
        summary("mcp__web__ping", json!({ "host": "web1" })),
        summary("bash", json!({ "background": true, "command": 1 })),
        summary("bash", json!({ "background": true, "cmd": "df" })),
    ];
    expect![[r#"
        bash("rm -rf /srv", ...)
        run_command("df", ...)
        write_file("/etc/passwd", ...)
        edit_file("a.c", ...)
        send_keys("y Enter", ...)
        mcp__web__deploy(quiet=true, to="b", path="a")
        mcp__web__run(quiet=true, command="make")
        mcp__web__ping("web1")
        bash(1, ...)
        bash(background=true, cmd="df")"#]]
    .assert_eq(&shown.join("\n"));
}

#[test]
fn the_lines_of_a_call_have_its_whole_command() {
    let lines = |command: &str| call_lines(&call("c", "bash", json!({ "timeout_s": 9, "command": command })));
    let long = format!("echo {}; rm -rf /srv/data", "x".repeat(100));
    assert_eq!(lines(&long), [format!("bash(\"{long}\", ...)")]);
    let two = ["bash(\"set -e\\nmake\\n\", ...)", "  | set -e", "  | make"];
    assert_eq!(lines("set -e\nmake\n"), two);
    let many: Vec<String> = (1..=40).map(|number| format!("echo {number}")).collect();
    let shown = lines(&many.join("\n"));
    assert_eq!(shown[14..18], ["  | echo 14", "  | echo 15", "  … 20 more lines …", "  | echo 36"]);
    assert_eq!(shown.len(), 22);
    let endless = lines(&"y".repeat(5000));
    assert!(endless[1].ends_with("y… 3000 more characters"), "{endless:?}");
    let path = json!({ "content": "x", "path": "a" });
    assert_eq!(call_lines(&call("c", "write_file", path)), ["write_file(\"a\", ...)"]);
    let lines = |command: &str| {
        call_lines(&call("c", "mcp__ssh__run", json!({ "host": "prod", "command": command })))
    };
    assert_eq!(lines(&long), [format!("mcp__ssh__run(host=\"prod\", command=\"{long}\")")]);
    let two = ["mcp__ssh__run(host=\"prod\", command=\"set -e\\nmake\")", "  | set -e", "  | make"];
    assert_eq!(lines("set -e\nmake"), two);
}

#[test]
fn a_call_is_the_viewers_own_unless_someone_else_asked_for_it() {
    let is_own = |origin, by: Option<&str>, viewer| {
        let (turn, by) = (TurnId(1), by.map(str::to_owned));
        let began = Event::TurnStarted { turn, prompt: String::new(), origin, images: Vec::new(), by };
        let call = bash("c1", "rm *");
        let transcript = live(&[open(), began.into(), asked(&call).into()]);
        transcript.plan(&call.id).expect("the call is shown").is_own(viewer)
    };
    for origin in [Origin::User, Origin::Routine, Origin::Plan] {
        assert!(is_own(origin, None, None), "{origin:?}");
        assert!(is_own(origin, Some("ann"), Some("ann")), "{origin:?}");
        assert!(!is_own(origin, Some("bob"), Some("ann")), "{origin:?}");
        assert!(!is_own(origin, Some("bob"), None), "{origin:?}");
    }
    assert!(!is_own(Origin::Model, None, None));
    assert!(!is_own(Origin::McpClient, None, None), "another agent waits for the answer");
}

#[test]
fn a_user_whose_program_needs_a_terminal_is_told_how_to_open_it() {
    let notices = |origin: Origin, command: &str, outcome: Outcome| {
        let transcript = live(&[
            open(),
            turn_started(1, "", origin).into(),
            Event::ToolStarted { call: bash("c1", command), origin }.into(),
            finished("c1", outcome).into(),
        ]);
        let text =
            |body: &ItemBody| if let ItemBody::Notice(it) = body { Some(it.text.clone()) } else { None };
        transcript.items().filter_map(|item| text(&item.body)).collect::<Vec<_>>()
    };
    let late = || Outcome::new(Status::Timeout, Outcome::time_limit_note(30));
    let exited = |code| Outcome { exit_code: Some(code), ..Outcome::failed("") };
    let hint = ["vi needs a terminal; open it with /shell"];
    assert_eq!(notices(Origin::User, "vi /etc/hosts", late()), hint);
    assert_eq!(notices(Origin::User, "vi /etc/hosts", exited(1)), hint);
    let nothing: [&str; 0] = [];
    assert_eq!(notices(Origin::User, "vi /etc/hosts", exited(127)), nothing, "it is not installed");
    assert_eq!(notices(Origin::User, "vi /etc/hosts", Outcome::ok("")), nothing);
    assert_eq!(notices(Origin::User, "sleep 60", late()), nothing);
    assert_eq!(notices(Origin::Routine, "vi /etc/hosts", late()), nothing, "nobody can open it");
}
