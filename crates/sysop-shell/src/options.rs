//! Options of programs, read as `getopt_long` reads them against a list of those that are known. Never guesses: an
//! option that is not listed, or that an expansion may turn into another, is reported as not understood.
//!
//! A list is text: `-al` flags, `-nI:` short options that take a value, `-C?` that take an attached one at most,
//! `-#` a number as an option (`-5`); `--all` a long flag, `--sort=` one that takes a value, `--color?` one that may.
//! The kind of the value may follow: `-o:write`, `--output=write`. A long option may be shortened to any prefix that no
//! other listed one has.

use super::lexer::{UNKNOWN, Word};
use crate::risk::RiskClass;

/// How an option takes its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arity {
    Flag,
    Value,
    Attached,
}

/// Effect of an option on the class of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect<'t> {
    /// None.
    Known,
    /// The call has at least this class, for this reason.
    Raises(RiskClass, &'t str),
    /// The call has this class instead of its own, if all of it is understood.
    Lowers(RiskClass),
}

/// One option that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OptionRule<'t> {
    /// Without dashes; `#` for a number.
    pub(super) name: &'t str,
    pub(super) is_long: bool,
    pub(super) arity: Arity,
    /// The kind of its value, empty for plain text.
    pub(super) kind: &'t str,
    pub(super) effect: Effect<'t>,
}

/// How a program spells its options.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Style {
    /// `-abc` are three options, `--name` is one.
    #[default]
    Gnu,
    /// `-name` is one option.
    Single,
}

/// Where reading stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopPoint {
    /// Options may come after operands, as in GNU programs.
    End,
    /// What follows the first operand belongs to another program.
    FirstOperand,
}

/// One option as it is given.
#[derive(Debug, Clone)]
pub(super) struct GivenOption<'t, 'w> {
    pub(super) rule: OptionRule<'t>,
    pub(super) value: Option<&'w str>,
    /// The word that holds the value, or else the option.
    pub(super) word: &'w Word,
}

/// Arguments taken apart, as far as they are understood.
#[derive(Debug, Default)]
pub(super) struct Reading<'t, 'w> {
    pub(super) options: Vec<GivenOption<'t, 'w>>,
    pub(super) operands: Vec<&'w Word>,
    /// Index in the words where operands begin, for readings that end at the first one.
    pub(super) first_operand: usize,
    /// Options that are not listed, and words that may turn into an option.
    pub(super) unknown: Vec<&'w Word>,
}

impl<'w> Reading<'_, 'w> {
    pub(super) fn has(&self, name: &str) -> bool {
        self.options.iter().any(|option| option.rule.name == name)
    }

    /// The values given to the options of these names.
    pub(super) fn values(&self, names: &[&str]) -> Vec<&'w str> {
        let named = self.options.iter().filter(|option| names.contains(&option.rule.name));
        named.filter_map(|option| option.value).collect()
    }
}

/// Reads the rules of one list, each with the same effect; `None` where an entry is no option.
pub(super) fn rules<'t>(list: &'t str, style: Style, effect: Effect<'t>) -> Option<Vec<OptionRule<'t>>> {
    let mut found = Vec::new();
    for entry in list.split_ascii_whitespace() {
        let dashes = entry.len() - entry.trim_start_matches('-').len();
        let body = entry.get(dashes..)?;
        let is_long = dashes == 2 || style == Style::Single;
        let mark = body.find([':', '=', '?']).filter(|at| *at > 0);
        let (name, arity, kind) = match mark {
            None => (body, Arity::Flag, ""),
            Some(at) => {
                let arity = if body[at..].starts_with('?') { Arity::Attached } else { Arity::Value };
                (body.get(..at)?, arity, body.get(at + 1..)?)
            }
        };
        if !(1..=2).contains(&dashes) || name.is_empty() {
            return None;
        }
        let rule = |name| OptionRule { name, is_long, arity, kind, effect };
        if is_long {
            found.push(rule(name));
        } else {
            found.extend(name.char_indices().filter_map(|(at, c)| name.get(at..at + c.len_utf8())).map(rule));
        }
    }
    Some(found)
}

