//! Selection of an output line that another run will probably print again.

use std::sync::LazyLock;

use regex::Regex;

const LINE_CHARS_MAX: usize = 80;
const LETTERS_MIN: usize = 4;

/// Dates, times, durations, sizes, process ids, hashes, UUIDs, addresses and names under `/tmp`: in short,
/// everything that contains a digit, and hexadecimal text without digits.
static UNSTABLE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"[0-9]|\b[a-f]{7,}\b|/tmp/|/var/tmp/").expect("the regular expression is valid")
});

/// Returns the first output line without text that usually varies from run to run (see [`UNSTABLE`]).
pub(super) fn stable_line(output: &str) -> Option<String> {
    let is_stable = |line: &&str| {
        line.chars().count() <= LINE_CHARS_MAX
            && line.chars().filter(|c| c.is_alphabetic()).count() >= LETTERS_MIN
            && !line.chars().any(char::is_control)
            && !line.starts_with("== ")
            && !UNSTABLE.is_match(line)
    };
    output.lines().find(is_stable).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::stable_line;

    #[test]
    fn lines_with_times_numbers_and_hashes_are_not_stable() {
        let output = "pid 4711\n2026-11-22 ok\nabcdefa\n/tmp/x done\nok\nnginx: syntax is ok\n";
        assert_eq!(stable_line(output).as_deref(), Some("nginx: syntax is ok"));
        assert_eq!(stable_line("1\n"), None);
    }
}
