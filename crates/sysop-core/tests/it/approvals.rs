//! Approvals that expire, that several people must give, and that bounds of the mode `auto` end.

use serde_json::json;
use sysop_core::approval::ApprovalTerms;
use sysop_core::event::{ConfigChange, Decision, Effect, Event, Input, Logged, Origin};
use sysop_core::hook::{HookAnswer, HookQuestion};
use sysop_core::id::{CallId, Seq, Timestamp};
use sysop_core::message::{ModelRef, ToolCall};
use sysop_core::outcome::{NO_TERMINAL, Outcome, Status};
use sysop_core::policy::{ApprovalMode, CommandPattern, PolicyOptions, Rule, RuleAction};
use sysop_core::session::Activity;
use sysop_core::spec::SessionSpec;
use sysop_core::transcript::{ItemBody, Transcript};

use crate::world::{World, bash, call, calls, spec};

fn with(approve: ApprovalMode, policy: PolicyOptions) -> World {
    World::new(SessionSpec { policy, ..spec(approve) })
}

fn two_people() -> World {
    with(ApprovalMode::Ask, PolicyOptions { approvals: 2, ..PolicyOptions::default() })
}

fn hooked(approve: ApprovalMode) -> World {
    with(approve, PolicyOptions { hooks: true, ..PolicyOptions::default() })
}

fn decide(world: &mut World, decision: Decision, by: &str, person: Option<&str>) {
    let call = world.waiting().expect("a call waits");
    world.tell(Input::Decision { call, decision, by: by.to_owned(), person: person.map(str::to_owned) });
}

fn allow(world: &mut World, by: &str, person: Option<&str>) {
    decide(world, Decision::Allow { command: None }, by, person);
}

fn notices(world: &World) -> Vec<String> {
    let notice = |effect: &Effect| match effect {
        Effect::Notify { text } => Some(text.clone()),
        _ => None,
    };
    world.last.effects.iter().filter_map(notice).collect()
}

/// Returns what a transcript says about the changes of the configuration since the last input.
fn ended(world: &World) -> Vec<String> {
    let logged =
        |(event, seq): (&Event, u64)| Logged { seq: Seq(seq), at: Timestamp(0), event: event.clone() };
    let mut transcript = Transcript::of(world.session.spec());
    let changes = world.last.events.iter().filter(|event| matches!(event, Event::Configured { .. }));
    changes.zip(1..).map(logged).for_each(|logged| transcript.apply_logged(&logged));
    let said = transcript.items().filter_map(|item| match &item.body {
        ItemBody::Notice(notice) => Some(notice.text.clone()),
        _ => None,
    });
    said.collect()
}

/// Answers the open question of the hooks.
fn hooks_say(world: &mut World, answer: HookAnswer) -> HookQuestion {
    let asked = world.last.effects.iter().find_map(|effect| match effect {
        Effect::AskHooks { question, attempt } => Some((question.as_ref().clone(), *attempt)),
        _ => None,
    });
    let (question, attempt) = asked.expect("the hooks are asked");
    world.tell(Input::HooksAnswered { call: question.call.id.clone(), attempt, answer });
    question
}

fn rejection(world: &World) -> String {
    let outcome = world.log.iter().rev().find_map(|event| match event {
        Event::ToolFinished { outcome, .. } => Some(outcome.clone()),
        _ => None,
    });
    let outcome = outcome.expect("a call ended");
    assert_eq!(outcome.status, Status::Rejected);
    outcome.output
}

#[test]
fn a_rejection_by_sysop_ends_the_turn_and_says_why() {
    let mut world = World::each();
    world.prompt("go").reply(calls(vec![bash("1", "make")]));
    decide(&mut world, Decision::Reject { reason: NO_TERMINAL.to_owned() }, Decision::BY_SYSOP, None);
    assert_eq!(rejection(&world), "not run: there is no terminal to ask on");
    assert!(world.lines().ends_with("turn 1 ended cancelled"), "{}", world.lines());
}