/// Reads arguments by rules. What is not understood is kept apart, and reading goes on behind it.
pub(super) fn read<'t, 'w>(
    rules: &[OptionRule<'t>],
    style: Style,
    words: &'w [Word],
    stop: StopPoint,
) -> Reading<'t, 'w> {
    let mut reading = Reading { first_operand: words.len(), ..Reading::default() };
    let mut index = 0;
    while let Some(word) = words.get(index) {
        let text = word.text();
        if text == "--" {
            reading.first_operand = index + 1;
            reading.operands.extend(words.iter().skip(index + 1));
            return reading;
        } else if !text.starts_with('-') || text == "-" {
            if stop == StopPoint::FirstOperand {
                reading.first_operand = index;
                reading.operands.extend(words.iter().skip(index));
                return reading;
            }
            if word.may_be_option() {
                reading.unknown.push(word);
            }
            reading.operands.push(word);
        } else {
            let next = words.get(index + 1);
            let used_next = match text.strip_prefix("--") {
                Some(long) => read_long(rules, word, long, next, &mut reading),
                None if style == Style::Single => read_long(rules, word, &text[1..], next, &mut reading),
                None => read_short(rules, word, next, &mut reading),
            };
            index += usize::from(used_next);
        }
        index += 1;
    }
    reading
}

/// Whether a word stays one word, whatever an expansion in it becomes.
pub(super) fn is_one_word(word: &Word) -> bool {
    !word.splits && !word.glob && !word.brace
}

/// Reads a long option; true if it uses up the next word.
fn read_long<'t, 'w>(
    rules: &[OptionRule<'t>],
    word: &'w Word,
    long: &'w str,
    next: Option<&'w Word>,
    reading: &mut Reading<'t, 'w>,
) -> bool {
    let (name, attached) = match long.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (long, None),
    };
    let matching = candidates(rules, name);
    let [rule] = matching.as_slice() else {
        // The worst that it may stand for counts.
        reading.unknown.push(word);
        let takes_next = |rule: &OptionRule<'_>| rule.arity == Arity::Value && attached.is_none();
        reading.options.extend(matching.iter().map(|rule| {
            let apart = next.filter(|_| takes_next(rule));
            let value = attached.or(apart.map(Word::text));
            GivenOption { rule: **rule, value, word: apart.unwrap_or(word) }
        }));
        return false;
    };
    let value_is_apart = rule.arity == Arity::Value && attached.is_none();
    let holder = if value_is_apart { next.unwrap_or(word) } else { word };
    let value = if value_is_apart { next.map(Word::text) } else { attached };
    let fits = match rule.arity {
        Arity::Flag => value.is_none(),
        Arity::Value => value.is_some(),
        Arity::Attached => true,
    };
    if !fits || name.contains(UNKNOWN) || !is_one_word(word) || !is_one_word(holder) {
        reading.unknown.push(word);
    }
    reading.options.push(GivenOption { rule: **rule, value, word: holder });
    value_is_apart && next.is_some()
}

/// The rule of this exact name, or else all that begin with it.
fn candidates<'r, 't>(rules: &'r [OptionRule<'t>], name: &str) -> Vec<&'r OptionRule<'t>> {
    let long = || rules.iter().filter(|rule| rule.is_long);
    if let Some(exact) = long().find(|rule| rule.name == name) {
        return vec![exact];
    }
    if name.is_empty() {
        return Vec::new();
    }
    long().filter(|rule| rule.name.starts_with(name)).collect()
}

/// Reads a cluster of short options; true if it uses up the next word.
fn read_short<'t, 'w>(
    rules: &[OptionRule<'t>],
    word: &'w Word,
    next: Option<&'w Word>,
    reading: &mut Reading<'t, 'w>,
) -> bool {
    let cluster = word.text().get(1..).unwrap_or("");
    let find = |name: &str| rules.iter().find(|rule| !rule.is_long && rule.name == name);
    if word.expands || word.brace || word.glob {
        reading.unknown.push(word);
    }
    if let Some(rule) = find("#").filter(|_| cluster.bytes().all(|b| b.is_ascii_digit())) {
        reading.options.push(GivenOption { rule: *rule, value: Some(cluster), word });
        return false;
    }
    for (at, c) in cluster.char_indices() {
        let behind = at + c.len_utf8();
        let (Some(name), Some(rest)) = (cluster.get(at..behind), cluster.get(behind..)) else { break };
        let Some(rule) = find(name) else {
            reading.unknown.push(word);
            continue;
        };
        let attached = Some(rest).filter(|rest| !rest.is_empty());
        let mut option = GivenOption { rule: *rule, value: None, word };
        match (rule.arity, attached, next) {
            (Arity::Flag, _, _) => reading.options.push(option),
            (Arity::Attached, value, _) | (Arity::Value, value @ Some(_), _) => {
                option.value = value;
                reading.options.push(option);
                return false;
            }
            (Arity::Value, None, Some(value)) => {
                if !is_one_word(value) {
                    reading.unknown.push(value);
                }
                (option.value, option.word) = (Some(value.text()), value);
                reading.options.push(option);
                return true;
            }
            (Arity::Value, None, None) => {
                reading.unknown.push(word);
                reading.options.push(option);
            }
        }
    }
    false
}

/// Arguments that are understood.
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

/// Reads the arguments; `None` when one of them is an option that is not listed, or an expansion in it hides its value.
pub(super) fn parse<'w>(list: &'w str, words: &'w [Word], stop: StopPoint) -> Option<ParsedOptions<'w>> {
    let rules = rules(list, Style::Gnu, Effect::Known)?;
    let reading = read(&rules, Style::Gnu, words, stop);
    let not_understood = |word: &&Word| word.text().starts_with('-') && word.text() != "-";
    let hidden =
        reading.options.iter().any(|option| option.value.is_some() && option.word.literal().is_none());
    if reading.unknown.iter().any(not_understood) || hidden {
        return None;
    }
    Some(ParsedOptions {
        options: reading.options.iter().map(|option| (option.rule.name, option.value)).collect(),
        operands: reading.operands,
        first_operand: reading.first_operand,
    })
}

/// Whether an option is given, in any form that could mean it: a short cluster that holds `short`, or a long name
/// that `long` begins with. For warnings, where too many hits do no harm.
pub(super) fn has_option(words: &[Word], short: &str, long: &[&str]) -> bool {
    let options = words
        .iter()
        .map(Word::text)
        .take_while(|text| *text != "--")
        .filter(|text| text.len() > 1 && text.starts_with('-'));
    options.into_iter().any(|text| match text.strip_prefix("--") {
        Some(name) => {
            let name = name.split('=').next().unwrap_or("");
            !name.is_empty() && long.iter().any(|long| long.starts_with(name))
        }
        None => text.chars().skip(1).any(|c| short.contains(c)),
    })
}

/// Whether a text is one of a list's entries, which stand apart by single spaces.
pub(super) fn is_listed(list: &str, text: &str) -> bool {
    !text.is_empty() && list.split(' ').any(|entry| entry == text)
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
