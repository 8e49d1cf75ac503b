//! Reads a reply of any API to its end and returns finished tool calls.
//!
//! A model without native tools writes its calls as text, and so does a model that forgets its native tools. The text
//! is parsed once, when the reply is complete: calls in the text become calls of the reply, and the remaining text is
//! for the user. Text that may belong to the text protocol is withheld while the reply streams.

use std::sync::Arc;

use sysop_core::id::CallId;
use sysop_core::message::{FinishReason, ModelRequest, Reply, ToolCall, ToolProtocol};
use sysop_core::mode::Mode;
use sysop_core::tool::ToolSpec;
use sysop_driver::port::ModelEvent;

use crate::api::{FrameError, ReplyDecoder};
use crate::text_protocol::{self, ParsedReply};

/// First characters of a reply in the text protocol: JSON, a fence, or a tag.
const BEGINNINGS: [char; 4] = ['{', '[', '`', '<'];

/// Wraps an API's decoder for one request.
pub(crate) struct ReplyReader {
    decoder: Box<dyn ReplyDecoder>,
    /// Tools whose names are recognized in calls written as text; `None` in chat mode, which has no calls.
    tools: Option<Arc<[ToolSpec]>>,
    visibility: Visibility,
    /// Bytes of text and reasoning received so far, including text that is withheld.
    text_bytes: usize,
}

/// Display of a reply's text while it streams.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visibility {
    /// No character has arrived.
    Undecided,
    /// The text is prose and is shown as it arrives.
    Streamed,
    /// The text may belong to the text protocol; the text that remains after parsing is shown at the end.
    Withheld,
}

impl ReplyReader {
    pub(crate) fn new(decoder: Box<dyn ReplyDecoder>, request: &ModelRequest) -> Self {
        let tools = (request.mode == Mode::Agent).then(|| Arc::clone(&request.known_tools));
        let visibility = match decoder.protocol() {
            ToolProtocol::Text if tools.is_some() => Visibility::Undecided,
            ToolProtocol::Text | ToolProtocol::Native => Visibility::Streamed,
        };
        Self { decoder, tools, visibility, text_bytes: 0 }
    }

    /// Decodes a frame like [`ReplyDecoder::decode_frame`], but withholds text that may belong to the text protocol.
    pub(crate) fn decode_frame(
        &mut self,
        event: &str,
        data: &str,
        out: &mut Vec<ModelEvent>,
    ) -> Result<bool, FrameError> {
        let mut read = Vec::new();
        let result = self.decoder.decode_frame(event, data, &mut read);
        self.text_bytes += read.iter().map(text_bytes).sum::<usize>();
        out.extend(read.into_iter().filter(|event| self.is_visible(event)));
        result
    }

    /// Returns the bytes of the reply received so far: text, reasoning and tool calls.
    pub(crate) fn received_bytes(&self) -> usize {
        self.text_bytes + self.decoder.call_bytes()
    }

    fn is_visible(&mut self, event: &ModelEvent) -> bool {
        let ModelEvent::Text(text) = event else { return true };
        let first = text.chars().find(|character| !character.is_whitespace());
        if let (Visibility::Undecided, Some(first)) = (self.visibility, first) {
            let protocol = BEGINNINGS.contains(&first);
            self.visibility = if protocol { Visibility::Withheld } else { Visibility::Streamed };
        }
        self.visibility == Visibility::Streamed
    }

    /// Returns the whole reply with its calls, like [`ReplyDecoder::finish`]. If text was withheld, pushes the text
    /// that remains after the calls were removed from it.
    pub(crate) fn finish(self, out: &mut Vec<ModelEvent>) -> Result<Reply, FrameError> {
        let mut reply = self.decoder.finish()?;
        if let Some(tools) = &self.tools {
            take_written_calls(&mut reply, tools);
        }
        if self.visibility != Visibility::Streamed && !reply.text.trim().is_empty() {
            out.push(ModelEvent::Text(reply.text.clone()));
        }
        Ok(reply)
    }
}

fn text_bytes(event: &ModelEvent) -> usize {
    match event {
        ModelEvent::Text(text) | ModelEvent::Reasoning(text) => text.len(),
        ModelEvent::Notice(_)
        | ModelEvent::Progress(_)
        | ModelEvent::Restarted
        | ModelEvent::Done(_)
        | ModelEvent::Failed(_) => 0,
    }
}

