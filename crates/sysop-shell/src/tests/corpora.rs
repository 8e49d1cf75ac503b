//! The committed tables of commands, each line judged.

use super::class_of;
use crate::risk::RiskClass;

const BYPASSES: &str = include_str!("../../tests/corpora/bypasses.txt");
const EVERYDAY: &str = include_str!("../../tests/corpora/everyday.txt");
const READS_UNASKED: &str = include_str!("../../tests/corpora/reads_unasked.txt");
const CHANGES_UNASKED: &str = include_str!("../../tests/corpora/changes_unasked.txt");
const DANGEROUS: &str = include_str!("../../tests/corpora/dangerous.txt");

fn lines(table: &str) -> impl Iterator<Item = String> {
    table
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| line.replace('␤', "\n"))
}

fn class(name: &str) -> RiskClass {
    serde_json::from_value(name.into()).expect("the table names a class")
}

fn entries(table: &str) -> Vec<(RiskClass, String)> {
    let entry = |line: String| {
        let (name, command) = line.split_once(" | ").expect("a class and a command");
        (class(name), command.to_owned())
    };
    lines(table).map(entry).collect()
}

/// Returns the everyday commands and their classes.
pub(super) fn everyday() -> Vec<(RiskClass, String)> {
    entries(EVERYDAY)
}

fn assert_none(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn published_bypasses_get_at_least_their_class() {
    let entries = entries(BYPASSES);
    assert!(entries.len() > 180);
    let wrong = entries.into_iter().filter_map(|(least, command)| {
        let (found, why) = class_of(&command);
        (found < least || found == RiskClass::ReadOnly)
            .then(|| format!("{least:?} > {found:?}: {command:?} ({why})"))
    });
    assert_none(wrong.collect());
}

#[test]
fn everyday_commands_get_exactly_their_class() {
    let entries = entries(EVERYDAY);
    assert!(entries.len() > 160);
    let wrong = entries.into_iter().filter_map(|(expected, command)| {
        let (found, why) = class_of(&command);
        (found != expected).then(|| format!("{expected:?} != {found:?}: {command:?} ({why})"))
    });
    assert_none(wrong.collect());
}

#[test]
fn destructive_commands_are_dangerous() {
    let commands: Vec<String> = lines(DANGEROUS).collect();
    assert!(commands.len() > 200);
    let wrong = commands.into_iter().filter_map(|command| {
        let (found, why) = class_of(&command);
        (found < RiskClass::Dangerous).then(|| format!("{found:?}: {command:?} ({why})"))
    });
    assert_none(wrong.collect());
}

/// Returns the commands whose class is worse than `most`.
fn worse_than(most: RiskClass, table: &str) -> Vec<String> {
    let judged = lines(table).map(|command| (class_of(&command), command));
    judged
        .filter(|((found, _), _)| *found > most)
        .map(|((found, why), command)| format!("{found:?}: {command:?} ({why})"))
        .collect()
}

#[test]
fn everyday_reads_run_unasked() {
    assert!(lines(READS_UNASKED).count() >= 40);
    assert_none(worse_than(RiskClass::ReadOnly, READS_UNASKED));
}

#[test]
fn everyday_changes_run_unasked_in_auto() {
    assert!(lines(CHANGES_UNASKED).count() >= 60);
    assert_none(worse_than(RiskClass::Changes, CHANGES_UNASKED));
}
