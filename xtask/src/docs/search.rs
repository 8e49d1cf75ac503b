//! The search index of the guide: one entry per section, as JSON. Its text is that of the page, without Markdown.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Maximum number of characters of a section's text in the index. Longer sections are reference tables.
const TEXT_CHARS_MAX: usize = 2_000;

pub(super) fn index(pages: &Path) -> Result<String> {
    let mut sections = Vec::new();
    for name in super::names(pages, &["md"])? {
        if name != super::SUMMARY {
            let text =
                fs::read_to_string(pages.join(&name)).with_context(|| format!("cannot read {name}"))?;
            sections.extend(of_page(&name, &text));
        }
    }
    Ok(Value::from(sections).to_string())
}

struct Section {
    title: String,
    link: String,
    text: String,
    /// Lines that are not yet part of the text.
    prose: String,
}

impl Section {
    fn push_prose(&mut self, line: &str) {
        let line = without_block_marks(line);
        if !line.is_empty() && !self.is_full() {
            self.prose.push_str(&line);
            self.prose.push(' ');
        }
    }

    fn push_code(&mut self, line: &str) {
        self.end_prose();
        if !self.is_full() {
            self.text.push_str(line.trim());
            self.text.push(' ');
        }
    }

    fn end_prose(&mut self) {
        self.text.push_str(&without_inline_marks(&std::mem::take(&mut self.prose)));
    }

    fn is_full(&self) -> bool {
        self.text.len() + self.prose.len() >= TEXT_CHARS_MAX
    }
}

/// Returns the sections of a page: title, link and text.
fn of_page(name: &str, text: &str) -> Vec<Value> {
    let page = format!("{}.html", name.trim_end_matches(".md"));
    let mut sections: Vec<Section> = Vec::new();
    let mut used: HashMap<String, usize> = HashMap::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            continue;
        }
        let heading =
            line.trim_start_matches('#').strip_prefix(' ').filter(|_| !is_code && line.starts_with('#'));
        match (heading, sections.last_mut()) {
            (Some(heading), _) => {
                let heading = heading.replace('`', "");
                let id = unique(anchor(&heading), &mut used);
                let outer = sections.first().map(|page| format!("{}: ", page.title)).unwrap_or_default();
                sections.push(Section {
                    title: format!("{outer}{heading}"),
                    link: format!("{page}#{id}"),
                    text: String::new(),
                    prose: String::new(),
                });
            }
            (None, Some(section)) if is_code => section.push_code(line),
            (None, Some(section)) => section.push_prose(line),
            (None, None) => {}
        }
    }
    let entry = |mut section: Section| {
        section.end_prose();
        json!({ "title": section.title, "link": section.link, "text": section.text })
    };
    sections.into_iter().map(entry).collect()
}

/// Returns a line without the marks of lists, quotes and tables. Rules are empty.
fn without_block_marks(line: &str) -> String {
    let line = line.trim();
    if line.contains("---") && line.chars().all(|c| matches!(c, '|' | '-' | ':' | ' ')) {
        return String::new();
    }
    let line = ["> ", "- "].iter().find_map(|mark| line.strip_prefix(mark)).unwrap_or(line);
    let Some(row) = line.strip_prefix('|') else { return line.to_owned() };
    let (mut cells, mut start) = (Vec::new(), 0);
    for (at, _) in row.match_indices('|').filter(|(at, _)| !row[..*at].ends_with('\\')) {
        cells.push(row[start..at].trim());
        start = at + 1;
    }
    cells.push(row[start..].trim());
    cells.retain(|cell| !cell.is_empty());
    cells.join(" · ")
}

/// Returns text without the marks of code and emphasis, and without the targets of links.
fn without_inline_marks(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        rest = if let Some((code, after)) = code_span(rest) {
            plain.push_str(&code.replace("\\|", "|"));
            after
        } else if let Some((label, after)) = link(rest) {
            plain.push_str(&without_inline_marks(label));
            after
        } else if let Some(after) = rest.strip_prefix("**") {
            after
        } else if first == '\\' && after.starts_with(|c: char| c.is_ascii_punctuation()) {
            plain.push_str(&after[..1]);
            &after[1..]
        } else {
            plain.push(first);
            after
        };
    }
    plain
}

/// Splits off a code span at the beginning: returns the code, and the text after it.
fn code_span(text: &str) -> Option<(&str, &str)> {
    let code = text.trim_start_matches('`');
    let mark = &text[..text.len() - code.len()];
    if mark.is_empty() { None } else { code.split_once(mark) }
}

/// Splits off a link or a picture at the beginning: returns its label, and the text after it.
fn link(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('!').unwrap_or(text).strip_prefix('[')?;
    let (mut rest, mut depth) = (inner, 1);
    loop {
        if let Some((_, after)) = code_span(rest) {
            rest = after;
            continue;
        }
        let first = rest.chars().next()?;
        match first {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        rest = &rest[first.len_utf8()..];
    }
    let (_, after) = rest.strip_prefix("](")?.split_once(')')?;
    Some((&inner[..inner.len() - rest.len()], after))
}

/// Returns the id that mdBook assigns to a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|c| match c {
        c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c.to_ascii_lowercase()),
        c if c.is_whitespace() => Some('-'),
        _ => None,
    });
    kept.collect()
}

fn unique(id: String, used: &mut HashMap<String, usize>) -> String {
    let count = used.entry(id.clone()).or_default();
    *count += 1;
    if *count == 1 { id } else { format!("{id}-{}", *count - 1) }
}

#[cfg(test)]
mod tests {
    use super::{anchor, of_page, without_block_marks, without_inline_marks};

    #[test]
    fn each_section_has_an_entry_with_its_link() {
        let sections =
            of_page("policy.md", "# Policy\nIt judges.\n## For this session\nA grant.\n```sh\n# no\n```\n");
        assert_eq!(sections.len(), 2);
        assert_eq!(sections[1]["link"], "policy.html#for-this-session");
        assert_eq!(sections[1]["title"], "Policy: For this session");
        assert_eq!(sections[1]["text"], "A grant. # no ");
        assert_eq!(anchor("OpenAI and compatible servers?"), "openai-and-compatible-servers");
    }
    #[test]
    fn the_text_of_a_section_has_no_markdown() {
        let page = "# Keys\n> Press [`?` or\nF1](keys.md#all), **never** `a \\| b`.\n\n| key | effect |\n| --- | :-: |\n\
                    | `a`, `a` | runs `x\\|y` ([more](../a.md)) |\n| – | |\n\n- ![a picture](pictures/a.svg)\n---\n\
                    ```sh\nls | grep `[x](y)`\n```\n";
        let text =
            "Press ? or F1, never a | b. key · effect a, a · runs x|y (more) – a picture ls | grep `[x](y)` ";
        assert_eq!(of_page("keys.md", page)[0]["text"], text);
        assert_eq!(without_block_marks("|---|---|"), "");
        assert_eq!(without_inline_marks("[y/N] and [a `]`](b) \\* `open"), "[y/N] and a ] * `open");
    }
}
