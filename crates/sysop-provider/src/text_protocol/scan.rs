//! Finds the places of a reply that may be calls: bare values, fenced blocks, and what stands between call marks.
//!
//! Goes through the text once. What it skips (foreign code blocks, reasoning, broken objects) is never looked into
//! again, so that nothing inside can be mistaken for a call.

use std::ops::ControlFlow;

use super::lenient_json::{self, SyntaxError};
use super::recognizer::{CallRecognizer, ReplyItem, SEGMENTS_MAX, ValueContext, begins_form};

/// Longest tool name in a call mark, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// Longest fence that is told from a shorter one, in backticks.
const TICKS_MAX: usize = 8;

/// Shortest fence, in backticks.
const TICKS_MIN: usize = 3;

/// Marks that open a call in the native formats of some models, with those that close it.
const MARKS: [(&str, &str); 8] = [
    ("<tool_call>", "</tool_call>"),
    ("<tool_calls>", "</tool_calls>"),
    ("<tools>", "</tools>"),
    ("<function_call>", "</function_call>"),
    ("<|tool_call|>", "<|/tool_call|>"),
    ("<|python_tag|>", "<|eom_id|>"),
    ("[TOOL_CALLS]", "[/TOOL_CALLS]"),
    ("functools", ""),
];

/// Marks of a result; a model that writes one has begun to invent.
const RESULT_MARKS: [&str; 4] = ["<tool_response>", "<|tool_response|>", "[TOOL_RESULTS]", "<|im_start|>"];

/// What a reply was found to hold.
pub(super) struct ScanResult {
    /// Calls and answers, in order; do not overlap.
    pub(super) segments: Vec<Segment>,
    /// The only fenced block of shell code, where it is whole beyond doubt.
    pub(super) block: Option<ShellBlock>,
    /// Where prose begins that is not reasoning.
    pub(super) prose_from: usize,
}

/// One stretch of text that is calls or answers.
pub(super) struct Segment {
    /// First byte, fence or mark included.
    pub(super) start: usize,
    /// Byte behind it.
    pub(super) end: usize,
    /// What it says; at least one.
    pub(super) items: Vec<ReplyItem>,
    /// Whether a model's own call marks stand around it.
    pub(super) marked: bool,
}

/// A fenced block of shell code.
pub(super) struct ShellBlock {
    /// First byte of the fence.
    pub(super) start: usize,
    /// The code.
    pub(super) command: String,
}

/// Goes through a reply.
pub(super) fn scan(text: &str, recognizer: &CallRecognizer<'_>) -> ScanResult {
    let mut scanner = Scanner {
        text,
        bytes: text.as_bytes(),
        recognizer,
        at: 0,
        first: text.len() - text.trim_start().len(),
        line: LinePrefix::Blank,
        quoting: false,
        called: false,
        segments: Vec::new(),
        blocks: Vec::new(),
        open: false,
        prose_from: 0,
        closes: [None; TICKS_MAX + 1],
    };
    while scanner.step().is_continue() {}
    let whole = !scanner.open && scanner.blocks.len() == 1;
    ScanResult {
        segments: scanner.segments,
        block: if whole { scanner.blocks.pop() } else { None },
        prose_from: scanner.prose_from,
    }
}

/// Whether a text begins with a result, which only an inventing model can have written.
pub(super) fn is_invented_result(text: &str) -> bool {
    if RESULT_MARKS.iter().any(|mark| text.starts_with(mark)) {
        return true;
    }
    let Some(rest) = text.strip_prefix("Observation").or_else(|| text.strip_prefix("observation")) else {
        return false;
    };
    rest.trim_start_matches(['*', ' ']).starts_with(':')
}

/// What stands before the scanner on its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinePrefix {
    /// Only blanks.
    Blank,
    /// Only blanks, list signs and other units.
    Markup,
    /// Words.
    Text,
}

enum Candidate {
    /// Ours.
    Segment { end: usize, items: Vec<ReplyItem>, marked: bool },
    /// Not ours; go on at `end`.
    Other { end: usize },
    /// A form of ours that is cut or broken; nothing behind it can be trusted.
    SyntaxError,
}

