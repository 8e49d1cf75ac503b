//! Redaction of secrets in text for models, logs and messages.
//!
//! [`KnownSecrets`] finds known values, both in complete strings and in streams, where a value may be split over
//! chunks. [`shapes`] finds other secrets by their form, and [`live`] does so in live output. The caller
//! decides which secrets are known and what is redacted.

pub mod live;
pub mod shapes;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::OnceLock;

use regex::bytes::Regex;
use secrecy::{ExposeSecret, SecretString};

pub const REDACTED: &str = "[redacted]";
/// Minimum bytes of a secret; shorter strings would match too often.
pub const SECRET_BYTES_MIN: usize = 4;

/// Text that stands in for an API key where a server needs none, in lowercase and without the signs between words.
const KEY_PLACEHOLDERS: [&str; 48] = [
    "", "0000", "1111", "123", "1234", "12345", "123456", "any", "anykey", "anything", "apikey", "changeme",
    "default", "demo", "dummy", "dummykey", "empty", "fake", "fakekey", "ignored", "key", "llama",
    "llamacpp", "lmstudio", "local", "localhost", "localkey", "mock", "nil", "nokey", "nokeyneeded",
    "nokeyrequired", "none", "notneeded", "notrequired", "notused", "null", "ollama", "placeholder",
    "sknokeyrequired", "sknone", "test", "testing", "testkey", "undefined", "unused", "vllm", "yourapikey",
];

/// Returns true if an API key only stands in for one, such as `none`. Its redaction would destroy ordinary text.
/// Passwords may be short words as well and must not be tested with this function.
///
/// ```
/// use sysop_core::redact::is_placeholder_key;
///
/// assert!(is_placeholder_key("none") && !is_placeholder_key("sk-abc1"));
/// ```
pub fn is_placeholder_key(key: &str) -> bool {
    let plain: String = key.trim().chars().filter(|char| !['-', '_', '.', ' '].contains(char)).collect();
    KEY_PLACEHOLDERS.contains(&plain.to_ascii_lowercase().as_str())
}

/// Secret values to replace wherever they appear.
#[derive(Default)]
pub struct KnownSecrets {
    /// Longest first, so that a longer match wins over its own prefix.
    values: Vec<SecretString>,
    /// Matches any of the values; compiled on the first search.
    any: OnceLock<Regex>,
}

/// Bytes at the end of a chunk that [`KnownSecrets::scan`] did not emit.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct PendingBytes {
    /// Number of bytes. It is less than the length of the longest value.
    pub bytes: usize,
    /// Number of bytes at the beginning of the pending bytes that belong to a value whose mask was already emitted.
    pub redacted: usize,
}

impl KnownSecrets {
    /// Creates a set from these values. Values shorter than [`SECRET_BYTES_MIN`] are ignored.
    pub fn new(values: impl IntoIterator<Item = SecretString>) -> Self {
        let mut values: Vec<SecretString> =
            values.into_iter().filter(|value| value.expose_secret().len() >= SECRET_BYTES_MIN).collect();
        values.sort_by(|a, b| {
            let (a, b) = (a.expose_secret(), b.expose_secret());
            b.len().cmp(&a.len()).then_with(|| a.cmp(b))
        });
        values.dedup_by(|a, b| a.expose_secret() == b.expose_secret());
        Self { values, any: OnceLock::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub fn are_in(&self, bytes: &[u8]) -> bool {
        self.any().is_some_and(|any| any.is_match(bytes))
    }

    /// Replaces each value in text with `mask`. Overlapping values are replaced with a single `mask`.
    ///
    /// ```
    /// use sysop_core::redact::{KnownSecrets, REDACTED};
    ///
    /// let secrets = KnownSecrets::new(["hunter22".into()]);
    /// assert_eq!(secrets.redact("a hunter22 b", REDACTED), "a [redacted] b");
    /// ```
    pub fn redact<'a>(&self, text: &'a str, mask: &str) -> Cow<'a, str> {
        let (mut clean, mut covered, mut from) = (String::new(), 0, 0);
        while let Some(found) = self.any().and_then(|any| any.find_at(text.as_bytes(), from)) {
            if found.start() >= covered {
                clean.push_str(&text[covered..found.start()]);
                clean.push_str(mask);
            }
            covered = covered.max(found.end());
            from = found.start() + 1;
        }
        if covered == 0 {
            return Cow::Borrowed(text);
        }
        clean.push_str(&text[covered..]);
        Cow::Owned(clean)
    }

    /// Redacts the next bytes of a stream as [`Self::redact`] would, and calls `emit` with the result. Bytes at the end
    /// that may be the beginning of a value are held back. The caller must prepend them to the next bytes, and
    /// pass on `redacted` from the returned [`PendingBytes`] (0 at the beginning of the stream). `last` is true if no
    /// more bytes follow; then nothing is held back.
    pub fn scan(
        &self,
        bytes: &[u8],
        redacted: usize,
        last: bool,
        mut emit: impl FnMut(&[u8]),
    ) -> PendingBytes {
        let certain = if last { bytes.len() } else { self.unfinished(bytes) };
        let (mut covered, mut from) = (redacted, 0);
        while let Some(found) = self.any().and_then(|any| any.find_at(bytes, from))
            && found.start() < certain
        {
            if found.start() >= covered {
                if found.start() > covered {
                    emit(&bytes[covered..found.start()]);
                }
                emit(REDACTED.as_bytes());
            }
            covered = covered.max(found.end());
            from = found.start() + 1;
        }
        if covered < certain {
            emit(&bytes[covered..certain]);
        }
        PendingBytes { bytes: bytes.len() - certain, redacted: covered.saturating_sub(certain) }
    }

    /// Returns the number of bytes that [`Self::scan`] would emit unchanged, or `None` if it would find a value. The
    /// bytes after them may be the beginning of a value.
    pub fn unchanged(&self, bytes: &[u8]) -> Option<usize> {
        let certain = self.unfinished(bytes);
        match self.any().and_then(|any| any.find(bytes)) {
            Some(found) if found.start() < certain => None,
            Some(_) | None => Some(certain),
        }
    }

    fn any(&self) -> Option<&Regex> {
        if self.values.is_empty() {
            return None;
        }
        let compile = || {
            let values: Vec<_> =
                self.values.iter().map(|value| regex::escape(value.expose_secret())).collect();
            Regex::new(&values.join("|")).expect("escaped strings form a valid regular expression")
        };
        Some(self.any.get_or_init(compile))
    }

    /// Returns the first offset at which a value may begin that continues beyond the end of `bytes`, or the
    /// length of `bytes` if there is no such offset.
    fn unfinished(&self, bytes: &[u8]) -> usize {
        let values = || self.values.iter().map(|value| value.expose_secret().as_bytes());
        let longest = values().next().map_or(0, <[u8]>::len);
        let first = bytes.len().saturating_sub(longest.saturating_sub(1));
        (first..bytes.len())
            .find(|&start| {
                let rest = &bytes[start..];
                values().any(|value| value.len() > rest.len() && value.starts_with(rest))
            })
            .unwrap_or(bytes.len())
    }
}

impl std::fmt::Debug for KnownSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KnownSecrets({})", self.values.len())
    }
}
