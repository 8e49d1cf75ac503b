//! Instructions from files: read before the first step, sent in front of the first message, kept by a compaction.

use serde_json::json;
use sysop_core::event::{ConfigChange, Decision, Effect, Event, Input};
use sysop_core::instructions::{
    FoundInstructions, INIT_PROMPT, InstructionFile, InstructionSource, Instructions, UntrustedFile,
};
use sysop_core::message::Message;
use sysop_core::mode::Mode;
use sysop_core::outcome::Outcome;
use sysop_core::policy::{
    Access, ApprovalMode, CommandContext, Resolution, ResolvedFile, ResolvedTarget, Survey, Target,
};
use sysop_core::session::Activity;
use sysop_core::skill::{Skill, SkillKind};

use crate::world::{World, bash, call, calls, says, spec};

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
    Instructions { files: vec![file], ..Instructions::default() }
}

/// Returns the attempt number of the request for instructions in the last output, if there is one.
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
        Message::User { text, .. } => text.clone(),
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
    assert!(first.starts_with(
        "--- /srv/AGENTS.md (a file of this workspace, which grants no permissions) ---\nUse make.\n"
    ));
    assert!(first.ends_with("the user's message follows ---\n\ndeploy"), "{first}");
    world.reply(calls(vec![bash("a", "ls")])).outcome(Outcome::ok("x"));
    assert_eq!(first_message(&world), first, "the prefix stays");
    world.reply(says("done")).prompt("again");
    assert_eq!((requested(&world), loaded(&world)), (None, 1), "read once");
    world.reply(says("done")).tell(Input::Clear).prompt("fresh");
    assert!(
        first_message(&world).starts_with("--- /srv/AGENTS.md"),
        "clearing the history keeps the instructions"
    );
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
    read(&mut world, Some(Instructions { untrusted, ..Instructions::default() }));
    assert_eq!((first_message(&world).as_str(), loaded(&world)), ("go", 1));
    world.reply(says("done")).tell(Input::ReloadInstructions).prompt("now");
    read(&mut world, Some(agents("Use make.")));
    assert!(first_message(&world).contains("Use make."));
}

fn with_skills(names: &[(SkillKind, &str, &str)]) -> Instructions {
    let mut found = Instructions::default();
    for (kind, name, text) in names {
        let path = format!("/srv/.sysop/{name}/SKILL.md");
        found.skills.add(Skill::read(*kind, name, &path, text, InstructionSource::Workspace));
    }
    found
}

#[test]
fn a_command_that_the_user_calls_up_is_expanded_for_the_model() {
    let mut world = world();
    world.prompt("/fix nginx web1");
    read(&mut world, Some(with_skills(&[(SkillKind::Command, "fix", "Repair $1 on $2.")])));
    assert_eq!(first_message(&world), "Repair nginx on web1.");
    world.reply(says("done")).prompt("/etc/hosts is wrong");
    let (_, request) = world.asked.as_ref().expect("a model call");
    let last = request.messages.last().expect("a prompt").message();
    assert_eq!(*last, Message::user("/etc/hosts is wrong"));
    world.reply(says("done")).tell(Input::Retry);
    assert_eq!(first_message(&world), "/etc/hosts is wrong");
    world.reply(says("done")).prompt("/fix a b").reply(says("done")).tell(Input::Retry);
    assert_eq!(first_message(&world), "Repair a on b.", "a retry expands the prompt again");
}

#[test]
fn init_asks_for_an_agents_md_from_any_front_end() {
    let mut world = world();
    world.prompt(" /init ");
    read(&mut world, Some(with_skills(&[(SkillKind::Command, "init", "Not this.")])));
    assert_eq!(first_message(&world), INIT_PROMPT);
    world.reply(says("done")).prompt("/init later");
    let (_, request) = world.asked.as_ref().expect("a model call");
    let last = request.messages.last().expect("a prompt").message();
    assert_ne!(*last, Message::user(INIT_PROMPT));
}

#[test]
fn commands_in_an_expanded_prompt_run_first_and_are_decided_like_the_models() {
    let mut spec = spec(ApprovalMode::Ask);
    spec.instructions = true;
    let mut world = World::new(spec);
    world.prompt("/look 'a b'");
    let text = "Log: !`rm $1` and !`ls`.";
    read(&mut world, Some(with_skills(&[(SkillKind::Command, "look", text)])));
    assert!(world.asked.is_none(), "the model is asked after the commands");
    assert_eq!(world.session.activity(), Activity::AwaitingApproval);
    world.crash();
    assert_eq!(world.session.activity(), Activity::AwaitingApproval, "a replay proposes the same");
    world.allow().outcome(Outcome::ok("removed")).outcome(Outcome::ok("listed"));
    read(&mut world, Some(with_skills(&[(SkillKind::Command, "look", text)])));
    let (_, request) = world.asked.as_ref().expect("a model call");
    let [prompt, replied, results] = &request.messages[..] else { panic!("{:?}", request.messages) };
    let text = "Log: (see the output of `rm 'a b'`) and (see the output of `ls`).".to_owned();
    assert_eq!(*prompt.message(), Message::user(text));
    let Message::Assistant { reply } = replied.message() else { panic!("{replied:?}") };
    let commands: Vec<_> = reply.calls.iter().map(|call| call.text_argument("command")).collect();
    assert_eq!(commands, [Some("rm 'a b'"), Some("ls")]);
    let Message::ToolResults { results } = results.message() else { panic!("{results:?}") };
    assert_eq!(results.len(), 2);
}

