//! Routines: the user's own commands, with variables that are validated and quoted.
//!
//! Nothing here runs a command. A value reaches a command line only as one quoted word.

use std::collections::BTreeMap;

use regex::Regex;
use serde::Deserialize;

use super::value::quoted;

/// A command defined by the user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Routine {
    /// One line for lists of routines.
    pub(crate) description: String,
    /// Command, with `{{name}}` as the placeholder of a variable.
    pub(crate) cmd: String,
    /// Variables of the command, by name.
    pub(crate) vars: BTreeMap<String, Variable>,
}

/// Variable of a routine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Variable {
    /// Description.
    pub(crate) description: String,
    /// Regular expression that the whole value must match.
    pub(crate) pattern: Option<String>,
    /// Value to use if the user gives none.
    pub(crate) default: Option<String>,
}

/// Error while filling in a routine. `Display` is one sentence that says what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RoutineError {
    /// Unknown variable.
    #[error("unknown variable {name:?}; {known}")]
    Unknown {
        /// Name as given.
        name: String,
        known: String,
    },
    /// A variable has no value.
    #[error("missing value for `{name}`; add {name}=VALUE{wanted}")]
    Missing {
        /// Name of the variable.
        name: String,
        wanted: String,
    },
    /// A value does not match its pattern.
    #[error("invalid value {value:?} for `{name}`{wanted}")]
    Invalid {
        /// Name of the variable.
        name: String,
        /// Value as given.
        value: String,
        wanted: String,
    },
    /// A value that needs quotes would be placed inside the command's own quotes.
    #[error(
        "{{{{{name}}}}} is inside quotes or a comment in the routine's command, so {value:?} cannot be quoted; \
         remove the quotes around it (values are quoted automatically)"
    )]
    Quoted {
        /// Name of the variable.
        name: String,
        /// Value as given.
        value: String,
    },
    /// The command refers to an unknown variable.
    #[error("unknown variable {{{{{name}}}}} in the routine's command; {known}")]
    Undeclared {
        /// Name as written.
        name: String,
        known: String,
    },
    /// The pattern itself is invalid.
    #[error("the pattern {pattern:?} of `{name}` is not a valid regular expression; fix it in the config")]
    Pattern {
        /// Name of the variable.
        name: String,
        /// The pattern.
        pattern: String,
    },
}

impl Routine {
    /// Returns the command with its values, each quoted as one word for a POSIX shell.
    ///
    /// # Errors
    /// If a value is missing, unknown or does not match its pattern.
    pub(crate) fn render(&self, values: &[(String, String)]) -> Result<String, RoutineError> {
        let mut given: BTreeMap<&str, &str> = BTreeMap::new();
        for (name, value) in values {
            if !self.vars.contains_key(name) {
                return Err(RoutineError::Unknown { name: name.clone(), known: self.known() });
            }
            given.insert(name, value);
        }
        let mut checked = BTreeMap::new();
        for (name, variable) in &self.vars {
            let value = given.get(name.as_str()).copied().or(variable.default.as_deref());
            let value = value
                .ok_or_else(|| RoutineError::Missing { name: name.clone(), wanted: variable.wanted() })?;
            variable.check(name, value)?;
            checked.insert(name.as_str(), value);
        }
        self.fill(&checked)
    }

    fn fill(&self, values: &BTreeMap<&str, &str>) -> Result<String, RoutineError> {
        let mut command = String::with_capacity(self.cmd.len());
        let mut rest = self.cmd.as_str();
        while let Some((before, after)) = rest.split_once("{{") {
            command.push_str(before);
            match after.split_once("}}") {
                Some((name, later)) if is_name(name.trim()) => {
                    let name = name.trim();
                    let value = values.get(name).ok_or_else(|| RoutineError::Undeclared {
                        name: name.to_owned(),
                        known: self.known(),
                    })?;
                    let word = shell_words::quote(value);
                    if word != *value && !takes_a_word(&self.cmd[..self.cmd.len() - after.len() - 2]) {
                        let (name, value) = (name.to_owned(), (*value).to_owned());
                        return Err(RoutineError::Quoted { name, value });
                    }
                    command.push_str(&word);
                    rest = later;
                }
                // Not ours: `docker ps --format '{{.Names}}'` remains unchanged.
                Some(_) | None => {
                    command.push_str("{{");
                    rest = after;
                }
            }
        }
        command.push_str(rest);
        Ok(command)
    }

    fn known(&self) -> String {
        if self.vars.is_empty() {
            return "it has no variables".to_owned();
        }
        let names: Vec<&str> = self.vars.keys().map(String::as_str).collect();
        format!("its variables are {}", names.join(", "))
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

    fn wanted(&self) -> String {
        match (&self.pattern, self.description.as_str()) {
            (None, "") => String::new(),
            (None, description) => format!(" ({description})"),
            (Some(pattern), "") => format!(" (must match {})", quoted(pattern)),
            (Some(pattern), description) => format!(" ({description}, must match {})", quoted(pattern)),
        }
    }
}

/// Returns true if a quoted word may follow this beginning of a command. This requires that the beginning ends outside
/// quotes, comments and expansions, and that it contains no backticks, arithmetic or here-document. Returns false in
/// case of doubt.
fn takes_a_word(beginning: &str) -> bool {
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

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}
