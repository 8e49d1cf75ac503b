//! Options of programs, read against a list of those that are known. Never guesses: an unlisted option is an error.
//!
//! A list is text: `-al` flags, `-nI:` short options that take a value, `-C?` that take an attached one at most,
//! `-#` a number as an option (`-5`); `--all` a long flag, `--sort=` one that takes a value, `--color?` one that may.

use super::lexer::Word;

/// How an option takes its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arity {
    Flag,
    Value,
    Attached,
}

/// Arguments taken apart.
#[derive(Debug, Default)]
pub(super) struct ParsedOptions<'w> {
    /// Names without dashes, with their value where they have one.
    pub(super) options: Vec<(&'w str, Option<&'w str>)>,
    pub(super) operands: Vec<&'w Word>,
    /// Index in the words where operands begin, for lists that end at the first one.
    pub(super) first_operand: usize,
}

impl<'w> ParsedOptions<'w> {
    pub(super) fn has(&self, name: &str) -> bool {
        self.options.iter().any(|(option, _)| *option == name)
    }

    pub(super) fn value(&self, names: &[&str]) -> Option<&'w str> {
        self.options.iter().find(|(option, _)| names.contains(option)).and_then(|(_, value)| *value)
    }
}

/// Where reading stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopPoint {
    /// Options may come after operands, as in GNU programs.
    End,
    /// What follows the first operand belongs to another program.
    FirstOperand,
}

/// Reads the arguments; none when one of them is an option that is not listed, or may turn into one.
pub(super) fn parse<'w>(list: &str, words: &'w [Word], stop: StopPoint) -> Option<ParsedOptions<'w>> {
    let mut parsed = ParsedOptions::default();
    let mut index = 0;
    while let Some(word) = words.get(index) {
        let text = word.text();
        if text == "--" {
            parsed.first_operand = index + 1;
            parsed.operands.extend(words.iter().skip(index + 1));
            return Some(parsed);
        } else if !text.starts_with('-') || text == "-" {
            if stop == StopPoint::FirstOperand {
                parsed.first_operand = index;
                parsed.operands.extend(words.iter().skip(index));
                return Some(parsed);
            }
            parsed.operands.push(word);
        } else {
            if word.expands || word.brace || word.glob {
                return None;
            }
            let next = words.get(index + 1);
            let used_next = match text.strip_prefix("--") {
                Some(long) => read_long(list, long, next, &mut parsed)?,
                None => read_short(list, text.get(1..)?, next, &mut parsed)?,
            };
            index += usize::from(used_next);
        }
        index += 1;
    }
    parsed.first_operand = words.len();
    Some(parsed)
}

/// A value must be there and be literal; then the word it sits in is used up.
fn value_of(next: Option<&Word>) -> Option<&str> {
    next.and_then(Word::literal)
}

fn read_long<'w>(
    list: &str,
    long: &'w str,
    next: Option<&'w Word>,
    parsed: &mut ParsedOptions<'w>,
) -> Option<bool> {
    let (name, attached) = match long.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (long, None),
    };
    match (arity_long(list, name)?, attached) {
        (Arity::Flag, Some(_)) => None,
        (Arity::Flag | Arity::Attached, None) => {
            parsed.options.push((name, None));
            Some(false)
        }
        (Arity::Value | Arity::Attached, Some(value)) => {
            parsed.options.push((name, Some(value)));
            Some(false)
        }
        (Arity::Value, None) => {
            parsed.options.push((name, Some(value_of(next)?)));
            Some(true)
        }
    }
}

