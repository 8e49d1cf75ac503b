//! Captures the output of one command: redacts it and feeds the excerpt, the live display and the artifact.
//!
//! Output is read directly into the buffer from which the artifact is written. A large output is therefore copied once
//! from the pipe and once to the file, and not in between.

use std::borrow::Cow;
use std::io;
use std::time::Duration;

use sysop_core::redact::PendingBytes;
use sysop_core::redact::shapes::{redact_cut_shapes, redact_shapes};
use sysop_core::style::StyleRuns;
use sysop_core::text::split_styles;
use sysop_core::ui_text::{counted, grouped};
use sysop_driver::port::DeltaSink;
use tokio::time::Instant;

use super::OutputLimits;
use super::artifacts::{ArtifactRef, ArtifactWriter, Artifacts, BATCH_BYTES};
use super::head_tail::{Gap, HeadTail};
use super::redact::Secrets;
use super::throttle::Throttle;

/// Maximum time that a finished call waits for a slow disk to store the end of its artifact.
const ARTIFACT_WAIT_MAX: Duration = Duration::from_secs(5);
/// Size of the first read in bytes; most commands print less.
const READ_BYTES_MIN: usize = 8 * 1024;
/// Growth factor of the buffer after a read that filled it.
const GROWTH: usize = 4;

pub(crate) struct Capture<'a> {
    secrets: Option<&'a Secrets>,
    buffer: CaptureBuffer,
    stream: CaptureSinks<'a>,
}

/// Buffer in three parts: redacted bytes that wait for the artifact, bytes that may be the beginning of a secret, and
/// free space for the next read.
struct CaptureBuffer {
    bytes: Vec<u8>,
    /// Number of bytes that were passed on and wait for the artifact.
    clean: usize,
    /// Number of bytes after the `clean` ones that may be the beginning of a secret.
    pending: PendingBytes,
    /// True if the last read filled the free space.
    filled: bool,
}

/// Excerpt for the model, with its styles for display.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CapturedOutput {
    pub(crate) text: String,
    pub(crate) styles: StyleRuns,
    pub(crate) truncated: bool,
    pub(crate) artifact: Option<String>,
}

impl<'a> Capture<'a> {
    pub(crate) fn new(
        limits: OutputLimits,
        secrets: &'a Secrets,
        artifacts: &'a Artifacts,
        sink: DeltaSink,
    ) -> Self {
        let stream = CaptureSinks {
            excerpt: HeadTail::new(limits),
            throttle: Throttle::new(sink),
            artifacts: Some(artifacts),
            writer: None,
        };
        Self { secrets: Some(secrets), buffer: CaptureBuffer::new(), stream }
    }

    /// Creates a capture for output that only the tool itself reads. The output is not redacted, not displayed live and
    /// not stored as an artifact.
    pub(crate) fn for_tool(bytes_max: usize) -> Self {
        let stream = CaptureSinks {
            excerpt: HeadTail::new(OutputLimits { bytes: bytes_max, lines: usize::MAX }),
            throttle: Throttle::new(DeltaSink::none()),
            artifacts: None,
            writer: None,
        };
        Self { secrets: None, buffer: CaptureBuffer::new(), stream }
    }

    /// Returns the bytes of a `for_tool` capture, or `None` if they exceeded the limit.
    pub(crate) fn into_bytes(self) -> Option<Vec<u8>> {
        (!self.stream.excerpt.exceeded()).then(|| self.stream.excerpt.whole())
    }

