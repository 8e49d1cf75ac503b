//! The search index of the guide: one entry per section, as JSON. Its text is that of the page, without Markdown.
//!
//! On pages that are looked up by a message or a question, each row of a table and each question is an entry of its
//! own.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Maximum number of bytes of a section's text in the index, on a reference page.
const REFERENCE_BYTES_MAX: usize = 2_000;
/// Maximum number of bytes of a section's text in the index, on any other page. The longest sections have 6,000.
const SECTION_BYTES_MAX: usize = 20_000;
/// Pages that list all of something. They have most words, and seldom the answer, so the search ranks them lower. Most
/// of their text is in long tables.
const REFERENCE_PAGES: [&str; 3] = ["cli.md", "programs.md", "protocol.md"];
/// Pages whose rows and questions are entries.
const LOOKUP_PAGES: [&str; 2] = ["faq.md", "troubleshooting.md"];
/// Minimum number of characters of a text that a link can find on its page.
const FRAGMENT_CHARS_MIN: usize = 4;

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
    is_reference: bool,
}

impl Section {
    fn new(page: &str, title: String, link: String) -> Self {
        let is_reference = REFERENCE_PAGES.contains(&page);
        Self { title, link, text: String::new(), prose: String::new(), is_reference }
    }

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
        let bytes_max = if self.is_reference { REFERENCE_BYTES_MAX } else { SECTION_BYTES_MAX };
        self.text.len() + self.prose.len() >= bytes_max
    }
}

/// Returns the entries of a page: title, link, text, and a mark on those of reference pages.
fn of_page(name: &str, text: &str) -> Vec<Value> {
    let page = format!("{}.html", name.trim_end_matches(".md"));
    let mut sections: Vec<Section> = Vec::new();
    let mut used: HashMap<String, usize> = HashMap::new();
    let mut heading_link = String::new();
    let mut is_code = false;
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            continue;
        }
        let outer = || sections.first().map(|page| format!("{}: ", page.title)).unwrap_or_default();
        let heading =
            line.trim_start_matches('#').strip_prefix(' ').filter(|_| !is_code && line.starts_with('#'));
        if let Some(heading) = heading {
            let heading = heading.replace('`', "");
            heading_link = format!("{page}#{}", unique(anchor(&heading), &mut used));
            let title = format!("{}{heading}", outer());
            sections.push(Section::new(name, title, heading_link.clone()));
            continue;
        }
        let is_lookup =
            LOOKUP_PAGES.contains(&name) && !is_code && !lines.peek().is_some_and(|next| is_rule(next));
        if let Some(label) = lookup_label(line).filter(|_| is_lookup) {
            let (title, link) =
                (format!("{}{label}", outer()), format!("{heading_link}{}", text_fragment(&label)));
            sections.push(Section::new(name, title, link));
        }
        match sections.last_mut() {
            Some(section) if is_code => section.push_code(line),
            Some(section) => section.push_prose(line),
            None => {}
        }
    }
    let entry = |mut section: Section| {
        section.end_prose();
        let mut entry = json!({ "title": section.title, "link": section.link, "text": section.text });
        if section.is_reference {
            entry["reference"] = Value::Bool(true);
        }
        entry
    };
    sections.into_iter().map(entry).collect()
}

/// Returns the text by which a line is looked up: the first cell of a row, or the question at the beginning of a
/// paragraph.
fn lookup_label(line: &str) -> Option<String> {
    let label = match line.strip_prefix("**").and_then(|bold| bold.split_once("?**")) {
        Some((question, _)) => format!("{question}?"),
        None => (*cells(line)?.first()?).to_owned(),
    };
    (!is_rule(line)).then(|| without_inline_marks(&label))
}

/// Returns the end of a link at which browsers scroll to a text; without it, the link leads to the section. The text
/// ends before marks that mdBook replaces on the page, and with a whole word: browsers find no others.
fn text_fragment(label: &str) -> String {
    let marks = ["\"", "'", "--", "..."].into_iter();
    let first = marks.filter_map(|mark| label.split_once(mark)).min_by_key(|(before, _)| before.len());
    let text = first.map_or(label, |(before, after)| whole_words(before, after)).trim();
    if text.chars().count() < FRAGMENT_CHARS_MIN {
        return String::new();
    }
    let escape = |byte: u8| match byte {
        b if b.is_ascii_alphanumeric() => char::from(b).to_string(),
        b => format!("%{b:02X}"),
    };
    format!(":~:text={}", text.bytes().map(escape).collect::<String>())
}

