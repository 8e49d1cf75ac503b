//! Port for the tokens of a server: `TokenStore` and its rows.
//!
//! Only the hashes of tokens appear here, never the tokens themselves. A token is shown once, to its creator.

use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use sysop_core::id::Timestamp;

use crate::port::StoreError;

/// Maximum tokens in a store, including page tokens.
pub const TOKENS_MAX: usize = 1024;

/// Stores tokens by their hashes.
#[async_trait]
pub trait TokenStore: Send + Sync {
    /// Inserts a durable token. Fails if there are `TOKENS_MAX` tokens, the id exists, or the store fails.
    async fn insert_token(&self, token: &TokenRecord) -> Result<(), StoreError>;

    /// Lists all tokens, oldest first.
    async fn tokens(&self) -> Result<Vec<TokenRecord>, StoreError>;

    /// Removes a token and the pages opened with it. Returns true if the token existed.
    async fn revoke_token(&self, id: &TokenId) -> Result<bool, StoreError>;

    /// Marks the single page visit that a token in a URL allows as used. Returns true if it was unused before. If
    /// several callers try at the same time, exactly one of them gets true.
    async fn spend_visit(&self, id: &TokenId) -> Result<bool, StoreError>;

    /// Records when tokens were last used; unknown tokens are ignored.
    async fn record_token_uses(&self, uses: &[(TokenId, Timestamp)]) -> Result<(), StoreError>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRecord {
    /// Identifies the token in lists, logs and `revoke`; not a secret.
    pub id: TokenId,
    pub kind: TokenKind,
    /// Name given by its creator; also identifies its bearer in logs.
    pub name: String,
    /// System user who created the token; empty in databases of 0.1.0.
    pub owner: String,
    pub scopes: Scopes,
    /// BLAKE3 hash of the token.
    pub hash: [u8; 32],
    pub created: Timestamp,
    /// Time of expiry; `None` for never.
    pub expires: Option<Timestamp>,
    /// Time of last use, to within a minute.
    pub last_used: Option<Timestamp>,
    /// Token with which the page was opened; `None` if this is not a page token.
    pub parent: Option<TokenId>,
    /// True if the single page visit that the token allows has been used.
    pub visited: bool,
    /// True if the creator of the token may not be a user: the token was created by a process of unknown
    /// origin, possibly one that a session's command left behind.
    pub unattended: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId(String);

impl TokenId {
    /// Wraps a string that is known to be an id, or is looked up as one.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    Issued,
    /// Created by a server at startup and printed as part of the page's URL.
    Start,
    /// Given to a browser as a cookie.
    Page,
    /// Put into a link's URL by a page that was opened with another token. Grants one visit and nothing else. After the
    /// visit, it is kept as the parent of the page token of the browser that opened the link.
    Link,
}

impl TokenKind {
    /// Returns the name used in lists and stores.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Issued => "made",
            Self::Start => "start",
            Self::Page => "page",
            Self::Link => "link",
        }
    }
}

impl FromStr for TokenKind {
    type Err = UnknownKeyword;

    fn from_str(text: &str) -> Result<Self, UnknownKeyword> {
        let known = [Self::Issued, Self::Start, Self::Page, Self::Link];
        known.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| UnknownKeyword(text.to_owned()))
    }
}

/// Permissions of a token's bearer. Every token may read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Scopes {
    /// May open sessions and send inputs.
    pub operate: bool,
    /// May answer approvals and questions of any session, and change the approval mode.
    pub decide: bool,
}

impl Scopes {
    /// Permission to watch and list, without sending anything.
    pub const READ: Self = Self { operate: false, decide: false };
    /// Permission to send inputs.
    pub const OPERATE: Self = Self { operate: true, decide: false };
    /// Permission to answer approvals and questions.
    pub const DECIDE: Self = Self { operate: false, decide: true };
    pub const ALL: Self = Self { operate: true, decide: true };

    /// Returns the names used in flags, lists and stores, separated by commas.
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

/// Error for text that is not one of the known keywords.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown scope `{0}`")]
pub struct UnknownKeyword(String);

#[cfg(test)]
mod tests {
    use super::Scopes;

    #[test]
    fn scopes_parse_in_any_order_and_each_implies_read() {
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
