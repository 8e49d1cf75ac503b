//! One command's output on its way: secrets out, then to the model's excerpt, the live display and the artefact.
//!
//! What comes is read into the very buffer that the artefact is written from: a flood of output is copied once from
//! its pipe and once to its file, and never in between.

use std::borrow::Cow;
use std::io;
use std::time::Duration;

use sysop_core::look::Looks;
use sysop_core::text::painted;
use sysop_driver::port::DeltaSink;
use tokio::time::Instant;

use super::artefacts::{ArtefactWriter, Artefacts, BATCH_BYTES, Kept};
use super::head_tail::{Gap, HeadTail};
use super::pace::Pace;
use super::redact::{self, Secrets};
use super::{OutputLimits, counted, grouped};

/// How long a finished call waits for a slow disk to take the rest of its artefact.
const ARTEFACT_WAIT_MAX: Duration = Duration::from_secs(5);
/// The first read; most commands print less.
const READ_BYTES_MIN: usize = 8 * 1024;
/// How much larger the room is after a read that filled it.
const GROWTH: usize = 4;

/// Takes one stream of output.
pub(crate) struct Capture<'a> {
    secrets: Option<&'a Secrets>,
    buffer: Buffer,
    stream: Stream<'a>,
}

/// What was read: first what waits for the artefact, then what may be the beginning of a secret, then room.
struct Buffer {
    bytes: Vec<u8>,
    /// Bytes that were passed on and wait for the artefact.
    clean: usize,
    /// Bytes after them that wait for what follows.
    held: usize,
    /// Whether the last read took all the room.
    filled: bool,
}

/// What the model is told of a stream, and how that looks to a person.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Captured {
    pub(crate) text: String,
    pub(crate) looks: Looks,
    pub(crate) truncated: bool,
    pub(crate) artefact: Option<String>,
}

impl<'a> Capture<'a> {
    pub(crate) fn new(
        limits: OutputLimits,
        secrets: &'a Secrets,
        artefacts: &'a Artefacts,
        sink: DeltaSink,
    ) -> Self {
        let stream = Stream {
            excerpt: HeadTail::new(limits),
            pace: Pace::new(sink),
            artefacts: Some(artefacts),
            writer: None,
        };
        let secrets = (!secrets.is_empty()).then_some(secrets);
        Self { secrets, buffer: Buffer::new(), stream }
    }

    /// For output that only the tool itself reads: as it comes, shown to nobody.
    pub(crate) fn unseen(bytes_max: usize) -> Self {
        let stream = Stream {
            excerpt: HeadTail::new(OutputLimits { bytes: bytes_max, lines: usize::MAX }),
            pace: Pace::new(DeltaSink::none()),
            artefacts: None,
            writer: None,
        };
        Self { secrets: None, buffer: Buffer::new(), stream }
    }

    /// The bytes of unseen output; none where there were too many.
    pub(crate) fn into_bytes(self) -> Option<Vec<u8>> {
        (!self.stream.excerpt.exceeded()).then(|| self.stream.excerpt.whole())
    }

