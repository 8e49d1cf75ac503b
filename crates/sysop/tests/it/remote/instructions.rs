//! Instructions of a workspace on a remote host.

use std::fs;

use super::{RemoteMachineRig, text};
use crate::support::{bash, say};

#[test]
fn a_remote_workspace_has_instructions_of_its_own() {
    let look = || vec![bash("echo here"), say("Done.")];
    let far = RemoteMachineRig::with(&[("look", look()), ("go", vec![say("Done.")])]);
    fs::write(far.there("AGENTS.md"), "Restart nothing before 18:00.").unwrap();
    fs::write(far.world.work().join("AGENTS.md"), "Of this machine.").unwrap();
    let notes = far.world.work().parent().unwrap().join(".config/sysop/hosts");
    fs::create_dir_all(&notes).unwrap();
    fs::write(notes.join("far.md"), "Backups are in /srv/backup.").unwrap();
    let first = |far: &RemoteMachineRig| far.mock.last_body()["messages"][1]["content"].to_string();

    let run = far.world.finish(&["exec", "--host", "far", "go"]);
    assert!(!run.err.contains("AGENTS.md"), "a question to the model connects to no host: {run:?}");
    let run = far.world.finish(&["exec", "--host", "far", "look"]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "Done.\n"), "{run:?}");
    let file = text(&far.there("AGENTS.md"));
    assert!(run.err.contains(&format!("(see /trust): {file} (29 bytes)")), "{run:?}");
    assert!(first(&far).contains("Backups are in /srv/backup.") && !first(&far).contains("Restart"));

    let run = far.world.finish(&["exec", "--host", "far", "--trust", "go"]);
    assert!(run.err.contains(&format!("{file} (29 bytes)")), "{run:?}");
    assert!(first(&far).contains("Restart nothing before 18:00."), "{}", first(&far));
    assert!(!first(&far).contains("Of this machine."), "{}", first(&far));

    let mut chat = far.world.start_with_input(&["chat", "--host", "far"]);
    chat.type_text("/trust\ngo\n");
    chat.end_input();
    let run = chat.finish();
    assert!(run.out.contains(&format!("trusted until it changes: {file}")), "{run:?}");
    assert!(first(&far).contains("Restart nothing before 18:00."), "{run:?}");
    far.nothing_runs();
}

#[test]
fn an_unreachable_host_has_no_instructions_and_the_task_goes_on() {
    let far = RemoteMachineRig::with(&[("go", vec![say("Done.")])]);
    fs::write(far.sshd.path("ssh_config"), "Host far\n  HostName 127.0.0.1\n  Port 1\n").unwrap();
    let run = far.world.finish(&["exec", "--host", "far", "go"]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "Done.\n"), "{run:?}");
}
