//! Layout of a single chunk.

use std::sync::Arc;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui::style::{Modifier, Style};
use sysop_core::text::neutralize_prose;

use super::table::Table;
use super::{MarkdownStyle, code_rows};
use crate::cells::{Span, TextRow, hang, linked, width, wrap};
use crate::code::{Highlighter, Language};
use crate::link;
use crate::theme::StyleRole;

/// Minimum width of an indented block, in columns. An indent that leaves fewer does not reduce the width.
const COLUMNS_MIN: usize = 8;

/// Lays out a chunk. `number` is the number of its first list item, if any.
pub(super) fn rows(source: &str, number: Option<u64>, markdown_style: &MarkdownStyle) -> Vec<TextRow> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS | Options::ENABLE_STRIKETHROUGH;
    let mut layout = BlockRenderer {
        markdown_style: *markdown_style,
        number,
        containers: vec![Container::new(ContainerKind::Root, markdown_style.columns)],
        lines: vec![Vec::new()],
        styles: vec![markdown_style.base],
        link: None,
        table: None,
        code: None,
    };
    for event in Parser::new_ext(source, options) {
        layout.event(event);
    }
    layout.flush();
    layout.containers.into_iter().next().map(|container| container.rows).unwrap_or_default()
}

struct BlockRenderer {
    markdown_style: MarkdownStyle,
    /// Number for the first list item, until it is used.
    number: Option<u64>,
    /// Open blocks, outermost first; the root always stays.
    containers: Vec<Container>,
    lines: Vec<Vec<InlineText>>,
    /// Styles of the open inline elements.
    styles: Vec<Style>,
    link: Option<OpenLink>,
    table: Option<Table>,
    code: Option<(Highlighter, String)>,
}

struct Container {
    block: ContainerKind,
    columns: usize,
    rows: Vec<TextRow>,
    /// True if the container's last block was text. If more text follows, an empty row separates the two.
    text: bool,
}

enum ContainerKind {
    Root,
    Quote,
    /// A list. Holds the number of the next item if the list is numbered.
    List(Option<u64>),
    Item {
        mark: String,
        done: Option<bool>,
    },
}

struct InlineText {
    text: String,
    style: Style,
    target: Option<Arc<str>>,
}

struct OpenLink {
    address: String,
    target: Option<Arc<str>>,
    text: String,
    image: bool,
}

impl Container {
    fn new(block: ContainerKind, columns: usize) -> Self {
        Self { block, columns, rows: Vec::new(), text: false }
    }
}

