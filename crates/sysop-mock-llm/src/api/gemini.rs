//! Gemini and Vertex AI: responses. The request rules are in `gemini_validation`.
//!
//! Sources: `google-genai` 3.4.0 (Python) types; ai.google.dev, "Thought signatures".

use serde_json::{Value, json};

use super::gemini_validation::{requires_signatures, sign, validate_contents, validate_options};
use super::{ApiError, ApiRequest, IncomingRequest, ScriptedReply, reject_missing_model};
use crate::engine::Turn;
use crate::event_stream::{EventStream, Framing};

#[derive(Debug)]
pub(crate) struct GenerateContentRequest {
    model: String,
    turn: Turn,
    stream: Option<Framing>,
}

impl ApiRequest for GenerateContentRequest {
    const NOT_JSON: &'static str = "Invalid JSON payload received.";

    fn read(call: &IncomingRequest<'_>) -> Result<Self, ApiError> {
        let last = call.path.rsplit('/').next().unwrap_or_default().replace("%3A", ":");
        let (model, method) = last.rsplit_once(':').unwrap_or((&last, ""));
        let sse = call.query.split('&').any(|pair| pair == "alt=sse");
        let stream = match method {
            "generateContent" => None,
            "streamGenerateContent" if sse => Some(Framing::Sse),
            "streamGenerateContent" => Some(Framing::Array),
            _ => return Err(ApiError::new(404, format!("Method not found: {method}"))),
        };
        reject_missing_model(model, || {
            format!(
                "models/{model} is not found for API version v1beta, or is not supported for generateContent. Call ListModels to see the list of available models and their supported methods."
            )
        })?;
        validate_options(call.body)?;
        let turn = validate_contents(model, call.body)?;
        Ok(Self { model: model.to_owned(), turn, stream })
    }

    fn turn(&self) -> &Turn {
        &self.turn
    }

    fn streams(&self) -> bool {
        self.stream.is_some()
    }

    fn full_body(&self, scripted: &ScriptedReply<'_>) -> Value {
        let mut parts = Vec::new();
        let text = scripted.response.text();
        if !text.is_empty() || scripted.response.tool_calls.is_empty() {
            parts.push(json!({"text": text}));
        }
        parts.extend(self.calls(scripted));
        let id = scripted.ids.make("", 22);
        self.reply(scripted, &id, json!(parts), Some("STOP"))
    }

    fn event_stream(&self, scripted: &ScriptedReply<'_>) -> EventStream {
        let mut script = EventStream::new(self.stream.unwrap_or(Framing::Sse));
        let id = scripted.ids.make("", 22);
        for (piece, times) in scripted.pieces() {
            script.push(&self.reply(scripted, &id, json!([{"text": piece}]), None), times);
        }
        for call in self.calls(scripted) {
            script.push(&self.reply(scripted, &id, json!([call]), None), 1);
        }
        script.push(&self.reply(scripted, &id, json!([{"text": ""}]), Some("STOP")), 1);
        if script.framing() == Framing::Array {
            script.raw("\n]\n".to_owned(), 1);
        }
        script
    }

    fn error_body(refusal: &ApiError, _request_id: &str) -> Value {
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

impl GenerateContentRequest {
    /// Returns the parts with the calls. As with Gemini 3, each call has an id and the first has a signature.
    fn calls(&self, scripted: &ScriptedReply<'_>) -> Vec<Value> {
        let signed = requires_signatures(&self.model);
        let calls = scripted.response.tool_calls.iter().enumerate();
        calls
            .map(|(index, call)| {
                let mut part = json!({"functionCall": {"name": call.name, "args": call.arguments}});
                if signed {
                    part["functionCall"]["id"] = json!(scripted.ids.make("", 8).to_ascii_lowercase());
                }
                if signed && index == 0 {
                    part["thoughtSignature"] = json!(sign(scripted.ids, &self.model, &call.name));
                }
                part
            })
            .collect()
    }

    fn reply(&self, scripted: &ScriptedReply<'_>, id: &str, parts: Value, finish: Option<&str>) -> Value {
        let usage = scripted.usage();
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

/// Returns the response to `GET /v1beta/models`.
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
