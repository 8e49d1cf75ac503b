//! Variables in a runbook: values that recur in its commands, and the placeholders that replace them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use super::selection::SelectedStep;
use crate::config::{Routine, StepAction, takes_a_word, template_of};

const PROPOSALS_MAX: usize = 8;
/// Minimum number of steps in which a value must occur.
const STEPS_MIN: usize = 2;
/// Minimum length of a path to propose, in characters.
const PATH_CHARS_MIN: usize = 5;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VariableProposal {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) description: String,
    /// Regular expression that the whole value must match.
    pub(super) pattern: Option<String>,
    /// Number of steps in which the value occurs; 0 if the user named the value.
    pub(super) count: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ValueForm {
    Unit,
    Path,
    Host,
    Version,
    User,
    Port,
}

impl ValueForm {
    fn name(self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Path => "path",
            Self::Host => "host",
            Self::Version => "version",
            Self::User => "user",
            Self::Port => "port",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Unit => "systemd unit",
            Self::Path => "path",
            Self::Host => "host name or address",
            Self::Version => "version",
            Self::User => "user name",
            Self::Port => "port",
        }
    }

    /// Returns the regular expression for valid values. The expression matches no value with a blank or a leading dash.
    fn pattern(self) -> &'static str {
        match self {
            Self::Unit => "[A-Za-z0-9@_][A-Za-z0-9@_.:-]*",
            Self::Path => "/[A-Za-z0-9._/@+:-]+",
            Self::Host => "[A-Za-z0-9][A-Za-z0-9.-]*",
            Self::Version => "[0-9][A-Za-z0-9.+~:-]*",
            Self::User => "[a-z_][a-z0-9_-]*",
            Self::Port => "[0-9]{1,5}",
        }
    }
}

static UNIT: LazyLock<Regex> = LazyLock::new(|| {
    expression(r"^[A-Za-z0-9@_][A-Za-z0-9@_.:-]*\.(service|timer|socket|mount|path|target)$")
});
static PATH: LazyLock<Regex> = LazyLock::new(|| expression("^/[A-Za-z0-9._/@+:-]+$"));
static HOST: LazyLock<Regex> = LazyLock::new(|| {
    expression(r"^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,24}$|^[0-9]{1,3}(\.[0-9]{1,3}){3}$")
});
static VERSION: LazyLock<Regex> =
    LazyLock::new(|| expression(r"^[0-9]+(\.[0-9]+)+([-+~][A-Za-z0-9.+~-]+)?$"));

/// File extensions that look like top-level domains.
const FILE_ENDINGS: [&str; 24] = [
    "conf", "txt", "sh", "py", "pem", "key", "log", "json", "toml", "yaml", "yml", "service", "timer",
    "socket", "gz", "tar", "md", "html", "cfg", "ini", "bak", "list", "repo", "rs",
];
/// Paths that are the same on every machine.
const COMMON_PATHS: [&str; 8] = [
    "/dev/null", "/etc/passwd", "/etc/hosts", "/bin/sh", "/bin/bash", "/usr/bin/env", "/var/log", "/usr/bin",
];
const USER_PROGRAMS: [&str; 6] = ["useradd", "adduser", "usermod", "userdel", "passwd", "chage"];

fn expression(text: &str) -> Regex {
    Regex::new(text).expect("the regular expression is valid")
}

impl VariableProposal {
    /// Returns the variable requested by the user.
    pub(super) fn given(name: String, value: String) -> Self {
        Self { name, value, description: String::new(), pattern: None, count: 0 }
    }
}

