//! Key bindings. A key goes to the frontmost layer of the screen first.
#![expect(clippy::wildcard_enum_match_arm, reason = "most keys have no binding")]

use std::time::Duration;

use crossterm::event::{
    KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::Position;
use sysop_core::event::{Decision, Input};
use sysop_core::outcome::Outcome;
use sysop_core::policy::ApprovalMode;
use sysop_core::text::split_styles;
use sysop_core::transcript::{ItemBody, ItemId, SessionPhase};
use sysop_core::ui_text;
use sysop_driver::prompter::PromptReply;
use sysop_term::command::{InputLine, parse};

use super::completion::{self, Completion};
use super::copying::Selection;
use super::key_debounce::TYPING_DEBOUNCE;
use super::overlay::Overlay;
use super::question_prompt;
use super::review::{Review, ReviewEvent, ReviewMode};
use super::status::APPROVAL_REQUIRED;
use super::text_area::{self, EditResult};
use super::{Action, App, EditTarget, ExitReason, Focus, PendingAck, State};
use crate::BY;
use crate::view::Scroll;

/// Time after a Ctrl+C within which a second Ctrl+C exits; likewise for Ctrl+D.
pub(super) const LEAVE: Duration = Duration::from_secs(3);
/// Rows scrolled per step of the mouse wheel.
const WHEEL_ROWS: usize = 3;

/// Returns Ctrl+C as a key event, which is also used for SIGINT.
pub fn ctrl_c() -> KeyEvent {
    KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)
}

/// Returns the action that opens the whole output of a call in the pager.
pub(super) fn page(outcome: &Outcome) -> Vec<Action> {
    match &outcome.artifact {
        Some(name) => vec![Action::PageArtifact(name.clone())],
        None => vec![Action::PageOutput(outcome.output.clone(), outcome.styles.clone())],
    }
}

fn is_control(key: KeyEvent, letter: char) -> bool {
    key.code == KeyCode::Char(letter) && key.modifiers == KeyModifiers::CONTROL
}

impl App {
    pub fn key(&mut self, key: KeyEvent, now: Duration) -> Vec<Action> {
        if key.kind == KeyEventKind::Release {
            return Vec::new();
        }
        self.done = false;
        if !is_control(key, 'd') {
            self.quit_asked = None;
        }
        if is_control(key, 'c') {
            return self.interrupt(now);
        }
        self.leave_asked = None;
        let is_new = std::mem::take(&mut self.is_message_new);
        let is_dismissed = is_new && key.code == KeyCode::Esc && self.dismiss_message();
        self.drop_old_flash(now);
        self.last_key = Some(now);
        self.selection = None;
        self.answer_repeats.note_key(key);
        if is_dismissed || self.are_keys_muted(now) || self.is_answer_repeated(now) {
            return Vec::new();
        }
        let actions = match self.key_after_letter(key, now) {
            Some(actions) => actions,
            None => self.route_key(key, now),
        };
        self.move_draft();
        actions
    }

    /// Passes a key to the frontmost layer that takes it.
    pub(super) fn route_key(&mut self, key: KeyEvent, now: Duration) -> Vec<Action> {
        if let Some(actions) = self.global_key(key, now) {
            actions
        } else if self.overlay.is_some() {
            self.key_in_overlay(key, now)
        } else if self.question_prompt.is_some() {
            self.key_in_question(key, now)
        } else if self.review.is_some() && self.focus == Focus::Box {
            self.key_in_review(key, now)
        } else if self.focus == Focus::Cards {
            self.key_in_cards(key, now)
        } else {
            self.key_in_box(key, now)
        }
    }

    /// Ends the message that answered a key at a proposal. Esc would otherwise cancel the turn although it was meant
    /// for the message.
    fn dismiss_message(&mut self) -> bool {
        let is_deciding = self.review.as_ref().is_some_and(|review| review.mode() == ReviewMode::Deciding);
        let is_in_front = is_deciding && self.overlay.is_none() && self.question_prompt.is_none();
        is_in_front && self.focus == Focus::Box && self.pending_key().is_none() && self.flash.take().is_some()
    }

