//! The search index of the guide: one entry per section, as JSON.

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

/// Returns the sections of a page: title, link and text.
fn of_page(name: &str, text: &str) -> Vec<Value> {
    let page = format!("{}.html", name.trim_end_matches(".md"));
    let mut sections: Vec<(String, String, String)> = Vec::new();
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
                let outer = sections.first().map(|(title, ..)| format!("{title}: ")).unwrap_or_default();
                sections.push((format!("{outer}{heading}"), format!("{page}#{id}"), String::new()));
            }
            (None, Some((_, _, body))) if body.len() < TEXT_CHARS_MAX => {
                body.push_str(line.trim());
                body.push(' ');
            }
            (None, _) => {}
        }
    }
    sections
        .into_iter()
        .map(|(title, link, text)| json!({ "title": title, "link": link, "text": text }))
        .collect()
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
    use super::{anchor, of_page};

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
}
