//! Removes secrets from command lines before they are logged: known secrets, and text that looks like one.
//!
//! A heuristic that prefers to remove too much: the full command is in the session's log, and its hash is in the audit line.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use secrecy::{ExposeSecret, SecretString};

const REDACTED: &str = "[redacted]";
/// Maximum length of a logged command, in characters.
const COMMAND_CHARS_MAX: usize = 4096;
/// Minimum length of a known secret, in bytes; shorter ones would match everywhere.
const SECRET_BYTES_MIN: usize = 4;

/// Patterns of secrets; the group `s` is the secret.
static SHAPES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
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
    shapes.iter().map(|shape| Regex::new(shape).expect("it is a regular expression")).collect()
});

/// Matches the start of a here-document; the group `end` is its delimiter.
static HERE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?:^|[^<])<<-?\s*["'\\]?(?<end>\w+)"#).expect("it is a regular expression")
});

/// Redacts known secrets and text that looks like one.
#[derive(Default)]
pub struct CommandRedactor {
    known: Option<Regex>,
}

impl CommandRedactor {
    pub fn new(secrets: &[SecretString]) -> Self {
        let mut texts: Vec<&str> = secrets.iter().map(ExposeSecret::expose_secret).collect();
        texts.retain(|text| text.len() >= SECRET_BYTES_MIN);
        // The longest first, because the first alternative that matches wins.
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        let alternatives: Vec<_> = texts.into_iter().map(regex::escape).collect();
        let known = (!alternatives.is_empty())
            .then(|| Regex::new(&alternatives.join("|")).expect("escaped texts are a regular expression"));
        Self { known }
    }

    /// Returns the command line for logging: shortened, without secrets and without here-documents.
    pub fn command(&self, command: &str) -> String {
        let mut text = without_documents(command);
        if let Some(known) = &self.known {
            text = known.replace_all(&text, REDACTED).into_owned();
        }
        for shape in SHAPES.iter() {
            text = shape.replace_all(&text, |found: &Captures<'_>| without(found)).into_owned();
        }
        match text.char_indices().nth(COMMAND_CHARS_MAX) {
            None => text,
            Some((end, _)) => format!("{}… [{} bytes]", &text[..end], command.len()),
        }
    }
}

impl std::fmt::Debug for CommandRedactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redaction")
    }
}

/// Returns the match without its secret.
fn without(found: &Captures<'_>) -> String {
    let whole = &found[0];
    let Some(secret) = found.name("s") else { return whole.to_owned() };
    let from = found.get(0).map_or(0, |whole| whole.start());
    format!("{}{REDACTED}{}", &whole[..secret.start() - from], &whole[secret.end() - from..])
}

/// Replaces the lines of here-documents by their number: they are usually the content of files.
fn without_documents(command: &str) -> String {
    let mut kept = Vec::new();
    let mut lines = command.lines();
    while let Some(line) = lines.next() {
        kept.push(line.to_owned());
        for here in HERE.captures_iter(line) {
            let count = lines.by_ref().take_while(|line| line.trim() != &here["end"]).count();
            kept.push(format!("[{count} lines]"));
        }
    }
    kept.join("\n")
}

#[cfg(test)]
mod tests {
    use super::CommandRedactor;

    #[test]
    fn secrets_in_command_lines_are_redacted() {
        let redaction =
            CommandRedactor::new(&["known-value-1".into(), "known-value-1-and-more".into(), "abc".into()]);
        for (command, kept) in [
            ("ls -la /srv", "ls -la /srv"),
            ("echo known-value-1-and-more abc", "echo [redacted] abc"),
            ("mysql -uroot -phunter22 db", "mysql -uroot -p[redacted] db"),
            ("PGPASSWORD=hunter22 psql -h db", "PGPASSWORD=[redacted] psql -h db"),
            ("export API_KEY='hunter 22'; make", "export API_KEY=[redacted]; make"),
            ("tool --password hunter22 --yes", "tool --password [redacted] --yes"),
            ("tool --token=hunter22", "tool --token=[redacted]"),
            (
                "curl -H 'Authorization: Bearer hunter22.x' http://a",
                "curl -H 'Authorization: [redacted] [redacted]' http://a",
            ),
            ("curl -u me:hunter22 http://a", "curl -u me:[redacted] http://a"),
            ("git clone https://me:hunter22@host/x.git", "git clone https://me:[redacted]@host/x.git"),
            ("echo hunter22 | sudo -S apt update", "echo [redacted] | sudo -S apt update"),
            ("sshpass -p hunter22 ssh host", "sshpass -p [redacted] ssh host"),
            (
                r#"curl -d '{"password":"hunter22"}' http://a"#,
                r#"curl -d '{"password":[redacted]}' http://a"#,
            ),
            ("x sk-abcdefghijklmnop", "x [redacted]"),
            ("aws AKIAABCDEFGHIJKLMNOP", "aws [redacted]"),
            ("cat > f <<'EOF'\nhunter22\nmore\nEOF\nls", "cat > f <<'EOF'\n[2 lines]\nls"),
            ("cat <<< hunter", "cat <<< hunter"),
            ("systemctl restart nginx && passwd -S root", "systemctl restart nginx && passwd -S root"),
        ] {
            assert_eq!(redaction.command(command), kept, "{command}");
        }
        let key =
            "echo '-----BEGIN OPENSSH PRIVATE KEY-----\nhunter22\n-----END OPENSSH PRIVATE KEY-----' > k";
        assert_eq!(redaction.command(key), "echo '[redacted]' > k");
    }

    #[test]
    fn a_long_command_is_truncated() {
        let kept = CommandRedactor::default().command(&"ä".repeat(10_000));
        assert_eq!(kept, format!("{}… [20000 bytes]", "ä".repeat(4096)));
    }
}
