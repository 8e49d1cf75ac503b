//! The language of the files in `programs/`, which describe programs.
//!
//! A statement per line. A line that ends in `\` continues on the next line; a line that begins with `#` is a comment.
//!
//! ```text
//! area TITLE                          heading of the following programs on the generated page
//! list NAME OPTIONS                   options shared by several programs; `@NAME` inserts them
//! versioned NAMES                     programs whose lone `--version` or `--help` only prints text
//!
//! program CLASS NAMES (OPERANDS) : WHY
//! sub CLASS PATHS (OPERANDS) : WHY    a subcommand of the program above; a path has one or more words
//! ```
//!
//! NAMES and PATHS are separated by commas. CLASS is the class of a call that is fully understood: `read_only`,
//! `reads_remote`, `changes`, `opaque`, `dangerous`, `lockout` or `reads_secret`. For a program with subcommands, CLASS
//! applies to the call without a subcommand. OPERANDS are kinds, each optionally followed by `?` (zero or one), `*`
//! (any number) or `+` (one or more). If OPERANDS are left out, the program takes no operands. WHY is the reason shown
//! to users. The following statements apply to the last program or subcommand, in any order:
//!
//! ```text
//! options OPTIONS                     options that do not affect the class
//! CLASS OPTIONS : WHY                 options that raise the call to at least this class
//! lowers CLASS OPTIONS                options that give the call this class, if the rest of the call is understood
//! bare CLASS                          class of the call without operands
//! verbs                               an unlisted subcommand, option or operand makes the call opaque, not a change
//! everywhere                          the program's options may also follow its subcommands
//! single                              `-name` is one option, as in `find` and `ip`
//! stops                               words after the first operand are never options
//! harmless                            no option does harm, so even a non-literal word may become one
//! check NAME                          code that also examines the call
//! grant any | exact                   "allow for this session" covers any understood call, or only this exact one
//! ```
//!
//! OPTIONS are described in [`crate::options`]; kinds of operands and values in [`Kind`].

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use super::checks::Check;
use crate::lexer::Word;
use crate::options::{Arity, Effect, OptionRule, Style, rules};
use crate::risk::RiskClass;

/// Kind of an operand or of an option's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// Text of letters, digits and harmless punctuation, which every program takes as a name, a number or a list.
    Word,
    /// Text like [`Kind::Word`], but without `=`.
    Key,
    /// Text that begins with `+`.
    Format,
    Read,
    /// A path that is created, changed or removed.
    Write,
    /// A directory into which the program writes files that the command does not name.
    Fill,
    /// Target path of a new link.
    Link,
    /// A path whose content is run.
    Run,
    /// A local path, or `host:path`, that is read.
    Source,
    /// A local path, or `host:path`, that is written.
    Target,
    Host,
    /// Text that is sent to a server.
    Data,
    /// Text that is sent to a server, or, if it contains no `=`, a file to send.
    Cookie,
    /// A format of git. Some formats show signatures, for which git runs a program.
    Pretty,
    /// A setting of apt. Only a few settings are known to be harmless.
    Setting,
    /// A systemd unit or a service.
    Unit,
    /// A package to install, or, if its name ends in a dash, to remove.
    Package,
    Removed,
    Process,
    /// The first word of a command, to which all further words belong.
    Command,
    /// Text for a shell, joined from this and all further words.
    Script,
}

/// Arity: number of operands allowed at one position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    One,
    Optional,
    Any,
    Some,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OperandRule {
    pub(super) kind: Kind,
    pub(super) count: Count,
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// All names of the program or subcommand. For a subcommand, these are only the last words of its paths.
    pub(super) names: Vec<&'static str>,
    pub(super) area: &'static str,
    pub(super) class: RiskClass,
    pub(super) why: &'static str,
    pub(super) operands: Vec<OperandRule>,
    pub(super) options: Vec<OptionRule<'static>>,
    pub(super) style: Style,
    /// Class of a call without operands, if different.
    pub(super) bare: Option<RiskClass>,
    pub(super) has_verbs: bool,
    pub(super) everywhere: bool,
    pub(super) stops: bool,
    pub(super) harmless: bool,
    pub(super) check: Option<Check>,
    /// Scope of the answer "allow for this session": `Some(true)` if it covers any understood call, `Some(false)` if it
    /// covers only the exact call, `None` if the table does not specify the scope.
    pub(super) grant: Option<bool>,
    pub(super) subs: Vec<Entry>,
}

