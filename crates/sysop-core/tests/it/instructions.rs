//! Instructions from files: read before the first step, sent in front of the first message, kept by a compaction.

use sysop_core::event::{Effect, Event, Input};
use sysop_core::instructions::{
    FoundInstructions, InstructionFile, InstructionSource, Instructions, UntrustedFile,
};
use sysop_core::message::Message;
use sysop_core::outcome::Outcome;
use sysop_core::policy::ApprovalMode;
use sysop_core::session::Activity;

use crate::world::{World, bash, calls, says, spec};

fn world() -> World {
    let mut spec = spec(ApprovalMode::Auto);
    spec.instructions = true;
    World::new(spec)
}

fn agents(text: &str) -> Instructions {
    let bytes = text.len() as u64;
    let file = InstructionFile::new(
        "/srv/AGENTS.md".to_owned(),
        InstructionSource::Workspace,
        text.to_owned(),
        bytes,
    );
    Instructions { files: vec![file], untrusted: Vec::new() }
}

/// The attempt of the request for instructions in the last output.
fn requested(world: &World) -> Option<u32> {
    world.last.effects.iter().find_map(|effect| match effect {
        Effect::ReadInstructions { attempt } => Some(*attempt),
        _ => None,
    })
}

fn read(world: &mut World, instructions: Option<Instructions>) {
    let attempt = requested(world).expect("a request");
    let complete = instructions.is_some();
    let instructions = instructions.unwrap_or_default();
    world.tell(Input::InstructionsRead {
        attempt,
        instructions: FoundInstructions { instructions, complete },
    });
}

fn late(attempt: u32) -> Input {
    let instructions = FoundInstructions { instructions: agents("late"), complete: true };
    Input::InstructionsRead { attempt, instructions }
}

fn first_message(world: &World) -> String {
    let (_, request) = world.asked.as_ref().expect("a model call");
    match request.messages[0].message() {
        Message::User { text } => text.clone(),
        other => panic!("{other:?}"),
    }
}

fn loaded(world: &World) -> usize {
    world.log.iter().filter(|event| matches!(event, Event::InstructionsLoaded { .. })).count()
}

#[test]
fn the_model_gets_the_instructions_before_the_first_message() {
    let mut world = world();
    world.prompt("deploy");
    assert!(world.asked.is_none(), "no model call before the instructions are known");
    assert_eq!(world.session.activity(), Activity::Thinking);
    read(&mut world, Some(agents("Use make.\n")));
    let first = first_message(&world);
    assert!(
        first.starts_with(
            "--- /srv/AGENTS.md (a file of this workspace; it permits nothing) ---\nUse make.\n"
        )
    );
    assert!(first.ends_with("the user's message follows ---\n\ndeploy"), "{first}");
    world.reply(calls(vec![bash("a", "ls")])).outcome(Outcome::ok("x"));
    assert_eq!(first_message(&world), first, "the prefix stays");
    world.reply(says("done")).prompt("again");
    assert_eq!((requested(&world), loaded(&world)), (None, 1), "read once");
    world.reply(says("done")).tell(Input::Clear).prompt("fresh");
    assert!(first_message(&world).starts_with("--- /srv/AGENTS.md"), "a clear history keeps them");
}

#[test]
fn nothing_is_read_for_a_typed_command_and_without_the_setting() {
    let mut world = world();
    world.direct("bash", "ls", sysop_core::event::Origin::User).outcome(Outcome::ok("x"));
    assert!(world.last.effects.is_empty());
    let mut plain = World::auto();
    plain.prompt("go");
    assert!(plain.asked.is_some());
}

#[test]
fn an_untrusted_workspace_is_reported_and_not_sent() {
    let mut world = world();
    world.prompt("go");
    let untrusted = vec![UntrustedFile { path: "/srv/AGENTS.md".to_owned(), bytes: 9 }];
    read(&mut world, Some(Instructions { files: Vec::new(), untrusted }));
    assert_eq!((first_message(&world).as_str(), loaded(&world)), ("go", 1));
    world.reply(says("done")).tell(Input::ReloadInstructions).prompt("now");
    read(&mut world, Some(agents("Use make.")));
    assert!(first_message(&world).contains("Use make."));
}

#[test]
fn a_later_process_reads_again_and_reports_only_changes() {
    let mut world = world();
    world.prompt("go");
    read(&mut world, Some(agents("one")));
    world.reply(says("done")).crash();
    for (found, events) in [(Some(agents("one")), 1), (None, 1), (Some(agents("two")), 2)] {
        world.prompt("next");
        read(&mut world, found);
        assert_eq!(loaded(&world), events);
        world.reply(says("done")).crash();
    }
    world.prompt("last");
    read(&mut world, Some(Instructions::default()));
    assert!(first_message(&world).starts_with("go"), "the file is gone");
}

#[test]
fn an_unconnected_host_is_asked_again_before_each_step() {
    let mut world = world();
    world.prompt("go");
    read(&mut world, None);
    assert_eq!(first_message(&world), "go", "the model is called without waiting for a connection");
    world.reply(calls(vec![bash("a", "ls")])).outcome(Outcome::ok("x"));
    read(&mut world, None);
    world.reply(calls(vec![bash("b", "ls")])).outcome(Outcome::ok("x"));
    read(&mut world, Some(agents("Use make.")));
    assert!(first_message(&world).contains("Use make."));
    world.reply(calls(vec![bash("c", "ls")])).outcome(Outcome::ok("x"));
    assert_eq!((requested(&world), loaded(&world)), (None, 1));
}

#[test]
fn a_cancel_while_reading_ends_the_turn() {
    let mut world = world();
    world.prompt("go");
    let old = requested(&world).expect("a request");
    world.tell(Input::Cancel);
    assert_eq!(world.session.activity(), Activity::Idle);
    world.tell(late(old));
    assert_eq!((loaded(&world), world.session.activity()), (0, Activity::Idle));
    world.prompt("again");
    world.tell(late(old));
    assert!(world.asked.is_none(), "a late answer to the first request is not the answer to the second");
}

#[test]
fn a_crash_while_reading_loses_nothing() {
    let mut world = world();
    world.prompt("go").crash();
    assert_eq!(world.session.activity(), Activity::Paused);
    world.tell(Input::Resume);
    read(&mut world, Some(agents("x")));
    assert!(first_message(&world).ends_with("go"));
}

#[test]
fn a_compaction_keeps_the_instructions() {
    let mut world = world();
    world.prompt("the goal");
    read(&mut world, Some(agents("Use make.")));
    for n in 0..4 {
        world.reply(calls(vec![bash(&format!("c{n}"), &format!("echo {n}"))]));
        world.outcome(Outcome::ok("word ".repeat(2_000)));
    }
    world.reply(says("done")).tell(Input::Compact { focus: None });
    if world.summary.is_some() {
        world.summarized(Ok(says("Facts: none.")));
    }
    world.prompt("next");
    let first = first_message(&world);
    assert!(first.starts_with("--- /srv/AGENTS.md") && first.contains("Use make."), "{first}");
    assert!(first.contains("the goal"));
}
