//! Review of a proposal: run it, edit it, or reject it with feedback.
#![expect(clippy::wildcard_enum_match_arm, reason = "most keys have no binding")]

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui_textarea::{CursorMove, TextArea};
use sysop_core::event::Decision;
use sysop_core::id::CallId;
use sysop_core::policy::RiskClass;
use sysop_core::transcript::Proposal;
use sysop_driver::frontend::OfferedRule;
use sysop_term::plan::is_command;

use super::key_debounce::KeyDebounce;
use super::pending_key::LETTER_PAUSE;
use super::text_area;

/// Meaning of the keys during a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewMode {
    Deciding,
    /// Keys edit the command.
    Editing,
    /// Keys write the feedback for the model.
    Rejecting,
    /// The key for "allow for this session" was pressed once; pressed again, it allows the call.
    ConfirmingSession,
    /// Keys confirm or cancel writing the displayed rule.
    ConfirmingRule,
}

pub struct Review {
    call: CallId,
    proposed: String,
    /// True if the proposal is a command, which can be edited.
    editable: bool,
    /// Risk of the command in its current form.
    class: RiskClass,
    /// Command, as last previewed, to which the displayed effect and risk belong.
    described: String,
    /// True if the proposed call can be allowed for the rest of the session.
    session: bool,
    mode: ReviewMode,
    area: TextArea<'static>,
    reason: TextArea<'static>,
    pub(super) debounce: KeyDebounce,
    /// True once the user has returned to the proposal, which is thus known.
    is_known: bool,
    /// Letter that takes effect at the given time, unless another key follows before.
    held: Option<(char, Duration)>,
    scroll: u16,
    /// Number of rows below the visible ones; set when the pane is drawn.
    below: u16,
    /// Number of rows, of visible rows, and of rows from the first that were displayed without a gap.
    rows: u16,
    page: u16,
    seen: u16,
    /// Rows above the command in the pane, and the width of the command in columns; set when the pane is drawn.
    command_place: (usize, u16),
    /// True if the whole command is visible in the editor.
    whole: bool,
    /// Command for which a preview was last requested.
    previewed: String,
    /// Rule for "allow always", or a sentence that says why there is none; `None` until looked up.
    offered: Option<Result<OfferedRule, &'static str>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReviewEvent {
    /// The key was handled, and nothing else needs to be done.
    Consumed,
    /// The key means nothing here. A character begins a draft, whose further characters are not answers.
    Unused,
    /// The key and this one before it are the beginning of a draft: they came too fast for answers.
    Typed(char),
    Decided(Decision),
    /// The call was allowed, and this rule must be written.
    AllowedAlways(OfferedRule),
    Cancelled,
    OpenEditor,
    Message(&'static str),
}

const NOT_EDITABLE: &str = "only commands can be edited; press r to reject with feedback";

const RULE_IS_FOR_PROPOSED: &str = "rules are only available for unedited commands";

const RULE_IS_LOOKED_UP: &str = "looking up the rule; try again in a moment";

pub(super) const AWAITS_PREVIEW: &str = "wait: the effect is being checked";

const EDITED_ONCE_ONLY: &str = "an edited command can only be allowed once";

const ONCE_ONLY: &str = "this kind of command can only be allowed once";

const NOT_CONFIRMED: &str = "nothing allowed yet: a, a allows it for this session; Enter runs it once";

pub(super) const ONLY_CAPITAL_Y: &str = "dangerous command: press Y to run";

/// Key that allows a call for the session.
const SESSION_KEY: char = 'a';

/// Key that shows the rule for "allow always".
const RULE_KEY: char = 'A';

/// Returns true if no modifier but Shift is pressed.
pub(super) fn is_plain(key: KeyEvent) -> bool {
    (key.modifiers - KeyModifiers::SHIFT).is_empty()
}

impl Review {
    pub(super) fn of(plan: &Proposal) -> Self {
        Self {
            call: plan.call.id.clone(),
            proposed: plan.command.clone(),
            editable: is_command(plan),
            class: plan.risk.class,
            described: plan.previewed_command().to_owned(),
            session: plan.session_grant().is_some(),
            mode: ReviewMode::Deciding,
            area: text_area::area(&plan.command),
            reason: text_area::area(""),
            debounce: KeyDebounce::default(),
            is_known: false,
            held: None,
            scroll: 0,
            below: 0,
            rows: 0,
            page: 1,
            seen: 0,
            command_place: (0, 1),
            whole: true,
            previewed: plan.command.clone(),
            offered: None,
        }
    }