fn read_short<'w>(
    list: &str,
    cluster: &'w str,
    next: Option<&'w Word>,
    parsed: &mut ParsedOptions<'w>,
) -> Option<bool> {
    if cluster.bytes().all(|b| b.is_ascii_digit()) && list.split(' ').any(|entry| entry == "-#") {
        parsed.options.push(("#", Some(cluster)));
        return Some(false);
    }
    for (at, c) in cluster.char_indices() {
        let name = cluster.get(at..at + c.len_utf8())?;
        let rest = cluster.get(at + c.len_utf8()..)?;
        match arity_short(list, c)? {
            Arity::Flag => parsed.options.push((name, None)),
            Arity::Attached => {
                parsed.options.push((name, Some(rest).filter(|rest| !rest.is_empty())));
                return Some(false);
            }
            Arity::Value if rest.is_empty() => {
                parsed.options.push((name, Some(value_of(next)?)));
                return Some(true);
            }
            Arity::Value => {
                parsed.options.push((name, Some(rest)));
                return Some(false);
            }
        }
    }
    Some(false)
}

fn arity_long(list: &str, name: &str) -> Option<Arity> {
    list.split(' ').filter_map(|entry| entry.strip_prefix("--")).find_map(|entry| {
        let rest = entry.strip_prefix(name)?;
        match rest {
            "" => Some(Arity::Flag),
            "=" => Some(Arity::Value),
            "?" => Some(Arity::Attached),
            _ => None,
        }
    })
}

fn arity_short(list: &str, c: char) -> Option<Arity> {
    list.split(' ').filter(|entry| entry.starts_with('-') && !entry.starts_with("--")).find_map(|entry| {
        let letters = entry.get(1..)?;
        let (letters, arity) = match letters.strip_suffix(':') {
            Some(letters) => (letters, Arity::Value),
            None => match letters.strip_suffix('?') {
                Some(letters) => (letters, Arity::Attached),
                None => (letters, Arity::Flag),
            },
        };
        letters.contains(c).then_some(arity)
    })
}

/// Whether an option is given, in any form that could mean it: a short cluster that holds `short`, or a long name
/// that `long` begins with. For warnings, where too many hits do no harm.
pub(super) fn has_option(words: &[Word], short: &str, long: &[&str]) -> bool {
    options_of(words).any(|text| match text.strip_prefix("--") {
        Some(name) => {
            let name = name.split('=').next().unwrap_or("");
            !name.is_empty()
                && long.iter().any(|long| long.starts_with(name) && (name.len() >= 3 || *long == name))
        }
        None => text.chars().skip(1).any(|c| short.contains(c)),
    })
}

/// Whether a text is one of a list's entries, which stand apart by single spaces.
pub(super) fn is_listed(list: &str, text: &str) -> bool {
    !text.is_empty() && list.split(' ').any(|entry| entry == text)
}

/// Words before `--` that start with a dash.
pub(super) fn options_of(words: &[Word]) -> impl Iterator<Item = &str> {
    words
        .iter()
        .map(Word::text)
        .take_while(|text| *text != "--")
        .filter(|text| text.len() > 1 && text.starts_with('-'))
}

/// Words that are no options, and all words after `--`.
pub(super) fn operands_of(words: &[Word]) -> impl Iterator<Item = &Word> {
    let end = words.iter().position(|word| word.text() == "--").unwrap_or(words.len());
    let (before, after) = words.split_at(end);
    let plain = |word: &&Word| !(word.text().len() > 1 && word.text().starts_with('-'));
    before.iter().filter(plain).chain(after.iter().skip(1))
}

/// Values of an option in its forms `-oV`, `-o V`, `--opt=V`, `--opt V`.
pub(super) fn values_of<'w>(words: &'w [Word], short: char, long: &str) -> Vec<&'w str> {
    let mut values = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let text = word.text();
        let next = || words.get(index + 1).map(Word::text);
        if let Some(name) = text.strip_prefix("--") {
            if let Some((name, value)) = name.split_once('=') {
                if long.starts_with(name) && name.len() >= 3 {
                    values.push(value);
                }
            } else if name.len() >= 3 && long.starts_with(name) {
                values.extend(next());
            }
        } else if let Some((_, value)) = text.strip_prefix('-').and_then(|cluster| cluster.split_once(short))
        {
            if value.is_empty() { values.extend(next()) } else { values.push(value) }
        }
    }
    values
}
