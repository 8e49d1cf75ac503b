//! The guard script alone, with each shell that a target may have. No ssh, no root needed for the files of the test.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Barrier;
use std::time::Instant;

use sysop_core::guard::plan;
use sysop_core::policy::{CommandContext, Survey};
use tempfile::TempDir;

use crate::world::{DEADLINE, wait_until};

const SCRIPT: &str = include_str!("../../src/ssh/guard/guard.sh");
const RUN: &str = include_str!("../../src/ssh/guard/run.sh");
const SHELLS: [&[&str]; 3] = [&["dash"], &["busybox", "sh"], &["bash", "--posix"]];

/// A target with files of its own and a shell.
struct Target {
    home: TempDir,
    shell: &'static [&'static str],
}

impl Target {
    fn new(shell: &'static [&'static str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("etc")).unwrap();
        Self { home, shell }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.shell[0]);
        command
            .args(&self.shell[1..])
            .args(["-c", r#"S=$(cat "$0"); eval "$S""#])
            .arg(script_file(self.home.path()));
        command.args(arguments).env("SYSOP_GUARD_DIR", self.path("guards")).stdin(Stdio::null());
        command
    }

    /// Returns a command for the script in which every write to a file fails.
    fn on_full_disk(&self, arguments: &[&str]) -> Command {
        let guard = self.command(arguments);
        let mut command = Command::new("sh");
        command.args(["-c", r#"trap '' XFSZ; ulimit -f 0; exec "$@""#, "sh"]);
        command.arg(guard.get_program()).args(guard.get_args()).env("SYSOP_GUARD_DIR", self.path("guards"));
        command.stdin(Stdio::null());
        command
    }

    /// Runs the script. Returns its exit code and its output.
    fn guard(&self, arguments: &[&str]) -> (i32, String) {
        let Output { status, stdout, .. } = self.command(arguments).output().unwrap();
        (status.code().unwrap(), String::from_utf8(stdout).unwrap().trim_end().to_owned())
    }

    /// Arms a guard of the files below `etc`. Returns the output.
    fn arm(&self, id: &str, seconds: &str, hook: &str) -> (i32, String) {
        let etc = self.path("etc").display().to_string();
        let uid = rustix::process::geteuid().as_raw().to_string();
        let paths = ["a", "dir", "link", "new"].map(|name| format!("{etc}/{name}"));
        let mut words = vec!["arm", id, seconds, &uid, "echo kept >kept", hook, ""];
        words.extend(paths.iter().map(String::as_str));
        self.guard(&words)
    }

    fn state(&self, id: &str) -> String {
        self.guard(&["status", id]).1.split(' ').nth(2).unwrap_or_default().to_owned()
    }

    fn wait_for(&self, id: &str, state: &str) {
        wait_until(&format!("[ -f '{}' ]", self.path("guards").join(id).join(state).display()));
    }
}

impl Drop for Target {
    /// Ends the timers: without its guard, a timer ends at its next look.
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.path("guards"));
    }
}

fn script_file(home: &Path) -> PathBuf {
    let path = home.join("guard.sh");
    if !path.exists() {
        fs::write(&path, SCRIPT).unwrap();
    }
    path
}

fn on_each_shell(test: impl Fn(&Target)) {
    for shell in SHELLS {
        test(&Target::new(shell));
    }
}

