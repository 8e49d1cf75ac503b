//! User rules: allow, ask or deny, matched against the words of each simple command.
//!
//! A restricting rule (ask or deny) matches generously: it also covers abbreviated options, the subcommand in any
//! position, the program at any path, and words that the shell expands. An allowing rule matches only the words that it
//! names, and a command line is allowed only if every simple command in it is allowed or read-only.

use serde::{Deserialize, Serialize};
use sysop_shell::{Access, Analysis, CommandContext, Invocation, Risk, RiskClass, Survey, analyze};

use crate::message::ToolCall;

/// Name of this machine in `host` patterns.
const LOCAL: &str = "local";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleAction {
    /// Covered commands run, unless they always need approval.
    Allow,
    /// Matching commands need approval.
    Ask,
    /// Matching commands never run.
    Deny,
}

/// Pattern for simple commands. All parts are globs: `*`, `?`, and `\` before a literal character.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandPattern {
    /// Program, by name or path.
    pub program: String,
    /// Subcommand; `None` for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subcommand: Option<String>,
    /// Options. An allowing rule permits only these; a restricting rule requires all of these. `None` for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Vec<String>>,
    /// Operands. An allowing rule permits only these; a restricting rule requires one of these. `None` for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operands: Option<Vec<String>>,
    /// Host as the user names it, or `local`; `None` for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    pub action: RuleAction,
    #[serde(rename = "match")]
    pub pattern: CommandPattern,
    /// File and line in which the rule is written; empty if it does not come from a file.
    #[serde(default)]
    pub origin: String,
}

impl Rule {
    /// Returns true if the rule decides this command line. A restricting rule decides it if any simple command matches;
    /// an allowing rule decides it if the rule alone covers the whole line.
    pub fn decides(&self, command: &str, survey: &Survey) -> bool {
        let analysis = analyze(command, survey);
        match self.action {
            RuleAction::Allow => allowing(std::slice::from_ref(self), command, survey, &analysis).is_some(),
            RuleAction::Ask | RuleAction::Deny => self.restricts(survey, &analysis),
        }
    }

    pub(super) fn restricts(&self, survey: &Survey, analysis: &Analysis) -> bool {
        self.concerns(&survey.context)
            && analysis.invocations.iter().any(|invocation| self.pattern.may_match(invocation))
    }

    /// Returns true if the rule is for one of the hosts or for their list, which is enough for a restriction.
    fn concerns(&self, context: &CommandContext) -> bool {
        let list = context.host.as_deref();
        self.pattern
            .host
            .as_deref()
            .is_none_or(|pattern| hosts(context).chain(list).any(|host| glob_matches(pattern, host)))
    }

    /// Returns true if the rule is for all of the hosts, as a permission must be: for each by its pattern, or for
    /// exactly this list.
    fn covers_hosts(&self, context: &CommandContext) -> bool {
        let is_list =
            |pattern: &str| context.host.as_deref().is_some_and(|list| pattern == literal_glob(list));
        self.pattern
            .host
            .as_deref()
            .is_none_or(|pattern| hosts(context).all(|host| glob_matches(pattern, host)) || is_list(pattern))
    }

    /// Returns a rule that allows exactly this command on this host, or `None` if no rule can allow the line.
    pub fn for_command(command: &str, survey: &Survey) -> Option<Self> {
        let analysis = analyze(command, survey);
        let [invocation] = analysis.invocations.as_slice() else { return None };
        let words: Vec<&str> = invocation.words.iter().map(Option::as_deref).collect::<Option<_>>()?;
        let (program, arguments) = words.split_first()?;
        let (options, operands): (Vec<&&str>, Vec<&&str>) =
            arguments.iter().partition(|word| word.starts_with('-'));
        let globs = |words: Vec<&&str>| words.into_iter().map(|word| literal_glob(word)).collect();
        let host = survey.context.host.as_deref().unwrap_or(LOCAL);
        let pattern = CommandPattern {
            program: literal_glob(program),
            subcommand: None,
            options: Some(globs(options)),
            operands: Some(globs(operands)),
            host: Some(literal_glob(host)),
        };
        let rule = Self { action: RuleAction::Allow, pattern, origin: String::new() };
        (!analysis.risk.class.always_asks() && rule.decides(command, survey)).then_some(rule)
    }

    /// Returns the rule that the answer "always" to an approval adds: it allows exactly this command on this host.
    /// `None` if the call is not one plain command, or always needs approval.
    pub fn for_approval(host: &str, call: &ToolCall, command: &str, risk: &Risk) -> Option<Self> {
        if risk.class.always_asks() || call.text_argument("command") != Some(command) {
            return None;
        }
        Self::for_command(command, &survey_as_written(host))
    }

