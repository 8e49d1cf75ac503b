//! What is sent to the far machine: scripts for POSIX `sh`, in a form that every login shell passes on as it is.
//!
//! The login shell parses what ssh sends. It may be bash, zsh, fish, dash, ash, csh or tcsh, and they agree on
//! little: a word in single quotes that holds no quote, no backslash, no `!` and no control character. What is
//! not of that kind goes through standard input, which no shell parses but ours.

use std::fmt::Write;

/// The longest command line that is sent as such; a word of csh's has no room for much more.
const LINE_BYTES_MAX: usize = 2_000;

/// Lets the shell read its script from standard input, to the end.
const READ_ALL: &str = r#"eval "$(cat)""#;

/// Lets the shell read its script from standard input up to a line, and leaves the rest for the script. Only
/// `read` takes no byte too many from a pipe. The line break is made without one in the text.
const READ_SOME: &str = r#"s=; b=$(printf "\012."); b=${b%.}; while IFS= read -r l; do case $l in "$1") break;; esac; s="$s$l$b"; done; eval "$s""#;

/// A script with its arguments.
#[derive(Debug)]
pub(super) struct Script {
    /// One line of text that a shell in single quotes leaves alone, or many lines of anything.
    pub(super) text: String,
    pub(super) arguments: Vec<String>,
    /// For the standard input of the script; none for `/dev/null`.
    pub(super) input: Option<Vec<u8>>,
}

/// What ssh is given.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) line: String,
    pub(super) input: Option<Vec<u8>>,
}

impl Script {
    /// Without input.
    pub(super) fn new(text: &str, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Self { text: text.to_owned(), arguments, input: None }
    }

    /// Chooses the form. `border` must not be a line of the script.
    pub(super) fn send(self, border: &str) -> Sent {
        let Self { text, arguments, input } = self;
        let whole: usize = text.len() + arguments.iter().map(|argument| argument.len() + 3).sum::<usize>();
        let plain = is_plain(&text) && arguments.iter().all(|argument| is_plain(argument));
        if plain && whole < LINE_BYTES_MAX {
            let mut line = format!("exec sh -c '{text}' sh");
            for argument in &arguments {
                write!(line, " '{argument}'").expect("a string takes all");
            }
            return Sent { line, input };
        }
        let mut script = String::with_capacity(whole + 64);
        script.push_str("set --");
        for argument in &arguments {
            script.push(' ');
            script.push_str(&quoted(argument));
        }
        script.push('\n');
        script.push_str(&text);
        script.push('\n');
        match input {
            None => Sent { line: format!("exec sh -c '{READ_ALL}'"), input: Some(script.into_bytes()) },
            Some(input) => {
                script.push_str(border);
                script.push('\n');
                let mut bytes = script.into_bytes();
                bytes.extend(input);
                Sent { line: format!("exec sh -c '{READ_SOME}' sh '{border}'"), input: Some(bytes) }
            }
        }
    }
}

/// A word for `sh`.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Whether every shell leaves it alone in single quotes. A backslash before a digit is left alone too.
fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().all(|(index, byte)| match byte {
        b'\'' | b'!' => false,
        b'\\' => bytes.get(index + 1).is_some_and(u8::is_ascii_digit),
        byte => (b' '..=b'~').contains(byte),
    })
}

#[cfg(test)]
mod tests {
    use super::{READ_ALL, READ_SOME, Script, is_plain, quoted};

    fn script(argument: &str, input: Option<&[u8]>) -> Script {
        Script {
            text: "echo \"$1\"".to_owned(),
            arguments: vec![argument.to_owned()],
            input: input.map(<[u8]>::to_vec),
        }
    }

    #[test]
    fn what_all_shells_understand_is_sent_as_it_is() {
        let sent = script("ls -la \"$HOME\" | wc -l", None).send("X");
        assert_eq!(sent.line, "exec sh -c 'echo \"$1\"' sh 'ls -la \"$HOME\" | wc -l'");
        assert_eq!(sent.input, None);
        assert!(is_plain(READ_ALL) && is_plain(READ_SOME));
    }

    #[test]
    fn what_a_shell_may_read_otherwise_goes_through_standard_input() {
        let long = "x".repeat(3_000);
        for odd in ["it's", "a\nb", "hi!", "a\\b", "ü", "\t", long.as_str()] {
            let sent = script(odd, None).send("X");
            assert_eq!(sent.line, "exec sh -c 'eval \"$(cat)\"'", "{odd:?}");
            let expected = format!("set -- {}\necho \"$1\"\n", quoted(odd));
            assert_eq!(String::from_utf8(sent.input.unwrap()).unwrap(), expected);
        }
    }

    #[test]
    fn input_follows_a_border() {
        let sent = script("a'b", Some(b"\0data\n")).send("border");
        assert!(sent.line.ends_with("' sh 'border'"), "{}", sent.line);
        assert_eq!(sent.input.unwrap(), b"set -- 'a'\\''b'\necho \"$1\"\nborder\n\0data\n");
    }
}