#[test]
fn an_approval_that_nobody_answers_is_rejected_when_it_expires() {
    let mut world =
        with(ApprovalMode::Ask, PolicyOptions { approval_expires_s: 3600, ..PolicyOptions::default() });
    world.tell_at(100, Input::prompt("go"));
    world.reply(calls(vec![bash("1", "touch a")]));
    let expires = Some(Timestamp(3_700_000));
    assert!(world.last.events.iter().any(
        |event| matches!(event, Event::ApprovalAsked { terms, .. } if *terms == ApprovalTerms { expires, people: 1 })
    ));
    world.tell_at(3_699, Input::ApprovalTimer { call: CallId::new("1") });
    assert!(world.last.events.is_empty(), "too early");
    assert!(matches!(world.last.effects[..], [Effect::SetApprovalTimer { .. }]));
    world.tell_at(3_700, Input::ApprovalTimer { call: CallId::new("2") });
    assert_eq!(world.session.activity(), Activity::AwaitingApproval, "the timer of another call");
    world.tell_at(3_700, Input::ApprovalTimer { call: CallId::new("1") });
    assert!(world.last.events.iter().any(
        |event| matches!(event, Event::Decided { by, decision: Decision::Reject { .. }, .. } if by == "sysop")
    ));
    assert_eq!(
        rejection(&world),
        "not run: nobody allowed it within 1h; call it again if it is still needed"
    );
    assert!(world.ran.is_empty());
}

#[test]
fn an_approval_that_expired_while_the_process_was_gone_is_rejected_at_its_return() {
    let mut world =
        with(ApprovalMode::Ask, PolicyOptions { approval_expires_s: 60, ..PolicyOptions::default() });
    world.prompt("go").reply(calls(vec![bash("1", "touch a")]));
    world.tell_at(30, Input::Pause).crash();
    assert!(matches!(world.last.effects[..], [Effect::SetApprovalTimer { .. }]), "the rest of its time");
    world.tell_at(90, Input::Resume).crash();
    assert!(rejection(&world).contains("nobody allowed it within 60s"));
}

#[test]
fn an_answer_before_the_expiry_counts_and_the_late_timer_changes_nothing() {
    let mut world =
        with(ApprovalMode::Ask, PolicyOptions { approval_expires_s: 60, ..PolicyOptions::default() });
    world.prompt("go").reply(calls(vec![bash("1", "touch a")])).allow();
    world.tell_at(90, Input::ApprovalTimer { call: CallId::new("1") });
    assert!(world.last.events.is_empty() && world.running.is_some());
}

#[test]
fn an_answer_after_the_expiry_never_allows_a_call() {
    for people in [1, 2] {
        let policy = PolicyOptions { approval_expires_s: 60, approvals: people, ..PolicyOptions::default() };
        let mut world = with(ApprovalMode::Ask, policy);
        world.prompt("go").reply(calls(vec![bash("1", "touch a")]));
        if people == 2 {
            allow(&mut world, "laptop", Some("ada"));
        }
        let (call, decision) = (CallId::new("1"), Decision::Allow { command: None });
        world.tell_at(60, Input::Decision { call, decision, by: "late".to_owned(), person: None });
        assert!(world.running.is_none() && world.ran.is_empty(), "the timer has not fired yet");
        assert!(rejection(&world).contains("nobody allowed it within 60s"));
        let decided = |event: &Event| matches!(event, Event::Decided { by, .. } if by == "late");
        assert!(!world.log.iter().any(decided));
    }
}

#[test]
fn two_different_people_must_allow_a_call() {
    let mut world = two_people();
    world.prompt("go").reply(calls(vec![bash("1", "systemctl restart nginx")]));
    allow(&mut world, "laptop", Some("ada"));
    assert!(matches!(&world.last.events[..], [Event::ApprovalGiven { needed: 2, by, .. }] if by == "laptop"));
    allow(&mut world, "phone", Some("ada"));
    assert_eq!(notices(&world), ["phone has already allowed this; another person must allow it, too"]);
    assert!(world.running.is_none() && world.session.approvers() == ["laptop"]);
    world.crash();
    allow(&mut world, "phone", Some("ada"));
    assert!(world.running.is_none(), "the first consent survives a crash");
    allow(&mut world, "pager", Some("bob"));
    assert!(
        world.last.events.iter().any(|event| matches!(event, Event::Decided { by, .. } if by == "pager"))
    );
    assert!(world.running.is_some());
}

