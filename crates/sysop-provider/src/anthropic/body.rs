//! The request body of the Messages API, with the marks that let the server cache what it has read before.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use sysop_core::message::{Arguments, Finish, Message, ModelRequest, Reply, ToolResult};

use crate::history::{self, Prefixes, Side, piece, turns};

/// Marks the end of what may be cached.
const CACHE_MARK: &str = ",\"cache_control\":{\"type\":\"ephemeral\"}}";

/// How many of the newest user turns are marked; with system and tools that makes the four that are allowed.
const MARKED_TURNS: usize = 2;

/// Most tokens of a reply where nobody wants another limit: newer models think at their expense.
const TOKENS_DEFAULT: u32 = 16_000;

/// The same for models before the fourth generation, which take no more.
const TOKENS_DEFAULT_OLD: u32 = 4_096;

/// What this call leaves out because the server refused it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Changes {
    /// The model's own blocks: their signatures are not taken any more.
    pub(super) no_echo: bool,
    /// The wish for thinking.
    pub(super) no_thinking: bool,
    /// The control of bound thoughts, which is a beta.
    pub(super) no_binding: bool,
    /// The marks for the cache.
    pub(super) no_cache: bool,
}

/// What goes on behind the history: the reply so far, or a nudge.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Continuation {
    /// Blocks of a paused reply, to be sent back as they are.
    pub(super) blocks: Vec<Value>,
    /// Ask an empty reply to go on.
    pub(super) nudge: bool,
}

/// The body of one request.
pub(super) fn body(
    prefixes: &Prefixes,
    request: &ModelRequest,
    changes: &Changes,
    continuation: &Continuation,
) -> String {
    let mut body = options(request, changes).to_string();
    body.pop(); // the closing brace
    let variant = if changes.no_cache { "anthropic/uncached" } else { "anthropic" };
    body.push_str(&prefixes.of(request, variant, || encode_prefix(request, !changes.no_cache)));
    if request.tools.is_empty() {
        body.push_str(&former_tools(request));
    }
    body.push_str(",\"messages\":[");
    body.push_str(&messages(request, changes, continuation));
    body.push_str("]}");
    body
}

/// Whether thoughts in the history are bound to a prefix that this request does not repeat.
pub(super) fn drops_bound_thoughts(request: &ModelRequest, changes: &Changes) -> bool {
    let changed = request.trimmed || request.tools.is_empty();
    let echoes =
        request.messages.iter().any(|message| history::echo(message.message(), &request.model).is_some());
    let generation = Generation::of(&request.model.name);
    changed && echoes && generation.binds_thoughts() && !changes.no_binding && !changes.no_thinking
}

fn options(request: &ModelRequest, changes: &Changes) -> Value {
    let generation = Generation::of(&request.model.name);
    let mut options = Map::new();
    options.insert("model".into(), request.model.name.clone().into());
    let default = if generation.version >= (4, 0) { TOKENS_DEFAULT } else { TOKENS_DEFAULT_OLD };
    options.insert("max_tokens".into(), request.max_output_tokens.unwrap_or(default).into());
    options.insert("stream".into(), true.into());
    if generation.thinks_adaptively() && !changes.no_thinking {
        // Without `display` some models show nothing between their tool calls.
        let mut thinking = json!({"type": "adaptive", "display": "summarized"});
        if drops_bound_thoughts(request, changes) {
            thinking["block_binding"] = json!({"prefix_mismatch_behavior": "drop_block"});
        }
        options.insert("thinking".into(), thinking);
    }
    Value::Object(options)
}

/// Which model it is, as far as its name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Generation {
    is_fable: bool,
    version: (u32, u32),
}

impl Generation {
    /// Reads `claude-FAMILY-MAJOR[-MINOR][-DATE]`, wherever it stands in the name; also `claude-3-5-FAMILY`.
    pub(super) fn of(name: &str) -> Self {
        let rest = name.rsplit_once("claude-").map_or("", |(_, rest)| rest);
        let numbers: Vec<u32> = rest
            .split(['-', '.', '@', ':'])
            .skip_while(|word| word.parse::<u32>().is_err())
            .map_while(|word| word.parse().ok())
            .filter(|number| *number < 100) // a date is no version
            .collect();
        let version = (numbers.first().copied().unwrap_or(0), numbers.get(1).copied().unwrap_or(0));
        Self { is_fable: rest.starts_with("fable") || rest.starts_with("mythos"), version }
    }

    fn thinks_adaptively(self) -> bool {
        self.version >= (4, 6)
    }

    fn binds_thoughts(self) -> bool {
        self.version >= (5, 5) || (self.is_fable && self.version >= (5, 1))
    }
}

