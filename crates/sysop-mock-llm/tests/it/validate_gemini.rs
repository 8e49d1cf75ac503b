//! Requests refused by Gemini's API.

use serde_json::{Value, json};

use crate::client::{Api, Mode, builtin, http, post, refused};

const PATH: &str = "/v1beta/models/gemini-3.8-flash:generateContent";
const OLD: &str = "/v1beta/models/gemini-2.5-flash:generateContent";
const DUMMY: &str = "skip_thought_signature_validator";

fn user() -> Value {
    json!({"role": "user", "parts": [{"text": "hello world"}]})
}

fn call(id: &str) -> Value {
    json!({"functionCall": {"id": id, "name": "bash", "args": {}}})
}

fn signed(id: &str, signature: &str) -> Value {
    let mut part = call(id);
    part["thoughtSignature"] = json!(signature);
    part
}

fn response(id: &str) -> Value {
    json!({"functionResponse": {"id": id, "name": "bash", "response": {"output": "OK"}}})
}

fn model(parts: Value) -> Value {
    json!({"role": "model", "parts": parts})
}

fn answers(parts: Value) -> Value {
    json!({"role": "user", "parts": parts})
}

async fn complaint(body: Value) -> String {
    let server = builtin().await;
    let (status, answer) = refused(&server, PATH, &body).await;
    assert_eq!((status, &answer["error"]["code"]), (400, &json!(400)), "{answer}");
    assert_eq!(answer["error"]["status"], "INVALID_ARGUMENT");
    answer["error"]["message"].as_str().unwrap().to_owned()
}

async fn status(path: &str, contents: Value) -> u16 {
    let server = builtin().await;
    post(&server, path, &json!({ "contents": contents })).await.status().as_u16()
}

#[tokio::test]
async fn roles_must_alternate_and_calls_need_results() {
    let one = || model(json!([signed("a", DUMMY)]));
    let two = || model(json!([signed("a", DUMMY), call("b")]));
    let unequal = "number of function response parts is equal to the number of function call parts";
    let nameless = json!({"functionResponse": {"id": "a", "name": "ls", "response": {}}});
    let text_response = json!({"functionResponse": {"id": "a", "name": "bash", "response": "OK"}});
    for (contents, what) in [
        (json!([]), "contents is not specified"),
        (json!([{"role": "assistant", "parts": [{"text": "x"}]}]), "valid role: user, model"),
        (json!([model(json!([{"text": "x"}])), user()]), "begins with a user turn"),
        (json!([user(), model(json!([{"text": "x"}]))]), "end with a user role"),
        (json!([user(), one()]), "end with a user role"),
        (json!([user(), one(), user()]), unequal),
        (json!([user(), two(), answers(json!([response("a")]))]), unequal),
        (json!([user(), one(), answers(json!([response("a"), response("a")]))]), unequal),
        (json!([user(), one(), answers(json!([response("x")]))]), unequal),
        (json!([user(), one(), answers(json!([nameless]))]), unequal),
        (json!([user(), one(), answers(json!([{"text": "x"}, response("a")]))]), unequal),
        (json!([user(), one(), model(json!([{"text": "x"}])), user()]), unequal),
        (json!([user(), answers(json!([response("a")]))]), "immediately after a function call turn"),
        (json!([user(), model(json!([{"text": "x"}])), one(), user()]), "immediately after a user turn"),
        (json!([user(), one(), answers(json!([text_response]))]), "google.protobuf.Struct"),
        (json!([answers(json!([call("a")]))]), "only allowed in model turns"),
        (json!([user(), model(json!([response("a")])), user()]), "only allowed in user turns"),
        (json!([{"role": "user", "parts": []}]), "must not be empty"),
        (json!([{"role": "user", "parts": [{"text": ""}]}]), "must have a text parameter"),
        (json!([{"role": "user", "parts": [{"txt": "x"}]}]), "Unknown name \"txt\""),
        (json!([{"role": "user", "parts": [{"thought": true}]}]), "must have one initialized field"),
    ] {
        let found = complaint(json!({ "contents": contents })).await;
        assert!(found.contains(what), "{contents}: {found}");
    }
    let good = json!([user(), two(), answers(json!([response("b"), response("a"), {"text": "go on"}]))]);
    assert_eq!(status(PATH, good).await, 200);
}

