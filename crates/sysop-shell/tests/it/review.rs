//! Tables of the review: the expected result of a command in each mode, in the dialects named on the line.
//!
//! A line is `CLASS EXPECTATION [folder=PATH] [DIALECTS] | COMMAND`. CLASS names a kind of bypass of the policy.
//! Expectations: `never=allow` is read-only, `never=deny` is not; `auto=allow` is at most a change, `auto=ask` is at
//! least opaque; the name of a risk class means exactly that class. `folder=unknown` is a host that does not know its
//! directory. `␤` stands for a line end.

use std::collections::BTreeMap;

use sysop_shell::{
    Access, CommandContext, Dialect, Resolution, ResolvedFile, ResolvedTarget, RiskClass, Survey, Target,
    analyze,
};

const TABLES: [(&str, &str); 6] = [
    ("review_dialects.txt", include_str!("../corpora/review_dialects.txt")),
    ("review_places.txt", include_str!("../corpora/review_places.txt")),
    ("review_options.txt", include_str!("../corpora/review_options.txt")),
    ("review_network.txt", include_str!("../corpora/review_network.txt")),
    ("review_shell.txt", include_str!("../corpora/review_shell.txt")),
    ("review_everyday.txt", include_str!("../corpora/review_everyday.txt")),
];
const EVERYDAY: &str = "review_everyday.txt";
/// Disguises that do no less than the command. `{}` is the command, `{'}` the command quoted as one word.
const DISGUISES: [&str; 8] = [
    "({})",
    "{ {}␤}",
    "true; {}",
    "ls && {}",
    "if true; then {}␤fi",
    "eval {'}",
    "bash -c {'}",
    "for i in 1; do {}␤done",
];

/// Expected class of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expectation {
    Least(RiskClass),
    Most(RiskClass),
}

struct Entry {
    bypass: &'static str,
    expectation: Expectation,
    dialect: Dialect,
    folder: Option<&'static str>,
    command: String,
}

/// Returns a survey of this dialect in the work directory of an ordinary user, with targets judged as written.
pub(crate) fn survey(dialect: Dialect) -> Survey {
    Survey::elsewhere(CommandContext {
        dialect,
        folder: Some("/home/ada/work".to_owned()),
        root: Some("/home/ada/work".to_owned()),
        home: Some("/home/ada".to_owned()),
        user: Some("ada".to_owned()),
        uid: Some(1000),
        own_shell: false,
        host: None,
    })
}

/// Resolves targets like a host: finds a plain file at each target.
fn resolve(survey: &mut Survey, command: &str) {
    survey.resolution = Resolution::Host;
    let found = |target: Target| {
        let folder = target.folder.as_deref().unwrap_or("/home/ada/work");
        let name = target.word.replace(['*', '?'], "x");
        let path = match name.strip_prefix('~') {
            Some(rest) => format!("/home/ada{rest}"),
            None if name.starts_with('/') => name,
            None => format!("{folder}/{name}"),
        };
        // A repository as made by `git init` and `git clone`.
        let script = (target.access == Access::Repository).then(|| "core.bare\ncore.filemode\n".to_owned());
        ResolvedTarget { files: vec![ResolvedFile { path, script, ..ResolvedFile::default() }], target }
    };
    survey.targets = analyze(command, survey).targets.into_iter().map(found).collect();
}

fn expectation(text: &str) -> Expectation {
    match text {
        "never=allow" => Expectation::Most(RiskClass::ReadOnly),
        "never=deny" => Expectation::Least(RiskClass::ReadsRemote),
        "auto=allow" => Expectation::Most(RiskClass::Changes),
        "auto=ask" => Expectation::Least(RiskClass::Opaque),
        other => panic!("not an expectation: {other}"),
    }
}

fn dialects(names: &str) -> Vec<Dialect> {
    let names = if names == "*" { "bash,sh,zsh,fish,csh" } else { names };
    names.split(',').map(|name| serde_json::from_value(name.into()).expect("a dialect")).collect()
}

fn entries(table: &'static str) -> Vec<Entry> {
    let mut entries = Vec::new();
    for line in table.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (head, command) = line.split_once(" | ").unwrap_or_else(|| panic!("no command: {line}"));
        let mut words = head.split(' ');
        let bypass = words.next().unwrap_or_default();
        let expectation = expectation(words.next().unwrap_or_default());
        let mut folder = Some("/home/ada/work");
        let mut spoken = vec![Dialect::Bash];
        for word in words {
            match word.strip_prefix("folder=") {
                Some("unknown") => folder = None,
                Some(path) => folder = Some(path),
                None => spoken = dialects(word),
            }
        }
        entries.extend(spoken.into_iter().map(|dialect| Entry {
            bypass,
            expectation,
            dialect,
            folder,
            command: command.replace('␤', "\n"),
        }));
    }
    entries
}

