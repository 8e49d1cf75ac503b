//! Parses a command line as a list of simple commands, and quotes its words again for another shell.
//!
//! The parser accepts a small language: literal text, quotes, plain variables, globs, braces, `~`, redirections and
//! here-documents. Everything else is rejected with a reason. A word is never copied as text: its parts are quoted
//! again, so that a probe contains no part of the command that a shell would run.

/// Maximum number of words in a command line that a preview considers.
const WORDS_MAX: usize = 4_000;

/// Reason why a preview cannot be computed, in a few words.
pub(super) type Reason = String;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WordPart {
    /// Text after quote removal.
    Literal(String),
    /// `*`, `?`, a checked bracket expression, `{` or `}`.
    Pattern(String),
    Variable {
        name: String,
        quoted: bool,
    },
    /// `~` or `~user` at the beginning of the word.
    Home(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) parts: Vec<WordPart>,
}

impl Word {
    pub(super) fn of(text: &str) -> Self {
        Self { parts: vec![WordPart::Literal(text.to_owned())] }
    }

    /// Returns the text of a word without expansions.
    pub(super) fn literal(&self) -> Option<String> {
        let mut text = String::new();
        for part in &self.parts {
            let WordPart::Literal(piece) = part else { return None };
            text.push_str(piece);
        }
        Some(text)
    }

    /// Returns the literal text at the beginning of the word.
    pub(super) fn beginning(&self) -> &str {
        match self.parts.first() {
            Some(WordPart::Literal(text)) => text,
            _ => "",
        }
    }

    /// Returns true if the word is exactly one word in every shell, whatever its variables contain.
    pub(super) fn is_single(&self) -> bool {
        self.parts.iter().all(|part| match part {
            WordPart::Literal(_) | WordPart::Home(_) => true,
            WordPart::Variable { quoted, .. } => *quoted,
            WordPart::Pattern(_) => false,
        })
    }

    pub(super) fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            WordPart::Variable { name, .. } => Some(name.as_str()),
            WordPart::Literal(_) | WordPart::Pattern(_) | WordPart::Home(_) => None,
        })
    }

    /// Writes the word for a POSIX shell. Literal text is quoted, so that it is never code.
    pub(super) fn source(&self) -> String {
        let mut out = String::new();
        let mut after_home = false;
        for part in &self.parts {
            match part {
                // A quoted slash would keep the shell from expanding `~`.
                WordPart::Literal(text) if after_home && text.starts_with('/') => {
                    out.push('/');
                    out.push_str(&quoted(text.get(1..).unwrap_or("")));
                }
                WordPart::Literal(text) => out.push_str(&quoted(text)),
                WordPart::Pattern(text) | WordPart::Home(text) => out.push_str(text),
                WordPart::Variable { name, quoted: true } => out.push_str(&format!("\"${{{name}}}\"")),
                WordPart::Variable { name, quoted: false } => out.push_str(&format!("${{{name}}}")),
            }
            after_home = matches!(part, WordPart::Home(_));
        }
        if out.is_empty() { "''".to_owned() } else { out }
    }

    /// Returns the word without its first `bytes` bytes, which must be literal.
    pub(super) fn without_beginning(&self, bytes: usize) -> Option<Self> {
        let mut parts = self.parts.clone();
        let WordPart::Literal(first) = parts.first_mut()? else { return None };
        *first = first.get(bytes..)?.to_owned();
        Some(Self { parts })
    }
}

