//! Config keys, with the kind of each value and the changes that an untrusted workspace may make.
//!
//! A key that is not in the table does not exist.

use std::fmt;

use sysop_core::catalog::BASH_TIMEOUT_S_MAX;
use sysop_mcp::settings::ServerApproval;

use super::hooks::TIMEOUT_MAX_S;
#[cfg(test)]
use super::hooks::{HookPoint, OnError};

pub(crate) use sysop_core::model_provider::{DEMO, PROVIDER_NAMES as PROVIDERS};

/// Values of `theme`. Without it, the background of the terminal decides.
const THEME: ValueKind = ValueKind::Text(TextKind::Word {
    words: &["dark", "light", "terminal", "none"],
    hint: Some(("auto", "without a theme, the terminal's background decides: `sysop config unset theme`")),
});

/// Maximum price per million tokens; a higher price must be a typo.
const PRICE_MAX: f64 = 1_000_000.0;

const EFFORTS: &[&str] = &["none", "minimal", "low", "medium", "high", "xhigh"];
/// Values of `approve`, from loosest to strictest.
pub(crate) const APPROVE: &[&str] = &["auto", "ask", "each", "never"];

/// Values of `on_timeout`, from loosest to strictest: `background` is looser because a job has no time limit.
const ON_TIMEOUT: &[&str] = &["background", "kill"];

/// Values of `sandbox`, from weakest to strongest.
pub(crate) const SANDBOX: &[&str] = &["off", "auto", "on"];

/// Path of a value: the names from the outermost table to the key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyPath(Vec<String>);

impl KeyPath {
    pub(crate) fn new<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        Self(names.into_iter().map(|name| name.as_ref().to_owned()).collect())
    }

    pub(crate) fn child(&self, name: &str) -> Self {
        let mut names = self.0.clone();
        names.push(name.to_owned());
        Self(names)
    }

    /// Returns the names, outermost first.
    pub(crate) fn names(&self) -> &[String] {
        &self.0
    }
}

impl From<&str> for KeyPath {
    /// Splits a path at its dots. None of the names may contain a dot.
    fn from(text: &str) -> Self {
        Self::new(text.split('.'))
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

#[derive(Debug)]
pub(crate) struct ConfigKey {
    /// Names in the key's path; `*` stands for a name chosen by the user.
    pub(crate) pattern: &'static [&'static str],
    pub(crate) kind: ValueKind,
    /// Changes that an untrusted workspace may make to the value.
    pub(crate) workspace: WorkspaceRule,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ValueKind {
    /// String that passes a check.
    Text(TextKind),
    /// Integer within inclusive bounds.
    Integer {
        least: i64,
        most: i64,
    },
    /// Number within inclusive bounds.
    Number {
        least: f64,
        most: f64,
    },
    Switch,
    /// List of strings, each of which passes a check.
    List(ListKind),
}

/// Check that a string must pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextKind {
    /// Any non-empty string.
    Any,
    /// String that is never shown, such as an API key.
    Secret,
    /// `http` or `https` URL.
    Url,
    Variable,
    /// Name of a variable, or an empty string for none.
    VariableOrNone,
    /// One of `words`.
    Word {
        words: &'static [&'static str],
        /// Other word that a user may type, and what to do instead.
        hint: Option<(&'static str, &'static str)>,
    },
    Pattern,
    /// String or integer, stored as a string.
    OrInteger,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListKind {
    Patterns,
    /// Regular expressions for commands to deny. An invalid one denies every command.
    Denials,
    Tags,
    Folders,
    /// Any non-empty strings.
    Words,
    Variables,
    /// Models as `PROVIDER/NAME` with `*`. An invalid list allows no models.
    Models,
}

/// Changes that an untrusted workspace may make to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkspaceRule {
    /// None; the key is ignored.
    Ignored,
    /// May set a stricter one of these words, which are ordered from loosest to strictest.
    Stricter(&'static [&'static str]),
    /// May set this value, which is the stricter one.
    Only(bool),
    /// May set a lower number. For keys where 0 is valid, 0 means no limit.
    Lower,
    Adds,
}

const TEXT: ValueKind = ValueKind::Text(TextKind::Any);
pub(crate) const SECRET: ValueKind = ValueKind::Text(TextKind::Secret);
const URL: ValueKind = ValueKind::Text(TextKind::Url);
/// Price per million tokens, in any currency.
const PRICE: ValueKind = ValueKind::Number { least: 0.0, most: PRICE_MAX };

