//! Everything that differs between operating systems, as in the module of the same name in `sysop-host`: a process that
//! dies with its parent, and the size of this machine. `cfg(target_os)` stands here and nowhere else in this crate.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(any(test, target_os = "macos"))]
mod watcher;

#[cfg(target_os = "linux")]
pub(crate) use self::linux::{available_memory, die_with, physical_cores};
#[cfg(target_os = "macos")]
pub(crate) use self::macos::{available_memory, die_with, physical_cores};
