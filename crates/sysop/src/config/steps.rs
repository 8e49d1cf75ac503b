//! Steps of routines: `[[routines.NAME.steps]]`, parsed and checked when the file is loaded.
//!
//! Nothing here runs a command. A fault never drops just one step, because later steps rely on it: a routine
//! with a fault does not run at all.

use std::collections::BTreeMap;

use regex::Regex;
use sysop_core::catalog::BASH_TIMEOUT_S_MAX;
use sysop_core::guard::{Area, GuardRequest};
use sysop_core::policy::{CommandContext, Policy, RiskClass, Survey};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::nearest_word;
use super::value::{article, quoted};

pub(crate) const STEPS_MAX: usize = 500;
/// Default time limit of a step's command, in seconds.
pub(crate) const STEP_TIMEOUT_S_DEFAULT: u64 = 60;
/// Maximum length of a name that is derived from a command, in characters.
const NAME_CHARS_MAX: usize = 60;
/// Hash value that stands for a file that must not exist.
pub(crate) const ABSENT: &str = "absent";

const KEYS: [&str; 19] = [
    "name", "cmd", "cwd", "env", "host", "expect", "check", "unless", "verify", "retry", "timeout_s", "undo",
    "on_fail", "guard", "ask", "file", "content", "replace", "with",
];
const FILE_KEYS: [&str; 1] = ["sha256"];

/// One step of a routine. Its strings may contain placeholders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RunbookStep {
    pub(crate) name: String,
    pub(crate) action: StepAction,
    /// Question that a user must answer with yes before the action.
    pub(crate) ask: Option<String>,
    /// Working directory of the step's commands; `None` is the root.
    pub(crate) cwd: Option<String>,
    /// Environment variables of the step's commands.
    pub(crate) env: BTreeMap<String, String>,
    /// Host on which the step must run; `None` is the run's host.
    pub(crate) host: Option<String>,
    pub(crate) expect: StepExpectation,
    /// Command that must succeed before the action.
    pub(crate) check: Option<String>,
    /// Command that skips the step if it succeeds.
    pub(crate) unless: Option<String>,
    /// Command that must succeed after the action.
    pub(crate) verify: Option<String>,
    pub(crate) retry: VerifyRetry,
    /// Time limit of each of the step's commands, in seconds.
    pub(crate) timeout_s: u64,
    /// Command that undoes the step.
    pub(crate) undo: Option<String>,
    pub(crate) on_fail: FailureAction,
    /// Lockout guard that the step's command and its undo require. Without a guard, neither of them runs.
    pub(crate) guard: Option<GuardRequest>,
    /// Line of each key in its file; the empty key stands for the step.
    pub(crate) lines: BTreeMap<&'static str, usize>,
}

/// The part of a step that changes something.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum StepAction {
    /// Nothing: the user does it by hand.
    #[default]
    Manual,
    Command(String),
    Edit(FileEdit),
}

/// Change to a file, made with the file tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileEdit {
    pub(crate) file: String,
    pub(crate) content: EditContent,
    /// SHA-256 of the file before the change in hexadecimal, or `absent`.
    pub(crate) sha256: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EditContent {
    /// The complete new content.
    Whole(String),
    /// Text that occurs exactly once, and its replacement.
    Replace { old: String, new: String },
}

/// Result that a command must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepExpectation {
    pub(crate) exit: Vec<i32>,
    /// Regular expression that must match the output; its named groups become values.
    pub(crate) pattern: Option<String>,
    /// Regular expression that must not match the output.
    pub(crate) not_pattern: Option<String>,
}

impl Default for StepExpectation {
    fn default() -> Self {
        Self { exit: vec![0], pattern: None, not_pattern: None }
    }
}

/// Retry settings for `verify`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VerifyRetry {
    pub(crate) times: u32,
    /// Seconds between two attempts.
    pub(crate) every_s: u64,
}

