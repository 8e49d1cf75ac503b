//! Messages on standard error, with control sequences made visible.

use std::io::Write;

pub(crate) fn error(text: &str) {
    print(&format!("sysop-desktop: {text}"));
}

pub(crate) fn note(text: &str) {
    print(&format!("sysop-desktop: note: {text}"));
}

/// Prints a line without a prefix.
pub(crate) fn print(text: &str) {
    // A failure here cannot be reported anywhere.
    let _ = writeln!(std::io::stderr().lock(), "{}", sanitize(text));
}

/// Returns the text without characters that a terminal, a title or a notification could interpret.
pub(crate) fn sanitize(text: &str) -> String {
    let odd = |character: char| {
        character.is_control()
            || matches!(character,
                '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
                | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
    };
    text.chars().map(|character| if odd(character) { '\u{fffd}' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::sanitize;

    #[test]
    fn control_sequences_and_invisible_characters_are_escaped() {
        assert_eq!(sanitize("a\u{1b}[2Jb\u{202e}c\u{200b}ü"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}ü");
    }
}
