//! The front end without a terminal: keys in, a real session behind it, cells out.

mod always;
mod cards;
mod edits;
mod everyday;
mod keys;
mod leaving;
mod messages;
mod offline;
mod outcomes;
mod own_calls;
mod properties;
mod reflexes;
mod screens;
mod search;
mod sent;
mod typing;
pub(crate) mod world;
