//! Tokens themselves: how one is made, and how one that was shown is compared with what is kept.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;
use sysop_core::id::Timestamp;
use sysop_driver::tokens::{Scopes, TokenId, TokenKind, TokenRecord};

/// What every token begins with, so that one that leaks is known for what it is.
const PREFIX: &str = "sysop_";
/// The longest text that is looked at as a token, in bytes.
const TOKEN_BYTES_MAX: usize = 256;

/// What a new token is to be.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// How it comes to be.
    pub kind: TokenKind,
    /// What its maker calls it.
    pub name: String,
    /// The user of the system who makes it.
    pub owner: String,
    /// What its bearer may do.
    pub scopes: Scopes,
    /// When it is made.
    pub now: Timestamp,
    /// From when on it is worth nothing.
    pub expires: Option<Timestamp>,
    /// The token that a page is opened with.
    pub parent: Option<TokenId>,
    /// Whether a process of unknown origin makes it.
    pub unattended: bool,
}

/// Makes a token of 256 random bits. This is the only time that it is seen; its record has a hash of it.
///
/// Of so many random bits a fast hash gives nothing away; slow ones are for passwords.
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

/// The hash of a text that was shown as a token; none where it cannot be one.
pub(super) fn hash_of(shown: &SecretString) -> Option<[u8; 32]> {
    let shown = shown.expose_secret();
    let plausible = shown.starts_with(PREFIX) && shown.len() <= TOKEN_BYTES_MAX;
    plausible.then(|| *blake3::hash(shown.as_bytes()).as_bytes())
}

/// Whether two hashes are the same, in a time that does not say where they differ.
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
    fn a_token_matches_its_own_record_only_and_its_record_does_not_hold_it() {
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
    fn what_cannot_be_a_token_is_not_even_hashed() {
        for shown in ["", "sysop", "Bearer sysop_x", &format!("sysop_{}", "x".repeat(1000))] {
            assert!(hash_of(&shown.into()).is_none(), "{shown}");
        }
    }
}
