//! Filters a remote list of files by ignore rules and patterns, with the same rules as on this machine.

use std::collections::HashMap;

use ignore::gitignore::Gitignore;

use crate::ignore_rules::{is_ignored, parse_rules};
use crate::machine::{FIND_FILES_MAX, FileSearch, FileSearchResult};

/// Returns the files that match the search and are not ignored. `said` lists ignore files with their contents, then an
/// empty field, then the files. A list of `bytes_max` bytes or more was truncated.
pub(super) fn select_files(search: &FileSearch, said: &[u8], bytes_max: usize) -> FileSearchResult {
    // The limit applies to the names; the rules before them only make it take effect slightly earlier.
    let cut = said.len() >= bytes_max;
    let whole = said.iter().rposition(|byte| *byte == 0).map_or(0, |end| end + 1);
    let mut fields = said[..whole].split(|byte| *byte == 0).map(|field| std::str::from_utf8(field).ok());
    let mut texts: HashMap<&str, Vec<(&str, &str)>> = HashMap::new();
    while let Some(Some(name)) = fields.next().filter(|name| *name != Some("")) {
        let content = fields.next().flatten().unwrap_or("");
        let name = name.strip_prefix("./").unwrap_or(name);
        let (folder, file) = name.split_at(name.rfind('/').map_or(0, |at| at + 1));
        texts.entry(folder).or_default().push((file, content));
    }
    let ignored =
        IgnoreRules { rules: texts.into_iter().map(|(folder, files)| (folder, one(files))).collect() };
    let mut paths: Vec<&str> = fields
        .flatten()
        .filter_map(|path| path.strip_prefix("./"))
        .filter(|path| {
            let name = path.rsplit('/').next().unwrap_or(path);
            search.glob.is_match(if search.by_name { name } else { path }) && !ignored.covers(path)
        })
        .collect();
    paths.sort_by_cached_key(|path| path.split('/').collect::<Vec<_>>());
    let incomplete = if cut {
        Some("too many files; search a subdirectory")
    } else {
        (paths.len() > FIND_FILES_MAX).then_some("more files match; use a narrower pattern")
    };
    paths.truncate(FIND_FILES_MAX);
    let paths = paths.into_iter().map(|path| search.folder.join(path).as_str().to_owned()).collect();
    FileSearchResult { paths, incomplete }
}

/// Returns the rules of one directory. The rules of `.ignore` follow the rules of `.gitignore`, so that `.ignore` wins.
fn one(mut files: Vec<(&str, &str)>) -> Gitignore {
    files.sort_by_key(|(name, _)| *name == ".ignore");
    parse_rules(files.into_iter().map(|(_, text)| text))
}

struct IgnoreRules<'a> {
    /// Rules by the path of their directory, which is empty or ends in `/`.
    rules: HashMap<&'a str, Gitignore>,
}

impl IgnoreRules<'_> {
    /// Returns true if the file or one of its parent directories is ignored.
    fn covers(&self, path: &str) -> bool {
        let ends = path.match_indices('/').map(|(at, _)| (at, true)).chain([(path.len(), false)]);
        ends.into_iter().any(|(end, is_folder)| self.matches(&path[..end], is_folder))
    }

    fn matches(&self, path: &str, is_folder: bool) -> bool {
        let above = path.match_indices('/').map(|(at, _)| &path[..=at]);
        let innermost_first = above.rev().chain([""]);
        let rules = innermost_first.filter_map(|folder| Some((folder, self.rules.get(folder)?)));
        is_ignored(rules, path, is_folder)
    }
}

#[cfg(test)]
mod tests {
    use globset::Glob;

    use super::{FileSearch, select_files};
    use crate::machine::FIND_FILES_MAX;
    use crate::path::RootPath;

    fn search(glob: &str) -> FileSearch {
        let glob = Glob::new(glob).unwrap().compile_matcher();
        FileSearch { folder: RootPath::parse("sub", &[]).unwrap(), glob, by_name: true }
    }

    #[test]
    fn ignore_rules_apply_in_and_below_their_directory() {
        let said =
            b"./.gitignore\0*.log\ntarget/\n\0./a/.ignore\0secret\n\0\0./b.log\0./a/secret\0./secret\0\
            ./target/x\0./a/target/y\0./target-not\0";
        let found = select_files(&search("*"), said, 1_000);
        assert_eq!(found.paths, ["sub/secret", "sub/target-not"]);
        assert_eq!(found.incomplete, None);
    }

    #[test]
    fn a_truncated_list_is_marked_and_has_no_partial_name() {
        const BYTES_MAX: usize = 10_000;
        let mut said = b"\0".to_vec();
        while said.len() < BYTES_MAX {
            said.extend_from_slice(b"./file\0");
        }
        said.truncate(BYTES_MAX);
        let found = select_files(&search("f*"), &said, BYTES_MAX);
        assert_eq!(found.incomplete, Some("too many files; search a subdirectory"));
        assert_eq!(found.paths.len(), FIND_FILES_MAX);
        assert!(found.paths.iter().all(|path| path == "sub/file"));
    }
}
