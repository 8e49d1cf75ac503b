//! Lending over a line that a test listens to.
