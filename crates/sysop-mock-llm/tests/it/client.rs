//! A small client of the four APIs, which panics on anything it cannot parse.

use std::time::Duration;

use serde_json::{Map, Value, json};
use sysop_mock_llm::{MockServer, Scenarios};

/// Maximum wait of any test.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    OpenAi,
    Gemini,
    Vertex,
    GeminiArray,
    Ollama,
    Anthropic,
}

pub(crate) const APIS: [Api; 6] =
    [Api::OpenAi, Api::Gemini, Api::Vertex, Api::GeminiArray, Api::Ollama, Api::Anthropic];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Whole,
    Streamed,
}

pub(crate) const MODES: [Mode; 2] = [Mode::Whole, Mode::Streamed];

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CalledTool {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: Value,
}

/// A reply, and its message as sent back in the history.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    pub(crate) text: String,
    pub(crate) calls: Vec<CalledTool>,
    pub(crate) finish: String,
    pub(crate) tokens: (u64, u64),
    pub(crate) message: Value,
}

pub(crate) async fn start(file: &str) -> MockServer {
    MockServer::start(Scenarios::parse("test.json", file).unwrap()).await.unwrap()
}

pub(crate) async fn builtin() -> MockServer {
    MockServer::start(Scenarios::builtin()).await.unwrap()
}

thread_local! {
    // One client per test thread: building a client dominates the cost of these tests.
    static CLIENT: reqwest::Client = {
        let _already = rustls::crypto::ring::default_provider().install_default();
        reqwest::Client::builder().no_proxy().timeout(DEADLINE).build().unwrap()
    };
}

pub(crate) fn http() -> reqwest::Client {
    CLIENT.with(Clone::clone)
}

pub(crate) async fn post(server: &MockServer, path: &str, body: &Value) -> reqwest::Response {
    let request = http().post(format!("{}{path}", server.url()));
    request.header("anthropic-version", "2023-06-01").json(body).send().await.unwrap()
}

/// Posts a request that must be refused; returns status and body.
pub(crate) async fn refused(server: &MockServer, path: &str, body: &Value) -> (u16, Value) {
    let response = post(server, path, body).await;
    let status = response.status().as_u16();
    let body = response.json().await.unwrap();
    assert!(status >= 400, "{status} {body}");
    (status, body)
}

