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
//! one has confirmed it. Nothing that starts a turn is sent before that.

use std::collections::VecDeque;

use serde_json::Value;
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
    /// Prompts, permissions and first settings that this connection has confirmed. A refusal may arrive after the
    /// confirmation.
    confirmed: VecDeque<PendingMessage>,
    pings: u64,
    /// Server process to which the written messages were sent.
    instance: Option<String>,
    /// True while there is no connection, although there was an attempt.
    is_lost: bool,
    /// True once this client closes the session, so that nobody sees notices about refused prompts anymore.
    is_closing: bool,
}

struct PendingMessage {
    id: String,
    line: String,
    /// Text of the prompt, if the message is one.
    prompt: Option<String>,
    role: Role,
    /// Permission for lent tools that came with the message.
    permission: Option<LocalPermission>,
    /// Description for the user if the message is lost.
    what: &'static str,
    delivery: Delivery,
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
        self.add(message, permission, role(message));
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
        let (prompt, what) = (prompt(message), what(message));
        let (line, delivery) = (to_json_line(&value), Delivery::Waiting);
        self.pending.push_back(PendingMessage { id, line, prompt, role, permission, what, delivery });
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
        self.is_lost = true;
        let mut loss = OutboxLoss::default();
        for mut pending in std::mem::take(&mut self.pending) {
            let clause = match pending.delivery {
                Delivery::Written(_) => Some("may not have arrived"),
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

    /// Returns true while prompts wait because the server refused the first setting of the session.
    pub(crate) fn needs_mode(&self) -> bool {
        self.pending.iter().any(PendingMessage::is_refused_mode)
    }

    /// Returns true if the message would wait for the first mode of the session and is no prompt. Front ends show waiting
    /// prompts only.
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
        self.pending.iter().any(PendingMessage::is_written)
    }

    /// Records that there is a connection to the server process `instance`. Drops the messages that may have arrived at
    /// another process and returns their descriptions.
    pub(crate) fn connected(&mut self, instance: Option<&str>) -> Vec<&'static str> {
        self.is_lost = false;
        self.confirmed.clear();
        let same = instance.is_some() && self.instance.as_deref() == instance;
        self.instance = instance.map(str::to_owned);
        for pending in &mut self.pending {
            if same || pending.role == Role::FirstMode {
                pending.delivery = Delivery::Waiting;
            }
        }
        let lost = self.pending.iter().filter(|pending| pending.is_written()).map(|lost| lost.what).collect();
        self.pending.retain(|pending| !pending.is_written());
        lost
    }

    /// Returns the next message to write and the number of the ping to send after it. The message counts as written
    /// from now on. What starts a turn is not written before the first setting is confirmed.
    pub(crate) fn next(&mut self) -> Option<(String, u64)> {
        let lacks_mode = self.lacks_first_mode();
        let is_ready = |pending: &&mut PendingMessage| {
            pending.delivery == Delivery::Waiting && !(lacks_mode && pending.starts_turn())
        };
        let next = self.pending.iter_mut().find(is_ready)?;
        self.pings += 1;
        next.delivery = Delivery::Written(self.pings);
        Some((next.line.clone(), self.pings))
    }

    /// Confirms every message written before this ping. A mode that the user chose replaces a refused first setting,
    /// unless it is refused itself.
    pub(crate) fn confirmed(&mut self, ping: u64) {
        let mut replaces_first_mode = false;
        for pending in std::mem::take(&mut self.pending) {
            let is_confirmed = matches!(pending.delivery, Delivery::Written(written) if written <= ping);
            if !is_confirmed {
                self.pending.push_back(pending);
            } else {
                replaces_first_mode |= pending.role == Role::Mode;
                let has_consequence = pending.prompt.is_some() || pending.permission.is_some();
                if has_consequence || pending.role == Role::FirstMode {
                    self.confirmed.push_back(pending);
                }
            }
        }
        if replaces_first_mode {
            self.confirmed.retain(|confirmed| !confirmed.is_refused_mode());
            self.confirmed.extend(take(&mut self.pending, PendingMessage::is_refused_mode));
        }
        let surplus = self.confirmed.len().saturating_sub(CONFIRMED_MAX);
        self.confirmed.drain(..surplus);
    }