    /// Where the next bytes are to be put; `filled` takes them.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.buffer.room()
    }

    /// Takes the first `count` bytes of the room. `settle` must follow before more are taken.
    pub(crate) fn filled(&mut self, count: usize) {
        let Self { secrets, buffer, stream } = self;
        buffer.filled = count == buffer.room().len();
        let fresh = buffer.clean..buffer.clean + buffer.held + count;
        let bytes = &buffer.bytes[fresh.clone()];
        let passed_on = match secrets {
            Some(secrets) => redact::unchanged(secrets, bytes),
            None => Some(bytes.len()),
        };
        match (passed_on, secrets) {
            (Some(passed_on), _) => {
                stream.keep(&bytes[..passed_on]);
                buffer.clean += passed_on;
                buffer.held = bytes.len() - passed_on;
            }
            (None, Some(secrets)) => {
                let mut clean = Vec::with_capacity(bytes.len());
                let held = redact::scan(secrets, bytes, false, |piece| clean.extend_from_slice(piece));
                stream.keep(&clean);
                buffer.replace(fresh, &clean, held.len());
            }
            (None, None) => unreachable!("without secrets all is passed on"),
        }
        if stream.writer.is_none() {
            buffer.forget_clean();
        }
    }

    /// Takes bytes that are there already. `settle` must follow before more are taken.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.buffer.make_room(bytes.len());
        self.buffer.room()[..bytes.len()].copy_from_slice(bytes);
        self.filled(bytes.len());
    }

    /// Makes room; waits until the disk has taken what there is for it. Nothing is lost if this is dropped.
    pub(crate) async fn settle(&mut self) {
        let Self { buffer, stream, .. } = self;
        if let Some(writer) = &mut stream.writer {
            buffer.grow_to(BATCH_BYTES);
            if buffer.clean >= buffer.bytes.len() / 2 {
                writer.hand_over(&mut buffer.bytes, buffer.clean, buffer.held).await;
                buffer.clean = 0;
            }
        } else if buffer.filled {
            buffer.grow_to((buffer.bytes.len() * GROWTH).min(BATCH_BYTES));
        }
        buffer.make_room(1);
    }

    /// When `display` has something to do.
    pub(crate) fn display_due(&self) -> Option<Instant> {
        self.stream.pace.due()
    }

    /// Passes on what waits for live display.
    pub(crate) fn display(&mut self) {
        self.stream.pace.flush();
    }

    /// Ends the stream.
    pub(crate) async fn finish(mut self) -> Captured {
        let Self { secrets, buffer, stream } = &mut self;
        let held = buffer.clean..buffer.clean + buffer.held;
        if let Some(secrets) = secrets
            && !held.is_empty()
        {
            let mut clean = Vec::new();
            redact::scan(secrets, &buffer.bytes[held.clone()], true, |piece| clean.extend_from_slice(piece));
            stream.keep(&clean);
            buffer.replace(held, &clean, 0);
            if stream.writer.is_none() {
                buffer.forget_clean();
            }
        }
        let rest = (std::mem::take(&mut buffer.bytes), buffer.clean);
        self.stream.finish(self.secrets, rest).await
    }
}

impl Buffer {
    fn new() -> Self {
        Self { bytes: vec![0; READ_BYTES_MIN], clean: 0, held: 0, filled: false }
    }

    fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.clean + self.held..]
    }

    fn grow_to(&mut self, bytes: usize) {
        if self.bytes.len() < bytes {
            self.bytes.resize(bytes, 0);
        }
    }

    fn make_room(&mut self, bytes: usize) {
        self.grow_to(self.clean + self.held + bytes);
    }

    /// Puts what was passed on in the place of what was read; the last `held` bytes of that wait on.
    fn replace(&mut self, fresh: std::ops::Range<usize>, clean: &[u8], held: usize) {
        let waiting = self.bytes[fresh.end - held..fresh.end].to_vec();
        self.bytes.truncate(fresh.start);
        self.bytes.extend_from_slice(clean);
        self.clean = self.bytes.len();
        self.bytes.extend_from_slice(&waiting);
        self.held = held;
        self.bytes.resize(self.bytes.len().max(fresh.end).max(READ_BYTES_MIN), 0);
    }

    /// Without an artefact nobody waits for what was passed on.
    fn forget_clean(&mut self) {
        self.bytes.copy_within(self.clean..self.clean + self.held, 0);
        self.clean = 0;
    }
}

struct Stream<'a> {
    excerpt: HeadTail,
    pace: Pace,
    artefacts: Option<&'a Artefacts>,
    writer: Option<ArtefactWriter>,
}

