//! Parses `[[hooks]]` and `[notify]`: programs of the user that sysop runs. Only the user's own file may name them, never
//! a workspace's, trusted or not.

use std::time::Duration;

use regex::Regex;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use toml::Spanned;
use toml::de::DeValue;

const HOOKS_MAX: usize = 64;
/// Timeout of a program if the config sets none, in seconds.
const TIMEOUT_S: u64 = 10;
/// Maximum configurable timeout, in seconds.
const TIMEOUT_MAX_S: u64 = 600;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum HookPoint {
    /// Before a call runs. Only this one can deny or ask.
    #[serde(rename = "command.before")]
    CommandBefore,
    /// After a call has ended.
    #[serde(rename = "command.after")]
    CommandAfter,
    /// A call waits for approval.
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

/// Meaning of a hook that fails: a crash, a timeout, or an answer that is not valid.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnError {
    Deny,
    #[default]
    Ask,
    Ignore,
}

/// A program of the user, started without a shell.
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
    /// Regular expression for the command or the prompt; `None` matches everything.
    pub(crate) pattern: Option<Regex>,
    pub(crate) program: UserProgram,
    pub(crate) on_error: OnError,
}

/// The table `[notify]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notify {
    pub(crate) program: UserProgram,
    /// Address of the page for links, if users reach it at another address than the server's own.
    pub(crate) url: Option<String>,
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

/// Reads `[[hooks]]`. Each error has the byte offset of its entry.
pub(super) fn read_hooks(raw: &Spanned<DeValue<'_>>) -> Result<Vec<Hook>, (usize, String)> {
    let at = raw.span().start;
    let Some(entries) = raw.get_ref().as_array() else {
        return Err((at, "`hooks` must be an array of tables: [[hooks]]".to_owned()));
    };
    if entries.len() > HOOKS_MAX {
        return Err((at, format!("too many hooks (maximum {HOOKS_MAX})")));
    }
    entries
        .iter()
        .map(|entry| hook(entry).map_err(|why| (entry.span().start, format!("invalid hook: {why}"))))
        .collect()
}

fn hook(entry: &Spanned<DeValue<'_>>) -> Result<Hook, String> {
    let HookTable { on, r#match, run, timeout_s, on_error } =
        HookTable::deserialize(entry.clone().into_deserializer()).map_err(|error| one_line(&error))?;
    let pattern = r#match.map(|text| Regex::new(&text)).transpose();
    let pattern = pattern.map_err(|_| "`match` is not a regular expression".to_owned())?;
    Ok(Hook { on, pattern, program: program("run", run, timeout_s)?, on_error })
}

/// Reads `[notify]`.
pub(super) fn read_notify(raw: &Spanned<DeValue<'_>>) -> Result<Notify, (usize, String)> {
    let read = || {
        let NotifyTable { command, timeout_s, url } =
            NotifyTable::deserialize(raw.clone().into_deserializer()).map_err(|error| one_line(&error))?;
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

fn one_line(error: &toml::de::Error) -> String {
    error.message().lines().collect::<Vec<_>>().join(" ")
}
