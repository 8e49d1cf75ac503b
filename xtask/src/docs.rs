//! `cargo xtask docs`: the guide, an mdBook from `docs/guide` and the pages in `docs`.
//!
//! All pages are in one directory in the built guide, so a link from `docs/guide/x.md` to `../policy.md`
//! becomes `policy.html`. Pages in `docs` that `SUMMARY.md` does not list are added at its end. The server
//! embeds the built guide, so unchanged files keep their modification time.

mod links;
mod search;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use self::links::rewrite;
use crate::setup;
use crate::workspace::{cargo, root, step, target};

/// Builder of the guide, from crates.io: name and version.
const MDBOOK: (&str, &str) = ("mdbook", "0.5.4");
/// File that lists the pages in order.
const SUMMARY: &str = "SUMMARY.md";
/// Line of `SUMMARY.md` after which unlisted pages are added.
const MORE: &str = "# More";
/// Extensions of the files to ship: pages, pictures, style, script and search index.
const SHIPPED: [&str; 7] = ["html", "css", "js", "json", "svg", "png", "webp"];
/// Pages that mdBook creates but the guide does not use.
const UNUSED: [&str; 3] = ["404.html", "toc.html", "print.html"];

/// Writes the generated reference pages and builds the guide.
pub(crate) fn run(rest: &[String]) -> Result<()> {
    match rest {
        [] => references()?,
        [word] if word == "--build" => {}
        _ => bail!("usage: cargo xtask docs [--build]; --build keeps the reference pages as they are"),
    }
    build()?;
    eprintln!("==> created in {}", book().display());
    Ok(())
}

/// Generates `docs/guide/cli.md` and `docs/guide/config-keys.md` from the code. Tests of `sysop` check them.
fn references() -> Result<()> {
    let mut generate = cargo();
    generate.args(["test", "--quiet", "--locked", "--package", "sysop", "--bin", "sysop", "reference"]);
    step("write the reference pages", generate.env("UPDATE_EXPECT", "1"))
}

/// Returns the directory of the built guide.
pub(crate) fn book() -> PathBuf {
    sources().join("book")
}

fn sources() -> PathBuf {
    root().join("docs/guide")
}

pub(crate) fn build() -> Result<()> {
    let mdbook = setup::cargo_tool_with(MDBOOK, &["--no-default-features"])?;
    let staged = target().join("guide");
    if staged.exists() {
        fs::remove_dir_all(&staged).context("cannot remove the last guide")?;
    }
    stage(&staged)?;
    let mut build = Command::new(mdbook);
    build.arg("build").arg(&staged).arg("--dest-dir").arg(staged.join("book"));
    step("build the guide", build.env("RUST_LOG", "warn"))?;
    let built = staged.join("book");
    for file in ["guide.css", "guide.js"] {
        fs::copy(sources().join("theme").join(file), built.join(file))
            .with_context(|| format!("cannot copy {file}"))?;
    }
    fs::write(built.join("search.json"), search::index(&staged.join("src"))?)?;
    update(&built, &book())
}

/// Copies settings, theme, pages and pictures to a directory as mdBook expects them.
fn stage(staged: &Path) -> Result<()> {
    let pages = staged.join("src");
    fs::create_dir_all(pages.join("pictures")).with_context(|| format!("cannot make {}", pages.display()))?;
    fs::create_dir_all(staged.join("theme"))?;
    fs::copy(sources().join("book.toml"), staged.join("book.toml")).context("cannot copy book.toml")?;
    fs::copy(sources().join("theme/index.hbs"), staged.join("theme/index.hbs"))
        .context("cannot copy the theme")?;
    let mut titles = Vec::new();
    let mut texts = String::new();
    for folder in [root().join("docs"), sources()] {
        for name in names(&folder, &["md"])? {
            let text =
                fs::read_to_string(folder.join(&name)).with_context(|| format!("cannot read {name}"))?;
            if name != SUMMARY {
                titles.push((title(&text).unwrap_or(&name).to_owned(), name.clone()));
            }
            let text = rewrite(&text);
            fs::write(pages.join(&name), &text)?;
            texts.push_str(&text);
        }
    }
    for name in names(&root().join("docs/pictures"), &["svg", "png"])? {
        // The server embeds the guide, so pictures that no page shows are left out.
        if texts.contains(&format!("](pictures/{name})")) {
            fs::copy(root().join("docs/pictures").join(&name), pages.join("pictures").join(&name))?;
        }
    }
    let summary = fs::read_to_string(pages.join(SUMMARY))?;
    fs::write(pages.join(SUMMARY), complete(&summary, &titles))?;
    Ok(())
}

