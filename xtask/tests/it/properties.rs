//! Each of the 22 properties of the agent-rs design has a test in the workspace, marked with its number.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Beginning of the annotation above a property's test.
const MARK: &str = "// **Feature: agent-rs, Property ";
const PROPERTIES: u32 = 22;
/// Minimum number of cases that the design requires of each.
const CASES_MIN: u32 = 100;

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, into);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            into.push(path);
        }
    }
}

/// Returns the number of each annotation, and true if it has text and stands directly above a test.
fn annotated(text: &str) -> Vec<(u32, bool)> {
    text.match_indices(MARK)
        .filter_map(|(at, _)| {
            let (number, rest) = text[at + MARK.len()..].split_once(':')?;
            let (words, rest) = rest.split_once("**\n").unwrap_or_default();
            let test = rest.trim_start().strip_prefix("#[test]").map(str::trim_start);
            let is_test = !words.trim().is_empty() && test.is_some_and(|test| test.starts_with("fn "));
            Some((number.parse().ok()?, is_test))
        })
        .collect()
}

/// Returns the smallest number of cases in a file of properties.
fn cases(text: &str) -> Option<u32> {
    text.match_indices("with_cases(")
        .filter_map(|(at, found)| text[at + found.len()..].split(')').next()?.trim().parse().ok())
        .min()
}

#[test]
fn every_property_of_the_agent_rs_design_is_a_test() {
    let crates =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace").join("crates");
    let mut files = Vec::new();
    sources(&crates, &mut files);
    let mut found: BTreeMap<u32, Vec<PathBuf>> = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source file is text");
        for (number, is_test) in annotated(&text) {
            assert!(
                is_test,
                "the annotation of property {number} in {} does not stand above a test",
                file.display()
            );
            assert!(
                cases(&text).is_none_or(|cases| cases >= CASES_MIN),
                "{} runs a property with fewer than {CASES_MIN} cases",
                file.display()
            );
            found.entry(number).or_default().push(file.clone());
        }
    }
    let missing: Vec<u32> = (1..=PROPERTIES).filter(|number| !found.contains_key(number)).collect();
    assert!(missing.is_empty(), "these properties have no test: {missing:?}");
    assert_eq!(found.keys().max(), Some(&PROPERTIES), "a property has too high a number");
}

#[test]
fn an_annotation_without_its_test_does_not_count() {
    let of = |body: &str| annotated(&format!("{MARK}7: what it says**\n{body}"));
    assert_eq!(of("    #[test]\n    fn property_7_edits(x in 0..3) {}"), [(7, true)]);
    assert_eq!(of("    fn property_7_edits() {}"), [(7, false)]);
    assert_eq!(annotated(&format!("{MARK}7: **\n    #[test]\n    fn nothing() {{}}")), [(7, false)]);
    assert_eq!(cases("with_cases(64) with_cases(128)"), Some(64));
}
