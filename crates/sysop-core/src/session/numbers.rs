//! Numbers in an answer that no output showed. Pure functions of the texts of a session.
//!
//! Small models count lines of a listing by eye, and state the value that a command wrote into a file without having
//! seen it.

use std::collections::HashSet;

/// Returns the first number of an answer that is in none of the texts in `shown`, as the answer writes it.
///
/// Only numbers in words of their own count, with or without a unit, a percent sign or separators: `12`, `1,204`,
/// `27%`, `4.2G`. Numbers in names, such as `x86_64`, and the numbers of a list are part of the wording.
pub(super) fn unshown_number<'a>(answer: &'a str, shown: &HashSet<String>) -> Option<&'a str> {
    answer.lines().flat_map(words_of_line).filter_map(number_in).find(|number| {
        let digits = without_separators(number);
        !digits_in(&digits).all(|run| shown.contains(run))
    })
}

/// Adds the numbers in a text to `shown`: each run of digits, and each number with its separators removed.
pub(super) fn add_numbers(text: &str, shown: &mut HashSet<String>) {
    for run in digits_in(text) {
        if !shown.contains(run) {
            shown.insert(run.to_owned());
        }
    }
    let with_separators = text.split(|sign: char| !(sign.is_ascii_digit() || sign == ','));
    shown.extend(with_separators.filter(|word| word.contains(',')).map(without_separators));
}

fn without_separators(number: &str) -> String {
    number.replace([',', '\''], "")
}

/// Returns the runs of digits in a text, without leading zeros.
fn digits_in(text: &str) -> impl Iterator<Item = &str> {
    let runs = text.split(|sign: char| !sign.is_ascii_digit()).filter(|run| !run.is_empty());
    runs.map(|run| match run.trim_start_matches('0') {
        "" => "0",
        rest => rest,
    })
}

/// Returns the words of a line without the mark of a list item.
fn words_of_line(line: &str) -> impl Iterator<Item = &str> {
    let line = line.trim_start();
    let number = line.trim_start_matches(|sign: char| sign.is_ascii_digit());
    let is_item = number.len() < line.len() && (number.starts_with(". ") || number.starts_with(") "));
    let text = if is_item { &number[2..] } else { line };
    text.split(|sign: char| sign.is_whitespace() || "()[]{}\"`*=:;/<>|".contains(sign))
}

/// Returns the number that a word consists of, without its unit.
fn number_in(word: &str) -> Option<&str> {
    let word = word.trim_matches(|sign: char| !sign.is_alphanumeric());
    let is_sign_of_number = |sign: char| sign.is_ascii_digit() || ",.'".contains(sign);
    let unit = word.trim_start_matches(is_sign_of_number);
    let number = word[..word.len() - unit.len()].trim_end_matches([',', '.', '\'']);
    let is_unit = unit.chars().count() <= 3 && unit.chars().all(char::is_alphabetic);
    (is_unit && number.starts_with(|sign: char| sign.is_ascii_digit())).then_some(number)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{add_numbers, unshown_number};

    fn unshown<'a>(answer: &'a str, texts: &[&str]) -> Option<&'a str> {
        let mut shown = HashSet::new();
        texts.iter().for_each(|text| add_numbers(text, &mut shown));
        unshown_number(answer, &shown)
    }

    #[test]
    fn a_number_counts_as_shown_if_some_text_has_it() {
        let outputs = ["a.txt\nb.txt\n1204 lines, 27% of 40.5G", "total 007", "load 1,000,000"];
        for (answer, number) in [
            ("There are 3 files.", Some("3")),
            ("The sum is **10**.", Some("10")),
            ("size=512MB", Some("512")),
            ("It has 1,205 lines.", Some("1,205")),
            ("The disk is 28% full.", Some("28")),
            ("It has 1204 lines, or 1,204.", None),
            ("It is 27% full of 40G; agent 7 of 1000000.", None),
            ("1. a.txt\n2) b.txt\n 3. c.txt", None),
            ("On x86_64 with utf-8, sha256sum, v2 and app01.", None),
            ("There are two files.", None),
            ("", None),
        ] {
            assert_eq!(unshown(answer, &outputs), number, "{answer}");
        }
    }

    #[test]
    fn part_of_a_longer_number_is_not_shown() {
        assert_eq!(unshown("There are 12.", &["128", "x12y", "0.12"]), None, "a run of digits");
        assert_eq!(unshown("There are 12.", &["128", "312"]), Some("12"));
    }
}
