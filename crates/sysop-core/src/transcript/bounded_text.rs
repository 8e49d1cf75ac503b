//! Texts that grow up to a limit.

/// Appends as much as fits.
pub(super) fn push_head(text: &mut String, piece: &str, bytes_max: usize) {
    let room = bytes_max.saturating_sub(text.len());
    text.push_str(&piece[..piece.floor_char_boundary(room.min(piece.len()))]);
}

/// Appends and keeps the newest bytes. Returns the number of bytes removed.
pub(super) fn push_tail(text: &mut String, piece: &str, bytes_max: usize) -> u64 {
    text.push_str(piece);
    // Removes half at once, so that long output is not moved for every chunk.
    if text.len() <= bytes_max {
        return 0;
    }
    let cut = text.ceil_char_boundary(text.len() - bytes_max / 2);
    text.drain(..cut);
    cut as u64
}
