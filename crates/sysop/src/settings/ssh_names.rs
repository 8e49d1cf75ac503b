//! Host names from the user's ssh config, for lists from which the user chooses a host.
//!
//! Only names are read. `ssh` interprets them, because it reads the file itself.

use std::fs;
use std::path::{Path, PathBuf};

use super::hosts::invalid_name_reason;

const FILE_BYTES_MAX: u64 = 1024 * 1024;
const DEPTH_MAX: usize = 16;
const FILES_MAX: usize = 256;
const NAMES_MAX: usize = 1000;

/// Returns the names of `Host` lines without duplicates, in file order. Patterns are skipped, and so are names that
/// `ssh` could misinterpret.
pub(crate) fn ssh_names(config: &Path, home: &Path) -> Vec<String> {
    let mut reading = SshConfigReader { home: home.to_owned(), names: Vec::new(), files: 0 };
    reading.file(config, 0);
    reading.names
}

struct SshConfigReader {
    home: PathBuf,
    names: Vec<String>,
    files: usize,
}

impl SshConfigReader {
    fn file(&mut self, path: &Path, depth: usize) {
        self.files += 1;
        let small = fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= FILE_BYTES_MAX);
        if !small || depth > DEPTH_MAX || self.files > FILES_MAX {
            return;
        }
        // An unreadable file contains no names.
        let text = fs::read(path).unwrap_or_default();
        for line in String::from_utf8_lossy(&text).lines() {
            let (keyword, words) = words_of(line);
            match keyword.to_ascii_lowercase().as_str() {
                "host" => self.hosts(words),
                "include" => {
                    let files: Vec<PathBuf> = words.iter().flat_map(|word| self.included(word)).collect();
                    files.iter().for_each(|path| self.file(path, depth + 1));
                }
                _ => {}
            }
        }
    }

    fn hosts(&mut self, words: Vec<String>) {
        for name in words {
            let pattern = name.contains(['*', '?', '!']);
            if !pattern
                && invalid_name_reason(&name).is_none()
                && !self.names.contains(&name)
                && self.names.len() < NAMES_MAX
            {
                self.names.push(name);
            }
        }
    }

    /// Returns the files matched by an `Include`, whose last component may contain wildcards.
    fn included(&self, word: &str) -> Vec<PathBuf> {
        let path = match word.strip_prefix("~/") {
            Some(rest) => self.home.join(rest),
            None => self.home.join(".ssh").join(word),
        };
        let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str()))
        else {
            return Vec::new();
        };
        if !name.contains(['*', '?', '[']) {
            return vec![path];
        }
        let Ok(pattern) = globset::Glob::new(name) else { return Vec::new() };
        let pattern = pattern.compile_matcher();
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let hidden = |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
        let mut found: Vec<PathBuf> =
            entries.map(|entry| entry.path()).filter(|path| !hidden(path)).collect();
        found.retain(|path| path.file_name().is_some_and(|name| pattern.is_match(name)));
        found.sort();
        found
    }
}

/// Splits a line into its keyword and its words: `Host a "b"`, `Host=a`.
fn words_of(line: &str) -> (&str, Vec<String>) {
    let line = line.trim();
    let end = line.find(|sign: char| sign.is_whitespace() || sign == '=').unwrap_or(line.len());
    let (keyword, rest) = line.split_at(end);
    if keyword.starts_with('#') {
        return ("", Vec::new());
    }
    let rest = rest.trim_start().strip_prefix('=').unwrap_or(rest);
    let mut words = Vec::new();
    let mut rest = rest.trim();
    while !rest.is_empty() && !rest.starts_with('#') {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    (keyword, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_come_from_the_file_and_its_includes() {
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = home.path().join(".ssh").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        };
        write("more/10-db", "host db1\n  HostName 10.0.0.1\nHost db1 db2 # the second\n");
        write("more/20-loop", "Include ~/.ssh/config\nHost late\n");
        write("more/.hidden", "Host hidden\n");
        write("other", "Host=other\n");
        let config = write(
            "config",
            "# Host comment\nHost web1 web2 *.example.org !web9 ?\n  User me\n\tHost \"with quotes\" quoted\nInclude \
             more/* missing other\nMatch host elsewhere\nHost -oProxyCommand=x a,b\nHost web1\n",
        );
        let names = ssh_names(&config, home.path());
        assert_eq!(names, ["web1", "web2", "quoted", "db1", "db2", "late", "other"]);
        assert!(ssh_names(&home.path().join("none"), home.path()).is_empty());
    }
}