#[test]
fn one_of_two_people_may_reject_a_call() {
    let mut world = two_people();
    world.prompt("go").reply(calls(vec![bash("1", "systemctl restart nginx")]));
    allow(&mut world, "ada", None);
    decide(&mut world, Decision::Reject { reason: "not today".to_owned() }, "ada", None);
    assert!(rejection(&world).contains("not today"));
}

#[test]
fn a_call_that_two_people_must_allow_is_neither_edited_nor_granted() {
    let mut world = two_people();
    world.prompt("go").reply(calls(vec![bash("1", "systemctl restart nginx")]));
    for decision in [
        Decision::Allow { command: Some("true".to_owned()) },
        Decision::AllowSession { command: None },
        Decision::AllowSession { command: Some("true".to_owned()) },
    ] {
        decide(&mut world, decision, "ada", None);
        assert!(world.last.events.is_empty() && notices(&world).len() == 1);
    }
}

#[test]
fn a_refused_grant_leaves_the_approval_open_and_says_so() {
    for (proposed, edited) in [("rm -rf /srv/x", None), ("touch a", Some("touch a && rm -rf /tmp/z"))] {
        let mut world = World::new(spec(ApprovalMode::Ask));
        world.prompt("go").reply(calls(vec![bash("1", proposed)]));
        decide(&mut world, Decision::AllowSession { command: edited.map(str::to_owned) }, "ada", None);
        assert!(world.last.events.is_empty() && world.running.is_none());
        let said = notices(&world);
        assert_eq!(said, ["this kind of command can only be allowed once; it still waits for an answer"]);
        assert_eq!(world.waiting(), Some(CallId::new("1")));
        decide(&mut world, Decision::Allow { command: edited.map(str::to_owned) }, "ada", None);
        assert!(world.running.is_some());
    }
}

#[test]
fn no_mode_and_no_typing_of_one_person_runs_a_change_that_two_people_must_allow() {
    let mut world = two_people();
    world.tell(Input::Configure { change: ConfigChange::Approve(ApprovalMode::Auto) });
    world.prompt("go").reply(calls(vec![bash("1", "ls"), bash("2", "touch a")]));
    assert_eq!(world.running.as_ref().map(|call| call.id.as_str()), Some("1"), "reads run");
    world.outcome(Outcome::ok("a"));
    assert_eq!(world.waiting(), Some(CallId::new("2")));
    world.tell(Input::Cancel);
    world.direct("bash", "touch a", Origin::User);
    allow(&mut world, "ada", None);
    assert!(world.running.is_none());
    allow(&mut world, "bob", None);
    assert!(world.running.is_some());
}

#[test]
fn auto_with_bounds_ends_in_ask_after_its_commands() {
    let mut world = World::new(spec(ApprovalMode::Ask));
    world.tell(Input::Configure { change: ConfigChange::Auto("2 commands".parse().unwrap()) });
    world.prompt("go").reply(calls(vec![bash("1", "touch a"), bash("2", "touch b"), bash("3", "touch c")]));
    world.outcome(Outcome::ok("a"));
    assert_eq!(world.session.spec().approve, ApprovalMode::Ask);
    assert_eq!(ended(&world), ["auto ended after 2 commands; the mode is `ask` again"]);
    assert_eq!(notices(&world), [""; 0], "the log says it once");
    world.outcome(Outcome::ok("b"));
    assert_eq!(world.waiting(), Some(CallId::new("3")));
    assert_eq!(world.session.auto_progress(), None);
}

#[test]
fn auto_with_a_time_ends_by_itself_and_after_a_crash() {
    let auto = |text: &str| Input::Configure { change: ConfigChange::Auto(text.parse().unwrap()) };
    let mut world = World::new(spec(ApprovalMode::Ask));
    world.tell_at(10, auto("30m"));
    let turn = world.last.effects.iter().find_map(|effect| match effect {
        Effect::SetTurnTimer { turn, .. } => Some(*turn),
        _ => None,
    });
    let turn = turn.expect("a timer is set");
    world.tell_at(1_809, Input::TurnTimer { turn });
    assert_eq!(world.session.spec().approve, ApprovalMode::Auto);
    world.crash();
    assert!(matches!(world.last.effects[..], [Effect::SetTurnTimer { .. }]));
    world.tell_at(1_810, Input::TurnTimer { turn });
    assert_eq!(world.session.spec().approve, ApprovalMode::Ask);
}