/// Returns the kind of an integer from 1 to `most`.
const fn count(most: i64) -> ValueKind {
    ValueKind::Integer { least: 1, most }
}

const fn word(words: &'static [&'static str]) -> ValueKind {
    ValueKind::Text(TextKind::Word { words, hint: None })
}

const fn key(pattern: &'static [&'static str], kind: ValueKind, workspace: WorkspaceRule) -> ConfigKey {
    ConfigKey { pattern, kind, workspace }
}

/// Maximum value of the keys that are measured in minutes: one week.
const MINUTES_MAX: i64 = 10_080;

/// Maximum value of the keys that are measured in tokens.
const TOKENS_MAX: i64 = 100_000_000;

/// Maximum value of the keys that are measured in seconds: one day.
const SECONDS_MAX: i64 = 86_400;

/// Maximum time limit of a command, in seconds.
const TOOL_TIMEOUT_S_MAX: i64 = BASH_TIMEOUT_S_MAX.cast_signed();

pub(crate) const KEYS: &[ConfigKey] = &[
    key(&["model", "name"], TEXT, WorkspaceRule::Ignored),
    key(&["model", "provider"], TEXT, WorkspaceRule::Ignored),
    key(&["approve"], word(APPROVE), WorkspaceRule::Stricter(APPROVE)),
    key(&["profile"], TEXT, WorkspaceRule::Ignored),
    key(&["temperature"], ValueKind::Number { least: 0.0, most: 2.0 }, WorkspaceRule::Ignored),
    key(&["max_iterations"], count(10_000), WorkspaceRule::Lower),
    key(&["max_history_messages"], ValueKind::Integer { least: 0, most: 100_000 }, WorkspaceRule::Lower),
    key(&["ledger_only"], ValueKind::Switch, WorkspaceRule::Only(true)),
    key(&["probe_models"], ValueKind::Switch, WorkspaceRule::Only(false)),
    key(&["max_output_bytes"], count(64 * 1024 * 1024), WorkspaceRule::Lower),
    key(&["max_output_lines"], count(1_000_000), WorkspaceRule::Lower),
    key(&["max_output_tokens"], count(10_000_000), WorkspaceRule::Lower),
    key(&["tool_timeout_s"], count(TOOL_TIMEOUT_S_MAX), WorkspaceRule::Lower),
    key(&["on_timeout"], word(ON_TIMEOUT), WorkspaceRule::Stricter(ON_TIMEOUT)),
    key(&["dangerous_patterns"], ValueKind::List(ListKind::Patterns), WorkspaceRule::Adds),
    key(&["deny"], ValueKind::List(ListKind::Denials), WorkspaceRule::Adds),
    key(&["never_network"], ValueKind::Switch, WorkspaceRule::Only(false)),
    key(
        &["approval_expires_s"],
        ValueKind::Integer { least: 0, most: 7 * SECONDS_MAX },
        WorkspaceRule::Lower,
    ),
    key(&["audit", "journald"], ValueKind::Switch, WorkspaceRule::Ignored),
    key(&["never_asks"], ValueKind::Switch, WorkspaceRule::Only(true)),
    key(&["sandbox"], word(SANDBOX), WorkspaceRule::Stricter(SANDBOX)),
    key(&["sandbox_write"], ValueKind::List(ListKind::Folders), WorkspaceRule::Ignored),
    key(&["sandbox_network"], ValueKind::Switch, WorkspaceRule::Only(false)),
    key(&["database"], SECRET, WorkspaceRule::Ignored),
    key(&["otlp_endpoint"], URL, WorkspaceRule::Ignored),
    key(&["theme"], THEME, WorkspaceRule::Ignored),
    key(&["status_line"], ValueKind::List(ListKind::Words), WorkspaceRule::Ignored),
    key(&["mouse"], ValueKind::Switch, WorkspaceRule::Ignored),
    key(&["budget", "turn", "cost"], PRICE, WorkspaceRule::Ignored),
    key(&["budget", "turn", "tokens"], count(i64::MAX), WorkspaceRule::Ignored),
    key(&["budget", "turn", "minutes"], count(MINUTES_MAX), WorkspaceRule::Ignored),
    key(&["budget", "day", "cost"], PRICE, WorkspaceRule::Ignored),
    key(&["budget", "day", "tokens"], count(i64::MAX), WorkspaceRule::Ignored),
    key(&["budget", "day", "minutes"], count(MINUTES_MAX), WorkspaceRule::Ignored),
    key(&["budget", "session", "cost"], PRICE, WorkspaceRule::Ignored),
    key(&["budget", "session", "tokens"], count(i64::MAX), WorkspaceRule::Ignored),
    key(&["budget", "session", "minutes"], count(MINUTES_MAX), WorkspaceRule::Ignored),
    key(&["guard", "seconds"], ValueKind::Integer { least: 0, most: 3_600 }, WorkspaceRule::Ignored),
    key(&["undo", "megabytes"], ValueKind::Integer { least: 0, most: 1_024 }, WorkspaceRule::Ignored),
    key(&["prices", "*", "input"], PRICE, WorkspaceRule::Ignored),
    key(&["prices", "*", "output"], PRICE, WorkspaceRule::Ignored),
    key(&["prices", "*", "cached"], PRICE, WorkspaceRule::Ignored),
    key(&["models", "*", "context_window"], count(TOKENS_MAX), WorkspaceRule::Ignored),
    key(&["models", "*", "max_output_tokens"], count(TOKENS_MAX), WorkspaceRule::Ignored),
    key(&["models", "*", "vision"], ValueKind::Switch, WorkspaceRule::Ignored),
    key(&["models", "*", "url"], TEXT, WorkspaceRule::Ignored),
    key(&["models", "*", "sha256"], TEXT, WorkspaceRule::Ignored),
    key(&["models", "*", "size"], count(i64::MAX), WorkspaceRule::Ignored),
    key(&["models", "*", "license"], TEXT, WorkspaceRule::Ignored),
    key(&["ssh_config"], TEXT, WorkspaceRule::Ignored),
    key(&["connection", "host"], TEXT, WorkspaceRule::Ignored),
    key(&["connection", "user"], TEXT, WorkspaceRule::Ignored),
    key(&["connection", "port"], count(65_535), WorkspaceRule::Ignored),
    key(&["hosts", "*", "host"], TEXT, WorkspaceRule::Ignored),
    key(&["hosts", "*", "user"], TEXT, WorkspaceRule::Ignored),
    key(&["hosts", "*", "port"], count(65_535), WorkspaceRule::Ignored),
    key(&["hosts", "*", "tags"], ValueKind::List(ListKind::Tags), WorkspaceRule::Ignored),
    key(&["hosts", "*", "approve"], word(APPROVE), WorkspaceRule::Ignored),
    key(&["hosts", "*", "approvals"], count(8), WorkspaceRule::Ignored),
    key(&["hosts", "*", "models"], ValueKind::List(ListKind::Models), WorkspaceRule::Ignored),
    key(&["hosts", "*", "root"], TEXT, WorkspaceRule::Ignored),
    key(&["hosts", "*", "description"], TEXT, WorkspaceRule::Ignored),
    key(&["providers", "*", "base_url"], URL, WorkspaceRule::Ignored),
    key(&["providers", "*", "api_key"], SECRET, WorkspaceRule::Ignored),
    key(
        &["providers", "*", "api_key_env"],
        ValueKind::Text(TextKind::VariableOrNone),
        WorkspaceRule::Ignored,
    ),
    key(&["providers", "*", "api_key_file"], TEXT, WorkspaceRule::Ignored),
    key(&["providers", "*", "headers", "*"], SECRET, WorkspaceRule::Ignored),
    key(&["providers", "*", "timeout_s"], count(SECONDS_MAX), WorkspaceRule::Ignored),
    key(&["providers", "openai", "api"], word(&["auto", "chat", "responses"]), WorkspaceRule::Ignored),
    key(&["providers", "openai", "effort"], word(EFFORTS), WorkspaceRule::Ignored),
    key(&["providers", "vertex", "project"], TEXT, WorkspaceRule::Ignored),
    key(&["providers", "vertex", "location"], TEXT, WorkspaceRule::Ignored),
    key(&["providers", "ollama", "num_ctx"], count(100_000_000), WorkspaceRule::Ignored),
    key(&["providers", "ollama", "keep_alive"], ValueKind::Text(TextKind::OrInteger), WorkspaceRule::Ignored),
    key(&["providers", "ollama+ssh", "num_ctx"], count(100_000_000), WorkspaceRule::Ignored),
    key(
        &["providers", "ollama+ssh", "keep_alive"],
        ValueKind::Text(TextKind::OrInteger),
        WorkspaceRule::Ignored,
    ),
    key(&["mcp", "*", "command"], TEXT, WorkspaceRule::Ignored),
    key(&["mcp", "*", "args"], ValueKind::List(ListKind::Words), WorkspaceRule::Ignored),
    key(&["mcp", "*", "env", "*"], SECRET, WorkspaceRule::Ignored),
    key(&["mcp", "*", "env_pass"], ValueKind::List(ListKind::Variables), WorkspaceRule::Ignored),
    key(&["mcp", "*", "cwd"], TEXT, WorkspaceRule::Ignored),
    key(&["mcp", "*", "url"], URL, WorkspaceRule::Ignored),
    key(&["mcp", "*", "headers_env", "*"], ValueKind::Text(TextKind::Variable), WorkspaceRule::Ignored),
    key(&["mcp", "*", "tools"], ValueKind::List(ListKind::Words), WorkspaceRule::Ignored),
    key(&["mcp", "*", "exclude_tools"], ValueKind::List(ListKind::Words), WorkspaceRule::Ignored),
    key(&["mcp", "*", "approve"], word(ServerApproval::NAMES), WorkspaceRule::Ignored),
    key(&["mcp", "*", "timeout_s"], count(SECONDS_MAX), WorkspaceRule::Ignored),
    key(&["mcp", "*", "startup_timeout_s"], count(SECONDS_MAX), WorkspaceRule::Ignored),
    key(&["mcp", "*", "enabled"], ValueKind::Switch, WorkspaceRule::Only(false)),
    key(&["notify", "command"], ValueKind::List(ListKind::Words), WorkspaceRule::Ignored),
    key(&["notify", "timeout_s"], count(TIMEOUT_MAX_S.cast_signed()), WorkspaceRule::Ignored),
    key(&["notify", "url"], URL, WorkspaceRule::Ignored),
    key(&["routines", "*", "description"], TEXT, WorkspaceRule::Ignored),
    key(&["routines", "*", "cmd"], TEXT, WorkspaceRule::Ignored),
    key(&["routines", "*", "vars", "*", "description"], TEXT, WorkspaceRule::Ignored),
    key(
        &["routines", "*", "vars", "*", "pattern"],
        ValueKind::Text(TextKind::Pattern),
        WorkspaceRule::Ignored,
    ),
    key(&["routines", "*", "vars", "*", "default"], TEXT, WorkspaceRule::Ignored),
    key(&["routines", "*", "made_from", "session"], TEXT, WorkspaceRule::Ignored),
    key(&["routines", "*", "made_from", "date"], TEXT, WorkspaceRule::Ignored),
    key(&["routines", "*", "made_from", "os"], TEXT, WorkspaceRule::Ignored),
    key(&["routines", "*", "made_from", "arch"], TEXT, WorkspaceRule::Ignored),
    key(&["routines", "*", "made_from", "policy"], count(1_000_000), WorkspaceRule::Ignored),
];

