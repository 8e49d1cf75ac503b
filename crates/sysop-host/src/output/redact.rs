//! Redacts known secrets in a stream of bytes, including those split between chunks.
//!
//! Known secrets are those of the config and those that users entered for programs in this session. `shapes` finds
//! other secrets by their form, in the output for the model.

pub(crate) mod shapes;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use parking_lot::RwLock;
use regex::bytes::Regex;
use secrecy::{ExposeSecret, SecretString};

pub(crate) const REDACTED: &str = "[redacted]";
/// Minimum bytes of a secret; shorter texts would match too often.
pub(crate) const SECRET_BYTES_MIN: usize = 4;

/// Maximum entered secrets; the oldest is dropped first.
const LEARNED_MAX: usize = 64;
/// Columns of a line of `base64`, and of `xxd -p`.
const ENCODED_LINES: [usize; 2] = [76, 60];

/// Secrets to redact: those of the config, and those entered since.
#[derive(Default)]
pub(crate) struct Secrets {
    known: RwLock<Arc<KnownSecrets>>,
}

/// Immutable snapshot of the secrets.
#[derive(Default)]
struct KnownSecrets {
    configured: Vec<String>,
    /// Each secret with its other forms.
    learned: VecDeque<Vec<String>>,
    /// All texts, longest first, so that a longer match wins over its own prefix.
    texts: Vec<Vec<u8>>,
    any: Option<Regex>,
}

impl KnownSecrets {
    fn new(configured: Vec<String>, learned: VecDeque<Vec<String>>) -> Self {
        let mut texts: Vec<String> = configured
            .iter()
            .chain(learned.iter().flatten())
            .filter(|text| text.len() >= SECRET_BYTES_MIN)
            .cloned()
            .collect();
        texts.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        texts.dedup();
        let alternatives: Vec<String> = texts.iter().map(|text| regex::escape(text)).collect();
        let any = (!texts.is_empty())
            .then(|| Regex::new(&alternatives.join("|")).expect("escaped texts are a valid expression"));
        Self { configured, learned, texts: texts.into_iter().map(String::into_bytes).collect(), any }
    }

    /// Returns the offset of the earliest secret that may continue after the end of `bytes`.
    fn unfinished(&self, bytes: &[u8]) -> usize {
        let longest = self.texts.first().map_or(0, Vec::len);
        let first = bytes.len().saturating_sub(longest.saturating_sub(1));
        (first..bytes.len())
            .find(|&start| {
                let rest = &bytes[start..];
                self.texts.iter().any(|text| text.len() > rest.len() && text.starts_with(rest))
            })
            .unwrap_or(bytes.len())
    }
}

impl Secrets {
    pub(crate) fn new(secrets: &[SecretString]) -> Self {
        let configured = secrets.iter().map(|secret| secret.expose_secret().to_owned()).collect();
        Self { known: RwLock::new(Arc::new(KnownSecrets::new(configured, VecDeque::new()))) }
    }

    /// Adds an entered secret, with its lines and their base64 and hexadecimal forms.
    pub(crate) fn learn(&self, secret: &SecretString) {
        let forms = forms(secret.expose_secret());
        let mut known = self.known.write();
        if forms.is_empty() || known.learned.contains(&forms) {
            return;
        }
        let mut learned = known.learned.clone();
        if learned.len() == LEARNED_MAX {
            learned.pop_front();
        }
        learned.push_back(forms);
        *known = Arc::new(KnownSecrets::new(known.configured.clone(), learned));
    }

    fn known(&self) -> Arc<KnownSecrets> {
        Arc::clone(&self.known.read())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.known().texts.is_empty()
    }

    /// Returns true if the bytes contain a secret.
    pub(crate) fn are_in(&self, bytes: &[u8]) -> bool {
        self.known().any.as_ref().is_some_and(|any| any.is_match(bytes))
    }

    pub(crate) fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !self.are_in(text.as_bytes()) {
            return Cow::Borrowed(text);
        }
        let mut clean = Vec::with_capacity(text.len());
        scan(self, text.as_bytes(), true, |piece| clean.extend_from_slice(piece));
        Cow::Owned(String::from_utf8(clean).expect("whole texts were taken out of a text"))
    }
}

