//! Cuts a byte stream into frames: server-sent events or lines of JSON.
//!
//! Works on bytes, so that a character or a line may be split anywhere; the same bytes give the same frames
//! however they arrive. It never parses JSON, and never holds more than one frame.

use bytes::BytesMut;

/// Longest line, and longest event, in bytes.
pub(crate) const LINE_BYTES_MAX: usize = 16 << 20;

/// Most bytes of one reply.
pub(crate) const REPLY_BYTES_MAX: usize = 64 << 20;

/// How frames are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// `text/event-stream` (WHATWG HTML, 9.2), with LF or CRLF.
    Sse,
    /// One JSON object a line.
    NdJson,
}

/// One event or line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The event's name; empty where it has none.
    pub(crate) event: String,
    /// What it carries.
    pub(crate) data: String,
    /// The stream ended before the frame did.
    pub(crate) partial: bool,
}

/// Why bytes are not frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameFault {
    #[error("sent a line of more than {} MiB", LINE_BYTES_MAX >> 20)]
    LineTooLong,
    #[error("sent more than {} MiB in one reply", REPLY_BYTES_MAX >> 20)]
    ReplyTooLong,
    #[error("sent text that is not UTF-8")]
    NotText,
}

/// The cutter. Push bytes, then take frames until there is none.
#[derive(Debug)]
pub(crate) struct Frames {
    framing: Framing,
    buffer: BytesMut,
    /// How much of `buffer` is known to hold no line end.
    scanned: usize,
    taken: usize,
    event: String,
    data: Option<String>,
    /// A line of bare JSON was met inside an event stream: all that follows up to an empty line belongs to it.
    bare: bool,
}

impl Frames {
    pub(crate) fn new(framing: Framing) -> Self {
        Self {
            framing,
            buffer: BytesMut::new(),
            scanned: 0,
            taken: 0,
            event: String::new(),
            data: None,
            bare: false,
        }
    }

