//! Files of skills and custom commands on this machine.

use std::collections::HashSet;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::instruction_files::{InstructionKind, InstructionText};

const SKILL_FOLDERS: [&str; 3] = [".agents/skills", ".sysop/skills", ".claude/skills"];
const COMMAND_FOLDERS: [&str; 2] = [".sysop/commands", ".claude/commands"];
const SKILL_FILE: &str = "SKILL.md";
const BYTES_MAX: u64 = 64 * 1024;
/// Maximum levels below a directory with skills.
const SKILL_DEPTH_MAX: usize = 3;
/// Maximum levels below a directory with commands.
const COMMAND_DEPTH_MAX: usize = 1;
/// Maximum directories visited below one directory with skills or commands.
const FOLDERS_MAX: usize = 2_000;
/// Maximum files other than `SKILL.md` that are listed per skill.
const ATTACHMENTS_MAX: usize = 50;

/// Returns the skills and commands in one directory of a workspace. `top` is the top directory of the workspace, with
/// links resolved; nothing outside it is read.
pub(crate) fn in_workspace(folder: &Path, top: &Path) -> Vec<InstructionText> {
    let skills = SKILL_FOLDERS.iter().flat_map(|name| skills(&folder.join(name), Some(top)));
    let commands = COMMAND_FOLDERS.iter().flat_map(|name| commands(&folder.join(name), Some(top)));
    skills.chain(commands).collect()
}

/// Returns the user's own files: the skills below `skill_folders`, then the commands below `command_folders`.
pub fn read_own_skill_files(skill_folders: &[PathBuf], command_folders: &[PathBuf]) -> Vec<InstructionText> {
    let skills = skill_folders.iter().flat_map(|folder| skills(folder, None));
    skills.chain(command_folders.iter().flat_map(|folder| commands(folder, None))).collect()
}

fn skills(folder: &Path, top: Option<&Path>) -> Vec<InstructionText> {
    let is_skill = |file: &PathBuf| file.file_name().is_some_and(|name| name == SKILL_FILE);
    let mut found = Vec::new();
    for file in files(folder, SKILL_DEPTH_MAX, top).into_iter().filter(is_skill) {
        let Some(skill) = read(InstructionKind::Skill, &file, top) else { continue };
        found.push(skill);
        let folder = file.parent().unwrap_or(&file);
        let others = files(folder, SKILL_DEPTH_MAX, top).into_iter().filter(|other| !is_skill(other));
        found.extend(others.take(ATTACHMENTS_MAX).filter_map(|other| {
            let bytes = other.metadata().ok()?.len();
            let path = other.to_str()?.to_owned();
            Some(InstructionText { kind: InstructionKind::Attachment, path, text: String::new(), bytes })
        }));
    }
    found
}

fn commands(folder: &Path, top: Option<&Path>) -> Vec<InstructionText> {
    let files = files(folder, COMMAND_DEPTH_MAX, top).into_iter();
    let markdown = files.filter(|file| file.extension().is_some_and(|extension| extension == "md"));
    markdown.filter_map(|file| read(InstructionKind::Command, &file, top)).collect()
}

/// Returns the files below a directory, sorted by path. In a workspace, links below the directory are not followed.
fn files(folder: &Path, depth: usize, top: Option<&Path>) -> Vec<PathBuf> {
    let Ok(real) = std::fs::canonicalize(folder) else { return Vec::new() };
    if top.is_some_and(|top| !real.starts_with(top)) {
        return Vec::new();
    }
    let mut walk = Walk { follows_links: top.is_none(), visited: HashSet::new(), files: Vec::new() };
    walk.visit(if top.is_some() { &real } else { folder }, depth);
    walk.files.sort_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
    walk.files
}

/// A walk that visits each directory once.
struct Walk {
    follows_links: bool,
    /// Visited directories, without links in their paths.
    visited: HashSet<PathBuf>,
    files: Vec<PathBuf>,
}

impl Walk {
    fn visit(&mut self, folder: &Path, depth: usize) {
        let Ok(real) = std::fs::canonicalize(folder) else { return };
        if self.visited.len() == FOLDERS_MAX || !self.visited.insert(real) {
            return;
        }
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort(); // links may lead to the same folder twice: the first path counts
        for path in paths {
            if path.is_symlink() && !self.follows_links {
                continue;
            }
            if !path.is_dir() {
                self.files.push(path);
            } else if depth > 0 {
                self.visit(&path, depth - 1);
            }
        }
    }
}

/// Reads the beginning of a regular file. In a workspace (if `top` is given), a symbolic link is not read.
fn read(kind: InstructionKind, path: &Path, top: Option<&Path>) -> Option<InstructionText> {
    let mut flags = OFlags::NONBLOCK;
    flags.set(OFlags::NOFOLLOW, top.is_some());
    let flags = i32::try_from(flags.bits()).ok()?;
    let mut file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let bytes = file.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
    let mut content = Vec::new();
    file.by_ref().take(BYTES_MAX).read_to_end(&mut content).ok()?;
    let text = String::from_utf8_lossy(&content).into_owned();
    Some(InstructionText { kind, path: path.to_str()?.to_owned(), text, bytes })
}
