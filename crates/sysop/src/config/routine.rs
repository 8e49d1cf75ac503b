//! Routines: the user's own commands, with variables that are validated and quoted.
//!
//! Nothing here runs a command. A value reaches a command line only as one quoted word.

use std::collections::BTreeMap;

use regex::Regex;
use serde::Deserialize;

use super::steps::{RunbookStep, StepFault};
use super::value::quoted;

/// Placeholder that expands to two opening braces.
pub(crate) const BRACES: &str = "{{\"{{\"}}";

/// A command or a sequence of steps, defined by the user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Routine {
    /// One-line description for lists of routines.
    pub(crate) description: String,
    /// Command, with `{{name}}` as the placeholder of a variable. Empty if the routine has steps.
    pub(crate) cmd: String,
    pub(crate) vars: BTreeMap<String, Variable>,
    pub(crate) made_from: Option<RoutineSource>,
    #[serde(skip)]
    pub(crate) steps: Vec<RunbookStep>,
    #[serde(skip)]
    pub(crate) faults: Vec<StepFault>,
}

/// Origin of a routine created from a session. It is shown to users; nothing relies on it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct RoutineSource {
    pub(crate) session: String,
    /// Date of the export.
    pub(crate) date: String,
    /// Operating system and its version, such as `debian 12`.
    pub(crate) os: Option<String>,
    /// Machine hardware name, such as `x86_64`.
    pub(crate) arch: Option<String>,
    /// Number of policy rules at the time of the export.
    pub(crate) policy: Option<i64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Variable {
    pub(crate) description: String,
    /// Regular expression that the whole value must match.
    pub(crate) pattern: Option<String>,
    /// Value to use if the user gives no value.
    pub(crate) default: Option<String>,
}

/// Error while filling in a routine. `Display` is one sentence that says what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RoutineError {
    #[error("unknown variable {name:?}; {known}")]
    Unknown { name: String, known: String },
    #[error("`{name}` has two values; give it one")]
    Twice { name: String },
    #[error("missing value for `{name}`; add {name}=VALUE{wanted}")]
    Missing { name: String, wanted: String },
    #[error("invalid value {value:?} for `{name}`{wanted}")]
    Invalid {
        name: String,
        /// Value as given by the user.
        value: String,
        wanted: String,
    },
    /// A value that needs quotes would be placed inside the command's own quotes.
    #[error(
        "{{{{{name}}}}} is inside quotes or a comment in the routine's command, so {value:?} cannot be quoted; \
         remove the quotes around it (values are quoted automatically)"
    )]
    Quoted {
        name: String,
        /// Value as given.
        value: String,
    },
    /// The command refers to an unknown variable.
    #[error("unknown variable {{{{{name}}}}} in the routine's command; {known}")]
    Undeclared { name: String, known: String },
    #[error("this routine has steps; run it with `sysop run`")]
    HasSteps,
    #[error("the pattern {pattern:?} of `{name}` is not a valid regular expression; fix it in the config")]
    Pattern { name: String, pattern: String },
}

impl Routine {
    /// Returns the command with its values, each quoted as one word for a POSIX shell. Fails if a value is
    /// missing, unknown or does not match its pattern, or if the routine has steps.
    pub(crate) fn render(&self, values: &[(String, String)]) -> Result<String, RoutineError> {
        if !self.steps.is_empty() {
            return Err(RoutineError::HasSteps);
        }
        self.fill(&self.cmd, &self.values(values)?)
    }

    /// Returns the value of each variable: the given one or its default. Fails if a value is missing, unknown or does
    /// not match its pattern.
    pub(crate) fn values(
        &self,
        given: &[(String, String)],
    ) -> Result<BTreeMap<String, String>, RoutineError> {
        let (values, missing) = self.known_values(given)?;
        match missing.into_iter().next() {
            Some(missing) => Err(missing),
            None => Ok(values),
        }
    }

    /// Like [`Self::values`], but returns missing values as a list of errors along with the known values.
    pub(crate) fn known_values(
        &self,
        given: &[(String, String)],
    ) -> Result<(BTreeMap<String, String>, Vec<RoutineError>), RoutineError> {
        let mut by_name: BTreeMap<&str, &str> = BTreeMap::new();
        for (name, value) in given {
            if !self.vars.contains_key(name) {
                return Err(RoutineError::Unknown { name: name.clone(), known: self.known() });
            }
            if by_name.insert(name, value).is_some() {
                return Err(RoutineError::Twice { name: name.clone() });
            }
        }
        let (mut checked, mut missing) = (BTreeMap::new(), Vec::new());
        for (name, variable) in &self.vars {
            match by_name.get(name.as_str()).copied().or(variable.default.as_deref()) {
                Some(value) => {
                    variable.check(name, value)?;
                    checked.insert(name.clone(), value.to_owned());
                }
                None => {
                    missing.push(RoutineError::Missing { name: name.clone(), wanted: variable.wanted() });
                }
            }
        }
        Ok((checked, missing))
    }

