//! A recording of what a terminal showed, in asciicast v2 (docs.asciinema.org/manual/asciicast/v2). Never holds
//! what was typed: only output and sizes, as watchers receive them.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::time::Instant;

use sysop_driver::people::TerminalSize;

use crate::output::artefacts::Artefacts;
use crate::output::redact::{Redaction, Secrets};

/// The most bytes of one recording.
const RECORDING_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A recording that is being made.
pub(super) struct Recording {
    file: BufWriter<File>,
    started: Instant,
    room: u64,
    redaction: Redaction,
    /// The beginning of a character that is not whole yet.
    cut: Vec<u8>,
}

impl Recording {
    /// Begins one beside the artefacts, for its owner alone.
    pub(super) fn begin(artefacts: &Artefacts, size: TerminalSize) -> io::Result<Self> {
        let file = artefacts.create(&format!("terminal-{:016x}.cast", rand::random::<u64>()))?;
        let mut recording = Self {
            file: BufWriter::new(file),
            started: Instant::now(),
            room: RECORDING_BYTES_MAX,
            redaction: Redaction::default(),
            cut: Vec::new(),
        };
        let header = serde_json::json!({
            "version": 2,
            "width": size.columns,
            "height": size.rows,
            "timestamp": jiff::Timestamp::now().as_second(),
            "env": { "TERM": "xterm-256color" },
        });
        recording.line(&header.to_string())?;
        Ok(recording)
    }

    /// Output, as it may be shown.
    pub(super) fn output(&mut self, secrets: &Secrets, bytes: &[u8]) -> io::Result<()> {
        if self.room == 0 {
            return Ok(());
        }
        let mut clean = std::mem::take(&mut self.cut);
        if secrets.is_empty() {
            clean.extend_from_slice(bytes);
        } else {
            self.redaction.push(secrets, bytes, |piece| clean.extend_from_slice(piece));
        }
        self.cut = clean.split_off(clean.len() - crate::output::head_tail::unfinished(&clean));
        if clean.is_empty() {
            return Ok(());
        }
        self.event("o", &String::from_utf8_lossy(&clean))
    }

    pub(super) fn resized(&mut self, size: TerminalSize) -> io::Result<()> {
        self.event("r", &format!("{}x{}", size.columns, size.rows))
    }

    /// Puts all on the disk that there is.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    fn event(&mut self, kind: &str, data: &str) -> io::Result<()> {
        let at = self.started.elapsed();
        let data = serde_json::to_string(data)?;
        self.line(&format!("[{}.{:06}, \"{kind}\", {data}]", at.as_secs(), at.subsec_micros()))
    }

    /// A line that no longer fits ends the recording.
    fn line(&mut self, line: &str) -> io::Result<()> {
        let bytes = line.len() as u64 + 1;
        if bytes > self.room {
            self.room = 0;
            return Ok(());
        }
        self.room -= bytes;
        self.file.write_all(line.as_bytes())?;
        self.file.write_all(b"\n")
    }
}
