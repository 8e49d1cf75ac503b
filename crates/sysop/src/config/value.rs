//! A config value that is known to be what its key wants.
//!
//! Here raw values, from TOML or from a text, are read into [`ConfigValue`]. A complaint never quotes a secret.

use std::fmt;

use secrecy::SecretString;
use toml::de::DeValue;
use toml::{Spanned, Value as Toml};

use super::keys::{ValueKind, nearest_word};

/// A value that fits its key.
#[derive(Debug, Clone)]
pub(crate) enum ConfigValue {
    /// A text.
    Text(String),
    /// A text that is never shown.
    Secret(SecretString),
    /// A whole number.
    Integer(i64),
    /// A number.
    Number(f64),
    /// True or false.
    Switch(bool),
    /// A list of texts.
    Texts(Vec<String>),
}

impl fmt::Display for ConfigValue {
    /// As TOML, control characters escaped; a secret as `[set]`.
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

/// A text in quotes: single ones where nothing in it needs escaping, for the sake of regular expressions.
pub(crate) fn quoted(text: &str) -> String {
    let escaped = format!("{text:?}");
    let plain = text.chars().all(|c| c == '\\' || c == '"' || c.escape_debug().len() == 1);
    if escaped.len() != text.len() + 2 && plain && !text.contains('\'') {
        format!("'{text}'")
    } else {
        escaped
    }
}

/// The same text; where it is an address with a name and password, without these.
pub(crate) fn without_credentials(text: &str) -> String {
    if let Some((scheme, rest)) = text.split_once("://")
        && let Some((credentials, _)) =
            rest.split(['/', '?', '#']).next().and_then(|part| part.rsplit_once('@'))
    {
        return format!("{scheme}://[set]@{}", &rest[credentials.len() + 1..]);
    }
    text.to_owned()
}

/// Error in a value or a part of it.
#[derive(Debug)]
pub(crate) struct ValueError {
    /// Byte in the file.
    pub(crate) at: usize,
    /// Ends the sentence that begins with the key.
    pub(crate) why: String,
}

/// The most regular expressions, tags or folders in one list.
const LIST_MAX: usize = 256;

/// Compile regular expressions to find invalid ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatternCheck {
    /// They are.
    Compile,
    /// They are known to be; compiling takes time at each start.
    Skip,
}

/// Reads a value of a TOML file. There may be both a value and complaints: a list keeps its good elements.
pub(crate) fn from_toml(
    kind: ValueKind,
    raw: &Spanned<DeValue<'_>>,
    check: PatternCheck,
) -> (Option<ConfigValue>, Vec<ValueError>) {
    let at = raw.span().start;
    let Some(list) = ListKind::of(kind) else {
        return match scalar(kind, raw.get_ref()) {
            Ok(value) => (Some(value), Vec::new()),
            Err(why) => (None, vec![ValueError { at, why }]),
        };
    };
    let Some(elements) = raw.get_ref().as_array() else {
        let why = wants(kind, raw.get_ref());
        if kind == ValueKind::Models {
            let why = format!("{why}; no model is allowed until it is fixed");
            return (Some(ConfigValue::Texts(Vec::new())), vec![ValueError { at, why }]);
        }
        return (None, vec![ValueError { at, why }]);
    };
    let (mut texts, mut complaints) = (Vec::new(), Vec::new());
    for element in elements.iter() {
        let at = element.span().start;
        if texts.len() == LIST_MAX {
            let why = format!("has more than {LIST_MAX} {}; ignoring the rest", list.noun());
            complaints.push(ValueError { at, why });
            break;
        }
        let text = match (element.get_ref().as_str(), check) {
            (Some(text), PatternCheck::Compile) => list.checked(text),
            (Some(text), PatternCheck::Skip) => Ok(text.to_owned()),
            (None, _) => Err(wants(kind, element.get_ref())),
        };
        match text {
            Ok(text) => texts.push(text),
            Err(why) => {
                let denied = element.get_ref().as_str().filter(|_| kind == ValueKind::Denials);
                let why = match denied {
                    Some(text) => {
                        texts.push(text.to_owned());
                        format!("{why}; all commands are denied until it is fixed")
                    }
                    None => why,
                };
                complaints.push(ValueError { at, why });
            }
        }
    }
    (Some(ConfigValue::Texts(texts)), complaints)
}

