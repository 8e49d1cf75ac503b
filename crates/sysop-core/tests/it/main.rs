//! The session as seen by front ends and drivers: scripts, invariants, and the properties of the agent-rs design.
#![expect(clippy::wildcard_enum_match_arm, reason = "a test picks out what it is about")]

mod approvals;
mod budget;
mod chat;
mod client_tools;
mod compaction;
mod fence;
mod guard;
mod images;
mod instructions;
mod invariants;
mod jobs;
mod own_tools;
mod pausing;
mod policy;
mod preview;
mod properties;
mod replayed_state;
mod scripts;
mod small_models;
mod undo;
mod world;