impl Default for VerifyRetry {
    fn default() -> Self {
        Self { times: 1, every_s: 0 }
    }
}

/// Reaction to a step that has failed or drifted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum FailureAction {
    #[default]
    Stop,
    /// Stop, and offer to undo the steps so far.
    Undo,
    Continue,
}

/// Fault of a routine, with its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepFault {
    /// Line in the file, from 1.
    pub(crate) line: usize,
    pub(crate) message: String,
}

impl RunbookStep {
    /// Returns the strings that may contain placeholders, with their keys. The flag is true for text that a shell
    /// reads.
    pub(crate) fn templates(&self) -> Vec<(&'static str, &str, bool)> {
        let mut texts = Vec::new();
        match &self.action {
            StepAction::Manual => {}
            StepAction::Command(command) => texts.push(("cmd", command.as_str(), true)),
            StepAction::Edit(edit) => {
                texts.push(("file", edit.file.as_str(), false));
                match &edit.content {
                    EditContent::Whole(content) => texts.push(("content", content.as_str(), false)),
                    EditContent::Replace { old, new } => {
                        texts.extend([("replace", old.as_str(), false), ("with", new.as_str(), false)]);
                    }
                }
            }
        }
        let commands = [
            ("unless", &self.unless),
            ("check", &self.check),
            ("verify", &self.verify),
            ("undo", &self.undo),
        ];
        texts.extend(commands.into_iter().filter_map(|(key, text)| Some((key, text.as_deref()?, true))));
        texts.extend(self.cwd.as_deref().map(|cwd| ("cwd", cwd, false)));
        texts.extend(self.ask.as_deref().map(|ask| ("ask", ask, false)));
        texts.extend(self.env.values().map(|value| ("env", value.as_str(), false)));
        texts
    }

    /// Returns the names of the values that the step's output provides.
    pub(crate) fn captures(&self) -> Vec<String> {
        let pattern = self.expect.pattern.as_deref().and_then(|pattern| output_pattern(pattern).ok());
        let names = pattern.iter().flat_map(|pattern| pattern.capture_names().flatten());
        names.map(str::to_owned).collect()
    }

    pub(crate) fn line(&self, key: &str) -> usize {
        self.lines.get(key).or(self.lines.get("")).copied().unwrap_or(1)
    }
}

/// Compiles a regular expression for output, in which `^` and `$` match at every line.
pub(crate) fn output_pattern(pattern: &str) -> Result<Regex, regex::Error> {
    regex::RegexBuilder::new(pattern).multi_line(true).build()
}

/// Parses the value of `steps`. `line` returns the line that contains a byte offset in the file.
pub(super) fn read(
    raw: &Spanned<DeValue<'_>>,
    line: impl Fn(usize) -> usize,
) -> (Vec<RunbookStep>, Vec<StepFault>) {
    let mut reader = StepReader { line: &line, step: 0, faults: Vec::new() };
    let mut steps = Vec::new();
    match raw.get_ref().as_array() {
        Some(entries) if entries.is_empty() => reader.fault(raw.span().start, "`steps` is empty"),
        Some(entries) if entries.len() > STEPS_MAX => {
            reader.fault(raw.span().start, &format!("more than {STEPS_MAX} steps; split the routine"));
        }
        Some(entries) => {
            for entry in entries {
                reader.step += 1;
                let (start, found) = (entry.span().start, entry.get_ref());
                if let DeValue::Table(table) = found {
                    steps.push(reader.step(table, start));
                } else {
                    reader.fault(start, &format!("must be a table, not {}", with_article(found)));
                }
            }
        }
        None => reader.fault(raw.span().start, "`steps` must be an array of tables: [[routines.NAME.steps]]"),
    }
    (steps, reader.faults)
}

struct StepReader<'a> {
    line: &'a dyn Fn(usize) -> usize,
    /// Number of the current step, from 1.
    step: usize,
    faults: Vec<StepFault>,
}

