//! Parses `[[policy.rules]]`: rules for commands, whose examples are checked while the file is being parsed.
//!
//! An invalid rule is never skipped unless it allows: a rule that might ask or deny would otherwise be lost by a typo.

use std::fmt;

use serde::Deserialize;
use serde::de::IntoDeserializer;
use sysop_core::policy::{CommandContext, CommandPattern, Rule, RuleAction, Survey};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::table_error::table_error;

/// Maximum number of rules per file.
const RULES_MAX: usize = 256;
/// Maximum number of globs or examples per list.
const LIST_MAX: usize = 64;

/// Byte offset of an entry in the file, with the rule or the error in it.
pub(super) type ReadRule = (usize, Result<Rule, RuleError>);

#[derive(Debug)]
pub(super) enum RuleError {
    /// A rule that would only have allowed commands, which ask without it.
    Skipped(String),
    /// An entry that may have been meant to ask or to deny: all commands are denied until it is fixed.
    Denying(String),
}

/// Parses the table `[policy]`; any key other than `rules` is an error.
pub(super) fn read(policy: &DeTable<'_>, mut origin: impl FnMut(usize) -> String) -> Vec<ReadRule> {
    let mut read = Vec::new();
    for (name, raw) in policy.iter() {
        let at = name.span().start;
        if name.get_ref() != "rules" {
            let meant =
                if name.get_ref().starts_with("rule") { "; did you mean `policy.rules`?" } else { "" };
            let why = format!("`policy.{}` is not a config key{meant}", name.get_ref());
            read.push((at, Err(RuleError::Denying(why))));
            continue;
        }
        let Some(entries) = raw.get_ref().as_array() else {
            let why = "`policy.rules` must be an array of tables: [[policy.rules]]".to_owned();
            read.push((at, Err(RuleError::Denying(why))));
            continue;
        };
        for (number, entry) in entries.iter().enumerate() {
            let at = entry.span().start;
            if number == RULES_MAX {
                let why = format!("`policy.rules` has more than {RULES_MAX} rules");
                let error = if entries[RULES_MAX..].iter().all(only_allows) {
                    RuleError::Skipped(format!("{why}; ignoring the rest"))
                } else {
                    RuleError::Denying(why)
                };
                read.push((at, Err(error)));
                break;
            }
            let rule = rule(entry, origin(at)).map_err(|why| {
                if only_allows(entry) {
                    RuleError::Skipped(format!("ignoring this rule: {why}"))
                } else {
                    RuleError::Denying(format!("invalid rule: {why}"))
                }
            });
            read.push((at, rule));
        }
    }
    read
}

/// Returns true if an entry's action can be read and is `allow`.
fn only_allows(entry: &Spanned<DeValue<'_>>) -> bool {
    let action = entry.get_ref().as_table().and_then(|table| table.get("action"));
    action.is_some_and(|action| action.get_ref().as_str() == Some("allow"))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct RuleTable {
    action: RuleAction,
    #[serde(rename = "match", with = "PatternTable")]
    pattern: CommandPattern,
    #[serde(default)]
    examples: Examples,
}

/// Like [`CommandPattern`], but unknown keys are errors.
#[derive(Deserialize)]
#[serde(remote = "CommandPattern", deny_unknown_fields, expecting = "a table")]
struct PatternTable {
    program: String,
    subcommand: Option<String>,
    options: Option<Vec<String>>,
    operands: Option<Vec<String>>,
    host: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct Examples {
    r#match: Vec<String>,
    no_match: Vec<String>,
}

fn rule(entry: &Spanned<DeValue<'_>>, origin: String) -> Result<Rule, String> {
    let RuleTable { action, pattern, examples } =
        RuleTable::deserialize(entry.clone().into_deserializer()).map_err(|error| table_error(&error))?;
    if pattern.program.is_empty() {
        return Err("`program` is empty".to_owned());
    }
    for (key, list) in [
        ("options", pattern.options.as_deref().unwrap_or_default()),
        ("operands", pattern.operands.as_deref().unwrap_or_default()),
        ("match", &examples.r#match),
        ("no_match", &examples.no_match),
    ] {
        if list.len() > LIST_MAX {
            return Err(format!("`{key}` has more than {LIST_MAX} entries"));
        }
    }
    let rule = Rule { action, pattern, origin };
    try_examples(&rule, &examples)?;
    Ok(rule)
}

/// Checks a rule's examples as bash commands. The rule's condition on the host is ignored.
fn try_examples(rule: &Rule, examples: &Examples) -> Result<(), String> {
    let anywhere = Rule { pattern: CommandPattern { host: None, ..rule.pattern.clone() }, ..rule.clone() };
    let survey = Survey::elsewhere(CommandContext::bash());
    for (key, commands, expected) in
        [("match", &examples.r#match, true), ("no_match", &examples.no_match, false)]
    {
        if let Some(example) = commands.iter().find(|example| anywhere.decides(example, &survey) != expected)
        {
            let how = if expected { "does not match" } else { "matches" };
            return Err(format!("the `{key}` example {example:?} {how}"));
        }
    }
    Ok(())
}

/// Displays a rule on one line, for `config show`.
pub(super) struct RuleLine<'a>(pub(super) &'a Rule);

impl fmt::Display for RuleLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = self.0.to_toml();
        let mut lines = entry.lines().skip(1);
        let (action, pattern) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        write!(f, "policy.rules += {{ {action}, {pattern} }}")
    }
}
