//! Config values that match their keys' types, parsed from TOML or text. An error never quotes a secret.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};
use sysop_core::redact::shapes::redact_command_shapes;
use toml::Spanned;
use toml::de::DeValue;

use super::keys::{ListKind, TextKind, ValueKind, nearest_word};

#[derive(Debug, Clone)]
pub(crate) enum ConfigValue {
    Text(String),
    /// String that is never shown.
    Secret(SecretString),
    Integer(i64),
    Number(f64),
    Switch(bool),
    Texts(Vec<String>),
}

impl ConfigValue {
    /// Returns the value as TOML, secrets included.
    pub(super) fn to_toml(&self) -> toml::Value {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Secret(secret) => secret.expose_secret().into(),
            Self::Integer(number) => (*number).into(),
            Self::Number(number) => (*number).into(),
            Self::Switch(on) => (*on).into(),
            Self::Texts(texts) => texts.clone().into(),
        }
    }
}

impl fmt::Display for ConfigValue {
    /// Formats the value as TOML. Control characters are escaped, and a secret is shown as `[set]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(&quoted(&without_credentials(text))),
            Self::Secret(_) => f.write_str("[set]"),
            Self::Integer(number) => number.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Switch(on) => on.fmt(f),
            Self::Texts(texts) => {
                let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
                write!(f, "[{}]", texts.join(", "))
            }
        }
    }
}

/// A program and its arguments as a TOML array, without the secrets in them.
pub(super) struct RedactedProgram<'a>(pub(super) &'a [String]);

impl fmt::Display for RedactedProgram<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = Vec::new();
        let mut previous = String::new();
        for word in self.0 {
            // A flag tells that the next word is a secret.
            let plain = without_credentials(word);
            let pair = redact_command_shapes(&format!("{previous} {plain}"));
            let clean = pair.strip_prefix(&format!("{previous} "));
            // Without this prefix, the previous word was redacted, so that it is no flag.
            shown.push(quoted(&clean.map_or_else(|| redact_command_shapes(&plain), str::to_owned)));
            previous.clone_from(word);
        }
        write!(f, "[{}]", shown.join(", "))
    }
}

/// Returns text as a TOML string in double quotes. If double quotes would require escapes and single quotes would not,
/// uses single quotes, so that regular expressions stay readable.
pub(crate) fn quoted(text: &str) -> String {
    let escaped = format!("{text:?}");
    let plain = text.chars().all(|c| c == '\\' || c == '"' || c.escape_debug().len() == 1);
    if escaped.len() != text.len() + 2 && plain && !text.contains('\'') {
        format!("'{text}'")
    } else {
        escaped
    }
}

/// Returns the text. If it is a URL, the user name and password in it are replaced with `[set]`; without a scheme, only
/// if there is a password.
pub(crate) fn without_credentials(text: &str) -> String {
    let (scheme, rest) = match text.find("://") {
        Some(at) => text.split_at(at + 3),
        None => ("", text),
    };
    match rest.split(['/', '?', '#']).next().and_then(|part| part.rsplit_once('@')) {
        Some((credentials, _)) if !scheme.is_empty() || credentials.contains(':') => {
            format!("{scheme}[set]@{}", &rest[credentials.len() + 1..])
        }
        Some(_) | None => text.to_owned(),
    }
}

#[derive(Debug)]
pub(crate) struct ValueError {
    /// Offset in the file, in bytes.
    pub(crate) at: usize,
    /// End of the error sentence. The caller prepends the key.
    pub(crate) why: String,
}

/// The value, or `None` if it is unusable, and its errors. A list with some invalid elements can have both.
pub(crate) type ReadValue = (Option<ConfigValue>, Vec<ValueError>);

const LIST_MAX: usize = 256;

/// Invalid regular expression, which makes the policy deny every command.
const DENY_ALL: &str = "(";

/// Selects whether regular expressions are compiled to detect invalid ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatternCheck {
    Compile,
    /// Do not compile them. Used for the built-in expressions, because compiling would slow down every start.
    Skip,
}

