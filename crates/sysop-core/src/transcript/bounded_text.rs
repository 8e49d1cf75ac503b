//! Text that grows up to a limit.

/// Appends as much of `piece` as fits into `bytes_max`.
pub(super) fn push_head(text: &mut String, piece: &str, bytes_max: usize) {
    let room = bytes_max.saturating_sub(text.len());
    text.push_str(&piece[..piece.floor_char_boundary(room.min(piece.len()))]);
}

/// Appends `piece`, and keeps only the newest bytes if the text exceeds `bytes_max`. Returns the bytes removed.
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
