//! A remote machine, reached through the user's own `ssh`; nothing is installed there.
//!
//! # Problem
//!
//! Tools must behave on a server as they do on this machine: run a command and report its real exit code, stop it with
//! all processes it started, edit files without leaving the root, and ask the user when a program wants a password. The
//! only thing known about the server is that the user can log in. Its login shell may be bash, zsh, fish, dash, ash,
//! csh or tcsh.
//!
//! # Design
//!
//! 1. `master` starts one `ssh -M -N` per machine with the user's config (`settings`). It has no terminal;
//!    whatever it asks goes to the user through [`crate::askpass`]. `connection` shares it among all sessions
//!    in the process, and `control_folder` keeps its socket in a directory private to the user.
//! 2. `mux` speaks the protocol of that socket and opens sessions and channels over the connection. A refusal, a start
//!    and a lost connection are different messages, and only a request without an answer may be repeated.
//! 3. `script` encodes a command so that every login shell passes it on unchanged to `sh`. Everything else, nonces and
//!    file contents included, goes through standard input.
//! 4. `running_script` runs the script and reads its marks (`marks`), which carry a nonce: the start, after which
//!    output counts, and the end with the exit code. A missing end mark means
//!    [`Status::Unknown`](sysop_core::outcome::Status::Unknown), not failure.
//! 5. `process_tree` kills the processes of a command over a second session, because closing the first one
//!    only hangs up.
//! 6. `files`, `find` and `resolve` are the file tools as `sh` scripts; `exec` runs programs; `forward` opens ports;
//!    `machine` joins them to a [`Host`](sysop_driver::port::Host).
//! 7. `guard` and `guarded_call` run a change that may lock people out, and roll it back unless fresh logins work.
//! 8. `container` reaches a container through its engine's `exec`: one process per session, the same scripts.
//!
//! # Rejected
//!
//! - An SSH library. It would have to reimplement the config, agents, jump hosts, hardware keys and known hosts, which
//!   the user's `ssh` already has.
//! - One `ssh` process per command. It takes half as much time again as the command's session, and 255 can mean an exit
//!   code, a signal, a refusal or a lost connection (`docs/adr/0006`).
//! - A helper program copied to the server. Many servers forbid it, and it would have to match their architecture.
//!
//! # Invariants
//!
//! - `ssh` output selects the wording of an error (`error`); it never decides whether a command ran.
//! - A command that may have started is never repeated.
//! - Paths are resolved on the server, step by step below the root; a link that leads out is refused.
//! - No secret and no nonce is in a command line, which other users of the server can read.
//! - Everything that a call starts ends with the call, or is reported as unknown.

mod connection;
mod container;
mod container_shell;
mod control_folder;
mod error;
mod exec;
mod files;
mod find;
mod forward;
mod guard;
mod guarded_call;
mod machine;
mod marks;
mod master;
mod mux;
mod process_tree;
mod recent_miss;
mod relay;
mod resolve;
mod running_script;
mod script;
mod session;
mod settings;

pub use self::connection::SshConnection;
pub use self::container::is_container;
pub use self::error::SshError;
pub use self::forward::PortForward;
pub use self::guard::{GuardStatus, GuardVerb};
pub use self::guarded_call::{GUARD_SECONDS_DEFAULT, GUARD_SETTLE_DEFAULT};
pub(crate) use self::guarded_call::{Guards, guarded_command};
pub(crate) use self::machine::SshMachine;
pub use self::running_script::MachineInfo;
pub use self::settings::{CONNECT_TIMEOUT_DEFAULT, SURVEY_TIMEOUT_DEFAULT, SshSettings};
