//! What the word at the cursor can become: a command, or a path below the root.

use sysop_driver::frontend::NamedItem;
use sysop_term::command::{self, CompletionNames};

/// How many are offered at once.
pub const OFFERED_MAX: usize = 8;
/// How many paths are asked for.
pub const PATHS_MAX: usize = 32;

/// What is offered for the word at the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The word that it is for.
    pub word: String,
    /// What is offered, each with what it is.
    pub offers: Vec<NamedItem>,
    /// The one that the arrows chose; none before that.
    pub chosen: Option<usize>,
    /// What comes before an offer in the text.
    before: &'static str,
}

/// What the text at the cursor asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CompletionRequest {
    /// These.
    Offers(Completion),
    /// Paths that hold this.
    Paths(String),
    /// Nothing.
    Nothing,
}

impl Completion {
    /// Paths that were found for a word.
    pub(super) fn paths(word: &str, paths: Vec<String>) -> Option<Self> {
        let offers: Vec<NamedItem> =
            paths.into_iter().map(|name| NamedItem { name, description: String::new() }).collect();
        (!offers.is_empty()).then(|| Self { word: format!("@{word}"), offers, chosen: None, before: "@" })
    }

    /// What the chosen offer, or the first, makes of the word.
    pub(super) fn text(&self) -> Option<String> {
        let offer = self.offers.get(self.chosen.unwrap_or(0))?;
        // After a folder more of the path comes.
        let after = if offer.name.ends_with('/') { "" } else { " " };
        Some(format!("{}{}{after}", self.before, offer.name))
    }

    /// Chooses the next one, or the one before.
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

/// What is wanted where the line up to the cursor is `before`; `whole` says whether nothing else is in the box.
pub(super) fn completion_request(before: &str, whole: bool, known: &CompletionNames) -> CompletionRequest {
    let word = before.rsplit([' ', '\t']).next().unwrap_or_default();
    if let Some(path) = word.strip_prefix('@').filter(|path| !path.is_empty()) {
        return CompletionRequest::Paths(path.to_owned());
    }
    if !whole || !before.starts_with('/') {
        return CompletionRequest::Nothing;
    }
    let mut offers: Vec<NamedItem> = command::completions(before, known)
        .into_iter()
        .map(|(name, description)| NamedItem { name, description })
        .collect();
    if !before.contains(' ') {
        let more = command::FULL_SCREEN_COMMANDS.iter().filter(|(name, ..)| name.starts_with(word));
        offers.extend(
            more.map(|(name, _, what)| NamedItem {
                name: (*name).to_owned(),
                description: (*what).to_owned(),
            }),
        );
    }
    // Nothing is to be completed where the only offer is what is there.
    if offers.is_empty() || matches!(offers.as_slice(), [only] if only.name == word) {
        return CompletionRequest::Nothing;
    }
    CompletionRequest::Offers(Completion { word: word.to_owned(), offers, chosen: None, before: "" })
}