    /// Returns true if no rule covers the command only because it runs a file that is not analyzed.
    pub fn lacks_analysis_of_file(command: &str) -> bool {
        let mut analysis = analyze(command, &Survey::elsewhere(CommandContext::bash()));
        let targets = analysis.targets.len();
        analysis.targets.retain(|target| target.access != Access::Run);
        analysis.targets.len() < targets && analysis.invocations.len() == 1 && is_plain(command, &analysis)
    }

    /// Formats the rule as an entry of a config file.
    pub fn to_toml(&self) -> String {
        let quote = |text: &str| format!("{}", serde_json::Value::from(text)); // every JSON string is a TOML string
        let list = |texts: &[String]| {
            format!("[{}]", texts.iter().map(|text| quote(text)).collect::<Vec<_>>().join(", "))
        };
        let action = match self.action {
            RuleAction::Allow => "allow",
            RuleAction::Ask => "ask",
            RuleAction::Deny => "deny",
        };
        let pattern = &self.pattern;
        let parts: Vec<String> = [
            Some(format!("program = {}", quote(&pattern.program))),
            pattern.subcommand.as_ref().map(|text| format!("subcommand = {}", quote(text))),
            pattern.options.as_ref().map(|texts| format!("options = {}", list(texts))),
            pattern.operands.as_ref().map(|texts| format!("operands = {}", list(texts))),
            pattern.host.as_ref().map(|text| format!("host = {}", quote(text))),
        ]
        .into_iter()
        .flatten()
        .collect();
        format!("[[policy.rules]]\naction = \"{action}\"\nmatch = {{ {} }}\n", parts.join(", "))
    }
}

impl CommandPattern {
    /// Returns true if the command may match this pattern. Used for restricting rules.
    fn may_match(&self, invocation: &Invocation) -> bool {
        let Some((program, arguments)) = invocation.words.split_first() else { return false };
        let Some(program) = program else { return false }; // an unknown program is opaque and needs approval anyway
        let name = program.rsplit('/').next().unwrap_or(program);
        if !glob_matches(&self.program, program) && !glob_matches(&self.program, name) {
            return false;
        }
        let any = |test: &dyn Fn(&str) -> bool| arguments.iter().any(|word| word.as_deref().is_none_or(test));
        let subcommand = self.subcommand.as_deref().is_none_or(|glob| any(&|word| glob_matches(glob, word)));
        let options = self.options.iter().flatten().all(|glob| any(&|word| may_be_option(glob, word)));
        let operands = self.operands.as_ref().is_none_or(|globs| {
            globs.iter().any(|glob| any(&|word| !word.starts_with('-') && glob_matches(glob, word)))
        });
        subcommand && options && operands
    }

    /// Returns true if this pattern covers every word of the command. Used for allowing rules.
    fn covers(&self, invocation: &Invocation) -> bool {
        let Some((Some(program), mut arguments)) = invocation.words.split_first() else { return false };
        if !glob_matches(&self.program, program) {
            return false;
        }
        if let Some(glob) = &self.subcommand {
            let Some((Some(subcommand), rest)) = arguments.split_first() else { return false };
            if !glob_matches(glob, subcommand) {
                return false;
            }
            arguments = rest;
        }
        let matches_any = |globs: &Option<Vec<String>>, word: &str| {
            globs.as_ref().is_none_or(|globs| globs.iter().any(|glob| glob_matches(glob, word)))
        };
        arguments.iter().all(|word| match word.as_deref() {
            None => self.options.is_none() && self.operands.is_none(),
            Some(option) if option.starts_with('-') => matches_any(&self.options, option),
            Some(operand) => matches_any(&self.operands, operand),
        })
    }
}

/// Returns the first rule that is needed to allow a command line. Returns `None` if no rule covers any of its simple
/// commands, if any simple command is neither covered by a rule nor read-only, if the line has effects outside of its
/// simple commands, or if it always needs approval.
pub(super) fn allowing<'a>(
    rules: &'a [Rule],
    command: &str,
    survey: &Survey,
    analysis: &Analysis,
) -> Option<&'a Rule> {
    let plain = survey.context.dialect.is_analyzed()
        && !analysis.risk.class.always_asks()
        && !analysis.invocations.is_empty()
        && is_plain(command, analysis);
    if !plain {
        return None;
    }
    let mut first = None;
    for invocation in &analysis.invocations {
        let allow = rules.iter().find(|rule| {
            rule.action == RuleAction::Allow
                && rule.covers_hosts(&survey.context)
                && rule.pattern.covers(invocation)
        });
        match allow {
            Some(rule) => first = first.or(Some(rule)),
            None if is_read_only(invocation, survey) => {}
            None => return None,
        }
    }
    first
}

/// Returns a survey without facts about a host except its name, which judges a command by its text alone.
pub(crate) fn survey_as_written(host: &str) -> Survey {
    let host = (host != LOCAL).then(|| host.to_owned());
    Survey::elsewhere(CommandContext { host, ..CommandContext::bash() })
}

