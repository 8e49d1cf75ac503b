//! Recognizes `sed` scripts that only edit the stream. A command that is not listed here is rejected.

/// Returns true if a script is fully understood and neither runs commands (`e`) nor reads or writes files (`r`, `w`).
pub(crate) fn only_edits_stream(script: &str) -> bool {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', ';', '{', '}']);
        if rest.is_empty() {
            return true;
        }
        let Some(after) = addresses(rest).and_then(command) else { return false };
        rest = after;
        let bounded = rest.is_empty() || rest.starts_with([' ', '\t', '\n', ';', '}', '{']);
        if !bounded {
            return false;
        }
    }
}

/// Skips the addresses of a command: `N`, `$`, `/re/`, ranges and `!`. Returns the text after them.
fn addresses(text: &str) -> Option<&str> {
    let mut rest = address(text)?;
    if let Some(second) = rest.strip_prefix(',') {
        rest = address(second.trim_start_matches(['+', '~']))?;
    }
    Some(rest.trim_start_matches([' ', '!']))
}

fn address(text: &str) -> Option<&str> {
    if let Some(pattern) = text.strip_prefix('/') {
        return Some(after_delimiter(pattern, '/')?.trim_start_matches(['I', 'M']));
    }
    if let Some(rest) = text.strip_prefix('$') {
        return Some(rest);
    }
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    Some(rest.strip_prefix('~').map_or(rest, |step| step.trim_start_matches(|c: char| c.is_ascii_digit())))
}

fn command(text: &str) -> Option<&str> {
    let mut chars = text.chars();
    let name = chars.next()?;
    let rest = chars.as_str();
    match name {
        'p' | 'd' | 'q' | 'Q' | '=' | 'n' | 'N' | 'h' | 'H' | 'g' | 'G' | 'x' | 'D' | 'P' | 'l' => Some(rest),
        '{' => Some(text),
        's' => {
            let rest = two_parts(rest)?;
            Some(rest.trim_start_matches(|c: char| matches!(c, 'g' | 'p' | 'i' | 'I') || c.is_ascii_digit()))
        }
        'y' => two_parts(rest),
        _ => None,
    }
}

/// Skips `/a/b/`, where the delimiter may be any ASCII punctuation except a backslash. Returns the text after it.
fn two_parts(text: &str) -> Option<&str> {
    let mut chars = text.chars();
    let delimiter = chars.next().filter(|c| c.is_ascii_punctuation() && *c != '\\')?;
    after_delimiter(after_delimiter(chars.as_str(), delimiter)?, delimiter)
}

/// Skips to the next unescaped delimiter on this line and returns the text after it. Returns `None` if a `[` before the
/// delimiter is not closed, because some programs ignore a delimiter inside brackets and others do not.
fn after_delimiter(text: &str, delimiter: char) -> Option<&str> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '\n' => return None,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == delimiter => {
                let part = text.get(..at)?;
                let balanced = part.matches('[').count() == part.matches(']').count();
                return balanced.then(|| text.get(at + c.len_utf8()..)).flatten();
            }
            _ => {}
        }
    }
    None
}
