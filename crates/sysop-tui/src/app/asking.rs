//! A question of a program: a secret that nobody sees, a short answer that they do, or first which of both it is.
#![expect(clippy::wildcard_enum_match_arm, reason = "a keyboard has more keys than mean something here")]

use std::fmt;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use secrecy::SecretString;
use secrecy::zeroize::Zeroizing;
use sysop_core::question::{Question, QuestionId, QuestionKind};

use super::guard::Guard;

/// The longest answer, in bytes; a terminal's own lines end at 4095.
const ANSWER_BYTES_MAX: usize = 4_095;

/// The question on the screen.
#[derive(Debug)]
pub struct Asking {
    question: Question,
    line: Line,
    /// Whether the person still has to say if it is a prompt for a secret.
    doubtful: bool,
    pub(super) guard: Guard,
}

/// What came of a key.
#[derive(Debug)]
pub(super) enum Came {
    Nothing,
    Given(SecretString),
    NoSecret,
    Refused,
}

impl Asking {
    pub(super) fn of(question: &Question) -> Self {
        Self {
            doubtful: question.kind == QuestionKind::PerhapsSecret,
            question: question.clone(),
            line: Line::default(),
            guard: Guard::default(),
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
        if self.guard.takes(now) && !self.doubtful {
            let first = text.lines().next().unwrap_or_default();
            first.chars().filter(|sign| !sign.is_control()).for_each(|sign| self.line.push(sign));
        }
    }

    pub(super) fn key(&mut self, key: KeyEvent, now: Duration) -> Came {
        if !self.guard.takes(now) {
            return Came::Nothing;
        }
        if key.code == KeyCode::Esc {
            return Came::Refused;
        }
        let plain = (key.modifiers - KeyModifiers::SHIFT).is_empty();
        match key.code {
            KeyCode::Char('y' | 'Y') if self.doubtful && plain => self.doubtful = false,
            KeyCode::Char('n' | 'N') if self.doubtful && plain => return Came::NoSecret,
            _ if self.doubtful => {}
            KeyCode::Enter => return Came::Given(self.line.take()),
            KeyCode::Backspace => self.line.pop(),
            KeyCode::Char('u' | 'w') if key.modifiers == KeyModifiers::CONTROL => self.line = Line::default(),
            KeyCode::Char('h') if key.modifiers == KeyModifiers::CONTROL => self.line.pop(),
            KeyCode::Char(sign) if plain => self.line.push(sign),
            _ => {}
        }
        Came::Nothing
    }
}

/// A line in one buffer that never grows, so that no copy of it is left behind, and that is wiped when it goes.
struct Line(Zeroizing<String>);

impl Default for Line {
    fn default() -> Self {
        Self(Zeroizing::new(String::with_capacity(ANSWER_BYTES_MAX)))
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Line")
    }
}

impl Line {
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
