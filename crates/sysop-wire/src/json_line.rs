//! Messages as single lines of JSON that are safe to print.

use std::fmt::Write;

use serde::Serialize;

/// Writes a message as JSON on one line, without a line end.
///
/// JSON leaves C1 controls, bidirectional and invisible characters unescaped, and a terminal may obey them (`exec
/// --json` prints these lines). Here, they are written as `\u` escapes, which mean the same to a parser.
pub fn to_json_line(message: &impl Serialize) -> String {
    let json = serde_json::to_string(message).expect("messages are plain structs with text keys");
    if json.is_ascii() && !json.contains('\u{7f}') {
        return json;
    }
    let mut line = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        if is_unsafe_to_print(character) {
            // Such characters occur only inside strings, where escapes are allowed.
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(line, "\\u{unit:04x}").expect("writing to a string cannot fail");
            }
        } else {
            line.push(character);
        }
    }
    line
}

/// Returns true for characters that may mislead a terminal or a reader.
fn is_unsafe_to_print(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::to_json_line;

    #[test]
    fn control_characters_are_escaped() {
        let text = "a\u{1b}[31m\u{9b}31m\u{7f}\r\n\u{202e}\u{200b}\u{e0041}ü漢😀";
        let line = to_json_line(&json!({"content": text}));
        assert_eq!(line, r#"{"content":"a\u001b[31m\u009b31m\u007f\r\n\u202e\u200b\udb40\udc41ü漢😀"}"#);
        let back: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(back["content"], text);
    }

    #[test]
    fn plain_text_is_unchanged() {
        assert_eq!(to_json_line(&json!({"a": "b\"c"})), r#"{"a":"b\"c"}"#);
    }
}
