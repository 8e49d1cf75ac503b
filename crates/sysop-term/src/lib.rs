//! Drawing for terminals: the parts that the full screen and the line REPL have in common.
//!
//! Everything here is pure. It knows the session's data types, but no session, no key press and no terminal.
#![warn(missing_docs)]

pub mod command;
