//! Draws what there is to read: the history, cards, Markdown, highlighted code, diffs. Knows no session and no key.
//!
//! Pure: a `Transcript` and a theme in, styled rows out, cells of a buffer from those. Text from a model, a file or
//! a command gets into a row only through [`cells::Span`], which makes it safe; the only control sequences in a cell
//! are those of a link, which [`link`] has checked.

pub mod ansi;
pub mod cells;
pub mod code;
pub mod diff;
pub mod history;
pub mod item;
pub mod link;
pub mod markdown;
pub mod output;
pub mod plan;
pub mod theme;

#[cfg(test)]
mod tests;

pub use cells::{Span, TextRow};
pub use history::{HistoryView, Scroll};
pub use theme::{StyleRole, Theme, ThemeName};
