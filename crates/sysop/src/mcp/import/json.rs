//! JSON with comments and trailing commas, as used in editors' config files.

/// Returns plain JSON: comments become blanks, and commas before a closing bracket are removed.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut signs = text.trim_start_matches('\u{feff}').chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '"' => {
                plain.push('"');
                while let Some(inside) = signs.next() {
                    plain.push(inside);
                    match inside {
                        '\\' => plain.extend(signs.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '/' if signs.peek() == Some(&'/') => {
                let _ = signs.by_ref().find(|sign| *sign == '\n');
                plain.push('\n');
            }
            '/' if signs.peek() == Some(&'*') => {
                signs.next();
                let mut last = ' ';
                for inside in signs.by_ref() {
                    if last == '*' && inside == '/' {
                        break;
                    }
                    last = inside;
                }
                plain.push(' ');
            }
            '}' | ']' => {
                let kept = plain.trim_end().trim_end_matches(',').len();
                plain.truncate(kept);
                plain.push(sign);
            }
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    #[test]
    fn comments_and_trailing_commas_are_removed_outside_of_strings() {
        let text = "\u{feff}{ // one\n \"a\": \"// no, } comment /* \\\" */\", /* two */ \"b\": [1, 2,],\n}";
        let value: serde_json::Value = serde_json::from_str(&super::plain(text)).unwrap();
        assert_eq!(value, serde_json::json!({"a": "// no, } comment /* \" */", "b": [1, 2]}));
    }
}