/// Forms in which a secret may appear in output: the text, its lines, and both encoded, with and without a final
/// newline.
fn forms(secret: &str) -> Vec<String> {
    let mut forms = Vec::new();
    for text in std::iter::once(secret).chain(secret.lines()) {
        if text.len() < SECRET_BYTES_MIN || forms.iter().any(|form| form == text) {
            continue;
        }
        forms.push(text.to_owned());
        for bytes in [text.to_owned(), format!("{text}\n")] {
            let hex: String = bytes.bytes().map(|byte| format!("{byte:02x}")).collect();
            let encoded = [STANDARD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes), hex.to_uppercase(), hex];
            for form in encoded {
                forms.extend(ENCODED_LINES.iter().flat_map(|columns| pieces(&form, *columns)));
                forms.push(form);
            }
        }
    }
    forms.sort_unstable();
    forms.dedup();
    forms
}

/// Splits an encoded text into its lines if it has more than one; a short last line is left out, because it would
/// match too often.
fn pieces(text: &str, columns: usize) -> Vec<String> {
    if text.len() <= columns {
        return Vec::new();
    }
    let lines = text.as_bytes().chunks(columns).filter(|line| line.len() >= 2 * SECRET_BYTES_MIN);
    lines.map(|line| String::from_utf8_lossy(line).into_owned()).collect()
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.known().texts.len())
    }
}

/// Redacts one stream that arrives in chunks.
#[derive(Debug, Default)]
pub(crate) struct StreamRedactor {
    /// Bytes that may be the beginning of a secret.
    pending: Vec<u8>,
}

impl StreamRedactor {
    /// Adds a chunk; emits all bytes that cannot be part of a secret.
    pub(crate) fn push(&mut self, secrets: &Secrets, bytes: &[u8], emit: impl FnMut(&[u8])) {
        self.pending.extend_from_slice(bytes);
        let rest = scan(secrets, &self.pending, false, emit).len();
        self.pending.drain(..self.pending.len() - rest);
    }
}

/// Returns the number of bytes that `scan` would emit unchanged, or `None` if it would find a secret. The rest may be
/// the beginning of a secret.
pub(crate) fn unchanged(secrets: &Secrets, bytes: &[u8]) -> Option<usize> {
    let secrets = secrets.known();
    let certain = secrets.unfinished(bytes);
    match secrets.any.as_ref().and_then(|any| any.find(bytes)) {
        Some(found) if found.start() < certain => None,
        Some(_) | None => Some(certain),
    }
}

