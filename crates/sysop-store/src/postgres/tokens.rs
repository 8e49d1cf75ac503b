//! Stores token hashes in the same database as the logs, for all nodes.
//!
//! There are few rows and few writes, so each change is one statement that may be retried.

use async_trait::async_trait;
use sysop_core::id::Timestamp;
use sysop_driver::port::StoreError;
use sysop_driver::tokens::{TOKENS_MAX, TokenId, TokenRecord, TokenStore};

use super::PostgresStore;
use crate::row_codec::to_integer;
use crate::tokens::{TokenRow, duplicate_token_error, token_from_row, too_many_tokens_error};

const INSERT: &str = "INSERT INTO sysop_tokens \
                    (id, kind, name, scope, hash, created, expires, last_used, parent, visited, owner, \
                    unattended) SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12 \
                    WHERE (SELECT count(*) FROM sysop_tokens) < $13 \
                    ON CONFLICT (id) DO NOTHING";
const LIST: &str = "SELECT id, kind, name, scope, hash, created, expires, last_used, parent, visited, owner, \
                    unattended \
                    FROM sysop_tokens ORDER BY created, id";
const TOUCH: &str = "UPDATE sysop_tokens AS token SET last_used = greatest(last_used, used.at) \
                    FROM unnest($1::text[], $2::bigint[]) AS used (id, at) WHERE token.id = used.id";

#[async_trait]
impl TokenStore for PostgresStore {
    async fn insert_token(&self, token: &TokenRecord) -> Result<(), StoreError> {
        let kept = {
            // One at a time, so that the count is right; each additional node may insert one token too many.
            let _one = self.database.token_insert_lock.lock().await;
            self.database.retry(|| self.insert_token(token)).await?
        };
        if kept {
            return Ok(());
        }
        match self.tokens().await?.into_iter().find(|kept| kept.id == token.id) {
            Some(kept) if kept == *token => Ok(()), // only the reply was lost
            Some(_) => Err(duplicate_token_error(&token.id)),
            None => Err(too_many_tokens_error()),
        }
    }

    async fn tokens(&self) -> Result<Vec<TokenRecord>, StoreError> {
        let read = || sqlx::query_as::<_, TokenRow>(LIST).fetch_all(&self.database.pool);
        Ok(self.database.retry(read).await?.into_iter().filter_map(token_from_row).collect())
    }

    async fn revoke_token(&self, id: &TokenId) -> Result<bool, StoreError> {
        self.change("DELETE FROM sysop_tokens WHERE id = $1", id).await
    }

    async fn spend_visit(&self, id: &TokenId) -> Result<bool, StoreError> {
        self.change("UPDATE sysop_tokens SET visited = true WHERE id = $1 AND NOT visited", id).await
    }

    async fn record_token_uses(&self, uses: &[(TokenId, Timestamp)]) -> Result<(), StoreError> {
        let (ids, times): (Vec<_>, Vec<_>) = uses.iter().map(|(id, at)| (id.as_str(), at.0)).unzip();
        let used = || sqlx::query(TOUCH).bind(&ids).bind(&times).execute(&self.database.pool);
        self.database.retry(used).await?;
        Ok(())
    }
}

impl PostgresStore {
    /// Returns true if the statement changed the token's row.
    async fn change(&self, statement: &'static str, id: &TokenId) -> Result<bool, StoreError> {
        let change = || sqlx::query(statement).bind(id.as_str()).execute(&self.database.pool);
        Ok(self.database.retry(change).await?.rows_affected() > 0)
    }

    async fn insert_token(&self, token: &TokenRecord) -> Result<bool, sqlx::Error> {
        let insert = sqlx::query(INSERT)
            .bind(token.id.as_str())
            .bind(token.kind.as_str())
            .bind(token.name.as_str())
            .bind(token.scopes.as_str())
            .bind(token.hash.as_slice())
            .bind(token.created.0)
            .bind(token.expires.map(|at| at.0))
            .bind(token.last_used.map(|at| at.0))
            .bind(token.parent.as_ref().map(TokenId::as_str))
            .bind(token.visited)
            .bind(token.owner.as_str())
            .bind(token.unattended)
            .bind(to_integer(TOKENS_MAX as u64));
        Ok(insert.execute(&self.database.pool).await?.rows_affected() == 1)
    }
}
