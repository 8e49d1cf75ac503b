//! Formats names, numbers and sizes for the lines of a preview.

use crate::host_names::fold_names;

const NAME_CHARS_MAX: usize = 80;
const NAMES_MAX: usize = 3;

/// Lines that a preview shows for one command.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Report {
    pub(super) summary: String,
    /// Lines of a unified diff, without its two header lines.
    pub(super) diff: Vec<String>,
}

impl From<String> for Report {
    fn from(summary: String) -> Self {
        Self { summary, diff: Vec::new() }
    }
}

/// Formats a number with separators: `12,345`.
pub(super) fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a count with its noun: `1 file`, `2 files`, `3 entries`.
pub(super) fn counted(value: u64, noun: &str) -> String {
    let plural = match noun.strip_suffix('y') {
        _ if value == 1 => noun.to_owned(),
        Some(stem) if !stem.ends_with(['a', 'e', 'o']) => format!("{stem}ies"),
        Some(_) | None if noun.ends_with(['s', 'x']) => format!("{noun}es"),
        Some(_) | None => format!("{noun}s"),
    };
    format!("{} {plural}", number(value))
}

/// Formats a size: `512 bytes`, `4.2 kB`, `1.3 GB`.
pub(super) fn size(bytes: u64) -> String {
    if bytes < 1_000 {
        return counted(bytes, "byte");
    }
    let mut value = bytes;
    let mut tenths = 0;
    let mut unit = "";
    for next in ["kB", "MB", "GB", "TB", "PB"] {
        if value < 1_000 && !unit.is_empty() {
            break;
        }
        tenths = value % 1_000 / 100;
        value /= 1_000;
        unit = next;
    }
    if value >= 100 { format!("{value} {unit}") } else { format!("{value}.{tenths} {unit}") }
}

/// Returns the first line of a command like a name. An ellipsis stands for the other lines.
pub(super) fn command(text: &str) -> String {
    match text.trim_end().split_once('\n') {
        Some((first, _)) => format!("{}…", name(first).trim_end_matches('…')),
        None => name(text),
    }
}

/// Returns a name on one line, with control characters escaped as in the command, and shortened.
pub(super) fn name(text: &str) -> String {
    let text = text.strip_prefix("./-").map_or_else(|| text.to_owned(), |rest| format!("-{rest}"));
    let mut out = String::new();
    for sign in text.chars().take(NAME_CHARS_MAX) {
        match sign {
            '\n' | '\r' | '\t' => out.extend(sign.escape_default()),
            _ if sign.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(sign))),
            _ => out.push(sign),
        }
    }
    if text.chars().count() > NAME_CHARS_MAX {
        out.push('…');
    }
    out
}

/// Lists names: `a, b, c and 4 more`.
pub(super) fn names<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<&str> = all.collect();
    let shown: Vec<String> = all.iter().take(NAMES_MAX).map(|text| name(text)).collect();
    match all.len().saturating_sub(NAMES_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {} more", shown.join(", "), number(more as u64)),
    }
}

/// Lists hosts as `names` does, or consecutive ones as a range if that leaves out none.
pub(super) fn host_names(hosts: &[&str]) -> String {
    let folded = fold_names(hosts);
    let parts: Vec<&str> = folded.split(", ").collect();
    names(if parts.len() <= NAMES_MAX { parts.iter() } else { hosts.iter() }.copied())
}

/// Lists the first of `count` names: `a, b, c and 4 more`. Empty if no name is known.
pub(super) fn first_names<'a>(known: impl Iterator<Item = &'a str>, count: u64) -> String {
    let shown: Vec<String> = known.take(NAMES_MAX).map(name).collect();
    match count.saturating_sub(shown.len() as u64) {
        _ if shown.is_empty() => String::new(),
        0 => shown.join(", "),
        more => format!("{} and {} more", shown.join(", "), number(more)),
    }
}

/// Counts the removed and added lines of a unified diff without headers.
pub(super) fn diff_counts(lines: &[String]) -> (u64, u64) {
    let with = |sign: char| lines.iter().filter(|line| line.starts_with(sign)).count() as u64;
    (with('-'), with('+'))
}

#[cfg(test)]
mod tests {
    use super::{command, name};

    #[test]
    fn a_command_is_quoted_up_to_its_first_newline() {
        assert_eq!(command("cat <<EOF >a\none\nEOF"), "cat <<EOF >a…");
        assert_eq!(command("ls a"), "ls a");
        assert_eq!(name("two\nlines\u{1b}[2J"), "two\\nlines\\x1b[2J", "the name of a file");
    }
}
