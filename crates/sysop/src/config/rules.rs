//! Parses `[[policy.rules]]`: rules for commands, whose examples are checked when the file is read.

use std::fmt;

use sysop_core::policy::{CommandContext, CommandPattern, Rule, RuleAction, Survey};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Maximum number of rules per file.
const RULES_MAX: usize = 256;
/// Maximum number of globs or examples per list.
const LIST_MAX: usize = 64;

/// A rule or its error, with its offset.
pub(super) type ReadRule = (usize, Result<Rule, String>);

/// Parses the table `[policy]`; each key other than `rules` is an error.
pub(super) fn read(policy: &DeTable<'_>, mut origin: impl FnMut(usize) -> String) -> Vec<ReadRule> {
    let mut read = Vec::new();
    for (name, raw) in policy.iter() {
        let at = name.span().start;
        if name.get_ref() != "rules" {
            read.push((at, Err(format!("`policy.{}` is not a config key", name.get_ref()))));
            continue;
        }
        let Some(entries) = raw.get_ref().as_array() else {
            read.push((at, Err("`policy.rules` must be an array of tables: [[policy.rules]]".to_owned())));
            continue;
        };
        for (number, entry) in entries.iter().enumerate() {
            let at = entry.span().start;
            if number == RULES_MAX {
                let why = format!("too many rules (maximum {RULES_MAX}); ignoring the rest");
                read.push((at, Err(format!("`policy.rules` {why}"))));
                break;
            }
            let rule = rule(entry, origin(at)).map_err(|why| format!("ignoring this rule: {why}"));
            read.push((at, rule));
        }
    }
    read
}

fn rule(entry: &Spanned<DeValue<'_>>, origin: String) -> Result<Rule, String> {
    let table = entry.get_ref().as_table().ok_or("not a table")?;
    check_keys(table, &["action", "match", "examples"])?;
    let action = match table.get("action").and_then(|value| value.get_ref().as_str()) {
        Some("allow") => RuleAction::Allow,
        Some("ask") => RuleAction::Ask,
        Some("deny") => RuleAction::Deny,
        Some(_) | None => return Err("`action` must be allow, ask or deny".to_owned()),
    };
    let pattern = table.get("match").and_then(|value| value.get_ref().as_table());
    let pattern = pattern.ok_or("missing `match = { program = … }`")?;
    check_keys(pattern, &["program", "subcommand", "options", "operands", "host"])?;
    let program = text(pattern, "program")?.ok_or("missing `program` in `match`")?;
    if program.is_empty() {
        return Err("`program` is empty".to_owned());
    }
    let pattern = CommandPattern {
        program,
        subcommand: text(pattern, "subcommand")?,
        options: texts(pattern, "options")?,
        operands: texts(pattern, "operands")?,
        host: text(pattern, "host")?,
    };
    let rule = Rule { action, pattern, origin };
    if let Some(examples) = table.get("examples") {
        let examples = examples.get_ref().as_table().ok_or("`examples` is not a table")?;
        check_keys(examples, &["match", "no_match"])?;
        try_examples(&rule, examples)?;
    }
    Ok(rule)
}

/// Checks the examples as bash commands on any host.
fn try_examples(rule: &Rule, examples: &DeTable<'_>) -> Result<(), String> {
    let anywhere = Rule { pattern: CommandPattern { host: None, ..rule.pattern.clone() }, ..rule.clone() };
    let survey = Survey::elsewhere(CommandContext::bash());
    for (key, expected) in [("match", true), ("no_match", false)] {
        for example in texts(examples, key)?.unwrap_or_default() {
            if anywhere.decides(&example, &survey) != expected {
                let how = if expected { "does not match" } else { "matches" };
                return Err(format!("the `{key}` example {example:?} {how}"));
            }
        }
    }
    Ok(())
}

fn check_keys(table: &DeTable<'_>, known: &[&str]) -> Result<(), String> {
    match table.iter().find(|(name, _)| !known.contains(&name.get_ref().as_ref())) {
        Some((name, _)) => Err(format!("unknown key `{}`; expected {}", name.get_ref(), known.join(", "))),
        None => Ok(()),
    }
}

fn text(table: &DeTable<'_>, key: &str) -> Result<Option<String>, String> {
    let Some(value) = table.get(key) else { return Ok(None) };
    let text = value.get_ref().as_str().ok_or_else(|| format!("`{key}` must be a string"))?;
    Ok(Some(text.to_owned()))
}

fn texts(table: &DeTable<'_>, key: &str) -> Result<Option<Vec<String>>, String> {
    let Some(value) = table.get(key) else { return Ok(None) };
    let wanted = || format!("`{key}` must be a list of strings");
    let elements = value.get_ref().as_array().ok_or_else(wanted)?;
    if elements.len() > LIST_MAX {
        return Err(format!("`{key}` has more than {LIST_MAX} entries"));
    }
    let texts = elements.iter().map(|element| element.get_ref().as_str().map(str::to_owned));
    texts.collect::<Option<Vec<_>>>().map(Some).ok_or_else(wanted)
}

/// A rule in one line, for `config show`.
pub(super) struct RuleLine<'a>(pub(super) &'a Rule);

impl fmt::Display for RuleLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = self.0.to_toml();
        let mut lines = entry.lines().skip(1);
        let (action, pattern) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        write!(f, "policy.rules += {{ {action}, {pattern} }}")
    }
}
