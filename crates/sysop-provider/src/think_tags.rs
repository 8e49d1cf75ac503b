//! Splits a leading `<think>…</think>` off streamed text, for servers that do not separate reasoning from text.

use std::borrow::Cow;

use sysop_driver::port::ModelEvent;

use crate::api::{push_reasoning, push_text};

const OPEN: &str = "<think>";
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

/// Content that a chunk adds to a reply; its reasoning comes before its text.
#[derive(Debug, Default)]
pub(crate) struct ThinkSplit<'a> {
    reasoning: String,
    /// Borrowed for nearly all chunks, which need no parsing.
    text: Cow<'a, str>,
}

impl ThinkSplit<'_> {
    /// Appends the text and the reasoning to the reply, and emits the events.
    pub(crate) fn add_to(&self, text: &mut String, reasoning: &mut String, out: &mut Vec<ModelEvent>) {
        push_reasoning(out, &self.reasoning);
        reasoning.push_str(&self.reasoning);
        push_text(out, &self.text);
        text.push_str(&self.text);
    }
}

impl ThinkTagParser {
    /// Parses a chunk. Returns everything that cannot be part of a tag.
    pub(crate) fn push<'a>(&mut self, piece: &'a str) -> ThinkSplit<'a> {
        let mut split = ThinkSplit::default();
        match self.state {
            State::Outside => split.text = Cow::Borrowed(piece),
            State::AfterClose => self.after_close(piece, &mut split),
            State::Start => {
                self.pending.push_str(piece);
                self.start(&mut split);
            }
            State::Inside => {
                self.pending.push_str(piece);
                self.inside(&mut split);
            }
        }
        split
    }

    /// Ends the stream and returns pending characters.
    pub(crate) fn finish(&mut self) -> ThinkSplit<'static> {
        let pending = std::mem::take(&mut self.pending);
        match std::mem::replace(&mut self.state, State::Outside) {
            State::Start | State::AfterClose | State::Outside => {
                ThinkSplit { text: Cow::Owned(pending), ..ThinkSplit::default() }
            }
            State::Inside => ThinkSplit { reasoning: pending, ..ThinkSplit::default() },
        }
    }

    fn start(&mut self, split: &mut ThinkSplit<'_>) {
        let begun = self.pending.trim_start();
        if let Some(rest) = begun.strip_prefix(OPEN) {
            self.pending = rest.to_owned();
            self.state = State::Inside;
            self.inside(split);
        } else if !OPEN.starts_with(begun) {
            self.state = State::Outside;
            split.text = Cow::Owned(std::mem::take(&mut self.pending));
        }
    }

    fn after_close(&mut self, piece: &str, split: &mut ThinkSplit<'_>) {
        let begun = piece.trim_start();
        if !begun.is_empty() {
            self.state = State::Outside;
            split.text = Cow::Owned(begun.to_owned());
        }
    }

    fn inside(&mut self, split: &mut ThinkSplit<'_>) {
        if let Some(end) = self.pending.find(CLOSE) {
            split.reasoning.push_str(&self.pending[..end]);
            let rest = self.pending[end + CLOSE.len()..].to_owned();
            self.pending.clear();
            self.state = State::AfterClose;
            self.after_close(&rest, split);
            return;
        }
        let kept =
            (1..CLOSE.len()).rev().find(|length| self.pending.ends_with(&CLOSE[..*length])).unwrap_or(0);
        let certain = self.pending.len() - kept;
        split.reasoning.push_str(&self.pending[..certain]);
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
            thinking.push(piece).add_to(&mut text, &mut reasoning, &mut Vec::new());
        }
        thinking.finish().add_to(&mut text, &mut reasoning, &mut Vec::new());
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
