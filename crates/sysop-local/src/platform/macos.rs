//! macOS: a watcher instead of the death signal. Never run; see `platform`.

use std::io;

use rustix::process::Pid;

use super::watcher;

/// Starts a program that kills this process when its parent dies. Fails if the parent has already died.
pub(crate) fn die_with(parent: Pid) -> io::Result<()> {
    watcher::die_with(parent)
}

/// The free memory is unknown, so the context window is chosen as for a small machine.
pub(crate) fn available_memory() -> Option<u64> {
    None
}

/// The number of physical cores is unknown; all cores of Apple's processors are physical.
pub(crate) fn physical_cores() -> Option<usize> {
    None
}
