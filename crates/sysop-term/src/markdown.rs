//! Streaming Markdown. Text is split into chunks. Later text cannot change a finished chunk, so each is laid
//! out once; only the open chunk is laid out again as it grows. The rows do not depend on the pieces in which
//! the text arrived.
//!
//! A chunk is a paragraph, a heading, a table, a quote, a list item with everything in it, or a line of a code block.
//! Within a chunk the text is CommonMark (with tables, tasks and strikethrough). Constructs across chunks, such as a
//! link definition at the end of the text, are shown verbatim.

mod blocks;
mod line;
mod stream;
mod table;

pub use stream::MarkdownStream;

use ratatui::style::Style;

use self::line::{CodeFence, LineStart};
use crate::cells::{Span, TextRow, width, wrap_command};
use crate::code::{Highlighter, Language};
use crate::theme::{StyleRole, Theme};

/// Maximum length of a line in bytes; a longer line is parsed in parts.
const LINE_BYTES_MAX: usize = 4 * 1024;
/// Number of bytes after which a chunk ends at the next newline.
const CHUNK_BYTES_MAX: usize = 8 * 1024;
/// Minimum width of code, in columns, for it to have a gutter.
const GUTTER_COLUMNS_MIN: usize = 8;

/// Rows of a Markdown text that is still streaming in. Only the unfinished tail is laid out again.
#[derive(Debug, Clone)]
pub struct MarkdownDocument {
    markdown_style: MarkdownStyle,
    /// Complete lines processed so far. Used to detect that unrelated text is passed.
    read: String,
    parser: ChunkParser,
    rows: Vec<TextRow>,
    tail: Vec<TextRow>,
    settled: bool,
}

/// Layout parameters shared by all parts of a document.
#[derive(Debug, Clone, Copy)]
pub(super) struct MarkdownStyle {
    /// Cells per row.
    pub(super) columns: usize,
    pub(super) theme: Theme,
    pub(super) base: Style,
    /// True if link targets are written out, because the output cannot be clicked.
    pub(super) write_targets: bool,
}

impl MarkdownStyle {
    pub(super) fn style(&self, role: StyleRole) -> Style {
        self.base.patch(self.theme.style(role))
    }

    pub(super) fn narrower(&self, by: usize) -> Self {
        Self { columns: self.columns.saturating_sub(by).max(1), ..*self }
    }
}

/// State of the parser at its position.
#[derive(Debug, Clone, Default)]
struct ChunkParser {
    open: OpenBlock,
    last: Option<ChunkKind>,
    /// True if an empty line followed the last chunk.
    blank: bool,
    /// Number of the next item in the current numbered list, and its delimiter.
    next: Option<(u64, char)>,
}

#[derive(Debug, Clone, Default)]
enum OpenBlock {
    #[default]
    Nothing,
    Chunk(Chunk),
    Code(CodeFence, Highlighter),
}

#[derive(Debug, Clone)]
struct Chunk {
    kind: ChunkKind,
    /// Byte offset of the chunk's start in the text.
    start: usize,
    /// Byte offset of the end of the chunk's last non-empty line.
    end: usize,
    /// Fence of the code block that is open within a list item, if any.
    fence: Option<CodeFence>,
    /// True if the chunk's last line is empty.
    blank: bool,
    /// True if the chunk continues one that was split because it was too long.
    cut: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkKind {
    Paragraph,
    Heading,
    Rule,
    Quote,
    /// A list item: its indent, the column of its text, and its number with delimiter.
    Item {
        indent: usize,
        content: usize,
        number: Option<(u64, char)>,
    },
    Code,
}

impl MarkdownDocument {
    pub fn new(columns: usize, theme: Theme, base: Style) -> Self {
        Self::with_style(MarkdownStyle { columns: columns.max(1), theme, base, write_targets: false })
    }

    fn with_style(markdown_style: MarkdownStyle) -> Self {
        Self {
            markdown_style,
            read: String::new(),
            parser: ChunkParser::default(),
            rows: Vec::new(),
            tail: Vec::new(),
            settled: false,
        }
    }

    /// Creates a document and lays out the whole text.
    pub fn of(text: &str, columns: usize, theme: Theme, base: Style) -> Self {
        let mut document = Self::new(columns, theme, base);
        document.update(text);
        document
    }

    /// Lays out text, which is usually the previous text with more at its end.
    pub fn update(&mut self, text: &str) {
        if self.settled || !text.starts_with(self.read.as_str()) {
            *self = Self::with_style(self.markdown_style);
        }
        let mut at = self.read.len();
        while let Some(length) = whole_line(&text[at..]) {
            self.parser.line(text, at, at + length, &self.markdown_style, &mut self.rows);
            at += length;
        }
        self.read.push_str(&text[self.read.len()..at]);
        self.tail = self.open_layout(text);
    }

