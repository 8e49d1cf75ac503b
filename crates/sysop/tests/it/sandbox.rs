//! The sandbox in the whole binary: the abilities of a model's commands in each mode, and the process's own secrets.
//!
//! The restrictions themselves are tested in `sysop-host`.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;

use serde_json::{Value, json};

use crate::World;
use crate::support::{Mock, bash, call, say};

/// Id of a user who owns no files.
const NOBODY: u32 = 65_534;

/// Returns true if this kernel supports the sandbox, according to the doctor.
fn is_enforced(world: &World) -> bool {
    world.run(&["doctor"]).out.contains("auto: Landlock ABI ")
}

/// Result of the last call sent to the model.
fn told(mock: &Mock) -> String {
    let body = mock.last_body();
    let messages = body["messages"].as_array().unwrap();
    let last = messages.iter().rfind(|message| message["role"] == "tool").unwrap();
    last["content"].as_str().unwrap().to_owned()
}

#[test]
fn never_mode_sandboxes_commands() {
    let script = [("go", vec![bash("cat /proc/self/status"), say("Done.")])];
    let mock = Mock::start(&script);
    let world = World::with_openai(&mock.url());
    if !is_enforced(&world) {
        return;
    }
    let run = world.finish(&["exec", "--approve", "never", "go"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let status = told(&mock);
    assert!(status.contains("NoNewPrivs:\t1") && status.contains("Seccomp:\t2"), "{status}");
}

#[test]
fn ask_mode_and_sandbox_off_are_not_sandboxed() {
    for arguments in [&["exec", "--approve", "ask", "go"], &["exec", "--approve", "never", "go"]] {
        let mock = Mock::start(&[("go", vec![bash("cat /proc/self/status"), say("Done.")])]);
        let world = World::with_openai(&mock.url())
            .variable("SYSOP_SANDBOX", if arguments[2] == "ask" { "auto" } else { "off" });
        let run = world.finish(arguments);
        assert_eq!(run.code, Some(0), "{run:?}");
        assert!(told(&mock).contains("NoNewPrivs:\t0"), "{}", told(&mock));
    }
}

#[test]
fn sandbox_on_applies_to_root() {
    let command = "echo x > inside; echo x > $HOME/outside";
    let mock = Mock::start(&[("go", vec![bash(command), say("Done.")])]);
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut world = World::with_openai(&mock.url()).variable("SYSOP_SANDBOX", "on");
    world.environment.push(("HOME".to_owned(), home.path().to_str().unwrap().to_owned()));
    if !world.run(&["doctor"]).out.contains("on: Landlock ABI ") {
        return;
    }
    let run = world.finish(&["exec", "--approve", "auto", "go"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let said = told(&mock);
    assert!(
        said.contains("Permission denied")
            && said.contains("This session cannot run commands outside the sandbox"),
        "{said}"
    );
    assert!(world.has("inside") && !home.path().join("outside").exists());
}

#[test]
fn auto_mode_sandboxes_plain_changes_of_a_user() {
    let command = "mkdir inside ../outside";
    let mock = Mock::start(&[("go", vec![bash(command), say("Done.")])]);
    let world = World::with_openai(&mock.url());
    if !is_enforced(&world) {
        return;
    }
    // Outside the temporary directories, which are writable in the sandbox.
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let work = home.path().join("work");
    fs::create_dir(&work).unwrap();
    let mut sysop = std::process::Command::new(env!("CARGO_BIN_EXE_sysop"));
    sysop.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", home.path());
    sysop.envs(world.environment).current_dir(&work).args(["exec", "--approve", "auto", "go"]);
    if fs::metadata(&work).unwrap().uid() == 0 {
        for folder in [home.path(), &work] {
            chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        sysop.uid(NOBODY).gid(NOBODY);
    }
    let run = crate::Run::of(sysop.output().unwrap());
    assert_eq!(run.code, Some(0), "{run:?}");
    let said = told(&mock);
    assert!(said.contains("Permission denied"), "{said}");
    assert!(said.contains("call again with outside_sandbox=true"), "{said}");
    assert!(work.join("inside").exists() && !home.path().join("outside").exists());
}

#[test]
fn a_call_outside_the_sandbox_asks() {
    let arguments = json!({ "command": "ls", "outside_sandbox": true, "reason": "needs the bus" });
    let mock = Mock::start(&[("go", vec![call("bash", arguments), say("Done.")])]);
    let world = World::with_openai(&mock.url());
    if !is_enforced(&world) {
        return;
    }
    let run = world.finish(&["exec", "--approve", "auto", "go"]);
    assert_eq!(run.code, Some(3), "{run:?}");
    let offered = |body: &Value| body["tools"].to_string().contains("outside_sandbox");
    assert!(offered(&mock.last_body()));
    let off = world.variable("SYSOP_SANDBOX", "off");
    off.finish(&["exec", "--approve", "auto", "go"]);
    assert!(!offered(&mock.last_body()));
}

#[test]
fn keys_are_removed_from_proc_environ() {
    let world = World::new()
        .variable("SYSOP_MODEL", "openai/test-model")
        .variable("OPENAI_API_KEY", "sk-of-the-environment")
        .variable("CORP_KEY", "corp-of-the-environment")
        .variable("SYSOP_TOKEN", "token-of-the-environment")
        .variable("HARMLESS", "stays-as-it-is")
        .file(".config/sysop/config.toml", "[providers.anthropic]\napi_key_env = 'CORP_KEY'\n");
    let serve = world.start(&["serve", "--port", "0"]);
    serve.out.wait_for_text("http://");
    match fs::read(format!("/proc/{}/environ", serve.pid())) {
        Ok(shown) => {
            let shown = String::from_utf8_lossy(&shown).into_owned();
            assert!(shown.contains("HARMLESS=stays-as-it-is"), "{shown}");
            assert!(shown.contains("OPENAI_API_KEY="), "{shown}");
            assert!(!shown.contains("of-the-environment"), "{shown}");
        }
        // The memory of a non-dumpable process is closed to other programs of its user.
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied),
    }
}
