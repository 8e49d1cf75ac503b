//! `find … -delete`, `find … -exec rm` and `find … | xargs rm`: the same search without its action, counted.

use super::effective::EffectiveCommand;
use super::files::TreeCounts;
use super::probe::{Records, Section};
use super::report::{Report, name, size};
use super::scan::{Reason, Word};
use super::{Planned, View};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Search {
    /// Phrase before the count: `removes`.
    verb: String,
    /// True if whole directories are removed with their contents.
    is_recursive: bool,
    /// True if the names pass through `xargs` without `-0`.
    splits_names: bool,
}

/// Tests of `find` without a value.
const TESTS: &[&str] = &[
    "-empty", "-readable", "-writable", "-executable", "-true", "-false", "-nouser", "-nogroup", "-xdev",
    "-mount", "-depth", "-daystart", "!", "-not", "-a", "-and", "-o", "-or", "(", ")", "-noleaf",
];
/// Tests of `find` with one value.
const VALUED: &[&str] = &[
    "-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-regextype", "-type", "-xtype",
    "-size", "-mtime", "-atime", "-ctime", "-mmin", "-amin", "-cmin", "-newer", "-anewer", "-cnewer",
    "-newermt", "-user", "-group", "-uid", "-gid", "-perm", "-links", "-inum", "-maxdepth", "-mindepth",
    "-lname", "-fstype", "-samefile",
];

/// Operands of `find` before the expression, the tests, and the words after the tests.
struct Expression<'a> {
    paths: Vec<Word>,
    tests: Vec<Word>,
    action: &'a [Word],
}

fn parse(arguments: &[Word]) -> Result<Expression<'_>, Reason> {
    let is_test = |word: &Word| {
        let text = word.beginning();
        text.starts_with('-') || word.literal().is_some_and(|text| matches!(text.as_str(), "(" | ")" | "!"))
    };
    let paths = arguments.iter().take_while(|word| !is_test(word)).count();
    let mut tests = Vec::new();
    let (mut depth, mut at) = (0_usize, paths);
    while let Some(word) = arguments.get(at) {
        let Some(text) = word.literal() else {
            return Err("the tests are not known before the command runs".to_owned());
        };
        if VALUED.contains(&text.as_str()) {
            let value = arguments
                .get(at + 1)
                .filter(|value| value.is_single())
                .ok_or("the tests are not recognized")?;
            tests.extend([word.clone(), value.clone()]);
            at += 2;
            continue;
        }
        if !TESTS.contains(&text.as_str()) {
            break;
        }
        match text.as_str() {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            "-o" | "-or" if depth == 0 => {
                return Err("the action depends on only some of the tests".to_owned());
            }
            _ => {}
        }
        tests.push(word.clone());
        at += 1;
    }
    if depth > 0 {
        return Err("the action depends on only some of the tests".to_owned());
    }
    let paths = arguments.get(..paths).unwrap_or(&[]).to_vec();
    let paths = if paths.is_empty() { vec![Word::of(".")] } else { paths };
    if paths.iter().any(|path| !path.is_single()) {
        return Err("the directories are not known before the command runs".to_owned());
    }
    Ok(Expression { paths, tests, action: arguments.get(at..).unwrap_or(&[]) })
}

pub(super) fn planned(command: &EffectiveCommand) -> Result<Planned, Reason> {
    let expression = parse(&command.arguments)?;
    let action: Option<Vec<String>> = expression.action.iter().map(Word::literal).collect();
    let action = action.ok_or("the action is not known before the command runs")?;
    let action: Vec<&str> = action.iter().map(String::as_str).collect();
    let (verb, is_recursive) = match action.as_slice() {
        [] => return Ok(Planned::Nothing),
        ["-delete"] | ["-print", "-delete"] => ("removes".to_owned(), false),
        ["-exec" | "-execdir", run @ .., "{}", ";" | "+"] => action_words(run)?,
        _ => return Err("the action is not supported in previews".to_owned()),
    };
    Planned::probe(section(&expression, Search { verb, is_recursive, splits_names: false }))
}

