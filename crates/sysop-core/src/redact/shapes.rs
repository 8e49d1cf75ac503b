//! Secrets recognized by their form: keys and tokens of well-known services, private keys, passwords in URLs.
//!
//! In output ([`redact_shapes`]) the forms are strict, so that hashes, UUIDs and source code are kept. Each output is
//! searched as a whole, so no token is split. In command lines ([`redact_command_shapes`]) the forms are lenient: it is
//! better to remove too much there than to log a password.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::REDACTED;

/// Expression for a password or token in a header: at least 8 characters.
const HEADER_TOKEN: &str = "[A-Za-z0-9._~+/=-]{8,}";

/// Form of a secret, with its name. If the expression has a group `s`, only the text of that group is secret.
struct Shape {
    name: &'static str,
    expression: Regex,
    /// Additional condition that the matched text must meet.
    is_secret: fn(&str) -> bool,
}

impl Shape {
    fn new(name: &'static str, expression: &str, is_secret: fn(&str) -> bool) -> Self {
        Self { name, expression: Regex::new(expression).expect("the regular expression is valid"), is_secret }
    }
}

/// Forms of secrets in output.
static SHAPES: LazyLock<Vec<Shape>> = LazyLock::new(|| {
    let (any, shape): (fn(&str) -> bool, _) = (|_| true, Shape::new);
    let kind = "-----(BEGIN|END) [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----";
    let end = kind.replace("(BEGIN|END)", "END");
    vec![
        shape("private key", &format!(r"{}[\s\S]*?({end}|\z)", kind.replace("(BEGIN|END)", "BEGIN")), any),
        // End of a private key whose beginning was cut off.
        shape("private key", &format!(r"\A[A-Za-z0-9+/=\s]*{end}"), any),
        shape("AWS key", r"\b(AKIA|ASIA)[A-Z0-9]{16}\b", any),
        shape(
            "AWS secret",
            r#"(?i:aws_?secret_?(access_?)?key|SecretAccessKey)["']?\s*[:=]\s*["']?(?<s>[A-Za-z0-9/+]{40})\b"#,
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
            &format!(r"(?i:\bauthorization:\s*(bearer|basic|token)|\bbearer)\s+(?<s>{HEADER_TOKEN})"),
            has_mixed_characters,
        ),
        shape("password", r#"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@'"]*:(?<s>[^\s/@'"$<{*\[][^\s/@'"]*)@"#, any),
    ]
});

/// Additional forms of secrets in command lines.
static COMMAND_SHAPES: LazyLock<Vec<Shape>> = LazyLock::new(|| {
    let value = r#"(?<s>"(?:[^"\\]|\\.)*"|'[^']*'|[^\s;|&)"']+)"#;
    let word = r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|credentials?|api[_-]?key|access[_-]?key|private[_-]?key|auth)";
    let shapes = [
        r"(?i)\b(?:bearer|basic|digest)\s+(?<s>[\w.~+/=-]{4,})".to_owned(),
        // NAME=value and name: value, as in variables, JSON and headers
        format!(r#"(?i)[\w-]*{word}[\w-]*["']?\s*[=:]\s*{value}"#),
        // --password value
        format!(r"(?i)--?[\w-]*{word}[\w-]*\s+{value}"),
        // scheme://user:secret@host
        r"://[^/\s:@]*:(?<s>[^/\s@]+)@".to_owned(),
        // mysql -psecret, sshpass -p secret, curl -u user:secret
        format!(r"\b(?:mysql\w*|mariadb\w*)\b[^;|&\n]*?\s-p{value}"),
        format!(r"\b(?:sshpass|smbclient|ldap\w+|redis-cli)\b[^;|&\n]*?\s-[paw]\s*{value}"),
        format!(r"\s(?:-u|--user|--proxy-user)[\s=]*[^\s:]+:{value}"),
        // text piped into a program that asks for a password
        r"(?:echo|printf)\s+(?:-\w+\s+)*(?<s>[^|\n]+?)\s*\|\s*(?:sudo\s+(?:-\w+\s+)*-S|su\b|passwd|chpasswd|cryptsetup|gpg)".to_owned(),
        // tokens with a known prefix
        r"(?<s>\b(?:sysop_|sk-|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|hf_|npm_)[\w-]{12,})".to_owned(),
        r"(?<s>\b(?:AKIA|ASIA)[0-9A-Z]{16}\b)".to_owned(),
        r"(?<s>\bAIza[\w-]{30,})".to_owned(),
        r"(?<s>\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*)".to_owned(),
        r"(?s)(?<s>-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z))".to_owned(),
    ];
    shapes.iter().map(|shape| Shape::new("secret", shape, |_| true)).collect()
});

/// Matches a token at the end of truncated text, where the token may continue beyond the end.
static CUT_TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    let starts = "AKIA|ASIA|gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|xapp-|AIza|sk-|eyJ";
    Regex::new(&format!(r"\b({starts})[A-Za-z0-9._-]*\z")).expect("the regular expression is valid")
});

/// Returns true if the text has both a digit and a capital letter. Random strings usually do; class names do not.
fn has_mixed_characters(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit()) && text.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// Redacts secrets of known forms in output; each replacement names the form. If the end of the text was cut
/// off, use [`redact_cut_shapes`] instead.
pub fn redact_shapes(text: &str) -> Cow<'_, str> {
    redact(text, &SHAPES, |name| format!("[redacted: {name}]"))
}

/// Like [`redact_shapes`], but also redacts a token that was cut off at the end of the text.
pub fn redact_cut_shapes(text: &str) -> Cow<'_, str> {
    let clean = redact_shapes(text);
    match CUT_TOKEN.find(&clean) {
        Some(found) => Cow::Owned(format!("{}[redacted: token]", &clean[..found.start()])),
        None => clean,
    }
}

/// Redacts everything in a command line that may be a secret, going by its form.
pub fn redact_command_shapes(command: &str) -> String {
    let mask = |_: &str| REDACTED.to_owned();
    redact(&redact(command, &COMMAND_SHAPES, mask), &SHAPES, mask).into_owned()
}

fn redact<'a>(text: &'a str, shapes: &[Shape], mask: fn(&str) -> String) -> Cow<'a, str> {
    let mut clean = Cow::Borrowed(text);
    for Shape { name, expression, is_secret } in shapes {
        let redacted = expression.replace_all(&clean, |found: &Captures<'_>| {
            let (from, whole) = (found.get_match().start(), &found[0]);
            let secret = found.name("s").unwrap_or(found.get_match());
            if !is_secret(secret.as_str()) {
                return whole.to_owned();
            }
            format!("{}{}{}", &whole[..secret.start() - from], mask(name), &whole[secret.end() - from..])
        });
        if *redacted != *clean {
            clean = Cow::Owned(redacted.into_owned());
        }
    }
    clean
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
