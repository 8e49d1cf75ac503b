//! State of the front end: a transcript and the user's input. Pure: it does no I/O and reads no clock.
//!
//! Keys and updates go in, `Action`s come out, and `frame` draws the state. `now` is the time since the start.

mod action;
mod background;
mod branch;
mod commands;
mod completion;
mod composer;
mod copying;
mod draft_answer;
mod key_debounce;
mod keys;
mod leaving;
mod meter;
mod overlay;
mod pending_key;
mod prompt_history;
mod question_prompt;
mod queued;
mod review;
mod rule_offer;
mod search;
mod sent;
mod server_link;
mod sessions_list;
mod start_screen;
mod state;
mod status;
mod text_area;
mod waiting;

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use sysop_core::event::{ConfigChange, Delta, Event, Input, Logged, StopReason, Update};
use sysop_core::id::{CallId, Seq, SessionId, Timestamp};
use sysop_core::model_table::ModelPrice;
use sysop_core::policy::{CommandContext, Policy, Risk, Survey};
use sysop_core::question::QuestionId;
use sysop_core::skill::Skill;
use sysop_core::spec::SessionSpec;
use sysop_core::transcript::{Backfill, Item, ItemBody, ItemId, SessionPhase, Transcript};
use sysop_driver::frontend::{NamedItem, Routine};
use sysop_term::command::CompletionNames;
use sysop_term::theme::{Theme, ThemeName};

pub use self::action::{Action, EditTarget, ExitReason};
pub use self::background::BackgroundStatus;
pub use self::completion::{Completion, OFFERED_MAX, PATHS_MAX};
pub use self::composer::Composer;
pub use self::draft_answer::DraftAnswer;
pub use self::key_debounce::KEY_DEBOUNCE;
pub use self::keys::ctrl_c;
use self::meter::UsageMeter;
pub use self::overlay::{Overlay, PickerTarget};
#[cfg(test)]
pub(crate) use self::pending_key::LETTER_PAUSE;
pub use self::prompt_history::PromptHistory;
pub use self::question_prompt::QuestionPrompt;
pub use self::review::{Review, ReviewMode};
pub use self::search::TranscriptSearch;
pub use self::start_screen::{RecentSession, StartScreen, StartTarget};
pub use self::state::State;
pub use self::status::{ActivityIndicator, StatusPart, StatusSegment, Tone};
pub use self::text_area::rows as text_area_rows;
use crate::RunningTurnPolicy;

/// Duration for which a flash message is shown.
const FLASH: Duration = Duration::from_secs(4);
/// Reading time per character of a flash message that is too long for [`FLASH`].
const FLASH_READING: Duration = Duration::from_millis(60);
/// Maximum duration of a flash message.
pub(crate) const FLASH_MAX: Duration = Duration::from_secs(15);
/// Minimum duration for which a flash message stays, even if something else happens.
const FLASH_MIN: Duration = Duration::from_secs(1);
/// Maximum time to wait until a sent input appears in the log. After that, the input counts as lost.
const EXPECT: Duration = Duration::from_secs(2);

/// Message while a session is being opened.
pub const OPENING: &str = "opening…";

#[derive(Default)]
pub struct AppOptions {
    pub theme: ThemeName,
    /// True if the theme is chosen to fit the terminal.
    pub detects_theme: bool,
    /// Prices of tokens, by `PROVIDER/NAME`.
    pub prices: HashMap<String, ModelPrice>,
    pub leaving: RunningTurnPolicy,
    /// Parts of the status line, in order; the default parts if empty.
    pub status_line: Vec<StatusPart>,
    /// The user's local home directory, which is shown as `~`.
    pub home: Option<String>,
    /// Time at which the front end started, for countdowns; `None` if unknown.
    pub started: Option<Timestamp>,
}

/// Data of the session service, available once it is connected.
#[derive(Default)]
pub struct ServiceCatalog {
    pub routines: Vec<Routine>,
    pub hosts: Vec<NamedItem>,
}

