//! The OpenAPI description, generated from the table of routes and the schemas of the messages, so it cannot deviate from
//! them.

use axum::Json;
use axum::extract::State;
use serde_json::{Map, Value, json};

use super::{Route, SharedServer, routes};
use crate::authenticator::Scope;

/// JSON schemas of client and server messages, generated from the types of `sysop-wire`.
const CLIENT: &str = include_str!("../../../sysop-wire/schema/client.json");
const SERVER: &str = include_str!("../../../sysop-wire/schema/server.json");

pub(super) struct RouteDoc {
    what: &'static str,
    answers: ResponseKind,
    body: RouteBody,
    asks: &'static [&'static str],
}

/// Successful response of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseKind {
    Status,
    Ready,
    Metrics,
    Page,
    Asset,
    Description,
    LoggedIn,
    Made,
    List,
    Session,
    Gone,
    Socket,
    Events,
    Artifact,
    Paths,
    Hosts,
    Models,
    Accepted,
    Chat,
    Parts,
    Reply,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RouteBody {
    Nothing,
    NewSession,
    Fork,
    /// A client message of this type, without its `type` field.
    Message(&'static str),
    Chat,
    GeminiAgent,
    GeminiChat,
    LogIn,
}

impl RouteDoc {
    pub(super) fn of(what: &'static str, answers: ResponseKind) -> Self {
        Self { what, answers, body: RouteBody::Nothing, asks: &[] }
    }

    pub(super) fn with_body(self, body: RouteBody) -> Self {
        Self { body, ..self }
    }

    /// Type of the message that is the body, if any.
    #[cfg(test)]
    pub(super) fn message_kind(&self) -> Option<&'static str> {
        match self.body {
            RouteBody::Message(kind) => Some(kind),
            RouteBody::Nothing
            | RouteBody::NewSession
            | RouteBody::Fork
            | RouteBody::Chat
            | RouteBody::GeminiAgent
            | RouteBody::GeminiChat
            | RouteBody::LogIn => None,
        }
    }

    pub(super) fn with_query(self, asks: &'static [&'static str]) -> Self {
        Self { asks, ..self }
    }
}

/// `GET /api/openapi.json`.
pub(super) async fn description(State(_): State<SharedServer>) -> Json<Value> {
    Json(describe())
}

fn describe() -> Value {
    let mut schemas = Map::new();
    let client = definitions(CLIENT, &mut schemas);
    let server = definitions(SERVER, &mut schemas);
    schemas.insert("ClientMessage".to_owned(), client.clone());
    schemas.insert("ServerMessage".to_owned(), server);
    schemas.insert("Problem".to_owned(), problem());
    let mut paths: Map<String, Value> = Map::new();
    for route in routes() {
        let operations = paths.entry(route.path).or_insert_with(|| json!({}));
        operations[route.method] = operation(&route, &client);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "sysop",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Sessions of an AI operator. The socket and the event stream carry the messages \
                `ClientMessage` and `ServerMessage`.",
        },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas,
        },
    })
}

/// Loads a schema file and moves its definitions to `components/schemas`.
fn definitions(file: &str, schemas: &mut Map<String, Value>) -> Value {
    let mut schema: Value = serde_json::from_str(file).expect("the committed schema is JSON");
    moved(&mut schema);
    if let Some(Value::Object(definitions)) = schema.as_object_mut().and_then(|schema| schema.remove("$defs"))
    {
        schemas.extend(definitions);
    }
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("$schema");
    }
    schema
}

