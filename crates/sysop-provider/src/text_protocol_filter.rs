//! Keeps the text protocol from being shown while it streams: a person reads the answer in it, not its JSON.

use std::sync::Arc;

use sysop_core::message::Reply;
use sysop_core::text_protocol::{self, ParsedReply};
use sysop_core::tool::ToolSpec;
use sysop_driver::port::ModelEvent;

use crate::api::{FrameError, ReplyDecoder};

/// How a reply in the text protocol begins: JSON, a fence, or a tag.
const BEGINNINGS: [char; 4] = ['{', '[', '`', '<'];

/// A decoder whose reply is shown as it streams only if it begins like plain words; of any other the text in it is
/// shown at its end.
pub(crate) struct TextProtocolFilter {
    inner: Box<dyn ReplyDecoder>,
    tools: Arc<[ToolSpec]>,
    /// What was not shown.
    hidden: String,
    /// Whether it is shown; not known before its first character.
    shown: Option<bool>,
}

impl TextProtocolFilter {
    pub(crate) fn new(inner: impl ReplyDecoder + 'static, tools: Arc<[ToolSpec]>) -> Self {
        Self { inner: Box::new(inner), tools, hidden: String::new(), shown: None }
    }

    fn is_visible(&mut self, event: &ModelEvent) -> bool {
        let ModelEvent::Text(text) = event else { return true };
        let first = text.chars().find(|character| !character.is_whitespace());
        if self.shown.is_none() {
            self.shown = first.map(|first| !BEGINNINGS.contains(&first));
        }
        let shown = self.shown.unwrap_or(false);
        if !shown {
            self.hidden.push_str(text);
        }
        shown
    }

    /// What a person reads of what was not shown.
    fn visible_text(&self, hidden: &str) -> String {
        match text_protocol::parse(hidden, &self.tools, true) {
            ParsedReply::Answer(text) | ParsedReply::Calls { text, .. } => text,
        }
    }
}

impl ReplyDecoder for TextProtocolFilter {
    fn decode_frame(
        &mut self,
        event: &str,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<bool, FrameError> {
        let mut read = Vec::new();
        let result = self.inner.decode_frame(event, data, &mut read);
        out.extend(read.into_iter().filter(|event| self.is_visible(event)));
        if result == Ok(true) && !self.hidden.is_empty() {
            let words = std::mem::take(&mut self.hidden);
            out.extend(Some(self.visible_text(&words)).filter(|text| !text.is_empty()).map(ModelEvent::Text));
        }
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
    struct EchoDecoder(String);

    impl ReplyDecoder for EchoDecoder {
        fn decode_frame(
            &mut self,
            _: &str,
            data: &str,
            out: &mut Vec<ModelEvent>,
        ) -> Result<bool, FrameError> {
            out.push(ModelEvent::Reasoning("hm".to_owned()));
            out.push(ModelEvent::Text(data.to_owned()));
            self.0.push_str(data);
            Ok(data.ends_with('\n'))
        }

        fn finish(self: Box<Self>) -> Result<Reply, FrameError> {
            Ok(Reply { text: self.0, ..Reply::default() })
        }
    }

    fn shown(pieces: &[&str]) -> String {
        let mut decoder = Box::new(TextProtocolFilter::new(EchoDecoder(String::new()), Arc::from([])));
        let mut out = Vec::new();
        for piece in pieces {
            assert_eq!(decoder.decode_frame("", piece, &mut out), Ok(piece.ends_with('\n')));
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
            [&["{\"type\":", "\"answer\"}"][..], &["  ", "{}"], &["```sh\nls"], &["<tool_call>", "x"]]
        {
            assert_eq!(shown(hidden), "", "{hidden:?}");
        }
        assert_eq!(shown(&["There ", "are {2}"]), "There are {2}");
        assert_eq!(shown(&["{\"type\":\"answer\",", "\"text\":\"two\"}\n"]), "two", "the answer in it is");
        assert_eq!(shown(&[]), "");
    }
}
