//! One conformance suite for all stores, and what is special to each.

mod events;
mod memory;
mod sqlite;
mod suite;