fn moved(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if let (Value::String(text), "$ref") = (&mut *value, key.as_str()) {
                    *text = text.replace("#/$defs/", "#/components/schemas/");
                }
                moved(value);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(moved),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn problem() -> Value {
    json!({
        "type": "object",
        "required": ["error", "code"],
        "properties": {
            "error": { "type": "string", "description": "One sentence" },
            "code": { "type": "string", "description": "Machine-readable code, as in the message `error`" },
        },
    })
}

fn operation(route: &Route, client: &Value) -> Value {
    let mut operation = json!({
        "summary": route.doc.what,
        "operationId": format!("{} {}", route.method, route.path),
        "parameters": parameters(route),
        "responses": responses(route),
    });
    if let Some((schema, required)) = body_schema(route.doc.body, client) {
        let kind = match route.doc.body {
            RouteBody::LogIn => "application/x-www-form-urlencoded",
            RouteBody::Nothing
            | RouteBody::NewSession
            | RouteBody::Fork
            | RouteBody::Message(_)
            | RouteBody::Chat
            | RouteBody::GeminiAgent
            | RouteBody::GeminiChat => "application/json",
        };
        operation["requestBody"] = json!({ "required": required, "content": { kind: { "schema": schema } } });
    }
    if route.scope == Scope::Public {
        operation["security"] = json!([]);
    }
    operation
}

fn parameters(route: &Route) -> Vec<Value> {
    let named = ["id", "name"].into_iter().filter(|name| route.path.contains(&format!("{{{name}}}")));
    let in_path = named.map(|name| {
        json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 } })
    });
    let asked = route.doc.asks.iter().map(|name| match *name {
        "Last-Event-ID" => {
            json!({ "name": name, "in": "header", "schema": { "type": "integer", "minimum": 0 }, "description": "Last \
                 event that the client received" })
        }
        "lend" => {
            json!({ "name": name, "in": "query", "schema": { "type": "boolean" }, "description": "True if this client \
                runs the tools lent to the session" })
        }
        "terminal" => {
            json!({ "name": name, "in": "query", "schema": { "type": "boolean" }, "description": "True to include \
                `terminal.output` messages" })
        }
        "cols" | "rows" => {
            json!({ "name": name, "in": "query", "schema": { "type": "integer", "minimum": 0, "maximum": u16::MAX }, "description": "Size \
                 of the client's screen" })
        }
        "scrollback" => {
            json!({ "name": name, "in": "query", "schema": { "type": "integer", "minimum": 0, "maximum": u16::MAX }, "description": "Number \
                 of scrollback rows at the start of the terminal snapshot" })
        }
        "search" => {
            json!({ "name": name, "in": "query", "schema": { "type": "string", "maxLength": 4096 }, "description": "Words \
                 to find in the title, host, root or id of the newest 1000 sessions" })
        }
        "limit" => {
            json!({ "name": name, "in": "query", "schema": { "type": "integer", "minimum": 1, "maximum": 1000 } })
        }
        "word" => {
            json!({ "name": name, "in": "query", "schema": { "type": "string", "maxLength": 4096 }, "description": "Text \
                 that the paths must contain" })
        }
        _ => json!({ "name": name, "in": "query", "schema": { "type": "integer", "minimum": 0 } }),
    });
    in_path.chain(asked).collect()
}

