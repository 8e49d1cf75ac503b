//! Keeps the head and the tail of a stream, and counts the omitted middle. Uses at most twice its limit.

use super::OutputLimits;

/// Maximum distance in bytes by which a truncation is moved so that it falls at the end of a line.
const ALIGN_BYTES_MAX: usize = 1024;
/// Bytes of the limit reserved for the notice about the gap, unless the limit is less than four times as large.
const NOTICE_BYTES: usize = 256;

#[derive(Debug)]
pub(crate) struct HeadTail {
    limits: OutputLimits,
    head: Vec<u8>,
    head_newlines: usize,
    tail: RingBuffer,
    bytes: u64,
    newlines: u64,
    ends_in_line: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Excerpt {
    pub(crate) head: String,
    /// Omitted middle; `None` if the excerpt is complete.
    pub(crate) gap: Option<Gap>,
    pub(crate) tail: String,
}

/// Size of the omitted middle of an excerpt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) lines: u64,
    pub(crate) bytes: u64,
}

impl HeadTail {
    /// Creates an empty buffer. If there is no line limit (`usize::MAX`), lines are not counted, and the number of
    /// lines in a gap is 0.
    pub(crate) fn new(limits: OutputLimits) -> Self {
        let limits = OutputLimits { bytes: limits.bytes.max(1), lines: limits.lines.max(1) };
        Self {
            limits,
            head: Vec::new(),
            head_newlines: 0,
            tail: RingBuffer::new(limits.bytes),
            bytes: 0,
            newlines: 0,
            ends_in_line: false,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        self.bytes += bytes.len() as u64;
        if self.limits.lines < usize::MAX {
            self.newlines += newlines(bytes);
        }
        self.ends_in_line = *last != b'\n';
        let taken = self.fill_head(bytes);
        // The share of the head is final once something follows it.
        self.tail.bytes_max = self.limits.bytes - self.head.len();
        self.tail.push(&bytes[taken..]);
    }

    pub(crate) fn exceeded(&self) -> bool {
        self.bytes > self.limits.bytes as u64 || self.lines() > self.limits.lines as u64
    }

    /// Returns true if the stream would exceed a limit after `bytes` are added.
    pub(crate) fn would_exceed(&self, bytes: &[u8]) -> bool {
        let Some(last) = bytes.last() else { return self.exceeded() };
        let lines = self.newlines + newlines(bytes) + u64::from(*last != b'\n');
        self.bytes + bytes.len() as u64 > self.limits.bytes as u64 || lines > self.limits.lines as u64
    }

    /// Returns the number of lines so far, including an unfinished last one.
    pub(crate) fn lines(&self) -> u64 {
        self.newlines + u64::from(self.ends_in_line)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns the whole stream. The result is complete only while the limits are not exceeded.
    pub(crate) fn whole(&self) -> Vec<u8> {
        let mut whole = self.head.clone();
        whole.extend(self.tail.to_vec());
        whole
    }

    /// Returns the excerpt. Invalid UTF-8 is replaced, and the replacements count against the limit.
    pub(crate) fn finish(&self) -> Excerpt {
        let tail = self.tail.to_vec();
        if !self.exceeded() {
            let whole = self.whole();
            if lossy_len(&whole) <= self.limits.bytes {
                return Excerpt {
                    head: String::from_utf8_lossy(&whole).into_owned(),
                    gap: None,
                    tail: String::new(),
                };
            }
        }
        let (head, head_bytes) = lossy_head(whole_lines_head(&self.head), self.head_budget());
        let lines = self.limits.lines - self.head_lines_budget();
        let budget = self.limits.bytes - self.notice_budget() - self.head_budget();
        let (tail_text, tail_bytes) = lossy_tail(newest(&tail, lines, budget), budget);
        let shown_newlines = newlines(&self.head[..head_bytes]) + newlines(&tail[tail.len() - tail_bytes..]);
        let gap = Gap {
            lines: self.newlines.saturating_sub(shown_newlines),
            bytes: self.bytes - head_bytes as u64 - tail_bytes as u64,
        };
        Excerpt { head, gap: Some(gap), tail: tail_text }
    }

    fn notice_budget(&self) -> usize {
        if self.limits.bytes >= 4 * NOTICE_BYTES { NOTICE_BYTES } else { 0 }
    }

    fn head_budget(&self) -> usize {
        (self.limits.bytes - self.notice_budget()) / 2
    }

    fn head_lines_budget(&self) -> usize {
        self.limits.lines / 2
    }

    /// Appends bytes to the head until it is full. Returns the number of bytes taken.
    fn fill_head(&mut self, bytes: &[u8]) -> usize {
        if self.tail.total > 0 {
            return 0;
        }
        let room = (self.head_budget() - self.head.len()).min(bytes.len());
        let lines = self.head_lines_budget() - self.head_newlines;
        let taken = end_of_line(&bytes[..room], lines).unwrap_or(room);
        self.head_newlines += usize::try_from(newlines(&bytes[..taken])).unwrap_or(usize::MAX);
        self.head.extend_from_slice(&bytes[..taken]);
        taken
    }
}

/// Newest bytes of a stream. Memory is allocated as needed, up to `bytes_max`.
#[derive(Debug)]
struct RingBuffer {
    buffer: Vec<u8>,
    bytes_max: usize,
    /// Index of the oldest byte once the buffer is full.
    oldest: usize,
    total: u64,
}

impl RingBuffer {
    fn new(bytes_max: usize) -> Self {
        Self { buffer: Vec::new(), bytes_max, oldest: 0, total: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let mut bytes = &bytes[bytes.len().saturating_sub(self.bytes_max)..];
        let room = (self.bytes_max - self.buffer.len()).min(bytes.len());
        self.buffer.extend_from_slice(&bytes[..room]);
        bytes = &bytes[room..];
        while !bytes.is_empty() {
            let run = (self.buffer.len() - self.oldest).min(bytes.len());
            self.buffer[self.oldest..self.oldest + run].copy_from_slice(&bytes[..run]);
            self.oldest = (self.oldest + run) % self.buffer.len();
            bytes = &bytes[run..];
        }
    }

    fn to_vec(&self) -> Vec<u8> {
        let (newer, older) = self.buffer.split_at(self.oldest);
        [older, newer].concat()
    }
}

pub(crate) fn newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// Returns the index right after the newline that ends line number `lines`, or `None` if there are fewer newlines.
fn end_of_line(bytes: &[u8], lines: usize) -> Option<usize> {
    if lines == 0 {
        return Some(0);
    }
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(lines - 1).map(|(index, _)| index + 1)
}

/// Cuts the head at the end of a line if one is near, otherwise at the end of a character.
fn whole_lines_head(head: &[u8]) -> &[u8] {
    let near = head.len().saturating_sub(ALIGN_BYTES_MAX);
    if let Some(newline) = head[near..].iter().rposition(|byte| *byte == b'\n') {
        return &head[..=near + newline];
    }
    &head[..head.len() - unfinished(head)]
}

/// Returns the number of bytes of the incomplete character at the end, or 0 if there is none.
pub(crate) fn unfinished(bytes: &[u8]) -> usize {
    (1..=bytes.len().min(3))
        .find(|&back| {
            std::str::from_utf8(&bytes[bytes.len() - back..])
                .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
        })
        .unwrap_or(0)
}

/// Returns the last `lines` lines of the tail, but at most `bytes` bytes. The result begins with a whole line if one
/// starts near that limit.
fn newest(tail: &[u8], lines: usize, bytes: usize) -> &[u8] {
    let mut start = tail.len().saturating_sub(bytes);
    let body = &tail[..tail.len() - usize::from(tail.last() == Some(&b'\n'))];
    let first_line = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').nth(lines - 1);
    if let Some((newline, _)) = first_line {
        start = start.max(newline + 1);
    }
    if start > 0 && tail[start - 1] == b'\n' {
        return &tail[start..];
    }
    let near = (start + ALIGN_BYTES_MAX).min(tail.len().saturating_sub(1));
    if let Some(newline) = tail[start.min(near)..near].iter().position(|byte| *byte == b'\n') {
        return &tail[start + newline + 1..];
    }
    let broken = tail[start..].iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
    &tail[start + broken..]
}

fn lossy_len(bytes: &[u8]) -> usize {
    bytes.utf8_chunks().map(|chunk| chunk.valid().len() + replaced(chunk.invalid()).len()).sum()
}

fn replaced(invalid: &[u8]) -> &'static str {
    if invalid.is_empty() { "" } else { "\u{FFFD}" }
}

/// Decodes as many bytes from the start as fit into `text_max` bytes of text. Returns the text and the number of
/// decoded bytes.
fn lossy_head(bytes: &[u8], text_max: usize) -> (String, usize) {
    let mut text = String::new();
    let mut used = 0;
    for chunk in bytes.utf8_chunks() {
        let room = text_max - text.len();
        let fits = floor_boundary(chunk.valid(), room);
        text.push_str(&chunk.valid()[..fits]);
        used += fits;
        if fits < chunk.valid().len() || text.len() + replaced(chunk.invalid()).len() > text_max {
            break;
        }
        text.push_str(replaced(chunk.invalid()));
        used += chunk.invalid().len();
    }
    (text, used)
}

/// Decodes bytes from the end that fit into `text_max` bytes of text. Returns the text and the number of decoded bytes.
fn lossy_tail(bytes: &[u8], text_max: usize) -> (String, usize) {
    let mut excess = lossy_len(bytes).saturating_sub(text_max);
    let mut text = String::new();
    let mut skipped = 0;
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid();
        let cut = ceil_boundary(valid, excess.min(valid.len()));
        skipped += cut;
        excess = excess.saturating_sub(cut);
        text.push_str(&valid[cut..]);
        if excess > 0 {
            skipped += chunk.invalid().len();
            excess = excess.saturating_sub(replaced(chunk.invalid()).len());
        } else {
            text.push_str(replaced(chunk.invalid()));
        }
    }
    (text, bytes.len() - skipped)
}

fn floor_boundary(text: &str, index: usize) -> usize {
    (0..=index.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

fn ceil_boundary(text: &str, index: usize) -> usize {
    (index..=text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len())
}
