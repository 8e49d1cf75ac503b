//! A question of a program: a secret that nobody sees, a short answer that they do, or first which of both it is.
#![expect(clippy::wildcard_enum_match_arm, reason = "a keyboard has more keys than mean something here")]

use std::fmt;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use secrecy::SecretString;
use secrecy::zeroize::Zeroizing;
use sysop_core::question::{Question, QuestionId, QuestionKind};

use super::key_debounce::KeyDebounce;

/// The longest answer, in bytes; a terminal's own lines end at 4095.
const ANSWER_BYTES_MAX: usize = 4_095;

/// The question on the screen.
#[derive(Debug)]
pub struct QuestionPrompt {
    question: Question,
    line: SecretLine,
    /// Whether the person still has to say if it is a prompt for a secret.
    doubtful: bool,
    pub(super) debounce: KeyDebounce,
}

/// What came of a key.
#[derive(Debug)]
pub(super) enum QuestionEvent {
    Consumed,
    Answered(SecretString),
    NoSecret,
    Declined,
}

impl QuestionPrompt {
    pub(super) fn of(question: &Question) -> Self {
        Self {
            doubtful: question.kind == QuestionKind::PerhapsSecret,
            question: question.clone(),
            line: SecretLine::default(),
            debounce: KeyDebounce::default(),
        }
    }

    /// Which question.
    pub fn id(&self) -> QuestionId {
        self.question.id
    }

    /// What is asked.
    pub fn question(&self) -> &Question {
        &self.question
    }

    /// Whether the person first has to say if it is a prompt for a secret.
    pub fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    /// What was typed, where it may be seen.
    pub fn shown(&self) -> Option<&str> {
        match self.question.kind {
            QuestionKind::Text => Some(&self.line.0),
            QuestionKind::Secret | QuestionKind::PerhapsSecret => None,
        }
    }

    /// Whether the person has begun to answer.
    pub(super) fn is_begun(&self) -> bool {
        !self.line.0.is_empty()
    }

    pub(super) fn paste(&mut self, text: &str, now: Duration) {
        if self.debounce.accepts(now) && !self.doubtful {
            let first = text.lines().next().unwrap_or_default();
            first.chars().filter(|sign| !sign.is_control()).for_each(|sign| self.line.push(sign));
        }
    }

    pub(super) fn key(&mut self, key: KeyEvent, now: Duration) -> QuestionEvent {
        if !self.debounce.accepts(now) {
            return QuestionEvent::Consumed;
        }
        if key.code == KeyCode::Esc {
            return QuestionEvent::Declined;
        }
        let plain = (key.modifiers - KeyModifiers::SHIFT).is_empty();
        match key.code {
            KeyCode::Char('y' | 'Y') if self.doubtful && plain => self.doubtful = false,
            KeyCode::Char('n' | 'N') if self.doubtful && plain => return QuestionEvent::NoSecret,
            _ if self.doubtful => {}
            KeyCode::Enter => return QuestionEvent::Answered(self.line.take()),
            KeyCode::Backspace => self.line.pop(),
            KeyCode::Char('u' | 'w') if key.modifiers == KeyModifiers::CONTROL => {
                self.line = SecretLine::default()
            }
            KeyCode::Char('h') if key.modifiers == KeyModifiers::CONTROL => self.line.pop(),
            KeyCode::Char(sign) if plain => self.line.push(sign),
            _ => {}
        }
        QuestionEvent::Consumed
    }
}

/// A line in one buffer that never grows, so that no copy of it is left behind, and that is wiped when it goes.
struct SecretLine(Zeroizing<String>);

impl Default for SecretLine {
    fn default() -> Self {
        Self(Zeroizing::new(String::with_capacity(ANSWER_BYTES_MAX)))
    }
}

impl fmt::Debug for SecretLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Line")
    }
}

impl SecretLine {
    fn push(&mut self, sign: char) {
        if self.0.len() + sign.len_utf8() <= ANSWER_BYTES_MAX {
            self.0.push(sign);
        }
    }

    fn pop(&mut self) {
        self.0.pop();
    }

    fn take(&mut self) -> SecretString {
        // A box of exactly this size: making one of a longer buffer would leave a copy in freed memory.
        let text = SecretString::new(self.0.as_str().into());
        *self = Self::default();
        text
    }
}
