//! Support for a server started by another program: the server stops when that program exits, and reports to
//! it the events that need a person.
//!
//! The parent holds the other ends of two pipes. When the parent exits for any reason, standard input is
//! closed, and the server then stops as it does on a signal. Standard output carries the URL and the
//! events that need a person, as protocol messages, one JSON object per line. If the parent does not read,
//! lines are dropped; sessions are not delayed.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use sysop_core::event::{Event, Logged};
use sysop_core::id::SessionId;
use sysop_server::audit::{AppendListener, CommandRedactor};
use sysop_wire::to_json_line;
use tokio_util::sync::CancellationToken;

/// Maximum number of pending lines; later ones are dropped.
const WAITING_MAX: usize = 256;
/// Maximum length of text from a user or model, in characters.
const TEXT_CHARS_MAX: usize = 200;

pub(crate) struct ParentWatch {
    redaction: Arc<CommandRedactor>,
    lines: SyncSender<String>,
    waiting: Receiver<String>,
}

impl ParentWatch {
    /// Creates an idle watch: before [`Self::begin`], it writes no events to the parent and does not notice the
    /// parent's exit.
    pub(crate) fn new(redaction: CommandRedactor) -> Self {
        let (lines, waiting) = sync_channel(WAITING_MAX);
        Self { redaction: Arc::new(redaction), lines, waiting }
    }

    pub(crate) fn event_sink(&self) -> AppendListener {
        let (lines, redaction) = (self.lines.clone(), Arc::clone(&self.redaction));
        Arc::new(move |session: &SessionId, events: &[Arc<Logged>]| {
            for message in events.iter().filter_map(|logged| message(session, &logged.event, &redaction)) {
                // Dropped if the parent does not read.
                let _ = lines.try_send(to_json_line(&message));
            }
        })
    }

    /// Reports the server's URL, then events, and cancels `stop` when standard input closes. Fails if a thread cannot
    /// be started.
    pub(crate) fn begin(self, page: &str, stop: CancellationToken) -> Result<()> {
        let first = to_json_line(&json!({ "type": "serving", "url": page }));
        let waiting = self.waiting;
        let tell = move || {
            for line in std::iter::once(first).chain(waiting) {
                let mut out = io::stdout().lock();
                // A closed pipe means that the parent has exited, which standard input reports.
                if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
                    return;
                }
            }
        };
        // Both threads run until the process exits.
        std::thread::Builder::new()
            .name("telling".to_owned())
            .spawn(tell)
            .context("cannot start a thread")?;
        let watch = move || {
            let mut input = io::stdin().lock();
            let mut ignored = [0; 256];
            loop {
                match input.read(&mut ignored) {
                    Ok(1..) => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Ok(0) | Err(_) => return stop.cancel(),
                }
            }
        };
        std::thread::Builder::new()
            .name("watching".to_owned())
            .spawn(watch)
            .context("cannot start a thread")?;
        Ok(())
    }
}

/// Returns the message for an event that needs a person's attention, or `None` for any other event.
#[expect(clippy::wildcard_enum_match_arm, reason = "other events need no user")]
fn message(session: &SessionId, event: &Event, redaction: &CommandRedactor) -> Option<Value> {
    let message = match event {
        Event::TurnStarted { prompt, .. } => {
            json!({ "type": "user.message", "sessionId": session, "content": short(&redaction.command(prompt)) })
        }
        Event::ApprovalAsked { call, command, .. } => json!({
            "type": "approval.request",
            "sessionId": session,
            "toolCallId": call.id,
            "command": short(&redaction.command(command)),
        }),
        Event::Decided { call, .. } => {
            json!({ "type": "approval.closed", "sessionId": session, "toolCallId": call })
        }
        Event::TurnEnded { reason, .. } => json!({
            "type": "assistant.done",
            "sessionId": session,
            "metadata": { "stopReason": reason },
        }),
        _ => return None,
    };
    Some(message)
}

fn short(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sysop_core::event::Event;
    use sysop_core::id::SessionId;
    use sysop_server::audit::CommandRedactor;

    use super::{TEXT_CHARS_MAX, message};

    fn event_sink(event: serde_json::Value) -> Option<String> {
        let event: Event = serde_json::from_value(event).expect("it is an event");
        let redaction = CommandRedactor::new(&["the-key-of-a-provider".to_owned().into()]);
        message(&SessionId::new("s"), &event, &redaction).map(|message| message.to_string())
    }

    #[test]
    fn notices_are_short_and_contain_no_secret() {
        let prompt = json!({
            "type": "turn_started", "turn": 1, "origin": "model",
            "prompt": format!("use the-key-of-a-provider and --password hunter2secret {}", "x".repeat(1_000)),
        });
        let approval = json!({
            "type": "approval_asked", "reason": "", "risk": { "class": "changes", "findings": [] },
            "call": { "id": "c", "name": "bash", "arguments": { "object": { "command": "x" } } },
            "command": "curl -H 'Authorization: Bearer abcdefgh' -d the-key-of-a-provider", "covers": { "exact": { "command": "x" } },
        });
        for (event, kept) in [(prompt, "--password"), (approval, "curl -H")] {
            let line = event_sink(event).expect("it is told");
            assert!(line.contains(kept), "{line}");
            for secret in ["the-key-of-a-provider", "hunter2secret", "abcdefgh"] {
                assert!(!line.contains(secret), "{line}");
            }
            assert!(line.len() < TEXT_CHARS_MAX + 120, "{line}");
        }
    }

    #[test]
    fn model_text_and_command_output_are_not_reported() {
        let reply = json!({
            "type": "replied", "step": { "turn": 1, "step": 1 },
            "reply": { "text": "a secret", "protocol": "native", "finish": "stop",
                       "usage": { "input_tokens": 0, "output_tokens": 0, "cached_tokens": 0 } },
        });
        assert_eq!(event_sink(reply), None);
    }
}
