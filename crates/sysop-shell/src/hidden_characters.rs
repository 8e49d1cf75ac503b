//! Characters that nobody sees and that can disguise a command.
//!
//! A joiner between two emoji, as in the emoji of a programmer, disguises nothing: both sides are pictures.

/// Maximum number of hidden characters that a finding names.
const HIDDEN_NAMED_MAX: usize = 8;
/// Zero-width joiner, which makes one emoji of several.
const JOINER: char = '\u{200d}';
/// Selects the colored form of the character before it.
const EMOJI_SELECTOR: char = '\u{fe0f}';

/// Returns the hidden characters of a command, each with its position in bytes.
pub(crate) fn find(command: &str) -> Vec<(usize, char)> {
    if !command.chars().any(is_hidden) {
        return Vec::new();
    }
    let signs: Vec<(usize, char)> = command.char_indices().collect();
    let plain: Vec<char> = signs.iter().map(|(_, sign)| *sign).collect();
    let hidden = signs.iter().enumerate();
    let hidden = hidden.filter(|(at, (_, sign))| is_hidden(*sign) && !is_in_joined_emoji(&plain, *at));
    hidden.map(|(_, found)| *found).collect()
}

/// Returns true for a joiner between two emoji, and for the selector of an emoji that such a joiner joins.
fn is_in_joined_emoji(signs: &[char], at: usize) -> bool {
    match signs[at] {
        JOINER => joins(signs, at),
        EMOJI_SELECTOR => {
            let is_joined =
                joins(signs, at + 1) || at.checked_sub(2).is_some_and(|before| joins(signs, before));
            is_joined && at.checked_sub(1).is_some_and(|before| is_pictograph(signs[before]))
        }
        _ => false,
    }
}

/// Returns true if there is a joiner at this index, between two pictographs. The first one may have a selector or a
/// skin tone.
fn joins(signs: &[char], at: usize) -> bool {
    let is_pictograph_at = |at: usize| signs.get(at).is_some_and(|sign| is_pictograph(*sign));
    let modified = matches!(
        at.checked_sub(1).map(|before| signs[before]),
        Some(EMOJI_SELECTOR | '\u{1f3fb}'..='\u{1f3ff}')
    );
    let first = at.checked_sub(if modified { 2 } else { 1 });
    signs.get(at) == Some(&JOINER) && is_pictograph_at(at + 1) && first.is_some_and(is_pictograph_at)
}

/// Returns true for the pictographs (`Extended_Pictographic`) of which joined emoji are made.
fn is_pictograph(sign: char) -> bool {
    match sign {
        '\u{1f3fb}'..='\u{1f3ff}' => false,
        '\u{1f300}'..='\u{1f64f}' | '\u{1f680}'..='\u{1f6ff}' | '\u{1f90c}'..='\u{1faff}' => true,
        '\u{2194}' | '\u{2195}' | '\u{2620}' | '\u{2640}' | '\u{2642}' | '\u{2695}' | '\u{2696}'
        | '\u{26a7}' => true,
        '\u{26d3}' | '\u{2708}' | '\u{2764}' | '\u{27a1}' | '\u{2b1b}' => true,
        _ => false,
    }
}

/// Returns an escape for a character that cannot be seen: `\x1b`, or `\u{200d}` above U+00FF.
fn visible(hidden: char) -> String {
    match u32::from(hidden) {
        code @ 0..0x100 => format!("\\x{code:02x}"),
        code => format!("\\u{{{code:x}}}"),
    }
}

/// Returns a phrase that names the hidden characters of a command, each once.
pub(crate) fn describe(command: &str) -> String {
    let mut names: Vec<String> = Vec::new();
    for name in find(command).into_iter().map(|(_, hidden)| visible(hidden)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let rest = names.split_off(names.len().min(HIDDEN_NAMED_MAX)).len();
    let noun = if names.len() == 1 { "character" } else { "characters" };
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    format!("contains the control or invisible {noun} {}{more}", names.join(", "))
}

/// Returns true for characters that can disguise a command: control, direction and zero-width characters.
fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}' => {
            true
        }
        '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' => true,
        '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' => true,
        '\u{e0000}'..='\u{e0fff}' => true,
        other => other.is_control() || (other.is_whitespace() && other != ' '),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_joiner_between_two_emoji_hides_nothing() {
        for joined in [
            "echo \u{1f469}\u{200d}\u{1f4bb}",
            "echo \u{1f468}\u{1f3fd}\u{200d}\u{1f469}\u{200d}\u{1f467}",
            "echo \u{1f3f3}\u{fe0f}\u{200d}\u{1f308}",
            "echo \u{1f3c3}\u{200d}\u{2640}\u{fe0f}",
        ] {
            assert_eq!(find(joined), [], "{joined:?}");
        }
    }

    #[test]
    fn any_other_joiner_or_selector_is_hidden() {
        for (command, hidden) in [
            ("r\u{200d}m", 1),
            ("\u{1f469}\u{200d}", 1),
            ("\u{200d}\u{1f469}", 1),
            ("\u{1f469}\u{200d}m", 1),
            ("m\u{200d}\u{1f469}", 1),
            ("\u{1f469}\u{200d}\u{200d}\u{1f4bb}", 2),
            ("m\u{1f3fd}\u{200d}\u{1f4bb}", 1),
            ("m\u{fe0f}\u{200d}\u{1f4bb}", 2),
            ("\u{1f469}\u{fe0f}", 1),
            ("\u{1f469}\u{1f3fd}\u{fe0f}\u{200d}\u{1f4bb}", 2),
            ("\u{1f469}\u{200d}\u{1f3fd}", 1),
            ("\u{1f469}\u{200b}\u{1f4bb}", 1),
        ] {
            assert_eq!(find(command).len(), hidden, "{command:?}");
        }
    }
}
