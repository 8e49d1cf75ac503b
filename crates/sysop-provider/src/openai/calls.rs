//! Puts tool calls together from the pieces that servers stream.
//!
//! The specification: `id` and `name` come first, once per `index`; `arguments` are appended. Servers leave out the
//! index, send 0 for all, repeat ids or names, or send whole calls, with arguments as objects. What each rule is for
//! stands beside it.

use serde_json::Value;
use sysop_core::id::CallId;
use sysop_core::message::{Arguments, ToolCall};

use crate::history::made_up_id;

/// Most calls in one reply; more are dropped.
const CALLS_MAX: usize = 256;

/// The calls of one reply as far as they have come.
#[derive(Debug, Default)]
pub(super) struct Calls {
    slots: Vec<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    extra: Value,
}

impl Calls {
    /// Takes one element of `delta.tool_calls`.
    pub(super) fn push(&mut self, piece: &Value) {
        let text = |value: Option<&Value>| match value {
            Some(Value::String(text)) => text.clone(),
            _ => String::new(),
        };
        let function = piece.get("function").unwrap_or(piece);
        let id = match piece.get("id") {
            Some(Value::Number(number)) => number.to_string(),
            other => text(other),
        };
        let name = text(function.get("name"));
        let arguments = match function.get("arguments") {
            Some(Value::String(text)) => text.clone(),
            Some(object @ Value::Object(_)) => object.to_string(),
            _ => String::new(),
        };
        let index = piece.get("index").and_then(Value::as_u64);
        let at = self.slot_of(index, &id, &name, &arguments);
        let Some(slot) = self.slots.get_mut(at) else { return };
        if slot.id.is_empty() {
            slot.id = id; // later chunks may send it empty, or again
        }
        if slot.name.is_empty() {
            slot.name = name; // some servers repeat it with each chunk
        }
        slot.arguments.push_str(&arguments);
        if let Some(extra) = piece.get("extra_content").filter(|extra| !extra.is_null()) {
            slot.extra = extra.clone();
        }
    }

    /// Where a piece belongs; opens a new slot where it begins a call.
    fn slot_of(&mut self, index: Option<u64>, id: &str, name: &str, arguments: &str) -> usize {
        let found = match index {
            Some(index) => self.slots.iter().rposition(|slot| slot.index == Some(index)),
            None if !id.is_empty() => self.slots.iter().rposition(|slot| slot.id == id),
            None => self.slots.len().checked_sub(1),
        };
        if let Some(at) = found {
            let slot = &self.slots[at];
            let other_id = !id.is_empty() && !slot.id.is_empty() && slot.id != id; // index 0 for every call
            let begun = !slot.arguments.is_empty();
            let other_name = !name.is_empty() && !slot.name.is_empty() && slot.name != name && begun;
            // A whole call under the id or index of one that is whole already.
            let again = !name.is_empty() && !arguments.is_empty() && is_object(&slot.arguments);
            if !(other_id || other_name || again) {
                return at;
            }
        }
        if self.slots.len() < CALLS_MAX {
            self.slots.push(Slot { index, ..Slot::default() });
            return self.slots.len() - 1;
        }
        usize::MAX
    }

    /// Whether there is any.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The calls and what is to be echoed with each; `cut` leaves out a last one that is not whole.
    pub(super) fn finish(mut self, cut: bool) -> (Vec<ToolCall>, Vec<Value>) {
        if cut && self.slots.last().is_some_and(|slot| !is_object(&slot.arguments)) {
            self.slots.pop();
        }
        self.slots.retain(|slot| !(slot.name.is_empty() && slot.arguments.is_empty()));
        self.slots
            .into_iter()
            .map(|slot| {
                let id = if slot.id.is_empty() { made_up_id() } else { slot.id };
                let arguments = read_arguments(&slot.arguments);
                let call = ToolCall { id: CallId::new(id), wire_id: None, name: slot.name, arguments };
                (call, slot.extra)
            })
            .unzip()
    }
}

fn is_object(text: &str) -> bool {
    matches!(serde_json::from_str::<Value>(text), Ok(Value::Object(_)))
}

/// Reads arguments strictly, then as the first object that says something, then as JSON inside a JSON string.
fn read_arguments(text: &str) -> Arguments {
    let strict = Arguments::parse(text);
    if matches!(strict, Arguments::Object(_)) {
        return strict;
    }
    let mut first = None;
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        match value {
            Ok(Value::Object(map)) if !map.is_empty() => return Arguments::Object(map),
            Ok(Value::Object(map)) => first = first.or(Some(map)),
            Ok(Value::String(inner)) if first.is_none() => match Arguments::parse(&inner) {
                Arguments::Object(map) if !inner.trim().is_empty() => return Arguments::Object(map),
                Arguments::Object(_) | Arguments::Invalid(_) => break,
            },
            Ok(_) | Err(_) => break,
        }
    }
    first.map_or(strict, Arguments::Object)
}
