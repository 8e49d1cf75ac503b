//! How events become rows of a database and rows become events, the same in every database.

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::Arc;

use serde::Deserialize;
use sysop_core::event::{Event, EventReader, Logged};
use sysop_core::id::{Seq, SessionId, Timestamp};
use sysop_core::text::neutralize;
use sysop_driver::port::{SessionSummary, StoreError};

use crate::batch::BatchSummary;

/// The longest event as JSON, in bytes.
const EVENT_BYTES_MAX: usize = 16 << 20;
/// How many bytes of rows are gathered before their events are read.
const DECODE_CHUNK_BYTES: usize = 128 << 10;
/// How much of an unknown event's name is repeated in an error, in characters.
const KIND_CHARS_MAX: usize = 40;

/// Events as they are stored; never empty.
#[derive(Debug)]
pub(crate) struct EncodedBatch {
    pub(crate) batch_summary: BatchSummary,
    pub(crate) events: Vec<EventRow>,
}

/// An event as it is stored.
#[derive(Debug)]
pub(crate) struct EventRow {
    pub(crate) seq: i64,
    pub(crate) at: i64,
    pub(crate) body: Arc<str>,
}

impl EncodedBatch {
    /// None where there are no events.
    pub(crate) fn of(events: &[Arc<Logged>]) -> Result<Option<Self>, StoreError> {
        let Some(batch_summary) = BatchSummary::of(events) else { return Ok(None) };
        let events = events.iter().map(encode).collect::<Result<_, _>>()?;
        Ok(Some(Self { batch_summary, events }))
    }
}

fn encode(logged: &Arc<Logged>) -> Result<EventRow, StoreError> {
    let body = serde_json::to_string(&logged.event).map_err(|error| {
        StoreError::Corrupt(format!(
            "event {} cannot be stored as JSON ({error}); this is a defect of sysop, please report it",
            logged.seq
        ))
    })?;
    if body.len() > EVENT_BYTES_MAX {
        return Err(StoreError::Unavailable(format!(
            "event {} has {} bytes and the longest that can be stored has {EVENT_BYTES_MAX}; send less at once",
            logged.seq,
            body.len()
        )));
    }
    Ok(EventRow { seq: to_integer(logged.seq.0), at: logged.at.0, body: body.into() })
}

/// Makes events of the rows of a log, in their order.
pub(crate) struct LogDecoder<'a, P> {
    /// The database.
    database: P,
    id: &'a SessionId,
    events: Vec<Logged>,
    /// The last row that was taken.
    last: Seq,
    /// The bodies of rows that are not read yet, one behind another.
    bodies: String,
    /// Of each of them: seq, time, and where its body ends.
    rows: Vec<(Seq, Timestamp, usize)>,
}

impl<'a, P: Display> LogDecoder<'a, P> {
    /// Begins behind `after`; so many rows are expected.
    pub(crate) fn new(database: P, id: &'a SessionId, after: Seq, expected: usize) -> Self {
        let events = Vec::with_capacity(expected);
        Self { database, id, events, last: after, bodies: String::new(), rows: Vec::new() }
    }

    /// The events of all rows.
    pub(crate) fn finish(mut self) -> Result<Vec<Logged>, StoreError> {
        self.read()?;
        Ok(self.events)
    }

    /// Takes the next row: its seq, time and body. None, or another than the next, and that is missing.
    pub(crate) fn push(&mut self, row: Option<(Seq, Timestamp, &str)>) -> Result<(), StoreError> {
        self.last = self.last.next();
        let Some((_, at, body)) = row.filter(|(seq, ..)| *seq == self.last) else {
            self.read()?; // what is wrong before comes first
            return Err(StoreError::Corrupt(format!(
                "event {} of session {id} is missing from the database {}; delete the session with \
                 `sysop sessions delete {id}` or restore the database",
                self.last,
                self.database,
                id = self.id,
            )));
        };
        self.bodies.push_str(body);
        self.rows.push((self.last, at, self.bodies.len()));
        if self.bodies.len() < DECODE_CHUNK_BYTES { Ok(()) } else { self.read() }
    }

    fn read(&mut self) -> Result<(), StoreError> {
        let mut reader = EventReader::new(&self.bodies);
        let mut begin = 0;
        for (seq, at, end) in std::mem::take(&mut self.rows) {
            let Some(event) = reader.next_up_to(end) else {
                return Err(self.unreadable(seq, &self.bodies[begin..end]));
            };
            self.events.push(Logged { seq, at, event });
            begin = end;
        }
        self.bodies.clear();
        Ok(())
    }

    fn unreadable(&self, seq: Seq, body: &str) -> StoreError {
        let kind = kind(body);
        if let Some(kind) = kind.as_deref().filter(|kind| !Event::kinds().contains(kind)) {
            return StoreError::NewerLog { id: self.id.clone(), seq, kind: printable(kind) };
        }
        StoreError::Corrupt(format!(
            "event {seq} ({}) of session {id} in the database {} cannot be read; it was written by a newer sysop or is \
             damaged: use that version, or delete the session with `sysop sessions delete {id}`",
            kind.map_or_else(|| "not an event".to_owned(), |kind| format!("`{}`", printable(&kind))),
            self.database,
            id = self.id,
        ))
    }
}

/// A session in a list as every database has it: id, title, created, changed, last seq, host, root.
pub(crate) type SummaryRow = (String, String, i64, i64, i64, String, String);

/// The session of a row.
pub(crate) fn summary((id, title, created, changed, last, host, root): SummaryRow) -> SessionSummary {
    SessionSummary {
        id: SessionId::new(id),
        title,
        created: Timestamp(created),
        changed: Timestamp(changed),
        last_seq: to_seq(last),
        host,
        root,
    }
}

/// What the body of an event that names kept files has somewhere; `referenced_files_in` looks closer.
pub(crate) const FILE_REFERENCE_MARKERS: [&str; 2] = [r#""artefact":""#, r#""before":""#];

/// Which of these files the body of an event names, also one that cannot be read.
pub(crate) fn referenced_files_in(body: &str, files: &HashSet<String>) -> impl Iterator<Item = String> {
    body.split('"').filter_map(|text| files.get(text)).cloned()
}

/// The name of an event that cannot be read; nothing else of it is safe to repeat.
fn kind(body: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Kind {
        r#type: String,
    }
    serde_json::from_str::<Kind>(body).ok().map(|kind| kind.r#type)
}

fn printable(kind: &str) -> String {
    let short: String = kind.chars().take(KIND_CHARS_MAX).collect();
    neutralize(&short).into_owned()
}

/// The integers of databases end at 2^63 - 1; what is beyond means "all".
pub(crate) fn to_integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// No seq is negative; a damaged one counts as "nothing there".
pub(crate) fn to_seq(integer: i64) -> Seq {
    Seq(u64::try_from(integer).unwrap_or(0))
}