    /// Returns true if a key must be ignored because the user is still typing the answer to a question that
    /// has closed. Each such key extends the time for which keys are ignored.
    fn are_keys_muted(&mut self, now: Duration) -> bool {
        self.keys_muted_until =
            self.keys_muted_until.filter(|until| now < *until).map(|_| now + TYPING_DEBOUNCE);
        self.keys_muted_until.is_some()
    }

    /// Returns true if the key only repeats the answer to a proposal that has just closed.
    fn is_answer_repeated(&mut self, now: Duration) -> bool {
        let is_box_in_front =
            self.review.is_none() && self.question_prompt.is_none() && self.overlay.is_none();
        is_box_in_front && self.focus == Focus::Box && self.answer_repeats.is_repeat(now)
    }

    pub fn paste(&mut self, text: &str, now: Duration) -> Vec<Action> {
        self.paste_file(text, text, now)
    }

    /// Pastes a file. The composer gets `mention`, the file as `@PATH`; any other text field gets `text`, its path.
    pub fn paste_file(&mut self, text: &str, mention: &str, now: Duration) -> Vec<Action> {
        (self.done, self.leave_asked, self.quit_asked) = (false, None, None);
        if self.are_keys_muted(now) {
            return Vec::new();
        }
        if let Some(review) = &mut self.review
            && review.mode() == ReviewMode::ConfirmingSession
        {
            review.decide_again(); // a paste is not an answer
        }
        if let Some(overlay) = &mut self.overlay {
            overlay.paste(text);
            return self.search_sessions();
        } else if self.paste_in_search(text) {
        } else if let Some(question_prompt) = &mut self.question_prompt {
            question_prompt.paste(text, now);
        } else if let Some(review) =
            self.review.as_mut().filter(|review| review.mode() != ReviewMode::Deciding)
        {
            review.paste(text);
        } else {
            self.focus = Focus::Box;
            self.draft_letter();
            if let Some(review) = &mut self.review {
                review.debounce.note_typing(now);
            }
            self.prompt_history.changed();
            self.composer_mut().paste(mention);
            return self.complete();
        }
        Vec::new()
    }

    pub fn mouse(&mut self, mouse: MouseEvent, now: Duration) -> Vec<Action> {
        let at = Position::new(mouse.column, mouse.row);
        match mouse.kind {
            MouseEventKind::ScrollUp | MouseEventKind::ScrollDown => {
                self.selection = None;
                let down = mouse.kind == MouseEventKind::ScrollDown;
                self.history.scroll(if down { Scroll::Down(WHEEL_ROWS) } else { Scroll::Up(WHEEL_ROWS) });
            }
            MouseEventKind::Down(MouseButton::Left) => self.selection = Some(Selection::at(at)),
            MouseEventKind::Drag(MouseButton::Left) => {
                self.selection.iter_mut().for_each(|selection| selection.extend(at));
            }
            MouseEventKind::Up(MouseButton::Left) => match &mut self.selection {
                Some(selection) if selection.is_click() => {
                    self.selection = None;
                    return self.click(mouse.row, now);
                }
                Some(selection) => selection.complete(),
                None => {}
            },
            _ => {}
        }
        Vec::new()
    }

    fn click(&mut self, row: u16, now: Duration) -> Vec<Action> {
        if self.shows_start_screen() {
            return self.click_start_screen(row, now);
        }
        if self.overlay.is_none()
            && let Some(id) = self.history.item_at(row).cloned()
        {
            self.history.toggle_item(&id);
        }
        Vec::new()
    }

