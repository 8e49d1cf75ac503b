//! Parser for program options, like `getopt_long` with a list of known options. It never guesses: an option is reported
//! as not understood if it is not listed, or if an expansion may turn it into another option.
//!
//! A list of options is text. Short options: `-al` are flags, `-nI:` are options with a value, `-C?` are options with
//! an optional attached value, `-i~` are options with an optional value that is attached or the next word, unless that
//! begins with `-` or `+`, and `-#` is a number as an option (`-5`). Long options: `--all` is a flag, `--sort=`
//! takes a value, and `--color?` takes an optional value. The kind of the value may follow, as in `-o:write` and
//! `--output=write`. A long option may be abbreviated to any prefix that no other listed option shares.

use super::lexer::{UNKNOWN, Word};
use crate::risk::RiskClass;

/// Kind of value that an option takes, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arity {
    Flag,
    Value,
    Attached,
    /// An optional value, attached or in the next word. Only short options have it.
    AttachedOrNext,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect<'t> {
    /// The option is known and does not affect the class.
    Known,
    /// The call has at least this class, for this reason.
    Raises(RiskClass, &'t str),
    /// The call has this class instead of the program's own class, if every part of the call is understood.
    Lowers(RiskClass),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OptionRule<'t> {
    /// Name of the option without dashes, or `#` for a number as an option.
    pub(super) name: &'t str,
    pub(super) is_long: bool,
    pub(super) arity: Arity,
    /// Kind of the value; empty if it is plain text.
    pub(super) kind: &'t str,
    pub(super) effect: Effect<'t>,
}

/// Spelling of a program's options.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Style {
    /// `-abc` are three options, `--name` is one.
    #[default]
    Gnu,
    /// `-name` is one option.
    Single,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopPoint {
    /// Options may follow operands, as in GNU programs.
    End,
    /// Words after the first operand belong to another program.
    FirstOperand,
}

#[derive(Debug, Clone)]
pub(super) struct GivenOption<'t, 'w> {
    pub(super) rule: OptionRule<'t>,
    pub(super) value: Option<&'w str>,
    /// Word that contains the option's value, or else the option itself.
    pub(super) word: &'w Word,
}

/// Parsed arguments, some of which may not be understood.
#[derive(Debug, Default)]
pub(super) struct Reading<'t, 'w> {
    pub(super) options: Vec<GivenOption<'t, 'w>>,
    pub(super) operands: Vec<&'w Word>,
    /// Index of the first operand within the words, if parsing stops there.
    pub(super) first_operand: usize,
    /// Words that are unlisted options or that an expansion may turn into an option.
    pub(super) unknown: Vec<&'w Word>,
}

impl<'w> Reading<'_, 'w> {
    pub(super) fn has(&self, name: &str) -> bool {
        self.options.iter().any(|option| option.rule.name == name)
    }

    pub(super) fn values(&self, names: &[&str]) -> Vec<&'w str> {
        let named = self.options.iter().filter(|option| names.contains(&option.rule.name));
        named.filter_map(|option| option.value).collect()
    }
}

/// Parses a list of options into rules that all have the same effect. Returns `None` if an entry is not an option.
pub(super) fn rules<'t>(list: &'t str, style: Style, effect: Effect<'t>) -> Option<Vec<OptionRule<'t>>> {
    let mut found = Vec::new();
    for entry in list.split_ascii_whitespace() {
        let dashes = entry.len() - entry.trim_start_matches('-').len();
        let body = entry.get(dashes..)?;
        let is_long = dashes == 2 || style == Style::Single;
        let mark = body.find([':', '=', '?', '~']).filter(|at| *at > 0);
        let (name, arity, kind) = match mark {
            None => (body, Arity::Flag, ""),
            Some(at) => {
                let arity = match body.as_bytes()[at] {
                    b'?' => Arity::Attached,
                    b'~' => Arity::AttachedOrNext,
                    _ => Arity::Value,
                };
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

/// Parses arguments according to rules. Words that are not understood go to `unknown`, and parsing continues.
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

/// Returns true if the shell expands a word to exactly one word, whatever values its expansions have.
pub(super) fn is_one_word(word: &Word) -> bool {
    !word.splits && !word.glob && !word.brace
}

/// Parses a long option. Returns true if the option consumes the next word as its value.
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
        // An ambiguous abbreviation counts as the worst of its meanings.
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
        Arity::Attached | Arity::AttachedOrNext => true,
    };
    if !fits || name.contains(UNKNOWN) || !is_one_word(word) || !is_one_word(holder) {
        reading.unknown.push(word);
    }
    reading.options.push(GivenOption { rule: **rule, value, word: holder });
    value_is_apart && next.is_some()
}

/// Returns the rule for the long option with this exact name, or else the rules whose names begin with it.
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

/// Parses a cluster of short options. Returns true if it consumes the next word as a value.
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
            (Arity::AttachedOrNext, None, Some(value)) if !value.text().starts_with(['-', '+']) => {
                if !is_one_word(value) || value.may_be_option() {
                    reading.unknown.push(value);
                }
                (option.value, option.word) = (Some(value.text()), value);
                reading.options.push(option);
                return true;
            }
            (Arity::Attached | Arity::AttachedOrNext, value, _) | (Arity::Value, value @ Some(_), _) => {
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

/// Arguments whose options are all understood.
#[derive(Debug, Default)]
pub(super) struct ParsedOptions<'w> {
    /// Names of the options without dashes, each with its value, if any.
    pub(super) options: Vec<(&'w str, Option<&'w str>)>,
    pub(super) operands: Vec<&'w Word>,
    /// Index of the first operand within the words, if parsing stops there.
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

/// Parses arguments. Returns `None` if an option is not listed, is ambiguous or lacks its value, or if the value of an
/// option is not literal.
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

/// Returns true if one of several options is given in any form: in a short cluster that contains a letter of `short`,
/// or as an abbreviation of a name in `long`. Used only for warnings, where false positives do no harm.
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

/// Returns true if `text` is an entry of `list`, whose entries are separated by single spaces.
pub(super) fn is_listed(list: &str, text: &str) -> bool {
    !text.is_empty() && list.split(' ').any(|entry| entry == text)
}

/// Returns the words that are not options, and all words after `--`.
pub(super) fn operands_of(words: &[Word]) -> impl Iterator<Item = &Word> {
    let end = words.iter().position(|word| word.text() == "--").unwrap_or(words.len());
    let (before, after) = words.split_at(end);
    let plain = |word: &&Word| !(word.text().len() > 1 && word.text().starts_with('-'));
    before.iter().filter(plain).chain(after.iter().skip(1))
}

/// Returns the values of an option that is given as `-oV`, `-o V`, `--opt=V` or `--opt V`.
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
