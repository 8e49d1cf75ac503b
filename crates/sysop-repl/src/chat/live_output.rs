//! Panel with the output of a running call: its first rows, and at the end its last rows.
//!
//! A short message during the call is shown on the frame of the panel. A long one closes the panel; the next row of
//! output opens it again.

use std::collections::VecDeque;

use sysop_core::id::CallId;
use sysop_core::style::StyleRuns;
use sysop_core::text::Stripper;
use sysop_core::ui_text::counted;
use sysop_term::ansi::text_style;
use sysop_term::cells::{expand_tabs, wrap, wrap_exact};
use sysop_term::{Span, StyleRole, TextRow};

use crate::render::panel::Panel;
use crate::render::{THEME, row, wrap as wrap_row};

/// Maximum number of rows to show from the start of an output.
pub(super) const OUTPUT_HEAD_ROWS: usize = 60;
/// Maximum number of rows to show from the end of an output.
pub(super) const OUTPUT_TAIL_ROWS: usize = 20;
/// Maximum number of rows of a message on the frame.
const MESSAGE_ROWS_MAX: usize = 3;
/// Maximum length of an unfinished output line, in bytes.
const OUTPUT_LINE_BYTES_MAX: usize = 16 * 1024;

pub(super) struct LiveOutput {
    pub(super) call: CallId,
    panel: Panel,
    title: &'static str,
    /// True if the panel has a top, but no bottom yet.
    open: bool,
    /// Strips control sequences in such a way that the user sees the same text as the model: of a progress display,
    /// only the last state.
    stripper: Stripper,
    line: TextRow,
    line_bytes: usize,
    /// Width of `line` in cells.
    column: usize,
    shown: usize,
    /// Number of rows at the start that are shown; at the end, `OUTPUT_TAIL_ROWS` follow.
    head_rows: usize,
    hidden: usize,
    tail: VecDeque<TextRow>,
}

impl LiveOutput {
    /// Creates the panel. Also returns its top row.
    pub(super) fn open(call: CallId, title: &'static str, panel: Panel) -> (Self, TextRow) {
        let output = Self {
            call,
            panel,
            title,
            open: true,
            stripper: Stripper::with_styles(),
            line: TextRow::default(),
            line_bytes: 0,
            column: 0,
            shown: 0,
            head_rows: OUTPUT_HEAD_ROWS,
            hidden: 0,
            tail: VecDeque::new(),
        };
        (output, panel.top(title))
    }

    /// Returns a panel with the whole of an output.
    pub(super) fn whole(title: &str, text: &str, styles: &StyleRuns, panel: Panel) -> Vec<TextRow> {
        let (output, _) = Self::open(CallId::new(""), "", panel);
        let mut output = Self { head_rows: usize::MAX, ..output };
        let mut rows = vec![panel.top(title)];
        rows.extend(output.push_styled(text, styles));
        rows.extend(output.finish(panel, None));
        rows
    }

    /// Returns the rows of a message on the frame, whose lines are wrapped at words. Returns `None` if the panel is
    /// closed or the message is too long.
    pub(super) fn message(&self, lines: &[TextRow]) -> Option<Vec<TextRow>> {
        let inner = self.panel.inner();
        let rows: Vec<TextRow> = lines.iter().flat_map(|line| wrap_row(line, inner, 2)).collect();
        let fits = self.open && rows.len() <= MESSAGE_ROWS_MAX;
        fits.then(|| rows.into_iter().map(|row| self.panel.message(row)).collect())
    }

    /// Follows the width of the terminal.
    pub(super) fn resize(&mut self, panel: Panel) {
        self.panel = panel;
    }

    /// Returns the row that closes the panel before a message, if the panel is open and has sides.
    pub(super) fn close(&mut self) -> Option<TextRow> {
        std::mem::take(&mut self.open).then(|| self.panel.bottom()).flatten()
    }

    pub(super) fn push(&mut self, text: &str) -> Vec<TextRow> {
        let (text, styles) = self.stripper.push_styled(text);
        self.push_styled(&text, &styles)
    }

