//! Linux: the death signal, `/proc/meminfo` and the kernel's directory of processors.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// Asks the kernel to kill this process when its parent dies. Fails if the parent has already died.
pub(crate) fn die_with(parent: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() == Some(parent) { Ok(()) } else { Err(io::Error::other("the parent has ended")) }
}

/// Returns the memory that a new program can use without swapping, in bytes, or `None` if it is unknown.
pub(crate) fn available_memory() -> Option<u64> {
    parse_memory(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

/// Returns the number of physical cores, or `None` if it is unknown.
pub(crate) fn physical_cores() -> Option<usize> {
    cores_below(Path::new("/sys/devices/system/cpu"))
}

/// Returns `MemAvailable` of `/proc/meminfo` in bytes.
fn parse_memory(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

/// Returns the number of physical cores, given the kernel's directory of processors. Hyperthreads of one core count
/// once.
fn cores_below(folder: &Path) -> Option<usize> {
    let mut cores = BTreeSet::new();
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let topology = entry.path().join("topology");
        if let Ok(siblings) = std::fs::read_to_string(topology.join("thread_siblings_list")) {
            cores.insert(siblings);
        }
    }
    (!cores.is_empty()).then_some(cores.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_parsed() {
        assert_eq!(parse_memory("MemTotal:  10 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(parse_memory("MemTotal:  10 kB\n"), None);
    }

    #[test]
    fn two_hyperthreads_count_as_one_core() {
        let folder = tempfile::tempdir().unwrap();
        for (cpu, siblings) in [(0, "0,2"), (1, "1,3"), (2, "0,2"), (3, "1,3")] {
            let topology = folder.path().join(format!("cpu{cpu}/topology"));
            std::fs::create_dir_all(&topology).unwrap();
            std::fs::write(topology.join("thread_siblings_list"), siblings).unwrap();
        }
        assert_eq!(cores_below(folder.path()), Some(2));
        assert_eq!(cores_below(&folder.path().join("none")), None);
    }
}