/// Kind of a list's entries.
#[derive(Debug, Clone, Copy)]
enum ListKind {
    Patterns,
    Tags,
    Folders,
    Models,
}

impl ListKind {
    fn of(kind: ValueKind) -> Option<Self> {
        match kind {
            ValueKind::Patterns | ValueKind::Denials => Some(Self::Patterns),
            ValueKind::Tags => Some(Self::Tags),
            ValueKind::Folders => Some(Self::Folders),
            ValueKind::Models => Some(Self::Models),
            ValueKind::Text
            | ValueKind::Secret
            | ValueKind::Url
            | ValueKind::Variable
            | ValueKind::Word(_)
            | ValueKind::Integer { .. }
            | ValueKind::Number { .. }
            | ValueKind::TextOrInteger
            | ValueKind::Switch
            | ValueKind::Pattern
            | ValueKind::Model => None,
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Self::Patterns => "patterns",
            Self::Tags => "tags",
            Self::Folders => "directories",
            Self::Models => "models",
        }
    }

    fn checked(self, text: &str) -> Result<String, String> {
        match self {
            Self::Patterns => checked_pattern(text),
            Self::Tags => checked_tag(text),
            Self::Folders => checked_folder(text),
            Self::Models => checked_models(text),
        }
    }
}

fn scalar(kind: ValueKind, raw: &DeValue<'_>) -> Result<ConfigValue, String> {
    match (kind, raw) {
        (ValueKind::Integer { least, most }, DeValue::Integer(number)) => {
            integer(least, most, i64::from_str_radix(number.as_str(), number.radix()).ok())
        }
        (ValueKind::Number { least, most }, DeValue::Integer(number)) => {
            decimal(least, most, number.as_str())
        }
        (ValueKind::Number { least, most }, DeValue::Float(number)) => decimal(least, most, number.as_str()),
        (ValueKind::Switch, DeValue::Boolean(on)) => Ok(ConfigValue::Switch(*on)),
        (ValueKind::TextOrInteger, DeValue::Integer(number)) => {
            Ok(ConfigValue::Text(number.as_str().to_owned()))
        }
        (
            ValueKind::Integer { .. }
            | ValueKind::Number { .. }
            | ValueKind::Switch
            | ValueKind::Patterns
            | ValueKind::Denials
            | ValueKind::Tags
            | ValueKind::Folders
            | ValueKind::Models,
            _,
        ) => Err(wants(kind, raw)),
        (_, DeValue::String(text)) => text_value(kind, text),
        _ => Err(wants(kind, raw)),
    }
}

/// Reads a value that was given as a text: from the environment or from a flag.
pub(crate) fn from_text(kind: ValueKind, text: &str) -> Result<ConfigValue, String> {
    match kind {
        ValueKind::Integer { least, most } => integer(least, most, text.trim().parse().ok()),
        ValueKind::Number { least, most } => decimal(least, most, text.trim()),
        ValueKind::Switch => match text.trim() {
            "true" | "1" => Ok(ConfigValue::Switch(true)),
            "false" | "0" => Ok(ConfigValue::Switch(false)),
            _ => Err(wanted(kind).to_owned()),
        },
        ValueKind::Patterns | ValueKind::Denials => list_value(ListKind::Patterns, kind, text),
        ValueKind::Tags => list_value(ListKind::Tags, kind, text),
        ValueKind::Folders => list_value(ListKind::Folders, kind, text),
        ValueKind::Models => list_value(ListKind::Models, kind, text),
        ValueKind::Text
        | ValueKind::Secret
        | ValueKind::Url
        | ValueKind::Variable
        | ValueKind::Word(_)
        | ValueKind::TextOrInteger
        | ValueKind::Pattern
        | ValueKind::Model => text_value(kind, text),
    }
}

/// One element, or a list of them as TOML writes it.
fn list_value(list: ListKind, kind: ValueKind, text: &str) -> Result<ConfigValue, String> {
    let one_or_list = match text.parse::<Toml>() {
        Ok(Toml::Array(elements)) => {
            elements.iter().map(|element| element.as_str().map(str::to_owned)).collect()
        }
        Ok(_) | Err(_) => Some(vec![text.to_owned()]),
    };
    let texts: Vec<String> = one_or_list.ok_or(wanted(kind))?;
    if texts.len() > LIST_MAX {
        return Err(format!("has more than {LIST_MAX} {}", list.noun()));
    }
    texts.iter().map(|text| list.checked(text)).collect::<Result<_, _>>().map(ConfigValue::Texts)
}

