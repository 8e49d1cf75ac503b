//! Keys of a config, with the kind of each value and the rights of an untrusted workspace.
//!
//! One table says all; nothing else in the crate decides whether a key exists.

use std::fmt;

pub(crate) use sysop_core::model_provider::{DEMO, PROVIDER_NAMES as PROVIDERS};

/// The colors of the full screen.
pub(crate) const THEMES: &[&str] = &["dark", "light", "terminal", "none"];

/// The most that a million tokens may cost; more is a slip.
const PRICE_MAX: f64 = 1_000_000.0;

/// Values of `approve`, from loosest to strictest.
pub(crate) const APPROVE: &[&str] = &["auto", "ask", "each", "never"];

/// Values of `sandbox`, from weakest to strongest.
pub(crate) const SANDBOX: &[&str] = &["off", "auto", "on"];

/// Path of a value: the names from the outermost table to the key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyPath(Vec<String>);

impl KeyPath {
    /// The path with these names.
    pub(crate) fn new<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        Self(names.into_iter().map(|name| name.as_ref().to_owned()).collect())
    }

    /// A path written with dots, none of whose names holds one.
    pub(crate) fn dotted(text: &str) -> Self {
        Self::new(text.split('.'))
    }

    /// The key one level further in.
    pub(crate) fn child(&self, name: &str) -> Self {
        let mut names = self.0.clone();
        names.push(name.to_owned());
        Self(names)
    }

    /// The names from the outside in.
    pub(crate) fn names(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(".")?;
            }
            let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if !name.is_empty() && name.chars().all(bare) {
                f.write_str(name)?
            } else {
                write!(f, "{name:?}")?
            }
        }
        Ok(())
    }
}

/// One key that a config may hold.
#[derive(Debug)]
pub(crate) struct ConfigKey {
    /// Its names; `*` stands for a name that the person chooses.
    pub(crate) pattern: &'static [&'static str],
    pub(crate) kind: ValueKind,
    /// Rights of an untrusted workspace.
    pub(crate) workspace: WorkspaceRule,
}

/// Kind of a value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ValueKind {
    /// Any text.
    Text,
    /// A text that is never shown.
    Secret,
    /// An `http` or `https` address.
    Url,
    /// The name of an environment variable.
    Variable,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A whole number in these bounds.
    Integer {
        /// The least that makes sense.
        least: i64,
        /// The most that makes sense.
        most: i64,
    },
    /// A number in these bounds.
    Number {
        /// The least that makes sense.
        least: f64,
        /// The most that makes sense.
        most: f64,
    },
    /// A text or a whole number, kept as text.
    TextOrInteger,
    /// True or false.
    Switch,
    /// One regular expression.
    Pattern,
    /// A list of regular expressions.
    Patterns,
    /// A list of regular expressions of which a bad one counts too, and matches everything.
    Denials,
    /// A list of words by which hosts are called together.
    Tags,
    /// A list of folders.
    Folders,
    /// A list of models, `PROVIDER/NAME` with `*` in it; one that cannot be read allows none.
    Models,
    /// `PROVIDER/NAME`; stands for `model.provider` and `model.name`.
    Model,
}

/// Rights of an untrusted workspace regarding a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkspaceRule {
    /// Nothing.
    Ignored,
    /// Make it stricter, in the order of the words of its kind.
    Stricter,
    /// Set it to the value that is stricter: this one.
    Only(bool),
    /// Make it lower.
    Lower,
    /// Add to it.
    Adds,
}

/// Price of a million tokens, in any currency.
const PRICE: ValueKind = ValueKind::Number { least: 0.0, most: PRICE_MAX };

/// A whole number of at least one.
const fn count(most: i64) -> ValueKind {
    ValueKind::Integer { least: 1, most }
}

const fn key(pattern: &'static [&'static str], kind: ValueKind, workspace: WorkspaceRule) -> ConfigKey {
    ConfigKey { pattern, kind, workspace }
}

/// The longest time that a key in seconds may name: a day.
const SECONDS_MAX: i64 = 86_400;

