//! Body of a streamed response: framed events, sent at the scripted pace.
//!
//! A stream is assembled before its first byte is sent. A repeated event is stored once, so a stream of millions of
//! tokens needs only the memory of one block. Sending waits only for the scripted pace and for the reader.

use std::io;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use serde_json::Value;

use crate::open_replies::OpenReplyGuard;
use crate::scenario::DeliveryOptions;
use crate::shutdown::ShutdownSignal;

/// Target size of a block of repeated events, in bytes.
const BLOCK_BYTES: usize = 64 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Each event is `data: {…}` and a blank line.
    Sse,
    /// One JSON value per line.
    Lines,
    /// Each event is an element of one JSON array.
    Array,
}

impl Framing {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Sse => "text/event-stream",
            Self::Lines => "application/x-ndjson",
            Self::Array => "application/json",
        }
    }
}

#[derive(Debug)]
pub(crate) struct EventStream {
    framing: Framing,
    frames: Vec<(Bytes, usize)>,
}

impl EventStream {
    pub(crate) fn new(framing: Framing) -> Self {
        Self { framing, frames: Vec::new() }
    }

    pub(crate) fn framing(&self) -> Framing {
        self.framing
    }

    /// Appends an event `times` times.
    pub(crate) fn push(&mut self, event: &Value, times: usize) {
        match self.framing {
            Framing::Sse => self.raw(format!("data: {event}\n\n"), times),
            Framing::Lines => self.raw(format!("{event}\n"), times),
            Framing::Array => {
                let mut times = times;
                if self.frames.is_empty() && times > 0 {
                    self.raw(format!("[{event}"), 1);
                    times -= 1;
                }
                self.raw(format!(",\r\n{event}"), times);
            }
        }
    }

    /// Appends `times` copies of a server-sent event, whose name is the `type` of `event`.
    pub(crate) fn push_named(&mut self, event: &Value, times: usize) {
        let name = event["type"].as_str().unwrap_or_default();
        self.raw(format!("event: {name}\ndata: {event}\n\n"), times);
    }

    /// Appends raw text `times` times.
    pub(crate) fn raw(&mut self, text: String, times: usize) {
        if times > 0 {
            self.frames.push((Bytes::from(text), times));
        }
    }

    /// Returns the body. If the server stops, the body ends early with a broken connection.
    pub(crate) fn into_body(
        self,
        delivery: DeliveryOptions,
        mut stop: ShutdownSignal,
        open: OpenReplyGuard,
    ) -> Body {
        let stream = async_stream::stream! {
            let _open = open;
            let mut first = true;
            for block in self.blocks(delivery) {
                let waited = if first || delivery.chunk_delay.is_zero() {
                    stop.is_running()
                } else {
                    stop.sleep(delivery.chunk_delay).await
                };
                if !waited {
                    yield Err(io::Error::other("the server stops"));
                    return;
                }
                first = false;
                yield Ok(block);
            }
            if delivery.cut_after_bytes.is_some() {
                // A breaking connection discards unsent data; yielding lets it send first.
                tokio::task::yield_now().await;
                yield Err(io::Error::other("the script breaks the connection here"));
            }
        };
        Body::from_stream(stream)
    }

    /// Returns the bytes of each write, in order.
    fn blocks(self, delivery: DeliveryOptions) -> Box<dyn Iterator<Item = Bytes> + Send> {
        let one_by_one = !delivery.chunk_delay.is_zero() && delivery.write_bytes.is_none();
        let blocks = self.frames.into_iter().flat_map(move |(frame, times)| {
            let per_block = if one_by_one { 1 } else { (BLOCK_BYTES / frame.len()).clamp(1, times) };
            let block = if per_block == 1 { frame.clone() } else { Bytes::from(frame.repeat(per_block)) };
            let rest = block.slice(..frame.len() * (times % per_block));
            std::iter::repeat_n(block, times / per_block).chain((!rest.is_empty()).then_some(rest))
        });
        let blocks: Box<dyn Iterator<Item = Bytes> + Send> = match delivery.write_bytes {
            Some(size) => Box::new(FixedSizeChunks { source: blocks, buffer: BytesMut::new(), size }),
            None => Box::new(blocks),
        };
        match delivery.cut_after_bytes {
            Some(most) => Box::new(blocks.scan(most, |left, mut block| {
                block.truncate(*left);
                *left -= block.len();
                (!block.is_empty()).then_some(block)
            })),
            None => blocks,
        }
    }
}

