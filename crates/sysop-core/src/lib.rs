//! The agent as a pure state machine, and the vocabulary that all other crates share.
//!
//! This crate does no I/O: it opens no file, reads no clock, draws no randomness and starts no task. Facts about the
//! world arrive as an [`event::Input`]; requests to the world leave as an [`event::Effect`].

pub mod approval;
pub mod attached_data;
pub mod auto_bounds;
pub mod auto_meter;
pub mod budget;
pub mod budget_scope;
pub mod catalog;
mod command_path;
pub mod compaction;
pub mod cost_report;
pub mod deferred_tools;
pub mod effort;
pub mod event;
pub mod guard;
pub mod history;
pub mod hook;
pub mod id;
pub mod image;
pub mod instructions;
pub mod job;
pub mod key_stroke;
pub mod ledger;
pub mod message;
pub mod missed_hosts;
pub mod mode;
pub mod model_limits;
pub mod model_progress;
pub mod model_provider;
pub mod model_table;
pub mod open_approval;
pub mod outcome;
pub mod policy;
pub mod preview;
pub mod question;
pub mod redact;
pub mod session;
pub mod similar_word;
pub mod skill;
pub mod spec;
pub mod style;
pub mod text;
pub mod todo;
pub mod token_estimate;
pub mod tool;
pub mod tool_time_limit;
pub mod transcript;
pub mod ui_text;
pub mod undo;

pub use sysop_shell::host_names;
