//! What is kept of the tokens that open a server: the port `TokenStore` and its rows.
//!
//! No token is ever here, only its hash; a token is seen once, by whoever had it made.

use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use sysop_core::id::Timestamp;

use crate::port::StoreError;

/// The most tokens that a store keeps, pages included.
pub const TOKENS_MAX: usize = 1024;

/// Keeps tokens by their hashes.
#[async_trait]
pub trait TokenStore: Send + Sync {
    /// Keeps one more; durable on return.
    ///
    /// # Errors
    /// When there are `TOKENS_MAX` already, one has that id, or the store cannot.
    async fn insert_token(&self, token: &TokenRecord) -> Result<(), StoreError>;

    /// All tokens, the oldest first.
    async fn tokens(&self) -> Result<Vec<TokenRecord>, StoreError>;

    /// Removes a token and the pages that were opened with it; says whether it was there.
    async fn revoke_token(&self, id: &TokenId) -> Result<bool, StoreError>;

    /// Spends the one visit to the page that a token from an address is good for; says whether it was still unspent.
    /// Of several who ask at once, one gets yes.
    async fn spend_visit(&self, id: &TokenId) -> Result<bool, StoreError>;

    /// Remembers when tokens were used last. One that is gone is passed over.
    async fn record_token_uses(&self, uses: &[(TokenId, Timestamp)]) -> Result<(), StoreError>;
}

/// What is kept of one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRecord {
    /// Names it in lists, logs and `revoke`; no secret.
    pub id: TokenId,
    /// How it came to be.
    pub kind: TokenKind,
    /// What its maker calls it; also who its bearer is in logs.
    pub name: String,
    /// What its bearer may do.
    pub scope: Scope,
    /// BLAKE3 of the token.
    pub hash: [u8; 32],
    /// When it was made.
    pub created: Timestamp,
    /// From when on it is worth nothing.
    pub expires: Option<Timestamp>,
    /// When it was used last, to within a minute.
    pub last_used: Option<Timestamp>,
    /// The token that a page was opened with.
    pub parent: Option<TokenId>,
    /// Whether its one visit to the page was made.
    pub visited: bool,
}

/// Names a token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId(String);

impl TokenId {
    /// Wraps a text that is already known to name one, or is looked for.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How a token came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// A person made it.
    Issued,
    /// A server made it at its start and printed it in the page's address.
    Start,
    /// A browser got it as a cookie.
    Page,
}

impl TokenKind {
    /// The word for lists and stores.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Issued => "made",
            Self::Start => "start",
            Self::Page => "page",
        }
    }
}

impl FromStr for TokenKind {
    type Err = UnknownKeyword;

    fn from_str(text: &str) -> Result<Self, UnknownKeyword> {
        let known = [Self::Issued, Self::Start, Self::Page];
        known.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| UnknownKeyword(text.to_owned()))
    }
}

/// What the bearer of a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Watch and list.
    Read,
    /// Everything.
    Operate,
}

impl Scope {
    /// The word for flags, lists and stores.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
        }
    }
}

impl FromStr for Scope {
    type Err = UnknownKeyword;

    fn from_str(text: &str) -> Result<Self, UnknownKeyword> {
        let known = [Self::Read, Self::Operate];
        known.into_iter().find(|scope| scope.as_str() == text).ok_or_else(|| UnknownKeyword(text.to_owned()))
    }
}

/// A word that is none of those known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no such word")]
pub struct UnknownKeyword(String);
