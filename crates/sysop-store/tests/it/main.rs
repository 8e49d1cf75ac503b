//! One conformance suite for all stores, and what is special to each.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod events;
mod memory;
mod sqlite;
mod suite;
mod tokens;