    /// Lays out the part of the text that may still change, and returns its rows.
    fn open_layout(&self, text: &str) -> Vec<TextRow> {
        let (at, mut out) = (self.read.len(), Vec::new());
        let mut parser = self.parser.clone();
        if at < text.len() {
            parser.line(text, at, text.len(), &self.markdown_style, &mut out);
        }
        parser.finish(text, &self.markdown_style, &mut out);
        out
    }

    /// Marks the text as complete, and frees the data that is needed only if more text follows.
    pub fn settle(&mut self) {
        self.read = String::new();
        self.rows.append(&mut self.tail);
        self.settled = true;
    }

    /// Returns the number of rows at the end that may still change.
    pub fn open_rows(&self) -> usize {
        self.tail.len()
    }

    pub fn len(&self) -> usize {
        self.rows.len() + self.tail.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn row(&self, at: usize) -> Option<&TextRow> {
        self.rows.get(at).or_else(|| self.tail.get(at.checked_sub(self.rows.len())?))
    }
}

/// Returns the length of the first line in bytes, including its newline, or `None` if the line may still grow. A line
/// that is too long is split after the last space before the limit.
fn whole_line(text: &str) -> Option<usize> {
    let head = &text.as_bytes()[..text.len().min(LINE_BYTES_MAX)];
    if let Some(at) = head.iter().position(|b| *b == b'\n') {
        return Some(at + 1);
    }
    if text.len() <= LINE_BYTES_MAX {
        return None;
    }
    let limit = text.floor_char_boundary(LINE_BYTES_MAX);
    Some(text[..limit].rfind(' ').filter(|at| *at > LINE_BYTES_MAX / 2).map_or(limit, |at| at + 1))
}

impl ChunkParser {
    /// Processes the line between two byte offsets.
    fn line(
        &mut self,
        text: &str,
        start: usize,
        end: usize,
        markdown_style: &MarkdownStyle,
        out: &mut Vec<TextRow>,
    ) {
        let line = &text[start..end];
        let line = line.strip_suffix('\n').unwrap_or(line);
        let line = line.strip_suffix('\r').unwrap_or(line);
        match &mut self.open {
            OpenBlock::Code(fence, highlighter) => {
                if fence.closed_by(line) {
                    self.open = OpenBlock::Nothing;
                    (self.last, self.blank) = (Some(ChunkKind::Code), false);
                } else {
                    code_rows(fence.content(line), highlighter, markdown_style, out);
                }
            }
            OpenBlock::Chunk(chunk) => {
                if chunk.goes_on(line) {
                    chunk.blank = line.trim().is_empty();
                    if !chunk.blank {
                        chunk.end = end;
                    }
                    if end - chunk.start > CHUNK_BYTES_MAX {
                        self.cut(text, end, markdown_style, out);
                    }
                    return;
                }
                self.finish(text, markdown_style, out);
                self.begin(text, line, (start, end), markdown_style, out);
            }
            OpenBlock::Nothing => self.begin(text, line, (start, end), markdown_style, out),
        }
    }

    fn begin(
        &mut self,
        text: &str,
        line: &str,
        (start, end): (usize, usize),
        markdown_style: &MarkdownStyle,
        out: &mut Vec<TextRow>,
    ) {
        if line.trim().is_empty() {
            self.blank = true;
            return;
        }
        let kind = match line::start(line) {
            LineStart::CodeFence(fence, language) => {
                self.gap(ChunkKind::Code, out);
                self.open = OpenBlock::Code(fence, Highlighter::new(Language::named(language)));
                return;
            }
            LineStart::Heading => ChunkKind::Heading,
            LineStart::Rule => ChunkKind::Rule,
            LineStart::Quote => ChunkKind::Quote,
            LineStart::Item { indent, content, number } => {
                ChunkKind::Item { indent, content, number: self.number(number) }
            }
            LineStart::Text => ChunkKind::Paragraph,
        };
        let mut chunk = Chunk { kind, start, end, fence: None, blank: false, cut: false };
        if let ChunkKind::Item { content, .. } = kind {
            chunk.fence = line.get(content..).and_then(line::fence).map(|(fence, _)| fence);
        }
        self.open = OpenBlock::Chunk(chunk);
        if matches!(kind, ChunkKind::Heading | ChunkKind::Rule) {
            self.finish(text, markdown_style, out);
        }
    }

    /// Returns the number of a list item. In a continued list, this is the next number, whatever number is written.
    fn number(&self, written: Option<(u64, char)>) -> Option<(u64, char)> {
        let (number, sign) = written?;
        match self.next {
            Some((next, same)) if same == sign => Some((next, sign)),
            Some(_) | None => Some((number, sign)),
        }
    }

