//! The OpenAPI description, generated from the table of routes and from the types that the handlers read and write, so
//! it cannot deviate from them.

use axum::Json;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};
use sysop_wire::{ClientMessage, ServerMessage};

use super::problem::Problem;
use super::{Route, routes};
use crate::authenticator::Scope;

/// Returns the schema of a type, and adds the schemas of the types that it refers to.
type SchemaFn = fn(&mut SchemaGenerator) -> Schema;

pub(super) struct RouteDoc {
    summary: &'static str,
    pub(super) query: Option<SchemaFn>,
    /// Name and description of a request header whose value is a number.
    pub(super) header: Option<(&'static str, &'static str)>,
    pub(super) body: Option<Content>,
    /// Status, description and content of each response, except for the errors in [`common_errors`].
    pub(super) responses: Vec<(&'static str, &'static str, Content)>,
}

impl RouteDoc {
    pub(super) fn new(summary: &'static str) -> Self {
        Self { summary, query: None, header: None, body: None, responses: Vec::new() }
    }
}

/// Content of a request or of a response.
pub(super) struct Content {
    media_types: &'static [&'static str],
    schema: ContentSchema,
}

enum ContentSchema {
    Any,
    Type(SchemaFn),
    /// A client message of this type, without its `type` field.
    Message(&'static str),
}

const JSON: &[&str] = &["application/json"];

pub(super) fn json<T: JsonSchema>() -> Content {
    Content { media_types: JSON, schema: ContentSchema::Type(SchemaGenerator::subschema_for::<T>) }
}

pub(super) fn form<T: JsonSchema>() -> Content {
    let media_types = &["application/x-www-form-urlencoded"];
    Content { media_types, schema: ContentSchema::Type(SchemaGenerator::subschema_for::<T>) }
}

pub(super) fn text(media_types: &'static [&'static str]) -> Content {
    Content { media_types, schema: ContentSchema::Type(SchemaGenerator::subschema_for::<String>) }
}

pub(super) fn bytes(media_types: &'static [&'static str]) -> Content {
    Content { media_types, schema: ContentSchema::Any }
}

pub(super) fn nothing() -> Content {
    bytes(&[])
}

impl Content {
    pub(super) fn message(kind: &'static str) -> Self {
        Self { media_types: JSON, schema: ContentSchema::Message(kind) }
    }

    /// Type of the client message that is the content, if any.
    #[cfg(test)]
    pub(super) fn message_kind(&self) -> Option<&'static str> {
        match self.schema {
            ContentSchema::Message(kind) => Some(kind),
            ContentSchema::Any | ContentSchema::Type(_) => None,
        }
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Value {
        match self.schema {
            ContentSchema::Any => Value::Null,
            ContentSchema::Type(schema) => schema(generator).to_value(),
            ContentSchema::Message(kind) => message::<ClientMessage>(generator, kind),
        }
    }

    fn describe(&self, schema: &Value) -> Value {
        let content = if schema.is_null() { json!({}) } else { json!({ "schema": schema }) };
        self.media_types.iter().map(|kind| ((*kind).to_owned(), content.clone())).collect()
    }
}

/// Schema of the message of this type, without its `type` field.
pub(super) fn message<T: JsonSchema>(generator: &mut SchemaGenerator, kind: &str) -> Value {
    generator.subschema_for::<T>();
    let all = generator.definitions()[T::schema_name().as_ref()]["oneOf"].as_array();
    let mut schema = all
        .and_then(|all| all.iter().find(|schema| schema["properties"]["type"]["const"] == kind))
        .cloned()
        .unwrap_or_default();
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.remove("type");
    }
    if let Some(names) = schema["required"].as_array_mut() {
        names.retain(|name| name != "type");
    }
    schema
}

/// `GET /api/openapi.json`.
pub(super) async fn description() -> Json<Value> {
    Json(describe())
}

fn describe() -> Value {
    let generator = |settings: SchemaSettings| {
        settings.with(|settings| settings.definitions_path = "/components/schemas".into()).into_generator()
    };
    let mut requests = generator(SchemaSettings::draft2020_12().for_deserialize());
    let mut responses = generator(SchemaSettings::draft2020_12().for_serialize());
    requests.subschema_for::<ClientMessage>();
    responses.subschema_for::<ServerMessage>();
    responses.subschema_for::<Problem>();
    let mut paths: Map<String, Value> = Map::new();
    for route in routes() {
        let operations = paths.entry(route.path).or_insert_with(|| json!({}));
        operations[route.method] = operation(&route, &mut requests, &mut responses);
    }
    let mut schemas = requests.take_definitions(true);
    schemas.extend(responses.take_definitions(true));
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

fn operation(route: &Route, requests: &mut SchemaGenerator, responses: &mut SchemaGenerator) -> Value {
    let mut operation = json!({
        "summary": route.doc.summary,
        "operationId": format!("{} {}", route.method, route.path),
        "parameters": parameters(route, requests),
        "responses": describe_responses(route, responses),
    });
    if let Some(body) = &route.doc.body {
        let schema = body.schema(requests);
        let named = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next());
        let named = named.and_then(|name| requests.definitions().get(name)).unwrap_or(&schema);
        let is_required = named["required"].as_array().is_some_and(|fields| !fields.is_empty());
        operation["requestBody"] = json!({ "required": is_required, "content": body.describe(&schema) });
    }
    if route.scope == Scope::Public {
        operation["security"] = json!([]);
    }
    operation
}

