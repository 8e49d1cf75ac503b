//! Secrets recognized by their form: keys and tokens of well-known services, private keys, passwords in URLs.
//!
//! They are redacted in the output for the model and the log, after a call has ended. That output is bounded, so each
//! part can be searched as a whole and no token is split. Live output and artifacts are not redacted this way. Hashes
//! and UUIDs have no such form and are kept.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Substrings of which each secret contains at least one. Most output contains none, so no regex has to run.
const HINTS: [&str; 21] = [
    "PRIVATE KEY",
    "AKIA",
    "ASIA",
    "ecret",
    "ECRET",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xox",
    "xapp-",
    "AIza",
    "sk-",
    "eyJ",
    "uthorization",
    "AUTHORIZATION",
    "earer ",
    "://",
];
/// Password or token in a header: at least 8 characters.
const HEADER_TOKEN: &str = "[A-Za-z0-9._~+/=-]{8,}";

/// Form of a secret, and its name. Text in the groups `before` and `after` is kept.
struct Shape {
    name: &'static str,
    expression: Regex,
    /// Further condition on a match.
    is_secret: fn(&str) -> bool,
}

static SHAPES: LazyLock<Vec<Shape>> = LazyLock::new(|| {
    let any: fn(&str) -> bool = |_| true;
    let shape = |name, expression: &str, is_secret| Shape {
        name,
        expression: Regex::new(expression).expect("a valid expression"),
        is_secret,
    };
    let kind = "-----(BEGIN|END) [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----";
    let end = kind.replace("(BEGIN|END)", "END");
    vec![
        shape("private key", &format!(r"{}[\s\S]*?({end}|\z)", kind.replace("(BEGIN|END)", "BEGIN")), any),
        // End of a private key whose beginning was cut off.
        shape("private key", &format!(r"\A[A-Za-z0-9+/=\s]*{end}"), any),
        shape("AWS key", r"\b(AKIA|ASIA)[A-Z0-9]{16}\b", any),
        shape(
            "AWS secret",
            r#"(?P<before>(?i:aws_?secret_?(access_?)?key|SecretAccessKey)["']?\s*[:=]\s*["']?)[A-Za-z0-9/+]{40}\b"#,
            any,
        ),
        shape("GitHub token", r"\b(gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})", any),
        shape("GitLab token", r"\bglpat-[A-Za-z0-9_-]{20,}", any),
        shape("Slack token", r"\b(xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}", any),
        shape("Google key", r"\bAIza[A-Za-z0-9_-]{35}", any),
        shape("API key", r"\bsk-[A-Za-z0-9_-]{20,}", has_mixed_characters),
        shape("JWT", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*", any),
        shape(
            "authorization",
            &format!(r"(?P<before>(?i:\bauthorization:\s*(bearer|basic|token)|\bbearer)\s+){HEADER_TOKEN}"),
            has_mixed_characters,
        ),
        shape(
            "password",
            r#"(?P<before>\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@'"]*:)[^\s/@'"$<{*\[][^\s/@'"]*(?P<after>@)"#,
            any,
        ),
    ]
});

/// Token that continues beyond the end of a cut text.
static CUT_TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    let starts = "AKIA|ASIA|gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|xapp-|AIza|sk-|eyJ";
    Regex::new(&format!(r"\b({starts})[A-Za-z0-9._-]*\z")).expect("a valid expression")
});

/// Returns true if a text has a digit and a capital letter, as random texts do and class or package names do not.
fn has_mixed_characters(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit()) && text.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// Redacts secrets of known forms.
pub(crate) fn redact_shapes(text: &str) -> Cow<'_, str> {
    if !HINTS.iter().any(|hint| text.contains(hint)) {
        return Cow::Borrowed(text);
    }
    let mut clean = Cow::Borrowed(text);
    for Shape { name, expression, is_secret } in SHAPES.iter() {
        let replaced = expression.replace_all(&clean, |found: &Captures<'_>| {
            let whole = &found[0];
            let part = |name| found.name(name).map_or("", |part| part.as_str());
            let (before, after) = (part("before"), part("after"));
            if is_secret(&whole[before.len()..]) {
                format!("{before}[redacted: {name}]{after}")
            } else {
                whole.to_owned()
            }
        });
        if let Cow::Owned(replaced) = replaced
            && replaced != *clean
        {
            clean = Cow::Owned(replaced);
        }
    }
    clean
}

