//! Runs a task with sysop on a fresh machine, without an API key. The workspace, the tools and the shell are real; the
//! model is scripted.

use anyhow::{Context, Result};

use crate::setup;
use crate::workspace::{cargo, root, step, target};

/// Cargo profile that builds in two minutes; `release` takes seven minutes.
const PROFILE: &str = "demo";

/// Builds sysop and runs a small task in a separate folder.
pub(crate) fn run(rest: &[String]) -> Result<()> {
    setup::build()?;
    // The web page is left out: it needs Node, and this task runs in the terminal.
    step("build sysop", cargo().args(["build", "--profile", PROFILE, "--locked", "--package", "sysop"]))?;
    let workspace = root().join("target/demo-workspace");
    std::fs::create_dir_all(&workspace).with_context(|| format!("cannot create {}", workspace.display()))?;
    let mut sysop = std::process::Command::new(target().join(PROFILE).join("sysop"));
    sysop.current_dir(&workspace).args(["exec", "--model", "demo", "--approve", "auto"]);
    if rest.is_empty() {
        sysop.arg("demo: write a script here that greets, run it, then make it greet louder");
    } else {
        sysop.args(rest);
    }
    step(&format!("run sysop in {}", workspace.display()), &mut sysop)
}
