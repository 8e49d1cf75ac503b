//! This machine's cores and free memory, and the server settings derived from them.

use std::collections::BTreeSet;
use std::path::Path;

use crate::catalog::ModelEntry;

/// Context windows, in tokens, that the server is started with, largest first.
const CONTEXTS: [u32; 4] = [32_768, 16_384, 8_192, 4_096];
/// Memory, in bytes, for the server besides the model and its cache, and for other programs.
const OVERHEAD_BYTES: u64 = 512 * 1024 * 1024;

/// Properties of a machine that determine the number of threads and the context window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Memory that a new program can use without swapping, in bytes; `None` if it is unknown.
    pub memory_free: Option<u64>,
    /// Cores that this process may use. Two hyperthreads of one core count once.
    pub cores: usize,
}

impl Machine {
    pub fn examine() -> Self {
        let allowed = std::thread::available_parallelism().map_or(1, usize::from);
        let physical = physical_cores(Path::new("/sys/devices/system/cpu")).unwrap_or(allowed);
        let memory = std::fs::read_to_string("/proc/meminfo").ok();
        Self {
            memory_free: memory.and_then(|text| available_memory(&text)),
            cores: allowed.min(physical).max(1),
        }
    }
}

/// Returns the largest context window, in tokens, with which the model fits into the free memory. The window is at most
/// the model's own, and at least the smallest of [`CONTEXTS`].
pub fn context_for(model: &ModelEntry, machine: &Machine) -> u32 {
    let window = model.window();
    let fits = |context: u32| {
        let needed =
            model.pin.size.unwrap_or_default() + u64::from(context) * model.kv_bytes() + OVERHEAD_BYTES;
        machine.memory_free.is_none_or(|free| needed <= free)
    };
    // If the free memory is unknown, assume inference on a CPU, which takes too long for a prompt of more than 16k
    // tokens.
    let most = if machine.memory_free.is_none() { CONTEXTS[1] } else { CONTEXTS[0] };
    let largest = CONTEXTS.into_iter().find(|context| *context <= most && fits(*context));
    largest.unwrap_or(CONTEXTS[CONTEXTS.len() - 1]).min(window)
}

/// Returns `MemAvailable` of `/proc/meminfo` in bytes.
fn available_memory(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

/// Returns the number of physical cores, given the kernel's directory of processors. Hyperthreads of one core count
/// once.
fn physical_cores(folder: &Path) -> Option<usize> {
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
    use crate::catalog::Catalog;

    #[test]
    fn the_context_shrinks_with_the_free_memory_and_never_exceeds_the_model() {
        let catalog = Catalog::built_in();
        let model = catalog.model("qwen2.5-coder-1.5b").unwrap();
        let context =
            |mebibytes: u64| context_for(model, &Machine { memory_free: Some(mebibytes << 20), cores: 2 });
        assert_eq!([8_000, 2_100, 1_900, 1_700, 300].map(context), [32_768, 16_384, 8_192, 4_096, 4_096]);
        let mut tiny = model.clone();
        tiny.context_window = Some(2_048);
        assert_eq!(context_for(&tiny, &Machine { memory_free: Some(8 << 30), cores: 2 }), 2_048);
    }

    #[test]
    fn free_memory_is_parsed() {
        assert_eq!(available_memory("MemTotal:  10 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(available_memory("MemTotal:  10 kB\n"), None);
    }

    #[test]
    fn two_hyperthreads_count_as_one_core() {
        let folder = tempfile::tempdir().unwrap();
        for (cpu, siblings) in [(0, "0,2"), (1, "1,3"), (2, "0,2"), (3, "1,3")] {
            let topology = folder.path().join(format!("cpu{cpu}/topology"));
            std::fs::create_dir_all(&topology).unwrap();
            std::fs::write(topology.join("thread_siblings_list"), siblings).unwrap();
        }
        assert_eq!(physical_cores(folder.path()), Some(2));
        assert_eq!(physical_cores(&folder.path().join("none")), None);
    }
}
