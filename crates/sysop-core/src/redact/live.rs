//! Redaction of secrets of known forms in live output, for people and files that must not see more than the log has.
//!
//! A form may extend over chunks. A line is therefore kept back until it is complete, and the lines of a private key are
//! dropped one by one. Nothing else is kept, so a long output needs no more memory than a short one.
//!
//! Output before a chunk may be missing, with the beginning of a private key. In the output of several hosts, each line
//! begins with the name of its host, and what is missing is known for each host.

use std::borrow::Cow;
use std::collections::HashMap;

use super::shapes::{
    KEY_MASK, KeyBorder, VALUE_MASK, key_borders, open_quote, quote_end, redact_cut_shapes, redact_shapes,
};
use crate::text::split_styles;

/// Maximum bytes of an unfinished line. The rest of a longer line is dropped.
const LINE_BYTES_MAX: usize = 256 * 1024;
/// Minimum bytes of a line in base64 that may belong to a private key whose beginning is missing.
const KEY_LINE_BYTES_MIN: usize = 60;
/// Maximum number of hosts to tell apart after missing output.
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
    state: State,
    /// True in the rest of a line whose beginning is missing or was too long.
    skips_line: bool,
    gaps: Gaps,
}

/// Meaning of the next line.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// It is part of as many private keys as the number says. The keys of several hosts may be mixed.
    Key(usize),
    /// It continues the value of a variable in quotes.
    Quote,
}

/// Missing output before the next line of a host.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Gap {
    #[default]
    None,
    /// The next line is the rest of a line whose beginning is missing.
    RestOfLine,
    /// The missing output may have been the beginning of a private key.
    BeforeKey,
    /// A line of such a key was dropped.
    InKey,
}

/// Gaps by the prefix of a host's lines, which is empty if the lines have none.
#[derive(Debug, Default)]
struct Gaps {
    of_hosts: HashMap<String, Gap>,
    /// Gap before the next line of each other host.
    of_others: Gap,
}

impl Gaps {
    fn of(&self, host: &str) -> Gap {
        self.of_hosts.get(host).copied().unwrap_or(self.of_others)
    }

    fn set(&mut self, host: &str, gap: Gap) {
        if gap == self.of_others {
            self.of_hosts.remove(host);
        } else if self.of_hosts.len() < HOSTS_MAX || self.of_hosts.contains_key(host) {
            self.of_hosts.insert(host.to_owned(), gap);
        } else if gap != Gap::None {
            self.set_all(gap); // too many hosts to tell apart
        }
    }

    fn set_all(&mut self, gap: Gap) {
        *self = Self { of_hosts: HashMap::new(), of_others: gap };
    }
}

impl LiveRedactor {
    /// Creates a redactor for output whose beginning is missing.
    pub fn after_gap() -> Self {
        Self { skips_line: true, ..Self::default() }
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
            let is_text = self.state == State::Text;
            if is_text && !self.skips_line && self.gaps.of(host_prefix(&line)) == Gap::None {
                push_redacted(&mut clean, &line, redact_cut_shapes);
                clean.push_str("… [rest of the line omitted] …\n");
            }
            self.skips_line |= is_text;
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
            if self.state == State::Text && is_omission(line) {
                push_redacted(&mut clean, group.trim_end_matches('\n'), redact_cut_shapes);
                clean.push('\n');
                clean.push_str(line);
                group.clear();
                self.begin_gap(host_prefix(line));
                continue;
            }
            self.take_line(line, &mut group);
        }
        push_redacted(&mut clean, &group, redact_shapes);
        clean
    }

    /// Notes that output of a host is missing, or of all hosts if the line about it has no prefix.
    fn begin_gap(&mut self, host: &str) {
        if self.skips_line {
            self.gaps.set_all(Gap::BeforeKey);
        }
        self.skips_line = host.is_empty();
        if !host.is_empty() {
            self.gaps.set(host, Gap::RestOfLine);
        }
    }

    /// Adds the parts of a line to `group` that are neither in a private key nor in an open quote.
    fn take_line(&mut self, line: &str, group: &mut String) {
        let plain = split_styles(line).0;
        if std::mem::take(&mut self.skips_line) {
            self.gaps.set_all(Gap::BeforeKey);
            return;
        }
        let host = host_prefix(&plain);
        let gap = self.gaps.of(host);
        if gap != Gap::None && self.take_line_after_gap(&plain, host, gap, group) {
            return;
        }
        match self.state {
            State::Quote => {
                if let Some(end) = quote_end(&plain) {
                    self.state = State::Text;
                    group.push_str(&plain[end..]);
                }
            }
            State::Key(_) => self.take_key(&plain, group),
            State::Text => {
                if key_borders(&plain).iter().any(|border| matches!(border, KeyBorder::Begin(_))) {
                    self.take_key(&plain, group);
                } else if let Some(start) = open_quote(&plain) {
                    self.state = State::Quote;
                    group.push_str(&plain[..start]);
                    group.push_str(VALUE_MASK);
                } else {
                    group.push_str(line);
                }
            }
        }
    }

    /// Takes a line of a host whose output before the line is missing. Returns false if the line is like any other.
    fn take_line_after_gap(&mut self, line: &str, host: &str, gap: Gap, group: &mut String) -> bool {
        if gap == Gap::RestOfLine {
            self.gaps.set(host, Gap::BeforeKey);
            return true;
        }
        let text = line[host.len()..].trim();
        if text.is_empty() {
            // In a key, this is the line feed after a carriage return.
            return gap == Gap::InKey;
        }
        if let Some(KeyBorder::End(end)) = key_borders(line).first() {
            self.gaps.set(host, Gap::None);
            if self.state == State::Text {
                group.push_str(&line[*end..]);
            }
            return true;
        }
        let is_in_key = gap == Gap::InKey || text.len() >= KEY_LINE_BYTES_MIN;
        let is_key_line = is_in_key && text.bytes().all(is_base64);
        self.gaps.set(host, if is_key_line { Gap::InKey } else { Gap::None });
        is_key_line
    }

    /// Like `take_line`, for a line with a border of a private key or within one.
    fn take_key(&mut self, line: &str, group: &mut String) {
        let mut open = match self.state {
            State::Key(open) => open,
            State::Text | State::Quote => 0,
        };
        let mut from = 0;
        for border in key_borders(line) {
            match border {
                KeyBorder::Begin(start) => {
                    if open == 0 {
                        group.push_str(&line[from..start]);
                        group.push_str(KEY_MASK);
                    }
                    open += 1;
                }
                KeyBorder::End(end) => {
                    open = open.saturating_sub(1);
                    from = end;
                }
            }
        }
        if open == 0 {
            group.push_str(&line[from..]);
        }
        self.state = if open == 0 { State::Text } else { State::Key(open) };
    }
}

