//! What of a person's typing may be told: what the terminal has shown, and nothing else. Pure.
//!
//! Only this machine's kernel says whether it shows what is typed. Behind `ssh`, and where a program reads keys
//! one by one, the screen has to prove it: a reader of secrets shows nothing there, or stars.

use super::keys::{self, Piece};

/// How what is typed now comes to be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sight {
    /// The shell is at its prompt, or the terminal shows it.
    Shown,
    /// A prompt for a secret is open.
    Hidden { prompt: String },
    /// What was shown of it is found on the screen; this was left of the cursor before.
    Screen { before: String },
    /// Nobody can find it there.
    Unseen,
}

/// What may be told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tellable {
    /// Text and keys.
    Keys(String),
    /// That a secret was typed.
    Secret { prompt: String },
}

/// What may be told of typed bytes; `line` is what is left of the cursor now, none where that says nothing.
pub(super) fn tellable(bytes: &[u8], sight: &Sight, line: impl FnOnce() -> Option<String>) -> Tellable {
    let named = || Tellable::Keys(keys::names(bytes));
    let pieces = keys::pieces(bytes);
    if *sight == Sight::Shown || pieces.iter().all(|piece| matches!(piece, Piece::Key(_))) {
        return named();
    }
    let count =
        || Tellable::Keys(format!("{} {}", pieces.len(), if pieces.len() == 1 { "key" } else { "keys" }));
    let before = match sight {
        Sight::Hidden { prompt } => return Tellable::Secret { prompt: prompt.clone() },
        Sight::Screen { before } => before,
        Sight::Shown | Sight::Unseen => return count(),
    };
    let Some(added) = line().and_then(|line| line.strip_prefix(before.as_str()).map(str::to_owned)) else {
        return count();
    };
    let text = match pieces.as_slice() {
        [text @ .., Piece::Key(_)] | text => text,
    };
    // What was typed and taken away again is nowhere to be seen.
    let letters: Option<String> = text.iter().map(Piece::letter).collect();
    if is_masked(&added) && letters.as_ref() != Some(&added) {
        return Tellable::Secret { prompt: before.trim().to_owned() };
    }
    // The last letters may be on their way.
    let shown = letters.is_some_and(|letters| {
        letters.starts_with(&added) && 2 * added.chars().count() >= letters.chars().count()
    });
    if shown { named() } else { count() }
}

/// Whether nothing of what was typed is shown, or the same sign for each letter.
fn is_masked(added: &str) -> bool {
    let mut signs = added.chars();
    let Some(first) = signs.next() else { return true };
    !first.is_alphanumeric() && signs.all(|sign| sign == first)
}

#[cfg(test)]
mod tests {
    use super::{Sight, Tellable, tellable};

    fn told(bytes: &str, before: &str, now: &str) -> Tellable {
        let sight = Sight::Screen { before: before.to_owned() };
        tellable(bytes.as_bytes(), &sight, || Some(now.to_owned()))
    }

    fn keys(text: &str) -> Tellable {
        Tellable::Keys(text.to_owned())
    }

    #[test]
    fn what_the_screen_shows_is_told() {
        assert_eq!(told("yes\r", "Sure? ", "Sure? yes"), keys("yes Enter"));
        assert_eq!(told("y", "Sure? ", "Sure? y"), keys("y"));
        // Its last letter is on its way.
        assert_eq!(told("yes\r", "Sure? ", "Sure? ye"), keys("yes Enter"));
        assert_eq!(told("****\r", "> ", "> ****"), keys("**** Enter"));
        assert_eq!(told("\x1b[A\x1b[B\r", "menu", "other"), keys("Up Down Enter"));
        assert_eq!(tellable(b"ls\r", &Sight::Shown, || None), keys("ls Enter"));
    }

    #[test]
    fn what_it_does_not_show_is_a_secret() {
        let secret = |prompt: &str| Tellable::Secret { prompt: prompt.to_owned() };
        assert_eq!(told("hunter2\r", "Token: ", "Token: "), secret("Token:"));
        assert_eq!(told("hunter2\x15hunter3\r", "Token: ", "Token: "), secret("Token:"));
        assert_eq!(told("hunter2\x15", "Token: ", "Token: "), secret("Token:"));
        assert_eq!(told("hunter2\r", "Token: ", "Token: *******"), secret("Token:"));
        assert_eq!(told("hunter2\r", "Token: ", "Token: •••"), secret("Token:"));
    }

    #[test]
    fn of_everything_else_the_number_of_keys_is_told() {
        assert_eq!(told("hunter2\r", "Token: ", "next line"), keys("8 keys"));
        assert_eq!(told("hunter2\r", "Token: ", "Token: hu*"), keys("8 keys"));
        assert_eq!(told("hunter2\r", "Token: ", "Token: h"), keys("8 keys"));
        assert_eq!(told("hunter2\x7f\r", "Token: ", "Token: hunter"), keys("9 keys"));
        assert_eq!(tellable(b"x", &Sight::Unseen, || Some("x".to_owned())), keys("1 key"));
        let screen = Sight::Screen { before: String::new() };
        assert_eq!(tellable(b"ihello\x1b", &screen, || None), keys("7 keys"));
    }
}
