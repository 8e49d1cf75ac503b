//! Colours code, a line at a time. It reads comments, texts, numbers and words by the tables of `language`, not the
//! grammar: a few kilobytes, nothing to load, and the same for half a file as for a whole one
//! (`docs/adr/0012-highlight-by-tables.md`).

mod language;

use ratatui::style::Style;

use super::cells::Span;
use super::theme::{Ink, Theme};

pub use language::Language;
use language::{Form, Quote};

/// A line longer than this many bytes is not coloured.
const LINE_BYTES_MAX: usize = 4 * 1024;

/// What the next line begins within.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Nothing,
    /// A comment that ends with this.
    Comment(&'static str),
    /// A text that ends with its quote.
    Text(Quote),
}

/// Colours the lines of one text, in their order.
#[derive(Debug, Clone)]
pub struct Highlighter {
    language: Option<&'static Language>,
    within: Within,
}

impl Highlighter {
    /// For a language; without one nothing is coloured.
    pub fn new(language: Option<&'static Language>) -> Self {
        Self { language, within: Within::Nothing }
    }

    /// Colours the next line.
    pub fn line(&mut self, line: &str, theme: Theme, base: Style) -> Vec<Span> {
        let mut spans = Vec::new();
        self.parts(line, &mut |text, ink| {
            let style = ink.map_or(base, |ink| base.patch(theme.style(ink)));
            spans.push(Span::new(text, style));
        });
        spans
    }

    /// Cuts the next line into parts of one ink each; together they are the line.
    pub fn parts<'a>(&mut self, line: &'a str, put: &mut impl FnMut(&'a str, Option<Ink>)) {
        let Some(language) = self.language.filter(|_| line.len() <= LINE_BYTES_MAX) else {
            put(line, None);
            return;
        };
        if let Some(ink) = whole_line(language, line) {
            put(line, Some(ink));
            return;
        }
        let mut parts = Parts { line, plain: 0, put };
        let mut at = 0;
        while at < line.len() {
            let token = self.token(language, line, at);
            parts.token(at, at + token.length, token.ink);
            at += token.length;
        }
        parts.plain_until(line.len());
    }

    fn token(&mut self, language: &'static Language, line: &str, at: usize) -> Token {
        let rest = &line[at..];
        match self.within {
            Within::Comment(end) => {
                let length = rest.find(end).map(|found| found + end.len());
                if length.is_some() {
                    self.within = Within::Nothing;
                }
                return Token::of(length.unwrap_or(rest.len()), Ink::Comment);
            }
            Within::Text(quote) => {
                let (length, ended) = quote.end_in(rest);
                if ended {
                    self.within = Within::Nothing;
                }
                return Token::of(length, Ink::String);
            }
            Within::Nothing => {}
        }
        if let Some(token) = self.comment(language, line, at).or_else(|| self.quoted(language, line, at)) {
            return token;
        }
        let first = rest.chars().next().unwrap_or(' ');
        if first == '$' && language.dollar {
            return Token::of(variable(rest), Ink::Variable);
        }
        if first.is_ascii_digit() {
            let number = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
            return Token::of(span_of(rest, number), Ink::Number);
        }
        if language.attributes.contains(first) && !first.is_whitespace() {
            let length = first.len_utf8()
                + span_of(&rest[first.len_utf8()..], |c| is_word(c) || matches!(c, '!' | '['));
            return Token::of(length, Ink::Meta);
        }
        if is_word(first) {
            return word(language, line, at);
        }
        Token { length: first.len_utf8(), ink: None }
    }

    fn comment(&mut self, language: &'static Language, line: &str, at: usize) -> Option<Token> {
        let rest = &line[at..];
        if language.line_comments.iter().any(|mark| begins_comment(mark, line, at)) {
            return Some(Token::of(rest.len(), Ink::Comment));
        }
        let (open, close) = language.block_comment.filter(|(open, _)| rest.starts_with(open))?;
        match rest[open.len()..].find(close) {
            Some(found) => Some(Token::of(open.len() + found + close.len(), Ink::Comment)),
            None => {
                self.within = Within::Comment(close);
                Some(Token::of(rest.len(), Ink::Comment))
            }
        }
    }

