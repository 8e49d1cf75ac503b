//! Stores the event logs of sessions, and the hashes of tokens: in a SQLite file, in PostgreSQL, or in memory.
//!
//! A store ensures order and durability. It does not interpret events, and it never changes or deletes an
//! appended event, except when `delete` removes a whole session. Only this crate contains SQL. All stores
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
