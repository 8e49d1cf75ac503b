//! `sysop audit verify|show`: shows the approved and executed calls, and verifies the log. Read-only.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sysop_core::text::neutralize_line;
use sysop_core::ui_text::counted;
use sysop_server::audit::{AuditEntry, FILE, Kind, each_line, files, verify};

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
            each_line(&audit_files(folder, file)?, |entry| match entry {
                Some(entry) if session.as_ref().is_none_or(|wanted| entry.session.starts_with(wanted)) => {
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

/// Writes an entry as one line. Text from models and users is sanitized.
fn write_entry(entry: &AuditEntry, out: &mut impl Write) -> io::Result<()> {
    let kind = match entry.kind {
        Kind::Opened => "opened",
        Kind::Mended => "mended",
        Kind::Decided => "decided",
        Kind::Refused => "refused",
        Kind::Started => "started",
        Kind::Finished => "finished",
        Kind::Typed => "typed",
        Kind::Deleted => "deleted",
        Kind::Void => "void",
    };
    let mut line = format!("{} {kind:8}", entry.at);
    let mut add = |before: &str, text: Option<&str>| {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            line.push_str(before);
            line.push_str(text);
        }
    };
    add(" ", entry.outcome.as_deref());
    add(" by ", entry.who.as_deref());
    add(" for ", entry.wished.as_deref());
    add(" on ", entry.place.as_deref());
    add(" ", entry.tool.as_deref());
    add(": ", entry.what.as_deref());
    add(" exit ", entry.exit_code.map(|code| code.to_string()).as_deref());
    add(" in session ", Some(&entry.session));
    writeln!(out, "{}", neutralize_line(&line))
}