/// Part of the screen that receives keys unless an overlay, question or proposal handles them first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Focus {
    #[default]
    Box,
    Cards,
}

/// A message in the line above the composer, which covers the activity there.
struct Flash {
    text: String,
    since: Duration,
    until: Duration,
}

/// State of the front end; everything on the screen is drawn from it.
pub struct App {
    transcript: Transcript,
    session: Option<SessionId>,
    /// Position of the last event in the log when the session was opened. Events up to this position are replayed.
    replay_until: Seq,
    rules: (Vec<String>, Vec<String>),
    /// Policy that is built from `rules` when it is first needed.
    policy: OnceCell<Policy>,
    catalog: ServiceCatalog,
    /// True once the session service is connected.
    connected: bool,
    known: CompletionNames,
    /// Skills and commands that the session service found for the session.
    skills: Vec<Skill>,
    theme: ThemeName,
    leaving: RunningTurnPolicy,
    status_line: Vec<StatusPart>,
    home: Option<String>,
    started: Option<Timestamp>,
    branch: branch::Branch,
    start_screen: StartScreen,
    search: Option<TranscriptSearch>,
    selection: Option<copying::Selection>,
    /// Text that was selected with the mouse and has not been copied to the clipboard yet.
    selected_text: Option<String>,
    /// Composer for the next prompt, in use while no turn is running.
    input: Composer,
    /// Composer while the session is busy; text sent from it is queued.
    next: Composer,
    prompt_history: PromptHistory,
    completion: Option<Completion>,
    review: Option<Review>,
    /// Call that the user allowed or rejected in this front end, and the state to show until the log confirms it.
    decided: Option<(CallId, State)>,
    question_prompt: Option<QuestionPrompt>,
    /// Time until which keys are ignored, because a question closed while the user was typing the answer.
    keys_muted_until: Option<Duration>,
    answer_repeats: key_debounce::AnswerRepeats,
    answered_questions: HashSet<QuestionId>,
    overlay: Option<Overlay>,
    /// Theme to restore if the user cancels the preview.
    theme_before: Option<ThemeName>,
    /// True while the theme is chosen to fit the terminal.
    is_theme_auto: bool,
    /// True if the list of messages to fork from must open once the session has been loaded.
    fork_next: bool,
    focus: Focus,
    /// Flash message that is being shown.
    flash: Option<Flash>,
    last_key: Option<Duration>,
    /// Input that was sent but is not in the log yet, and the time at which it was sent.
    pending_ack: Option<(PendingAck, Duration)>,
    meter: UsageMeter,
    /// Prompts queued until the turn ends.
    queued: Vec<String>,
    /// Prompts in `queued` that were written in this front end.
    own_queued: Vec<String>,
    /// Prompts of `own_queued` that this front end takes back, and prompts that waited for another process.
    withdrawing: Vec<String>,
    /// Own prompts that returned to the composer when their turn ended. The session may queue them again.
    returned: Vec<String>,
    sent: sent::SentPrompts,
    server_link: server_link::ServerLink,
    /// Sessions that the user left while a turn was running, with their status.
    background_sessions: Vec<(SessionId, BackgroundStatus)>,
    pending_list: Option<overlay::ListKind>,
    /// Truncated item whose full text was last requested.
    recalled_for: Option<ItemId>,
    /// True if the last turn used tools and succeeded, and no key has been pressed since.
    done: bool,
    pausing: bool,
    /// True after the first Ctrl+C in a turn.
    interrupted: bool,
    question_interrupted: bool,
    /// True if the last key was answered with a message about the proposal under review.
    is_message_new: bool,
    leave_asked: Option<Duration>,
    /// Call under review that leaving stopped.
    stopped_call: Option<String>,
    /// Time until which a second Ctrl+D stops the running work and exits.
    quit_asked: Option<Duration>,
    pub history: crate::view::HistoryView,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PendingAck {
    Turn,
    /// The turn of a call of the user's own, without the model.
    Call,
    Event,
}

impl App {
    /// Creates a front end without a session.
    pub fn new(setup: AppOptions) -> Self {
        Self {
            transcript: Transcript::new(),
            session: None,
            replay_until: Seq(0),
            rules: Default::default(),
            policy: OnceCell::new(),
            catalog: ServiceCatalog::default(),
            connected: false,
            known: CompletionNames::default(),
            skills: Vec::new(),
            theme: setup.theme,
            leaving: setup.leaving,
            status_line: setup.status_line,
            home: setup.home,
            started: setup.started,
            branch: branch::Branch::default(),
            start_screen: StartScreen::default(),
            search: None,
            selection: None,
            selected_text: None,
            input: Composer::default(),
            next: Composer::default(),
            prompt_history: PromptHistory::default(),
            completion: None,
            review: None,
            decided: None,
            question_prompt: None,
            keys_muted_until: None,
            answer_repeats: Default::default(),
            answered_questions: HashSet::new(),
            overlay: None,
            theme_before: None,
            is_theme_auto: setup.detects_theme,
            fork_next: false,
            focus: Focus::Box,
            flash: None,
            last_key: None,
            pending_ack: None,
            meter: UsageMeter::new(setup.prices),
            queued: Vec::new(),
            own_queued: Vec::new(),
            withdrawing: Vec::new(),
            returned: Vec::new(),
            sent: Default::default(),
            server_link: Default::default(),
            background_sessions: Vec::new(),
            pending_list: None,
            recalled_for: None,
            done: false,
            pausing: false,
            interrupted: false,
            question_interrupted: false,
            is_message_new: false,
            leave_asked: None,
            stopped_call: None,
            quit_asked: None,
            history: crate::view::HistoryView::default(),
        }
    }

