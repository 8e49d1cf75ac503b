//! `write_file_chunk`: a file sent in pieces. The pieces are joined in memory, and the file is written completely after
//! the last piece, or not at all.

use std::collections::HashMap;

use serde::Deserialize;
use sysop_core::catalog::CHUNKS_MAX;
use sysop_core::outcome::Outcome;

use super::{CallContext, ToolError, ToolOutcome, Toolbox};
use crate::machine::FILE_BYTES_MAX;

/// Maximum number of incomplete files. If there are more, the file that was untouched for the longest time is dropped.
const FILES_MAX: usize = 8;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteFileChunk {
    path: String,
    content: String,
    index: u64,
    total: u64,
}

/// Incomplete files, by path.
#[derive(Debug, Default)]
pub(crate) struct ChunkedFiles {
    files: HashMap<String, PartialFile>,
    clock: u64,
}

#[derive(Debug)]
struct PartialFile {
    text: String,
    /// Offset of the newest piece in the text.
    newest: usize,
    count: u64,
    total: u64,
    touched: u64,
}

/// Result of accepting a piece.
#[derive(Debug, PartialEq, Eq)]
enum ChunkProgress {
    Incomplete { received: u64, total: u64 },
    Complete(String),
}

impl ChunkedFiles {
    /// Accepts the next piece. Piece 0 starts the file over. The newest piece may be sent again.
    fn take(&mut self, path: &str, piece: WriteFileChunk) -> Result<ChunkProgress, String> {
        let WriteFileChunk { content, index, total, .. } = piece;
        if total == 0 || total > CHUNKS_MAX || index >= total {
            return Err(format!(
                "index must be between 0 and total - 1, and total between 1 and {CHUNKS_MAX}"
            ));
        }
        self.clock += 1;
        let touched = self.clock;
        if index == 0 {
            self.make_room(path);
            let empty = PartialFile { text: String::new(), newest: 0, count: 0, total, touched };
            self.files.insert(path.to_owned(), empty);
        }
        let Some(pieces) = self.files.get_mut(path) else {
            return Err(format!(
                "piece 0 of the file is missing; send the pieces in order, 0 to {}",
                total - 1
            ));
        };
        pieces.touched = touched;
        if pieces.total != total {
            return Err(format!(
                "the file was started with {} pieces, not {total}; start again with piece 0",
                pieces.total
            ));
        }
        let again = index + 1 == pieces.count && pieces.text[pieces.newest..] == content;
        if index != pieces.count && !again {
            return Err(format!("expected piece {}, got {index}; send piece 0 to start again", pieces.count));
        }
        if !again {
            if (pieces.text.len() + content.len()) as u64 > FILE_BYTES_MAX {
                self.files.remove(path);
                return Err(format!("the file is larger than {FILE_BYTES_MAX} bytes; nothing was written"));
            }
            pieces.newest = pieces.text.len();
            pieces.text.push_str(&content);
            pieces.count += 1;
        }
        if pieces.count < total {
            return Ok(ChunkProgress::Incomplete { received: pieces.count, total });
        }
        Ok(ChunkProgress::Complete(self.files.remove(path).map(|pieces| pieces.text).unwrap_or_default()))
    }

    fn make_room(&mut self, path: &str) {
        if self.files.len() < FILES_MAX || self.files.contains_key(path) {
            return;
        }
        let oldest = self.files.iter().min_by_key(|(_, pieces)| pieces.touched).map(|(path, _)| path.clone());
        if let Some(oldest) = oldest {
            self.files.remove(&oldest);
        }
    }
}