#[test]
fn auto_is_refused_where_its_bounds_cannot_be_observed() {
    let auto = |text: &str| Input::Configure { change: ConfigChange::Auto(text.parse().unwrap()) };
    let policy = PolicyOptions { tags: vec!["lab".into()], ..PolicyOptions::default() };
    let model = ModelRef::new("openai", "of-unknown-price");
    let mut world = World::new(SessionSpec { policy, model, ..spec(ApprovalMode::Ask) });
    for (text, why) in [
        ("@prod", "which is not in these bounds"),
        ("banana", "`banana` is not a host of this session"),
        ("$1", "the price of openai/of-unknown-price is unknown"),
    ] {
        world.tell(auto(text));
        assert!(world.last.events.is_empty() && notices(&world)[0].contains(why), "{:?}", notices(&world));
    }
    world.tell(auto("5 commands, @lab"));
    assert_eq!(world.session.spec().approve, ApprovalMode::Auto);
    world.tell(Input::Configure { change: ConfigChange::Approve(ApprovalMode::Auto) });
    assert_eq!(world.session.auto_progress(), None, "without bounds from now on");
}

#[test]
fn a_dangerous_call_asks_within_bounds_too() {
    let mut world = World::new(spec(ApprovalMode::Ask));
    world.tell(Input::Configure { change: ConfigChange::Auto("5 commands".parse().unwrap()) });
    world.prompt("go").reply(calls(vec![bash("1", "mkfs.ext4 /dev/sda1")]));
    assert_eq!(world.waiting(), Some(CallId::new("1")));
}

#[test]
fn a_hook_denies_a_call_with_its_reason() {
    let mut world = hooked(ApprovalMode::Auto);
    world.prompt("go").reply(calls(vec![bash("1", "touch a")]));
    assert!(world.running.is_none(), "nothing runs before the hook has answered");
    let question = hooks_say(&mut world, HookAnswer::Deny { reason: "no ticket".to_owned() });
    assert_eq!((question.command.as_str(), question.mode), ("touch a", ApprovalMode::Auto));
    assert_eq!(rejection(&world), "denied by a hook: no ticket; nothing ran");
    assert!(world.ran.is_empty());
}

#[test]
fn a_hook_may_ask_and_never_allows() {
    let mut world = hooked(ApprovalMode::Auto);
    world.prompt("go").reply(calls(vec![bash("1", "touch a")]));
    hooks_say(&mut world, HookAnswer::Ask { reason: "freeze".to_owned() });
    assert!(world.last.events.iter().any(|event| matches!(event, Event::ApprovalAsked { risk, .. }
        if risk.findings.iter().any(|finding| finding.why == "a hook asks: freeze"))));
    world.allow();
    hooks_say(&mut world, HookAnswer::Ask { reason: "freeze until 14:01".to_owned() });
    assert!(world.running.is_some(), "a user has allowed it");
    world.outcome(Outcome::ok(""));
    world.reply(calls(vec![bash("2", "mkfs /dev/sda")]));
    hooks_say(&mut world, HookAnswer::Pass);
    assert_eq!(world.waiting(), Some(CallId::new("2")), "an answer without objection allows nothing");
}

#[test]
fn hooks_see_what_a_user_edited_or_typed() {
    let mut world = hooked(ApprovalMode::Ask);
    world.prompt("go").reply(calls(vec![bash("1", "touch a")]));
    hooks_say(&mut world, HookAnswer::Pass);
    world.decide(Decision::Allow { command: Some("touch b".to_owned()) });
    let question = hooks_say(&mut world, HookAnswer::Deny { reason: "b is mine".to_owned() });
    assert_eq!(question.command, "touch b");
    world.tell(Input::Cancel);
    world.direct("bash", "touch c", Origin::User);
    let question = hooks_say(&mut world, HookAnswer::Deny { reason: "c too".to_owned() });
    assert_eq!((question.command.as_str(), question.origin), ("touch c", Origin::User));
    assert!(world.ran.is_empty());
}

