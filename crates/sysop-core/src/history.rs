//! Messages of a session, and the window of them that is sent: bounded, never splitting a call from its result.

use crate::message::{HistoryMessage, Message};

/// Minimum useful window: a prompt, the calls it led to, and their results.
pub const WINDOW_MESSAGES_MIN: usize = 3;

/// The messages of a session, oldest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    messages: Vec<HistoryMessage>,
    /// Index of the current turn's prompt.
    prompt: Option<usize>,
    /// True if messages were dropped for good.
    dropped: bool,
}

/// The part of a history that is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// The messages, oldest first; the first is a user's.
    pub messages: Vec<HistoryMessage>,
    /// True if older messages exist.
    pub trimmed: bool,
}

impl History {
    /// Appends the prompt of a new turn, and drops messages that no window of `keep` messages can reach.
    pub fn push_prompt(&mut self, text: &str, keep: usize) {
        let surplus = self.messages.len().saturating_sub(keep.max(WINDOW_MESSAGES_MIN));
        if surplus > 0 {
            self.messages.drain(..surplus);
            self.dropped = true;
        }
        self.prompt = Some(self.messages.len());
        self.push(Message::User { text: text.to_owned() });
    }

    /// Appends a message of the current turn.
    pub fn push(&mut self, message: Message) {
        self.messages.push(HistoryMessage::new(message));
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns true if there are no messages.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The messages, oldest first.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.messages.iter().map(HistoryMessage::message)
    }

    /// The newest `keep` messages (at least [`WINDOW_MESSAGES_MIN`]), the current turn's prompt among them.
    ///
    /// The window begins with a user message and never with results whose calls it leaves out, so it may hold
    /// fewer than `keep`.
    pub fn window(&self, keep: usize) -> Window {
        let keep = keep.max(WINDOW_MESSAGES_MIN);
        let prompt = self.prompt.unwrap_or(0);
        let newest = self.messages.len().saturating_sub(keep);
        let (head, from) = if prompt < newest {
            (self.messages.get(prompt), self.first_whole(newest + 1))
        } else {
            (None, self.first_user(newest))
        };
        let messages: Vec<_> = head.into_iter().chain(&self.messages[from..]).cloned().collect();
        let trimmed = self.dropped || messages.len() < self.messages.len();
        Window { messages, trimmed }
    }

    /// Returns the first index at or after `from` whose message is not a tool result.
    fn first_whole(&self, from: usize) -> usize {
        self.first(from, |message| !matches!(message, Message::ToolResults { .. }))
    }

    /// Returns the first index at or after `from` with a user message.
    fn first_user(&self, from: usize) -> usize {
        self.first(from, |message| matches!(message, Message::User { .. }))
    }

    fn first(&self, from: usize, wanted: impl Fn(&Message) -> bool) -> usize {
        (from..self.messages.len())
            .find(|&index| wanted(self.messages[index].message()))
            .unwrap_or(self.messages.len())
    }
}
