//! Keeps the text protocol from being shown while it streams: a person reads the answer in it, not its JSON.

use sysop_core::message::Reply;
use sysop_driver::port::ModelEvent;

use crate::wire::{Decoder, FrameError};

/// How a reply in the text protocol begins: JSON, a fence, or a tag.
const BEGINNINGS: [char; 4] = ['{', '[', '`', '<'];

/// A decoder whose reply is shown as it streams only if it begins like plain words.
pub(crate) struct WithoutProtocol {
    inner: Box<dyn Decoder>,
    /// Whether it is shown; not known before its first character.
    shown: Option<bool>,
}

impl WithoutProtocol {
    pub(crate) fn new(inner: impl Decoder + 'static) -> Self {
        Self { inner: Box::new(inner), shown: None }
    }

    fn shows(&mut self, event: &ModelEvent) -> bool {
        let ModelEvent::Text(text) = event else { return true };
        let first = text.chars().find(|character| !character.is_whitespace());
        if self.shown.is_none() {
            self.shown = first.map(|first| !BEGINNINGS.contains(&first));
        }
        self.shown.unwrap_or(false)
    }
}

impl Decoder for WithoutProtocol {
    fn frame(&mut self, event: &str, data: &str, out: &mut Vec<ModelEvent>) -> Result<bool, FrameError> {
        let mut read = Vec::new();
        let result = self.inner.frame(event, data, &mut read);
        out.extend(read.into_iter().filter(|event| self.shows(event)));
        result
    }

    fn finish(self: Box<Self>) -> Result<Reply, FrameError> {
        self.inner.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says each frame as text, the whole at the end.
    struct Parrot(String);

    impl Decoder for Parrot {
        fn frame(&mut self, _: &str, data: &str, out: &mut Vec<ModelEvent>) -> Result<bool, FrameError> {
            out.push(ModelEvent::Reasoning("hm".to_owned()));
            out.push(ModelEvent::Text(data.to_owned()));
            self.0.push_str(data);
            Ok(false)
        }

        fn finish(self: Box<Self>) -> Result<Reply, FrameError> {
            Ok(Reply { text: self.0, ..Reply::default() })
        }
    }

    fn shown(pieces: &[&str]) -> String {
        let mut decoder = Box::new(WithoutProtocol::new(Parrot(String::new())));
        let mut out = Vec::new();
        for piece in pieces {
            assert_eq!(decoder.frame("", piece, &mut out), Ok(false));
        }
        assert_eq!(decoder.finish().map(|reply| reply.text), Ok(pieces.concat()), "the reply is whole");
        let mut text = String::new();
        for event in &out {
            if let ModelEvent::Text(piece) = event {
                text.push_str(piece);
            } else {
                assert_eq!(event, &ModelEvent::Reasoning("hm".to_owned()));
            }
        }
        text
    }

    #[test]
    fn json_fences_and_tags_are_not_shown_and_words_are() {
        for hidden in
            [&["{\"type\":", "\"answer\"}"][..], &["\n ", "{}"], &["```sh\nls"], &["<tool_call>", "x"]]
        {
            assert_eq!(shown(hidden), "", "{hidden:?}");
        }
        assert_eq!(shown(&["There ", "are {2}"]), "There are {2}");
        assert_eq!(shown(&[]), "");
    }
}
