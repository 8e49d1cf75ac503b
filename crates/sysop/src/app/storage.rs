//! Storage for sessions and tokens: a local file, or a database shared by several nodes.

use std::sync::Arc;

use anyhow::Result;
use secrecy::ExposeSecret;
use sysop_driver::port::{Store, StoreError};
use sysop_driver::tokens::TokenStore;
use sysop_store::{PostgresStore, SqliteStore};

use super::open_store;
use crate::exit::CommandError;
use crate::settings::Settings;

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// Open storage. Cheap to clone.
#[derive(Clone)]
pub(crate) enum Storage {
    Sqlite(Arc<SqliteStore>),
    Postgres(PostgresStore),
}

impl Storage {
    pub(crate) fn file(settings: &Settings) -> Result<Self> {
        Ok(Self::Sqlite(Arc::new(open_store(settings)?)))
    }

    /// Opens the configured database, or the local file if none is configured.
    pub(crate) async fn open(settings: &Settings) -> Result<Self> {
        let Some(url) = &settings.database else { return Self::file(settings) };
        let url = url.expose_secret();
        if !SCHEMES.iter().any(|scheme| url.starts_with(scheme)) {
            // The value may contain a password, so it is not repeated.
            let why = "invalid `database`; use a PostgreSQL URL: postgres://USER:PASSWORD@HOST:PORT/DATABASE";
            return Err(CommandError::usage(why).into());
        }
        let store = PostgresStore::connect(url).await;
        Ok(Self::Postgres(store.map_err(|error| CommandError::failed(error.to_string()))?))
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Sqlite(store) => Arc::clone(store) as Arc<dyn Store>,
            Self::Postgres(store) => Arc::new(store.clone()),
        }
    }

    pub(crate) fn tokens(&self) -> Arc<dyn TokenStore> {
        match self {
            Self::Sqlite(store) => Arc::clone(store) as Arc<dyn TokenStore>,
            Self::Postgres(store) => Arc::new(store.clone()),
        }
    }

    /// Checks that the storage is usable. The error says why it is not.
    pub(crate) async fn ready(&self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(store) => store.list(1).await.map(|_| ()),
            Self::Postgres(store) => store.ready().await,
        }
    }

    pub(crate) async fn close(&self) {
        match self {
            Self::Sqlite(store) => store.close().await,
            Self::Postgres(_) => {} // each statement is durable once it has returned
        }
    }
}
