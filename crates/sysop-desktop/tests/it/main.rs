//! The window as a person has it: a real display (Xvfb), a real server, the real programs.

mod display;
mod notices;
mod outside;
mod trouble;
mod window;
mod world;
