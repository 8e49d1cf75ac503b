//! Short questions that find out how a model calls tools best.
//!
//! Local servers run models of every quality, and their lists do not tell which model calls tools well. Ten questions
//! find out: four with native tools, four with replies constrained to a schema, two in plain text. The questions are
//! those that models fail in practice: they call nothing, write a call into the text, call again instead of answering,
//! or call where there is nothing to do. Nothing that a model calls here ever runs.

use std::sync::Arc;

use futures::StreamExt as _;
use sysop_core::catalog::{self, Profile};
use sysop_core::id::CallId;
use sysop_core::image::RequestImages;
use sysop_core::message::{
    Arguments, CallEnd, HistoryMessage, Message, ModelFailure, ModelRef, ModelRequest, Reply, ToolCall,
    ToolProtocol, ToolResult,
};
use sysop_core::mode::{Mode, SamplingDefaults};
use sysop_core::tool::ToolSpec;
use sysop_driver::port::ModelEvent;

use crate::api::ModelQuirks;
use crate::providers::Providers;
use crate::text_protocol::{self, ParsedReply};
use crate::tool_calling::{CallForm, QUESTIONS, ToolCalling, ToolCallingReport, choose};
use crate::transport::QuirkCache;

/// Maximum tokens of an answer.
const ANSWER_TOKENS_MAX: u32 = 128;

const SYSTEM: &str = "You are an operator on a Linux machine with the given tools.";

/// One question about calling tools.
struct Question {
    messages: Vec<Message>,
    /// Returns true for a right answer.
    is_right: fn(&Reply) -> bool,
}

fn questions() -> Vec<Question> {
    let call = ToolCall {
        id: CallId::new("call_1"),
        wire_id: None,
        name: catalog::BASH_TOOL.to_owned(),
        arguments: Arguments::parse(r#"{"command":"wc -l a.txt","reason":"Count the lines"}"#),
    };
    let result = ToolResult {
        call: call.id.clone(),
        wire_id: None,
        name: call.name.clone(),
        output: "37 a.txt".to_owned(),
        is_error: false,
        end: CallEnd::Done,
        images: Vec::new(),
    };
    let calls = |reply: &Reply| {
        matches!(reply.calls.as_slice(), [call, ..] if !call.text_argument("command").unwrap_or("-").is_empty()
            && matches!(call.arguments, Arguments::Object(_)))
    };
    vec![
        Question { messages: vec![Message::user("How full is the disk?")], is_right: calls },
        Question {
            messages: vec![Message::user("Create the file a.txt with the text hello.")],
            is_right: calls,
        },
        Question {
            messages: vec![
                Message::user("How many lines does a.txt have?"),
                Message::Assistant { reply: Reply { calls: vec![call], ..Reply::default() } },
                Message::ToolResults { results: vec![result] },
            ],
            is_right: |reply| reply.calls.is_empty() && reply.text.contains("37"),
        },
        Question {
            messages: vec![Message::user("What is 2+2? You know it, so run nothing.")],
            is_right: |reply| reply.calls.is_empty() && reply.text.contains('4'),
        },
    ]
}

/// Asks a model up to ten questions. Stops after the first four if all answers are right. Fails if the server refuses
/// or breaks.
pub(crate) async fn ask(
    providers: &Providers,
    model: &ModelRef,
    server: String,
) -> Result<ToolCallingReport, ModelFailure> {
    let tools: Arc<[ToolSpec]> = catalog::small(&catalog::tools(Profile::Full)).into();
    let native = score(providers, model, &tools, ToolCalling::Native).await?;
    let mut report = ToolCallingReport {
        calling: ToolCalling::Native,
        form: None,
        native,
        constrained: None,
        text: None,
        server,
    };
    if native == QUESTIONS {
        return Ok(report);
    }
    let constrained = score(providers, model, &tools, ToolCalling::Constrained).await?;
    let (text, form) = written_calls(providers, model, &tools).await?;
    report.calling = choose(native, constrained, text);
    (report.constrained, report.text, report.form) = (Some(constrained), Some(text), form);
    Ok(report)
}

async fn score(
    providers: &Providers,
    model: &ModelRef,
    tools: &Arc<[ToolSpec]>,
    calling: ToolCalling,
) -> Result<u8, ModelFailure> {
    let mut right = 0;
    let wanted = if calling == ToolCalling::Native { ToolProtocol::Native } else { ToolProtocol::Text };
    for question in questions() {
        let request = request(model, question.messages, tools, Mode::Agent, SYSTEM);
        let reply = answer(providers, calling, request).await?;
        right += u8::from(reply.protocol == wanted && (question.is_right)(&reply));
    }
    Ok(right)
}

/// Asks the model for two calls in plain text, without a schema. Returns the number that can be parsed, and their form.
async fn written_calls(
    providers: &Providers,
    model: &ModelRef,
    tools: &Arc<[ToolSpec]>,
) -> Result<(u8, Option<CallForm>), ModelFailure> {
    let system = format!("{SYSTEM}\n\n{}", text_protocol::instructions(tools));
    let (mut right, mut form) = (0, None);
    for text in ["How full is the disk?", "Which processes use the most memory?"] {
        let request = request(model, vec![Message::user(text)], tools, Mode::Chat, &system);
        let reply = answer(providers, ToolCalling::Text, request).await?;
        let is_call = matches!(text_protocol::parse(&reply.text, tools, true), ParsedReply::Calls { .. });
        right += u8::from(is_call);
        form = Some(CallForm::of(&reply.text));
    }
    Ok((right, form))
}

fn request(
    model: &ModelRef,
    messages: Vec<Message>,
    tools: &Arc<[ToolSpec]>,
    mode: Mode,
    system: &str,
) -> ModelRequest {
    ModelRequest {
        model: model.clone(),
        system: Arc::from(system),
        messages: messages.into_iter().map(HistoryMessage::new).collect(),
        trimmed: false,
        images: RequestImages::default(),
        tools: Arc::clone(tools),
        known_tools: Arc::clone(tools),
        max_output_tokens: Some(ANSWER_TOKENS_MAX),
        temperature: Some(0.0),
        effort: None,
        mode,
        calls_as_text: false,
        must_call: false,
        text_system: None,
        sampling_defaults: SamplingDefaults::default(),
    }
}

/// Sends one request in the given form. Quirks learned here are not kept.
async fn answer(
    providers: &Providers,
    calling: ToolCalling,
    request: ModelRequest,
) -> Result<Reply, ModelFailure> {
    let mut quirks = ModelQuirks::default();
    calling.apply(&mut quirks);
    let providers = providers.with_quirks(QuirkCache::with(request.model.to_string(), quirks));
    let mut events = providers.send(request);
    while let Some(event) = events.next().await {
        match event {
            ModelEvent::Done(reply) => return Ok(*reply),
            ModelEvent::Failed(failure) => return Err(failure),
            ModelEvent::Text(_)
            | ModelEvent::Reasoning(_)
            | ModelEvent::Notice(_)
            | ModelEvent::Progress(_)
            | ModelEvent::Restarted => {}
        }
    }
    Ok(Reply::default())
}
