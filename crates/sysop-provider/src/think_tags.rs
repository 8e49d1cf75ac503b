//! Splits a leading `<think>…</think>` off a streamed text, for servers that do not separate reasoning from text.

/// Start tag of reasoning.
const OPEN: &str = "<think>";
/// End tag of reasoning.
const CLOSE: &str = "</think>";

/// Incremental parser; chunk boundaries do not matter.
#[derive(Debug, Default)]
pub(crate) struct ThinkTagParser {
    state: State,
    pending: String,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Start,
    Inside,
    /// Right after the closing tag, where whitespace is skipped.
    AfterClose,
    Outside,
}

impl ThinkTagParser {
    /// Parses a chunk. Passes everything that cannot be part of a tag to `text` or `reasoning`.
    pub(crate) fn push(
        &mut self,
        piece: &str,
        text: &mut impl FnMut(&str),
        reasoning: &mut impl FnMut(&str),
    ) {
        match self.state {
            State::Outside => text(piece),
            State::AfterClose => self.after_close(piece, text),
            State::Start => {
                self.pending.push_str(piece);
                self.start(text, reasoning);
            }
            State::Inside => {
                self.pending.push_str(piece);
                self.inside(text, reasoning);
            }
        }
    }

    /// Ends the stream and flushes pending characters.
    pub(crate) fn finish(&mut self, text: &mut impl FnMut(&str), reasoning: &mut impl FnMut(&str)) {
        let pending = std::mem::take(&mut self.pending);
        match self.state {
            State::Start | State::AfterClose | State::Outside => text(&pending),
            State::Inside => reasoning(&pending),
        }
        self.state = State::Outside;
    }

    fn start(&mut self, text: &mut impl FnMut(&str), reasoning: &mut impl FnMut(&str)) {
        let begun = self.pending.trim_start();
        if let Some(rest) = begun.strip_prefix(OPEN) {
            self.pending = rest.to_owned();
            self.state = State::Inside;
            self.inside(text, reasoning);
        } else if !OPEN.starts_with(begun) {
            self.state = State::Outside;
            text(&std::mem::take(&mut self.pending));
        }
    }

    fn after_close(&mut self, piece: &str, text: &mut impl FnMut(&str)) {
        let begun = piece.trim_start();
        if !begun.is_empty() {
            self.state = State::Outside;
            text(begun);
        }
    }

    fn inside(&mut self, text: &mut impl FnMut(&str), reasoning: &mut impl FnMut(&str)) {
        if let Some(end) = self.pending.find(CLOSE) {
            reasoning(&self.pending[..end]);
            let rest = self.pending[end + CLOSE.len()..].to_owned();
            self.pending.clear();
            self.state = State::AfterClose;
            self.after_close(&rest, text);
            return;
        }
        let kept =
            (1..CLOSE.len()).rev().find(|length| self.pending.ends_with(&CLOSE[..*length])).unwrap_or(0);
        let certain = self.pending.len() - kept;
        reasoning(&self.pending[..certain]);
        self.pending.drain(..certain);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(pieces: &[&str]) -> (String, String) {
        let (mut text, mut reasoning) = (String::new(), String::new());
        let mut thinking = ThinkTagParser::default();
        for piece in pieces {
            thinking.push(piece, &mut |more| text.push_str(more), &mut |more| reasoning.push_str(more));
        }
        thinking.finish(&mut |more| text.push_str(more), &mut |more| reasoning.push_str(more));
        (text, reasoning)
    }

    #[test]
    fn extracts_reasoning_only_at_the_start() {
        for (whole, text, reasoning) in [
            ("\n<think>a < b</think>\n\nc\n", "c\n", "a < b"),
            ("<think>never ends </thi", "", "never ends </thi"),
            ("x <think>a</think>", "x <think>a</think>", ""),
            ("<thin", "<thin", ""),
            ("  plain", "  plain", ""),
            ("<think></think>", "", ""),
        ] {
            assert_eq!(split(&[whole]), (text.to_owned(), reasoning.to_owned()), "{whole}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn chunk_boundaries_do_not_matter(
            parts in prop::collection::vec(prop::sample::select(vec!["<think>", "</think>", "<", "/", "think", ">", " ", "é"]), 0..12),
        ) {
            let whole = parts.concat();
            let signs: Vec<String> = whole.chars().map(String::from).collect();
            let signs: Vec<&str> = signs.iter().map(String::as_str).collect();
            prop_assert_eq!(split(&signs), split(&[&whole]));
        }
    }
}
