//! Skills and custom commands, in the real binary.

use serde_json::{Value, json};

use crate::World;
use crate::support::{Mock, call, say};

const CERTS: &str = "---\nname: certs\ndescription: Renew a certificate: when it expires\nargument-hint: HOST\n---\nUse certbot.";

/// The contents of the last request's messages from this role.
fn said(server: &Mock, role: &str) -> Vec<String> {
    let body = server.last_body();
    let messages = body["messages"].as_array().unwrap().iter();
    let messages = messages.filter(|message| message["role"] == role);
    messages.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_custom_command_gets_its_arguments_and_runs_its_commands_first() {
    let server = Mock::start(&[("Log of", vec![say("Seen.")])]);
    let world = World::with_openai(&server.url())
        .file(".config/sysop/commands/look.md", "Log of $1:\n!`printf 'log of %s' $1`");
    let run = world.finish(&["exec", "--approve", "auto", "/look 'my unit'"]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "Seen.\n"), "{run:?}");
    let prompts = said(&server, "user");
    let prompt = "Log of my unit:\n(see the output of `printf 'log of %s' 'my unit'`)";
    assert_eq!(prompts.last().map(String::as_str), Some(prompt), "{prompts:?}");
    assert_eq!(said(&server, "tool"), ["log of my unit\n[exit code 0]"]);
    assert_eq!(server.requests().len(), 1, "the commands run before the model is called");
    assert!(run.err.contains("runs 1 command first"), "{run:?}");
}

#[test]
fn a_command_inside_a_prompt_needs_the_same_approval_as_the_models() {
    let server = Mock::start(&[("Clean", vec![say("Done.")])]);
    let world =
        World::with_openai(&server.url()).file(".config/sysop/commands/clean.md", "Clean !`rm -rf ~/keep`");
    std::fs::create_dir_all(world.home().join("keep")).unwrap();
    for mode in ["each", "ask", "auto", "never"] {
        let run = world.finish(&["exec", "--approve", mode, "/clean"]);
        assert!(world.home().join("keep").exists(), "{mode}: {run:?}");
    }
}

#[test]
fn the_model_reads_a_skill_and_users_call_it_up() {
    let server = Mock::start(&[
        ("Arguments: web1", vec![say("As told.")]),
        ("expires", vec![call("skill", json!({"name": "certs"})), say("Renewed.")]),
    ]);
    let world = World::with_openai(&server.url())
        .file(".agents/skills/certs/SKILL.md", CERTS)
        .file(".agents/skills/certs/scripts/renew.sh", "#!/bin/sh\n");
    let run = world.finish(&["exec", "the certificate expires"]);
    assert_eq!(run.out, "Renewed.\n", "{run:?}");
    let results = said(&server, "tool");
    let folder = world.home().join(".agents/skills/certs");
    let text = "(on the user's machine)\nfiles: scripts/renew.sh\n\nUse certbot.";
    assert_eq!(results, [format!("folder: {} {text}", folder.display())]);
    let run = world.finish(&["exec", "/certs web1"]);
    assert_eq!(run.out, "As told.\n", "{run:?}");
    let prompts = said(&server, "user");
    assert!(prompts.last().unwrap().contains("Use certbot.\n\nArguments: web1\n"), "{prompts:?}");
}

#[test]
fn a_workspace_offers_nothing_until_it_is_trusted() {
    let server = Mock::start(&[("/look", vec![say("Plain.")]), ("Expanded", vec![say("Trusted.")])]);
    let world = World::with_openai(&server.url());
    let folder = world.work().join(".sysop/commands");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("look.md"), "Expanded").unwrap();
    let run = world.finish(&["exec", "/look"]);
    assert_eq!(run.out, "Plain.\n", "{run:?}");
    assert!(run.err.contains(".sysop/commands/look.md (8 bytes)"), "{run:?}");
    let run = world.finish(&["exec", "--trust", "/look"]);
    assert_eq!(run.out, "Trusted.\n", "{run:?}");
    let run = world.finish(&["exec", "--trust", "--json", "/look"]);
    let message = run.out.lines().find(|line| line.contains("\"type\":\"instructions\"")).unwrap();
    let message: Value = serde_json::from_str(message).unwrap();
    assert_eq!(message["skills"][0]["name"], "look");
    assert!(message["skills"][0].get("body").is_none(), "clients get no skill text: {message}");
}

#[test]
fn the_repl_lists_custom_commands_and_knows_no_others() {
    let server = Mock::start(&[("Look around", vec![say("Seen.")])]);
    let world = World::with_openai(&server.url()).file(".config/sysop/commands/look-here.md", "Look around");
    let mut chat = world.start_with_input(&["chat"]);
    chat.type_text("/look-here\n/help\n/nothing\n");
    chat.end_input();
    let run = chat.finish();
    assert!(run.out.contains("Seen.") && run.out.contains("/look-here"), "{run:?}");
    assert!(run.out.contains("unknown command /nothing"), "{run:?}");
}

#[test]
fn skills_are_listed_and_checked() {
    let world = World::new()
        .file(".config/sysop/skills/certs/SKILL.md", CERTS)
        .file(".config/sysop/commands/bad name.md", "text");
    let path = |name: &str| world.home().join(".config/sysop").join(name).to_str().unwrap().to_owned();
    let run = world.finish(&["skills", "list"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let skill = format!("/certs HOST\n  skill in {}/SKILL.md\n", path("skills/certs"));
    assert!(run.out.starts_with(&skill), "{run:?}");
    assert!(run.out.contains("  Renew a certificate: when it expires\n"), "{run:?}");
    assert!(run.out.contains(&format!("skipped: {}: invalid name", path("commands/bad name.md"))), "{run:?}");
    let good = world.finish(&["skills", "check", &path("skills/certs")]);
    assert_eq!(good.code, Some(0), "{good:?}");
    assert!(good.out.ends_with("/certs: ok, /certs\n"), "{good:?}");
    let bad = world.finish(&["skills", "check", &path("commands/bad name.md"), &path("none")]);
    assert_eq!((bad.code, bad.out.lines().count()), (Some(1), 2), "{bad:?}");
}
