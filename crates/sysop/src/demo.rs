//! Built-in scripted model. The tools and the shell are real, but the replies are fixed. The model says that it is
//! scripted, and it is used only on request.

use futures::StreamExt;
use futures::stream::{BoxStream, iter};
use sysop_core::id::CallId;
use sysop_core::message::{Arguments, Message, ModelRequest, Reply, ToolCall, Usage};
use sysop_core::mode::Mode;
use sysop_driver::port::{ModelEvent, Provider};
use sysop_mock_llm::{Engine, Response, Scenarios, Turn};

const UNKNOWN: &str = "I am the built-in scripted demo, not a model: I only know a few scripted tasks. Type `demo` \
 to see me work with real tools, or run `sysop init` to set up a model.";

const CHAT: &str = "I am the built-in scripted demo, not a model: without tools I can only suggest commands, such as \
<cmd>df -h</cmd> and <cmd>uptime</cmd>.";

/// Answers from the built-in scenarios.
pub(crate) struct DemoProvider {
    engine: std::sync::OnceLock<Engine>,
}

impl DemoProvider {
    /// Creates the provider; scenarios are parsed at the first request.
    pub(crate) fn new() -> Self {
        Self { engine: std::sync::OnceLock::new() }
    }
}

impl Provider for DemoProvider {
    fn stream(&self, request: ModelRequest) -> BoxStream<'static, ModelEvent> {
        let engine = self.engine.get_or_init(|| Engine::new(Scenarios::builtin()));
        let turn = turn(&request);
        let known = engine.scenarios().scenarios().iter().any(|known| turn.prompt.contains(&known.trigger));
        let reply = if request.mode == Mode::Chat {
            Reply { text: CHAT.to_owned(), ..Reply::default() }
        } else if known {
            reply(engine.answer(&turn))
        } else {
            Reply { text: UNKNOWN.to_owned(), ..Reply::default() }
        };
        let pieces: Vec<_> =
            reply.text.split_inclusive(' ').map(|word| ModelEvent::Text(word.to_owned())).collect();
        iter(pieces).chain(iter([ModelEvent::Done(Box::new(reply))])).boxed()
    }
}

fn turn(request: &ModelRequest) -> Turn {
    let mut turn = Turn::default();
    for message in &request.messages {
        match message.message() {
            Message::User { text, .. } => turn.user(text),
            Message::Assistant { .. } => {}
            Message::ToolResults { results } => {
                for _ in results {
                    turn.tool_result();
                }
            }
        }
    }
    turn
}

fn reply(response: &Response) -> Reply {
    let calls = response.tool_calls.iter().map(|call| ToolCall {
        id: CallId::new(call.id.clone().unwrap_or_default()),
        wire_id: None,
        name: call.name.clone(),
        arguments: Arguments::Object(call.arguments.clone()),
    });
    let usage = response.usage.unwrap_or_default();
    Reply {
        text: response.text(),
        calls: calls.collect(),
        usage: Usage {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cached_tokens: 0,
        },
        ..Reply::default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sysop_core::message::{CallEnd, HistoryMessage, ModelRef, ToolResult};
    use sysop_core::mode::SamplingDefaults;
    use sysop_core::model_provider::DEMO;

    use super::*;

    fn request(messages: Vec<Message>) -> ModelRequest {
        ModelRequest {
            model: ModelRef::new(DEMO, DEMO),
            system: Arc::from(""),
            messages: messages.into_iter().map(HistoryMessage::new).collect(),
            trimmed: false,
            tools: Arc::from([]),
            known_tools: Arc::from([]),
            max_output_tokens: None,
            temperature: None,
            mode: Mode::Agent,
            effort: None,
            calls_as_text: false,
            must_call: false,
            text_system: None,
            sampling_defaults: SamplingDefaults::default(),
            images: Default::default(),
        }
    }

    async fn said(messages: Vec<Message>) -> Reply {
        let events: Vec<_> = DemoProvider::new().stream(request(messages)).collect().await;
        let Some(ModelEvent::Done(reply)) = events.last() else { panic!("it ends with a reply") };
        let mut streamed = String::new();
        for event in &events {
            if let ModelEvent::Text(text) = event {
                streamed.push_str(text);
            }
        }
        assert_eq!(streamed, reply.text);
        Reply::clone(reply)
    }

    #[tokio::test]
    async fn the_demo_admits_unknown_tasks() {
        let reply = said(vec![Message::user("mend my printer")]).await;
        assert_eq!((reply.text.as_str(), reply.calls.len()), (UNKNOWN, 0));
    }

    #[tokio::test]
    async fn the_demo_works_step_by_step_and_names_itself() {
        let user = Message::user("demo: greet");
        let first = said(vec![user.clone()]).await;
        assert_eq!(first.calls.first().map(|call| call.name.as_str()), Some("write_file"));
        assert!(first.text.contains("script"), "{}", first.text);
        let result = |call: &ToolCall| ToolResult {
            call: call.id.clone(),
            wire_id: None,
            name: call.name.clone(),
            output: "OK".to_owned(),
            is_error: false,
            end: CallEnd::Done,
            images: Vec::new(),
        };
        let results = Message::ToolResults { results: first.calls.iter().map(result).collect() };
        let second = said(vec![user, Message::Assistant { reply: first }, results]).await;
        assert_eq!(second.calls.first().map(|call| call.name.as_str()), Some("bash"));
    }
}
