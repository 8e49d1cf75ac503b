//! The session as faces and drivers see it: scripts, invariants, and the properties of the agent-rs design.

mod invariants;
mod properties;
mod scripts;
mod world;
