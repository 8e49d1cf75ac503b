//! Ids that look like the ids of the real servers. They are unique within a process and are never secrets.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

const ALPHANUMERIC: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

#[derive(Debug)]
pub(crate) struct IdGenerator {
    seed: u64,
    made: AtomicU64,
}

impl IdGenerator {
    pub(crate) fn new() -> Self {
        Self { seed: RandomState::new().hash_one(0u8), made: AtomicU64::new(0) }
    }

    /// Returns `prefix` followed by `length` letters and digits.
    pub(crate) fn make(&self, prefix: &str, length: usize) -> String {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        format!("{prefix}{}", alphanumeric(self.seed ^ mix(number), length))
    }
}

/// Returns `length` letters and digits derived from `seed` alone.
pub(crate) fn alphanumeric(seed: u64, length: usize) -> String {
    let mut state = seed;
    let mut text = String::with_capacity(length);
    for _ in 0..length {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        text.push(char::from(ALPHANUMERIC[(mix(state) % ALPHANUMERIC.len() as u64) as usize]));
    }
    text
}

/// Mixes the bits of a value with the finalizer of SplitMix64.
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_are_unique_and_have_the_expected_length() {
        let ids = IdGenerator::new();
        let made: HashSet<String> = (0..10_000).map(|_| ids.make("call_", 8)).collect();
        assert_eq!(made.len(), 10_000);
        assert!(made.iter().all(|id| id.len() == 13 && id.starts_with("call_")));
    }
}
