//! The names of types, modules and files, and the subjects of commits.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::tidy::{files, root, sources};

/// Meaningless words (participles, pronouns, furniture) that must not be a segment of the name of a type, module or
/// file.
const BANNED: [&str; 26] = [
    "told", "said", "came", "kept", "held", "shown", "wanted", "placed", "far", "desk", "desks", "room",
    "rooms", "house", "door", "doors", "gate", "gates", "letter", "letters", "heir", "errand", "errands",
    "ear", "looks", "lent",
];
/// Maximum number of types in the workspace with the same name.
const MEANINGS_MAX: usize = 3;
/// Names exempt from that maximum.
const COMMON: [&str; 4] = ["Error", "State", "Kind", "Config"];
const SUBJECT_CHARS_MAX: usize = 72;
/// Tag after which the rule for subjects applies.
const SUBJECTS_SINCE: &str = "style-2";

/// Splits `FooBar`, `foo_bar` and `foo-bar` into lowercase words.
fn segments(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut previous_lower = false;
    for c in name.chars() {
        let starts = !c.is_alphanumeric() || (c.is_uppercase() && previous_lower);
        if starts && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if c.is_alphanumeric() {
            words.last_mut().expect("it begins with one").extend(c.to_lowercase());
        }
        previous_lower = c.is_lowercase() || c.is_numeric();
    }
    words
}

fn banned(name: &str) -> Option<String> {
    segments(name).into_iter().find(|word| BANNED.contains(&word.as_str()))
}

/// Parses the type or module that a line of Rust declares: `(keyword, name)`.
fn declaration(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let line = line.strip_prefix("pub").map_or(line, |rest| {
        let rest =
            rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |(_, rest)| rest);
        rest.trim_start()
    });
    let (keyword, rest) = line.split_once(' ')?;
    if !["struct", "enum", "trait", "type", "mod", "union"].contains(&keyword) {
        return None;
    }
    let name = rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()?;
    (!name.is_empty()).then_some((keyword, name))
}

#[test]
fn types_modules_and_files_are_named_for_what_they_are() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            if let Some((_, name)) = declaration(line)
                && let Some(word) = banned(name)
            {
                wrong.push(format!("{}:{}: {name} has {word:?} in its name", path.display(), number + 1));
            }
        }
    }
    for path in files() {
        let code =
            path.extension().is_some_and(|it| ["rs", "ts", "tsx", "sh", "css"].iter().any(|e| it == *e));
        let named = path.file_stem().and_then(|stem| stem.to_str()).filter(|_| code);
        let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str()).filter(|_| code);
        if let Some(word) = named.into_iter().chain(folder).find_map(banned) {
            wrong.push(format!("{}: a file or folder with {word:?} in its name", path.display()));
        }
    }
    assert!(wrong.is_empty(), "use the field's own term (docs/glossary.md):\n{}", wrong.join("\n"));
}

#[test]
fn a_type_name_has_few_definitions() {
    let mut meanings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in sources() {
        let path = path.strip_prefix(root()).expect("it is in the repository").display().to_string();
        if path.contains("/tests/") || path.ends_with("tests.rs") || path.contains("/examples/") {
            continue;
        }
        let ours = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for line in ours.lines() {
            // An indented `type` belongs to a trait or an implementation.
            if let Some((keyword, name)) = declaration(line)
                && keyword != "mod"
                && !(keyword == "type" && line.starts_with(' '))
                && !COMMON.contains(&name)
            {
                meanings.entry(name.to_owned()).or_default().push(path.clone());
            }
        }
    }
    let wrong: Vec<_> = meanings.iter().filter(|(_, places)| places.len() > MEANINGS_MAX).collect();
    assert!(wrong.is_empty(), "names with more than {MEANINGS_MAX} meanings: {wrong:#?}");
}

#[test]
fn commit_subjects_are_short() {
    let range = format!("{SUBJECTS_SINCE}..HEAD");
    let log = Command::new("git").args(["log", "--format=%s", &range]).current_dir(root()).output();
    // A clone without the tag has no history to check.
    let Some(log) = log.ok().filter(|log| log.status.success()) else { return };
    for subject in String::from_utf8_lossy(&log.stdout).lines() {
        let length = subject.chars().count();
        assert!(length <= SUBJECT_CHARS_MAX, "{length} characters, not {SUBJECT_CHARS_MAX}: {subject}");
    }
}

#[test]
fn names_are_split_into_words() {
    assert_eq!(segments("HTTPServer2Far"), ["httpserver2", "far"]);
    assert_eq!(segments("kept_alive"), ["kept", "alive"]);
    assert_eq!(segments("session-link.test"), ["session", "link", "test"]);
    assert_eq!(banned("FarMachine").as_deref(), Some("far"));
    assert_eq!(banned("Farm"), None);
    assert_eq!(declaration("    pub(super) struct Told<'a> {"), Some(("struct", "Told")));
    assert_eq!(declaration("pub trait Rooms: Send {"), Some(("trait", "Rooms")));
    assert_eq!(declaration("let mod_name = 1;"), None);
}
