//! Measures how many tasks of operations an agent solves with a model, and the requests and tokens that it needs.
//!
//! The tasks are data: `xtask/eval/NAME.toml`, or files in another directory. Each run gets a new workspace and a new
//! home directory. The agent is `sysop exec`, or a small loop for comparison. A script decides from the state of the
//! workspace if the task is solved; it never reads the model's answer. The model's commands run as the user who started
//! the evaluation, so use a machine that may be damaged.

mod agent;
mod proxy;
mod reference;
mod table;
mod task;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::setup;
use crate::workspace::{cargo, root, step, target};
use agent::{AgentKind, AgentSetup, Limits, Wire};
use proxy::Upstream;
use table::TaskResult;
use task::EvalTask;

/// Cargo profile of the measured program, if none is given.
const PROFILE: &str = "demo";

const USAGE: &str = "\
Usage: cargo xtask eval [OPTIONS] [NAME...] [-- ARGUMENTS]

Runs the tasks, or only those named, and prints how many of them each agent solved.

  --model MODEL      Model on the server [default: $LLM_DEFAULT_MODEL]
  --base-url URL     Server [default: $LLM_BASE_URL, or $OLLAMA_HOST with --wire ollama]; the key is $LLM_AUTH_TOKEN
  --wire WIRE        `openai` or `ollama` [default: openai]
  --agent AGENT      `sysop`, `reference` (a loop with a schema and two examples) or `both` [default: both]
  --tasks DIR        Folder with tasks [default: xtask/eval]
  --reps N           Runs of each task [default: 3]
  --steps N          Maximum requests of the agent's loop in a run [default: 20]
  --minutes N        Maximum time of a run [default: 10]
  --sysop FILE       Program to measure, such as an older version [default: build this one]
  --json FILE        Save all numbers as JSON
  --list             List the tasks
  --prove            Check the tasks with their solutions and wrong results, without a model
  -- ARGUMENTS       Further arguments of `sysop exec`

The model's commands run as you, without asking. Use a container or a machine that may be damaged.";

/// Parsed arguments.
struct EvalArgs {
    model: Option<String>,
    base_url: Option<String>,
    wire: Wire,
    agents: Vec<AgentKind>,
    tasks: PathBuf,
    reps: u32,
    limits: Limits,
    sysop: Option<PathBuf>,
    json: Option<PathBuf>,
    list: bool,
    prove: bool,
    names: Vec<String>,
    arguments: Vec<String>,
}

impl EvalArgs {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut this = Self {
            model: None,
            base_url: None,
            wire: Wire::Openai,
            agents: vec![AgentKind::Sysop, AgentKind::Reference],
            tasks: root().join("xtask/eval"),
            reps: 3,
            limits: Limits { time: Duration::from_secs(600), steps: 20 },
            sysop: None,
            json: None,
            list: false,
            prove: false,
            names: Vec::new(),
            arguments: Vec::new(),
        };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--list" => this.list = true,
                "--prove" => this.prove = true,
                "--" => this.arguments = rest.by_ref().cloned().collect(),
                option if option.starts_with('-') => {
                    let value = rest.next().with_context(|| format!("{option} needs a value\n\n{USAGE}"))?;
                    this.set(option, value)?;
                }
                name => this.names.push(name.to_owned()),
            }
        }
        Ok(this)
    }

    fn set(&mut self, option: &str, value: &str) -> Result<()> {
        let number = || match value.parse::<u32>() {
            Ok(number) if number > 0 => Ok(number),
            _ => bail!("{option} needs a number above 0, not `{value}`"),
        };
        match option {
            "--model" => self.model = Some(value.to_owned()),
            "--base-url" => self.base_url = Some(value.to_owned()),
            "--tasks" => self.tasks = value.into(),
            "--sysop" => self.sysop = Some(value.into()),
            "--json" => self.json = Some(value.into()),
            "--reps" => self.reps = number()?,
            "--steps" => self.limits.steps = number()?,
            "--minutes" => self.limits.time = Duration::from_secs(u64::from(number()?) * 60),
            "--wire" => {
                self.wire = match value {
                    "openai" => Wire::Openai,
                    "ollama" => Wire::Ollama,
                    _ => bail!("--wire is `openai` or `ollama`, not `{value}`"),
                }
            }
            "--agent" => {
                self.agents = match value {
                    "sysop" => vec![AgentKind::Sysop],
                    "reference" => vec![AgentKind::Reference],
                    "both" => vec![AgentKind::Sysop, AgentKind::Reference],
                    _ => bail!("--agent is `sysop`, `reference` or `both`, not `{value}`"),
                }
            }
            _ => bail!("unknown option {option}\n\n{USAGE}"),
        }
        Ok(())
    }

    /// Returns the settings of the agents, after building sysop if no program was given.
    fn setup(&self) -> Result<AgentSetup> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let model = self.model.clone().or_else(|| variable("LLM_DEFAULT_MODEL"));
        let model = model.context("no model: use --model, or set LLM_DEFAULT_MODEL")?;
        let url = self.base_url.clone().or_else(|| match self.wire {
            Wire::Openai => variable("LLM_BASE_URL"),
            Wire::Ollama => variable("OLLAMA_HOST").or_else(|| Some("127.0.0.1:11434".to_owned())),
        });
        let url = url.context("no server: use --base-url, or set LLM_BASE_URL")?;
        let upstream = Upstream::parse(&url, variable("LLM_AUTH_TOKEN"))?;
        let measured = self.agents.contains(&AgentKind::Sysop);
        let sysop = match &self.sysop {
            Some(sysop) => sysop.clone(),
            None => target().join(PROFILE).join("sysop"),
        };
        if measured && self.sysop.is_none() {
            setup::build()?;
            let mut build = cargo();
            build.args(["build", "--profile", PROFILE, "--locked", "--package", "sysop"]);
            step("build sysop", &mut build)?;
        }
        let logs = target().join("eval");
        std::fs::create_dir_all(&logs).with_context(|| format!("cannot create {}", logs.display()))?;
        let limits = Limits { time: self.limits.time, steps: self.limits.steps };
        let arguments = self.arguments.clone();
        Ok(AgentSetup { sysop, arguments, wire: self.wire, model, upstream, limits, logs })
    }
}

