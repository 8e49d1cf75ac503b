//! Sends audit lines to systemd's journal, in its native protocol: one datagram per line, with fields. The
//! journal adds the sender's process and user itself, which no sender can forge.
//!
//! The audit file is authoritative: a line that the journal does not accept is reported in the server's log.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use super::entry::{AuditEntry, Kind};

const SOCKET: &str = "/run/systemd/journal/socket";
/// `syslog` facility for authorization messages.
const FACILITY: &str = "10";
/// Id of all audit messages, for `journalctl MESSAGE_ID=…`.
const MESSAGE_ID: &str = "0f3d1a8c5b764b6f9a2c7d41e8b05a16";

#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    socket: UnixDatagram,
}

impl Journal {
    /// Opens a sender to the journal of this machine. Nothing is sent yet.
    pub fn open() -> io::Result<Self> {
        Self::at(Path::new(SOCKET))
    }

    /// Opens a sender to the journal at this socket.
    pub fn at(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Self { path: path.to_owned(), socket })
    }

    /// Sends a line. Never blocks. Fails if the journal is unavailable or does not accept the line.
    pub(super) fn send(&self, entry: &AuditEntry) -> io::Result<()> {
        let message = message(entry);
        let sent = self.socket.send_to(&message, &self.path)?;
        if sent < message.len() { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) }
    }
}

fn message(entry: &AuditEntry) -> Vec<u8> {
    let kind = serde_json::to_value(entry.kind).ok();
    let kind = kind.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default();
    let priority = match entry.kind {
        Kind::Refused | Kind::Void | Kind::Repaired => "4",
        Kind::Opened | Kind::Decided | Kind::Started | Kind::Finished | Kind::Typed | Kind::Deleted => "5",
    };
    let sentence = [
        Some(kind),
        entry.outcome.as_deref(),
        entry.who.as_deref(),
        entry.place.as_deref(),
        entry.tool.as_deref(),
        entry.what.as_deref(),
    ];
    let sentence = sentence.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let seq = entry.seq.map(|seq| seq.to_string());
    let exit_code = entry.exit_code.map(|code| code.to_string());
    let fields = [
        ("MESSAGE", Some(sentence.as_str())),
        ("MESSAGE_ID", Some(MESSAGE_ID)),
        ("PRIORITY", Some(priority)),
        ("SYSLOG_FACILITY", Some(FACILITY)),
        ("SYSLOG_IDENTIFIER", Some("sysop")),
        ("SYSOP_KIND", Some(kind)),
        ("SYSOP_SESSION", Some(entry.session.as_str())),
        ("SYSOP_SEQ", seq.as_deref()),
        ("SYSOP_CALL", entry.call.as_deref()),
        ("SYSOP_WHO", entry.who.as_deref()),
        ("SYSOP_FOR", entry.wished.as_deref()),
        ("SYSOP_WHERE", entry.place.as_deref()),
        ("SYSOP_TOOL", entry.tool.as_deref()),
        ("SYSOP_WHAT", entry.what.as_deref()),
        ("SYSOP_ARGUMENTS", entry.arguments.as_deref()),
        ("SYSOP_OUTCOME", entry.outcome.as_deref()),
        ("SYSOP_EXIT_CODE", exit_code.as_deref()),
        ("SYSOP_TRACE", entry.trace.as_deref()),
    ];
    let mut message = Vec::new();
    for (name, value) in fields {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            push_field(&mut message, name, value);
        }
    }
    message
}

/// Adds a field. A value with a newline is preceded by its length, so that it cannot add fields of its own.
fn push_field(message: &mut Vec<u8>, name: &str, value: &str) {
    message.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        message.push(b'\n');
        message.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        message.push(b'=');
    }
    message.extend_from_slice(value.as_bytes());
    message.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use sysop_core::id::Timestamp;

    use super::Journal;
    use crate::audit::{Audit, AuditEntry, Kind};

    fn entry(what: &str) -> AuditEntry {
        AuditEntry {
            session: "s1".to_owned(),
            who: Some("ada".to_owned()),
            what: Some(what.to_owned()),
            outcome: Some("allow".to_owned()),
            ..AuditEntry::new(Kind::Decided, Timestamp(0))
        }
    }

    #[tokio::test]
    async fn each_audit_line_reaches_the_journal_after_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let journal = UnixDatagram::bind(&path).unwrap();
        let audit = Audit::in_folder(&folder.path().join("audit")).with_journal(Journal::at(&path).unwrap());
        audit.write(vec![entry("systemctl restart nginx")]).await.unwrap();
        let mut bytes = [0; 4096];
        let length = journal.recv(&mut bytes).unwrap();
        let text = String::from_utf8(bytes[..length].to_vec()).unwrap();
        for line in [
            "MESSAGE=decided allow ada systemctl restart nginx",
            "PRIORITY=5",
            "SYSLOG_IDENTIFIER=sysop",
            "SYSOP_SESSION=s1",
            "SYSOP_WHO=ada",
            "SYSOP_WHAT=systemctl restart nginx",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        assert!(audit.path().exists());
    }

    #[test]
    fn a_value_with_newlines_adds_no_fields() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let journal = UnixDatagram::bind(&path).unwrap();
        Journal::at(&path).unwrap().send(&entry("true\nSYSOP_WHO=root")).unwrap();
        let mut bytes = [0; 4096];
        let length = journal.recv(&mut bytes).unwrap();
        let found = &bytes[..length];
        let expected = b"SYSOP_WHAT\n\x13\0\0\0\0\0\0\0true\nSYSOP_WHO=root\n";
        assert!(found.windows(expected.len()).any(|part| part == expected));
    }

    #[tokio::test]
    async fn a_missing_journal_stops_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::at(&folder.path().join("missing")).unwrap();
        let audit = Audit::in_folder(folder.path()).with_journal(journal);
        audit.write(vec![entry("true")]).await.unwrap();
    }
}
