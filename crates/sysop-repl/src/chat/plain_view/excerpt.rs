//! First and last lines of an output, as it arrives.

use std::collections::VecDeque;

use super::super::live_output::{OUTPUT_HEAD_ROWS, OUTPUT_TAIL_ROWS};

/// Maximum length of a line, in bytes; a longer one is split.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// Output of which the first lines are shown at once, and the last ones at its end.
#[derive(Debug, Default)]
pub(super) struct Excerpt {
    /// The unfinished line.
    line: String,
    shown: usize,
    hidden: usize,
    tail: VecDeque<String>,
}

impl Excerpt {
    /// Returns the excerpt of a whole output. `rest` says where the omitted lines are.
    pub(super) fn of(output: &str, rest: &str) -> String {
        let mut excerpt = Self::default();
        excerpt.push(output) + &excerpt.finish(rest)
    }

    /// Adds text that is already sanitized. Returns the lines to show now, each with its line feed.
    pub(super) fn push(&mut self, text: &str) -> String {
        let mut out = String::new();
        for part in text.split_inclusive('\n') {
            self.line.push_str(part);
            if part.ends_with('\n') || self.line.len() > LINE_BYTES_MAX {
                out.extend(self.end_line());
            }
        }
        out
    }

    fn end_line(&mut self) -> Option<String> {
        let mut line = std::mem::take(&mut self.line);
        if !line.ends_with('\n') {
            line.push('\n');
        }
        if self.shown < OUTPUT_HEAD_ROWS {
            self.shown += 1;
            return Some(line);
        }
        self.tail.push_back(line);
        // One line is not omitted: the note would take as much.
        while self.tail.len() > OUTPUT_TAIL_ROWS + usize::from(self.hidden == 0) {
            self.tail.pop_front();
            self.hidden += 1;
        }
        None
    }

    /// Returns the lines at the end. `rest` says where the omitted lines are.
    pub(super) fn finish(mut self, rest: &str) -> String {
        let mut out = String::new();
        if !self.line.is_empty() {
            out.extend(self.end_line());
        }
        if self.hidden > 0 {
            out.push_str(&format!("… {} lines omitted; {rest} …\n", self.hidden));
        }
        out.extend(self.tail);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_lines_are_shown_as_they_arrive() {
        let mut excerpt = Excerpt::default();
        assert_eq!(excerpt.push("one\ntw"), "one\n");
        assert_eq!(excerpt.push("o\n"), "two\n");
        assert_eq!(excerpt.push("Really? "), "");
        assert_eq!(excerpt.finish("/output 1 shows all"), "Really? \n");
    }

    #[test]
    fn the_middle_of_a_long_output_is_omitted() {
        let lines = |count: usize| (1..=count).map(|number| format!("{number}\n")).collect::<String>();
        let most = OUTPUT_HEAD_ROWS + OUTPUT_TAIL_ROWS;
        assert_eq!(Excerpt::of(&lines(most + 1), ""), lines(most + 1));
        let folded = Excerpt::of(&lines(200), "/output 1 shows all");
        let folded: Vec<&str> = folded.lines().collect();
        assert_eq!(folded.len(), most + 1);
        assert_eq!(folded[OUTPUT_HEAD_ROWS], "… 120 lines omitted; /output 1 shows all …");
        assert_eq!((folded[OUTPUT_HEAD_ROWS - 1], folded[OUTPUT_HEAD_ROWS + 1]), ("60", "181"));
    }
}
