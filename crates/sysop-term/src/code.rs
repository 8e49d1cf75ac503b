//! Syntax highlighting, one line at a time. Recognizes comments, strings, numbers and words with the tables
//! in `language`, not with a grammar. Therefore, it needs only a few kilobytes, loads nothing, and gives the
//! same result for part of a file as for the whole file (`docs/adr/0012-highlight-by-tables.md`).

mod language;

use ratatui::style::Style;

use crate::cells::Span;
use crate::theme::{StyleRole, Theme};

pub use language::Language;
use language::{Quote, SyntaxFamily};

/// Maximum length of a line in bytes; a longer line is not highlighted.
const LINE_BYTES_MAX: usize = 4 * 1024;

/// Construct that is open at the end of a line and continues on the next line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum LexerState {
    #[default]
    Nothing,
    Comment(&'static str),
    Text(Quote),
}

/// Highlights the lines of the text in order.
#[derive(Debug, Clone)]
pub struct Highlighter {
    language: Option<&'static Language>,
    state: LexerState,
}

impl Highlighter {
    /// Creates a highlighter. If `language` is `None`, nothing is highlighted.
    pub fn new(language: Option<&'static Language>) -> Self {
        Self { language, state: LexerState::Nothing }
    }

    /// Highlights the next line.
    pub fn line(&mut self, line: &str, theme: Theme, base: Style) -> Vec<Span> {
        let mut spans = Vec::new();
        self.tokens(line, &mut |text, role| {
            let style = role.map_or(base, |role| base.patch(theme.style(role)));
            spans.push(Span::new(text, style));
        });
        spans
    }

    /// Splits the next line into tokens, each with one role, and passes them to `put`. Nothing is omitted.
    pub fn tokens<'a>(&mut self, line: &'a str, put: &mut impl FnMut(&'a str, Option<StyleRole>)) {
        let Some(language) = self.language.filter(|_| line.len() <= LINE_BYTES_MAX) else {
            put(line, None);
            return;
        };
        if let Some(role) = whole_line(language, line) {
            put(line, Some(role));
            return;
        }
        let mut parts = TokenWriter { line, plain: 0, put };
        let mut at = 0;
        while at < line.len() {
            let token = self.token(language, line, at);
            parts.token(at, at + token.length, token.role);
            at += token.length;
        }
        parts.plain_until(line.len());
    }

    fn token(&mut self, language: &'static Language, line: &str, at: usize) -> SyntaxToken {
        let rest = &line[at..];
        match self.state {
            LexerState::Comment(end) => {
                let length = rest.find(end).map(|found| found + end.len());
                if length.is_some() {
                    self.state = LexerState::Nothing;
                }
                return SyntaxToken::of(length.unwrap_or(rest.len()), StyleRole::Comment);
            }
            LexerState::Text(quote) => {
                let (length, ended) = quote.end_in(rest);
                if ended {
                    self.state = LexerState::Nothing;
                }
                return SyntaxToken::of(length, StyleRole::String);
            }
            LexerState::Nothing => {}
        }
        if let Some(token) = self.comment(language, line, at).or_else(|| self.quoted(language, line, at)) {
            return token;
        }
        let first = rest.chars().next().unwrap_or(' ');
        if first == '$' && language.dollar {
            return SyntaxToken::of(variable(rest), StyleRole::Variable);
        }
        if first.is_ascii_digit() {
            let number = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
            return SyntaxToken::of(span_of(rest, number), StyleRole::Number);
        }
        if language.attributes.contains(first) && !first.is_whitespace() {
            let length = first.len_utf8()
                + span_of(&rest[first.len_utf8()..], |c| is_word(c) || matches!(c, '!' | '['));
            return SyntaxToken::of(length, StyleRole::Meta);
        }
        if is_word(first) {
            return word(language, line, at);
        }
        SyntaxToken { length: first.len_utf8(), role: None }
    }

    fn comment(&mut self, language: &'static Language, line: &str, at: usize) -> Option<SyntaxToken> {
        let rest = &line[at..];
        if language.line_comments.iter().any(|mark| begins_comment(mark, line, at)) {
            return Some(SyntaxToken::of(rest.len(), StyleRole::Comment));
        }
        let (open, close) = language.block_comment.filter(|(open, _)| rest.starts_with(open))?;
        match rest[open.len()..].find(close) {
            Some(found) => Some(SyntaxToken::of(open.len() + found + close.len(), StyleRole::Comment)),
            None => {
                self.state = LexerState::Comment(close);
                Some(SyntaxToken::of(rest.len(), StyleRole::Comment))
            }
        }
    }

    fn quoted(&mut self, language: &'static Language, line: &str, at: usize) -> Option<SyntaxToken> {
        let rest = &line[at..];
        let quote = *language.quotes.iter().find(|quote| rest.starts_with(quote.mark))?;
        // An apostrophe within a word or at the start of a lifetime is not a quote.
        if quote.mark == "'" && (ends_in_word(&line[..at]) || language.is_rust() && !is_char_literal(rest)) {
            return Some(SyntaxToken { length: 1, role: None });
        }
        let mark = quote.mark.len();
        let (length, ended) = quote.end_in(&rest[mark..]);
        if !ended {
            if quote.lines {
                self.state = LexerState::Text(quote);
            } else if quote.mark == "'" {
                return Some(SyntaxToken { length: mark, role: None });
            }
        }
        let after = rest[mark + length..].trim_start();
        let role = match language.family {
            SyntaxFamily::Json | SyntaxFamily::Yaml if after.starts_with(':') => StyleRole::Key,
            SyntaxFamily::Code
            | SyntaxFamily::Json
            | SyntaxFamily::Yaml
            | SyntaxFamily::Assignments
            | SyntaxFamily::Diff
            | SyntaxFamily::Directives => StyleRole::String,
        };
        Some(SyntaxToken::of(mark + length, role))
    }
}

