//! The analysis against an adversary: tables of commands with the expected result in each mode, and read-only commands
//! that are really run.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "the analysis is pure; its tests run commands, and print what held and the seed"
)]

mod fuzz;
mod review;
