//! Ignore rules from `.gitignore` and `.ignore` files, applied in the same way on every machine.

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Names of the rule files in a directory. If rules conflict, the later file wins.
pub(crate) const RULES_FILES: [&str; 2] = [".gitignore", ".ignore"];
pub(crate) const RULES_BYTES_MAX: u64 = 1024 * 1024;

pub(crate) fn parse_rules<'a>(texts: impl IntoIterator<Item = &'a str>) -> Gitignore {
    let mut builder = GitignoreBuilder::new("");
    for line in texts.into_iter().flat_map(str::lines) {
        // Invalid globs are skipped, as in git.
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// Returns true if the rules of the directories above `path` ignore it. `rules` yields the path of each directory
/// (empty, or ending in `/`) with its rules, innermost directory first. The first directory with a matching rule
/// decides.
pub(crate) fn is_ignored<'a>(
    rules: impl Iterator<Item = (&'a str, &'a Gitignore)>,
    path: &str,
    is_folder: bool,
) -> bool {
    for (folder, rules) in rules {
        let inside = path.strip_prefix(folder).unwrap_or(path);
        match rules.matched(inside, is_folder) {
            Match::Ignore(_) => return true,
            Match::Whitelist(_) => return false,
            Match::None => {}
        }
    }
    false
}