/// Parses a value from a TOML file. A list keeps its valid elements.
pub(crate) fn from_toml(kind: ValueKind, raw: &Spanned<DeValue<'_>>, check: PatternCheck) -> ReadValue {
    let at = raw.span().start;
    let value = match (kind, raw.get_ref()) {
        (ValueKind::List(list), DeValue::Array(elements)) => return read_list(list, elements.iter(), check),
        (ValueKind::List(ListKind::Denials), found) => {
            let why = wants(kind, found);
            return (Some(ConfigValue::Texts(vec![DENY_ALL.to_owned()])), vec![ValueError { at, why }]);
        }
        (ValueKind::List(ListKind::Models), found) => {
            let why = format!("{}; no model is allowed until it is fixed", wants(kind, found));
            return (Some(ConfigValue::Texts(Vec::new())), vec![ValueError { at, why }]);
        }
        (ValueKind::Text(text_kind), DeValue::String(text)) => text_value(text_kind, text),
        (ValueKind::Text(TextKind::OrInteger), DeValue::Integer(number)) => {
            Ok(ConfigValue::Text(number.as_str().to_owned()))
        }
        (ValueKind::Integer { least, most }, DeValue::Integer(number)) => {
            integer(least, most, i64::from_str_radix(number.as_str(), number.radix()).ok())
        }
        (ValueKind::Number { least, most }, DeValue::Integer(number)) => {
            decimal(least, most, number.as_str())
        }
        (ValueKind::Number { least, most }, DeValue::Float(number)) => decimal(least, most, number.as_str()),
        (ValueKind::Switch, DeValue::Boolean(on)) => Ok(ConfigValue::Switch(*on)),
        (_, found) => Err(wants(kind, found)),
    };
    read_scalar(value, at)
}

/// Parses the value of an environment variable. For a list, the text is either a single element or a TOML
/// array. A list with errors is not used, unless omitting it would be more permissive.
pub(crate) fn from_text(kind: ValueKind, text: &str) -> ReadValue {
    let value = match kind {
        ValueKind::Text(kind) => text_value(kind, text),
        ValueKind::Integer { least, most } => integer(least, most, text.trim().parse().ok()),
        ValueKind::Number { least, most } => decimal(least, most, text.trim()),
        ValueKind::Switch => match text.trim() {
            "true" | "1" => Ok(ConfigValue::Switch(true)),
            "false" | "0" => Ok(ConfigValue::Switch(false)),
            _ => Err(wanted(kind).to_owned()),
        },
        ValueKind::List(list) => {
            let single = Spanned::new(0..0, DeValue::String(text.into()));
            let parsed = DeValue::parse(text).map(Spanned::into_inner);
            let (value, errors) = match &parsed {
                Ok(DeValue::Array(elements)) => read_list(list, elements.iter(), PatternCheck::Compile),
                Ok(_) | Err(_) => read_list(list, std::iter::once(&single), PatternCheck::Compile),
            };
            let is_usable = errors.is_empty() || matches!(list, ListKind::Denials | ListKind::Models);
            return (value.filter(|_| is_usable), errors);
        }
    };
    read_scalar(value, 0)
}

fn read_scalar(value: Result<ConfigValue, String>, at: usize) -> ReadValue {
    match value {
        Ok(value) => (Some(value), Vec::new()),
        Err(why) => (None, vec![ValueError { at, why }]),
    }
}

fn read_list<'a, 'i: 'a>(
    list: ListKind,
    elements: impl Iterator<Item = &'a Spanned<DeValue<'i>>>,
    check: PatternCheck,
) -> ReadValue {
    let (mut texts, mut errors) = (Vec::new(), Vec::new());
    for element in elements {
        let text = element.get_ref().as_str();
        let is_full = texts.len() == LIST_MAX;
        let checked = match (text, check) {
            _ if is_full => Err(format!("has more than {LIST_MAX} {}", list.noun())),
            (Some(text), PatternCheck::Compile) => list.check(text),
            (Some(_), PatternCheck::Skip) => Ok(()),
            (None, _) => Err(wants(ValueKind::List(list), element.get_ref())),
        };
        match checked {
            Ok(()) => texts.extend(text.map(str::to_owned)),
            Err(why) => {
                let until = if is_full && list != ListKind::Denials { "; ignoring the rest" } else { "" };
                if list == ListKind::Denials {
                    texts.push(text.filter(|_| !is_full).unwrap_or(DENY_ALL).to_owned());
                }
                errors.push(ValueError { at: element.span().start, why: format!("{why}{until}") });
            }
        }
        if is_full {
            break;
        }
    }
    (Some(ConfigValue::Texts(texts)), errors)
}

impl ListKind {
    fn noun(self) -> &'static str {
        match self {
            Self::Patterns | Self::Denials => "patterns",
            Self::Tags => "tags",
            Self::Folders => "directories",
            Self::Models => "models",
            Self::Words => "strings",
            Self::Variables => "variables",
        }
    }

    fn check(self, text: &str) -> Result<(), String> {
        match self {
            Self::Patterns | Self::Denials => check_pattern(text),
            Self::Tags => check_tag(text),
            Self::Folders => check_folder(text),
            Self::Models => check_model(text),
            Self::Words => Ok(()),
            Self::Variables => check_variable(text),
        }
    }
}

