//! Tests with a real terminal: a front end in a separate process on a PTY, and the state of the terminal after it. The
//! tests run their own binary as that process.
#![expect(clippy::unwrap_used, reason = "what a test needs and does not get is a failure of the test")]
#![expect(clippy::print_stdout, reason = "the process that plays the face tells the test how it ended")]

mod external_program;
mod frontend;
mod person;
mod terminal;
