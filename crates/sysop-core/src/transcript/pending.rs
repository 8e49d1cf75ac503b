//! Notices about what has not happened yet: a prompt in the queue, and a pause that awaits the end of running work.

use super::{ItemBody, ItemId, Notice, SessionPhase, Severity, Transcript};
use crate::event::PauseReason;
use crate::id::Seq;
use crate::ui_text;

/// Notice of a requested pause that has begun.
const PAUSED: &str = "paused";

/// Work that ends before a requested pause begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseDelay {
    /// A command that runs.
    Command,
    /// A model call in flight, a running call that is no command, or a proposal that awaits its answer.
    Step,
}

impl Transcript {
    /// Returns the work that a requested pause waits for. Returns `None` if no pause was requested, or if the turn is
    /// already paused. A pause for another reason begins at once.
    pub fn pause_delay(&self) -> Option<PauseDelay> {
        let is_requested = self.turn.paused == Some(PauseReason::Asked);
        self.work_before_pause().filter(|_| is_requested)
    }

    /// Returns the work that a pause would wait for if it were requested now.
    pub fn work_before_pause(&self) -> Option<PauseDelay> {
        match self.phase {
            SessionPhase::Idle | SessionPhase::Stopping => None,
            SessionPhase::AwaitingApproval { .. } => Some(PauseDelay::Step),
            SessionPhase::Thinking { .. } | SessionPhase::Running { .. } | SessionPhase::Paused { .. } => {
                let call = self.still_running().map(|call| match self.plan(&call) {
                    Some(plan) if plan.call.text_argument("command").is_some() => PauseDelay::Command,
                    Some(_) | None => PauseDelay::Step,
                });
                call.or_else(|| self.calls_model().then_some(PauseDelay::Step))
            }
        }
    }

    /// Returns the notice of a requested pause that has begun, which says no more than the phase.
    pub fn pause_notice(&self) -> Option<ItemId> {
        let is_paused = matches!(self.phase, SessionPhase::Paused { reason: PauseReason::Asked });
        self.turn.pause_notice.filter(|_| is_paused && self.pause_delay().is_none()).map(ItemId::Notice)
    }

    /// Returns the notice that the event at `seq` wrote or changed. A front end that only appends shows each of them.
    pub fn notice_at(&self, seq: Seq) -> Option<&Notice> {
        let changed = self.mode_notice.as_ref().filter(|(_, last)| *last == seq).map(|(id, _)| id.clone());
        let item = self.item(&changed.unwrap_or(ItemId::Notice(seq)))?;
        if let ItemBody::Notice(notice) = &item.body { Some(notice) } else { None }
    }

    pub(super) fn paused(&mut self, reason: PauseReason, detail: Option<&str>) {
        self.turn.paused = Some(reason);
        let interrupted = self.interruption().map(|why| format!("paused: {why}")).unwrap_or_default();
        let sentence = match reason {
            PauseReason::Interrupted => &interrupted,
            PauseReason::Asked => PAUSED,
            PauseReason::Loop => "paused: the model repeated the same call 3 times; rephrase the task",
            PauseReason::Budget => "paused: the budget is spent; resume to grant it once more",
        };
        let text: &str = match self.pause_delay() {
            Some(delay) => ui_text::pausing(delay),
            None => sentence,
        };
        let detail = detail.map_or_else(String::new, |detail| format!(": {detail}"));
        self.notice(Severity::Warning, format!("{text}{detail}"));
        // A proposal is still waiting for its answer; the pause takes effect afterwards.
        if !matches!(self.phase, SessionPhase::AwaitingApproval { .. }) {
            self.phase = SessionPhase::Paused { reason };
        }
        self.turn.pause_notice = (reason == PauseReason::Asked).then_some(self.seq);
    }