/// Returns true for a line feed, for the carriage return after each step of a progress bar, and for the NUL between
/// variables.
fn is_line_end(char: char) -> bool {
    matches!(char, '\n' | '\r' | '\0')
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)
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

/// Returns true for the line that stands for a missing part of live output, as in `… [812 bytes omitted] …`.
fn is_omission(line: &str) -> bool {
    let text = &line[host_prefix(line).len()..];
    text.starts_with("… [") && text.trim_end().ends_with("omitted] …")
}

/// Adds redacted lines to `clean`. Lines with secrets lose their styles, because a style may divide a secret.
fn push_redacted(clean: &mut String, lines: &str, shapes: fn(&str) -> Cow<'_, str>) {
    let separated = if lines.contains('\0') { Cow::Owned(lines.replace('\0', "\n")) } else { lines.into() };
    let plain = split_styles(&separated).0;
    let redacted = shapes(&plain);
    clean.push_str(if *redacted == *plain { lines } else { &redacted });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};

    use super::{HOSTS_MAX, LINE_BYTES_MAX, LiveRedactor};

    fn redacted(mut redactor: LiveRedactor, chunks: &[&str]) -> String {
        let mut clean: String = chunks.iter().map(|chunk| redactor.push(chunk)).collect();
        clean.push_str(&redactor.finish());
        clean
    }

    const OUTPUT: &str = "\u{1b}[32mok\u{1b}[m\r\nexport A='b'\nDB_PASSWORD=hunter2\n\
        declare -x API_TOKEN=\"a\\\"b\nc\nd\"\nlast\n\
        -----BEGIN RSA PRIVATE KEY-----\r\nMIIEabc=\r\nMIIEdef=\r\n-----END RSA PRIVATE KEY-----\r\n\
        \u{1b}[31mtoken\u{1b}[m: 0123abcd\nHOME=/\0API_KEY=abcdefg\0LANG=C\0\
        web1 | -----BEGIN PRIVATE KEY-----\nweb2 | -----BEGIN PRIVATE KEY-----\nweb1 | abc\n\
        web1 | -----END PRIVATE KEY-----\nweb2 | def\nweb2 | -----END PRIVATE KEY-----\nAuthorization: Bearer abcdefg1";
    const CLEAN: &str = "\u{1b}[32mok\u{1b}[m\r\nexport A='b'\nDB_PASSWORD=[redacted: secret]\n\
        declare -x API_TOKEN=[redacted: secret]\nlast\n[redacted: private key]\n\
        token: [redacted: secret]\nHOME=/\nAPI_KEY=[redacted: secret]\nLANG=C\nweb1 | [redacted: private key]\n\
        Authorization: Bearer [redacted: authorization]";

    fn plain(text: &str) -> String {
        crate::text::split_styles(&text.replace('\0', "\n")).0.into_owned()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn secrets_across_chunks_are_redacted(cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12)) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(OUTPUT.len())).collect();
            cuts.extend([0, OUTPUT.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&str> = cuts.windows(2).map(|cut| &OUTPUT[cut[0]..cut[1]]).collect();
            prop_assert_eq!(plain(&redacted(LiveRedactor::default(), &chunks)), plain(CLEAN));
        }
    }

    #[test]
    fn complete_lines_and_progress_are_shown_at_once() {
        let mut redactor = LiveRedactor::default();
        assert_eq!(redactor.push("\u{1b}[1ma\u{1b}[m\n50%\r"), "\u{1b}[1ma\u{1b}[m\n50%\r");
        assert_eq!(redactor.push("Password: "), "");
        assert_eq!(redactor.finish(), "Password: ");
    }

    #[test]
    fn a_key_whose_beginning_is_missing_is_dropped() {
        let line = "MIIE".repeat(16);
        let output = format!("hunter2\n{line}\n{line}\nab==\n-----END PRIVATE KEY-----\nnext\n");
        assert_eq!(redacted(LiveRedactor::after_gap(), &[&output]), "\nnext\n");
        let omitted = format!("a\nT=ghp_abc\n… [9 bytes omitted] …\n{output}");
        let clean = "a\nT=[redacted: token]\n… [9 bytes omitted] …\n\nnext\n";
        assert_eq!(redacted(LiveRedactor::default(), &[&omitted]), clean);
        assert_eq!(redacted(LiveRedactor::after_gap(), &["rest\n1\n2\n"]), "1\n2\n");
        let again = format!("\n… [9 bytes omitted] …\nrest\n… [9 bytes omitted] …\n{output}");
        let clean = "… [9 bytes omitted] …\n\n… [9 bytes omitted] …\n\nnext\n";
        assert_eq!(redacted(LiveRedactor::after_gap(), &[&again]).trim_start(), clean);
    }

    #[test]
    fn a_key_with_carriage_returns_whose_beginning_is_missing_is_dropped() {
        let key = format!("{}\r\n", "MIIE".repeat(16));
        let lines = ["rest\r\n", "\r\n", &key, &key, "ab==\r\n", "-----END PRIVATE KEY-----\r\n", "next\r\n"];
        assert_eq!(redacted(LiveRedactor::after_gap(), &lines).trim_start(), "next\r\n");
    }

    #[test]
    fn after_missing_output_of_one_host_its_key_is_dropped_and_other_hosts_are_shown() {
        let key = "MIIE".repeat(16);
        let lines = format!(
            "web1 | a\nweb1 | … [9 bytes omitted] …\nweb2 | b\nweb1 | hunter2\nweb1 | {key}\nweb2 | c\n\
             web2 | -----BEGIN PRIVATE KEY-----\nweb1 | {key}\nweb1 | -----END PRIVATE KEY-----\nweb2 | {key}\n\
             web2 | -----END PRIVATE KEY-----\nweb1 | d\n"
        );
        let clean = "web1 | a\nweb1 | … [9 bytes omitted] …\nweb2 | b\nweb2 | c\n\
                     web2 | [redacted: private key]\nweb1 | d\n";
        assert_eq!(redacted(LiveRedactor::default(), &[&lines]), clean);
    }

    #[test]
    fn after_missing_output_of_all_hosts_no_host_shows_the_rest_of_a_key() {
        let key = "MIIE".repeat(16);
        let lines = format!(
            "a\n… [earlier output omitted] …\nrest\nweb2 | b\nweb1 | {key}\nweb2 | c\nweb1 | {key}\n\
             web1 | d.\n"
        );
        let clean = "a\n… [earlier output omitted] …\nweb2 | b\nweb2 | c\nweb1 | d.\n";
        assert_eq!(redacted(LiveRedactor::default(), &[&lines]), clean);
    }

    #[test]
    fn after_missing_output_of_many_hosts_no_host_shows_the_rest_of_a_key() {
        let mut redactor = LiveRedactor::default();
        for host in 0..=HOSTS_MAX {
            redactor.push(&format!("web{host} | … [9 bytes omitted] …\n"));
        }
        assert!(redactor.gaps.of_hosts.len() <= HOSTS_MAX);
        for host in [0, HOSTS_MAX] {
            let key = "MIIE".repeat(16);
            let output = format!("web{host} | rest\nweb{host} | {key}\nweb{host} | next.\n");
            assert_eq!(redactor.push(&output), format!("web{host} | next.\n"));
        }
    }

    #[test]
    fn a_long_line_in_a_key_or_in_quotes_does_not_end_them() {
        let line = "a".repeat(LINE_BYTES_MAX + 1);
        let key = ["-----BEGIN PRIVATE KEY-----\n", &line, "\nab==\n-----END PRIVATE KEY-----\nnext\n"];
        assert_eq!(redacted(LiveRedactor::default(), &key), "[redacted: private key]\nnext\n");
        let quote = ["export API_TOKEN=\"abcdefg\n", &line, "\nhunter22\"\nnext\n"];
        assert_eq!(redacted(LiveRedactor::default(), &quote), "export API_TOKEN=[redacted: secret]\nnext\n");
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let line = format!("{} ghp_{}", "x ".repeat(LINE_BYTES_MAX / 2), "a1B2".repeat(9));
        let clean = redacted(LiveRedactor::default(), &[&line, " ghp_", "more\nnext\n"]);
        assert!(
            clean.ends_with(" [redacted: GitHub token]… [rest of the line omitted] …\nnext\n"),
            "{}",
            clean.len()
        );
        let mut redactor = LiveRedactor::default();
        redactor.push(&line);
        assert_eq!(redactor.push("more\nnext\n"), "next\n");
    }
}
