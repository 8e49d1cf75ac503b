//! The person's terminal, for real: a face in a process of its own at the end of a PTY, and what is left of the
//! terminal when it is gone. The tests start themselves again to be that process.

mod face;
mod outside;
mod person;
mod terminal;
