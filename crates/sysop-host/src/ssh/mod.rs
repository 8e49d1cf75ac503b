//! Another machine, reached by the person's own `ssh`, with nothing installed there but POSIX `sh`.
//!
//! One `ssh` process holds the connection ([`SshConnection`]); sessions are opened through its socket. What runs
//! there is wrapped into a script that says when it starts and how it ends, so that a failure of ssh, of the
//! login shell and of the command are never taken for each other, and a command is never run twice.

mod connection;
mod error;
mod exec;
mod files;
mod find;
mod folder;
mod forward;
mod frame;
mod machine;
mod master;
mod mux;
mod piped;
mod script;
mod session;
mod settings;
mod shell;
mod stop;

pub use self::connection::SshConnection;
pub use self::error::SshError;
pub use self::forward::Forward;
pub(crate) use self::machine::SshMachine;
pub use self::piped::{Piped, PipedEvent};
pub use self::settings::{CONNECT_TIMEOUT_DEFAULT, SshSettings};
pub use self::shell::Facts;
