//! Effect previews of calls that wait for approval.

use serde_json::json;
use sysop_core::event::{ConfigChange, Decision, Effect, Event, Input};
use sysop_core::id::CallId;
use sysop_core::outcome::Status;
use sysop_core::policy::{
    Access, ApprovalMode, CommandContext, Resolution, ResolvedFile, ResolvedTarget, RiskClass, Survey, Target,
};
use sysop_core::session::Activity;
use sysop_core::tool::ToolEffect;

use crate::world::{World, bash, call, calls, spec, survey, tool};

/// Lets the model propose a command whose survey the host answered.
fn proposed(mode: ApprovalMode, command: &str) -> World {
    let mut world = World::new(spec(mode));
    world.survey = host_survey();
    world.prompt("tidy up").reply(calls(vec![bash("a", command)]));
    world
}

fn probe(world: &World) -> u32 {
    let attempt = world.last.effects.iter().find_map(|effect| match effect {
        Effect::Preview { attempt, .. } => Some(*attempt),
        _ => None,
    });
    attempt.expect("a probe starts")
}

fn preview(world: &World) -> Option<&Vec<String>> {
    world.log.iter().rev().find_map(|event| match event {
        Event::ApprovalAsked { preview, .. } | Event::ApprovalPreviewed { preview, .. } => Some(preview),
        _ => None,
    })
}

fn lines(text: &str) -> Vec<String> {
    vec![text.to_owned()]
}

#[test]
fn an_approval_comes_with_its_preview() {
    let mut world = proposed(ApprovalMode::Each, "rm -rf build");
    let attempt = probe(&world);
    assert_eq!(preview(&world), None, "the approval waits for the preview");
    assert_eq!(world.session.activity(), Activity::Running);
    world.tell(Input::Previewed { attempt, lines: lines("removes 3 files") });
    assert_eq!(preview(&world), Some(&lines("removes 3 files")));
    assert_eq!(world.session.activity(), Activity::AwaitingApproval);
}

#[test]
fn a_slow_preview_follows_its_approval() {
    let mut world = proposed(ApprovalMode::Each, "rm -rf build");
    let attempt = probe(&world);
    world.tell(Input::PreviewLate { attempt });
    assert_eq!(preview(&world), Some(&lines("effect: still checking")), "the user can answer");
    world.tell(Input::Previewed { attempt, lines: lines("removes 3 files") });
    assert_eq!(preview(&world), Some(&lines("removes 3 files")));
    world.tell(Input::Recovered);
    assert_eq!(preview(&world), Some(&lines("removes 3 files")));
}

#[test]
fn a_preview_that_was_lost_at_an_exit_is_no_longer_awaited() {
    let mut world = proposed(ApprovalMode::Each, "rm -rf build");
    let attempt = probe(&world);
    world.tell(Input::PreviewLate { attempt });
    world.tell(Input::Recovered);
    assert_eq!(preview(&world), Some(&lines("effect unknown (the session was reopened)")));
    let before = world.log.len();
    world.tell(Input::Recovered);
    assert_eq!(world.log.len(), before);
}

#[test]
fn an_answer_stops_the_probe() {
    let mut world = proposed(ApprovalMode::Each, "rm -rf build");
    let attempt = probe(&world);
    world.tell(Input::PreviewLate { attempt });
    world.allow();
    let stops = world.last.effects.iter().any(|effect| *effect == Effect::CancelPreview { attempt });
    assert!(stops, "{:?}", world.last.effects);
    let before = world.log.len();
    world.tell(Input::Previewed { attempt, lines: lines("late") });
    assert_eq!(world.log.len(), before, "a late preview is ignored");
}

#[test]
fn a_stopped_turn_stops_the_probe() {
    let mut world = proposed(ApprovalMode::Each, "rm -rf build");
    let attempt = probe(&world);
    world.tell(Input::Cancel);
    assert!(world.last.effects.contains(&Effect::CancelPreview { attempt }));
    assert_eq!(world.session.activity(), Activity::Idle);
    world.tell(Input::Previewed { attempt, lines: lines("late") });
    assert_eq!(preview(&world), None);
}

