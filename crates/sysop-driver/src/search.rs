//! Full-text search in logs: the strings of an event that a user has read, and an excerpt around a match.

use sysop_core::event::Event;
use sysop_core::text::neutralize_line;

/// Characters of an excerpt before and after the start of the first word.
const AROUND_CHARS: usize = 60;

/// Returns the text around the words, or else around the first word, if one event contains all `words`, which must be
/// lowercase. The search ignores case.
pub fn excerpt(event: &Event, words: &[String]) -> Option<String> {
    let texts = texts(event);
    let lower: Vec<String> = texts.iter().map(|text| text.to_lowercase()).collect();
    if words.is_empty() || !words.iter().all(|word| lower.iter().any(|text| text.contains(word.as_str()))) {
        return None;
    }
    let (text, lower) = texts.iter().zip(&lower).find(|(_, lower)| lower.contains(words[0].as_str()))?;
    let before = lower.find(&words.join(" ")).or_else(|| lower.find(words[0].as_str()))?;
    // Lowercasing may change the length in bytes, but hardly ever the number of characters.
    let start = lower[..before].chars().count();
    let from = start.saturating_sub(AROUND_CHARS);
    let around: String = text.chars().skip(from).take(start - from + AROUND_CHARS).collect();
    let line = around.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = neutralize_line(&line);
    let cut = if from > 0 { "…" } else { "" };
    Some(format!("{cut}{line}"))
}

/// Strings of an event that are searched: prompts, answers, the arguments of calls, and outputs.
#[expect(clippy::wildcard_enum_match_arm, reason = "other events hold no text that a user searches")]
fn texts(event: &Event) -> Vec<&str> {
    match event {
        Event::TurnStarted { prompt, .. } => vec![prompt],
        Event::Replied { reply, .. } => {
            let calls = reply.calls.iter().flat_map(|call| call.arguments.texts());
            std::iter::once(reply.text.as_str()).chain(calls).collect()
        }
        Event::ToolStarted { call, .. } => call.arguments.texts().collect(),
        Event::ToolFinished { outcome, .. } => vec![&outcome.output],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use sysop_core::event::{Event, Origin};
    use sysop_core::id::TurnId;

    use super::excerpt;

    fn prompt(text: &str) -> Event {
        Event::TurnStarted {
            turn: TurnId(1),
            prompt: text.to_owned(),
            origin: Origin::User,
            images: Vec::new(),
            by: None,
        }
    }

    fn found(text: &str, words: &[&str]) -> Option<String> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        excerpt(&prompt(text), &words)
    }

    #[test]
    fn all_words_must_occur_in_any_order_and_case() {
        assert_eq!(found("Why is Journald SLOW?", &["slow", "journald"]).unwrap(), "Why is Journald SLOW?");
        assert_eq!(found("Why is journald slow?", &["journald", "disk"]), None);
        assert_eq!(found("anything", &[]), None);
        assert_eq!(excerpt(&Event::Resumed, &["resumed".to_owned()]), None);
    }

    #[test]
    fn an_excerpt_shows_the_words_together_if_they_are() {
        let text = format!("the first\nline {} then prune\nthe images | keep 3", "x ".repeat(100));
        let shown = found(&text, &["the", "images"]).unwrap();
        assert!(shown.ends_with("then prune the images | keep 3") && !shown.contains("first"), "{shown}");
    }

    #[test]
    fn an_excerpt_is_one_short_safe_line() {
        let text = format!("{} ÄRGER\x1b[31m with\nthe disk {}", "ä ".repeat(100), "x ".repeat(100));
        let line = found(&text, &["ärger"]).unwrap();
        assert!(line.starts_with('…') && line.contains("ÄRGER"), "{line}");
        assert!(line.chars().count() <= 140 && !line.contains(char::is_control), "{line}");
    }
}