fn parameters(route: &Route, generator: &mut SchemaGenerator) -> Vec<Value> {
    let names = route.path.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
    let mut parameters: Vec<Value> = names
        .map(|(name, _)| {
            json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 } })
        })
        .collect();
    let query = route.doc.query.map(|query| query(generator).to_value());
    for (name, schema) in query.iter().filter_map(|query| query["properties"].as_object()).flatten() {
        let mut schema = schema.clone();
        let mut parameter = json!({ "name": name, "in": "query" });
        if let Some(kind @ Value::String(_)) = schema["type"].get(0) {
            schema["type"] = kind.clone(); // a parameter is absent instead of null
        }
        if let Some(schema) = schema.as_object_mut() {
            parameter["description"] = schema.remove("description").unwrap_or_default();
            schema.retain(|_, value| !value.is_null());
        }
        parameter["schema"] = schema;
        parameters.push(parameter);
    }
    if let Some((name, description)) = route.doc.header {
        let schema = json!({ "type": "integer", "minimum": 0 });
        parameters
            .push(json!({ "name": name, "in": "header", "schema": schema, "description": description }));
    }
    parameters
}

fn describe_responses(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let mut responses = json!({});
    let mut add = |status: &str, description: &str, content: &Content| {
        responses[status] = json!({ "description": description });
        if !content.media_types.is_empty() {
            responses[status]["content"] = content.describe(&content.schema(generator));
        }
    };
    for (status, description) in common_errors(route) {
        add(status, description, &json::<Problem>());
    }
    for (status, description, content) in &route.doc.responses {
        add(status, description, content);
    }
    responses
}

/// Returns the errors that follow from the properties of a route, as status and description.
fn common_errors(route: &Route) -> Vec<(&'static str, &'static str)> {
    let mut errors = vec![
        ("403", "Forbidden for this origin or token"),
        ("503", "The server is shutting down, or a dependency is unavailable"),
    ];
    if route.scope != Scope::Public {
        errors.extend([("401", "Authentication required"), ("429", "Too many requests")]);
    }
    let (takes, asks, names) =
        (route.doc.body.is_some(), route.doc.query.is_some(), route.path.contains('{'));
    if names {
        errors.push(("404", "Session or resource not found"));
        errors.push(("409", "Not possible in the current state, or already done"));
    }
    if takes || asks {
        errors.push(("400", "Invalid request"));
    }
    if takes || asks || names {
        errors.push(("500", "Internal server error"));
    }
    if takes {
        errors.push(("413", "The request body is too large"));
        errors.push(("415", "The body is not valid JSON"));
        errors.push(("422", "The resource is unavailable"));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_that_a_route_takes_is_one_of_a_client() {
        let mut generator = SchemaGenerator::default();
        for route in routes() {
            if let Some(kind) = route.doc.body.and_then(|body| body.message_kind()) {
                let schema = message::<ClientMessage>(&mut generator, kind);
                assert!(schema["type"] == "object", "{kind} is not a client message");
            }
        }
    }

    #[test]
    fn a_body_is_required_if_one_of_its_fields_is() {
        let described = describe();
        let body = |path: &str| &described["paths"][path]["post"]["requestBody"]["required"];
        assert_eq!(body("/api/agent/sessions"), false);
        assert_eq!(body("/api/agent/sessions/{id}/cancel"), false);
        assert_eq!(body("/api/agent/sessions/{id}/fork"), true);
        assert_eq!(body("/api/agent/sessions/{id}/messages"), true);
        assert_eq!(body("/api/agent/sessions/{id}/tool-results"), true);
    }

    #[test]
    fn a_query_parameter_has_its_bounds_and_is_never_null() {
        let described = describe();
        let parameters = described["paths"]["/api/agent/sessions"]["get"]["parameters"].as_array().unwrap();
        let limit = parameters.iter().find(|parameter| parameter["name"] == "limit").unwrap();
        assert_eq!(limit["in"], "query");
        let schema = json!({ "type": "integer", "format": "uint", "minimum": 1, "maximum": 1000 });
        assert_eq!(limit["schema"], schema);
        let search = parameters.iter().find(|parameter| parameter["name"] == "search").unwrap();
        assert!(search["description"].as_str().unwrap().contains("newest 1000"), "{search}");
    }

    #[test]
    fn every_reference_of_the_description_resolves() {
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