/// Proposes variables for values that recur and look like a host, unit, path, version, user or port.
pub(super) fn propose(steps: &[SelectedStep], given: &[VariableProposal]) -> Vec<VariableProposal> {
    let commands: Vec<&str> = steps
        .iter()
        .filter_map(|step| match &step.step.action {
            StepAction::Command(command) => Some(command.as_str()),
            StepAction::Manual | StepAction::Edit(_) => None,
        })
        .collect();
    let mut found: BTreeMap<(ValueForm, String), usize> = BTreeMap::new();
    for command in &commands {
        for (form, value) in candidates(command) {
            let is_given = given.iter().any(|variable| variable.value == value);
            if !is_given && !has_created_parents(steps, &value) && shell_words::quote(&value) == value {
                found.entry((form, value)).or_default();
            }
        }
    }
    for ((_, value), count) in &mut found {
        *count =
            commands.iter().filter(|command| !TextKind::Command.places(command, value).is_empty()).count();
    }
    let mut found: Vec<_> = found.into_iter().filter(|(_, count)| *count >= STEPS_MIN).collect();
    found.sort_by(|((form, value), count), ((other_form, other), other_count)| {
        (other_count, form, other.len(), value).cmp(&(count, other_form, value.len(), other))
    });
    let mut proposals: Vec<VariableProposal> = Vec::new();
    for ((form, value), count) in found {
        if proposals.len() == PROPOSALS_MAX || proposals.iter().any(|proposal| proposal.value == value) {
            continue;
        }
        let taken = |name: &str| given.iter().chain(&proposals).any(|variable| variable.name == name);
        let names = std::iter::once(form.name().to_owned())
            .chain((2..).map(|number| format!("{}{number}", form.name())));
        let name = names.into_iter().find(|name| !taken(name)).unwrap_or_default();
        let (description, pattern) = (form.description().to_owned(), Some(form.pattern().to_owned()));
        proposals.push(VariableProposal { name, value, description, pattern, count });
    }
    proposals
}

/// Returns true if a step created parents of a folder with it. The undo names them, and another value has others.
fn has_created_parents(steps: &[SelectedStep], folder: &str) -> bool {
    let undos =
        steps.iter().filter_map(|step| step.step.undo.as_deref()).filter(|undo| undo.contains("rmdir"));
    let mut words = undos.flat_map(|undo| shell_words::split(undo).unwrap_or_default());
    words.any(|word| folder.strip_prefix(&word).is_some_and(|rest| rest.starts_with('/')))
}

fn candidates(command: &str) -> Vec<(ValueForm, String)> {
    let Ok(words) = shell_words::split(command) else { return Vec::new() };
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| words[at].as_str()).unwrap_or_default();
        found.extend(form_of(word, before, &words).map(|form| (form, word.clone())));
        // The value in `--option=VALUE`, and the parts of an address.
        for part in word.split(['=', ',']).chain(word.split("://").skip(1).flat_map(|rest| rest.split('/'))) {
            if part != word && (HOST.is_match(part) && !is_file(part)) {
                found.push((ValueForm::Host, part.to_owned()));
            }
        }
    }
    found
}

fn form_of(word: &str, before: &str, words: &[String]) -> Option<ValueForm> {
    let is_systemctl = words.iter().any(|word| word == "systemctl");
    let verbs = ["start", "stop", "restart", "reload", "enable", "disable", "status", "is-active", "--now"];
    if UNIT.is_match(word) || is_systemctl && verbs.contains(&before) && is_name(word) {
        return Some(ValueForm::Unit);
    }
    if PATH.is_match(word) && word.len() >= PATH_CHARS_MIN && !COMMON_PATHS.contains(&word) {
        return Some(ValueForm::Path);
    }
    if VERSION.is_match(word) && word.matches('.').count() < 3 {
        return Some(ValueForm::Version);
    }
    if HOST.is_match(word) && !is_file(word) {
        return Some(ValueForm::Host);
    }
    if ["--port", "-p", "--dport"].contains(&before) && word.parse::<u16>().is_ok_and(|port| port > 9) {
        return Some(ValueForm::Port);
    }
    let names_user = words.iter().any(|program| USER_PROGRAMS.contains(&program.as_str()))
        && words.last().is_some_and(|last| last == word);
    (names_user && is_name(word)).then_some(ValueForm::User)
}

fn is_name(word: &str) -> bool {
    word.len() > 1
        && word.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"@_.-".contains(&byte))
}

