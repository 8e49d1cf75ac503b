//! One command's output on its way: secrets out, then to the model's excerpt, the live display and the artefact.

use std::io;
use std::time::Duration;

use sysop_core::text::strip_controls;
use sysop_driver::port::DeltaSink;
use tokio::time::Instant;

use super::artefacts::{ArtefactWriter, Artefacts, Kept};
use super::head_tail::{Gap, HeadTail};
use super::pace::Pace;
use super::redact::{Redaction, Secrets};
use super::{OutputLimits, counted, grouped};

/// How long a finished call waits for a slow disk to take the rest of its artefact.
const ARTEFACT_WAIT_MAX: Duration = Duration::from_secs(5);

/// Takes one stream of output.
pub(crate) struct Capture<'a> {
    secrets: Option<&'a Secrets>,
    redaction: Redaction,
    stream: Stream<'a>,
}

/// What the model is told of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Captured {
    pub(crate) text: String,
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
        Self { secrets, redaction: Redaction::default(), stream }
    }

    /// For output that only the tool itself reads: as it comes, shown to nobody.
    pub(crate) fn unseen(bytes_max: usize) -> Self {
        let stream = Stream {
            excerpt: HeadTail::new(OutputLimits { bytes: bytes_max, lines: usize::MAX }),
            pace: Pace::new(DeltaSink::none()),
            artefacts: None,
            writer: None,
        };
        Self { secrets: None, redaction: Redaction::default(), stream }
    }

    /// The bytes of unseen output; none where there were too many.
    pub(crate) fn into_bytes(self) -> Option<Vec<u8>> {
        (!self.stream.excerpt.exceeded()).then(|| self.stream.excerpt.whole())
    }

    /// Takes the next bytes. `settle` must follow before more are taken.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        let Self { secrets, redaction, stream } = self;
        match secrets {
            Some(secrets) => redaction.push(secrets, bytes, |piece| stream.keep(piece)),
            None => stream.keep(bytes),
        }
    }

    /// Waits until the disk has taken what there is for it. Nothing is lost if this is dropped.
    pub(crate) async fn settle(&mut self) {
        if let Some(writer) = &mut self.stream.writer {
            writer.settle().await;
        }
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
        let Self { secrets, redaction, stream } = &mut self;
        if let Some(secrets) = secrets {
            redaction.finish(secrets, |piece| stream.keep(piece));
        }
        self.stream.finish(self.secrets).await
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
        if let Some(writer) = &mut self.writer {
            writer.take(bytes);
        }
    }

    fn begin_artefact(&mut self) {
        self.writer = self.artefacts.map(Artefacts::begin);
        if let Some(writer) = &mut self.writer {
            writer.take(&self.excerpt.whole());
        }
    }

    async fn finish(&mut self, secrets: Option<&Secrets>) -> Captured {
        self.pace.finish();
        let excerpt = self.excerpt.finish();
        let shown = |text: &str| told(secrets, text);
        let Some(gap) = excerpt.gap else {
            return Captured { text: shown(&excerpt.head), truncated: false, artefact: None };
        };
        if self.writer.is_none() {
            self.begin_artefact();
        }
        let kept = match tokio::time::timeout(ARTEFACT_WAIT_MAX, self.finish_artefact()).await {
            Ok(kept) => kept,
            Err(_) => Err(io::Error::other("the disk does not answer")),
        };
        let notice = notice(gap, &kept, self.artefacts.map_or(0, Artefacts::bytes_max));
        Captured {
            text: joined(&shown(&excerpt.head), &notice, &shown(&excerpt.tail)),
            truncated: true,
            artefact: kept.ok().map(|kept| kept.name),
        }
    }

    async fn finish_artefact(&mut self) -> io::Result<Kept> {
        match self.writer.take() {
            Some(writer) => writer.finish().await,
            None => Err(io::Error::other("it was not begun")),
        }
    }
}

/// A text as a model is told it. A secret may come together only when the control sequences are gone.
fn told(secrets: Option<&Secrets>, text: &str) -> String {
    let text = strip_controls(text);
    match secrets {
        Some(secrets) => secrets.redact(&text).into_owned(),
        None => text.into_owned(),
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
