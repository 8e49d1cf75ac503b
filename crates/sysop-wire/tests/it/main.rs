//! The wire as a client sees it: messages of the design, and the decoded form of a log.
#![expect(clippy::wildcard_enum_match_arm, reason = "a test picks out what it is about")]

mod decoding;
mod design;
mod generated;
mod world;
