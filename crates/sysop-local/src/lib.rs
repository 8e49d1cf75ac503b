//! Models on this machine: a table of pinned open-weight models, their download, and the `llama-server` that runs them.
//!
//! # Problem
//!
//! A person without an API key wants a model that works offline. The file is large, comes from a server that nobody
//! here controls, and must be exactly the pinned one. The program that runs it needs seconds and gigabytes to start, so
//! it must not be started by every process, and must not outlive the last process that needs it.
//!
//! # Design
//!
//! - [`Catalog`] lists models and builds of `llama-server`, each with its URL, size, license and SHA-256. The user's
//!   config adds entries and replaces parts of them.
//! - [`download`] writes `NAME.part`, continues it after an interruption, and renames it only if its hash is the pinned
//!   one. [`ModelFolder`] knows the files.
//! - [`Supervisor`] is a process without a terminal that owns one `llama-server`. Processes that use a model
//!   connect to its Unix socket ([`LocalServers`]), and each open connection keeps it alive. So a client's
//!   crash is noticed, and the server stops with its last client, or after [`IDLE_MAX`] without a request.
//!
//! # Rejected
//!
//! - Linking llama.cpp: a C++ toolchain and 5 MB for every build, and none of the server's chat templates and parsers.
//! - `hf-hub`: 24 dependencies for what one `GET` with `Range` does, and no pinned hash.
//! - A child of the first process that needs a model: the others would lose it when that process exits.
//!
//! # Invariants
//!
//! - A file at its final path had the pinned hash when it was moved there. No other downloaded file is used.
//! - The Hugging Face token goes to the first server only, never along a redirect.
//! - The server listens on loopback and refuses every request without the random key, which is in no command line.
//! - This crate reads no flags, no config and no environment, and does not depend on sessions.

mod archive;
mod catalog;
mod client;
pub mod download;
mod folder;
mod launcher;
mod machine;
mod platform;
mod server;
mod supervisor;

pub use catalog::{Catalog, CatalogError, ModelEntry, ModelOverride, Pin, SERVER_NAME, ServerBuild};
pub use client::{LocalLease, LocalServers, SupervisorCommand};
pub use folder::{FolderError, InstalledServer, ModelFolder};
pub use launcher::run_as_launcher;
pub use machine::{Machine, context_for};
pub use server::{START_MAX, ServerError};
pub use supervisor::{IDLE_MAX, Supervisor, SupervisorError};
