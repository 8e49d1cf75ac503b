//! Resolves targets to files on this machine. Links are followed component by component, because a target may not exist
//! yet. In that case, the missing part of its path is taken literally.

use std::collections::VecDeque;
use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sysop_core::policy::{Access, ResolvedFile, ResolvedTarget, Target};

use super::repository;
use crate::machine::{RESOLVED_FILES_MAX, SCRIPT_TEXT_BYTES_MAX};

/// Maximum symbolic links followed in one path, as in Linux.
const LINKS_MAX: usize = 40;
const GLOB_NAMES_MAX: usize = 100_000;
/// Maximum time by which a modification time may lag behind the clock, because the kernel's file timestamps are coarse.
const CLOCK_TICK: Duration = Duration::from_millis(20);

/// Resolves targets. Targets that cannot be resolved are left out. `opened` is the start of the session.
pub(super) fn resolve(targets: Vec<Target>, home: Option<&str>, opened: SystemTime) -> Vec<ResolvedTarget> {
    let of_target = |target: Target| {
        let paths = paths_of(&target, home)?;
        let mut files = Vec::with_capacity(paths.len());
        for path in paths {
            let file = resolved_file(&path, target.access, opened)?;
            if !files.contains(&file) {
                files.push(file);
            }
        }
        Some(ResolvedTarget { target, files })
    };
    targets.into_iter().filter_map(of_target).collect()
}

pub(super) fn user_name(uid: u32) -> Option<String> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let of_line = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    };
    users.lines().find_map(of_line)
}

fn home_of(user: &str) -> Option<String> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let line = users.lines().find(|line| line.split(':').next() == Some(user))?;
    line.split(':').nth(5).map(str::to_owned)
}

fn paths_of(target: &Target, home: Option<&str>) -> Option<Vec<PathBuf>> {
    let word = target.word.as_str();
    let (base, rest) = match word.strip_prefix('~') {
        Some(named) => {
            let (user, rest) = named.split_once('/').unwrap_or((named, ""));
            let base = if user.is_empty() { home?.to_owned() } else { home_of(user)? };
            (base, rest)
        }
        None if word.starts_with('/') => ("/".to_owned(), word),
        None => (target.folder.clone()?, word),
    };
    if !base.starts_with('/') || word.contains('\0') {
        return None;
    }
    let literal = Path::new(&base).join(rest.trim_start_matches('/'));
    if !target.glob {
        return Some(vec![literal]);
    }
    // An unmatched glob stands for itself. The word is also kept because its quoting is no longer known.
    let mut paths = vec![literal];
    paths.extend(expand(Path::new(&base), rest)?);
    (paths.len() <= RESOLVED_FILES_MAX).then_some(paths)
}

/// Expands a glob below a directory. Returns `None` if shells disagree on this kind of glob, or if there are too many
/// matches.
fn expand(base: &Path, pattern: &str) -> Option<Vec<PathBuf>> {
    if pattern.contains("**") || pattern.contains(['(', '\\']) {
        return None;
    }
    let mut found = vec![base.to_owned()];
    let mut names_left = GLOB_NAMES_MAX;
    for name in pattern.split('/').filter(|name| !name.is_empty()) {
        if !name.contains(['*', '?', '[']) {
            found.iter_mut().for_each(|path| path.push(name));
            found.retain(|path| path.symlink_metadata().is_ok());
            continue;
        }
        let letters = wildcard(name);
        let mut matches = Vec::new();
        for folder in &found {
            // Names that are not directories or cannot be listed match nothing in a shell either.
            let Ok(entries) = fs::read_dir(folder) else { continue };
            for entry in entries.flatten() {
                names_left = names_left.checked_sub(1)?;
                let entry_name = entry.file_name();
                let text: Vec<char> = entry_name.to_string_lossy().chars().collect();
                let is_hidden = text.first() == Some(&'.') && !name.starts_with('.');
                if !is_hidden && matches_wildcard(&letters, &text) {
                    matches.push(folder.join(entry_name));
                }
            }
            if matches.len() > RESOLVED_FILES_MAX {
                return None;
            }
        }
        found = matches;
    }
    Some(found)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wildcard {
    Letter(char),
    /// `?`, or a bracket expression. The match may be wider than in a shell, but never narrower.
    AnyOne,
    AnyMany,
}

fn wildcard(name: &str) -> Vec<Wildcard> {
    let letters: Vec<char> = name.chars().collect();
    let mut parts = Vec::new();
    let mut at = 0;
    while let Some(letter) = letters.get(at) {
        at += 1;
        parts.push(match letter {
            '*' => Wildcard::AnyMany,
            '?' => Wildcard::AnyOne,
            '[' => match end_of_brackets(&letters, at) {
                Some(end) => {
                    at = end + 1;
                    Wildcard::AnyOne
                }
                None => Wildcard::Letter('['),
            },
            letter => Wildcard::Letter(*letter),
        });
    }
    parts
}

/// Returns the index of the `]` that ends the bracket expression whose `[` is right before `from`.
fn end_of_brackets(letters: &[char], from: usize) -> Option<usize> {
    let mut at = from;
    if matches!(letters.get(at), Some('!' | '^')) {
        at += 1;
    }
    if letters.get(at) == Some(&']') {
        at += 1; // a leading `]` is a literal
    }
    while let Some(letter) = letters.get(at) {
        match (letter, letters.get(at + 1)) {
            ('[', Some(kind @ (':' | '.' | '='))) => {
                let closes = |pair: &[char]| pair == [*kind, ']'];
                at += 2;
                at += letters.get(at..)?.windows(2).position(closes)? + 2;
            }
            (']', _) => return Some(at),
            _ => at += 1,
        }
    }
    None
}

fn matches_wildcard(parts: &[Wildcard], text: &[char]) -> bool {
    let (mut part, mut at) = (0, 0);
    let mut retry = None;
    while at < text.len() {
        match parts.get(part) {
            Some(Wildcard::AnyMany) => {
                retry = Some((part, at));
                part += 1;
                continue;
            }
            Some(Wildcard::AnyOne) => {}
            Some(Wildcard::Letter(letter)) if *letter == text[at] => {}
            Some(Wildcard::Letter(_)) | None => {
                let Some((star, from)) = retry else { return false };
                retry = Some((star, from + 1));
                (part, at) = (star + 1, from + 1);
                continue;
            }
        }
        part += 1;
        at += 1;
    }
    parts[part..].iter().all(|part| *part == Wildcard::AnyMany)
}

fn resolved_file(path: &Path, access: Access, opened: SystemTime) -> Option<ResolvedFile> {
    let real = real_path(path)?;
    let missing = fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound);
    let path = real.to_string_lossy().into_owned();
    let mut file = ResolvedFile { path, missing, ..ResolvedFile::default() };
    if access == Access::Repository {
        file.script = Some(repository::settings(&real)?);
    }
    if access == Access::Run
        && let Ok(metadata) = fs::metadata(&real)
    {
        file.changed_in_session = is_changed_since(&metadata, opened);
        file.script = script_text(&real, &metadata);
    }
    Some(file)
}