/// Every key.
pub(crate) const KEYS: &[ConfigKey] = &[
    key(&["model"], ValueKind::Model, WorkspaceRule::Ignored),
    key(&["model", "name"], ValueKind::Text, WorkspaceRule::Ignored),
    key(&["model", "provider"], ValueKind::Text, WorkspaceRule::Ignored),
    key(&["approve"], ValueKind::Word(APPROVE), WorkspaceRule::Stricter),
    key(&["profile"], ValueKind::Text, WorkspaceRule::Ignored),
    key(&["temperature"], ValueKind::Number { least: 0.0, most: 2.0 }, WorkspaceRule::Ignored),
    key(&["max_iterations"], count(10_000), WorkspaceRule::Lower),
    key(&["max_history_messages"], count(100_000), WorkspaceRule::Lower),
    key(&["max_output_bytes"], count(64 * 1024 * 1024), WorkspaceRule::Lower),
    key(&["max_output_lines"], count(1_000_000), WorkspaceRule::Lower),
    key(&["max_output_tokens"], count(10_000_000), WorkspaceRule::Lower),
    key(&["tool_timeout_s"], count(SECONDS_MAX), WorkspaceRule::Lower),
    key(&["dangerous_patterns"], ValueKind::Patterns, WorkspaceRule::Adds),
    key(&["deny"], ValueKind::Denials, WorkspaceRule::Adds),
    key(&["never_network"], ValueKind::Switch, WorkspaceRule::Only(false)),
    key(&["never_asks"], ValueKind::Switch, WorkspaceRule::Only(true)),
    key(&["sandbox"], ValueKind::Word(SANDBOX), WorkspaceRule::Stricter),
    key(&["sandbox_write"], ValueKind::Folders, WorkspaceRule::Ignored),
    key(&["sandbox_network"], ValueKind::Switch, WorkspaceRule::Only(false)),
    key(&["database"], ValueKind::Secret, WorkspaceRule::Ignored),
    key(&["otlp_endpoint"], ValueKind::Url, WorkspaceRule::Ignored),
    key(&["theme"], ValueKind::Word(THEMES), WorkspaceRule::Ignored),
    key(&["prices", "*", "input"], PRICE, WorkspaceRule::Ignored),
    key(&["prices", "*", "output"], PRICE, WorkspaceRule::Ignored),
    key(&["prices", "*", "cached"], PRICE, WorkspaceRule::Ignored),
    key(&["ssh_config"], ValueKind::Text, WorkspaceRule::Ignored),
    key(&["connection", "host"], ValueKind::Text, WorkspaceRule::Ignored),
    key(&["connection", "user"], ValueKind::Text, WorkspaceRule::Ignored),
    key(&["connection", "port"], count(65_535), WorkspaceRule::Ignored),
    key(&["hosts", "*", "host"], ValueKind::Text, WorkspaceRule::Ignored),
    key(&["hosts", "*", "user"], ValueKind::Text, WorkspaceRule::Ignored),
    key(&["hosts", "*", "port"], count(65_535), WorkspaceRule::Ignored),
    key(&["hosts", "*", "tags"], ValueKind::Tags, WorkspaceRule::Ignored),
    key(&["hosts", "*", "approve"], ValueKind::Word(APPROVE), WorkspaceRule::Ignored),
    key(&["hosts", "*", "models"], ValueKind::Models, WorkspaceRule::Ignored),
    key(&["hosts", "*", "root"], ValueKind::Text, WorkspaceRule::Ignored),
    key(&["hosts", "*", "description"], ValueKind::Text, WorkspaceRule::Ignored),
    key(&["providers", "*", "base_url"], ValueKind::Url, WorkspaceRule::Ignored),
    key(&["providers", "*", "api_key"], ValueKind::Secret, WorkspaceRule::Ignored),
    key(&["providers", "*", "api_key_env"], ValueKind::Variable, WorkspaceRule::Ignored),
    key(&["providers", "*", "headers", "*"], ValueKind::Secret, WorkspaceRule::Ignored),
    key(&["providers", "*", "timeout_s"], count(SECONDS_MAX), WorkspaceRule::Ignored),
    key(&["providers", "vertex", "project"], ValueKind::Text, WorkspaceRule::Ignored),
    key(&["providers", "vertex", "location"], ValueKind::Text, WorkspaceRule::Ignored),
    key(&["providers", "ollama", "num_ctx"], count(100_000_000), WorkspaceRule::Ignored),
    key(&["providers", "ollama", "keep_alive"], ValueKind::TextOrInteger, WorkspaceRule::Ignored),
    key(&["providers", "ollama+ssh", "num_ctx"], count(100_000_000), WorkspaceRule::Ignored),
    key(&["providers", "ollama+ssh", "keep_alive"], ValueKind::TextOrInteger, WorkspaceRule::Ignored),
    key(&["routines", "*", "description"], ValueKind::Text, WorkspaceRule::Ignored),
    key(&["routines", "*", "cmd"], ValueKind::Text, WorkspaceRule::Ignored),
    key(&["routines", "*", "vars", "*", "description"], ValueKind::Text, WorkspaceRule::Ignored),
    key(&["routines", "*", "vars", "*", "pattern"], ValueKind::Pattern, WorkspaceRule::Ignored),
    key(&["routines", "*", "vars", "*", "default"], ValueKind::Text, WorkspaceRule::Ignored),
];

