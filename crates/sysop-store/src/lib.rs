//! Keeps the event logs of sessions, and the hashes of tokens: in a SQLite file, in PostgreSQL, or in memory.
//!
//! A store knows order and durability, not meaning: it never decides what an event does, and it never changes
//! or deletes an event that was appended, except by `delete` of a whole session. This crate is the only one
//! that speaks SQL. All stores pass the same conformance suite (`tests/it`).
#![warn(missing_docs)]

pub use memory::MemoryStore;
pub use postgres::{PostgresNode, PostgresStore};
pub use sqlite::SqliteStore;

mod batch;
mod memory;
mod postgres;
mod row_codec;
mod sqlite;
mod tokens;