/// Keys of one step that determine its action.
#[derive(Default)]
struct ActionKeys {
    cmd: Option<String>,
    file: Option<String>,
    content: Option<String>,
    old: Option<String>,
    new: Option<String>,
    sha256: Option<String>,
}

impl StepReader<'_> {
    fn fault(&mut self, at: usize, message: &str) {
        let message = match self.step {
            0 => message.to_owned(),
            step => format!("step {step}: {message}"),
        };
        self.faults.push(StepFault { line: (self.line)(at), message });
    }

    fn step(&mut self, table: &DeTable<'_>, at: usize) -> RunbookStep {
        let mut step = RunbookStep { timeout_s: STEP_TIMEOUT_S_DEFAULT, ..RunbookStep::default() };
        step.lines.insert("", (self.line)(at));
        let mut keys = ActionKeys::default();
        for (name, raw) in table.iter() {
            self.key(&mut step, &mut keys, name, raw);
        }
        if step.lines.contains_key("retry") && step.verify.is_none() {
            self.fault(at, "`retry` repeats `verify`, which is missing");
        }
        step.action = self.action(keys, step.ask.is_some(), at);
        if step.guard.is_some() && !matches!(step.action, StepAction::Command(_)) {
            self.fault(at, "`guard` needs `cmd`: only commands can be guarded");
        }
        if step.name.is_empty() {
            step.name = derived_name(&step, self.step);
        }
        for (key, command) in [("check", &step.check), ("unless", &step.unless), ("verify", &step.verify)] {
            if let Some(command) = command
                && !is_probe(command)
            {
                let why = format!("`{key}` must only read, but {} may change something", quoted(command));
                let line = step.line(key);
                self.faults.push(StepFault { line, message: format!("step {}: {why}", self.step) });
            }
        }
        step
    }

    fn key(
        &mut self,
        step: &mut RunbookStep,
        keys: &mut ActionKeys,
        name: &Spanned<std::borrow::Cow<'_, str>>,
        raw: &Spanned<DeValue<'_>>,
    ) {
        let known = KEYS.iter().chain(&FILE_KEYS).find(|key| **key == name.get_ref().as_ref());
        let Some(&key) = known else {
            let meant = nearest_word(name.get_ref(), KEYS).map(|key| format!("; did you mean `{key}`?"));
            let message = format!("`{}` is not a key of a step{}", name.get_ref(), meant.unwrap_or_default());
            return self.fault(name.span().start, &message);
        };
        step.lines.insert(key, (self.line)(name.span().start));
        match key {
            "name" => step.name = self.text(key, raw).unwrap_or_default(),
            "cmd" => keys.cmd = self.text(key, raw),
            "file" => keys.file = self.filled_text(key, raw),
            "content" => keys.content = self.any_text(key, raw),
            "replace" => keys.old = self.filled_text(key, raw),
            "with" => keys.new = self.any_text(key, raw),
            "sha256" => keys.sha256 = self.hash(raw),
            "cwd" => step.cwd = self.text(key, raw),
            "env" => step.env = self.variables(raw),
            "host" => step.host = self.text(key, raw),
            "expect" => step.expect = self.expectation(raw),
            "check" => step.check = self.text(key, raw),
            "unless" => step.unless = self.text(key, raw),
            "verify" => step.verify = self.text(key, raw),
            "retry" => step.retry = self.retry(raw),
            "timeout_s" => {
                step.timeout_s =
                    self.integer(key, raw, 1, BASH_TIMEOUT_S_MAX).unwrap_or(STEP_TIMEOUT_S_DEFAULT);
            }
            "undo" => step.undo = self.text(key, raw),
            "on_fail" => step.on_fail = self.on_fail(raw),
            "guard" => step.guard = self.guard(raw),
            "ask" => step.ask = self.text(key, raw),
            _ => unreachable!("every key is handled"),
        }
    }

    fn action(&mut self, keys: ActionKeys, asks: bool, at: usize) -> StepAction {
        let ActionKeys { cmd, file, content, old, new, sha256 } = keys;
        let of_file = content.is_some() || old.is_some() || new.is_some() || sha256.is_some();
        match (cmd, file) {
            (Some(_), Some(_)) => self.fault(at, "a step has either `cmd` or `file`"),
            (Some(command), None) => {
                if of_file {
                    self.fault(at, "`content`, `replace`, `with` and `sha256` need `file`");
                }
                return StepAction::Command(command);
            }
            (None, Some(file)) => {
                let content = match (content, old, new) {
                    (Some(content), None, None) => EditContent::Whole(content),
                    (None, Some(old), Some(new)) => EditContent::Replace { old, new },
                    (Some(_) | None, Some(_) | None, Some(_) | None) => {
                        self.fault(at, "`file` needs either `content`, or `replace` and `with`");
                        return StepAction::Manual;
                    }
                };
                return StepAction::Edit(FileEdit { file, content, sha256 });
            }
            (None, None) if of_file => {
                self.fault(at, "`content`, `replace`, `with` and `sha256` need `file`")
            }
            (None, None) if !asks => self.fault(at, "a step needs `cmd`, `file` or `ask`"),
            (None, None) => {}
        }
        StepAction::Manual
    }

    fn wrong(&mut self, key: &str, wanted: &str, raw: &Spanned<DeValue<'_>>) {
        let message = format!("`{key}` must be {wanted}, not {}", with_article(raw.get_ref()));
        self.fault(raw.span().start, &message);
    }

    fn any_text(&mut self, key: &str, raw: &Spanned<DeValue<'_>>) -> Option<String> {
        match raw.get_ref().as_str() {
            Some(text) if text.contains('\0') => {
                self.fault(raw.span().start, &format!("`{key}` contains a NUL character"))
            }
            Some(text) => return Some(text.to_owned()),
            None => self.wrong(key, "a string", raw),
        }
        None
    }

    /// Returns the text of a value, and reports a fault if the text is empty. Blank text is allowed.
    fn filled_text(&mut self, key: &str, raw: &Spanned<DeValue<'_>>) -> Option<String> {
        let text = self.any_text(key, raw)?;
        if text.is_empty() {
            self.fault(raw.span().start, &format!("`{key}` is empty"));
        }
        Some(text).filter(|text| !text.is_empty())
    }

    fn text(&mut self, key: &str, raw: &Spanned<DeValue<'_>>) -> Option<String> {
        let text = self.any_text(key, raw)?;
        if text.trim().is_empty() {
            self.fault(raw.span().start, &format!("`{key}` is empty"));
        }
        Some(text).filter(|text| !text.trim().is_empty())
    }

    fn guard(&mut self, raw: &Spanned<DeValue<'_>>) -> Option<GuardRequest> {
        let area = raw.get_ref().as_str().and_then(Area::from_name);
        match (raw.get_ref().as_bool(), area) {
            (Some(is_on), _) => return is_on.then_some(GuardRequest::OfCommand),
            (None, Some(area)) => return Some(GuardRequest::OfArea(area)),
            (None, None) => {}
        }
        let areas = Area::ALL.map(Area::as_str).join(", ");
        self.fault(raw.span().start, &format!("`guard` must be true, or one of {areas}"));
        None
    }

    fn hash(&mut self, raw: &Spanned<DeValue<'_>>) -> Option<String> {
        let text = self.text("sha256", raw)?.to_lowercase();
        if text == ABSENT || text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Some(text);
        }
        self.fault(raw.span().start, "`sha256` must be 64 hexadecimal digits or \"absent\"");
        None
    }

    fn integer(&mut self, key: &str, raw: &Spanned<DeValue<'_>>, least: u64, most: u64) -> Option<u64> {
        let number = raw.get_ref().as_integer();
        let number = number.and_then(|number| u64::from_str_radix(number.as_str(), number.radix()).ok());
        let fits = number.filter(|number| (least..=most).contains(number));
        if fits.is_none() {
            self.fault(raw.span().start, &format!("`{key}` must be an integer from {least} to {most}"));
        }
        fits
    }

    fn on_fail(&mut self, raw: &Spanned<DeValue<'_>>) -> FailureAction {
        match raw.get_ref().as_str() {
            Some("stop") => return FailureAction::Stop,
            Some("undo") => return FailureAction::Undo,
            Some("continue") => return FailureAction::Continue,
            Some(_) | None => {}
        }
        self.fault(raw.span().start, "`on_fail` must be one of stop, undo, continue");
        FailureAction::Stop
    }

    fn variables(&mut self, raw: &Spanned<DeValue<'_>>) -> BTreeMap<String, String> {
        let mut variables = BTreeMap::new();
        let DeValue::Table(table) = raw.get_ref() else {
            self.wrong("env", "a table", raw);
            return variables;
        };
        for (name, value) in table.iter() {
            let name = name.get_ref();
            let is_name = !name.is_empty()
                && !name.starts_with(|c: char| c.is_ascii_digit())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if !is_name {
                self.fault(
                    value.span().start,
                    &format!("`env` contains {}, which is not a valid variable name", quoted(name)),
                );
            } else if let Some(value) = self.any_text("env", value) {
                variables.insert(name.to_string(), value);
            }
        }
        variables
    }

    fn expectation(&mut self, raw: &Spanned<DeValue<'_>>) -> StepExpectation {
        let mut expectation = StepExpectation::default();
        let DeValue::Table(table) = raw.get_ref() else {
            self.wrong("expect", "a table", raw);
            return expectation;
        };
        for (name, value) in table.iter() {
            match name.get_ref().as_ref() {
                "exit" => expectation.exit = self.exit_codes(value),
                "match" => expectation.pattern = self.pattern("expect.match", value),
                "not_match" => expectation.not_pattern = self.pattern("expect.not_match", value),
                other => {
                    let message = format!("`expect.{other}` is not a key; use exit, match, not_match");
                    self.fault(name.span().start, &message);
                }
            }
        }
        expectation
    }

    fn exit_codes(&mut self, raw: &Spanned<DeValue<'_>>) -> Vec<i32> {
        let single = std::slice::from_ref(raw);
        let codes = match raw.get_ref().as_array() {
            Some(codes) => codes.iter().collect::<Vec<_>>(),
            None => single.iter().collect(),
        };
        if codes.is_empty() {
            self.fault(raw.span().start, "`expect.exit` is empty");
        }
        let codes = codes.into_iter().filter_map(|code| self.integer("expect.exit", code, 0, 255));
        codes.filter_map(|code| i32::try_from(code).ok()).collect()
    }

    fn pattern(&mut self, key: &str, raw: &Spanned<DeValue<'_>>) -> Option<String> {
        let text = self.text(key, raw)?;
        let Err(error) = output_pattern(&text) else { return Some(text) };
        let error = error.to_string();
        let why = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
        let message = format!("`{key}` is not a valid regular expression: {} ({why})", quoted(&text));
        self.fault(raw.span().start, &message);
        None
    }

    fn retry(&mut self, raw: &Spanned<DeValue<'_>>) -> VerifyRetry {
        let mut retry = VerifyRetry::default();
        let DeValue::Table(table) = raw.get_ref() else {
            self.wrong("retry", "a table", raw);
            return retry;
        };
        for (name, value) in table.iter() {
            match name.get_ref().as_ref() {
                "times" => {
                    let times = self.integer("retry.times", value, 1, 1000).unwrap_or(1);
                    retry.times = u32::try_from(times).unwrap_or(1);
                }
                "every_s" => retry.every_s = self.integer("retry.every_s", value, 0, 3600).unwrap_or(0),
                other => {
                    let message = format!("`retry.{other}` is not a key; use times, every_s");
                    self.fault(name.span().start, &message);
                }
            }
        }
        retry
    }
}