fn text_value(kind: ValueKind, text: &str) -> Result<ConfigValue, String> {
    if text.trim().is_empty() {
        return Err("is empty".to_owned());
    }
    match kind {
        ValueKind::Secret => return Ok(ConfigValue::Secret(text.into())),
        ValueKind::Word(words) if !words.contains(&text) => {
            let meant = nearest_word(text, words.iter().copied());
            let meant = meant.map(|word| format!("; did you mean `{word}`?")).unwrap_or_default();
            return Err(format!("is {text:?}, but must be one of {}{meant}", words.join(", ")));
        }
        ValueKind::Url => {
            let is_address = |url: url::Url| matches!(url.scheme(), "http" | "https") && url.has_host();
            if !url::Url::parse(text).is_ok_and(is_address) {
                return Err("is not an http:// or https:// URL".to_owned());
            }
        }
        ValueKind::Variable if !is_variable(text) => {
            return Err("must be the name of an environment variable, such as `OPENAI_API_KEY`".to_owned());
        }
        ValueKind::Pattern => return checked_pattern(text).map(ConfigValue::Text),
        ValueKind::Word(_)
        | ValueKind::Variable
        | ValueKind::Text
        | ValueKind::TextOrInteger
        | ValueKind::Model => {}
        ValueKind::Integer { .. }
        | ValueKind::Number { .. }
        | ValueKind::Switch
        | ValueKind::Patterns
        | ValueKind::Denials
        | ValueKind::Tags
        | ValueKind::Folders
        | ValueKind::Models => return Err(wanted(kind).to_owned()),
    }
    Ok(ConfigValue::Text(text.to_owned()))
}

fn is_variable(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn checked_tag(text: &str) -> Result<String, String> {
    let odd = |sign: char| sign.is_whitespace() || sign.is_control() || matches!(sign, ',' | '@');
    if text.is_empty() || text == "local" || text.starts_with('-') || text.contains(odd) {
        return Err(format!(
            "contains the invalid tag {}: a tag must be a single word without `,` or `@`",
            quoted(text)
        ));
    }
    Ok(text.to_owned())
}

fn checked_folder(text: &str) -> Result<String, String> {
    if !text.starts_with('/') && text != "~" && !text.starts_with("~/") {
        return Err(format!("contains {}, which does not start with `/` or `~/`", quoted(text)));
    }
    Ok(text.to_owned())
}

fn checked_models(text: &str) -> Result<String, String> {
    let names_both =
        text.split_once('/').is_some_and(|(provider, name)| !provider.is_empty() && !name.is_empty());
    if !names_both || text.chars().any(|sign| sign.is_whitespace() || sign.is_control()) {
        return Err(format!("contains {}, which is not PROVIDER/NAME or PROVIDER/*", quoted(text)));
    }
    Ok(text.to_owned())
}

fn checked_pattern(text: &str) -> Result<String, String> {
    match regex::Regex::new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => {
            // The crate's message draws the pattern over several lines; the last one says what is wrong.
            let error = error.to_string();
            let why = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
            Err(format!("contains the invalid regular expression {} ({why})", quoted(text)))
        }
    }
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
    let article = |word: &str| if word.starts_with(['a', 'i']) { "an" } else { "a" };
    let found = found.type_str();
    format!("{}, not {} {found}", wanted(kind), article(found))
}

fn wanted(kind: ValueKind) -> &'static str {
    match kind {
        ValueKind::Text | ValueKind::Secret | ValueKind::Url | ValueKind::Variable | ValueKind::Word(_) => {
            "must be a string"
        }
        ValueKind::TextOrInteger => "must be a string or an integer",
        ValueKind::Integer { .. } => "must be an integer",
        ValueKind::Number { .. } => "must be a number",
        ValueKind::Pattern => "must be a regular expression string",
        ValueKind::Switch => "must be true or false",
        ValueKind::Patterns | ValueKind::Denials => "must be a list of regular expressions",
        ValueKind::Tags => "must be a list of strings",
        ValueKind::Folders => "must be a list of directories",
        ValueKind::Models => "must be a list of models, e.g. [\"ollama/*\"]",
        ValueKind::Model => "must be \"PROVIDER/NAME\"",
    }
}
