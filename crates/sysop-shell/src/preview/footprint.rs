//! Paths that a command changes and uses, to tell if its preview depends on a command before it.
//!
//! Only programs whose effects are the paths in their words are understood. Every path must be resolved by the host,
//! because a link may lead to the path of another command.

use crate::analyze;
use crate::context::{Access, CommandContext, ResolvedTarget, Survey, Target};
use crate::risk::RiskClass;

/// Programs that only read and change the paths in their words and their input.
const PROGRAMS: &[&str] = &[
    "rm", "rmdir", "unlink", "shred", "mv", "cp", "ln", "mkdir", "touch", "chmod", "chown", "chgrp", "tee",
    "sed", "truncate", "install", "cat", "echo", "printf", "test", "[", "true", "false", ":", "head", "tail",
    "grep", "sort", "uniq", "wc", "cut", "tr", "sudo", "doas",
];
/// Programs whose preview may name the free space.
const USES_SPACE: &[&str] = &["mv", "cp", "install"];
/// Programs after which there may be more free space.
const FREES_SPACE: &[&str] = &["rm", "shred", "truncate"];

/// Everything that a command reads and changes.
#[derive(Debug, Clone)]
pub(super) struct Footprint {
    written: Vec<String>,
    used: Vec<String>,
    frees_space: bool,
    uses_space: bool,
}

impl Footprint {
    /// Returns the footprint of a command that runs in `context`. Returns `None` if its effects or its paths cannot be
    /// determined.
    pub(super) fn of(text: &str, context: &CommandContext, resolved: &[ResolvedTarget]) -> Option<Self> {
        if text.contains(['$', '`']) {
            return None;
        }
        let analysis = analyze(text, &Survey::elsewhere(context.clone()));
        let is_opaque = analysis.risk.class == RiskClass::Opaque
            || analysis.risk.findings.iter().any(|finding| finding.class == RiskClass::Opaque);
        if is_opaque || analysis.invocations.is_empty() {
            return None;
        }
        let mut found = Self { written: Vec::new(), used: Vec::new(), frees_space: false, uses_space: false };
        for invocation in &analysis.invocations {
            let words: Option<Vec<&str>> = invocation.words.iter().map(Option::as_deref).collect();
            let program = *words?.first()?;
            if !PROGRAMS.contains(&program) {
                return None;
            }
            found.frees_space |= FREES_SPACE.contains(&program);
            found.uses_space |= USES_SPACE.contains(&program);
        }
        for target in &analysis.targets {
            let paths = paths_of(target, context, resolved)?;
            match target.access {
                Access::Read => {}
                Access::Write => found.written.extend(paths.iter().cloned()),
                Access::Run | Access::Repository => return None,
            }
            found.used.extend(paths);
        }
        Some(found)
    }

    /// Returns true if the command before may change what a probe of this command sees.
    pub(super) fn follows(&self, before: &Self) -> bool {
        let space = before.frees_space && self.uses_space;
        space || before.written.iter().any(|written| self.used.iter().any(|used| overlap(written, used)))
    }
}

/// Returns a target's path as written, and the paths that it leads to. Returns `None` if the host did not resolve it.
fn paths_of(target: &Target, context: &CommandContext, resolved: &[ResolvedTarget]) -> Option<Vec<String>> {
    let known = |known: &&ResolvedTarget| {
        known.target.word == target.word && known.target.folder == target.folder && !known.target.glob
    };
    let files = &resolved.iter().find(known)?.files;
    let written = match (target.word.strip_prefix('~'), target.folder.as_deref()) {
        (Some(rest), _) if rest.is_empty() || rest.starts_with('/') => {
            format!("{}{rest}", context.home.as_deref()?)
        }
        (Some(_), _) => return None,
        (None, _) if target.word.starts_with('/') => target.word.clone(),
        (None, folder) => format!("{}/{}", folder.filter(|folder| folder.starts_with('/'))?, target.word),
    };
    let mut paths: Vec<String> = files.iter().map(|file| file.path.clone()).collect();
    paths.push(plain(&written)?);
    (!files.is_empty() && !target.glob).then_some(paths)
}

/// Returns an absolute path without empty parts and `.`, or `None` if it contains `..`.
pub(super) fn plain(path: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => return None,
            part => parts.push(part),
        }
    }
    Some(format!("/{}", parts.join("/")))
}

/// Returns true if one of the paths is the other, or contains it.
fn overlap(one: &str, other: &str) -> bool {
    let contains = |outer: &str, inner: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) || outer == "/"
    };
    contains(one, other) || contains(other, one)
}
