//! `sysop audit verify|show`: shows the approved and executed calls, and verifies the log. Read-only.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sysop_core::event::Decision;
use sysop_core::text::neutralize_line;
use sysop_core::ui_text::counted;
use sysop_server::audit::{AuditEntry, FILE, Kind, POLICY, each_line, files, verify};

use crate::cli::AuditCommand;
use crate::config::display_path;
use crate::exit::{CommandError, Exit};

/// Runs an audit command on the given file, or on the audit log in `folder` if no file is given. Fails if
/// there is no audit log, it cannot be read, or its chain is broken.
pub(crate) fn run(folder: &Path, command: AuditCommand, out: &mut impl Write) -> Result<Exit> {
    match command {
        AuditCommand::Verify { file } => {
            let files = audit_files(folder, file)?;
            let checked = verify(&files).map_err(|broken| {
                CommandError::failed(format!(
                    "audit verification failed: {}",
                    neutralize_line(&broken.to_string())
                ))
            })?;
            let (lines, files) = (counted(checked.lines, "line"), counted(checked.files as u64, "file"));
            writeln!(out, "Verified {lines} in {files}. Last hash: {}", checked.end)?;
        }
        AuditCommand::Show { file, session, limit } => {
            let mut last = VecDeque::new();
            let mut unread = 0_u64;
            let session = session.as_deref();
            each_line(&audit_files(folder, file)?, |entry| match entry {
                Some(entry) if session.is_none_or(|wanted| entry.session.starts_with(wanted)) => {
                    if last.len() == limit as usize {
                        last.pop_front();
                    }
                    last.push_back(entry);
                }
                Some(_) => {}
                None => unread += 1,
            })
            .map_err(|broken| CommandError::failed(neutralize_line(&broken.to_string()).into_owned()))?;
            for entry in &last {
                write_entry(entry, out)?;
            }
            if unread > 0 {
                let why = format!("cannot read {unread} lines; run `sysop audit verify` to find the first");
                return Err(CommandError::failed(why).into());
            }
            if let Some(unknown) = session.filter(|_| last.is_empty()) {
                let why = format!(
                    "no session with id `{}` in the audit log; run `sysop audit show` to see its entries",
                    neutralize_line(unknown)
                );
                return Err(CommandError::usage(why).into());
            }
        }
    }
    Ok(Exit::Done)
}

fn audit_files(folder: &Path, file: Option<PathBuf>) -> Result<Vec<PathBuf>> {
    if let Some(file) = file {
        if !file.exists() {
            let why = format!("no audit log at {}; check the path", display_path(&file));
            return Err(CommandError::usage(why).into());
        }
        return Ok(vec![file]);
    }
    let current = folder.join(FILE);
    let files = files(&current)
        .with_context(|| format!("cannot read the directory of {}", display_path(&current)))?;
    if files.is_empty() {
        let why = format!("no audit log at {}; `sysop serve` writes one", display_path(&current));
        return Err(CommandError::usage(why).into());
    }
    Ok(files)
}

/// Returns the name of a token or user in backticks.
fn quoted(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!("`{name}`") }
}

/// Returns the names of those who decided, each in backticks. `policy` and `sysop` are no names where sysop decides.
fn deciders(kind: Kind, who: &str) -> String {
    match (kind, who) {
        (Kind::Started, POLICY) | (Kind::Decided, Decision::BY_SYSOP) => who.to_owned(),
        // Only the line of a start names all who allowed the call.
        (Kind::Started, who) => who.split(", ").map(quoted).collect::<Vec<_>>().join(", "),
        (_, who) => quoted(who),
    }
}

/// Describes a decision.
fn decision_words(outcome: &str) -> String {
    let consents = || outcome.strip_prefix("allow_")?.split_once("_of_");
    match (outcome, consents()) {
        ("allow", _) => "allowed".to_owned(),
        ("allow_session", _) => "allowed for the session".to_owned(),
        ("reject", _) => "rejected".to_owned(),
        (_, Some((given, needed))) => format!("allowed ({given} of {needed})"),
        (_, None) => outcome.to_owned(),
    }
}

/// Writes an entry as one line. Text from models and users is sanitized.
fn write_entry(entry: &AuditEntry, out: &mut impl Write) -> io::Result<()> {
    let kind = match entry.kind {
        Kind::Opened => "log opened",
        Kind::Repaired => "repaired",
        Kind::Decided => "decided",
        Kind::Refused => "refused",
        Kind::Started => "started",
        Kind::Finished => "finished",
        Kind::Typed => "typed",
        Kind::Deleted => "deleted",
        Kind::Void => "void",
    };
    let outcome = entry.outcome.as_deref().map(|outcome| match entry.kind == Kind::Decided {
        true => decision_words(outcome),
        false => outcome.to_owned(),
    });
    let who = entry.who.as_deref().map(|who| deciders(entry.kind, who));
    let wished = entry.wished.as_deref().map(quoted);
    let mut line = format!("{} {kind:8}", entry.at);
    let mut add = |before: &str, text: Option<&str>| {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            line.push_str(before);
            line.push_str(text);
        }
    };
    add(" ", outcome.as_deref());
    add(" by ", who.as_deref());
    add(" for ", wished.as_deref());
    add(" on ", entry.place.as_deref());
    add(" ", entry.tool.as_deref());
    add(": ", entry.what.as_deref());
    add(" exit ", entry.exit_code.map(|code| code.to_string()).as_deref());
    add(" in session ", Some(&entry.session));
    writeln!(out, "{}", neutralize_line(&line))
}

#[cfg(test)]
mod tests {
    use sysop_core::id::Timestamp;

    use super::*;

    #[test]
    fn a_line_names_each_decider_and_the_number_of_consents() {
        let line = |kind, outcome: Option<&str>, who: &str| {
            let (outcome, who) = (outcome.map(str::to_owned), Some(who.to_owned()));
            let entry = AuditEntry { outcome, who, ..AuditEntry::new(kind, Timestamp(0)) };
            let mut out = Vec::new();
            write_entry(&entry, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            text.trim_end().strip_prefix("1970-01-01T00:00:00Z ").unwrap().to_owned()
        };
        for (kind, outcome, who, told) in [
            (Kind::Decided, Some("allow_1_of_2"), "ada", "decided  allowed (1 of 2) by `ada`"),
            (Kind::Decided, Some("allow"), "bob", "decided  allowed by `bob`"),
            (Kind::Decided, Some("allow_session"), "policy", "decided  allowed for the session by `policy`"),
            (Kind::Decided, Some("reject"), "sysop", "decided  rejected by sysop"),
            (Kind::Started, None, "ada, bob", "started  by `ada`, `bob`"),
            (Kind::Started, None, "policy", "started  by policy"),
            (Kind::Typed, None, "sysop", "typed    by `sysop`"),
        ] {
            assert_eq!(line(kind, outcome, who), told);
        }
    }
}
