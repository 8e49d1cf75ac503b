//! Untrusted text in Markdown. Control characters are not handled here.

/// Minimum length of a code fence.
const FENCE_MIN: usize = 3;

/// Escapes the characters that Markdown or HTML would interpret.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '|' | '~' | '!' | '$' => {
                escaped.extend(['\\', character])
            }
            other => escaped.push(other),
        }
    }
    escaped
}

/// Returns a code fence that the text cannot close.
pub(crate) fn fence_for(text: &str) -> String {
    let longest = text.split(|character| character != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(FENCE_MIN.max(longest + 1))
}
