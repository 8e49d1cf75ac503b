//! Authentication and authorization of requests: tokens, the page's cookie, `Host` and `Origin`.
//!
//! # Problem
//!
//! Anyone who may operate a session can run commands as the server's user. Servers of this kind have been taken over
//! again and again in the same few ways: no token is required on the loopback address; a cross-origin web page calls
//! the server; a DNS name is rebound to 127.0.0.1; a WebSocket upgrade, which browsers send without a preflight, is
//! accepted without an origin check. A token also leaks easily: into logs, the browser's history, the `Referer` header.
//! At the same time, a user must be able to open the page with one click on a printed URL.
//!
//! # Design
//!
//! [`TokenAuth`] implements [`crate::Authenticator`]; every request passes it before its handler runs. It
//! checks in this order, and the first failure is the answer:
//!
//! 1. `Host`: exactly one, and a known name ([`HostPolicy`]). A rebound name is refused here.
//! 2. `Origin` and `Sec-Fetch-Site`: the page's own origin, an origin allowed by the operator, or none at all.
//! 3. Token: `Authorization: Bearer`, or the page's cookie. A cookie is never accepted as a bearer token, nor a bearer
//!    token as a cookie. Browsers attach cookies by themselves, so a request with a cookie that changes something or
//!    opens a socket must also prove that our own page made it.
//! 4. Scope of the route, then the content type of the body (JSON only, which rules out cross-site forms).
//! 5. Limits of the token: requests, then simultaneous connections.
//!
//! A token is 256 random bits. The store keeps only its BLAKE3 hash: a fast hash is enough for a value that nobody can
//! guess, and cheap enough for every request. [`Tokens`] caches the store's records and reads them again twice a
//! second, so revoking a token in another process needs no message. Every [`Bearer`] carries a cancellation token by
//! which open sockets and streams end together with their token.
//!
//! The printed URL contains the token of this start. The token in a URL works for one visit only: the browser gets a
//! cookie that is a separate token (a child of the first, valid for at most 30 days) and is redirected to a URL without
//! the token. A leaked URL therefore opens no second browser.
//!
//! A logged-in page can create a link for another browser. The token in the link's URL is valid for one visit only. It
//! is not accepted in a header. Pasted into the login form, it is spent as by its URL. It must be used within ten
//! minutes (within a day if it has only the scope `read`). After the visit, the token represents the browser that
//! opened the link: that browser's cookie is the token's child, and the token has its own limits, is listed, and can be
//! revoked. It becomes invalid together with the token from which the link was created. A link never has a scope that
//! its creator lacks.
//!
//! Failed attempts are counted per client address. Once an address has too many, its further failed attempts are
//! answered as rate limited, but requests with a valid token are still admitted. Behind a proxy, the client address
//! comes from `X-Forwarded-For`, but only from proxies that the operator listed ([`Proxies`]).
//!
//! # Rejected
//!
//! - No token on 127.0.0.1: any page and any user of the machine could run commands.
//! - Password hashes (Argon2, scrypt): they protect guessable values, and would make every request slow.
//! - The token in every URL: it would end up in histories, logs and `Referer`. Only `GET /` reads it from the query.
//! - Locking out an address after failures, even for valid tokens: a stranger behind the same proxy could lock out the
//!   owner.
//! - `tower_governor` for the limits: its memory grows with every address that connects.
//!
//! # Invariants
//!
//! - No request reaches a handler without a token, except health checks and the login form with its script
//!   (`Scope::Public`), which must pass the checks of `Host` and `Origin` as well.
//! - A wrong `Host` or `Origin` is refused whatever token comes with it.
//! - Nothing in this module logs, stores or returns a token in clear text, except the one response that hands it out.
//!   Error messages say what is wrong with the URL, which the user can fix, and never what is wrong with a token.
//! - A request without a valid token costs at most one hash, in the login form two. All such requests together cause at
//!   most one read of the store per 100 ms.
//! - A revoked or expired token is useless within a second, also for sockets that are already open.

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
pub use self::tokens::{Bearer, CredentialKind, RESERVED_NAMES, START_TOKEN, Tokens};