    /// Handles keys that work whatever has the focus, such as Ctrl+P. Returns `None` for all other keys, and for keys
    /// that an open overlay, question or completion list handles itself.
    fn global_key(&mut self, key: KeyEvent, now: Duration) -> Option<Vec<Action>> {
        if self.overlay.is_none() && self.question_prompt.is_none() && self.completion.is_none() {
            match key.code {
                KeyCode::F(1) => {
                    self.pick_command();
                    return Some(Vec::new());
                }
                KeyCode::BackTab => return Some(self.next_approval_mode(now)),
                _ => {}
            }
        }
        if key.modifiers == KeyModifiers::CONTROL {
            let KeyCode::Char(letter) = key.code else { return self.scrolling(key) };
            return match letter {
                'p' => Some(self.pause_or_resume(now)),
                't' => Some(vec![Action::ShowTerminal]),
                'z' => Some(vec![Action::Suspend]),
                'l' => Some(vec![Action::Redraw]),
                _ => None,
            };
        }
        self.scrolling(key)
    }

    /// Switches to the next approval mode in the cycle `ask`, `each`, `never`. Never selects `auto`, which the user
    /// must choose by a command.
    fn next_approval_mode(&mut self, now: Duration) -> Vec<Action> {
        let mode = self.transcript.session_info().map_or(ApprovalMode::Ask, |info| info.approve);
        let next = match mode {
            ApprovalMode::Ask => ApprovalMode::Each,
            ApprovalMode::Each => ApprovalMode::Never,
            ApprovalMode::Never | ApprovalMode::Auto => ApprovalMode::Ask,
        };
        self.approve(Some(next), now)
    }

    fn scrolling(&mut self, key: KeyEvent) -> Option<Vec<Action>> {
        if self.overlay.is_some() {
            return None;
        }
        // Home and End move the cursor while a draft is being written.
        let is_for_card = key.modifiers.is_empty()
            && self.question_prompt.is_none()
            && self.focus == Focus::Box
            && (self.next.is_empty() || matches!(key.code, KeyCode::PageUp | KeyCode::PageDown));
        if is_for_card && self.review.as_mut().is_some_and(|review| review.scroll_key(key.code)) {
            return Some(Vec::new());
        }
        match (key.code, key.modifiers) {
            (KeyCode::PageUp, _) => self.history.scroll(Scroll::PageUp),
            (KeyCode::PageDown, _) => self.history.scroll(Scroll::PageDown),
            (KeyCode::Up, KeyModifiers::SHIFT) => self.history.scroll(Scroll::Up(1)),
            (KeyCode::Down, KeyModifiers::SHIFT) => self.history.scroll(Scroll::Down(1)),
            (KeyCode::Home, KeyModifiers::CONTROL) => self.history.scroll(Scroll::Top),
            (KeyCode::End, KeyModifiers::CONTROL) => self.history.scroll(Scroll::End),
            (KeyCode::End, KeyModifiers::NONE) if !self.history.follows() && !self.is_editing() => {
                self.history.scroll(Scroll::End);
            }
            _ => return None,
        }
        Some(Vec::new())
    }

    /// Returns true if the cursor is in editable text.
    fn is_editing(&self) -> bool {
        match &self.review {
            Some(review) => review.mode() != ReviewMode::Deciding,
            None => !self.composer().is_empty(),
        }
    }