    /// Fills a template that a shell will parse. Each value becomes one quoted word. Fails if the template
    /// names an unknown value, or if a value that needs quotes would be placed inside quotes.
    pub(crate) fn fill(
        &self,
        template: &str,
        values: &BTreeMap<String, String>,
    ) -> Result<String, RoutineError> {
        let mut command = String::with_capacity(template.len());
        for part in template_parts(template) {
            let name = match part {
                TemplatePart::Text(text) => {
                    command.push_str(text);
                    continue;
                }
                TemplatePart::Name(name) => name,
            };
            let value = self.value(name, values)?;
            let word = shell_words::quote(value);
            if word != *value && !takes_a_word(&command) {
                return Err(RoutineError::Quoted { name: name.to_owned(), value: value.to_owned() });
            }
            command.push_str(&word);
        }
        Ok(command)
    }

    /// Fills a template that no shell parses. The values are inserted unchanged. Fails if a value is unknown.
    pub(crate) fn fill_plain(
        &self,
        template: &str,
        values: &BTreeMap<String, String>,
    ) -> Result<String, RoutineError> {
        template_parts(template)
            .map(|part| match part {
                TemplatePart::Text(text) => Ok(text),
                TemplatePart::Name(name) => self.value(name, values),
            })
            .collect()
    }

    fn value<'a>(&self, name: &str, values: &'a BTreeMap<String, String>) -> Result<&'a str, RoutineError> {
        let undeclared = || RoutineError::Undeclared { name: name.to_owned(), known: self.known() };
        values.get(name).map(String::as_str).ok_or_else(undeclared)
    }

    /// Adds the faults that involve the whole routine: unknown placeholders, values that no shell could quote
    /// at their position, and invalid defaults.
    pub(crate) fn find_faults(&mut self) {
        let mut faults = Vec::new();
        if !self.steps.is_empty() && !self.cmd.is_empty() {
            let line = self.steps[0].line("");
            let message = "a routine has either `cmd` or `steps`".to_owned();
            faults.push(StepFault { line, message });
        }
        for (name, variable) in &self.vars {
            let checked = variable.default.as_deref().map_or(Ok(()), |value| variable.check(name, value));
            if let Err(error) = checked {
                let line = self.steps.first().map_or(1, |step| step.line(""));
                faults.push(StepFault { line, message: error.to_string() });
            }
        }
        let mut captured: Vec<String> = Vec::new();
        for (number, step) in (1..).zip(&self.steps) {
            let own = step.captures();
            if let Some(name) = own.iter().find(|name| self.vars.contains_key(*name)) {
                let message = format!("step {number}: the group {name:?} has the name of a variable");
                faults.push(StepFault { line: step.line("expect"), message });
            }
            for (key, text, is_command) in step.templates() {
                let own = if matches!(key, "verify" | "undo") { own.as_slice() } else { &[] };
                let is_known = |name: &str| {
                    self.vars.contains_key(name) || captured.iter().chain(own).any(|known| known == name)
                };
                if let Some(why) = self.template_fault(text, is_command, is_known) {
                    let message = format!("step {number}: `{key}`: {why}");
                    faults.push(StepFault { line: step.line(key), message });
                }
            }
            captured.extend(own);
        }
        self.faults.extend(faults);
        self.faults.sort_by_key(|fault| fault.line);
    }

    /// Returns the fault in one template, if any.
    fn template_fault(
        &self,
        template: &str,
        is_command: bool,
        is_known: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let mut before = String::new();
        for part in template_parts(template) {
            match part {
                TemplatePart::Text(text) => before.push_str(text),
                TemplatePart::Name(name) if !is_known(name) => {
                    return Some(format!(
                        "unknown value {{{{{name}}}}}; {}; declare it: vars.{name} = {{ description = \"…\" }}",
                        self.known()
                    ));
                }
                TemplatePart::Name(name) if is_command && !takes_a_word(&before) => {
                    return Some(format!(
                        "{{{{{name}}}}} is inside quotes or a comment; values are quoted automatically, so remove \
                         the quotes around it"
                    ));
                }
                TemplatePart::Name(_) => before.push('x'),
            }
        }
        None
    }

    fn known(&self) -> String {
        if self.vars.is_empty() {
            return "the routine has no variables".to_owned();
        }
        let names: Vec<&str> = self.vars.keys().map(String::as_str).collect();
        format!("available variables: {}", names.join(", "))
    }
}

