//! Runs a task with sysop on a fresh machine, without an API key. The workspace, the tools and the shell are real; the
//! model is scripted.

use std::path::Path;

use anyhow::{Context, Result};

use crate::setup;
use crate::workspace::{cargo, root, step, target};

/// Cargo profile that builds in two minutes; `release` takes seven minutes.
const PROFILE: &str = "demo";

/// Builds sysop and runs a small task in a separate directory. With `--model`, downloads the default local
/// model after asking, and gives it a real task instead. `--yes` answers the question.
pub(crate) fn run(rest: &[String]) -> Result<()> {
    let rest: Vec<_> = rest.iter().filter(|argument| *argument != "--").cloned().collect();
    setup::build()?;
    // Leave out the web page: it needs Node, and this task runs in the terminal.
    step("build sysop", cargo().args(["build", "--profile", PROFILE, "--locked", "--package", "sysop"]))?;
    let workspace = root().join("target/demo-workspace");
    std::fs::create_dir_all(&workspace).with_context(|| format!("cannot create {}", workspace.display()))?;
    let program = target().join(PROFILE).join("sysop");
    if let Some((first, rest)) = rest.split_first()
        && first == "--model"
    {
        return with_model(&program, &workspace, rest);
    }
    let mut sysop = std::process::Command::new(&program);
    sysop.current_dir(&workspace).args(["exec", "--model", "demo", "--approve", "auto"]);
    if rest.is_empty() {
        sysop.arg("demo: write a script here that greets, run it, then make it greet louder");
    } else {
        sysop.args(rest);
    }
    step(&format!("run sysop in {}", workspace.display()), &mut sysop)?;
    eprintln!(
        "\nThis model was scripted. `cargo xtask demo --model` downloads a real one ({LOCAL_MODEL}, 1.1 GB, Apache-2.0) and \
         does a real task with it, offline."
    );
    Ok(())
}

/// Smallest model in `sysop model list` that is good enough for real tasks.
const LOCAL_MODEL: &str = "qwen2.5-coder-1.5b";

/// Downloads the local model and runs a task with it.
fn with_model(program: &Path, workspace: &Path, rest: &[String]) -> Result<()> {
    let (consent, task): (Vec<&String>, Vec<&String>) = rest.iter().partition(|word| *word == "--yes");
    let mut get = std::process::Command::new(program);
    get.args(["model", "get", LOCAL_MODEL]).args(consent);
    step(&format!("get {LOCAL_MODEL}"), &mut get)?;
    let mut sysop = std::process::Command::new(program);
    let model = format!("local/{LOCAL_MODEL}");
    sysop.current_dir(workspace).args(["exec", "-v", "--approve", "auto", "--model", &model]);
    if task.is_empty() {
        sysop.arg("How full is the disk of this directory? Use df -h and answer in one sentence.");
    } else {
        sysop.args(task);
    }
    step(&format!("run sysop with {model} in {}", workspace.display()), &mut sysop)
}
