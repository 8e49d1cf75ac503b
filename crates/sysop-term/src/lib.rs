//! Drawing for terminals, shared by the TUI and the line REPL.
//!
//! Text from a model, a file or a command becomes [`TextRow`]s of styled [`Span`]s: [`markdown`], [`code`], [`diff`],
//! [`plan`] and [`output`] produce rows, and [`cells`] measures, wraps and truncates them. The TUI draws rows
//! into a buffer ([`TextRow::draw`]), and the REPL writes them as text with colors ([`paint`]). [`grid`] models the
//! screen of another terminal, and [`command`] parses a typed line.
//!
//! Everything here is pure. The crate uses the data types of a session, but no session, keyboard or terminal. Untrusted
//! text enters a row only through [`Span`], which makes it safe.

pub mod ansi;
pub mod cells;
pub mod code;
pub mod command;
pub mod diff;
pub mod grid;
pub mod link;
pub mod markdown;
pub mod output;
pub mod paint;
pub mod plan;
pub mod question;
pub mod session_text;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
pub mod theme;

pub use cells::{Span, TextRow};
pub use theme::{StyleRole, Theme, ThemeChoice, ThemeName};