    /// Stores the data from the session service once it is connected.
    pub fn connected(&mut self, catalog: ServiceCatalog) {
        self.known = CompletionNames {
            routines: catalog.routines.iter().map(|it| (it.name.clone(), it.description.clone())).collect(),
            hosts: catalog.hosts.iter().map(|it| (it.name.clone(), it.description.clone())).collect(),
            skills: Vec::new(),
        };
        self.catalog = catalog;
        self.connected = true;
    }

    /// Stores the session's skills and commands once they have been found.
    pub fn set_skills(&mut self, skills: Vec<Skill>) {
        self.skills = skills;
    }

    /// Sets the prompt history once it has been loaded.
    pub fn set_prompt_history(&mut self, prompt_history: PromptHistory) {
        self.prompt_history = prompt_history;
    }

    /// Switches to a session whose log ends at `last`. Returns the transcript of the previous session.
    pub fn opened(&mut self, id: SessionId, last: Seq, spec: &SessionSpec) -> Transcript {
        let transcript = if last == Seq(0) { Transcript::of(spec) } else { Transcript::new() };
        let before = std::mem::replace(&mut self.transcript, transcript);
        self.skills.clear();
        if self.flash().is_some_and(|text| text == OPENING) {
            self.flash = None;
        }
        self.background_sessions.retain(|(other, _)| *other != id);
        self.recalled_for = None;
        self.own_queued.clear();
        self.withdrawing.clear();
        self.returned.clear();
        (self.sent, self.server_link) = Default::default();
        self.rules = (spec.dangerous_patterns.clone(), spec.deny.clone());
        self.policy = OnceCell::new();
        self.replay_until = last;
        self.session = Some(id);
        self.review = None;
        self.decided = None;
        self.question_prompt = None;
        self.answered_questions.clear();
        self.pending_ack = None;
        self.meter.begin();
        self.queued.clear();
        (self.done, self.pausing, self.interrupted, self.question_interrupted) = Default::default();
        self.focus = Focus::Box;
        (self.branch, self.search, self.selection) = Default::default();
        self.history = crate::view::HistoryView::default();
        self.move_draft();
        before
    }

    /// Sets the name under which a server's updates name the user.
    pub fn set_viewer(&mut self, viewer: Option<&str>) {
        self.transcript.set_viewer(viewer);
    }

