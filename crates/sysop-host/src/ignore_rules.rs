//! Which files are ignored: `.gitignore` and `.ignore` files, wherever they are read.

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Files of rules in a folder; of two rules the one in the later file counts.
pub(crate) const RULES_FILES: [&str; 2] = [".gitignore", ".ignore"];
/// The most bytes of one file of rules.
pub(crate) const RULES_BYTES_MAX: u64 = 1024 * 1024;

/// The rules in the texts of one folder.
pub(crate) fn parse_rules<'a>(texts: impl IntoIterator<Item = &'a str>) -> Gitignore {
    let mut builder = GitignoreBuilder::new("");
    for line in texts.into_iter().flat_map(str::lines) {
        // A rule that is no glob is passed over, as git does.
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// Whether a path is ignored by the rules of the folders above it, given with their paths (empty, or ending in
/// `/`), the innermost first. The innermost rule that says anything decides.
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
