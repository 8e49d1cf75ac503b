//! The bans of the pure crates: each has its own `clippy.toml`, which forbids clock, environment, files, processes,
//! threads and network.

use std::path::{Path, PathBuf};

use crate::tidy::root;

/// Crates whose results depend only on their arguments.
const PURE: [&str; 3] = ["sysop-core", "sysop-shell", "sysop-wire"];
/// One banned call of each kind.
const BANNED: [&str; 15] = [
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "std::env::var",
    "std::env::var_os",
    "std::env::vars",
    "std::env::current_dir",
    "std::env::args",
    "std::fs::read",
    "std::fs::write",
    "std::fs::File::open",
    "std::fs::OpenOptions::open",
    "std::process::Command::new",
    "std::process::exit",
    "std::thread::spawn",
    "std::net::TcpStream::connect",
];

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the directories of the pure crates that exist.
fn pure_crates() -> Vec<PathBuf> {
    let folders = PURE.iter().map(|name| root().join("crates").join(name));
    folders.filter(|folder| folder.join("Cargo.toml").is_file()).collect()
}

/// Returns the reason that a `clippy.toml` gives for the ban of a call.
fn reason<'a>(text: &'a str, call: &str) -> Option<&'a str> {
    let entry = format!("{{ path = \"{call}\", reason = \"");
    let (_, rest) = text.split_once("disallowed-methods = [")?.1.split_once(&entry)?;
    rest.split_once('"').map(|(reason, _)| reason).filter(|reason| !reason.is_empty())
}

#[test]
fn pure_crates_ban_clocks_files_and_other_inputs() {
    for folder in pure_crates() {
        let path = folder.join("clippy.toml");
        let text = read(&path);
        for call in BANNED {
            assert!(reason(&text, call).is_some(), "{} does not ban {call} with a reason", path.display());
        }
        assert!(text.contains("disallowed-types = ["), "{} does not ban any types", path.display());
    }
}

#[test]
fn pure_crates_keep_the_settings_of_the_repository() {
    let settings = read(&root().join("clippy.toml"));
    for folder in pure_crates() {
        let path = folder.join("clippy.toml");
        let text = read(&path);
        for setting in settings.lines().filter(|line| line.contains(" = ")) {
            assert!(text.lines().any(|line| line == setting), "{} lacks `{setting}`", path.display());
        }
    }
}

#[test]
fn a_ban_needs_a_reason() {
    let text = "disallowed-methods = [\n    { path = \"a::b\", reason = \"why\" },\n    { path = \"a::c\", reason = \"\" },\n]";
    assert_eq!(reason(text, "a::b"), Some("why"));
    assert_eq!(reason(text, "a::c"), None);
    assert_eq!(reason(text, "a::d"), None);
}
