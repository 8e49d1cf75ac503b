//! Links between the documents lead to files and headings that exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::tidy::{files, root};

/// Returns the targets of the links of a page, without those in code.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if !is_code {
            // Every second part is code.
            let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("x");
            let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            found.extend(targets.map(str::to_owned));
        }
    }
    found
}

/// Returns the ids of the headings of a page, as forges and mdBook make them.
fn headings(text: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let mut ids = BTreeSet::new();
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let heading =
            line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#') && !is_code);
        ids.extend(heading.map(|heading| {
            let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect::<String>()
        }));
    }
    ids
}

/// Returns the error of a link of a page, or `None` if it leads somewhere or out of the repository.
fn broken(page: &Path, text: &str, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") || link.contains(' ') {
        return None;
    }
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let target = if file.is_empty() { page.to_owned() } else { page.parent()?.join(file) };
    if !target.exists() {
        return Some(format!("{}: {link} does not exist", page.display()));
    }
    let anchor = anchor.filter(|_| target.extension().is_some_and(|ending| ending == "md"))?;
    let there = if file.is_empty() { text.to_owned() } else { std::fs::read_to_string(&target).ok()? };
    (!headings(&there).contains(anchor)).then(|| format!("{}: {link} names no heading", page.display()))
}

#[test]
fn links_between_documents_resolve() {
    let is_page = |path: &PathBuf| {
        let below = path.strip_prefix(root()).expect("it is in the repository");
        let is_document = below.starts_with("docs") || below.components().count() == 1;
        is_document && path.extension().is_some_and(|ending| ending == "md")
    };
    let pages: Vec<_> = files().into_iter().filter(is_page).collect();
    assert!(pages.len() > 30, "{pages:?}");
    let wrong: Vec<_> = pages
        .iter()
        .flat_map(|page| {
            let text = std::fs::read_to_string(page).expect("documents are UTF-8");
            links(&text).iter().filter_map(|link| broken(page, &text, link)).collect::<Vec<_>>()
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_readme_is_short() {
    let text = std::fs::read_to_string(root().join("README.md")).expect("it is there");
    assert!(text.lines().count() <= 150, "move it into docs/guide");
}

#[test]
fn a_link_to_a_missing_heading_is_found() {
    let page = root().join("README.md");
    assert!(broken(&page, "## Start\n", "#start").is_none());
    assert!(broken(&page, "## Start\n", "#end").is_some());
    assert!(
        broken(&page, "", "docs/none.md").is_some() && broken(&page, "", "https://example.org").is_none()
    );
    assert_eq!(links("[a](b) `[c](d)` ![e](f.svg)\n```\n[g](h)\n```\n"), ["b", "f.svg"]);
}
