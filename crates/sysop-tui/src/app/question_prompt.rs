//! Prompt for a program's question. A secret is typed invisibly, other text visibly; if it is unclear whether
//! the question asks for a secret, the user chooses first.
#![expect(clippy::wildcard_enum_match_arm, reason = "most keys have no binding")]

use std::fmt;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use secrecy::SecretString;
use secrecy::zeroize::Zeroizing;
use sysop_core::question::{Question, QuestionId, QuestionKind};

use super::key_debounce::KeyDebounce;

/// Maximum length of an answer, in bytes: the limit of a terminal's line discipline.
const ANSWER_BYTES_MAX: usize = 4_095;

#[derive(Debug)]
pub struct QuestionPrompt {
    question: Question,
    line: SecretLine,
    /// True until the user has said whether the question asks for a secret.
    doubtful: bool,
    pub(super) debounce: KeyDebounce,
}

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

    pub fn id(&self) -> QuestionId {
        self.question.id
    }

    pub fn question(&self) -> &Question {
        &self.question
    }

    /// Returns true until the user has said whether the question asks for a secret, if that is unclear.
    pub fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    /// Returns the typed text, or `None` if the text must not be shown.
    pub fn shown(&self) -> Option<&str> {
        match self.question.kind {
            QuestionKind::Text => Some(&self.line.0),
            QuestionKind::Secret | QuestionKind::PerhapsSecret => None,
        }
    }

    /// Returns true once the user has typed something.
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

/// Line buffer that is wiped on drop. Its capacity is fixed, because growing would leave copies of the text in memory.
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
        // Exact capacity: shrinking a larger buffer would leave a copy in freed memory.
        let text = SecretString::new(self.0.as_str().into());
        *self = Self::default();
        text
    }
}
