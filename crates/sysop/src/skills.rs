//! `sysop skills`: skills and custom commands that a session here would find, and checks of their files.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use sysop_core::instructions::InstructionSource;
use sysop_core::skill::{Skill, SkillKind, Skills};
use sysop_core::text::neutralize_line;
use sysop_host::{InstructionKind, InstructionText, read_instruction_files, read_own_skill_files};

use crate::app::{add_skills, own_skill_folders};
use crate::exit::Exit;
use crate::settings::Settings;

const SKILL_FILE: &str = "SKILL.md";

/// Lists the user's skills and commands, and the workspace's skills and commands even if it is not trusted.
pub(crate) fn list(settings: &Settings) -> String {
    let workspace = read_instruction_files(&settings.root, Some(&settings.folders.home));
    let (skills, commands) = own_skill_folders(settings);
    let mut found = Skills::default();
    add_skills(&mut found, &workspace, InstructionSource::Workspace);
    add_skills(&mut found, &read_own_skill_files(&skills, &commands), InstructionSource::User);
    let mut text = String::new();
    for skill in &found.found {
        let arguments = skill.arguments.as_deref().map(|hint| format!(" {hint}")).unwrap_or_default();
        let kind = match skill.kind {
            SkillKind::Skill => "skill",
            SkillKind::Command => "command",
        };
        let name = neutralize_line(&format!("/{}{arguments}", skill.name)).into_owned();
        let path = neutralize_line(&skill.path).into_owned();
        let _ = writeln!(text, "{name}\n  {kind} in {path}");
        if !skill.description.is_empty() {
            let _ = writeln!(text, "  {}", neutralize_line(&skill.description));
        }
    }
    for problem in &found.skipped {
        let _ = writeln!(text, "skipped: {}", neutralize_line(problem));
    }
    if text.is_empty() {
        text.push_str("no skills or commands; see https://agentskills.io for the format\n");
    }
    text
}

/// Checks skill and command files. Returns one line per file, and `Exit::Failed` if any cannot be used.
pub(crate) fn check(paths: &[PathBuf]) -> (String, Exit) {
    let (mut text, mut exit) = (String::new(), Exit::Done);
    for path in paths {
        let line = match checked(path) {
            Ok(skill) => format!("{}: ok, /{}", path.display(), skill.name),
            Err(problem) => {
                exit = Exit::Failed;
                problem
            }
        };
        let _ = writeln!(text, "{}", neutralize_line(&line));
    }
    (text, exit)
}

fn checked(path: &Path) -> Result<Skill, String> {
    let file = if path.is_dir() { path.join(SKILL_FILE) } else { path.to_owned() };
    let file = std::path::absolute(&file).unwrap_or(file);
    let content = std::fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let is_skill = file.file_name().is_some_and(|name| name == SKILL_FILE);
    let entry = InstructionText {
        kind: if is_skill { InstructionKind::Skill } else { InstructionKind::Command },
        path: file.to_string_lossy().into_owned(),
        bytes: content.len() as u64,
        text: String::from_utf8(content).map_err(|_| format!("{}: not UTF-8", file.display()))?,
    };
    let mut found = Skills::default();
    add_skills(&mut found, &[entry], InstructionSource::User);
    match (found.found.pop(), found.skipped.pop()) {
        (Some(skill), _) => Ok(skill),
        (None, problem) => Err(problem.unwrap_or_default()),
    }
}
