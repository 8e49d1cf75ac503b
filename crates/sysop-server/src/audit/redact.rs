//! Removes secrets from command lines before they are logged: known secrets, and text that looks like a secret.
//!
//! The heuristic prefers to remove too much, because the full command is in the session's log, and its hash is in the
//! audit line.

use std::sync::LazyLock;

use regex::Regex;
use secrecy::SecretString;
use sysop_core::redact::shapes::redact_command_shapes;
use sysop_core::redact::{KnownSecrets, REDACTED};

const COMMAND_CHARS_MAX: usize = 4096;

/// Matches the start of a here-document; the group `end` is its delimiter.
static HERE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?:^|[^<])<<-?\s*["'\\]?(?<end>\w+)"#).expect("the regular expression is valid")
});

/// Redacts known secrets, and text that looks like a secret.
#[derive(Debug, Default)]
pub struct CommandRedactor {
    known: KnownSecrets,
}

impl CommandRedactor {
    pub fn new(secrets: &[SecretString]) -> Self {
        Self { known: KnownSecrets::new(secrets.iter().cloned()) }
    }

    /// Returns the command line for logging: shortened, without secrets and without here-documents.
    pub fn command(&self, command: &str) -> String {
        let text = without_documents(command);
        let text = redact_command_shapes(&self.known.redact(&text, REDACTED));
        match text.char_indices().nth(COMMAND_CHARS_MAX) {
            None => text,
            Some((end, _)) => format!("{}… [{} bytes]", &text[..end], command.len()),
        }
    }
}

/// Replaces each here-document with the number of its lines, because a here-document is usually the content of a file.
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