impl Api {
    pub(crate) fn model(self) -> &'static str {
        match self {
            Self::OpenAi => "gpt-mock",
            Self::Gemini | Self::Vertex | Self::GeminiArray => "gemini-3.8-flash",
            Self::Ollama => "qwen3",
            Self::Anthropic => "claude-sonnet-5-5",
        }
    }

    pub(crate) fn path(self, mode: Mode) -> String {
        let google = |prefix: &str, query: &str| {
            let method = match mode {
                Mode::Whole => "generateContent".to_owned(),
                Mode::Streamed => format!("streamGenerateContent{query}"),
            };
            format!("{prefix}/models/{}:{method}", self.model())
        };
        match self {
            Self::OpenAi => "/v1/chat/completions".to_owned(),
            Self::Gemini => google("/v1beta", "?alt=sse"),
            Self::Vertex => google("/v1/projects/p/locations/global/publishers/google", "?alt=sse"),
            Self::GeminiArray => google("/v1beta", ""),
            Self::Ollama => "/api/chat".to_owned(),
            Self::Anthropic => "/v1/messages".to_owned(),
        }
    }

    pub(crate) fn prompt(self, text: &str) -> Value {
        match self {
            Self::OpenAi | Self::Ollama | Self::Anthropic => json!({"role": "user", "content": text}),
            Self::Gemini | Self::Vertex | Self::GeminiArray => {
                json!({"role": "user", "parts": [{"text": text}]})
            }
        }
    }

    /// Returns the messages that answer calls.
    pub(crate) fn results(self, calls: &[CalledTool], output: &str) -> Vec<Value> {
        let each = calls.iter();
        match self {
            Self::OpenAi => each
                .map(|call| json!({"role": "tool", "tool_call_id": call.id, "content": output}))
                .collect(),
            Self::Ollama => each
                .map(|call| json!({"role": "tool", "tool_name": call.name, "tool_call_id": call.id, "content": output}))
                .collect(),
            Self::Anthropic => {
                let blocks: Vec<Value> = each
                    .map(|call| json!({"type": "tool_result", "tool_use_id": call.id, "content": output}))
                    .collect();
                vec![json!({"role": "user", "content": blocks})]
            }
            Self::Gemini | Self::Vertex | Self::GeminiArray => {
                let parts: Vec<Value> = each
                    .map(|call| {
                        json!({"functionResponse": {"id": call.id, "name": call.name, "response": {"output": output}}})
                    })
                    .collect();
                vec![json!({"role": "user", "parts": parts})]
            }
        }
    }

    pub(crate) fn body(self, history: &[Value], mode: Mode) -> Value {
        let stream = mode == Mode::Streamed;
        let schema = json!({"type": "object", "properties": {"command": {"type": "string"}}});
        let function = json!({"name": "bash", "description": "runs", "parameters": schema});
        match self {
            Self::OpenAi => {
                let tools = json!([{"type": "function", "function": function}]);
                let mut body = json!({"model": self.model(), "messages": history, "tools": tools});
                if stream {
                    body["stream"] = json!(true);
                    body["stream_options"] = json!({"include_usage": true});
                }
                body
            }
            Self::Ollama => {
                let tools = json!([{"type": "function", "function": function}]);
                json!({"model": self.model(), "messages": history, "tools": tools, "stream": stream})
            }
            Self::Anthropic => {
                let tools = json!([{"name": "bash", "input_schema": schema}]);
                json!({"model": self.model(), "max_tokens": 1000, "messages": history, "tools": tools, "stream": stream})
            }
            Self::Gemini | Self::Vertex | Self::GeminiArray => {
                json!({"contents": history, "tools": [{"functionDeclarations": [function]}]})
            }
        }
    }

    pub(crate) async fn ask(self, server: &MockServer, history: &[Value], mode: Mode) -> Reply {
        let response = post(server, &self.path(mode), &self.body(history, mode)).await;
        let status = response.status();
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        let bytes = response.bytes().await.unwrap();
        let text = std::str::from_utf8(&bytes).unwrap();
        assert!(status.is_success(), "{self:?} {mode:?}: {status} {text}");
        match mode {
            Mode::Whole => {
                assert_eq!(kind, "application/json");
                self.read_whole(&serde_json::from_str(text).unwrap())
            }
            Mode::Streamed => {
                assert_eq!(kind, self.stream_type());
                self.read_stream(text)
            }
        }
    }

    fn stream_type(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Gemini | Self::Vertex | Self::Anthropic => "text/event-stream",
            Self::GeminiArray => "application/json",
            Self::Ollama => "application/x-ndjson",
        }
    }

    pub(crate) fn read_whole(self, body: &Value) -> Reply {
        match self {
            Self::OpenAi => openai_whole(body),
            Self::Ollama => ollama(std::slice::from_ref(body)),
            Self::Anthropic => anthropic_whole(body),
            Self::Gemini | Self::Vertex | Self::GeminiArray => gemini(std::slice::from_ref(body)),
        }
    }

    pub(crate) fn read_stream(self, text: &str) -> Reply {
        match self {
            Self::OpenAi => openai_stream(text),
            Self::Gemini | Self::Vertex => gemini(&sse(text)),
            Self::GeminiArray => gemini(&serde_json::from_str::<Vec<Value>>(text).unwrap()),
            Self::Ollama => {
                let lines: Vec<Value> =
                    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
                ollama(&lines)
            }
            Self::Anthropic => anthropic_stream(&sse(text)),
        }
    }
}

