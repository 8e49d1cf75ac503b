//! Another machine, reached by the person's own `ssh`, with nothing installed there but POSIX `sh`.
//!
//! One `ssh` process holds the connection ([`SshConnection`]); sessions are opened through its socket. What runs
//! there is wrapped into a script that says when it starts and how it ends, so that a failure of ssh, of the
//! login shell and of the command are never taken for each other, and a command is never run twice.

mod connection;
mod control_folder;
mod error;
mod exec;
mod files;
mod find;
mod forward;
mod machine;
mod marks;
mod master;
mod mux;
mod piped_command;
mod process_tree;
mod resolve;
mod running_script;
mod script;
mod session;
mod settings;

pub use self::connection::SshConnection;
pub use self::error::SshError;
pub use self::forward::PortForward;
pub(crate) use self::machine::SshMachine;
pub use self::piped_command::{PipedCommand, PipedEvent};
pub use self::running_script::MachineInfo;
pub use self::settings::{CONNECT_TIMEOUT_DEFAULT, SshSettings};
