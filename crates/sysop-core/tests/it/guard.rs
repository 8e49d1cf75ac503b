//! Guards: what a host offers is what the user sees and what runs.

use sysop_core::event::{Event, Input, Origin};
use sysop_core::guard::{ArmedGuard, GuardEnd, GuardReport, GuardTimeout};
use sysop_core::id::CallId;
use sysop_core::policy::GuardOffer;
use sysop_core::session::Activity;

use crate::world::World;

const RISKY: &str = "echo x >/etc/ssh/sshd_config";

fn offered(seconds: u32) -> GuardOffer {
    GuardOffer::Offered { seconds }
}

/// Returns the guard and the findings of the latest approval.
fn asked(world: &World) -> (Option<GuardTimeout>, Vec<String>) {
    let found = world.log.iter().rev().find_map(|event| match event {
        Event::ApprovalAsked { guarded, risk, .. } => {
            Some((*guarded, risk.findings.iter().map(|finding| finding.why.clone()).collect()))
        }
        _ => None,
    });
    found.expect("a person is asked")
}

#[test]
fn an_allowed_call_runs_under_the_guard_that_the_user_saw() {
    let mut world = World::each();
    world.guard = offered(120);
    world.direct("bash", RISKY, Origin::Routine);
    assert_eq!(asked(&world).0, Some(GuardTimeout { seconds: 120 }));
    world.allow();
    assert_eq!(world.guards, [Some(GuardTimeout { seconds: 120 })]);
}

#[test]
fn a_guard_that_is_gone_after_the_approval_is_asked_about_again() {
    let mut world = World::each();
    world.guard = offered(120);
    world.direct("bash", RISKY, Origin::Routine);
    world.guard = GuardOffer::Refused { why: "no timer".to_owned() };
    world.allow();
    assert!(world.guards.is_empty() && world.session.activity() == Activity::AwaitingApproval);
    let (guarded, findings) = asked(&world);
    assert_eq!(guarded, None);
    assert!(
        findings.iter().any(|why| why == "NOT guarded, so nothing will roll it back: no timer"),
        "{findings:?}"
    );
    world.allow();
    assert_eq!(world.guards, [None]);
}

#[test]
fn a_host_that_stops_to_answer_after_the_approval_is_named_as_not_guarded() {
    let mut world = World::each();
    world.guard = offered(120);
    world.direct("bash", RISKY, Origin::Routine);
    world.guard = GuardOffer::NotNeeded;
    world.allow();
    let (guarded, findings) = asked(&world);
    assert_eq!(guarded, None);
    let told = "NOT guarded, so nothing will roll it back: the host did not answer";
    assert!(findings.iter().any(|why| why == told), "{findings:?}");
}

#[test]
fn the_reports_of_a_host_are_logged_once() {
    let mut world = World::each();
    let call = CallId::new("a");
    let tell = |world: &mut World, report| {
        world.tell(Input::Guard { call: call.clone(), host: "web1".to_owned(), report });
    };
    let before = world.log.len();
    tell(&mut world, GuardReport::Armed { seconds: 60 });
    let armed = ArmedGuard { call: call.clone(), host: "web1".to_owned(), seconds: 60 };
    assert_eq!(world.session.guards(), [armed]);
    tell(&mut world, GuardReport::Ended { how: GuardEnd::Fired });
    tell(&mut world, GuardReport::Ended { how: GuardEnd::Confirmed });
    assert!(world.session.guards().is_empty());
    assert_eq!(world.log.len(), before + 2, "the second end is stale");
}
