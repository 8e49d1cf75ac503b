//! Splits a response body into frames: server-sent events, lines of JSON, or one whole JSON value.
//!
//! Works on bytes, so chunk boundaries do not matter, and does no I/O. At most [`FRAME_BYTES_MAX`] of an unfinished
//! frame is held. The cost is linear in the number of bytes, however they are split into chunks. Published SSE crates
//! rescan an unfinished line with every chunk, which is quadratic in long lines.

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr, memchr2};

use crate::api::Framing;

/// Maximum bytes of a frame; a longer frame is an error.
pub const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Optional mark at the beginning of UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StreamFrame<'a> {
    /// Event name: `message` if the stream gives no name, empty for JSON lines.
    pub(crate) event: &'a str,
    pub(crate) data: Cow<'a, str>,
}

/// A frame exceeded its byte bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameTooLong;

/// Kind of framing, as far as it is known from the bytes so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrameMode {
    /// The body is either events or one whole value. This is undecided because only whitespace has arrived.
    Undecided,
    Events,
    Lines,
    /// The whole body is one frame, because the server did not stream.
    Whole,
}

/// Incremental splitter: bytes in, frames out.
#[derive(Debug)]
pub(crate) struct FrameReader {
    mode: FrameMode,
    frame_bytes_max: usize,
    bytes: Vec<u8>,
    /// Index in `bytes` of the first byte that is not part of a consumed line.
    from: usize,
    /// Index in `bytes` up to which the search has found no line end.
    searched: usize,
    /// True if the last line ended in a carriage return. A newline right after it belongs to the same line end.
    carriage_return: bool,
    started: bool,
    event: String,
    data: EventData,
    /// True if the event in `event` and `data` was returned. The next call then clears both fields.
    emitted: bool,
}

#[derive(Debug)]
enum EventData {
    /// No data line so far, not even an empty one.
    None,
    /// One line, as a range of `bytes`. Nearly all events have just one line, which is then not copied.
    Line(Range<usize>),
    /// Several lines, or one line whose bytes are no longer in `bytes`.
    Text(String),
}

impl EventData {
    fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Line(line) => line.len(),
            Self::Text(text) => text.len(),
        }
    }

    fn is_some(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Turns the data into an owned string that survives changes of `bytes`. Returns `None` if there is no data line.
    fn text(&mut self, bytes: &[u8]) -> Option<&mut String> {
        if let Self::Line(line) = self {
            *self = Self::Text(text(&bytes[line.clone()]).into_owned());
        }
        match self {
            Self::Text(text) => Some(text),
            Self::None | Self::Line(_) => None,
        }
    }
}

impl FrameReader {
    /// Starts reading a body.
    ///
    /// An SSE body that begins with a brace is one JSON value: either the server did not stream, or it reported an
    /// error with a success status.
    pub(crate) fn new(framing: Framing) -> Self {
        Self {
            mode: match framing {
                Framing::Sse => FrameMode::Undecided,
                Framing::Lines => FrameMode::Lines,
            },
            frame_bytes_max: FRAME_BYTES_MAX,
            bytes: Vec::new(),
            from: 0,
            searched: 0,
            carriage_return: false,
            started: false,
            event: String::new(),
            data: EventData::None,
            emitted: false,
        }
    }

    #[cfg(test)]
    pub(crate) fn with_frame_bytes_max(mut self, bytes: usize) -> Self {
        self.frame_bytes_max = bytes;
        self
    }