    /// Handles Ctrl+C: closes the overlay, else declines the question, else leaves the editor of a proposal, else
    /// clears the draft, else cancels the turn.
    /// Exits if there is nothing to cancel and the key is pressed twice, or if the turn is still being stopped at the
    /// second press. A press that stopped something is not the first of the two that exit.
    fn interrupt(&mut self, now: Duration) -> Vec<Action> {
        if self.close_overlay() {
            return Vec::new();
        }
        if let Some(question_prompt) = &self.question_prompt
            && !self.lacks_recipient(question_prompt.id())
            && !std::mem::replace(&mut self.question_interrupted, true)
        {
            let id = question_prompt.id();
            return self.answer(id, PromptReply::Refused, now);
        }
        if self.review.as_mut().is_some_and(Review::leave_entry) {
            return self.preview_edited();
        }
        if let Some(actions) = self.clear_draft(now) {
            return actions;
        }
        let runs = !matches!(self.transcript.phase(), SessionPhase::Idle) || self.pending_ack.is_some();
        if runs && !self.is_offline() {
            if std::mem::replace(&mut self.interrupted, true) {
                return self.leave(ExitReason::Interrupted);
            }
            return self.stop(now);
        }
        if self.leave_asked.is_some_and(|until| until > now) {
            return self.leave(ExitReason::Quit);
        }
        self.leave_asked = Some(now + LEAVE);
        let quits = || "Press Ctrl+C again or Ctrl+D to quit".to_owned();
        let text = self.running_work("Ctrl+C").unwrap_or_else(quits);
        self.flash = Some(super::Flash { text, since: now, until: now + LEAVE });
        Vec::new()
    }

    /// Moves the draft to the prompt history. Returns `None` if there is none, if the box shows something else, or
    /// while a turn that a Ctrl+C stopped ends, which puts queued prompts into the box.
    fn clear_draft(&mut self, now: Duration) -> Option<Vec<Action>> {
        let is_hidden = self.review.as_ref().is_some_and(|review| review.mode() != ReviewMode::Deciding);
        if is_hidden || self.interrupted || self.leave_asked.is_some() || self.composer().is_empty() {
            return None;
        }
        if self.review.is_some() {
            return Some(self.set_draft_aside(now));
        }
        self.show_flash("draft cleared; ↑ or Alt+u brings it back", now);
        Some(self.empty_box())
    }

    /// Moves the draft that was written at a proposal to the prompt history, so that keys answer the proposal again.
    fn set_draft_aside(&mut self, now: Duration) -> Vec<Action> {
        self.show_flash("text set aside; Alt+u brings it back", now);
        self.empty_box()
    }

    fn empty_box(&mut self) -> Vec<Action> {
        self.completion = None;
        let text = self.composer().text();
        // As opposed to a new box, this one can undo the change.
        self.composer_mut().clear();
        self.remember(&text).into_iter().collect()
    }

    fn pause_or_resume(&mut self, now: Duration) -> Vec<Action> {
        if self.refuses_offline(now) {
            return Vec::new();
        }
        match self.transcript.phase() {
            SessionPhase::Paused { .. } => {
                self.show_flash("Resumed", now);
                self.send_expecting(Input::Resume, PendingAck::Event, now)
            }
            SessionPhase::Idle => {
                self.show_flash("nothing to pause", now);
                Vec::new()
            }
            SessionPhase::Thinking { .. }
            | SessionPhase::AwaitingApproval { .. }
            | SessionPhase::Running { .. }
            | SessionPhase::Stopping
                if self.pausing || self.transcript.pause_delay().is_some() =>
            {
                self.pausing = false;
                self.show_flash("Resumed", now);
                vec![Action::Send(Input::Resume)]
            }
            SessionPhase::Thinking { .. }
            | SessionPhase::AwaitingApproval { .. }
            | SessionPhase::Running { .. }
            | SessionPhase::Stopping => {
                self.pausing = true;
                match (&self.review, self.pause_delay()) {
                    (Some(_), Some(delay)) => {
                        self.show_flash(format!("{APPROVAL_REQUIRED} · {}", ui_text::will_pause(delay)), now);
                    }
                    (Some(_) | None, _) => self.flash = None, // the activity line shows it
                }
                vec![Action::Send(Input::Pause)]
            }
        }
    }

