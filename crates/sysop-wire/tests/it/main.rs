//! The wire as a client sees it: the messages of the design, what a log comes to on the other side.
#![expect(clippy::wildcard_enum_match_arm, reason = "a test picks out what it is about")]

mod decoding;
mod design;
mod generated;
mod world;