    /// Returns a request for the full text of the first visible item with truncated text. Returns `None` if
    /// there is no such item or its text has already been requested.
    pub fn backfill(&mut self) -> Option<Backfill> {
        let id = self.history.truncated_item()?.clone();
        if self.recalled_for.as_ref() == Some(&id) {
            return None;
        }
        let recall = self.transcript.backfill(&id);
        self.recalled_for = Some(id);
        recall
    }

    /// Restores the full text of truncated items.
    pub fn recalled(&mut self, items: Vec<Item>) {
        self.transcript.restore_items(items);
    }

    /// Reports that a session could not be opened, for the reason `why`.
    pub fn open_failed(&mut self, why: String, now: Duration) {
        self.fork_next = false;
        self.show_flash(why, now);
    }

    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Returns the id of the session, or `None` if no session is open yet.
    pub fn session(&self) -> Option<&SessionId> {
        self.session.as_ref()
    }

    /// Changes the theme for this run only.
    pub fn set_theme(&mut self, theme: ThemeName) {
        match &mut self.theme_before {
            // A preview is on the screen.
            Some(before) => *before = theme,
            None => self.theme = theme,
        }
    }

    /// Returns the time spent in the current phase.
    pub fn waited(&self, now: Duration) -> Duration {
        self.meter.waited(now)
    }

    /// Returns the duration of the current or last turn, or `None` if there was none.
    pub fn turn_time(&self, now: Duration) -> Option<Duration> {
        self.meter.turn(now)
    }

    pub fn theme(&self) -> ThemeName {
        self.theme
    }

    /// Returns the part of the screen that receives keys unless something in front of it handles them.
    pub fn focus(&self) -> Focus {
        self.focus
    }

    pub fn review(&self) -> Option<&Review> {
        self.review.as_ref()
    }

    /// Returns the review of the current proposal, for drawing.
    pub fn review_mut(&mut self) -> Option<&mut Review> {
        self.review.as_mut()
    }

    pub fn question_prompt(&self) -> Option<&QuestionPrompt> {
        self.question_prompt.as_ref()
    }

    pub fn overlay(&self) -> Option<&Overlay> {
        self.overlay.as_ref()
    }

    pub fn overlay_mut(&mut self) -> Option<&mut Overlay> {
        self.overlay.as_mut()
    }

    /// Returns true if a proposal or question is waiting for the user.
    pub fn needs_user(&self) -> bool {
        self.review.is_some() || self.question_prompt.is_some()
    }

    /// Returns the completions for the word at the cursor, if any.
    pub fn completion(&self) -> Option<&Completion> {
        self.completion.as_ref()
    }

    /// Returns the current flash message, if any.
    pub fn flash(&self) -> Option<&str> {
        self.flash.as_ref().map(|flash| flash.text.as_str())
    }

    /// Returns the composer in use: for the next prompt if the session is idle, for queued prompts if busy.
    pub fn composer(&self) -> &Composer {
        if self.state().is_busy() { &self.next } else { &self.input }
    }

    /// Returns the composer in use, for drawing and editing.
    pub fn composer_mut(&mut self) -> &mut Composer {
        if self.state().is_busy() { &mut self.next } else { &mut self.input }
    }

    #[cfg(test)]
    pub(crate) fn written_now(&self) -> String {
        self.input.text()
    }

    /// Returns true while the session's existing log is being replayed.
    pub fn is_replaying(&self) -> bool {
        self.transcript.seq() < self.replay_until
    }

    /// Returns the state of the session as shown to the user.
    pub fn state(&self) -> State {
        if self.is_replaying() {
            return State::Input;
        }
        if matches!(self.pending_ack, Some((PendingAck::Turn | PendingAck::Call, _)))
            && *self.transcript.phase() == SessionPhase::Idle
        {
            return State::Thinking;
        }
        match (State::of(&self.transcript), self.transcript.phase(), &self.decided) {
            (State::ReviewAction, SessionPhase::AwaitingApproval { call }, Some((decided, then)))
                if call == decided =>
            {
                *then
            }
            (State::Input, SessionPhase::Idle, _) if self.done => State::Done,
            (state, ..) => state,
        }
    }

