//! The history: a transcript's items as rows, drawn into a buffer. Independent of sessions and keys.

mod find;
pub mod history;
mod item;
mod output;
mod plan;

#[cfg(test)]
mod tests;

pub use find::{MatchPosition, MatchStyles, SearchDirection, mark_matches};
pub use history::{FoldChange, HistoryView, Scroll};
pub(crate) use output::text_to_copy;
