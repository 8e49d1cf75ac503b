//! Generated files are up to date, and their examples are valid messages.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sysop_wire::{ClientMessage, ServerMessage, schema};

fn kinds(schema: &Value) -> BTreeSet<String> {
    let messages = schema["oneOf"].as_array().expect("one of many");
    let kind = |message: &Value| message["properties"]["type"]["const"].as_str().map(str::to_owned);
    messages.iter().map(|message| kind(message).expect("a type")).collect()
}

/// Checks that every example round-trips and fits the schema, and that every message has an example.
fn check<M: DeserializeOwned + Serialize>(schema: &Value, examples: &str) {
    let validator = jsonschema::validator_for(schema).expect("a schema");
    let mut shown = BTreeSet::new();
    for example in examples.lines() {
        let value: Value = serde_json::from_str(example).expect("JSON");
        let message: M = serde_json::from_str(example).unwrap_or_else(|error| panic!("{example}: {error}"));
        assert_eq!(serde_json::to_string(&message).expect("plain data"), example);
        let errors: Vec<_> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{example}: {errors:?}");
        let later = format!("{},\"zzLater\":[{{}}]}}", &example[..example.len() - 1]);
        let later: M = serde_json::from_str(&later).unwrap_or_else(|error| panic!("{later}: {error}"));
        assert_eq!(
            serde_json::to_string(&later).expect("plain data"),
            example,
            "unknown fields are passed over"
        );
        shown.insert(value["type"].as_str().expect("a type").to_owned());
    }
    assert_eq!(shown, kinds(schema));
}

#[test]
fn every_client_message_has_a_valid_example() {
    check::<ClientMessage>(&schema::client(), schema::CLIENT_EXAMPLES);
}

#[test]
fn every_server_message_has_a_valid_example() {
    check::<ServerMessage>(&schema::server(), schema::SERVER_EXAMPLES);
}

#[test]
fn the_schemas_reject_invalid_messages() {
    let validator = jsonschema::validator_for(&schema::client()).expect("a schema");
    for bad in [r#"{"type":"teleport"}"#, r#"{"type":"user.message"}"#, r#"{"content":"x"}"#, r#""cancel""#] {
        assert!(!validator.is_valid(&serde_json::from_str(bad).expect("JSON")), "{bad}");
        assert!(ClientMessage::parse(bad).is_err(), "{bad}");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test reads the generated files")]
fn generated_files_are_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (path, text) in schema::generated_files() {
        let committed = std::fs::read_to_string(root.join(path)).unwrap_or_default();
        assert!(committed == text, "{path} is stale: run `cargo xtask wire`");
    }
}
