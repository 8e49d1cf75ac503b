//! Token rows and errors, the same for every store.

use sysop_core::id::Timestamp;
use sysop_driver::port::StoreError;
use sysop_driver::tokens::{TOKENS_MAX, TokenId, TokenRecord};

/// Columns of a token, the same in every database: id, kind, name, scope, hash, created, expires, last used, parent,
/// visited, owner, unattended.
pub(crate) type TokenRow = (
    String,
    String,
    String,
    String,
    Vec<u8>,
    i64,
    Option<i64>,
    Option<i64>,
    Option<String>,
    bool,
    String,
    bool,
);

/// Converts a row to a token. Returns `None` if a later version wrote values that this version does not know; such a
/// token grants nothing.
pub(crate) fn token_from_row(row: TokenRow) -> Option<TokenRecord> {
    let (id, kind, name, scope, hash, created, expires, last_used, parent, visited, owner, unattended) = row;
    Some(TokenRecord {
        id: TokenId::new(id),
        kind: kind.parse().ok()?,
        name,
        owner,
        scopes: scope.parse().ok()?,
        hash: hash.try_into().ok()?,
        created: Timestamp(created),
        expires: expires.map(Timestamp),
        last_used: last_used.map(Timestamp),
        parent: parent.map(TokenId::new),
        visited,
        unattended,
    })
}

pub(crate) fn too_many_tokens_error() -> StoreError {
    StoreError::Unavailable(format!(
        "the limit of {TOKENS_MAX} tokens is reached; list them with `sysop token list`, and remove one with `sysop \
         token revoke ID`"
    ))
}

pub(crate) fn duplicate_token_error(id: &TokenId) -> StoreError {
    StoreError::Unavailable(format!("token {id} already exists; try again"))
}