/// Emits `bytes` with secrets replaced. Returns the bytes at the end that may be the beginning of a secret; they are
/// fewer than the longest secret has. Set `last` if nothing follows.
pub(crate) fn scan<'a>(
    secrets: &Secrets,
    bytes: &'a [u8],
    last: bool,
    mut emit: impl FnMut(&[u8]),
) -> &'a [u8] {
    let secrets = secrets.known();
    let mut rest = bytes;
    while let Some(any) = &secrets.any {
        let certain = if last { rest.len() } else { secrets.unfinished(rest) };
        match any.find(rest) {
            Some(found) if found.start() < certain => {
                if found.start() > 0 {
                    emit(&rest[..found.start()]);
                }
                emit(REDACTED.as_bytes());
                rest = &rest[found.end()..];
            }
            Some(_) | None => {
                if certain > 0 {
                    emit(&rest[..certain]);
                }
                return &rest[certain..];
            }
        }
    }
    if !rest.is_empty() {
        emit(rest);
    }
    &[]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, proptest};

    use base64::Engine;

    use super::{REDACTED, Secrets, scan, unchanged};

    fn secrets(texts: &[&str]) -> Secrets {
        Secrets::new(&texts.iter().map(|text| (*text).into()).collect::<Vec<_>>())
    }

    fn streamed(secrets: &Secrets, chunks: &[&[u8]]) -> Vec<u8> {
        let mut clean = Vec::new();
        let mut pending = Vec::new();
        for chunk in chunks {
            pending.extend_from_slice(chunk);
            let before = clean.len();
            let rest = scan(secrets, &pending, false, |piece| clean.extend_from_slice(piece)).to_vec();
            let as_they_are = unchanged(secrets, &pending).map(|count| &pending[..count]);
            assert!(as_they_are.is_none_or(|bytes| *bytes == clean[before..]), "both must say the same");
            pending = rest;
        }
        scan(secrets, &pending, true, |piece| clean.extend_from_slice(piece));
        clean
    }

    #[test]
    fn a_secret_across_chunk_boundaries_is_redacted() {
        let secrets = secrets(&["hunter22"]);
        let clean = streamed(&secrets, &[b"a hun", b"t", b"er22 b hunt"]);
        assert_eq!(String::from_utf8_lossy(&clean), "a [redacted] b hunt");
    }

    #[test]
    fn the_longer_of_two_secrets_with_a_common_prefix_is_redacted() {
        let secrets = secrets(&["abcd", "abcdefgh"]);
        assert_eq!(streamed(&secrets, &[b"abcd", b"efgh!"]), b"[redacted]!");
        assert_eq!(streamed(&secrets, &[b"abcde", b"!"]), b"[redacted]e!");
    }

    #[test]
    fn an_overlapping_prefix_does_not_hide_a_secret() {
        let secrets = secrets(&["wxab", "abyz"]);
        assert_eq!(streamed(&secrets, &[b"wxab", b"yz"]), b"[redacted]yz");
        assert_eq!(streamed(&secrets, &[b"wxa", b"b"]), b"[redacted]");
    }

    #[test]
    fn short_and_empty_texts_are_not_secrets() {
        assert!(secrets(&["", "a", "abc"]).is_empty());
    }

    #[test]
    fn an_entered_secret_is_redacted_in_every_encoding() {
        let secrets = Secrets::default();
        let text = "hunter22 aHVudGVyMjI= aHVudGVyMjIK 68756e7465723232 68756E7465723232 22retnuh";
        assert_eq!(secrets.redact(text), text);
        secrets.learn(&"hunter22".into());
        let clean = secrets.redact(text);
        assert_eq!(clean, "[redacted] [redacted] [redacted] [redacted] [redacted] 22retnuh");
        secrets.learn(&"first line\nsecond line\nx".into());
        assert_eq!(secrets.redact("a second line, x"), "a [redacted], x");
        let long = "x7".repeat(60);
        secrets.learn(&long.as_str().into());
        let wrapped = crate::output::redact::STANDARD.encode(&long);
        let wrapped = format!("{}\n{}", &wrapped[..76], &wrapped[76..]);
        let clean = secrets.redact(&wrapped).replace("[redacted]", "");
        assert_eq!(clean.trim(), "");
    }

    #[test]
    fn the_oldest_of_too_many_secrets_is_forgotten() {
        let secrets = Secrets::new(&["configured".into()]);
        for number in 0..=super::LEARNED_MAX {
            secrets.learn(&format!("secret-{number};").into());
        }
        assert_eq!(secrets.redact("secret-0; secret-1; configured"), "secret-0; [redacted] [redacted]");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn redaction_does_not_depend_on_chunk_boundaries(
            words in proptest::collection::vec("[ab]{1,3}|abba|abbab|baab", 0..30),
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..20),
        ) {
            let secrets = secrets(&["abba", "abbab", "bbaabb", "aaaaa"]);
            let text = words.concat();
            let mut borders: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            borders.extend([0, text.len()]);
            borders.sort_unstable();
            let chunks: Vec<&[u8]> = borders.windows(2).map(|two| &text.as_bytes()[two[0]..two[1]]).collect();
            let whole = secrets.redact(&text).into_owned();
            let clean = streamed(&secrets, &chunks);
            prop_assert_eq!(String::from_utf8_lossy(&clean), whole.as_str());
            for piece in whole.split(REDACTED) {
                prop_assert!(!secrets.are_in(piece.as_bytes()), "{piece} of {text}");
            }
        }

        #[test]
        fn a_secret_in_any_text_is_redacted(
            secret in "[!-~]{4,40}".prop_filter("not a part of the mark", |text| !REDACTED.contains(text.as_str())),
            before in ".{0,20}",
            after in ".{0,20}",
            size in 1_usize..8,
        ) {
            let known = secrets(&[&secret]);
            let text = format!("{before}{secret}{after}");
            let chunks: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            let clean = String::from_utf8(streamed(&known, &chunks)).expect("still text");
            prop_assert!(clean.contains(REDACTED));
            for piece in clean.split(REDACTED) {
                prop_assert!(!piece.contains(&secret));
            }
        }
    }
}