    /// Returns the item that is shown in the middle pane and therefore left out of the history: the proposal under
    /// review, or the output of the running tool. The notice of a pause is left out, too: the activity line says it.
    pub fn middle(&self) -> Option<ItemId> {
        match (self.state(), self.transcript.phase()) {
            (State::ReviewAction, SessionPhase::AwaitingApproval { call }) => {
                Some(ItemId::Proposal(call.clone()))
            }
            (State::Executing, SessionPhase::Running { call }) => Some(ItemId::ToolOutput(call.clone())),
            // A requested pause begins when the command ends.
            (_, SessionPhase::Paused { .. }) => {
                let running = self.transcript.still_running().map(ItemId::ToolOutput);
                running.or_else(|| self.transcript.pause_notice())
            }
            _ => None,
        }
    }

    /// Returns the risk of the proposal under review, with the command in its current, possibly edited form. Returns
    /// `None` if no proposal is under review.
    pub fn risk(&self) -> Option<Risk> {
        let review = self.review.as_ref()?;
        let plan = self.transcript.plan(review.call())?;
        if review.is_edited() {
            if let Some((_, risk)) =
                plan.previewed_edit.as_ref().filter(|(command, _)| *command == review.command())
            {
                return Some(risk.clone());
            }
            let policy = self.policy.get_or_init(|| Policy::new(&self.rules.0, &self.rules.1));
            return Some(policy.risk(&review.command(), &Survey::elsewhere(CommandContext::bash())));
        }
        Some(plan.risk.clone())
    }

    /// Updates the review with the risk of its command, and with the command to which the known effect belongs.
    fn assess_review(&mut self) {
        let class = self.risk().map(|risk| risk.class);
        let (Some(review), Some(class)) = (&mut self.review, class) else { return };
        if let Some(plan) = self.transcript.plan(review.call()) {
            review.set_assessment(class, plan.previewed_command());
        }
    }

    /// Returns true if the command in the proposal under review, as currently edited, has a risk class that
    /// always requires asking the user.
    pub fn is_dangerous(&self) -> bool {
        self.risk().is_some_and(|risk| risk.class.always_asks())
    }

