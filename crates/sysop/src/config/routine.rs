//! Routines: commands that the person wrote down, with variables that are checked and quoted.
//!
//! Nothing here runs a command. A value never reaches a command line other than as one quoted word.

use std::collections::BTreeMap;

use regex::Regex;

use super::value::quoted;

/// A command that the person wrote down.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Routine {
    /// What it is for.
    pub(crate) description: String,
    /// The command, with `{{name}}` where a variable goes.
    pub(crate) cmd: String,
    /// Its variables.
    pub(crate) vars: BTreeMap<String, Variable>,
}

/// A variable of a routine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Variable {
    /// What it is.
    pub(crate) description: String,
    /// What a value must look like, as a whole.
    pub(crate) pattern: Option<String>,
    /// The value where none is given.
    pub(crate) default: Option<String>,
}

/// Why a routine cannot be made into a command. `Display` is one sentence that says what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RoutineError {
    /// No variable of this name.
    #[error("unknown variable {name:?}; {known}")]
    Unknown {
        /// As it was given.
        name: String,
        /// Says which there are.
        known: String,
    },
    /// A variable has no value.
    #[error("missing value for `{name}`; add {name}=VALUE{wanted}")]
    Missing {
        /// Which.
        name: String,
        /// What the value must look like.
        wanted: String,
    },
    /// A value that its pattern does not allow.
    #[error("invalid value {value:?} for `{name}`{wanted}")]
    Invalid {
        /// Which.
        name: String,
        /// As it was given.
        value: String,
        /// What the value must look like.
        wanted: String,
    },
    /// A value that needs quotes would stand inside the command's own.
    #[error(
        "{{{{{name}}}}} is inside quotes or a comment in the routine's command, so {value:?} cannot be quoted; \
         remove the quotes around it (values are quoted automatically)"
    )]
    Quoted {
        /// Which variable.
        name: String,
        /// As it was given.
        value: String,
    },
    /// The command names something that is no variable.
    #[error("unknown variable {{{{{name}}}}} in the routine's command; {known}")]
    Undeclared {
        /// Which.
        name: String,
        /// Says which there are.
        known: String,
    },
    /// The pattern itself is broken.
    #[error("the pattern {pattern:?} of `{name}` is not a valid regular expression; fix it in the config")]
    Pattern {
        /// Which variable.
        name: String,
        /// The pattern.
        pattern: String,
    },
}

impl Routine {
    /// The command with the values in place, each quoted as one word of a POSIX shell.
    ///
    /// # Errors
    /// A value is missing, unknown, or not what its pattern wants.
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
                // Not ours: `docker ps --format '{{.Names}}'` stays as it is.
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

/// Whether a quoted word may follow this beginning of a command: it is in no quotes, no comment, no expansion, and
/// after no backticks, arithmetic or here-document. Doubtful places count as no.
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
            // In arithmetic, quotes do not keep a substitution from running.
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
