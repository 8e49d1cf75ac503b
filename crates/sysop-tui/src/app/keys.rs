//! What each key does, from what stands in front to what lies behind.
#![expect(clippy::wildcard_enum_match_arm, reason = "a keyboard has more keys than mean something here")]

use std::time::Duration;

use crossterm::event::{
    KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use sysop_core::event::Input;
use sysop_core::text::painted;
use sysop_core::transcript::{Body, ItemId, Phase};
use sysop_driver::people::Answer;

use super::asking;
use super::complete::{self, Completion};
use super::edit::{self, Edit};
use super::guard::WRITING_GUARD;
use super::overlay::Overlay;
use super::review::{self, ReviewMode};
use super::{Act, App, Edited, Expected, Focus, Left, State};
use crate::view::Scroll;
use crate::{BY, Leaving};

/// For how long a second Ctrl+C leaves.
const LEAVE: Duration = Duration::from_secs(3);
/// How many rows one turn of the mouse wheel scrolls.
const WHEEL_ROWS: usize = 3;

/// The key with which a person interrupts; also what SIGINT means.
pub fn ctrl_c() -> KeyEvent {
    KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)
}

fn is_control(key: KeyEvent, letter: char) -> bool {
    key.code == KeyCode::Char(letter) && key.modifiers == KeyModifiers::CONTROL
}

impl App {
    /// Does what a key says.
    pub fn key(&mut self, key: KeyEvent, now: Duration) -> Vec<Act> {
        if key.kind == KeyEventKind::Release {
            return Vec::new();
        }
        self.done = false;
        if is_control(key, 'c') {
            return self.interrupt(now);
        }
        self.leave_asked = None;
        if self.is_deaf(now) {
            return Vec::new();
        }
        let acts = if let Some(acts) = self.everywhere(key, now) {
            acts
        } else if self.overlay.is_some() {
            self.key_in_overlay(key, now)
        } else if self.asking.is_some() {
            self.key_in_question(key, now)
        } else if self.review.is_some() && self.focus == Focus::Box {
            self.key_in_review(key, now)
        } else if self.focus == Focus::Cards {
            self.key_in_cards(key, now)
        } else {
            self.key_in_box(key, now)
        };
        self.settle();
        acts
    }

    /// Whether what is typed is the rest of an answer that nobody waits for any more; ends when the keys rest.
    fn is_deaf(&mut self, now: Duration) -> bool {
        self.deaf = self.deaf.filter(|until| now < *until).map(|_| now + WRITING_GUARD);
        self.deaf.is_some()
    }

    /// Takes in a paste.
    pub fn paste(&mut self, text: &str, now: Duration) -> Vec<Act> {
        self.done = false;
        if self.is_deaf(now) {
            return Vec::new();
        }
        if let Some(overlay) = &mut self.overlay {
            overlay.paste(text);
        } else if let Some(asking) = &mut self.asking {
            asking.paste(text, now);
        } else if let Some(review) =
            self.review.as_mut().filter(|review| review.mode() != ReviewMode::Looking)
        {
            review.paste(text);
        } else {
            self.focus = Focus::Box;
            if let Some(review) = &mut self.review {
                review.guard.writing(now);
            }
            self.past.changed();
            self.composer_mut().paste(text);
            return self.complete();
        }
        Vec::new()
    }

    /// The mouse was used.
    pub fn mouse(&mut self, mouse: MouseEvent) {
        match mouse.kind {
            MouseEventKind::ScrollUp => self.history.scroll(Scroll::Up(WHEEL_ROWS)),
            MouseEventKind::ScrollDown => self.history.scroll(Scroll::Down(WHEEL_ROWS)),
            MouseEventKind::Down(MouseButton::Left) if self.overlay.is_none() => {
                if let Some(id) = self.history.item_at(mouse.row).cloned() {
                    self.history.toggle_item(&id);
                }
            }
            _ => {}
        }
    }

    /// Keys that mean the same whatever is in front.
    fn everywhere(&mut self, key: KeyEvent, now: Duration) -> Option<Vec<Act>> {
        if key.modifiers == KeyModifiers::CONTROL {
            let KeyCode::Char(letter) = key.code else { return self.scrolling(key) };
            return match letter {
                'p' => Some(self.pause_or_resume(now)),
                't' => Some(vec![Act::ShowTerminal]),
                'z' => Some(vec![Act::Suspend]),
                'l' => Some(vec![Act::Redraw]),
                _ => None,
            };
        }
        self.scrolling(key)
    }