impl Entry {
    pub(super) fn sub(&self, name: &str) -> Option<&Entry> {
        self.subs.iter().find(|sub| sub.names.contains(&name))
    }

    /// Returns true if expansion may turn a word into an option that makes the call worse than it looks.
    ///
    /// If the word does not begin with a dash, only options that raise the class count, and globs are ignored, because
    /// a glob becomes an option only if a file has such a name.
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

    /// Returns true if a word is a short option followed by its value, as in `-j$(nproc)`.
    fn begins_with_value(&self, word: &Word) -> bool {
        let Some(first) = word.text().strip_prefix('-').and_then(|text| text.get(..1)) else { return false };
        let named = |rule: &&OptionRule<'_>| !rule.is_long && rule.name == first;
        self.options.iter().find(named).is_some_and(|rule| rule.arity != Arity::Flag)
    }

    /// Returns true if the answer "allow for this session" covers any understood call of this entry.
    pub(super) fn grants_any(&self) -> bool {
        self.grant.unwrap_or(self.class == RiskClass::ReadOnly)
    }

    /// Copies properties of this entry to its subcommands, except for options that a subcommand defines itself.
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

/// Index of the programs in the files, so that only the programs that a command names need to be parsed.
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
    /// Indexes the programs in the files. Invalid statements are skipped.
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

    /// Returns true if the program only prints text when called with `--version` or `--help` alone.
    pub(super) fn is_versioned(&self, name: &str) -> bool {
        self.versioned.contains(name)
    }
}

/// Splits names separated by commas.
fn listed_names(text: &'static str) -> impl Iterator<Item = &'static str> {
    plain_words(text).map(|name| name.trim_end_matches(','))
}

fn trimmed(name: &'static str) -> &'static str {
    name.trim_matches(|c: char| c == '\\' || c.is_whitespace())
}

#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) programs: Vec<Entry>,
    by_name: HashMap<&'static str, usize>,
}

impl Table {
    /// Parses all files, for tests and the page. Returns the table, and an error for each invalid statement.
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

/// Returns the statements of a file; a statement includes its continuation lines.
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
    /// Entries to which the next statements apply, each as the path of its subcommand within the last program. An empty
    /// path means the program itself.
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
                return Err(format!("{name} is in the table twice"));
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
                let at = at.ok_or_else(|| format!("{word} must be defined first"))?;
                parent = parent.subs.get_mut(at).ok_or("no such subcommand")?;
            }
            if parent.sub(last).is_some() {
                return Err(format!("{path} is in the table twice"));
            }
            parent.subs.push(Entry { names: vec![last], ..entry.clone() });
            self.current.push(words);
        }
        Ok(())
    }

    /// Parses a statement that applies to the entries named last.
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
                        _ => return Err("a grant must be `any` or `exact`".to_owned()),
                    });
                }
                "check" => entry.check = Some(Check::from_name(rest).ok_or("unknown check")?),
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

/// Parses the options in a line, including the options of the lists that it names.
fn listed(
    lists: &HashMap<&'static str, &'static str>,
    line: &'static str,
    style: Style,
    effect: Effect<'static>,
) -> Result<Vec<OptionRule<'static>>, String> {
    let mut found = Vec::new();
    for text in plain_words(line) {
        let text = match text.strip_prefix('@') {
            Some(name) => *lists.get(name).ok_or_else(|| format!("unknown list {name}"))?,
            None => text,
        };
        for part in plain_words(text) {
            found.extend(rules(part, style, effect).ok_or_else(|| format!("{part} is not an option"))?);
        }
    }
    found.iter().try_for_each(|rule| kind(rule.kind).map(|_| ()))?;
    Ok(found)
}

/// Adds options to an entry. Duplicates are checked only in tests, because the check is slow.
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

/// Parses `CLASS NAMES (OPERANDS) : WHY`.
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

/// Parses the name of a kind. An empty name means plain text.
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
        _ => return Err(format!("unknown kind {name}")),
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
