//! The window as a user has it: a real display (Xvfb), a real server, the real programs.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod display;
mod failures;
mod navigation;
mod notifications;
mod window;
mod world;