    pub(super) fn push_styled(&mut self, text: &str, styles: &StyleRuns) -> Vec<TextRow> {
        let mut out = Vec::new();
        for (piece, look) in styles.runs(text) {
            for part in piece.split_inclusive('\n') {
                let style = text_style(look, THEME, THEME.style(StyleRole::Text));
                let visible = expand_tabs(part.trim_end_matches('\n'), &mut self.column);
                self.line.push(Span::new(&visible, style));
                self.line_bytes += part.len();
                if part.ends_with('\n') || self.line_bytes > OUTPUT_LINE_BYTES_MAX {
                    self.end_line(&mut out);
                }
            }
        }
        self.inside(out)
    }

    /// Returns rows for inside the panel with the panel's top, if it is closed and there are rows.
    fn inside(&mut self, mut rows: Vec<TextRow>) -> Vec<TextRow> {
        if !rows.is_empty() && !std::mem::replace(&mut self.open, true) {
            rows.insert(0, self.panel.top(&format!("{}, continued", self.title)));
        }
        rows
    }

    fn end_line(&mut self, out: &mut Vec<TextRow>) {
        (self.line_bytes, self.column) = (0, 0);
        let line = std::mem::take(&mut self.line);
        for text in wrap_exact(&line.spans, self.panel.inner()) {
            if self.shown < self.head_rows {
                self.shown += 1;
                out.push(self.panel.row(text));
            } else {
                self.tail.push_back(text);
                // Instead of a single row, its omission would take a row.
                while self.tail.len() > OUTPUT_TAIL_ROWS + usize::from(self.hidden == 0) {
                    self.tail.pop_front();
                    self.hidden += 1;
                }
            }
        }
    }

    /// Returns the text that the live row shows for output that has not been printed yet, if any.
    pub(super) fn waiting(&self) -> Option<String> {
        let more = self.hidden + self.tail.len();
        if more > 0 {
            return Some(format!("{more} more rows"));
        }
        let line = self.line.text() + &self.stripper.unfinished_line();
        let line = line.trim();
        (!line.is_empty()).then(|| line.to_owned())
    }