/// Keys of each entry in `[[hooks]]`, which has a separate parser.
#[cfg(test)]
pub(crate) const HOOK_KEYS: &[ConfigKey] = &[
    key(&["hooks", "on"], word(HookPoint::NAMES), WorkspaceRule::Ignored),
    key(&["hooks", "match"], ValueKind::Text(TextKind::Pattern), WorkspaceRule::Ignored),
    key(&["hooks", "run"], ValueKind::List(ListKind::Words), WorkspaceRule::Ignored),
    key(&["hooks", "timeout_s"], count(TIMEOUT_MAX_S.cast_signed()), WorkspaceRule::Ignored),
    key(&["hooks", "on_error"], word(OnError::NAMES), WorkspaceRule::Ignored),
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

pub(crate) fn find(path: &KeyPath) -> Option<&'static ConfigKey> {
    let names = path.names();
    KEYS.iter().find(|key| key.pattern.len() == names.len() && key.begins_with(names))
}

/// Returns true if a path is a key with a value.
pub(crate) fn is_key(path: &KeyPath) -> bool {
    find(path).is_some()
}

/// Returns true if a key controls how much runs without approval, anywhere or on one host.
pub(crate) fn is_approve(path: &KeyPath) -> bool {
    find(path).is_some_and(|key| key.kind == word(APPROVE))
}