#[test]
fn a_rejected_command_of_an_expanded_prompt_does_not_run() {
    let mut spec = spec(ApprovalMode::Ask);
    spec.instructions = true;
    let mut world = World::new(spec);
    world.prompt("/look");
    read(&mut world, Some(with_skills(&[(SkillKind::Command, "look", "!`touch x`")])));
    world.decide(Decision::Reject { reason: "no".to_owned() });
    let started = world.log.iter().filter(|event| matches!(event, Event::ToolStarted { .. })).count();
    assert_eq!(started, 0);
    assert!(world.asked.is_some(), "the model learns of it");
}

#[test]
fn a_plain_chat_runs_no_command_of_a_prompt() {
    let mut world = world();
    world.tell(Input::Configure { change: ConfigChange::Mode(Mode::Chat) }).prompt("/look");
    read(&mut world, Some(with_skills(&[(SkillKind::Command, "look", "!`touch x`")])));
    let failed = world.log.iter().any(
        |event| matches!(event, Event::TurnEnded { error: Some(error), .. } if error.contains("cannot do")),
    );
    assert!(failed, "{:?}", world.log);
}

#[test]
fn the_model_calls_up_a_skill_once() {
    let mut world = world();
    world.prompt("renew the certificate");
    let text = "---\ndescription: Renew a certificate\n---\nUse certbot.";
    read(&mut world, Some(with_skills(&[(SkillKind::Skill, "certs", text)])));
    assert!(first_message(&world).contains("\n- certs: Renew a certificate\n"), "{}", first_message(&world));
    let offered = |world: &World| {
        let (_, request) = world.asked.as_ref().expect("a model call");
        request
            .tools
            .iter()
            .find(|tool| tool.name == "skill")
            .map(|tool| tool.parameters["properties"]["name"]["enum"].clone())
    };
    assert_eq!(offered(&world), Some(json!(["certs"])));
    let results = |world: &World| {
        let (_, request) = world.asked.as_ref().expect("a model call");
        match request.messages.last().expect("a message").message() {
            Message::ToolResults { results } => results[0].output.clone(),
            other => panic!("{other:?}"),
        }
    };
    world.reply(calls(vec![call("a", "skill", json!({ "name": "certs" }))]));
    assert_eq!(results(&world), "folder: /srv/.sysop/certs\n\nUse certbot.");
    world.reply(calls(vec![call("b", "skill", json!({ "name": "certs" }))]));
    assert!(results(&world).starts_with("you already have the text of `certs`; see above"));
    world.reply(calls(vec![call("c", "skill", json!({ "name": "none" }))]));
    assert!(results(&world).contains("invalid arguments"), "{}", results(&world));
}

#[test]
fn a_session_without_skills_offers_no_tool_for_them() {
    let mut world = world();
    world.prompt("go");
    read(&mut world, Some(with_skills(&[(SkillKind::Command, "fix", "text")])));
    let (_, request) = world.asked.as_ref().expect("a model call");
    assert!(request.tools.iter().all(|tool| tool.name != "skill"));
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
    assert!(first_message(&world).starts_with("go"), "the file was removed");
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

/// Survey of a host where `sh /srv/.sysop/certs/renew.sh` runs a script with this text.
fn survey_of_script(text: &str) -> Survey {
    let target = Target {
        word: "/srv/.sysop/certs/renew.sh".to_owned(),
        glob: false,
        folder: None,
        access: Access::Run,
    };
    let path = target.word.clone();
    let file = ResolvedFile { path, script: Some(text.to_owned()), ..ResolvedFile::default() };
    let targets = vec![ResolvedTarget { target, files: vec![file] }];
    Survey { resolution: Resolution::Host, targets, context: CommandContext::bash(), ..Survey::default() }
}

#[test]
fn a_script_of_a_skill_is_asked_with_its_hash_and_again_if_it_changed() {
    let mut spec = spec(ApprovalMode::Each);
    spec.instructions = true;
    let mut world = World::new(spec);
    world.survey = survey_of_script("certbot renew\n");
    world.prompt("renew the certificate");
    let text = "---\ndescription: Renew a certificate\n---\nRun renew.sh.";
    read(&mut world, Some(with_skills(&[(SkillKind::Skill, "certs", text)])));
    world.reply(calls(vec![bash("a", "sh /srv/.sysop/certs/renew.sh")]));
    let asked = |world: &World| {
        let asked = world.log.iter().rev().find_map(|event| match event {
            Event::ApprovalAsked { risk, .. } => risk.findings.last().map(|finding| finding.why.clone()),
            _ => None,
        });
        asked.expect("an approval with a finding")
    };
    let [first, second] = ["62dd020d1b563265", "e90585e5008e6d98"]
        .map(|hash| format!("runs renew.sh of the skill certs: sha256 {hash}, unchanged in this session"));
    assert_eq!(asked(&world), first);
    world.survey = survey_of_script("certbot renew --force-renewal\n");
    world.allow();
    assert_eq!(asked(&world), second);
    assert_eq!((world.session.activity(), world.ran.len()), (Activity::AwaitingApproval, 0));
    world.allow();
    assert_eq!(world.ran.len(), 1);
}
