//! Connections to servers that run as programs: well-behaved ones, and ones that attack or fail.

mod attacks;
mod calls;
mod world;
