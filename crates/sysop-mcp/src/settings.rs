//! Settings of one MCP server, as plain values. The binary reads them from the config and the environment.

use std::fmt;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use sysop_host::PipedCommand;
use url::Url;

const NAME_BYTES_MAX: usize = 32;
pub const CALL_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);
pub const STARTUP_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// Default startup timeout for a server whose command may have to download it first.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Programs that download what they run.
const DOWNLOADERS: [&str; 7] = ["npx", "uvx", "bunx", "pipx", "docker", "podman", "uv"];

/// Name of a server. Tool names have the form `mcp__SERVER__TOOL`, so a server's name contains no `__` and
/// does not begin or end with `_`; each tool name then belongs to only one server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerName(String);

impl ServerName {
    /// Parses a name. Fails with one sentence if the name has an invalid form.
    pub fn parse(name: &str) -> Result<Self, String> {
        let valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let is_valid = (1..=NAME_BYTES_MAX).contains(&name.len())
            && name.bytes().all(valid)
            && !name.contains("__")
            && !name.starts_with('_')
            && !name.ends_with('_');
        match is_valid {
            true => Ok(Self(name.to_owned())),
            false => Err(format!(
                "invalid server name {name:?}; use 1 to {NAME_BYTES_MAX} letters, digits, `-` and single `_` inside"
            )),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if the two names differ at most in `-` and `_`, which users confuse.
    pub fn resembles(&self, other: &Self) -> bool {
        self.0.replace('-', "_").eq_ignore_ascii_case(&other.0.replace('-', "_"))
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Extent to which a server's tools run without the user's approval (`approve` in `[mcp.NAME]`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ServerApproval {
    /// Ask about every call.
    #[default]
    Ask,
    /// Run calls to tools that the server marks as read-only; ask about every other call.
    Reads,
    /// Offer none of the server's tools.
    Never,
}

impl ServerApproval {
    /// Names in the config, from loosest to strictest.
    pub const NAMES: &'static [&'static str] = &["reads", "ask", "never"];

    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "ask" => Some(Self::Ask),
            "reads" => Some(Self::Reads),
            "never" => Some(Self::Never),
            _ => None,
        }
    }
}

#[derive(Debug, Clone)]
pub struct ServerSettings {
    pub name: ServerName,
    pub transport: ServerTransport,
    /// Globs for tool names; only matching tools are offered. Empty for all tools.
    pub tools: Vec<String>,
    /// Globs for tool names; matching tools are not offered.
    pub exclude_tools: Vec<String>,
    pub approve: ServerApproval,
    /// Maximum duration of a call without progress, not counting time in which the user answers questions.
    pub call_timeout: Duration,
    /// Maximum time for the server to start and list its tools.
    pub startup_timeout: Duration,
}

/// Transport for reaching a server: the pipes of a child process, or HTTP.
#[derive(Debug, Clone)]
pub enum ServerTransport {
    /// A program on this machine, with its complete environment.
    Stdio(PipedCommand),
    Http {
        url: Url,
        headers: Vec<(String, SecretString)>,
    },
}

impl ServerTransport {
    /// Returns the values of the headers, and those of the form `Bearer TOKEN` also without their scheme. A server can
    /// repeat them in its answers.
    pub fn header_secrets(&self) -> Vec<SecretString> {
        let Self::Http { headers, .. } = self else { return Vec::new() };
        let values = headers.iter().map(|(_, value)| value.expose_secret());
        let values =
            values.flat_map(|value| [Some(value), value.split_once(' ').map(|(_, rest)| rest.trim())]);
        values.flatten().map(SecretString::from).collect()
    }
}

/// Returns the default startup timeout for a server run by `program`.
pub fn startup_timeout(program: &str) -> Duration {
    let name = program.rsplit('/').next().unwrap_or(program);
    if DOWNLOADERS.contains(&name) { DOWNLOAD_TIMEOUT } else { STARTUP_TIMEOUT_DEFAULT }
}

#[cfg(test)]
mod tests {
    use super::ServerName;

    #[test]
    fn only_unambiguous_server_names_are_accepted() {
        for name in ["grafana", "a-b", "a_b", "7"] {
            assert_eq!(ServerName::parse(name).expect(name).as_str(), name);
        }
        for name in ["", "a__b", "_a", "a_", "a.b", "ä", &"x".repeat(33)] {
            assert!(ServerName::parse(name).is_err(), "{name:?}");
        }
        let name = |text| ServerName::parse(text).expect("a name");
        assert!(name("a-b").resembles(&name("A_b")) && !name("ab").resembles(&name("a-b")));
    }
}