struct SyntaxToken {
    length: usize,
    role: Option<StyleRole>,
}

impl SyntaxToken {
    fn of(length: usize, role: StyleRole) -> Self {
        Self { length, role: Some(role) }
    }
}

/// Passes on tokens, joining adjacent text without a role into one token.
struct TokenWriter<'a, 'p, P> {
    line: &'a str,
    plain: usize,
    put: &'p mut P,
}

impl<'a, P: FnMut(&'a str, Option<StyleRole>)> TokenWriter<'a, '_, P> {
    fn token(&mut self, start: usize, end: usize, role: Option<StyleRole>) {
        if role.is_some() {
            self.plain_until(start);
            (self.put)(&self.line[start..end], role);
            self.plain = end;
        }
    }

    fn plain_until(&mut self, end: usize) {
        if self.plain < end {
            (self.put)(&self.line[self.plain..end], None);
        }
        self.plain = end;
    }
}

fn whole_line(language: &Language, line: &str) -> Option<StyleRole> {
    let text = line.trim_start();
    match language.family {
        SyntaxFamily::Diff => match line.as_bytes().first() {
            _ if line.starts_with("+++") || line.starts_with("---") => Some(StyleRole::Meta),
            Some(b'+') => Some(StyleRole::Added),
            Some(b'-') => Some(StyleRole::Removed),
            Some(b'@') => Some(StyleRole::Key),
            _ if line.starts_with("diff ") || line.starts_with("index ") => Some(StyleRole::Meta),
            Some(_) | None => None,
        },
        SyntaxFamily::Assignments if text.starts_with('[') && text.trim_end().ends_with(']') => {
            Some(StyleRole::Meta)
        }
        SyntaxFamily::Code
        | SyntaxFamily::Json
        | SyntaxFamily::Yaml
        | SyntaxFamily::Assignments
        | SyntaxFamily::Directives => None,
    }
}

fn word(language: &Language, line: &str, at: usize) -> SyntaxToken {
    let rest = &line[at..];
    let dashes =
        matches!(language.family, SyntaxFamily::Yaml | SyntaxFamily::Assignments | SyntaxFamily::Directives)
            || language.shell;
    let length = span_of(rest, |c| is_word(c) || (dashes && matches!(c, '-' | '.')));
    let (word, before, after) = (&rest[..length], &line[..at], &rest[length..]);
    let first = before.trim().is_empty() || (language.family == SyntaxFamily::Yaml && before.trim() == "-");
    let keyed = match language.family {
        SyntaxFamily::Yaml => after.starts_with(':') && (after.len() == 1 || after[1..].starts_with(' ')),
        SyntaxFamily::Assignments => first && after.trim_start().starts_with(['=', ':']),
        SyntaxFamily::Code | SyntaxFamily::Json | SyntaxFamily::Diff | SyntaxFamily::Directives => false,
    };
    let is_listed = |words: &str| {
        words.split(' ').any(|known| known == word || language.any_case && known.eq_ignore_ascii_case(word))
    };
    let role = if keyed {
        Some(StyleRole::Key)
    } else if is_listed(language.values) {
        Some(StyleRole::Number)
    } else if is_listed(language.keywords) || (language.family == SyntaxFamily::Directives && first) {
        Some(StyleRole::Keyword)
    } else if language.shell {
        let commands = before.trim_end();
        let called = first || commands.ends_with(['|', ';', '&', '(', '`']) || commands.ends_with("$ ");
        match called {
            true if after.starts_with('=') => Some(StyleRole::Variable),
            true => Some(StyleRole::Function),
            false => None,
        }
    } else if language.family == SyntaxFamily::Code && after.starts_with('(') {
        Some(StyleRole::Function)
    } else if language.family == SyntaxFamily::Code && language.types && word.starts_with(char::is_uppercase)
    {
        Some(StyleRole::Type)
    } else {
        None
    };
    SyntaxToken { length, role }
}

fn begins_comment(mark: &str, line: &str, at: usize) -> bool {
    // In shells and similar languages, `#` starts a comment only at the start of a word.
    line[at..].starts_with(mark)
        && (mark != "#" || at == 0 || line[..at].ends_with([' ', '\t', ';', '(', ',', '}']))
}

fn variable(rest: &str) -> usize {
    let inner = &rest[1..];
    let length = match inner.chars().next() {
        Some('{') => inner.find('}').map_or(inner.len(), |end| end + 1),
        Some(c) if is_word(c) => span_of(inner, is_word),
        Some('?' | '!' | '#' | '@' | '*' | '$' | '-') => 1,
        Some(_) | None => 0,
    };
    1 + length
}

fn span_of(text: &str, part: impl Fn(char) -> bool) -> usize {
    text.find(|c| !part(c)).unwrap_or(text.len())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn ends_in_word(text: &str) -> bool {
    text.chars().next_back().is_some_and(is_word)
}

/// Returns true if an apostrophe starts a Rust character literal, not a lifetime.
fn is_char_literal(rest: &str) -> bool {
    let mut inner = rest.chars().skip(1);
    match inner.next() {
        Some('\\') => true,
        Some(_) => inner.next() == Some('\''),
        None => false,
    }
}
