//! One conformance suite for all stores, and tests specific to each.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::wildcard_enum_match_arm, reason = "a test picks out what it is about")]

mod chaos;
mod cluster;
mod events;
mod memory;
mod outage;
mod postgres;
mod proxy;
mod server;
mod sqlite;
mod suite;
mod tokens;
mod upgrade;
