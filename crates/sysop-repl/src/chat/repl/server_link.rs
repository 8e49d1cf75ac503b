//! The line about prompts that the session's server does not have, or has not confirmed, when the connection is lost or
//! regained.

use std::io;

use sysop_core::event::{Delta, Event, Update};
use sysop_driver::frontend::ServerConnection;

use super::Repl;
use crate::render::words;

#[derive(Default)]
pub(super) struct ServerLink {
    /// Prompt that was sent last, until it is in the log.
    pub(super) unlogged: Option<String>,
    is_lost: bool,
    /// Prompts that were not confirmed when the log got them.
    logged: Vec<String>,
}

impl ServerLink {
    /// Records that the log has a prompt, which may be before its confirmation.
    fn note_logged(&mut self, prompt: &str, connection: &ServerConnection) {
        self.logged.retain(|known| connection.unconfirmed.contains(known));
        let count = |prompts: &[String]| prompts.iter().filter(|known| *known == prompt).count();
        if count(&connection.unconfirmed) > count(&self.logged) {
            self.logged.push(prompt.to_owned());
        }
    }

    /// Returns the line about prompts that are not confirmed or not delivered, if the connection has been lost or
    /// regained since the last call.
    fn change(&mut self, connection: &ServerConnection) -> Option<String> {
        if std::mem::replace(&mut self.is_lost, connection.is_lost) == connection.is_lost {
            return None;
        }
        let mut logged = self.logged.clone();
        let mut sent: Vec<&str> = connection.unconfirmed.iter().map(String::as_str).collect();
        sent.retain(|prompt| match logged.iter().position(|known| known == prompt) {
            Some(at) => {
                logged.remove(at);
                false
            }
            None => true,
        });
        let sent_words =
            if self.is_lost { "sent, not confirmed yet" } else { "sent again, not confirmed yet" };
        let sent = words::named_prompts(sent_words, sent.into_iter());
        let again = "; sent again once the server is back, never twice";
        let sent = sent.map(|line| if self.is_lost { format!("{line}{again}") } else { line });
        let waiting =
            words::named_prompts("not delivered yet", connection.undelivered.iter().map(String::as_str));
        let parts: Vec<String> = sent.into_iter().chain(waiting).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

impl Repl {
    /// Records that the log has a prompt, unless somebody else sent it.
    pub(super) fn note_logged_prompt(&mut self, event: &Event) {
        if let Some(prompt) = own_prompt(event, self.session.viewer()) {
            self.server_link.unlogged.take_if(|sent| sent == prompt);
            self.server_link.note_logged(prompt, &self.session.connection());
        }
    }

    /// Tells of prompts that the server may not have, if the notice is about its connection.
    pub(super) fn tell_server_change(&mut self, update: &Update) -> io::Result<()> {
        if !matches!(update, Update::Delta(Delta::Notice { .. })) {
            return Ok(());
        }
        let connection = self.session.connection();
        if connection.is_lost {
            // The server answers nothing until it is back, and until then only prompts are accepted.
            self.expected = None;
        }
        match self.server_link.change(&connection) {
            Some(line) => self.note(&line),
            None => Ok(()),
        }
    }
}

/// Returns the prompt of an event, unless it is known that somebody else sent it. `viewer` is the name that a server
/// gives the user of this front end, if known.
fn own_prompt<'a>(event: &'a Event, viewer: Option<&str>) -> Option<&'a str> {
    let (Event::TurnStarted { prompt, by, .. } | Event::PromptQueued { text: prompt, by, .. }) = event else {
        return None;
    };
    let is_foreign = by.as_deref().zip(viewer).is_some_and(|(by, viewer)| by != viewer);
    (!is_foreign).then_some(prompt)
}

#[cfg(test)]
mod tests {
    use sysop_core::event::Origin;
    use sysop_core::id::TurnId;

    use super::*;

    fn connection(is_lost: bool, undelivered: &[&str], unconfirmed: &[&str]) -> ServerConnection {
        let prompts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        ServerConnection { is_lost, undelivered: prompts(undelivered), unconfirmed: prompts(unconfirmed) }
    }

    #[test]
    fn prompts_that_a_server_has_not_confirmed_are_named_when_the_connection_changes() {
        let mut link = ServerLink::default();
        assert_eq!(link.change(&connection(false, &[], &["one"])), None, "it is not lost");
        let lost = link.change(&connection(true, &["three"], &["one", "two"])).unwrap();
        assert_eq!(
            lost,
            "sent, not confirmed yet: one (and 1 more); sent again once the server is back, never twice; \
             not delivered yet: three"
        );
        assert_eq!(link.change(&connection(true, &["three"], &["one", "two"])), None, "it was told");
        let back = link.change(&connection(false, &[], &["one"])).unwrap();
        assert_eq!(back, "sent again, not confirmed yet: one");
        assert_eq!(link.change(&connection(true, &[], &[])), None, "nothing is open");
    }

    #[test]
    fn a_prompt_in_the_log_is_not_called_unconfirmed() {
        let mut link = ServerLink::default();
        link.note_logged("go", &connection(false, &[], &["go", "go"]));
        link.note_logged("other", &connection(false, &[], &["go", "go"]));
        let lost = link.change(&connection(true, &[], &["go", "go"])).unwrap();
        assert!(lost.starts_with("sent, not confirmed yet: go;"), "{lost}");
        link.note_logged("go", &connection(true, &[], &["go", "go"]));
        assert_eq!(link.change(&connection(false, &[], &["go", "go"])), None, "both are in the log");
    }

    #[test]
    fn an_equal_prompt_of_another_participant_is_not_the_viewers_own() {
        let own = |by: Option<&str>, viewer: Option<&str>| {
            let (prompt, by) = ("go".to_owned(), by.map(str::to_owned));
            let (turn, origin, images) = (TurnId(1), Origin::Model, Vec::new());
            let queued = Event::PromptQueued { text: prompt.clone(), images: Vec::new(), by: by.clone() };
            let started = Event::TurnStarted { turn, prompt, origin, images, by };
            let found = own_prompt(&started, viewer).map(str::to_owned);
            assert_eq!(own_prompt(&queued, viewer), found.as_deref());
            found.is_some()
        };
        assert!(!own(Some("bob"), Some("ann")));
        assert!(own(Some("ann"), Some("ann")));
        assert!(own(None, None) && own(None, Some("ann")), "no server names the sender");
        assert!(own(Some("ann"), None), "the name of the viewer is not known");
    }
}