fn responses(route: &Route) -> Value {
    let (status, good) = good(route.doc.answers);
    let mut responses = json!({ status: good });
    let mut bad = |status: &str, why: &str| {
        responses[status] = json!({
            "description": why,
            "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
        });
    };
    bad("403", "Forbidden for this origin or token");
    bad("503", "The server is shutting down, or a dependency is unavailable");
    if route.scope != Scope::Public {
        bad("401", "Authentication required");
        bad("429", "Too many requests");
    }
    if route.path.contains('{') {
        bad("404", "Session or resource not found");
        bad("409", "Not possible in the current state, or already done");
    }
    let takes = route.doc.body != RouteBody::Nothing;
    if takes || !route.doc.asks.is_empty() || route.doc.answers == ResponseKind::Socket {
        bad("400", "Invalid request");
    }
    if takes {
        bad("413", "The request body is too large");
        bad("415", "The body is not valid JSON");
        bad("422", "The resource is unavailable");
    }
    if route.path.contains('{') || takes || route.doc.answers == ResponseKind::List {
        bad("500", "Internal server error");
    }
    if matches!(route.doc.answers, ResponseKind::Parts | ResponseKind::Reply) {
        bad("502", "The model did not answer");
    }
    if route.doc.answers == ResponseKind::Socket {
        bad("426", "A WebSocket upgrade is required");
    }
    if route.doc.answers == ResponseKind::Artifact {
        bad("422", "Invalid artifact name");
    }
    if route.doc.answers == ResponseKind::Ready {
        let body = json!({ "application/json": { "schema": { "type": "object", "required": ["status", "missing"] } } });
        responses["503"] = json!({ "description": "Missing resource", "content": body });
    }
    responses
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn good(answers: ResponseKind) -> (&'static str, Value) {
    let json = |what: &str, schema: Value| json!({ "description": what, "content": { "application/json": { "schema": schema } } });
    let text = |what: &str, kind: &str| json!({ "description": what, "content": { kind: { "schema": { "type": "string" } } } });
    let object = |properties: Value| {
        let required: Vec<String> =
            properties.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
        json!({ "type": "object", "required": required, "properties": properties })
    };
    match answers {
        ResponseKind::Status => ("200", json("Healthy", object(json!({ "status": { "const": "ok" } })))),
        ResponseKind::Ready => ("200", json("It does", object(json!({ "status": { "const": "ready" } })))),
        ResponseKind::Metrics => ("200", text("OpenMetrics", "application/openmetrics-text")),
        ResponseKind::Page => ("200", text("HTML", "text/html")),
        ResponseKind::Asset => {
            let kinds = ["text/javascript", "text/css", "image/svg+xml", "font/woff2"];
            let kinds: Map<String, Value> =
                kinds.iter().map(|kind| ((*kind).to_owned(), json!({}))).collect();
            ("200", json!({ "description": "The file", "content": kinds }))
        }
        ResponseKind::Description => ("200", json("OpenAPI 3.1", json!({ "type": "object" }))),
        ResponseKind::Made => (
            "201",
            json("Stored", object(json!({ "sessionId": { "$ref": "#/components/schemas/SessionId" } }))),
        ),
        ResponseKind::List => (
            "200",
            json("They are", object(json!({ "sessions": { "type": "array", "items": row_of_list() } }))),
        ),
        ResponseKind::Session => (
            "200",
            json(
                "The session as in `session.created`, with its `state`",
                object(json!({
                    "sessionId": { "$ref": "#/components/schemas/SessionId" },
                    "model": { "$ref": "#/components/schemas/ModelRef" },
                    "approve": { "$ref": "#/components/schemas/ApprovalMode" },
                    "host": { "type": "string" },
                    "root": { "type": "string" },
                    "profile": { "type": "string" },
                    "lastSeq": { "type": "integer" },
                    "state": { "type": "object" },
                })),
            ),
        ),
        ResponseKind::LoggedIn => ("303", json!({ "description": "Redirects to the page with the cookie" })),
        ResponseKind::Gone => ("204", json!({ "description": "Deleted" })),
        ResponseKind::Socket => {
            ("101", json!({ "description": "A WebSocket of `ClientMessage` and `ServerMessage`" }))
        }
        ResponseKind::Events => {
            ("200", text("One `ServerMessage` per event; its `id` is a resume point", "text/event-stream"))
        }
        ResponseKind::Artifact => {
            ("200", json!({ "description": "The bytes", "content": { "application/octet-stream": {} } }))
        }
        ResponseKind::Paths => {
            let paths = json!({ "type": "array", "items": { "type": "string" } });
            ("200", json("The paths; directories end with `/`", object(json!({ "paths": paths }))))
        }
        ResponseKind::Hosts => {
            let host = object(json!({ "name": { "type": "string" }, "description": { "type": "string" } }));
            ("200", json("They are", object(json!({ "hosts": { "type": "array", "items": host } }))))
        }
        ResponseKind::Models => {
            let models = json!({ "type": "array", "items": { "$ref": "#/components/schemas/ModelRef" } });
            ("200", json("They are", object(json!({ "models": models }))))
        }
        ResponseKind::Accepted => {
            let status = json!({ "enum": ["accepted", "ignored"], "description": "`ignored`: no call waits for this \
                result" });
            (
                "202",
                json(
                    "Accepted; the session's messages report the result",
                    object(json!({ "status": status })),
                ),
            )
        }
        ResponseKind::Chat => (
            "200",
            text(
                "Events `text {content}`, `tool {name, input}`, `approval`, `error`, and finally `done`",
                "text/event-stream",
            ),
        ),
        ResponseKind::Parts => {
            let parts = json!({ "type": "array", "items": { "type": "object" } });
            ("200", json("In Gemini's format", object(json!({ "parts": parts }))))
        }
        ResponseKind::Reply => ("200", json("The answer", object(json!({ "reply": { "type": "string" } })))),
    }
}

fn row_of_list() -> Value {
    json!({
        "type": "object",
        "required": ["sessionId", "title", "created", "changed", "lastSeq", "host", "root"],
        "properties": {
            "sessionId": { "$ref": "#/components/schemas/SessionId" },
            "title": { "type": "string", "description": "First words of the first prompt" },
            "created": { "type": "integer", "description": "Milliseconds since 1970-01-01 UTC" },
            "changed": { "type": "integer" },
            "lastSeq": { "type": "integer", "description": "Position of its last event" },
            "host": { "type": "string" },
            "root": { "type": "string" },
            "state": { "$ref": "#/components/schemas/SessionState", "description": "State of the session if it is live \
                 on this server" },
        },
    })
}

/// Schema of a body, and whether the body is required.
fn body_schema(body: RouteBody, client: &Value) -> Option<(Value, bool)> {
    let parts = json!({ "type": "array", "items": { "type": "object" } });
    let roles = json!({ "enum": ["user", "model"] });
    let schema = match body {
        RouteBody::Nothing => return None,
        RouteBody::NewSession => (new_session(), false),
        RouteBody::Fork => (
            json!({
                "type": "object",
                "required": ["before"],
                "additionalProperties": false,
                "properties": { "before": { "type": "integer", "minimum": 0, "maximum": u32::MAX } },
            }),
            true,
        ),
        RouteBody::Message(kind) => message(client, kind),
        RouteBody::Chat => (
            json!({ "type": "object", "required": ["message"], "properties": { "message": { "type": "string", "pattern": "\\S" } } }),
            true,
        ),
        RouteBody::GeminiAgent => (
            json!({
                "type": "object",
                "required": ["history"],
                "properties": {
                    "model": { "type": ["string", "null"] },
                    "history": { "type": "array", "items": {
                        "type": "object", "required": ["role", "parts"], "properties": { "role": roles, "parts": parts },
                    } },
                },
            }),
            true,
        ),
        RouteBody::LogIn => (
            json!({ "type": "object", "required": ["token"], "properties": { "token": { "type": "string" } } }),
            true,
        ),
        RouteBody::GeminiChat => (
            json!({
                "type": "object",
                "required": ["messages"],
                "properties": {
                    "model": { "type": ["string", "null"] },
                    "messages": { "type": "array", "items": {
                        "type": "object",
                        "required": ["role", "text"],
                        "properties": { "role": roles, "text": { "type": "string" } },
                    } },
                },
            }),
            true,
        ),
    };
    Some(schema)
}

fn new_session() -> Value {
    let text =
        json!({ "type": ["string", "null"], "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]*$", "maxLength": 4096 });
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "host": { "allOf": [text], "description": "Location of the tools; `none` for client tools only" },
            "model": { "anyOf": [{ "$ref": "#/components/schemas/ModelRef" }, { "type": "null" }] },
            "approve": { "anyOf": [{ "$ref": "#/components/schemas/ApprovalMode" }, { "type": "null" }] },
            "profile": text,
            "root": { "allOf": [text], "description": "Root of its file tools" },
            "clientVersion": { "type": "string" },
            "toolManifest": {
                "type": "array",
                "items": { "$ref": "#/components/schemas/ManifestTool" },
                "description": "Tools that run on the client; the event stream announces its calls",
            },
            "workspaceRoot": { "type": "string" },
        },
    })
}

