//! The people who took part in a session so far, as far as the log names them.

use super::{ItemBody, Transcript};
use crate::event::{Decision, Event};

/// Names in the log that belong to sysop itself, not to a person.
const NOT_PEOPLE: [&str; 2] = [Decision::BY_SYSOP, Decision::BY_HOOK];

/// Names under which the front ends of this machine log what its user does, in a session without a server.
pub const LOCAL_FRONT_ENDS: [&str; 4] = ["chat", "editor", "exec", "tui"];

/// Tells if several people took part in a session. Only then are the senders of prompts shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Participants {
    first: Option<String>,
    are_several: bool,
    /// True if a server opened the session or sent a prompt, so that names are those of its tokens.
    has_server: bool,
    /// Name under which the updates name the user of this front end.
    viewer: Option<String>,
}

impl Participants {
    /// Notes the people whom an event names: who opened the session, sent a prompt, answered an approval or undid a
    /// change. A session without a server names front ends instead, and no sender of a prompt.
    #[expect(clippy::wildcard_enum_match_arm, reason = "other events name nobody")]
    pub fn apply(&mut self, event: &Event) {
        self.has_server |= matches!(
            event,
            Event::SessionOpened { opened_by: Some(_), .. }
                | Event::TurnStarted { by: Some(_), .. }
                | Event::PromptQueued { by: Some(_), .. }
        );
        match event {
            Event::SessionOpened { opened_by: Some(by), .. }
            | Event::TurnStarted { by: Some(by), .. }
            | Event::PromptQueued { by: Some(by), .. }
            | Event::ApprovalGiven { by, .. }
            | Event::Decided { by, .. }
            | Event::Undone { by, .. } => self.add(by),
            _ => {}
        }
    }

    /// Returns true if more than one person took part so far.
    pub fn are_several(&self) -> bool {
        self.are_several
    }

    /// Returns true if `by` names the user of this machine, not the token of a server with the same name.
    pub fn is_local_user(&self, by: &str) -> bool {
        self.viewer.as_deref() == Some(by) || (!self.has_server && LOCAL_FRONT_ENDS.contains(&by))
    }

    /// Returns true if a server runs the session, and names the user of this front end.
    pub(super) fn has_viewer(&self) -> bool {
        self.viewer.is_some()
    }

    fn add(&mut self, by: &str) {
        match &self.first {
            _ if NOT_PEOPLE.contains(&by) => {}
            None => self.first = Some(by.to_owned()),
            Some(first) => self.are_several |= first != by,
        }
    }
}

impl Transcript {
    /// Sets the name under which the updates of a session on a server name the user of this front end.
    pub fn set_viewer(&mut self, viewer: Option<&str>) {
        self.participants.viewer = viewer.map(str::to_owned);
    }

    /// Returns the name to begin a sentence about a user with: `You` for the user of this machine.
    pub fn subject<'a>(&self, by: &'a str) -> &'a str {
        if self.participants.is_local_user(by) { "You" } else { by }
    }

    /// Notes the people whom an event names. Once there are several, every prompt shows its sender.
    pub(super) fn note_participants(&mut self, event: &Event) {
        let were_several = self.participants.are_several;
        self.participants.apply(event);
        if were_several || !self.participants.are_several {
            return;
        }
        for item in &mut self.items {
            if let ItemBody::Prompt(prompt) = &mut item.body {
                prompt.is_named = true;
                item.revision += 1;
                item.seq = self.seq;
            }
        }
    }
}