    /// Returns true once the rule for "allow always" has been looked up.
    pub(super) fn knows_offer(&self) -> bool {
        self.offered.is_some()
    }

    /// Sets the rule for "allow always", or the reason why there is none, as a sentence.
    pub(super) fn set_offered_rule(&mut self, offered: Result<OfferedRule, &'static str>) {
        self.offered = Some(offered);
    }

    /// Returns the rule for "allow always", or `None` if there is none or the command has been edited.
    pub fn offered_rule(&self) -> Option<&OfferedRule> {
        self.offered.as_ref()?.as_ref().ok().filter(|_| !self.is_edited())
    }

    pub fn call(&self) -> &CallId {
        &self.call
    }

    pub fn mode(&self) -> ReviewMode {
        self.mode
    }

    /// Returns true if there is a command to edit.
    pub fn is_editable(&self) -> bool {
        self.editable
    }

    /// Returns true if only `Y` runs the call, because Enter is too easy to press by accident.
    pub fn takes_capital_y(&self) -> bool {
        matches!(self.class, RiskClass::Dangerous | RiskClass::Lockout)
    }

    /// Sets the risk of the command in its current form, and the command to which the known effect belongs.
    pub(super) fn set_assessment(&mut self, class: RiskClass, described: &str) {
        self.class = class;
        described.clone_into(&mut self.described);
    }

    /// Returns true if the command has been edited, and its effect is not known yet.
    pub fn awaits_preview(&self) -> bool {
        let command = self.command();
        self.is_edited() && self.described != command && !command.trim().is_empty()
    }

    /// Returns true if the call can be allowed for the rest of the session. An edited command can only be allowed once.
    pub fn has_session_grant(&self) -> bool {
        self.session && !self.is_edited()
    }

    /// Returns the command in its current, possibly edited form.
    pub fn command(&self) -> String {
        text_area::text(&self.area)
    }

    /// Returns true if the user has emptied the command, so that there is nothing to run.
    pub fn is_emptied(&self) -> bool {
        self.editable && self.command().trim().is_empty()
    }

    /// Returns true if the user has changed the command.
    pub fn is_edited(&self) -> bool {
        self.editable && self.command() != self.proposed
    }

    /// Returns the command if it has been edited since the last preview request and is not being edited now.
    pub(super) fn take_preview_request(&mut self) -> Option<String> {
        let command = self.command();
        let is_new = self.editable && self.mode != ReviewMode::Editing && command != self.previewed;
        is_new.then(|| {
            self.previewed.clone_from(&command);
            command
        })
    }

    pub fn area(&self) -> &TextArea<'static> {
        &self.area
    }

