//! Messages on their way to the server. Each message takes effect at most once.
//!
//! A message that was written but not confirmed may have arrived. It is sent again only to the same server process,
//! which recognizes the message by its id and handles it once. Another process may already have the message in its log
//! but does not know its id, so the message is not sent to that process.
//!
//! If the connection is lost, only prompts wait for the next one. Everything else is dropped: what the user allowed or
//! stopped must not take effect much later.
//!
//! The first setting of a new session is an exception. It can be repeated without harm, so each process gets it until
//! the session has the approval mode, as its log says. Nothing that starts a turn is sent before that. A server that
//! has read the setting may still refuse it, or end before it takes effect. A mode that the user chooses meanwhile
//! takes its place unless it is wider, so that no later connection undoes the choice.
//!
//! A prompt ends a paused turn. A prompt from before the user could see the pause waits until the turn goes on or ends,
//! or until the user sends another one.

use std::collections::VecDeque;

use serde_json::Value;
use sysop_core::policy::ApprovalMode;
use sysop_wire::{ClientMessage, ErrorCode, to_json_line};

use crate::client_tools::LocalPermission;

pub(crate) const PENDING_MAX: usize = 256;
/// Maximum number of confirmed messages to remember.
const CONFIRMED_MAX: usize = 32;

/// A prompt that the server has not confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndeliveredPrompt {
    pub text: String,
    /// True if the prompt was written to a connection, so that the server may have it.
    pub may_have_arrived: bool,
}

/// Messages that the server has yet to confirm.
#[derive(Default)]
pub(crate) struct Outbox {
    pending: VecDeque<PendingMessage>,
    /// Prompts, permissions and approval modes that this connection has confirmed. A refusal may arrive after the
    /// confirmation.
    confirmed: VecDeque<PendingMessage>,
    pings: u64,
    /// Server process to which the written messages were sent.
    instance: Option<String>,
    /// True while there is no connection, although there was an attempt.
    is_lost: bool,
    /// True once this client closes the session, so that nobody sees notices about refused prompts anymore.
    is_closing: bool,
    /// The session's approval mode, as far as this connection knows.
    mode: Option<ApprovalMode>,
    /// True if the session's turn is paused, as far as is known.
    is_paused: bool,
    /// True once this connection has delivered the log as it was at its beginning.
    is_caught_up: bool,
}

struct PendingMessage {
    id: String,
    line: String,
    /// Text of the prompt, if the message is one.
    prompt: Option<String>,
    /// Approval mode, if the message sets one.
    mode: Option<ApprovalMode>,
    role: Role,
    /// Permission for lent tools that came with the message.
    permission: Option<LocalPermission>,
    /// Description for the user if the message is lost.
    what: &'static str,
    delivery: Delivery,
    /// True for a prompt that must not end a paused turn, because the user could not see the pause.
    yields_to_pause: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A prompt. It waits for the next connection if this one is lost, as its withdrawal does.
    Prompt,
    Withdrawal,
    /// The approval mode that a new session needs before its first turn.
    FirstMode,
    /// An approval mode that the user chose later.
    Mode,
    /// Another message that starts a turn, such as a retry.
    Turn,
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Delivery {
    Waiting,
    /// Written before the ping with this number.
    Written(u64),
    /// Read by the server, but the session does not have the first mode yet.
    Received,
    /// Refused, and waiting for the next connection. Of a session that is being closed, a prompt that is to be listed.
    Refused,
}

/// Consequences of a lost connection for the pending messages.
#[derive(Default)]
pub(crate) struct OutboxLoss {
    /// Clauses for the user, such as "your command was not sent".
    pub(crate) clauses: Vec<String>,
    /// Permissions that came with the dropped messages, oldest first.
    pub(crate) permissions: Vec<LocalPermission>,
}

/// Consequence of the server's refusal of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The message is a prompt that waits for the next connection.
    PromptWaits,
    /// The message is the first setting of the session, refused by a server that is shutting down.
    SettingWaits,
    /// The message is the first setting of the session, refused for another reason. Prompts wait.
    PromptsNeedMode,
    /// The message is dropped.
    Dropped,
}

impl Outbox {
    /// Adds a message and gives it a unique id.
    pub(crate) fn push(&mut self, message: &ClientMessage, permission: Option<LocalPermission>) {
        if !self.replaces_first_mode(message) {
            return self.add(message, permission, role(message));
        }
        self.release_first_mode();
        // Earlier modes do not end the wait for this one.
        self.pending.iter_mut().chain(&mut self.confirmed).for_each(|earlier| earlier.mode = None);
        self.add(message, permission, Role::FirstMode);
    }

