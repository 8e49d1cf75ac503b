//! Prompts that were sent while the session was idle and that the log does not have yet. They wait, and can be taken
//! back, while another process uses the session.

use std::time::Duration;

use sysop_core::event::{Delta, Input};
use sysop_core::transcript::SessionPhase;
use sysop_core::ui_text;

use super::{Action, App, EXPECT, PendingAck};

#[derive(Default)]
pub(super) struct SentPrompts {
    /// Each with the time at which it was sent.
    prompts: Vec<(String, Duration)>,
    /// True from the session's notice that it waits for another process to the next event.
    waits_for_process: bool,
    /// Update expected of another waiting input, such as a call or a setting; `None` if only prompts of this front end
    /// wait.
    other_ack: Option<PendingAck>,
    /// Time from which prompts that were taken back during a wait have not run.
    withdrawn_by: Duration,
}

impl SentPrompts {
    /// Records that the log has a prompt. Returns true if it was sent here.
    pub(super) fn note_logged(&mut self, prompt: &str) -> bool {
        let at = self.prompts.iter().position(|(text, _)| text == prompt);
        at.map(|at| self.prompts.remove(at)).is_some()
    }

    /// Drops the newest prompt with this text, which was not sent after all.
    pub(super) fn forget(&mut self, prompt: &str) {
        if let Some(at) = self.prompts.iter().rposition(|(text, _)| text == prompt) {
            self.prompts.remove(at);
        }
    }

    pub(super) fn expire(&mut self, now: Duration) {
        if !self.waits_for_process {
            self.prompts.retain(|(_, since)| since.saturating_add(EXPECT) > now);
        }
    }

    pub(super) fn waits_for_process(&self) -> bool {
        self.waits_for_process
    }
}

impl App {
    /// Sends a prompt while no turn is running.
    pub(super) fn send_prompt(&mut self, text: String, now: Duration) -> Vec<Action> {
        // The prompt is not one that was taken back anymore.
        for taken_back in [&mut self.withdrawing, &mut self.returned] {
            taken_back.retain(|prompt| *prompt != text);
        }
        self.sent.prompts.push((text.clone(), now));
        self.send_expecting(Input::prompt(text), PendingAck::Turn, now)
    }

    /// Returns the prompts that wait until another process no longer uses the session, in order.
    pub fn waiting_for_process(&self) -> impl Iterator<Item = &str> {
        let waiting = self.sent.prompts.iter().filter(|_| self.sent.waits_for_process);
        waiting.map(|(text, _)| text.as_str())
    }

    /// Expects the log's answer to an input that is being sent.
    pub(super) fn expect(&mut self, input: &Input, what: PendingAck, now: Duration) {
        if !self.sent.waits_for_process {
            if what != PendingAck::Event {
                self.meter.begin_wait(now);
            }
            self.pending_ack = Some((what, now));
            return;
        }
        // The input waits behind another one.
        if !matches!(input, Input::Prompt { .. }) && !self.sent.other_ack.is_some_and(begins_turn) {
            self.sent.other_ack = Some(what);
        }
        if begins_turn(what) && !self.expects_turn() {
            self.meter.phase(None, now); // the notice stays
            self.pending_ack = Some((what, now));
        }
    }

    fn expects_turn(&self) -> bool {
        self.pending_ack.is_some_and(|(ack, _)| begins_turn(ack))
    }

    /// Returns the time from which a sent input counts as lost. A turn that waits for another process does not.
    pub(super) fn ack_expiry(&self) -> Option<Duration> {
        let waits = |ack| self.sent.waits_for_process && begins_turn(ack);
        self.pending_ack.filter(|(ack, _)| !waits(*ack)).map(|(_, since)| since + EXPECT)
    }

    /// Keeps what was sent on the screen once the session says that it waits for another process. It says so once for
    /// each wait, whatever joins later.
    pub(super) fn note_wait(&mut self, delta: &Delta) {
        let Delta::Notice { text } = delta else { return };
        if *self.transcript.phase() != SessionPhase::Idle || !ui_text::is_waiting_for_process(text) {
            return;
        }
        if std::mem::replace(&mut self.sent.waits_for_process, true) {
            return;
        }
        self.sent.other_ack = match self.pending_ack {
            Some((PendingAck::Turn, _)) if !self.sent.prompts.is_empty() => None,
            Some((ack, _)) => Some(ack),
            None => Some(PendingAck::Event), // of another front end, or of a setting that is no longer expected
        };
        if let Some((_, since)) = self.sent.prompts.first().filter(|_| !self.expects_turn()) {
            self.pending_ack = Some((PendingAck::Turn, *since));
        }
    }

    /// Records an event, with which a wait ends. What was sent follows the events of the other process.
    pub(super) fn note_wait_end(&mut self, now: Duration) {
        if !std::mem::take(&mut self.sent.waits_for_process) {
            return;
        }
        self.sent.other_ack = None;
        let acks = self.pending_ack.iter_mut().map(|(_, since)| since);
        for since in self.sent.prompts.iter_mut().map(|(_, since)| since).chain(acks) {
            *since = now;
        }
    }

    /// Drops the prompts that were taken back during a wait some time ago: they will not run, and an equal prompt is
    /// another one.
    pub(super) fn forget_old_withdrawals(&mut self, now: Duration) {
        if self.sent.withdrawn_by <= now {
            self.withdrawing.retain(|text| self.own_queued.contains(text));
        }
    }

    /// Takes back the newest prompt that waits for another process. Returns `None` if there is none.
    pub(super) fn withdraw_newest(&mut self, now: Duration) -> Option<Vec<Action>> {
        let newest = self.waiting_for_process().count().checked_sub(1)?;
        Some(self.withdraw_from(newest, now))
    }

    /// Takes back all prompts that wait for another process, and stops what may have begun meanwhile. Returns `None` if
    /// there is none.
    pub(super) fn withdraw_all(&mut self, now: Duration) -> Option<Vec<Action>> {
        self.waiting_for_process().next()?;
        self.interrupted = false; // no turn is being stopped
        let mut actions = self.withdraw_from(0, now);
        actions.push(Action::Send(Input::Cancel));
        Some(actions)
    }

    fn withdraw_from(&mut self, first: usize, now: Duration) -> Vec<Action> {
        let texts: Vec<String> = self.sent.prompts.drain(first..).map(|(text, _)| text).collect();
        if self.sent.prompts.is_empty() {
            self.sent.waits_for_process = self.sent.other_ack.is_some();
            if !self.sent.other_ack.is_some_and(begins_turn) {
                self.pending_ack = None;
                self.move_draft();
            }
        }
        self.sent.withdrawn_by = now + EXPECT;
        self.withdrawing.extend(texts.iter().cloned());
        self.returned.clone_from(&texts);
        self.return_to_composer(texts.clone());
        let withdraw = |text| Action::Send(Input::WithdrawPrompt { text, by: None });
        texts.into_iter().rev().map(withdraw).collect()
    }
}

fn begins_turn(ack: PendingAck) -> bool {
    match ack {
        PendingAck::Turn | PendingAck::Call => true,
        PendingAck::Event => false,
    }
}
