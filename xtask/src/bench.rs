//! Measures whole processes against baselines from the same run, and reports which targets are met.
//!
//! Times are the minimum of several runs, which excludes the effect of other load on the machine. None of
//! this is a test: a slow machine is not a defect.

mod cases;
mod guard;
mod history;
mod machines;
mod mcp;
mod measure;
pub(crate) mod mock;
mod page;
mod server;
mod sshd;
mod tui;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::workspace::{cargo, root, step, target};
use crate::{setup, web};

/// State shared by all measurements.
pub(crate) struct Bench {
    pub(crate) sysop: PathBuf,
    pub(crate) folder: PathBuf,
    rows: Vec<BenchRow>,
}

struct BenchRow {
    what: &'static str,
    measured: String,
    target: String,
    met: Option<bool>,
}

impl Bench {
    /// Records a number with its upper bound; both are in `unit`.
    pub(crate) fn at_most(&mut self, what: &'static str, measured: f64, target: f64, unit: &str) {
        self.row(what, format!("{measured:.2} {unit}"), format!("≤ {target} {unit}"), measured <= target);
    }

    /// Records a number with its lower bound.
    pub(crate) fn at_least(&mut self, what: &'static str, measured: f64, target: f64, unit: &str) {
        self.row(what, format!("{measured:.0} {unit}"), format!("≥ {target} {unit}"), measured >= target);
    }

    /// Records a number that has no target and serves for comparison.
    pub(crate) fn baseline(&mut self, what: &'static str, measured: f64, unit: &str) {
        eprintln!("    {what}: {measured:.2} {unit}");
        self.rows.push(BenchRow {
            what,
            measured: format!("{measured:.2} {unit}"),
            target: "baseline".to_owned(),
            met: None,
        });
    }

    fn row(&mut self, what: &'static str, measured: String, target: String, met: bool) {
        eprintln!("    {what}: {measured} ({target}){}", if met { "" } else { "  MISSED" });
        self.rows.push(BenchRow { what, measured, target, met: Some(met) });
    }

    fn table(&self) -> String {
        let mut table = "| what | measured | target | met |\n| --- | --- | --- | --- |\n".to_owned();
        for BenchRow { what, measured, target, met } in &self.rows {
            let met = match met {
                Some(true) => "yes",
                Some(false) => "no",
                None => "",
            };
            table.push_str(&format!("| {what} | {measured} | {target} | {met} |\n"));
        }
        table
    }
}

/// Runs all measurements, or only those named in `rest`. With `--check`, fails if a target is missed.
pub(crate) fn run(rest: &[String]) -> Result<()> {
    let check = rest.iter().any(|argument| argument == "--check");
    let chosen: Vec<_> = rest.iter().filter(|argument| !argument.starts_with("--")).collect();
    let names = cases::ALL.map(|(name, _)| name);
    if let Some(unknown) = chosen.iter().find(|name| !names.contains(&name.as_str())) {
        bail!("no measurement is called `{unknown}`; there are: {}", names.join(", "));
    }
    setup::tests()?;
    setup::need(&[("time", "time")])?;
    web::build()?;
    step("build sysop", cargo().args(["build", "--release", "--locked", "--package", "sysop"]))?;
    let folder = root().join("target/bench");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).context("cannot clear the directory of the last run")?;
    }
    std::fs::create_dir_all(&folder).context("cannot create a directory for this run")?;
    let mut bench = Bench { sysop: target().join("release/sysop"), folder, rows: Vec::new() };
    for (name, case) in cases::ALL {
        if chosen.is_empty() || chosen.iter().any(|wanted| *wanted == name) {
            eprintln!("==> {name}");
            case(&mut bench).with_context(|| format!("cannot measure {name}"))?;
        }
    }
    let table = bench.table();
    eprintln!("\n{table}");
    std::fs::write(bench.folder.join("table.md"), table).context("cannot save the table")?;
    if check && bench.rows.iter().any(|row| row.met == Some(false)) {
        bail!("at least one target was missed");
    }
    Ok(())
}
