//! Settings of a connection. The connection uses the user's own `ssh` and config, except for options that would disturb
//! an unattended program.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::container::Container;
use crate::environment::Environment;
use crate::settings::HostError;

/// Default timeout for the host's response to a connection attempt.
pub const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(15);
/// Default of `survey_timeout`. Below the limits of a fleet and of a session on a whole survey: a survey that they cut
/// off says nothing about the host, and the call would be judged as if its effect were unknown.
pub const SURVEY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(9);

/// Settings for connecting to one host: its destination, overrides of the user's `ssh` config, and prompts.
#[derive(Clone)]
pub struct SshSettings {
    /// Any destination that `ssh DEST` accepts: an alias, `user@host`, `ssh://user@host:port`. Or a container:
    /// `docker:NAME`, `podman:NAME`, `kube:NAMESPACE/POD`.
    pub destination: String,
    /// User name that overrides the config's.
    pub user: Option<String>,
    /// Port that overrides the config's.
    pub port: Option<u16>,
    /// Config file that replaces `~/.ssh/config`.
    pub config_file: Option<PathBuf>,
    /// Directory for the connection's socket, created with mode 0700. Another directory is used if this one is
    /// unusable because its path is too long or others can enter it.
    pub control_folder: PathBuf,
    /// Program that prompts the user on behalf of ssh (ssh(1), `SSH_ASKPASS`). If neither this nor `askpass_helper` is
    /// set, ssh never prompts.
    pub askpass: Option<PathBuf>,
    /// Additional environment variables for the `askpass` program.
    pub askpass_env: Vec<(String, String)>,
    /// Program whose `main` begins with [`run_as_askpass`](crate::run_as_askpass). If the session has a prompter, ssh
    /// prompts the session's users through this program.
    pub askpass_helper: Option<PathBuf>,
    /// Timeout for the host's response. Time spent in prompts does not count.
    pub connect_timeout: Duration,
    /// Maximum time that a survey waits for the connection. Time spent in prompts does not count. A connection that
    /// takes longer is still opened, for the next call.
    pub survey_timeout: Duration,
}

/// Omits the askpass variables, which may be secret.
impl std::fmt::Debug for SshSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SshSettings")
            .field("destination", &self.destination)
            .field("user", &self.user)
            .field("port", &self.port)
            .field("config_file", &self.config_file)
            .finish_non_exhaustive()
    }
}

impl SshSettings {
    pub fn new(destination: impl Into<String>, control_folder: impl Into<PathBuf>) -> Self {
        Self {
            destination: destination.into(),
            user: None,
            port: None,
            config_file: None,
            control_folder: control_folder.into(),
            askpass: None,
            askpass_env: Vec::new(),
            askpass_helper: None,
            connect_timeout: CONNECT_TIMEOUT_DEFAULT,
            survey_timeout: SURVEY_TIMEOUT_DEFAULT,
        }
    }

