//! Fuzzy matching of text against search words. Pure.
//!
//! All letters of a word must occur in order; the words may occur in any order. Letters score higher if they are
//! consecutive, start a word, or are near the beginning.

const LETTER: i32 = 16;
/// Bonus for a letter right after the previous match.
const NEXT: i32 = 15;
/// Bonus for a letter that starts a word.
const BEGINNING: i32 = 10;
/// Penalty for a gap between two matching letters: a fixed part, and a part for each skipped character.
const GAP: (i32, i32) = (3, 1);
/// Maximum number of characters of text to search. Later characters are ignored.
const QUEUE_BATCH_MAX: usize = 512;

#[derive(Debug, Clone, Default)]
pub(super) struct FuzzyPattern {
    /// Words to search for, in lowercase unless the user typed an uppercase letter.
    words: Vec<Vec<char>>,
    exact_case: bool,
}

impl FuzzyPattern {
    pub(super) fn new(typed: &str) -> Self {
        let exact_case = typed.chars().any(char::is_uppercase);
        Self { words: typed.split_whitespace().map(|word| word.chars().collect()).collect(), exact_case }
    }

    pub(super) fn score(&self, text: &str, letters: &mut Vec<char>) -> Option<i32> {
        self.prepare(text, letters);
        self.words.iter().try_fold(0, |sum, word| Some(sum + fit(word, letters, None)?))
    }

    /// Returns the indexes of the characters in `text` that match.
    pub(super) fn places(&self, text: &str) -> Vec<usize> {
        let (mut letters, mut places) = (Vec::new(), Vec::new());
        self.prepare(text, &mut letters);
        for word in &self.words {
            fit(word, &letters, Some(&mut places));
        }
        places.sort_unstable();
        places
    }

    fn prepare(&self, text: &str, letters: &mut Vec<char>) {
        letters.clear();
        // Map each character to exactly one character, so that the indexes stay the same.
        let lower = |letter: char| letter.to_lowercase().next().unwrap_or(letter);
        let all = text.chars().take(QUEUE_BATCH_MAX);
        if self.exact_case { letters.extend(all) } else { letters.extend(all.map(lower)) }
    }
}

/// Returns the score of the best match, and adds the matching indexes to `places`. The search is greedy: for each
/// occurrence of the first letter, the nearest following letters are taken.
fn fit(word: &[char], letters: &[char], places: Option<&mut Vec<usize>>) -> Option<i32> {
    let first = *word.first()?;
    let mut best: Option<(i32, usize)> = None;
    for start in (0..letters.len()).filter(|&at| letters[at] == first) {
        let Some(score) = follow(word, letters, start, None) else { break };
        if best.is_none_or(|(most, _)| score > most) {
            best = Some((score, start));
        }
    }
    let (score, start) = best?;
    if let Some(places) = places {
        follow(word, letters, start, Some(places));
    }
    Some(score)
}

fn follow(word: &[char], letters: &[char], start: usize, mut places: Option<&mut Vec<usize>>) -> Option<i32> {
    let (mut at, mut score) = (start, 0);
    // Slightly prefer matches near the beginning.
    score -= i32::try_from(start.min(8)).unwrap_or(0);
    for (number, letter) in word.iter().enumerate() {
        let found = at + letters.get(at..)?.iter().position(|candidate| candidate == letter)?;
        score += LETTER;
        if number > 0 && found == at {
            score += NEXT;
        } else if number > 0 {
            score -= GAP.0 + GAP.1 * i32::try_from((found - at).min(16)).unwrap_or(0);
        }
        if found == 0 || !letters[found - 1].is_alphanumeric() {
            score += BEGINNING;
        }
        if let Some(places) = &mut places {
            places.push(found);
        }
        at = found + 1;
    }
    Some(score)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the matching strings, best first.
    fn found<'a>(typed: &str, texts: &[&'a str]) -> Vec<&'a str> {
        let (pattern, mut letters) = (FuzzyPattern::new(typed), Vec::new());
        let mut all: Vec<_> =
            texts.iter().filter_map(|text| Some((pattern.score(text, &mut letters)?, *text))).collect();
        all.sort_by_key(|(score, _)| -score);
        all.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn better_matches_come_first() {
        assert_eq!(
            found("disk", &["d-i-s-k", "check the disk", "disk", "none"]),
            ["disk", "check the disk", "d-i-s-k"]
        );
        assert_eq!(found("sm", &["src/main.rs", "assume"]), ["src/main.rs", "assume"]);
        assert_eq!(
            found("nginx web1", &["web1 restart nginx", "web2 restart nginx"]),
            ["web1 restart nginx"]
        );
        assert_eq!(found("", &["a", "b"]), ["a", "b"]);
    }

    #[test]
    fn typed_capitals_are_case_sensitive() {
        assert_eq!(found("readme", &["README", "readme"]).len(), 2);
        assert_eq!(found("README", &["README", "readme"]), ["README"]);
        assert_eq!(found("äö", &["ÄÖ 語"]), ["ÄÖ 語"]);
    }

    #[test]
    fn matched_letters_are_reported() {
        assert_eq!(FuzzyPattern::new("srm").places("src/main.rs"), [0, 1, 4]);
        assert_eq!(FuzzyPattern::new("語 b").places("b 日本語"), [0, 4]);
        assert_eq!(FuzzyPattern::new("").places("x"), [0_usize; 0]);
    }
}