    /// Takes bytes as they came.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, if it is there.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, FrameFault> {
        while let Some(line) = self.next_line()? {
            if let Some(frame) = self.take_line(line)? {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }

    /// What is left when the stream has ended.
    pub(crate) fn finish(&mut self) -> Result<Option<Frame>, FrameFault> {
        let rest = self.buffer.split();
        self.scanned = 0;
        let mut frame = None;
        if !rest.is_empty() {
            frame = self.take_line(rest)?;
        }
        let frame = frame.or_else(|| self.dispatch());
        Ok(frame.map(|frame| Frame { partial: true, ..frame }))
    }

    fn next_line(&mut self) -> Result<Option<BytesMut>, FrameFault> {
        let found = self.buffer[self.scanned..].iter().position(|&byte| byte == b'\n');
        let length = found.map_or(self.buffer.len(), |at| self.scanned + at);
        if length > LINE_BYTES_MAX {
            return Err(FrameFault::LineTooLong);
        }
        if self.taken + length > REPLY_BYTES_MAX {
            return Err(FrameFault::ReplyTooLong);
        }
        if found.is_none() {
            self.scanned = length;
            return Ok(None);
        }
        let mut line = self.buffer.split_to(length + 1);
        line.truncate(length);
        self.scanned = 0;
        Ok(Some(line))
    }

    fn take_line(&mut self, line: BytesMut) -> Result<Option<Frame>, FrameFault> {
        let first = self.taken == 0;
        self.taken += line.len() + 1;
        let text = std::str::from_utf8(&line).map_err(|_| FrameFault::NotText)?;
        let text = text.strip_suffix('\r').unwrap_or(text);
        let text = if first { text.strip_prefix('\u{feff}').unwrap_or(text) } else { text };
        match self.framing {
            Framing::Sse => self.take_sse_line(text),
            Framing::NdJson if text.trim().is_empty() => Ok(None),
            Framing::NdJson => {
                Ok(Some(Frame { event: String::new(), data: text.to_owned(), partial: false }))
            }
        }
    }

    fn take_sse_line(&mut self, line: &str) -> Result<Option<Frame>, FrameFault> {
        if line.is_empty() {
            return Ok(self.dispatch());
        }
        // Gemini ends a stream with a bare error object; others answer a streaming request with plain JSON.
        if self.bare || (self.data.is_none() && line.starts_with(['{', '['])) {
            self.bare = true;
            return self.add_data(line).map(|()| None);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => self.add_data(value)?,
            "event" => value.clone_into(&mut self.event),
            _ => {} // comments (an empty field), `id`, `retry` and what may come
        }
        Ok(None)
    }

    fn add_data(&mut self, value: &str) -> Result<(), FrameFault> {
        match &mut self.data {
            Some(data) if data.len() + value.len() >= LINE_BYTES_MAX => return Err(FrameFault::LineTooLong),
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
            None => self.data = Some(value.to_owned()),
        }
        Ok(())
    }

    fn dispatch(&mut self) -> Option<Frame> {
        self.bare = false;
        let event = std::mem::take(&mut self.event);
        let data = self.data.take()?;
        Some(Frame { event, data, partial: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(framing: Framing, pieces: &[&[u8]]) -> Result<Vec<Frame>, FrameFault> {
        let mut frames = Frames::new(framing);
        let mut out = Vec::new();
        for piece in pieces {
            frames.push(piece);
            while let Some(frame) = frames.next()? {
                out.push(frame);
            }
        }
        out.extend(frames.finish()?);
        Ok(out)
    }

    fn data(frames: &[Frame]) -> Vec<&str> {
        frames.iter().map(|frame| frame.data.as_str()).collect()
    }

    #[test]
    fn sse_comments_crlf_and_several_data_lines() {
        let frames =
            cut(Framing::Sse, &[b": ping\r\n\r\nevent: a\r\ndata: 1\r\ndata:2\r\n\r\n", b"data\n\n"])
                .unwrap();
        assert_eq!(data(&frames), ["1\n2", ""]);
        assert_eq!(frames[0].event, "a");
        assert_eq!(frames[1].event, "");
    }

    #[test]
    fn a_byte_order_mark_is_skipped_whole() {
        let frames = cut(Framing::Sse, &[b"\xef\xbb", b"\xbfdata: x\n\n"]).unwrap();
        assert_eq!(data(&frames), ["x"]);
    }

    #[test]
    fn a_bare_error_object_is_a_frame_of_its_own() {
        let frames = cut(Framing::Sse, &[b"data: 1\n\n{\n \"error\": {}\n}\n"]).unwrap();
        assert_eq!(data(&frames), ["1", "{\n \"error\": {}\n}"]);
        assert!(!frames[0].partial && frames[1].partial);
    }

    #[test]
    fn bytes_that_are_not_utf8_are_a_fault() {
        assert_eq!(cut(Framing::Sse, &[b"data: \xff\n\n"]), Err(FrameFault::NotText));
    }

    #[test]
    fn a_line_over_the_bound_is_a_fault_with_and_without_its_end() {
        let long = vec![b'x'; LINE_BYTES_MAX + 1];
        assert_eq!(cut(Framing::NdJson, &[&long]), Err(FrameFault::LineTooLong));
        assert_eq!(cut(Framing::NdJson, &[&long, b"\n"]), Err(FrameFault::LineTooLong));
        let fits = vec![b'x'; LINE_BYTES_MAX];
        assert_eq!(cut(Framing::NdJson, &[&fits, b"\n"]).unwrap().len(), 1);
    }

    #[test]
    fn an_event_of_many_lines_is_bounded_too() {
        let line = [b"data: ".as_slice(), &vec![b'x'; 1 << 20], b"\n"].concat();
        let lines = vec![line.as_slice(); 17];
        assert_eq!(cut(Framing::Sse, &lines), Err(FrameFault::LineTooLong));
    }

    #[test]
    fn a_reply_is_bounded() {
        let line = [vec![b'x'; 1 << 20].as_slice(), b"\n"].concat();
        let lines = vec![line.as_slice(); 65];
        assert_eq!(cut(Framing::NdJson, &lines), Err(FrameFault::ReplyTooLong));
    }
}
