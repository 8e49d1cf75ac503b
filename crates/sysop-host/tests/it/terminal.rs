//! The terminal that model and people share, with real shells in a real PTY. Nothing here waits for a time: it
//! waits until something is so, with a deadline.

mod commands;
mod prompter;
mod quirks;
mod rig;
mod screens;
mod secrets;
mod survey;
