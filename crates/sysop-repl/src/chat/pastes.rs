//! Long pastes, which the line editor shows as a sign such as `[paste 1: 201 lines]`, so that they do not fill the
//! scrollback. The line that the user sends, and the history, have the whole text.

use std::sync::Arc;

use parking_lot::Mutex;
use reedline::{
    FileBackedHistory, History, HistoryItem, HistoryItemId, HistorySessionId, Result, SearchQuery,
};

/// Minimum number of lines of a paste that is folded.
const FOLDED_LINES_MIN: usize = 11;
/// Maximum number of folded pastes; later ones are inserted as they are.
const PASTES_MAX: usize = 1_000;

/// The folded pastes, each with its sign. They are kept as long as the editor, because a sign may be in a draft.
#[derive(Debug, Clone, Default)]
pub(super) struct Pastes(Arc<Mutex<Vec<(String, String)>>>);

impl Pastes {
    /// Returns the text to insert for a paste: its sign if it is long, otherwise the paste.
    pub(super) fn fold(&self, text: String) -> String {
        let lines = text.lines().count();
        let mut pastes = self.0.lock();
        if lines < FOLDED_LINES_MIN || pastes.len() >= PASTES_MAX {
            return text;
        }
        let sign = format!("[paste {}: {lines} lines]", pastes.len() + 1);
        pastes.push((sign.clone(), text));
        sign
    }

    /// Replaces the signs in a line by their pastes.
    pub(super) fn expand(&self, line: &str) -> String {
        let pastes = self.0.lock();
        let (mut out, mut rest) = (String::new(), line);
        while let Some(at) = rest.find("[paste ") {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            let (shown, text) = match pastes.iter().find(|(sign, _)| rest.starts_with(sign)) {
                Some((sign, text)) => (sign.len(), text.as_str()),
                None => (1, "["),
            };
            out.push_str(text);
            rest = &rest[shown..];
        }
        out.push_str(rest);
        out
    }
}

/// History file with the whole text of pastes, because their signs mean nothing to the next process.
pub(super) struct ExpandedHistory {
    pub(super) file: FileBackedHistory,
    pub(super) pastes: Pastes,
}

impl History for ExpandedHistory {
    fn save(&mut self, item: HistoryItem) -> Result<HistoryItem> {
        let command_line = self.pastes.expand(&item.command_line);
        self.file.save(HistoryItem { command_line, ..item })
    }

    fn load(&self, id: HistoryItemId) -> Result<HistoryItem> {
        self.file.load(id)
    }

    fn count(&self, query: SearchQuery) -> Result<i64> {
        self.file.count(query)
    }

    fn search(&self, query: SearchQuery) -> Result<Vec<HistoryItem>> {
        self.file.search(query)
    }

    fn update(&mut self, id: HistoryItemId, updater: &dyn Fn(HistoryItem) -> HistoryItem) -> Result<()> {
        self.file.update(id, updater)
    }

    fn clear(&mut self) -> Result<()> {
        self.file.clear()
    }

    fn delete(&mut self, id: HistoryItemId) -> Result<()> {
        self.file.delete(id)
    }

    fn sync(&mut self) -> std::io::Result<()> {
        self.file.sync()
    }

    fn session(&self) -> Option<HistorySessionId> {
        self.file.session()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_paste_is_shown_as_a_sign_and_sent_whole() {
        let pastes = Pastes::default();
        let ten = "line\n".repeat(10);
        assert_eq!(pastes.fold(ten.clone()), ten);
        let long: String =
            (1..=201).map(|number| format!("log line {number} [paste 1: 201 lines]\n")).collect();
        let sign = pastes.fold(long.clone());
        assert_eq!(sign, "[paste 1: 201 lines]");
        assert_eq!(pastes.fold("other\n".repeat(11)), "[paste 2: 11 lines]");
        assert_eq!(pastes.expand(&format!("why? {sign} [paste 3]!")), format!("why? {long} [paste 3]!"));
        assert_eq!(pastes.expand("[paste 2: 11 lines]"), "other\n".repeat(11));
    }
}
