//! Text replacement of `edit_file`, as a pure function of bytes.
//!
//! A file whose lines all end in CRLF is edited as if they ended in LF: models write LF, which becomes CRLF again in
//! the file. Files that are not UTF-8 are edited byte by byte.

use std::borrow::Cow;

/// Maximum occurrences whose lines are listed if a string is ambiguous.
const PLACES_MAX: usize = 5;
/// Maximum lines that are searched for a line similar to the text that was not found.
const HINT_LINES_MAX: usize = 20_000;
/// Maximum characters shown of the similar line.
const HINT_CHARS_MAX: usize = 120;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EditError {
    #[error("old_string is empty; use write_file to create a file")]
    Empty,
    #[error("old_string and new_string are the same")]
    Same,
    #[error("old_string was not found{}", nearest.as_ref().map(nearest_hint).unwrap_or_default())]
    NotFound {
        /// Line of the file that is most similar to the first nonempty line of `old_string`, with its number.
        nearest: Option<(usize, String)>,
    },
    #[error(
        "old_string occurs {count} times (lines {}); add surrounding lines until it is unique",
        listed(lines)
    )]
    Ambiguous { count: usize, lines: Vec<usize> },
}

fn nearest_hint((number, line): &(usize, String)) -> String {
    format!("; the most similar line is line {number}: {line}")
}

fn listed(lines: &[usize]) -> String {
    lines.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the content of the file with the only occurrence of `old` replaced with `new`.
pub(crate) fn edit(before: &[u8], old: &str, new: &str) -> Result<Vec<u8>, EditError> {
    if old.is_empty() {
        return Err(EditError::Empty);
    }
    if old == new {
        return Err(EditError::Same);
    }
    let (text, is_text) = match std::str::from_utf8(before) {
        Ok(text) => (Cow::Borrowed(text), true),
        Err(_) => (Cow::Owned(widened(before)), false),
    };
    let crlf = has_crlf_lines(before);
    let adapt = |text: &str| {
        let lines = if crlf { with_crlf(text) } else { text.to_owned() };
        if is_text { lines } else { widened(lines.as_bytes()) }
    };
    let (old, new) = (adapt(old), adapt(new));
    let at = only_place(&text, &old)?;
    let edited = [&text[..at], &new, &text[at + old.len()..]].concat();
    Ok(if is_text { edited.into_bytes() } else { narrowed(&edited) })
}

/// Returns true if there is at least one line ending and all line endings are CRLF.
pub(crate) fn has_crlf_lines(bytes: &[u8]) -> bool {
    let mut previous = 0;
    let mut some = false;
    for byte in bytes {
        if *byte == b'\n' {
            if previous != b'\r' {
                return false;
            }
            some = true;
        }
        previous = *byte;
    }
    some
}

/// Returns the text with all line endings converted to CRLF.
pub(crate) fn with_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// Maps each byte to one character, so that bytes can be searched as text.
fn widened(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

fn narrowed(text: &str) -> Vec<u8> {
    text.chars().map(|character| u8::try_from(character).expect("each character stands for a byte")).collect()
}

fn only_place(text: &str, old: &str) -> Result<usize, EditError> {
    let Some(at) = text.find(old) else {
        return Err(EditError::NotFound { nearest: nearest(text, old) });
    };
    let next = at + old.chars().next().map_or(1, char::len_utf8);
    if let Some(second) = text[next..].find(old) {
        let places: Vec<usize> = text.match_indices(old).map(|(place, _)| place).collect();
        // A left-to-right search counts overlapping occurrences once, but they are two.
        let places = if places.len() == 1 { vec![at, next + second] } else { places };
        let lines = places.iter().take(PLACES_MAX).map(|place| line_number(text, *place)).collect();
        return Err(EditError::Ambiguous { count: places.len(), lines });
    }
    Ok(at)
}

fn line_number(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Returns the line most similar to the first nonempty line of `old`.
fn nearest(text: &str, old: &str) -> Option<(usize, String)> {
    let wanted = old.lines().map(str::trim).find(|line| !line.is_empty())?;
    let scored = text.lines().take(HINT_LINES_MAX).enumerate().map(|(index, line)| {
        let line = line.trim();
        (likeness(line, wanted), std::cmp::Reverse(index), line)
    });
    let (score, index, line) = scored.max_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)))?;
    // A line with less than half in common does not help.
    if score * 2 < wanted.chars().count() || line.is_empty() {
        return None;
    }
    Some((index.0 + 1, line.chars().take(HINT_CHARS_MAX).collect()))
}

/// Returns the number of characters that both strings have in common at their beginnings and at their ends.
fn likeness(line: &str, wanted: &str) -> usize {
    let shorter = line.chars().count().min(wanted.chars().count());
    let front = line.chars().zip(wanted.chars()).take_while(|(a, b)| a == b).count();
    let back = line.chars().rev().zip(wanted.chars().rev()).take_while(|(a, b)| a == b).count();
    (front + back).min(shorter)
}

#[cfg(test)]
mod tests {
    use super::{EditError, edit};

    fn edited(before: &str, old: &str, new: &str) -> String {
        String::from_utf8(edit(before.as_bytes(), old, new).unwrap()).unwrap()
    }

    #[test]
    fn a_single_occurrence_is_replaced() {
        assert_eq!(edited("a b c", "b", "x"), "a x c");
        assert_eq!(edited("a\nb\nc\n", "a\nb\n", ""), "c\n");
        assert_eq!(edited("größe", "ö", "oe"), "groeße");
    }