    fn key_in_question(&mut self, key: KeyEvent, now: Duration) -> Vec<Action> {
        // Before the key: an answer takes the text out of the prompt.
        let Some(id) = self.question_prompt.as_ref().map(super::QuestionPrompt::id) else {
            return Vec::new();
        };
        if self.lacks_recipient(id) {
            self.refuses_offline(now);
            return Vec::new();
        }
        let Some(question_prompt) = &mut self.question_prompt else { return Vec::new() };
        let answer = match question_prompt.key(key, now) {
            question_prompt::QuestionEvent::Consumed => return Vec::new(),
            question_prompt::QuestionEvent::Answered(text) => PromptReply::Given { by: BY.to_owned(), text },
            question_prompt::QuestionEvent::NoSecret => PromptReply::NoSecret,
            question_prompt::QuestionEvent::Declined => PromptReply::Refused,
        };
        self.answer(id, answer, now)
    }

    fn answer(
        &mut self,
        id: sysop_core::question::QuestionId,
        answer: PromptReply,
        now: Duration,
    ) -> Vec<Action> {
        self.answered_questions.insert(id);
        self.question_prompt = None;
        self.reset_debounce();
        let mut actions = Vec::new();
        match &answer {
            // The user types the answer into the terminal instead.
            PromptReply::NoSecret => actions.push(Action::ShowTerminal),
            PromptReply::Refused if self.is_working() => {
                self.show_flash("declined; press Esc to stop the turn", now)
            }
            PromptReply::Refused => self.show_flash("refused", now),
            PromptReply::Given { .. } => {}
        }
        actions.insert(0, Action::AnswerQuestion(id, answer));
        self.sync_questions(now);
        actions
    }

    fn key_in_review(&mut self, key: KeyEvent, now: Duration) -> Vec<Action> {
        self.assess_review();
        let Some(review) = &mut self.review else { return Vec::new() };
        if is_control(key, 'g') && review.is_editable() {
            return vec![Action::OpenEditor(EditTarget::Proposal, review.command())];
        }
        let early = review.is_early(key, now);
        if review.mode() == ReviewMode::Deciding && !early {
            if key.code == KeyCode::Tab {
                self.enter_cards();
                return Vec::new();
            }
            // A draft is being written, so the key is meant for it.
            if !self.next.is_empty() {
                return match key.code {
                    KeyCode::Esc if self.completion.is_none() => self.set_draft_aside(now),
                    _ => self.key_in_box(key, now),
                };
            }
            // Undo brings back a draft that was set aside.
            if key.modifiers == KeyModifiers::ALT && matches!(key.code, KeyCode::Char(_)) {
                return self.key_in_box(key, now);
            }
            if is_control(key, 'd') {
                return self.end_of_input(now);
            }
        }
        match review.key(key, now) {
            // The user was typing when the proposal appeared: continue the draft.
            ReviewEvent::Consumed if early && is_text(key) && review.mode() == ReviewMode::Deciding => {
                review.debounce.note_typing(now);
                self.next.key(key);
                self.preview_edited()
            }
            ReviewEvent::Unused if is_text(key) && key.code != KeyCode::Backspace => {
                self.key_in_box(key, now)
            }
            ReviewEvent::Typed(before) => {
                self.next.key(KeyEvent::from(KeyCode::Char(before)));
                self.key_in_box(key, now)
            }
            event => self.review_event(event, now),
        }
    }

    /// Carries out the effect of a key on a proposal, except for text, which belongs to the draft.
    pub(super) fn review_event(&mut self, event: ReviewEvent, now: Duration) -> Vec<Action> {
        let Some(review) = &self.review else { return Vec::new() };
        match event {
            ReviewEvent::AllowedAlways(offered) => self.decide_always(offered, now),
            ReviewEvent::Consumed => self.preview_edited(),
            ReviewEvent::Unused | ReviewEvent::Typed(_) => Vec::new(),
            ReviewEvent::Message(text) => {
                self.show_flash(text, now);
                self.is_message_new = true;
                self.preview_edited()
            }
            ReviewEvent::OpenEditor => {
                vec![Action::OpenEditor(EditTarget::Proposal, review.command())]
            }
            ReviewEvent::Cancelled => self.stop(now),
            ReviewEvent::Decided(decision) => {
                let call = review.call().clone();
                match decision {
                    Decision::Reject { reason } if !reason.is_empty() => self.reject(call, &reason, now),
                    decision => self.decide(call, decision, now),
                }
            }
        }
    }