    /// Adds the approval mode that a new session needs before its first turn. As opposed to other settings, it waits
    /// for the next connection if this one is lost.
    pub(crate) fn push_first_mode(&mut self, message: &ClientMessage) {
        self.add(message, None, Role::FirstMode);
    }

    fn add(&mut self, message: &ClientMessage, permission: Option<LocalPermission>, role: Role) {
        let mut value = serde_json::to_value(message).expect("messages are plain structs with text keys");
        let id = uuid::Uuid::new_v4().to_string();
        if let Value::Object(fields) = &mut value {
            fields.insert("messageId".to_owned(), id.clone().into());
        }
        let (prompt, mode, what) = (prompt(message), mode(message), what(message));
        let (line, delivery) = (to_json_line(&value), Delivery::Waiting);
        let sees_pause = self.is_paused && (self.is_caught_up || self.is_lost);
        let yields_to_pause = role == Role::Prompt && !sees_pause;
        if role == Role::Prompt && sees_pause {
            // Earlier prompts go first.
            self.pending.iter_mut().for_each(|earlier| earlier.yields_to_pause = false);
        }
        self.pending.push_back(PendingMessage {
            id,
            line,
            prompt,
            mode,
            role,
            permission,
            what,
            delivery,
            yields_to_pause,
        });
    }

    /// Returns the prompts that have not been written, in order.
    pub(crate) fn undelivered(&self) -> Vec<String> {
        let waiting = self.pending.iter().filter(|pending| !pending.is_written());
        waiting.filter_map(|pending| pending.prompt.clone()).collect()
    }

    /// Returns all prompts that have not been confirmed, in order.
    pub(crate) fn unconfirmed(&self) -> Vec<UndeliveredPrompt> {
        let prompt = |pending: &PendingMessage| {
            let text = pending.prompt.clone()?;
            Some(UndeliveredPrompt { text, may_have_arrived: pending.is_written() })
        };
        self.pending.iter().filter_map(prompt).collect()
    }

    /// Removes the newest prompt with this text that has not been written. Returns false if there is none.
    pub(crate) fn take_back(&mut self, prompt: &str) -> bool {
        let is_prompt =
            |pending: &PendingMessage| !pending.is_written() && pending.prompt.as_deref() == Some(prompt);
        let Some(at) = self.pending.iter().rposition(is_prompt) else { return false };
        self.pending.remove(at);
        true
    }

    /// Records that there is no connection, and drops the messages that must not take effect later.
    pub(crate) fn disconnected(&mut self) -> OutboxLoss {
        (self.is_lost, self.is_caught_up) = (true, false);
        let mut loss = OutboxLoss::default();
        for mut pending in std::mem::take(&mut self.pending) {
            let clause = match pending.delivery {
                Delivery::Written(_) | Delivery::Received => Some("may not have arrived"),
                Delivery::Waiting | Delivery::Refused => (!pending.waits()).then_some("was not sent"),
            };
            let clause = clause.filter(|_| pending.role != Role::FirstMode);
            let clause = clause.map(|clause| format!("{} {clause}", pending.what));
            loss.clauses.extend(clause.filter(|clause| !loss.clauses.contains(clause)));
            if pending.delivery == Delivery::Refused {
                pending.delivery = Delivery::Waiting;
            }
            if pending.waits() {
                self.pending.push_back(pending);
            } else {
                loss.permissions.extend(pending.permission);
            }
        }
        loss
    }

    /// Returns true while there is no connection, although there was an attempt.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Records that this client closes the session. From now on, refused prompts are kept, whatever the reason.
    pub(crate) fn begin_close(&mut self) {
        self.is_closing = true;
    }

    /// Returns true while prompts wait although there is a connection: for the first mode of the session, which the
    /// server has read or refused, or for the end of a pause.
    pub(crate) fn makes_prompts_wait(&self) -> bool {
        self.pending.iter().any(PendingMessage::is_missing_mode) || self.waits_for_pause()
    }

    /// Returns true while a prompt waits for the end of a pause.
    fn waits_for_pause(&self) -> bool {
        self.is_paused && self.is_caught_up && self.pending.iter().any(|pending| pending.yields_to_pause)
    }

    /// Records whether the session's turn is paused.
    pub(crate) fn note_pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    /// Records that the connection is about to repeat the log, whose older events say nothing about the present.
    pub(crate) fn note_replay(&mut self) {
        self.is_caught_up = false;
    }