/// Returns the names of the files in a directory that have one of these extensions, sorted.
fn names(folder: &Path, endings: &[&str]) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if endings.iter().any(|ending| name.ends_with(&format!(".{ending}"))) {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the text of the first heading.
fn title(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("# "))
}

/// Adds pages that the summary does not list to its last part.
fn complete(summary: &str, titles: &[(String, String)]) -> String {
    let mut completed = summary.trim_end().to_owned();
    let unlisted: Vec<_> =
        titles.iter().filter(|(_, name)| !summary.contains(&format!("]({name})"))).collect();
    if !unlisted.is_empty() && !summary.lines().any(|line| line == MORE) {
        completed.push_str(&format!("\n\n{MORE}\n"));
    }
    for (title, name) in unlisted {
        completed.push_str(&format!("\n- [{title}]({name})"));
    }
    completed.push('\n');
    completed
}

/// Copies the shipped files that differ, and removes files that are no longer built.
fn update(built: &Path, shipped: &Path) -> Result<()> {
    let mut kept = BTreeSet::new();
    for below in ["", "pictures"] {
        let folder = shipped.join(below);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        for name in names(&built.join(below), &SHIPPED)? {
            if UNUSED.contains(&name.as_str()) || is_of_mdbook(&name) {
                continue;
            }
            let bytes = fs::read(built.join(below).join(&name))?;
            let path = folder.join(&name);
            if fs::read(&path).ok().is_none_or(|old| old != bytes) {
                fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
            }
            kept.insert(path);
        }
        for name in names(&folder, &SHIPPED)? {
            if !kept.contains(&folder.join(&name)) {
                fs::remove_file(folder.join(&name))?;
            }
        }
    }
    Ok(())
}

/// Returns true for scripts, styles and pictures from mdBook's own theme.
fn is_of_mdbook(name: &str) -> bool {
    let own = ["guide.css", "guide.js", "search.json"];
    let beside_pages = [".css", ".js", ".json"].iter().any(|ending| name.ends_with(ending));
    (beside_pages && !own.contains(&name)) || name.starts_with("favicon")
}

#[cfg(test)]
mod tests {
    use super::{complete, is_of_mdbook, title};

    #[test]
    fn pages_missing_from_the_summary_are_added_at_its_end() {
        let titles = [
            ("The sandbox".to_owned(), "sandbox.md".to_owned()),
            ("Hooks".to_owned(), "hooks.md".to_owned()),
        ];
        let summary = "# Guide\n\n- [The sandbox](sandbox.md)\n";
        assert_eq!(
            complete(summary, &titles),
            "# Guide\n\n- [The sandbox](sandbox.md)\n\n# More\n\n- [Hooks](hooks.md)\n"
        );
        assert_eq!(complete(summary, &titles[..1]), summary);
    }

    #[test]
    fn the_scripts_of_mdbook_are_left_out() {
        assert!(is_of_mdbook("book-1a2b.js") && is_of_mdbook("favicon.png"));
        assert!(!is_of_mdbook("guide.js") && !is_of_mdbook("policy.html") && !is_of_mdbook("danger.svg"));
        assert_eq!(title("\n# The sandbox\n## x\n"), Some("The sandbox"));
    }
}