    /// Says which process stopped during the current turn, and if a command was running then. `None` unless the turn
    /// was interrupted.
    pub fn interruption(&self) -> Option<&'static str> {
        let is_interrupted = self.turn.paused == Some(PauseReason::Interrupted);
        is_interrupted.then(|| match (self.participants.has_viewer(), self.interrupts_call()) {
            (false, true) => "sysop exited during this turn; the running command may not have finished",
            (false, false) => "sysop exited during this turn; no command was running",
            (true, true) => "the server stopped during this turn; the running command may not have finished",
            (true, false) => "the server stopped during this turn; no command was running",
        })
    }

    /// Returns true if a command was running when the current turn was interrupted.
    pub fn interrupts_call(&self) -> bool {
        self.turn.paused == Some(PauseReason::Interrupted) && self.turn.interrupts_call
    }

    /// Changes the notice of a requested pause once the pause begins.
    pub(super) fn refresh_pause_notice(&mut self) {
        let Some(seq) = self.turn.pause_notice.filter(|_| self.phase != SessionPhase::Stopping) else {
            return;
        };
        let text = self.pause_delay().map_or(PAUSED, ui_text::pausing);
        self.change_pause_notice(seq, Severity::Warning, text);
    }

    /// Changes the notice of a requested pause that is over, or that was withdrawn before it began.
    pub(super) fn end_pause_notice(&mut self) {
        let Some(seq) = self.turn.pause_notice.take() else { return };
        let text = if self.pause_delay().is_some() { "pause canceled" } else { "paused, then resumed" };
        self.change_pause_notice(seq, Severity::Note, text);
    }

    /// Ends the notice of a requested pause with a canceled turn: a pause that has not begun will not begin.
    pub(super) fn stop_pause_notice(&mut self) {
        let Some(seq) = self.turn.pause_notice.take() else { return };
        let has_begun = self.notice_at(seq).is_some_and(|notice| notice.text == PAUSED);
        if !has_begun {
            self.change_pause_notice(seq, Severity::Note, "pause canceled");
        }
    }

    /// Removes the notice of a requested pause whose turn ended by itself. The pause stops the next queued prompt,
    /// which has a notice of its own, or nothing.
    pub(super) fn remove_pause_notice(&mut self) {
        if let Some(seq) = self.turn.pause_notice.take() {
            self.remove(&ItemId::Notice(seq));
        }
    }

    fn change_pause_notice(&mut self, seq: Seq, weight: Severity, text: &str) {
        let id = ItemId::Notice(seq);
        let body = ItemBody::Notice(Notice { text: text.to_owned(), weight });
        if self.item(&id).is_some_and(|item| item.body != body) {
            self.put(id, body);
        }
    }

    pub(super) fn prompt_queued(&mut self, prompt: &str, by: Option<&str>) {
        self.queued.push_back((self.seq, prompt.to_owned()));
        let by = by.filter(|_| self.participants.are_several());
        let by = by.map_or_else(String::new, |by| format!(" by {by}"));
        self.notice(Severity::Note, format!("queued{by}: {prompt}"));
    }

    /// Returns the prompts that are queued behind the current turn.
    pub fn queued_prompts(&self) -> impl ExactSizeIterator<Item = &str> {
        self.queued.iter().map(|(_, prompt)| prompt.as_str())
    }

    /// Removes the notice of the queued prompt with which a turn starts. The prompt itself takes its place.
    pub(super) fn prompt_started(&mut self, prompt: &str) {
        let started = self.queued.front().filter(|(_, queued)| queued == prompt).map(|(seq, _)| *seq);
        if let Some(seq) = started {
            self.queued.pop_front();
            self.remove(&ItemId::Notice(seq));
        }
    }

    /// Changes the notice of the newest queued prompt with this text, which its sender took back.
    pub(super) fn prompt_withdrawn(&mut self, text: &str) {
        // Lines that name the images may follow.
        let is_withdrawn = |(_, queued): &(Seq, String)| {
            queued.strip_prefix(text).is_some_and(|rest| rest.is_empty() || rest.starts_with("\n["))
        };
        let at = self.queued.iter().rposition(is_withdrawn);
        if let Some((seq, prompt)) = at.and_then(|at| self.queued.remove(at)) {
            self.not_sent(seq, &prompt);
        }
    }

    /// Changes the notices of queued prompts, which a cancel drops.
    pub(super) fn drop_queued(&mut self) {
        for (seq, prompt) in std::mem::take(&mut self.queued) {
            self.not_sent(seq, &prompt);
        }
    }

    fn not_sent(&mut self, seq: Seq, prompt: &str) {
        let notice = Notice { text: format!("not sent: {prompt}"), weight: Severity::Note };
        self.put(ItemId::Notice(seq), ItemBody::Notice(notice));
    }
}
