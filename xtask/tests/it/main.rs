//! Rules of the repository that no compiler checks.

mod circles;
mod dependencies;
mod links;
mod names;
mod platforms;
mod properties;
mod purity;
mod tidy;