/// Returns the phrase for a program that runs on each path, and true if it removes whole trees.
fn action_words(run: &[&str]) -> Result<(String, bool), Reason> {
    match run {
        ["rm", options @ ..] if options.iter().all(|option| is_removal_option(option)) => {
            let all = |letter: char| {
                options.iter().any(|option| !option.starts_with("--") && option.contains(letter))
            };
            Ok(("removes".to_owned(), all('r') || all('R')))
        }
        ["chmod" | "chown" | "chgrp" | "touch", rest @ ..] => {
            Ok((format!("runs {} {} on", run[0], name(&rest.join(" "))), false))
        }
        [program, ..] => Err(format!("the command runs {} on each file", name(program))),
        [] => Err("the action is not supported in previews".to_owned()),
    }
}

fn is_removal_option(option: &str) -> bool {
    matches!(option, "--" | "--force" | "--recursive")
        || option
            .strip_prefix('-')
            .is_some_and(|letters| letters.chars().all(|letter| "rRfv".contains(letter)))
}

/// Returns the section that counts and lists the paths that `find` finds. Its arguments are the directories, then the
/// tests, which have no effects.
fn section(expression: &Expression<'_>, view: Search) -> Section {
    let count = expression.paths.len();
    let body = format!(
        r#"k={count}
while [ $k -gt 0 ]; do p=$1; shift; k=$((k-1)); case $p in -*) p=./$p;; esac; is "$p" || r missing "$p"; set -- "$@" "$p"; done
n=$(($#-{count})); while [ $n -gt 0 ]; do t=$1; shift; n=$((n-1)); set -- "$@" "$t"; done
r count "$(tree "$@")"
printf 'names\0'; find "$@" -print0 | tr '\n\000' '?\n' | head -n 4; printf '\0'
r odd "$(find "$@" -print0 | tr -dc " \t\n\"'\\\\" | wc -c)"
"#
    );
    Section::new(body, View::Search(view))
        .with_scalars(expression.paths.clone())
        .with_words(expression.tests.clone())
}

/// Returns the section for `find … | xargs rm`, or `None` for any other commands.
pub(super) fn piped(first: &EffectiveCommand, last: &EffectiveCommand) -> Result<Option<Section>, Reason> {
    if first.program != "find" || last.program != "xargs" {
        return Ok(None);
    }
    let expression = parse(&first.arguments)?;
    let action: Option<Vec<String>> = expression.action.iter().map(Word::literal).collect();
    let run: Option<Vec<String>> = last.arguments.iter().map(Word::literal).collect();
    let (Some(action), Some(run)) = (action, run) else {
        return Err("the input comes from a pipe".to_owned());
    };
    let is_null = match action.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] | ["-print"] => false,
        ["-print0"] => true,
        _ => return Err("the action is not supported in previews".to_owned()),
    };
    let options = run
        .iter()
        .take_while(|word| {
            matches!(word.as_str(), "-0" | "-r" | "-0r" | "-r0" | "-t" | "--null" | "--no-run-if-empty")
        })
        .count();
    let reads_null = run.iter().take(options).any(|option| option.contains('0') || option == "--null");
    if is_null != reads_null {
        return Err("the input comes from a pipe".to_owned());
    }
    let words: Vec<&str> = run.iter().skip(options).map(String::as_str).collect();
    let (verb, is_recursive) = action_words(&words)?;
    Ok(Some(section(&expression, Search { verb, is_recursive, splits_names: !is_null })))
}

impl Search {
    pub(super) fn report(&self, records: &Records) -> Result<Report, Reason> {
        if let Some(path) = records.first("missing") {
            return Ok(format!("fails: {} does not exist", name(path)).into());
        }
        if self.splits_names && records.number("odd").is_none_or(|odd| odd > 0) {
            return Err("xargs would split names that contain spaces or quotes".to_owned());
        }
        let counts =
            records.first("count").and_then(TreeCounts::parse).ok_or("the files cannot be counted")?;
        let what = counts.text();
        if what == "nothing" {
            return Ok("finds nothing".to_owned().into());
        }
        let mut text = format!("{} {what}", self.verb);
        if self.is_recursive && counts.folders > 0 {
            text.push_str(" with their contents");
        }
        if counts.bytes > 0 && self.verb == "removes" {
            text.push_str(&format!(", {}", size(counts.bytes)));
        }
        let found: Vec<&str> = records.first("names").unwrap_or("").lines().collect();
        let shown: Vec<String> = found.iter().take(3).map(|path| name(path)).collect();
        let more = if found.len() > 3 { ", …" } else { "" };
        text.push_str(&format!(": {}{more}", shown.join(", ")));
        Ok(text.into())
    }
}
