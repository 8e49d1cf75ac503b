//! Secrets recognized by their form: keys and tokens of well-known services, private keys, passwords in URLs, variables
//! named like a secret.
//!
//! In output ([`redact_shapes`]) the forms are strict, so that hashes, UUIDs and source code are kept. Each output is
//! searched as a whole, so no token is split. In command lines ([`redact_command_shapes`]) the forms are lenient: it is
//! better to remove too much there than to log a password.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::REDACTED;

/// Minimum bytes of the value of a variable. A shorter value is a setting rather than a secret.
const VALUE_BYTES_MIN: usize = 6;

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

/// Lines of output that show an environment variable named like a secret, as `env`, `export -p` and files of settings do.
/// In command lines, the value would include the command behind it.
static VARIABLES: LazyLock<Vec<Shape>> = LazyLock::new(|| {
    vec![
        // `declare` writes a value with line breaks as it is, and always closes the quote.
        Shape::new(
            "secret",
            &format!(r#"(?m)^{DECLARES}{}(?<s>"(?:[^"\\]|\\[\s\S])*("|\z))"#, variable()),
            is_secret_value,
        ),
        Shape::new("secret", &format!(r"{}(?<s>[^\r\n\x00]+)", variable_line()), is_secret_value),
    ]
});

/// Expression for the words before the name of a variable in the output of `export -p` and `declare -x`.
const DECLARES: &str = r"[ \t]*(?:export|declare[ \t]+-[a-z]+)[ \t]+";

/// Returns an expression for the name of a variable that is named like a secret, and the `=` behind it.
fn variable() -> String {
    let word = "SECRET|PASSWORD|PASSWD|PASSPHRASE|TOKEN|API_?KEY|PRIVATE_?KEY|ACCESS_?KEY|CREDENTIAL";
    format!("(?:[A-Z0-9_]*(?:{word})S?[0-9]*(?:_[A-Z0-9_]*)?|MYSQL_PWD)=")
}

/// Returns an expression for the beginning of a line that shows such a variable. `env -0` separates them by NUL.
fn variable_line() -> String {
    format!(r"(?m)(?:^|\x00)(?:{DECLARES}|[ \t]*){}", variable())
}

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

/// Matches a variable named like a secret at the end of truncated text. The part of the value that is left may look like a
/// number or a path.
static CUT_VARIABLE: LazyLock<Regex> = LazyLock::new(|| {
    let expression = format!(r"{}(?<s>[^\r\n\x00]+)\z", variable_line());
    Regex::new(&expression).expect("the regular expression is valid")
});

/// Returns true if the value of a variable may be a secret. Numbers, paths, expansions, placeholders and redacted values
/// are none.
fn is_secret_value(text: &str) -> bool {
    let text = text.trim_end();
    let inner = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    let value = inner('"').or_else(|| inner('\'')).unwrap_or(text);
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit() || b"+-.".contains(&byte));
    value.len() >= VALUE_BYTES_MIN
        && !(is_number
            || is_mask(value)
            || is_path(value)
            || is_inserted(value.trim_start_matches(['"', '\''])))
}

fn is_mask(value: &str) -> bool {
    let inner = value.strip_prefix("[redacted").and_then(|rest| rest.strip_suffix(']'));
    inner.is_some_and(|inner| !inner.contains(']'))
}

/// Returns true for a plain path. A long random component may be a secret in base64.
fn is_path(value: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-~@:+".contains(&byte);
    let is_random = |part: &str| part.len() >= 20 && has_mixed_characters(part);
    ["/", "./", "../", "~/"].iter().any(|start| value.starts_with(start))
        && value.bytes().all(is_plain)
        && !value.split('/').any(is_random)
}

/// Returns true for text that stands for a value, as in scripts and templates: `$(command)`, `${NAME}`, `$NAME`, `<name>`.
fn is_inserted(value: &str) -> bool {
    let is_name = |rest: &str| {
        rest.trim_end_matches(['"', '\''])
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    };
    ["$(", "${", "`"].iter().any(|start| value.starts_with(start))
        || value.strip_prefix('$').is_some_and(is_name)
        || value.starts_with('<') && value.ends_with('>')
}

/// Returns true if the text has both a digit and a capital letter. Random strings usually do; class names do not.
fn has_mixed_characters(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit()) && text.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// Redacts secrets of known forms in output; each replacement names the form. If the end of the text was cut
/// off, use [`redact_cut_shapes`] instead.
pub fn redact_shapes(text: &str) -> Cow<'_, str> {
    let mask = |name: &str| format!("[redacted: {name}]");
    match redact(text, &SHAPES, mask) {
        Cow::Borrowed(text) => redact(text, &VARIABLES, mask),
        Cow::Owned(text) => Cow::Owned(redact(&text, &VARIABLES, mask).into_owned()),
    }
}

