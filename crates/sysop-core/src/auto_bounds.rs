//! Bounds of `auto` mode: a number of commands, a duration, a cost and hosts. As soon as one bound is
//! reached, the session returns to `ask` mode.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::Timestamp;
use crate::model_table::ModelPrice;
use crate::policy::glob_matches;
use crate::{budget::Spending, message::Usage};

const COMMANDS_MAX: u32 = 100_000;
/// Maximum duration that a bound may specify, in seconds: one week.
const SECONDS_MAX: u64 = 7 * 24 * 3600;
const HOSTS_MAX: usize = 32;

/// Bounds of the mode `auto`. At least one of them is set.
///
/// ```
/// use sysop_core::auto_bounds::AutoBounds;
///
/// let bounds: AutoBounds = "20 commands, 30m, $0.50, @lab".parse().unwrap();
/// assert_eq!((bounds.commands, bounds.seconds), (Some(20), Some(1800)));
/// assert_eq!(bounds.to_string(), "20 commands, 30m, $0.50, @lab");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct AutoBounds {
    /// Maximum number of tool calls that start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands: Option<u32>,
    /// Seconds after which the mode ends. Time without an active turn counts, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// Maximum cost of model calls, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Hosts and tags (`@TAG`) on which calls may run without approval. If empty, all hosts of the session.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Time at which the mode ends, in milliseconds since the Unix epoch. It is set when the bounds take effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// The kinds of bounds, for error messages.
pub const ACCEPTED_BOUNDS: &str =
    "use a number of commands, a time, a cost or hosts, for example `20 commands, 30m, $0.50, @lab`";

/// Text that is not a list of bounds. `Display` is one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid bound `{0}`; {accepted}", accepted = ACCEPTED_BOUNDS)]
pub struct InvalidBounds(String);

impl FromStr for AutoBounds {
    type Err = InvalidBounds;

    fn from_str(text: &str) -> Result<Self, InvalidBounds> {
        let mut bounds = Self::default();
        for part in text.split(',') {
            let part = part.trim();
            let invalid = || InvalidBounds(part.chars().take(80).collect());
            let twice = if let Some(cost) = part.strip_prefix('$') {
                let cost = cost.trim().parse().ok().filter(|cost: &f64| cost.is_finite() && *cost > 0.0);
                bounds.cost.replace(cost.ok_or_else(invalid)?).is_some()
            } else if let Some(count) = commands(part) {
                let count = count.parse().ok().filter(|count| (1..=COMMANDS_MAX).contains(count));
                bounds.commands.replace(count.ok_or_else(invalid)?).is_some()
            } else if part.starts_with(|first: char| first.is_ascii_digit()) && !is_address(part) {
                bounds.seconds.replace(seconds(part).ok_or_else(invalid)?).is_some()
            } else {
                if !is_host(part) || bounds.hosts.len() >= HOSTS_MAX {
                    return Err(invalid());
                }
                bounds.hosts.push(part.to_owned());
                false
            };
            if twice {
                return Err(invalid());
            }
        }
        Ok(bounds)
    }
}

/// Returns the number in `20 commands`, `1 command` or `20 calls`.
fn commands(part: &str) -> Option<&str> {
    let (count, unit) = part.split_once(' ')?;
    matches!(unit.trim(), "command" | "commands" | "cmd" | "cmds" | "call" | "calls").then_some(count)
}

/// Returns the seconds of `90s`, `30m`, `2h`, or `30 minutes`.
fn seconds(part: &str) -> Option<u64> {
    let digits = part.find(|c: char| !c.is_ascii_digit())?;
    let factor = match part[digits..].trim() {
        "s" | "sec" | "second" | "seconds" => 1,
        "m" | "min" | "minute" | "minutes" => 60,
        "h" | "hour" | "hours" => 3600,
        _ => return None,
    };
    let seconds = part[..digits].parse::<u64>().ok()?.checked_mul(factor)?;
    (1..=SECONDS_MAX).contains(&seconds).then_some(seconds)
}

fn is_address(part: &str) -> bool {
    part.parse::<std::net::IpAddr>().is_ok()
}

fn is_host(part: &str) -> bool {
    let name = part.strip_prefix('@').unwrap_or(part);
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@*?[]".contains(c);
    !name.is_empty() && name.len() <= 255 && name.chars().all(plain)
}

impl std::fmt::Display for AutoBounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let commands = self.commands.map(count_of_commands);
        let time = self.seconds.map(exact_time);
        let cost = self.cost.map(exact_cost);
        let parts = commands.into_iter().chain(time).chain(cost).chain(self.hosts.iter().cloned());
        f.write_str(&parts.collect::<Vec<_>>().join(", "))
    }
}

