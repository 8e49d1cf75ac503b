//! Stores token hashes in the same file as the logs.
//!
//! There are few rows and few writes, so each statement is its own transaction on the writer's connection.

use async_trait::async_trait;
use rusqlite::{Connection, params};
use sysop_core::id::Timestamp;
use sysop_driver::port::StoreError;
use sysop_driver::tokens::{TOKENS_MAX, TokenId, TokenRecord, TokenStore};

use super::SqliteStore;
use crate::row_codec::to_integer;
use crate::tokens::{TokenRow, duplicate_token_error, token_from_row, too_many_tokens_error};

const INSERT: &str = "INSERT INTO tokens (id, kind, name, scope, hash, created, expires, last_used, parent, visited, \
                    owner, unattended) \
                    SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12 WHERE (SELECT count(*) FROM tokens) < ?13 \
                    ON CONFLICT (id) DO NOTHING";
const LIST: &str = "SELECT id, kind, name, scope, hash, created, expires, last_used, parent, visited, owner, \
                    unattended FROM tokens \
                    ORDER BY created, id";
const TOUCH: &str = "UPDATE tokens SET last_used = max(coalesce(last_used, ?2), ?2) WHERE id = ?1";

#[async_trait]
impl TokenStore for SqliteStore {
    async fn insert_token(&self, token: &TokenRecord) -> Result<(), StoreError> {
        let kept = {
            let token = token.clone();
            self.writer.with_connection(move |connection| insert_token(connection, &token)).await?
        };
        if kept {
            return Ok(());
        }
        let there = self.tokens().await?.iter().any(|kept| kept.id == token.id);
        Err(if there { duplicate_token_error(&token.id) } else { too_many_tokens_error() })
    }

    async fn tokens(&self) -> Result<Vec<TokenRecord>, StoreError> {
        let rows = self.reader.with_connection(|connection| {
            let mut list = connection.prepare_cached(LIST)?;
            list.query_map([], |row| <TokenRow>::try_from(row))?.collect::<rusqlite::Result<Vec<_>>>()
        });
        Ok(rows.await?.into_iter().filter_map(token_from_row).collect())
    }

    async fn revoke_token(&self, id: &TokenId) -> Result<bool, StoreError> {
        self.execute_on_token("DELETE FROM tokens WHERE id = ?", id).await
    }

    async fn spend_visit(&self, id: &TokenId) -> Result<bool, StoreError> {
        self.execute_on_token("UPDATE tokens SET visited = 1 WHERE id = ? AND visited = 0", id).await
    }

    async fn record_token_uses(&self, uses: &[(TokenId, Timestamp)]) -> Result<(), StoreError> {
        let uses = uses.to_vec();
        let mark = move |connection: &Connection| {
            let mut used = connection.prepare_cached(TOUCH)?;
            uses.iter().try_for_each(|(id, at)| used.execute(params![id.as_str(), at.0]).map(|_| ()))
        };
        self.writer.with_connection(mark).await
    }
}

impl SqliteStore {
    /// Returns true if the statement changed a token.
    async fn execute_on_token(&self, statement: &'static str, id: &TokenId) -> Result<bool, StoreError> {
        let id = id.clone();
        let change = move |connection: &Connection| connection.execute(statement, [id.as_str()]);
        Ok(self.writer.with_connection(change).await? > 0)
    }
}

fn insert_token(connection: &Connection, token: &TokenRecord) -> rusqlite::Result<bool> {
    let kept = connection.execute(
        INSERT,
        params![
            token.id.as_str(),
            token.kind.as_str(),
            token.name,
            token.scopes.as_str(),
            token.hash.as_slice(),
            token.created.0,
            token.expires.map(|at| at.0),
            token.last_used.map(|at| at.0),
            token.parent.as_ref().map(TokenId::as_str),
            token.visited,
            token.owner,
            token.unattended,
            to_integer(TOKENS_MAX as u64),
        ],
    )?;
    Ok(kept == 1)
}
