//! Detects an incomplete command before it is typed: an unclosed quote or here-document.
//!
//! Without this check, a shell would run a here-document that has no end, or print an error of its own. Only simple
//! cases are detected. Commands with nested quotes and substitutions are left to the shell.

/// Returns a message about the unclosed part of a POSIX shell command. Returns `None` if the command is complete, or
/// too complex to be checked.
pub(super) fn incomplete_command(command: &str) -> Option<String> {
    if ["$(", "`", "${", "$'", "$\"", "(("].iter().any(|hard| command.contains(hard)) {
        return None;
    }
    let mut documents: Vec<HereDocument> = Vec::new();
    let mut rest = command;
    let mut at_word = true;
    while let Some(letter) = rest.chars().next() {
        let after = &rest[letter.len_utf8()..];
        rest = match letter {
            '\\' => after.chars().next().map_or(after, |escaped| &after[escaped.len_utf8()..]),
            '\'' => match after.find('\'') {
                Some(end) => &after[end + 1..],
                None => return Some("unterminated single quote".to_owned()),
            },
            '"' => match end_of_double(after) {
                Some(end) => &after[end + 1..],
                None => return Some("unterminated double quote".to_owned()),
            },
            '#' if at_word => after.find('\n').map_or("", |end| &after[end..]),
            '<' if after.starts_with("<<") => &after[2..],
            '<' if after.starts_with('<') => {
                let (document, rest) = HereDocument::read(&after[1..])?;
                documents.push(document);
                rest
            }
            '\n' => {
                let mut lines = after;
                for document in documents.drain(..) {
                    match document.skip(lines) {
                        Some(rest) => lines = rest,
                        None => return Some(document.missing()),
                    }
                }
                lines
            }
            _ => after,
        };
        at_word = letter.is_whitespace() || matches!(letter, ';' | '&' | '|' | '(' | ')');
    }
    documents.first().map(HereDocument::missing)
}

fn end_of_double(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(index, letter)| {
        let ends = letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
        ends.then_some(index)
    })
}

/// A here-document that the command has announced with `<<`, and whose lines follow.
struct HereDocument {
    end: String,
    tabs: bool,
}

impl HereDocument {
    /// Parses the text after `<<`. Returns `None` if the delimiter is missing.
    fn read(text: &str) -> Option<(Self, &str)> {
        let (tabs, text) = match text.strip_prefix('-') {
            Some(text) => (true, text),
            None => (false, text),
        };
        let text = text.trim_start_matches([' ', '\t']);
        let length = text
            .find(|letter: char| {
                letter.is_whitespace() || matches!(letter, ';' | '&' | '|' | '<' | '>' | '(' | ')')
            })
            .unwrap_or(text.len());
        let end: String =
            text[..length].chars().filter(|letter| !matches!(letter, '\'' | '"' | '\\')).collect();
        (!end.is_empty()).then_some((Self { end, tabs }, &text[length..]))
    }

    /// Returns the text after the last line of the document, or `None` if its end is missing.
    fn skip<'a>(&self, text: &'a str) -> Option<&'a str> {
        let mut rest = text;
        while !rest.is_empty() {
            let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
            let line = if self.tabs { line.trim_start_matches('\t') } else { line };
            if line == self.end {
                return Some(after);
            }
            rest = after;
        }
        None
    }

    fn missing(&self) -> String {
        format!("the here-document has no closing line `{}`", self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::incomplete_command;

    #[test]
    fn unclosed_constructs_are_named() {
        for command in [
            "echo 'a", "echo \"a", "echo \"a\\\"", "cat <<EOF", "cat <<EOF\na\n EOF", "cat <<'E'\na",
            "cat <<-A <<B\n\tA\nx",
        ] {
            assert!(incomplete_command(command).is_some(), "{command}");
        }
    }

    #[test]
    fn complete_commands_are_complete() {
        for command in [
            "echo 'a' \"b\" \\' it",
            "echo a # it's",
            "echo a#b 'c'",
            "cat <<EOF\nit's \"\nEOF",
            "cat <<-EOF\n\t\tEOF\necho 'x'",
            "cat <<A <<B\n'\nA\n\"\nB\n",
            "cat <<<'x'",
            "echo \"$(echo \"it's\")\"",
            "echo $((1<<2))",
        ] {
            assert_eq!(incomplete_command(command), None, "{command}");
        }
    }
}
