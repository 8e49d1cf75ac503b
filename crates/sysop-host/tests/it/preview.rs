//! Effect previews on real trees: each probe runs in bash and in the shell of busybox, changes nothing, and predicts
//! the numbers of the command that is then run for real.

mod booted;
mod containers;
mod devices;
mod folders;
mod strace;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sysop_core::catalog::{self, Profile};
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::policy::{ApprovalMode, CommandContext, Survey};
use sysop_core::preview::{self, PreviewPlan, ProbeResult};
use sysop_driver::port::CancellationToken;

use crate::sshd::Login;
use crate::world::{Factory, Local, Setup, Ssh};

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    kind: char,
    mode: u32,
    owner: (u32, u32),
    inode: u64,
    times: (i64, i64, i64, i64),
    content: Vec<u8>,
}

type Snapshot = BTreeMap<PathBuf, Entry>;

fn snapshot(root: &Path) -> Snapshot {
    let mut all = Snapshot::new();
    let mut open = vec![root.to_owned()];
    while let Some(path) = open.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let kind = match meta.file_type() {
            kind if kind.is_dir() => 'd',
            kind if kind.is_symlink() => 'l',
            kind if kind.is_file() => 'f',
            _ => 'o',
        };
        let content = match kind {
            'f' => fs::read(&path).unwrap(),
            'l' => fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
            _ => Vec::new(),
        };
        if kind == 'd' {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        let times = (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
        let owner = (meta.uid(), meta.gid());
        let entry = Entry { kind, mode: meta.mode() & 0o7777, owner, inode: meta.ino(), times, content };
        all.insert(path.strip_prefix(root).unwrap().to_owned(), entry);
    }
    all
}

/// Shell of a probe.
#[derive(Debug, Clone, Copy)]
enum Shell {
    Bash,
    /// Busybox' shell, with only busybox' tools.
    Busybox,
}

fn run(shell: Shell, tools: &Path, folder: &Path, script: &str) -> Vec<u8> {
    let mut command = match shell {
        Shell::Bash => Command::new("bash"),
        Shell::Busybox => {
            let mut command = Command::new(tools.join("sh"));
            command.env("PATH", tools);
            command
        }
    };
    command.args(["-c", script]).current_dir(folder).stdin(Stdio::null()).stderr(Stdio::null());
    command.env("HOME", folder).env("DIR", "build");
    command.output().unwrap().stdout
}

fn busybox_tools(folder: &Path) -> PathBuf {
    let tools = folder.join("busybox");
    fs::create_dir(&tools).unwrap();
    let found = Command::new("sh").args(["-c", "command -v busybox"]).output().unwrap().stdout;
    let busybox = String::from_utf8(found).unwrap();
    let names = Command::new(busybox.trim()).arg("--list").output().unwrap().stdout;
    for name in String::from_utf8(names).unwrap().lines() {
        symlink(busybox.trim(), tools.join(name)).unwrap();
    }
    tools
}

fn plan(command: &str) -> Option<PreviewPlan> {
    plan_for(&call_of(command), &Survey::elsewhere(CommandContext::bash()))
}

fn plan_for(call: &ToolCall, survey: &Survey) -> Option<PreviewPlan> {
    let specs = catalog::tools(Profile::Full);
    let spec = specs.iter().find(|spec| spec.name == "bash").unwrap();
    preview::plan_of(spec, call, survey, ApprovalMode::Ask)
}

fn call_of(command: &str) -> ToolCall {
    let arguments = serde_json::json!({ "command": command }).as_object().unwrap().clone();
    ToolCall {
        id: sysop_core::id::CallId::new("call_1"),
        wire_id: None,
        name: "bash".to_owned(),
        arguments: Arguments::Object(arguments),
    }
}

fn lines(shell: Shell, tools: &Path, folder: &Path, command: &str) -> Vec<String> {
    let plan = plan(command).unwrap_or_else(|| panic!("no preview: {command}"));
    let output = plan.script(false).map_or(Vec::new(), |script| run(shell, tools, folder, script));
    preview::lines(&plan, &[ProbeResult { host: String::new(), output: Ok(output) }])
}

/// Builds a tree with names that no shell likes.
fn tree(root: &Path) {
    let script = r#"
mkdir -p build/sub/deep 'with space' src dest/src other empty
for i in 1 2 3 4 5 6 7; do echo "line $i" >build/f$i.o; done
echo a >'build/sub/new
line'; echo b >build/sub/-rf; echo c >"build/sub/it's"; echo d >build/sub/deep/x
ln -s ../src build/link; ln build/f1.o build/hard; mkfifo build/pipe
echo one >'with space/one'; echo -n >'with space/empty'
printf 'alpha\nbeta\ngamma\nalpha again\n' >src/a.txt; printf 'alpha\n' >src/b.txt; printf 'none\n' >src/c.txt
printf 'old\ncontent\n' >dest/a.txt; printf 'x\n' >dest/src/b.txt; echo keep >dest/src/k
echo '#!/bin/sh' >other/run.sh; chmod 755 other/run.sh; echo t >other/t.log; echo t >other/u.log; chmod 600 other/u.log
chmod 4755 other/run.sh; touch -d '2020-01-01' other/old.log; mkdir -m 2775 other/shared; echo dash >-dash
ln -s src/a.txt current; tar cf pack.tar src other; head -c 3000 /dev/zero >zeros
"#;
    let made = Command::new("bash").args(["-e", "-c", script]).current_dir(root).status().unwrap();
    assert!(made.success());
}

/// Effect of a command whose numbers a preview predicts.
#[derive(Debug, Clone, Copy)]
enum Effect {
    /// Removed files, links, special files and directories.
    Removed,
    /// Removed bytes of regular files.
    RemovedBytes,
    /// Entries whose mode changed.
    Modes,
    /// Entries whose owner changed.
    Owners,
    /// Files that have a new content at the same path.
    Overwritten,
    /// Lines removed and added in files.
    Lines,
    /// Regular files that are new, or replaced.
    Created,
    /// Nothing changes.
    Nothing,
}

fn count(number: usize, noun: &str) -> String {
    match noun.strip_suffix('y') {
        _ if number == 1 => format!("1 {noun}"),
        Some(stem) => format!("{number} {stem}ies"),
        None => format!("{number} {noun}s"),
    }
}

/// Returns the strings that a preview must contain, computed from what the command did.
fn expected(effect: Effect, before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let gone = || before.iter().filter(|(path, _)| !after.contains_key(*path)).map(|(_, entry)| entry);
    let both = || before.iter().filter_map(|(path, entry)| Some((entry, after.get(path)?)));
    match effect {
        Effect::Removed => [('f', "file"), ('l', "link"), ('o', "special file"), ('d', "directory")]
            .iter()
            .map(|(kind, noun)| (gone().filter(|entry| entry.kind == *kind).count(), noun))
            .filter(|(number, _)| *number > 0)
            .map(|(number, noun)| count(number, noun))
            .collect(),
        Effect::RemovedBytes => vec![format!(
            "{} bytes",
            gone().filter(|entry| entry.kind == 'f').map(|entry| entry.content.len()).sum::<usize>()
        )],
        Effect::Modes => vec![format!(
            "changes {} of",
            both().filter(|(one, other)| one.mode != other.mode && one.kind != 'l').count()
        )],
        Effect::Owners => {
            vec![format!("changes {} of", both().filter(|(one, other)| one.owner != other.owner).count())]
        }
        Effect::Overwritten => {
            let changed = both()
                .filter(|(one, other)| {
                    one.kind == 'f' && (one.inode != other.inode || one.content != other.content)
                })
                .count();
            vec![format!("overwrites {changed} file")]
        }
        Effect::Created => {
            let is_written =
                |path: &PathBuf, entry: &Entry| before.get(path).is_none_or(|old| old.times != entry.times);
            let new =
                after.iter().filter(|(path, entry)| entry.kind == 'f' && is_written(path, entry)).count();
            vec![count(new, "file")]
        }
        Effect::Lines => {
            let (mut removed, mut added) = (0, 0);
            for (one, other) in both().filter(|(one, other)| one.content != other.content) {
                let (one, other) = (
                    String::from_utf8_lossy(&one.content).into_owned(),
                    String::from_utf8_lossy(&other.content).into_owned(),
                );
                let folder = tempfile::tempdir().unwrap();
                fs::write(folder.path().join("one"), one).unwrap();
                fs::write(folder.path().join("other"), other).unwrap();
                let diff =
                    Command::new("diff").args(["one", "other"]).current_dir(&folder).output().unwrap().stdout;
                let diff = String::from_utf8(diff).unwrap();
                removed += diff.lines().filter(|line| line.starts_with('<')).count();
                added += diff.lines().filter(|line| line.starts_with('>')).count();
            }
            vec![format!("+{added} −{removed} lines")]
        }
        Effect::Nothing => Vec::new(),
    }
}

const COMMANDS: &[(&str, Effect)] = &[
    ("rm -rf build", Effect::Removed),
    ("rm -rf build", Effect::RemovedBytes),
    ("rm -r build/ src", Effect::Removed),
    ("rm -rf ./build build/sub", Effect::Removed),
    ("rm -rf \"$DIR\"/sub", Effect::Removed),
    ("rm -f build/*.o", Effect::Removed),
    ("rm build/f1.o build/nope build/f2.o", Effect::Removed),
    ("rm -- -dash", Effect::Removed),
    ("rm -rf 'with space'", Effect::Removed),
    ("rm -rf {build,src}", Effect::Removed),
    ("rm -r build/link", Effect::Removed),
    ("rm -rf build/f[1-3].o build/sub/*", Effect::Removed),
    ("cd build && rm -rf sub", Effect::Removed),
    ("X=build; rm -rf $X/sub", Effect::Removed),
    ("sh -c 'rm -rf build/sub'", Effect::Removed),
    ("env A=1 nice -n 5 rm -rf src", Effect::Removed),
    ("rmdir empty build", Effect::Removed),
    ("find . -name '*.o' -delete", Effect::Removed),
    ("find build -type f -exec rm {} +", Effect::Removed),
    ("find build -type f -print0 | xargs -0 rm -f", Effect::Removed),
    ("find other -name '*.log' -mtime +30 -delete", Effect::Removed),
    ("chmod -R 644 other", Effect::Modes),
    ("chmod -R u=rwX,go=rX other", Effect::Modes),
    ("chmod 755 src/* other", Effect::Modes),
    ("chmod -R a+x build", Effect::Modes),
    ("chmod -R 0755 other", Effect::Modes),
    ("chmod go-rwx other/u.log other/t.log", Effect::Modes),
    ("chown -R 1234:1234 build", Effect::Owners),
    ("chown nobody src/a.txt src/b.txt", Effect::Owners),
    ("chgrp -R 77 other", Effect::Owners),
    ("cp src/a.txt dest/", Effect::Overwritten),
    ("cp -r src dest", Effect::Overwritten),
    ("cp -r src/. dest/src", Effect::Overwritten),
    ("cp src/a.txt src/b.txt other", Effect::Created),
    ("cp -r build copy", Effect::Created),
    ("mv src/a.txt src/b.txt dest", Effect::Overwritten),
    ("mv src/c.txt dest/a.txt", Effect::Overwritten),
    ("sed -i 's/alpha/omega/' src/a.txt src/b.txt src/c.txt", Effect::Lines),
    ("sed -i -e '/beta/d' -e 's/gamma/delta/g' src/*.txt", Effect::Lines),
    ("sed -i '2a inserted' src/a.txt", Effect::Lines),
    ("sed -i.bak -E 's/(al)pha/\\1/' src/a.txt", Effect::Lines),
    ("echo hello > src/a.txt", Effect::Lines),
    ("printf '%s\\n' old new > dest/a.txt", Effect::Lines),
    ("cat > src/a.txt <<'EOF'\nalpha\nBETA\ngamma\nEOF", Effect::Lines),
    ("cat <<EOF | tee src/b.txt\nalpha\nmore\nEOF", Effect::Lines),
    ("echo x | tee dest/a.txt >/dev/null", Effect::Lines),
    ("tar -xf pack.tar -C dest", Effect::Created),
    ("truncate -s 1000 zeros", Effect::Nothing),
    ("ln -sfn other current", Effect::Nothing),
    ("rm -f nope", Effect::Nothing),
];

#[test]
fn previews_are_exact_and_change_nothing() {
    let home = tempfile::tempdir().unwrap();
    let tools = busybox_tools(home.path());
    let mut wrong = Vec::new();
    for (number, (command, effect)) in COMMANDS.iter().enumerate() {
        let root = home.path().join(format!("tree{number}"));
        fs::create_dir(&root).unwrap();
        tree(&root);
        let before = snapshot(&root);
        let shown: Vec<String> = [Shell::Bash, Shell::Busybox]
            .into_iter()
            // Busybox' shell has no braces, and would not run such a command in the same way.
            .filter(|shell| matches!(shell, Shell::Bash) || !command.contains('{') || command.contains("{}"))
            .map(|shell| lines(shell, &tools, &root, command).join(" / "))
            .collect();
        assert!(snapshot(&root) == before, "a probe changed something: {command}");
        run(Shell::Bash, &tools, &root, command);
        let after = snapshot(&root);
        let expected = expected(*effect, &before, &after);
        for text in &shown {
            if text.contains("effect unknown") || !expected.iter().all(|part| text.contains(part)) {
                wrong.push(format!("{command}: {text:?} instead of {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Files that a probe must not create, change or remove, and names that a shell would run.
const HOSTILE: &[&str] = &[
    "rm -rf \"$(touch pwned)\"",
    "rm -rf `touch pwned`",
    "rm -rf '$(touch pwned)'",
    "rm -rf \"'; touch pwned; '\"",
    "rm -rf ';touch pwned'",
    "rm -- '-rf;touch pwned'",
    "find . -name '*.o' -exec touch pwned ';' -delete",
    "find . -fprint pwned -delete",
    "find . -ok touch pwned ';' -delete",
    "find build -name x -fls pwned -delete",
    "sed -i 'w pwned' src/a.txt",
    "sed -i 's/a/touch pwned/e' src/a.txt",
    "sed -i 's/a/b/w pwned' src/a.txt",
    "sed -i '1e touch pwned' src/a.txt",
    "rsync -a -e 'touch pwned' src/ dest/",
    "rsync -a --rsync-path='touch pwned' src/ dest/",
    "tar -xf pack.tar --to-command='touch pwned'",
    "tar -xf pack.tar -I 'touch pwned'",
    "git -c core.fsmonitor='touch pwned' clean -fd",
    "git -c alias.clean='!touch pwned' clean -fd",
    "chmod -R 644 'src;touch pwned'",
    "X='$(touch pwned)'; rm -rf $X",
    "PATH=.:$PATH rm -rf src",
    "cat > src/a.txt <<EOF\n$(touch pwned)\nEOF",
    "cd '$(touch pwned)' && rm -rf src",
    "pkill -f '$(touch pwned)'",
    "echo x > '$(touch pwned)'",
    "for f in *; do rm -rf $f; done",
    "rm -rf <(touch pwned)",
    "sh -c 'rm -rf $(touch pwned)'",
];

#[test]
fn no_command_makes_its_probe_write() {
    let home = tempfile::tempdir().unwrap();
    let tools = busybox_tools(home.path());
    let root = home.path().join("tree");
    fs::create_dir(&root).unwrap();
    tree(&root);
    let made = Command::new("bash")
        .args(["-ec", "git init -q .; git config core.fsmonitor 'touch pwned'; git config filter.x.clean 'touch pwned'; echo '* filter=x' >.gitattributes"])
        .current_dir(&root)
        .status()
        .unwrap();
    assert!(made.success());
    let before = snapshot(&root);
    for command in HOSTILE.iter().chain(&["git clean -fdx", "git checkout -- .", "git reset --hard"]) {
        let Some(plan) = plan(command) else { continue };
        let Some(script) = plan.script(false) else { continue };
        for shell in [Shell::Bash, Shell::Busybox] {
            run(shell, &tools, &root, script);
            assert!(snapshot(&root) == before, "the probe of {command} wrote in {shell:?}");
        }
    }
}

async fn a_probe_counts_and_removes_nothing(factory: &dyn Factory) {
    let world = factory.open(Setup::default());
    for name in ["one", "two\nlines", "-rf"] {
        world.put(&format!("build/{name}"), "text");
    }
    let shown = async |command: &str| {
        let plan = plan(command).unwrap();
        preview::lines(&plan, &world.host.probe(&plan, CancellationToken::new()).await)
    };
    assert_eq!(shown("rm -rf build").await, ["removes 3 files, 1 directory, 12 bytes in build"]);
    assert_eq!(
        shown("rm build/* nope").await,
        [
            "removes 3 files, 12 bytes: build/-rf, build/one, build/two\\nlines; fails for nope: does not exist"
        ]
    );
    assert_eq!(
        shown("echo new > build/one").await,
        ["overwrites build/one (4 bytes, 0 lines): +1 −1 lines", "@@ -1 +1 @@", "-text", "+new"]
    );
    assert_eq!(world.text("build/one"), "text");
}

#[tokio::test]
async fn a_probe_runs_on_this_machine() {
    a_probe_counts_and_removes_nothing(&Local).await;
}

#[tokio::test]
async fn a_probe_runs_on_a_remote_host() {
    for login in [Login::Bash, Login::Ash, Login::Fish] {
        a_probe_counts_and_removes_nothing(&Ssh(login)).await;
    }
}

#[tokio::test]
async fn the_effect_of_a_step_depends_on_the_steps_before() {
    let world = Local.open(Setup::default());
    world.put("old", "text");
    let shown = async |command: &str| {
        let plan = plan(command).unwrap();
        preview::lines(&plan, &world.host.probe(&plan, CancellationToken::new()).await)
    };
    let missing = "changes 0 of 0 entries; fails for new: does not exist";
    for (command, lines) in [
        ("chmod 600 new", vec![missing.to_owned()]),
        ("cd . && ls -l && chmod 600 new", vec![missing.to_owned()]),
        ("touch new && chmod 600 new", vec!["depends on the command before".to_owned()]),
        ("gzip old && mv old.gz dir", vec!["depends on the command before".to_owned()]),
        ("mkdir -p sub && mv old sub/", vec!["depends on the command before".to_owned()]),
        (
            "touch new && rm old new",
            vec!["depends on the command before; as of now: removes 1 file, 4 bytes: old".to_owned()],
        ),
        (
            "rm old; ls; chmod 600 new",
            vec![
                "removes 1 file, 4 bytes: old".to_owned(),
                "then, depends on the command before: `chmod 600 new`".to_owned(),
            ],
        ),
        ("mkdir new && cd new && rm -r x", vec!["depends on the command before".to_owned()]),
    ] {
        assert_eq!(shown(command).await, lines, "{command}");
    }
}

#[tokio::test]
async fn only_steps_that_share_a_path_depend_on_each_other() {
    let world = Local.open(Setup::default());
    world.put("old", "text");
    world.put("dir/inner", "text");
    std::os::unix::fs::symlink("old", world.at("link")).unwrap();
    let depends = async |command: &str| {
        let call = call_of(command);
        let plan = plan_for(&call, &world.host.survey(&call).await).unwrap();
        let lines = preview::lines(&plan, &world.host.probe(&plan, CancellationToken::new()).await);
        lines.iter().any(|line| line.contains("depends on the command before"))
    };
    for command in [
        "touch new && chmod 600 old",
        "rm dir/inner; chmod 600 old",
        "mkdir -p made && cd dir && chmod 600 inner",
        "echo a > new && rm old",
        "sudo touch new && chmod 600 old",
    ] {
        assert!(!depends(command).await, "{command}");
    }
    for command in [
        "touch old && chmod 600 old",
        "touch dir/new && rm -r dir",
        "rm -r dir && chmod 600 dir/inner",
        "rm link && chmod 600 link",
        "touch link && chmod 600 old",
        "cd dir && touch x && chmod 600 x",
        "echo a > new && chmod 600 new",
        "rm old && cp dir/inner copy",
        "make && chmod 600 old",
        "touch new && systemctl restart nginx",
        "touch $x && chmod 600 old",
        "rm dir/* && chmod 600 old",
        "touch new && sh -c 'chmod 600 old'",
    ] {
        assert!(depends(command).await, "{command}");
    }
}

#[test]
fn hosts_are_grouped_by_result() {
    let plan = plan("rm -rf build").unwrap();
    let found = b"section\x000\0count\x0012 0 0 0 0 0\0end\x001\0".to_vec();
    let nothing = b"section\x000\0missing\0build\0end\x001\0".to_vec();
    let result =
        |host: &str, output: &[u8]| ProbeResult { host: host.to_owned(), output: Ok(output.to_vec()) };
    let mut results = vec![result("web1", &found), result("web2", &found), result("web3", &found)];
    assert_eq!(preview::lines(&plan, &results), ["3 hosts: removes 12 files"]);
    results.push(result("web4", &nothing));
    assert_eq!(
        preview::lines(&plan, &results),
        ["web4: nothing to remove", "3 hosts (web[1-3]): removes 12 files"]
    );
    results.push(ProbeResult { host: "web5".to_owned(), output: Err("timed out after 2 s".to_owned()) });
    let lines = preview::lines(&plan, &results).join("\n");
    assert!(lines.contains("web5: effect unknown (timed out after 2 s)"), "{lines}");
}

#[test]
fn a_host_whose_probe_failed_has_one_line_after_the_others() {
    let plan = plan("rm -r build && chmod 600 build").unwrap();
    let unreachable = |host: &str| ProbeResult {
        host: host.to_owned(),
        output: Err(format!("{host}: connection refused (port 1); check the port")),
    };
    let found = b"section\x000\0count\x0012 0 0 0 0 0\0end\x001\0".to_vec();
    let probed = ProbeResult { host: "web1".to_owned(), output: Ok(found) };
    let lines = preview::lines(&plan, &[unreachable("dead"), unreachable("gone"), probed]);
    assert!(lines[0].starts_with("web1: removes 12 files"), "{lines:?}");
    assert_eq!(lines[1], "2 hosts (dead, gone): effect unknown (connection refused (port 1))");
    let lines = preview::lines(&plan, &[unreachable("dead"), unreachable("gone")]);
    assert_eq!(lines, ["2 hosts: effect unknown (connection refused (port 1))"]);
}

#[test]
fn text_of_a_host_stays_on_its_line_and_is_bounded() {
    let plan = plan("rm -r build").unwrap();
    let name = "x\u{1b}[2J\nremoves nothing\u{202e}".repeat(20);
    let output = format!("section\x000\0missing\0{name}\0end\x001\0").into_bytes();
    let lines = preview::lines(&plan, &[ProbeResult { host: String::new(), output: Ok(output) }]);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(!lines[0].contains(['\u{1b}', '\n', '\u{202e}']), "{lines:?}");
}

#[test]
fn a_directory_that_only_sudo_can_see_is_not_said_to_be_missing() {
    let plan = plan("echo x | sudo tee /etc/app/conf.d/a").unwrap();
    let lines = |records: &str| {
        let path = "/etc/app/conf.d";
        let output = format!("section\x000\0{records}path\0{path}/a\0new\x001\0nofolder\0{path}\0end\x001\0");
        preview::lines(&plan, &[ProbeResult { host: String::new(), output: Ok(output.into_bytes()) }])
    };
    let unseen = "unseen\0/etc/app/conf.d\0";
    let unknown = ["effect unknown (the directory cannot be seen without sudo)"];
    assert_eq!(lines(&format!("nosudo\x001\0{unseen}")), unknown);
    let fails = "fails: the directory /etc/app/conf.d does not exist";
    assert_eq!(lines("nosudo\x001\0"), [format!("{fails} (seen without sudo)")]);
    assert_eq!(lines(unseen), [fails], "the command has no other rights than the probe");
}

#[test]
fn an_unfinished_probe_is_an_unknown_effect() {
    let plan = plan("rm -r build").unwrap();
    let result =
        ProbeResult { host: String::new(), output: Ok(b"section\x000\0count\x001 0 0 0 0 0\0".to_vec()) };
    assert_eq!(preview::lines(&plan, &[result]), ["effect unknown (the probe did not finish)"]);
    for (command, why) in [
        ("rm -rf $(cat list)", "the command has a command substitution"),
        ("for f in a b; do rm $f; done", "the command has a loop"),
        ("rm --frobnicate x", "the option --frobnicate is unknown"),
    ] {
        let plan = self::plan(command).unwrap();
        assert_eq!(plan.script(false), None, "{command}");
        assert_eq!(plan.lines_without(""), [format!("effect unknown ({why})")], "{command}");
    }
}

#[test]
fn a_preview_of_many_commands_counts_those_that_it_leaves_out() {
    let removals: Vec<String> = (0..40).map(|n| format!("rm -r build{n}")).collect();
    let plan = plan(&format!("{}; date; df -h", removals.join("; "))).unwrap();
    // The effects are the same, as no host is asked.
    assert_eq!(
        plan.lines_without("no host"),
        [
            "`rm -r build0`: effect unknown (no host)",
            "then, depends on the command before; as of now: `rm -r build1`: effect unknown (no host)",
            "then, depends on the command before; as of now: `rm -r build2`: effect unknown (no host)",
            "then, depends on the command before; as of now: `rm -r build3`: effect unknown (no host); and 2 more \
             effects, 34 more commands not previewed"
        ]
    );
}

#[test]
fn dangerous_commands_of_a_long_script_are_previewed_and_shown_first() {
    let harmless: Vec<String> = (0..10).map(|n| format!("chmod 600 file{n}")).collect();
    let plan = plan(&format!("{}; rm -rf /srv/data; chmod 600 last", harmless.join("; "))).unwrap();
    assert_eq!(
        plan.lines_without("no host"),
        [
            "depends on an earlier command; as of now: `rm -rf /srv/data`: effect unknown (no host)",
            "before that, as of now: `chmod 600 file0`: effect unknown (no host); and 4 more effects, 6 more \
             commands not previewed"
        ]
    );
    let removals: Vec<String> = (0..8).map(|n| format!("rm -rf /srv/data{n}")).collect();
    let plan = self::plan(&format!("{}; {}", harmless.join("; "), removals.join("; "))).unwrap();
    let lines = plan.lines_without("no host");
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(
        lines[0].contains("`rm -rf /srv/data0`") && lines[3].contains("`rm -rf /srv/data3`"),
        "{lines:?}"
    );
    assert!(lines[3].ends_with("; and 2 more effects, 12 more commands not previewed"), "{lines:?}");
}

#[test]
fn a_long_line_still_counts_what_it_leaves_out() {
    let names: Vec<String> = (0..9).map(|n| format!("{n}{}", "x".repeat(70))).collect();
    let script: Vec<String> = names.iter().map(|name| format!("chmod 600 {name}")).collect();
    let plan = plan(&script.join("; ")).unwrap();
    let why = "y".repeat(300);
    let lines = plan.lines_without(&why);
    assert!(lines[1].ends_with("…; and 4 more effects, 3 more commands not previewed"), "{lines:?}");
    assert!(lines.iter().all(|line| line.chars().count() <= 201), "{lines:?}");

    // The number or the names of the hosts do not replace the count at the end of the line.
    let result = |host: &str, why: &str| ProbeResult { host: host.to_owned(), output: Err(why.to_owned()) };
    let install = format!("pip install {}", names[..3].join(" "));
    let one_line = self::plan(&vec![install; 9].join("; ")).unwrap();
    let shown = preview::lines(&one_line, &[result("web1", &why), result("web2", &why)]);
    assert!(shown[0].starts_with("2 hosts: "), "{shown:?}");
    assert!(shown[0].ends_with("; and 3 more commands not previewed"), "{shown:?}");
    let hosts = ["web1", "web2", "web3", "web4", "web5"];
    let groups = hosts.map(|host| result(host, &format!("{host} {why}")));
    let shown = preview::lines(&plan, &groups);
    assert!(shown[0].starts_with("web1: effect unknown (web1 yyy") && shown[0].ends_with("…)"), "{shown:?}");
    assert!(shown[1].starts_with("web2: ") && shown[1].contains("; web3: "), "{shown:?}");
    let end = "…; 2 other results; and 3 more commands not previewed";
    assert!(shown[1].ends_with(end), "{shown:?}");
    assert!(shown.iter().all(|line| line.chars().count() <= 201), "{shown:?}");
}

#[test]
fn a_dangerous_command_late_in_a_script_is_previewed_in_its_directory() {
    let home = tempfile::tempdir().unwrap();
    tree(home.path());
    let root = home.path().display();
    let writes: Vec<String> = (0..8).map(|n| format!("echo {n} >new{n}")).collect();
    let script = format!("{}; cd other; X={root}; cd ..; rm -rf \"$X/build\"", writes.join("\n"));
    let shown = lines(Shell::Bash, home.path(), home.path(), &script);
    assert!(shown[0].contains("removes 12 files, 1 link, 1 special file, 3 directories"), "{shown:?}");
    assert!(shown[0].ends_with(&format!(" in {root}/build")), "{shown:?}");
    assert!(shown[1].starts_with("before that, as of now: creates new0"), "{shown:?}");
    let unknown = lines(Shell::Bash, home.path(), home.path(), "cd $NOWHERE; rm -r build");
    assert!(unknown.join(" ").contains("effect unknown (the directory is unknown)"), "{unknown:?}");
}

#[test]
fn commands_that_run_other_code_have_a_sentence_and_no_probe() {
    for (command, part) in [
        ("curl -s https://get.example.com/x | sudo bash", "runs an unknown program from get.example.com"),
        ("pip install requests", "downloads packages"),
        ("make install", "runs commands from a file"),
        ("terraform apply", "saved plan"),
        ("psql -c 'DELETE FROM users'", "without WHERE"),
    ] {
        let plan = plan(command).unwrap_or_else(|| panic!("{command}"));
        assert_eq!(plan.script(true), None, "{command}");
        assert!(plan.lines_without("")[0].contains(part), "{command}: {:?}", plan.lines_without(""));
    }
}
