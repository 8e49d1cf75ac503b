//! Fast path for stream chunks that differ only in their text, as nearly all chunks of a reply do.
//!
//! A chunk is about 200 bytes of JSON around one word. If the surrounding JSON equals that of the previous chunk byte
//! for byte, only the word is parsed: the JSON around a string does not depend on the string.

use crate::json::LaxText;

/// Maximum bytes stored on either side of the text.
const AROUND_BYTES_MAX: usize = 4_096;

/// JSON around the text of the previous chunk.
#[derive(Debug, Default)]
pub(super) struct ChunkTemplate {
    before: String,
    after: String,
}

impl ChunkTemplate {
    /// Stores the JSON around `text`, a slice of `data` that holds a JSON string with its quotes. `data` must carry no
    /// other information.
    pub(super) fn capture(&mut self, data: &str, text: &str) {
        self.before.clear();
        self.after.clear();
        let begin = text.as_ptr().addr().wrapping_sub(data.as_ptr().addr());
        let after = data.get(begin..).and_then(|rest| rest.strip_prefix(text));
        if let Some(after) = after
            && begin + after.len() <= AROUND_BYTES_MAX
            && text.starts_with('"')
        {
            self.before.push_str(&data[..begin]);
            self.after.push_str(after);
        }
    }

    /// Returns the text of a chunk that matches the template, or `None` for any other chunk.
    pub(super) fn text<'a>(&self, data: &'a str) -> Option<LaxText<'a>> {
        if self.before.is_empty() {
            return None;
        }
        let text = data.strip_prefix(&*self.before)?.strip_suffix(&*self.after)?;
        // The slice must be exactly one string; otherwise the chunk is of another kind.
        text.starts_with('"').then(|| serde_json::from_str(text).ok()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(data: &str, text: &str) -> ChunkTemplate {
        let place = data.find(text).unwrap();
        let mut template = ChunkTemplate::default();
        template.capture(data, &data[place..place + text.len()]);
        template
    }

    #[test]
    fn reads_the_text_of_what_is_alike() {
        let template = kept(r#"{"a":1,"content":"one","z":[]}"#, r#""one""#);
        let text = |data| template.text(data).map(|text| text.0.into_owned());
        assert_eq!(text(r#"{"a":1,"content":"two","z":[]}"#).as_deref(), Some("two"));
        assert_eq!(text(r#"{"a":1,"content":"","z":[]}"#).as_deref(), Some(""));
        assert_eq!(text(r#"{"a":1,"content":"\"\u00e9\n","z":[]}"#).as_deref(), Some("\"é\n"));
    }

    #[test]
    fn passes_over_what_is_not() {
        let template = kept(r#"{"content":"one","z":[]}"#, r#""one""#);
        for other in [
            r#"{"content":"two","z":[1]}"#,
            r#"{"content":"two","error":"no","z":[]}"#,
            r#"{"content":"two","content":"three","z":[]}"#,
            r#"{"content":null,"z":[]}"#,
            r#"{"content":7,"z":[]}"#,
            r#"{"content":"two,"z":[]}"#,
            r#"{"content":","z":[]}"#,
            "{\"content\":\"a\nb\",\"z\":[]}",
            r#"{"content":,"z":[]}"#,
            r#"{"content","z":[]}"#,
            "",
        ] {
            assert_eq!(template.text(other), None, "{other}");
        }
    }

    #[test]
    fn keeps_nothing_of_what_is_long_or_elsewhere() {
        let long = format!(r#"{{"content":"one","z":"{}"}}"#, "z".repeat(AROUND_BYTES_MAX));
        assert_eq!(kept(&long, r#""one""#).text(&long), None);
        let data = r#"{"content":"one"}"#;
        let mut template = kept(data, r#""one""#);
        assert!(template.text(data).is_some());
        let elsewhere = String::from(r#""one""#);
        template.capture(data, &elsewhere);
        assert_eq!(template.text(data), None);
        assert_eq!(ChunkTemplate::default().text(r#""one""#), None);
    }
}
