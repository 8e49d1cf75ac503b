//! Connection to the server of the session. While it is lost, a prompt waits, and everything else is refused: what the
//! user allows now must not run later.

use std::time::Duration;

use sysop_core::event::Input;
use sysop_core::question::QuestionId;
use sysop_core::transcript::SessionPhase;
use sysop_driver::frontend::{SERVER_AWAY, ServerConnection};
use sysop_term::command::{InputLine, PermissionsCommand};

use super::{Action, App, EXPECT};

/// Text of the status line while the connection is lost.
pub(super) const OFFLINE: &str = "offline · reconnecting";

#[derive(Default)]
pub(super) struct ServerLink {
    connection: ServerConnection,
    /// Prompts that were written while the connection was lost, until the log has them.
    written_offline: Vec<String>,
    /// Prompts that were sent and are not confirmed, in order.
    unconfirmed: Vec<UnconfirmedPrompt>,
}

struct UnconfirmedPrompt {
    text: String,
    /// Time from which the confirmation is late.
    late_from: Duration,
    /// True once the log has the prompt, which may be before the confirmation.
    is_logged: bool,
}

impl ServerLink {
    /// Records that the log has a prompt. Returns true if the prompt was written while the connection was lost.
    pub(super) fn delivered(&mut self, prompt: &str) -> bool {
        let is_it = |sent: &&mut UnconfirmedPrompt| !sent.is_logged && sent.text == prompt;
        if let Some(sent) = self.unconfirmed.iter_mut().find(is_it) {
            sent.is_logged = true;
        }
        let at = self.written_offline.iter().position(|text| text == prompt);
        at.map(|at| self.written_offline.remove(at)).is_some()
    }

    fn set_unconfirmed(&mut self, prompts: &[String], now: Duration) {
        let mut known = std::mem::take(&mut self.unconfirmed);
        let sent = prompts.iter().map(|text| match known.iter().position(|sent| sent.text == *text) {
            Some(at) => known.remove(at),
            None => UnconfirmedPrompt { text: text.clone(), late_from: now + EXPECT, is_logged: false },
        });
        self.unconfirmed = sent.collect();
    }

    /// Returns the time at which the next confirmation is late, or `None` if none becomes late after `now`.
    pub(super) fn next_late(&self, now: Duration) -> Option<Duration> {
        let late = self.unconfirmed.iter().filter(|sent| !sent.is_logged).map(|sent| sent.late_from);
        late.filter(|late| *late > now).min()
    }
}

impl App {
    /// Sets the state of the connection to the session's server. Returns true if it has changed.
    pub fn set_connection(&mut self, connection: ServerConnection, now: Duration) -> bool {
        if self.server_link.connection == connection {
            return false;
        }
        if connection.is_lost {
            // What was sent last may not have arrived.
            self.pending_ack = None;
            self.sent = Default::default();
            self.pausing = false;
            self.move_draft();
        }
        self.server_link.set_unconfirmed(&connection.unconfirmed, now);
        self.server_link.connection = connection;
        self.sync_questions(now);
        true
    }

    /// Returns true while the connection to the session's server is lost.
    pub fn is_offline(&self) -> bool {
        self.server_link.connection.is_lost
    }

    /// Returns the prompts that wait for the connection, in order.
    pub fn undelivered(&self) -> &[String] {
        &self.server_link.connection.undelivered
    }

    /// Returns the prompts that were sent and are not confirmed, in order, if the confirmation is late or the
    /// connection is lost.
    pub fn unconfirmed(&self, now: Duration) -> impl Iterator<Item = &str> {
        let is_shown =
            move |sent: &&UnconfirmedPrompt| !sent.is_logged && (self.is_offline() || sent.late_from <= now);
        self.server_link.unconfirmed.iter().filter(is_shown).map(|sent| sent.text.as_str())
    }

    /// Puts prompts that waited for the connection, and no longer wait, into the composer.
    pub fn taken_back(&mut self, prompts: Vec<String>) {
        for prompt in &prompts {
            self.server_link.delivered(prompt);
            self.sent.forget(prompt);
            if let Some(at) = self.own_queued.iter().rposition(|queued| queued == prompt) {
                self.own_queued.remove(at);
            }
        }
        if !prompts.is_empty() {
            self.return_to_composer(prompts);
        }
    }

    /// Says why an input was not sent. A prompt returns to the composer.
    pub fn not_sent(&mut self, prompt: Option<String>, why: String, now: Duration) {
        self.failed(why, now);
        self.taken_back(prompt.into_iter().collect());
    }

    /// Says that something is not sent, if the connection is lost.
    pub(super) fn refuses_offline(&mut self, now: Duration) -> bool {
        let is_offline = self.is_offline();
        if is_offline {
            self.show_flash(SERVER_AWAY, now);
        }
        is_offline
    }

    /// Returns true if the answer to this question goes to a server that is away. This machine's own questions need
    /// none.
    pub(super) fn lacks_recipient(&self, question: QuestionId) -> bool {
        self.is_offline() && !question.is_of_client()
    }

    /// Sends a prompt that waits for the connection.
    pub(super) fn prompt_offline(&mut self, text: String) -> Vec<Action> {
        self.server_link.written_offline.push(text.clone());
        vec![Action::Send(Input::prompt(text))]
    }

    /// Says why the line stays in the box, if the connection is lost and the line is more than a prompt.
    pub(super) fn offline_refusal(&self, line: &InputLine) -> Option<String> {
        let sends = match line {
            InputLine::Prompt(_) => self.review.is_some(),
            InputLine::Resume(None) => matches!(self.transcript.phase(), SessionPhase::Paused { .. }),
            InputLine::Permissions(command) => *command != PermissionsCommand::List,
            InputLine::Model(name) => name.is_some(),
            InputLine::Approve(mode) => mode.is_some(),
            InputLine::Mode(mode) => mode.is_some(),
            InputLine::Shell(_)
            | InputLine::Undo(_)
            | InputLine::Keys(_)
            | InputLine::Run { .. }
            | InputLine::Clear
            | InputLine::Compact(_)
            | InputLine::Effort(_)
            | InputLine::Auto(_)
            | InputLine::Jobs(_)
            | InputLine::Background
            | InputLine::Pause
            | InputLine::Stop
            | InputLine::Retry
            | InputLine::Plan => true,
            InputLine::Empty
            | InputLine::Output(_)
            | InputLine::Help
            | InputLine::Exit
            | InputLine::Cost
            | InputLine::Status
            | InputLine::Sessions(_)
            | InputLine::Fork(_)
            | InputLine::Export(_)
            | InputLine::Theme(_)
            | InputLine::Trust
            | InputLine::New
            | InputLine::Resume(Some(_))
            | InputLine::Host(_)
            | InputLine::Routines
            | InputLine::Mcp
            | InputLine::OpenShell
            | InputLine::Wrong(_) => false,
        };
        (self.is_offline() && sends).then(|| SERVER_AWAY.to_owned())
    }
}