    fn key_in_cards(&mut self, key: KeyEvent, now: Duration) -> Vec<Action> {
        if let Some(actions) = self.key_in_search(key, now) {
            return actions;
        }
        match key.code {
            KeyCode::Char('/') => self.begin_search(),
            KeyCode::Char('y') => return self.copy_card(now),
            KeyCode::Tab | KeyCode::Up | KeyCode::Char('k') => self.history.focus_previous(&self.transcript),
            KeyCode::Down | KeyCode::Char('j') => self.history.focus_next(&self.transcript),
            KeyCode::Enter | KeyCode::Char(' ') => self.history.toggle(),
            KeyCode::Char('o') => return self.whole_output(now),
            KeyCode::Esc | KeyCode::Char('q' | 'i') => self.leave_cards(),
            KeyCode::Char(_) if (key.modifiers - KeyModifiers::SHIFT).is_empty() => {
                self.leave_cards();
                return self.key_in_box(key, now);
            }
            _ => {}
        }
        Vec::new()
    }

    fn enter_cards(&mut self) {
        self.history.focus_last(&self.transcript);
        if self.history.focused().is_some() {
            self.focus = Focus::Cards;
        }
    }

    pub(super) fn leave_cards(&mut self) {
        self.end_search();
        self.history.unfocus();
        self.focus = Focus::Box;
    }

    /// Opens the full text of the focused card in the pager.
    fn whole_output(&mut self, now: Duration) -> Vec<Action> {
        let item = self.history.focused().and_then(|id| self.transcript.item(id));
        match item.map(|item| &item.body) {
            Some(ItemBody::ToolOutput(output)) => match &output.outcome {
                Some(outcome) => page(outcome),
                None => {
                    let (text, styles) = split_styles(&output.tail);
                    vec![Action::PageOutput(text.into_owned(), styles)]
                }
            },
            Some(ItemBody::Proposal(plan)) => {
                let id = ItemId::ToolOutput(plan.call.id.clone());
                let artifact = match self.transcript.item(&id).map(|item| &item.body) {
                    Some(ItemBody::ToolOutput(output)) => {
                        output.outcome.as_ref().and_then(|outcome| outcome.artifact.clone())
                    }
                    _ => None,
                };
                vec![artifact.map_or_else(|| Action::OpenPager(plan.command.clone()), Action::PageArtifact)]
            }
            Some(ItemBody::Prompt(prompt)) => vec![Action::OpenPager(prompt.text.clone())],
            Some(ItemBody::Answer(text) | ItemBody::Reasoning(text)) => {
                vec![Action::OpenPager(text.text.clone())]
            }
            Some(ItemBody::Notice(_) | ItemBody::End(_)) | None => {
                self.show_flash("nothing more to show", now);
                Vec::new()
            }
        }
    }

