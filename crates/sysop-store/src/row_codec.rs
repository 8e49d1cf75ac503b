//! Conversion between events and rows, the same for every database.

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::Arc;

use serde::Deserialize;
use sysop_core::event::{Event, Logged};
use sysop_core::id::{Seq, SessionId, Timestamp};
use sysop_core::text::neutralize;
use sysop_driver::port::{SearchHit, SessionSummary, StoreError};
use sysop_driver::search;

use crate::batch::BatchSummary;

const EVENT_BYTES_MAX: usize = 16 << 20;
/// Maximum number of characters from the name of an unknown event that an error repeats.
const KIND_CHARS_MAX: usize = 40;

/// Events in stored form; never empty.
#[derive(Debug)]
pub(crate) struct EncodedBatch {
    pub(crate) batch_summary: BatchSummary,
    pub(crate) events: Vec<EventRow>,
}

#[derive(Debug)]
pub(crate) struct EventRow {
    pub(crate) seq: i64,
    pub(crate) at: i64,
    pub(crate) body: Arc<str>,
}

impl EncodedBatch {
    /// Encodes events. Returns `None` if `events` is empty.
    pub(crate) fn of(events: &[Arc<Logged>]) -> Result<Option<Self>, StoreError> {
        let Some(batch_summary) = BatchSummary::of(events) else { return Ok(None) };
        let events = events.iter().map(encode).collect::<Result<_, _>>()?;
        Ok(Some(Self { batch_summary, events }))
    }
}

fn encode(logged: &Arc<Logged>) -> Result<EventRow, StoreError> {
    let body = serde_json::to_string(&logged.event).map_err(|error| {
        StoreError::Corrupt(format!(
            "event {} cannot be stored as JSON ({error}); this is a bug in sysop, please report it",
            logged.seq
        ))
    })?;
    if body.len() > EVENT_BYTES_MAX {
        return Err(StoreError::Unavailable(format!(
            "event {} is {} bytes; the limit is {EVENT_BYTES_MAX}; send less at once",
            logged.seq,
            body.len()
        )));
    }
    Ok(EventRow { seq: to_integer(logged.seq.0), at: logged.at.0, body: body.into() })
}

/// Decodes the rows of a log, in order.
pub(crate) struct LogDecoder<'a, P> {
    database: P,
    id: &'a SessionId,
    last: Seq,
}

impl<'a, P: Display> LogDecoder<'a, P> {
    /// Creates a decoder for the rows that follow `after`.
    pub(crate) fn new(database: P, id: &'a SessionId, after: Seq) -> Self {
        Self { database, id, last: after }
    }

    /// Decodes the next row, given as seq, time and body. Fails if the row is `None` or does not have the
    /// next seq, which means that an event is missing.
    pub(crate) fn decode(&mut self, row: Option<(Seq, Timestamp, &str)>) -> Result<Logged, StoreError> {
        self.last = self.last.next();
        let Some((seq, at, body)) = row.filter(|(seq, ..)| *seq == self.last) else {
            return Err(StoreError::Corrupt(format!(
                "event {} of session {id} is missing from database {}; delete the session with \
                 `sysop sessions delete {id}` or restore the database",
                self.last,
                self.database,
                id = self.id,
            )));
        };
        match serde_json::from_str(body) {
            Ok(event) => Ok(Logged { seq, at, event }),
            Err(_) => Err(self.unreadable(seq, body)),
        }
    }

    fn unreadable(&self, seq: Seq, body: &str) -> StoreError {
        let kind = kind(body);
        if let Some(kind) = kind.as_deref().filter(|kind| !Event::is_known_kind(kind)) {
            return StoreError::NewerLog { id: self.id.clone(), seq, kind: printable(kind) };
        }
        StoreError::Corrupt(format!(
            "cannot read event {seq} ({}) of session {id} in database {}; it was written by a newer version of sysop or \
             is damaged: use that version, or delete the session with `sysop sessions delete {id}`",
            kind.map_or_else(|| "not an event".to_owned(), |kind| format!("`{}`", printable(&kind))),
            self.database,
            id = self.id,
        ))
    }
}

/// Columns of a session list, the same in every database: id, title, created, changed, last seq, host, root, pinned.
pub(crate) type SummaryRow = (String, String, i64, i64, i64, String, String, bool);

pub(crate) fn summary((id, title, created, changed, last, host, root, pinned): SummaryRow) -> SessionSummary {
    SessionSummary {
        id: SessionId::new(id),
        title,
        created: Timestamp(created),
        changed: Timestamp(changed),
        last_seq: to_seq(last),
        host,
        root,
        pinned,
    }
}

/// Returns the `LIKE` pattern for finding a word in stored events. The pattern matches at least every event that
/// contains the word. Databases ignore case only for ASCII, so every other character matches any character. `escape` is
/// the escape character of the pattern.
pub(crate) fn like_pattern(word: &str, escape: char) -> String {
    let json = serde_json::Value::from(word).to_string();
    let mut pattern = String::from("%");
    for character in json[1..json.len() - 1].chars() {
        match character {
            '%' | '_' => pattern.extend([escape, character]),
            _ if character == escape => pattern.extend([escape, character]),
            _ if character.is_ascii() => pattern.push(character),
            _ => pattern.push('_'),
        }
    }
    pattern.push('%');
    pattern
}

/// Collects the sessions that a search finds. Each row that matches the patterns consists of a session and an event;
/// rows whose event does not contain the words are skipped.
pub(crate) struct SearchHits<'a> {
    words: &'a [String],
    limit: usize,
    hits: Vec<SearchHit>,
}

impl<'a> SearchHits<'a> {
    pub(crate) fn new(words: &'a [String], limit: usize) -> Self {
        Self { words, limit, hits: Vec::new() }
    }

    /// Takes the next row; rows of one session must be adjacent. Returns true if the session matches.
    pub(crate) fn take(&mut self, session: &str, body: &str) -> bool {
        if self.hits.last().is_some_and(|hit| hit.id.as_str() == session) {
            return true;
        }
        let event = serde_json::from_str::<Event>(body).ok(); // an unreadable event contains no words
        let excerpt = event.and_then(|event| search::excerpt(&event, self.words));
        let Some(excerpt) = excerpt else { return false };
        self.hits.push(SearchHit { id: SessionId::new(session), excerpt });
        true
    }

    pub(crate) fn is_full(&self) -> bool {
        self.hits.len() >= self.limit
    }

    pub(crate) fn into_hits(self) -> Vec<SearchHit> {
        self.hits
    }
}

/// Substrings to look for before calling `referenced_files_in`. The body of every event that refers to
/// artifacts contains at least one of them.
pub(crate) const FILE_REFERENCE_MARKERS: [&str; 3] = [r#""artefact":""#, r#""before":""#, r#""records":["#];

/// Returns the names in `files` that the body of an event refers to, even if the event cannot be parsed.
pub(crate) fn referenced_files_in(body: &str, files: &HashSet<String>) -> impl Iterator<Item = String> {
    body.split('"').filter_map(|text| files.get(text)).cloned()
}

/// Returns the name of an event that cannot be parsed; no other part of the event is safe to repeat.
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

/// Converts a number to a database integer. Values above 2^63 - 1 are clamped to it, which means "all" for a limit.
pub(crate) fn to_integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a stored seq. Negative values, which indicate damage, become 0.
pub(crate) fn to_seq(integer: i64) -> Seq {
    Seq(u64::try_from(integer).unwrap_or(0))
}
