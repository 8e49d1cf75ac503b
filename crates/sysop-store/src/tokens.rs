//! What every store says the same way about tokens.

use sysop_driver::port::StoreError;
use sysop_driver::tokens::{TOKENS_MAX, TokenId};

/// No room for another token.
pub(crate) fn too_many() -> StoreError {
    StoreError::Unavailable(format!(
        "there are {TOKENS_MAX} tokens already; `sysop token list` shows them, and `sysop token revoke ID` removes one"
    ))
}

/// A token of that id is kept.
pub(crate) fn taken(id: &TokenId) -> StoreError {
    StoreError::Unavailable(format!("there is a token {id} already; try again"))
}
