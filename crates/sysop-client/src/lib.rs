//! Client for sessions on a server. It gives front ends the same
//! [`SessionHandle`](sysop_driver::frontend::SessionHandle) and
//! [`SessionService`](sysop_driver::frontend::SessionService) that they use for a local session, over one WebSocket per
//! session and the server's HTTP API. It also lends this machine's tools to those sessions.
//!
//! The crate draws nothing and implements no tool; the tools come from a [`Host`](sysop_driver::port::Host). A message
//! from a server can run something on this machine only through [`client_tools`].

mod address;
mod api;
pub mod approvals;
pub mod client_tools;
mod fanout;
mod outbox;
mod own_name;
mod pinned;
mod server_machine;
mod session;
mod session_service;
mod session_socket;
mod stream;
mod terminal;

pub use self::address::ServerAddress;
pub use self::outbox::UndeliveredPrompt;
pub use self::pinned::PinnedCertificate;
pub use self::session::RemoteSession;
pub use self::session_service::{NewSessionOptions, RemoteSessionService, ToolPlacement};

/// Error from a connection to a server. `Display` is one sentence that says what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    #[error("{0}")]
    Address(String),
    #[error(
        "no token given; use the URL that `sysop serve` printed, or set SYSOP_TOKEN to the content of the token file that \
         it named"
    )]
    NoToken,
    /// The token is rejected or lacks a scope.
    #[error("{0}")]
    Refused(String),
    /// The named session, host, model or other resource does not exist.
    #[error("{0}")]
    Unknown(String),
    /// The server does not accept the request, for example because it names an unknown model.
    #[error("{0}")]
    Invalid(String),
    /// Another process uses the session.
    #[error("{0}")]
    Busy(String),
    /// The server is unreachable, or it does not respond like a sysop server.
    #[error("{0}")]
    Unreachable(String),
    /// The request failed for another reason; for example, the server refused it, permanently or for now.
    #[error("{0}")]
    Failed(String),
    /// The ledger of calls on this machine is unusable.
    #[error("{0}")]
    Ledger(String),
}
