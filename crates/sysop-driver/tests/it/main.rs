//! The driver in a scripted world, and in one that crashes at any point.
#![expect(clippy::wildcard_enum_match_arm, reason = "a test picks out what it is about")]

mod driving;
mod eviction;
mod leaving;
mod nodes;
mod questions;
mod reloading;
mod simulation;
mod world;
