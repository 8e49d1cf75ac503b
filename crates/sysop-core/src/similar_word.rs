//! Similarity of words, to find the one that a mistyped word means. It decides nothing: a person reads the suggestion.

/// Maximum number of characters of a word to compare.
const WORD_CHARS_MAX: usize = 64;

/// Returns the known word that is most similar to a mistyped one, or `None` if none is similar enough.
pub fn nearest_word<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: String = word.to_lowercase().chars().take(WORD_CHARS_MAX).collect();
    known
        .into_iter()
        .map(|candidate| (edit_distance(&word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().div_ceil(4))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the edit distance with transpositions: the number of letters to change, insert, delete or swap.
pub fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let cost = usize::from(a[i - 1] != b[j - 1]);
                let mut best = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + cost);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best = best.min(rows[i - 2][j - 2] + 1);
                }
                best
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_word_means_the_most_similar_one() {
        let known = ["openai", "ollama", "gemini"];
        assert_eq!(nearest_word("ollma", known), Some("ollama"));
        assert_eq!(nearest_word("OpenIA", known), Some("openai"));
        assert_eq!(nearest_word("mistral", known), None);
        assert_eq!(edit_distance("ab", "ba"), 1);
    }
}
