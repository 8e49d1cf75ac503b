//! `sysop acp`, driven by acpx, an independent client of the Agent Client Protocol. `cargo xtask test` installs it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::support::{Mock, bash, call, lines_of_json, say};
use crate::{Run, World};

/// Exit code of acpx if a permission was denied.
const DENIED: i32 = 5;

/// Runs acpx with an agent that has these arguments.
fn acpx(world: &World, options: &[&str], command: &[&str]) -> Run {
    let binary = Path::new(env!("CARGO_BIN_EXE_sysop"));
    let installed = binary.ancestors().nth(2).unwrap().join("tools/acpx/node_modules");
    let node = ["x64", "arm64"].map(|machine| installed.join(format!("node-linux-{machine}/bin/node")));
    let node: &PathBuf = node.iter().find(|path| path.exists()).expect("`cargo xtask test` installs acpx");
    let agent = format!("{} acp", binary.display());
    let output = Command::new(node)
        .arg(installed.join("acpx/dist/cli.js"))
        .args(["--agent", &agent, "--timeout", "60", "--cwd"])
        .arg(world.work())
        .args(options)
        .args(command)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", world.home())
        .envs(world.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(world.work())
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    Run::of(output)
}

/// A world whose model makes a file by a command, edits it, and answers.
fn world_with_changes() -> (Mock, World) {
    let edit = json!({ "path": "a.txt", "old_string": "one", "new_string": "two" });
    let steps = vec![bash("echo one > a.txt"), call("edit_file", edit), say("All changed.")];
    let mock = Mock::start(&[("change", steps), ("hello", vec![say("Hi there.")])]);
    let world = World::with_openai(&mock.url());
    (mock, world)
}

#[test]
fn a_client_that_approves_sees_calls_diff_and_answer() {
    let (_mock, world) = world_with_changes();
    let run = acpx(&world, &["--approve-all", "--format", "json"], &["exec", "change it"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(world.read("a.txt"), "two\n");
    let messages = lines_of_json(&run.out);
    let text: String = messages.iter().map(ToString::to_string).collect();
    for part in ["echo one > a.txt", "\"type\":\"diff\"", "\"oldText\":\"one\"", "end_turn", "All changed."] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
}

#[test]
fn a_client_that_denies_runs_nothing() {
    let (_mock, world) = world_with_changes();
    let run = acpx(&world, &["--deny-all", "--no-terminal", "--no-fs"], &["exec", "change it"]);
    assert_eq!(run.code, Some(DENIED), "{run:?}");
    assert!(!world.has("a.txt"));
}

#[test]
fn a_session_of_the_client_outlives_its_commands() {
    let (_mock, world) = world_with_changes();
    let done = |run: Run| assert_eq!(run.code, Some(0), "{run:?}");
    done(acpx(&world, &[], &["sessions", "new"]));
    done(acpx(&world, &[], &["set-mode", "auto"]));
    done(acpx(&world, &[], &["set", "mode", "ask"]));
    done(acpx(&world, &[], &["set", "mode", "auto"]));
    let run = acpx(&world, &["--ttl", "30"], &["prompt", "change it"]);
    assert!(run.code == Some(0) && run.out.contains("All changed."), "{run:?}");
    assert_eq!(world.read("a.txt"), "two\n", "nothing asked");
    let run = acpx(&world, &["--ttl", "30"], &["prompt", "hello"]);
    assert!(run.code == Some(0) && run.out.contains("Hi there."), "{run:?}");
    done(acpx(&world, &[], &["cancel"]));
    done(acpx(&world, &[], &["sessions", "close"]));
}
