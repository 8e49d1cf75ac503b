//! Logic shared by all stores: checking the order of events, and summarizing events.
//!
//! This module is pure. All stores use it, so that they behave the same.

use std::sync::Arc;

use sysop_core::attached_data::typed_text;
use sysop_core::event::{Event, Logged, Origin};
use sysop_core::id::{Seq, SessionId, Timestamp};
use sysop_core::redact::shapes::redact_command_shapes;
use sysop_core::text::neutralize;
use sysop_driver::port::{SessionSummary, StoreError};

const TITLE_CHARS_MAX: usize = 80;
/// Maximum characters read from the start of a prompt to make the session's title.
const TITLE_SOURCE_CHARS_MAX: usize = 400;

/// Checks that the `seq` values continue `after` without a gap. Returns the last one, or `after` without events.
pub(crate) fn check_seq_order(id: &SessionId, after: Seq, events: &[Arc<Logged>]) -> Result<Seq, StoreError> {
    let mut last = after;
    for logged in events {
        if logged.seq != last.next() {
            return Err(StoreError::Corrupt(format!(
                "expected event {} of session {id}, got event {}; nothing was stored; this is a bug in sysop, please \
                 report it",
                last.next(),
                logged.seq
            )));
        }
        last = logged.seq;
    }
    Ok(last)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BatchSummary {
    pub(crate) first_at: Timestamp,
    pub(crate) last_at: Timestamp,
    /// Title from the first prompt or command in these events; empty if there is none. Only used if the session has no
    /// title.
    pub(crate) title: String,
    /// Host, from the `SessionOpened` event; empty if the batch does not contain that event.
    pub(crate) host: String,
    /// Root, from the `SessionOpened` event; empty if the batch does not contain that event.
    pub(crate) root: String,
}

impl BatchSummary {
    /// Returns the summary of a batch, or `None` if the batch is empty.
    pub(crate) fn of(events: &[Arc<Logged>]) -> Option<Self> {
        let (first, last) = (events.first()?, events.last()?);
        let mut batch_summary = Self {
            first_at: first.at,
            last_at: last.at,
            title: String::new(),
            host: String::new(),
            root: String::new(),
        };
        let mut turn_origin = Origin::Model;
        for logged in events {
            if let Event::TurnStarted { origin, .. } = &logged.event {
                turn_origin = *origin;
            }
            if let Event::SessionOpened { spec, .. } = &logged.event {
                batch_summary.host.clone_from(&spec.host);
                batch_summary.root.clone_from(&spec.root);
            } else if batch_summary.title.is_empty() {
                batch_summary.title = title_of(&logged.event, turn_origin);
            }
        }
        Some(batch_summary)
    }

    pub(crate) fn into_summary(self, id: SessionId, last_seq: Seq) -> SessionSummary {
        SessionSummary {
            id,
            title: self.title,
            created: self.first_at,
            changed: self.last_at,
            last_seq,
            host: self.host,
            root: self.root,
            pinned: false,
        }
    }
}

/// Returns the title that an event gives to a session without one: the prompt, or the command that runs without a
/// model. Empty for other events. `turn_origin` is the origin of the event's turn, or `Model` if the turn began in an
/// earlier batch; the title is then the command when it starts.
fn title_of(event: &Event, turn_origin: Origin) -> String {
    #[expect(clippy::wildcard_enum_match_arm, reason = "only these events have words of a user")]
    let (call, origin) = match event {
        Event::TurnStarted { prompt, .. } => return title(prompt),
        Event::ApprovalAsked { call, .. } => (call, turn_origin),
        Event::ToolStarted { call, origin } => (call, *origin),
        _ => return String::new(),
    };
    if origin == Origin::Model {
        return String::new();
    }
    title(&redact_command_shapes(call.text_argument("command").unwrap_or_default()))
}

/// Returns the beginning of a prompt on one line, at most `TITLE_CHARS_MAX` characters long and safe to display.
fn title(prompt: &str) -> String {
    let source: String = typed_text(prompt).trim_start().chars().take(TITLE_SOURCE_CHARS_MAX).collect();
    let words = neutralize(&source).split_whitespace().collect::<Vec<_>>().join(" ");
    if words.chars().count() <= TITLE_CHARS_MAX {
        return words;
    }
    let cut: String = words.chars().take(TITLE_CHARS_MAX - 1).collect();
    let whole_words = match cut.rfind(' ') {
        Some(end) if end > TITLE_CHARS_MAX / 2 => &cut[..end],
        Some(_) | None => &cut,
    };
    format!("{whole_words}…")
}

#[cfg(test)]
mod tests {
    use super::title;

    #[test]
    fn a_title_is_the_first_words_of_the_prompt() {
        assert_eq!(title("  why is\n\n the disk\tfull? "), "why is the disk full?");
        assert_eq!(title(" \n\t "), "");
        let data = sysop_core::attached_data::label("standard input", "9 bytes", "some data", false);
        assert_eq!(title(&format!("what is this\n\n{data}")), "what is this");
    }

    #[test]
    fn a_long_title_is_truncated_between_words() {
        let cut = title(&"restart ".repeat(5000));
        assert_eq!(cut, format!("{}…", ["restart"; 9].join(" ")));
    }

    #[test]
    fn a_long_word_is_truncated() {
        let cut = title(&"ä".repeat(200));
        assert_eq!(cut.chars().count(), 80);
        assert!(cut.ends_with("ä…"), "{cut}");
    }
}