fn encode_prefix(request: &ModelRequest, cached: bool) -> String {
    let mut out = String::new();
    if !request.system.trim().is_empty() {
        let block = mark(json!({"type": "text", "text": &*request.system}).to_string(), cached);
        out.push_str(&format!(",\"system\":[{block}]"));
    }
    if !request.tools.is_empty() {
        let tools: Vec<String> = request
            .tools
            .iter()
            .map(|tool| {
                json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters})
                    .to_string()
            })
            .collect();
        let tools = mark(tools.join(","), cached);
        out.push_str(&format!(",\"tools\":[{tools}]"));
    }
    out
}

/// A history with calls is refused without tools: names the old ones, and forbids them.
fn former_tools(request: &ModelRequest) -> String {
    let mut names = BTreeSet::new();
    for message in &request.messages {
        match message.message() {
            Message::Assistant { reply } => names.extend(reply.calls.iter().map(|call| call.name.as_str())),
            Message::User { .. } | Message::ToolResults { .. } => {}
        }
    }
    if names.is_empty() {
        return String::new();
    }
    let tools: Vec<Value> =
        names.into_iter().map(|name| json!({"name": name, "input_schema": {"type": "object"}})).collect();
    format!(",\"tools\":{},\"tool_choice\":{{\"type\":\"none\"}}", Value::from(tools))
}

fn messages(request: &ModelRequest, changes: &Changes, continuation: &Continuation) -> String {
    let pieces = request.messages.iter().map(|message| {
        let wire =
            if echo(message.message(), request, changes).is_some() { "anthropic+raw" } else { "anthropic" };
        let encoded = piece(message, wire, |message| encode(message, echo(message, request, changes)));
        (Side::of(message.message()), encoded)
    });
    let filler = json!({"type": "text", "text": "Continue."}).to_string();
    let mut turns = turns(pieces, &filler);
    if continuation.nudge
        && let Some(last) = turns.last_mut()
    {
        last.pieces.push(',');
        last.pieces.push_str(&filler);
    }
    let users = turns.iter_mut().rev().filter(|turn| turn.side == Side::User);
    for turn in users.take(MARKED_TURNS) {
        turn.pieces = mark(std::mem::take(&mut turn.pieces), !changes.no_cache);
    }
    let mut out = String::new();
    for turn in turns {
        let role = match turn.side {
            Side::User => "user",
            Side::Model => "assistant",
        };
        out.push_str(&format!("{{\"role\":\"{role}\",\"content\":[{}]}},", turn.pieces));
    }
    if continuation.blocks.is_empty() {
        out.pop(); // the last comma
    } else {
        out.push_str(&json!({"role": "assistant", "content": continuation.blocks}).to_string());
    }
    out
}

/// Puts the cache's mark into the last of some blocks.
fn mark(mut blocks: String, cached: bool) -> String {
    if cached && blocks.ends_with('}') {
        blocks.pop();
        blocks.push_str(CACHE_MARK);
    }
    blocks
}

fn echo<'a>(message: &'a Message, request: &ModelRequest, changes: &Changes) -> Option<&'a Value> {
    history::echo(message, &request.model).filter(|_| !changes.no_echo)
}

/// A message as blocks, joined by commas; empty where there is nothing to say.
fn encode(message: &Message, echo: Option<&Value>) -> String {
    let blocks = match message {
        Message::User { text } if text.trim().is_empty() => Vec::new(),
        Message::User { text } => vec![json!({"type": "text", "text": text})],
        // What was said before a refusal must not be sent back.
        Message::Assistant { reply } if reply.finish == Finish::Refused => Vec::new(),
        Message::Assistant { reply } => match echo.and_then(Value::as_array) {
            Some(blocks) => blocks.clone(),
            None => encode_reply(reply),
        },
        Message::ToolResults { results } => results.iter().map(encode_result).collect(),
    };
    blocks.iter().map(Value::to_string).collect::<Vec<_>>().join(",")
}

fn encode_reply(reply: &Reply) -> Vec<Value> {
    let mut blocks = Vec::new();
    if !reply.text.trim().is_empty() {
        blocks.push(json!({"type": "text", "text": reply.text.trim_end()}));
    }
    for call in &reply.calls {
        let input = match &call.arguments {
            Arguments::Object(map) => Value::Object(map.clone()),
            Arguments::Invalid(text) => json!({"invalid_arguments": text}),
        };
        blocks.push(
            json!({"type": "tool_use", "id": plain_id(call.wire_id()), "name": call.name, "input": input}),
        );
    }
    blocks
}

fn encode_result(result: &ToolResult) -> Value {
    let mut block = json!({
        "type": "tool_result",
        "tool_use_id": plain_id(result.wire_id()),
        "content": result.output,
    });
    if result.is_error {
        block["is_error"] = true.into();
    }
    block
}

/// An id as this API takes it; other servers' ids may have dots and colons.
fn plain_id(id: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if id.chars().all(plain) { id.into() } else { id.replace(|c| !plain(c), "_").into() }
}