fn is_file(word: &str) -> bool {
    word.rsplit('.').next().is_some_and(|ending| FILE_ENDINGS.contains(&ending))
}

/// Kind of text in which values are replaced with placeholders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextKind {
    /// Parsed by a shell, so that values are quoted.
    Command,
    /// The name or content of a file, which no shell parses.
    File,
}

impl TextKind {
    fn written(self, value: &str) -> Cow<'_, str> {
        match self {
            Self::Command => shell_words::quote(value),
            Self::File => Cow::Borrowed(value),
        }
    }

    /// Returns the positions at which a value stands alone and can be replaced with a placeholder.
    fn places(self, text: &str, value: &str) -> Vec<usize> {
        let needle = self.written(value);
        let is_path = value.starts_with('/');
        let fits = |at: usize| {
            let (before, after) = (&text[..at], &text[at + needle.len()..]);
            self.can_follow(before, is_path) && is_end(after, is_path)
        };
        text.match_indices(needle.as_ref()).map(|(at, _)| at).filter(|at| fits(*at)).collect()
    }

    /// Returns true if a value can stand after this text. A name must not continue in a value.
    fn can_follow(self, before: &str, is_path: bool) -> bool {
        let last = before.chars().next_back();
        let is_free = last.is_none_or(|c| !is_name_part(c) && !"{.".contains(c));
        is_free
            && match self {
                Self::Command => {
                    let ends_word = last.is_none_or(|c| c.is_whitespace() || "=:'\"".contains(c));
                    last.is_none_or(|c| !"$\\".contains(c)) && (!is_path || ends_word) && takes_a_word(before)
                }
                Self::File => last != Some('/'),
            }
    }

    /// Replaces the values of variables with placeholders. Filling them in restores the text.
    fn parametrize(self, text: &str, variables: &[&VariableProposal]) -> String {
        let template =
            with_placeholders(text, variables, |value| (self.written(value).len(), self.places(text, value)));
        let values =
            variables.iter().map(|variable| (variable.name.clone(), variable.value.clone())).collect();
        let filled = match self {
            Self::Command => Routine::default().fill(&template, &values),
            Self::File => Routine::default().fill_plain(&template, &values),
        };
        match filled {
            Ok(filled) if filled == text => template,
            Ok(_) | Err(_) => template_of(text),
        }
    }
}

fn is_name_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

/// Returns true if a value can end before this text. A path may continue with `/`, but the last name in it must not.
fn is_end(after: &str, is_path: bool) -> bool {
    let mut next = after.chars();
    match next.next() {
        Some('.') if is_path => next.next().is_none_or(|c| !is_name_part(c)),
        Some(c) => !is_name_part(c) && c != '}',
        None => true,
    }
}

/// Replaces the values of variables in a file's name or content with placeholders. A value that was found in commands
/// is replaced only if it is a path: other words may be there by chance.
pub(super) fn parametrize_text(text: &str, variables: &[VariableProposal]) -> String {
    let is_meant = |variable: &&VariableProposal| variable.count == 0 || variable.value.starts_with('/');
    TextKind::File.parametrize(text, &variables.iter().filter(is_meant).collect::<Vec<_>>())
}

/// Replaces the values of variables in a command with placeholders.
pub(super) fn parametrize(command: &str, variables: &[VariableProposal]) -> String {
    TextKind::Command.parametrize(command, &variables.iter().collect::<Vec<_>>())
}

/// Replaces values with placeholders, the longest first. `find` returns the length and the positions of a value.
fn with_placeholders(
    text: &str,
    variables: &[&VariableProposal],
    find: impl Fn(&str) -> (usize, Vec<usize>),
) -> String {
    let mut by_length = variables.to_vec();
    by_length.sort_by_key(|variable| std::cmp::Reverse(variable.value.len()));
    let mut taken: Vec<(usize, usize, &str)> = Vec::new();
    for variable in by_length {
        if variable.value.is_empty() {
            continue;
        }
        let (length, places) = find(&variable.value);
        for at in places {
            if taken.iter().all(|(from, to, _)| at + length <= *from || at >= *to) {
                taken.push((at, at + length, &variable.name));
            }
        }
    }
    taken.sort_unstable();
    let (mut template, mut from) = (String::new(), 0);
    for (at, end, name) in taken {
        template.push_str(&template_of(&text[from..at]));
        template.push_str(&format!("{{{{{name}}}}}"));
        from = end;
    }
    template.push_str(&template_of(&text[from..]));
    template
}