/// Like `redact_shapes`, for a text that was cut at its end.
pub(crate) fn redact_cut_shapes(text: &str) -> Cow<'_, str> {
    let clean = redact_shapes(text);
    match CUT_TOKEN.find(&clean) {
        Some(found) => Cow::Owned(format!("{}[redacted: token]", &clean[..found.start()])),
        None => clean,
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::{redact_cut_shapes, redact_shapes};

    #[test]
    fn known_secret_formats_are_redacted_by_name() {
        let token = "aB3dE5gH7jK9".repeat(5);
        let cut = |length: usize| &token[..length];
        for (text, expected) in [
            ("id AKIAIOSFODNN7EXAMPLE.".to_owned(), "id [redacted: AWS key].".to_owned()),
            (
                format!("aws_secret_access_key = {}", cut(40)),
                "aws_secret_access_key = [redacted: AWS secret]".into(),
            ),
            (
                format!("\"SecretAccessKey\": \"{}\"", cut(40)),
                "\"SecretAccessKey\": \"[redacted: AWS secret]\"".into(),
            ),
            (format!("ghp_{} x", cut(36)), "[redacted: GitHub token] x".into()),
            (format!("github_pat_{}", cut(50)), "[redacted: GitHub token]".into()),
            (format!("T=glpat-{}", cut(20)), "T=[redacted: GitLab token]".into()),
            ("xoxb-123456789012-abcdef".to_owned(), "[redacted: Slack token]".into()),
            (format!("AIza{}", cut(35)), "[redacted: Google key]".into()),
            (format!("sk-ant-api03-{}", cut(40)), "[redacted: API key]".into()),
            (format!("eyJ{}.eyJ{}.{}", cut(20), cut(20), cut(20)), "[redacted: JWT]".into()),
            (
                format!("Authorization: Bearer {}", cut(20)),
                "Authorization: Bearer [redacted: authorization]".into(),
            ),
            (
                "git clone https://joe:hunter2@web/x".to_owned(),
                "git clone https://joe:[redacted: password]@web/x".into(),
            ),
        ] {
            assert_eq!(redact_shapes(&text), expected);
        }
    }

    #[test]
    fn private_keys_are_redacted_whole_and_in_parts() {
        let key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blbn\nNza=\n-----END OPENSSH PRIVATE KEY-----\n";
        assert_eq!(redact_shapes(&format!("a\n{key}b")), "a\n[redacted: private key]\nb");
        let (head, tail) = key.split_at(40);
        assert_eq!(redact_shapes(head), "[redacted: private key]");
        assert_eq!(redact_shapes(tail), "[redacted: private key]\n");
        let public = "-----BEGIN PUBLIC KEY-----\nMFk=\n-----END PUBLIC KEY-----";
        assert_eq!(redact_shapes(public), public);
    }

    #[test]
    fn similar_harmless_text_is_kept() {
        for text in [
            "commit 6730ca7d1f0c2b3a4958677584930210aabbccdd",
            "550e8400-e29b-41d4-a716-446655440000",
            "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
            ".sk-toggleable__label-arrow-something",
            "the bearer of this message",
            "Authorization: Bearer $TOKEN",
            "postgres://joe:$PASSWORD@db/x http://localhost:8080/a@b",
            "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "no secret here: eyJhbGciOiJIUzI1NiJ9",
        ] {
            assert!(matches!(redact_shapes(text), Cow::Borrowed(_)), "{text}: {}", redact_shapes(text));
        }
    }

    #[test]
    fn a_truncated_token_is_redacted() {
        assert_eq!(redact_cut_shapes("see ghp_aB3dE5"), "see [redacted: token]");
        assert_eq!(redact_cut_shapes("see ghp_ here"), "see ghp_ here");
    }

    #[test]
    fn redacting_twice_changes_nothing() {
        let once = redact_shapes("https://joe:hunter2@web AKIAIOSFODNN7EXAMPLE").into_owned();
        assert_eq!(redact_shapes(&once), once);
    }
}