#[tokio::test]
async fn signatures_of_the_current_turn_are_required() {
    let server = builtin().await;
    let prompt = [Api::Gemini.prompt("hello world")];
    let first = Api::Gemini.ask(&server, &prompt, Mode::Streamed).await;
    let parts = first.message["parts"].as_array().unwrap();
    let part = parts.iter().find(|part| part.get("functionCall").is_some()).unwrap();
    let signature = part["thoughtSignature"].as_str().unwrap().to_owned();
    assert_eq!(signature.len() % 4, 0, "Base64");
    let results = Api::Gemini.results(&first.calls, "OK").remove(0);
    let lost = "missing a thought_signature in functionCall parts";
    let with = |change: &dyn Fn(&mut Value)| {
        let mut message = first.message.clone();
        for part in message["parts"].as_array_mut().unwrap() {
            if part.get("functionCall").is_some() {
                change(part);
            }
        }
        json!({"contents": [prompt[0], message, results]})
    };
    let lose = |part: &mut Value| {
        part.as_object_mut().unwrap().remove("thoughtSignature");
    };
    let whole = with(&|_| {});
    assert_eq!(post(&server, PATH, &whole).await.status(), 200);
    let found = complaint(with(&lose)).await;
    assert!(found.contains(lost) && found.contains("`default_api:write_file`, position 2"), "{found}");
    let broken = complaint(with(&|part| part["thoughtSignature"] = json!(format!("{signature}x")))).await;
    assert!(broken.contains("Corrupted thought signature"), "{broken}");
    let other_call = complaint(with(&|part| part["functionCall"]["name"] = json!("bash"))).await;
    assert!(
        other_call.contains("Corrupted thought signature") || other_call.contains("number of"),
        "{other_call}"
    );
    let elsewhere = "/v1beta/models/gemini-3.7-flash:generateContent";
    let (_, moved) = refused(&server, elsewhere, &whole).await;
    assert!(moved["error"]["message"].as_str().unwrap().contains("Corrupted"), "{moved}");
    let snake = with(&|part| {
        let signature = part.as_object_mut().unwrap().remove("thoughtSignature").unwrap();
        part["thought_signature"] = signature;
    });
    assert_eq!(post(&server, PATH, &snake).await.status(), 200);

    let mut next_turn = with(&lose);
    next_turn["contents"].as_array_mut().unwrap().extend([model(json!([{"text": "Done."}])), user()]);
    assert_eq!(post(&server, PATH, &next_turn).await.status(), 200, "an earlier turn needs no signature");
    assert_eq!(post(&server, OLD, &with(&lose)).await.status(), 200, "an old model needs no signature");
}

#[tokio::test]
async fn only_the_first_call_of_a_step_needs_a_signature() {
    let both = answers(json!([response("a"), response("b")]));
    let first = json!([user(), model(json!([signed("a", DUMMY), call("b")])), both]);
    assert_eq!(status(PATH, first).await, 200);
    let second = json!([user(), model(json!([call("a"), signed("b", DUMMY)])), both]);
    assert_eq!(status(PATH, second).await, 400);
    let observed = json!([
        user(),
        model(json!([signed("a", DUMMY)])),
        answers(json!([response("a")])),
        model(json!([call("c")])),
        answers(json!([response("c")]))
    ]);
    assert_eq!(status(PATH, observed).await, 400, "each step has its own signature");
}

#[tokio::test]
async fn older_models_use_neither_ids_nor_signatures() {
    let server = builtin().await;
    let body = json!({"contents": [user()]});
    let reply: Value = post(&server, OLD, &body).await.json().await.unwrap();
    let part = &reply["candidates"][0]["content"]["parts"][1];
    assert_eq!(part["functionCall"]["name"], "write_file");
    assert!(part.get("thoughtSignature").is_none() && part["functionCall"].get("id").is_none(), "{part}");
}

#[tokio::test]
async fn invalid_tools_and_options_are_rejected() {
    let tool =
        |function: Value| json!({"contents": [user()], "tools": [{"functionDeclarations": [function]}]});
    let with = |parameters: Value| tool(json!({"name": "f", "parameters": parameters}));
    let nested = |inner: Value| with(json!({"type": "object", "properties": {"const": inner}}));
    for (body, what) in [
        (tool(json!({"name": "1f"})), "Invalid function name"),
        (tool(json!({"name": "f g"})), "Invalid function name"),
        (tool(json!({"name": "f", "parameters": {}, "parametersJsonSchema": {}})), "mutually exclusive"),
        (with(json!({"$schema": "x", "type": "object"})), "Unknown name \"$schema\""),
        (nested(json!({"const": 1})), "Unknown name \"const\""),
        (nested(json!({"type": "array", "items": {"oneOf": []}})), "Unknown name \"oneOf\""),
        (nested(json!({"anyOf": [{"type": ["string", "null"]}]})), "Unknown name \"type\""),
    ] {
        let found = complaint(body.clone()).await;
        assert!(found.contains(what), "{body}: {found}");
    }
    let good = nested(json!({"type": "string"}));
    let server = builtin().await;
    assert_eq!(post(&server, PATH, &good).await.status(), 200, "a property may have the name of a keyword");
    let thinking = json!({"thinkingConfig": {"thinkingLevel": "low", "thinkingBudget": 1}});
    let both = complaint(json!({"contents": [user()], "generationConfig": thinking})).await;
    assert!(both.contains("only set one"), "{both}");
}

#[tokio::test]
async fn a_missing_model_an_unknown_method_and_broken_json_are_rejected() {
    let server = builtin().await;
    let body = json!({"contents": [user()]});
    for path in ["/v1beta/models/missing-1:generateContent", "/v1beta/models/gemini-3.8-flash:sing"] {
        let (status, answer) = refused(&server, path, &body).await;
        assert_eq!((status, &answer["error"]["status"]), (404, &json!("NOT_FOUND")));
    }
    let answer = http().post(format!("{}{PATH}", server.url())).body("{").send().await.unwrap();
    let answer: Value = answer.json().await.unwrap();
    assert!(answer["error"]["message"].as_str().unwrap().starts_with("Invalid JSON payload received."));
}
