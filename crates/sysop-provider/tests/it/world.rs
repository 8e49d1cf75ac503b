//! Helpers shared by the tests of all APIs.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::json;
use sysop_core::id::CallId;
use sysop_core::message::{
    Arguments, CallEnd, HistoryMessage, Message, ModelFailure, ModelRef, ModelRequest, Reply, ToolCall,
    ToolResult,
};
use sysop_core::mode::{Mode, SamplingDefaults};
use sysop_core::tool::ToolSpec;
use sysop_driver::port::{ModelEvent, Provider as _};
use sysop_provider::{Endpoint, OllamaSettings, Providers, ProvidersSettings, RetrySettings};

use crate::server::DEADLINE;

/// Retries without noticeable waits.
pub(crate) const QUICK: RetrySettings = RetrySettings {
    retries: 4,
    wait: Duration::from_millis(1),
    wait_max: Duration::from_millis(2),
    server_wait_max: Duration::from_secs(120),
};

pub(crate) fn openai_at(base_url: &str) -> Providers {
    openai(Endpoint { base_url: Some(base_url.to_owned()), ..Endpoint::default() })
}

pub(crate) fn openai(endpoint: Endpoint) -> Providers {
    Providers::new(ProvidersSettings { openai: endpoint, ..ProvidersSettings::default() }).with_retries(QUICK)
}

pub(crate) fn ollama_at(base_url: &str) -> Providers {
    let endpoint = Endpoint { base_url: Some(base_url.to_owned()), ..Endpoint::default() };
    ollama(OllamaSettings { endpoint, ..OllamaSettings::default() })
}

pub(crate) fn ollama(settings: OllamaSettings) -> Providers {
    Providers::new(ProvidersSettings { ollama: settings, ..ProvidersSettings::default() }).with_retries(QUICK)
}

pub(crate) fn bash() -> ToolSpec {
    ToolSpec {
        name: "bash".to_owned(),
        description: "Runs a command.".into(),
        parameters:
            json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]})
                .into(),
        effect: sysop_core::tool::ToolEffect::Command,
    }
}

pub(crate) fn request(model: &str, messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        model: model.parse::<ModelRef>().unwrap(),
        system: Arc::from("You are sysop."),
        messages: messages.into_iter().map(HistoryMessage::new).collect(),
        trimmed: false,
        tools: Arc::from([bash()]),
        known_tools: Arc::from([bash()]),
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

pub(crate) fn user(text: &str) -> Message {
    Message::user(text.to_owned())
}

pub(crate) fn called(id: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: CallId::new(id),
        wire_id: None,
        name: "bash".to_owned(),
        arguments: Arguments::parse(arguments),
    }
}

pub(crate) fn results(calls: &[ToolCall], output: &str) -> Message {
    let result = |call: &ToolCall| ToolResult {
        call: call.id.clone(),
        wire_id: call.wire_id.clone(),
        name: call.name.clone(),
        output: output.to_owned(),
        is_error: false,
        end: CallEnd::Done,
        images: Vec::new(),
    };
    Message::ToolResults { results: calls.iter().map(result).collect() }
}

/// Everything a call yielded; checks that the call ends exactly once, with its last event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CallResult {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    pub(crate) notices: Vec<String>,
    pub(crate) restarts: usize,
    pub(crate) end: Result<Reply, ModelFailure>,
}

impl CallResult {
    pub(crate) fn reply(self) -> Reply {
        self.end.expect("the call succeeds")
    }

    pub(crate) fn failure(self) -> ModelFailure {
        self.end.expect_err("the call fails")
    }
}

pub(crate) async fn ask(providers: &Providers, request: ModelRequest) -> CallResult {
    let stream = providers.stream(request);
    let events: Vec<ModelEvent> =
        tokio::time::timeout(DEADLINE, stream.collect()).await.expect("the call ends in time");
    collect_events(events)
}

pub(crate) fn collect_events(events: Vec<ModelEvent>) -> CallResult {
    let (mut text, mut reasoning, mut notices, mut restarts, mut end) =
        (String::new(), String::new(), Vec::new(), 0, None);
    for event in events {
        assert!(end.is_none(), "an event follows the end: {event:?}");
        match event {
            ModelEvent::Text(more) => text.push_str(&more),
            ModelEvent::Reasoning(more) => reasoning.push_str(&more),
            ModelEvent::Notice(notice) => notices.push(notice),
            ModelEvent::Progress(_) => {}
            ModelEvent::Restarted => {
                restarts += 1;
                text.clear();
                reasoning.clear();
            }
            ModelEvent::Done(reply) => end = Some(Ok(*reply)),
            ModelEvent::Failed(failure) => end = Some(Err(failure)),
        }
    }
    CallResult { text, reasoning, notices, restarts, end: end.expect("the stream has an end") }
}