fn exact_time(seconds: u64) -> String {
    match seconds {
        hours if hours.is_multiple_of(3600) => format!("{}h", hours / 3600),
        minutes if minutes.is_multiple_of(60) => format!("{}m", minutes / 60),
        seconds => format!("{seconds}s"),
    }
}

pub(crate) fn exact_cost(cost: f64) -> String {
    let short = format!("{cost:.2}");
    if short.parse() == Ok(cost) { format!("${short}") } else { format!("${cost}") }
}

fn count_of_commands(count: u32) -> String {
    format!("{count} {}", if count == 1 { "command" } else { "commands" })
}

impl AutoBounds {
    /// Returns true if these bounds name hosts or tags, and these do not cover every host of the session. `hosts` lists
    /// the session's hosts, as in `web1, web2`; `tags` are the tags that all of these hosts have.
    pub fn excludes(&self, hosts: &str, tags: &[String]) -> bool {
        let includes = |host: &str| self.hosts.iter().any(|name| names(name, host, tags));
        !self.hosts.is_empty() && !hosts.split(',').map(str::trim).all(includes)
    }

    /// Returns the first bound that could only be a host, but names no host of the session. `None` if there is none, or
    /// if it is a tag or a pattern.
    pub fn foreign_host(&self, hosts: &str) -> Option<&str> {
        let is_known = |name: &str| hosts.split(',').map(str::trim).any(|host| names(name, host, &[]));
        let plain = self.hosts.iter().filter(|name| !name.contains(['@', '*', '?', '[']));
        plain.map(String::as_str).find(|name| !is_known(name))
    }
}

/// Returns true if the bound `name` covers a host. `tags` are the tags that the host has.
fn names(name: &str, host: &str, tags: &[String]) -> bool {
    match name.strip_prefix('@') {
        Some(tag) => tags.iter().any(|own| own == tag) || name == host,
        None => glob_matches(name, host),
    }
}

/// Bounds that are in effect, with the amounts used.
#[derive(Debug, Clone, PartialEq)]
pub struct AutoProgress {
    pub bounds: AutoBounds,
    /// Number of tool calls started since the bounds took effect.
    pub commands: u32,
    /// Tokens used since the bounds took effect.
    pub usage: Usage,
    /// Cost and tokens since the bounds took effect, at the prices known to the session.
    pub spent: Spending,
}

impl AutoProgress {
    pub fn new(bounds: AutoBounds) -> Self {
        Self { bounds, commands: 0, usage: Usage::default(), spent: Spending::default() }
    }

    pub fn add_usage(&mut self, usage: Usage, price: Option<ModelPrice>) {
        self.usage += usage;
        self.spent.add(usage, price);
    }

    /// Returns a description of the bound that is reached at `now`, or `None` if no bound is reached.
    pub fn reached(&self, now: Timestamp) -> Option<String> {
        let bounds = &self.bounds;
        if bounds.commands.is_some_and(|limit| self.commands >= limit) {
            return bounds.commands.map(count_of_commands);
        }
        if bounds.until.is_some_and(|until| until <= now) {
            return bounds.seconds.map(exact_time);
        }
        let spent = bounds.cost.is_some_and(|limit| self.spent.unpriced || self.spent.cost >= limit);
        bounds.cost.filter(|_| spent).map(exact_cost)
    }

    /// Returns the time after which [`left`](Self::left) changes by itself; `None` if no time is counted down.
    pub fn next_change(&self, now: Timestamp) -> Option<Duration> {
        countdown_change(self.bounds.until?, now)
    }

    /// Returns what is left of the bounds at `now`: `12 commands, 18m, $0.31, @lab`.
    pub fn left(&self, now: Timestamp) -> String {
        let bounds = &self.bounds;
        let seconds = bounds.until.map(|until| {
            let left = until.0.saturating_sub(now.0).max(0);
            u64::try_from(left).unwrap_or_default().div_ceil(1000)
        });
        let commands = bounds.commands.map(|limit| count_of_commands(limit.saturating_sub(self.commands)));
        let time = seconds.or(bounds.seconds).map(short_time);
        let cost = bounds.cost.map(|limit| format!("${:.2}", (limit - self.spent.cost).max(0.0)));
        let parts = commands.into_iter().chain(time).chain(cost).chain(bounds.hosts.iter().cloned());
        parts.collect::<Vec<_>>().join(", ")
    }
}

/// Number of seconds from which a countdown shows minutes.
pub(crate) const SECONDS_SHOWN_BELOW: u64 = 120;

