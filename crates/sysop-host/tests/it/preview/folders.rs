//! Directories that a command needs: the preview says that a missing one makes the command fail exactly if it does.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use sysop_core::catalog::{self, Profile};
use sysop_core::message::Arguments;
use sysop_core::policy::{ApprovalMode, CommandContext, Survey};
use sysop_core::preview::{self, ProbeResult};

use super::{Shell, busybox_tools, call_of, lines, run, tree};

const MISSING: &str = "fails: the directory no does not exist";
const FILE: &str = "fails: zeros is not a directory";

/// Commands, each with the beginning of its preview.
const COMMANDS: &[(&str, &str)] = &[
    ("cat >no/site.conf <<'EOF'\nlisten 80;\nEOF", MISSING),
    ("echo x >>no/new", MISSING),
    ("echo x >no/sub/new", "fails: the directory no/sub does not exist"),
    ("echo x >zeros/new", FILE),
    ("echo x >no/", MISSING),
    ("echo x >dest/new", "creates dest/new with 1 line"),
    ("echo x >new", "creates new with 1 line"),
    ("echo x | tee no/new", MISSING),
    ("tee -a no/new </dev/null", MISSING),
    ("cp src/a.txt no/new", MISSING),
    ("cp src/a.txt no/", "fails: the directory no/ does not exist"),
    ("cp src/a.txt src/b.txt no", MISSING),
    ("cp -t no src/a.txt", MISSING),
    ("cp src/a.txt src/b.txt zeros", FILE),
    ("cp -r src no/sub", MISSING),
    ("cp -r src no", "copies 3 files, 1 directory"),
    ("cp -r src no/", "copies 3 files, 1 directory"),
    ("cp -r src no//", "copies 3 files, 1 directory"),
    ("cp --parents src/a.txt no", MISSING),
    ("cp --parents src/a.txt dest", "copies 1 file, 29 bytes into dest"),
    ("mv src/a.txt no/new", MISSING),
    ("mv src no/sub", MISSING),
    ("mv src no/", "moves 1 entry to no/"),
    ("mv src/a.txt zeros/new", FILE),
    ("install -m 600 src/a.txt no/new", MISSING),
    ("install -D src/a.txt no/new", "effect unknown (the command creates directories)"),
    ("ln -s src/a.txt no/new", MISSING),
    ("ln src/a.txt no/new", MISSING),
    ("truncate -s 0 no/new", "fails for no/new: the directory does not exist"),
    ("truncate -s 0 new", "creates 1 file: new"),
    ("truncate -c -s 0 no/new new", "no size changes"),
    ("dd if=zeros of=no/new", MISSING),
    ("dd if=zeros of=new", "creates new"),
    ("tar -xf pack.tar -C no", MISSING),
    ("rsync -a src/ no", "creates 3 files"),
    ("rsync -a src/ no/", "creates 3 files"),
    ("rsync -a src/ no/sub", MISSING),
    ("rsync -a src/ no/sub/", MISSING),
    ("rsync src/a.txt no/new", MISSING),
    ("rsync -a src/ zeros/new", FILE),
    ("unzip -qo pack.zip -d no", "extracts 1 file from pack.zip into no; creates the directory no"),
    ("unzip -qo pack.zip -d no/sub", MISSING),
    ("unzip -qo pack.zip -d zeros", FILE),
];

fn succeeds(folder: &Path, command: &str) -> bool {
    let mut bash = Command::new("bash");
    bash.args(["-c", command]).current_dir(folder).stdin(Stdio::null());
    bash.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
}

#[test]
fn a_missing_directory_fails_in_the_preview_exactly_if_it_fails_in_bash() {
    let home = tempfile::tempdir().unwrap();
    let tools = busybox_tools(home.path());
    let mut wrong = Vec::new();
    for (number, (command, beginning)) in COMMANDS.iter().enumerate() {
        let root = home.path().join(format!("tree{number}"));
        fs::create_dir(&root).unwrap();
        tree(&root);
        assert!(succeeds(&root, "python3 -m zipfile -c pack.zip other/t.log"));
        // Busybox has no rsync, and its unzip cannot list names only.
        let has_tools = !command.starts_with("rsync") && !command.starts_with("unzip");
        let shells = [Shell::Bash, Shell::Busybox].into_iter();
        for shell in shells.filter(|shell| matches!(shell, Shell::Bash) || has_tools) {
            let shown = lines(shell, &tools, &root, command);
            if !shown[0].starts_with(beginning) {
                wrong.push(format!("{command} in {shell:?}: {:?} instead of {beginning:?}", shown[0]));
            }
        }
        if succeeds(&root, command) == beginning.starts_with("fails") {
            wrong.push(format!("{command}: bash does not do what the preview says"));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_command_in_a_directory_of_the_command_before_depends_on_it() {
    let home = tempfile::tempdir().unwrap();
    for command in
        ["mkdir -p no && echo x >no/new", "mkdir no; cp zeros no/new", "mkdir no; echo | tee no/new"]
    {
        let shown = lines(Shell::Bash, home.path(), home.path(), command);
        assert_eq!(shown, ["depends on the command before"], "{command}");
    }
}

#[test]
fn a_file_tool_creates_the_directory() {
    let home = tempfile::tempdir().unwrap();
    let specs = catalog::tools(Profile::Full);
    let spec = specs.iter().find(|spec| spec.name == "write_file").unwrap();
    let mut call = call_of("");
    call.name = "write_file".to_owned();
    let arguments = serde_json::json!({ "path": "no/new", "content": "x\n" });
    call.arguments = Arguments::Object(arguments.as_object().unwrap().clone());
    let survey = Survey::elsewhere(CommandContext::bash());
    let plan = preview::plan_of(spec, &call, &survey, ApprovalMode::Ask).unwrap();
    let output = run(Shell::Bash, home.path(), home.path(), plan.script(false).unwrap());
    let shown = preview::lines(&plan, &[ProbeResult { host: String::new(), output: Ok(output) }]);
    assert_eq!(shown, ["creates no/new with 1 line, and the directory no"]);
}
