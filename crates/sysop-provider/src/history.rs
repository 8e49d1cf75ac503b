//! Puts request bodies together from pieces that are encoded once.
//!
//! A message is encoded when it is first sent and kept with the message itself; system prompt and tools are kept
//! here. A step concatenates. Never parses what it joins.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use sysop_core::message::{HistoryMessage, Message, ModelRef, ModelRequest, RawReply};
use sysop_core::tool::ToolSpec;

/// Most sets of system prompt and tools that are kept encoded.
const PREFIXES_MAX: usize = 32;

/// Who speaks, where an API knows two sides only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The person, and the results of tools.
    User,
    /// The model.
    Model,
}

impl Side {
    pub(crate) fn of(message: &Message) -> Self {
        match message {
            Message::User { .. } | Message::ToolResults { .. } => Self::User,
            Message::Assistant { .. } => Self::Model,
        }
    }
}

#[cfg(test)]
thread_local! {
    /// How often this thread has encoded a message.
    pub(crate) static ENCODED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The encoded form of a message under the name `wire`, from the message itself if it was encoded before.
pub(crate) fn piece<'a>(
    message: &'a HistoryMessage,
    wire: &'static str,
    encode: impl Fn(&Message) -> String,
) -> Cow<'a, str> {
    let counted = |message: &Message| {
        #[cfg(test)]
        ENCODED.set(ENCODED.get() + 1);
        encode(message)
    };
    match message.encoded(wire, counted) {
        Some(text) => Cow::Borrowed(text),
        None => Cow::Owned(counted(message.message())),
    }
}

/// The provider's own form of a reply, if it may be echoed to `model`.
pub(crate) fn echo<'a>(message: &'a Message, model: &ModelRef) -> Option<&'a Value> {
    match message {
        Message::Assistant { reply } => match &reply.raw {
            Some(RawReply { model: whose, value }) if whose == model => Some(value),
            Some(_) | None => None,
        },
        Message::User { .. } | Message::ToolResults { .. } => None,
    }
}

/// Everything that one side says in a row: its pieces, joined by commas.
#[derive(Debug, PartialEq)]
pub(crate) struct Turn {
    pub(crate) side: Side,
    pub(crate) pieces: String,
}

/// Joins neighbours of one side; leaves out empty pieces; begins and ends with the user.
///
/// `filler` is the piece that stands in where an API wants a user's words and there are none.
pub(crate) fn turns<'a>(pieces: impl Iterator<Item = (Side, Cow<'a, str>)>, filler: &str) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    for (side, piece) in pieces.filter(|(_, piece)| !piece.is_empty()) {
        if turns.is_empty() && side == Side::Model {
            turns.push(Turn { side: Side::User, pieces: filler.to_owned() });
        }
        match turns.last_mut() {
            Some(last) if last.side == side => {
                last.pieces.push(',');
                last.pieces.push_str(&piece);
            }
            Some(_) | None => turns.push(Turn { side, pieces: piece.into_owned() }),
        }
    }
    if turns.last().is_none_or(|turn| turn.side == Side::Model) {
        turns.push(Turn { side: Side::User, pieces: filler.to_owned() });
    }
    turns
}

/// Encoded system prompts and tool lists, found again by the identity of their `Arc`s.
#[derive(Debug, Default)]
pub(crate) struct Prefixes {
    kept: Mutex<VecDeque<Prefix>>,
}

#[derive(Debug)]
struct Prefix {
    system: Arc<str>,
    tools: Arc<[ToolSpec]>,
    variant: &'static str,
    text: Arc<str>,
}

impl Prefixes {
    /// The encoded prefix of a request; `variant` names what else it depends on.
    pub(crate) fn of(
        &self,
        request: &ModelRequest,
        variant: &'static str,
        encode: impl FnOnce() -> String,
    ) -> Arc<str> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().find(|prefix| {
            prefix.variant == variant
                && Arc::ptr_eq(&prefix.system, &request.system)
                && Arc::ptr_eq(&prefix.tools, &request.tools)
        });
        if let Some(prefix) = found {
            return Arc::clone(&prefix.text);
        }
        let text: Arc<str> = encode().into();
        if kept.len() >= PREFIXES_MAX {
            kept.pop_front();
        }
        kept.push_back(Prefix {
            system: Arc::clone(&request.system),
            tools: Arc::clone(&request.tools),
            variant,
            text: Arc::clone(&text),
        });
        text
    }
}

/// What was learned about models, by name; bounded, the oldest is forgotten first.
#[derive(Debug)]
pub(crate) struct Learned<T> {
    kept: Mutex<VecDeque<(String, T)>>,
}

/// Most models that something is remembered of.
const LEARNED_MAX: usize = 256;

impl<T> Default for Learned<T> {
    fn default() -> Self {
        Self { kept: Mutex::default() }
    }
}

impl<T: Clone> Learned<T> {
    /// What is known of a model.
    pub(crate) fn of(&self, model: &str) -> Option<T> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(name, _)| name == model).map(|(_, value)| value.clone())
    }

    /// Remembers it.
    pub(crate) fn set(&self, model: &str, value: T) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(name, _)| name != model);
        if kept.len() >= LEARNED_MAX {
            kept.pop_front();
        }
        kept.push_back((model.to_owned(), value));
    }
}

/// The beginning of ids that are made up here, for servers that send none.
const MADE_UP_ID: &str = "sysop_";

/// An id for a call that came without one.
pub(crate) fn made_up_id() -> String {
    format!("{MADE_UP_ID}{}", uuid::Uuid::now_v7().simple())
}

/// Whether a server has never seen this id.
pub(crate) fn is_made_up(id: &str) -> bool {
    id.starts_with(MADE_UP_ID)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_alternate_and_begin_and_end_with_the_user() {
        let pieces = [
            (Side::Model, "m1"),
            (Side::User, "u1"),
            (Side::Model, ""),
            (Side::User, "u2"),
            (Side::Model, "m2"),
        ];
        let turns = turns(pieces.into_iter().map(|(side, text)| (side, Cow::Borrowed(text))), "f");
        let texts: Vec<_> = turns.iter().map(|turn| (turn.side, turn.pieces.as_str())).collect();
        assert_eq!(
            texts,
            [
                (Side::User, "f"),
                (Side::Model, "m1"),
                (Side::User, "u1,u2"),
                (Side::Model, "m2"),
                (Side::User, "f")
            ]
        );
    }

    #[test]
    fn prefixes_are_found_by_identity_and_bounded() {
        let prefixes = Prefixes::default();
        let request = |text: &str| ModelRequest {
            model: ModelRef::new("x", "y"),
            system: text.into(),
            messages: Vec::new(),
            trimmed: false,
            tools: Arc::new([]),
            max_output_tokens: None,
            temperature: None,
        };
        let first = request("a");
        let mut count = 0;
        for _ in 0..3 {
            prefixes.of(&first, "v", || {
                count += 1;
                String::new()
            });
        }
        assert_eq!(count, 1);
        for _ in 0..100 {
            prefixes.of(&request("b"), "v", String::new);
        }
        assert_eq!(prefixes.kept.lock().unwrap().len(), PREFIXES_MAX);
    }
}