#[test]
fn a_guard_that_is_not_confirmed_restores_everything() {
    on_each_shell(|target| {
        target.put("etc/a", "old");
        fs::create_dir(target.path("etc/dir")).unwrap();
        target.put("etc/dir/x", "x");
        symlink("a", target.path("etc/link")).unwrap();
        fs::set_permissions(target.path("etc/a"), fs::Permissions::from_mode(0o640)).unwrap();
        let (code, said) = target.arm("g1", "1", "cp kept ../hooked");
        assert!(code == 0 && said.starts_with("G g1 armed 1 setsid "), "{said}");
        target.put("etc/a", "new");
        fs::set_permissions(target.path("etc/a"), fs::Permissions::from_mode(0o666)).unwrap();
        target.put("etc/dir/y", "y");
        fs::remove_file(target.path("etc/link")).unwrap();
        target.put("etc/link", "a file");
        target.put("etc/new", "new");
        target.wait_for("g1", "fired");
        assert_eq!(target.text("etc/a"), "old");
        assert_eq!(fs::metadata(target.path("etc/a")).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(target.path("etc/dir/x").exists() && !target.path("etc/dir/y").exists());
        assert!(fs::symlink_metadata(target.path("etc/link")).unwrap().is_symlink());
        assert!(!target.path("etc/new").exists());
        assert_eq!(target.text("guards/g1/hooked"), "kept\n");
        assert_eq!(target.text("guards/g1/lost/4"), "new", "replaced files are kept");
        assert_eq!(target.guard(&["confirm", "g1"]), (3, "G g1 fired late".to_owned()));
    });
}

#[test]
fn a_confirmed_guard_does_nothing_more() {
    on_each_shell(|target| {
        target.put("etc/a", "old");
        target.arm("g1", "60", "");
        target.put("etc/a", "new");
        assert_eq!(target.guard(&["confirm", "g1"]), (0, "G g1 confirmed timer-alive".to_owned()));
        assert_eq!(target.guard(&["fire", "g1", "late"]), (3, "G g1 confirmed late".to_owned()));
        assert_eq!(target.text("etc/a"), "new");
        assert_eq!(target.arm("g2", "60", "").0, 0, "the lock is released");
    });
}

#[test]
fn a_second_guard_is_refused_while_one_is_armed() {
    on_each_shell(|target| {
        target.arm("g1", "60", "");
        assert_eq!(target.arm("g2", "60", ""), (4, "G g2 busy g1".to_owned()));
        assert_eq!(target.guard(&["list"]).1.lines().count(), 1);
        target.guard(&["fire", "g1", "test"]);
        assert_eq!(target.arm("g1", "60", ""), (4, "G g1 busy used".to_owned()));
        assert_eq!(target.arm("g3", "60", "").0, 0);
    });
}

#[test]
fn a_guard_that_cannot_be_armed_leaves_nothing_behind() {
    on_each_shell(|target| {
        let (code, said) = target.arm("g1", "60", "if then");
        assert!(code == 1 && said == "G g1 unarmed hook", "{said}");
        let uid = rustix::process::geteuid().as_raw().to_string();
        let (code, said) = target.guard(&["arm", "g2", "60", &uid, "", "", "", "/tmp/a\nb"]);
        assert!(code == 1 && said.contains("line break"), "{said}");
        let (code, said) = target.guard(&["arm", "g3", "60", &uid, "exit 1", "", "", "/nowhere/x"]);
        assert!(code == 1 && said.contains("cannot save"), "{said}");
        assert_eq!(target.guard(&["arm", "../g4", "60", &uid, "", "", ""]).0, 2);
        assert_eq!(target.guard(&["list"]), (0, String::new()));
        assert_eq!(target.arm("g5", "60", "").0, 0);
    });
}

#[test]
fn a_failing_hook_is_reported_and_the_files_are_restored() {
    on_each_shell(|target| {
        target.put("etc/a", "old");
        target.arm("g1", "60", "exit 7");
        target.put("etc/a", "new");
        let (code, said) = target.guard(&["fire", "g1", "test"]);
        assert!(code == 0 && said.starts_with("G g1 failed the hook failed with 7;test, rc 1"), "{said}");
        assert_eq!(target.text("etc/a"), "old");
    });
}

/// Two rollbacks at once would remove each other's files.
#[test]
fn a_rollback_on_a_full_disk_is_not_started_twice() {
    on_each_shell(|target| {
        target.put("etc/a", "old");
        let (code, said) = target.arm("g1", "60", "mkdir ../once 2>/dev/null && read go <../go; exit 0");
        assert_eq!(code, 0, "{said}");
        target.put("etc/a", "new");
        let pipe = target.path("guards/g1/go");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let mut firing = target.on_full_disk(&["fire", "g1", "test"]).spawn().unwrap();
        // The hook opens its end once the files are restored.
        let until = Instant::now() + DEADLINE;
        let mut go = loop {
            let pipe = fs::OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&pipe);
            match pipe {
                Ok(pipe) => break pipe,
                Err(error) => assert!(Instant::now() < until, "{:?}: {error}", target.shell),
            }
        };
        let (code, said) = target.guard(&["fire", "g1", "again"]);
        assert_eq!((code, said.as_str()), (3, "G g1 firing late"), "{:?}", target.shell);
        go.write_all(b"go\n").unwrap();
        firing.wait().unwrap();
        assert_eq!((target.text("etc/a").as_str(), target.state("g1").as_str()), ("old", "fired"));
    });
}