impl Stream<'_> {
    fn keep(&mut self, bytes: &[u8]) {
        self.pace.push(bytes);
        if self.writer.is_none() && self.excerpt.would_exceed(bytes) {
            self.begin_artefact();
        }
        self.excerpt.push(bytes);
    }

    /// With what came so far; what comes from now on is handed over.
    fn begin_artefact(&mut self) {
        self.writer = self.artefacts.map(|artefacts| artefacts.begin(self.excerpt.whole()));
    }

    /// Ends it; `rest` is a buffer and how much of it waits for the artefact.
    async fn finish(&mut self, secrets: Option<&Secrets>, rest: (Vec<u8>, usize)) -> Captured {
        self.pace.finish();
        let excerpt = self.excerpt.finish();
        let (mut text, mut looks) = told(secrets, &excerpt.head);
        let Some(gap) = excerpt.gap else {
            return Captured { text, looks, truncated: false, artefact: None };
        };
        if self.writer.is_none() {
            self.begin_artefact();
        }
        let kept = match tokio::time::timeout(ARTEFACT_WAIT_MAX, self.finish_artefact(rest)).await {
            Ok(kept) => kept,
            Err(_) => Err(io::Error::other("the disk does not answer")),
        };
        let notice = notice(gap, &kept, self.artefacts.map_or(0, Artefacts::bytes_max));
        let (tail, tail_looks) = told(secrets, &excerpt.tail);
        text = joined(&text, &notice, &tail);
        looks.append(text.len() - tail.len(), &tail, &tail_looks);
        Captured { text, looks, truncated: true, artefact: kept.ok().map(|kept| kept.name) }
    }

    async fn finish_artefact(&mut self, rest: (Vec<u8>, usize)) -> io::Result<Kept> {
        match self.writer.take() {
            Some(writer) => writer.finish(rest).await,
            None => Err(io::Error::other("it was not begun")),
        }
    }
}

/// A text as a model is told it, and how it looks. A secret may come together only when the control sequences are
/// gone; the places of looks are wrong then.
fn told(secrets: Option<&Secrets>, text: &str) -> (String, Looks) {
    let (text, looks) = painted(text);
    match secrets.map(|secrets| secrets.redact(&text)) {
        Some(Cow::Owned(clean)) => (clean, Looks::default()),
        Some(Cow::Borrowed(_)) | None => (text.into_owned(), looks),
    }
}

fn notice(gap: Gap, kept: &io::Result<Kept>, bytes_max: u64) -> String {
    let place = match kept {
        Ok(Kept { name, cut: false }) => format!("whole output: artefact {name}"),
        Ok(Kept { name, cut: true }) => format!("first {} bytes: artefact {name}", grouped(bytes_max)),
        Err(error) => format!("the whole could not be kept: {error}"),
    };
    format!("… [{}, {} left out; {place}] …", counted(gap.lines, "line"), counted(gap.bytes, "byte"))
}

/// Head, notice and tail, each on lines of their own.
pub(crate) fn joined(head: &str, notice: &str, tail: &str) -> String {
    let border = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    format!("{head}{border}{notice}\n{tail}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, proptest};
    use sysop_driver::port::DeltaSink;

    use super::{Artefacts, Capture, OutputLimits, Secrets};

    /// Reads chunks as they would come from a pipe: never more than the room that there is.
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
        fn the_artefact_is_the_output_without_secrets_however_it_comes(
            words in proptest::collection::vec(
                proptest::prop_oneof!["[ab\n]{1,9}", "hunter22", "hunt", any::<u16>().prop_map(|n| "long ".repeat(usize::from(n) / 4))],
                1..40,
            ),
            sizes in proptest::collection::vec(1_usize..100_000, 1..20),
            known in any::<bool>(),
        ) {
            let text = words.concat();
            let home = tempfile::tempdir().expect("a folder");
            let artefacts = Artefacts::new(home.path().to_owned(), u64::MAX);
            let secrets = if known { Secrets::new(&["hunter22".into(), "abba".into()]) } else { Secrets::default() };
            let limits = OutputLimits { bytes: 2_000, lines: 50 };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            let captured = runtime.block_on(async {
                let mut capture = Capture::new(limits, &secrets, &artefacts, DeltaSink::none());
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
            match captured.artefact {
                Some(name) => {
                    let kept = std::fs::read(home.path().join(name)).expect("it was kept");
                    prop_assert!(kept == whole.as_bytes(), "{} bytes kept of {}", kept.len(), whole.len());
                }
                None => prop_assert_eq!(captured.text, whole),
            }
        }
    }
}