impl Toolbox {
    pub(super) async fn write_file_chunk(
        &self,
        arguments: WriteFileChunk,
        call: &CallContext<'_>,
    ) -> ToolOutcome {
        let path = self.path(&arguments.path, call).await?;
        let step = {
            let mut files = self.chunked.lock();
            files.take(path.as_str(), arguments)
        };
        match step.map_err(|why| ToolError::Refused(format!("{path}: {why}")))? {
            ChunkProgress::Incomplete { received, total } => Ok(Outcome::ok(format!(
                "OK, {received} of {total} pieces; the file is written after the last one"
            ))),
            ChunkProgress::Complete(content) => self.write_whole(&path, content, call).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ChunkProgress, ChunkedFiles, FILE_BYTES_MAX, FILES_MAX, WriteFileChunk};

    fn send(
        files: &mut ChunkedFiles,
        path: &str,
        content: &str,
        index: u64,
        total: u64,
    ) -> Result<ChunkProgress, String> {
        let piece = WriteFileChunk { path: path.to_owned(), content: content.to_owned(), index, total };
        files.take(path, piece)
    }

    #[test]
    fn chunks_in_order_form_the_file() {
        let mut files = ChunkedFiles::default();
        assert_eq!(send(&mut files, "f", "a", 0, 3), Ok(ChunkProgress::Incomplete { received: 1, total: 3 }));
        assert_eq!(send(&mut files, "f", "b", 1, 3), Ok(ChunkProgress::Incomplete { received: 2, total: 3 }));
        assert_eq!(send(&mut files, "f", "c", 2, 3), Ok(ChunkProgress::Complete("abc".to_owned())));
        assert!(files.files.is_empty());
    }

    #[test]
    fn a_repeated_chunk_is_ignored_and_a_different_one_is_rejected() {
        let mut files = ChunkedFiles::default();
        send(&mut files, "f", "a", 0, 3).unwrap();
        send(&mut files, "f", "b", 1, 3).unwrap();
        assert_eq!(send(&mut files, "f", "b", 1, 3), Ok(ChunkProgress::Incomplete { received: 2, total: 3 }));
        assert!(send(&mut files, "f", "B", 1, 3).unwrap_err().contains("expected piece 2"));
        assert_eq!(send(&mut files, "f", "c", 2, 3), Ok(ChunkProgress::Complete("abc".to_owned())));
    }

    #[test]
    fn gaps_changed_totals_and_missing_starts_are_rejected() {
        let mut files = ChunkedFiles::default();
        assert!(send(&mut files, "f", "b", 1, 3).unwrap_err().contains("piece 0 of the file is missing"));
        send(&mut files, "f", "a", 0, 3).unwrap();
        assert!(send(&mut files, "f", "c", 2, 3).unwrap_err().contains("expected piece 1"));
        assert!(send(&mut files, "f", "b", 1, 4).unwrap_err().contains("3 pieces"));
        for (index, total) in [(0, 0), (1, 1), (0, 1001)] {
            assert!(send(&mut files, "f", "x", index, total).is_err(), "{index} of {total}");
        }
    }

    #[test]
    fn chunk_0_starts_over() {
        let mut files = ChunkedFiles::default();
        send(&mut files, "f", "old", 0, 2).unwrap();
        send(&mut files, "f", "new", 0, 2).unwrap();
        assert_eq!(send(&mut files, "f", "!", 1, 2), Ok(ChunkProgress::Complete("new!".to_owned())));
    }

    #[test]
    fn open_chunked_files_are_bounded() {
        let mut files = ChunkedFiles::default();
        for number in 0..FILES_MAX + 3 {
            send(&mut files, &format!("f{number}"), "a", 0, 2).unwrap();
        }
        assert_eq!(files.files.len(), FILES_MAX);
        assert!(!files.files.contains_key("f0") && files.files.contains_key("f10"));
        let large = "x".repeat(usize::try_from(FILE_BYTES_MAX).unwrap());
        send(&mut files, "f10", &large, 0, 2).unwrap();
        assert!(send(&mut files, "f10", "y", 1, 2).unwrap_err().contains("nothing was written"));
        assert!(!files.files.contains_key("f10"));
    }
}
