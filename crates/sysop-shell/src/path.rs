//! Assesses paths by their text: finds paths of the system, and paths so broad that a mistake cannot be undone.
//!
//! Nothing is resolved here: symbolic links, mounts and the matches of globs are unknown.

use super::lexer::UNKNOWN;
use super::protected;

const SPECIAL: [char; 5] = ['*', '?', '[', '{', UNKNOWN];

/// Joins a path as written to the directory that it is relative to, and removes `.`, `..` and repeated slashes.
///
/// A path relative to an unknown directory starts with [`UNKNOWN`].
pub(super) fn resolve(folder: Option<&str>, shape: &str) -> String {
    let rooted = shape.starts_with(['/', '~', UNKNOWN]);
    let joined = match folder {
        _ if rooted => shape.to_owned(),
        Some("") => shape.to_owned(),
        Some(folder) => format!("{folder}/{shape}"),
        None => format!("{UNKNOWN}/{shape}"),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in joined.split('/') {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                None if joined.starts_with('/') => {}
                None | Some(&"..") => parts.push(".."),
                Some(_) => {
                    parts.pop();
                }
            },
            other => parts.push(other),
        }
    }
    let lead = if joined.starts_with('/') { "/" } else { "" };
    let plain = format!("{lead}{}", parts.join("/"));
    match plain.strip_prefix("/proc/self/root") {
        Some("") => "/".to_owned(),
        Some(rest) if rest.starts_with('/') => rest.to_owned(),
        Some(_) | None => plain,
    }
}

/// Returns a description of the protected place that a resolved path is in, if any: part of the system, or a file that
/// is obeyed or run later.
pub(super) fn protected(resolved: &str) -> Option<&'static str> {
    protected::written(resolved, None).map(|(_, what)| what)
}

/// Returns true for files in shared memory, which are ordinary files although their path begins with `/dev`.
pub(super) fn is_shared_memory(resolved: &str) -> bool {
    resolved.to_lowercase().starts_with("/dev/shm/")
}

/// Returns true if a recursive change of this resolved path could destroy a whole system, home directory or project.
pub(super) fn is_broad(resolved: &str) -> bool {
    if resolved.starts_with(UNKNOWN) || resolved.is_empty() {
        return true;
    }
    let climbs = resolved.starts_with("..");
    let parts: Vec<&str> = resolved.split('/').filter(|part| !part.is_empty()).collect();
    let special = |part: &&str| part.contains(SPECIAL);
    let all = |part: &&str| part.starts_with(SPECIAL);
    if climbs {
        return parts.iter().all(|part| *part == ".." || all(part)) || protected(resolved).is_some();
    }
    if let Some(home) = resolved.strip_prefix('~') {
        return !home.contains('/') || parts.get(1).is_some_and(all);
    }
    if resolved.starts_with('/') {
        let home = parts.first().is_some_and(|first| matches!(*first, "home" | "Users")) && parts.len() <= 2;
        return parts.len() <= 1
            || home
            || parts.iter().take(2).any(special)
            || protected(resolved).is_some();
    }
    parts.first().is_some_and(all)
}

/// Returns true if the name of a resolved path is typical of a disk or a partition.
pub(super) fn is_block_device(resolved: &str) -> bool {
    const DISKS: &[&str] = &[
        "sd", "hd", "vd", "xvd", "nvme", "mmcblk", "mapper", "dm-", "md", "loop", "disk", "sr", "nbd",
        "rdisk", "zd",
    ];
    resolved
        .to_lowercase()
        .strip_prefix("/dev/")
        .is_some_and(|name| DISKS.iter().any(|disk| name.starts_with(disk)))
}

/// Returns true for paths that bash opens as a network connection.
pub(super) fn is_network(target: &str) -> bool {
    target.starts_with("/dev/tcp/") || target.starts_with("/dev/udp/")
}
