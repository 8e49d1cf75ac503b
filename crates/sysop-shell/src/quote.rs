//! Quoting of text for shell commands.

/// Returns text as one word in single quotes, which POSIX shells read back unchanged.
pub fn single_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