/// Returns the names of the hosts on which a call runs. In a list, commas separate them; no name contains one.
fn hosts(context: &CommandContext) -> impl Iterator<Item = &str> {
    context.host.as_deref().unwrap_or(LOCAL).split(',').map(str::trim)
}

/// Returns true if a line consists only of simple commands that begin with their programs. False for a line
/// with a redirection, substitution, assignment, group or keyword, because no rule covers its effects.
/// Redirecting output to `/dev/null` and `2>&1` are permitted.
fn is_plain(command: &str, analysis: &Analysis) -> bool {
    let mut text = command.to_owned();
    for harmless in ["2>&1", "2>/dev/null", ">/dev/null", "2> /dev/null", "> /dev/null"] {
        text = text.replace(harmless, " ");
    }
    if text.contains(['<', '>', '(', ')', '{', '}', '`'])
        || analysis.targets.iter().any(|target| target.access == Access::Run)
    {
        return false;
    }
    text.split([';', '|', '&', '\n']).map(str::trim).filter(|part| !part.is_empty()).all(|part| {
        let program = part.split_whitespace().next().unwrap_or_default();
        analysis
            .invocations
            .iter()
            .any(|invocation| invocation.words.first().is_some_and(|word| word.as_deref() == Some(program)))
    })
}

/// Returns true if a simple command is read-only by itself. Words that the shell expands are treated as unknown.
fn is_read_only(invocation: &Invocation, survey: &Survey) -> bool {
    let words: Vec<String> = invocation
        .words
        .iter()
        .map(|word| match word {
            Some(word) if word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./=:,+@".contains(&b)) => {
                word.clone()
            }
            Some(word) => format!("'{}'", word.replace('\'', r"'\''")),
            None => "$sysop_unknown".to_owned(),
        })
        .collect();
    analyze(&words.join(" "), survey).risk.class == RiskClass::ReadOnly
}

/// Returns true if a word may be this option: maybe abbreviated, combined with other options, or joined with its value.
fn may_be_option(glob: &str, word: &str) -> bool {
    if glob_matches(glob, word) {
        return true;
    }
    let name = word.split('=').next().unwrap_or(word);
    if let Some(long) = name.strip_prefix("--") {
        return !long.is_empty() && (glob.starts_with(name) || glob_matches(glob, name));
    }
    match (glob.strip_prefix('-'), name.strip_prefix('-')) {
        (Some(letter), Some(letters)) if !letter.starts_with('-') && letter.chars().count() == 1 => {
            letters.contains(letter)
        }
        (Some(_) | None, Some(_) | None) => false,
    }
}

/// Returns the glob that matches only this text.
pub fn literal_glob(text: &str) -> String {
    let mut glob = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '*' | '?' | '\\') {
            glob.push('\\');
        }
        glob.push(c);
    }
    glob
}

