//! A task: a request to an agent, shell scripts that prepare its workspace and check the result, and the directory that
//! one run gets.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use tempfile::TempDir;

/// Functions for the checks.
const PRELUDE: &str = include_str!("prelude.sh");
/// Maximum time for a script of a task.
const SCRIPT_TIME_MAX: Duration = Duration::from_secs(60);
/// Interval at which a running process is checked.
const POLL: Duration = Duration::from_millis(20);

/// A task, as in its TOML file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EvalTask {
    /// Stem of the file's name.
    #[serde(skip)]
    pub(crate) name: String,
    /// Text that the agent gets.
    pub(crate) prompt: String,
    /// True if one or two commands solve the task.
    pub(crate) easy: bool,
    pub(crate) tags: Vec<String>,
    /// Script that prepares the workspace. The workspace is the working directory of all scripts.
    setup: String,
    /// Script that exits with 0 if the task is solved. The functions of `prelude.sh` are available.
    check: String,
    /// Script that solves the task. It proves that the check can pass.
    solution: String,
    /// Script with a plausible but wrong solution, which the check must reject.
    pub(crate) wrong: Option<String>,
}

/// Returns the faults of a task: its check passes before the solution, fails after it, or passes after a wrong
/// solution.
pub(crate) fn faults(task: &EvalTask) -> Result<Vec<&'static str>> {
    let mut faults = Vec::new();
    let folder = TaskFolder::prepare(task)?;
    if folder.check(task)?.is_none() {
        faults.push("the check passes before the solution");
    }
    if !folder.script(&format!("set -e\n{}", task.solution))?.0 {
        faults.push("the solution fails");
    }
    if folder.check(task)?.is_some() {
        faults.push("the check fails after the solution");
    }
    // The check of a solved task may have changed the workspace.
    let folder = TaskFolder::prepare(task)?;
    folder.script(&task.solution)?;
    fs::write(folder.workspace().join("stray file.txt"), "").context("cannot add a file")?;
    if folder.check(task)?.is_none() {
        faults.push("the check passes although there is a stray file");
    }
    if let Some(wrong) = &task.wrong {
        let folder = TaskFolder::prepare(task)?;
        folder.script(wrong)?;
        if folder.check(task)?.is_none() {
            faults.push("the check passes after the wrong result");
        }
    }
    Ok(faults)
}

/// Reads the tasks of a directory, sorted by name.
pub(crate) fn load(folder: &Path) -> Result<Vec<EvalTask>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let paths: BTreeSet<PathBuf> =
        entries.map(|entry| entry.map(|it| it.path())).collect::<Result<_, _>>()?;
    let files = paths.iter().filter(|path| path.extension().is_some_and(|ending| ending == "toml"));
    let tasks: Vec<EvalTask> = files.map(|path| read(path)).collect::<Result<_>>()?;
    if tasks.is_empty() {
        bail!("{} contains no task (NAME.toml)", folder.display());
    }
    Ok(tasks)
}

fn read(path: &Path) -> Result<EvalTask> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut task: EvalTask =
        toml::from_str(&text).with_context(|| format!("{} is not a task", path.display()))?;
    task.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(task)
}

/// The directory of one run, removed on drop. It contains the workspace, the home directory, a directory for temporary
/// files, and the initial state that the check compares with the result.
pub(crate) struct TaskFolder {
    folder: TempDir,
}

impl TaskFolder {
    /// Makes a directory and runs the set-up of the task in its workspace.
    pub(crate) fn prepare(task: &EvalTask) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("eval-").tempdir().context("cannot make a folder")?;
        let this = Self { folder };
        for name in ["workspace", "home", "tmp", "scratch"] {
            fs::create_dir(this.path(name)).context("cannot make a folder")?;
        }
        let identity = "[user]\n\tname = Operator\n\temail = operator@example.net\n[safe]\n\tdirectory = *\n";
        fs::write(this.path("home").join(".gitconfig"), identity).context("cannot configure git")?;
        let (succeeded, output) = this.script(&format!("set -eu\n{}", task.setup))?;
        if !succeeded {
            bail!("the set-up of {} failed: {output}", task.name);
        }
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(this.workspace()).arg(this.path("before"));
        if !copy.status().context("cannot start cp")?.success() {
            bail!("cannot copy the workspace of {}", task.name);
        }
        Ok(this)
    }

    /// Returns `None` if the check passes, or its complaint.
    pub(crate) fn check(&self, task: &EvalTask) -> Result<Option<String>> {
        let (succeeded, output) = self.script(&format!("{PRELUDE}\n{}", task.check))?;
        Ok((!succeeded).then_some(output))
    }

    /// Runs a script with `sh` in the workspace. Returns true if it succeeded, and its output. If it failed, the output
    /// ends with its exit status.
    pub(crate) fn script(&self, script: &str) -> Result<(bool, String)> {
        let output = self.path("output");
        let file = File::create(&output).context("cannot save the output of a script")?;
        let mut sh = self.command("sh");
        sh.args(["-c", script]).stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        sh.env("BEFORE", self.path("before")).env("SCRATCH", self.path("scratch"));
        let status = wait_until(sh.spawn().context("cannot start sh")?, Instant::now() + SCRIPT_TIME_MAX)?;
        let output = fs::read(&output).context("cannot read the output of a script")?;
        let mut output = String::from_utf8_lossy(&output).trim().to_owned();
        let failure = match status {
            Some(status) if status.success() => return Ok((true, output)),
            Some(status) => status.to_string(),
            None => format!("it took more than {SCRIPT_TIME_MAX:?}"),
        };
        let separator = if output.is_empty() { "" } else { "\n" };
        output.push_str(&format!("{separator}{failure}"));
        Ok((false, output))
    }

    /// Returns a command that runs in the workspace and in a separate process group. Of the caller's environment, it
    /// gets only PATH. Because Ctrl+C does not reach other process groups, the kernel kills the command when this
    /// thread ends.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        command.current_dir(self.workspace()).process_group(0).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.path("home")).env("TMPDIR", self.path("tmp"));
        command.env("LANG", "C.UTF-8").env("TZ", "UTC").env("GIT_CONFIG_NOSYSTEM", "1");
        command
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.path("workspace")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Waits for a child that leads a process group, and then kills what is left of the group. Returns `None` if the child
/// had to be killed at the deadline.
pub(crate) fn wait_until(mut child: Child, deadline: Instant) -> Result<Option<ExitStatus>> {
    let group = Pid::from_child(&child);
    let mut late = false;
    // The leader is not reaped before the group is killed, so that the group's id cannot belong to another process.
    while !has_exited(group)? {
        late = Instant::now() >= deadline;
        if late {
            break;
        }
        std::thread::sleep(POLL);
    }
    // The group may be gone already.
    let _ = kill_process_group(group, Signal::KILL);
    let status = child.wait().context("cannot wait for a program")?;
    Ok((!late).then_some(status))
}

/// Returns true if a child has exited, and leaves it to be reaped.
fn has_exited(child: Pid) -> Result<bool> {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(child), options).context("cannot look at a program")?.is_some())
}