    pub(super) fn key_in_box(&mut self, key: KeyEvent, now: Duration) -> Vec<Action> {
        if let Some(actions) = self.key_in_completion(key) {
            return actions;
        }
        let empty = self.composer().is_empty();
        match key.code {
            KeyCode::Enter if !text_area::is_newline(key) => {
                // As in a shell, a backslash at the end of a line continues it.
                if self.composer().before_cursor().ends_with('\\') {
                    let composer = self.composer_mut();
                    composer.key(KeyEvent::from(KeyCode::Backspace));
                    composer.area_mut().insert_newline();
                    return Vec::new();
                }
                return self.submit(now);
            }
            KeyCode::Esc => return self.escape(now),
            KeyCode::Char('d') if empty && key.modifiers == KeyModifiers::CONTROL => {
                return self.end_of_input(now);
            }
            KeyCode::Char('?') if empty => {
                self.overlay = Some(Overlay::help());
                return Vec::new();
            }
            KeyCode::Char('g') if key.modifiers == KeyModifiers::CONTROL => {
                return vec![Action::OpenEditor(EditTarget::Draft, self.composer().text())];
            }
            KeyCode::Char('r') if key.modifiers == KeyModifiers::CONTROL => {
                self.search_prompt_history(now);
                return Vec::new();
            }
            KeyCode::Char('o') if key.modifiers == KeyModifiers::CONTROL => {
                self.enter_cards();
                return Vec::new();
            }
            KeyCode::Tab if self.next_example() => return Vec::new(),
            KeyCode::Char('v') if key.modifiers == KeyModifiers::CONTROL => return vec![Action::PasteImage],
            KeyCode::Tab if empty => {
                self.enter_cards();
                return Vec::new();
            }
            KeyCode::Up if key.modifiers.is_empty() && self.composer().at_top() => {
                return self.history_previous(now);
            }
            KeyCode::Down if key.modifiers.is_empty() && self.composer().at_bottom() => {
                return self.history_next();
            }
            _ => {}
        }
        match self.composer_mut().key(key) {
            EditResult::Changed => {
                self.prompt_history.changed();
                self.complete()
            }
            EditResult::Moved => {
                self.completion = None;
                Vec::new()
            }
            EditResult::Nothing => Vec::new(),
        }
    }

    /// Handles Esc, which cancels the turn, or scrolls to the end of the history if no turn is running.
    fn escape(&mut self, now: Duration) -> Vec<Action> {
        match (self.state(), self.transcript.phase()) {
            _ if !self.undelivered().is_empty() => vec![Action::TakeBack(self.undelivered().to_vec())],
            (_, SessionPhase::Stopping) => Vec::new(),
            (_, SessionPhase::Paused { .. }) => self.stop(now),
            (state, _) if state.is_busy() => self.stop(now),
            _ => {
                self.history.scroll(Scroll::End);
                Vec::new()
            }
        }
    }

    /// Handles keys for the completion list. Returns `None` if the key is meant for the composer.
    fn key_in_completion(&mut self, key: KeyEvent) -> Option<Vec<Action>> {
        let completion = self.completion.as_mut()?;
        match key.code {
            KeyCode::Down if key.modifiers.is_empty() => completion.choose(1),
            KeyCode::Up if key.modifiers.is_empty() => completion.choose(-1),
            KeyCode::Esc => self.completion = None,
            KeyCode::Tab => return Some(self.accept()),
            KeyCode::Enter if completion.chosen.is_some() && !text_area::is_newline(key) => {
                return Some(self.accept());
            }
            KeyCode::BackTab => completion.choose(-1),
            KeyCode::Enter if !text_area::is_newline(key) => {
                self.take_first_command();
                return None;
            }
            _ => return None,
        }
        Some(Vec::new())
    }

    /// Replaces an abbreviated command with the first candidate.
    fn take_first_command(&mut self) {
        let Some(completion) = self.completion.take() else { return };
        let shown = self.composer().display_text();
        if let Some(first) =
            completion.offers.first().filter(|_| completion.word == shown && shown.starts_with('/'))
            && !completion.offers.iter().any(|offer| offer.name == shown)
        {
            self.composer_mut().replace_word(&first.name);
        }
    }

    fn accept(&mut self) -> Vec<Action> {
        let Some(text) = self.completion.take().and_then(|completion| completion.text()) else {
            return Vec::new();
        };
        self.composer_mut().replace_word(&text);
        self.complete()
    }

