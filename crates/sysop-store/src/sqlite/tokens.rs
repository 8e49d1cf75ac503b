//! Keeps the hashes of tokens in the same file as the logs.
//!
//! Few rows and few writes: each statement is a transaction of its own on the writer's connection.

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;
use sysop_core::id::Timestamp;
use sysop_driver::port::StoreError;
use sysop_driver::tokens::{TOKENS_MAX, TokenId, TokenRecord, TokenStore};

use super::SqliteStore;
use crate::row::to_integer;
use crate::tokens::{TokenRow, record, taken, too_many};

const KEEP: &str = "INSERT INTO tokens (id, kind, name, scope, hash, created, expires, last_used, parent, visited) \
                    SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 WHERE (SELECT count(*) FROM tokens) < ?11 \
                    ON CONFLICT (id) DO NOTHING";
const LIST: &str = "SELECT id, kind, name, scope, hash, created, expires, last_used, parent, visited FROM tokens \
                    ORDER BY created, id";
const USED: &str = "UPDATE tokens SET last_used = max(coalesce(last_used, ?2), ?2) WHERE id = ?1";

#[async_trait]
impl TokenStore for SqliteStore {
    async fn keep_token(&self, token: &TokenRecord) -> Result<(), StoreError> {
        let kept = self.change(async |connection| keep(connection, token).await).await?;
        if kept {
            return Ok(());
        }
        let there = self.tokens().await?.iter().any(|kept| kept.id == token.id);
        Err(if there { taken(&token.id) } else { too_many() })
    }

    async fn tokens(&self) -> Result<Vec<TokenRecord>, StoreError> {
        let mut slot = self.reader.connected().await?;
        let connection = slot.as_mut().expect("connected() fills it");
        let rows = sqlx::query_as::<_, TokenRow>(LIST).fetch_all(connection).await;
        Ok(rows.map_err(|error| self.reader.fault(&error))?.into_iter().filter_map(record).collect())
    }

    async fn revoke_token(&self, id: &TokenId) -> Result<bool, StoreError> {
        let delete = sqlx::query("DELETE FROM tokens WHERE id = ?").bind(id.as_str());
        let done = self.change(async |connection| delete.execute(connection).await).await?;
        Ok(done.rows_affected() > 0)
    }

    async fn spend_visit(&self, id: &TokenId) -> Result<bool, StoreError> {
        let spend =
            sqlx::query("UPDATE tokens SET visited = 1 WHERE id = ? AND visited = 0").bind(id.as_str());
        let done = self.change(async |connection| spend.execute(connection).await).await?;
        Ok(done.rows_affected() > 0)
    }

    async fn tokens_used(&self, uses: &[(TokenId, Timestamp)]) -> Result<(), StoreError> {
        for (id, at) in uses {
            let used = sqlx::query(USED).bind(id.as_str()).bind(at.0);
            self.change(async |connection| used.execute(connection).await).await?;
        }
        Ok(())
    }
}

impl SqliteStore {
    async fn change<T>(
        &self,
        work: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, StoreError> {
        self.writer.with_connection(work).await?.map_err(|error| self.reader.fault(&error))
    }
}

async fn keep(connection: &mut SqliteConnection, token: &TokenRecord) -> Result<bool, sqlx::Error> {
    let insert = sqlx::query(KEEP)
        .bind(token.id.as_str())
        .bind(token.kind.as_str())
        .bind(token.name.as_str())
        .bind(token.scope.as_str())
        .bind(token.hash.as_slice())
        .bind(token.created.0)
        .bind(token.expires.map(|at| at.0))
        .bind(token.last_used.map(|at| at.0))
        .bind(token.parent.as_ref().map(TokenId::as_str))
        .bind(token.visited)
        .bind(to_integer(TOKENS_MAX as u64));
    Ok(insert.execute(connection).await?.rows_affected() == 1)
}