    fn quoted(&mut self, language: &'static Language, line: &str, at: usize) -> Option<Token> {
        let rest = &line[at..];
        let quote = *language.quotes.iter().find(|quote| rest.starts_with(quote.mark))?;
        // An apostrophe within a word quotes nothing, nor does the one of a lifetime.
        if quote.mark == "'" && (ends_in_word(&line[..at]) || language.is_rust() && !is_char_literal(rest)) {
            return Some(Token { length: 1, ink: None });
        }
        let mark = quote.mark.len();
        let (length, ended) = quote.end_in(&rest[mark..]);
        if !ended {
            if quote.lines {
                self.within = Within::Text(quote);
            } else if quote.mark == "'" {
                return Some(Token { length: mark, ink: None });
            }
        }
        let after = rest[mark + length..].trim_start();
        let ink = match language.form {
            Form::Json | Form::Yaml if after.starts_with(':') => Ink::Key,
            Form::Code | Form::Json | Form::Yaml | Form::Assignments | Form::Diff | Form::Directives => {
                Ink::String
            }
        };
        Some(Token::of(mark + length, ink))
    }
}

struct Token {
    length: usize,
    ink: Option<Ink>,
}

impl Token {
    fn of(length: usize, ink: Ink) -> Self {
        Self { length, ink: Some(ink) }
    }
}

/// Joins what is not coloured.
struct Parts<'a, 'p, P> {
    line: &'a str,
    plain: usize,
    put: &'p mut P,
}

impl<'a, P: FnMut(&'a str, Option<Ink>)> Parts<'a, '_, P> {
    fn token(&mut self, start: usize, end: usize, ink: Option<Ink>) {
        if ink.is_some() {
            self.plain_until(start);
            (self.put)(&self.line[start..end], ink);
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

/// The ink of lines that are of one kind as a whole.
fn whole_line(language: &Language, line: &str) -> Option<Ink> {
    let text = line.trim_start();
    match language.form {
        Form::Diff => match line.as_bytes().first() {
            _ if line.starts_with("+++") || line.starts_with("---") => Some(Ink::Meta),
            Some(b'+') => Some(Ink::Added),
            Some(b'-') => Some(Ink::Removed),
            Some(b'@') => Some(Ink::Key),
            _ if line.starts_with("diff ") || line.starts_with("index ") => Some(Ink::Meta),
            Some(_) | None => None,
        },
        Form::Assignments if text.starts_with('[') && text.trim_end().ends_with(']') => Some(Ink::Meta),
        Form::Code | Form::Json | Form::Yaml | Form::Assignments | Form::Directives => None,
    }
}

fn word(language: &Language, line: &str, at: usize) -> Token {
    let rest = &line[at..];
    let dashes = matches!(language.form, Form::Yaml | Form::Assignments | Form::Directives) || language.shell;
    let length = span_of(rest, |c| is_word(c) || (dashes && matches!(c, '-' | '.')));
    let (word, before, after) = (&rest[..length], &line[..at], &rest[length..]);
    let first = before.trim().is_empty() || (language.form == Form::Yaml && before.trim() == "-");
    let keyed = match language.form {
        Form::Yaml => after.starts_with(':') && (after.len() == 1 || after[1..].starts_with(' ')),
        Form::Assignments => first && after.trim_start().starts_with(['=', ':']),
        Form::Code | Form::Json | Form::Diff | Form::Directives => false,
    };
    let said = |words: &str| {
        words.split(' ').any(|known| known == word || language.any_case && known.eq_ignore_ascii_case(word))
    };
    let ink = if keyed {
        Some(Ink::Key)
    } else if said(language.values) {
        Some(Ink::Number)
    } else if said(language.keywords) || (language.form == Form::Directives && first) {
        Some(Ink::Keyword)
    } else if language.shell {
        let commands = before.trim_end();
        let called = first || commands.ends_with(['|', ';', '&', '(', '`']) || commands.ends_with("$ ");
        match called {
            true if after.starts_with('=') => Some(Ink::Variable),
            true => Some(Ink::Function),
            false => None,
        }
    } else if language.form == Form::Code && after.starts_with('(') {
        Some(Ink::Function)
    } else if language.form == Form::Code && language.types && word.starts_with(char::is_uppercase) {
        Some(Ink::Type)
    } else {
        None
    };
    Token { length, ink }
}

fn begins_comment(mark: &str, line: &str, at: usize) -> bool {
    // In a shell and its kin `#` comments only at the beginning of a word.
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

/// Whether what begins with an apostrophe is a character of Rust and not a lifetime.
fn is_char_literal(rest: &str) -> bool {
    let mut inner = rest.chars().skip(1);
    match inner.next() {
        Some('\\') => true,
        Some(_) => inner.next() == Some('\''),
        None => false,
    }
}
