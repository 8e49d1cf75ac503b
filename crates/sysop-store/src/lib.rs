//! Stores the event logs of sessions, and the hashes of tokens: in a SQLite file, in PostgreSQL, or in memory.
//!
//! A store ensures order and durability, and knows nothing of meaning: it never interprets an event, and never changes
//! or deletes an appended one, except by `delete` of a whole session. This crate is the only one with SQL. All stores
//! pass the same conformance suite (`tests/it`).

pub use memory::MemoryStore;
pub use postgres::{PostgresNode, PostgresStore};
pub use sqlite::SqliteStore;

mod batch;
mod memory;
mod postgres;
mod row_codec;
mod sqlite;
mod tokens;