impl Variable {
    fn check(&self, name: &str, value: &str) -> Result<(), RoutineError> {
        let invalid = || RoutineError::Invalid {
            name: name.to_owned(),
            value: value.to_owned(),
            wanted: self.wanted(),
        };
        if value.contains('\0') {
            return Err(invalid());
        }
        let Some(pattern) = &self.pattern else { return Ok(()) };
        let whole = Regex::new(&format!(r"\A(?:{pattern})\z"))
            .map_err(|_| RoutineError::Pattern { name: name.to_owned(), pattern: pattern.clone() })?;
        if whole.is_match(value) { Ok(()) } else { Err(invalid()) }
    }

    pub(crate) fn wanted(&self) -> String {
        match (&self.pattern, self.description.as_str()) {
            (None, "") => String::new(),
            (None, description) => format!(" ({description})"),
            (Some(pattern), "") => format!(" (must match {})", quoted(pattern)),
            (Some(pattern), description) => format!(" ({description}, must match {})", quoted(pattern)),
        }
    }
}

/// Returns true if a quoted word may follow this start of a command. This requires that the start ends
/// outside quotes, comments and expansions, and that it contains no backticks, arithmetic or here-documents.
/// Returns false if in doubt.
pub(crate) fn takes_a_word(beginning: &str) -> bool {
    let mut chars = beginning.chars().peekable();
    let mut before = '\n';
    while let Some(c) = chars.next() {
        let ends = match c {
            '\\' => chars.next().is_some(),
            '\'' => skip_past(
                &mut chars,
                '\'',
                if before == '$' { QuoteEscapes::Backslash } else { QuoteEscapes::None },
            ),
            '"' => skip_past(&mut chars, '"', QuoteEscapes::Backslash),
            '#' if before.is_whitespace() || matches!(before, ';' | '&' | '|' | '(') => {
                skip_past(&mut chars, '\n', QuoteEscapes::None)
            }
            '`' => false,
            // In arithmetic, quotes do not prevent substitutions.
            '(' if chars.peek() == Some(&'(') => false,
            '$' if chars.peek() == Some(&'{') => skip_past(&mut chars, '}', QuoteEscapes::Backslash),
            '<' if chars.peek() == Some(&'<') => {
                chars.next();
                chars.next_if_eq(&'<').is_some()
            }
            _ => true,
        };
        if !ends {
            return false;
        }
        before = c;
    }
    true
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum QuoteEscapes {
    None,
    Backslash,
}

fn skip_past(chars: &mut impl Iterator<Item = char>, end: char, escapes: QuoteEscapes) -> bool {
    while let Some(c) = chars.next() {
        if c == end {
            return true;
        }
        if c == '\\' && escapes == QuoteEscapes::Backslash {
            chars.next();
        }
    }
    false
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TemplatePart<'a> {
    Text(&'a str),
    Name(&'a str),
}

/// Splits a template. Braces without a name, such as those in `docker ps --format '{{.Names}}'`, are text.
pub(crate) fn template_parts(template: &str) -> impl Iterator<Item = TemplatePart<'_>> {
    let mut rest = template;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(at) = rest.find("{{") else { return Some(TemplatePart::Text(std::mem::take(&mut rest))) };
        if at > 0 {
            let (text, later) = rest.split_at(at);
            rest = later;
            return Some(TemplatePart::Text(text));
        }
        if let Some(later) = rest.strip_prefix(BRACES) {
            rest = later;
            return Some(TemplatePart::Text("{{"));
        }
        match rest[2..].split_once("}}") {
            Some((name, later)) if is_name(name.trim()) => {
                rest = later;
                Some(TemplatePart::Name(name.trim()))
            }
            Some(_) | None => {
                let (text, later) = rest.split_at(2);
                rest = later;
                Some(TemplatePart::Text(text))
            }
        }
    })
}

/// Fills a template with the values that `value` returns, unquoted. A placeholder without a value is kept.
pub(crate) fn fill_template(template: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let parts = template_parts(template).map(|part| match part {
        TemplatePart::Text(text) => text.to_owned(),
        TemplatePart::Name(name) => value(name).unwrap_or_else(|| format!("{{{{{name}}}}}")),
    });
    parts.collect()
}

/// Returns a template that expands to exactly this text.
pub(crate) fn template_of(text: &str) -> String {
    let is_plain = fill_template(text, |_| None) == text
        && template_parts(text).all(|part| matches!(part, TemplatePart::Text(_)));
    if is_plain { text.to_owned() } else { text.replace("{{", BRACES) }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}
