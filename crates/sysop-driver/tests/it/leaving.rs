//! Selectors of new sessions for a user who leaves a session.

use sysop_core::event::{ConfigChange, Event, Logged};
use sysop_core::id::{Seq, SessionId, Timestamp, TurnId};
use sysop_core::message::ModelRef;
use sysop_core::policy::ApprovalMode;
use sysop_core::transcript::Transcript;
use sysop_driver::frontend::SessionSelector;

use super::world::spec;

fn approve(selector: SessionSelector) -> Option<ApprovalMode> {
    match selector {
        SessionSelector::NewAfter(previous) => Some(previous.approve),
        SessionSelector::NewOnHost { approve, .. } | SessionSelector::Fork { approve, .. } => approve,
        SessionSelector::New | SessionSelector::Existing(_) => None,
    }
}

#[test]
fn a_new_session_does_not_get_auto_without_the_bounds_that_it_had() {
    let mut left = Transcript::new();
    let mut seq = Seq(0);
    let mut apply = |event| {
        seq = seq.next();
        left.apply_logged(&Logged { seq, at: Timestamp(0), event });
        let id = SessionId::new("s1");
        [
            SessionSelector::new_after(&left),
            SessionSelector::on_host_after("web1".to_owned(), &left),
            SessionSelector::fork_of(id, TurnId(1), &left),
        ]
        .map(approve)
    };
    let opened = Event::SessionOpened { spec: spec().into(), opened_by: None };
    assert_eq!(apply(opened), [Some(ApprovalMode::Ask); 3]);
    for (change, mode) in [
        (ConfigChange::Approve(ApprovalMode::Auto), ApprovalMode::Auto),
        (ConfigChange::Auto("20 commands".parse().unwrap()), ApprovalMode::Ask),
        (ConfigChange::Approve(ApprovalMode::Never), ApprovalMode::Never),
    ] {
        assert_eq!(apply(Event::configured(change)), [Some(mode); 3]);
    }
}

#[test]
fn a_new_session_on_another_host_gets_the_chosen_model_unless_it_runs_on_the_host_that_is_left() {
    let mut left = Transcript::new();
    let mut seq = Seq(0);
    let mut apply = |event| {
        seq = seq.next();
        left.apply_logged(&Logged { seq, at: Timestamp(0), event });
        match SessionSelector::on_host_after("web1".to_owned(), &left) {
            SessionSelector::NewOnHost { model, .. } => model,
            other => panic!("{other:?}"),
        }
    };
    apply(Event::SessionOpened { spec: spec().into(), opened_by: None });
    let chosen = ModelRef::new("openai", "chosen");
    let change = ConfigChange::Model(chosen.clone());
    assert_eq!(apply(Event::configured(change)), Some(chosen));
    let there = ConfigChange::Model(ModelRef::new("ollama+ssh", "phi3"));
    assert_eq!(apply(Event::configured(there)), None);
}
