//! Completion of the word at the cursor, which is a command or a path under the root.

use sysop_driver::frontend::NamedItem;
use sysop_term::command::{self, CompletionNames};

pub const OFFERED_MAX: usize = 8;
pub const PATHS_MAX: usize = 32;

/// Completions for the word at the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    pub word: String,
    /// Candidates with their descriptions.
    pub offers: Vec<NamedItem>,
    /// Candidate selected with the arrow keys, if any.
    pub chosen: Option<usize>,
    /// Text to insert before the chosen candidate.
    before: &'static str,
}

/// Kind of completion needed for the text at the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CompletionRequest {
    Offers(Completion),
    Paths(String),
    Nothing,
}

impl Completion {
    /// Creates completions from the paths found for a word; `None` if there are none.
    pub(super) fn paths(word: &str, paths: Vec<String>) -> Option<Self> {
        let offers: Vec<NamedItem> =
            paths.into_iter().map(|name| NamedItem { name, description: String::new() }).collect();
        (!offers.is_empty()).then(|| Self { word: format!("@{word}"), offers, chosen: None, before: "@" })
    }

    /// Returns the replacement for the word: the selected candidate, or else the first one.
    pub(super) fn text(&self) -> Option<String> {
        let offer = self.offers.get(self.chosen.unwrap_or(0))?;
        // After a directory, the path continues.
        let after = if offer.name.ends_with('/') { "" } else { " " };
        Some(format!("{}{}{after}", self.before, offer.name))
    }

    pub(super) fn choose(&mut self, step: isize) {
        let count = self.offers.len();
        let next = match self.chosen {
            None if step > 0 => 0,
            None => count - 1,
            Some(at) => (at + count).saturating_add_signed(step) % count,
        };
        self.chosen = Some(next);
    }
}

/// Returns the completion needed at the cursor. `before` is the line up to the cursor; `whole` is true if the
/// composer contains nothing else.
pub(super) fn completion_request(before: &str, whole: bool, known: &CompletionNames) -> CompletionRequest {
    let word = before.rsplit([' ', '\t']).next().unwrap_or_default();
    if let Some(path) = word.strip_prefix('@') {
        return CompletionRequest::Paths(path.to_owned());
    }
    if !whole || !before.starts_with('/') {
        return CompletionRequest::Nothing;
    }
    let offers: Vec<NamedItem> = command::completions(before, known)
        .into_iter()
        .map(|(name, description)| NamedItem { name, description })
        .collect();
    // A single candidate equal to the word completes nothing.
    if offers.is_empty() || matches!(offers.as_slice(), [only] if only.name == word) {
        return CompletionRequest::Nothing;
    }
    CompletionRequest::Offers(Completion { word: word.to_owned(), offers, chosen: None, before: "" })
}
