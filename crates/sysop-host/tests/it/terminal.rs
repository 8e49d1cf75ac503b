//! Tests of the terminal shared by model and user, with real shells in a real PTY. The tests wait for conditions with
//! a deadline, never for a fixed time.

mod commands;
mod prompter;
mod quirks;
mod rig;
mod screens;
mod secrets;
mod survey;