    /// Returns the command editor, for setting styles.
    pub fn area_mut(&mut self) -> &mut TextArea<'static> {
        &mut self.area
    }

    /// Returns the editor for the feedback to the model.
    pub fn reason_mut(&mut self) -> &mut TextArea<'static> {
        &mut self.reason
    }

    /// Returns the index of the first visible row.
    pub fn scroll(&self) -> u16 {
        self.scroll
    }

    /// Returns true if the last row is displayed, and all rows before have been.
    pub fn is_read(&self) -> bool {
        self.below == 0 && self.seen >= self.rows
    }

    /// Returns the number of rows above the visible ones that were not displayed, as after the key End.
    pub fn unread_above(&self) -> u16 {
        self.scroll.saturating_sub(self.seen)
    }

    /// Returns true if the rows do not fit in the pane.
    pub fn is_long(&self) -> bool {
        self.rows > self.page
    }

    /// Scrolls a proposal or rule that does not fit. Returns false if the key does not scroll.
    pub(super) fn scroll_key(&mut self, code: KeyCode) -> bool {
        if !self.is_answering() || !self.is_long() {
            return false;
        }
        let end = self.rows.saturating_sub(self.page);
        self.scroll = match code {
            KeyCode::PageUp => self.scroll.saturating_sub(self.page),
            KeyCode::PageDown => self.scroll.saturating_add(self.page).min(end),
            KeyCode::Home => 0,
            KeyCode::End => end,
            _ => return false,
        };
        true
    }

    /// Records the total number of rows and the number of visible rows (`page`). Returns the first row to draw.
    pub fn set_viewport(&mut self, rows: u16, page: u16) -> u16 {
        self.scroll = self.scroll.min(rows.saturating_sub(page));
        if rows != self.rows {
            self.seen = 0; // other rows than those that were displayed
        }
        (self.rows, self.page) = (rows, page.max(1));
        self.below = rows.saturating_sub(self.scroll.saturating_add(page));
        if self.scroll <= self.seen {
            self.seen = self.seen.max(rows - self.below);
        }
        self.seen = self.seen.min(rows);
        self.scroll
    }

    /// Records the number of rows above the command, and the width of the command in columns.
    pub fn set_command_place(&mut self, above: usize, columns: u16) {
        self.command_place = (above, columns);
    }

    /// Returns true if the whole command is visible in the editor.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Records the number of rows that the editor needs (`wants`) and the number available to it (`rows`).
    pub fn set_editor_rows(&mut self, wants: u16, rows: u16) {
        self.whole = wants <= rows;
    }

    /// Replaces the command with the text from the user's editor.
    pub(super) fn edited(&mut self, text: &str) {
        let text = text.strip_suffix('\n').unwrap_or(text);
        text_area::replace(&mut self.area, &text_area::strip_invisible(text));
        (self.scroll, self.seen) = (0, 0);
    }

    pub(super) fn paste(&mut self, text: &str) {
        let text = text_area::strip_invisible(text);
        match self.mode {
            // A paste is not an answer.
            ReviewMode::Deciding | ReviewMode::ConfirmingSession | ReviewMode::ConfirmingRule => {}
            ReviewMode::Editing => {
                self.area.insert_str(text);
            }
            ReviewMode::Rejecting => {
                self.reason.insert_str(text.replace('\n', " "));
            }
        }
    }

    pub(super) fn key(&mut self, key: KeyEvent, now: Duration) -> ReviewEvent {
        // Editing and rejecting need no debounce: the user has seen the proposal.
        if self.is_answering() && !self.needs_no_delay(key) && !self.debounce.accepts(now) {
            return self.early_key(key);
        }
        match self.mode {
            ReviewMode::Deciding => match self.letter_to_hold(key) {
                Some(letter) => {
                    self.held = Some((letter, now + LETTER_PAUSE));
                    ReviewEvent::Consumed
                }
                None => self.decision_key(key),
            },
            ReviewMode::ConfirmingSession => self.confirm_session(key),
            ReviewMode::Editing => self.edit(key),
            ReviewMode::Rejecting => self.reject(key),
            ReviewMode::ConfirmingRule => self.confirm_rule(key),
        }
    }

    /// Returns true if the proposal has not been displayed long enough for this key to answer it.
    pub(super) fn is_early(&self, key: KeyEvent, now: Duration) -> bool {
        self.is_answering() && !self.needs_no_delay(key) && self.debounce.blocked_until(now).is_some()
    }

    /// Returns true if the key answers a proposal at once, because it runs nothing.
    fn needs_no_delay(&self, key: KeyEvent) -> bool {
        let is_at_once = match key.code {
            KeyCode::Esc => true,
            KeyCode::Char('r' | 'R' | 'i' | 'I' | 'e' | 'E') => self.is_known,
            _ => false,
        };
        is_at_once && self.mode == ReviewMode::Deciding && is_plain(key)
    }

    /// Returns the letter of a key that must not take effect at once, as it may begin a message. The keys that only
    /// open a confirmation need no delay: there, any other letter begins a message with both.
    fn letter_to_hold(&self, key: KeyEvent) -> Option<char> {
        let KeyCode::Char(letter) = key.code else { return None };
        let is_held = match letter {
            SESSION_KEY => !self.is_read() || !self.has_session_grant(),
            RULE_KEY => !self.is_read() || self.offered_rule().is_none(),
            'Y' | 'r' | 'R' | 'i' | 'I' | 'e' | 'E' => true,
            _ => false,
        };
        (is_held && is_plain(key)).then_some(letter)
    }

    /// Returns the held letter and the time at which it takes effect.
    pub(super) fn held(&self) -> Option<(char, Duration)> {
        self.held
    }

    pub(super) fn take_held(&mut self) -> Option<char> {
        self.held.take().map(|(letter, _)| letter)
    }

    /// Returns true if a single key is an answer.
    pub fn is_answering(&self) -> bool {
        match self.mode {
            ReviewMode::Deciding | ReviewMode::ConfirmingSession | ReviewMode::ConfirmingRule => true,
            ReviewMode::Editing | ReviewMode::Rejecting => false,
        }
    }

    /// Handles a key that came before the question could be read. If a letter opened the question, both are the
    /// beginning of a text, whatever the second one means.
    fn early_key(&mut self, key: KeyEvent) -> ReviewEvent {
        let opened_by = match self.mode {
            ReviewMode::ConfirmingSession => SESSION_KEY,
            ReviewMode::ConfirmingRule => RULE_KEY,
            ReviewMode::Deciding | ReviewMode::Editing | ReviewMode::Rejecting => {
                return ReviewEvent::Consumed;
            }
        };
        match key.code {
            // A key that is held down repeats itself.
            KeyCode::Char(letter) if letter == opened_by => ReviewEvent::Consumed,
            KeyCode::Char(_) if is_plain(key) => self.begin_message(opened_by),
            KeyCode::Esc if self.mode == ReviewMode::ConfirmingRule => self.confirm_rule(key),
            KeyCode::Esc => self.confirm_session(key),
            _ => ReviewEvent::Consumed,
        }
    }

    /// Returns to the proposal, which must be displayed again before a key answers it.
    pub(super) fn decide_again(&mut self) {
        (self.mode, self.debounce, self.is_known) = (ReviewMode::Deciding, KeyDebounce::default(), true);
    }

    /// Returns to the proposal, which the user has read, because a message is being written that begins with `letter`.
    /// No key but the Enter that sends the message answers the proposal.
    fn begin_message(&mut self, letter: char) -> ReviewEvent {
        if self.mode == ReviewMode::ConfirmingRule {
            (self.scroll, self.seen) = (0, 0);
        }
        (self.mode, self.debounce) = (ReviewMode::Deciding, KeyDebounce::over());
        ReviewEvent::Typed(letter)
    }

    pub(super) fn decision_key(&mut self, key: KeyEvent) -> ReviewEvent {
        if !is_plain(key) {
            return ReviewEvent::Consumed;
        }
        match key.code {
            KeyCode::Enter | KeyCode::Char('a' | 'A' | 'Y' | ' ') if !self.is_read() => self.next_page(),
            KeyCode::Enter if self.takes_capital_y() && !self.awaits_preview() => {
                ReviewEvent::Message(ONLY_CAPITAL_Y)
            }
            KeyCode::Char(SESSION_KEY) if self.is_edited() && !self.class.always_asks() => {
                ReviewEvent::Message(EDITED_ONCE_ONLY)
            }
            KeyCode::Char(SESSION_KEY) if !self.has_session_grant() => ReviewEvent::Message(ONCE_ONLY),
            KeyCode::Enter | KeyCode::Char('Y') if self.awaits_preview() => {
                // Asks again, in case the first request was lost.
                self.previewed.clear();
                ReviewEvent::Message(AWAITS_PREVIEW)
            }
            KeyCode::Enter | KeyCode::Char('Y') => self.allow(|command| Decision::Allow { command }),
            KeyCode::Char(RULE_KEY) => self.show_rule(),
            KeyCode::Char(SESSION_KEY) => {
                (self.mode, self.debounce) = (ReviewMode::ConfirmingSession, KeyDebounce::default());
                ReviewEvent::Consumed
            }
            KeyCode::Char('r' | 'R') => {
                self.mode = ReviewMode::Rejecting;
                ReviewEvent::Consumed
            }
            KeyCode::Char('i' | 'I') => self.begin_edit(),
            KeyCode::Char('e' | 'E') if self.editable => ReviewEvent::OpenEditor,
            KeyCode::Char('e' | 'E') => ReviewEvent::Message(NOT_EDITABLE),
            KeyCode::Esc => ReviewEvent::Cancelled,
            KeyCode::Down => self.down(1),
            KeyCode::Up => {
                self.scroll = self.scroll.saturating_sub(1);
                ReviewEvent::Consumed
            }
            // A space may come from scrolling to the end.
            KeyCode::Char(' ') => ReviewEvent::Consumed,
            _ => ReviewEvent::Unused,
        }
    }

    /// Handles the key after the first `a`. `a` allows the call for the session; Enter, `Y` and Esc return to the
    /// proposal, and the first two say so, because they would run it there; any other letter begins a message, and any
    /// other key returns and is handled there.
    fn confirm_session(&mut self, key: KeyEvent) -> ReviewEvent {
        if !is_plain(key) {
            return ReviewEvent::Consumed;
        }
        if key.code == KeyCode::Char(SESSION_KEY) {
            return self.allow(|command| Decision::AllowSession { command });
        }
        self.decide_again();
        match key.code {
            KeyCode::Enter | KeyCode::Char('Y') => ReviewEvent::Message(NOT_CONFIRMED),
            KeyCode::Esc => ReviewEvent::Consumed,
            KeyCode::Char(_) => self.begin_message(SESSION_KEY),
            _ => self.decision_key(key),
        }
    }

    /// Displays the offered rule, because the user must see the rule before confirming it with a key.
    fn show_rule(&mut self) -> ReviewEvent {
        if self.is_edited() {
            return ReviewEvent::Message(RULE_IS_FOR_PROPOSED);
        }
        if let Some(Err(why)) = self.offered {
            return ReviewEvent::Message(why);
        }
        if self.offered.is_none() {
            return ReviewEvent::Message(RULE_IS_LOOKED_UP);
        }
        self.show_from_start();
        self.mode = ReviewMode::ConfirmingRule;
        ReviewEvent::Consumed
    }

    fn confirm_rule(&mut self, key: KeyEvent) -> ReviewEvent {
        if !is_plain(key) {
            return ReviewEvent::Consumed;
        }
        match key.code {
            KeyCode::Enter if !self.is_read() => self.next_page(),
            KeyCode::Enter => match self.offered_rule() {
                Some(offered) => ReviewEvent::AllowedAlways(offered.clone()),
                None => ReviewEvent::Message(RULE_IS_FOR_PROPOSED),
            },
            KeyCode::Esc => {
                self.show_from_start();
                ReviewEvent::Consumed
            }
            KeyCode::Down => self.down(1),
            KeyCode::Up => {
                self.scroll = self.scroll.saturating_sub(1);
                ReviewEvent::Consumed
            }
            // A key that is held down repeats itself.
            KeyCode::Char(RULE_KEY) => ReviewEvent::Consumed,
            // The user is typing a text, and the Enter at its end must not confirm anything.
            KeyCode::Char(_) => self.begin_message(RULE_KEY),
            _ => ReviewEvent::Consumed,
        }
    }

    /// Scrolls down a page, or back to the first row that has not been displayed.
    fn next_page(&mut self) -> ReviewEvent {
        if self.scroll > self.seen {
            self.scroll = self.seen;
            return ReviewEvent::Consumed;
        }
        self.down(self.page)
    }

    fn down(&mut self, rows: u16) -> ReviewEvent {
        self.scroll = self.scroll.saturating_add(rows.min(self.below));
        ReviewEvent::Consumed
    }

    fn begin_edit(&mut self) -> ReviewEvent {
        if !self.editable {
            return ReviewEvent::Message(NOT_EDITABLE);
        }
        self.mode = ReviewMode::Editing;
        self.move_cursor_into_view();
        let command = self.command();
        let clean = text_area::strip_invisible(&command);
        if clean == command {
            return ReviewEvent::Consumed;
        }
        // The editor would hide these characters, but the command would contain them.
        text_area::replace(&mut self.area, &clean);
        ReviewEvent::Message("removed control and invisible characters from the edited command")
    }

    /// Moves the cursor to the last visible line of a command that does not fit, so that the editor shows the page that
    /// the user was reading.
    fn move_cursor_into_view(&mut self) {
        if self.scroll == 0 && self.below == 0 {
            return;
        }
        let (above, columns) = self.command_place;
        let last = (usize::from(self.scroll) + usize::from(self.page)).saturating_sub(above + 1);
        let line = text_area::line_of_row(&self.area, last, columns);
        self.area.move_cursor(CursorMove::Jump(u16::try_from(line).unwrap_or(u16::MAX), u16::MAX));
    }

    /// Handles a key in the command editor. Enter ends the edit, and the proposal must be displayed again before a key
    /// runs the edited command.
    fn edit(&mut self, key: KeyEvent) -> ReviewEvent {
        match key.code {
            KeyCode::Enter if !text_area::is_newline(key) && self.is_emptied() => {
                ReviewEvent::Message("the command is empty; press Esc to restore it")
            }
            KeyCode::Enter if !text_area::is_newline(key) => {
                self.show_from_start();
                // Only once the effect is known does a key run the command.
                match (self.whole, self.takes_capital_y() && !self.awaits_preview()) {
                    (false, _) => ReviewEvent::Message("scroll to the end before running"),
                    (true, true) => ReviewEvent::Message(ONLY_CAPITAL_Y),
                    (true, false) => ReviewEvent::Consumed,
                }
            }
            KeyCode::Esc => {
                self.leave_entry();
                ReviewEvent::Consumed
            }
            _ => {
                text_area::key(&mut self.area, key);
                ReviewEvent::Consumed
            }
        }
    }

    /// Returns to the proposal, from its first row.
    fn show_from_start(&mut self) {
        (self.scroll, self.seen) = (0, 0);
        self.decide_again();
    }

    /// Leaves the editor of the command, which becomes the model's again, or of the feedback, which is kept. Returns
    /// false if neither is open.
    pub(super) fn leave_entry(&mut self) -> bool {
        match self.mode {
            ReviewMode::Editing => {
                self.restore_proposed();
                true
            }
            ReviewMode::Rejecting => {
                self.decide_again();
                true
            }
            ReviewMode::Deciding | ReviewMode::ConfirmingSession | ReviewMode::ConfirmingRule => false,
        }
    }

    fn restore_proposed(&mut self) {
        if self.is_edited() {
            // Undo brings the edit back.
            text_area::replace(&mut self.area, &self.proposed);
            if self.is_edited() {
                // The editor cannot insert all characters of the command.
                self.area = text_area::area(&self.proposed);
            }
            return self.show_from_start();
        }
        self.decide_again();
    }

    fn reject(&mut self, key: KeyEvent) -> ReviewEvent {
        match key.code {
            KeyCode::Enter => {
                let reason = text_area::text(&self.reason).trim().to_owned();
                ReviewEvent::Decided(Decision::Reject { reason })
            }
            KeyCode::Esc => {
                self.leave_entry();
                ReviewEvent::Consumed
            }
            _ if text_area::is_newline(key) => ReviewEvent::Consumed,
            _ => {
                text_area::key(&mut self.reason, key);
                ReviewEvent::Consumed
            }
        }
    }

    fn allow(&self, decision: impl FnOnce(Option<String>) -> Decision) -> ReviewEvent {
        let command = self.command();
        if self.is_emptied() {
            return ReviewEvent::Message("the command is empty; press i to edit it");
        }
        ReviewEvent::Decided(decision(self.is_edited().then_some(command)))
    }
}