    /// Records that the connection has delivered the log as it was at its beginning. Returns true if that shows a pause
    /// for whose end prompts wait.
    pub(crate) fn note_caught_up(&mut self) -> bool {
        !std::mem::replace(&mut self.is_caught_up, true) && self.waits_for_pause()
    }

    /// Records the session's approval mode.
    pub(crate) fn note_mode(&mut self, mode: ApprovalMode) {
        self.mode = Some(mode);
        self.settle_mode();
    }

    /// Ends the wait for the first mode if the session has it, or another one that the user chose.
    fn settle_mode(&mut self) {
        let is_current = |message: &PendingMessage| {
            let has_arrived = !matches!(message.delivery, Delivery::Waiting | Delivery::Refused);
            message.mode.is_some() && message.mode == self.mode && has_arrived
        };
        if self.pending.iter().chain(&self.confirmed).any(is_current) {
            self.release_first_mode();
        }
    }

    /// Ends the wait for the first mode. Its refusal may still arrive.
    fn release_first_mode(&mut self) {
        let first = take(&mut self.pending, |pending| pending.role == Role::FirstMode);
        self.confirmed.extend(first.map(|first| PendingMessage { role: Role::Mode, ..first }));
    }

    /// Returns true if the message sets a mode that is not wider than the first mode, which is pending.
    fn replaces_first_mode(&self, message: &ClientMessage) -> bool {
        let first = self.pending.iter().find(|pending| pending.role == Role::FirstMode);
        let modes = mode(message).zip(first.and_then(|first| first.mode));
        modes.is_some_and(|(mode, first)| mode.tightened(first) == mode)
    }

    /// Returns true if the message would wait for the first mode of the session and is no prompt. Front ends show
    /// waiting prompts only.
    pub(crate) fn must_wait_unseen(&self, message: &ClientMessage) -> bool {
        self.lacks_first_mode() && role(message) == Role::Turn
    }

    fn lacks_first_mode(&self) -> bool {
        self.pending.iter().any(|pending| pending.role == Role::FirstMode)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.pending.len() >= PENDING_MAX
    }

    /// Returns true while a written message is not confirmed.
    pub(crate) fn awaits_confirmation(&self) -> bool {
        self.pending.iter().any(|pending| pending.is_written() || pending.delivery == Delivery::Received)
    }

    /// Returns true while a prompt waits because the connection has yet to deliver the log.
    pub(crate) fn awaits_log(&self) -> bool {
        let waits =
            |pending: &PendingMessage| pending.yields_to_pause && pending.delivery == Delivery::Waiting;
        !self.is_caught_up && self.pending.iter().any(waits)
    }