    /// Records that the server refused the message with this id, and returns the permission that came with a message
    /// that is dropped. A prompt that a server refuses because it is shutting down is sent after the next connection is
    /// established, as a refused first setting is.
    pub(crate) fn refused(&mut self, id: &str, code: ErrorCode) -> (Refusal, Option<LocalPermission>) {
        let is_it = |message: &PendingMessage| message.id == id;
        let (pending, confirmed) = (take(&mut self.pending, is_it), take(&mut self.confirmed, is_it));
        if confirmed.as_ref().is_some_and(|confirmed| confirmed.role == Role::Mode)
            && let Some(replaced) = take(&mut self.confirmed, PendingMessage::is_refused_mode)
        {
            self.pending.push_front(replaced);
        }
        let Some(refused) = pending.or(confirmed) else { return (Refusal::Dropped, None) };
        let is_draining = code == ErrorCode::Draining;
        let refusal = match refused.role {
            Role::Prompt if is_draining || self.is_closing => Refusal::PromptWaits,
            Role::FirstMode if is_draining => Refusal::SettingWaits,
            Role::FirstMode => Refusal::PromptsNeedMode,
            Role::Prompt | Role::Withdrawal | Role::Mode | Role::Turn | Role::Other => {
                return (Refusal::Dropped, refused.permission);
            }
        };
        // Before the prompts that have not been refused yet.
        let at = self.pending.iter().position(|pending| pending.delivery != Delivery::Refused);
        let at = at.unwrap_or(self.pending.len());
        self.pending.insert(at, PendingMessage { delivery: Delivery::Refused, ..refused });
        (refusal, None)
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

    /// Returns true if the message is a first setting that the server refused.
    fn is_refused_mode(&self) -> bool {
        self.role == Role::FirstMode && self.delivery == Delivery::Refused
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
mod tests {
    use sysop_core::event::{ConfigChange, Input, Origin};
    use sysop_core::message::ModelRef;
    use sysop_core::policy::ApprovalMode;
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
        outbox.push(&say("one"), None);
        outbox.push(&say("two"), None);
        let first = written(&mut outbox);
        outbox.confirmed(1);
        assert!(outbox.connected(Some("a")).is_empty());
        assert_eq!(written(&mut outbox), first[1..]);
        outbox.confirmed(3);
        assert!(outbox.pending.is_empty());
    }

    fn message(input: &Input) -> ClientMessage {
        ClientMessage::from_input(input).unwrap()
    }

    #[test]
    fn a_lost_connection_drops_everything_but_prompts() {
        let mut outbox = Outbox::default();
        outbox.connected(Some("a"));
        let direct = Input::Direct {
            tool: "bash".to_owned(),
            arguments: serde_json::Map::new(),
            origin: Origin::User,
            by: None,
        };
        outbox.push(&message(&direct), None);
        outbox.next();
        outbox.push(&say("first"), None);
        outbox.next();
        let mode = |mode| Input::Configure { change: ConfigChange::Approve(mode) };
        let model = ConfigChange::Model(ModelRef::new("demo", "one"));
        let changes = [model, ConfigChange::Revoke(Vec::new())].map(|change| Input::Configure { change });
        let others = [Input::Cancel, Input::Pause, Input::Clear, Input::Background];
        for input in [mode(ApprovalMode::Auto)].into_iter().chain(changes).chain(others) {
            outbox.push(&message(&input), None);
        }
        outbox.push_first_mode(&message(&mode(ApprovalMode::Never)));
        outbox.push(&say("later"), None);
        assert!(!outbox.is_lost());
        assert_eq!(
            outbox.disconnected().clauses,
            [
                "your command may not have arrived",
                "your last message may not have arrived",
                "your change of the approval mode was not sent",
                "your change of the model was not sent",
                "your change of a setting was not sent",
                "your stop request was not sent",
                "your pause request was not sent",
                "your request to clear the history was not sent",
                "your request to move the command to the background was not sent",
            ]
        );
        assert!(outbox.is_lost());
        let unconfirmed: Vec<_> =
            outbox.unconfirmed().into_iter().map(|prompt| (prompt.text, prompt.may_have_arrived)).collect();
        assert_eq!(unconfirmed, [("first".to_owned(), true), ("later".to_owned(), false)]);
        assert!(outbox.disconnected().clauses.iter().all(|clause| clause.starts_with("your last message")));
        outbox.connected(Some("a"));
        assert!(!outbox.is_lost());
        let kinds: Vec<_> = outbox.pending.iter().map(|pending| pending.what).collect();
        assert_eq!(kinds, ["your last message", "your change of the approval mode", "your last message"]);
    }

    #[test]
    fn a_prompt_that_a_server_refuses_at_its_end_waits_for_the_next_one() {
        let mut outbox = Outbox::default();
        outbox.connected(Some("a"));
        for text in ["one", "two", "three"] {
            outbox.push(&say(text), None);
        }
        let sent = written(&mut outbox);
        outbox.confirmed(1);
        for (text, id) in &sent[..2] {
            // The first one is confirmed, the second one is not.
            assert_eq!(outbox.refused(id, ErrorCode::Draining).0, Refusal::PromptWaits, "{text}");
        }
        assert_eq!(outbox.refused("unknown", ErrorCode::Draining).0, Refusal::Dropped);
        outbox.confirmed(3);
        assert!(outbox.next().is_none(), "not to the same connection");
        assert!(outbox.disconnected().clauses.is_empty());
        assert_eq!(outbox.undelivered(), ["one", "two"]);
        outbox.connected(Some("b"));
        assert_eq!(written(&mut outbox), sent[..2]);
        assert_eq!(outbox.refused(&sent[0].1, ErrorCode::TooMany).0, Refusal::Dropped);
        assert_eq!(outbox.unconfirmed().len(), 1);
    }

    fn approve(mode: ApprovalMode) -> ClientMessage {
        message(&Input::Configure { change: ConfigChange::Approve(mode) })
    }

    /// Writes the next message. Returns its approval mode or its text, its id, and the number of its ping.
    fn write_next(outbox: &mut Outbox) -> Option<(String, String, u64)> {
        let (line, ping) = outbox.next()?;
        let value: Value = serde_json::from_str(&line).unwrap();
        let text = value["approve"].as_str().or(value["content"].as_str()).unwrap();
        Some((text.to_owned(), value["messageId"].as_str().unwrap().to_owned(), ping))
    }

    #[test]
    fn each_process_gets_the_first_mode_before_any_prompt_until_one_confirms_it() {
        let mut outbox = Outbox::default();
        outbox.connected(Some("a"));
        outbox.push_first_mode(&approve(ApprovalMode::Never));
        outbox.push(&say("fix it"), None);
        for process in ["b", "b", "c"] {
            assert_eq!(write_next(&mut outbox).unwrap().0, "never");
            assert_eq!(write_next(&mut outbox), None, "the prompt waits for the confirmation");
            assert!(outbox.disconnected().clauses.is_empty());
            assert!(outbox.connected(Some(process)).is_empty());
        }
        let (mode, _, ping) = write_next(&mut outbox).unwrap();
        outbox.confirmed(ping);
        assert_eq!((mode.as_str(), write_next(&mut outbox).unwrap().0.as_str()), ("never", "fix it"));
    }

    #[test]
    fn a_first_mode_that_a_server_refuses_at_its_end_reaches_the_next_one_before_the_prompts() {
        for is_confirmed in [false, true] {
            let mut outbox = Outbox::default();
            outbox.connected(Some("a"));
            outbox.push_first_mode(&approve(ApprovalMode::Never));
            let (_, mode, ping) = write_next(&mut outbox).unwrap();
            outbox.push(&say("fix it"), None);
            if is_confirmed {
                outbox.confirmed(ping);
                let (_, prompt, _) = write_next(&mut outbox).unwrap();
                assert_eq!(outbox.refused(&mode, ErrorCode::Draining).0, Refusal::SettingWaits);
                assert_eq!(outbox.refused(&prompt, ErrorCode::Draining).0, Refusal::PromptWaits);
            } else {
                assert_eq!(outbox.refused(&mode, ErrorCode::Draining).0, Refusal::SettingWaits);
            }
            assert_eq!(write_next(&mut outbox), None, "not to the same connection");
            assert!(outbox.disconnected().clauses.is_empty());
            outbox.connected(Some("b"));
            let (again, _, ping) = write_next(&mut outbox).unwrap();
            assert_eq!((again.as_str(), write_next(&mut outbox)), ("never", None));
            outbox.confirmed(ping);
            assert_eq!(write_next(&mut outbox).unwrap().0, "fix it");
        }
    }

    #[test]
    fn prompts_wait_for_the_users_mode_if_the_first_one_is_refused() {
        let mut outbox = Outbox::default();
        outbox.connected(Some("a"));
        outbox.push_first_mode(&approve(ApprovalMode::Never));
        let (_, mode, ping) = write_next(&mut outbox).unwrap();
        outbox.confirmed(ping);
        assert!(!outbox.needs_mode());
        assert_eq!(outbox.refused(&mode, ErrorCode::TooMany).0, Refusal::PromptsNeedMode);
        outbox.push(&say("fix it"), None);
        assert_eq!(write_next(&mut outbox), None);
        assert!(outbox.needs_mode() && outbox.undelivered() == ["fix it"]);
        let permission = || Some(LocalPermission::Mode { before: ApprovalMode::Ask });
        outbox.push(&approve(ApprovalMode::Auto), permission());
        let (_, mode, ping) = write_next(&mut outbox).unwrap();
        outbox.confirmed(ping);
        assert_eq!(outbox.refused(&mode, ErrorCode::TooMany).0, Refusal::Dropped);
        assert!(outbox.needs_mode(), "the user's mode is refused, too");
        outbox.push(&approve(ApprovalMode::Ask), permission());
        let (mode, _, ping) = write_next(&mut outbox).unwrap();
        assert_eq!((mode.as_str(), write_next(&mut outbox)), ("ask", None));
        outbox.confirmed(ping);
        assert_eq!(write_next(&mut outbox).unwrap().0, "fix it");
        assert!(!outbox.needs_mode());
    }

    #[test]
    fn a_prompt_that_is_refused_while_the_session_closes_is_kept_whatever_the_reason() {
        for code in [ErrorCode::TooMany, ErrorCode::Draining, ErrorCode::Forbidden] {
            let mut outbox = Outbox::default();
            outbox.connected(Some("a"));
            outbox.push(&say("one"), None);
            let (_, id, ping) = write_next(&mut outbox).unwrap();
            outbox.begin_close();
            outbox.confirmed(ping);
            assert_eq!(outbox.refused(&id, code).0, Refusal::PromptWaits, "{code:?}");
            let unsent = UndeliveredPrompt { text: "one".to_owned(), may_have_arrived: false };
            assert_eq!(outbox.unconfirmed(), [unsent]);
        }
    }

    #[test]
    fn only_a_prompt_that_was_not_written_is_taken_back() {
        let mut outbox = Outbox::default();
        outbox.push(&say("one"), None);
        outbox.next();
        outbox.push(&say("two"), None);
        assert_eq!(outbox.undelivered(), ["two"]);
        assert!(!outbox.take_back("one") && outbox.take_back("two") && !outbox.take_back("two"));
        assert!(outbox.undelivered().is_empty() && outbox.next().is_none());
    }

    #[test]
    fn a_new_process_gets_only_messages_that_were_never_sent() {
        let mut outbox = Outbox::default();
        outbox.connected(Some("a"));
        outbox.push(&say("one"), None);
        written(&mut outbox);
        outbox.push(&say("two"), None);
        assert_eq!(outbox.connected(Some("b")), ["your last message"]);
        assert_eq!(written(&mut outbox)[0].0, "two");
        assert_eq!(
            outbox.connected(None),
            ["your last message"],
            "a server without an identity counts as another one"
        );
    }
}
