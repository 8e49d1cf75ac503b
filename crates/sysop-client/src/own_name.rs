//! Name of this client's user. In events, a server names the user after the token; front ends know their own user by a
//! name of their own, or, as the sender of a prompt, without a name.

use std::sync::Arc;

use sysop_core::event::{Delta, Event, Update};
use sysop_core::transcript::LOCAL_FRONT_ENDS;

/// The two names of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnName {
    pub(crate) on_server: String,
    pub(crate) here: String,
}

impl OwnName {
    /// Replaces the name of the user in an update from the server. Another user is never shown under a name
    /// that front ends take for their own user.
    pub(crate) fn localize(&self, update: &mut Update) {
        match update {
            Update::Logged(logged) => {
                if self.is_in(&logged.event) {
                    self.localize_event(&mut Arc::make_mut(logged).event);
                }
            }
            Update::Delta(
                Delta::QuestionClosed { by: Some(by), .. } | Delta::Control { holder: Some(by) },
            ) => {
                self.localize_name(by);
            }
            Update::Delta(_) => {}
        }
    }

    fn is_in(&self, event: &Event) -> bool {
        name_of(event).is_some_and(|by| by == self.on_server || LOCAL_FRONT_ENDS.contains(&by))
    }

    fn localize_name(&self, by: &mut String) {
        if *by == self.on_server {
            by.clone_from(&self.here);
        } else if LOCAL_FRONT_ENDS.contains(&by.as_str()) {
            by.push_str(" (server)");
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "no other event names a user for display")]
    fn localize_event(&self, event: &mut Event) {
        match event {
            Event::SessionOpened { opened_by: by, .. }
            | Event::PromptQueued { by, .. }
            | Event::PromptWithdrawn { by, .. }
            | Event::TurnStarted { by, .. } => {
                by.take_if(|by| *by == self.on_server);
                by.iter_mut().for_each(|by| self.localize_name(by));
            }
            Event::ApprovalGiven { by, .. }
            | Event::Decided { by, .. }
            | Event::TerminalInput { by, .. }
            | Event::Undone { by, .. } => self.localize_name(by),
            _ => {}
        }
    }
}

/// Returns the user whom the event names.
#[expect(clippy::wildcard_enum_match_arm, reason = "no other event names a user for display")]
fn name_of(event: &Event) -> Option<&str> {
    match event {
        Event::SessionOpened { opened_by: by, .. }
        | Event::PromptQueued { by, .. }
        | Event::PromptWithdrawn { by, .. }
        | Event::TurnStarted { by, .. } => by.as_deref(),
        Event::ApprovalGiven { by, .. }
        | Event::Decided { by, .. }
        | Event::TerminalInput { by, .. }
        | Event::Undone { by, .. } => Some(by),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use sysop_core::event::{Decision, Logged, Origin};
    use sysop_core::id::{CallId, Seq, Timestamp, TurnId};

    use super::*;

    fn shown(event: Event) -> Event {
        let own = OwnName { on_server: "start".to_owned(), here: "tui".to_owned() };
        let mut update = Update::Logged(Arc::new(Logged { seq: Seq(1), at: Timestamp(0), event }));
        own.localize(&mut update);
        let Update::Logged(logged) = update else { panic!("{update:?}") };
        logged.event.clone()
    }

    fn turn(by: Option<&str>) -> Event {
        Event::TurnStarted {
            turn: TurnId(1),
            prompt: "go".to_owned(),
            origin: Origin::User,
            images: Vec::new(),
            by: by.map(str::to_owned),
        }
    }

    fn decided(by: &str) -> Event {
        let decision = Decision::Allow { command: None };
        Event::Decided { call: CallId::new("c1"), decision, by: by.to_owned() }
    }

    #[test]
    fn only_the_user_of_this_client_is_named_as_at_home() {
        assert_eq!(shown(turn(Some("start"))), turn(None));
        assert_eq!(shown(turn(Some("ann"))), turn(Some("ann")));
        assert_eq!(shown(turn(Some("tui"))), turn(Some("tui (server)")));
        assert_eq!(shown(decided("start")), decided("tui"));
        assert_eq!(shown(decided("ann")), decided("ann"));
        assert_eq!(shown(decided("tui")), decided("tui (server)"));
        let own = OwnName { on_server: "start".to_owned(), here: "tui".to_owned() };
        for (holder, shown) in [("start", "tui"), ("ann", "ann")] {
            let mut update = Update::Delta(Delta::Control { holder: Some(holder.to_owned()) });
            own.localize(&mut update);
            assert_eq!(update, Update::Delta(Delta::Control { holder: Some(shown.to_owned()) }));
        }
    }
}