#[test]
fn an_unchanged_mode_is_not_written_again() {
    on_each_shell(|target| {
        let changed = |target: &Target| {
            let found = fs::metadata(target.path("etc/a")).unwrap();
            (found.ctime(), found.ctime_nsec())
        };
        target.put("etc/a", "old");
        fs::set_permissions(target.path("etc/a"), fs::Permissions::from_mode(0o644)).unwrap();
        let path = format!("@{}", target.path("etc/a").display());
        let uid = rustix::process::geteuid().as_raw().to_string();
        target.guard(&["arm", "g1", "60", &uid, "", "exit 0", "", &path]);
        let before = changed(target);
        assert!(target.guard(&["fire", "g1", "test"]).1.starts_with("G g1 fired "));
        assert_eq!(changed(target), before);
        target.guard(&["arm", "g2", "60", &uid, "", "exit 0", "", &path]);
        fs::set_permissions(target.path("etc/a"), fs::Permissions::from_mode(0o777)).unwrap();
        target.guard(&["fire", "g2", "test"]);
        assert_eq!(fs::metadata(target.path("etc/a")).unwrap().mode() & 0o777, 0o644);
    });
}

/// Returns the part of a hook that loads the firewall's rules again; the rest would touch this machine.
fn firewall_hook() -> String {
    let context = CommandContext { folder: Some("/srv".to_owned()), ..CommandContext::bash() };
    let hook = plan("nft flush ruleset", &Survey::elsewhere(context), None).unwrap().hook;
    let lines = hook.lines().skip_while(|line| *line != "w=");
    let end = hook.lines().position(|line| line.ends_with("|| bad=1") && line.contains("$w")).unwrap();
    let begin = hook.lines().position(|line| line == "w=").unwrap();
    lines.take(end - begin + 1).collect::<Vec<_>>().join("\n")
}

#[test]
fn firewall_rules_that_cannot_be_loaded_again_make_the_rollback_incomplete() {
    on_each_shell(|target| {
        fs::create_dir(target.path("stubs")).unwrap();
        for program in ["nft", "iptables-restore"] {
            target.put(&format!("stubs/{program}"), "#!/bin/sh\nexit $(cat \"${0%/*}/code\")\n");
            let all = fs::Permissions::from_mode(0o755);
            fs::set_permissions(target.path(&format!("stubs/{program}")), all).unwrap();
        }
        let stubs = target.path("stubs").display().to_string();
        let hook = format!(
            "PATH={stubs}:$PATH bad=0; echo rules >nft; echo rules >iptables\n{}\nexit $bad",
            firewall_hook()
        );
        for (id, code, state) in [("g1", "1", "failed"), ("g2", "0", "fired")] {
            target.put("stubs/code", code);
            target.arm(id, "60", &hook);
            let (_, said) = target.guard(&["fire", id, "test"]);
            assert!(said.starts_with(&format!("G {id} {state} ")), "{code}: {said}");
        }
    });
}

#[test]
fn a_dead_timer_is_reported_and_the_guard_can_still_fire() {
    on_each_shell(|target| {
        target.put("etc/a", "old");
        let (_, said) = target.arm("g1", "60", "");
        let pid: i32 = said.split(' ').nth(5).unwrap().parse().unwrap();
        let process = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
        let until = Instant::now() + DEADLINE;
        while !target.guard(&["status", "g1"]).1.contains("timer=dead") {
            assert!(Instant::now() < until);
        }
        target.put("etc/a", "new");
        assert_eq!(target.guard(&["fire", "g1", "test"]).0, 0);
        assert_eq!(target.text("etc/a"), "old");
        let (_, said) = target.arm("g2", "60", "");
        // The number of the dead timer may belong to another process by now: the start time tells them apart.
        fs::write(target.path("guards/g2/pid"), format!("{} 1\n", std::process::id())).unwrap();
        assert!(target.guard(&["status", "g2"]).1.contains("timer=dead"), "{said}");
    });
}

