//! Who may enter: tokens, the page's cookie, the names by which the server is called and the pages that may call it.
//!
//! It decides of requests, not of sessions. Nothing here says, logs or stores a token; what is wrong with one is not told.

mod origin;
mod proxy;
mod responses;
mod token;
mod token_auth;
mod tokens;

#[cfg(test)]
mod tests;

pub use self::origin::{Authority, Exposure, HostPolicy, Origin, OriginParseError, UnprotectedListenError};
pub use self::proxy::{BadNetwork, Proxies};
pub use self::token::{NewToken, mint};
pub use self::token_auth::{TokenAuth, TokenAuthSettings};
pub use self::tokens::{Bearer, CredentialKind, Tokens};
