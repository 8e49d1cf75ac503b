//! Finds the parts of a reply that may be calls: bare values, fenced blocks, and the content of tool-call
//! tags.
//!
//! Passes over the text once. Skipped parts (code blocks in other languages, reasoning, broken objects) are never
//! examined again, so nothing inside them can be mistaken for a call.

use std::ops::ControlFlow;

use super::lenient_json::{self, SyntaxError};
use super::recognizer::{CallRecognizer, ReplyItem, SEGMENTS_MAX, ValueContext, begins_form};

/// Maximum length of a tool name in native tool-call markup, such as `<function=NAME>`, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// Maximum number of backticks that are counted in a fence. A longer fence counts as having this many.
const TICKS_MAX: usize = 8;

/// Number of backticks of the shortest fence.
const TICKS_MIN: usize = 3;

/// Opening and closing tags of calls in the native formats of some models.
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

/// Tags that begin a tool result. A result in a model's reply is always hallucinated.
const RESULT_MARKS: [&str; 4] = ["<tool_response>", "<|tool_response|>", "[TOOL_RESULTS]", "<|im_start|>"];

pub(super) struct ScanResult {
    /// Calls and answers, in order, without overlap.
    pub(super) segments: Vec<Segment>,
    /// The fenced shell block, if it is the only one and certainly complete.
    pub(super) block: Option<ShellBlock>,
    /// Byte offset at which the prose after the reasoning begins.
    pub(super) prose_from: usize,
}

/// A stretch of text that holds calls or answers.
pub(super) struct Segment {
    /// Offset of the first byte, including a fence or tool-call tag.
    pub(super) start: usize,
    /// Offset of the byte after the end.
    pub(super) end: usize,
    /// Calls and answers in this segment; at least one.
    pub(super) items: Vec<ReplyItem>,
    /// True if the segment is enclosed in a model's native tool-call tags.
    pub(super) marked: bool,
}

pub(super) struct ShellBlock {
    /// Offset of the first byte of the fence.
    pub(super) start: usize,
    pub(super) command: String,
}

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

/// Returns true if the text begins with a tool result. A result in a model's reply is always hallucinated.
pub(super) fn is_invented_result(text: &str) -> bool {
    if RESULT_MARKS.iter().any(|mark| text.starts_with(mark)) {
        return true;
    }
    let Some(rest) = text.strip_prefix("Observation").or_else(|| text.strip_prefix("observation")) else {
        return false;
    };
    rest.trim_start_matches(['*', ' ']).starts_with(':')
}

/// Text before the scanner's position on the current line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinePrefix {
    Blank,
    /// Only blanks, list or quote marks, and other segments.
    Markup,
    Text,
}

enum Candidate {
    Segment {
        end: usize,
        items: Vec<ReplyItem>,
        marked: bool,
    },
    /// Something other than a call or an answer; the scan continues at `end`.
    Other {
        end: usize,
    },
    /// A truncated or broken protocol form; nothing after it can be trusted.
    SyntaxError,
}

type ClosingFence = (usize, usize);

struct Scanner<'t, 'f> {
    text: &'t str,
    bytes: &'t [u8],
    recognizer: &'f CallRecognizer<'f>,
    at: usize,
    /// Offset of the first byte of the text that is not blank.
    first: usize,
    line: LinePrefix,
    /// True if a call on this line was a quotation. Later calls on the line are then quotations too.
    quoting: bool,
    /// True if a call was found, or a shell block that may be a call.
    called: bool,
    segments: Vec<Segment>,
    blocks: Vec<ShellBlock>,
    /// True if a fence, reasoning or an object was left unfinished.
    open: bool,
    prose_from: usize,
    /// Cache of the next closing fence, by number of backticks. `None`: not looked up; `Some(None)`: there is none.
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

    /// Returns true if a call was found and a hallucinated tool result begins here.
    fn invents(&self) -> bool {
        self.called && self.text.get(self.at..).is_some_and(is_invented_result)
    }

    fn reasoning(&self) -> bool {
        let rest = &self.bytes[self.at..];
        rest.starts_with(b"<think>") || rest.starts_with(b"</think>")
    }

    /// Skips reasoning. If the opening tag is missing, everything that was found before the closing tag is dropped.
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

    /// Returns true if a segment in prose is a call rather than a quotation.
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

    /// Parses the content of tool-call tags: one or more values, or `NAME{..}` as newer Mistral models write it.
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

    /// Parses `<function=NAME>{..}</function>`.
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

    /// Returns the tool name that precedes `{` or `[ARGS]{`, and the offset of the `{`.
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

    /// Parses a fence's body if it consists of calls and answers only. Returns the items, the end offset, and true if
    /// the block already ended at that offset, either by backticks on the same line or because a hallucinated
    /// result follows.
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

    /// Parses a segment inside a fence. If the fence begins the reply, the segment may name a tool that is not offered.
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

    /// Finds the line that closes a fence. Each line is visited at most once per number of backticks.
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

/// Handles a value that failed to parse: a broken call or answer ends the scan, and any other broken value is prose.
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
    /// JSON, call markup, plain text, or not specified.
    Data,
    Shell,
    Other,
}

struct Fence {
    ticks: usize,
    language: FenceLanguage,
    /// Byte offset of the content.
    body: usize,
}

impl Fence {
    /// Parses an opening fence at byte `at`. Returns `None` if the backticks form an inline code span.
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

/// Returns the code of a shell block. Returns `None` if the block is empty, if it is a transcript, or if it contains
/// another fence and so may be truncated.
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
