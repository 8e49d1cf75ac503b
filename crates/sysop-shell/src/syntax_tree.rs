//! Parses a script with the bash grammar, within bounds, and walks the tree.

use std::borrow::Cow;
use std::ops::ControlFlow;

use tree_sitter::{Node, ParseOptions, ParseState, Parser, Tree};

/// Number of progress reports after which parsing is stopped. The parser reports about every hundred steps.
const PROGRESS_MAX: usize = 8192;

/// Parses a script, or returns `None` if that takes too long or the parser stops at an error.
pub(super) fn parse(source: &str) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    let mut masked = masked(source);
    mask_process_ids(&mut masked);
    let bytes = masked.as_ref();
    let mut reports = 0;
    let mut watch = |progress: &ParseState| {
        reports += 1;
        if reports > PROGRESS_MAX || progress.has_error() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let options = ParseOptions::new().progress_callback(&mut watch);
    parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or(&[]), None, Some(options))
}

/// Replaces each non-ASCII byte with a letter, because a shell treats such bytes like letters. The grammar's scanner
/// passes characters to the C library's 256-entry tables (`isdigit` in tree-sitter-bash 0.25.1) and reads out of bounds
/// for larger ones. Offsets do not change.
fn masked(source: &str) -> Cow<'_, [u8]> {
    if source.is_ascii() {
        return Cow::Borrowed(source.as_bytes());
    }
    source.bytes().map(|byte| if byte.is_ascii() { byte } else { b'u' }).collect()
}

/// Writes `$$` at the end of a word as `$0`. The grammar (tree-sitter-bash 0.25.1) reads `$$` as two dollar signs if it
/// ends a word that begins with other text, as in `touch x$$ y`. Both are expansions to one value, and the text of a
/// node is taken from the source. A `$$` that is no expansion, as in `\$$`, stays text: the lexer reads the source,
/// too.
fn mask_process_ids(masked: &mut Cow<'_, [u8]>) {
    let mut at = 0;
    while let Some(rest) = masked.get(at..at + 2) {
        if rest != b"$$" {
            at += 1;
            continue;
        }
        if masked.get(at + 2).is_none_or(|after| b" \t\n)|&<>".contains(after)) {
            masked.to_mut()[at + 1] = b'0';
        }
        at += 2;
    }
}

/// Calls `enter` for every node below `node`, without recursion. `enter` returns true to descend into a node.
pub(super) fn each_below<'t>(node: Node<'t>, enter: &mut impl FnMut(Node<'t>) -> bool) {
    let mut cursor = node.walk();
    if !cursor.goto_first_child() {
        return;
    }
    let mut depth = 1;
    loop {
        if enter(cursor.node()) && cursor.goto_first_child() {
            depth += 1;
            continue;
        }
        while !cursor.goto_next_sibling() {
            if depth == 1 || !cursor.goto_parent() {
                return;
            }
            depth -= 1;
        }
    }
}
