//! Walks directories beneath the root. It uses open directories, follows no links, and skips files that `.gitignore`
//! and `.ignore` exclude. Hidden files are included; `.git` is not entered.

use std::io::Read;

use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt};
use cap_std::fs::{Dir, OpenOptions};
use ignore::gitignore::Gitignore;
use sysop_driver::port::CancellationToken;

use super::files::plain;
use crate::ignore_rules::{RULES_BYTES_MAX, RULES_FILES, is_ignored, parse_rules};
use crate::machine::{FIND_FILES_MAX, FileSearch, FileSearchResult, MachineError};

const VISITED_MAX: usize = 1_000_000;
/// Maximum depth of a search. Limited, because each level holds an open directory.
const DEPTH_MAX: usize = 64;

pub(super) fn find(
    root: &Dir,
    search: &FileSearch,
    cancel: &CancellationToken,
) -> Result<FileSearchResult, MachineError> {
    let told = search.folder.to_string();
    let folder = root.open_dir(search.folder.as_str()).map_err(|error| plain(&error, &told))?;
    let mut walk =
        FolderWalk { search, cancel, rules: Vec::new(), visited: 0, found: FileSearchResult::default() };
    walk.enter(&folder, "", 0)?;
    Ok(walk.found)
}

struct FolderWalk<'a> {
    search: &'a FileSearch,
    cancel: &'a CancellationToken,
    /// Rules of the directories from the searched directory down to the current one, each with the path of its
    /// directory.
    rules: Vec<(String, Gitignore)>,
    visited: usize,
    found: FileSearchResult,
}

impl FolderWalk<'_> {
    /// Walks one directory. `path` is its path below the searched directory, empty or ending in `/`.
    fn enter(&mut self, folder: &Dir, path: &str, depth: usize) -> Result<(), MachineError> {
        // Skip unreadable directories, as `find` does.
        let Ok(entries) = folder.entries() else { return Ok(()) };
        let mut names = Vec::new();
        for entry in entries.flatten() {
            self.visited += 1;
            if self.cancel.is_cancelled() {
                return Err(MachineError::Cancelled);
            }
            if self.visited > VISITED_MAX {
                self.found.incomplete = Some("too many files; search a subdirectory");
                break;
            }
            if let (Ok(name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type()) {
                names.push((name, kind.is_dir()));
            }
        }
        names.sort();
        self.rules.push((path.to_owned(), rules_in(folder)));
        for (name, is_folder) in names {
            if self.found.incomplete.is_some() {
                break;
            }
            self.visit(folder, path, &name, is_folder, depth)?;
        }
        self.rules.pop();
        Ok(())
    }

    fn visit(
        &mut self,
        folder: &Dir,
        path: &str,
        name: &str,
        is_folder: bool,
        depth: usize,
    ) -> Result<(), MachineError> {
        let below = format!("{path}{name}");
        if name == ".git" || self.is_ignored(&below, is_folder) {
            return Ok(());
        }
        if is_folder {
            if depth == DEPTH_MAX {
                self.found.incomplete = Some("directories are nested too deeply; search a subdirectory");
                return Ok(());
            }
            return match folder.open_dir_nofollow(name) {
                Ok(inner) => self.enter(&inner, &format!("{below}/"), depth + 1),
                Err(_) => Ok(()),
            };
        }
        let subject = if self.search.by_name { name } else { below.as_str() };
        if self.search.glob.is_match(subject) {
            if self.found.paths.len() == FIND_FILES_MAX {
                self.found.incomplete = Some("more files match; use a narrower pattern");
                return Ok(());
            }
            self.found.paths.push(self.search.folder.join(&below).as_str().to_owned());
        }
        Ok(())
    }

    fn is_ignored(&self, below: &str, is_folder: bool) -> bool {
        let innermost_first = self.rules.iter().rev().map(|(folder, rules)| (folder.as_str(), rules));
        is_ignored(innermost_first, below, is_folder)
    }
}

/// Reads the ignore rules of one directory. A rule file that is a link or cannot be read is skipped.
fn rules_in(folder: &Dir) -> Gitignore {
    let texts = RULES_FILES.map(|name| {
        let mut options = OpenOptions::new();
        options.read(true).follow(FollowSymlinks::No);
        let is_file = folder.symlink_metadata(name).is_ok_and(|found| found.is_file());
        let file = is_file.then(|| folder.open_with(name, &options).ok()).flatten()?;
        let mut text = String::new();
        file.take(RULES_BYTES_MAX).read_to_string(&mut text).is_ok().then_some(text)
    });
    parse_rules(texts.iter().flatten().map(String::as_str))
}
