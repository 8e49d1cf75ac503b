//! The in-memory store.

use std::sync::Arc;

use sysop_store::MemoryStore;

use crate::suite::{Fixture, conformance};

async fn memory() -> Fixture {
    Fixture { store: Arc::new(MemoryStore::new()), folder: None }
}

conformance!(memory);
