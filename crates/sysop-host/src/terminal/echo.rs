//! Decides which typed text may be reported: only text that the terminal has shown. This module is pure.
//!
//! The echo mode is known only for a local terminal, from the kernel. Behind `ssh`, and in programs that read single
//! keys, the screen is the only evidence. While a secret is typed there, the screen shows nothing new, or asterisks.

use super::keys::{self, TypedKey};

/// Evidence of how typed text becomes visible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum InputVisibility {
    Visible,
    Secret {
        prompt: String,
    },
    /// The screen shows whether input is echoed. `before` is the text that was left of the cursor before the typing.
    OnScreen {
        before: String,
    },
    /// Visibility cannot be determined.
    Unknown,
}

/// Typed input in the form in which it may be reported.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReportableInput {
    /// Typed text and names of keys, or only a number of keys.
    Keys(String),
    /// A secret was typed; its text is not reported.
    Secret { prompt: String },
}

/// Returns the reportable form of typed bytes. `line` returns the text that is left of the cursor now, or `None` if
/// that text is not evidence.
pub(super) fn reportable_input(
    bytes: &[u8],
    visibility: &InputVisibility,
    line: impl FnOnce() -> Option<String>,
) -> ReportableInput {
    let named = || ReportableInput::Keys(keys::key_names(bytes));
    let pieces = keys::typed_keys(bytes);
    if *visibility == InputVisibility::Visible || pieces.iter().all(|piece| matches!(piece, TypedKey::Key(_)))
    {
        return named();
    }
    let count = || {
        ReportableInput::Keys(format!("{} {}", pieces.len(), if pieces.len() == 1 { "key" } else { "keys" }))
    };
    let before = match visibility {
        InputVisibility::Secret { prompt } => return ReportableInput::Secret { prompt: prompt.clone() },
        InputVisibility::OnScreen { before } => before,
        InputVisibility::Visible | InputVisibility::Unknown => return count(),
    };
    let Some(added) = line().and_then(|line| line.strip_prefix(before.as_str()).map(str::to_owned)) else {
        return count();
    };
    let text = match pieces.as_slice() {
        [text @ .., TypedKey::Key(_)] | text => text,
    };
    // Text that was typed and erased again leaves no trace on the screen.
    let letters: Option<String> = text.iter().map(TypedKey::letter).collect();
    if is_masked(&added) && letters.as_ref() != Some(&added) {
        return ReportableInput::Secret { prompt: before.trim().to_owned() };
    }
    // The last letters may not have been echoed yet.
    let shown = letters.is_some_and(|letters| {
        letters.starts_with(&added) && 2 * added.chars().count() >= letters.chars().count()
    });
    if shown { named() } else { count() }
}

/// Returns true if nothing was echoed, or the same symbol for each letter.
fn is_masked(added: &str) -> bool {
    let mut signs = added.chars();
    let Some(first) = signs.next() else { return true };
    !first.is_alphanumeric() && signs.all(|sign| sign == first)
}

#[cfg(test)]
mod tests {
    use super::{InputVisibility, ReportableInput, reportable_input};

    fn told(bytes: &str, before: &str, now: &str) -> ReportableInput {
        let visibility = InputVisibility::OnScreen { before: before.to_owned() };
        reportable_input(bytes.as_bytes(), &visibility, || Some(now.to_owned()))
    }

    fn keys(text: &str) -> ReportableInput {
        ReportableInput::Keys(text.to_owned())
    }

    #[test]
    fn echoed_input_is_logged() {
        assert_eq!(told("yes\r", "Sure? ", "Sure? yes"), keys("yes Enter"));
        assert_eq!(told("y", "Sure? ", "Sure? y"), keys("y"));
        // The last letter has not been echoed yet.
        assert_eq!(told("yes\r", "Sure? ", "Sure? ye"), keys("yes Enter"));
        assert_eq!(told("****\r", "> ", "> ****"), keys("**** Enter"));
        assert_eq!(told("\x1b[A\x1b[B\r", "menu", "other"), keys("Up Down Enter"));
        assert_eq!(reportable_input(b"ls\r", &InputVisibility::Visible, || None), keys("ls Enter"));
    }

    #[test]
    fn input_that_is_not_echoed_is_a_secret() {
        let secret = |prompt: &str| ReportableInput::Secret { prompt: prompt.to_owned() };
        assert_eq!(told("hunter2\r", "Token: ", "Token: "), secret("Token:"));
        assert_eq!(told("hunter2\x15hunter3\r", "Token: ", "Token: "), secret("Token:"));
        assert_eq!(told("hunter2\x15", "Token: ", "Token: "), secret("Token:"));
        assert_eq!(told("hunter2\r", "Token: ", "Token: *******"), secret("Token:"));
        assert_eq!(told("hunter2\r", "Token: ", "Token: •••"), secret("Token:"));
    }

    #[test]
    fn other_input_is_logged_as_a_number_of_keys() {
        assert_eq!(told("hunter2\r", "Token: ", "next line"), keys("8 keys"));
        assert_eq!(told("hunter2\r", "Token: ", "Token: hu*"), keys("8 keys"));
        assert_eq!(told("hunter2\r", "Token: ", "Token: h"), keys("8 keys"));
        assert_eq!(told("hunter2\x7f\r", "Token: ", "Token: hunter"), keys("9 keys"));
        assert_eq!(reportable_input(b"x", &InputVisibility::Unknown, || Some("x".to_owned())), keys("1 key"));
        let screen = InputVisibility::OnScreen { before: String::new() };
        assert_eq!(reportable_input(b"ihello\x1b", &screen, || None), keys("7 keys"));
    }
}