/// Returns the time after which a countdown to `until` changes; `None` if it has ended.
pub(crate) fn countdown_change(until: Timestamp, now: Timestamp) -> Option<Duration> {
    let left = u64::try_from(until.0.saturating_sub(now.0)).ok().filter(|left| *left > 0)?;
    let unit = if left > SECONDS_SHOWN_BELOW * 1000 { 60_000 } else { 1_000 };
    Some(Duration::from_millis((left - 1) % unit + 1))
}

/// Formats the remaining seconds of a countdown, as in `90s`, `18m` or `1h30m`. Minutes are rounded up.
pub fn short_time(seconds: u64) -> String {
    if seconds < SECONDS_SHOWN_BELOW {
        return format!("{seconds}s");
    }
    let minutes = seconds.div_ceil(60);
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes}m"),
        (hours, 0) => format!("{hours}h"),
        (hours, minutes) => format!("{hours}h{minutes}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::{AutoBounds, AutoProgress};
    use crate::id::Timestamp;
    use crate::message::Usage;
    use crate::model_table::ModelPrice;

    #[test]
    fn bounds_are_read_in_any_order_and_combination() {
        for (text, shown) in [
            ("20 commands", "20 commands"),
            ("1 command,$2", "1 command, $2.00"),
            ("30m, 20 commands", "20 commands, 30m"),
            ("@lab, web1, 90s", "90s, @lab, web1"),
            ("2h", "2h"),
            ("90 minutes", "90m"),
            ("121s, $0.005", "121s, $0.005"),
        ] {
            assert_eq!(text.parse::<AutoBounds>().unwrap().to_string(), shown, "{text}");
        }
    }

    #[test]
    fn an_invalid_bound_is_rejected_and_named() {
        for text in [
            "", "20", "0 commands", "20 commands, 3 commands", "$0", "$x", "30q", "soon now", "1m,",
            "two words",
        ] {
            assert!(text.parse::<AutoBounds>().is_err(), "{text}");
        }
        let error = "20 commands, 30 parsecs".parse::<AutoBounds>().unwrap_err().to_string();
        assert!(error.starts_with("invalid bound `30 parsecs`"), "{error}");
    }

    #[test]
    fn each_bound_ends_the_mode_and_counts_down() {
        let mut progress = AutoProgress::new(AutoBounds {
            until: Some(Timestamp(90_000)),
            ..AutoBounds::from_text("2 commands, 90s, $1")
        });
        assert_eq!(progress.left(Timestamp(0)), "2 commands, 90s, $1.00");
        let next = |now: i64| progress.next_change(Timestamp(now)).map(|after| after.as_millis());
        assert_eq!([next(0), next(1), next(89_999), next(90_000)], [Some(1000), Some(999), Some(1), None]);
        assert_eq!(progress.reached(Timestamp(89_999)), None);
        assert_eq!(progress.reached(Timestamp(90_000)).as_deref(), Some("90s"));
        progress.commands = 1;
        let usage = Usage { input_tokens: 500_000, output_tokens: 0, cached_tokens: 0 };
        progress.add_usage(usage, Some(ModelPrice { input: 1.0, ..ModelPrice::default() }));
        assert_eq!(progress.left(Timestamp(30_000)), "1 command, 60s, $0.50");
        assert_eq!(progress.reached(Timestamp(0)), None);
        progress.add_usage(usage, None);
        assert_eq!(
            progress.reached(Timestamp(0)).as_deref(),
            Some("$1.00"),
            "an unknown price may exceed any bound"
        );
        progress.commands = 2;
        assert_eq!(progress.reached(Timestamp(0)).as_deref(), Some("2 commands"));
    }

    #[test]
    fn bounds_with_hosts_exclude_all_others() {
        let bounds = AutoBounds::from_text("@lab, web*");
        let tags = |tags: &[&str]| tags.iter().map(|&tag| tag.to_owned()).collect::<Vec<_>>();
        assert!(!bounds.excludes("db1", &tags(&["eu", "lab"])));
        assert!(!bounds.excludes("web7", &[]));
        assert!(!bounds.excludes("@lab", &[]));
        assert!(bounds.excludes("db1", &tags(&["prod"])));
        assert!(!bounds.excludes("web1, web2", &[]));
        assert!(bounds.excludes("web1, db1", &[]), "one host of several is not named");
        assert!(bounds.excludes("db1, web1", &[]));
        let named = AutoBounds::from_text("web1, 10.0.0.1, kube:shop/web-0");
        assert!(!named.excludes("web1, 10.0.0.1, kube:shop/web-0", &[]));
        assert!(named.excludes("web1, web2", &[]));
        assert!(bounds.excludes("lab", &[]), "a tag is not a name");
        assert!(!AutoBounds::from_text("5 commands").excludes("db1", &[]));
    }

    impl AutoBounds {
        fn from_text(text: &str) -> Self {
            text.parse().expect("valid bounds")
        }
    }
}
