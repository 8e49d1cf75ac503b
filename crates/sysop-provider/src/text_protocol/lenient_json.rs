//! Lenient parser of one JSON value. Accepts typical mistakes of small models, but never guesses missing parts.
//!
//! Beyond RFC 8259 it accepts single-quoted strings, a trailing comma, raw line breaks in strings, escapes unknown to
//! JSON (`\'` means the quote; any other unknown escape keeps its backslash), and `True`, `False` and `None`.

use serde_json::{Map, Number, Value};

/// Maximum nesting depth; a deeper value is an error. Prevents a stack overflow by the recursion.
pub(super) const DEPTH_MAX: usize = 64;

/// Failure to parse a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct JsonError {
    /// Byte offset of the error; never before the value's start.
    pub(super) at: usize,
    pub(super) kind: SyntaxError,
    /// First key of the outermost object, if the parser got that far.
    pub(super) first_key: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SyntaxError {
    /// The text ended inside the value.
    Truncated,
    /// A character is invalid at this position.
    Malformed,
    /// Nested deeper than [`DEPTH_MAX`].
    TooDeep,
}

/// Parses the value that begins at byte `at`. Returns the value and the byte offset after it.
pub(super) fn read(text: &str, at: usize) -> Result<(Value, usize), JsonError> {
    let mut reader = JsonReader { text, bytes: text.as_bytes(), at, first_key: None };
    match reader.value(0) {
        Ok(value) => Ok((value, reader.at)),
        Err(kind) => Err(JsonError { at: reader.at, kind, first_key: reader.first_key }),
    }
}

/// Parses text that consists of exactly one value; `None` if it does not.
pub(super) fn read_whole(text: &str) -> Option<Value> {
    let text = text.trim();
    let (value, end) = read(text, 0).ok()?;
    (end == text.len()).then_some(value)
}

struct JsonReader<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    first_key: Option<String>,
}

impl JsonReader<'_> {
    fn value(&mut self, depth: usize) -> Result<Value, SyntaxError> {
        match self.peek()? {
            b'{' | b'[' if depth >= DEPTH_MAX => Err(SyntaxError::TooDeep),
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            quote @ (b'"' | b'\'') => self.string(quote).map(Value::String),
            b'-' | b'0'..=b'9' => self.number(),
            _ => self.word(),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, SyntaxError> {
        self.at += 1;
        let mut map = Map::new();
        loop {
            match self.skip_blank()? {
                b'}' => break,
                quote @ (b'"' | b'\'') => {
                    let key = self.string(quote)?;
                    if self.first_key.is_none() {
                        self.first_key = Some(key.clone());
                    }
                    if self.skip_blank()? != b':' {
                        return Err(SyntaxError::Malformed);
                    }
                    self.at += 1;
                    self.skip_blank()?;
                    let value = self.value(depth + 1)?;
                    map.insert(key, value);
                }
                _ => return Err(SyntaxError::Malformed),
            }
            match self.skip_blank()? {
                b',' => self.at += 1,
                b'}' => break,
                _ => return Err(SyntaxError::Malformed),
            }
        }
        self.at += 1;
        Ok(Value::Object(map))
    }

    fn array(&mut self, depth: usize) -> Result<Value, SyntaxError> {
        self.at += 1;
        let mut values = Vec::new();
        loop {
            if self.skip_blank()? == b']' {
                break;
            }
            values.push(self.value(depth + 1)?);
            match self.skip_blank()? {
                b',' => self.at += 1,
                b']' => break,
                _ => return Err(SyntaxError::Malformed),
            }
        }
        self.at += 1;
        Ok(Value::Array(values))
    }

    fn string(&mut self, quote: u8) -> Result<String, SyntaxError> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let plain = self.bytes[self.at..].iter().position(|&byte| byte == quote || byte == b'\\');
            let Some(plain) = plain else {
                self.at = self.bytes.len();
                return Err(SyntaxError::Truncated);
            };
            out.push_str(&self.text[self.at..self.at + plain]);
            self.at += plain;
            if self.bytes[self.at] == quote {
                self.at += 1;
                return Ok(out);
            }
            self.escape(&mut out)?;
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<(), SyntaxError> {
        self.at += 1;
        let sign = match self.peek()? {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            byte @ (b'"' | b'\'' | b'\\' | b'/') => char::from(byte),
            b'u' => return self.unicode(out),
            _ => {
                // The character itself follows as plain text, so that a multi-byte one is not split.
                out.push('\\');
                return Ok(());
            }
        };
        out.push(sign);
        self.at += 1;
        Ok(())
    }

    fn unicode(&mut self, out: &mut String) -> Result<(), SyntaxError> {
        let first = self.hex()?;
        let pair = matches!(first, 0xD800..=0xDBFF) && self.bytes[self.at..].starts_with(b"\\u");
        if !pair {
            out.push(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
            return Ok(());
        }
        self.at += 1;
        let second = self.hex()?;
        if matches!(second, 0xDC00..=0xDFFF) {
            let code = 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00);
            out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        } else {
            out.push(char::REPLACEMENT_CHARACTER);
            out.push(char::from_u32(second).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        Ok(())
    }

    /// Parses the `uXXXX` of an escape, starting at the `u`.
    fn hex(&mut self) -> Result<u32, SyntaxError> {
        self.at += 1;
        let mut code = 0;
        for _ in 0..4 {
            let digit = char::from(self.peek()?).to_digit(16).ok_or(SyntaxError::Malformed)?;
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }

    fn number(&mut self) -> Result<Value, SyntaxError> {
        let rest = &self.bytes[self.at..];
        let length = rest
            .iter()
            .position(|byte| !matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'))
            .ok_or(SyntaxError::Truncated)?;
        let number: Number = serde_json::from_str(&self.text[self.at..self.at + length])
            .map_err(|_| SyntaxError::Malformed)?;
        self.at += length;
        Ok(Value::Number(number))
    }

    fn word(&mut self) -> Result<Value, SyntaxError> {
        const WORDS: [(&str, Value); 6] = [
            ("true", Value::Bool(true)),
            ("True", Value::Bool(true)),
            ("false", Value::Bool(false)),
            ("False", Value::Bool(false)),
            ("null", Value::Null),
            ("None", Value::Null),
        ];
        let rest = &self.bytes[self.at..];
        for (word, value) in WORDS {
            if rest.starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
            if word.as_bytes().starts_with(rest) {
                return Err(SyntaxError::Truncated);
            }
        }
        Err(SyntaxError::Malformed)
    }

    fn peek(&self) -> Result<u8, SyntaxError> {
        self.bytes.get(self.at).copied().ok_or(SyntaxError::Truncated)
    }

    fn skip_blank(&mut self) -> Result<u8, SyntaxError> {
        while self.peek()?.is_ascii_whitespace() {
            self.at += 1;
        }
        self.peek()
    }
}
