//! The analysis against an adversary: tables of commands with what each mode must do with them, and commands that count as
//! read-only, really run.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "the analysis is pure; its tests run commands, and print what held and the seed"
)]

mod fuzz;
mod review;
