//! Recording of terminal output in asciicast v2 (docs.asciinema.org/manual/asciicast/v2). A recording contains output
//! and sizes as watchers receive them, and never input.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::time::Instant;

use sysop_core::id::SessionId;
use sysop_driver::prompter::TerminalSize;

use crate::output::artifacts::Artifacts;
use crate::output::purge_session::recording_name;
use crate::output::redact::{Secrets, StreamRedactor};

const RECORDING_BYTES_MAX: u64 = 64 * 1024 * 1024;

pub(super) struct Recording {
    file: BufWriter<File>,
    started: Instant,
    room: u64,
    redaction: StreamRedactor,
    /// Redacted output that is still to be written. Between calls, it contains only an incomplete character.
    clean: Vec<u8>,
    line: Vec<u8>,
}

impl Recording {
    /// Creates the file among the artifacts, readable only by its owner, and writes the header.
    pub(super) fn begin(
        artifacts: &Artifacts,
        session: Option<&SessionId>,
        size: TerminalSize,
    ) -> io::Result<Self> {
        let file = artifacts.create(&recording_name(session))?;
        let mut recording = Self {
            file: BufWriter::new(file),
            started: Instant::now(),
            room: RECORDING_BYTES_MAX,
            redaction: StreamRedactor::default(),
            clean: Vec::new(),
            line: Vec::new(),
        };
        let header = serde_json::json!({
            "version": 2,
            "width": size.columns,
            "height": size.rows,
            "timestamp": jiff::Timestamp::now().as_second(),
            "env": { "TERM": "xterm-256color" },
        });
        recording.write_line(header.to_string().as_bytes())?;
        Ok(recording)
    }

    pub(super) fn output(&mut self, secrets: &Secrets, bytes: &[u8]) -> io::Result<()> {
        if self.room == 0 {
            return Ok(());
        }
        let mut clean = std::mem::take(&mut self.clean);
        self.redaction.push(secrets, bytes, |piece| clean.extend_from_slice(piece));
        let whole = clean.len() - crate::output::head_tail::unfinished(&clean);
        let written =
            if whole > 0 { self.event("o", &String::from_utf8_lossy(&clean[..whole])) } else { Ok(()) };
        // An incomplete character waits for its remaining bytes.
        clean.drain(..whole);
        self.clean = clean;
        written
    }

    pub(super) fn resized(&mut self, size: TerminalSize) -> io::Result<()> {
        self.event("r", &format!("{}x{}", size.columns, size.rows))
    }

    /// Writes buffered events to the file.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    fn event(&mut self, kind: &str, data: &str) -> io::Result<()> {
        let at = self.started.elapsed();
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        write!(line, "[{}.{:06}, \"{kind}\", \"", at.as_secs(), at.subsec_micros())?;
        escape(data, &mut line);
        line.extend_from_slice(b"\"]");
        let written = self.write_line(&line);
        self.line = line;
        written
    }

    /// Writes a line. The first line that exceeds the limit ends the recording.
    fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        let bytes = line.len() as u64 + 1;
        if bytes > self.room {
            self.room = 0;
            return Ok(());
        }
        self.room -= bytes;
        self.file.write_all(line)?;
        self.file.write_all(b"\n")
    }
}

/// Appends `text` as the contents of a JSON string. Scans blocks of bytes for the few that need an escape.
fn escape(text: &str, out: &mut Vec<u8>) {
    const STEP: usize = 32;
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let plain: usize = rest
            .chunks(STEP)
            .map(|step| {
                // Branch-free, so that the compiler can vectorize it.
                let any = step.iter().fold(false, |any, byte| any | is_escaped(*byte));
                if any { step.iter().take_while(|byte| !is_escaped(**byte)).count() } else { step.len() }
            })
            .scan(true, |go_on, run| {
                let counted = std::mem::replace(go_on, run == STEP);
                counted.then_some(run)
            })
            .sum();
        let (run, after) = rest.split_at(plain);
        out.extend_from_slice(run);
        let Some((byte, after)) = after.split_first() else { return };
        match byte {
            b'"' => out.extend_from_slice(br#"\""#),
            b'\\' => out.extend_from_slice(br"\\"),
            b'\n' => out.extend_from_slice(br"\n"),
            b'\r' => out.extend_from_slice(br"\r"),
            b'\t' => out.extend_from_slice(br"\t"),
            byte => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
        rest = after;
    }
}

fn is_escaped(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, prop_assert_eq, proptest};

    use super::escape;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn escaped_text_decodes_to_the_original(pieces in proptest::collection::vec("[ -~]{0,70}|[\0-\x1f\x7f\"]|[äö€😀]{1,20}|\r\n", 0..12)) {
            let text = pieces.concat();
            let mut line = vec![b'"'];
            escape(&text, &mut line);
            line.push(b'"');
            prop_assert_eq!(serde_json::from_slice::<String>(&line).expect("a string of JSON"), text);
        }
    }
}