#[test]
fn an_edited_command_gets_a_preview_of_its_own() {
    let mut world = proposed(ApprovalMode::Each, "rm -rf build");
    let first = probe(&world);
    world.tell(Input::Previewed { attempt: first, lines: lines("removes 3 files") });
    let call = CallId::new("a");
    world.tell(Input::PreviewCommand { call: call.clone(), command: "rm -rf build/tmp".to_owned() });
    let second = probe(&world);
    world.tell(Input::PreviewCommand { call, command: "rm -rf build/old".to_owned() });
    assert!(
        world.last.effects.contains(&Effect::CancelPreview { attempt: second }),
        "only the newest edit counts"
    );
    let third = probe(&world);
    world.tell(Input::Previewed { attempt: second, lines: lines("stale") });
    world.tell(Input::Previewed { attempt: third, lines: lines("removes 1 file") });
    let newest = world.log.last().expect("an event");
    let expected = matches!(newest, Event::ApprovalPreviewed { command: Some(command), preview, .. }
        if command == "rm -rf build/old" && *preview == lines("removes 1 file"));
    assert!(expected, "{newest:?}");
}

#[test]
fn a_preview_never_lowers_a_risk_or_skips_an_approval() {
    let mut world = proposed(ApprovalMode::Auto, "rm -rf /etc/ssh");
    let attempt = probe(&world);
    world.tell(Input::Previewed { attempt, lines: lines("nothing to remove") });
    let asked = world.log.iter().find_map(|event| match event {
        Event::ApprovalAsked { risk, .. } => Some(risk.class),
        _ => None,
    });
    assert!(asked.is_some_and(|class| class >= RiskClass::Dangerous), "{asked:?}");
}

#[test]
fn a_new_mode_is_applied_before_the_approval_is_asked_for() {
    let mut world = proposed(ApprovalMode::Each, "rm -rf build");
    let attempt = probe(&world);
    world.tell(Input::Configure { change: ConfigChange::Approve(ApprovalMode::Never) });
    assert!(world.last.effects.contains(&Effect::CancelPreview { attempt }));
    assert_eq!(preview(&world), None, "the call is denied, and nobody is asked");
    let denied = world.log.iter().any(|event| matches!(event, Event::ToolFinished { .. }));
    assert!(denied, "the call is over");
}

#[test]
fn a_command_without_a_row_in_the_table_asks_at_once() {
    let world = proposed(ApprovalMode::Each, "frobnicate --all");
    assert_eq!(preview(&world), Some(&Vec::new()));
}

/// Lets the model propose an edit of a file below `/srv`, which would fail, according to the host.
fn failing_edit(mode: ApprovalMode, path: &str) -> World {
    let mut spec = spec(mode);
    spec.tools.push(tool("edit_file", ToolEffect::Writes, "path"));
    let mut world = World::new(spec);
    let target =
        Target { word: path.to_owned(), glob: false, folder: Some("/srv".to_owned()), access: Access::Write };
    let files = vec![ResolvedFile { path: format!("/srv/{path}"), ..ResolvedFile::default() }];
    let targets = vec![ResolvedTarget { target, files }];
    let certain_failure = Some("old_string was not found".to_owned());
    world.survey = Survey { targets, certain_failure, ..host_survey() };
    world.prompt("tidy up").reply(calls(vec![call("a", "edit_file", json!({ "path": path }))]));
    world
}

fn finished(world: &World) -> Option<(Status, String)> {
    world.log.iter().find_map(|event| match event {
        Event::ToolFinished { outcome, .. } => Some((outcome.status, outcome.output.clone())),
        _ => None,
    })
}

#[test]
fn nobody_is_asked_about_an_edit_that_cannot_apply() {
    let world = failing_edit(ApprovalMode::Each, "a.conf");
    assert_eq!(preview(&world), None, "no approval is asked for");
    assert_eq!(finished(&world), Some((Status::Failed, "old_string was not found".to_owned())));
    assert!(world.ran.is_empty());
    let (_, request) = world.asked.expect("the model is told, and may correct the edit");
    let told = format!("{:?}", request.messages);
    assert!(told.contains("old_string was not found"), "{told}");
}

#[test]
fn a_failure_that_would_tell_about_a_secret_file_needs_approval() {
    let world = failing_edit(ApprovalMode::Each, ".ssh/id_ed25519");
    assert_eq!(preview(&world), Some(&Vec::new()), "{:?}", world.log);
    assert_eq!(finished(&world), None);
}

#[test]
fn a_read_only_session_denies_an_edit_even_if_it_cannot_apply() {
    let world = failing_edit(ApprovalMode::Never, "a.conf");
    assert!(finished(&world).is_some_and(|(status, _)| status == Status::Rejected));
}

