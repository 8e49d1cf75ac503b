//! The language of the files in `programs/`, which say what programs do.
//!
//! One statement a line; a line that ends in `\` goes on in the next; `#` begins a comment line.
//!
//! ```text
//! area TITLE                          heading of what follows, on the page that is made of it
//! list NAME OPTIONS                   options that several programs have; `@NAME` stands for them
//! versioned NAMES                     programs whose lone `--version` or `--help` does nothing else
//!
//! program CLASS NAMES (OPERANDS) : WHY
//! sub CLASS PATHS (OPERANDS) : WHY    a subcommand of the program above; a path has one word or more
//! ```
//!
//! NAMES and PATHS stand apart by commas. CLASS is the class of a call that is understood: `read_only`, `reads_remote`,
//! `changes`, `opaque`, `dangerous`, `lockout` or `reads_secret`. Of a program with subcommands, it is the class of the
//! call without one. OPERANDS are kinds, each with `?` (may be missing), `*` (any number) or `+` (one or more) behind it;
//! without them the program takes no operand. Below a program or subcommand stand, in any order:
//!
//! ```text
//! options OPTIONS                     options that change nothing about the class
//! CLASS OPTIONS : WHY                 options with which the call has at least this class
//! lowers CLASS OPTIONS                options with which the call has this class, if all else of it is understood
//! bare CLASS                          class of the call without operands
//! verbs                               an unlisted subcommand, option or operand is opaque, not a plain change
//! everywhere                          the program's options may also stand behind its subcommands
//! single                              `-name` is one option, as in `find` and `ip`
//! stops                               what follows the first operand is no option
//! harmless                            no option of it does harm, so that even `*` may stand for one
//! check NAME                          code that looks at the call as well
//! grant any | exact                   "allow for this session" covers any call that is understood, or this one only
//! ```
//!
//! OPTIONS are described in [`crate::options`]; kinds of operands and values in [`Kind`].

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use super::checks::Check;
use crate::lexer::Word;
use crate::options::{Arity, Effect, OptionRule, Style, rules};
use crate::risk::RiskClass;

/// What an operand or the value of an option is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Any text.
    Text,
    /// Letters, digits and punctuation that no program takes for more than a name, a number or a list.
    Word,
    /// A name as `Word`, without `=`.
    Key,
    /// A text that begins with `+`.
    Format,
    /// A path that is read.
    Read,
    /// A path that is created, changed or removed.
    Write,
    /// A folder that gets files whose names are not in the command.
    Fill,
    /// A path that a new link leads to.
    Link,
    /// A path whose text is run.
    Run,
    /// A path here, or `host:path`, that is read.
    Source,
    /// A path here, or `host:path`, that is written.
    Target,
    /// A host or a URL.
    Host,
    /// Text that is sent away.
    Data,
    /// The same, or without `=` a file of it.
    Cookie,
    /// A format of git; some show signatures, which runs a program.
    Pretty,
    /// A setting of apt; few are known to be harmless.
    Setting,
    /// A unit of systemd or a service.
    Unit,
    /// A package that is installed, or with a dash behind it removed.
    Package,
    /// A package that is removed.
    Removed,
    /// A process by its name.
    Process,
    /// The words from here on are a command.
    Command,
    /// The words from here on are text for a shell.
    Script,
}

/// How often an operand may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    One,
    Optional,
    Any,
    Some,
}

/// One place for operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OperandRule {
    pub(super) kind: Kind,
    pub(super) count: Count,
}

