//! Redaction of secrets of known forms in live output, for people and files that must not see more than the log has.
//!
//! A form may extend over chunks. A line is therefore kept back until it is complete, and the lines of a private key or
//! of a value in quotes are dropped one by one. Nothing else is kept, so a long output needs no more memory than a
//! short one.
//!
//! In the output of several hosts, each line begins with the name of its host, and each host has a state of its own. A
//! line without a name shows that the output is of one host; then ` | ` is text like any other. Output may be missing,
//! and with it the beginning or the end of a secret. Without the whole first line of a value in quotes, nothing tells
//! that the later lines are secret, and they are shown.

mod state;

use std::borrow::Cow;
use std::collections::HashMap;

use self::state::{QUOTE_LINES_MAX, State};
use super::shapes::{redact_cut_shapes, redact_shapes};
use crate::text::split_styles;

/// Maximum bytes of an unfinished line. The rest of a longer line is dropped.
const LINE_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of hosts whose states are told apart.
const HOSTS_MAX: usize = 1024;

/// Redacts the output of one call that arrives in chunks.
///
/// ```
/// use sysop_core::redact::live::LiveRedactor;
///
/// let mut redactor = LiveRedactor::default();
/// assert_eq!(redactor.push("listening\nDB_PASSWORD=hun"), "listening\n");
/// assert_eq!(redactor.push("ter22\n$ "), "DB_PASSWORD=[redacted: secret]\n");
/// assert_eq!(redactor.finish(), "$ ");
/// ```
#[derive(Debug, Default)]
pub struct LiveRedactor {
    /// The unfinished line.
    line: String,
    /// Host of the line that goes on after a carriage return or NUL.
    line_host: Option<String>,
    /// True in the rest of a line whose beginning is missing, with the name of its host.
    skips_line: bool,
    /// True if the shown text ends with the mask of a secret that goes on.
    is_line_open: bool,
    hosts: Hosts,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct HostState {
    state: State,
    /// True if the next line is the rest of a line whose beginning is missing.
    skips_line: bool,
}

/// States of hosts by the prefix of their lines.
#[derive(Debug, Default)]
struct Hosts {
    named: HashMap<String, HostState>,
    /// State of each host that is not in `named`.
    others: HostState,
    /// True if all lines are of one host, whether they have a prefix or not.
    is_one: bool,
}

impl Hosts {
    fn of(&self, host: &str) -> HostState {
        self.named.get(host).copied().unwrap_or(self.others)
    }

    fn set(&mut self, host: &str, to: HostState) {
        if to == self.others {
            self.named.remove(host);
        } else if self.named.len() < HOSTS_MAX || self.named.contains_key(host) {
            self.named.insert(host.to_owned(), to);
        } else if to != HostState::default() {
            // There are too many hosts to tell apart: each may be in a secret.
            self.named.clear();
            self.others = HostState { state: State::RestOfQuote(QUOTE_LINES_MAX), skips_line: to.skips_line };
        }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut HostState> {
        self.named.values_mut().chain([&mut self.others])
    }

    /// Skips the rest of a line whose beginning is missing, of the host `host` or, if `None`, of an unknown host.
    fn skip_rest(&mut self, host: Option<&str>, line: &str) {
        if let Some(host) = host.or(self.is_one.then_some("")) {
            let state = self.of(host).state.skip_rest(line);
            return self.set(host, HostState { state, skips_line: false });
        }
        let opened = State::default().skip_rest(line).across_gap();
        self.all().for_each(|host| host.state = host.state.max(opened));
    }

    /// Notes that all lines are of one host. If secrets of several hosts were open, the one that hides most is.
    fn merge(&mut self) {
        let open = self.named.drain().map(|(_, state)| state).max();
        self.others = self.others.max(open.unwrap_or_default());
        self.is_one = true;
    }
}

impl LiveRedactor {
    /// Creates a redactor for output whose beginning is missing.
    pub fn after_gap() -> Self {
        let mut redactor = Self::default();
        redactor.begin_gap("");
        redactor
    }

    /// Adds a chunk. Returns the text that is complete now, redacted.
    pub fn push(&mut self, chunk: &str) -> String {
        self.line.push_str(chunk);
        let complete = self.line.rfind(is_line_end).map_or(0, |end| end + 1);
        let unfinished = self.line.split_off(complete);
        let lines = std::mem::replace(&mut self.line, unfinished);
        let mut clean = self.redact(&lines);
        if self.line.len() > LINE_BYTES_MAX {
            let line = std::mem::take(&mut self.line);
            self.cut_line(&line, &mut clean);
        }
        clean
    }

    /// Returns the rest of the output, redacted, once the call has ended.
    pub fn finish(&mut self) -> String {
        let line = std::mem::take(&mut self.line);
        let clean = self.redact(&line);
        *self = Self::default();
        clean
    }

