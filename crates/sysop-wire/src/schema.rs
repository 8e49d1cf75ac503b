//! Generates JSON Schema, TypeScript and the protocol page from the message types.
//!
//! `cargo xtask wire` writes the files, which are committed; a test fails if they are stale.

use std::collections::BTreeMap;
use std::fmt::Write;

use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::client_message::ClientMessage;
use crate::server_message::ServerMessage;

mod typescript;

/// One example of each client message, one per line.
pub const CLIENT_EXAMPLES: &str = include_str!("../schema/client.examples.jsonl");
/// One example of each server message, one per line.
pub const SERVER_EXAMPLES: &str = include_str!("../schema/server.examples.jsonl");

const PAGE_HEAD: &str = "\
# The protocol

`cargo xtask wire` generates this page from the types of `sysop-wire`. The schemas are in `crates/sysop-wire/schema`, the
TypeScript types in `web/src/wire.ts`.

Every message is one JSON object with a `type`. On the WebSocket, a message is one text frame. The SSE stream and
`sysop exec --json` write the server's messages, one per line. A reader ignores unknown fields and types.

- **Sessions.** The server's messages contain a `sessionId`. A client may omit it: a socket belongs to one session.
- **Order.** Messages about logged events have a `seq`. If one event leads to several messages, they have the same `seq`,
  and all but the last have `more`. `hello` with `resumeFrom: N` requests all messages after `N`, once and in order.
  Messages without a `seq` are live updates and are never resent.
- **History.** The answer to `hello` is a `session.created` without a `seq`. Its `lastSeq` is the latest event: messages
  up to it are history, and a `tool.call` among them must not be run unless it has `run`.
- **Errors.** An `error` that answers a message has a `code`, and its `replyTo` is the `messageId` of that message. An
  `error` with a `seq` is the reason why a turn ended.
- **Traces.** `traceparent` follows W3C Trace Context.
- **Text** comes from models, files and commands. A client must display it as plain text.
";

/// Returns the schema of client messages, as they are parsed.
pub fn client() -> Value {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    settings.into_generator().into_root_schema_for::<ClientMessage>().to_value()
}

/// Returns the schema of server messages, as they are written.
pub fn server() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<ServerMessage>().to_value()
}

pub fn generated_files() -> Vec<(&'static str, String)> {
    let (client, server) = (client(), server());
    vec![
        ("crates/sysop-wire/schema/client.json", pretty(&client)),
        ("crates/sysop-wire/schema/server.json", pretty(&server)),
        ("web/src/wire.ts", typescript::module(&client, &server)),
        ("docs/protocol.md", page(&client, &server)),
    ]
}

fn pretty(schema: &Value) -> String {
    format!("{schema:#}\n")
}

/// Returns the protocol page: each message with its description, fields and example.
fn page(client: &Value, server: &Value) -> String {
    let mut page = PAGE_HEAD.to_owned();
    for (title, schema, examples) in
        [("Client messages", client, CLIENT_EXAMPLES), ("Server messages", server, SERVER_EXAMPLES)]
    {
        write!(page, "\n## {title}\n").expect("writing to a string cannot fail");
        for message in schema["oneOf"].as_array().into_iter().flatten() {
            section(&mut page, schema, message, examples);
        }
    }
    write!(page, "\n## Enumerations\n").expect("writing to a string cannot fail");
    let (client, server) = (&client["$defs"], &server["$defs"]);
    let definitions = [client, server].into_iter().filter_map(Value::as_object).flatten();
    for (name, definition) in definitions.collect::<BTreeMap<_, _>>() {
        enum_values(&mut page, name, definition);
    }
    page
}

/// Lists the values of a plain enum.
fn enum_values(page: &mut String, name: &str, definition: &Value) {
    let Some(variants) = definition["oneOf"].as_array() else { return };
    if variants.iter().any(|variant| variant.get("const").is_none()) {
        return;
    }
    write!(page, "\n### {name}\n\n{}\n\n", one_line(&definition["description"]))
        .expect("writing to a string cannot fail");
    for variant in variants {
        let (word, about) =
            (variant["const"].as_str().unwrap_or_default(), one_line(&variant["description"]));
        writeln!(page, "- `{word}`: {about}").expect("writing to a string cannot fail");
    }
}

fn section(page: &mut String, schema: &Value, message: &Value, examples: &str) {
    let kind = message["properties"]["type"]["const"].as_str().expect("messages are distinguished by `type`");
    let about = one_line(&message["description"]);
    write!(page, "\n### `{kind}`\n\n{about}\n\n").expect("writing to a string cannot fail");
    let named =
        message["$ref"].as_str().map_or(&Value::Null, |name| &schema["$defs"][name.trim_start_matches(DEFS)]);
    let mut fields = String::new();
    for part in [named, message] {
        for (name, field) in part["properties"].as_object().into_iter().flatten() {
            if name == "type" || ENVELOPE.contains(&name.as_str()) {
                continue;
            }
            let (optional, of) = typescript::field_type(part, name, field, 0);
            let (of, about) = (of.replace('|', "\\|"), one_line(&field["description"]));
            writeln!(fields, "| `{name}{optional}` | `{of}` | {about} |")
                .expect("writing to a string cannot fail");
        }
    }
    if !fields.is_empty() {
        write!(page, "| field | type | description |\n| --- | --- | --- |\n{fields}\n")
            .expect("writing to a string cannot fail");
    }
    let quoted = format!(r#"{{"type":"{kind}""#);
    page.push_str("```json\n");
    for example in examples.lines().filter(|line| line.starts_with(&quoted)) {
        writeln!(page, "{example}").expect("writing to a string cannot fail");
    }
    page.push_str("```\n");
}

/// Path of the definitions within a schema.
const DEFS: &str = "#/$defs/";
/// Fields that the page describes only once, for all messages.
const ENVELOPE: [&str; 5] = ["sessionId", "messageId", "traceparent", "seq", "more"];

fn one_line(description: &Value) -> String {
    description.as_str().unwrap_or_default().replace('\n', " ")
}