fn is_changed_since(metadata: &fs::Metadata, opened: SystemTime) -> bool {
    let (Ok(seconds), Ok(nanoseconds)) =
        (u64::try_from(metadata.ctime()), u32::try_from(metadata.ctime_nsec()))
    else {
        return true;
    };
    let changed = UNIX_EPOCH + Duration::new(seconds, nanoseconds);
    changed + CLOCK_TICK >= opened
}

fn script_text(path: &Path, metadata: &fs::Metadata) -> Option<String> {
    if !metadata.is_file() || metadata.len() > SCRIPT_TEXT_BYTES_MAX as u64 {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(SCRIPT_TEXT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).ok()?;
    String::from_utf8(bytes).ok().filter(|text| text.len() <= SCRIPT_TEXT_BYTES_MAX)
}

/// Resolves all links in a path. Components that do not exist are kept literally. Returns `None` if the result is
/// unknown: no permission, too many links, or a kernel link that each process sees differently.
fn real_path(path: &Path) -> Option<PathBuf> {
    let text = path.to_str()?;
    if matches!(text, "/dev/stdin" | "/dev/stdout" | "/dev/stderr") {
        return Some(path.to_owned());
    }
    let mut left: VecDeque<String> = text.split('/').map(str::to_owned).collect();
    let mut real = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = left.pop_front() {
        match name.as_str() {
            "" | "." => continue,
            ".." => {
                real.pop();
                continue;
            }
            _ => {}
        }
        let next = real.join(&name);
        match fs::symlink_metadata(&next) {
            Ok(metadata) if metadata.is_symlink() => {
                links += 1;
                if links > LINKS_MAX || real.starts_with("/proc") {
                    return None;
                }
                let link = fs::read_link(&next).ok()?;
                let link = link.to_str()?;
                if link.starts_with('/') {
                    real = PathBuf::from("/");
                }
                for part in link.rsplit('/') {
                    left.push_front(part.to_owned());
                }
            }
            Ok(_) => real = next,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                real = next;
            }
            Err(_) => return None,
        }
    }
    Some(real)
}

#[cfg(test)]
mod tests {
    use super::{matches_wildcard, wildcard};

    fn matches(pattern: &str, name: &str) -> bool {
        matches_wildcard(&wildcard(pattern), &name.chars().collect::<Vec<_>>())
    }

    #[test]
    fn globs_match_at_least_what_they_match_in_a_shell() {
        for (pattern, name) in [
            ("*", "a"),
            ("*", ""),
            ("a*b*c", "aXbYbZc"),
            ("?.txt", "ä.txt"),
            ("[ab]c", "bc"),
            ("[!]a]c", "bc"),
            ("[[:alpha:]]c", "bc"),
            ("[a", "[a"),
            (".bash?c", ".bashrc"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("a*b", "abc"), ("?", ""), ("[ab]", "ab"), ("a", "b"), ("*.txt", "a.tx")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
