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
    /// The user of the system who made it; empty in databases of 0.1.0.
    pub owner: String,
    /// What its bearer may do.
    pub scopes: Scopes,
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
    /// Whether it is not certain that a person made it: a process of unknown origin did, which a command of a session may
    /// have left behind.
    pub unattended: bool,
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

/// What the bearer of a token may do. Every token may look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Scopes {
    /// Open sessions and make them do something.
    pub operate: bool,
    /// Answer approvals and questions of any session, and change how much runs without a person.
    pub decide: bool,
}

impl Scopes {
    /// Watch and list.
    pub const READ: Self = Self { operate: false, decide: false };
    /// Make sessions do something.
    pub const OPERATE: Self = Self { operate: true, decide: false };
    /// Answer what sessions ask.
    pub const DECIDE: Self = Self { operate: false, decide: true };
    /// Everything.
    pub const ALL: Self = Self { operate: true, decide: true };

    /// The words for flags, lists and stores, with a comma between them.
    pub fn as_str(self) -> &'static str {
        match self {
            Self { operate: false, decide: false } => "read",
            Self { operate: true, decide: false } => "operate",
            Self { operate: false, decide: true } => "decide",
            Self { operate: true, decide: true } => "operate,decide",
        }
    }
}

impl FromStr for Scopes {
    type Err = UnknownKeyword;

    fn from_str(text: &str) -> Result<Self, UnknownKeyword> {
        let mut scopes = Self::READ;
        for word in text.split(',') {
            match word.trim() {
                "read" => {}
                "operate" => scopes.operate = true,
                "decide" => scopes.decide = true,
                other => return Err(UnknownKeyword(other.to_owned())),
            }
        }
        Ok(scopes)
    }
}

/// A word that is none of those known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown scope `{0}`")]
pub struct UnknownKeyword(String);

#[cfg(test)]
mod tests {
    use super::Scopes;

    #[test]
    fn scopes_are_a_list_in_any_order_and_every_one_may_read() {
        for (text, scopes, shown) in [
            ("read", Scopes::READ, "read"),
            ("operate", Scopes::OPERATE, "operate"),
            ("decide", Scopes::DECIDE, "decide"),
            ("decide, operate", Scopes::ALL, "operate,decide"),
            ("read,operate,read", Scopes::OPERATE, "operate"),
        ] {
            assert_eq!(text.parse(), Ok(scopes), "{text}");
            assert_eq!(scopes.as_str(), shown);
            assert_eq!(shown.parse(), Ok(scopes));
        }
        for text in ["", "operate,", "all", "Operate"] {
            assert!(text.parse::<Scopes>().is_err(), "{text}");
        }
    }
}
