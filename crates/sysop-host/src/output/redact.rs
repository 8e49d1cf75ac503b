//! A host's secrets: those in the config, and those that users have entered for programs in this session.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use parking_lot::RwLock;
use secrecy::{ExposeSecret, SecretString};
use sysop_core::redact::{KnownSecrets, REDACTED, SECRET_BYTES_MIN};

/// Maximum entered secrets. If there are more, the oldest is dropped.
const LEARNED_MAX: usize = 64;
/// Line lengths, in characters, of the output of `base64` and of `xxd -p`.
const ENCODED_LINES: [usize; 2] = [76, 60];

/// Secrets to redact: those in the config, and those that users entered later.
#[derive(Default)]
pub(crate) struct Secrets {
    configured: Vec<SecretString>,
    learned: RwLock<LearnedSecrets>,
}

#[derive(Default)]
struct LearnedSecrets {
    /// Each entered secret with the other forms in which it may appear.
    entered: VecDeque<Vec<String>>,
    /// All forms of the entered secrets, and the secrets in the config.
    known: Arc<KnownSecrets>,
}

impl Secrets {
    pub(crate) fn new(secrets: &[SecretString]) -> Self {
        let known = Arc::new(KnownSecrets::new(secrets.iter().cloned()));
        let learned = LearnedSecrets { entered: VecDeque::new(), known };
        Self { configured: secrets.to_vec(), learned: RwLock::new(learned) }
    }

    /// Adds an entered secret, with its lines and their base64 and hexadecimal forms.
    pub(crate) fn learn(&self, secret: &SecretString) {
        let forms = forms(secret.expose_secret());
        let mut learned = self.learned.write();
        if forms.is_empty() || learned.entered.contains(&forms) {
            return;
        }
        if learned.entered.len() == LEARNED_MAX {
            learned.entered.pop_front();
        }
        learned.entered.push_back(forms);
        let entered = learned.entered.iter().flatten().map(|form| form.as_str().into());
        learned.known = Arc::new(KnownSecrets::new(self.configured.iter().cloned().chain(entered)));
    }

    pub(crate) fn known(&self) -> Arc<KnownSecrets> {
        Arc::clone(&self.learned.read().known)
    }

    pub(crate) fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.known().redact(text, REDACTED)
    }
}

/// Returns the forms in which a secret may appear in output: the text, its lines, and the base64 and hexadecimal
/// encodings of each of these, with and without a final newline.
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

/// Splits encoded text into its lines if it has more than one. A short last line is left out, because it would match
/// too often.
fn pieces(text: &str, columns: usize) -> Vec<String> {
    if text.len() <= columns {
        return Vec::new();
    }
    let lines = text.as_bytes().chunks(columns).filter(|line| line.len() >= 2 * SECRET_BYTES_MIN);
    lines.map(|line| String::from_utf8_lossy(line).into_owned()).collect()
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.known().fmt(f)
    }
}

#[derive(Debug, Default)]
pub(crate) struct StreamRedactor {
    /// Bytes that may be the beginning of a secret.
    pending: Vec<u8>,
    /// Number of bytes at the start of `pending` that belong to a secret whose mask was already emitted.
    redacted: usize,
}

impl StreamRedactor {
    /// Adds a chunk. Emits all bytes that cannot be the beginning of a secret, after redacting them.
    pub(crate) fn push(&mut self, secrets: &Secrets, bytes: &[u8], emit: impl FnMut(&[u8])) {
        self.pending.extend_from_slice(bytes);
        let held = secrets.known().scan(&self.pending, self.redacted, false, emit);
        self.pending.drain(..self.pending.len() - held.bytes);
        self.redacted = held.redacted;
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;

    use super::Secrets;

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
        let wrapped = super::STANDARD.encode(&long);
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
}