/// Returns the value that counts instead of an invalid one, for a key whose default would allow more.
pub(crate) fn strict_value(path: &KeyPath) -> Option<&'static str> {
    match path.names() {
        [key] if key == "sandbox" => Some("on"),
        _ => is_approve(path).then_some("each"),
    }
}

/// Returns the highest valid value of a key, for a key of which a higher one counts as that.
pub(crate) fn cap(path: &KeyPath) -> Option<i64> {
    (*path == KeyPath::from("tool_timeout_s")).then_some(TOOL_TIMEOUT_S_MAX)
}

/// Returns true if a key is the URL of a provider's server.
pub(crate) fn is_provider_address(path: &KeyPath) -> bool {
    matches!(path.names(), [outer, _, last] if outer == "providers" && last == "base_url")
}

/// Returns true if the value at a path is a provider's key, the file with the key, or a header.
pub(crate) fn is_provider_secret(path: &KeyPath) -> bool {
    match path.names() {
        [outer, _, last] => outer == "providers" && ["api_key", "api_key_file"].contains(&last.as_str()),
        [outer, _, table, _] => outer == "providers" && table == "headers",
        _ => false,
    }
}

/// Returns true if the value at a path is the name of a variable with a provider's key.
pub(crate) fn is_key_variable(path: &KeyPath) -> bool {
    matches!(path.names(), [outer, _, last] if outer == "providers" && last == "api_key_env")
}