/// Like [`redact_shapes`], but also redacts a token that was cut off at the end of the text.
pub fn redact_cut_shapes(text: &str) -> Cow<'_, str> {
    let clean = redact_shapes(text);
    let value = CUT_VARIABLE
        .captures(&clean)
        .and_then(|found| found.name("s"))
        .filter(|value| !is_mask(value.as_str()));
    let (start, name) = match (value, CUT_TOKEN.find(&clean)) {
        (Some(value), _) => (value.start(), "secret"),
        (None, Some(token)) => (token.start(), "token"),
        (None, None) => return clean,
    };
    Cow::Owned(format!("{}[redacted: {name}]", &clean[..start]))
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

    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{redact_command_shapes, redact_cut_shapes, redact_shapes};

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
    fn values_of_variables_named_like_a_secret_are_redacted() {
        let mask = "[redacted: secret]";
        for (line, shown) in [
            ("DB_PASSWORD=hunter2", "DB_PASSWORD="),
            ("PGPASSWORD=correct horse battery", "PGPASSWORD="),
            ("export STRIPE_SECRET='a b c d'", "export STRIPE_SECRET="),
            ("declare -x API_TOKEN=\"abc-def-ghi\"", "declare -x API_TOKEN="),
            ("declare -rx API_TOKENS_2=\"a\\\"b\nc\nd\"", "declare -rx API_TOKENS_2="),
            ("  MYSQL_PWD=s3cret-s3cret", "  MYSQL_PWD="),
            ("APP_CREDENTIALS={\"a\":1}", "APP_CREDENTIALS="),
            ("SECRET_KEY_BASE=/abcDEF123abcDEF123abcDEF123", "SECRET_KEY_BASE="),
            ("PASSWORD=$ecret-one", "PASSWORD="),
            ("TOKEN=[redacted] and more", "TOKEN="),
        ] {
            let text = format!("HOME=/root\n{line}\nLANG=C\n");
            assert_eq!(redact_shapes(&text), format!("HOME=/root\n{shown}{mask}\nLANG=C\n"));
            assert_eq!(redact_cut_shapes(&text[..text.len() - 8]), format!("HOME=/root\n{shown}{mask}"));
        }
        let separated = "HOME=/root\0DB_PASSWORD=hunter2\0API_TOKEN=abcdefg\0LANG=C";
        let expected = format!("HOME=/root\0DB_PASSWORD={mask}\0API_TOKEN={mask}\0LANG=C");
        assert_eq!(redact_shapes(separated), expected);
        let token = format!("GITHUB_TOKEN=ghp_{}", "aB3d".repeat(9));
        assert_eq!(redact_shapes(&token), "GITHUB_TOKEN=[redacted: GitHub token]");
        let command = redact_command_shapes("API_KEY=abcdefg make -j 4");
        assert_eq!(command, "API_KEY=[redacted] make -j 4");
    }

    #[test]
    fn harmless_variables_are_kept() {
        for text in [
            "KEYBOARD=us-intl",
            "SSH_AUTH_SOCK=/tmp/ssh-XXXX/agent.1",
            "TOKENIZERS_PARALLELISM=false",
            "TOKENIZER=sentencepiece",
            "USE_TOKEN=true",
            "MAX_TOKENS=1048576",
            "TOKEN_FILE=/run/secrets/token",
            "declare -x AWS_WEB_IDENTITY_TOKEN_FILE=\"/var/run/secrets/token\"",
            "PASSWORD=short",
            "PASSWORD=",
            "TOKEN=$(cat token.txt)",
            "export TOKEN=\"${TOKEN:-default}\"",
            "API_KEY=\"$API_KEY\"",
            "API_KEY=<your-key>",
            "if TOKEN == 'abcdefghi':",
            "TOKEN = read_token()",
            "see PASSWORD=hunter2 in the manual",
        ] {
            assert!(matches!(redact_shapes(text), Cow::Borrowed(_)), "{text}: {}", redact_shapes(text));
        }
    }

    proptest! {
        #[test]
        fn no_part_of_a_variable_survives_a_cut(
            before in "([A-Z]{1,3}=[a-z]{0,3}\n){0,2}",
            prefix in "|export |declare -x ",
            name in "[A-Z]{0,2}_?(SECRET|PASSWORD|TOKEN|API_KEY)(_[A-Z])?",
            value in "[!-\"#%-Z\\]^-~]{6,20}",
            cut in any::<proptest::sample::Index>(),
        ) {
            let start = format!("{before}{prefix}{name}=");
            let cut = 1 + cut.index(value.len());
            let clean = redact_cut_shapes(&format!("{start}{}", &value[..cut])).into_owned();
            prop_assert_eq!(clean.strip_prefix(&start), Some("[redacted: secret]"));
        }
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
