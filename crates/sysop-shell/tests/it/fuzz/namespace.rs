//! Runs batches of commands in their own namespaces and reports their changes.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

use sysop_shell::Dialect;

const SCRIPT: &str = include_str!("namespace.sh");
/// User and group that root becomes: root inside the namespaces must not be root outside.
const NOBODY: &str = "65534";
/// Time limit of a batch, in seconds; each command has 1.
const BATCH_SECONDS_MAX: &str = "600";
/// Requirements of the script besides the shells.
const PROGRAMS: &str = "util-linux (unshare, setpriv, mount), iproute2, coreutils, findutils, diffutils, bash, dash, zsh, busybox and git";

/// A command, and the dialect in which it was analyzed.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) command: String,
    pub(super) dialect: Dialect,
}

/// Commands that run one after another in the same namespaces.
pub(super) struct Batch {
    script: String,
}

/// Result of a batch.
pub(super) struct Outcome {
    /// Each change, in the script's wording.
    pub(super) changes: Vec<String>,
    /// Commands started, once per shell of the dialect.
    pub(super) runs: usize,
    /// Commands that exited with 0.
    pub(super) succeeded: usize,
}

fn shells(dialect: Dialect) -> &'static [&'static str] {
    match dialect {
        Dialect::Bash => &["bash -c"],
        Dialect::Sh => &["dash -c", "busybox sh -c", "bash --posix -c"],
        // An interactive zsh differs, for example by not having comments.
        Dialect::Zsh => &["zsh -f -c", "zsh -f -i -c"],
        Dialect::Fish | Dialect::Csh | Dialect::Unknown => panic!("commands in {dialect:?} are not analyzed"),
    }
}

impl Batch {
    pub(super) fn new(cases: &[Case]) -> Self {
        let runs = cases.iter().flat_map(|case| {
            let quoted = shell_words::quote(&case.command).into_owned();
            shells(case.dialect).iter().map(move |shell| format!("run {shell} {quoted}\n"))
        });
        Self { script: SCRIPT.replace("BATCH\n", &format!("{}\n", runs.collect::<String>())) }
    }

    pub(super) fn run(&self) -> Outcome {
        let mut unshare = namespaces();
        unshare
            .args(["timeout", "-s", "KILL", BATCH_SECONDS_MAX, "sh"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = unshare
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start unshare: {error}; the fuzz needs {PROGRAMS}"));
        let mut stdin = child.stdin.take().expect("standard input is a pipe");
        let script = self.script.clone();
        let writer = std::thread::spawn(move || stdin.write_all(script.as_bytes()));
        let output = child.wait_with_output().expect("the script ends");
        let written = writer.join().expect("the writer does not panic");
        let said = String::from_utf8_lossy(&output.stdout);
        let lines: Vec<&str> = said.lines().collect();
        let complains = String::from_utf8_lossy(&output.stderr);
        assert!(
            written.is_ok() && lines.last() == Some(&"done"),
            "the namespaces do not work: {said}{complains}\nThe fuzz needs user namespaces that an ordinary user may make \
             (sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns=0), overlayfs in them (Linux 5.11) \
             and the programs of {PROGRAMS}."
        );
        outcome(&lines)
    }
}

/// Returns the command that runs another one as root of new namespaces.
fn namespaces() -> Command {
    let is_root = std::fs::metadata("/proc/self").expect("/proc is mounted").uid() == 0;
    // All child processes end with the test, or at their time limit.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if is_root {
        command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
    }
    command.args([
        "unshare", "--map-root-user", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork",
        "--kill-child", "--mount-proc",
    ]);
    command.current_dir("/");
    command
}

fn outcome(lines: &[&str]) -> Outcome {
    let count = lines.iter().find_map(|line| line.strip_prefix("ran: ")?.split_once(", ended with 0: "));
    let (runs, succeeded) = count.unwrap_or_else(|| panic!("the batch did not end: {lines:?}"));
    let changes = lines.iter().filter_map(|line| line.strip_prefix("change: "));
    Outcome {
        changes: changes.map(str::to_owned).collect(),
        runs: runs.parse().expect("a number"),
        succeeded: succeeded.parse().expect("a number"),
    }
}
