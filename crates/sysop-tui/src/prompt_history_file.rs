//! The prompt history file.

use std::io;
use std::path::Path;

use crate::app::PromptHistory;

/// Maximum number of bytes to read from a history file.
const HISTORY_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Reads the newest part of the file.
pub(crate) fn read_prompt_history(path: &Path) -> io::Result<PromptHistory> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let (mut file, mut text) = (std::fs::File::open(path)?, Vec::new());
    // The newest prompts are at the end.
    let before = file.metadata()?.len().saturating_sub(HISTORY_BYTES_MAX);
    file.seek(SeekFrom::Start(before))?;
    file.take(HISTORY_BYTES_MAX).read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    // The first line may be incomplete.
    Ok(PromptHistory::read(if before == 0 {
        &text
    } else {
        text.split_once('\n').map_or("", |(_, rest)| rest)
    }))
}

/// Appends a prompt to the file, which only its owner can read.
pub(crate) fn remember(path: &Path, message: &str) -> io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut file = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    file.write_all(PromptHistory::line(message).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::{HISTORY_BYTES_MAX, read_prompt_history, remember};
    use crate::app::PromptHistory;

    #[test]
    fn the_newest_part_of_a_long_history_is_read() {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let path = folder.path().join("history");
        let long = "x".repeat(1024 * 1024);
        for _ in 0..=HISTORY_BYTES_MAX / (1024 * 1024) {
            remember(&path, &long).expect("it can be written");
        }
        remember(&path, "the newest").expect("it can be written");
        let prompt_history: PromptHistory = read_prompt_history(&path).expect("it can be read");
        let read: Vec<&str> = prompt_history.newest_first().collect();
        assert_eq!(read.first(), Some(&"the newest"));
        assert!(read[1..].iter().all(|message| *message == long));
    }
}
