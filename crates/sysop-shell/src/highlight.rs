//! Splits a command into parts for syntax highlighting. Does not assess the command's effect.

use std::ops::Range;

use tree_sitter::Node;

use super::COMMAND_BYTES_MAX;
use super::syntax_tree::parse;

/// Syntactic kind of a part of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HighlightKind {
    Program,
    Option,
    Text,
    Variable,
    /// A shell reserved word.
    Keyword,
    /// A separator or redirection.
    Operator,
    Comment,
}

/// Returns the highlighted parts of a command as byte ranges, in order; empty if the command cannot be parsed.
pub fn highlight(command: &str) -> Vec<(Range<usize>, HighlightKind)> {
    // The grammar's error recovery is quadratic in these.
    if command.len() > COMMAND_BYTES_MAX
        || command.matches(['|', '(']).count() > 400
        || command.contains('\0')
    {
        return Vec::new();
    }
    let Some(tree) = parse(command) else { return Vec::new() };
    let mut paint = vec![None; command.len()];
    let mut todo = vec![tree.root_node()];
    while let Some(node) = todo.pop() {
        if let Some(part) = highlight_of(node, command) {
            paint[node.byte_range()].fill(part);
        }
        // Children come after their parent and paint over it.
        todo.extend((0..node.child_count()).rev().filter_map(|at| node.child(at)));
    }
    merge_runs(&paint)
}

/// Returns the highlight of a node. `Some(None)` removes the highlighting set by its parent, and `None` keeps it.
fn highlight_of(node: Node<'_>, command: &str) -> Option<Option<HighlightKind>> {
    let text = command.get(node.byte_range()).unwrap_or("");
    let part = match node.kind() {
        "command_name" => HighlightKind::Program,
        "string" | "raw_string" | "ansi_c_string" | "translated_string" | "heredoc_body" | "regex" => {
            HighlightKind::Text
        }
        "heredoc_start" | "heredoc_end" => HighlightKind::Keyword,
        "simple_expansion" | "expansion" | "variable_name" | "special_variable_name" => {
            HighlightKind::Variable
        }
        "comment" => HighlightKind::Comment,
        // A substitution inside of text is not text itself.
        "command_substitution" | "process_substitution" => return Some(None),
        "word" if text.starts_with('-') && text.len() > 1 => HighlightKind::Option,
        "$(" | "<(" | ">(" => HighlightKind::Operator,
        kind if !node.is_named() && kind.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            HighlightKind::Keyword
        }
        "|" | "||" | "&&" | "&" | ";" | ";;" | "|&" | ">" | ">>" | "<" | ">|" | "&>" | "&>>" | "<<"
        | "<<-" | "<<<" | "<&" | ">&" | "!" => HighlightKind::Operator,
        "file_descriptor" => HighlightKind::Operator,
        _ => return None,
    };
    Some(Some(part))
}

fn merge_runs(paint: &[Option<HighlightKind>]) -> Vec<(Range<usize>, HighlightKind)> {
    let mut highlight: Vec<(Range<usize>, HighlightKind)> = Vec::new();
    for (at, part) in paint.iter().enumerate() {
        let Some(part) = *part else { continue };
        match highlight.last_mut() {
            Some((range, same)) if *same == part && range.end == at => range.end = at + 1,
            Some(_) | None => highlight.push((at..at + 1, part)),
        }
    }
    highlight
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn shown(command: &str) -> String {
        highlight(command)
            .iter()
            .map(|(range, part)| format!("{part:?} {}\n", &command[range.clone()]))
            .collect()
    }

    #[test]
    fn each_part_is_classified() {
        expect![[r#"
            Keyword for
            Variable f
            Keyword in
            Operator ;
            Keyword do
            Program sudo
            Option -rf
            Text "
            Variable $HOME
            Text /
            Operator $(
            Program basename
            Variable $f
            Text "
            Operator 2>
            Operator ||
            Program echo
            Text 'no'
            Operator ;
            Keyword done
            Comment # all
        "#]]
        .assert_eq(&shown(
            r#"for f in *; do sudo rm -rf "$HOME/$(basename $f)" 2>/dev/null || echo 'no'; done # all"#,
        ));
    }

    #[test]
    fn unparsable_commands_are_plain_or_stay_in_bounds() {
        for command in ["", "echo 'open", "é \"日本 $(", "\0", "((((", "| | |", "cat <<E\nx $y\nE\n"] {
            for (range, _) in highlight(command) {
                assert!(
                    command.is_char_boundary(range.start) && command.is_char_boundary(range.end),
                    "{command}"
                );
            }
        }
        assert!(highlight(&"a|".repeat(50_000)).is_empty());
    }
}
