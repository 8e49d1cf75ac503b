//! Encodes scripts for POSIX `sh` so that every login shell passes them on unchanged.
//!
//! The login shell parses the command line that ssh sends. It may be bash, zsh, fish, dash, ash, csh or tcsh. All of
//! them agree only on a word in single quotes that contains no quotes, backslashes, `!` or control characters. Anything
//! else goes through standard input, which is parsed only by the `sh` that sysop starts.
//!
//! The nonce of the marks always goes through standard input, because a command line can be read by every program that
//! the script runs, and by every user who can list processes on the host.

use std::fmt::Write;

use sysop_core::policy::single_quoted;
use tokio::net::tcp::OwnedReadHalf;

/// Maximum bytes of a script that is sent in the command line. Words in csh cannot be much longer.
const LINE_BYTES_MAX: usize = 2_000;

/// Reads the nonce of the marks into `$n`, where programs cannot see it. If there is no nonce, nothing runs. `read` is
/// used because only `read` never consumes too many bytes of a pipe. `unset` is needed because a variable that was
/// exported at login would stay exported.
const READ_NONCE: &str = "unset n l; set +a; IFS= read -r n || exit; ";

/// Makes the shell read its script from standard input to the end.
const READ_ALL: &str = r#"eval "$(cat)""#;

/// Makes the shell read its script from standard input up to a line with the nonce, and leaves the remaining input for
/// the script. The text contains no line break, but produces one with `printf`.
const READ_SOME: &str = r#"s=; b=$(printf "\012."); b=${b%.}; while IFS= read -r l; do case $l in "$n") break;; esac; s="$s$l$b"; done; unset l; eval "$s""#;

#[derive(Debug)]
pub(super) enum ScriptInput {
    Bytes(Vec<u8>),
    /// A stream that is copied to its end.
    Stream(OwnedReadHalf),
}

impl ScriptInput {
    /// Returns the bytes that are known now, and the stream of the bytes that follow.
    fn split(self) -> (Vec<u8>, Option<OwnedReadHalf>) {
        match self {
            Self::Bytes(bytes) => (bytes, None),
            Self::Stream(stream) => (Vec::new(), Some(stream)),
        }
    }
}

#[derive(Debug)]
pub(super) struct RemoteScript {
    /// Text of the script. A single line that every shell leaves unchanged in single quotes can be sent in the command
    /// line; any other text is sent on standard input.
    pub(super) text: String,
    pub(super) arguments: Vec<String>,
    /// Standard input of the script; `None` for `/dev/null`.
    pub(super) input: Option<ScriptInput>,
}

/// Command line and input for ssh.
#[derive(Debug)]
pub(super) struct EncodedScript {
    pub(super) line: String,
    pub(super) input: Vec<u8>,
    /// Stream that is sent to its end, after `input`.
    pub(super) stream: Option<OwnedReadHalf>,
}

impl RemoteScript {
    pub(super) fn new(text: &str, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Self { text: text.to_owned(), arguments, input: None }
    }

    /// Returns the script as one command line that does not use standard input. Returns `None` if some shell would not
    /// pass the script on unchanged.
    pub(super) fn line(&self) -> Option<String> {
        self.line_after("")
    }

    fn line_after(&self, before: &str) -> Option<String> {
        let Self { text, arguments, .. } = self;
        let plain = is_plain(text) && arguments.iter().all(|argument| is_plain(argument));
        if !plain || self.bytes() >= LINE_BYTES_MAX {
            return None;
        }
        let mut line = format!("exec sh -c '{before}{text}' sh");
        for argument in arguments {
            write!(line, " '{argument}'").expect("writing to a string cannot fail");
        }
        Some(line)
    }

    fn bytes(&self) -> usize {
        self.text.len() + self.arguments.iter().map(|argument| argument.len() + 3).sum::<usize>()
    }

    /// Encodes the script. The script finds `nonce` in `$n`, where the programs that it runs cannot see it.
    pub(super) fn encode(self, nonce: &str) -> EncodedScript {
        let mut bytes = format!("{nonce}\n").into_bytes();
        if let Some(line) = self.line_after(READ_NONCE) {
            let (more, stream) = self.input.map(ScriptInput::split).unwrap_or_default();
            bytes.extend(more);
            return EncodedScript { line, input: bytes, stream };
        }
        let mut script = String::with_capacity(self.bytes() + 64);
        script.push_str("set --");
        for argument in &self.arguments {
            script.push(' ');
            script.push_str(&single_quoted(argument));
        }
        script.push('\n');
        script.push_str(&self.text);
        script.push('\n');
        bytes.extend(script.into_bytes());
        let (read, stream) = match self.input.map(ScriptInput::split) {
            None => (READ_ALL, None),
            Some((more, stream)) => {
                bytes.extend(format!("{nonce}\n").into_bytes());
                bytes.extend(more);
                (READ_SOME, stream)
            }
        };
        EncodedScript { line: format!("exec sh -c '{READ_NONCE}{read}'"), input: bytes, stream }
    }
}

/// Returns true if every shell leaves the text unchanged in single quotes. A backslash before a digit is also safe.
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
    use super::{READ_ALL, READ_NONCE, READ_SOME, RemoteScript, ScriptInput, is_plain};
    use sysop_core::policy::single_quoted;

    fn script(argument: &str, input: Option<&[u8]>) -> RemoteScript {
        RemoteScript {
            text: "echo \"$1\"".to_owned(),
            arguments: vec![argument.to_owned()],
            input: input.map(|bytes| ScriptInput::Bytes(bytes.to_vec())),
        }
    }

    #[test]
    fn portable_scripts_are_sent_as_an_argument() {
        let plain = script("ls -la \"$HOME\" | wc -l", None);
        let rest = "echo \"$1\"' sh 'ls -la \"$HOME\" | wc -l'";
        assert_eq!(plain.line(), Some(format!("exec sh -c '{rest}")));
        let sent = plain.encode("X");
        assert_eq!(sent.line, format!("exec sh -c '{READ_NONCE}{rest}"));
        assert_eq!(sent.input, b"X\n");
        assert_eq!(script("a", Some(b"\0data\n")).encode("X").input, b"X\n\0data\n");
        assert!(is_plain(READ_NONCE) && is_plain(READ_ALL) && is_plain(READ_SOME));
    }

    #[test]
    fn other_scripts_are_sent_on_standard_input() {
        let long = "x".repeat(3_000);
        for odd in ["it's", "a\nb", "hi!", "a\\b", "ü", "\t", long.as_str()] {
            assert_eq!(script(odd, None).line(), None, "{odd:?}");
            let sent = script(odd, None).encode("X");
            assert_eq!(sent.line, format!("exec sh -c '{READ_NONCE}eval \"$(cat)\"'"), "{odd:?}");
            let expected = format!("X\nset -- {}\necho \"$1\"\n", single_quoted(odd));
            assert_eq!(String::from_utf8(sent.input).unwrap(), expected);
        }
    }

    #[test]
    fn input_follows_a_separator() {
        let sent = script("a'b", Some(b"\0data\n")).encode("nonce");
        assert!(!sent.line.contains("nonce"), "{}", sent.line);
        assert_eq!(sent.input, b"nonce\nset -- 'a'\\''b'\necho \"$1\"\nnonce\n\0data\n");
    }
}
