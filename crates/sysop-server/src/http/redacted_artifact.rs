//! Stored outputs for callers that may not operate: redacted like the log.

use std::io;

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use sysop_core::redact::live::LiveRedactor;

struct ArtifactRedactor {
    pieces: BoxStream<'static, io::Result<Bytes>>,
    /// Bytes of an unfinished character.
    unfinished: Vec<u8>,
    redactor: LiveRedactor,
}

/// Redacts the pieces of an artifact that is no image.
pub(super) fn redacted_pieces(
    pieces: BoxStream<'static, io::Result<Bytes>>,
) -> impl Stream<Item = io::Result<Bytes>> {
    let reader = ArtifactRedactor { pieces, unfinished: Vec::new(), redactor: LiveRedactor::default() };
    stream::unfold(Some(reader), |reader| async {
        let mut reader = reader?;
        Some(match reader.pieces.next().await {
            Some(Ok(piece)) => (Ok(reader.take(&piece)), Some(reader)),
            Some(Err(error)) => (Err(error), None),
            None => (Ok(reader.finish()), None),
        })
    })
}

impl ArtifactRedactor {
    fn take(&mut self, piece: &[u8]) -> Bytes {
        self.unfinished.extend_from_slice(piece);
        let complete = match std::str::from_utf8(&self.unfinished) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Ok(_) | Err(_) => self.unfinished.len(),
        };
        let rest = self.unfinished.split_off(complete);
        let text = std::mem::replace(&mut self.unfinished, rest);
        self.redactor.push(&String::from_utf8_lossy(&text)).into()
    }

    fn finish(&mut self) -> Bytes {
        let rest = std::mem::take(&mut self.unfinished);
        let mut text = self.redactor.push(&String::from_utf8_lossy(&rest));
        text.push_str(&self.redactor.finish());
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::StreamExt;

    use super::redacted_pieces;

    async fn read(pieces: &[&'static [u8]]) -> Vec<u8> {
        let pieces: Vec<_> = pieces.iter().map(|piece| Ok(Bytes::from_static(piece))).collect();
        let redacted = redacted_pieces(futures::stream::iter(pieces).boxed());
        redacted.map(|piece| piece.unwrap().to_vec()).collect::<Vec<_>>().await.concat()
    }

    #[tokio::test]
    async fn secrets_and_characters_in_several_pieces_are_found() {
        let text = read(&[b"\xc3", b"\xa9\npassword: hunt", b"er22"]);
        assert_eq!(String::from_utf8(text.await).unwrap(), "é\npassword: [redacted: secret]");
    }
}