/// A program or a subcommand.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Each way to write it; of a subcommand its last word only.
    pub(super) names: Vec<&'static str>,
    pub(super) area: &'static str,
    pub(super) class: RiskClass,
    pub(super) why: &'static str,
    pub(super) operands: Vec<OperandRule>,
    pub(super) options: Vec<OptionRule<'static>>,
    pub(super) style: Style,
    /// Class of a call without operands, where it is another one.
    pub(super) bare: Option<RiskClass>,
    pub(super) has_verbs: bool,
    pub(super) everywhere: bool,
    pub(super) stops: bool,
    pub(super) harmless: bool,
    pub(super) check: Option<Check>,
    /// Whether a grant covers any call that is understood; `None` if nothing is said.
    pub(super) grant: Option<bool>,
    pub(super) subs: Vec<Entry>,
}

impl Entry {
    pub(super) fn sub(&self, name: &str) -> Option<&Entry> {
        self.subs.iter().find(|sub| sub.names.contains(&name))
    }

    /// Whether a word may become an option that makes a call worse than it looks.
    ///
    /// Of a word that may become an operand as well, only options that warn count, and globs do not: they find options
    /// only where files are named like that.
    pub(super) fn may_turn_worse_by(&self, word: &Word) -> bool {
        let is_option = word.text().starts_with('-');
        let hidden = word.expands || word.brace || word.glob && is_option;
        let writes = ["write", "fill", "run", "data", "cookie", "setting", "target", "script"];
        let worse = |rule: &OptionRule<'_>| match rule.effect {
            Effect::Raises(class, _) => class >= RiskClass::Opaque,
            Effect::Known | Effect::Lowers(_) => is_option && writes.contains(&rule.kind),
        };
        hidden && !self.harmless && !self.begins_with_value(word) && self.options.iter().any(worse)
    }

    /// Whether a word is a short option and the value that it takes, as in `-j$(nproc)`.
    fn begins_with_value(&self, word: &Word) -> bool {
        let Some(first) = word.text().strip_prefix('-').and_then(|text| text.get(..1)) else { return false };
        let named = |rule: &&OptionRule<'_>| !rule.is_long && rule.name == first;
        self.options.iter().find(named).is_some_and(|rule| rule.arity != Arity::Flag)
    }

    /// Whether "allow for this session" covers any call of it that is understood.
    pub(super) fn grants_any(&self) -> bool {
        self.grant.unwrap_or(self.class == RiskClass::ReadOnly)
    }

    /// What it says goes for its subcommands too, where they say nothing of it.
    fn inherit(&mut self) {
        let everywhere: Vec<_> = if self.everywhere { self.options.clone() } else { Vec::new() };
        for sub in &mut self.subs {
            let own = sub.options.len();
            for rule in &everywhere {
                let same = |known: &OptionRule<'_>| known.name == rule.name && known.is_long == rule.is_long;
                if !sub.options.iter().take(own).any(same) {
                    sub.options.push(*rule);
                }
            }
            sub.has_verbs |= self.has_verbs;
            sub.everywhere |= self.everywhere;
            sub.style = self.style;
            sub.inherit();
        }
    }
}

/// Where the files tell of each program, so that only those that a command names are read.
#[derive(Debug, Default)]
pub(super) struct Index {
    blocks: Vec<Block>,
    by_name: HashMap<&'static str, usize>,
    lists: HashMap<&'static str, &'static str>,
    versioned: HashSet<&'static str>,
}

/// The statements about one program.
#[derive(Debug)]
struct Block {
    area: &'static str,
    statements: Vec<&'static str>,
    entry: OnceLock<Option<Entry>>,
}

