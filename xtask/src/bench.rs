//! Measures whole processes against baselines from the same run, and reports which targets are met.
//!
//! Times are the minimum of several runs, which excludes the effect of other load on the machine. None of
//! this is a test: a slow machine is not a defect.

mod cases;
mod guard;
mod history;
pub(crate) mod layout;
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

/// Arguments of a run.
#[derive(Debug, Default, PartialEq, Eq)]
struct BenchArgs {
    check: bool,
    /// Program to measure instead of this tree's.
    program: Option<PathBuf>,
    names: Vec<String>,
}

impl BenchArgs {
    fn parse(rest: &[String]) -> Result<Self> {
        let mut this = Self::default();
        let mut rest = rest.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--check" => this.check = true,
                "--program" => {
                    let program = rest.next().context("--program needs the path of a sysop")?;
                    let found = std::fs::canonicalize(program);
                    this.program = Some(found.with_context(|| format!("cannot find `{program}`"))?);
                }
                name => this.names.push(name.to_owned()),
            }
        }
        let known = cases::ALL.map(|(name, _)| name);
        if let Some(unknown) = this.names.iter().find(|name| !known.contains(&name.as_str())) {
            bail!("no measurement is called `{unknown}`; there are: {}", known.join(", "));
        }
        Ok(this)
    }
}

/// Runs the measurements named in `rest`, or all. Measures the sysop after `--program`, or builds one. With `--check`,
/// fails if a target is missed.
pub(crate) fn run(rest: &[String]) -> Result<()> {
    let BenchArgs { check, program, names } = BenchArgs::parse(rest)?;
    setup::tests()?;
    setup::need(&[("time", "time")])?;
    web::build()?;
    let sysop = match program {
        Some(program) => program,
        None => {
            step("build sysop", cargo().args(["build", "--release", "--locked", "--package", "sysop"]))?;
            target().join("release/sysop")
        }
    };
    let folder = root().join("target/bench");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).context("cannot clear the directory of the last run")?;
    }
    std::fs::create_dir_all(&folder).context("cannot create a directory for this run")?;
    let mut bench = Bench { sysop, folder, rows: Vec::new() };
    for (name, case) in cases::ALL {
        if names.is_empty() || names.iter().any(|wanted| wanted == name) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_choose_the_program_and_the_measurements() {
        let parse =
            |line: &str| BenchArgs::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let all = BenchArgs::default();
        assert_eq!(parse("").unwrap(), all);
        let named = BenchArgs {
            check: true,
            program: Some(std::fs::canonicalize("/bin/sh").unwrap()),
            names: vec!["start".to_owned(), "turn".to_owned()],
        };
        assert_eq!(parse("start --check --program /bin/sh turn").unwrap(), named);
        for (line, why) in [
            ("--program", "--program needs the path"),
            ("--program /none/sysop", "cannot find `/none/sysop`"),
            ("speed", "there are: start, turn"),
        ] {
            let error = format!("{:#}", parse(line).unwrap_err());
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