/// Moves calls that the model wrote as text from the reply's text to its calls. An answer in the form of the text
/// protocol is replaced with its plain text. A reply with native calls is left unchanged. The new calls have no ids;
/// the session assigns them.
fn take_written_calls(reply: &mut Reply, tools: &[ToolSpec]) {
    if !reply.calls.is_empty() || reply.text.is_empty() {
        return;
    }
    // A truncated reply may look as if its fence were closed.
    let fences = reply.protocol == ToolProtocol::Text && reply.finish != FinishReason::Length;
    match text_protocol::parse(&reply.text, tools, fences) {
        ParsedReply::Answer(text) => reply.text = text,
        ParsedReply::Calls { text, calls } => {
            reply.text = text;
            reply.raw = None; // holds the calls as text, which no tool result could answer
            reply.calls = calls
                .into_iter()
                .map(|call| ToolCall {
                    id: CallId::new(""),
                    wire_id: None,
                    name: call.name,
                    arguments: call.arguments,
                })
                .collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use sysop_core::message::{ModelRef, RawReply};
    use sysop_core::mode::SamplingDefaults;
    use sysop_core::tool::ToolEffect;

    use super::*;

    const CALL: &str = r#"{"type":"shell","command":"touch a","reason":"to try"}"#;
    const FENCED: &str = "```sh\ntouch a\n```";
    const MARKED: &str = "<tool_call>{\"name\":\"bash\",\"arguments\":{\"command\":\"touch a\"}}</tool_call>";
    const ANSWER: &str = r#"{"type":"answer","text":"4"}"#;

    /// Passes each frame on as text and returns a fixed reply.
    struct EchoDecoder(Reply);

    impl ReplyDecoder for EchoDecoder {
        fn protocol(&self) -> ToolProtocol {
            self.0.protocol
        }

        fn decode_frame(
            &mut self,
            _: &str,
            data: &str,
            out: &mut Vec<ModelEvent>,
        ) -> Result<bool, FrameError> {
            out.push(ModelEvent::Reasoning("hm".to_owned()));
            out.push(ModelEvent::Text(data.to_owned()));
            self.0.text.push_str(data);
            Ok(false)
        }

        fn finish(self: Box<Self>) -> Result<Reply, FrameError> {
            Ok(self.0)
        }
    }

    fn request(mode: Mode) -> ModelRequest {
        let parameters = serde_json::json!({"type": "object", "properties": {"command": {"type": "string"}}});
        let bash = ToolSpec {
            name: "bash".to_owned(),
            description: "".into(),
            parameters: parameters.into(),
            effect: ToolEffect::Command,
        };
        ModelRequest {
            model: ModelRef::new("ollama", "phi3"),
            system: Arc::from(""),
            messages: Vec::new(),
            trimmed: false,
            tools: Arc::from([]),
            known_tools: Arc::from([bash]),
            max_output_tokens: None,
            temperature: None,
            mode,
            effort: None,
            calls_as_text: false,
            must_call: false,
            text_system: None,
            sampling_defaults: SamplingDefaults::default(),
            images: Default::default(),
        }
    }

    /// Reads a reply from `pieces`; returns the reply and the text that was shown.
    fn read(mode: Mode, reply: Reply, pieces: &[&str]) -> (Reply, String) {
        let mut reader = ReplyReader::new(Box::new(EchoDecoder(reply)), &request(mode));
        let mut out = Vec::new();
        for piece in pieces {
            assert_eq!(reader.decode_frame("", piece, &mut out), Ok(false));
        }
        let reply = reader.finish(&mut out).expect("it ends well");
        let mut text = String::new();
        for event in &out {
            if let ModelEvent::Text(piece) = event {
                text.push_str(piece);
            } else {
                assert_eq!(event, &ModelEvent::Reasoning("hm".to_owned()));
            }
        }
        (reply, text)
    }

    fn text_reply() -> Reply {
        Reply { protocol: ToolProtocol::Text, ..Reply::default() }
    }

    #[test]
    fn text_is_shown_without_json_fences_and_tags() {
        let shown = |pieces: &[&str]| read(Mode::Agent, text_reply(), pieces).1;
        assert_eq!(shown(&[CALL]), "");
        assert_eq!(shown(&["```sh\nls", "\n```"]), "");
        assert_eq!(shown(&["  ", MARKED]), "");
        assert_eq!(shown(&["There ", "are {2}"]), "There are {2}");
        assert_eq!(
            shown(&["{\"type\":\"answer\",", "\"text\":\"two\"}"]),
            "two",
            "an answer in protocol form is shown as text"
        );
        assert_eq!(
            shown(&["{\"type\":", "\"answer\"}"]),
            "{\"type\":\"answer\"}",
            "text that is not in protocol form is shown"
        );
        assert_eq!(shown(&[]), "");
        assert_eq!(read(Mode::Chat, text_reply(), &[CALL]).1, CALL, "a plain chat is shown as it arrives");
        assert_eq!(
            read(Mode::Agent, Reply::default(), &["{", "}"]).1,
            "{}",
            "a native reply is shown as it arrives"
        );
    }

    #[test]
    fn calls_written_as_text_become_calls() {
        let raw = RawReply { model: ModelRef::new("ollama", "phi3"), value: serde_json::json!({}) };
        for (protocol, text) in [
            (ToolProtocol::Text, CALL),
            (ToolProtocol::Text, FENCED),
            (ToolProtocol::Text, MARKED),
            (ToolProtocol::Native, CALL),
            (ToolProtocol::Native, MARKED),
        ] {
            let reply = Reply { protocol, raw: Some(raw.clone()), ..Reply::default() };
            let (reply, _) = read(Mode::Agent, reply, &[text]);
            let [call] = reply.calls.as_slice() else { panic!("{protocol:?} {text}: {reply:?}") };
            assert_eq!((call.name.as_str(), call.text_argument("command")), ("bash", Some("touch a")));
            assert_eq!((call.id.as_str(), &reply.text, &reply.raw), ("", &String::new(), &None), "{text}");
        }
        let (reply, _) = read(Mode::Agent, text_reply(), &[ANSWER]);
        assert_eq!((reply.text.as_str(), reply.calls.len()), ("4", 0));
    }

    #[test]
    fn truncated_and_native_replies_have_no_fenced_command() {
        let cut = Reply { finish: FinishReason::Length, ..text_reply() };
        for reply in [cut, Reply::default()] {
            let (reply, _) = read(Mode::Agent, reply, &[FENCED]);
            assert_eq!((reply.text.as_str(), reply.calls.len()), (FENCED, 0));
        }
    }

    #[test]
    fn a_chat_reply_is_never_parsed_for_calls() {
        for text in [CALL, FENCED, MARKED, ANSWER] {
            for reply in [text_reply(), Reply::default()] {
                let (reply, _) = read(Mode::Chat, reply, &[text]);
                assert_eq!((reply.text.as_str(), reply.calls.len()), (text, 0), "byte for byte");
            }
        }
    }
}
