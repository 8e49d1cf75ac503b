//! Command line of this program. Users run `sysop desktop`, which starts this program with these arguments.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Result, bail};

const HELP: &str = "\
Desktop window for sysop, started by `sysop desktop`; see `sysop desktop --help`.

Usage: sysop-desktop [--sysop FILE] [--session ID] [-- SERVER_FLAGS...]

  --sysop FILE    Program to run as the server [default: `sysop` next to this one, or on PATH]
  --session ID    Session to show first
  --version       Print the version
";
const SESSION_BYTES_MAX: usize = 128;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CliAction {
    OpenWindow(WindowArguments),
    PrintText(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WindowArguments {
    /// Path of the `sysop` program, which runs the server.
    pub(crate) sysop: PathBuf,
    pub(crate) session: Option<String>,
    pub(crate) server: Vec<OsString>,
}

/// Parses the command line, without the program's name. Fails if an argument is unknown or invalid.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<CliAction> {
    let (mut sysop, mut session, mut server) = (None, None, Vec::new());
    let mut rest = arguments.into_iter();
    while let Some(argument) = rest.next() {
        let text = argument.to_str().unwrap_or_default();
        match text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value.to_owned()))) {
            ("--help" | "-h", None) => return Ok(CliAction::PrintText(HELP.to_owned())),
            ("--version" | "-V", None) => {
                return Ok(CliAction::PrintText(
                    concat!("sysop-desktop ", env!("CARGO_PKG_VERSION"), "\n").to_owned(),
                ));
            }
            ("--sysop", None) => sysop = rest.next().map(PathBuf::from),
            ("--session", value) => {
                let value = value.or_else(|| rest.next()?.into_string().ok());
                session = Some(value.filter(|id| is_valid_session_id(id)).ok_or_else(|| {
                    anyhow::anyhow!("invalid session id for `--session`; see `sysop sessions list`")
                })?);
            }
            ("--", None) => server = rest.by_ref().collect(),
            _ => bail!("unknown flag {:?}; see `sysop-desktop --help`", argument.to_string_lossy()),
        }
    }
    let sysop = sysop.unwrap_or_else(default_sysop_path);
    Ok(CliAction::OpenWindow(WindowArguments { sysop, session, server }))
}

/// Returns true if the text is valid as a session id, which becomes part of a URL.
pub(crate) fn is_valid_session_id(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !text.is_empty() && text.len() <= SESSION_BYTES_MAX && text.bytes().all(plain)
}

/// Returns the `sysop` next to this program, or else the one on the PATH.
fn default_sysop_path() -> PathBuf {
    let default_sysop_path = std::env::current_exe().map(|own| own.with_file_name("sysop"));
    default_sysop_path.ok().filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from("sysop"))
}

#[cfg(test)]
mod tests {
    use super::{CliAction, WindowArguments, parse};

    fn of(line: &str) -> Option<CliAction> {
        parse(line.split_whitespace().map(Into::into)).ok()
    }

    #[test]
    fn arguments_from_sysop_are_parsed() {
        let wanted = WindowArguments {
            sysop: "/bin/sysop".into(),
            session: Some("0198-a".to_owned()),
            server: vec!["--model=demo".into(), "--session=x".into()],
        };
        let line = "--sysop /bin/sysop --session=0198-a -- --model=demo --session=x";
        assert_eq!(of(line), Some(CliAction::OpenWindow(wanted)));
    }

    #[test]
    fn unknown_arguments_are_rejected() {
        for line in
            ["--devtools", "file:///etc/passwd", "--session", "--session=a/b", "--session a#b", "--sysop=x"]
        {
            assert_eq!(of(line), None, "{line}");
        }
    }
}