    /// Rejects destinations that `ssh` would interpret as options or as several words.
    pub(super) fn check(&self) -> Result<(), HostError> {
        let odd = |text: &str| {
            text.is_empty()
                || text.starts_with('-')
                || text.chars().any(|character| character.is_control() || character.is_whitespace())
        };
        if odd(&self.destination) || self.user.as_deref().is_some_and(odd) {
            let shown = crate::path::shown(&self.destination);
            return Err(HostError::Destination(shown));
        }
        match Container::parse(&self.destination) {
            Some(Err(why)) => {
                Err(HostError::Container { destination: crate::path::shown(&self.destination), why })
            }
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// Returns the container that the destination names, or `None` for an ssh host.
    pub(super) fn container(&self) -> Option<Container> {
        Container::parse(&self.destination).and_then(Result::ok)
    }

    /// Returns the arguments common to every `ssh` of this connection. Callers add the socket and terminal.
    ///
    /// The user's config decides on user, host, keys and jump hosts, and whether an unknown host key may be
    /// confirmed. It does not decide on options that would disturb a program (remote commands, forwards that
    /// another session holds, escape characters, banners), that would lend the user's keys to the model's
    /// programs (agent forwarding), or that would delay the detection of a dead connection.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        self.arguments_saying("ERROR")
    }

    /// Like `arguments`, but with `level` as the log level of ssh's own messages.
    pub(super) fn arguments_saying(&self, level: &str) -> Vec<OsString> {
        let mut line: Vec<OsString> = Vec::new();
        if let Some(file) = &self.config_file {
            line.extend(["-F".into(), file.into()]);
        }
        if let Some(user) = &self.user {
            line.extend(["-l".into(), user.into()]);
        }
        if let Some(port) = self.port {
            line.extend(["-p".into(), port.to_string().into()]);
        }
        let batch = if self.askpass.is_some() { "no" } else { "yes" };
        line.push(format!("-oBatchMode={batch}").into());
        line.push(format!("-oConnectTimeout={}", self.connect_timeout.as_secs().max(1)).into());
        line.push(format!("-oLogLevel={level}").into());
        line.extend(OVERRIDES.map(OsString::from));
        line
    }

    /// Returns the destination, preceded by `--`, which ends the options.
    pub(super) fn target(&self) -> [OsString; 2] {
        ["--".into(), self.destination.clone().into()]
    }

    /// Returns the environment of every `ssh` of this connection.
    pub(super) fn environment(&self) -> Environment {
        let mut environment = Environment::without_keys(std::env::vars_os());
        if let Some(askpass) = &self.askpass {
            environment.set("SSH_ASKPASS", askpass);
            environment.set("SSH_ASKPASS_REQUIRE", "force");
            // Before OpenSSH 8.4, askpass needs this variable.
            if std::env::var_os("DISPLAY").is_none() {
                environment.set("DISPLAY", ":none");
            }
            for (name, value) in &self.askpass_env {
                environment.set(name, value);
            }
        }
        environment
    }
}

/// Options that override the user's config.
const OVERRIDES: [&str; 12] = [
    "-oServerAliveInterval=15",
    "-oServerAliveCountMax=3",
    "-oForwardAgent=no",
    "-oForwardX11=no",
    "-oClearAllForwardings=yes",
    "-oPermitLocalCommand=no",
    "-oTunnel=no",
    "-oRemoteCommand=none",
    "-oEscapeChar=none",
    "-oControlPersist=no",
    "-oVisualHostKey=no",
    "-oUpdateHostKeys=no",
];

/// Returns a path with `%` escaped for ssh.
pub(super) fn literal(path: &Path) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let mut bytes = Vec::new();
    for byte in OsStr::as_bytes(path.as_os_str()) {
        bytes.push(*byte);
        if *byte == b'%' {
            bytes.push(b'%');
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::SshSettings;

    #[test]
    fn a_destination_that_looks_like_an_option_is_rejected() {
        for odd in ["", "-oProxyCommand=evil", "-v", "a b", "a\nb", "a\tb", "\u{1b}x"] {
            let error = SshSettings::new(odd, "/tmp/x").check().unwrap_err().to_string();
            assert!(
                error.contains("invalid ssh destination") && !error.contains(['\n', '\u{1b}']),
                "{error}"
            );
        }
        let mut settings = SshSettings::new("web1", "/tmp/x");
        settings.user = Some("-evil".to_owned());
        assert!(settings.check().is_err());
        for good in ["web1", "a@web1", "ssh://a@web1:2222", "[::1]", "::1", "ü.example"] {
            assert!(SshSettings::new(good, "/tmp/x").check().is_ok(), "{good}");
        }
    }

    #[test]
    fn ssh_never_prompts_without_an_askpass_program() {
        let mut settings = SshSettings::new("web1", "/tmp/x");
        assert!(settings.arguments().contains(&"-oBatchMode=yes".into()));
        settings.askpass = Some("/usr/bin/ask".into());
        settings.askpass_env = vec![("ASK_SOCKET".to_owned(), "/run/s".to_owned())];
        assert!(settings.arguments().contains(&"-oBatchMode=no".into()));
        let environment = settings.environment().pairs();
        for (name, value) in
            [("SSH_ASKPASS", "/usr/bin/ask"), ("SSH_ASKPASS_REQUIRE", "force"), ("ASK_SOCKET", "/run/s")]
        {
            assert!(environment.contains(&(name.into(), value.into())), "{name}");
        }
    }
}
