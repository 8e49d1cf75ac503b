//! Classifies the start of a Markdown line, outside of any block.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CodeFence {
    mark: char,
    length: usize,
    indent: usize,
}

impl CodeFence {
    /// Returns true if a line closes the block.
    pub(super) fn closed_by(self, line: &str) -> bool {
        let marks = line.trim();
        marks.len() >= self.length && marks.chars().all(|c| c == self.mark)
    }

    /// Returns a line of the block without the fence's indent.
    pub(super) fn content(self, line: &str) -> &str {
        &line[indent(line).min(self.indent)..]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineStart<'a> {
    CodeFence(CodeFence, &'a str),
    Heading,
    Rule,
    Quote,
    /// A list item: its indent, the column of its text, and its number with delimiter.
    Item {
        indent: usize,
        content: usize,
        number: Option<(u64, char)>,
    },
    Text,
}

impl LineStart<'_> {
    /// Returns true if the line ends a preceding paragraph. A line of dashes turns that into a heading.
    pub(super) fn interrupts(self) -> bool {
        match self {
            Self::CodeFence(..) | Self::Heading | Self::Quote => true,
            Self::Item { number, .. } => number.is_none_or(|(number, _)| number == 1),
            Self::Rule | Self::Text => false,
        }
    }
}

pub(super) fn indent(line: &str) -> usize {
    line.bytes().take_while(|b| *b == b' ').count()
}

pub(super) fn start(line: &str) -> LineStart<'_> {
    let indent = indent(line);
    let text = &line[indent..];
    if indent > 3 {
        return LineStart::Text;
    }
    if let Some((fence, language)) = fence(line) {
        return LineStart::CodeFence(fence, language);
    }
    let hashes = text.bytes().take_while(|b| *b == b'#').count();
    if (1..=6).contains(&hashes) && (text[hashes..].is_empty() || text[hashes..].starts_with([' ', '\t'])) {
        return LineStart::Heading;
    }
    if text.starts_with('>') {
        return LineStart::Quote;
    }
    if is_rule(text) {
        return LineStart::Rule;
    }
    item(text, indent)
}

/// Returns the code fence that a line opens and the language after it, or `None` if the line opens no fence.
pub(super) fn fence(line: &str) -> Option<(CodeFence, &str)> {
    let indent = indent(line);
    let text = &line[indent..];
    let mark = text.chars().next().filter(|c| indent <= 3 && matches!(c, '`' | '~'))?;
    let length = text.chars().take_while(|c| *c == mark).count();
    let language = text[length..].trim();
    let good = length >= 3 && !(mark == '`' && language.contains('`'));
    good.then_some((CodeFence { mark, length, indent }, language))
}

fn is_rule(text: &str) -> bool {
    let mut marks = text.chars().filter(|c| !c.is_whitespace());
    let Some(mark) = marks.next().filter(|c| matches!(c, '-' | '*' | '_')) else { return false };
    let mut count = 1;
    for c in marks {
        if c != mark {
            return false;
        }
        count += 1;
    }
    count >= 3
}

fn item(text: &str, indent: usize) -> LineStart<'_> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let sign = text[digits..].chars().next().unwrap_or(' ');
    let number = match sign {
        '-' | '*' | '+' if digits == 0 => None,
        '.' | ')' if (1..=9).contains(&digits) => Some((text[..digits].parse().unwrap_or(1), sign)),
        _ => return LineStart::Text,
    };
    let rest = &text[digits + 1..];
    let blanks = self::indent(rest);
    if rest.trim().is_empty() || blanks == 0 {
        return LineStart::Text;
    }
    // More than four blanks start a code block within the item.
    let blanks = if blanks > 4 { 1 } else { blanks };
    LineStart::Item { indent, content: indent + digits + 1 + blanks, number }
}
