//! Creating a token, and comparing a presented token with the stored hash.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;
use sysop_core::id::Timestamp;
use sysop_driver::tokens::{Scopes, TokenId, TokenKind, TokenRecord};

/// Prefix of every token; lets secret scanners recognize a leaked token.
const PREFIX: &str = "sysop_";
/// Maximum length of a presented token, in bytes. Longer text is not hashed.
const TOKEN_BYTES_MAX: usize = 256;

#[derive(Debug, Clone)]
pub struct NewToken {
    /// Origin of the token: issued by a user, printed at start, or a page's cookie.
    pub kind: TokenKind,
    pub name: String,
    pub owner: String,
    pub scopes: Scopes,
    pub now: Timestamp,
    /// Expiry; the token is invalid from this time on.
    pub expires: Option<Timestamp>,
    /// The token that opened the page, if this is a page's cookie.
    pub parent: Option<TokenId>,
    /// True if the process creating the token may not have been started by a person.
    pub unattended: bool,
}

/// Creates a token of 256 random bits. Only the caller ever sees the token; the record contains its hash.
///
/// A fast hash is enough for 256 random bits; slow hashes protect guessable passwords.
pub fn mint(new: NewToken) -> (SecretString, TokenRecord) {
    let random: [u8; 32] = rand::random();
    let token = format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(random));
    let record = TokenRecord {
        id: TokenId::new(format!("{:08x}", rand::random::<u32>())),
        kind: new.kind,
        name: new.name,
        owner: new.owner,
        scopes: new.scopes,
        hash: *blake3::hash(token.as_bytes()).as_bytes(),
        created: new.now,
        expires: new.expires,
        last_used: None,
        parent: new.parent,
        visited: false,
        unattended: new.unattended,
    };
    (token.into(), record)
}

/// Hashes a presented token. Returns `None` if the text cannot be a token.
pub(super) fn hash_of(shown: &SecretString) -> Option<[u8; 32]> {
    let shown = shown.expose_secret();
    let plausible = shown.starts_with(PREFIX) && shown.len() <= TOKEN_BYTES_MAX;
    plausible.then(|| *blake3::hash(shown.as_bytes()).as_bytes())
}

/// Compares two hashes in constant time.
pub(super) fn same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    a.ct_eq(b).into()
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;
    use sysop_core::id::Timestamp;
    use sysop_driver::tokens::{Scopes, TokenKind};

    use super::{NewToken, hash_of, mint, same};

    fn new() -> NewToken {
        NewToken {
            kind: TokenKind::Issued,
            name: "laptop".to_owned(),
            owner: "ada".to_owned(),
            scopes: Scopes::READ,
            now: Timestamp(5),
            expires: None,
            parent: None,
            unattended: false,
        }
    }

    #[test]
    fn a_token_matches_only_its_own_record_which_does_not_contain_it() {
        let (token, record) = mint(new());
        let (other, other_record) = mint(new());
        assert!(same(&hash_of(&token).unwrap(), &record.hash));
        assert!(!same(&hash_of(&other).unwrap(), &record.hash));
        assert_ne!(record.id, other_record.id);
        let secret = token.expose_secret();
        assert_eq!(secret.len(), "sysop_".len() + 43, "256 bits");
        assert!(!format!("{record:?} {token:?}").contains(&secret[6..]));
    }

    #[test]
    fn malformed_tokens_are_not_hashed() {
        for shown in ["", "sysop", "Bearer sysop_x", &format!("sysop_{}", "x".repeat(1000))] {
            assert!(hash_of(&shown.into()).is_none(), "{shown}");
        }
    }
}