    /// Appends a chunk of the body.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.emitted {
            self.clear();
        }
        if self.from > 0 {
            self.data.text(&self.bytes); // the range's bytes are about to be discarded
            self.bytes.drain(..self.from);
            self.searched -= self.from;
            self.from = 0;
        }
        self.bytes.extend_from_slice(bytes);
        let may_be_mark =
            self.bytes.len() < BYTE_ORDER_MARK.len() && BYTE_ORDER_MARK.starts_with(&self.bytes);
        if !self.started && !may_be_mark {
            self.started = true;
            if self.bytes.starts_with(BYTE_ORDER_MARK) {
                self.from = BYTE_ORDER_MARK.len();
                self.searched = self.from;
            }
        }
        if self.started && self.mode == FrameMode::Undecided {
            self.decide();
        }
    }

    fn decide(&mut self) {
        match self.bytes[self.from..].iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'{' | b'[') => self.mode = FrameMode::Whole,
            Some(_) => self.mode = FrameMode::Events,
            None => {}
        }
    }

    /// Returns the next whole frame, or `None` until more bytes are pushed.
    pub(crate) fn next(&mut self) -> Result<Option<StreamFrame<'_>>, FrameTooLong> {
        if self.emitted {
            self.clear();
        }
        if !self.started {
            return Ok(None);
        }
        match self.mode {
            FrameMode::Undecided | FrameMode::Events => self.next_event(),
            FrameMode::Lines => self.next_line(),
            FrameMode::Whole => self.within_bounds(self.bytes.len()).map(|()| None),
        }
    }

    /// Returns the frame left at the end of the body: a last line that has no line end, or an event that is not
    /// followed by a blank line. Call only after `next` returned `None`.
    pub(crate) fn last(&mut self) -> Option<StreamFrame<'_>> {
        if self.emitted {
            self.clear();
        }
        let rest = self.from..self.bytes.len();
        self.from = self.bytes.len();
        self.searched = self.from;
        match self.mode {
            FrameMode::Undecided | FrameMode::Events => {
                self.field(rest);
                self.emit("message")
            }
            FrameMode::Lines | FrameMode::Whole => {
                self.keep_line(rest);
                self.emit("")
            }
        }
    }

    fn clear(&mut self) {
        self.event.clear();
        self.data = EventData::None;
        self.emitted = false;
    }

    fn emit(&mut self, event_default: &'static str) -> Option<StreamFrame<'_>> {
        self.emitted = true;
        let data = match &self.data {
            EventData::None => return None,
            EventData::Line(line) => text(&self.bytes[line.clone()]),
            EventData::Text(text) => Cow::Borrowed(text.as_str()),
        };
        let event = if self.event.is_empty() { event_default } else { &self.event };
        Some(StreamFrame { event, data })
    }

    fn within_bounds(&self, bytes: usize) -> Result<(), FrameTooLong> {
        if bytes > self.frame_bytes_max { Err(FrameTooLong) } else { Ok(()) }
    }

    fn next_event(&mut self) -> Result<Option<StreamFrame<'_>>, FrameTooLong> {
        loop {
            let Some(line) = self.take_line(true) else {
                self.within_bounds(self.data.len() + self.bytes.len() - self.from)?;
                return Ok(None);
            };
            if !line.is_empty() {
                self.field(line);
                self.within_bounds(self.data.len())?;
            } else if self.data.is_some() {
                return Ok(self.emit("message"));
            } else {
                self.clear();
            }
        }
    }

    fn next_line(&mut self) -> Result<Option<StreamFrame<'_>>, FrameTooLong> {
        loop {
            let Some(line) = self.take_line(false) else {
                self.within_bounds(self.bytes.len() - self.from)?;
                return Ok(None);
            };
            self.within_bounds(line.len())?;
            self.keep_line(line);
            if self.data.is_some() {
                return Ok(self.emit(""));
            }
        }
    }

    /// Consumes the next line and returns its range in `bytes`, excluding the line end.
    fn take_line(&mut self, carriage_return_ends: bool) -> Option<Range<usize>> {
        if self.carriage_return && self.from < self.bytes.len() {
            self.carriage_return = false;
            if self.bytes[self.from] == b'\n' {
                self.from += 1;
                self.searched = self.searched.max(self.from);
            }
        }
        let Some(length) = line_end(&self.bytes[self.searched..], carriage_return_ends) else {
            self.searched = self.bytes.len();
            return None;
        };
        let end = self.searched + length;
        self.carriage_return = self.bytes[end] == b'\r';
        let line = self.from..end;
        self.from = end + 1;
        self.searched = self.from;
        Some(line)
    }

    /// Handles one line of an event; comments, ids and unknown fields are skipped.
    fn field(&mut self, line: Range<usize>) {
        let bytes = &self.bytes[line.clone()];
        let (name, value) = match memchr(b':', bytes) {
            Some(colon) => (&bytes[..colon], &bytes[colon + 1..]),
            None => (bytes, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => match self.data.text(&self.bytes) {
                Some(before) => {
                    before.push('\n');
                    before.push_str(&text(value));
                }
                None => self.data = EventData::Line(line.end - value.len()..line.end),
            },
            b"event" => {
                self.event.clear();
                self.event.push_str(&text(value));
            }
            _ => {}
        }
    }

    fn keep_line(&mut self, line: Range<usize>) {
        let bytes = self.bytes[line.clone()].trim_ascii_start();
        let begin = line.end - bytes.len();
        let bytes = bytes.trim_ascii_end();
        if !bytes.is_empty() {
            self.data = EventData::Line(begin..begin + bytes.len());
        }
    }
}

/// Decodes UTF-8; invalid bytes become U+FFFD.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    // Validating first and repairing second is much faster: nearly all input is valid.
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