impl Index {
    /// Finds the programs; statements that are wrong are left out.
    pub(super) fn new(files: &[&'static str]) -> Self {
        let mut index = Self::default();
        let mut area = "";
        for statement in files.iter().copied().flat_map(statements) {
            let (word, rest) = statement.split_once(char::is_whitespace).unwrap_or((statement, ""));
            match word {
                "area" => area = rest.trim(),
                "list" => index.lists.extend(rest.trim().split_once(char::is_whitespace)),
                "versioned" => index.versioned.extend(listed_names(rest)),
                "program" => {
                    let left = split_why(rest).0;
                    let left = left.split('(').next().unwrap_or(left).trim();
                    let names = left.split_once(char::is_whitespace).map_or("", |(_, names)| names);
                    let at = index.blocks.len();
                    index.by_name.extend(names.split(',').map(|name| (trimmed(name), at)));
                    let statements = vec![statement];
                    index.blocks.push(Block { area, statements, entry: OnceLock::new() });
                }
                _ => {
                    if let Some(block) = index.blocks.last_mut() {
                        block.statements.push(statement);
                    }
                }
            }
        }
        index
    }

    pub(super) fn program(&self, name: &str) -> Option<&Entry> {
        let block = self.by_name.get(name).and_then(|at| self.blocks.get(*at))?;
        block.entry.get_or_init(|| self.read(block)).as_ref()
    }

    fn read(&self, block: &Block) -> Option<Entry> {
        let mut reader = Reader { area: block.area, lists: self.lists.clone(), ..Reader::default() };
        for statement in &block.statements {
            reader.statement(statement).ok();
        }
        reader.finish().programs.pop()
    }

    /// Whether a lone `--version` or `--help` of this program does nothing else.
    pub(super) fn is_versioned(&self, name: &str) -> bool {
        self.versioned.contains(name)
    }
}

/// Names that stand apart by commas.
fn listed_names(text: &'static str) -> impl Iterator<Item = &'static str> {
    plain_words(text).map(|name| name.trim_end_matches(','))
}

fn trimmed(name: &'static str) -> &'static str {
    name.trim_matches(|c: char| c == '\\' || c.is_whitespace())
}

/// All that the files say.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) programs: Vec<Entry>,
    by_name: HashMap<&'static str, usize>,
}

impl Table {
    /// Reads the files as a whole, for the tests and the page; gives what it understands, and each statement that is wrong.
    #[cfg(test)]
    pub(super) fn parse(files: &[&'static str]) -> (Self, Vec<String>) {
        let mut reader = Reader::default();
        let mut wrong = Vec::new();
        for statement in files.iter().copied().flat_map(statements) {
            if let Err(why) = reader.statement(statement) {
                wrong.push(format!("{why}: {statement}"));
            }
        }
        (reader.finish(), wrong)
    }
}

/// The statements of a file, continued lines as one.
fn statements(file: &'static str) -> impl Iterator<Item = &'static str> {
    let mut rest = file;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let mut end = 0;
            loop {
                let line = rest.get(end..)?;
                end += line.find('\n').map_or(line.len(), |at| at + 1);
                if !rest.get(..end)?.ends_with("\\\n") {
                    break;
                }
            }
            let (statement, behind) = rest.split_at(end);
            rest = behind;
            let statement = statement.trim();
            if !statement.is_empty() && !statement.starts_with('#') {
                return Some(statement);
            }
        }
        None
    })
}

#[derive(Default)]
struct Reader {
    table: Table,
    area: &'static str,
    lists: HashMap<&'static str, &'static str>,
    /// Paths of the entries that the next lines describe, below the last program.
    current: Vec<Vec<&'static str>>,
}

impl Reader {
    fn statement(&mut self, statement: &'static str) -> Result<(), String> {
        let (word, rest) = statement.split_once(char::is_whitespace).unwrap_or((statement, ""));
        let rest = rest.trim();
        match word {
            "area" => self.area = rest,
            "list" => {
                let (name, list) = rest.split_once(char::is_whitespace).ok_or("a list without options")?;
                if self.lists.insert(name, list).is_some() {
                    return Err("a list of this name exists".to_owned());
                }
            }
            "versioned" => {}
            "program" => self.program(rest)?,
            "sub" => self.sub(rest)?,
            _ => self.property(word, rest)?,
        }
        Ok(())
    }