#[test]
fn a_check_that_passed_before_and_fails_now_is_bad() {
    on_each_shell(|target| {
        target.put("etc/a", "good");
        let file = target.path("etc/a").display().to_string();
        let uid = rustix::process::geteuid().as_raw().to_string();
        let checks = format!("grep good {file}\ngrep bad {file}");
        target.guard(&["arm", "g1", "60", &uid, "", "", &checks, &file]);
        assert_eq!(target.guard(&["check", "g1"]), (0, "G g1 checked".to_owned()));
        let full = target.on_full_disk(&["check", "g1"]).output().unwrap();
        let said = String::from_utf8(full.stdout).unwrap();
        assert!(full.status.code() == Some(1) && said.contains("no result"), "{said}");
        target.put("etc/a", "other");
        assert_eq!(target.guard(&["check", "g1"]).0, 1);
    });
}

#[test]
fn the_change_is_ended_before_it_is_rolled_back() {
    on_each_shell(|target| {
        target.put("etc/a", "old");
        let (_, said) = target.arm("g1", "60", "");
        let folder = said.split(' ').nth(6).unwrap();
        let file = target.path("etc/a").display().to_string();
        let change = format!("echo 1 >{file}; (while sleep 0.05; do echo late >{file}; done) & wait");
        let mut running = Command::new("sh")
            .args(["-c", &format!("{}\nexit $e", RUN.trim_end()), "sh", folder, &change])
            .spawn()
            .unwrap();
        let until = Instant::now() + DEADLINE;
        while target.text("etc/a") != "late\n" {
            assert!(Instant::now() < until);
        }
        assert_eq!(target.guard(&["fire", "g1", "test"]).0, 0);
        running.wait().unwrap();
        assert_eq!(target.text("etc/a"), "old");
        let late = Command::new("sh")
            .args(["-c", &format!("{}\nexit $e", RUN.trim_end()), "sh", folder, &format!("echo no >{file}")])
            .output()
            .unwrap();
        assert_eq!((late.status.code(), target.text("etc/a").as_str()), (Some(3), "old"));
    });
}

#[test]
fn the_login_user_can_ask_for_the_rollback_without_the_script() {
    on_each_shell(|target| {
        target.put("etc/a", "old");
        target.arm("g1", "60", "");
        target.put("etc/a", "new");
        target.put("guards/g1/user/fire", "");
        target.wait_for("g1", "fired");
        assert_eq!(target.text("etc/a"), "old");
    });
}

#[test]
fn confirm_and_fire_have_exactly_one_winner() {
    let wins: Vec<[usize; 2]> = std::thread::scope(|scope| {
        let racing = SHELLS.map(|shell| scope.spawn(move || race(&Target::new(shell), 67)));
        racing.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    eprintln!("confirm and fire won {wins:?} times");
}

/// Lets a confirmation race with a rollback, again and again. Returns how often each won.
fn race(target: &Target, rounds: usize) -> [usize; 2] {
    let mut wins = [0, 0];
    for round in 0..rounds {
        let id = format!("g{round}");
        target.put("etc/a", "old");
        let (code, said) = target.arm(&id, "60", "");
        assert_eq!(code, 0, "{:?}: {said}", target.shell);
        target.put("etc/a", "new");
        let start = Barrier::new(2);
        let racing = std::thread::scope(|scope| {
            let threads = ["confirm", "fire"].map(|verb| {
                let (start, id) = (&start, id.as_str());
                scope.spawn(move || {
                    start.wait();
                    target.guard(&[verb, id])
                })
            });
            threads.map(|thread| thread.join().unwrap())
        });
        let (content, state) = (target.text("etc/a"), target.state(&id));
        match [racing[0].0, racing[1].0] {
            [0, 3] => assert_eq!((content.as_str(), state.as_str()), ("new", "confirmed")),
            [3, 0] => assert_eq!((content.as_str(), state.as_str()), ("old", "fired")),
            _ => panic!("{:?}: {racing:?} {content} {state}", target.shell),
        }
        wins[usize::from(racing[0].0 == 3)] += 1;
    }
    wins
}