fn line_end(bytes: &[u8], carriage_return_ends: bool) -> Option<usize> {
    if carriage_return_ends { memchr2(b'\n', b'\r', bytes) } else { memchr(b'\n', bytes) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(mut frames: FrameReader, pieces: &[&[u8]]) -> Result<Vec<(String, String)>, FrameTooLong> {
        let mut found = Vec::new();
        for piece in pieces {
            frames.push(piece);
            while let Some(frame) = frames.next()? {
                found.push((frame.event.to_owned(), frame.data.into_owned()));
            }
        }
        found.extend(frames.last().map(|frame| (frame.event.to_owned(), frame.data.into_owned())));
        Ok(found)
    }

    fn events(body: &str) -> Vec<(String, String)> {
        all(FrameReader::new(Framing::Sse), &[body.as_bytes()]).unwrap()
    }

    fn event(name: &str, data: &str) -> (String, String) {
        (name.to_owned(), data.to_owned())
    }

    #[test]
    fn reads_events_with_any_line_ending() {
        for end in ["\n", "\r\n", "\r"] {
            let body = format!("event: error{end}data: a{end}data: b{end}{end}data:c{end}{end}");
            assert_eq!(events(&body), [event("error", "a\nb"), event("message", "c")], "{end:?}");
        }
    }

    #[test]
    fn skips_comments_ids_and_events_without_data() {
        let body =
            ": OPENROUTER PROCESSING\n\nid: 7\nretry: 9\n\nevent: ping\n\nnonsense\ndata\n\ndata: x\n\n";
        assert_eq!(events(body), [event("message", ""), event("message", "x")]);
    }

    #[test]
    fn skips_the_byte_order_mark() {
        let pieces: [&[u8]; 3] = [b"\xef", b"\xbb\xbf", b"data: x\n\n"];
        assert_eq!(all(FrameReader::new(Framing::Sse), &pieces).unwrap(), [event("message", "x")]);
    }

    #[test]
    fn returns_an_event_that_ends_with_the_body() {
        assert_eq!(events("data: a\n\ndata: [DONE]"), [event("message", "a"), event("message", "[DONE]")]);
    }

    #[test]
    fn reads_lines_and_an_unterminated_last_line() {
        let pieces: [&[u8]; 3] = [b"{\"a\":1}\r\n\n  \n{\"b\"", b":2}", b"\n{}"];
        let found = all(FrameReader::new(Framing::Lines), &pieces).unwrap();
        assert_eq!(found, [event("", "{\"a\":1}"), event("", "{\"b\":2}"), event("", "{}")]);
    }

    #[test]
    fn reads_a_whole_body_as_one() {
        let found = all(FrameReader::new(Framing::Sse), &[b"\n ", b"{\n\"a\":", b"1}\n"]).unwrap();
        assert_eq!(found, [event("", "{\n\"a\":1}")]);
    }

    #[test]
    fn replaces_invalid_utf8() {
        assert_eq!(all(FrameReader::new(Framing::Lines), &[b"a\xffb\n"]).unwrap(), [event("", "a\u{fffd}b")]);
    }

    #[test]
    fn rejects_frames_beyond_the_limit() {
        let bounded = |framing| FrameReader::new(framing).with_frame_bytes_max(8);
        assert_eq!(all(bounded(Framing::Lines), &[b"123456789"]), Err(FrameTooLong));
        assert_eq!(all(bounded(Framing::Lines), &[b"123456789\n"]), Err(FrameTooLong));
        assert_eq!(all(bounded(Framing::Sse), &[b"no end in sight"]), Err(FrameTooLong));
        assert_eq!(
            all(bounded(Framing::Sse), &[b"data: 12\n", b"data: 34\n", b"data: 567\n"]),
            Err(FrameTooLong)
        );
        assert_eq!(all(bounded(Framing::Sse), &[b"{2345", b"6789"]), Err(FrameTooLong));
        assert_eq!(all(bounded(Framing::Lines), &[b"12345678\n1234", b"5678\n"]).unwrap().len(), 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn chunk_boundaries_do_not_matter(
            parts in prop::collection::vec(
                prop::sample::select(vec!["data: ", "data", "event: x", ":", "\n", "\r\n", "\r", "\n\n", "é", "\u{feff}", "{}", " ", "😀"]), 0..30),
            noise in prop::collection::vec(any::<u8>(), 0..8),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
            lines in any::<bool>(),
        ) {
            let framing = if lines { Framing::Lines } else { Framing::Sse };
            let mut body = parts.concat().into_bytes();
            body.extend(noise);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
            cuts.push(0);
            cuts.push(body.len());
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &body[pair[0]..pair[1]]).collect();
            let whole = all(FrameReader::new(framing), &[&body]).unwrap();
            prop_assert_eq!(all(FrameReader::new(framing), &pieces).unwrap(), whole);
        }
    }
}