/// Returns `before` without its last word if that word goes on in `after`.
fn whole_words<'a>(before: &'a str, after: &str) -> &'a str {
    let is_inside = before.ends_with(char::is_alphanumeric) && after.starts_with(char::is_alphanumeric);
    if is_inside { before.rsplit_once(char::is_whitespace).map_or("", |(words, _)| words) } else { before }
}

/// Returns true for the line between the head and the body of a table, and for a ruled line.
fn is_rule(line: &str) -> bool {
    line.contains("---") && line.trim().chars().all(|c| matches!(c, '|' | '-' | ':' | ' '))
}

/// Returns a line without the marks of lists, quotes and tables. Rules are empty.
fn without_block_marks(line: &str) -> String {
    if is_rule(line) {
        return String::new();
    }
    let line = line.trim();
    let line = ["> ", "- "].iter().find_map(|mark| line.strip_prefix(mark)).unwrap_or(line);
    cells(line).map_or_else(|| line.to_owned(), |cells| cells.join(" · "))
}

/// Returns the cells of a row that are not empty, or `None` for a line that is no row of a table.
fn cells(line: &str) -> Option<Vec<&str>> {
    let row = line.trim().strip_prefix('|')?;
    let (mut cells, mut start) = (Vec::new(), 0);
    for (at, _) in row.match_indices('|').filter(|(at, _)| !row[..*at].ends_with('\\')) {
        cells.push(row[start..at].trim());
        start = at + 1;
    }
    cells.push(row[start..].trim());
    cells.retain(|cell| !cell.is_empty());
    Some(cells)
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
    use super::{anchor, of_page, text_fragment, without_block_marks, without_inline_marks};

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
    fn the_text_of_reference_pages_is_cut_first_and_marked() {
        let page = |lines| format!("# Page\n{}", "a word more\n".repeat(lines));
        let bytes = |name: &str, lines| of_page(name, &page(lines))[0]["text"].as_str().unwrap().len();
        assert_eq!((bytes("policy.md", 500), bytes("programs.md", 500)), (6_000, 2_004));
        assert_eq!(bytes("policy.md", 2_000), 20_004);
        assert_eq!(of_page("programs.md", &page(1))[0]["reference"], true);
        assert!(of_page("policy.md", &page(1))[0].get("reference").is_none());
    }

    #[test]
    fn a_link_to_a_text_ends_with_a_whole_word() {
        assert_eq!(text_fragment("What does the model's key do?"), ":~:text=What%20does%20the");
        assert_eq!(text_fragment("shows 'x'"), ":~:text=shows");
        assert_eq!(text_fragment("waiting..."), ":~:text=waiting");
        assert_eq!(text_fragment("model's key"), "");
    }

    #[test]
    fn each_message_and_each_question_is_an_entry_that_leads_to_its_text() {
        let page = "# Trouble\nBegin.\n| message | remedy |\n| --- | --- |\n| `401`, `a-b` | wait |\n\
                    | shows \"x\" | go |\n";
        let entries = of_page("troubleshooting.md", page);
        let field = |at: usize, name: &str| entries[at][name].as_str().unwrap();
        assert_eq!((entries.len(), field(0, "text")), (3, "Begin. message · remedy "));
        assert_eq!((field(1, "title"), field(1, "text")), ("Trouble: 401, a-b", "401, a-b · wait "));
        assert_eq!(field(1, "link"), "troubleshooting.html#trouble:~:text=401%2C%20a%2Db");
        assert_eq!(field(2, "link"), "troubleshooting.html#trouble:~:text=shows");
        let page = "# Questions\n**Does it run?** Yes,\nit does.\n\n**Why not?** `a`\n```sh\n**no?**\n```\n";
        let entries = of_page("faq.md", page);
        assert_eq!(entries.len(), 3);
        assert_eq!(entries[1]["title"], "Questions: Does it run?");
        assert_eq!(entries[1]["text"], "Does it run? Yes, it does. ");
        assert_eq!(entries[2]["text"], "Why not? a **no?** ");
        assert_eq!(of_page("policy.md", page).len(), 1);
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
