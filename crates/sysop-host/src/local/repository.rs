//! Lists the names, but not the values, of the settings in a repository's configuration. Some settings name programs
//! that git runs even for read-only commands.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::environment::{GIT_GUARD, GIT_VARIABLES_ALLOWED};
use crate::machine::{REPOSITORIES_MAX, SCRIPT_TEXT_BYTES_MAX};

/// Exit code of git after a fatal error, such as the lack of a repository.
const NO_REPOSITORY: i32 = 128;

/// Returns the names of the settings of a directory's repository and of the repositories inside it, one per line.
/// Leaves out settings that git writes for a clone or a branch. The text is empty if there is no repository or no git.
/// Returns `None` if the settings are unknown.
pub(super) fn settings(folder: &Path) -> Option<String> {
    let mut names = String::new();
    let mut folders = VecDeque::from([folder.to_owned()]);
    let mut seen = 0;
    while let Some(folder) = folders.pop_front() {
        seen += 1;
        if seen > REPOSITORIES_MAX {
            return None;
        }
        let listed =
            match git(&folder, &["config", "--local", "--includes", "--name-only", "--null", "--list"]) {
                GitAnswer::Output(listed) => listed,
                GitAnswer::NoRepository => continue,
                GitAnswer::Unknown => return None,
            };
        for name in listed.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let name = std::str::from_utf8(name).ok().filter(|name| !name.contains('\n'))?;
            if !is_everyday(name) {
                names.push_str(name);
                names.push('\n');
            }
        }
        if names.len() > SCRIPT_TEXT_BYTES_MAX {
            return None;
        }
        folders.extend(inner_repositories(&folder)?);
    }
    Some(names)
}

/// Returns true for settings that git writes for a clone or a branch. They name no programs.
fn is_everyday(name: &str) -> bool {
    let ends = [".url", ".fetch", ".pushurl"];
    name.starts_with("branch.") || (name.starts_with("remote.") && ends.iter().any(|end| name.ends_with(end)))
}

/// Returns the submodules in a repository's index that are checked out, or `None` if they cannot be determined.
fn inner_repositories(folder: &Path) -> Option<Vec<PathBuf>> {
    let GitAnswer::Output(top) = git(folder, &["rev-parse", "--show-cdup"]) else { return Some(Vec::new()) };
    let top = folder.join(std::str::from_utf8(top.trim_ascii_end()).ok()?);
    let GitAnswer::Output(index) = git(&top, &["ls-files", "--stage", "-z"]) else { return None };
    let of_entry = |entry: &[u8]| {
        let text = entry.strip_prefix(b"160000 ")?;
        let name = text.get(text.iter().position(|byte| *byte == b'\t')? + 1..)?;
        Some(top.join(std::str::from_utf8(name).ok()?))
    };
    let found = index.split(|byte| *byte == 0).filter_map(of_entry);
    Some(found.filter(|path| path.join(".git").symlink_metadata().is_ok()).collect())
}

enum GitAnswer {
    Output(Vec<u8>),
    NoRepository,
    Unknown,
}

fn git(folder: &Path, arguments: &[&str]) -> GitAnswer {
    let mut command = Command::new("git");
    command
        .args(["-c", "core.fsmonitor=false"])
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("GIT_") && !GIT_VARIABLES_ALLOWED.contains(&name.as_ref()) {
            command.env_remove(name.as_ref());
        }
    }
    command.envs(GIT_GUARD);
    match command.output() {
        Ok(output) if output.status.success() => GitAnswer::Output(output.stdout),
        Ok(output) if output.status.code() == Some(NO_REPOSITORY) => GitAnswer::NoRepository,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => GitAnswer::NoRepository,
        Ok(_) | Err(_) => GitAnswer::Unknown,
    }
}