/// Quotes text as one word of a POSIX shell. Text of harmless characters stays as it is.
pub(super) fn quoted(text: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "_./,:@%+-".contains(c);
    if !text.is_empty() && text.chars().all(harmless) {
        return text.to_owned();
    }
    if text.is_empty() {
        return String::new();
    }
    crate::single_quoted(text)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RedirectKind {
    /// `>`, `>|` and `&>`.
    Write,
    /// `>>` and `&>>`.
    Append,
    Read,
    /// `2>&1` and the like.
    Duplicate,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Redirect {
    pub(super) kind: RedirectKind,
    pub(super) target: Word,
    /// Descriptor that is redirected.
    pub(super) descriptor: u32,
}

/// One simple command, as written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SimpleText {
    pub(super) words: Vec<Word>,
    pub(super) redirects: Vec<Redirect>,
    /// Text of a here-document or here-string; the inner value is `None` if the shell expands the text.
    pub(super) document: Option<Option<String>>,
    /// Range of bytes in the command line.
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Commands that are joined by `|`.
pub(super) type Pipeline = Vec<SimpleText>;

/// Returns what the command has if this word begins a construct which is not a simple command.
fn construct(word: &str) -> Option<&'static str> {
    Some(match word {
        "for" | "while" | "until" | "select" | "do" | "done" | "in" => "a loop",
        "if" | "then" | "else" | "elif" | "fi" | "case" | "esac" | "[[" | "]]" => "a condition",
        "function" => "a subshell or a function",
        "{" | "}" => "a group of commands",
        "!" => "a negation",
        "time" => "the word `time`",
        "coproc" => "a coprocess",
        _ => return None,
    })
}

/// Splits a command line into its pipelines.
pub(super) fn scan(source: &str) -> Result<Vec<Pipeline>, Reason> {
    let mut scanner = Scanner { source, at: 0, documents: Vec::new(), count: 0 };
    scanner.script()
}

struct Scanner<'a> {
    source: &'a str,
    at: usize,
    /// Here-documents whose text begins after the current line: delimiter, quoted, strips tabs.
    documents: Vec<(String, bool, bool)>,
    count: usize,
}

enum Joint {
    Pipe,
    Next,
    End,
}