#[test]
fn an_answer_of_hooks_that_comes_too_late_changes_nothing() {
    let mut world = hooked(ApprovalMode::Auto);
    world.prompt("go").reply(calls(vec![bash("1", "touch a")]));
    world.tell(Input::Cancel);
    world.tell(Input::HooksAnswered { call: CallId::new("1"), attempt: 1, answer: HookAnswer::Pass });
    assert!(world.last.events.is_empty() && world.ran.is_empty());
    world.prompt("again").reply(calls(vec![bash("2", "touch a")]));
    world.crash();
    assert!(world.ran.is_empty(), "the hooks are asked again");
    world.tell(Input::Resume);
    hooks_say(&mut world, HookAnswer::Pass);
    assert_eq!(world.ran.len(), 1);
}

fn with_prompt_hooks(approve: ApprovalMode) -> World {
    with(approve, PolicyOptions { prompt_hooks: true, ..PolicyOptions::default() })
}

/// Answers the open question of the hooks about a prompt. Returns the prompt.
fn hooks_say_of_prompt(world: &mut World, answer: HookAnswer) -> String {
    let asked = world.last.effects.iter().find_map(|effect| match effect {
        Effect::AskPromptHooks { turn, prompt } => Some((*turn, prompt.clone())),
        _ => None,
    });
    let (turn, prompt) = asked.expect("the hooks are asked");
    world.tell(Input::PromptHooksAnswered { turn, answer });
    prompt
}

fn asks_a_model(world: &World) -> Option<String> {
    world.last.effects.iter().find_map(|effect| match effect {
        Effect::CallModel { request, .. } => Some(format!("{:?}", request.messages)),
        _ => None,
    })
}

#[test]
fn a_prompt_that_a_hook_denies_reaches_no_model_even_later() {
    let mut world = with_prompt_hooks(ApprovalMode::Auto);
    world.prompt("the password is hunter2");
    assert_eq!((asks_a_model(&world), world.session.activity()), (None, Activity::Thinking));
    let prompt = hooks_say_of_prompt(&mut world, HookAnswer::Deny { reason: "it has a password".to_owned() });
    assert_eq!(prompt, "the password is hunter2");
    let ended = world.log.last();
    assert!(
        matches!(ended, Some(Event::TurnEnded { error: Some(error), .. })
            if error == "a hook denied the prompt: it has a password; no model received the prompt"),
        "{ended:?}"
    );
    assert_eq!((asks_a_model(&world), world.session.activity()), (None, Activity::Idle));
    world.prompt("and now?");
    hooks_say_of_prompt(&mut world, HookAnswer::Pass);
    let request = asks_a_model(&world).expect("a model is asked");
    assert!(request.contains("and now?") && !request.contains("hunter2"), "{request}");
    assert!(request.contains("withheld"), "{request}");
}

#[test]
fn a_hook_that_asks_about_a_prompt_makes_each_call_of_the_turn_ask() {
    let mut world = with_prompt_hooks(ApprovalMode::Auto);
    world.prompt("go");
    hooks_say_of_prompt(&mut world, HookAnswer::Ask { reason: "night shift".to_owned() });
    world.reply(calls(vec![bash("1", "touch a")]));
    assert_eq!(world.session.activity(), Activity::AwaitingApproval);
    let asked = world.log.iter().rev().find_map(|event| match event {
        Event::ApprovalAsked { risk, .. } => Some(risk.findings.clone()),
        _ => None,
    });
    assert!(asked.expect("it asks").iter().any(|finding| finding.why == "a hook asks: night shift"));
    world.allow().outcome(Outcome::ok(""));
    // The turn continues after a crash, and the hooks are asked again.
    world.crash();
    world.tell(Input::Resume);
    hooks_say_of_prompt(&mut world, HookAnswer::Pass);
    world.reply(calls(vec![bash("2", "touch b")]));
    assert_eq!(world.ran.len(), 2);
}

