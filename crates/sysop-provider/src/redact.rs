//! Prepares server text for display: masks secrets, strips control sequences, condenses pages, limits the length.

use secrecy::{ExposeSecret as _, SecretString};
use sysop_core::redact::{KnownSecrets, is_placeholder_key};
use sysop_core::text::strip_controls;

const QUOTE_CHARS_MAX: usize = 500;
/// Maximum characters of one of sysop's own messages.
const MESSAGE_CHARS_MAX: usize = 1_500;
/// Maximum characters quoted from a web page received in place of an API response.
const PAGE_CHARS_MAX: usize = 120;
pub(crate) const MASK: &str = "[key]";
const PUBLIC_HEADERS: [&str; 8] = [
    "accept", "anthropic-beta", "anthropic-version", "content-type", "host", "http-referer", "user-agent",
    "x-title",
];
/// Headers whose value is the API key, perhaps after a scheme.
const KEY_HEADERS: [&str; 4] = ["api-key", "authorization", "x-api-key", "x-goog-api-key"];

/// The secrets of one call, masked in every text shown to the user.
#[derive(Default)]
pub(crate) struct Redactor {
    secrets: KnownSecrets,
}

impl Redactor {
    /// Treats all header values as secrets, except known public headers.
    pub(crate) fn new(headers: &[(String, SecretString)]) -> Self {
        let secrets = headers
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value))
            .filter(|(name, _)| !PUBLIC_HEADERS.contains(&name.as_str()))
            .flat_map(|(name, value)| {
                let is_key = KEY_HEADERS.contains(&name.as_str());
                let words = value.expose_secret().split_whitespace();
                words.filter(move |word| !(is_scheme(word) || is_key && is_placeholder_key(word)))
            })
            .map(SecretString::from);
        Self { secrets: KnownSecrets::new(secrets) }
    }

    /// Quotes a server's text on one line, redacted and shortened. A web page is reduced to its title or text.
    pub(crate) fn quote(&self, words: &str) -> String {
        let clean = self.secrets.redact(words, MASK);
        if is_page(words) {
            return format!("a web page: {}", shortened(&page_text(&clean), PAGE_CHARS_MAX));
        }
        shortened(&one_line(&clean), QUOTE_CHARS_MAX)
    }

    /// Redacts and shortens one of our own messages, which may quote a server.
    pub(crate) fn message(&self, message: &str) -> String {
        shortened(&one_line(&self.secrets.redact(message, MASK)), MESSAGE_CHARS_MAX)
    }

    pub(crate) fn has_secrets(&self) -> bool {
        !self.secrets.is_empty()
    }
}

fn is_scheme(word: &str) -> bool {
    ["bearer", "basic", "token"].contains(&word.to_ascii_lowercase().as_str())
}

/// Returns true if the text begins like HTML.
pub(crate) fn is_page(text: &str) -> bool {
    let start: String = text.trim_start().chars().take(15).collect::<String>().to_ascii_lowercase();
    ["<!doctype", "<html", "<head", "<body", "<center", "<h1"].iter().any(|tag| start.starts_with(tag))
}

/// Returns the readable part of a page: its title, or else its text.
fn page_text(page: &str) -> String {
    let lower = page.to_ascii_lowercase();
    if let Some(begin) = lower.find("<title>")
        && let Some(length) = lower[begin..].find("</title>")
    {
        return one_line(&page[begin + "<title>".len()..begin + length]);
    }
    let mut text = String::new();
    let mut inside = false;
    for sign in page.chars() {
        match sign {
            '<' => inside = true,
            '>' => {
                inside = false;
                text.push(' ');
            }
            _ if !inside => text.push(sign),
            _ => {}
        }
    }
    one_line(&text)
}

fn one_line(text: &str) -> String {
    strip_controls(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(crate) fn shortened(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor() -> Redactor {
        Redactor::new(&[
            ("authorization".to_owned(), "Bearer sk-abc".into()),
            ("x-other".to_owned(), "sk-abc-longer".into()),
            ("anthropic-version".to_owned(), "2023-06-01".into()),
            ("x-short".to_owned(), "on".into()),
        ])
    }

    #[test]
    fn masks_keys_and_nothing_else() {
        assert_eq!(
            redactor().quote("Bearer sk-abc is bad, sk-abc-longer too, 2023-06-01 stays on"),
            "Bearer [key] is bad, [key] too, 2023-06-01 stays on"
        );
    }

    #[test]
    fn masks_no_word_that_stands_for_a_key() {
        let redactor = Redactor::new(&[
            ("Authorization".to_owned(), "Bearer none".into()),
            ("x-password".to_owned(), "test".into()),
        ]);
        assert_eq!(redactor.quote("none of the tests"), "none of the [key]s");
    }

    #[test]
    fn shows_no_control_sequence_and_no_endless_text() {
        let quoted = redactor().quote(&format!("a\x1b[31mb\r\n\tc{}", "x".repeat(9_000)));
        assert!(quoted.starts_with("ab c"), "{quoted}");
        assert_eq!(quoted.chars().count(), QUOTE_CHARS_MAX + 1);
    }

    #[test]
    fn shows_the_title_of_a_page() {
        let page = "<html>\n<head><title>502 Bad\nGateway</title></head><body>long</body></html>";
        assert_eq!(redactor().quote(page), "a web page: 502 Bad Gateway");
        assert_eq!(redactor().quote("<!DOCTYPE html><p>Sign in sk-abc</p>"), "a web page: Sign in [key]");
    }
}