/// Byte range of a closing fence.
type ClosingFence = (usize, usize);

struct Scanner<'t, 'f> {
    text: &'t str,
    bytes: &'t [u8],
    recognizer: &'f CallRecognizer<'f>,
    at: usize,
    /// The first byte that is not blank.
    first: usize,
    line: LinePrefix,
    /// A call on this line was a quotation; so are the others.
    quoting: bool,
    /// A call was found, or a block that may be one.
    called: bool,
    segments: Vec<Segment>,
    blocks: Vec<ShellBlock>,
    /// Something did not end: a fence, reasoning, an object.
    open: bool,
    prose_from: usize,
    /// By number of backticks: the next closing fence as last looked up; `Some(None)` where there is none.
    closes: [Option<Option<ClosingFence>>; TICKS_MAX + 1],
}

impl Scanner<'_, '_> {
    fn step(&mut self) -> ControlFlow<()> {
        let Some(&byte) = self.bytes.get(self.at) else { return ControlFlow::Break(()) };
        if self.segments.len() >= SEGMENTS_MAX || (self.line != LinePrefix::Text && self.invents()) {
            return ControlFlow::Break(());
        }
        match byte {
            b'\n' => {
                self.at += 1;
                self.line = LinePrefix::Blank;
                self.quoting = false;
            }
            b'`' if self.line == LinePrefix::Blank && self.bytes[self.at..].starts_with(b"```") => {
                return self.fence();
            }
            b'<' if self.reasoning() => return self.skip_reasoning(),
            b'{' | b'[' | b'<' | b'f' => return self.candidate(),
            b' ' | b'\t' | b'\r' => self.at += 1,
            b'`' | b'*' | b'-' | b'>' | b'#' | b',' | b';' | b'.' | b')' | b'0'..=b'9' => {
                self.at += 1;
                if self.line == LinePrefix::Blank {
                    self.line = LinePrefix::Markup;
                }
            }
            _ => {
                self.at += 1;
                self.line = LinePrefix::Text;
            }
        }
        ControlFlow::Continue(())
    }

    /// Whether a result follows that the model made up after a call.
    fn invents(&self) -> bool {
        self.called && self.text.get(self.at..).is_some_and(is_invented_result)
    }

    fn reasoning(&self) -> bool {
        let rest = &self.bytes[self.at..];
        rest.starts_with(b"<think>") || rest.starts_with(b"</think>")
    }

    /// Reasoning is no reply. Its opening mark may be missing; what was found before the closing one is dropped then.
    fn skip_reasoning(&mut self) -> ControlFlow<()> {
        const CLOSE: &str = "</think>";
        if self.text[self.at..].starts_with(CLOSE) {
            self.segments.clear();
            self.blocks.clear();
            self.called = false;
        }
        let Some(found) = self.text[self.at..].find(CLOSE) else {
            self.open = true;
            return ControlFlow::Break(());
        };
        self.at += found + CLOSE.len();
        if self.segments.is_empty() {
            self.prose_from = self.at;
        }
        self.line = LinePrefix::Markup;
        ControlFlow::Continue(())
    }

