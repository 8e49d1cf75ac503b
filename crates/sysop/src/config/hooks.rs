//! Parses `[[hooks]]` and `[notify]`: the user's programs that sysop runs. Only the user's own file may name
//! them, and for `[notify]` the environment, but never a workspace's file, trusted or not.

use std::fmt;
use std::time::Duration;

use regex::Regex;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use toml::Spanned;
use toml::de::DeValue;

use super::Config;
use super::table_error::table_error;
use super::value::{ConfigValue, RedactedProgram, quoted};

const HOOKS_MAX: usize = 64;
/// Default timeout of a program, in seconds.
pub(crate) const TIMEOUT_S: u64 = 10;
/// Maximum configurable timeout, in seconds.
pub(super) const TIMEOUT_MAX_S: u64 = 600;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum HookPoint {
    /// Before a call runs. Only a hook for this event can deny or ask.
    #[serde(rename = "command.before")]
    CommandBefore,
    #[serde(rename = "command.after")]
    CommandAfter,
    /// A call is waiting for approval.
    #[serde(rename = "approval")]
    Approval,
    /// A prompt starts a turn.
    #[serde(rename = "prompt")]
    Prompt,
    /// A turn has ended.
    #[serde(rename = "end")]
    End,
}

impl HookPoint {
    #[cfg(test)]
    pub(super) const NAMES: &[&str] = &["command.before", "command.after", "approval", "prompt", "end"];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::CommandBefore => "command.before",
            Self::CommandAfter => "command.after",
            Self::Approval => "approval",
            Self::Prompt => "prompt",
            Self::End => "end",
        }
    }
}

/// Handling of a hook that fails: a crash, a timeout, or an invalid answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnError {
    Deny,
    #[default]
    Ask,
    Ignore,
}

impl OnError {
    #[cfg(test)]
    pub(super) const NAMES: &[&str] = &["deny", "ask", "ignore"];

    fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Ask => "ask",
            Self::Ignore => "ignore",
        }
    }
}

/// One of the user's programs, started without a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UserProgram {
    /// Program and arguments; never empty.
    pub(crate) run: Vec<String>,
    pub(crate) timeout: Duration,
}

/// An entry of `[[hooks]]`.
#[derive(Debug, Clone)]
pub(crate) struct Hook {
    pub(crate) on: HookPoint,
    /// Regular expression to match against the command or the prompt; `None` matches everything.
    pub(crate) pattern: Option<Regex>,
    pub(crate) program: UserProgram,
    pub(crate) on_error: OnError,
}

/// An entry of `[[hooks]]` in one line, without secrets.
impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hooks += {{ on = {}, ", quoted(self.on.as_str()))?;
        if let Some(pattern) = &self.pattern {
            write!(f, "match = {}, ", quoted(pattern.as_str()))?;
        }
        let UserProgram { run, timeout } = &self.program;
        let (seconds, on_error) = (timeout.as_secs(), quoted(self.on_error.as_str()));
        write!(f, "run = {}, timeout_s = {seconds}, on_error = {on_error} }}", RedactedProgram(run))
    }
}

/// The table `[notify]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notify {
    pub(crate) program: UserProgram,
    /// Base URL of the web page for links, if users reach the page under another URL than the server's own.
    pub(crate) url: Option<String>,
}

impl Notify {
    /// Returns the table's keys with their values.
    pub(super) fn entries(&self) -> Vec<(&'static str, ConfigValue)> {
        let UserProgram { run, timeout } = &self.program;
        let mut entries = vec![("notify.command", ConfigValue::Texts(run.clone()))];
        if timeout.as_secs() != TIMEOUT_S {
            entries.push(("notify.timeout_s", ConfigValue::Integer(timeout.as_secs().cast_signed())));
        }
        entries.extend(self.url.clone().map(|url| ("notify.url", ConfigValue::Text(url))));
        entries
    }