/// Returns true if a glob matches the whole text. `*` also matches `/`.
pub fn glob_matches(glob: &str, text: &str) -> bool {
    let (glob, text): (Vec<char>, Vec<char>) = (glob.chars().collect(), text.chars().collect());
    let (mut at, mut in_text) = (0, 0);
    let mut retry = None;
    while in_text < text.len() {
        match glob.get(at) {
            Some('*') => {
                retry = Some((at, in_text));
                at += 1;
            }
            Some('?') => (at, in_text) = (at + 1, in_text + 1),
            Some('\\') if glob.get(at + 1) == Some(&text[in_text]) => (at, in_text) = (at + 2, in_text + 1),
            Some(c) if *c != '\\' && *c == text[in_text] => (at, in_text) = (at + 1, in_text + 1),
            Some(_) | None => match &mut retry {
                Some((star, from)) => {
                    *from += 1;
                    (at, in_text) = (*star + 1, *from);
                }
                None => return false,
            },
        }
    }
    glob[at..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Survey {
        let context = CommandContext { folder: Some("/srv/app".to_owned()), ..CommandContext::bash() };
        Survey::elsewhere(context)
    }

    fn rule(action: RuleAction, program: &str, subcommand: Option<&str>) -> Rule {
        let pattern = CommandPattern {
            program: program.to_owned(),
            subcommand: subcommand.map(str::to_owned),
            ..CommandPattern::default()
        };
        Rule { action, pattern, origin: String::new() }
    }

    #[test]
    fn globs_match_whole_strings() {
        for (glob, text, matches) in [
            ("git", "git", true),
            ("git", "gitk", false),
            ("git*", "gitk", true),
            ("*.rs", "src/a.rs", true),
            ("a?c", "abc", true),
            ("a*b*c", "aXbYbc", true),
            ("a*b*c", "aXcYb", false),
            (r"\*", "*", true),
            (r"\*", "x", false),
            ("", "", true),
            ("*", "", true),
        ] {
            assert_eq!(glob_matches(glob, text), matches, "{glob:?} {text:?}");
        }
    }

    #[test]
    fn a_rule_that_denies_matches_other_spellings() {
        let push = rule(RuleAction::Deny, "git", Some("push"));
        for command in [
            "git push",
            "/usr/bin/git push origin",
            "git -C /x push",
            "'git' pu\\sh",
            "sudo git push",
            "sh -c 'git push'",
            "true && git push",
            "git $verb",
        ] {
            assert!(push.decides(command, &here()), "{command}");
        }
        assert!(!push.decides("git pull", &here()));
        let mut force = rule(RuleAction::Ask, "git", Some("push"));
        force.pattern.options = Some(vec!["--force".to_owned()]);
        assert!(force.decides("git push --fo", &here()) && force.decides("git push --force=x", &here()));
        assert!(!force.decides("git push --dry-run", &here()));
        force.pattern.options = Some(vec!["-f".to_owned()]);
        assert!(force.decides("git push -qf", &here()) && !force.decides("git push -q", &here()));
    }

    #[test]
    fn a_rule_that_allows_covers_whole_lines_only() {
        let make = rule(RuleAction::Allow, "make", None);
        for command in ["make", "make -j8 test", "make 2>&1 | tail -n 5", "make; make install && pwd"] {
            assert!(make.decides(command, &here()), "{command}");
        }
        for command in [
            "./make", "/tmp/make", "sudo make", "make > out", "make $(id)", "make; touch x",
            "PATH=/tmp make", "(make)", "ls", "make < x", "if make; then pwd; fi", "make & touch y",
            "eval make",
        ] {
            assert!(!make.decides(command, &here()), "{command}");
        }
    }

    #[test]
    fn a_rule_that_allows_permits_only_its_options_operands_and_host() {
        let mut rule = rule(RuleAction::Allow, "cargo", Some("test"));
        rule.pattern.options = Some(vec!["--release".to_owned(), "-p".to_owned()]);
        rule.pattern.operands = Some(vec!["sysop-*".to_owned()]);
        assert!(rule.decides("cargo test -p sysop-core", &here()));
        for command in
            ["cargo test --rel", "cargo test other", "cargo test $x", "cargo build", "cargo -v test"]
        {
            assert!(!rule.decides(command, &here()), "{command}");
        }
        rule.pattern.host = Some("web*".to_owned());
        assert!(!rule.decides("cargo test", &here()));
        let mut there = here();
        there.context.host = Some("web1".to_owned());
        assert!(rule.decides("cargo test", &there));
    }

    #[test]
    fn a_rule_for_a_host_restricts_each_list_with_it_and_permits_only_lists_of_such_hosts() {
        let on = |hosts: &str| {
            let mut survey = here();
            survey.context.host = Some(hosts.to_owned());
            survey
        };
        let mut deny = rule(RuleAction::Deny, "cargo", None);
        deny.pattern.host = Some("db1".to_owned());
        for (hosts, restricted) in
            [("db1", true), ("web1,db1", true), ("db1, web1", true), ("db10,web1", false)]
        {
            assert_eq!(deny.decides("cargo test", &on(hosts)), restricted, "{hosts}");
        }
        deny.pattern.host = Some("web1,*".to_owned());
        assert!(deny.decides("cargo test", &on("web1,db1")) && !deny.decides("cargo test", &on("web1")));
        let mut allow = rule(RuleAction::Allow, "cargo", None);
        allow.pattern.host = Some("web*".to_owned());
        for (hosts, permitted) in
            [("web1", true), ("web1,web2", true), ("web1,db1", false), ("db1,web1", false)]
        {
            assert_eq!(allow.decides("cargo test", &on(hosts)), permitted, "{hosts}");
        }
        let always = Rule::for_command("cargo test", &on("web1,db1")).expect("one plain command");
        assert!(
            always.decides("cargo test", &on("web1,db1")) && !always.decides("cargo test", &on("web1,db2"))
        );
    }

    #[test]
    fn a_rule_for_a_command_covers_exactly_that_command() {
        let rule = Rule::for_command("touch a 'b*'", &here()).expect("one plain command");
        assert!(rule.decides("touch 'b*' a", &here()));
        assert!(!rule.decides("touch bc", &here()) && !rule.decides("touch -d x a", &here()));
        expect_test::expect![[r#"
            [[policy.rules]]
            action = "allow"
            match = { program = "touch", options = [], operands = ["a", "b\\*"], host = "local" }
        "#]]
        .assert_eq(&rule.to_toml());
        for command in ["touch a > b", "touch $x", "touch a; touch b", "rm -rf /", "sudo touch a"] {
            assert_eq!(Rule::for_command(command, &here()), None, "{command}");
        }
    }
}