    #[test]
    fn several_occurrences_are_reported_by_line_even_if_they_overlap() {
        let error = edit(b"x\na\ny\na\n", "a", "b").unwrap_err();
        assert_eq!(error, EditError::Ambiguous { count: 2, lines: vec![2, 4] });
        let error = edit(b"aaa", "aa", "b").unwrap_err();
        assert_eq!(error, EditError::Ambiguous { count: 2, lines: vec![1, 1] });
    }

    #[test]
    fn missing_text_is_answered_with_the_nearest_line() {
        let error = edit(b"fn one() {}\n\tfn two(a: u8) {}\n", "  fn two(b: u8) {}", "x").unwrap_err();
        assert_eq!(
            error.to_string(),
            "old_string was not found; the most similar line is line 2: fn two(a: u8) {}"
        );
        let error = edit(b"nothing like it\n", "zzzz", "x").unwrap_err();
        assert_eq!(error.to_string(), "old_string was not found");
    }

    #[test]
    fn line_endings_are_kept() {
        assert_eq!(edited("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz"), "x\r\ny\r\nz\r\nc\r\n");
        assert_eq!(edited("a\r\nb\r\n", "a\r\n", "x\n"), "x\r\nb\r\n");
        assert_eq!(edited("a\r\nb\n", "b", "x\ny"), "a\r\nx\ny\n", "mixed line endings are kept");
        assert_eq!(edited("a\nb", "b", "x\r\n"), "a\nx\r\n");
    }

    #[test]
    fn invalid_utf8_bytes_are_kept() {
        let before = b"caf\xe9 = 1\n\xff\xfe\n";
        assert_eq!(edit(before, "= 1", "= ü").unwrap(), b"caf\xe9 = \xc3\xbc\n\xff\xfe\n");
        assert!(matches!(edit(before, "é", "e"), Err(EditError::NotFound { .. })));
    }

    #[test]
    fn an_empty_edit_is_rejected() {
        assert_eq!(edit(b"a", "", "b"), Err(EditError::Empty));
        assert_eq!(edit(b"a", "a", "a"), Err(EditError::Same));
    }

    /// Cases that were or could be wrong; tried first.
    const CORPUS: [(&[u8], &str, &str); 14] = [
        (b"", "a", "b"),
        (b"a", "a", ""),
        (b"aa", "a", "b"),
        (b"aaa", "aa", "b"),
        (b"abab", "ab", "ba"),
        (b"\r\n", "\n", ""),
        (b"a\r\na\r\n", "a\n", "b\n"),
        (b"a\r\n\r\nb\r\n", "a\n\nb", "a\nb"),
        (b"a\r\nb\n", "a\nb", "c"),
        (b"a\rb\r", "a\r", "b\n"),
        (b"\xc3\xa9\xff", "\u{e9}", "e"),
        (b"\xff\xff", "\u{ff}", "e"),
        (b"\xff a", "a", "\u{e9}"),
        (b"\xef\xbb\xbfa\n", "a\n", "b\n"),
    ];

    /// Compares with a plain count of byte windows.
    fn holds(before: &[u8], old: &str, new: &str) {
        let crlf = before.contains(&b'\n')
            && before
                .iter()
                .enumerate()
                .all(|(at, byte)| *byte != b'\n' || at > 0 && before[at - 1] == b'\r');
        let lines = |text: &str| {
            if crlf { text.replace("\r\n", "\n").replace('\n', "\r\n") } else { text.to_owned() }
        };
        let (wanted, replacement) = (lines(old).into_bytes(), lines(new).into_bytes());
        let places: Vec<usize> = match wanted.len() {
            0 => Vec::new(),
            length => (0..before.len().saturating_sub(length - 1))
                .filter(|at| before[*at..].starts_with(&wanted))
                .collect(),
        };
        let case = format!("{before:?} {old:?} {new:?}");
        match (edit(before, old, new), places.as_slice()) {
            (Err(EditError::Empty), []) => assert!(old.is_empty(), "{case}"),
            (Err(EditError::Same), _) => assert_eq!(old, new, "{case}"),
            (Err(EditError::NotFound { .. }), []) => {}
            (Err(EditError::Ambiguous { count, .. }), [_, _, ..]) => assert!(count >= 2, "{case}"),
            (Ok(after), [at]) => {
                let expected = [&before[..*at], &replacement, &before[at + wanted.len()..]].concat();
                assert_eq!(after, expected, "{case}");
            }
            (result, _) => panic!("{case}: {result:?} with {places:?}"),
        }
    }

    #[test]
    fn any_edit_replaces_exactly_one_occurrence_or_none() {
        for (before, old, new) in CORPUS {
            holds(before, old, new);
        }
        arbtest::arbtest(|random| {
            let before = pieces(random, 12)?;
            let old = String::from_utf8_lossy(&pieces(random, 3)?).into_owned();
            let new = String::from_utf8_lossy(&pieces(random, 3)?).into_owned();
            holds(&before, &old, &new);
            Ok(())
        })
        .budget_ms(500);
    }

    /// Uses few different bytes, so that matches are frequent.
    fn pieces(
        random: &mut arbtest::arbitrary::Unstructured<'_>,
        most: usize,
    ) -> arbtest::arbitrary::Result<Vec<u8>> {
        let kinds: [&[u8]; 8] = [b"a", b"b", b"\n", b"\r\n", b"\r", b"\xc3\xa9", b"\xff", b"ab"];
        let count = random.int_in_range(0..=most)?;
        let mut bytes = Vec::new();
        for _ in 0..count {
            bytes.extend_from_slice(random.choose(&kinds)?);
        }
        Ok(bytes)
    }
}