    fn scrolling(&mut self, key: KeyEvent) -> Option<Vec<Act>> {
        if self.overlay.is_some() {
            return None;
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

    /// Whether the cursor stands in a text that is being changed.
    fn is_editing(&self) -> bool {
        match &self.review {
            Some(review) => review.mode() != ReviewMode::Looking,
            None => !self.composer().is_empty(),
        }
    }

    /// Ctrl+C: closes what is in front, stops what runs, and then leaves.
    fn interrupt(&mut self, now: Duration) -> Vec<Act> {
        if self.close_overlay() {
            return Vec::new();
        }
        if let Some(asking) = &self.asking
            && !std::mem::replace(&mut self.question_interrupted, true)
        {
            let id = asking.id();
            return self.answer(id, Answer::Refused, now);
        }
        let runs = !matches!(self.transcript.phase(), Phase::Idle) || self.expected.is_some();
        if runs {
            if std::mem::replace(&mut self.interrupted, true) {
                return self.leave(Left::Interrupted);
            }
            self.leave_asked = Some(now + LEAVE);
            return self.stop();
        }
        if self.leave_asked.is_some_and(|until| until > now) {
            return self.leave(Left::Done);
        }
        self.leave_asked = Some(now + LEAVE);
        self.flash = Some(("Ctrl+C again leaves; so does Ctrl+D".to_owned(), now + LEAVE));
        Vec::new()
    }

    /// Leaves; what was being written is found again with the arrows.
    pub fn leave(&mut self, left: Left) -> Vec<Act> {
        let mut acts = Vec::new();
        for text in [self.input.take(), self.next.take()] {
            acts.extend(self.remember(&text));
        }
        let runs = !matches!(self.transcript.phase(), Phase::Idle | Phase::Paused { .. } | Phase::Stopping);
        if runs && self.leaving == Leaving::Stops {
            acts.push(Act::Send(Input::Cancel));
        }
        acts.push(Act::Quit(left));
        acts
    }

    fn pause_or_resume(&mut self, now: Duration) -> Vec<Act> {
        match self.transcript.phase() {
            Phase::Paused { .. } => {
                self.say("goes on", now);
                self.send_expecting(Input::Resume, Expected::Event, now)
            }
            Phase::Idle => {
                self.say("nothing runs that could be paused", now);
                Vec::new()
            }
            Phase::Thinking { .. } | Phase::Waiting { .. } | Phase::Running { .. } | Phase::Stopping
                if std::mem::replace(&mut self.pausing, true) =>
            {
                self.pausing = false;
                self.say("goes on", now);
                vec![Act::Send(Input::Resume)]
            }
            Phase::Thinking { .. } | Phase::Waiting { .. } | Phase::Running { .. } | Phase::Stopping => {
                self.say("pausing after this step", now);
                vec![Act::Send(Input::Pause)]
            }
        }
    }

    fn key_in_question(&mut self, key: KeyEvent, now: Duration) -> Vec<Act> {
        let Some(asking) = &mut self.asking else { return Vec::new() };
        let id = asking.id();
        let answer = match asking.key(key, now) {
            asking::Came::Nothing => return Vec::new(),
            asking::Came::Given(text) => Answer::Given { by: BY.to_owned(), text },
            asking::Came::NoSecret => Answer::NoSecret,
            asking::Came::Refused => Answer::Refused,
        };
        self.answer(id, answer, now)
    }

    fn answer(&mut self, id: sysop_core::question::QuestionId, answer: Answer, now: Duration) -> Vec<Act> {
        self.settled.insert(id);
        self.asking = None;
        self.hidden();
        let mut acts = Vec::new();
        match &answer {
            // Who says so knows what to type instead.
            Answer::NoSecret => acts.push(Act::ShowTerminal),
            Answer::Refused if self.is_working() => self.say("refused; Esc stops the turn", now),
            Answer::Refused => self.say("refused", now),
            Answer::Given { .. } => {}
        }
        acts.insert(0, Act::Answer(id, answer));
        self.follow_questions(now);
        acts
    }

    fn key_in_review(&mut self, key: KeyEvent, now: Duration) -> Vec<Act> {
        let Some(review) = &mut self.review else { return Vec::new() };
        if is_control(key, 'g') && review.is_editable() {
            return vec![Act::OpenEditor(Edited::Proposal, review.command())];
        }
        let early = review.mode() == ReviewMode::Looking && review.guard.waits_until(now).is_some();
        match review.key(key, now) {
            review::Came::Nothing => {
                // What was being written when the proposal came goes on where it was.
                if early && is_text(key) {
                    review.guard.writing(now);
                    self.next.key(key);
                }
                Vec::new()
            }
            review::Came::Said(text) => {
                self.say(text, now);
                Vec::new()
            }
            review::Came::Editor => vec![Act::OpenEditor(Edited::Proposal, review.command())],
            review::Came::Cancelled => self.stop(),
            review::Came::Decided(decision) => {
                let call = review.call().clone();
                self.decide(call, decision, now)
            }
        }
    }

    fn key_in_cards(&mut self, key: KeyEvent, now: Duration) -> Vec<Act> {
        match key.code {
            KeyCode::Up | KeyCode::Char('k') | KeyCode::BackTab => {
                self.history.focus_previous(&self.transcript)
            }
            KeyCode::Down | KeyCode::Char('j') | KeyCode::Tab => self.history.focus_next(&self.transcript),
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

    fn leave_cards(&mut self) {
        self.history.unfocus();
        self.focus = Focus::Box;
    }

    /// The whole of what the card in focus shows a part of.
    fn whole_output(&mut self, now: Duration) -> Vec<Act> {
        let item = self.history.focused().and_then(|id| self.transcript.item(id));
        match item.map(|item| &item.body) {
            Some(Body::Output(output)) => match &output.outcome {
                Some(outcome) => match &outcome.artefact {
                    Some(name) => vec![Act::PagerOfArtefact(name.clone())],
                    None => vec![Act::PagerOfOutput(outcome.output.clone(), outcome.looks.clone())],
                },
                None => {
                    let (text, looks) = painted(&output.tail);
                    vec![Act::PagerOfOutput(text.into_owned(), looks)]
                }
            },
            Some(Body::Plan(plan)) => {
                let id = ItemId::Output(plan.call.id.clone());
                let artefact = match self.transcript.item(&id).map(|item| &item.body) {
                    Some(Body::Output(output)) => {
                        output.outcome.as_ref().and_then(|outcome| outcome.artefact.clone())
                    }
                    _ => None,
                };
                vec![artefact.map_or_else(|| Act::Pager(plan.command.clone()), Act::PagerOfArtefact)]
            }
            Some(Body::Prompt(text)) => vec![Act::Pager(text.clone())],
            Some(Body::Answer(text) | Body::Reasoning(text)) => vec![Act::Pager(text.text.clone())],
            Some(Body::Notice(_) | Body::End(_)) | None => {
                self.say("there is no more of it", now);
                Vec::new()
            }
        }
    }

    fn key_in_box(&mut self, key: KeyEvent, now: Duration) -> Vec<Act> {
        if let Some(acts) = self.key_in_completion(key) {
            return acts;
        }
        let empty = self.composer().is_empty();
        match key.code {
            KeyCode::Enter if !edit::is_newline(key) => {
                // As in a shell: a backslash at the end of a line goes on in the next.
                if self.composer().before_cursor().ends_with('\\') {
                    let composer = self.composer_mut();
                    composer.key(KeyEvent::from(KeyCode::Backspace));
                    composer.area_mut().insert_newline();
                    return Vec::new();
                }
                return self.submit(now);
            }
            KeyCode::Esc => return self.escape(),
            KeyCode::Char('d') if empty && key.modifiers == KeyModifiers::CONTROL => {
                return self.leave(Left::Done);
            }
            KeyCode::Char('?') if empty => {
                self.overlay = Some(Overlay::help());
                return Vec::new();
            }
            KeyCode::Char('g') if key.modifiers == KeyModifiers::CONTROL => {
                return vec![Act::OpenEditor(Edited::Draft, self.composer().text())];
            }
            KeyCode::Char('r') if key.modifiers == KeyModifiers::CONTROL => {
                self.search_past(now);
                return Vec::new();
            }
            KeyCode::Char('o') if key.modifiers == KeyModifiers::CONTROL => {
                self.enter_cards();
                return Vec::new();
            }
            KeyCode::Tab | KeyCode::BackTab if empty => {
                self.enter_cards();
                return Vec::new();
            }
            KeyCode::Up if key.modifiers.is_empty() && self.composer().at_top() => {
                return self.walk_back();
            }
            KeyCode::Down if key.modifiers.is_empty() && self.composer().at_bottom() => {
                return self.walk_on();
            }
            _ => {}
        }
        match self.composer_mut().key(key) {
            Edit::Changed => {
                self.past.changed();
                self.complete()
            }
            Edit::Moved => {
                self.completion = None;
                Vec::new()
            }
            Edit::Nothing => Vec::new(),
        }
    }

    /// Esc: stops what runs; where nothing runs, goes back to the end of the history.
    fn escape(&mut self) -> Vec<Act> {
        match (self.state(), self.transcript.phase()) {
            (_, Phase::Stopping) => Vec::new(),
            (_, Phase::Paused { .. }) => self.stop(),
            (state, _) if state.is_busy() => self.stop(),
            _ => {
                self.history.scroll(Scroll::End);
                Vec::new()
            }
        }
    }

    fn walk_back(&mut self) -> Vec<Act> {
        let now = self.composer().text();
        if let Some(message) = self.past.older(&now).map(str::to_owned) {
            self.composer_mut().set(&message);
        }
        Vec::new()
    }

    fn walk_on(&mut self) -> Vec<Act> {
        if let Some(message) = self.past.newer().map(str::to_owned) {
            self.composer_mut().set(&message);
        }
        Vec::new()
    }

    /// Keys for the list of completions; none where they are for the box.
    fn key_in_completion(&mut self, key: KeyEvent) -> Option<Vec<Act>> {
        let completion = self.completion.as_mut()?;
        match key.code {
            KeyCode::Down if key.modifiers.is_empty() => completion.choose(1),
            KeyCode::Up if key.modifiers.is_empty() => completion.choose(-1),
            KeyCode::Esc => self.completion = None,
            KeyCode::Tab => return Some(self.accept()),
            KeyCode::Enter if completion.chosen.is_some() && !edit::is_newline(key) => {
                return Some(self.accept());
            }
            KeyCode::BackTab => completion.choose(-1),
            KeyCode::Enter if !edit::is_newline(key) => {
                self.take_first_command();
                return None;
            }
            _ => return None,
        }
        Some(Vec::new())
    }

    /// The beginning of a command's name means the first that begins so.
    fn take_first_command(&mut self) {
        let Some(completion) = self.completion.take() else { return };
        let shown = self.composer().shown();
        if let Some(first) =
            completion.offers.first().filter(|_| completion.word == shown && shown.starts_with('/'))
            && !completion.offers.iter().any(|offer| offer.name == shown)
        {
            self.composer_mut().replace_word(&first.name);
        }
    }

    fn accept(&mut self) -> Vec<Act> {
        let Some(text) = self.completion.take().and_then(|completion| completion.text()) else {
            return Vec::new();
        };
        self.composer_mut().replace_word(&text);
        self.complete()
    }

    /// Looks for what the word at the cursor can become.
    fn complete(&mut self) -> Vec<Act> {
        let composer = self.composer();
        let whole = composer.before_cursor() == composer.shown();
        match complete::wanted(composer.before_cursor(), whole, &self.known) {
            complete::Wanted::Offers(completion) => self.completion = Some(completion),
            complete::Wanted::Nothing => self.completion = None,
            complete::Wanted::Paths(word) => {
                // What was found for the beginning of it stays until more is known.
                let word_now = format!("@{word}");
                if self.completion.as_ref().is_some_and(|open| !word_now.starts_with(&open.word)) {
                    self.completion = None;
                }
                return vec![Act::FindPaths(word)];
            }
        }
        Vec::new()
    }

    /// Paths were found that hold a word.
    pub fn found_paths(&mut self, word: &str, paths: Vec<String>) {
        if self.composer().word() == format!("@{word}") && self.review.is_none() && self.asking.is_none() {
            self.completion = Completion::paths(word, paths);
        }
    }

    /// The person's editor was closed; none where it failed, or left nothing.
    pub fn edited(&mut self, what: Edited, text: Option<String>, now: Duration) {
        let Some(text) = text else { return };
        match what {
            Edited::Draft => {
                let composer = self.composer_mut();
                composer.set(text.strip_suffix('\n').unwrap_or(&text));
                composer.to_end();
            }
            Edited::Proposal => match &mut self.review {
                Some(review) => review.edited(&text),
                None => self.say("nobody is asked about that command any more", now),
            },
        }
    }

    /// Sends what was written.
    fn submit(&mut self, now: Duration) -> Vec<Act> {
        self.completion = None;
        let composer = self.composer_mut();
        if composer.text().trim().is_empty() {
            return Vec::new();
        }
        let text = composer.take();
        let mut acts: Vec<Act> = self.remember(&text).into_iter().collect();
        self.history.scroll(Scroll::End);
        acts.extend(self.line(&text, now));
        acts
    }

    /// Keeps a message for the arrows; as in a shell, one that begins with a space gets into no file.
    fn remember(&mut self, text: &str) -> Option<Act> {
        (self.past.push(text) && !text.starts_with(' ')).then(|| Act::Remember(text.to_owned()))
    }

    /// The name of the state for words that the person reads.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.state(), State::Input | State::Done) && *self.transcript.phase() == Phase::Idle
    }
}

/// Whether a key writes or removes text.
fn is_text(key: KeyEvent) -> bool {
    let plain = (key.modifiers - KeyModifiers::SHIFT).is_empty();
    matches!(key.code, KeyCode::Char(_) | KeyCode::Backspace) && plain
}
