//! The full-screen face: history, the proposal or the live output, and the input; the session's terminal beside
//! them. Draws a `Transcript`, sends `Input`s, decides nothing about a session.
#![warn(missing_docs)]