    /// Returns the notifier of a config; `None` if there is none.
    pub(super) fn of(config: &Config) -> Option<Self> {
        let run: Vec<String> = config.get("notify.command")?;
        let seconds = config.get("notify.timeout_s").unwrap_or(TIMEOUT_S);
        let program = UserProgram { run, timeout: Duration::from_secs(seconds) };
        (!program.run.is_empty()).then(|| Self { program, url: config.get("notify.url") })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct HookTable {
    on: HookPoint,
    r#match: Option<String>,
    run: Vec<String>,
    timeout_s: Option<u64>,
    #[serde(default)]
    on_error: OnError,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct NotifyTable {
    command: Vec<String>,
    timeout_s: Option<u64>,
    url: Option<String>,
}

/// Parses `[[hooks]]`. Each hook and each error has the byte offset of its entry.
pub(super) fn read_hooks(raw: &Spanned<DeValue<'_>>) -> Result<Vec<(usize, Hook)>, (usize, String)> {
    let at = raw.span().start;
    let Some(entries) = raw.get_ref().as_array() else {
        return Err((at, "`hooks` must be an array of tables: [[hooks]]".to_owned()));
    };
    if entries.len() > HOOKS_MAX {
        return Err((at, format!("too many hooks (maximum {HOOKS_MAX})")));
    }
    entries
        .iter()
        .map(|entry| {
            let at = entry.span().start;
            hook(entry).map(|hook| (at, hook)).map_err(|why| (at, format!("invalid hook: {why}")))
        })
        .collect()
}

fn hook(entry: &Spanned<DeValue<'_>>) -> Result<Hook, String> {
    let HookTable { on, r#match, run, timeout_s, on_error } =
        HookTable::deserialize(entry.clone().into_deserializer()).map_err(|error| table_error(&error))?;
    let pattern = r#match.map(|text| Regex::new(&text)).transpose();
    let pattern = pattern.map_err(|_| "`match` is not a regular expression".to_owned())?;
    Ok(Hook { on, pattern, program: program("run", run, timeout_s)?, on_error })
}

/// Parses `[notify]`.
pub(super) fn read_notify(raw: &Spanned<DeValue<'_>>) -> Result<Notify, (usize, String)> {
    let read = || {
        let NotifyTable { command, timeout_s, url } =
            NotifyTable::deserialize(raw.clone().into_deserializer()).map_err(|error| table_error(&error))?;
        if url.as_deref().is_some_and(|url| !url.starts_with("https://") && !url.starts_with("http://")) {
            return Err("`url` must begin with https:// or http://".to_owned());
        }
        Ok(Notify { program: program("command", command, timeout_s)?, url })
    };
    read().map_err(|why: String| (raw.span().start, format!("invalid `notify`: {why}")))
}

fn program(key: &str, run: Vec<String>, timeout_s: Option<u64>) -> Result<UserProgram, String> {
    if run.first().is_none_or(String::is_empty) {
        return Err(format!(
            "`{key}` must name a program and its arguments, such as [\"/usr/local/bin/check\"]"
        ));
    }
    let seconds = timeout_s.unwrap_or(TIMEOUT_S);
    if !(1..=TIMEOUT_MAX_S).contains(&seconds) {
        return Err(format!("`timeout_s` must be from 1 to {TIMEOUT_MAX_S}"));
    }
    Ok(UserProgram { run, timeout: Duration::from_secs(seconds) })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use toml::de::DeTable;

    use super::{Hook, HookPoint, Notify, OnError, read_hooks, read_notify};
    use crate::config::HOOK_KEYS;

    fn hooks(text: &str) -> Result<Vec<Hook>, (usize, String)> {
        let table = DeTable::parse(text).expect("TOML");
        let read = read_hooks(&table.get_ref()["hooks"])?;
        Ok(read.into_iter().map(|(_, hook)| hook).collect())
    }

    fn notify(text: &str) -> Result<Notify, (usize, String)> {
        let table = DeTable::parse(text).expect("TOML");
        read_notify(&table.get_ref()["notify"])
    }

    #[test]
    fn a_hook_is_read_with_its_defaults() {
        let text = "[[hooks]]\non = 'command.before'\nrun = ['/bin/check', '-x']\n\
                    [[hooks]]\non = 'end'\nmatch = '^fail'\nrun = ['/bin/mail']\ntimeout_s = 600\non_error = 'deny'\n";
        let [first, second] = &hooks(text).unwrap()[..] else { panic!("two hooks") };
        assert_eq!((first.on, first.on_error), (HookPoint::CommandBefore, OnError::Ask));
        assert_eq!(first.program.run, ["/bin/check", "-x"]);
        assert_eq!(first.program.timeout, Duration::from_secs(10));
        assert!(first.pattern.is_none());
        assert_eq!((second.on, second.on_error), (HookPoint::End, OnError::Deny));
        assert_eq!(second.program.timeout, Duration::from_secs(600));
        let pattern = second.pattern.as_ref().unwrap();
        assert!(pattern.is_match("failed") && !pattern.is_match("end_turn"));
    }

    #[test]
    fn each_point_has_the_name_that_programs_get() {
        for name in HookPoint::NAMES {
            let read = hooks(&format!("[[hooks]]\non = '{name}'\nrun = ['x']\n")).unwrap();
            assert_eq!(read[0].on.as_str(), *name);
        }
        let refused = hooks("[[hooks]]\non = ''\nrun = ['x']\n").unwrap_err().1;
        let names = HookPoint::NAMES.join(", ");
        assert!(refused.ends_with(&format!("`on` is \"\", but must be one of {names}")), "{refused}");
    }

    #[test]
    fn the_keys_of_a_hook_are_those_of_the_reference() {
        let keys: Vec<&str> = HOOK_KEYS.iter().map(|key| key.pattern[1]).collect();
        let refused = hooks("[[hooks]]\nmore = 1\n").unwrap_err().1;
        let expected: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
        assert!(refused.ends_with(&format!("expected one of {}", expected.join(", "))), "{refused}");
        for name in OnError::NAMES {
            let read = hooks(&format!("[[hooks]]\non = 'end'\nrun = ['x']\non_error = '{name}'\n")).unwrap();
            assert_eq!(read[0].on_error.as_str(), *name);
        }
    }

    #[test]
    fn a_hook_is_shown_in_one_line_without_secrets() {
        let text = "[[hooks]]\non = 'end'\nmatch = '^a\\b'\nrun = ['curl', 'https://me:pw@example.org', '--header', \
                    'Authorization: Bearer abcdefghijklmnop', '--token', 'hunter2hunter2']\n";
        let shown = hooks(text).unwrap()[0].to_string();
        assert_eq!(
            shown,
            r#"hooks += { on = "end", match = '^a\b', run = ["curl", "https://[set]@example.org", "--header", "#
                .to_owned()
                + r#""Authorization: [redacted] [redacted]", "--token", "[redacted]"], timeout_s = 10, on_error = "ask" }"#
        );
    }

    #[test]
    fn a_hook_that_is_not_valid_is_refused_with_its_place_and_the_reason() {
        let valid = "[[hooks]]\non = 'end'\nrun = ['x']\n";
        for (entry, why) in [
            ("on = 'before'\nrun = ['x']", "command.before"),
            ("on = 'end'", "run"),
            ("on = 'end'\nrun = []", "must name a program"),
            ("on = 'end'\nrun = ['']", "must name a program"),
            ("on = 'end'\nrun = ['x']\nmatch = '('", "not a regular expression"),
            ("on = 'end'\nrun = ['x']\ntimeout_s = 0", "from 1 to 600"),
            ("on = 'end'\nrun = ['x']\ntimeout_s = 601", "from 1 to 600"),
            ("on = 'end'\nrun = ['x']\non_error = 'allow'", "on_error"),
            ("on = 'end'\nrun = ['x']\nallow = true", "allow"),
        ] {
            let (at, said) = hooks(&format!("{valid}[[hooks]]\n{entry}\n")).unwrap_err();
            assert!(said.contains(why), "{entry}: {said}");
            assert!(at >= valid.len(), "{entry}: the second entry is named, not {at}");
        }
        assert!(hooks("hooks = 'x'").unwrap_err().1.contains("[[hooks]]"));
        let many = "[[hooks]]\non = 'end'\nrun = ['x']\n".repeat(65);
        assert!(hooks(&many).unwrap_err().1.contains("too many"));
    }

    #[test]
    fn the_notifier_is_a_program_with_an_address_for_links() {
        let read = notify("[notify]\ncommand = ['ntfy']\nurl = 'https://ops.example.org'\n").unwrap();
        assert_eq!(read.program.run, ["ntfy"]);
        assert_eq!(read.url.as_deref(), Some("https://ops.example.org"));
        for text in ["command = []", "command = ['x']\nurl = 'javascript:x'", "command = 'x'", "cmd = ['x']"]
        {
            assert!(notify(&format!("[notify]\n{text}\n")).is_err(), "{text}");
        }
    }
}
