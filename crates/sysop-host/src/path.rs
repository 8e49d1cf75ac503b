//! Path arguments of tools. Parsing a path does not resolve links; the machine does so beneath its root.

use std::fmt;

use crate::machine::MachineError;

const PATH_BYTES_MAX: usize = 4096;

/// Maximum components of a path. It is limited because a write creates the missing directories.
const NAMES_MAX: usize = 128;

/// Path relative to the root. It may contain `..` and lead outside the root. Resolving it then fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RootPath(String);

impl RootPath {
    /// Parses a path. An absolute path must begin with one of `roots`, the absolute paths of the root.
    pub(crate) fn parse(text: &str, roots: &[String]) -> Result<Self, MachineError> {
        if text.is_empty() || text.len() > PATH_BYTES_MAX || text.contains('\0') {
            let why = "a path must have 1 to 4096 bytes and no NUL byte";
            return Err(MachineError::Refused(format!("invalid path {}: {why}", shown(text))));
        }
        let path = Self::below_root(text, roots)?;
        if path.0.split('/').count() > NAMES_MAX {
            let why = format!("a path may have at most {NAMES_MAX} components below the root");
            return Err(MachineError::Refused(format!("invalid path: {why}")));
        }
        Ok(path)
    }

    fn below_root(text: &str, roots: &[String]) -> Result<Self, MachineError> {
        if !text.starts_with('/') {
            return Ok(Self::clean(text));
        }
        let inside = roots.iter().find_map(|root| {
            let rest = text.strip_prefix(root.trim_end_matches('/'))?;
            (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
        });
        inside.map(Self::clean).ok_or_else(|| MachineError::OutsideRoot(shown(text)))
    }

    /// Removes empty and `.` components. A trailing `/` is kept, because it marks a directory.
    fn clean(text: &str) -> Self {
        let folder = text.ends_with('/') || text.ends_with("/.");
        let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        if parts.is_empty() {
            return Self(".".to_owned());
        }
        Self(parts.join("/") + if folder { "/" } else { "" })
    }

    /// Returns the path relative to the root, for system calls.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Splits the path into directory and file name. Returns `None` if the path marks a directory (`.`, `a/`, `a/..`).
    pub(crate) fn split(&self) -> Option<(&str, &str)> {
        split(&self.0)
    }

    pub(crate) fn join(&self, name: &str) -> Self {
        match self.0.as_str() {
            "." => Self(name.to_owned()),
            folder => Self(format!("{}/{name}", folder.trim_end_matches('/'))),
        }
    }
}

impl fmt::Display for RootPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.0))
    }
}

/// Splits a cleaned path into its directory and its last name. Returns `None` if the last component is not a file name.
pub(crate) fn split(path: &str) -> Option<(&str, &str)> {
    let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
    (!matches!(name, "" | "." | "..")).then_some((folder, name))
}

/// Escapes control characters, so that the name fits on one line.
pub(crate) fn shown(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for character in name.chars() {
        if character.is_control() {
            text.extend(character.escape_default());
        } else {
            text.push(character);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{MachineError, RootPath, shown};

    fn parse(text: &str) -> Result<String, MachineError> {
        let roots = ["/srv/app".to_owned(), "/mnt/real/".to_owned()];
        RootPath::parse(text, &roots).map(|path| path.as_str().to_owned())
    }

    #[test]
    fn absolute_paths_match_any_name_of_the_root() {
        for text in ["a/b", "./a//b", "/srv/app/a/b", "/srv/app//a/./b", "/mnt/real/a/b"] {
            assert_eq!(parse(text).unwrap(), "a/b", "{text}");
        }
        for text in [".", "./", "/srv/app", "/srv/app/", "/mnt/real"] {
            assert_eq!(parse(text).unwrap(), ".", "{text}");
        }
    }

    #[test]
    fn path_depth_is_bounded() {
        assert!(parse(&vec!["a"; 128].join("/")).is_ok());
        for text in [vec!["a"; 129].join("/"), format!("/srv/app/{}", "a/".repeat(2000))] {
            assert!(matches!(parse(&text), Err(MachineError::Refused(_))));
        }
    }

    #[test]
    fn a_sibling_directory_with_a_common_prefix_is_outside() {
        for text in
            ["/srv/app-evil/a", "/srv/ap", "/etc/passwd", "/", "//srv/app/a", "/proc/self/root/srv/app"]
        {
            assert!(matches!(parse(text), Err(MachineError::OutsideRoot(_))), "{text}");
        }
    }

    #[test]
    fn dots_and_trailing_slashes_are_kept_for_the_resolver() {
        assert_eq!(parse("a/../../b").unwrap(), "a/../../b");
        assert_eq!(parse("/srv/app/../x").unwrap(), "../x");
        assert_eq!(parse("a/").unwrap(), "a/");
        assert_eq!(parse("a/.").unwrap(), "a/");
    }

    #[test]
    fn invalid_paths_are_rejected() {
        for text in ["", "a\0b", &"x".repeat(4097)] {
            assert!(matches!(parse(text), Err(MachineError::Refused(_))), "{text:?}");
        }
    }

    #[test]
    fn displayed_names_are_one_line() {
        assert_eq!(shown("a\nb\x1b[31m\u{9b}é"), "a\\nb\\u{1b}[31m\\u{9b}é");
    }
}
