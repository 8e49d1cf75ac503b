//! The driver in a world that can be told what to do, and in one that crashes wherever it likes.
#![expect(clippy::wildcard_enum_match_arm, reason = "a test picks out what it is about")]

mod driving;
mod eviction;
mod nodes;
mod questions;
mod simulation;
mod world;