    /// Updates the completions for the word at the cursor. For a path, returns the request for paths.
    pub(super) fn complete(&mut self) -> Vec<Action> {
        let composer = self.composer();
        let whole = composer.before_cursor() == composer.display_text();
        let known = self.known.clone().with_skills(self.skills());
        match completion::completion_request(composer.before_cursor(), whole, &known) {
            completion::CompletionRequest::Offers(completion) => self.completion = Some(completion),
            completion::CompletionRequest::Nothing => self.completion = None,
            completion::CompletionRequest::Paths(word) => {
                // Results for a prefix of the word stay until new ones arrive.
                let word_now = format!("@{word}");
                if self.completion.as_ref().is_some_and(|open| !word_now.starts_with(&open.word)) {
                    self.completion = None;
                }
                return vec![Action::FindPaths(word)];
            }
        }
        Vec::new()
    }

    /// Offers the paths found for `word`, unless the word at the cursor has changed in the meantime.
    pub fn offer_paths(&mut self, word: &str, paths: Vec<String>) {
        if self.composer().word() == format!("@{word}")
            && self.review.is_none()
            && self.question_prompt.is_none()
        {
            self.completion = Completion::paths(word, paths);
        }
    }

    /// Applies the text from the user's editor. `text` is `None` if the old text must be kept.
    pub fn edited(&mut self, what: EditTarget, text: Option<String>, now: Duration) -> Vec<Action> {
        let Some(text) = text else { return Vec::new() };
        match what {
            EditTarget::Draft => {
                let composer = self.composer_mut();
                composer.set(text.strip_suffix('\n').unwrap_or(&text));
                composer.to_end();
            }
            EditTarget::Proposal => match &mut self.review {
                Some(review) => review.edited(&text),
                None => self.show_flash("that command no longer needs approval", now),
            },
        }
        self.preview_edited()
    }

    /// Requests the effect of an edited command.
    fn preview_edited(&mut self) -> Vec<Action> {
        self.assess_review();
        let is_offline = self.is_offline();
        let Some(review) = self.review.as_mut().filter(|_| !is_offline) else { return Vec::new() };
        let call = review.call().clone();
        let request = review.take_preview_request().map(|command| Input::PreviewCommand { call, command });
        request.map(Action::Send).into_iter().collect()
    }

    fn submit(&mut self, now: Duration) -> Vec<Action> {
        self.completion = None;
        let composer = self.composer_mut();
        if composer.text().trim().is_empty() {
            // A user who only presses Enter gets something to send.
            self.next_example();
            return Vec::new();
        }
        let text = composer.text();
        let refusal = match parse(&text, self.skills()) {
            InputLine::Wrong(why) => Some(why),
            line => self.line_refusal(&line),
        };
        if let Some(why) = refusal {
            // The line stays in the box, to be corrected or sent later.
            self.show_flash(why, now);
            return Vec::new();
        }
        if self.draft_answer().is_some() && !self.accepts_answers(now) {
            // The message was meant for what was on the screen before the proposal. It stays in the box.
            return Vec::new();
        }
        if let Some(actions) = self.answer_with_draft(now) {
            return actions;
        }
        self.composer_mut().take();
        let mut actions: Vec<Action> = self.remember(&text).into_iter().collect();
        self.history.scroll(Scroll::End);
        actions.extend(self.line(&text, now));
        actions
    }

    /// Adds a prompt to the history. As in a shell, one that starts with a space is not written to the file.
    pub(super) fn remember(&mut self, text: &str) -> Option<Action> {
        (self.prompt_history.push(text) && !text.starts_with(' '))
            .then(|| Action::AppendPromptHistory(text.to_owned()))
    }

    /// Returns true if no turn is running and nothing is being sent.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.state(), State::Input | State::Done) && *self.transcript.phase() == SessionPhase::Idle
    }
}

/// Returns true if the key inserts or deletes text.
fn is_text(key: KeyEvent) -> bool {
    let plain = (key.modifiers - KeyModifiers::SHIFT).is_empty();
    matches!(key.code, KeyCode::Char(_) | KeyCode::Backspace) && plain
}
