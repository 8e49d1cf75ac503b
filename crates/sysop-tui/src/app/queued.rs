//! Prompts that wait for the end of the turn, and the keys that browse earlier ones.

use std::time::Duration;

use sysop_core::event::Input;

use super::{Action, App, PendingAck};

impl App {
    /// Takes the newest waiting prompt of this front end back if the composer is empty. Otherwise goes to the previous
    /// prompt that does not wait: a waiting one would be sent a second time.
    pub(super) fn history_previous(&mut self, now: Duration) -> Vec<Action> {
        let takes_back = self.composer().is_empty();
        if let Some(newest) = self.undelivered().last().filter(|_| takes_back).cloned() {
            return vec![Action::TakeBack(vec![newest])];
        }
        if let Some(actions) = takes_back.then(|| self.withdraw_newest(now)).flatten() {
            return actions;
        }
        if let Some(newest) = self.own_queued.last().filter(|_| takes_back).cloned() {
            if self.refuses_offline(now) {
                return Vec::new();
            }
            self.withdrawing.push(newest.clone());
            let withdraw = Input::WithdrawPrompt { text: newest, by: None };
            return self.send_expecting(withdraw, PendingAck::Event, now);
        }
        let text = self.composer().text();
        while let Some(message) = self.prompt_history.older(&text).map(str::to_owned) {
            if !self.is_waiting_prompt(&message) {
                self.composer_mut().set(&message);
                break;
            }
        }
        Vec::new()
    }

    pub(super) fn history_next(&mut self) -> Vec<Action> {
        while let Some(message) = self.prompt_history.newer().map(str::to_owned) {
            if !self.is_waiting_prompt(&message) {
                self.composer_mut().set(&message);
                break;
            }
        }
        Vec::new()
    }

    fn is_waiting_prompt(&self, text: &String) -> bool {
        let waits_for_process = self.waiting_for_process().any(|waiting| waiting == text);
        waits_for_process || self.own_queued.contains(text) || self.undelivered().contains(text)
    }

    /// Drops the waiting prompt with which a turn starts.
    pub(super) fn prompt_started(&mut self, prompt: &str) {
        self.server_link.delivered(prompt);
        self.sent.note_logged(prompt);
        if self.withdrawing.iter().any(|text| text == prompt) {
            // The turn began before the request to take the prompt back.
            self.move_draft();
            self.take_back(prompt);
        }
        for queued in [&mut self.queued, &mut self.own_queued, &mut self.withdrawing] {
            if let Some(at) = queued.iter().position(|text| text == prompt) {
                queued.remove(at);
            }
        }
    }

    /// Drops the newest queued prompt with this text. It returns to the composer if this front end takes it back.
    pub(super) fn prompt_withdrawn(&mut self, prompt: &str) {
        let take = |queued: &mut Vec<String>| {
            let at = queued.iter().rposition(|text| text == prompt)?;
            Some(queued.remove(at))
        };
        take(&mut self.queued);
        if let Some(text) = take(&mut self.withdrawing).and_then(|_| take(&mut self.own_queued)) {
            self.return_to_composer(vec![text]);
        }
    }

    /// Drops the queued prompts. Prompts that were written in this front end return to the composer.
    pub(super) fn forget_queued(&mut self) {
        self.queued.clear();
        self.withdrawing.clear();
        let texts = std::mem::take(&mut self.own_queued);
        if self.is_replaying() || texts.is_empty() {
            return;
        }
        self.returned.clone_from(&texts);
        self.return_to_composer(texts);
    }

    /// Puts prompts that were not sent, or not handled, before the draft.
    pub(super) fn return_to_composer(&mut self, mut texts: Vec<String>) {
        let composer = self.composer_mut();
        if !composer.is_empty() {
            texts.push(composer.take());
        }
        composer.set(&texts.join("\n"));
    }

    /// Removes a prompt from the composer that the session has queued again, as it does when a prompt or a call, of
    /// whatever front end, ends a paused turn. A composer that the user has edited since stays as it is.
    pub(super) fn take_back(&mut self, prompt: &str) {
        let Some(at) = self.returned.iter().position(|text| text == prompt) else { return };
        let before = self.returned.join("\n");
        let text = self.composer().text();
        let Some(draft) = text.strip_prefix(&before).filter(|rest| rest.is_empty() || rest.starts_with('\n'))
        else {
            return self.returned.clear();
        };
        self.own_queued.push(self.returned.remove(at));
        let draft = draft.strip_prefix('\n').filter(|draft| !draft.is_empty());
        let rest: Vec<&str> = self.returned.iter().map(String::as_str).chain(draft).collect();
        let rest = rest.join("\n");
        self.composer_mut().set(&rest);
    }
}