    /// Returns the remaining rows of the panel. `rest` says where the omitted rows are, if the call has ended.
    pub(super) fn finish(mut self, panel: Panel, rest: Option<&str>) -> Vec<TextRow> {
        self.panel = panel;
        let (incomplete, styles) = self.stripper.finish_styled();
        let mut out = self.push_styled(&incomplete, &styles);
        let mut rows = Vec::new();
        if !self.line.spans.is_empty() {
            self.end_line(&mut rows);
        }
        if self.hidden > 0 {
            let omitted = counted(self.hidden as u64, "row");
            let omitted = match rest {
                Some(rest) => format!("… {omitted} omitted; {rest} …"),
                None => format!("… {omitted} omitted …"),
            };
            let omitted = wrap(&row(&omitted, StyleRole::Warn).spans, panel.inner());
            rows.extend(omitted.into_iter().map(|text| panel.row(text)));
        }
        let tail: Vec<TextRow> = self.tail.drain(..).collect();
        let tail = tail.iter().flat_map(|text| wrap_exact(&text.spans, panel.inner()));
        rows.extend(tail.map(|text| panel.row(text)));
        out.extend(self.inside(rows));
        out.extend(self.close());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::RenderOptions;

    fn text(rows: &[TextRow]) -> Vec<String> {
        rows.iter().map(|row| row.text().trim_end_matches(['─', '╮', '╯', ' ', '│']).to_owned()).collect()
    }

    #[test]
    fn output_after_a_message_is_in_a_panel_of_its_own() {
        let panel = Panel::new(RenderOptions { width: 80, color: false });
        let (mut output, top) = LiveOutput::open(CallId::new("c"), "COMMAND OUTPUT", panel);
        assert_eq!(text(&[top]), ["╭─ COMMAND OUTPUT"]);
        assert_eq!(text(&output.push("one\ntw")), ["│ one"]);
        assert_eq!(text(&Vec::from_iter(output.close())), ["╰"]);
        assert_eq!(output.close(), None, "a closed panel is not closed twice");
        assert_eq!(text(&output.push("o\nthree")), ["╭─ COMMAND OUTPUT, continued", "│ two"]);
        assert_eq!(text(&Vec::from_iter(output.close())), ["╰"]);
        assert_eq!(text(&output.finish(panel, None)), ["╭─ COMMAND OUTPUT, continued", "│ three", "╰"]);
    }

    #[test]
    fn a_short_message_is_on_the_frame_of_the_panel() {
        let panel = Panel::new(RenderOptions { width: 80, color: false });
        let (mut output, _) = LiveOutput::open(CallId::new("c"), "COMMAND OUTPUT", panel);
        output.push("one\n");
        let line = |text: &str| row(text, StyleRole::Dim);
        let message = output.message(&[line("pausing after this command…")]).expect("it is short");
        assert_eq!(message[0].text().trim_end_matches([' ', '┤']), "├ pausing after this command…");
        assert_eq!(message[0].width(), 79);
        assert_eq!(text(&output.push("two\n")), ["│ two"], "the panel is still open");
        assert_eq!(output.message(&[line("a"), line("b"), line("c"), line("d")]), None);
        let long = format!("{} sleep 9", "x".repeat(73));
        let rows = output.message(&[line(&long)]).expect("it is short");
        let rows: Vec<String> =
            rows.iter().map(|row| row.text().trim_end_matches([' ', '┤']).to_owned()).collect();
        assert_eq!(rows, [format!("├ {}", "x".repeat(73)), "├   sleep 9".to_owned()], "no word is broken");
        output.close();
        assert_eq!(output.message(&[line("a")]), None);
    }

    #[test]
    fn one_row_is_not_omitted_and_a_whole_output_has_all_rows() {
        let panel = Panel::new(RenderOptions { width: 80, color: false });
        let lines = |count: usize| (1..=count).map(|number| format!("{number}\n")).collect::<String>();
        let shown = |count: usize| {
            let (mut output, _) = LiveOutput::open(CallId::new("c"), "COMMAND OUTPUT", panel);
            let mut rows = output.push(&lines(count));
            rows.extend(output.finish(panel, Some("/output 4 shows all")));
            text(&rows)
        };
        let most = OUTPUT_HEAD_ROWS + OUTPUT_TAIL_ROWS;
        assert_eq!(shown(most + 1).len(), most + 2, "all rows and the bottom");
        let folded = shown(most + 2);
        assert_eq!(folded.len(), most + 2);
        assert_eq!(folded[OUTPUT_HEAD_ROWS], "│ … 2 rows omitted; /output 4 shows all …");
        assert_eq!(folded[OUTPUT_HEAD_ROWS + 1], format!("│ {}", OUTPUT_HEAD_ROWS + 3));
        let whole = LiveOutput::whole("OUTPUT 4", &lines(200), &StyleRuns::default(), panel);
        assert_eq!((whole.len(), text(&whole)[150].as_str()), (202, "│ 150"));
    }

    #[test]
    fn tabs_lead_to_tab_stops_across_pieces_and_colors() {
        let panel = Panel::new(RenderOptions { width: 80, color: false });
        let (mut output, _) = LiveOutput::open(CallId::new("c"), "COMMAND OUTPUT", panel);
        let mut rows = output.push("9M\t/a\n153M\t/b\n\u{1b}[1m日本\u{1b}[m\t/c\n12345678\t/d\n1");
        rows.extend(output.push("2\t/e\n"));
        let expected =
            ["│ 9M      /a", "│ 153M    /b", "│ 日本    /c", "│ 12345678        /d", "│ 12      /e"];
        assert_eq!(text(&rows), expected);
    }

    #[test]
    fn a_panel_that_a_message_closed_stays_closed_without_further_output() {
        let panel = Panel::new(RenderOptions { width: 80, color: false });
        let (mut output, _) = LiveOutput::open(CallId::new("c"), "COMMAND OUTPUT", panel);
        output.push("one\n");
        output.close();
        assert_eq!(output.finish(panel, None), []);
    }
}
