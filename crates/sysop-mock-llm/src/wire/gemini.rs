//! Gemini and Vertex AI: answering. What a request must be is in `gemini_rules`.
//!
//! Facts: `google-genai` 3.4.0 (Python) types; ai.google.dev, "Thought signatures".

use serde_json::{Value, json};

use super::gemini_rules::{judge_contents, judge_options, sign, wants_signatures};
use super::{Call, Refusal, Said, Wire};
use crate::engine::Turn;
use crate::json::Json;
use crate::script::{Framing, Script};
use crate::server::refuse_missing_model;

/// One request.
#[derive(Debug)]
pub(crate) struct Generate {
    model: String,
    turn: Turn,
    stream: Option<Framing>,
}

impl Wire for Generate {
    const NOT_JSON: &'static str = "Invalid JSON payload received.";

    type Body<'a> = Json<'a>;

    fn read(call: &Call<'_, Json<'_>>) -> Result<Self, Refusal> {
        let last = call.path.rsplit('/').next().unwrap_or_default().replace("%3A", ":");
        let (model, method) = last.rsplit_once(':').unwrap_or((&last, ""));
        let sse = call.query.split('&').any(|pair| pair == "alt=sse");
        let stream = match method {
            "generateContent" => None,
            "streamGenerateContent" if sse => Some(Framing::Sse),
            "streamGenerateContent" => Some(Framing::Array),
            _ => return Err(Refusal::new(404, format!("Method not found: {method}"))),
        };
        refuse_missing_model(model, || {
            format!(
                "models/{model} is not found for API version v1beta, or is not supported for generateContent. Call ListModels to see the list of available models and their supported methods."
            )
        })?;
        judge_options(call.body)?;
        let turn = judge_contents(model, call.body)?;
        Ok(Self { model: model.to_owned(), turn, stream })
    }

    fn turn(&self) -> &Turn {
        &self.turn
    }

    fn streams(&self) -> bool {
        self.stream.is_some()
    }

    fn whole(&self, said: &Said<'_>) -> Value {
        let mut parts = Vec::new();
        let text = said.response.text();
        if !text.is_empty() || said.response.tool_calls.is_empty() {
            parts.push(json!({"text": text}));
        }
        parts.extend(self.calls(said));
        let id = said.ids.make("", 22);
        self.reply(said, &id, json!(parts), Some("STOP"))
    }

    fn script(&self, said: &Said<'_>) -> Script {
        let mut script = Script::new(self.stream.unwrap_or(Framing::Sse));
        let id = said.ids.make("", 22);
        for (piece, times) in said.pieces() {
            script.push(&self.reply(said, &id, json!([{"text": piece}]), None), times);
        }
        for call in self.calls(said) {
            script.push(&self.reply(said, &id, json!([call]), None), 1);
        }
        script.push(&self.reply(said, &id, json!([{"text": ""}]), Some("STOP")), 1);
        if script.framing() == Framing::Array {
            script.raw("\n]\n".to_owned(), 1);
        }
        script
    }

    fn refusal(refusal: &Refusal, _request_id: &str) -> Value {
        let status = match refusal.status {
            401 => "UNAUTHENTICATED",
            403 => "PERMISSION_DENIED",
            404 => "NOT_FOUND",
            409 => "ABORTED",
            429 => "RESOURCE_EXHAUSTED",
            499 => "CANCELLED",
            501 => "UNIMPLEMENTED",
            503 => "UNAVAILABLE",
            504 => "DEADLINE_EXCEEDED",
            400..=499 => "INVALID_ARGUMENT",
            _ => "INTERNAL",
        };
        let mut error = json!({"code": refusal.status, "message": refusal.message, "status": status});
        if let Some(seconds) = refusal.retry_after_s {
            error["details"] = json!([
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": format!("{seconds}s")},
            ]);
        }
        json!({"error": error})
    }
}

impl Generate {
    /// The call parts: ids as Gemini 3 and later have them, a signature on the first.
    fn calls(&self, said: &Said<'_>) -> Vec<Value> {
        let signed = wants_signatures(&self.model);
        let calls = said.response.tool_calls.iter().enumerate();
        calls
            .map(|(index, call)| {
                let mut part = json!({"functionCall": {"name": call.name, "args": call.arguments}});
                if signed {
                    part["functionCall"]["id"] = json!(said.ids.make("", 8).to_ascii_lowercase());
                }
                if signed && index == 0 {
                    part["thoughtSignature"] = json!(sign(said.ids, &self.model, &call.name));
                }
                part
            })
            .collect()
    }

    fn reply(&self, said: &Said<'_>, id: &str, parts: Value, finish: Option<&str>) -> Value {
        let usage = said.usage();
        let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
        if let Some(finish) = finish {
            candidate["finishReason"] = json!(finish);
        }
        json!({
            "candidates": [candidate],
            "usageMetadata": {
                "promptTokenCount": usage.input_tokens,
                "candidatesTokenCount": usage.output_tokens,
                "totalTokenCount": usage.input_tokens + usage.output_tokens,
            },
            "modelVersion": self.model,
            "responseId": id,
        })
    }
}

/// `GET /v1beta/models`.
pub(crate) fn models() -> Value {
    json!({"models": [{
        "name": "models/mock-model",
        "version": "1",
        "displayName": "Mock model",
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": ["generateContent", "streamGenerateContent"],
    }]})
}
