//! A pause that is requested while the last step of a turn runs.

use sysop_core::event::Input;
use sysop_core::outcome::Outcome;
use sysop_core::session::Activity;

use crate::world::{World, bash, calls, says};

#[test]
fn a_pause_that_outlives_its_turn_stops_the_next_queued_prompt() {
    let mut world = World::auto();
    world.prompt("first").prompt("second").prompt("third").tell(Input::Pause);
    assert_eq!(
        world.reply(says("done")).lines(),
        "replied \"done\" []\nturn 1 ended end_turn\nturn 2 Model: second\npaused Asked"
    );
    assert_eq!(world.session.activity(), Activity::Paused);
    assert_eq!(world.tell(Input::Resume).lines(), "resumed\nstep 2.1");
    assert_eq!(
        world.reply(says("done")).lines(),
        "replied \"done\" []\nturn 2 ended end_turn\nturn 3 Model: third\nstep 3.1"
    );
}

#[test]
fn a_pause_that_outlives_the_last_turn_is_over() {
    let mut world = World::auto();
    world.prompt("first").tell(Input::Pause).reply(says("done"));
    assert_eq!(world.session.activity(), Activity::Idle);
    assert_eq!(world.prompt("second").lines(), "turn 2 Model: second\nstep 2.1");
}

#[test]
fn a_canceled_turn_pauses_nothing() {
    let mut world = World::auto();
    world.prompt("first").reply(calls(vec![bash("1", "make")])).prompt("second").tell(Input::Pause);
    world.tell(Input::Cancel).outcome(Outcome::ok("made"));
    assert_eq!(world.session.activity(), Activity::Idle);
}
