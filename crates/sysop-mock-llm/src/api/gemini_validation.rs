//! Gemini's rules for requests: roles, call/response pairs, thought signatures and schemas.
//!
//! The rules are stateless, because a signature carries its own proof.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::{Map, Value};

use super::{ApiError, list};
use crate::engine::Turn;
use crate::ids::{IdGenerator, alphanumeric};
use crate::scenario::is_tool_name;

/// Placeholder signatures accepted for calls that the model never made.
const SIGNATURE_DUMMIES: [&str; 2] =
    ["skip_thought_signature_validator", "context_engineering_is_the_way_to_go"];
/// Prefix of a signature. A nonce of `NONCE_CHARS` and its proof of `PROOF_CHARS` follow.
const SIGNATURE_PREFIX: &str = "Cq";
const NONCE_CHARS: usize = 16;
const PROOF_CHARS: usize = 26;
/// Name prefixes of the model generations that use no signatures.
const UNSIGNED_MODELS: [&str; 2] = ["gemini-1", "gemini-2"];
const FUNCTION_NAME_BYTES_MAX: usize = 128;
/// JSON Schema keywords that `parameters` does not support.
const UNKNOWN_SCHEMA_WORDS: [&str; 4] = ["$schema", "oneOf", "const", "patternProperties"];
/// Names of the fields of a part, in camel case and snake case.
const PART_FIELDS: [(&str, &str); 11] = [
    ("text", "text"),
    ("thought", "thought"),
    ("thoughtSignature", "thought_signature"),
    ("functionCall", "function_call"),
    ("functionResponse", "function_response"),
    ("inlineData", "inline_data"),
    ("fileData", "file_data"),
    ("executableCode", "executable_code"),
    ("codeExecutionResult", "code_execution_result"),
    ("videoMetadata", "video_metadata"),
    ("mediaResolution", "media_resolution"),
];

/// Returns true if the model signs its calls and requires clients to send the signatures back.
pub(crate) fn requires_signatures(model: &str) -> bool {
    !UNSIGNED_MODELS.iter().any(|old| model.starts_with(old))
}

/// Returns a new signature for a call. Its length is valid for Base64.
pub(crate) fn sign(ids: &IdGenerator, model: &str, function: &str) -> String {
    let nonce = ids.make("", NONCE_CHARS);
    let proof = proof(&nonce, model, function);
    format!("{SIGNATURE_PREFIX}{nonce}{proof}")
}

fn proof(nonce: &str, model: &str, function: &str) -> String {
    let mut hasher = DefaultHasher::new();
    (nonce, model, function).hash(&mut hasher);
    alphanumeric(hasher.finish(), PROOF_CHARS)
}

fn is_signature(text: &str, model: &str, function: &str) -> bool {
    let halves =
        text.strip_prefix(SIGNATURE_PREFIX).and_then(|signature| signature.split_at_checked(NONCE_CHARS));
    halves.is_some_and(|(nonce, found)| found == proof(nonce, model, function))
        || SIGNATURE_DUMMIES.contains(&text)
}

/// Returns the field that is named in camel case or snake case, because the real server accepts both.
fn field<'a>(value: &'a Value, camel: &str, snake: &str) -> &'a Value {
    let found = &value[camel];
    if found.is_null() { &value[snake] } else { found }
}

pub(crate) fn validate_options(body: &Value) -> Result<(), ApiError> {
    let thinking =
        field(field(body, "generationConfig", "generation_config"), "thinkingConfig", "thinking_config");
    let level = field(thinking, "thinkingLevel", "thinking_level");
    let budget = field(thinking, "thinkingBudget", "thinking_budget");
    if !level.is_null() && !budget.is_null() {
        return Err(ApiError::bad_request("You can only set one of thinking budget and thinking level."));
    }
    let mut names = BTreeSet::new();
    for tool in list(body, "tools") {
        let functions = field(tool, "functionDeclarations", "function_declarations");
        for (index, function) in functions.as_array().into_iter().flatten().enumerate() {
            validate_function(index, function)?;
            let name = function["name"].as_str().unwrap_or_default();
            if !names.insert(name) {
                return Err(ApiError::bad_request(format!("Duplicate function declaration found: {name}")));
            }
        }
    }
    Ok(())
}

