//! `sysop runbook check`: shows the faults in files with routines, with their lines. Nothing runs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use sysop_core::text::neutralize_line;
use sysop_core::ui_text::{counted, error_lines};

use crate::config::{ConfigError, Routine, display_path, routines_in};
use crate::exit::{CommandError, Exit};

/// Checks files. Returns one line per fault or file, and `Exit::Failed` if a routine cannot run.
pub(crate) fn check(files: &[PathBuf]) -> (String, Exit) {
    let (mut text, mut exit) = (String::new(), Exit::Done);
    for file in files {
        let lines = check_file(file);
        if lines.is_err() {
            exit = Exit::Failed;
        }
        for line in lines.map_or_else(|faults| faults, |line| vec![line]) {
            let _ = writeln!(text, "{}", neutralize_line(&line));
        }
    }
    (text, exit)
}

fn check_file(file: &Path) -> Result<String, Vec<String>> {
    let shown = display_path(file);
    let read = routines_in(file).map_err(|error| match error {
        ConfigError::Syntax { .. } => vec![error_text(&error)], // a fault with its line, like the others
        ConfigError::Missing(_) | ConfigError::Unreadable { .. } => {
            error_lines(&error_text(&error)).lines().map(str::to_owned).collect()
        }
    })?;
    let mut faults: Vec<(usize, String)> = read.warnings;
    for (name, routine) in &read.routines {
        let of = routine.faults.iter();
        faults.extend(of.map(|fault| (fault.line, format!("routine {name:?}: {}", fault.message))));
    }
    if read.routines.is_empty() && faults.is_empty() {
        faults.push((1, "no routines; a runbook has [[routines.NAME.steps]]".to_owned()));
    }
    if !faults.is_empty() {
        faults.sort();
        return Err(faults.into_iter().map(|(line, message)| format!("{shown}:{line}: {message}")).collect());
    }
    let named: Vec<String> = read
        .routines
        .iter()
        .map(|(name, routine)| format!("{name} ({})", counted(routine.steps.len().max(1) as u64, "step")))
        .collect();
    Ok(format!("{shown}: ok, {}", named.join(", ")))
}

/// Returns the routines in a file. Fails if the file cannot be read or is not valid TOML.
pub(super) fn routines_of(file: &Path) -> Result<BTreeMap<String, Routine>, CommandError> {
    let read = routines_in(file).map_err(|error| CommandError::usage(error_text(&error)))?;
    Ok(read.routines)
}

fn error_text(error: &ConfigError) -> String {
    match error {
        ConfigError::Missing(path) => format!(
            "no runbook at {}; check the path, or create it with `sysop runbook export SESSION --output FILE`",
            display_path(path)
        ),
        ConfigError::Unreadable { path, why } => {
            format!("cannot read the runbook {}: {why}", display_path(path))
        }
        ConfigError::Syntax { .. } => error.to_string(),
    }
}