impl ConfigKey {
    fn begins_with(&self, names: &[String]) -> bool {
        names.len() <= self.pattern.len()
            && names.iter().enumerate().all(|(index, name)| match self.pattern[index] {
                "*" if self.pattern[0] == "providers" && index == 1 => PROVIDERS.contains(&name.as_str()),
                "*" => true,
                fixed => fixed == name,
            })
    }
}

/// The key at a path.
pub(crate) fn find(path: &KeyPath) -> Option<&'static ConfigKey> {
    let names = path.names();
    KEYS.iter().find(|key| key.pattern.len() == names.len() && key.begins_with(names))
}

/// Returns true if a key decides how much runs without approval, anywhere or on one host.
pub(crate) fn is_approve(path: &KeyPath) -> bool {
    find(path).is_some_and(|key| key.kind == ValueKind::Word(APPROVE))
}

/// Returns true if a path is a table with keys.
pub(crate) fn is_table(path: &KeyPath) -> bool {
    let names = path.names();
    KEYS.iter().any(|key| key.pattern.len() > names.len() && key.begins_with(names))
}

/// The known key that an unknown one most looks like.
pub(crate) fn nearest(path: &KeyPath) -> Option<KeyPath> {
    let (last, outer) = path.names().split_last()?;
    let candidates = KEYS
        .iter()
        .filter(|key| key.pattern.len() > outer.len() && key.begins_with(outer))
        .flat_map(|key| match key.pattern[outer.len()] {
            "*" if outer.len() == 1 && outer[0] == "providers" => PROVIDERS,
            "*" => &[],
            _ => &key.pattern[outer.len()..=outer.len()],
        });
    let name = nearest_word(last, candidates.copied())?;
    Some(KeyPath::new(outer).child(name))
}

/// The word that a mistyped one most looks like, if any is close enough.
pub(crate) fn nearest_word<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (distance(&word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().div_ceil(4))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Says that there is no such provider, and which there are.
pub(crate) fn unknown_provider(provider: &str) -> String {
    let next = match nearest_word(provider, PROVIDERS.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("available: {}, {DEMO}", PROVIDERS.join(", ")),
    };
    format!("unknown provider {provider:?}; {next}")
}

/// The longest word that is compared with known ones, in characters.
const WORD_CHARS_MAX: usize = 64;

/// Returns the edit distance of two words, in insertions, deletions, replacements and swaps of neighbors.
pub(crate) fn distance(one: &str, other: &str) -> usize {
    let one: Vec<char> = one.chars().take(WORD_CHARS_MAX).collect();
    let other: Vec<char> = other.chars().take(WORD_CHARS_MAX).collect();
    let mut rows = vec![vec![0; other.len() + 1]; one.len() + 1];
    for (index, row) in rows.iter_mut().enumerate() {
        row[0] = index;
    }
    rows[0] = (0..=other.len()).collect();
    for i in 1..=one.len() {
        for j in 1..=other.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(one[i - 1] != other[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[one.len()][other.len()]
}