    fn redact(&mut self, lines: &str) -> String {
        let (mut clean, mut group) = (String::new(), String::new());
        for line in lines.split_inclusive(is_line_end) {
            let plain = split_styles(line).0;
            let (host, offset) = self.locate(line, &plain);
            if !is_omission(&plain[offset..]) {
                self.take_line(line, &plain, &host, offset, &mut group);
                continue;
            }
            push_redacted(&mut clean, group.trim_end_matches('\n'), redact_cut_shapes);
            if self.is_line_open || !group.is_empty() {
                clean.push('\n');
            }
            clean.push_str(line);
            group.clear();
            self.is_line_open = false;
            self.begin_gap(&host);
        }
        push_redacted(&mut clean, &group, redact_shapes);
        clean
    }

    /// Returns the host of a line, and the offset of the line's text.
    fn locate(&mut self, line: &str, plain: &str) -> (String, usize) {
        let (mut host, offset) = match self.line_host.take() {
            Some(host) => (host, 0),
            None => {
                let prefix = host_prefix(plain);
                let is_of_one_host = prefix.is_empty()
                    && !(self.skips_line
                        || plain.trim().is_empty()
                        || is_omission(plain)
                        || is_progress(plain));
                if is_of_one_host && !self.hosts.is_one {
                    self.hosts.merge();
                }
                (prefix.to_owned(), prefix.len())
            }
        };
        if self.hosts.is_one {
            host.clear();
        }
        if !line.ends_with('\n') {
            self.line_host = Some(host.clone());
        }
        (host, offset)
    }

    /// Notes that output of a host is missing, or of all hosts if the line about it has no prefix.
    fn begin_gap(&mut self, host: &str) {
        self.skips_line = host.is_empty();
        if host.is_empty() {
            self.hosts.all().for_each(|host| host.state = host.state.across_gap());
        } else {
            let state = self.hosts.of(host).state.across_gap();
            self.hosts.set(host, HostState { state, skips_line: true });
        }
    }

    /// Adds what is shown of a line to `group`.
    fn take_line(&mut self, line: &str, plain: &str, host: &str, offset: usize, group: &mut String) {
        let HostState { state, skips_line } = self.hosts.of(host);
        if std::mem::take(&mut self.skips_line) {
            return self.hosts.skip_rest(None, plain);
        }
        if skips_line {
            return self.hosts.skip_rest(Some(host), plain);
        }
        let (next, shown) = state.redact_line(plain, offset);
        self.hosts.set(host, HostState { state: next, skips_line: false });
        let shown = if state <= State::AfterGap && *shown == *plain { line } else { &shown };
        let is_end_of_secret = state > State::AfterGap && shown.trim().is_empty();
        if shown.is_empty() || is_end_of_secret && !self.is_line_open {
            return;
        }
        if self.is_line_open && !shown.starts_with(is_line_end) {
            group.push('\n');
        }
        group.push_str(shown);
        self.is_line_open = !shown.ends_with(is_line_end);
    }

    /// Adds what is shown of a line that is too long to `clean`. The rest of the line will be dropped.
    fn cut_line(&mut self, line: &str, clean: &mut String) {
        let plain = split_styles(line).0;
        let (host, offset) = self.locate(line, &plain);
        let mut shown = String::new();
        self.take_line(line, &plain, &host, offset, &mut shown);
        if !shown.is_empty() {
            push_redacted(clean, &shown, redact_cut_shapes);
            clean.push_str("… [rest of the line omitted] …\n");
            self.is_line_open = false;
        }
        let state = self.hosts.of(&host).state.across_gap();
        self.hosts.set(&host, HostState { state, skips_line: true });
    }
}

/// Returns true for a line feed, for the carriage return after each step of a progress bar, and for the NUL between
/// variables.
fn is_line_end(char: char) -> bool {
    matches!(char, '\n' | '\r' | '\0')
}

/// Returns the host's name and ` | ` before a line of the output of several hosts, or an empty text.
fn host_prefix(line: &str) -> &str {
    match line.split_once(" | ") {
        Some((host, rest))
            if !host.is_empty() && !host.contains(|char: char| char.is_whitespace() || char == '|') =>
        {
            &line[..line.len() - rest.len()]
        }
        Some(_) | None => "",
    }
}

/// Returns true for the text that stands for a missing part of live output, as in `… [812 bytes omitted] …`.
fn is_omission(text: &str) -> bool {
    text.starts_with("… [") && text.trim_end().ends_with("omitted] …")
}

/// Returns true for the line about the end of a call on one of several hosts, as in `[7/20 hosts] web1: ok, 8 ms`.
fn is_progress(line: &str) -> bool {
    let counts = line.strip_prefix('[').and_then(|rest| rest.split_once(" hosts] ")?.0.split_once('/'));
    let is_count = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    counts.is_some_and(|(ended, all)| is_count(ended) && is_count(all))
}

/// Adds redacted lines to `clean`. Lines with secrets lose their styles, because a style may divide a secret.
fn push_redacted(clean: &mut String, lines: &str, shapes: fn(&str) -> Cow<'_, str>) {
    let separated = if lines.contains('\0') { Cow::Owned(lines.replace('\0', "\n")) } else { lines.into() };
    let plain = split_styles(&separated).0;
    let redacted = shapes(&plain);
    clean.push_str(if *redacted == *plain { lines } else { &redacted });
}

#[cfg(test)]
mod tests;