#[cfg(test)]
mod tests {
    use super::{VariableProposal, candidates, parametrize, parametrize_text};

    fn variable(name: &str, value: &str) -> VariableProposal {
        VariableProposal::given(name.to_owned(), value.to_owned())
    }

    #[test]
    fn values_with_a_known_form_are_found() {
        let forms = |command: &str| {
            let found = candidates(command);
            found.into_iter().map(|(form, value)| format!("{}={value}", form.name())).collect::<Vec<_>>()
        };
        assert_eq!(forms("systemctl restart nginx"), ["unit=nginx"]);
        assert_eq!(forms("ls /etc/nginx/sites"), ["path=/etc/nginx/sites"]);
        assert_eq!(forms("curl -fsS https://a.example.org/x"), ["host=a.example.org"]);
        assert_eq!(forms("apt-get install x=1.2.3"), Vec::<String>::new());
        assert_eq!(forms("wget v 1.2.3"), ["version=1.2.3"]);
        assert_eq!(forms("useradd -m ops"), ["user=ops"]);
        assert_eq!(forms("cat nginx.conf"), Vec::<String>::new());
    }

    #[test]
    fn a_placeholder_stands_only_where_a_word_can() {
        let site = [variable("site", "a.example")];
        for (command, template) in [
            ("cat /etc/ssl/a.example.pem", "cat /etc/ssl/{{site}}.pem"),
            ("echo 'a.example' a.example", "echo 'a.example' {{site}}"),
            ("echo b.a.example", "echo b.a.example"),
            ("echo ${a.example}", "echo ${a.example}"),
            ("docker ps --format '{{end}}' a.example", "docker ps --format '{{\"{{\"}}end}}' {{site}}"),
            ("cat <<E\na.example\nE", "cat <<E\na.example\nE"),
        ] {
            assert_eq!(parametrize(command, &site), template);
        }
        let nested = [variable("path", "/srv/app"), variable("conf", "/srv/app/conf")];
        assert_eq!(
            parametrize("cp /srv/app/conf /srv/app /srv/app2", &nested),
            "cp {{conf}} {{path}} /srv/app2"
        );
        for kept in ["mv x /srv/app.bak", "ls /srv/app.d/x", "cat /srv/app-old"] {
            assert_eq!(parametrize(kept, &nested), kept, "another path only begins like the value");
        }
        assert_eq!(parametrize("cp -r /srv/app/. x", &nested), "cp -r {{path}}/. x");
    }

    #[test]
    fn a_path_is_replaced_in_files_too_but_no_word_that_may_be_there_by_chance() {
        let mut found = [variable("path", "/srv/app"), variable("version", "1.4")];
        found.iter_mut().for_each(|variable| variable.count = 2);
        for (text, template) in [
            ("/srv/app/run.sh", "{{path}}/run.sh"),
            ("/srv/app2/run.sh", "/srv/app2/run.sh"),
            ("/srv/app.bak/run.sh", "/srv/app.bak/run.sh"),
            ("It is in /srv/app.", "It is in {{path}}."),
            ("/old/srv/app", "/old/srv/app"),
            ("root = '/srv/app'; # 1.4 {{x}}\n", "root = '{{path}}'; # 1.4 {{\"{{\"}}x}}\n"),
        ] {
            assert_eq!(parametrize_text(text, &found), template);
        }
        assert_eq!(parametrize_text("v 1.4", &[variable("version", "1.4")]), "v {{version}}");
    }
}
