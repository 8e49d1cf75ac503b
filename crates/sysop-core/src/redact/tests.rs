//! Known secrets in complete strings and in streams.

use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, proptest};

use super::{KnownSecrets, REDACTED, is_placeholder_key};

fn secrets(texts: &[&str]) -> KnownSecrets {
    KnownSecrets::new(texts.iter().map(|text| (*text).into()))
}

fn streamed(secrets: &KnownSecrets, chunks: &[&[u8]]) -> Vec<u8> {
    let mut clean = Vec::new();
    let mut pending = Vec::new();
    let mut redacted = 0;
    for chunk in chunks {
        pending.extend_from_slice(chunk);
        let before = clean.len();
        let held = secrets.scan(&pending, redacted, false, |piece| clean.extend_from_slice(piece));
        if redacted == 0 {
            let as_they_are = secrets.unchanged(&pending).map(|count| &pending[..count]);
            assert!(
                as_they_are.is_none_or(|bytes| *bytes == clean[before..]),
                "both ways give the same result"
            );
        }
        pending.drain(..pending.len() - held.bytes);
        redacted = held.redacted;
    }
    secrets.scan(&pending, redacted, true, |piece| clean.extend_from_slice(piece));
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
fn secrets_that_overlap_across_chunks_are_redacted_whole() {
    let secrets = secrets(&["wxab", "abyz"]);
    assert_eq!(streamed(&secrets, &[b"wxab", b"yz"]), b"[redacted]");
    assert_eq!(streamed(&secrets, &[b"wxab", b"y!"]), b"[redacted]y!");
    assert_eq!(streamed(&secrets, &[b"wxa", b"b"]), b"[redacted]");
}

#[test]
fn short_and_empty_strings_are_not_secrets() {
    assert!(secrets(&["", "a", "abc"]).is_empty());
}

#[test]
fn overlapping_secrets_in_complete_text_are_redacted_whole() {
    let secrets = secrets(&["abcdef", "xxab", "cdef-and-more"]);
    assert_eq!(secrets.redact("-xxabcdef-abcdefabcdef-", "[key]"), "-[key]-[key][key]-");
    assert_eq!(secrets.redact("xxabcdef-and-more.", "[key]"), "[key].");
    assert!(matches!(secrets.redact("abcde", "[key]"), std::borrow::Cow::Borrowed("abcde")));
}

#[test]
fn only_keys_that_stand_for_none_are_placeholders() {
    let placeholders = [
        "", "none", "EMPTY", "test", "dummy", "ollama", "local", "1234", "null", "sk-no-key-required",
        "not-needed", "lm-studio", "your_api_key", " none\n", "123456", "Testing", "vLLM",
    ];
    for key in placeholders {
        assert!(is_placeholder_key(key), "{key}");
    }
    let keys = [
        "sk-1234", "hunter22", "none-1", "sk-abc", "correcthorse", "12345678", "AIzaSyD-x", "Пароль-nokey",
        "te$t_k€y", "test+key", "secret", "tiger", "482913", "ключ",
    ];
    for key in keys {
        assert!(!is_placeholder_key(key), "{key}");
    }
    assert_eq!(secrets(&["none"]).redact("none", REDACTED), REDACTED, "a typed password may be a short word");
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
        let whole = secrets.redact(&text, REDACTED);
        let clean = streamed(&secrets, &chunks);
        prop_assert_eq!(String::from_utf8_lossy(&clean), whole.as_ref());
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