impl BlockRenderer {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text),
            Event::Code(code) => {
                let style = self.current_style().patch(self.markdown_style.theme.style(StyleRole::Code));
                self.put(&code, style);
            }
            Event::Html(html) => {
                for line in html.lines() {
                    self.put(line, self.markdown_style.style(StyleRole::Dim));
                    self.lines.push(Vec::new());
                }
            }
            Event::InlineHtml(html) if html.to_ascii_lowercase().starts_with("<br") => {
                self.lines.push(Vec::new());
            }
            Event::InlineHtml(html) => self.put(&html, self.markdown_style.style(StyleRole::Dim)),
            // Models do not wrap their lines, so a line break is intentional.
            Event::SoftBreak | Event::HardBreak => self.lines.push(Vec::new()),
            Event::Rule => {
                let row = TextRow::of(
                    &"─".repeat(self.columns().min(40)),
                    self.markdown_style.style(StyleRole::Dim),
                );
                self.block(vec![row], false);
            }
            Event::TaskListMarker(checked) => {
                let item =
                    self.containers.iter_mut().rev().find_map(|container| match &mut container.block {
                        ContainerKind::Item { done, .. } => Some(done),
                        ContainerKind::Root | ContainerKind::Quote | ContainerKind::List(_) => None,
                    });
                if let Some(done) = item {
                    *done = Some(checked);
                }
            }
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.text(&text);
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => {
                let mut style = self.markdown_style.style(StyleRole::Title);
                if level == HeadingLevel::H1 {
                    style = style.add_modifier(Modifier::UNDERLINED);
                }
                self.styles.push(style);
            }
            Tag::BlockQuote(_) => self.open(ContainerKind::Quote, 2),
            Tag::CodeBlock(kind) => {
                self.flush();
                let language = match &kind {
                    CodeBlockKind::Fenced(language) => Language::named(language),
                    CodeBlockKind::Indented => None,
                };
                self.code = Some((Highlighter::new(language), String::new()));
            }
            Tag::List(first) => {
                self.flush();
                let first = first.map(|first| self.number.take().unwrap_or(first));
                self.open(ContainerKind::List(first), 0);
            }
            Tag::Item => {
                let mark = match self.containers.last_mut().map(|container| &mut container.block) {
                    Some(ContainerKind::List(Some(next))) => {
                        *next = next.saturating_add(1);
                        format!("{}. ", *next - 1)
                    }
                    Some(_) | None => "• ".to_owned(),
                };
                let by = width(&mark);
                self.open(ContainerKind::Item { mark, done: None }, by);
            }
            Tag::Table(alignments) => {
                self.flush();
                self.table = Some(Table::new(alignments));
            }
            Tag::TableHead => {
                self.styles.push(self.current_style().patch(self.markdown_style.style(StyleRole::Strong)))
            }
            Tag::Emphasis => self.styles.push(self.current_style().add_modifier(Modifier::ITALIC)),
            Tag::Strong => self
                .styles
                .push(self.current_style().patch(self.markdown_style.theme.style(StyleRole::Strong))),
            Tag::Strikethrough => self.styles.push(self.current_style().add_modifier(Modifier::CROSSED_OUT)),
            Tag::Link { dest_url, .. } => self.open_link(dest_url.into_string(), false),
            Tag::Image { dest_url, .. } => {
                self.open_link(dest_url.into_string(), true);
                self.put("image: ", self.markdown_style.style(StyleRole::Dim));
            }
            Tag::Paragraph
            | Tag::HtmlBlock
            | Tag::TableRow
            | Tag::TableCell
            | Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.flush(),
            TagEnd::Heading(_) => {
                self.flush();
                self.styles.pop();
            }
            TagEnd::BlockQuote(_) | TagEnd::List(_) | TagEnd::Item => self.close(),
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let markdown_style = MarkdownStyle { columns: self.columns(), ..self.markdown_style };
                    self.block(table.rows(&markdown_style), true);
                }
            }
            TagEnd::TableHead => {
                self.styles.pop();
                if let Some(table) = &mut self.table {
                    table.end_row();
                }
            }
            TagEnd::TableRow => {
                if let Some(table) = &mut self.table {
                    table.end_row();
                }
            }
            TagEnd::TableCell => {
                let cell = self.take_lines().into_iter().flatten().collect();
                if let Some(table) = &mut self.table {
                    table.cell(cell);
                }
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => self.end_link(),
            TagEnd::FootnoteDefinition
            | TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::MetadataBlock(_) => {}
        }
    }

    fn text(&mut self, text: &str) {
        if let Some((_, code)) = &mut self.code {
            code.push_str(text);
            return;
        }
        let style = match &self.link {
            Some(link) if link.target.is_some() => {
                self.current_style().patch(self.markdown_style.theme.style(StyleRole::Link))
            }
            Some(_) | None => self.current_style(),
        };
        self.put(&neutralize_prose(text), style);
    }

    /// Adds text to the current line, joining it with preceding text in the same style. This rejoins a
    /// URL that the parser split at an underscore.
    fn put(&mut self, text: &str, style: Style) {
        let target = self.link.as_mut().and_then(|link| {
            link.text.push_str(text);
            link.target.clone()
        });
        let Some(line) = self.lines.last_mut() else { return };
        match line.last_mut() {
            Some(piece) if piece.style == style && piece.target == target => piece.text.push_str(text),
            Some(_) | None => line.push(InlineText { text: text.to_owned(), style, target }),
        }
    }

    fn open_link(&mut self, address: String, image: bool) {
        // Links cannot be nested.
        if self.link.is_none() {
            let target = link::target(&address);
            self.link = Some(OpenLink { address, target, text: String::new(), image });
        }
    }

    fn end_link(&mut self) {
        let Some(link) = self.link.take() else { return };
        let text = if link.image { "" } else { link.text.as_str() };
        let aside = if self.markdown_style.write_targets {
            link::written_target(text, &link.address)
        } else {
            link::disclosed_target(text, &link.address)
        };
        if let Some(aside) = aside {
            self.put(&format!(" ({aside})"), self.markdown_style.style(StyleRole::Dim));
        }
    }

    fn end_code(&mut self) {
        let Some((mut highlighter, code)) = self.code.take() else { return };
        let markdown_style = MarkdownStyle { columns: self.columns(), ..self.markdown_style };
        let mut rows = Vec::new();
        for line in code.lines() {
            code_rows(line, &mut highlighter, &markdown_style, &mut rows);
        }
        self.block(rows, false);
    }

    fn current_style(&self) -> Style {
        self.styles.last().copied().unwrap_or(self.markdown_style.base)
    }

    fn columns(&self) -> usize {
        self.containers.last().map_or(1, |container| container.columns)
    }

    fn take_lines(&mut self) -> Vec<Vec<Span>> {
        let lines = std::mem::replace(&mut self.lines, vec![Vec::new()]);
        let spans = |line: Vec<InlineText>| {
            let spans = line.into_iter().map(|piece| Span::linked(&piece.text, piece.style, piece.target));
            linked(spans.collect(), self.markdown_style.theme)
        };
        lines.into_iter().map(spans).collect()
    }

    fn flush(&mut self) {
        let mut lines = self.take_lines();
        while lines.last().is_some_and(Vec::is_empty) {
            lines.pop();
        }
        if !lines.is_empty() {
            let columns = self.columns();
            let rows = lines.iter().flat_map(|line| wrap(line, columns)).collect();
            self.block(rows, true);
        }
    }

    fn block(&mut self, mut rows: Vec<TextRow>, text: bool) {
        let Some(container) = self.containers.last_mut() else { return };
        if container.text && text && !rows.is_empty() {
            container.rows.push(TextRow::default());
        }
        container.text = text;
        container.rows.append(&mut rows);
    }

    fn open(&mut self, block: ContainerKind, by: usize) {
        self.flush();
        let columns = self.columns();
        let columns = if columns >= COLUMNS_MIN + by { columns - by } else { columns };
        self.containers.push(Container::new(block, columns));
    }

    fn close(&mut self) {
        self.flush();
        if self.containers.len() < 2 {
            return;
        }
        let Some(container) = self.containers.pop() else { return };
        let indented = container.columns < self.columns();
        let dim = self.markdown_style.style(StyleRole::Dim);
        let (first, rest) = match container.block {
            ContainerKind::Root | ContainerKind::List(_) => return self.block(container.rows, false),
            ContainerKind::Quote => ("▎ ".to_owned(), Span::new("▎ ", dim)),
            ContainerKind::Item { mark, done } => {
                let space = Span::new(&" ".repeat(width(&mark)), self.markdown_style.base);
                let mark = match done {
                    Some(true) => "☑ ".to_owned(),
                    Some(false) => "☐ ".to_owned(),
                    None => mark,
                };
                (mark, space)
            }
        };
        let first = Span::new(&first, dim);
        let mut rows = container.rows;
        if rows.is_empty() {
            rows.push(TextRow::default());
        }
        let rows = if indented { hang(rows, &first, &rest) } else { rows };
        self.block(rows, false);
    }
}