/// Returns the JSON of every event; an event's name must equal its type.
pub(crate) fn sse(text: &str) -> Vec<Value> {
    assert!(text.ends_with("\n\n"), "cut: {text}");
    let blocks = text.trim_end().split("\n\n");
    let events = blocks.map(|block| {
        let mut name = None;
        let mut data = None;
        for line in block.lines() {
            match line.split_once(": ") {
                Some(("event", value)) => name = Some(value.to_owned()),
                Some(("data", value)) => data = Some(serde_json::from_str::<Value>(value).unwrap()),
                _ => panic!("not an event: {line}"),
            }
        }
        let data = data.unwrap();
        assert_eq!(name.as_deref(), data["type"].as_str());
        data
    });
    events.collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

fn openai_calls(calls: &Value) -> Vec<CalledTool> {
    let calls = calls.as_array().map_or(&[][..], Vec::as_slice);
    calls
        .iter()
        .map(|call| {
            assert_eq!(call["type"], "function");
            CalledTool {
                id: text(&call["id"]),
                name: text(&call["function"]["name"]),
                arguments: serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap(),
            }
        })
        .collect()
}

fn openai_usage(usage: &Value) -> (u64, u64) {
    let input = usage["prompt_tokens"].as_u64().unwrap();
    let output = usage["completion_tokens"].as_u64().unwrap();
    assert_eq!(usage["total_tokens"], json!(input + output));
    (input, output)
}

fn openai_whole(body: &Value) -> Reply {
    assert_eq!(body["object"], "chat.completion");
    assert!(body["id"].as_str().unwrap().starts_with("chatcmpl-"));
    let choice = &body["choices"][0];
    assert_eq!(choice["message"]["role"], "assistant");
    Reply {
        text: choice["message"]["content"].as_str().unwrap_or_default().to_owned(),
        calls: openai_calls(&choice["message"]["tool_calls"]),
        finish: text(&choice["finish_reason"]),
        tokens: openai_usage(&body["usage"]),
        message: choice["message"].clone(),
    }
}

fn openai_stream(body: &str) -> Reply {
    let chunks = body.strip_suffix("data: [DONE]\n\n").expect("ends with [DONE]");
    let mut content = String::new();
    let mut calls: Vec<Value> = Vec::new();
    let (mut finish, mut tokens) = (None, None);
    for chunk in sse(chunks) {
        assert_eq!(chunk["object"], "chat.completion.chunk");
        let Some(choice) = chunk["choices"].get(0) else {
            tokens = Some(openai_usage(&chunk["usage"]));
            continue;
        };
        assert_eq!((finish.as_ref(), &chunk["usage"]), (None, &Value::Null));
        content.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
        for piece in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let index = usize::try_from(piece["index"].as_u64().unwrap()).unwrap();
            if index == calls.len() {
                calls.push(piece.clone());
                continue;
            }
            assert_eq!((&piece["id"], index), (&Value::Null, calls.len() - 1));
            let more = text(&piece["function"]["arguments"]);
            let so_far = text(&calls[index]["function"]["arguments"]);
            calls[index]["function"]["arguments"] = json!(so_far + &more);
        }
        finish = choice["finish_reason"].as_str().map(str::to_owned);
    }
    for call in &mut calls {
        call.as_object_mut().unwrap().remove("index");
    }
    let mut message = json!({"role": "assistant", "content": content});
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    let calls = openai_calls(&json!(calls));
    Reply { text: content, calls, finish: finish.unwrap(), tokens: tokens.unwrap(), message }
}

fn gemini(chunks: &[Value]) -> Reply {
    let mut reply = Reply {
        text: String::new(),
        calls: Vec::new(),
        finish: String::new(),
        tokens: (0, 0),
        message: json!({"role": "model", "parts": []}),
    };
    for chunk in chunks {
        assert_eq!(reply.finish, "", "nothing follows the last event");
        assert!(!chunk["responseId"].as_str().unwrap().is_empty());
        let candidate = &chunk["candidates"][0];
        for part in candidate["content"]["parts"].as_array().unwrap() {
            reply.text.push_str(part["text"].as_str().unwrap_or_default());
            if let Some(call) = part.get("functionCall") {
                let id = call["id"].as_str().unwrap_or_default().to_owned();
                reply.calls.push(CalledTool {
                    id,
                    name: text(&call["name"]),
                    arguments: call["args"].clone(),
                });
            }
            if part["text"] != "" {
                reply.message["parts"].as_array_mut().unwrap().push(part.clone());
            }
        }
        reply.finish = candidate["finishReason"].as_str().unwrap_or_default().to_owned();
        let usage = &chunk["usageMetadata"];
        let count = |name: &str| usage[name].as_u64().unwrap();
        reply.tokens = (count("promptTokenCount"), count("candidatesTokenCount"));
        assert_eq!(count("totalTokenCount"), reply.tokens.0 + reply.tokens.1);
    }
    reply
}