    /// Ends a chunk that is too long. It is continued by a new chunk, which begins with the next line.
    fn cut(&mut self, text: &str, end: usize, markdown_style: &MarkdownStyle, out: &mut Vec<TextRow>) {
        self.finish(text, markdown_style, out);
        self.blank = false;
        let chunk =
            Chunk { kind: ChunkKind::Paragraph, start: end, end, fence: None, blank: false, cut: true };
        self.open = OpenBlock::Chunk(chunk);
    }

    fn finish(&mut self, text: &str, markdown_style: &MarkdownStyle, out: &mut Vec<TextRow>) {
        match std::mem::take(&mut self.open) {
            OpenBlock::Nothing => {}
            OpenBlock::Code(..) => (self.last, self.blank) = (Some(ChunkKind::Code), false),
            OpenBlock::Chunk(chunk) => {
                let source = &text[chunk.start..chunk.end];
                let mut rows = match chunk.kind {
                    ChunkKind::Item { indent, number, .. } => {
                        let indent = indent.min(markdown_style.columns / 4);
                        let rows =
                            blocks::rows(source, number.map(|(n, _)| n), &markdown_style.narrower(indent));
                        let space = Span::new(&" ".repeat(indent), markdown_style.base);
                        rows.into_iter().map(|row| row.with_prefix(space.clone())).collect()
                    }
                    ChunkKind::Rule => vec![TextRow::of(
                        &"─".repeat(markdown_style.columns.min(40)),
                        markdown_style.style(StyleRole::Dim),
                    )],
                    ChunkKind::Paragraph | ChunkKind::Heading | ChunkKind::Quote | ChunkKind::Code => {
                        blocks::rows(source, None, markdown_style)
                    }
                };
                if rows.is_empty() {
                    return;
                }
                if !chunk.cut {
                    self.gap(chunk.kind, out);
                }
                out.append(&mut rows);
                self.next = match chunk.kind {
                    ChunkKind::Item { number: Some((number, sign)), .. } => {
                        Some((number.saturating_add(1), sign))
                    }
                    ChunkKind::Item { number: None, .. }
                    | ChunkKind::Paragraph
                    | ChunkKind::Heading
                    | ChunkKind::Rule
                    | ChunkKind::Quote
                    | ChunkKind::Code => None,
                };
                // An item may be followed by an empty line without continuing.
                (self.last, self.blank) = (Some(chunk.kind), chunk.blank);
            }
        }
    }

    fn gap(&self, next: ChunkKind, out: &mut Vec<TextRow>) {
        let wanted = self.blank || matches!(next, ChunkKind::Heading) || self.last == Some(ChunkKind::Rule);
        if self.last.is_some() && wanted {
            out.push(TextRow::default());
        }
    }
}

impl Chunk {
    /// Returns true if a line continues the chunk.
    fn goes_on(&mut self, line: &str) -> bool {
        let blank = line.trim().is_empty();
        match self.kind {
            ChunkKind::Heading | ChunkKind::Rule | ChunkKind::Code => false,
            ChunkKind::Paragraph => !blank && !line::start(line).interrupts(),
            ChunkKind::Quote => {
                !blank && (line::start(line) == LineStart::Quote || !line::start(line).interrupts())
            }
            ChunkKind::Item { content, .. } => self.item_goes_on(line, content, blank),
        }
    }

    fn item_goes_on(&mut self, line: &str, content: usize, blank: bool) -> bool {
        if blank {
            return true;
        }
        let inside = line::indent(line) >= content;
        if let Some(fence) = self.fence {
            if inside && fence.closed_by(line) {
                self.fence = None;
            }
            return inside;
        }
        if inside {
            self.fence = line.get(content..).and_then(line::fence).map(|(fence, _)| fence);
            return true;
        }
        // A line without an indent continues an item only as text in the item's last paragraph.
        !self.blank && !line::start(line).interrupts()
    }
}

/// Returns the gutter to the left of code, or an empty one if there is no room.
pub(super) fn gutter(markdown_style: &MarkdownStyle) -> Span {
    let sign = if markdown_style.columns < GUTTER_COLUMNS_MIN { "" } else { "▏ " };
    Span::new(sign, markdown_style.style(StyleRole::Dim))
}

pub(super) fn code_rows(
    line: &str,
    highlighter: &mut Highlighter,
    markdown_style: &MarkdownStyle,
    out: &mut Vec<TextRow>,
) {
    let spans = highlighter.line(line, markdown_style.theme, markdown_style.base);
    let gutter = gutter(markdown_style);
    let rows = wrap_command(&spans, markdown_style.columns - width(gutter.text()));
    out.extend(rows.into_iter().map(|row| row.with_prefix(gutter.clone())));
}
