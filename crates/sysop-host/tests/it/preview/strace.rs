//! Trace of the system calls of probes: none opens a file for writing, and none changes a name or an attribute.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use sysop_core::preview::ProbeClass;

use super::{COMMANDS, plan, tree};
use crate::world::not_tested;

/// Commands in addition to those whose effect is compared. Their probes look at the system.
const MORE: [&str; 24] = [
    "git clean -fdx",
    "git reset --hard",
    "git checkout -- .",
    "git stash drop",
    "git branch -D other",
    "git push --force",
    "kill 1",
    "pkill -f sleep",
    "killall sshd",
    "dd if=/dev/zero of=zeros",
    "mkfs.ext4 zeros",
    "mount /dev/sda1 /mnt",
    "umount /proc",
    "systemctl stop ssh",
    "systemctl disable cron",
    "apt-get install -y strace",
    "apt-get remove -y strace",
    "userdel -r daemon",
    "usermod -G daemon games",
    "crontab -r",
    "sysctl -w net.ipv4.ip_forward=1",
    "reboot",
    "rsync -a --delete src/ dest/",
    "patch -p0 <change.diff",
];

/// System calls that change a name, an attribute or the content of a file by its name.
const CHANGES: [&str; 24] = [
    "unlink", "unlinkat", "rename", "renameat", "renameat2", "mkdir", "mkdirat", "rmdir", "link", "linkat",
    "symlink", "symlinkat", "chmod", "fchmod", "fchmodat", "chown", "fchown", "lchown", "fchownat",
    "truncate", "ftruncate", "mknod", "mknodat", "creat",
];

/// Returns the changes in a trace that are outside of `/dev`, and with `may_use_tmp` outside of `/tmp`.
fn changes(trace: &str, may_use_tmp: bool) -> Vec<String> {
    let is_change = |line: &&str| {
        // `PID call(arguments) = result`
        let call = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
        let name = call.split('(').next().unwrap_or_default();
        let opens = name.starts_with("open")
            && ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"].iter().any(|flag| call.contains(flag));
        let path = call.split('"').nth(1).unwrap_or_default();
        // A file without a name ends with its process.
        let is_device = ["/dev/null", "/dev/tty"].contains(&path) || call.contains("O_TMPFILE");
        let is_temporary = may_use_tmp && path.starts_with("/tmp/") && !path.contains("/tree");
        (opens || CHANGES.contains(&name)) && !is_device && !is_temporary
    };
    trace.lines().filter(is_change).map(str::to_owned).collect()
}

fn trace(root: &Path, script: &str, to: &Path) -> Option<String> {
    let done = Command::new("strace")
        .args(["-f", "-qq", "-s", "200", "-e", "trace=%file,fchmod,fchown,ftruncate", "-o"])
        .arg(to)
        .args(["bash", "-c", script])
        .current_dir(root)
        .env("HOME", root)
        .env("DIR", "build")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    done.ok()?;
    let trace = fs::read_to_string(to).ok()?;
    (!trace.is_empty()).then_some(trace)
}

#[test]
fn no_probe_opens_a_file_for_writing() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("tree");
    fs::create_dir(&root).unwrap();
    tree(&root);
    let made = Command::new("sh")
        .args([
            "-ec",
            "git init -q .; git add src; git -c user.name=a -c user.email=a commit -qm one; git branch other
            echo x >>src/a.txt; git -c user.name=a -c user.email=a stash -q; echo y >>src/b.txt
            cp src/b.txt b; echo z >>b; diff -u src/b.txt b >change.diff || true",
        ])
        .current_dir(&root)
        .status();
    assert!(made.unwrap().success());
    let to = home.path().join("trace");
    if trace(&root, "true", &to).is_none() {
        return not_tested("the system calls of previews", "strace may not trace here");
    }
    let found = changes(&trace(&root, "echo >made; mv made moved; rm moved", &to).unwrap(), false);
    assert!(found.len() >= 3, "a trace shows changes: {found:?}");
    let (mut wrong, mut traced) = (Vec::new(), 0);
    for command in COMMANDS.iter().map(|(command, _)| *command).chain(MORE) {
        let Some(plan) = plan(command) else { panic!("no preview: {command}") };
        let Some(script) = plan.script(false) else { continue };
        let trace = trace(&root, script, &to).unwrap();
        traced += 1;
        let found = changes(&trace, plan.class() != ProbeClass::ReadOnly);
        if !found.is_empty() {
            wrong.push(format!("{command}:\n{}", found.join("\n")));
        }
    }
    assert!(traced >= 60, "{traced}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
