//! The binary.

#[cfg_attr(not(test), expect(dead_code, reason = "the command line that calls it is wired separately"))]
mod sessions;

fn main() {}