fn validate_function(index: usize, function: &Value) -> Result<(), ApiError> {
    let place = format!("GenerateContentRequest.tools[0].function_declarations[{index}]");
    let name = function["name"].as_str().unwrap_or_default();
    let plain = name.replace(['.', ':'], "_");
    if !is_tool_name(&plain, FUNCTION_NAME_BYTES_MAX)
        || name.starts_with(|first: char| !first.is_ascii_alphabetic() && first != '_')
    {
        return Err(ApiError::bad_request(format!(
            "{place}.name: Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 128."
        )));
    }
    let schema = field(function, "parametersJsonSchema", "parameters_json_schema");
    if !function["parameters"].is_null() && !schema.is_null() {
        return Err(ApiError::bad_request(format!(
            "{place}: parameters and parameters_json_schema are mutually exclusive."
        )));
    }
    match unknown_word(&function["parameters"]) {
        Some(word) => Err(ApiError::bad_request(format!(
            "Invalid JSON payload received. Unknown name \"{word}\" at 'tools[0].function_declarations[{index}].parameters': Cannot find field."
        ))),
        None => Ok(()),
    }
}

/// Returns an unsupported keyword in a schema, if there is one. Names of properties are not keywords.
fn unknown_word(schema: &Value) -> Option<&str> {
    let words = schema.as_object()?;
    for (word, value) in words {
        if UNKNOWN_SCHEMA_WORDS.contains(&word.as_str()) || (word == "type" && value.is_array()) {
            return Some(word);
        }
    }
    let properties = schema["properties"].as_object().into_iter().flat_map(Map::values);
    let alternatives = list(schema, "anyOf").iter();
    properties.chain(alternatives).chain([&schema["items"]]).find_map(unknown_word)
}

/// A function call that has no response yet.
struct PendingCall<'a> {
    id: Option<&'a str>,
    name: &'a str,
}

/// Validates the conversation and returns its state.
pub(crate) fn validate_contents(model: &str, body: &Value) -> Result<Turn, ApiError> {
    let contents = list(body, "contents");
    if contents.is_empty() {
        return Err(ApiError::bad_request("* GenerateContentRequest.contents: contents is not specified\n"));
    }
    let mut turn = Turn::default();
    let mut turn_start = 0;
    let mut pending: Vec<PendingCall<'_>> = Vec::new();
    let mut before = "";
    for (index, content) in contents.iter().enumerate() {
        let role = content["role"].as_str().unwrap_or("user");
        let parts = validate_parts(index, content)?;
        let answered = std::mem::take(&mut pending);
        match role {
            "user" => {
                validate_responses(index, parts, answered)?;
                advance_turn(&mut turn, parts);
                if turn.tool_results == 0 {
                    turn_start = index;
                }
            }
            "model" if !answered.is_empty() => return Err(call_count_mismatch()),
            "model" => pending = validate_calls(parts, before)?,
            _ => return Err(ApiError::bad_request("Please use a valid role: user, model.")),
        }
        before = role;
    }
    if contents[0]["role"] == "model" {
        return Err(ApiError::bad_request("Please ensure that the conversation begins with a user turn."));
    }
    if before != "user" {
        return Err(ApiError::bad_request(
            "Please ensure that single turn requests end with a user role or the role field is empty.",
        ));
    }
    validate_signatures(model, contents, turn_start)?;
    Ok(turn)
}

fn call_count_mismatch() -> ApiError {
    ApiError::bad_request(
        "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.",
    )
}

fn validate_parts(index: usize, content: &Value) -> Result<&[Value], ApiError> {
    let parts = list(content, "parts");
    if parts.is_empty() {
        return Err(ApiError::bad_request(format!(
            "* GenerateContentRequest.contents[{index}].parts: contents.parts must not be empty.\n"
        )));
    }
    for (place, part) in parts.iter().enumerate() {
        let unknown = part
            .as_object()
            .into_iter()
            .flat_map(Map::keys)
            .find(|name| !PART_FIELDS.iter().any(|(camel, snake)| name == camel || name == snake));
        if let Some(name) = unknown {
            return Err(ApiError::bad_request(format!(
                "Invalid JSON payload received. Unknown name \"{name}\" at 'contents[{index}].parts[{place}]': Cannot find field."
            )));
        }
        let data = |(camel, snake): &(&str, &str)| {
            !["thought", "thoughtSignature"].contains(camel) && !field(part, camel, snake).is_null()
        };
        if PART_FIELDS.iter().filter(|names| data(names)).count() != 1 {
            return Err(ApiError::bad_request(format!(
                "* GenerateContentRequest.contents[{index}].parts[{place}].data: required oneof field 'data' must have one initialized field\n"
            )));
        }
    }
    if parts.len() == 1
        && parts[0]["text"] == ""
        && field(&parts[0], "thoughtSignature", "thought_signature").is_null()
    {
        return Err(ApiError::bad_request(
            "Unable to submit request because it must have a text parameter. Add a text parameter and try again.",
        ));
    }
    Ok(parts)
}

