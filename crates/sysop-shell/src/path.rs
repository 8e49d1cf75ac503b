//! Paths as text: system paths, and paths too broad for a mistake to be undone.
//!
//! Resolves nothing: symbolic links, mounts and glob matches are unknown here.

use super::lexer::UNKNOWN;
use super::protected;

const SPECIAL: [char; 5] = ['*', '?', '[', '{', UNKNOWN];

/// Joins a path as written to the folder it is relative to, and removes `.`, `..` and repeated slashes.
///
/// A path relative to an unknown folder starts with [`UNKNOWN`].
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

/// Describes the protected place of a resolved path, if it is part of the system or obeyed later.
pub(super) fn protected(resolved: &str) -> Option<&'static str> {
    protected::written(resolved, None).map(|(_, what)| what)
}

/// Returns true for files in shared memory, which are ordinary files among the devices.
pub(super) fn is_shared_memory(resolved: &str) -> bool {
    resolved.to_lowercase().starts_with("/dev/shm/")
}

/// Returns true if a recursive change of this resolved path could destroy a whole system, home or project.
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

/// Returns true if a resolved path names a disk or a partition, judged by the name.
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