/// Schema of a client message without its `type` field, and whether the body is required.
fn message(client: &Value, kind: &str) -> (Value, bool) {
    let all = client["oneOf"].as_array().into_iter().flatten();
    let mut schema =
        all.clone().find(|schema| schema["properties"]["type"]["const"] == kind).cloned().unwrap_or_default();
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.remove("type");
    }
    let mut required = false;
    if let Some(names) = schema["required"].as_array_mut() {
        names.retain(|name| name != "type");
        required = !names.is_empty();
    }
    let refers = schema.get("$ref").is_some();
    (schema, required || refers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_that_a_route_takes_is_one_of_a_client() {
        let client = definitions(CLIENT, &mut Map::new());
        for route in routes() {
            if let RouteBody::Message(kind) = route.doc.body {
                let (schema, _) = message(&client, kind);
                assert!(schema["type"] == "object", "{kind} is no message of a client");
            }
        }
    }

    #[test]
    fn every_reference_of_the_description_leads_somewhere() {
        fn check(value: &Value, whole: &Value) {
            match value {
                Value::Object(map) => {
                    if let Some(Value::String(to)) = map.get("$ref") {
                        let path = to.strip_prefix('#').expect("it refers to itself");
                        assert!(whole.pointer(path).is_some(), "{to} leads nowhere");
                    }
                    map.values().for_each(|value| check(value, whole));
                }
                Value::Array(values) => values.iter().for_each(|value| check(value, whole)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        let whole = describe();
        check(&whole, &whole);
    }
}
