//! The prompt of a program that asks for a password, a passphrase or a confirmation.

use sysop_core::question::Question;

use crate::cells::{Span, TextRow, exact, wrap};
use crate::theme::{StyleRole, Theme};

/// Maximum number of characters of a prompt to show. If longer, only its start and end are shown.
const PROMPT_CHARS_MAX: usize = 4_000;

/// Returns the rows of a program's prompt, indented so that they cannot be mistaken for sysop's line above.
pub fn prompt_rows(question: &Question, columns: usize, theme: Theme) -> Vec<TextRow> {
    let (plain, odd) = (theme.style(StyleRole::Code), theme.style(StyleRole::Warn));
    let gap = Span::new("  ", theme.style(StyleRole::Text));
    shortened(question.prompt.trim())
        .split(['\n', '\r'])
        // Wrap between words, so that a fingerprint is not broken.
        .flat_map(|line| wrap(&exact(line, plain, odd), columns.saturating_sub(2)))
        .map(|row| row.with_prefix(gap.clone()))
        .collect()
}

/// Returns the host's observations about the program. They are sysop's own text, one sentence per row.
pub fn detail_rows(question: &Question, columns: usize, theme: Theme) -> Vec<TextRow> {
    let style = |detail: &str| {
        theme.style(if detail.starts_with("Warning") { StyleRole::Warn } else { StyleRole::Text })
    };
    question
        .details
        .iter()
        .flat_map(|detail| wrap(&exact(detail, style(detail), theme.style(StyleRole::Warn)), columns))
        .collect()
}

fn shortened(text: &str) -> String {
    let count = text.chars().count();
    if count <= PROMPT_CHARS_MAX {
        return text.to_owned();
    }
    let head: String = text.chars().take(PROMPT_CHARS_MAX / 2).collect();
    let tail: String = text.chars().skip(count - PROMPT_CHARS_MAX / 2).collect();
    format!("{head}\n… {} characters omitted …\n{tail}", count - PROMPT_CHARS_MAX)
}