#[test]
fn a_turn_that_is_stopped_during_the_hooks_of_its_prompt_starts_nothing() {
    let mut world = with_prompt_hooks(ApprovalMode::Auto);
    world.prompt("go");
    let turn = world.last.effects.iter().find_map(|effect| match effect {
        Effect::AskPromptHooks { turn, .. } => Some(*turn),
        _ => None,
    });
    world.tell(Input::Cancel);
    assert_eq!(world.session.activity(), Activity::Idle);
    let turn = turn.expect("the hooks are asked");
    world.tell(Input::PromptHooksAnswered { turn, answer: HookAnswer::Pass });
    assert!(world.last.events.is_empty() && asks_a_model(&world).is_none());
    world.direct("bash", "true", Origin::User);
    assert_eq!(world.ran.len(), 1, "typed commands have no prompt to check");
}

#[test]
fn a_typed_call_during_a_turn_is_refused_with_a_reason() {
    let mut world = with(ApprovalMode::Each, PolicyOptions::default());
    let direct = |world: &mut World| {
        let before = world.log.len();
        world.direct("bash", "uptime", Origin::User);
        assert_eq!(world.log.len(), before, "nothing happens");
        notices(world)
    };
    world.prompt("go");
    assert_eq!(direct(&mut world), ["not run: a turn is running; wait for it, or stop it"]);
    world.reply(calls(vec![bash("c", "make")]));
    assert_eq!(direct(&mut world), ["not run: a proposal is waiting; answer it first"]);
}

#[test]
fn a_read_only_session_names_the_rule_that_denies_a_change_on_its_host() {
    let denies = |pattern: &str, host: &str| {
        let pattern = CommandPattern {
            program: "touch".to_owned(),
            host: Some(pattern.to_owned()),
            ..CommandPattern::default()
        };
        let rule = Rule { action: RuleAction::Deny, pattern, origin: "rules.toml:1".to_owned() };
        let policy = PolicyOptions { rules: vec![rule], ..PolicyOptions::default() };
        let mut world =
            World::new(SessionSpec { policy, host: host.to_owned(), ..spec(ApprovalMode::Never) });
        world.prompt("go").reply(calls(vec![bash("1", "touch a")]));
        let outcome = world.log.iter().find_map(|event| match event {
            Event::ToolFinished { outcome, .. } => Some(outcome.output.clone()),
            _ => None,
        });
        outcome.expect("the call is denied").contains("rules.toml:1")
    };
    for (pattern, host, named) in [
        ("web1", "web1", true),
        ("web1", "db1, web1", true),
        ("local", "local", true),
        ("local", "web1", false),
        ("web1", "local", false),
    ] {
        assert_eq!(denies(pattern, host), named, "{pattern} on {host}");
    }
}

/// The survey of a host that does not answer takes many seconds.
#[test]
fn a_read_only_session_denies_a_change_before_its_host_is_asked() {
    let surveys = |call: ToolCall| {
        let mut world = World::new(spec(ApprovalMode::Never));
        world.survey.unreachable = Some("web1 did not answer".to_owned());
        world.prompt("go").reply(calls(vec![call]));
        let is_survey = |effect: &&Effect| matches!(effect, Effect::Survey { .. });
        let outcome = world.log.iter().find_map(|event| match event {
            Event::ToolFinished { outcome, .. } => Some(outcome.clone()),
            _ => None,
        });
        (world.last.effects.iter().filter(is_survey).count(), outcome.expect("the call has ended").status)
    };
    for change in
        ["touch a", "./check.sh", "ls; rm -rf /etc", "mkfs /dev/sda", "reboot", "forbidden; touch a"]
    {
        assert_eq!(surveys(bash("1", change)), (0, Status::Rejected), "{change}");
    }
    assert_eq!(surveys(call("1", "write_file", json!({"path": "a"}))), (0, Status::Rejected));
    for unclear in ["ls", "eval \"$x\""] {
        assert_eq!(surveys(bash("1", unclear)), (1, Status::Failed), "the host is asked: {unclear}");
    }
}
