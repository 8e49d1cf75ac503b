//! Messages on their way to the server. Each message takes effect at most once.
//!
//! A message that was written but not confirmed may have arrived. It is sent again only to the same server process,
//! which recognizes the message by its id and handles it once. Another process may already have the message in its log
//! but does not know its id, so the message is not sent to that process.

use std::collections::VecDeque;

use serde_json::Value;
use sysop_wire::{ClientMessage, to_json_line};

pub(crate) const PENDING_MAX: usize = 256;

/// Messages that the server has yet to confirm.
#[derive(Default)]
pub(crate) struct Outbox {
    pending: VecDeque<PendingMessage>,
    pings: u64,
    /// Server process to which the written messages were sent.
    instance: Option<String>,
}

struct PendingMessage {
    line: String,
    /// Description for the user if the message is lost.
    what: &'static str,
    /// Number of the ping that followed the message; `None` if the message has not been written.
    written: Option<u64>,
}

impl Outbox {
    /// Adds a message and gives it a unique id.
    pub(crate) fn push(&mut self, message: &ClientMessage) {
        let mut value = serde_json::to_value(message).expect("messages are plain structs with text keys");
        if let Value::Object(fields) = &mut value {
            fields.insert("messageId".to_owned(), uuid::Uuid::new_v4().to_string().into());
        }
        self.pending.push_back(PendingMessage {
            line: to_json_line(&value),
            what: what(message),
            written: None,
        });
    }

    pub(crate) fn is_full(&self) -> bool {
        self.pending.len() >= PENDING_MAX
    }

    /// Prepares for a connection to the server process `instance`. Drops the messages that may have arrived at another
    /// process and returns their descriptions.
    pub(crate) fn connected(&mut self, instance: Option<&str>) -> Vec<&'static str> {
        let same = instance.is_some() && self.instance.as_deref() == instance;
        self.instance = instance.map(str::to_owned);
        if same {
            self.pending.iter_mut().for_each(|pending| pending.written = None);
            return Vec::new();
        }
        let lost =
            self.pending.iter().filter(|pending| pending.written.is_some()).map(|lost| lost.what).collect();
        self.pending.retain(|pending| pending.written.is_none());
        lost
    }

    /// Returns the next message to write and the number of the ping to send after it. The message counts as written
    /// from now on.
    pub(crate) fn next(&mut self) -> Option<(String, u64)> {
        let next = self.pending.iter_mut().find(|pending| pending.written.is_none())?;
        self.pings += 1;
        next.written = Some(self.pings);
        Some((next.line.clone(), self.pings))
    }

    /// Confirms every message written before this ping.
    pub(crate) fn confirmed(&mut self, ping: u64) {
        while self
            .pending
            .front()
            .is_some_and(|pending| pending.written.is_some_and(|written| written <= ping))
        {
            self.pending.pop_front();
        }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "users do not send other messages themselves")]
fn what(message: &ClientMessage) -> &'static str {
    match message {
        ClientMessage::UserMessage { .. } => "your last message",
        ClientMessage::WithdrawPrompt { .. } => "your request to take back a message",
        ClientMessage::ApprovalDecision { .. } => "your decision",
        ClientMessage::ApprovalPreview { .. } => "your preview request",
        ClientMessage::Direct { .. } => "your command",
        ClientMessage::Cancel { .. } => "your stop request",
        ClientMessage::Pause { .. } => "your pause request",
        ClientMessage::Resume { .. } => "your resume request",
        ClientMessage::Retry { .. } => "your retry request",
        ClientMessage::Clear { .. } => "your request to clear the history",
        ClientMessage::Compact { .. } => "your compaction request",
        ClientMessage::Background { .. } => "your request to move the command to the background",
        ClientMessage::StopJob { .. } => "your request to stop a job",
        ClientMessage::Configure { .. } => "your configuration change",
        ClientMessage::QuestionAnswer { .. } => "your answer",
        _ => "a message",
    }
}

#[cfg(test)]
mod tests {
    use sysop_wire::Envelope;

    use super::*;

    fn say(text: &str) -> ClientMessage {
        ClientMessage::UserMessage {
            envelope: Envelope::default(),
            content: text.to_owned(),
            images: Vec::new(),
        }
    }

    fn written(outbox: &mut Outbox) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        while let Some((line, _)) = outbox.next() {
            let value: Value = serde_json::from_str(&line).unwrap();
            let text = |name: &str| value[name].as_str().unwrap().to_owned();
            lines.push((text("content"), text("messageId")));
        }
        lines
    }

    #[test]
    fn unconfirmed_messages_are_resent_to_the_same_process_under_the_same_id() {
        let mut outbox = Outbox::default();
        assert!(outbox.connected(Some("a")).is_empty());
        outbox.push(&say("one"));
        outbox.push(&say("two"));
        let first = written(&mut outbox);
        outbox.confirmed(1);
        assert!(outbox.connected(Some("a")).is_empty());
        assert_eq!(written(&mut outbox), first[1..]);
        outbox.confirmed(3);
        assert!(outbox.pending.is_empty());
    }

    #[test]
    fn a_new_process_gets_only_messages_that_were_never_sent() {
        let mut outbox = Outbox::default();
        outbox.connected(Some("a"));
        outbox.push(&say("one"));
        written(&mut outbox);
        outbox.push(&say("two"));
        assert_eq!(outbox.connected(Some("b")), ["your last message"]);
        assert_eq!(written(&mut outbox)[0].0, "two");
        assert_eq!(
            outbox.connected(None),
            ["your last message"],
            "a server without an identity counts as another one"
        );
    }
}