/// Iterator that splits bytes into chunks of one size. The last chunk may be smaller.
struct FixedSizeChunks<I> {
    source: I,
    buffer: BytesMut,
    size: usize,
}

impl<I: Iterator<Item = Bytes>> Iterator for FixedSizeChunks<I> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        while self.buffer.len() < self.size {
            match self.source.next() {
                Some(block) => self.buffer.extend_from_slice(&block),
                None => break,
            }
        }
        let size = self.size.min(self.buffer.len());
        (size > 0).then(|| self.buffer.split_to(size).freeze())
    }
}

/// Splits `text` into pieces of at most `bytes_max` bytes, but at least one character each.
pub(crate) fn split(text: &str, bytes_max: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let mut end = bytes_max.clamp(first.len_utf8(), rest.len().max(first.len_utf8()));
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, left) = rest.split_at(end);
        rest = left;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn text(script: EventStream, delivery: DeliveryOptions) -> (String, usize) {
        let blocks: Vec<Bytes> = script.blocks(delivery).collect();
        (String::from_utf8(blocks.concat()).unwrap(), blocks.len())
    }

    proptest! {
        #[test]
        fn chunks_of_any_size_join_to_the_text(text in "\\PC{0,60}", size in 1usize..20) {
            let pieces: Vec<&str> = split(&text, size).collect();
            prop_assert_eq!(pieces.concat(), text.as_str());
            prop_assert!(pieces.iter().all(|piece| !piece.is_empty()));
            prop_assert!(pieces.iter().all(|piece| piece.len() <= size || piece.chars().count() == 1));
        }

        #[test]
        fn write_sizes_do_not_change_the_body(times in 0usize..3_000, write in 1usize..5_000, cut in 0usize..9_000) {
            let script = || {
                let mut script = EventStream::new(Framing::Lines);
                script.push(&json!("first"), 1);
                script.push(&json!({"token": "ü"}), times);
                script.raw("end".to_owned(), 1);
                script
            };
            let (whole, _) = text(script(), DeliveryOptions::default());
            prop_assert_eq!(whole.matches("token").count(), times);
            prop_assert!(whole.ends_with("end"));
            let resized = DeliveryOptions { write_bytes: Some(write), ..DeliveryOptions::default() };
            let blocks: Vec<Bytes> = script().blocks(resized).collect();
            prop_assert!(blocks[..blocks.len() - 1].iter().all(|block| block.len() == write));
            prop_assert_eq!(blocks.concat(), whole.as_bytes());
            let broken = DeliveryOptions { cut_after_bytes: Some(cut), ..resized };
            let blocks: Vec<Bytes> = script().blocks(broken).collect();
            prop_assert_eq!(blocks.concat(), &whole.as_bytes()[..cut.min(whole.len())]);
        }
    }

    #[test]
    fn a_million_tokens_are_sent_in_large_blocks() {
        let mut script = EventStream::new(Framing::Sse);
        script.push(&json!({"choices": [{"index": 0, "delta": {"content": "word "}}]}), 1_000_000);
        let blocks: Vec<Bytes> = script.blocks(DeliveryOptions::default()).collect();
        assert!(blocks.len() < 2_000, "{}", blocks.len());
        let distinct: std::collections::HashSet<*const u8> =
            blocks.iter().map(|block| block.as_ptr()).collect();
        assert_eq!(distinct.len(), 1, "a block is shared, not copied");
    }

    #[test]
    fn an_array_is_one_json_value() {
        let mut script = EventStream::new(Framing::Array);
        script.push(&json!(1), 2);
        script.push(&json!(2), 1);
        script.raw("]".to_owned(), 1);
        let (body, _) = text(script, DeliveryOptions::default());
        assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), json!([1, 1, 2]));
    }

    #[test]
    fn paced_events_are_sent_one_at_a_time() {
        let mut script = EventStream::new(Framing::Lines);
        script.push(&json!(1), 7);
        let delivery = DeliveryOptions {
            chunk_delay: std::time::Duration::from_millis(1),
            ..DeliveryOptions::default()
        };
        assert_eq!(text(script, delivery).1, 7);
    }
}