    fn program(&mut self, rest: &'static str) -> Result<(), String> {
        let (names, entry) = head(rest, self.area)?;
        let index = self.table.programs.len();
        for name in &names {
            if self.table.by_name.insert(name, index).is_some() {
                return Err(format!("{name} is on the table twice"));
            }
        }
        self.table.programs.push(Entry { names, ..entry });
        self.current = vec![Vec::new()];
        Ok(())
    }

    fn sub(&mut self, rest: &'static str) -> Result<(), String> {
        let (paths, entry) = head(rest, self.area)?;
        let program = self.table.programs.last_mut().ok_or("no program above")?;
        let entry = Entry { style: program.style, ..entry };
        self.current.clear();
        for path in paths {
            let words: Vec<&str> = plain_words(path).collect();
            let mut parent = &mut *program;
            let (last, before) = words.split_last().ok_or("a subcommand without a name")?;
            for word in before {
                let at = parent.subs.iter().position(|sub| sub.names.contains(word));
                let at = at.ok_or_else(|| format!("{word} has to be told of first"))?;
                parent = parent.subs.get_mut(at).ok_or("no such subcommand")?;
            }
            if parent.sub(last).is_some() {
                return Err(format!("{path} is on the table twice"));
            }
            parent.subs.push(Entry { names: vec![last], ..entry.clone() });
            self.current.push(words);
        }
        Ok(())
    }