#[test]
fn an_approved_edit_runs_even_if_it_cannot_apply_any_more() {
    let mut world = failing_edit(ApprovalMode::Each, ".ssh/id_ed25519");
    world.allow();
    assert_eq!(world.ran.len(), 1, "the tool says why it fails");
}

#[test]
fn an_edit_after_a_restart_still_names_the_hosts_that_cannot_be_reached() {
    let mut world = World::new(spec(ApprovalMode::Each));
    world.survey = Survey { unreached: vec!["dead1: connection refused".to_owned()], ..host_survey() };
    world.prompt("tidy up").reply(calls(vec![bash("a", "rm -rf build")]));
    let attempt = probe(&world);
    world.tell(Input::Previewed { attempt, lines: Vec::new() });
    world.crash();
    world.tell(Input::PreviewCommand { call: CallId::new("a"), command: "rm -rf dist".to_owned() });
    let Some(Event::ApprovalPreviewed { risk: Some(risk), .. }) = world.log.last() else {
        panic!("{:?}", world.log.last())
    };
    let whys: Vec<_> = risk.findings.iter().map(|finding| finding.why.as_str()).collect();
    assert!(whys.contains(&"dead1: connection refused; nothing will run there"), "{whys:?}");
}

#[test]
fn a_proposal_names_the_hosts_that_cannot_be_reached_and_keeps_its_risk() {
    let risk = |unreached: &[&str], edit: Option<&str>| {
        let mut world = World::new(spec(ApprovalMode::Each));
        world.survey =
            Survey { unreached: unreached.iter().map(|&line| line.to_owned()).collect(), ..host_survey() };
        world.prompt("tidy up").reply(calls(vec![bash("a", "rm -rf build")]));
        let attempt = probe(&world);
        world.tell(Input::Previewed { attempt, lines: Vec::new() });
        if let Some(command) = edit {
            world.tell(Input::PreviewCommand { call: CallId::new("a"), command: command.to_owned() });
            let attempt = probe(&world);
            world.tell(Input::Previewed { attempt, lines: Vec::new() });
        }
        let risk = world.log.iter().rev().find_map(|event| match event {
            Event::ApprovalAsked { risk, .. } | Event::ApprovalPreviewed { risk: Some(risk), .. } => {
                Some(risk.clone())
            }
            _ => None,
        });
        risk.expect("a proposal")
    };
    let dead = ["dead1: connection refused", "cannot reach db: no route"];
    for edit in [None, Some("rm -rf dist")] {
        let (reached, missed) = (risk(&[], edit), risk(&dead, edit));
        assert_eq!(missed.class, reached.class);
        let whys: Vec<_> =
            missed.findings[reached.findings.len()..].iter().map(|it| it.why.as_str()).collect();
        let told = dead.map(|line| format!("{line}; nothing will run there"));
        assert_eq!(whys, told, "{edit:?}");
        assert!(missed.findings.iter().skip(reached.findings.len()).all(|it| it.is_unreached()));
    }
}

#[test]
fn a_host_that_is_back_after_the_approval_is_asked_about() {
    for edited in [None, Some("touch b".to_owned())] {
        let missing = |unreached: &[&str]| Survey {
            unreached: unreached.iter().map(|&line| line.to_owned()).collect(),
            ..survey()
        };
        let asked = || {
            let mut world = World::new(spec(ApprovalMode::Each));
            world.survey = missing(&["dead1: connection refused"]);
            world.prompt("go").reply(calls(vec![bash("a", "touch a")]));
            world
        };
        let allow = || Decision::Allow { command: edited.clone() };
        let mut world = asked();
        world.decide(allow());
        assert_eq!(world.ran.len(), 1, "the host is still away");
        let mut world = asked();
        world.survey = missing(&["dead1: connection refused", "dead2: no route"]);
        world.decide(allow());
        assert_eq!(world.ran.len(), 1, "the command runs on fewer hosts");
        let mut world = asked();
        world.survey = missing(&[]);
        world.decide(allow());
        assert!(world.ran.is_empty() && world.waiting().is_some(), "{edited:?}");
        world.allow();
        assert_eq!(world.ran.len(), 1);
    }
}

/// Survey of a host that resolves targets itself.
fn host_survey() -> Survey {
    let folder = Some("/srv".to_owned());
    let context = CommandContext { folder: folder.clone(), root: folder, ..CommandContext::bash() };
    Survey { context, resolution: Resolution::Host, ..Survey::default() }
}