fn text_value(kind: TextKind, text: &str) -> Result<ConfigValue, String> {
    if text.is_empty() && kind == TextKind::VariableOrNone {
        return Ok(ConfigValue::Text(String::new()));
    }
    if text.trim().is_empty() {
        return Err("is empty".to_owned());
    }
    match kind {
        TextKind::Any | TextKind::OrInteger => {}
        TextKind::Secret => return Ok(ConfigValue::Secret(text.into())),
        TextKind::Word { words, hint } => check_word(text, words, hint)?,
        TextKind::Url => {
            if !is_http_url(text) {
                return Err("is not an http:// or https:// URL".to_owned());
            }
        }
        TextKind::Variable | TextKind::VariableOrNone if !is_variable(text) => {
            return Err("must be the name of an environment variable, such as `OPENAI_API_KEY`".to_owned());
        }
        TextKind::Variable | TextKind::VariableOrNone => {}
        TextKind::Pattern => check_pattern(text)?,
    }
    Ok(ConfigValue::Text(text.to_owned()))
}

pub(crate) fn is_http_url(text: &str) -> bool {
    url::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

fn check_word(text: &str, words: &[&'static str], hint: Option<(&str, &str)>) -> Result<(), String> {
    if words.contains(&text) {
        return Ok(());
    }
    let meant = nearest_word(text, words.iter().copied());
    let meant = match (meant, hint) {
        (Some(word), _) => format!("; did you mean `{word}`?"),
        (None, Some((word, hint))) if word == text => format!("; {hint}"),
        (None, _) => String::new(),
    };
    Err(format!("is {text:?}, but must be one of {}{meant}", words.join(", ")))
}

fn is_variable(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn check_tag(text: &str) -> Result<(), String> {
    let odd = |sign: char| sign.is_whitespace() || sign.is_control() || matches!(sign, ',' | '@');
    if text.is_empty() || text == "local" || text.starts_with('-') || text.contains(odd) {
        return Err(format!(
            "contains the invalid tag {}: a tag must be a single word without `,` or `@`",
            quoted(text)
        ));
    }
    Ok(())
}

fn check_folder(text: &str) -> Result<(), String> {
    if text.starts_with('/') || text == "~" || text.starts_with("~/") {
        return Ok(());
    }
    Err(format!("contains {}, which does not start with `/` or `~/`", quoted(text)))
}

fn check_variable(text: &str) -> Result<(), String> {
    match !text.is_empty() && is_variable(text) {
        true => Ok(()),
        false => Err(format!("contains {}, which is not a valid environment variable name", quoted(text))),
    }
}

fn check_model(text: &str) -> Result<(), String> {
    let names_both =
        text.split_once('/').is_some_and(|(provider, name)| !provider.is_empty() && !name.is_empty());
    if !names_both || text.chars().any(|sign| sign.is_whitespace() || sign.is_control()) {
        return Err(format!("contains {}, which is not PROVIDER/NAME or PROVIDER/*", quoted(text)));
    }
    Ok(())
}

fn check_pattern(text: &str) -> Result<(), String> {
    let Err(error) = regex::Regex::new(text) else { return Ok(()) };
    // The regex crate's message spans several lines; the last one contains the reason.
    let error = error.to_string();
    let why = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
    Err(format!("contains the invalid regular expression {} ({why})", quoted(text)))
}

fn integer(least: i64, most: i64, number: Option<i64>) -> Result<ConfigValue, String> {
    let fits = number.filter(|number| (least..=most).contains(number));
    fits.map(ConfigValue::Integer).ok_or_else(|| format!("must be an integer from {least} to {most}"))
}

fn decimal(least: f64, most: f64, text: &str) -> Result<ConfigValue, String> {
    let number: Option<f64> = text.replace('_', "").parse().ok();
    let fits = number.filter(|number| (least..=most).contains(number));
    fits.map(ConfigValue::Number).ok_or_else(|| format!("must be a number from {least} to {most}"))
}

fn wants(kind: ValueKind, found: &DeValue<'_>) -> String {
    let found = found.type_str();
    format!("{}, not {} {found}", wanted(kind), article(found))
}

pub(crate) fn article(noun: &str) -> &'static str {
    if noun.starts_with(['a', 'i']) { "an" } else { "a" }
}

fn wanted(kind: ValueKind) -> &'static str {
    match kind {
        ValueKind::Text(TextKind::OrInteger) => "must be a string or an integer",
        ValueKind::Text(TextKind::Pattern) => "must be a regular expression string",
        ValueKind::Text(_) => "must be a string",
        ValueKind::Integer { .. } => "must be an integer",
        ValueKind::Number { .. } => "must be a number",
        ValueKind::Switch => "must be true or false",
        ValueKind::List(ListKind::Patterns | ListKind::Denials) => "must be a list of regular expressions",
        ValueKind::List(ListKind::Tags | ListKind::Words) => "must be a list of strings",
        ValueKind::List(ListKind::Variables) => "must be a list of names of environment variables",
        ValueKind::List(ListKind::Folders) => "must be a list of directories",
        ValueKind::List(ListKind::Models) => "must be a list of models, e.g. [\"ollama/*\"]",
    }
}