    pub fn update(&mut self, update: &Update, now: Duration) {
        self.announce_closed_question(update, now);
        let before = self.transcript.phase().clone();
        self.transcript.apply(update);
        match update {
            Update::Logged(logged) => self.logged(logged, now),
            Update::Delta(delta) => {
                self.meter.delta(delta, now);
                self.note_wait(delta);
                // The session may have refused the decision. If it has not, the log closes the review again.
                if matches!(delta, Delta::Notice { .. }) {
                    self.decided = None;
                }
            }
        }
        if *self.transcript.phase() != before {
            self.meter.phase(self.transcript.still_running(), now);
            // The answer to a key stays until it is read, or until the next key.
            if self.flash.as_ref().is_some_and(|flash| Some(flash.since) != self.last_key) {
                self.drop_old_flash(now);
            }
        }
        if self.fork_next && !self.is_replaying() {
            self.fork_next = false;
            self.pick_message(now);
        }
        self.sync_questions(now);
        self.move_draft();
        self.assess_review();
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the transcript folds the other events")]
    fn logged(&mut self, logged: &Logged, now: Duration) {
        let model = self.transcript.session_info().map(|facts| facts.model.to_string()).unwrap_or_default();
        self.meter.event(&logged.event, &model, now);
        self.branch.event(&logged.event);
        self.forget_old_withdrawals(now);
        match &logged.event {
            Event::SessionOpened { spec, .. } => {
                self.rules = (spec.dangerous_patterns.clone(), spec.deny.clone());
                self.policy = OnceCell::new();
            }
            Event::Configured { change: ConfigChange::Rules { dangerous, deny, .. }, .. } => {
                self.rules.0.extend(dangerous.iter().cloned());
                self.rules.1.extend(deny.iter().cloned());
                self.policy = OnceCell::new();
            }
            Event::PromptQueued { text, .. } => {
                self.queued.push(text.clone());
                self.take_back(text);
                let was_offline = self.server_link.delivered(text);
                let was_sent = self.sent.note_logged(text);
                if was_offline || was_sent {
                    self.own_queued.push(text.clone());
                }
            }
            Event::PromptWithdrawn { text, .. } => self.prompt_withdrawn(text),
            Event::StepStarted { .. } => self.returned.clear(),
            Event::TurnStarted { prompt, .. } => {
                self.prompt_started(prompt);
                self.done = false;
            }
            // From now on, the log says what happens to the call. It may ask again.
            Event::Decided { .. } | Event::ApprovalGiven { .. } => self.decided = None,
            // Canceling a turn also drops the queued prompts, both here and in the session.
            Event::CancelAsked { .. } => self.forget_queued(),
            Event::TurnEnded { reason, .. } => {
                if matches!(reason, StopReason::Cancelled | StopReason::Paused) {
                    self.forget_queued();
                }
                (self.interrupted, self.question_interrupted, self.decided) = Default::default();
                self.done = *reason == StopReason::EndTurn && self.used_tools();
            }
            _ => {}
        }
        if matches!(logged.event, Event::TurnEnded { .. } | Event::Paused { .. }) {
            self.pausing = false;
        }
        if logged.seq > self.replay_until {
            self.note_wait_end(now);
            self.acknowledge(&logged.event);
        } else {
            self.done = false;
        }
    }

    fn acknowledge(&mut self, event: &Event) {
        match (self.pending_ack, event) {
            (
                Some((PendingAck::Turn | PendingAck::Call, _)),
                Event::TurnStarted { .. } | Event::PromptQueued { .. },
            )
            | (Some((PendingAck::Event, _)), _) => self.pending_ack = None,
            (Some((PendingAck::Turn | PendingAck::Call, _)) | None, _) => {}
        }
    }

    fn used_tools(&self) -> bool {
        let items = self.transcript.items().rev().skip_while(|item| matches!(item.body, ItemBody::End(_)));
        items
            .take_while(|item| !matches!(item.body, ItemBody::End(_)))
            .any(|item| matches!(item.body, ItemBody::ToolOutput(_)))
    }

    /// Moves the draft to the composer in use, so that nothing is lost when the session becomes busy or idle.
    fn move_draft(&mut self) {
        let busy = self.state().is_busy();
        let (from, to) =
            if busy { (&mut self.input, &mut self.next) } else { (&mut self.next, &mut self.input) };
        if from.is_unused() {
            return;
        }
        if to.is_empty() {
            std::mem::swap(from, to);
        } else if !from.is_empty() {
            let text = from.take();
            to.to_end();
            to.paste(&format!("\n{text}"));
        }
    }

    /// Reports that the session refused an input.
    pub fn failed(&mut self, sentence: String, now: Duration) {
        if !self.sent.waits_for_process() {
            self.pending_ack = None;
        }
        self.decided = None;
        self.show_flash(sentence, now);
        self.sync_questions(now);
        self.move_draft();
        self.assess_review();
    }

    pub fn draw_history(&mut self, theme: Theme, area: Rect, buffer: &mut Buffer) {
        let middle = self.middle();
        self.history.draw(&self.transcript, middle.as_ref(), theme, area, buffer);
    }

    /// Draws the history, including the item that is usually shown in the middle pane instead.
    pub fn draw_whole_history(&mut self, theme: Theme, area: Rect, buffer: &mut Buffer) {
        self.history.draw(&self.transcript, None, theme, area, buffer);
    }

    /// Records that a frame was rendered. The frame may not be on the terminal yet.
    pub fn note_rendered(&mut self) {
        if self.overlay.is_some() {
            return;
        }
        if let Some(question_prompt) = &mut self.question_prompt {
            question_prompt.debounce.note_rendered();
        } else if let Some(review) = &mut self.review {
            review.debounce.note_rendered();
        }
    }

    /// Resets the debounce because something else is covering the screen. The question or proposal must be
    /// displayed again before a key counts as an answer.
    pub fn reset_debounce(&mut self) {
        if let Some(question_prompt) = &mut self.question_prompt {
            question_prompt.debounce = key_debounce::KeyDebounce::default();
        }
        if let Some(review) = &mut self.review {
            review.debounce = key_debounce::KeyDebounce::default();
            review.take_held();
        }
    }

    /// Records that the newest frame has reached the terminal.
    pub fn note_displayed(&mut self, now: Duration) {
        if self.overlay.is_some() {
            return;
        }
        if let Some(question_prompt) = &mut self.question_prompt {
            question_prompt.debounce.note_displayed(now);
        } else if let Some(review) = &mut self.review {
            review.debounce.note_displayed(now);
        }
    }

    /// Returns true if no question or proposal is open, or it has been displayed long enough to be answered.
    pub fn accepts_answers(&self, now: Duration) -> bool {
        let debounce = match (&self.question_prompt, &self.review) {
            (Some(question_prompt), _) => question_prompt.debounce,
            (None, Some(review)) => review.debounce,
            (None, None) => return true,
        };
        debounce.is_over(now)
    }

    pub fn tick(&mut self, now: Duration) {
        if self.flash.as_ref().is_some_and(|flash| flash.until <= now) {
            self.flash = None;
        }
        self.sent.expire(now);
        if self.ack_expiry().is_some_and(|at| at <= now) {
            self.pending_ack = None;
            self.move_draft();
        }
        if self.leave_asked.is_some_and(|until| until <= now) {
            self.leave_asked = None;
        }
    }

    /// Returns the time of the next screen change that needs no input or update, or `None` if none is due.
    pub fn next_change(&self, now: Duration) -> Option<Duration> {
        let spins = self.activity(now).is_some_and(|activity| activity.moves).then_some(now + status::SPIN);
        let flash = self.flash.as_ref().map(|flash| flash.until);
        let pending_ack = self.ack_expiry();
        let debounce = match (&self.question_prompt, &self.review) {
            (Some(question_prompt), _) => question_prompt.debounce.blocked_until(now),
            (None, Some(review)) => review.debounce.blocked_until(now),
            (None, None) => None,
        };
        let countdown = self.countdown_change(now);
        let letter = self.review.as_ref().and_then(|review| review.held()).map(|(_, due)| due);
        let late = self.server_link.next_late(now);
        let times = [spins, flash, pending_ack, debounce, countdown, letter, self.leave_asked, late];
        times.into_iter().flatten().min()
    }

    /// Shows a flash message for [`FLASH`], or for as long as it takes to read, in place of the current one.
    pub fn show_flash(&mut self, text: impl Into<String>, now: Duration) {
        let text = text.into();
        let reading = FLASH_READING * u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        self.flash = Some(Flash { text, since: now, until: now + reading.clamp(FLASH, FLASH_MAX) });
    }

    /// Ends a flash message as soon as it was shown for [`FLASH_MIN`], because something else is happening now.
    fn drop_old_flash(&mut self, now: Duration) {
        if let Some(flash) = self.flash.as_mut().filter(|flash| flash.text != OPENING) {
            flash.until = flash.until.min(flash.since + FLASH_MIN);
        }
        self.flash.take_if(|flash| flash.until <= now);
    }

    fn send_expecting(&mut self, input: Input, what: PendingAck, now: Duration) -> Vec<Action> {
        if self.refuses_offline(now) {
            return Vec::new();
        }
        self.expect(&input, what, now);
        vec![Action::Send(input)]
    }

    fn stop(&mut self, now: Duration) -> Vec<Action> {
        if self.refuses_offline(now) {
            return Vec::new();
        }
        self.flash = None;
        if let Some(actions) = self.withdraw_all(now) {
            return actions;
        }
        self.transcript.stopping();
        self.pending_ack = None;
        self.sent = Default::default();
        self.review = None;
        self.question_prompt = None;
        self.move_draft();
        vec![Action::Send(Input::Cancel)]
    }
}
