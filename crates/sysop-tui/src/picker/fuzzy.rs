//! How well a text fits what was typed to find it. Pure.
//!
//! All letters must be there, in their order; the words that are typed may come in any. Letters that follow each
//! other, begin a word, or stand near the beginning count more.

/// What a word adds for each of its letters.
const LETTER: i32 = 16;
/// What more a letter is worth right after the one before.
const NEXT: i32 = 15;
/// What more a letter is worth that begins a word.
const BEGINNING: i32 = 10;
/// What the first letter that was left out between two costs, and each other one.
const GAP: (i32, i32) = (3, 1);
/// The longest part of a text that is looked at, in letters.
const QUEUE_BATCH_MAX: usize = 512;

/// What is looked for.
#[derive(Debug, Clone, Default)]
pub(super) struct FuzzyPattern {
    /// In lower case, unless the person typed upper case.
    words: Vec<Vec<char>>,
    exact_case: bool,
}

impl FuzzyPattern {
    pub(super) fn new(typed: &str) -> Self {
        let exact_case = typed.chars().any(char::is_uppercase);
        Self { words: typed.split_whitespace().map(|word| word.chars().collect()).collect(), exact_case }
    }

    /// How well a text fits; none where it does not.
    pub(super) fn score(&self, text: &str, letters: &mut Vec<char>) -> Option<i32> {
        self.prepare(text, letters);
        self.words.iter().try_fold(0, |sum, word| Some(sum + fit(word, letters, None)?))
    }

    /// Which letters of a text are those that were typed, by their number.
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
        // One letter for each, so that their numbers stay the same.
        let lower = |letter: char| letter.to_lowercase().next().unwrap_or(letter);
        let all = text.chars().take(QUEUE_BATCH_MAX);
        if self.exact_case { letters.extend(all) } else { letters.extend(all.map(lower)) }
    }
}

/// The best of the fits that begin at each place of the first letter: each takes the nearest letters that follow.
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
    // Nearer to the beginning is better, but nothing else is worth less.
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

    /// The texts that fit, the best first.
    fn found<'a>(typed: &str, texts: &[&'a str]) -> Vec<&'a str> {
        let (pattern, mut letters) = (FuzzyPattern::new(typed), Vec::new());
        let mut all: Vec<_> =
            texts.iter().filter_map(|text| Some((pattern.score(text, &mut letters)?, *text))).collect();
        all.sort_by_key(|(score, _)| -score);
        all.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn better_fits_come_first() {
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
    fn upper_case_is_meant_when_it_is_typed() {
        assert_eq!(found("readme", &["README", "readme"]).len(), 2);
        assert_eq!(found("README", &["README", "readme"]), ["README"]);
        assert_eq!(found("äö", &["ÄÖ 語"]), ["ÄÖ 語"]);
    }

    #[test]
    fn the_letters_that_were_typed_are_known() {
        assert_eq!(FuzzyPattern::new("srm").places("src/main.rs"), [0, 1, 4]);
        assert_eq!(FuzzyPattern::new("語 b").places("b 日本語"), [0, 4]);
        assert_eq!(FuzzyPattern::new("").places("x"), [0_usize; 0]);
    }
}
