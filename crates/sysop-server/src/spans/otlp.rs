//! Encodes spans as OTLP JSON, which collectors accept at `/v1/traces`.

use serde_json::{Value as Json, json};

use super::{Kind, Span, Value};

/// The service that reports the spans.
#[derive(Debug, Clone)]
pub struct ServiceInfo {
    /// Value of the resource attribute `service.name`.
    pub name: String,
    /// Value of the resource attribute `service.version`.
    pub version: String,
}

/// Builds the body of an export request.
pub fn export_request(service: &ServiceInfo, spans: &[Span]) -> Json {
    let resource = [
        ("service.name", Value::Text(service.name.clone())),
        ("service.version", Value::Text(service.version.clone())),
    ];
    json!({ "resourceSpans": [{
        "resource": { "attributes": attributes(&resource) },
        "scopeSpans": [{
            "scope": { "name": "sysop" },
            "spans": spans.iter().map(span).collect::<Vec<_>>(),
        }],
    }]})
}

fn span(span: &Span) -> Json {
    let nanoseconds = |milliseconds: i64| (i128::from(milliseconds) * 1_000_000).to_string();
    let mut json = json!({
        "traceId": span.trace,
        "spanId": span.id,
        "name": span.name,
        "kind": match span.kind { Kind::Internal => 1, Kind::Client => 3 },
        "startTimeUnixNano": nanoseconds(span.began.0),
        "endTimeUnixNano": nanoseconds(span.ended.0),
        "attributes": attributes(&span.attributes),
        "status": if span.failed { json!({ "code": 2 }) } else { json!({}) },
    });
    if let Some(parent) = &span.parent {
        json["parentSpanId"] = parent.as_str().into();
    }
    json
}

fn attributes(attributes: &[(&'static str, Value)]) -> Vec<Json> {
    let value = |value: &Value| match value {
        Value::Text(text) => json!({ "stringValue": text }),
        // The JSON mapping of protobuf encodes 64-bit integers as strings.
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::Flag(flag) => json!({ "boolValue": flag }),
    };
    attributes.iter().map(|(key, of)| json!({ "key": key, "value": value(of) })).collect()
}