fn with_article(found: &DeValue<'_>) -> String {
    let found = found.type_str();
    format!("{} {found}", article(found))
}

fn derived_name(step: &RunbookStep, number: usize) -> String {
    let text = match &step.action {
        StepAction::Command(command) => command.as_str(),
        StepAction::Edit(edit) => edit.file.as_str(),
        StepAction::Manual => step.ask.as_deref().unwrap_or_default(),
    };
    let line = text.lines().find(|line| !line.trim().is_empty()).map(str::trim);
    match line {
        Some(line) if line.chars().count() > NAME_CHARS_MAX => {
            line.chars().take(NAME_CHARS_MAX).chain(['…']).collect()
        }
        Some(line) => line.to_owned(),
        None => format!("step {number}"),
    }
}

/// Programs that check a config without using it, with the arguments that limit them to that. Some of them open log
/// files or connections, so the policy treats them as changes, although a routine may use them as probes.
const VALIDATORS: &[&[&str]] = &[
    &["nginx", "-t"],
    &["nginx", "-tq"],
    &["apachectl", "configtest"],
    &["apachectl", "-t"],
    &["apache2ctl", "configtest"],
    &["httpd", "-t"],
    &["haproxy", "-c"],
    &["caddy", "validate"],
    &["php-fpm", "-t"],
    &["postfix", "check"],
    &["named-checkconf"],
    &["named-checkzone"],
    &["unbound-checkconf"],
    &["squid", "-k", "parse"],
    &["visudo", "-c"],
    &["visudo", "-cf"],
    &["sshd", "-t"],
    &["/usr/sbin/sshd", "-t"],
    &["nft", "-c"],
    &["promtool", "check"],
];

