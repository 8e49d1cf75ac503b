//! Runs a task with sysop on a fresh machine, without an API key. The workspace, the tools and the shell are real; the
//! model is scripted.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::setup;
use crate::workspace::{cargo, root, step, target};

/// Cargo profile that builds in two minutes; `release` takes seven minutes.
const PROFILE: &str = "demo";

/// Smallest model in `sysop model list` that is good enough for real tasks.
const LOCAL_MODEL: &str = "qwen2.5-coder-1.5b";
/// Task for the local model.
const LOCAL_TASK: &str = "How full is the disk of this directory? Use df -h and answer in one sentence.";

/// Arguments of the task.
#[derive(Debug, Default, PartialEq, Eq)]
struct DemoOptions {
    with_model: bool,
    yes: bool,
    program: Option<PathBuf>,
    /// Words of the task, and arguments for `sysop exec`.
    words: Vec<String>,
}

impl DemoOptions {
    fn parse(rest: &[String]) -> Self {
        let mut options = Self::default();
        let mut rest = rest.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--" => options.words.extend(rest.by_ref().cloned()),
                "--model" => options.with_model = true,
                "--yes" => options.yes = true,
                "--program" => options.program = rest.next().map(PathBuf::from),
                _ => options.words.push(argument.clone()),
            }
        }
        options
    }
}

/// Builds sysop and runs a small task in a separate directory. With `--model`, downloads the default local
/// model after asking, and gives it a real task instead. `--yes` answers the question.
pub(crate) fn run(rest: &[String]) -> Result<()> {
    let options = DemoOptions::parse(rest);
    let program = match &options.program {
        Some(program) => program.clone(),
        None => build()?,
    };
    let workspace = root().join("target/demo-workspace");
    std::fs::create_dir_all(&workspace).with_context(|| format!("cannot create {}", workspace.display()))?;
    if options.with_model {
        return with_model(&program, &workspace, &options);
    }
    let mut sysop = Command::new(&program);
    sysop.current_dir(&workspace).args(["exec", "--model", "demo", "--approve", "auto"]);
    if options.words.is_empty() {
        sysop.arg("demo: write a script here that greets, run it, then make it greet louder");
    } else {
        sysop.args(&options.words);
    }
    step(&format!("run sysop in {}", workspace.display()), &mut sysop)?;
    eprintln!(
        "\nThis model was scripted. `cargo xtask demo --model` downloads a real one ({LOCAL_MODEL}, 1.1 GB, Apache-2.0) and \
         does a real task with it, offline."
    );
    Ok(())
}

/// Builds sysop without the web page, which needs Node: the demo runs in the terminal.
fn build() -> Result<PathBuf> {
    setup::build()?;
    step("build sysop", cargo().args(["build", "--profile", PROFILE, "--locked", "--package", "sysop"]))?;
    Ok(target().join(PROFILE).join("sysop"))
}

/// Downloads the local model and runs a task with it.
fn with_model(program: &Path, workspace: &Path, options: &DemoOptions) -> Result<()> {
    let mut get = Command::new(program);
    get.args(["model", "get", LOCAL_MODEL]).args(options.yes.then_some("--yes"));
    step(&format!("get {LOCAL_MODEL}"), &mut get)?;
    let mut sysop = Command::new(program);
    let model = format!("local/{LOCAL_MODEL}");
    sysop.current_dir(workspace).args(["exec", "-v", "--approve", "auto", "--model", &model]);
    if options.words.is_empty() {
        sysop.arg(LOCAL_TASK);
    } else {
        sysop.args(&options.words);
    }
    step(&format!("run sysop with {model} in {}", workspace.display()), &mut sysop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &[&str]) -> DemoOptions {
        DemoOptions::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    /// Program that logs its arguments, and fails for the word `get` if `fails` is true.
    fn program(folder: &Path, fails: bool) -> PathBuf {
        let path = folder.join("sysop");
        let log = folder.join("log");
        let fails = if fails { "[ \"$2\" != get ] || exit 3" } else { "" };
        let script = format!("#!/bin/sh\necho \"$*\" >> '{}'\n{fails}\n", log.display());
        // Another process writes it: a child that another test starts meanwhile would inherit a file open for writing,
        // and the kernel runs no such file.
        let write = r#"printf %s "$1" > "$2" && chmod 755 "$2""#;
        let written = Command::new("sh").args(["-c", write, "sh", &script]).arg(&path).status().unwrap();
        assert!(written.success());
        path
    }

    #[test]
    fn arguments_may_stand_in_any_order() {
        let all = options(&["--yes", "--program", "/bin/sysop", "--model", "count", "--", "--model"]);
        assert!(all.with_model && all.yes);
        assert_eq!(all.program.as_deref(), Some(Path::new("/bin/sysop")));
        assert_eq!(all.words, ["count", "--model"]);
        assert_eq!(options(&[]), DemoOptions::default());
    }

    #[test]
    fn the_model_is_downloaded_and_then_gets_a_task() {
        let folder = tempfile::tempdir().unwrap();
        let sysop = program(folder.path(), false);
        with_model(&sysop, folder.path(), &options(&["--model", "--yes"])).unwrap();
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
        let exec = "exec -v --approve auto --model local/qwen2.5-coder-1.5b";
        assert_eq!(log, format!("model get qwen2.5-coder-1.5b --yes\n{exec} {LOCAL_TASK}\n"));
    }

    #[test]
    fn no_task_runs_without_the_model() {
        let folder = tempfile::tempdir().unwrap();
        let sysop = program(folder.path(), true);
        assert!(with_model(&sysop, folder.path(), &options(&["--model"])).is_err());
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
        assert_eq!(log, "model get qwen2.5-coder-1.5b\n");
    }
}
