//! Rules of the repository that no compiler checks.

mod arrows;
mod properties;
mod tidy;
