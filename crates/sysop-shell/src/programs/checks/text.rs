//! Builtins that print or compare text: `printf`, `test` and `[`.

use crate::lexer::Word;
use crate::options::{is_listed, is_one_word};

/// Operators that take a number on both sides.
const COMPARE: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];

pub(super) fn is_test(arguments: &[Word]) -> bool {
    let number = |word: Option<&Word>| word.is_some_and(|word| word.text().parse::<i64>().is_ok());
    arguments.iter().enumerate().all(|(index, word)| {
        let text = word.text();
        let compares_numbers = !COMPARE.contains(&text)
            || (index > 0 && number(arguments.get(index - 1)) && number(arguments.get(index + 1)));
        is_one_word(word) && !matches!(text, "-v" | "-R") && compares_numbers
    })
}

/// Returns true if all operators of a test are literal and in their places, so that no value passes for an operator.
pub(super) fn takes_any_value(arguments: &[Word]) -> bool {
    const UNARY: &str = "-n -z -e -f -d -r -w -x -s -L -h -b -c -p -S -u -g -k -O -G -N";
    const BINARY: &str = "= == != < > -nt -ot -ef";
    let is_operator = |list, word: &Word| word.literal().is_some_and(|text| is_listed(list, text));
    let rest = match arguments {
        [not, rest @ ..] if not.literal() == Some("!") => rest,
        all => all,
    };
    arguments.iter().all(is_one_word)
        && match rest {
            [_] => true,
            [operator, _] => is_operator(UNARY, operator),
            [_, operator, _] => is_operator(BINARY, operator),
            _ => false,
        }
}

/// Returns true if `printf` only prints with these arguments. The conversions of the format must only print (`%n` would
/// write to a variable), and each numeric conversion needs a literal number, because some shells evaluate that
/// argument.
pub(super) fn is_printf(arguments: &[Word]) -> bool {
    let rest = match arguments {
        [dashes, rest @ ..] if dashes.text() == "--" => rest,
        all => all,
    };
    let Some((format, values)) = rest.split_first() else { return false };
    let Some(text) = format.literal().filter(|text| !text.starts_with('-') || rest.len() < arguments.len())
    else {
        return false;
    };
    let Some(conversions) = conversions(text).filter(|_| !hides_percent(text)) else { return false };
    let is_text = |conversion: &char| matches!(conversion, 's' | 'b' | 'c' | 'q');
    conversions.iter().all(is_text)
        || values.iter().zip(conversions.iter().cycle()).all(|(value, conversion)| {
            is_one_word(value) && (is_text(conversion) || value.literal().is_some_and(is_number))
        })
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// Returns the letters of a format's conversions, or `None` if one of them is not known to only print.
fn conversions(format: &str) -> Option<Vec<char>> {
    let mut found = Vec::new();
    let mut rest = format;
    while let Some((_, behind)) = rest.split_once('%') {
        if let Some(behind) = behind.strip_prefix('%') {
            rest = behind;
            continue;
        }
        rest = behind.trim_start_matches(|c: char| c.is_ascii_digit() || "-+ #.".contains(c));
        let letter = rest.chars().next().filter(|c| "sdiuxXoceEfFgGqb".contains(*c))?;
        found.push(letter);
        rest = rest.get(1..)?;
    }
    Some(found)
}

/// Returns true for an escape that some shells decode to `%` before they look for conversions.
fn hides_percent(format: &str) -> bool {
    let starts = |text: &str, radix: u32| {
        let digits: String = text.chars().take_while(|c| c.is_digit(radix)).take(8).collect();
        (1..=digits.len()).any(|length| u32::from_str_radix(&digits[..length], radix) == Ok(0x25))
    };
    format.split('\\').skip(1).any(|escape| match escape.chars().next() {
        Some('x' | 'u' | 'U') => starts(&escape[1..], 16),
        Some('0'..='7') => starts(escape, 8),
        Some(_) | None => false,
    })
}