impl Scanner<'_> {
    fn rest(&self) -> &str {
        self.source.get(self.at..).unwrap_or("")
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    fn blanks(&mut self) {
        while self.eat(" ") || self.eat("\t") || self.eat("\\\n") {}
        if self.peek() == Some('#') {
            let line = self.rest().find('\n').unwrap_or(self.rest().len());
            self.at += line;
        }
    }

    fn script(&mut self) -> Result<Vec<Pipeline>, Reason> {
        let (mut pipelines, mut pipeline) = (Vec::new(), Vec::new());
        loop {
            let mut simple = self.simple()?;
            simple.end = self.at;
            let is_empty = simple.words.is_empty() && simple.redirects.is_empty();
            let joint = self.joint()?;
            if is_empty && (matches!(joint, Joint::Pipe) || !pipeline.is_empty()) {
                return Err("the command cannot be parsed".to_owned());
            }
            if !is_empty {
                pipeline.push(simple);
            }
            if !matches!(joint, Joint::Pipe) && !pipeline.is_empty() {
                pipelines.push(std::mem::take(&mut pipeline));
            }
            if matches!(joint, Joint::End) {
                return Ok(pipelines);
            }
        }
    }

    /// Parses what follows a simple command. Here-documents begin after a line break.
    fn joint(&mut self) -> Result<Joint, Reason> {
        self.blanks();
        if self.eat("&&") || self.eat("||") || self.eat(";") && self.peek() != Some(';') || self.eat("&") {
            return Ok(Joint::Next);
        }
        if self.eat("|&") || self.eat("|") {
            while self.peek() == Some('\n') && self.documents.is_empty() {
                self.next();
                self.blanks();
            }
            return Ok(Joint::Pipe);
        }
        match self.peek() {
            None if self.documents.is_empty() => Ok(Joint::End),
            None => Err("a here-document is not closed".to_owned()),
            Some('\n') => Ok(Joint::Next),
            Some('(' | ')') => Err("the command has a subshell or a function".to_owned()),
            Some(_) => Err("the command cannot be parsed".to_owned()),
        }
    }

    fn simple(&mut self) -> Result<SimpleText, Reason> {
        let mut simple = SimpleText::default();
        loop {
            self.blanks();
            while simple.words.is_empty() && simple.redirects.is_empty() && self.peek() == Some('\n') {
                self.next();
                if !self.documents.is_empty() {
                    return Err("the command cannot be parsed".to_owned());
                }
                self.blanks();
            }
            if simple.words.is_empty() && simple.redirects.is_empty() {
                simple.start = self.at;
            }
            match self.peek() {
                None | Some('\n' | ';' | '|' | ')' | '(') => break,
                Some('&') if !self.rest().starts_with("&>") => break,
                Some(_) => {}
            }
            if self.redirect(&mut simple)? {
                continue;
            }
            let start = self.at;
            let word = self.word()?;
            self.count += 1;
            if self.count > WORDS_MAX {
                return Err("the command is too long".to_owned());
            }
            let raw = self.source.get(start..self.at).unwrap_or("");
            if let Some(construct) = construct(raw).filter(|_| simple.words.is_empty()) {
                return Err(format!("the command has {construct}"));
            }
            simple.words.push(word);
        }
        self.read_documents(&mut simple)?;
        Ok(simple)
    }

    /// Parses a redirection, if there is one here.
    fn redirect(&mut self, simple: &mut SimpleText) -> Result<bool, Reason> {
        let digits = self.rest().len() - self.rest().trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number = self.rest().get(..digits).unwrap_or("").parse::<u32>().ok();
        let after = self.rest().get(digits..).unwrap_or("");
        let both = digits == 0 && after.starts_with("&>");
        if !(both || after.starts_with(['<', '>'])) {
            return Ok(false);
        }
        if digits > 0 && number.is_none() {
            return Err("the command cannot be parsed".to_owned());
        }
        self.at += digits + usize::from(both);
        let descriptor = |default: u32| number.unwrap_or(default);
        if self.eat("<<<") {
            self.blanks();
            let text = self.word()?.literal().map(|text| text + "\n");
            simple.document = Some(text);
            return Ok(true);
        }
        if self.eat("<<") {
            let tabs = self.eat("-");
            self.blanks();
            let start = self.at;
            let word = self.word()?.literal().ok_or("the command cannot be parsed")?;
            let is_quoted = self.source.get(start..self.at).unwrap_or("").contains(['\'', '"', '\\']);
            self.documents.push((word, is_quoted, tabs));
            return Ok(true);
        }
        let (kind, default) = if self.eat(">>") {
            (RedirectKind::Append, 1)
        } else if self.eat(">&") {
            (RedirectKind::Duplicate, 1)
        } else if self.eat(">|") || self.eat(">") {
            (RedirectKind::Write, 1)
        } else if self.eat("<&") {
            (RedirectKind::Duplicate, 0)
        } else if self.eat("<>") {
            return Err("the command opens a file for reading and writing".to_owned());
        } else if self.eat("<") {
            (RedirectKind::Read, 0)
        } else {
            return Err("the command cannot be parsed".to_owned());
        };
        if self.peek() == Some('(') {
            return Err("the command has a process substitution".to_owned());
        }
        self.blanks();
        let target = self.word()?;
        let duplicates = kind == RedirectKind::Duplicate;
        let is_number = target.literal().is_some_and(|text| {
            let digits = text.strip_suffix('-').unwrap_or(&text);
            digits.bytes().all(|byte| byte.is_ascii_digit())
        });
        let kind = if duplicates && !is_number { RedirectKind::Write } else { kind };
        simple.redirects.push(Redirect { kind, target, descriptor: descriptor(default) });
        Ok(true)
    }

    /// Reads the here-documents that begin after this line, if the line ends here.
    fn read_documents(&mut self, simple: &mut SimpleText) -> Result<(), Reason> {
        if self.documents.is_empty() {
            return Ok(());
        }
        let line = self.rest().find('\n').ok_or("a here-document is not closed")?;
        let tail = self.rest().get(..line).unwrap_or("").to_owned();
        let resume = self.at + line;
        self.at = resume + 1;
        for (delimiter, is_quoted, tabs) in std::mem::take(&mut self.documents) {
            let mut text = String::new();
            loop {
                if self.at >= self.source.len() {
                    return Err("a here-document is not closed".to_owned());
                }
                let end = self.rest().find('\n').unwrap_or(self.rest().len());
                let line = self.rest().get(..end).unwrap_or("").to_owned();
                self.at = (self.at + end + 1).min(self.source.len());
                let line = if tabs { line.trim_start_matches('\t') } else { &line };
                if line == delimiter {
                    break;
                }
                text.push_str(line);
                text.push('\n');
            }
            let literal = is_quoted || !text.contains(['$', '`', '\\']);
            simple.document = Some(literal.then_some(text));
        }
        // Only a line that ends with the here-document's command is read; `cat <<X | tee f` is one of the others.
        if tail.trim().is_empty() {
            self.at = self
                .at
                .saturating_sub(usize::from(self.at < self.source.len() || self.source.ends_with('\n')));
            return Ok(());
        }
        let tail = tail.trim();
        let Some(next) = tail.strip_prefix('|').filter(|next| !next.starts_with(['|', '&'])) else {
            return Err("commands follow a here-document on the same line".to_owned());
        };
        let after = Scanner { source: next, at: 0, documents: Vec::new(), count: self.count }.script()?;
        let [stages] = after.as_slice() else {
            return Err("commands follow a here-document on the same line".to_owned());
        };
        simple.redirects.retain(|redirect| redirect.kind != RedirectKind::Read);
        self.piped(simple, stages)
    }

    /// Joins `cat <<X | tee FILE` into one command that gets the text.
    fn piped(&mut self, simple: &mut SimpleText, stages: &[SimpleText]) -> Result<(), Reason> {
        let is_cat =
            simple.words.len() == 1 && simple.words.first().and_then(Word::literal).as_deref() == Some("cat");
        let [last] = stages else { return Err("the input comes from a pipe".to_owned()) };
        if !is_cat || !simple.redirects.is_empty() {
            return Err("the input comes from a pipe".to_owned());
        }
        simple.words.clone_from(&last.words);
        simple.redirects.clone_from(&last.redirects);
        self.at =
            self.at.saturating_sub(usize::from(self.at < self.source.len() || self.source.ends_with('\n')));
        Ok(())
    }

    fn word(&mut self) -> Result<Word, Reason> {
        let mut parts: Vec<WordPart> = Vec::new();
        let start = self.at;
        let mut has_quotes = false;
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\n' | ';' | '|' | '&' | '<' | '>' | ')' => break,
                '(' => return Err("the command has a subshell or a function".to_owned()),
                '`' => return Err(SUBSTITUTION.to_owned()),
                '\'' => {
                    has_quotes = true;
                    self.next();
                    let end = self.rest().find('\'').ok_or("a quote is not closed")?;
                    push(&mut parts, self.rest().get(..end).unwrap_or(""));
                    self.at += end + 1;
                }
                '"' => {
                    has_quotes = true;
                    self.next();
                    self.double_quoted(&mut parts)?;
                }
                '\\' => {
                    self.next();
                    match self.next() {
                        Some('\n') => {}
                        Some(c) => push(&mut parts, c.encode_utf8(&mut [0; 4])),
                        None => return Err("the command cannot be parsed".to_owned()),
                    }
                }
                '$' => self.variable(&mut parts, false)?,
                '{' if self.rest().starts_with("{}") => {
                    push(&mut parts, "{}");
                    self.at += 2;
                }
                '*' | '?' | '{' | '}' => {
                    self.next();
                    parts.push(WordPart::Pattern(c.to_string()));
                }
                '[' => self.bracket(&mut parts)?,
                '~' if self.at == start => {
                    let rest = self.rest();
                    let length = rest.find(|c: char| "/ \t\n;|&<>".contains(c)).unwrap_or(rest.len());
                    let name = rest.get(..length).unwrap_or("~");
                    let plain = |c: char| c.is_ascii_alphanumeric() || "_.-~".contains(c);
                    if !name.chars().all(plain) || name.get(1..).is_some_and(|name| name.contains('~')) {
                        return Err("the command cannot be parsed".to_owned());
                    }
                    if name.len() > 1 && name.get(1..).is_some_and(|name| name.starts_with(['-', '+'])) {
                        return Err("the command refers to an earlier directory of the shell".to_owned());
                    }
                    parts.push(WordPart::Home(name.to_owned()));
                    self.at += length;
                }
                c if c.is_control() => return Err("the command contains control characters".to_owned()),
                c => {
                    self.next();
                    push(&mut parts, c.encode_utf8(&mut [0; 4]));
                }
            }
        }
        if parts.is_empty() && !has_quotes {
            return Err("the command cannot be parsed".to_owned());
        }
        Ok(Word { parts })
    }

    fn double_quoted(&mut self, parts: &mut Vec<WordPart>) -> Result<(), Reason> {
        loop {
            match self.peek().ok_or("a quote is not closed")? {
                '"' => {
                    self.next();
                    return Ok(());
                }
                '`' => return Err(SUBSTITUTION.to_owned()),
                '$' => self.variable(parts, true)?,
                '\\' => {
                    self.next();
                    match self.next() {
                        Some(c @ ('$' | '`' | '"' | '\\')) => push(parts, c.encode_utf8(&mut [0; 4])),
                        Some('\n') => {}
                        Some(c) => push(parts, &format!("\\{c}")),
                        None => return Err("a quote is not closed".to_owned()),
                    }
                }
                c => {
                    self.next();
                    push(parts, c.encode_utf8(&mut [0; 4]));
                }
            }
        }
    }

    /// Parses `$NAME` or `${NAME}`. A lone `$` is text.
    fn variable(&mut self, parts: &mut Vec<WordPart>, quoted: bool) -> Result<(), Reason> {
        self.next();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        match self.peek() {
            Some('(') => Err(SUBSTITUTION.to_owned()),
            Some('{') => {
                self.next();
                let end = self.rest().find('}').ok_or("the command cannot be parsed")?;
                let name = self.rest().get(..end).unwrap_or("").to_owned();
                if !name.chars().all(is_name)
                    || !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                {
                    return Err("the command has an expansion with an operator".to_owned());
                }
                self.at += end + 1;
                parts.push(WordPart::Variable { name, quoted });
                Ok(())
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let length = self.rest().find(|c| !is_name(c)).unwrap_or(self.rest().len());
                let name = self.rest().get(..length).unwrap_or("").to_owned();
                self.at += length;
                parts.push(WordPart::Variable { name, quoted });
                Ok(())
            }
            Some(c) if c.is_ascii_digit() || "@*#?-!$[\"'".contains(c) && !(quoted && c == '"') => {
                Err("the command uses a special variable of the shell".to_owned())
            }
            Some(_) | None => {
                push(parts, "$");
                Ok(())
            }
        }
    }

    fn bracket(&mut self, parts: &mut Vec<WordPart>) -> Result<(), Reason> {
        let rest = self.rest();
        let plain = |c: char| c.is_ascii_alphanumeric() || "_.-!^:[".contains(c);
        match rest.find(']') {
            Some(end) if end > 1 && rest.get(1..end).is_some_and(|inner| inner.chars().all(plain)) => {
                let classes = rest.get(1..end).is_some_and(|inner| inner.contains('['));
                if classes {
                    return Err("the command has a character class".to_owned());
                }
                parts.push(WordPart::Pattern(rest.get(..=end).unwrap_or("").to_owned()));
                self.at += end + 1;
            }
            Some(_) | None => {
                self.next();
                push(parts, "[");
            }
        }
        Ok(())
    }
}

const SUBSTITUTION: &str = "the command has a command substitution";

fn push(parts: &mut Vec<WordPart>, text: &str) {
    match parts.last_mut() {
        Some(WordPart::Literal(last)) => last.push_str(text),
        _ => parts.push(WordPart::Literal(text.to_owned())),
    }
}
