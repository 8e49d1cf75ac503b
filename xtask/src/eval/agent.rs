//! Runs an agent on a task: sysop, or the reference loop. The model is reached through the counting proxy.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::proxy::{CountingProxy, ModelUse, Upstream};
use super::reference;
use super::task::{EvalTask, TaskFolder, wait_until};

/// Protocol between an agent and the model's server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Openai,
    Ollama,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgentKind {
    Sysop,
    Reference,
}

impl AgentKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Sysop => "sysop",
            Self::Reference => "reference",
        }
    }
}

/// Reason that the agent stopped. The check of the workspace follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgentEnd {
    Done,
    /// The agent asked for an approval, and there is nobody to give it.
    Approval,
    /// The maximum number of requests was reached.
    Steps,
    Timeout,
    Error,
}

impl AgentEnd {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Approval => "approval",
            Self::Steps => "steps",
            Self::Timeout => "timeout",
            Self::Error => "error",
        }
    }
}

pub(crate) struct Limits {
    pub(crate) time: Duration,
    /// Requests to the model in the agent's loop.
    pub(crate) steps: u32,
}

/// The agents' common settings.
pub(crate) struct AgentSetup {
    pub(crate) sysop: PathBuf,
    /// Further arguments of `sysop exec`.
    pub(crate) arguments: Vec<String>,
    pub(crate) wire: Wire,
    pub(crate) model: String,
    pub(crate) upstream: Upstream,
    pub(crate) limits: Limits,
    /// Directory for the agents' output.
    pub(crate) logs: PathBuf,
}

/// Result of one run.
pub(crate) struct TaskRun {
    pub(crate) solved: bool,
    pub(crate) end: AgentEnd,
    /// Output of the check if the task is not solved.
    pub(crate) complaint: Option<String>,
    pub(crate) model: ModelUse,
    pub(crate) seconds: f64,
}

/// Runs an agent once on a task, in a new directory, and checks the result.
pub(crate) fn run(kind: AgentKind, task: &EvalTask, setup: &AgentSetup, rep: u32) -> Result<TaskRun> {
    let folder = TaskFolder::prepare(task)?;
    let proxy = CountingProxy::start(&setup.upstream)?;
    let log = setup.logs.join(format!("{}-{}-{rep}.log", task.name, kind.name()));
    let mut log = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let begun = Instant::now();
    let end = match kind {
        AgentKind::Sysop => sysop(&proxy, &folder, &task.prompt, setup, &log)?,
        AgentKind::Reference => {
            let model = (setup.wire, setup.model.as_str());
            reference::run(&proxy, model, (&folder, &task.prompt), &setup.limits, &mut log)?
        }
    };
    let seconds = begun.elapsed().as_secs_f64();
    let model = proxy.finish();
    let complaint = folder.check(task)?;
    Ok(TaskRun { solved: complaint.is_none(), end, complaint, model, seconds })
}

fn sysop(
    proxy: &CountingProxy,
    folder: &TaskFolder,
    prompt: &str,
    setup: &AgentSetup,
    log: &File,
) -> Result<AgentEnd> {
    let deadline = Instant::now() + setup.limits.time;
    let mut sysop = folder.command(program(&setup.sysop)?);
    sysop.args(["exec", "--approve", "auto", "--json"]).args(&setup.arguments);
    let name = match setup.wire {
        Wire::Openai => {
            sysop.env("LLM_BASE_URL", proxy.base_url()).env("LLM_AUTH_TOKEN", "none");
            sysop.env("LLM_DEFAULT_MODEL", &setup.model);
            format!("openai/{}", setup.model)
        }
        Wire::Ollama => {
            sysop.env("OLLAMA_HOST", proxy.base_url());
            format!("ollama/{}", setup.model)
        }
    };
    sysop.env("SYSOP_MAX_ITERATIONS", setup.limits.steps.to_string()).args(["--model", &name, "--", prompt]);
    sysop.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?);
    let status = wait_until(sysop.spawn().context("cannot start sysop")?, deadline)?;
    Ok(match status.map(|status| status.code()) {
        None => AgentEnd::Timeout,
        Some(Some(0)) => AgentEnd::Done,
        Some(Some(3)) => AgentEnd::Approval,
        Some(Some(_) | None) => AgentEnd::Error,
    })
}

/// Returns the absolute path of the program, because the agent runs in another directory.
fn program(sysop: &Path) -> Result<PathBuf> {
    sysop.canonicalize().with_context(|| format!("cannot find {}", sysop.display()))
}