    /// Records that there is a connection to the server process `instance`. Drops the messages that may have arrived at
    /// another process and returns their descriptions.
    pub(crate) fn connected(&mut self, instance: Option<&str>) -> Vec<&'static str> {
        (self.is_lost, self.is_caught_up, self.mode) = (false, false, None);
        self.confirmed.clear();
        let same = instance.is_some() && self.instance.as_deref() == instance;
        self.instance = instance.map(str::to_owned);
        for pending in &mut self.pending {
            if same || pending.role == Role::FirstMode {
                pending.yields_to_pause &= !pending.is_written(); // it may have arrived
                pending.delivery = Delivery::Waiting;
            }
        }
        let lost = self.pending.iter().filter(|pending| pending.is_written()).map(|lost| lost.what).collect();
        self.pending.retain(|pending| !pending.is_written());
        lost
    }

    /// Returns the next message to write and the number of the ping to send after it. The message counts as written
    /// from now on. What starts a turn is not written before the session has its first mode, and a prompt that must not
    /// end a paused turn not before it is known that none is paused.
    pub(crate) fn next(&mut self) -> Option<(String, u64)> {
        let lacks_mode = self.lacks_first_mode();
        let may_be_paused = self.is_paused || !self.is_caught_up;
        let is_ready = |pending: &&mut PendingMessage| {
            pending.delivery == Delivery::Waiting
                && !(lacks_mode && pending.starts_turn())
                && !(may_be_paused && pending.yields_to_pause)
        };
        let next = self.pending.iter_mut().find(is_ready)?;
        self.pings += 1;
        next.delivery = Delivery::Written(self.pings);
        Some((next.line.clone(), self.pings))
    }

    /// Confirms every message written before this ping, except the first mode: the session must have it.
    pub(crate) fn confirmed(&mut self, ping: u64) {
        let lacks_mode = self.lacks_first_mode();
        for mut pending in std::mem::take(&mut self.pending) {
            let is_confirmed = matches!(pending.delivery, Delivery::Written(written) if written <= ping);
            if is_confirmed && pending.role == Role::FirstMode {
                pending.delivery = Delivery::Received;
                self.pending.push_back(pending);
            } else if !is_confirmed {
                self.pending.push_back(pending);
            } else if pending.prompt.is_some()
                || pending.permission.is_some()
                || lacks_mode && pending.role == Role::Mode
            {
                self.confirmed.push_back(pending);
            }
        }
        let surplus = self.confirmed.len().saturating_sub(CONFIRMED_MAX);
        self.confirmed.drain(..surplus);
        self.settle_mode();
    }

    /// Records that the server refused the message with this id, and returns the permission that came with a message
    /// that is dropped or is the first setting. A prompt that a server refuses because it is shutting down is sent
    /// after the next connection is established, as a refused first setting is.
    pub(crate) fn refused(&mut self, id: &str, code: ErrorCode) -> (Refusal, Option<LocalPermission>) {
        let is_it = |message: &PendingMessage| message.id == id;
        let (pending, confirmed) = (take(&mut self.pending, is_it), take(&mut self.confirmed, is_it));
        let Some(mut refused) = pending.or(confirmed) else { return (Refusal::Dropped, None) };
        let is_draining = code == ErrorCode::Draining;
        let refusal = match refused.role {
            Role::Prompt if is_draining || self.is_closing => Refusal::PromptWaits,
            Role::FirstMode if is_draining => Refusal::SettingWaits,
            Role::FirstMode => Refusal::PromptsNeedMode,
            Role::Prompt | Role::Withdrawal | Role::Mode | Role::Turn | Role::Other => {
                return (Refusal::Dropped, refused.permission);
            }
        };
        let permission = refused.permission.take_if(|_| refusal == Refusal::PromptsNeedMode);
        // Before the prompts that have not been refused yet.
        let at = self.pending.iter().position(|pending| pending.delivery != Delivery::Refused);
        let at = at.unwrap_or(self.pending.len());
        self.pending.insert(at, PendingMessage { delivery: Delivery::Refused, ..refused });
        (refusal, permission)
    }
}

impl PendingMessage {
    fn is_written(&self) -> bool {
        matches!(self.delivery, Delivery::Written(_))
    }

    /// Returns true if the message waits for the next connection when this one is lost.
    fn waits(&self) -> bool {
        matches!(self.role, Role::Prompt | Role::Withdrawal | Role::FirstMode)
    }

    fn starts_turn(&self) -> bool {
        matches!(self.role, Role::Prompt | Role::Turn)
    }

    /// Returns true if the message is a first mode that the server has read or refused, and that the session lacks.
    fn is_missing_mode(&self) -> bool {
        self.role == Role::FirstMode && matches!(self.delivery, Delivery::Received | Delivery::Refused)
    }
}

/// Removes the first message of the queue that `is_it` accepts, and returns it.
fn take(
    messages: &mut VecDeque<PendingMessage>,
    is_it: impl Fn(&PendingMessage) -> bool,
) -> Option<PendingMessage> {
    messages.iter().position(is_it).and_then(|at| messages.remove(at))
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the outbox treats all other messages alike")]
fn role(message: &ClientMessage) -> Role {
    match message {
        ClientMessage::UserMessage { .. } => Role::Prompt,
        ClientMessage::WithdrawPrompt { .. } => Role::Withdrawal,
        ClientMessage::Configure { approve: Some(_), .. } => Role::Mode,
        _ if message.starts_turn() => Role::Turn,
        _ => Role::Other,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "all other messages set no approval mode")]
fn mode(message: &ClientMessage) -> Option<ApprovalMode> {
    match message {
        ClientMessage::Configure { approve, .. } => *approve,
        _ => None,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "all other messages are no prompts")]
fn prompt(message: &ClientMessage) -> Option<String> {
    match message {
        ClientMessage::UserMessage { content, .. } => Some(content.clone()),
        _ => None,
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
        ClientMessage::Configure { approve: Some(_), .. } => "your change of the approval mode",
        ClientMessage::Configure { model: Some(_), .. } => "your change of the model",
        ClientMessage::Configure { mode: Some(_), .. } => "your change of the mode",
        ClientMessage::Configure { effort: Some(_), .. } => "your change of the reasoning effort",
        ClientMessage::Configure { .. } => "your change of a setting",
        ClientMessage::QuestionAnswer { .. } => "your answer",
        _ => "a message",
    }
}

#[cfg(test)]
mod tests;
