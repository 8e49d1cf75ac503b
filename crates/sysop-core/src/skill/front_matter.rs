//! Front matter of Markdown files: the subset of YAML that skills and commands use.

use std::collections::BTreeMap;

/// Line that begins and ends the front matter.
const FENCE: &str = "---";

/// Splits the text into its front matter and its body. The front matter is returned as a map from keys to scalar
/// values. Lists and maps are ignored. Fails with a message if the line that ends the front matter is missing.
pub(super) fn split(text: &str) -> Result<(BTreeMap<String, String>, String), String> {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let mut lines = text.lines();
    if lines.next().map(str::trim_end) != Some(FENCE) {
        return Ok((BTreeMap::new(), text));
    }
    let rest: Vec<&str> = lines.collect();
    let Some(end) = rest.iter().position(|line| line.trim_end() == FENCE) else {
        return Err("the front matter is not closed by a line `---`".to_owned());
    };
    Ok((scalars(&rest[..end]), rest[end + 1..].join("\n")))
}

fn scalars(lines: &[&str]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut lines = lines.iter().copied().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with([' ', '\t', '#', '-']) {
            continue; // part of a list, a map or a comment
        }
        // A value may itself contain `: `; the first one ends the key.
        let Some((key, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        let mut indented = Vec::new();
        while let Some(line) = lines.next_if(|line| line.is_empty() || line.starts_with([' ', '\t'])) {
            indented.push(line.trim());
        }
        let value = match value.trim_end_matches(['-', '+']) {
            "|" => indented.join("\n"),
            ">" => indented.join(" "),
            "" => String::new(),
            _ => [&[value], indented.as_slice()].concat().join(" "),
        };
        found.insert(key.trim().to_owned(), unquoted(value.trim()));
    }
    found
}

fn unquoted(value: &str) -> String {
    for quote in ['"', '\''] {
        let inner = value.strip_prefix(quote).and_then(|value| value.strip_suffix(quote));
        if let Some(inner) = inner {
            return if quote == '"' {
                inner.replace("\\\"", "\"").replace("\\\\", "\\")
            } else {
                inner.replace("''", "'")
            };
        }
    }
    match value.find(" #") {
        Some(comment) => value[..comment].trim_end().to_owned(),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn the_forms_of_scalars_are_read() {
        let text = "---\r\nname: pdf\ndescription: Fill forms: use for PDF # a comment\nhint: \"a \\\"b\\\"\"\n\
                    single: 'it''s'\nblock: |\n  one\n  two\nfolded: >-\n  three\n  four\nlong: five\n  six\n\
                    allowed-tools:\n  - Bash\nlist: [a, b]\nmetadata:\n  author: x\n---\nbody\n---\nmore";
        let (found, body) = split(text).expect("front matter");
        let value = |key: &str| found.get(key).map(String::as_str);
        assert_eq!(value("description"), Some("Fill forms: use for PDF"));
        assert_eq!(value("hint"), Some("a \"b\""));
        assert_eq!(value("single"), Some("it's"));
        assert_eq!(value("block"), Some("one\ntwo"));
        assert_eq!(value("folded"), Some("three four"));
        assert_eq!(value("long"), Some("five six"));
        assert_eq!(value("metadata"), Some(""));
        assert_eq!(value("author"), None);
        assert_eq!(body, "body\n---\nmore");
    }

    #[test]
    fn text_without_front_matter_is_all_body() {
        let (found, body) = split("just text\n---\n").expect("a text");
        assert!(found.is_empty());
        assert_eq!(body, "just text\n---\n");
        assert!(split("---\nname: x\n").is_err());
    }
}
