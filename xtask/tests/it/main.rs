//! Rules of the repository that no compiler checks.

mod circles;
mod dependencies;
mod names;
mod properties;
mod purity;
mod tidy;