    fn candidate(&mut self) -> ControlFlow<()> {
        let start = self.at;
        match self.segment_at(start, self.text.len()) {
            Candidate::Segment { end, items, marked } => {
                self.at = end;
                if self.stands_alone(start, end, marked) {
                    self.take(Segment { start, end, items, marked });
                } else {
                    self.quoting = true;
                    self.line = LinePrefix::Text;
                }
            }
            Candidate::Other { end } => {
                self.at = end;
                self.line = LinePrefix::Text;
            }
            Candidate::SyntaxError => {
                self.open = true;
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    fn take(&mut self, segment: Segment) {
        self.called |= segment.items.iter().any(|item| matches!(item, ReplyItem::Call(_)));
        self.segments.push(segment);
        self.line = LinePrefix::Markup;
    }

    /// Whether a unit in prose is a call and not a quotation.
    fn stands_alone(&self, start: usize, end: usize, marked: bool) -> bool {
        if self.quoting {
            return false;
        }
        let after = self.text[end..].trim_start_matches([' ', '\t', '\r', '`', ',', ';']);
        let ends_line = after.is_empty() || after.starts_with(['\n', '{', '[', '<']);
        let before = &self.text[..start];
        if before.ends_with('`') || self.bytes.get(end) == Some(&b'`') {
            return self.line != LinePrefix::Text && ends_line;
        }
        let before = before.trim_end_matches([' ', '\t']);
        let in_expression = before.ends_with(['=', '(', '[', '"', '\''])
            || before.strip_suffix(':').is_some_and(|key| key.ends_with(['"', '\'']));
        marked || self.line != LinePrefix::Text || (ends_line && !in_expression)
    }

    fn segment_at(&self, at: usize, limit: usize) -> Candidate {
        match self.bytes[at] {
            b'<' if self.bytes[at..limit].starts_with(b"<function=") => self.named_mark(at, limit),
            b'<' | b'f' => self.mark(at, limit),
            b'[' if self.bytes[at..limit].starts_with(b"[TOOL_CALLS]") => self.mark(at, limit),
            b'[' if self.bytes.get(self.skip_blank(at + 1, limit)) != Some(&b'{') => {
                Candidate::Other { end: at + 1 }
            }
            _ => self.bare(at, limit),
        }
    }

    fn bare(&self, at: usize, limit: usize) -> Candidate {
        match lenient_json::read(&self.text[..limit], at) {
            Ok((value, end)) => {
                let alone = at <= self.first && self.text[end..].trim_start().is_empty();
                let context = if alone { ValueContext::Whole } else { ValueContext::Embedded };
                match self.recognizer.recognize(&value, context) {
                    Some(items) => Candidate::Segment { end, items, marked: false },
                    None => Candidate::Other { end },
                }
            }
            Err(failure) => after_failure(at, &failure),
        }
    }

    /// A call between marks: one or more values, or `NAME{..}` as newer Mistral models write it.
    fn mark(&self, at: usize, limit: usize) -> Candidate {
        let rest = &self.text[at..limit];
        let Some((open, close)) = MARKS.iter().find(|(open, _)| rest.starts_with(open)) else {
            return Candidate::Other { end: at + 1 };
        };
        let inside = at + open.len();
        let mut from = self.skip_blank(inside, limit);
        if *open == "functools" && self.bytes.get(from) != Some(&b'[') {
            return Candidate::Other { end: inside };
        }
        if *open == "[TOOL_CALLS]"
            && let Some((name, arguments)) = self.name_before(from, limit)
        {
            return self.named_call(name, arguments, "", limit);
        }
        let mut items = Vec::new();
        while items.len() < SEGMENTS_MAX && matches!(self.bytes[..limit].get(from), Some(b'{' | b'[')) {
            match lenient_json::read(&self.text[..limit], from) {
                Ok((value, end)) => match self.recognizer.recognize(&value, ValueContext::Marked) {
                    Some(found) => {
                        items.extend(found);
                        from = self.skip_blank(end, limit);
                    }
                    None => return Candidate::Other { end },
                },
                Err(failure) => return after_failure(from, &failure),
            }
        }
        if items.is_empty() {
            return Candidate::Other { end: inside };
        }
        Candidate::Segment { end: self.behind(from, close, limit), items, marked: true }
    }

    /// `<function=NAME>{..}</function>`.
    fn named_mark(&self, at: usize, limit: usize) -> Candidate {
        let inside = at + "<function=".len();
        let name_end = (inside..limit.min(inside + NAME_BYTES_MAX + 1)).find(|&end| self.bytes[end] == b'>');
        let Some(name_end) = name_end else { return Candidate::Other { end: inside } };
        let name = &self.text[inside..name_end];
        self.named_call(name, self.skip_blank(name_end + 1, limit), "</function>", limit)
    }

    fn named_call(&self, name: &str, at: usize, close: &str, limit: usize) -> Candidate {
        if self.bytes[..limit].get(at) != Some(&b'{') {
            return Candidate::Other { end: at };
        }
        match lenient_json::read(&self.text[..limit], at) {
            Ok((arguments, end)) => match self.recognizer.marked(name, &arguments) {
                Some(item) => {
                    let end = self.behind(self.skip_blank(end, limit), close, limit);
                    Candidate::Segment { end, items: vec![item], marked: true }
                }
                None => Candidate::Other { end },
            },
            Err(failure) => after_failure(at, &failure),
        }
    }

    /// A tool's name that stands before `{` or `[ARGS]{`, with the position of the `{`.
    fn name_before(&self, at: usize, limit: usize) -> Option<(&str, usize)> {
        let length = self.bytes[at..limit]
            .iter()
            .take(NAME_BYTES_MAX + 1)
            .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
            .count();
        let name = &self.text[at..at + length];
        let mut from = at + length;
        if self.bytes[from..limit].starts_with(b"[ARGS]") {
            from += "[ARGS]".len();
        }
        (length > 0 && self.bytes[..limit].get(from) == Some(&b'{')).then_some((name, from))
    }

    fn fence(&mut self) -> ControlFlow<()> {
        let start = self.at;
        let Some(fence) = Fence::at(self.text, start) else {
            self.at += self.bytes[start..].iter().take_while(|byte| **byte == b'`').count();
            self.line = LinePrefix::Markup;
            return ControlFlow::Continue(());
        };
        let close = self.close(&fence);
        let limit = close.map_or(self.text.len(), |(from, _)| from);
        let behind = close.map_or(self.text.len(), |(_, to)| to);
        self.line = LinePrefix::Markup;
        if fence.language != FenceLanguage::Other
            && let Some((items, end, closed)) = self.only_segments(fence.body, limit, start)
        {
            self.at = if closed { end } else { behind };
            self.take(Segment { start, end: self.at, items, marked: false });
            return ControlFlow::Continue(());
        }
        if close.is_none() {
            self.open = true;
            return ControlFlow::Break(());
        }
        if fence.language == FenceLanguage::Shell {
            match block_command(&self.text[fence.body..limit]) {
                Some(command) => {
                    self.blocks.push(ShellBlock { start, command });
                    self.called = true;
                }
                None => self.open = true,
            }
        }
        self.at = behind;
        ControlFlow::Continue(())
    }

    /// Reads a fence's body if it is calls and answers and nothing else. Gives where they end and whether the block
    /// ended there too: by backticks on the same line, or because an invented result follows.
    fn only_segments(
        &self,
        from: usize,
        limit: usize,
        start: usize,
    ) -> Option<(Vec<ReplyItem>, usize, bool)> {
        let mut items: Vec<ReplyItem> = Vec::new();
        let mut at = from;
        loop {
            at = self.skip_blank(at, limit);
            let rest = &self.text[at..limit];
            if rest.is_empty() {
                return (!items.is_empty()).then_some((items, at, false));
            }
            let ticks = rest.bytes().take_while(|byte| *byte == b'`').count();
            if !items.is_empty() && (ticks >= TICKS_MIN || is_invented_result(rest)) {
                return Some((items, at + ticks, true));
            }
            match rest.as_bytes()[0] {
                b',' | b';' if !items.is_empty() => at += 1,
                b'{' | b'[' | b'<' | b'f' if items.len() < SEGMENTS_MAX => {
                    match self.fenced_segment(at, limit, start) {
                        Candidate::Segment { end, items: found, .. } => {
                            items.extend(found);
                            at = end;
                        }
                        Candidate::Other { .. } | Candidate::SyntaxError => return None,
                    }
                }
                _ => return None,
            }
        }
    }

    /// A unit inside a fence; one that begins the reply and is all of the fence needs no offered name.
    fn fenced_segment(&self, at: usize, limit: usize, start: usize) -> Candidate {
        if matches!(self.bytes[at], b'{') && start <= self.first {
            return match lenient_json::read(&self.text[..limit], at) {
                Ok((value, end)) => match self.recognizer.recognize(&value, ValueContext::Whole) {
                    Some(items) => Candidate::Segment { end, items, marked: false },
                    None => Candidate::Other { end },
                },
                Err(failure) => after_failure(at, &failure),
            };
        }
        self.segment_at(at, limit)
    }

    /// Finds the line that closes a fence; looks at each line once for each number of backticks.
    fn close(&mut self, fence: &Fence) -> Option<ClosingFence> {
        let slot = &mut self.closes[fence.ticks.min(TICKS_MAX)];
        match *slot {
            Some(known) if known.is_none_or(|(from, _)| from >= fence.body) => known,
            _ => {
                let found = find_close(self.text, fence.body, fence.ticks.min(TICKS_MAX));
                *slot = Some(found);
                found
            }
        }
    }

    fn behind(&self, at: usize, close: &str, limit: usize) -> usize {
        if self.text[at..limit].starts_with(close) { at + close.len() } else { at }
    }

    fn skip_blank(&self, from: usize, limit: usize) -> usize {
        let blank = self.bytes[from..limit].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        from + blank
    }
}

/// A broken form of ours ends the search; any other broken value is prose.
fn after_failure(start: usize, failure: &lenient_json::JsonError) -> Candidate {
    match failure.kind {
        SyntaxError::Truncated | SyntaxError::TooDeep => Candidate::SyntaxError,
        SyntaxError::Malformed if failure.first_key.as_deref().is_some_and(begins_form) => {
            Candidate::SyntaxError
        }
        SyntaxError::Malformed => Candidate::Other { end: failure.at.max(start + 1) },
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FenceLanguage {
    /// JSON, a mark-up of calls, or not said.
    Data,
    /// A POSIX shell.
    Shell,
    /// Any other.
    Other,
}

struct Fence {
    ticks: usize,
    language: FenceLanguage,
    /// Where its content begins.
    body: usize,
}

impl Fence {
    /// Reads an opening fence that begins at `at`; none where the backticks are an inline code span.
    fn at(text: &str, at: usize) -> Option<Self> {
        let rest = &text[at..];
        let ticks = rest.bytes().take_while(|byte| *byte == b'`').count();
        let info = &rest[ticks..];
        let named =
            info.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || b"_+-#.".contains(byte)).count();
        let language = match info[..named].to_ascii_lowercase().as_str() {
            "" | "json" | "jsonc" | "json5" | "xml" | "tool_call" | "tool_code" | "text" | "plaintext" => {
                FenceLanguage::Data
            }
            "sh" | "bash" | "shell" => FenceLanguage::Shell,
            _ => FenceLanguage::Other,
        };
        let line = info[named..].split('\n').next().unwrap_or_default();
        let blank = line.len() - line.trim_start().len();
        let body = at + ticks + named;
        if line[blank..].starts_with(['{', '[', '<']) && language == FenceLanguage::Data {
            return Some(Self { ticks, language, body: body + blank });
        }
        if line.contains('`') {
            return None;
        }
        Some(Self { ticks, language, body: (body + line.len() + 1).min(text.len()) })
    }
}

fn find_close(text: &str, from: usize, ticks: usize) -> Option<ClosingFence> {
    let mut at = from;
    for line in text[from..].split_inclusive('\n') {
        let bare = line.trim();
        if bare.len() >= ticks && bare.bytes().all(|byte| byte == b'`') {
            return Some((at, at + line.trim_end().len()));
        }
        at += line.len();
    }
    None
}

/// The code of a fenced shell block; none where it is empty, a transcript, or holds another fence and so may be cut.
fn block_command(body: &str) -> Option<String> {
    let body = body.trim_matches(['\n', '\r']).trim_end();
    let first = body.split('\n').next()?;
    let indent = first.len() - first.trim_start_matches([' ', '\t']).len();
    let mut lines = Vec::new();
    for line in body.split('\n') {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.trim_start().starts_with("```") {
            return None;
        }
        let shift = line.bytes().take(indent).take_while(u8::is_ascii_whitespace).count();
        lines.push(&line[shift..]);
    }
    let prompts = lines.iter().filter(|line| line.starts_with("$ ")).count();
    if prompts > 0 {
        return match lines.as_slice() {
            [only] => {
                only.strip_prefix("$ ").map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned)
            }
            _ => None,
        };
    }
    let says_something =
        lines.iter().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
    says_something.then(|| lines.join("\n"))
}
