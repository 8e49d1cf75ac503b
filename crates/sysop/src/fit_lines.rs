//! Wraps lines of a report or a question to the width of a terminal.

use sysop_term::cells::wrap_hanging;
use sysop_term::{StyleRole, TextRow, Theme, ThemeName};

/// Wraps each line between words. A continued line is indented by the columns that `indent` returns for it.
pub(crate) fn fit_lines(text: &str, columns: usize, indent: impl Fn(&str) -> usize) -> String {
    // Some terminals wrap after writing the last column.
    let columns = columns.saturating_sub(1).max(1);
    let style = Theme { name: ThemeName::None }.style(StyleRole::Text);
    let rows =
        text.lines().flat_map(|line| wrap_hanging(&TextRow::of(line, style).spans, columns, indent(line)));
    rows.map(|row| row.text().trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::fit_lines;

    #[test]
    fn a_continued_line_is_indented_and_words_stay_whole() {
        let text = "  [1] download a model and run it\n\nshort";
        assert_eq!(fit_lines(text, 24, |_| 6), "  [1] download a model\n      and run it\n\nshort");
    }
}
