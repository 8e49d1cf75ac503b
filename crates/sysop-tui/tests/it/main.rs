//! The person's terminal, for real: a front end in a process of its own at the end of a PTY, and what is left of the
//! terminal when it is gone. The tests start themselves again to be that process.
#![expect(clippy::unwrap_used, reason = "what a test needs and does not get is a failure of the test")]
#![expect(clippy::print_stdout, reason = "the process that plays the face tells the test how it ended")]

mod external_program;
mod frontend;
mod person;
mod terminal;
