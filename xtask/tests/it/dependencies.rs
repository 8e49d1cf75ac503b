//! The dependency arrows of ARCHITECTURE.md, checked against `cargo metadata`, and the crates that `layout.ld` names.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::tidy::root;

/// Each crate with its allowed dependencies in the workspace.
const ARROWS: [(&str, &[&str]); 20] = [
    ("sysop-shell", &[]),
    ("sysop-core", &["sysop-shell"]),
    ("sysop-driver", &["sysop-core"]),
    ("sysop-wire", &["sysop-core"]),
    ("sysop-provider", &["sysop-driver", "sysop-core"]),
    ("sysop-host", &["sysop-driver", "sysop-core"]),
    ("sysop-mcp", &["sysop-host", "sysop-driver", "sysop-core"]),
    ("sysop-store", &["sysop-driver", "sysop-core"]),
    ("sysop-mock-llm", &[]),
    ("sysop-local", &[]),
    ("sysop-term", &["sysop-core", "sysop-shell"]),
    ("sysop-tui", &["sysop-term", "sysop-driver", "sysop-core"]),
    ("sysop-repl", &["sysop-term", "sysop-driver", "sysop-core", "sysop-wire"]),
    ("sysop-acp", &["sysop-driver", "sysop-core"]),
    ("sysop-server", &["sysop-driver", "sysop-core", "sysop-wire"]),
    ("sysop-client", &["sysop-driver", "sysop-core", "sysop-wire"]),
    ("sysop-mcp-server", &["sysop-driver", "sysop-core"]),
    (
        "sysop",
        &[
            "sysop-shell", "sysop-core", "sysop-driver", "sysop-wire", "sysop-provider", "sysop-host",
            "sysop-mcp", "sysop-store", "sysop-mock-llm", "sysop-term", "sysop-tui", "sysop-repl",
            "sysop-acp", "sysop-server", "sysop-client", "sysop-mcp-server", "sysop-local",
        ],
    ),
    ("sysop-desktop", &[]),
    ("xtask", &[]),
];

/// External crates that a crate must not depend on.
const ABSENCES: [(&str, &[&str]); 16] = [
    ("sysop-shell", &["tokio", "reqwest", "rand", "jiff", "tracing", "rustix", "libc"]),
    (
        "sysop-core",
        &["tokio", "reqwest", "sqlx", "rusqlite", "rand", "uuid", "jiff", "tracing", "axum", "clap"],
    ),
    ("sysop-driver", &["reqwest", "sqlx", "rusqlite", "axum", "clap", "rustix"]),
    ("sysop-provider", &["sqlx", "rusqlite", "clap", "rustix", "pty-process"]),
    ("sysop-host", &["reqwest", "sqlx", "rusqlite", "axum", "clap"]),
    ("sysop-mcp", &["sqlx", "rusqlite", "axum", "clap", "rustix", "pty-process"]),
    ("sysop-store", &["reqwest", "axum", "clap", "rustix"]),
    ("sysop-term", &["tokio", "reqwest", "sqlx", "rusqlite", "axum", "clap", "rustix", "crossterm"]),
    ("sysop-repl", &["reqwest", "sqlx", "rusqlite", "axum", "clap"]),
    ("sysop-acp", &["reqwest", "sqlx", "rusqlite", "axum", "clap", "crossterm", "ratatui", "rustix"]),
    ("sysop-tui", &["reqwest", "sqlx", "rusqlite", "axum", "clap", "tokio-tungstenite"]),
    ("sysop-server", &["reqwest", "sqlx", "rusqlite", "clap", "ratatui"]),
    ("sysop", &["wry", "tao", "gtk", "webkit2gtk"]),
    ("sysop-mcp-server", &["reqwest", "sqlx", "rusqlite", "axum", "clap", "ratatui", "rustix"]),
    ("sysop-local", &["sqlx", "rusqlite", "axum", "clap", "ratatui"]),
    ("sysop-client", &["sqlx", "rusqlite", "axum", "clap", "ratatui", "rustix"]),
];

fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--locked", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo metadata starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

/// Returns the crates of the workspace, each with its dependencies outside of tests.
fn packages() -> Vec<(String, BTreeSet<String>)> {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    packages
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().expect("dependencies");
            let names = dependencies
                .iter()
                .filter(|dependency| dependency["kind"] != "dev")
                .map(|dependency| dependency["name"].as_str().expect("a name").to_owned());
            (package["name"].as_str().expect("a name").to_owned(), names.collect())
        })
        .collect()
}

#[test]
fn crates_depend_along_the_arrows_only() {
    let packages = packages();
    let ours: BTreeSet<_> = packages.iter().map(|(name, _)| name.clone()).collect();
    let known: BTreeSet<_> = ARROWS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(ours, known, "a new crate needs a page in docs/adr and a line here");
    for (name, dependencies) in &packages {
        let allowed = ARROWS.iter().find(|(of, _)| of == name).expect("known").1;
        for dependency in dependencies.intersection(&ours) {
            assert!(allowed.contains(&dependency.as_str()), "{name} must not depend on {dependency}");
        }
    }
}

#[test]
fn crates_keep_out_what_they_must_not_know() {
    for (name, dependencies) in packages() {
        let absent = ABSENCES.iter().find(|(of, _)| *of == name).map_or(&[][..], |(_, absent)| *absent);
        for dependency in absent {
            assert!(!dependencies.contains(*dependency), "{name} must not depend on {dependency}");
        }
    }
}

#[test]
fn the_layout_of_the_program_names_functions_of_crates_that_exist() {
    let lock = read("Cargo.lock");
    let packages = lock.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    let mut crates: BTreeSet<String> = packages.map(|name| name.replace('-', "_")).collect();
    crates.extend(["alloc", "core", "std"].map(str::to_owned));
    let layout = read("crates/sysop/layout.ld");
    // `.text._ZN5sysop4main17h*E`: the length of a name, the name, and so on.
    let paths = layout.lines().filter_map(|line| line.trim().strip_prefix(".text._ZN"));
    let first = |path: &str| -> Option<String> {
        let name = path.trim_start_matches(|sign: char| sign.is_ascii_digit());
        let length: usize = path[..path.len() - name.len()].parse().ok()?;
        // The path of an implementation begins with the type in `<…>`, encoded.
        name.get(..length).filter(|name| !name.contains('$')).map(str::to_owned)
    };
    let named: Vec<_> = paths.filter_map(first).collect();
    assert!(named.len() > 1000, "{}", named.len());
    for name in named {
        assert!(crates.contains(&name), "no crate is called `{name}`; run `cargo xtask layout`");
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("cannot read {path}: {error}"))
}
