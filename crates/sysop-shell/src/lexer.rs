//! Lexer for the words of a simple command, with the quoting rules of bash. The lexer is an independent check on the
//! grammar, which parses the same words.
//!
//! The lexer never guesses: in any doubt it returns a [`Mismatch`], and the command counts as unparseable.

/// Placeholder for the value of an expansion in a word's shape. The placeholder cannot be confused with a real NUL,
/// because commands that contain one are rejected earlier.
pub(super) const UNKNOWN: char = '\0';

/// Byte offset at which the lexer and the grammar disagree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mismatch(pub(super) usize);

/// Byte range of an expansion or substitution, according to the grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) start: usize,
    pub(super) end: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) start: usize,
    pub(super) end: usize,
    /// The word after quote removal. Each expansion is replaced with [`UNKNOWN`], except that a leading `$HOME` becomes
    /// `~` and a leading `$PWD` becomes `.`.
    pub(super) shape: String,
    /// True if the word contains an expansion or substitution.
    pub(super) expands: bool,
    /// True if the word contains an expansion that may become several words or options, as expansions outside double
    /// quotes do.
    pub(super) splits: bool,
    /// True if the word contains an unquoted `*`, `?` or `[…]`.
    pub(super) glob: bool,
    /// True if the word contains an unquoted `{a,b}` or `{1..3}`.
    pub(super) brace: bool,
    /// True if the word contains `$'…'` or `$"…"`.
    pub(super) ansi: bool,
    /// True if the word contains an escape that decodes to a control character.
    pub(super) odd: bool,
    /// True if the word contains text that an interactive shell replaces from its history (`!x`).
    pub(super) history: bool,
    pub(super) quoted: bool,
    /// True if the word begins with `$?`, an exit status.
    pub(super) status: bool,
    /// Offset in `source` after `NAME=`, if the word has the form of an assignment.
    pub(super) value_at: Option<usize>,
}

impl Word {
    /// Returns the word, or `None` if the shell expands it.
    pub(super) fn literal(&self) -> Option<&str> {
        (!self.expands && !self.glob && !self.brace).then_some(self.shape.as_str())
    }

    /// Returns the shape, with [`UNKNOWN`] for expansions.
    pub(super) fn text(&self) -> &str {
        &self.shape
    }

    /// Returns true if the word is `$?`, whose value is a number.
    pub(super) fn is_status(&self) -> bool {
        self.status && self.shape.chars().eq([UNKNOWN])
    }

    /// Returns true if an expansion could turn the word into an option.
    pub(super) fn may_be_option(&self) -> bool {
        let first = self.shape.chars().next();
        (self.splits || self.brace || self.glob || self.expands)
            && matches!(first, Some(UNKNOWN | '-' | '*' | '?' | '[' | '{'))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Word(Word),
    /// A redirection operator; its target is the next word.
    Redirect(Redirect),
    /// `;`, `&`, `|`, `(`, `)` or a newline, and its offset.
    Operator(char, usize),
    Comment,
    End,
}

/// A redirection operator. Its target is not included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Redirect {
    pub(super) start: usize,
    pub(super) operator: RedirectOperator,
}

/// Effect of a redirection operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RedirectOperator {
    /// `<`
    Read,
    /// `>`, `>>`, `>|`, `&>`, `&>>`
    Write,
    /// `<>`
    ReadWrite,
    /// `<&`, `>&`
    Duplicate,
    /// `<<`, `<<-`
    Document { tabs: bool },
    /// `<<<`
    Text,
}

/// Lexer that reads the tokens of `source` from the offset `at` onward.
#[derive(Debug)]
pub(super) struct Lexer<'s> {
    source: &'s str,
    extents: &'s [Extent],
    pub(super) at: usize,
}

impl<'s> Lexer<'s> {
    pub(super) fn new(source: &'s str, at: usize, extents: &'s [Extent]) -> Self {
        Self { source, extents, at }
    }