/// Returns true if a command is read-only or a known validator. Placeholders count as plain words.
fn is_probe(command: &str) -> bool {
    let command = with_sample_values(command);
    let reads = |command: &str| {
        let survey = Survey::elsewhere(CommandContext::bash());
        Policy::new(&[], &[]).risk(command, &survey).class <= RiskClass::ReadsRemote
    };
    if reads(&command) {
        return true;
    }
    if command.contains(|c: char| ";&|<>`$()\n\\".contains(c)) {
        return false;
    }
    let Ok(words) = shell_words::split(&command) else { return false };
    let plain = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["sudo", "-n", rest @ ..] | ["sudo", rest @ ..] => {
            if rest.first().is_some_and(|word| !word.starts_with('-')) && reads(&shell_words::join(rest)) {
                return true;
            }
            rest.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()
        }
        _ => words.clone(),
    };
    VALIDATORS.iter().any(|validator| {
        plain.len() >= validator.len() && validator.iter().zip(&plain).all(|(wanted, word)| wanted == word)
    })
}

/// Replaces each placeholder with a word.
pub(crate) fn with_sample_values(template: &str) -> String {
    super::routine::fill_template(template, |_| Some("x".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{is_probe, output_pattern};

    #[test]
    fn probes_are_commands_that_read_and_validators() {
        for command in [
            "test -f {{file}}",
            "openssl x509 -checkend 2592000 -noout -in /etc/ssl/{{site}}.pem",
            "systemctl is-active nginx",
            "curl -fsS http://127.0.0.1/",
            "nginx -t",
            "sudo nginx -t",
            "sudo -n systemctl is-active nginx",
            "grep -q x f | wc -l",
        ] {
            assert!(is_probe(command), "{command}");
        }
        for command in [
            "rm -rf x", "nginx", "nginx -s reload", "nginx -t; rm x", "sudo rm x", "sudo -u x ls > y",
            "echo x > y", "nginx -t > log", "nginx -t $(reboot)",
        ] {
            assert!(!is_probe(command), "{command}");
        }
    }

    #[test]
    fn expressions_match_lines() {
        assert!(output_pattern("^b$").unwrap().is_match("a\nb\nc"));
    }
}
