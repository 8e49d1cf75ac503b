//! Untrusted text in Markdown. Control characters are not handled here.

/// Minimum length of a code fence.
const FENCE_MIN: usize = 3;

/// Escapes the characters that Markdown or HTML would interpret. The text stays readable where nobody renders it.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut before = None;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let next = characters.peek().copied();
        let is_word = |it: Option<char>| it.is_some_and(char::is_alphanumeric);
        match character {
            // Inside a word, it is no emphasis.
            '_' if is_word(before) && is_word(next) => escaped.push('_'),
            // A link or its definition needs one of these after the bracket; a checkbox begins the text.
            '[' if before.is_some() => escaped.push('['),
            ']' if next.is_some_and(|next| !"([:".contains(next)) => escaped.push(']'),
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '|' | '~' | '!' | '$' => {
                escaped.extend(['\\', character])
            }
            other => escaped.push(other),
        }
        before = Some(character);
    }
    escaped
}

/// Returns a code fence that the text cannot close.
pub(crate) fn fence_for(text: &str) -> String {
    let longest = text.split(|character| character != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(FENCE_MIN.max(longest + 1))
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn text_has_no_markup_and_stays_readable() {
        for (text, escaped) in [
            ("19 hosts (web[01-07], web[09-20]): exit 0", "19 hosts (web[01-07], web[09-20]): exit 0"),
            ("/etc/ssh/sshd_config", "/etc/ssh/sshd_config"),
            ("_a_ __b__", "\\_a\\_ \\_\\_b\\_\\_"),
            ("[x](http://a)", "\\[x\\](http://a)"),
            ("a [x][y]", "a [x\\][y\\]"),
            ("a [x]: http://a", "a [x\\]: http://a"),
            ("![x](y)", "\\![x\\](y)"),
            ("<b> & `c` *d* # $e$ |", "&lt;b&gt; &amp; \\`c\\` \\*d\\* \\# \\$e\\$ \\|"),
        ] {
            assert_eq!(escape(text), escaped);
        }
    }
}