    fn rest(&self) -> &'s str {
        self.source.get(self.at..).unwrap_or("")
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn extent_here(&self) -> Option<Extent> {
        let index = self.extents.binary_search_by_key(&self.at, |extent| extent.start).ok()?;
        self.extents.get(index).copied().filter(|extent| extent.end > extent.start)
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            if rest.starts_with([' ', '\t']) {
                self.at += 1;
            } else if rest.starts_with("\\\n") {
                self.at += 2;
            } else {
                return;
            }
        }
    }

    /// Returns the next token, skipping blanks before it.
    pub(super) fn next(&mut self) -> Result<Token, Mismatch> {
        self.skip_blanks();
        let start = self.at;
        let Some(first) = self.peek() else { return Ok(Token::End) };
        if matches!(first, '<' | '>') && self.extent_here().is_some() {
            return self.word().map(Token::Word);
        }
        if first == '#' {
            let line = self.rest().split('\n').next().unwrap_or("");
            self.at += line.len();
            return Ok(Token::Comment);
        }
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        if matches!(self.rest().as_bytes().get(digits), Some(b'<' | b'>')) {
            self.at += digits;
            return self.redirect(start).map(Token::Redirect);
        }
        if self.rest().starts_with("&>") {
            return self.redirect(start).map(Token::Redirect);
        }
        if matches!(first, ';' | '&' | '|' | '(' | ')' | '\n') {
            self.at += 1;
            return Ok(Token::Operator(first, start));
        }
        self.word().map(Token::Word)
    }

    fn redirect(&mut self, start: usize) -> Result<Redirect, Mismatch> {
        const OPERATORS: &[(&str, RedirectOperator)] = &[
            ("&>>", RedirectOperator::Write),
            ("&>", RedirectOperator::Write),
            ("<<<", RedirectOperator::Text),
            ("<<-", RedirectOperator::Document { tabs: true }),
            ("<<", RedirectOperator::Document { tabs: false }),
            ("<&", RedirectOperator::Duplicate),
            ("<>", RedirectOperator::ReadWrite),
            ("<", RedirectOperator::Read),
            (">>", RedirectOperator::Write),
            (">|", RedirectOperator::Write),
            (">&", RedirectOperator::Duplicate),
            (">", RedirectOperator::Write),
        ];
        let found = OPERATORS.iter().find(|(text, _)| self.rest().starts_with(text));
        let Some((text, operator)) = found else { return Err(Mismatch(self.at)) };
        self.at += text.len();
        Ok(Redirect { start, operator: *operator })
    }

    /// Returns true if the current offset is at the end of a word or between words.
    pub(super) fn at_border(&self) -> bool {
        self.peek().is_none_or(|c| matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')'))
            || self.rest().starts_with("\\\n")
    }

    /// Reads the target of a redirection, which must be a word on the same line.
    pub(super) fn target(&mut self) -> Result<Word, Mismatch> {
        match self.next()? {
            Token::Word(word) => Ok(word),
            Token::Redirect(_) | Token::Operator(..) | Token::Comment | Token::End => Err(Mismatch(self.at)),
        }
    }

    fn word(&mut self) -> Result<Word, Mismatch> {
        let mut word = Word { start: self.at, ..Word::default() };
        let mut open = OpenBrackets::default();
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' => break,
                '<' | '>' if self.extent_here().is_none() => {
                    if word.shape.starts_with('{') && word.shape.ends_with('}') {
                        return Err(Mismatch(self.at));
                    }
                    break;
                }
                '<' | '>' | '`' => self.expansion(&mut word, false)?,
                '\'' => self.single_quoted(&mut word)?,
                '"' => self.double_quoted(&mut word)?,
                '\\' => self.escaped(&mut word)?,
                '$' => self.dollar(&mut word, false)?,
                _ => {
                    self.at += c.len_utf8();
                    self.unquoted(&mut word, &mut open, c);
                }
            }
        }
        word.end = self.at;
        if word.end == word.start {
            return Err(Mismatch(self.at));
        }
        Ok(word)
    }

    fn unquoted(&mut self, word: &mut Word, open: &mut OpenBrackets, c: char) {
        match c {
            '*' | '?' => word.glob = true,
            '[' => open.bracket = true,
            ']' if open.bracket => word.glob = true,
            '{' => open.brace = true,
            ',' if open.brace => open.separator = true,
            '.' if open.brace && word.shape.ends_with('.') => open.separator = true,
            '}' if open.separator => word.brace = true,
            '!' => word.history |= self.starts_history(),
            '=' if word.value_at.is_none()
                && !word.quoted
                && !word.expands
                && is_assignment_name(&word.shape) =>
            {
                word.value_at = Some(self.at);
            }
            _ => {}
        }
        word.shape.push(c);
    }

    /// Returns true if `!` starts a history reference, which interactive bash replaces even in double quotes.
    fn starts_history(&self) -> bool {
        self.peek()
            .is_some_and(|next| !matches!(next, ' ' | '\t' | '\n' | '=' | '(' | '"' | ';' | '&' | '|' | ')'))
    }

    fn single_quoted(&mut self, word: &mut Word) -> Result<(), Mismatch> {
        word.quoted = true;
        self.at += 1;
        let length = self.rest().find('\'').ok_or(Mismatch(self.at))?;
        word.shape.push_str(self.rest().get(..length).unwrap_or(""));
        self.at += length + 1;
        Ok(())
    }

    fn double_quoted(&mut self, word: &mut Word) -> Result<(), Mismatch> {
        word.quoted = true;
        self.at += 1;
        loop {
            match self.peek() {
                None => return Err(Mismatch(self.at)),
                Some('"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some('\\') => {
                    self.at += 1;
                    match self.bump() {
                        None => return Err(Mismatch(self.at)),
                        Some('\n') => {}
                        Some(c @ ('$' | '`' | '"' | '\\')) => word.shape.push(c),
                        Some(c) => word.shape.extend(['\\', c]),
                    }
                }
                Some('$') => self.dollar(word, true)?,
                Some('`') => self.expansion(word, true)?,
                Some(c) => {
                    self.at += c.len_utf8();
                    if c == '!' {
                        word.history |= self.starts_history();
                    }
                    word.shape.push(c);
                }
            }
        }
    }

    fn escaped(&mut self, word: &mut Word) -> Result<(), Mismatch> {
        word.quoted = true;
        self.at += 1;
        match self.bump() {
            None => Err(Mismatch(self.at)),
            Some('\n') => Ok(()),
            Some(c) => {
                word.shape.push(c);
                Ok(())
            }
        }
    }

    fn dollar(&mut self, word: &mut Word, in_quotes: bool) -> Result<(), Mismatch> {
        if self.extent_here().is_some() {
            return self.expansion(word, in_quotes);
        }
        if self.rest().starts_with("$\\\n") {
            return Err(Mismatch(self.at));
        }
        let next = self.rest().chars().nth(1);
        match next {
            Some('\'') if !in_quotes => self.ansi_quoted(word),
            Some('"') if !in_quotes => {
                word.ansi = true;
                self.at += 1;
                self.double_quoted(word)
            }
            Some(c) if c.is_alphanumeric() || "_({[@*#?-$!".contains(c) => Err(Mismatch(self.at)),
            Some(_) | None => {
                self.at += 1;
                word.shape.push('$');
                Ok(())
            }
        }
    }

    /// Skips an expansion. Its end is known from the grammar.
    fn expansion(&mut self, word: &mut Word, in_quotes: bool) -> Result<(), Mismatch> {
        let extent = self.extent_here().ok_or(Mismatch(self.at))?;
        let text = self.source.get(extent.start..extent.end).ok_or(Mismatch(self.at))?;
        word.expands = true;
        // In double quotes, only `$@` and all elements of an array become several words.
        word.splits |= !in_quotes || text.contains('@');
        word.status |= word.shape.is_empty() && matches!(text, "$?" | "${?}");
        word.shape.push(match text {
            "$HOME" | "${HOME}" if word.shape.is_empty() => '~',
            "$PWD" | "${PWD}" if word.shape.is_empty() => '.',
            _ => UNKNOWN,
        });
        self.at = extent.end;
        Ok(())
    }

    fn ansi_quoted(&mut self, word: &mut Word) -> Result<(), Mismatch> {
        word.quoted = true;
        word.ansi = true;
        self.at += 2;
        loop {
            let decoded = match self.bump() {
                None => return Err(Mismatch(self.at)),
                Some('\'') => return Ok(()),
                Some('\\') => self.ansi_escape(word)?,
                Some(c) => Some(c),
            };
            if let Some(c) = decoded {
                word.odd |= c.is_control();
                word.shape.push(if c == UNKNOWN { '\u{fffd}' } else { c });
            }
        }
    }

    fn ansi_escape(&mut self, word: &mut Word) -> Result<Option<char>, Mismatch> {
        let c = self.bump().ok_or(Mismatch(self.at))?;
        Ok(Some(match c {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'a' => '\u{7}',
            'b' => '\u{8}',
            'e' | 'E' => '\u{1b}',
            'f' => '\u{c}',
            'v' => '\u{b}',
            'c' => {
                self.bump().ok_or(Mismatch(self.at))?;
                word.odd = true;
                '\u{1}'
            }
            'x' => return Ok(self.code(16, 2)),
            'u' => return Ok(self.code(16, 4)),
            'U' => return Ok(self.code(16, 8)),
            '0'..='7' => {
                self.at -= 1;
                return Ok(self.code(8, 3));
            }
            '\\' | '\'' | '"' | '?' => c,
            other => {
                word.shape.push('\\');
                other
            }
        }))
    }

    fn code(&mut self, radix: u32, digits_max: usize) -> Option<char> {
        let digits = self.rest().chars().take(digits_max).take_while(|c| c.is_digit(radix)).count();
        let text = self.rest().get(..digits)?;
        self.at += digits;
        Some(u32::from_str_radix(text, radix).ok().and_then(char::from_u32).unwrap_or('\u{fffd}'))
    }
}

/// Brackets and braces seen so far in a word.
#[derive(Debug, Default)]
struct OpenBrackets {
    bracket: bool,
    brace: bool,
    separator: bool,
}

/// Returns true for `NAME`, `NAME+`, `NAME[…]` or `NAME[…]+`, the left side of an assignment.
fn is_assignment_name(text: &str) -> bool {
    let text = text.strip_suffix('+').unwrap_or(text);
    let name = match text.split_once('[') {
        Some((name, subscript)) if subscript.ends_with(']') => name,
        Some(_) => return false,
        None => text,
    };
    is_name(name)
}

/// Returns true for a subscript that is a number, or `@` or `*`.
pub(super) fn is_plain_subscript(text: &str) -> bool {
    matches!(text, "@" | "*") || (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()))
}

/// Returns true for a valid variable name.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
