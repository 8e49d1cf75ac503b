//! The shape of files: headers, lengths, leftover marks, ignored and sleeping tests.

use std::path::{Path, PathBuf};
use std::process::Command;

const FILE_LINES_MAX: usize = 800;
const COMMENT_COLUMNS_MAX: usize = 120;
const ARCHITECTURE_LINES_MAX: usize = 220;
/// Minimum rows of "to change X, start at Y".
const CODEMAP_ROWS_MIN: usize = 30;

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository")
}

/// Returns the files that git tracks or would track.
pub(crate) fn files() -> Vec<PathBuf> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).expect("names are UTF-8");
    names.split_terminator('\0').map(|name| root().join(name)).filter(|path| path.is_file()).collect()
}

pub(crate) fn sources() -> impl Iterator<Item = (PathBuf, String)> {
    let rust = files().into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "rs"));
    rust.map(|path| {
        let text = std::fs::read_to_string(&path).expect("sources are UTF-8");
        (path, text)
    })
}

#[test]
fn every_module_has_a_doc_comment() {
    for (path, text) in sources() {
        assert!(text.starts_with("//!"), "{} does not begin with `//!`", path.display());
    }
}

#[test]
fn long_files_have_a_reason() {
    for (path, text) in sources() {
        let header: String = text.lines().take_while(|line| line.starts_with("//!")).collect();
        let lines = text.lines().count();
        assert!(
            lines <= FILE_LINES_MAX || header.contains("long because"),
            "{} has {lines} lines; split it, or say in its header what it is `long because` of",
            path.display()
        );
    }
}

#[test]
fn comments_are_not_wider_than_a_line() {
    for (path, text) in sources() {
        // A row of a table has no place for a break.
        let comments = text.lines().enumerate().filter(|(_, line)| {
            let line = line.trim_start();
            line.starts_with("//") && !line.trim_start_matches(['/', '!']).starts_with(" |")
        });
        for (number, line) in comments {
            let columns = line.chars().count();
            assert!(
                columns <= COMMENT_COLUMNS_MAX,
                "{}:{} is a comment of {columns} columns; wrap it at {COMMENT_COLUMNS_MAX}",
                path.display(),
                number + 1
            );
        }
    }
}

#[test]
fn no_todo_comments_remain() {
    let marks = ["TO".to_owned() + "DO", "FIX".to_owned() + "ME", "X".repeat(3)];
    let ignored = "#[ign".to_owned() + "ore";
    for (path, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            let marked =
                marks.iter().any(|mark| line.split(|c: char| !c.is_alphanumeric()).any(|word| word == mark));
            assert!(!marked, "{}:{} has a leftover mark", path.display(), number + 1);
            assert!(!line.contains(&ignored), "{}:{} ignores a test", path.display(), number + 1);
        }
    }
}

#[test]
fn tests_do_not_sleep() {
    let sleeps = ["thread::sl".to_owned() + "eep(", "time::sl".to_owned() + "eep("];
    for (path, text) in sources() {
        let in_tests =
            path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs");
        for (number, line) in text.lines().enumerate() {
            let sleeps = in_tests && sleeps.iter().any(|sleep| line.contains(sleep));
            assert!(!sleeps, "{}:{} sleeps; wait for an event with a deadline", path.display(), number + 1);
        }
    }
}

#[test]
fn the_architecture_document_is_short() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("it is there");
    assert!(text.lines().count() < ARCHITECTURE_LINES_MAX);
}

#[test]
fn the_glossary_names_files_that_exist() {
    let text = std::fs::read_to_string(root().join("docs/glossary.md")).expect("it is there");
    let rows = text.lines().filter(|line| line.starts_with("| ") && line.ends_with("` |"));
    let files: Vec<_> = rows.filter_map(|row| row.rsplit('`').nth(1)).collect();
    assert!(!files.is_empty(), "the last column of docs/glossary.md names files");
    for file in files {
        assert!(root().join(file).is_file(), "docs/glossary.md names {file}, which does not exist");
    }
}

#[test]
fn the_architecture_document_names_existing_files() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("it is there");
    let names = text.split('`').skip(1).step_by(2);
    let paths: Vec<_> = names
        .filter(|name| ["crates/", "web/", "xtask/", "docs/"].iter().any(|top| name.starts_with(top)))
        .collect();
    for path in &paths {
        assert!(root().join(path).exists(), "ARCHITECTURE.md names {path}, which does not exist");
    }
    let rows = text.lines().skip_while(|line| !line.starts_with("| to change")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|')).count();
    assert!(rows >= CODEMAP_ROWS_MIN, "the codemap has {rows} rows");
}

#[test]
fn every_dependency_of_the_workspace_is_used() {
    let workspace = std::fs::read_to_string(root().join("Cargo.toml")).expect("it is there");
    let section = workspace.split("[workspace.dependencies]").nth(1).expect("there are dependencies");
    let section = section.split("\n[").next().expect("a section ends");
    let manifests: Vec<_> = files()
        .into_iter()
        .filter(|path| path.ends_with("Cargo.toml") && path != &root().join("Cargo.toml"))
        .map(|path| std::fs::read_to_string(path).expect("manifests are UTF-8"))
        .collect();
    for line in section.lines().filter(|line| line.contains(" = ") && !line.starts_with('#')) {
        let name = line.split(" = ").next().expect("a name").trim();
        let wanted = format!("{name}.workspace = true");
        let with_features = format!("{name} = {{ workspace = true");
        let used = manifests
            .iter()
            .any(|text| text.lines().any(|line| line == wanted || line.starts_with(&with_features)));
        assert!(used, "no crate uses {name}");
    }
}

#[test]
fn programs_with_release_settings_of_their_own_are_stripped() {
    let workspace = std::fs::read_to_string(root().join("Cargo.toml")).expect("it is there");
    let workspace: toml::Table = workspace.parse().expect("a manifest");
    let release = &workspace["profile"]["release"];
    assert_eq!(release["strip"].as_bool(), Some(true));
    let packages = release["package"].as_table().expect("packages have settings");
    let programs: Vec<_> = packages
        .iter()
        .filter(|(name, _)| root().join("crates").join(name).join("src/main.rs").is_file())
        .collect();
    assert!(!programs.is_empty());
    for (name, settings) in programs {
        let strip = settings.get("strip").and_then(toml::Value::as_str);
        assert_eq!(strip, Some("symbols"), "{name} does not inherit `strip`, so it would keep its symbols");
    }
}

#[test]
fn each_decision_has_its_own_number() {
    let mut seen = std::collections::BTreeSet::new();
    let decisions =
        files().into_iter().filter(|path| path.parent().is_some_and(|folder| folder.ends_with("docs/adr")));
    for path in decisions {
        let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        let Ok(number) = name.split('-').next().unwrap_or_default().parse::<u32>() else { continue };
        let text = std::fs::read_to_string(&path).expect("decisions are UTF-8");
        assert!(text.starts_with(&format!("# {number}. ")), "the title of {name} has another number");
        assert!(seen.insert(number), "{name} has the number of another decision");
    }
    assert!(seen.len() > 30, "{seen:?}");
}
