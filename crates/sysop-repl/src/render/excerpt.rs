//! First and last lines of an output, as it arrives.

use std::collections::VecDeque;

/// Maximum length of a line, in bytes; a longer one is split.
pub(crate) const LINE_BYTES_MAX: usize = 16 * 1024;

/// Output of which the first lines are shown at once, and the last ones at its end.
#[derive(Debug)]
pub(crate) struct Excerpt {
    /// Number of lines to show from the start.
    head: usize,
    /// Number of lines to show from the end.
    tail_lines: usize,
    /// The unfinished line.
    line: String,
    shown: usize,
    hidden: usize,
    tail: VecDeque<String>,
}

impl Excerpt {
    /// Creates the excerpt of an output that has not begun, with this many lines of its start and of its end.
    pub(crate) fn new(head: usize, tail: usize) -> Self {
        Self { head, tail_lines: tail, line: String::new(), shown: 0, hidden: 0, tail: VecDeque::new() }
    }

    /// Returns the excerpt of a whole output. `rest` says where the omitted lines are.
    pub(crate) fn of(mut self, output: &str, rest: &str) -> String {
        self.push(output) + &self.finish(rest)
    }

    /// Adds text that is already sanitized. Returns the lines to show now, each with its line feed.
    pub(crate) fn push(&mut self, text: &str) -> String {
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
        if self.shown < self.head {
            self.shown += 1;
            return Some(line);
        }
        self.tail.push_back(line);
        // One line is not omitted: the note would take as much.
        while self.tail.len() > self.tail_lines + usize::from(self.hidden == 0) {
            self.tail.pop_front();
            self.hidden += 1;
        }
        None
    }

    /// Returns the lines at the end. `rest` says where the omitted lines are.
    pub(crate) fn finish(mut self, rest: &str) -> String {
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

    const HEAD: usize = 60;
    const TAIL: usize = 20;

    #[test]
    fn whole_lines_are_shown_as_they_arrive() {
        let mut excerpt = Excerpt::new(2, 2);
        assert_eq!(excerpt.push("one\ntw"), "one\n");
        assert_eq!(excerpt.push("o\n"), "two\n");
        assert_eq!(excerpt.push("Really? "), "");
        assert_eq!(excerpt.finish("/output 1 shows all"), "Really? \n");
    }

    #[test]
    fn the_middle_of_a_long_output_is_omitted() {
        let lines = |count: usize| (1..=count).map(|number| format!("{number}\n")).collect::<String>();
        let most = HEAD + TAIL;
        let excerpt = || Excerpt::new(HEAD, TAIL);
        assert_eq!(excerpt().of(&lines(most + 1), ""), lines(most + 1));
        let folded = excerpt().of(&lines(200), "/output 1 shows all");
        let folded: Vec<&str> = folded.lines().collect();
        assert_eq!(folded.len(), most + 1);
        assert_eq!(folded[HEAD], "… 120 lines omitted; /output 1 shows all …");
        assert_eq!((folded[HEAD - 1], folded[HEAD + 1]), ("60", "181"));
    }
}
