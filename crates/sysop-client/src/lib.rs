//! A session on a server, seen from here: the same [`SessionHandle`](sysop_driver::frontend::SessionHandle) and
//! [`SessionService`](sysop_driver::frontend::SessionService) that a front end holds of a session of its own process, over one WebSocket and the
//! server's HTTP; and this machine's tools, lent to that session.
//!
//! It draws nothing and knows no tool: what runs is given to it as a [`Host`](sysop_driver::port::Host). What it is
//! told comes from a server: nothing of it runs here but through [`client_tools`].
#![warn(missing_docs)]

mod address;
mod api;
pub mod client_tools;
mod fanout;
mod outbox;
mod session;
mod session_service;
mod session_socket;
mod stream;
mod terminal;

pub use self::address::ServerAddress;
pub use self::session::RemoteSession;
pub use self::session_service::{NewSessionOptions, RemoteSessionService, ToolPlacement};

/// Why a server cannot be used. `Display` is one sentence that says what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The address cannot be used.
    #[error("{0}")]
    Address(String),
    /// There is no token.
    #[error("the server requires a token; use the URL that `sysop serve` printed, or set SYSOP_TOKEN")]
    NoToken,
    /// The token is not accepted, or allows less than is needed.
    #[error("{0}")]
    Refused(String),
    /// There is no such session, host, model or whatever was named.
    #[error("{0}")]
    Unknown(String),
    /// The server cannot be reached, or does not answer as one.
    #[error("{0}")]
    Unreachable(String),
    /// The server did not do it, or not now.
    #[error("{0}")]
    Failed(String),
    /// This machine's own ledger of calls cannot be used.
    #[error("{0}")]
    Ledger(String),
}