/// Runs the tasks and prints the table.
pub(crate) fn run(rest: &[String]) -> Result<()> {
    if rest.iter().take_while(|word| *word != "--").any(|word| word == "--help" || word == "-h") {
        eprintln!("{USAGE}");
        return Ok(());
    }
    let args = EvalArgs::parse(rest)?;
    let tasks = chosen(task::load(&args.tasks)?, &args.names)?;
    if args.list {
        for task in &tasks {
            let half = if task.easy { "easy" } else { "hard" };
            eprintln!("{:24} {half}  {}", task.name, task.tags.join(", "));
        }
        return Ok(());
    }
    setup::need(setup::EVAL)?;
    if args.prove {
        return prove(&tasks);
    }
    let setup = args.setup()?;
    let mut results = Vec::new();
    for task in &tasks {
        for agent in &args.agents {
            let mut result = TaskResult { task, agent: *agent, runs: Vec::new() };
            for rep in 1..=args.reps {
                let run = agent::run(*agent, task, &setup, rep)?;
                let solved = if run.solved { "solved" } else { "not solved" };
                let complaint = run.complaint.as_deref().and_then(|text| text.lines().next()).unwrap_or("");
                let (end, seconds) = (run.end.name(), run.seconds);
                eprintln!(
                    "    {} {} {rep}: {solved} ({end}, {seconds:.0} s) {complaint}",
                    task.name,
                    agent.name()
                );
                result.runs.push(run);
            }
            results.push(result);
            // After each task, so that an interruption loses nothing.
            if let Some(file) = &args.json {
                let text = format!("{:#}\n", table::json(&results, &setup.model));
                std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
            }
        }
    }
    eprintln!("\n{}\nThe agents' output is in {}.", table::table(&results), setup.logs.display());
    Ok(())
}

/// Checks that the check of each task fails before the solution and passes after it.
fn prove(tasks: &[EvalTask]) -> Result<()> {
    let mut found = 0;
    for task in tasks {
        let faults = task::faults(task)?;
        found += faults.len();
        let faults = if faults.is_empty() { "ok".to_owned() } else { faults.join("; ") };
        eprintln!("    {}: {faults}", task.name);
    }
    if found > 0 {
        bail!("the tasks have {found} faults");
    }
    Ok(())
}

/// Returns the tasks with these names, or all.
fn chosen(tasks: Vec<EvalTask>, names: &[String]) -> Result<Vec<EvalTask>> {
    if let Some(name) = names.iter().find(|name| tasks.iter().all(|task| task.name != **name)) {
        bail!("no task `{name}`; `cargo xtask eval --list` lists the tasks");
    }
    Ok(tasks.into_iter().filter(|task| names.is_empty() || names.contains(&task.name)).collect())
}
