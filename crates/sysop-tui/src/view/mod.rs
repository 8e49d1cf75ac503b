//! Draws what there is to read: the history, cards, Markdown, highlighted code, diffs. Knows no session and no key.
pub mod theme;