fn validate_calls<'a>(parts: &'a [Value], before: &str) -> Result<Vec<PendingCall<'a>>, ApiError> {
    let mut pending = Vec::new();
    for part in parts {
        if !field(part, "functionResponse", "function_response").is_null() {
            return Err(ApiError::bad_request("Function response parts are only allowed in user turns."));
        }
        let call = field(part, "functionCall", "function_call");
        if call.is_null() {
            continue;
        }
        let name = call["name"].as_str().unwrap_or_default();
        if name.is_empty() || !matches!(&call["args"], Value::Null | Value::Object(_)) {
            return Err(ApiError::bad_request(
                "Invalid value at 'function_call': a name, and a struct as args.",
            ));
        }
        pending.push(PendingCall { id: call["id"].as_str(), name });
    }
    if !pending.is_empty() && before == "model" {
        return Err(ApiError::bad_request(
            "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
        ));
    }
    Ok(pending)
}

/// Fails unless a user turn begins with the responses to exactly the preceding calls, `pending`.
fn validate_responses(
    index: usize,
    parts: &[Value],
    mut pending: Vec<PendingCall<'_>>,
) -> Result<(), ApiError> {
    let called = !pending.is_empty();
    for (place, part) in parts.iter().enumerate() {
        if !field(part, "functionCall", "function_call").is_null() {
            return Err(ApiError::bad_request("Function call parts are only allowed in model turns."));
        }
        let response = field(part, "functionResponse", "function_response");
        if response.is_null() {
            if !pending.is_empty() {
                return Err(call_count_mismatch());
            }
            continue;
        }
        if !called {
            return Err(ApiError::bad_request(
                "Please ensure that function response turn comes immediately after a function call turn.",
            ));
        }
        if !response["response"].is_object() {
            return Err(ApiError::bad_request(format!(
                "Invalid value at 'contents[{index}].parts[{place}].function_response.response' (type.googleapis.com/google.protobuf.Struct)"
            )));
        }
        let id = response["id"].as_str();
        let fits = |call: &PendingCall<'_>| {
            response["name"] == call.name && (id.is_none() || call.id.is_none() || id == call.id)
        };
        let position = pending.iter().position(fits).ok_or_else(call_count_mismatch)?;
        pending.remove(position);
    }
    if pending.is_empty() { Ok(()) } else { Err(call_count_mismatch()) }
}

fn advance_turn(turn: &mut Turn, parts: &[Value]) {
    let mut texts = Vec::new();
    for part in parts {
        if !field(part, "functionResponse", "function_response").is_null() {
            turn.tool_result();
        }
        texts.extend(part["text"].as_str());
    }
    if !texts.is_empty() {
        turn.user(&texts.join("\n"));
    }
}

/// Fails if a signature is invalid, or if the first call of a step of the current turn has no signature.
fn validate_signatures(model: &str, contents: &[Value], turn_start: usize) -> Result<(), ApiError> {
    for (index, content) in contents.iter().enumerate() {
        let mut first = true;
        for part in list(content, "parts") {
            let call = field(part, "functionCall", "function_call");
            let name = call["name"].as_str().unwrap_or_default();
            match field(part, "thoughtSignature", "thought_signature").as_str() {
                Some(signature) if !is_signature(signature, model, name) => {
                    return Err(ApiError::bad_request(
                        "Invalid thought signature: Corrupted thought signature.",
                    ));
                }
                Some(_) => {}
                None if call.is_null() || !first || index < turn_start || !requires_signatures(model) => {}
                None => {
                    return Err(ApiError::bad_request(format!(
                        "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:{name}`, position {}. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details.",
                        index + 1
                    )));
                }
            }
            first &= call.is_null();
        }
    }
    Ok(())
}
