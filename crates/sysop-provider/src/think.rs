//! Tells `<think>…</think>` at the beginning of a reply from its text, for models that nobody tags.

/// Splits a stream of text.
#[derive(Debug, Default)]
pub(crate) struct ThinkSplitter {
    state: State,
    /// Text that may turn out to be part of a tag.
    held: String,
    /// Text that came since the thought; blank text before it is dropped.
    text_began: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Start,
    Thinking,
    Text,
}

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// A piece of text with its meaning.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Text(String),
    Thought(String),
}

impl ThinkSplitter {
    /// Takes a piece.
    pub(crate) fn push(&mut self, piece: &str) -> Vec<Said> {
        let mut out = Vec::new();
        if self.state == State::Text {
            self.text(piece, &mut out);
            return out;
        }
        self.held.push_str(piece);
        if self.state == State::Start {
            let start = self.held.trim_start();
            if let Some(rest) = start.strip_prefix(OPEN) {
                self.held = rest.to_owned();
                self.state = State::Thinking;
            } else if OPEN.starts_with(start) {
                return out;
            } else {
                self.state = State::Text;
                self.text_began = true;
                return vec![Said::Text(std::mem::take(&mut self.held))];
            }
        }
        if let Some((thought, text)) = self.held.split_once(CLOSE) {
            let (thought, text) = (thought.to_owned(), text.to_owned());
            push(&mut out, Said::Thought(thought));
            self.held.clear();
            self.state = State::Text;
            self.text(&text, &mut out);
            return out;
        }
        let keep = (1..CLOSE.len()).rev().find(|&length| self.held.ends_with(&CLOSE[..length])).unwrap_or(0);
        let tail = self.held.split_off(self.held.len() - keep);
        push(&mut out, Said::Thought(std::mem::replace(&mut self.held, tail)));
        out
    }

    fn text(&mut self, piece: &str, out: &mut Vec<Said>) {
        let piece = if self.text_began { piece } else { piece.trim_start() };
        self.text_began |= !piece.is_empty();
        push(out, Said::Text(piece.to_owned()));
    }

    /// What was held back.
    pub(crate) fn finish(&mut self) -> Option<Said> {
        let held = std::mem::take(&mut self.held);
        if held.is_empty() {
            return None;
        }
        Some(if self.state == State::Thinking { Said::Thought(held) } else { Said::Text(held) })
    }
}

fn push(out: &mut Vec<Said>, said: Said) {
    let (Said::Text(text) | Said::Thought(text)) = &said;
    if !text.is_empty() {
        out.push(said);
    }
}

/// Moves what stands before a closing tag without an opening one out of a whole text: some templates write the
/// opening tag themselves.
pub(crate) fn split_unopened(text: &mut String) -> Option<String> {
    let (thought, rest) = text.split_once(CLOSE)?;
    if thought.contains(OPEN) {
        return None;
    }
    let thought = thought.trim().to_owned();
    *text = rest.trim_start().to_owned();
    Some(thought)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pieces: &[&str]) -> (String, String) {
        let mut splitter = ThinkSplitter::default();
        let (mut text, mut thought) = (String::new(), String::new());
        let mut said: Vec<Said> = pieces.iter().flat_map(|piece| splitter.push(piece)).collect();
        said.extend(splitter.finish());
        for said in said {
            match said {
                Said::Text(piece) => text.push_str(&piece),
                Said::Thought(piece) => thought.push_str(&piece),
            }
        }
        (text, thought)
    }

    #[test]
    fn tags_are_found_wherever_the_stream_is_cut() {
        let whole = "\n<think>a < b</think>\n\nhi <think>";
        for at in 0..whole.len() {
            for then in at..whole.len() {
                let got = split(&[&whole[..at], &whole[at..then], &whole[then..]]);
                assert_eq!(got.1, "a < b");
                assert_eq!(got.0, "hi <think>");
            }
        }
    }

    #[test]
    fn what_only_looks_like_a_tag_is_text() {
        assert_eq!(split(&["<", "thin", " ice"]), ("<thin ice".to_owned(), String::new()));
        assert_eq!(split(&["<thi"]), ("<thi".to_owned(), String::new()));
        assert_eq!(split(&["<think>never ends</thi"]), (String::new(), "never ends</thi".to_owned()));
    }

    #[test]
    fn an_unopened_thought_is_moved_out() {
        let mut text = "so what</think>\nhi".to_owned();
        assert_eq!(split_unopened(&mut text).as_deref(), Some("so what"));
        assert_eq!(text, "hi");
        let mut plain = "hi".to_owned();
        assert_eq!(split_unopened(&mut plain), None);
    }
}