    /// Returns the free space for the next read. After the read, pass the number of bytes that were read to `filled`.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.buffer.room()
    }

    /// Processes the first `count` bytes of the free space. Call `settle` before the next read.
    pub(crate) fn filled(&mut self, count: usize) {
        let Self { secrets, buffer, stream } = self;
        buffer.filled = count == buffer.room().len();
        let PendingBytes { bytes: waiting, redacted } = buffer.pending;
        let fresh = buffer.clean..buffer.clean + waiting + count;
        let bytes = &buffer.bytes[fresh.clone()];
        let passed_on = match secrets {
            Some(_) if redacted > 0 => None,
            Some(secrets) => secrets.known().unchanged(bytes),
            None => Some(bytes.len()),
        };
        match (passed_on, secrets) {
            (Some(passed_on), _) => {
                stream.keep(&bytes[..passed_on]);
                buffer.clean += passed_on;
                buffer.pending = PendingBytes { bytes: bytes.len() - passed_on, redacted: 0 };
            }
            (None, Some(secrets)) => {
                let mut clean = Vec::with_capacity(bytes.len());
                let held =
                    secrets.known().scan(bytes, redacted, false, |piece| clean.extend_from_slice(piece));
                stream.keep(&clean);
                buffer.replace(fresh, &clean, held);
            }
            (None, None) => unreachable!("without secrets, all output is passed on"),
        }
        if stream.writer.is_none() {
            buffer.forget_clean();
        }
    }

    /// Processes bytes that were already read. Call `settle` before the next call.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.buffer.make_room(bytes.len());
        self.buffer.room()[..bytes.len()].copy_from_slice(bytes);
        self.filled(bytes.len());
    }

    /// Ensures that the buffer has free space, and waits for the disk if necessary. Cancel safe.
    pub(crate) async fn settle(&mut self) {
        let Self { buffer, stream, .. } = self;
        if let Some(writer) = &mut stream.writer {
            buffer.grow_to(BATCH_BYTES);
            if buffer.clean >= buffer.bytes.len() / 2 {
                writer.write_batch(&mut buffer.bytes, buffer.clean, buffer.pending.bytes).await;
                buffer.clean = 0;
            }
        } else if buffer.filled {
            buffer.grow_to((buffer.bytes.len() * GROWTH).min(BATCH_BYTES));
        }
        buffer.make_room(1);
    }

    /// Returns the time at which `display` must be called next, or `None` if nothing is pending.
    pub(crate) fn display_due(&self) -> Option<Instant> {
        self.stream.throttle.due()
    }

    pub(crate) fn display(&mut self) {
        self.stream.throttle.flush();
    }

    pub(crate) async fn finish(mut self) -> CapturedOutput {
        let Self { secrets, buffer, stream } = &mut self;
        let PendingBytes { bytes: waiting, redacted } = buffer.pending;
        let pending = buffer.clean..buffer.clean + waiting;
        if let Some(secrets) = secrets
            && !pending.is_empty()
        {
            let mut clean = Vec::new();
            let bytes = &buffer.bytes[pending.clone()];
            secrets.known().scan(bytes, redacted, true, |piece| clean.extend_from_slice(piece));
            stream.keep(&clean);
            buffer.replace(pending, &clean, PendingBytes::default());
            if stream.writer.is_none() {
                buffer.forget_clean();
            }
        }
        let rest = (std::mem::take(&mut buffer.bytes), buffer.clean);
        self.stream.finish(self.secrets, rest).await
    }
}

impl CaptureBuffer {
    fn new() -> Self {
        Self { bytes: vec![0; READ_BYTES_MIN], clean: 0, pending: PendingBytes::default(), filled: false }
    }

    fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.clean + self.pending.bytes..]
    }

    fn grow_to(&mut self, bytes: usize) {
        if self.bytes.len() < bytes {
            self.bytes.resize(bytes, 0);
        }
    }

    fn make_room(&mut self, bytes: usize) {
        self.grow_to(self.clean + self.pending.bytes + bytes);
    }

    /// Replaces the bytes in `fresh` with their redacted form. The last `held.bytes` bytes stay pending.
    fn replace(&mut self, fresh: std::ops::Range<usize>, clean: &[u8], held: PendingBytes) {
        let waiting = self.bytes[fresh.end - held.bytes..fresh.end].to_vec();
        self.bytes.truncate(fresh.start);
        self.bytes.extend_from_slice(clean);
        self.clean = self.bytes.len();
        self.bytes.extend_from_slice(&waiting);
        self.pending = held;
        self.bytes.resize(self.bytes.len().max(fresh.end).max(READ_BYTES_MIN), 0);
    }

    /// Drops the `clean` bytes. Called if no artifact is being written, because only an artifact needs them.
    fn forget_clean(&mut self) {
        self.bytes.copy_within(self.clean..self.clean + self.pending.bytes, 0);
        self.clean = 0;
    }
}

struct CaptureSinks<'a> {
    excerpt: HeadTail,
    throttle: Throttle,
    artifacts: Option<&'a Artifacts>,
    writer: Option<ArtifactWriter>,
}

impl CaptureSinks<'_> {
    fn keep(&mut self, bytes: &[u8]) {
        self.throttle.push(bytes);
        if self.writer.is_none() && self.excerpt.would_exceed(bytes) {
            self.begin_artifact();
        }
        self.excerpt.push(bytes);
    }

    /// Starts the artifact with the output so far. Later output is added in batches.
    fn begin_artifact(&mut self) {
        self.writer = self.artifacts.map(|artifacts| artifacts.begin(self.excerpt.whole()));
    }

    /// Finishes the excerpt, the live display and the artifact. `rest` is the buffer and the number of its
    /// bytes that still wait for the artifact.
    async fn finish(&mut self, secrets: Option<&Secrets>, rest: (Vec<u8>, usize)) -> CapturedOutput {
        self.throttle.finish();
        let excerpt = self.excerpt.finish();
        let shapes = if excerpt.gap.is_some() { redact_cut_shapes } else { redact_shapes };
        let (mut text, mut styles) = redacted_text(secrets, &excerpt.head, shapes);
        let Some(gap) = excerpt.gap else {
            return CapturedOutput { text, styles, truncated: false, artifact: None };
        };
        if self.writer.is_none() {
            self.begin_artifact();
        }
        let kept = match tokio::time::timeout(ARTIFACT_WAIT_MAX, self.finish_artifact(rest)).await {
            Ok(kept) => kept,
            Err(_) => Err(io::Error::other("the disk is not responding")),
        };
        let notice = notice(gap, &kept, self.artifacts.map_or(0, Artifacts::bytes_max));
        let (tail, tail_looks) = redacted_text(secrets, &excerpt.tail, redact_shapes);
        text = joined(&text, &notice, &tail);
        styles.append(text.len() - tail.len(), &tail, &tail_looks);
        CapturedOutput { text, styles, truncated: true, artifact: kept.ok().map(|kept| kept.name) }
    }

    async fn finish_artifact(&mut self, rest: (Vec<u8>, usize)) -> io::Result<ArtifactRef> {
        match self.writer.take() {
            Some(writer) => writer.finish(rest).await,
            None => Err(io::Error::other("the output file was not opened")),
        }
    }
}

