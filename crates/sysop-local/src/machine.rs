//! This machine's cores and free memory, and the server settings derived from them.

use crate::catalog::ModelEntry;
use crate::platform;

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
        let physical = platform::physical_cores().unwrap_or(allowed);
        Self { memory_free: platform::available_memory(), cores: allowed.min(physical).max(1) }
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
}
