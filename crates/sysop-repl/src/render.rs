//! Draws for a line-oriented terminal: panels, streaming Markdown, proposals, the plain form.
//!
//! Everything here is pure: rows in, bytes out, with width and color as arguments. Text from a model, a file or
//! a command gets into a row only through [`TextSpan::new`], which makes it safe; the only control sequences that
//! come out are the colors that [`Ink`] has.

pub(crate) mod cells;
pub(crate) mod markdown;
pub(crate) mod panel;
pub(crate) mod plan;
pub(crate) mod words;

#[cfg(test)]
pub(crate) mod tests;

use std::borrow::Cow;
use std::fmt::Write as _;

use sysop_core::text::neutralize;

/// Below this many columns a panel has no sides.
pub(crate) const BOX_COLUMNS_MIN: usize = 40;
/// A panel is not drawn wider than this, so that lines stay readable.
pub(crate) const PANEL_COLUMNS_MAX: usize = 120;

/// How to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenderOptions {
    /// Columns of the terminal.
    pub width: usize,
    /// Whether colors are wanted.
    pub color: bool,
}

/// What a piece of text is, and so how it is colored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    /// As the terminal has it.
    Plain,
    /// Borders and what matters less.
    Dim,
    /// Strong text and headings.
    Bold,
    /// Emphasis.
    Italic,
    /// A panel's title.
    Title,
    /// Went well.
    Good,
    /// Went wrong.
    Bad,
    /// Needs a look.
    Warn,
    /// Code and commands.
    Code,
    /// The part of a command that a finding is about.
    Marked,
    /// What a program printed, as it wanted it to look.
    Output(sysop_core::style::TextStyle),
}

impl Ink {
    /// The parameters of its SGR sequence; empty for none.
    fn sgr(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Output(look) => return Cow::Owned(look.legible().to_sgr()),
            Self::Plain => "",
            Self::Dim => "2",
            Self::Bold => "1",
            Self::Italic => "3",
            Self::Title => "1;36",
            Self::Good => "32",
            Self::Bad => "31",
            Self::Warn => "33",
            Self::Code => "36",
            Self::Marked => "1;4;31",
        })
    }
}

/// A piece of one row, safe to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextSpan {
    text: String,
    ink: Ink,
}

impl TextSpan {
    /// Takes any text and makes it safe; a line break becomes visible, a tab four spaces.
    pub(crate) fn new(text: &str, ink: Ink) -> Self {
        Self { text: one_row(text), ink }
    }

    /// The safe text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// What it is.
    pub(crate) fn ink(&self) -> Ink {
        self.ink
    }
}

/// One row of the terminal.
pub(crate) type TextRow = Vec<TextSpan>;

/// A row of one piece.
pub(crate) fn row(text: &str, ink: Ink) -> TextRow {
    vec![TextSpan::new(text, ink)]
}

/// Untrusted text as safe text in which line breaks and tabs still are what they were.
pub(crate) fn safe(text: &str) -> String {
    neutralize(text).into_owned()
}

fn one_row(text: &str) -> String {
    let text = neutralize(text);
    if text.contains(['\n', '\t']) {
        text.replace('\n', "␊").replace('\t', "    ")
    } else {
        text.into_owned()
    }
}

/// A row as bytes for the terminal, without a line end.
pub(crate) fn paint(row: &[TextSpan], color: bool) -> String {
    let mut out = String::new();
    for span in row.iter().filter(|span| !span.text.is_empty()) {
        let sgr = span.ink.sgr();
        if color && !sgr.is_empty() {
            write!(out, "\u{1b}[{sgr}m{}\u{1b}[0m", span.text).expect("a string takes all");
        } else {
            out.push_str(&span.text);
        }
    }
    out
}

/// The columns and rows of this terminal.
pub(crate) fn terminal_size() -> (usize, usize) {
    usable(crossterm::terminal::size().unwrap_or_default())
}

/// The columns of this terminal.
pub fn terminal_width() -> usize {
    terminal_size().0
}

/// What a terminal says of its size, or 80×24 where there is none; some say that they have no columns at all.
fn usable((columns, rows): (u16, u16)) -> (usize, usize) {
    let or = |said: u16, usual: usize| if said == 0 { usual } else { usize::from(said) };
    (or(columns, 80), or(rows, 24))
}