/// Redacts the text for the model and returns its styles. A secret may become visible only after control sequences are
/// removed. Redacting it invalidates the offsets of the styles, so no styles are returned in that case.
pub(crate) fn redacted_text(
    secrets: Option<&Secrets>,
    text: &str,
    shapes: fn(&str) -> Cow<'_, str>,
) -> (String, StyleRuns) {
    // `env -0` separates its lines by NUL, which would be dropped here and join a name to the value before it.
    let lines = if text.contains('\0') { Cow::Owned(text.replace('\0', "\n")) } else { Cow::Borrowed(text) };
    let (text, styles) = split_styles(&lines);
    let Some(secrets) = secrets else { return (text.into_owned(), styles) };
    let clean = secrets.redact(&text);
    let told = shapes(&clean);
    if *told == *text {
        return (text.into_owned(), styles);
    }
    (told.into_owned(), StyleRuns::default())
}

fn notice(gap: Gap, kept: &io::Result<ArtifactRef>, bytes_max: u64) -> String {
    let place = match kept {
        Ok(ArtifactRef { name, cut: false }) => format!("full output: artifact {name}"),
        Ok(ArtifactRef { name, cut: true }) => format!("first {} bytes: artifact {name}", grouped(bytes_max)),
        Err(error) => format!("the full output could not be saved: {error}"),
    };
    format!("… [{}, {} omitted; {place}] …", counted(gap.lines, "line"), counted(gap.bytes, "byte"))
}

pub(crate) fn joined(head: &str, notice: &str, tail: &str) -> String {
    let border = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    format!("{head}{border}{notice}\n{tail}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, proptest};
    use sysop_driver::port::DeltaSink;

    use super::{Artifacts, Capture, OutputLimits, Secrets, redacted_text};

    #[test]
    fn values_of_variables_that_nul_separates_are_redacted() {
        let secrets = Secrets::new(&[]);
        let output = "HOME=/root\0DB_PASSWORD=hunter2secret\0LANG=C\0";
        let (text, _) = redacted_text(Some(&secrets), output, super::redact_shapes);
        assert!(!text.contains("hunter2") && text.contains("\nLANG=C\n"), "{text}");
    }

    /// Reads chunks as from a pipe: never more than the free space.
    async fn read(capture: &mut Capture<'_>, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            capture.settle().await;
            let room = capture.room();
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            capture.filled(count);
            bytes = &bytes[count..];
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_artifact_is_the_redacted_output_for_any_chunking(
            words in proptest::collection::vec(
                proptest::prop_oneof!["[ab\n]{1,9}", "abbabba", "hunter22", "hunt", any::<u16>().prop_map(|n| "long ".repeat(usize::from(n) / 4))],
                1..40,
            ),
            sizes in proptest::collection::vec(1_usize..100_000, 1..20),
            known in any::<bool>(),
        ) {
            let text = words.concat();
            let home = tempfile::tempdir().expect("a folder");
            let artifacts = Artifacts::new(home.path().to_owned(), u64::MAX);
            let secrets = if known { Secrets::new(&["hunter22".into(), "abba".into()]) } else { Secrets::default() };
            let limits = OutputLimits { bytes: 2_000, lines: 50 };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            let captured = runtime.block_on(async {
                let mut capture = Capture::new(limits, &secrets, &artifacts, DeltaSink::none());
                let mut rest = text.as_bytes();
                for size in sizes.iter().cycle() {
                    let (chunk, after) = rest.split_at(rest.len().min(*size));
                    read(&mut capture, chunk).await;
                    rest = after;
                    if rest.is_empty() {
                        break;
                    }
                }
                capture.finish().await
            });
            let whole = secrets.redact(&text);
            match captured.artifact {
                Some(name) => {
                    let kept = std::fs::read(home.path().join(name)).expect("it was kept");
                    prop_assert!(kept == whole.as_bytes(), "{} bytes kept of {}", kept.len(), whole.len());
                }
                None => prop_assert_eq!(captured.text, whole),
            }
        }
    }
}