    /// A line about the entries named last.
    fn property(&mut self, word: &str, rest: &'static str) -> Result<(), String> {
        let (list, why) = split_why(rest);
        let lists = &self.lists;
        let program = self.table.programs.last_mut().ok_or("no program above")?;
        let effect = match word {
            "verbs" | "everywhere" | "single" | "stops" | "harmless" | "grant" | "check" | "bare" => None,
            "options" => Some((list, Effect::Known)),
            "lowers" => {
                let (name, list) = rest.split_once(' ').ok_or("lowers CLASS OPTIONS")?;
                Some((list, Effect::Lowers(class(name)?)))
            }
            _ => Some((list, Effect::Raises(class(word)?, why))),
        };
        let rules = match effect {
            Some((list, effect)) => listed(lists, list, program.style, effect)?,
            None => Vec::new(),
        };
        for path in &self.current {
            let mut entry = &mut *program;
            for word in path {
                let at = entry.subs.iter().position(|sub| sub.names.contains(word));
                entry = at.and_then(|at| entry.subs.get_mut(at)).ok_or("no such subcommand")?;
            }
            match word {
                "verbs" if rest.is_empty() => entry.has_verbs = true,
                "everywhere" if rest.is_empty() => entry.everywhere = true,
                "single" if rest.is_empty() => entry.style = Style::Single,
                "stops" if rest.is_empty() => entry.stops = true,
                "harmless" if rest.is_empty() => entry.harmless = true,
                "bare" => entry.bare = Some(class(rest)?),
                "grant" => {
                    entry.grant = Some(match rest {
                        "any" => true,
                        "exact" => false,
                        _ => return Err("a grant is any or exact".to_owned()),
                    });
                }
                "check" => entry.check = Some(Check::from_name(rest).ok_or("no such check")?),
                _ => add(entry, &rules)?,
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Table {
        for program in &mut self.table.programs {
            program.inherit();
        }
        self.table
    }
}

/// The options of a line, those of the lists that it names among them.
fn listed(
    lists: &HashMap<&'static str, &'static str>,
    line: &'static str,
    style: Style,
    effect: Effect<'static>,
) -> Result<Vec<OptionRule<'static>>, String> {
    let mut found = Vec::new();
    for text in plain_words(line) {
        let text = match text.strip_prefix('@') {
            Some(name) => *lists.get(name).ok_or_else(|| format!("no list {name}"))?,
            None => text,
        };
        for part in plain_words(text) {
            found.extend(rules(part, style, effect).ok_or_else(|| format!("{part} is no option"))?);
        }
    }
    found.iter().try_for_each(|rule| kind(rule.kind).map(|_| ()))?;
    Ok(found)
}

/// Adds options to an entry. Tests alone look for one that is listed twice, because that takes long.
fn add(entry: &mut Entry, rules: &[OptionRule<'static>]) -> Result<(), String> {
    for rule in rules {
        let same = |known: &OptionRule<'_>| known.name == rule.name && known.is_long == rule.is_long;
        if cfg!(test) && entry.options.iter().any(same) {
            return Err(format!("the option {} is listed twice", rule.name));
        }
        entry.options.push(*rule);
    }
    Ok(())
}

fn plain_words(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.split_ascii_whitespace().filter(|word| *word != "\\")
}

fn split_why(text: &'static str) -> (&'static str, &'static str) {
    let (list, why) = text.split_once(" : ").unwrap_or((text, ""));
    (list.trim_end_matches(|c: char| c == '\\' || c.is_whitespace()), why.trim())
}

/// Reads `CLASS NAMES (OPERANDS) : WHY`.
fn head(text: &'static str, area: &'static str) -> Result<(Vec<&'static str>, Entry), String> {
    let (left, why) = split_why(text);
    let (left, operands) = match left.split_once('(') {
        Some((left, operands)) => (left, operands.strip_suffix(')').ok_or("an open parenthesis")?),
        None => (left, ""),
    };
    let (name, names) = left.trim().split_once(char::is_whitespace).ok_or("a class and names")?;
    let names: Vec<&str> = names.split(',').map(trimmed).collect();
    let operands = plain_words(operands).map(operand).collect::<Result<_, _>>()?;
    let entry = Entry {
        names: Vec::new(),
        area,
        class: class(name)?,
        why,
        operands,
        options: Vec::new(),
        style: Style::Gnu,
        bare: None,
        has_verbs: false,
        everywhere: false,
        stops: false,
        harmless: false,
        check: None,
        grant: None,
        subs: Vec::new(),
    };
    Ok((names, entry))
}

fn operand(text: &str) -> Result<OperandRule, String> {
    let (name, count) = match text.char_indices().next_back() {
        Some((at, '?')) => (text.get(..at), Count::Optional),
        Some((at, '*')) => (text.get(..at), Count::Any),
        Some((at, '+')) => (text.get(..at), Count::Some),
        Some(_) | None => (Some(text), Count::One),
    };
    Ok(OperandRule { kind: kind(name.unwrap_or(""))?, count })
}

/// The kind of this name; an empty one is plain text.
pub(super) fn kind(name: &str) -> Result<Kind, String> {
    Ok(match name {
        "" | "text" => Kind::Text,
        "word" => Kind::Word,
        "key" => Kind::Key,
        "format" => Kind::Format,
        "read" => Kind::Read,
        "write" => Kind::Write,
        "fill" => Kind::Fill,
        "link" => Kind::Link,
        "run" => Kind::Run,
        "source" => Kind::Source,
        "target" => Kind::Target,
        "host" => Kind::Host,
        "data" => Kind::Data,
        "cookie" => Kind::Cookie,
        "pretty" => Kind::Pretty,
        "setting" => Kind::Setting,
        "unit" => Kind::Unit,
        "package" => Kind::Package,
        "removed" => Kind::Removed,
        "process" => Kind::Process,
        "command" => Kind::Command,
        "script" => Kind::Script,
        _ => return Err(format!("no kind {name}")),
    })
}

fn class(name: &str) -> Result<RiskClass, String> {
    Ok(match name {
        "read_only" => RiskClass::ReadOnly,
        "reads_remote" => RiskClass::ReadsRemote,
        "changes" => RiskClass::Changes,
        "opaque" => RiskClass::Opaque,
        "reads_secret" => RiskClass::ReadsSecret,
        "dangerous" => RiskClass::Dangerous,
        "lockout" => RiskClass::Lockout,
        _ => return Err(format!("no word {name}")),
    })
}
