//! Pages of a proposal that is longer than the screen. The question follows the last page.

use std::io;
use std::sync::atomic::AtomicBool;

use sysop_term::StyleRole;

use super::{ApprovalIo, ApprovalPrompt, GUARD, QuestionInput, QuestionStep, draw_question, drop_early_keys};
use crate::render::{row, truncate};

/// Rows of the screen that a page leaves free.
const FREE_ROWS: usize = 3;
const PAGE_ROWS_MIN: usize = 3;

/// Key that turns a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageKey {
    Next,
    Back,
    First,
    /// Shows the rest, up to the question.
    Rest,
}

/// Position in a proposal.
pub(super) struct Pager<'a> {
    question: &'a ApprovalPrompt,
    /// Page on the screen, from 0.
    page: usize,
    rows_per_page: usize,
}

impl<'a> Pager<'a> {
    pub(super) fn new(console: &impl ApprovalIo, question: &'a ApprovalPrompt) -> Self {
        let rows_per_page = console.size().1.saturating_sub(FREE_ROWS).max(PAGE_ROWS_MIN);
        Self { question, page: 0, rows_per_page }
    }

    fn pages(&self) -> usize {
        self.question.rows.len().div_ceil(self.rows_per_page).max(1)
    }

    pub(super) fn has_pages(&self) -> bool {
        self.pages() > 1
    }

    /// Returns true if the question follows the page on the screen.
    pub(super) fn is_at_question(&self) -> bool {
        self.page + 1 >= self.pages()
    }

    /// Draws the page, discards the keys typed before it could be read, and draws the keys.
    pub(super) fn draw(&self, console: &mut impl ApprovalIo, withdrawn: &AtomicBool) -> io::Result<()> {
        let from = (self.page * self.rows_per_page).min(self.question.rows.len());
        let to = (from + self.rows_per_page).min(self.question.rows.len());
        self.question.rows[from..to].iter().try_for_each(|row| console.row(row))?;
        drop_early_keys(console, GUARD, withdrawn)?;
        self.draw_keys(console)
    }

    /// Draws the question, or on an earlier page the keys that turn pages.
    pub(super) fn draw_keys(&self, console: &mut impl ApprovalIo) -> io::Result<()> {
        if self.is_at_question() {
            return draw_question(console, self.question);
        }
        let back = if self.page > 0 { "b back  " } else { "" };
        let (page, pages) = (self.page + 1, self.pages());
        let text = format!("page {page} of {pages}  space next page  {back}q question  n no  ? help");
        // A row that is erased must not be wrapped.
        console.row(&truncate(&row(&text, StyleRole::Warn), console.size().0.saturating_sub(1)))
    }

    /// Handles a key that turns pages. Returns `None` if the input is for the question.
    pub(super) fn turn(
        &mut self,
        console: &mut impl ApprovalIo,
        typed: &QuestionInput,
    ) -> io::Result<Option<QuestionStep>> {
        let Some(key) = self.page_key(typed) else { return Ok(None) };
        let is_at_question = self.is_at_question();
        match key {
            PageKey::Next | PageKey::Rest if is_at_question => return Ok(Some(QuestionStep::Nothing)),
            PageKey::Back | PageKey::First if self.page == 0 => return Ok(Some(QuestionStep::Nothing)),
            PageKey::Next => self.page += 1,
            PageKey::Back => self.page -= 1,
            PageKey::First => self.page = 0,
            PageKey::Rest => {}
        }
        if !is_at_question {
            console.erase_row()?;
        }
        if key == PageKey::Rest {
            // Nothing is left out: the rows stay in the scrollback of the terminal.
            let last = self.pages() - 1;
            let skipped = (self.page + 1) * self.rows_per_page..last * self.rows_per_page;
            self.question.rows[skipped].iter().try_for_each(|row| console.row(row))?;
            self.page = last;
        }
        Ok(Some(QuestionStep::ShowAgain))
    }

    fn page_key(&self, typed: &QuestionInput) -> Option<PageKey> {
        let has_pages = self.has_pages();
        let is_before_question = !self.is_at_question();
        match typed {
            QuestionInput::Page(key) => Some(*key).filter(|_| has_pages),
            QuestionInput::Letter('b') | QuestionInput::EnteredLetter('b') if has_pages => {
                Some(PageKey::Back)
            }
            QuestionInput::Letter('q') | QuestionInput::EnteredLetter('q') | QuestionInput::Escape
                if is_before_question =>
            {
                Some(PageKey::Rest)
            }
            QuestionInput::Letter(_)
            | QuestionInput::EnteredLetter(_)
            | QuestionInput::Text(_)
            | QuestionInput::OtherKey
            | QuestionInput::Escape
            | QuestionInput::Interrupt
            | QuestionInput::Suspend
            | QuestionInput::Pause
            | QuestionInput::Withdrawn => None,
        }
    }
}
