//! Runs sessions: append, publish, perform. Knows no vendor: models, machines, stores and clocks come through ports.
#![warn(missing_docs)]

pub mod port;