fn ollama(lines: &[Value]) -> Reply {
    let (last, before) = lines.split_last().unwrap();
    assert_eq!(last["done"], true);
    assert!(before.iter().all(|line| line["done"] == false));
    let mut content = String::new();
    let mut raw_calls = Vec::new();
    for line in lines {
        assert!(line["created_at"].as_str().unwrap().ends_with('Z'));
        content.push_str(line["message"]["content"].as_str().unwrap());
        raw_calls.extend(line["message"]["tool_calls"].as_array().into_iter().flatten().cloned());
    }
    let calls = raw_calls.iter().enumerate().map(|(index, call)| {
        assert_eq!(call["function"]["index"], json!(index));
        assert!(call["function"]["arguments"].is_object());
        CalledTool {
            id: text(&call["id"]),
            name: text(&call["function"]["name"]),
            arguments: call["function"]["arguments"].clone(),
        }
    });
    Reply {
        calls: calls.collect(),
        finish: text(&last["done_reason"]),
        tokens: (last["prompt_eval_count"].as_u64().unwrap(), last["eval_count"].as_u64().unwrap()),
        message: json!({"role": "assistant", "content": content, "tool_calls": raw_calls}),
        text: content,
    }
}

fn anthropic_whole(body: &Value) -> Reply {
    assert_eq!((&body["type"], &body["role"]), (&json!("message"), &json!("assistant")));
    assert!(body["id"].as_str().unwrap().starts_with("msg_01"));
    let mut reply = Reply {
        text: String::new(),
        calls: Vec::new(),
        finish: text(&body["stop_reason"]),
        tokens: (
            body["usage"]["input_tokens"].as_u64().unwrap(),
            body["usage"]["output_tokens"].as_u64().unwrap(),
        ),
        message: json!({"role": "assistant", "content": body["content"]}),
    };
    for block in body["content"].as_array().unwrap() {
        match block["type"].as_str().unwrap() {
            "text" => reply.text.push_str(block["text"].as_str().unwrap()),
            "tool_use" => reply.calls.push(CalledTool {
                id: text(&block["id"]),
                name: text(&block["name"]),
                arguments: block["input"].clone(),
            }),
            other => panic!("unknown block {other}"),
        }
    }
    reply
}

fn anthropic_stream(events: &[Value]) -> Reply {
    assert_eq!(events[0]["type"], "message_start");
    assert_eq!(events.last().unwrap()["type"], "message_stop");
    assert!(events.iter().any(|event| event["type"] == "ping"));
    let mut message = events[0]["message"].clone();
    let mut blocks: Vec<Value> = Vec::new();
    let mut open = false;
    let mut input = String::new();
    for event in &events[1..] {
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                assert_eq!((open, &event["index"]), (false, &json!(blocks.len())));
                blocks.push(event["content_block"].clone());
                open = true;
                input.clear();
            }
            "content_block_delta" => {
                assert_eq!((open, &event["index"]), (true, &json!(blocks.len() - 1)));
                let block = blocks.last_mut().unwrap();
                match event["delta"]["type"].as_str().unwrap() {
                    "text_delta" => {
                        block["text"] =
                            json!(text(&block["text"]) + event["delta"]["text"].as_str().unwrap());
                    }
                    "input_json_delta" => input.push_str(event["delta"]["partial_json"].as_str().unwrap()),
                    other => panic!("unknown delta {other}"),
                }
            }
            "content_block_stop" => {
                open = false;
                let block = blocks.last_mut().unwrap();
                if block["type"] == "tool_use" {
                    block["input"] = match input.as_str() {
                        "" => json!(Map::new()),
                        input => serde_json::from_str(input).unwrap(),
                    };
                }
            }
            "message_delta" => {
                message["stop_reason"] = event["delta"]["stop_reason"].clone();
                message["usage"]["output_tokens"] = event["usage"]["output_tokens"].clone();
            }
            "ping" | "message_stop" => {}
            other => panic!("unknown event {other}"),
        }
    }
    assert!(!open);
    message["content"] = json!(blocks);
    anthropic_whole(&message)
}