/// Returns true if a path is the array of a routine's steps, which has a separate parser.
pub(crate) fn is_steps(path: &KeyPath) -> bool {
    matches!(path.names(), [outer, _, last] if outer == "routines" && last == "steps")
}

/// Returns true if a path is a table with keys.
pub(crate) fn is_table(path: &KeyPath) -> bool {
    let names = path.names();
    KEYS.iter().any(|key| key.pattern.len() > names.len() && key.begins_with(names))
}

/// Table of rules for commands, which has a separate parser.
const POLICY: &str = "policy";

/// Keys at the top level that restrict commands, and the table of rules.
const RESTRICTIONS: [&str; 7] =
    [POLICY, "approve", "deny", "dangerous_patterns", "never_asks", "sandbox", "sandbox_network"];

/// Returns true if a key or a table restricts commands: everywhere, or on one host.
pub(crate) fn is_restriction(path: &KeyPath) -> bool {
    match path.names() {
        [key] => RESTRICTIONS.contains(&key.as_str()),
        [outer, _, key] => outer == "hosts" && HOST_RESTRICTIONS.contains(&key.as_str()),
        _ => false,
    }
}

/// Keys of a host that restrict commands.
const HOST_RESTRICTIONS: [&str; 3] = ["approve", "approvals", "models"];

/// Returns the place of a restriction whose name is at the top level instead, or `None` for any other name.
fn place_of_misplaced(path: &KeyPath) -> Option<KeyPath> {
    match path.names() {
        [name] if name == "rules" => Some(KeyPath::from("policy.rules")),
        [name] if name == "approvals" => Some(KeyPath::from("hosts.NAME.approvals")),
        _ => None,
    }
}

/// Returns the key that may have been meant by an unknown one.
pub(crate) fn meant(path: &KeyPath) -> Option<KeyPath> {
    nearest(path).or_else(|| place_of_misplaced(path))
}

/// Returns true if an unknown key may have been meant to restrict commands.
pub(crate) fn may_restrict(path: &KeyPath) -> bool {
    nearest(path).as_ref().is_some_and(is_restriction)
        || place_of_misplaced(path).is_some()
        || path.names().first().is_some_and(|outer| outer == POLICY)
}

/// Returns true if an invalid value of a key denies every command, because more commands would run without it.
pub(crate) fn denies_if_invalid(path: &KeyPath) -> bool {
    find(path).is_some_and(|key| {
        matches!(key.kind, ValueKind::List(ListKind::Patterns | ListKind::Denials))
            || [&["hosts", "*", "approvals"][..], &["never_asks"], &["sandbox_network"]]
                .contains(&key.pattern)
    })
}

/// Returns the known key most similar to an unknown one.
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
    let policy = (outer.is_empty() && last != POLICY).then_some(POLICY);
    let name = nearest_word(last, candidates.copied().chain(policy))?;
    Some(KeyPath::new(outer).child(name))
}

/// Maximum number of characters of a word to compare with known words.
const WORD_CHARS_MAX: usize = 64;

/// Returns the known word most similar to a mistyped one, or `None` if none is similar enough.
pub(crate) fn nearest_word<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: String = word.to_lowercase().chars().take(WORD_CHARS_MAX).collect();
    known
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().div_ceil(4))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the error for an unknown provider, with a suggestion or the list of available providers.
pub(crate) fn unknown_provider(provider: &str) -> String {
    let next = match nearest_word(provider, PROVIDERS.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("available: {}, local, {DEMO}", PROVIDERS.join(", ")),
    };
    format!("unknown provider {provider:?}; {next}")
}