impl Entry {
    /// Returns the error in the analysis, if any.
    fn wrong(&self, command: &str) -> Option<String> {
        let mut survey = survey(self.dialect);
        survey.context.folder = self.folder.map(str::to_owned);
        if self.folder.is_none() {
            survey.resolution = Resolution::Host;
        }
        if matches!(self.expectation, Expectation::Most(_)) {
            resolve(&mut survey, command);
        }
        let risk = analyze(command, &survey).risk;
        let holds = match self.expectation {
            Expectation::Least(least) => risk.class >= least,
            Expectation::Most(most) => risk.class <= most,
        };
        if holds {
            return None;
        }
        let reasons: Vec<_> = risk.findings.iter().map(|finding| finding.why.as_str()).collect();
        Some(format!(
            "{} {:?} in {}: {:?}, not {:?} ({})",
            self.bypass,
            command,
            self.folder.unwrap_or("an unknown folder"),
            (self.dialect, risk.class),
            self.expectation,
            reasons.join("; ")
        ))
    }
}

fn table(name: &str) -> Vec<Entry> {
    let (_, text) = TABLES.iter().find(|(known, _)| *known == name).expect("a table of this name");
    entries(text)
}

/// Checks each line of a table, and prints the number of correct lines per class.
fn check(name: &str) {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for entry in table(name) {
        let (held, all) = counts.entry(entry.bypass).or_default();
        *all += 1;
        match entry.wrong(&entry.command) {
            None => *held += 1,
            Some(reason) => wrong.push(reason),
        }
    }
    for (bypass, (held, all)) in &counts {
        println!("{name}: {bypass}: {held} of {all} hold");
    }
    assert!(counts.values().all(|(_, all)| *all >= 20), "{name}: a class has fewer than 20 commands");
    let report = format!("{name}: {} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(wrong.is_empty(), "{report}");
}

#[test]
fn commands_are_judged_in_their_dialect() {
    check("review_dialects.txt");
}

#[test]
fn commands_are_judged_by_the_paths_they_use() {
    check("review_places.txt");
}

#[test]
fn options_are_judged_in_every_spelling() {
    check("review_options.txt");
}

#[test]
fn network_commands_are_distinguished_from_local_reads() {
    check("review_network.txt");
}

#[test]
fn shell_syntax_hides_no_danger() {
    check("review_shell.txt");
}

#[test]
fn everyday_commands_run_without_approval() {
    check(EVERYDAY);
}

/// Applies a disguise, if the command fits: one line, independent of word lists and of its position. A subshell is no
/// disguise for a command that is dangerous only because it changes or ends the shell.
fn disguised(entry: &Entry, disguise: &str) -> Option<String> {
    let plain = !entry.command.contains(['\n', '#', '!', '^']) && entry.dialect == Dialect::Bash;
    let ends_shell = ["exit", "shift"].iter().any(|word| entry.command.rsplit("; ").next() == Some(word));
    (plain && !(ends_shell && disguise.starts_with('('))).then(|| {
        let quoted = shell_words::quote(&entry.command);
        disguise.replace('␤', "\n").replace("{'}", &quoted).replace("{}", &entry.command)
    })
}

#[test]
fn disguised_commands_are_recognized() {
    let mut wrong = Vec::new();
    let mut all = 0;
    for (_, text) in TABLES {
        for entry in entries(text) {
            let asks = matches!(entry.expectation, Expectation::Least(_));
            if !asks || entry.wrong(&entry.command).is_some() {
                continue;
            }
            for disguise in DISGUISES {
                let Some(command) = disguised(&entry, disguise) else { continue };
                all += 1;
                wrong.extend(entry.wrong(&command));
            }
        }
    }
    println!("{} of {all} disguised commands hold", all - wrong.len());
    assert!(all >= 2_000, "too few commands to disguise: {all}");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_review_tables_have_their_required_size() {
    let lines = |name: &str| {
        let table = TABLES.iter().find(|(known, _)| *known == name).expect("a table of this name").1;
        table.lines().filter(|line| !line.starts_with('#')).count()
    };
    let all: usize = TABLES.iter().map(|(name, _)| lines(name)).sum();
    assert!(all >= 2_000, "{all} commands");
    let count =
        |most| table(EVERYDAY).iter().filter(|entry| entry.expectation == Expectation::Most(most)).count();
    assert!(count(RiskClass::ReadOnly) >= 300 && count(RiskClass::Changes) >= 300);
}
